"""Tests of helpers of kernels, with and without private parts of numba."""

import importlib

import numba
import pytest
from common import raises
from numba.core import codegen, config, typed_passes

from river_mondrian.partitions.mondrian import boxes
from river_mondrian.posteriors.targets import scale_mixture
from river_mondrian.records import pipelines

pytestmark = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")

_dynfunc = importlib.import_module("numba._dynfunc")


@pytest.fixture
def forgotten():
    """Let the package examine numba again, during the test and after the test."""
    caches = (pipelines.is_numba_known, pipelines._lowerings, pipelines._pipelines)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def compiled_pair():
    """Compile a helper and its caller; return the library of the helper and the result."""

    def half(x):
        return x / 2.0

    helper = numba.njit(
        pipeline_class=pipelines.HelperCompiler, no_cpython_wrapper=True, no_cfunc_wrapper=True
    )(half)

    @numba.njit
    def call(x):
        return helper(x) + 1.0

    found = call(3.0)
    ((signature, overload),) = helper.overloads.items()
    assert signature == (numba.float64,)
    return overload.library, found


def raising(*_, **__):
    raise TypeError("it takes other arguments now")


def test_helpers_make_no_machine_code_of_their_own(forgotten):
    library, found = compiled_pair()
    assert found == 2.5
    assert pipelines.is_numba_known()
    assert type(library) is not codegen.JITCodeLibrary


@pytest.mark.parametrize(
    ("owner", "name"),
    [(codegen, "JITCodeLibrary"), (typed_passes, "NativeLowering"), (_dynfunc, "make_function")],
    ids=["library", "lowering", "function"],
)
@pytest.mark.parametrize("is_there", [False, True])
def test_without_them_helpers_are_compiled_as_all_is(forgotten, monkeypatch, owner, name, is_there):
    kept = codegen.JITCodeLibrary
    with monkeypatch.context() as changed:
        if is_there:
            changed.setattr(owner, name, raising)
        else:
            changed.delattr(owner, name)
        assert not pipelines.is_numba_known()
    library, found = compiled_pair()
    assert found == 2.5
    assert type(library) is kept


@pytest.mark.parametrize("helper", [boxes.distance_outside, scale_mixture.is_used])
def test_python_cannot_call_helpers(helper):
    """A call by Python would crash, even after kernels have compiled the helper."""
    raises(TypeError, f"only kernels can call {helper.__name__}", lambda: helper(1, 2, 3, 4))
