"""Tests of the names and imports of `import river_mondrian`."""

from __future__ import annotations

import ast
import collections
import graphlib
import importlib
import inspect
import pkgutil
import re
import string
import types
from pathlib import Path

import pytest
from common import run

import benchmarks
import river_mondrian


@pytest.mark.parametrize("name", river_mondrian.__all__)
def test_all_names_are_there(name):
    found = getattr(river_mondrian, name)
    assert found.__name__ == name
    assert found.__module__.startswith("river_mondrian.")
    assert name in dir(river_mondrian)


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="'river_mondrian' has no attribute 'Forest'"):
        _ = river_mondrian.Forest


ADAPTIVE = "model = rm.AdaptiveMondrianForestClassifier(1); model.learn_one({'a': 1.0}, 0)"
RIDGE = "model = rm.RidgeRegressor(rm.RandomFourierFeatures(4, seed=1))"


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("rm.MondrianForestClassifier", "river_mondrian.estimators.adaptive"),
        (f"{ADAPTIVE}; model.predict_one({{}})", "river.drift"),
        (f"{RIDGE}; model.predict_one({{'a': 1.0}}, with_dist=True)", "river.proba"),
    ],
)
def test_what_is_not_needed_is_not_imported(code, name):
    """Unnecessary imports would slow down the start."""
    code = f"import river_mondrian as rm; {code}; import sys; sys.exit({name!r} in sys.modules)"
    run("-c", code)


def imports_of(path, package, modules):
    """Yield the modules of the package that a file imports, even if only for type checkers."""
    for statement in ast.walk(ast.parse(path.read_text())):
        if not isinstance(statement, ast.ImportFrom) or statement.level == 0:
            continue
        home = package[: len(package) - statement.level + 1]
        home += tuple(statement.module.split(".")) if statement.module else ()
        for alias in statement.names:
            whole = (*home, alias.name)
            yield whole if whole in modules else home


ROOT = Path(river_mondrian.__file__).parent


@pytest.fixture(scope="module")
def graph():
    """Return the imported modules of each module, except the module `river_mondrian`."""
    modules = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        modules[parts[:-1] if parts[-1] == "__init__" else parts] = path
    # The module `river_mondrian` imports names at their first use.
    del modules[()]
    return {
        module: set(imports_of(path, path.relative_to(ROOT).parts[:-1], modules)) - {module, ()}
        for module, path in modules.items()
    }


def test_no_circle_of_imports(graph):
    assert all(imported in graph for found in graph.values() for imported in found)
    graphlib.TopologicalSorter(graph).prepare()


def test_folders_import_from_the_folders_in_the_table(graph):
    text = (ROOT.parent / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| `(\w+)/` \|.*\| (.*) \|$", text, re.MULTILINE)
    shown = {folder: set(re.findall(r"`(\w+)`", others)) for folder, others in rows}
    found = {path.name: set() for path in ROOT.iterdir() if (path / "__init__.py").exists()}
    for module, imported in graph.items():
        if module[0] in found:
            found[module[0]] |= {other[0] for other in imported} & found.keys() - {module[0]}
    assert shown == found


# Names with an underscore that a folder defines, and that other folders use, because the public
# names of classes are for users. `FeatureMap` has an interface for learners (`features.base`).
# Shards and pictures use the insides of forests, and `merge` and shards use the insides of any
# `Model`.
INTERFACES = {
    "features": {
        *("_auto", "_bad_input", "_changing", "_is_final", "_know", "_knows", "_map", "_new_rows"),
        *("_observe", "_observe_rows", "_output", "_outputs", "_own_copy", "_read_values"),
        "_reader",
    },
    "estimators": {
        *("_arrange", "_features", "_learn_read", "_need_distribution", "_plane", "_recent"),
        *("_SCORE", "_takes_levels", "_tree_view", "_trees"),
    },
    "": {"_arguments", "_made_anew", "_raw_memory_usage", "_settle", "_use"},
    "maps": {"_finish"},
    "records": {"_DERIVED"},
}


def is_own(value):
    """Return whether an attribute of `value` is read on `self`, `super()` or a class."""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "super"
    return isinstance(value, ast.Name) and (value.id in ("self", "cls") or value.id[0].isupper())


def test_underscore_names_stay_in_their_folder():
    """Other folders use only the names in `INTERFACES`."""
    parsed = {path: ast.parse(path.read_text()) for path in ROOT.rglob("*.py")}
    homes = collections.defaultdict(set)
    for path, tree in parsed.items():
        for node in ast.walk(tree):
            name = getattr(node, "name", "")
            if isinstance(getattr(node, "ctx", None), ast.Store):
                name = getattr(node, "attr", "") or getattr(node, "id", "")
            if isinstance(name, str) and name.startswith("_") and not name.startswith("__"):
                homes[name].add(path.parent)
    found = {
        node.attr
        for path, tree in parsed.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in homes
        and path.parent not in homes[node.attr]
        and not is_own(node.value)
    }
    # numba's class of results has the method `_rebuild`, and so do trees.
    assert found - {"_rebuild"} == set().union(*INTERFACES.values())
    for folder, names in INTERFACES.items():
        assert all(ROOT / folder in homes[name] for name in names)


def test_the_citation_is_of_this_version():
    text = (Path(__file__).parents[1] / "CITATION.cff").read_text()
    assert f"\nversion: {river_mondrian.__version__}\n" in text


# Benchmarks run for hours, so a missing name would be found late.

MODULES = [
    found.name
    for found in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")
    if not found.name.endswith("__main__")
]


def missing(module: types.ModuleType) -> list[str]:
    """Return attributes of imported modules that are read but do not exist."""
    return [
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and isinstance(vars(module).get(node.value.id), types.ModuleType)
        and not hasattr(vars(module)[node.value.id], node.attr)
    ]


@pytest.mark.parametrize("name", MODULES)
def test_names_of_other_modules_exist(name):
    # Benchmarks need more packages than `river_mondrian` does.
    pytest.importorskip("polars")
    assert not missing(importlib.import_module(name))


@pytest.mark.parametrize("name", MODULES)
def test_texts_of_pages_have_their_values(name):
    pytest.importorskip("polars")
    module = importlib.import_module(name)
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "report.about":
            _, _, text = inspect.getdoc(vars(module)[node.args[0].id]).partition("\n\n")
            fields = [field for _, field, _, _ in string.Formatter().parse(text) if field]
            given = {keyword.arg for keyword in node.keywords}
            assert text
            assert {re.match(r"\w+", field)[0] for field in fields} <= given | set(vars(module))
