"""The columns of a linear model: inputs in robust units, where they bend, and their products."""

from __future__ import annotations

from ...compiling.kernels import exact_inlined
from ...records import Float64s
from .records import Design, Ridges

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
def make_columns(ridges: Ridges, design: Design, inputs: Float64s, out: Float64s) -> None:
    """Write the columns of a sample; one that needs a missing input is at its mean, 0."""
    units = ridges.units
    for i in range(design.n_inputs):
        units[i] = in_units(ridges, design, inputs, i)
    out[0] = 1.0
    for c in range(1, design.n_columns):
        first, kind = units[design.firsts[c]], design.seconds[c]
        second = units[kind] if kind >= 0 else 0.0
        raw = column_of(first, second, kind, design.knots[c])
        found = (raw - design.means[c]) * design.factors[c]
        out[c] = found if found == found else 0.0
