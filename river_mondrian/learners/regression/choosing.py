"""How the columns of inputs, their bends and products are chosen.

A bend of an input counts by how much it explains of the errors of the linear regression beyond the
input itself, a product of two by how much it explains of them.
"""

from __future__ import annotations

import math

from ...compiling.kernels import exact_inlined, exact_separate
from .columns import BEND, ITSELF, column_of, in_units, make_columns
from .records import (
    ADDITIVE,
    FIRST_INPUT,
    LINEAR,
    N_BENDS,
    TARGET,
    Candidate,
    Design,
    Ridges,
)
from .rows import measured_row, n_measured_of, quantile, sort
from .solving import dot, logarithm_of

# Most linear columns, most columns but waves, and how many there may be beyond the linear ones at
# least; most inputs that have bends, and that have products.
MOST_LINEAR = 96
MOST_COLUMNS = 64
LEAST_OTHERS = 8
MOST_BENT = 64
MOST_MULTIPLIED = 16
MOST_CANDIDATES = MOST_BENT * N_BENDS + MOST_MULTIPLIED * (MOST_MULTIPLIED - 1) // 2
# Columns beyond the linear ones for each row that is measured.
COLUMNS_PER_ROW = 0.25
# Variance of a column in the units of its inputs below which there is none.
LEAST_VARIANCE = 1e-3
# A design is left as it is where centres have moved by less, and units by a smaller factor.
MOVED, RESCALED = 0.5, 1.5
# How many interquartile ranges beyond the quartiles a target that is replayed is at most.
FENCES = 10.0


@exact_inlined
def differs(design: Design, other: Design) -> bool:
    """Tell whether the inputs of a design have other units."""
    if design.n_inputs != other.n_inputs:
        return True
    for i in range(design.n_inputs):
        rate, before = design.rates[i], other.rates[i]
        if (rate > 0.0) != (before > 0.0):
            return True
        moved = abs(design.centres[i] - other.centres[i]) * max(rate, before)
        if moved > MOVED or rate > RESCALED * before or before > RESCALED * rate:
            return True
    return False


@exact_inlined
def find_errors(ridges: Ridges, active: Design, k: int) -> None:
    """Note what a regression leaves of the targets of the rows that are measured."""
    columns, errors = ridges.columns.part(0, ridges.capacity), ridges.errors
    solution, n = ridges.solution(k), active.width_of(k)
    for j in range(n_measured_of(ridges)):
        row = measured_row(ridges, j)
        make_columns(ridges, active, row.part(FIRST_INPUT, ridges.n_inputs), columns)
        errors[j] = row[TARGET] - active.shift - dot(solution, columns, n)


@exact_separate
def examine(ridges: Ridges, design: Design, candidate: Candidate) -> None:
    """Find a candidate's mean and spread, and what it explains of the errors."""
    first, second = candidate.first, candidate.second
    errors, n, rows = ridges.errors, 0, n_measured_of(ridges)
    # Sums over the rows: of the column h, of its input z, of the error r and of products.
    h_, z_, r_, hh, zz, rh, rz, zh = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(rows):
        inputs = measured_row(ridges, j).part(FIRST_INPUT, ridges.n_inputs)
        z = in_units(ridges, design, inputs, first)
        other = in_units(ridges, design, inputs, second) if second >= 0 else 0.0
        h, r = column_of(z, other, second, candidate.knot), errors[j]
        if h == h:
            n += 1
            h_ += h
            z_ += z
            r_ += r
            hh += h * h
            zz += z * z
            rh += r * h
            rz += r * z
            zh += z * h
    candidate.score, candidate.factor = -1.0, 0.0
    if n < 2:
        return
    mean = h_ / n
    variance = hh / n - mean * mean
    if not variance > LEAST_VARIANCE:
        return
    candidate.mean = mean
    candidate.factor = 1.0 / math.sqrt(variance)
    explained, left = rh - r_ * mean, hh - h_ * mean
    of_input = zz - z_ * z_ / n
    if second == BEND and of_input > 0.0:
        # Beyond its input.
        slope = (zh - z_ * mean) / of_input
        explained -= slope * (rz - r_ * z_ / n)
        left -= slope * (zh - z_ * mean)
    if left > LEAST_VARIANCE * n:
        candidate.score = explained * explained / left


@exact_inlined
def best_of(ridges: Ridges, n: int) -> int:
    """Return the candidate that explains most, or -1."""
    best, score = -1, 0.0
    for c in range(n):
        if ridges.candidates[c].score > score:
            best, score = c, ridges.candidates[c].score
    return best


@exact_inlined
def add_column(design: Design, candidate: Candidate) -> None:
    """Add a column, and what it explains to the interest of its inputs."""
    c = design.n_columns
    design.firsts[c], design.seconds[c] = candidate.first, candidate.second
    design.knots[c], design.means[c] = candidate.knot, candidate.mean
    design.factors[c] = candidate.factor
    design.n_columns = c + 1
    own = max(candidate.score, 0.0)
    design.interest[candidate.first] = design.interest[candidate.first] + own
    if candidate.second >= 0:
        design.interest[candidate.second] = design.interest[candidate.second] + own


@exact_inlined
def propose(candidates: int, ridges: Ridges, first: int, second: int, knot: float) -> int:
    """Add a candidate; returns how many there are."""
    candidate = ridges.candidates[candidates]
    candidate.first, candidate.second, candidate.knot = first, second, knot
    return candidates + 1


@exact_separate
def add_linear(ridges: Ridges, design: Design) -> None:
    """Give the inputs columns of their own, where there are too many those that explain most."""
    n = 0
    for i in range(design.n_inputs):
        if design.rates[i] > 0.0:
            n = propose(n, ridges, i, ITSELF, 0.0)
    for c in range(n):
        examine(ridges, design, ridges.candidates[c])
    n_left = min(n, MOST_LINEAR)
    for c in range(n):
        if n <= MOST_LINEAR:
            candidate = ridges.candidates[c]
        else:
            best = best_of(ridges, n)
            if best < 0 or n_left == 0:
                break
            candidate = ridges.candidates[best]
        if candidate.factor > 0.0:
            add_column(design, candidate)
        n_left -= 1
        candidate.score = -1.0
    design.n_linear = design.n_columns - 1


@exact_separate
def add_others(ridges: Ridges, design: Design) -> None:
    """Add the bends and the products that explain most of what the linear regression leaves."""
    n, n_inputs = 0, design.n_inputs
    if n_inputs > MOST_BENT:
        return
    for i in range(n_inputs):
        before = -math.inf
        for q in range(N_BENDS):
            bend = design.bends[N_BENDS * i + q]
            if design.rates[i] > 0.0 and bend > before:
                n = propose(n, ridges, i, BEND, bend)
                before = bend
    for i in range(n_inputs if n_inputs <= MOST_MULTIPLIED else 0):
        for j in range(i):
            if design.rates[i] > 0.0 and design.rates[j] > 0.0:
                n = propose(n, ridges, i, j, 0.0)
    for c in range(n):
        examine(ridges, design, ridges.candidates[c])
    room = max(MOST_COLUMNS - design.n_columns, LEAST_OTHERS)
    room = min(room, int(COLUMNS_PER_ROW * n_measured_of(ridges)))
    for _ in range(room):
        best = best_of(ridges, n)
        if best < 0:
            return
        add_column(design, ridges.candidates[best])
        ridges.candidates[best].score = -1.0


@exact_separate
def choose(ridges: Ridges, design: Design, active: Design) -> None:
    """Choose the columns but waves of a design whose inputs have been measured."""
    values, n = ridges.values, n_measured_of(ridges)
    for j in range(n):
        values[j] = measured_row(ridges, j)[TARGET]
    sort(values, n)
    design.shift = quantile(values, n, 0.5)
    design.low = values[0]
    lower, upper = quantile(values, n, 0.25), quantile(values, n, 0.75)
    reach = FENCES * (upper - lower)
    design.fence, design.upper_fence = -math.inf, math.inf
    if reach > 0.0:
        design.fence, design.upper_fence = lower - reach, upper + reach
        design.low = max(design.low, design.fence)
    begins = max(lower - design.low, 0.1 * (design.shift - design.low))
    begins = begins if begins > 0.0 else values[n - 1] - design.low
    design.unit = begins if begins > 0.0 else 1.0
    design.most = logarithm_of(design, min(values[n - 1], design.upper_fence)) + 0.5
    for j in range(n):
        ridges.errors[j] = measured_row(ridges, j)[TARGET] - design.shift
    for i in range(design.n_inputs):
        design.interest[i] = 0.0
    design.n_columns = 1
    add_linear(ridges, design)
    find_errors(ridges, active, LINEAR)
    add_others(ridges, design)
    design.n_additive = design.n_columns
    find_errors(ridges, active, ADDITIVE)
