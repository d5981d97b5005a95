"""Exact Bayesian ridge regression on the outputs of a feature map.

What has been learned is a triangle T with T' T = A, the regularised matrix of second moments, and a
vector z with T w = z for the weights w. Row j of T holds the entries of columns 0 to j, so that
rows lie one after another and a new column only adds one: 0 everywhere but on the diagonal. A
sample is rotated into the rows (Givens), from the last that it touches on. Nothing is ever
subtracted from A, so that errors do not build up as they may in a running inverse.

Learning and predicting add in the order that is written here: compilers may turn a sum about, and
not alike where the variance is asked for, too, and where it is not. The weights of a prediction are
solved for in one place, in whatever order is fast.

Columns get their row when they first differ from 0. Row 0 is the intercept's where there is one;
its prior is flat, so that its diagonal begins at 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .memory import exact_inlined, exact_kernel, kernel

# Places in the array of counts and in that of sums.
N_ROWS = 0
N_SAMPLES = 1
INTERCEPT = 2
RESIDUAL = 0
LOG_WEIGHTS = 1
SHIFT = 2


@exact_inlined
def read(
    out: Any, row: int, dense: bool, value: float, slots: Any, root: float, work: Any
) -> tuple[int, float]:
    """Write a mapped row, times `root`, to `work`.

    Returns the last place written, and the sum of squares of the columns that have no place.
    """
    last, rest = -1, 0.0
    for i in range(out.shape[1]):
        column, entry = i, value
        if dense:
            entry = np.float64(out[row, i])
        else:
            column = np.int64(out[row, i])
        slot = slots[column]
        if slot < 0:
            rest += entry * entry
        elif entry != 0.0:
            work[slot] = root * entry
            last = max(last, slot)
    return last, rest


@exact_inlined
def append(
    out: Any,
    row: int,
    dense: bool,
    delta: float,
    limit: int,
    factor: Any,
    moments: Any,
    slots: Any,
    counts: Any,
) -> bool:
    """Give the columns of a mapped row a place, up to `limit`; False where there is no room."""
    for i in range(out.shape[1]):
        column = i if dense else np.int64(out[row, i])
        n = counts[N_ROWS]
        if slots[column] >= 0 or n >= limit or (dense and out[row, i] == 0):
            continue
        if n >= len(moments):
            return False
        start = n * (n + 1) // 2
        for k in range(n):
            factor[start + k] = 0.0
        factor[start + n] = delta
        moments[n] = 0.0
        slots[column] = n
        counts[N_ROWS] = n + 1
    return True


@exact_kernel
def learn_rows(
    out: Any,
    start: int,
    dense: bool,
    value: float,
    delta: float,
    limit: int,
    targets: Any,
    weights: Any,
    factor: Any,
    moments: Any,
    work: Any,
    slots: Any,
    counts: Any,
    sums: Any,
) -> int:
    """Learn mapped rows from `start` on; returns the first that there was no room for."""
    for row in range(start, len(out)):
        if weights[row] == 0.0:
            continue
        if not append(out, row, dense, delta, limit, factor, moments, slots, counts):
            return row
        if counts[INTERCEPT] and counts[N_SAMPLES] == 0:
            sums[SHIFT] = targets[row]
        root = math.sqrt(weights[row])
        y = root * (targets[row] - sums[SHIFT])
        last, _ = read(out, row, dense, value, slots, root, work)
        if counts[INTERCEPT]:
            work[0] = root
            last = max(last, 0)
        for j in range(last, -1, -1):
            entry = work[j]
            if entry == 0.0:
                continue
            begin = j * (j + 1) // 2
            diagonal = factor[begin + j]
            length = math.sqrt(diagonal * diagonal + entry * entry)
            cosine, sine = diagonal / length, entry / length
            factor[begin + j] = length
            for k in range(j):
                old, new = factor[begin + k], work[k]
                factor[begin + k] = cosine * old + sine * new
                work[k] = cosine * new - sine * old
            old = moments[j]
            moments[j] = cosine * old + sine * y
            y = cosine * y - sine * old
            work[j] = 0.0
        sums[RESIDUAL] += y * y
        sums[LOG_WEIGHTS] += math.log(weights[row])
        counts[N_SAMPLES] += 1
    return len(out)


@kernel
def solve(n: int, factor: Any, moments: Any, solution: Any) -> None:
    """Write the posterior mean of the weights."""
    for j in range(n):
        begin = j * (j + 1) // 2
        total = 0.0
        for k in range(j):
            total += factor[begin + k] * solution[k]
        diagonal = factor[begin + j]
        solution[j] = (moments[j] - total) / diagonal if diagonal > 0.0 else 0.0


@exact_kernel
def predict_rows(
    out: Any,
    dense: bool,
    value: float,
    prior: float,
    with_variance: bool,
    factor: Any,
    solution: Any,
    work: Any,
    slots: Any,
    counts: Any,
    sums: Any,
    found: Any,
) -> None:
    """Write the mean and the variance of mapped rows' targets to `found`, shape (n, 2).

    The variance is in units of the noise's. `prior` is the variance of a weight that has no place.
    """
    for row in range(len(out)):
        last, rest = read(out, row, dense, value, slots, 1.0, work)
        if counts[INTERCEPT]:
            work[0] = 1.0
            last = max(last, 0)
        mean, variance = sums[SHIFT], 1.0 + prior * rest
        for i in range(out.shape[1]):
            slot = slots[i] if dense else slots[np.int64(out[row, i])]
            if slot >= 0:
                mean += work[slot] * solution[slot]
                if not with_variance:
                    work[slot] = 0.0
        if counts[INTERCEPT]:
            mean += solution[0]
        found[row, 0] = mean
        if not with_variance:
            continue
        for j in range(last, -1, -1):
            if work[j] == 0.0:
                continue
            begin = j * (j + 1) // 2
            step = work[j] / factor[begin + j]
            variance += step * step
            for k in range(j):
                work[k] -= step * factor[begin + k]
            work[j] = 0.0
        found[row, 1] = variance


@kernel
def log_determinant(n: int, factor: Any) -> float:
    """Return the logarithm of the determinant of A."""
    total = 0.0
    for j in range(n):
        total += 2.0 * math.log(factor[j * (j + 1) // 2 + j])
    return total
