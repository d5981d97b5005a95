"""Partitions that are cut as their lifetime grows, and learners that follow each cut.

Points are numbered with those that are learned first. A cell is a number, whichever the partition:
`cells[i, m]` is the cell of point i in partition m, and `order[m]` holds the points cell by cell,
those that are learned and the others apart. A cut gives the cell's number to its lower part and the
next number to the upper part. The features are 1 / sqrt(M) in a point's M cells.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .memory import kernel

# Columns of a cell's ranges in `order`: where the learned points start and stop, the same of the
# other points, and the partition.
START = 0
STOP = 1
OTHER_START = 2
PARTITION = 4


@kernel
def draw_cut(
    X: Any, order: Any, ranges: Any, cell: int, draws: Any, lows: Any, highs: Any
) -> tuple[float, int, float]:
    """Draw a cell's cut from three uniform numbers: the time until then, the feature, the place.

    The time is infinite where no points differ.
    """
    m = ranges[cell, PARTITION]
    for d in range(X.shape[1]):
        lows[d], highs[d] = np.inf, -np.inf
    for k in range(ranges[cell, START], ranges[cell, STOP]):
        i = order[m, k]
        for d in range(X.shape[1]):
            lows[d] = min(lows[d], X[i, d])
            highs[d] = max(highs[d], X[i, d])
    rate = 0.0
    for d in range(X.shape[1]):
        rate += highs[d] - lows[d]
    if not rate > 0.0:
        return np.inf, 0, 0.0
    left, feature = draws[1] * rate, 0
    for d in range(X.shape[1]):
        if highs[d] > lows[d]:
            feature = d
            left -= highs[d] - lows[d]
            if left < 0.0:
                break
    place = lows[feature] + draws[2] * (highs[feature] - lows[feature])
    if place >= highs[feature]:
        place = lows[feature]
    return -math.log1p(-draws[0]) / rate, feature, place


@kernel
def _divide(X: Any, points: Any, m: int, start: int, stop: int, feature: int, place: float) -> int:
    """Bring the points up to a place before the others; returns where those begin."""
    low, high = start, stop
    while low < high:
        if X[points[m, low], feature] <= place:
            low += 1
        else:
            high -= 1
            points[m, low], points[m, high] = points[m, high], points[m, low]
    return low


@kernel
def cut(
    X: Any, order: Any, ranges: Any, cells: Any, cell: int, new: int, feature: int, place: float
) -> None:
    """Cut a cell in two; the upper part gets the number `new`."""
    m = ranges[cell, PARTITION]
    ranges[new, PARTITION] = m
    for begin in (START, OTHER_START):
        start, stop = ranges[cell, begin], ranges[cell, begin + 1]
        middle = _divide(X, order, m, start, stop, feature, place)
        ranges[cell, begin + 1] = middle
        ranges[new, begin], ranges[new, begin + 1] = middle, stop
        for k in range(middle, stop):
            cells[order[m, k], m] = new


@kernel
def predict(weights: Any, cells: Any, found: Any) -> None:
    """Write the predictions of all points."""
    n_partitions = cells.shape[1]
    scale = 1.0 / math.sqrt(n_partitions)
    for i in range(len(found)):
        total = 0.0
        for m in range(n_partitions):
            total += weights[cells[i, m]]
        found[i] = scale * total


@kernel
def normal_gap(
    y: Any, cells: Any, n_cells: int, delta2: float, weights: Any, found: Any, gap: Any
) -> float:
    """Predict all points and write what the normal equations lack; returns the largest of it."""
    n_partitions = cells.shape[1]
    scale = 1.0 / math.sqrt(n_partitions)
    predict(weights, cells, found)
    for c in range(n_cells):
        gap[c] = -delta2 * weights[c]
    for i in range(len(y)):
        error = scale * (y[i] - found[i])
        for m in range(n_partitions):
            gap[cells[i, m]] += error
    largest = 0.0
    for c in range(n_cells):
        largest = max(largest, math.fabs(gap[c]))
    return largest


@kernel
def sum_by_cell(values: Any, n: int, cells: Any, sums: Any) -> None:
    """Write the sums of features times values of the first `n` points, by cell."""
    n_partitions = cells.shape[1]
    scale = 1.0 / math.sqrt(n_partitions)
    sums[:] = 0.0
    for i in range(n):
        for m in range(n_partitions):
            sums[cells[i, m]] += scale * values[i]


# Independent fits (section 6.2).


@kernel
def refit_forest(
    y: Any, order: Any, ranges: Any, cell: int, share: float, delta2: float, means: Any, found: Any
) -> None:
    """Set the mean of a cell and move the predictions of its points, `share` per partition."""
    m = ranges[cell, PARTITION]
    total = 0.0
    for k in range(ranges[cell, START], ranges[cell, STOP]):
        total += y[order[m, k]]
    new = total / (ranges[cell, STOP] - ranges[cell, START] + delta2)
    step = share * (new - means[cell])
    means[cell] = new
    for begin in (START, OTHER_START):
        for k in range(ranges[cell, begin], ranges[cell, begin + 1]):
            found[order[m, k]] += step


# Stochastic gradient descent (section 4.2.2).


@kernel
def descend(
    y: Any,
    visits: Any,
    cells: Any,
    ranges: Any,
    rate: float,
    fall: float,
    delta2: float,
    weights: Any,
) -> None:
    """Learn points in the order of their visits, by a rate that falls with each.

    A cell's ridge is shared by its points.
    """
    n_partitions = cells.shape[1]
    scale = 1.0 / math.sqrt(n_partitions)
    for visit in range(len(visits)):
        i = visits[visit]
        total = 0.0
        for m in range(n_partitions):
            total += weights[cells[i, m]]
        slope = scale * (y[i] - scale * total)
        for m in range(n_partitions):
            cell = cells[i, m]
            ridge = delta2 / (ranges[cell, STOP] - ranges[cell, START])
            weights[cell] += rate * (slope - ridge * weights[cell])
        rate -= fall


# Exact ridge regression (section 4.2.1) while there are fewer cells than points.


@kernel
def second_moments(n: int, cells: Any, delta2: float, A: Any) -> None:
    """Write the regularised matrix of second moments of the first `n` points."""
    n_partitions = cells.shape[1]
    A[:] = 0.0
    for i in range(n):
        for m in range(n_partitions):
            for k in range(n_partitions):
                A[cells[i, m], cells[i, k]] += 1.0 / n_partitions
    for c in range(len(A)):
        A[c, c] += delta2


@kernel
def _shared(order: Any, ranges: Any, cells: Any, part: int, shared: Any) -> None:
    """Write the second moments of a cell with those of other partitions."""
    m, n_partitions = ranges[part, PARTITION], cells.shape[1]
    shared[:] = 0.0
    for k in range(ranges[part, START], ranges[part, STOP]):
        i = order[m, k]
        for other in range(n_partitions):
            if other != m:
                shared[cells[i, other]] += 1.0 / n_partitions


@kernel
def split_inverse(
    y: Any,
    order: Any,
    ranges: Any,
    cells: Any,
    cell: int,
    n: int,
    delta2: float,
    inverse: Any,
    weights: Any,
    work: Any,
) -> float:
    """Follow a cut of `cell` whose upper part is cell `n`; returns the change of ln det A.

    The cell's row and column leave the inverse (a rank-one step) and those of both parts join it (
    rank two), all in one pass. `work` has five rows.
    """
    n_partitions = cells.shape[1]
    lower, upper = ranges[cell, STOP] - ranges[cell, START], ranges[n, STOP] - ranges[n, START]
    small, large = (cell, n) if lower <= upper else (n, cell)
    first, second, u, v, p = work[0], work[1], work[2], work[3], work[4]
    _shared(order, ranges, cells, small, first)
    _shared(order, ranges, cells, large, second)
    for j in range(n):
        p[j] = inverse[cell, j]
        u[j] = 0.0
    for k in range(n):
        entry = first[k]
        if entry != 0.0:
            for j in range(n):
                u[j] += entry * inverse[k, j]
    # The old column is the sum of both parts' and its own diagonal, and the inverse times it 1.
    diagonal = (lower + upper) / n_partitions + delta2
    for j in range(n):
        v[j] = -u[j] - diagonal * p[j]
    v[cell] += 1.0
    pivot = p[cell]
    by_u, by_v = u[cell] / pivot, v[cell] / pivot
    for j in range(n):
        u[j] -= by_u * p[j]
        v[j] -= by_v * p[j]
    u[cell], v[cell] = 0.0, 0.0
    n_small, n_large = min(lower, upper), max(lower, upper)
    s, t, off = n_small / n_partitions + delta2, n_large / n_partitions + delta2, 0.0
    for j in range(n):
        s -= first[j] * u[j]
        t -= second[j] * v[j]
        off -= second[j] * u[j]
    determinant = s * t - off * off
    q_uu, q_vv, q_uv = t / determinant, s / determinant, -off / determinant

    by_p = weights[cell] / pivot
    r_u, r_v = 0.0, 0.0
    for j in range(n):
        weights[j] -= by_p * p[j]
    weights[cell] = 0.0
    for j in range(n):
        r_u -= first[j] * weights[j]
        r_v -= second[j] * weights[j]
    m, scale = ranges[cell, PARTITION], 1.0 / math.sqrt(n_partitions)
    for k in range(ranges[small, START], ranges[small, STOP]):
        r_u += scale * y[order[m, k]]
    for k in range(ranges[large, START], ranges[large, STOP]):
        r_v += scale * y[order[m, k]]
    w_u, w_v = q_uu * r_u + q_uv * r_v, q_uv * r_u + q_vv * r_v
    for j in range(n):
        weights[j] -= w_u * u[j] + w_v * v[j]
    weights[small], weights[large] = w_u, w_v

    for i in range(n):
        x = -p[i] / pivot
        a, b = q_uu * u[i] + q_uv * v[i], q_uv * u[i] + q_vv * v[i]
        for j in range(n):
            inverse[i, j] += x * p[j] + a * u[j] + b * v[j]
    for j in range(n):
        a, b = -q_uu * u[j] - q_uv * v[j], -q_uv * u[j] - q_vv * v[j]
        inverse[j, small], inverse[small, j] = a, a
        inverse[j, large], inverse[large, j] = b, b
    inverse[small, small], inverse[large, large] = q_uu, q_vv
    inverse[small, large], inverse[large, small] = q_uv, q_uv
    return math.log(pivot) + math.log(determinant)


# The same by the matrix of kernels, once there are more cells than points.


@kernel
def gram(n: int, cells: Any, delta2: float, K: Any) -> None:
    """Write the regularised kernels of the first `n` points."""
    n_partitions = cells.shape[1]
    for i in range(n):
        for k in range(i):
            same = 0
            for m in range(n_partitions):
                same += cells[i, m] == cells[k, m]
            K[i, k] = same / n_partitions
            K[k, i] = K[i, k]
        K[i, i] = 1.0 + delta2


@kernel
def split_gram(
    order: Any,
    ranges: Any,
    cell: int,
    new: int,
    n_partitions: int,
    inverse: Any,
    dual: Any,
    work: Any,
) -> float:
    """Follow a cut: the kernels between its two parts fall; returns the change of ln det.

    `dual` is the inverse times the targets, and `work` has two rows.
    """
    m, n = ranges[cell, PARTITION], len(dual)
    u, v = work[0], work[1]
    u[:], v[:] = 0.0, 0.0
    dual_u, dual_v, uu, uv, vv = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(ranges[cell, START], ranges[cell, STOP]):
        i = order[m, k]
        dual_u += dual[i]
        for j in range(n):
            u[j] += inverse[i, j]
    for k in range(ranges[new, START], ranges[new, STOP]):
        i = order[m, k]
        dual_v += dual[i]
        for j in range(n):
            v[j] += inverse[i, j]
    for k in range(ranges[cell, START], ranges[cell, STOP]):
        uu += u[order[m, k]]
        uv += v[order[m, k]]
    for k in range(ranges[new, START], ranges[new, STOP]):
        vv += v[order[m, k]]
    # The inverse of [[-uu, M - uv], [M - uv, -vv]] (Woodbury).
    off = n_partitions - uv
    determinant = uu * vv - off * off
    q_uu, q_vv, q_uv = -vv / determinant, -uu / determinant, -off / determinant
    x, z = q_uu * dual_u + q_uv * dual_v, q_uv * dual_u + q_vv * dual_v
    for j in range(n):
        dual[j] += x * u[j] + z * v[j]
    for i in range(n):
        a, b = q_uu * u[i] + q_uv * v[i], q_uv * u[i] + q_vv * v[i]
        for j in range(n):
            inverse[i, j] += a * u[j] + b * v[j]
    return math.log(-determinant / n_partitions**2)
