"""Tests of logarithms, probabilities and sums against library functions."""

import math

import numpy as np
import pytest
from common import as_kernels
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import special

from river_mondrian.elementary import logarithms, normalize_logs
from river_mondrian.records import Float64s

write_logarithms, write_probabilities = as_kernels(logarithms, normalize_logs)


# Tolerance: twice the distance of adjacent numbers above 1.
TOLERANCE = 4.5e-16

normal = st.floats(min_value=np.finfo(float).tiny, max_value=np.finfo(float).max)


def found(values):
    values, out = np.array(values), np.full(len(values), np.nan)
    write_logarithms(Float64s.of(values), len(values), Float64s.of(out))
    return out.tolist()


@given(st.lists(normal, min_size=1, max_size=11))
@example([1.0, math.nextafter(1.0, 0.0), math.nextafter(1.0, 2.0), 0.5, 2.0, math.sqrt(0.5)])
def test_logarithms_are_those_of_the_library(values):
    np.testing.assert_allclose(found(values), [math.log(value) for value in values], TOLERANCE)


def test_what_is_not_positive_disturbs_no_other():
    ours = found([0.25, 0.0, -1.0, math.nan, math.inf, 0.25, 5e-324, 3.0])
    np.testing.assert_allclose(np.array(ours)[[0, 5, 7]], np.log([0.25, 0.25, 3.0]), TOLERANCE)


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=9))
@example([-1e300, 0.0, 1e300])
@example([-math.inf, 3.0])
def test_probabilities_are_those_of_log_weights(logs):
    values = np.array(logs)
    write_probabilities(Float64s.of(values), len(values))
    np.testing.assert_allclose(values, special.softmax(logs), rtol=1e-13)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 40.0, 1e300])
@pytest.mark.parametrize("n", [129, 136, 1000])
def test_probabilities_of_many_are_those_of_log_weights(n, scale):
    logs = scale * np.random.default_rng(n).normal(size=n)
    values = logs.copy()
    write_probabilities(Float64s.of(values), n)
    expected = special.softmax(logs)
    # The error of k log 2 is k times the rounding error of log 2. The error of a sum is bounded by
    # the rounding errors of its terms.
    distances = np.abs(np.maximum(logs - logs.max(), -708.0)) + 16.0
    assert np.all(np.abs(values - expected) <= 2.2e-16 * distances * expected + 1e-300)
