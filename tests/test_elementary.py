"""The logarithm against the library's."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from river_mondrian.kernels.elementary import logarithms
from river_mondrian.kernels.memory import kernel

# Twice the distance of two numbers next to each other.
TOLERANCE = 4.5e-16

normal = st.floats(min_value=np.finfo(float).tiny, max_value=np.finfo(float).max)


@kernel
def write_logarithms(values: int, n: int, out: int) -> None:
    logarithms(values, n, out)


def found(values):
    values, out = np.array(values), np.full(len(values), np.nan)
    write_logarithms(values.ctypes.data, len(values), out.ctypes.data)
    return out.tolist()


@given(st.lists(normal, min_size=1, max_size=11))
@settings(deadline=None)
@example([1.0, math.nextafter(1.0, 0.0), math.nextafter(1.0, 2.0), 0.5, 2.0, math.sqrt(0.5)])
def test_logarithms_are_those_of_the_library(values):
    for value, ours in zip(values, found(values), strict=True):
        assert math.isclose(ours, math.log(value), rel_tol=TOLERANCE, abs_tol=0.0)


def test_what_is_not_positive_disturbs_no_other():
    ours = found([0.25, 0.0, -1.0, math.nan, math.inf, 0.25, 5e-324, 3.0])
    for i, value in ((0, 0.25), (5, 0.25), (7, 3.0)):
        assert math.isclose(ours[i], math.log(value), rel_tol=TOLERANCE)
