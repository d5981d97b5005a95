"""The columns of a linear model: inputs in robust units, where they bend, products, and waves.

A wave is a sinus of a sum of inputs, but for a parabola in the place of each of its arcs.
"""

from __future__ import annotations

import math

from ...compiling.kernels import exact_inlined, exact_separate
from ...records import Float64s
from .records import N_ARMS, Design, Ridges

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
