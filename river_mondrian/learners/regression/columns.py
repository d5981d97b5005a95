"""Rows that are kept of the stream, and the columns of a linear model that are made of a row.

There are rows of all of the past, one in so many, which is doubled where there is no room, and a
ring of the latest ones. Half of the rows that are measured are of either kind.

Columns are inputs in robust units, where they bend, products of two, and waves. A wave is a sine of
a sum of inputs, but for a parabola in the place of each of its arcs.
"""

from __future__ import annotations

import math

from ...compiling.kernels import exact_inlined, exact_separate
from ...records import Float64s
from .records import (
    ADDITIVE,
    FIRST_INPUT,
    IDLE,
    N_ARMS,
    N_BENDS,
    SIZE,
    SIZES,
    TARGET,
    WEIGHT,
    Design,
    Ridges,
)

N_LATEST = 512
# Rows of either kind by which inputs are measured.
N_MEASURED = 256
# A normal's quartiles are so many standard deviations apart, and its tails of 2 %.
OF_QUARTILES = 1.349
OF_TAILS = 4.107


@exact_inlined
def fill_row(ridges: Ridges, row: Float64s, inputs: Float64s, weight: float) -> None:
    """Keep a sample, with the targets that the regressions learn."""
    row[TARGET] = ridges.targets[ADDITIVE]
    row[SIZE] = ridges.targets[SIZES]
    row[WEIGHT] = weight
    for i in range(ridges.n_inputs):
        row[FIRST_INPUT + i] = inputs[i]


@exact_inlined
def keep_row(ridges: Ridges, inputs: Float64s, weight: float) -> None:
    """Keep a sample in the ring and, where its turn is, among those of all of the past."""
    i = ridges.n_samples
    fill_row(ridges, ridges.latest_row(i % N_LATEST), inputs, weight)
    if i % ridges.stride > 0:
        return
    if ridges.n_kept == ridges.kept_capacity:
        # Every second one is left.
        half = ridges.n_kept // 2
        for j in range(1, half):
            row, other = ridges.kept_row(j), ridges.kept_row(2 * j)
            for k in range(ridges.row_length):
                row[k] = other[k]
        ridges.n_kept = half
        ridges.stride = 2 * ridges.stride
        if ridges.stage != IDLE:
            # The rows that it is made of have been moved.
            ridges.stage, ridges.next_design = IDLE, i + 1
    fill_row(ridges, ridges.kept_row(ridges.n_kept), inputs, weight)
    ridges.n_kept += 1


@exact_inlined
def n_measured_of(ridges: Ridges) -> int:
    """Return how many rows are measured."""
    return min(ridges.kept_before, N_MEASURED) + min(ridges.n_before, N_MEASURED)


@exact_inlined
def measured_row(ridges: Ridges, j: int) -> Float64s:
    """Return one of them: some of all of the past, then the latest ones."""
    n = min(ridges.kept_before, N_MEASURED)
    if j < n:
        return ridges.kept_row(j * ridges.kept_before // n)
    return ridges.latest_row((ridges.n_before - 1 - (j - n)) % N_LATEST)


# Measuring inputs.


@exact_inlined
def sort(values: Float64s, n: int) -> None:
    """Sort numbers (Shell 1959, with the gaps of Ciura 2001)."""
    for gap in (301, 132, 57, 23, 10, 4, 1):
        for i in range(gap, n):
            value, j = values[i], i
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value


@exact_inlined
def quantile(values: Float64s, n: int, part: float) -> float:
    """Return a quantile of sorted numbers, between two of them."""
    place = part * (n - 1)
    i = min(int(place), n - 1)
    following = values[min(i + 1, n - 1)]
    return values[i] + (place - i) * (following - values[i])


@exact_separate
def measure(ridges: Ridges, design: Design, i: int) -> None:
    """Find the centre of an input and its unit, and where it may bend."""
    values, n = ridges.values, 0
    design.centres[i], design.rates[i] = 0.0, 0.0
    if ridges.ignored[i]:
        return
    for j in range(n_measured_of(ridges)):
        value = measured_row(ridges, j)[FIRST_INPUT + i]
        value = ridges.absent if value != value else value
        if value == value:
            values[n] = value
            n += 1
    if n < 2:
        return
    sort(values, n)
    centre = quantile(values, n, 0.5)
    spread = (quantile(values, n, 0.75) - quantile(values, n, 0.25)) / OF_QUARTILES
    spread = max(spread, (quantile(values, n, 0.98) - quantile(values, n, 0.02)) / OF_TAILS)
    if not spread > 0.0:
        # Nearly all are the same: the geometric mean of the mean deviation and the range, which is
        # the standard deviation where there are two values.
        total = 0.0
        for j in range(n):
            total += abs(values[j] - centre)
        spread = math.sqrt(total / n) * math.sqrt(values[n - 1] - values[0])
    rate = 1.0 / spread if spread > 0.0 else 0.0
    if 0.0 < rate < math.inf:
        design.centres[i], design.rates[i] = centre, rate
        for q in range(N_BENDS):
            bend = quantile(values, n, (q + 1.0) / (N_BENDS + 1.0))
            design.bends[N_BENDS * i + q] = (bend - centre) * rate


# What stands for a second input: the column is the first one, or what that exceeds its knot by.
ITSELF, BEND = -1, -2
# Largest size of an input in its units.
LARGEST = 5.0


@exact_inlined
def in_units(ridges: Ridges, design: Design, inputs: Float64s, i: int) -> float:
    """Return an input in its units, within bounds; NaN where it is missing."""
    value = inputs[i]
    if value != value:
        value = ridges.absent
    found = (value - design.centres[i]) * design.rates[i]
    if found > LARGEST:
        return LARGEST
    return -LARGEST if found < -LARGEST else found


@exact_inlined
def column_of(first: float, second: float, kind: int, knot: float) -> float:
    """Return a column before it is centred and scaled, of its inputs in their units.

    `kind` is what the column has as its second input.
    """
    if kind == ITSELF:
        return first
    if kind == BEND:
        return 0.0 if first < knot else first - knot
    return first * second


@exact_inlined
def wave(turns: float) -> float:
    """Return the value of a wave after so many turns: two parabolas, from -1 to 1."""
    if turns != turns:
        return turns
    place = turns - math.floor(turns + 0.5)
    return place * (8.0 - 16.0 * abs(place))


@exact_inlined
def wave_of(design: Design, w: int, units: Float64s) -> float:
    """Return a wave of inputs in their units."""
    turns = design.phases[w]
    for a in range(N_ARMS * w, N_ARMS * w + design.arms[w]):
        turns += design.arm_factors[a] * units[design.arm_inputs[a]]
    return wave(turns)


@exact_inlined
def standardized(design: Design, c: int, raw: float) -> float:
    """Return a column in standard deviations from its mean; at its mean where it is missing."""
    found = (raw - design.means[c]) * design.factors[c]
    return found if found == found else 0.0


@exact_separate
def make_columns(ridges: Ridges, design: Design, inputs: Float64s, out: Float64s) -> None:
    """Write the columns of a sample."""
    units, n_additive = ridges.units, design.n_additive
    for i in range(design.n_inputs):
        units[i] = in_units(ridges, design, inputs, i)
    out[0] = 1.0
    for c in range(1, n_additive):
        first, kind = units[design.firsts[c]], design.seconds[c]
        second = units[kind] if kind >= 0 else 0.0
        out[c] = standardized(design, c, column_of(first, second, kind, design.knots[c]))
    for w in range(design.n_columns - n_additive):
        c = n_additive + w
        out[c] = standardized(design, c, wave_of(design, w, units))
