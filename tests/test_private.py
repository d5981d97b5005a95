"""Tests of the undocumented names of numba that the package uses (`records.private`)."""

import ast
import json
import os
import re
from pathlib import Path

import numba
import numpy as np
import pytest
from broken_numba import results
from common import run
from llvmlite import ir
from numba.core import codegen, config, imputils

from river_mondrian.records import numba_fields, pipelines, private

pytestmark = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")

SCRIPT = Path(__file__).with_name("broken_numba.py")
PACKAGE = Path(private.__file__).parents[1]

# The names in the lists of the module's docstring.
REQUIRED, IN_PASSES, IN_CACHE = (
    [
        name
        for item in re.findall(r"^- (.+?):", part, re.M | re.S)
        for name in re.findall("`(.+?)`", item)
    ]
    for part in re.split(r"^Names .*", private.__doc__, flags=re.M)[1:]
)
PASSES = [*private.PASSES_BEFORE_LOWERING, private.LAST_PASS]
OPTIONAL = sorted({*PASSES, *IN_PASSES, *IN_CACHE})

# Modules of numba, and names in these modules, that numba's documentation of extending and caching
# mentions.
DOCUMENTED = {
    "numba": {"config", "njit", "typeof", "types", "__version__"},
    "numba.core": {"cgutils", "compiler", "compiler_machinery", "config", "ir", "untyped_passes"},
    "numba.core.typing": {"signature"},
    "numba.core.registry": {"cpu_target"},
}
# Names of objects whose attributes are not numba's.
OWN = {"self", "cls", "private", "json", "marshal"}


def trees_of():
    return {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def test_undocumented_names_are_used_in_one_module_only():
    """Names are recognized if they are imported, listed, or begin with an underscore."""
    listed = {name.rpartition(".")[2] for name in [*OPTIONAL, *REQUIRED]}
    # These names also belong to the package, to Python's C API, or to numba's documentation.
    listed -= {"env", "library", "refresh", "codegen", "decref", "IRProcessing"}
    found = []
    for path, tree in trees_of().items():
        if path == Path(private.__file__):
            continue
        uses_numba = "from numba" in path.read_text() or "import numba" in path.read_text()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and not node.level:
                if node.module.partition(".")[0] != "numba":
                    continue
                known = DOCUMENTED.get(node.module, set())
                names = [] if node.module == "numba.extending" else [a.name for a in node.names]
                found += [(path.name, name) for name in names if name not in known]
            elif isinstance(node, ast.Import):
                names = [a.name for a in node.names if a.name.startswith("numba.")]
                found += [(path.name, name) for name in names]
            elif isinstance(node, ast.Attribute) and uses_numba:
                of = getattr(node.value, "id", "")
                is_private = node.attr.startswith("_") and not node.attr.startswith("__")
                if of not in OWN and (node.attr in listed or is_private):
                    found.append((path.name, node.attr))
    assert found == []


def test_all_names_that_are_looked_up_are_listed():
    calls = [
        node.args[0].value
        for node in ast.walk(ast.parse(Path(private.__file__).read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "look_up"
        and isinstance(node.args[0], ast.Constant)
    ]
    # Methods that are overridden.
    others = {"_optimize_functions", "_optimize_final_module", "_finalize_final_module"}
    others |= {"lower", "incref", "decref", "alloca_lltype"}
    assert {*calls, *others, *PASSES} == {*OPTIONAL}
    assert 0 < len(REQUIRED) <= 10


def in_process(folder, how, model, names):
    """Return the results and the log of a process in which names are broken."""
    paths = os.pathsep.join([str(PACKAGE.parent), str(SCRIPT.parent)])
    environ = {"PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(folder)}
    found, told = run(str(SCRIPT), how, model, *names, **environ)
    return json.loads(found), told


SMALL = "RandomFourierFeatures"
KINDS = ["MondrianForestClassifier", "AdaptiveMondrianForestClassifier", "MondrianForestRegressor"]
KINDS += ["AdaptiveMondrianForestRegressor", "DensityForest", "NearestNeighborDetector", SMALL]
CHANGED = "differs from the versions that this package knows"


@pytest.fixture(scope="module")
def usual():
    """Return a function that returns the results of a model with all names, in this process."""
    known = {}

    def of(name):
        if name not in known:
            known[name] = results(name)
        return known[name]

    return of


@pytest.mark.parametrize("how", ["missing", "raise"])
def test_without_all_names_results_are_the_same(tmp_path, usual, how):
    found, told = in_process(tmp_path, how, SMALL, OPTIONAL)
    np.testing.assert_allclose(found, usual(SMALL), rtol=1e-9)
    assert told.count("\n") == 1 and CHANGED in told
    assert not list(tmp_path.rglob("*.nbc"))


@pytest.mark.covering
@pytest.mark.parametrize("how", ["missing", "raise"])
@pytest.mark.parametrize("name", ["_reduce", "_rebuild"])
def test_without_a_name_of_the_cache_every_process_compiles(tmp_path, usual, how, name):
    if name == "_rebuild":
        in_process(tmp_path, how, SMALL, [])
    stored = sorted(tmp_path.rglob("*.nbc"))
    found, told = in_process(tmp_path, how, SMALL, [name])
    np.testing.assert_allclose(found, usual(SMALL), rtol=1e-9)
    assert told.count(CHANGED) == 1
    # Code is not stored without the first name, and it is not read without the second name.
    assert sorted(tmp_path.rglob("*.nbc")) == stored


@pytest.mark.skipif(not os.environ.get("TEST_NAMES"), reason="compiles each kind for each name")
@pytest.mark.parametrize("model", KINDS)
@pytest.mark.parametrize("name", OPTIONAL)
def test_without_one_name_results_are_the_same(tmp_path, usual, name, model):
    found, told = in_process(tmp_path, "missing", model, [name])
    np.testing.assert_allclose(found, usual(model), rtol=1e-9)
    # Numba's C functions usually exist already, so the name `refresh` may remain unused.
    assert told.count(CHANGED) == 1 or name == "refresh"


def test_a_wrong_result_of_the_trial_is_noticed(monkeypatch):
    wrong = pipelines.Trial()
    monkeypatch.setattr(numba_fields, "call_function", lambda *args: ir.DoubleType()(1.0))
    monkeypatch.setattr(private, "give_up", lambda *args: None)
    assert not wrong.has_passed()
    monkeypatch.undo()
    assert pipelines.Trial().has_passed()


def test_helpers_have_no_machine_code():
    helper = numba.njit(pipeline_class=pipelines.HelperCompiler, no_cpython_wrapper=True)(
        lambda x: x / 2.0
    )

    @numba.njit
    def call(x):
        return helper(x) + 1.0

    assert call(3.0) == 2.5
    ((_, compiled),) = helper.overloads.items()
    assert type(compiled.library) is not codegen.JITCodeLibrary


def test_code_that_calls_a_function_which_is_not_there_is_refused():
    from numba.core.registry import cpu_target

    private.ensure_functions(["memcpy"], cpu_target.target_context)
    with pytest.raises(LookupError, match="no function there_is_none_of_this_name"):
        private.ensure_functions(
            ["memcpy", "there_is_none_of_this_name"], cpu_target.target_context
        )


def test_functions_of_users_keep_numbas_code():
    """The package registers code for operators and functions only with the package's types."""

    def is_ours(value):
        bases = getattr(value, "__mro__", None) or [type(value)]
        return any((one.__module__ or "").startswith("river_mondrian") for one in bases)

    coded = [
        (key, given)
        for code, key, given in imputils.builtin_registry.functions
        if (code.__module__ or "").startswith("river_mondrian")
        and getattr(key, "__module__", "") in {"_operator", "builtins", "math"}
    ]
    assert coded
    assert [call for call in coded if not any(map(is_ours, call[1]))] == []
