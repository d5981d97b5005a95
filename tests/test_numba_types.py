"""Tests of numba's types of calls, in kernels and in functions of users."""

import math
import subprocess
import sys
import weakref

import numba
import numpy as np
import pytest
from numba.core import config, errors, imputils
from numba.core.registry import cpu_target

from river_mondrian.compiling.kernels import kernel

pytestmark = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")


@kernel
def combined(i: int, j: int, x: float, y: float) -> tuple:
    """Combine numbers by all operations for which kernels have rules."""
    k, z = i, x
    k += j
    k -= 3
    k *= i
    z += i
    z -= y
    z *= 2
    both = i + j, i + x, i - j, y - j, i * j, i * x, x * y, i / 3, x / 3, i / x, k, z
    compared = i < j, i <= x, y > 1, x >= y, i == j, i == 2.0, x != x, j != 1
    extremes = max(i, j), max(x, y), max(y, x), max(i, x), max(x, 1), min(i, 2), min(x, y)
    return both, compared, extremes, min(y, x), max(i, x, j), int(x > y), int(i), int(y)


@pytest.mark.parametrize(
    "given",
    [
        (3, -4, 2.5, -3.7),
        (2, 2, math.nan, 1.0),
        (0, 1, 1.0, math.nan),
        (-1, 2**62, math.inf, -0.0),
        (2**53 + 1, 1, 0.0, -0.0),
    ],
)
def test_kernels_combine_numbers_as_numba_does(given):
    as_numba = numba.njit(error_model="numpy")(combined.function)
    assert repr(combined(*given)) == repr(as_numba(*given))


def is_ours(value):
    """Return whether the package defines a function, or a class or its base."""
    defined = getattr(value, "__mro__", None) or [value]
    return any((one.__module__ or "").startswith("river_mondrian") for one in defined)


def is_numbas(value):
    """Return whether a function or class belongs to Python, NumPy or numba."""
    module = getattr(value, "__module__", None) or "builtins"
    return module.partition(".")[0] in {"_operator", "builtins", "math", "numba", "numpy"}


def test_functions_of_users_keep_numbas_types_and_code():
    """The package registers no types or code for functions that numba knows."""
    combined(1, 2, 3.0, 4.0)
    context = cpu_target.typing_context
    context.refresh()
    known = [
        (key() if isinstance(key, weakref.ref) else key, typ, getattr(typ, "templates", ()))
        for key, typ in context._globals.items()
    ]
    typed = [value for value, typ, rules in known if any(map(is_ours, (type(typ), *rules)))]
    coded = [
        (key, given)
        for code, key, given in imputils.builtin_registry.functions
        if is_ours(code) and callable(key)
    ]
    assert min(len(typed), len(coded)) > 20
    # Users may register functions with the package's decorators.
    assert [value for value in typed if is_numbas(value)] == []
    assert [call for call in coded if is_numbas(call[0]) and not any(map(is_ours, call[1]))] == []


@pytest.mark.parametrize("function", [np.empty, str])
def test_kernels_cannot_hold_what_must_be_freed(function):
    def held(n: int) -> int:
        return len(function(n))

    with pytest.raises(errors.LoweringError, match="it is not freed"):
        kernel(held)(3)


ROOT = """
import math, sys
from river_mondrian.compiling.kernels import kernel

@kernel
def root(x: float) -> float:
    return max(math.sqrt(x), 1.0)

print(root(9.0), "numba.np.arraymath" in sys.modules)
"""


def test_kernels_do_not_load_all_of_numba():
    """Loading all types would take a quarter of a second of the first call."""
    printed = subprocess.check_output([sys.executable, "-c", ROOT], text=True)
    assert printed.split() == ["3.0", "False"]
