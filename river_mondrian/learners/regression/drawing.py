"""How waves are drawn: each is the best of a few random ones.

It counts by how much it explains of the errors of the additive regression. Its inputs are drawn by
what they have explained so far.
"""

from __future__ import annotations

import math

from ...compiling.kernels import exact_inlined, exact_separate
from ...partitions.splitmix import mixed, state_after, uniform_of
from .choosing import LEAST_VARIANCE
from .columns import in_units, wave_of
from .records import (
    FIRST_INPUT,
    N_ARMS,
    N_WAVES,
    Candidate,
    Design,
    Ridges,
)
from .rows import measured_row, n_measured_of

# Waves of which the best is taken, turns per unit of an input, in octaves from the lowest, and the
# part of inputs that is drawn by what they explain.
N_DRAWN = 8
LOWEST, N_OCTAVES = 0.08, 2.5
BY_INTEREST = 0.7
# Rows by which waves are examined, which are some of those by which inputs are measured.
N_EXAMINED = 256


@exact_inlined
def n_examined_of(ridges: Ridges) -> int:
    """Return by how many rows waves are examined."""
    return min(n_measured_of(ridges), N_EXAMINED)


@exact_inlined
def examined_row(ridges: Ridges, j: int) -> int:
    """Return which of the rows that are measured is the j-th of these."""
    return j * n_measured_of(ridges) // n_examined_of(ridges)


@exact_separate
def note_units(ridges: Ridges, design: Design) -> None:
    """Note the inputs of the rows by which waves are examined, in their units."""
    d = design.n_inputs
    for j in range(n_examined_of(ridges)):
        row = measured_row(ridges, examined_row(ridges, j))
        inputs, units = row.part(FIRST_INPUT, ridges.n_inputs), ridges.row_units.part(d * j, d)
        for i in range(d):
            units[i] = in_units(ridges, design, inputs, i)


@exact_inlined
def draw(ridges: Ridges) -> float:
    """Return a uniform of (0, 1)."""
    bits = mixed(ridges.draws)
    ridges.draws = state_after(ridges.draws, 1)
    return uniform_of(bits)


@exact_inlined
def draw_input(ridges: Ridges, design: Design) -> int:
    """Draw an input that has a unit, by what it has explained or evenly."""
    by_interest = draw(ridges) < BY_INTEREST
    total = 0.0
    for i in range(design.n_inputs):
        total += design.interest[i] if by_interest else design.rates[i] > 0.0
    left, found = draw(ridges) * total, 0
    for i in range(design.n_inputs):
        own = design.interest[i] if by_interest else 1.0
        if design.rates[i] > 0.0 and own > 0.0:
            found = i
            left -= own
            if left < 0.0:
                break
    return found


@exact_separate
def draw_wave(ridges: Ridges, design: Design, w: int) -> None:
    """Draw a wave: of two inputs, of three or of more, each of which may come twice."""
    most = min(design.n_inputs, N_ARMS)
    kind = int(3.0 * draw(ridges))
    n = most if kind == 2 else min(kind + 2, most)
    # Turns per unit, over the square root of the number of inputs.
    scale = LOWEST * 2.0 ** (N_OCTAVES * draw(ridges)) / math.sqrt(n)
    for a in range(N_ARMS * w, N_ARMS * w + n):
        is_each = kind == 2 and design.n_inputs <= N_ARMS
        i = a - N_ARMS * w if is_each else draw_input(ridges, design)
        # Nearly normal.
        normal = 2.0 * (draw(ridges) + draw(ridges) + draw(ridges) - 1.5)
        design.arm_inputs[a], design.arm_factors[a] = i, scale * normal
    design.arms[w], design.phases[w] = n, draw(ridges)


@exact_separate
def examine_wave(ridges: Ridges, design: Design, w: int, candidate: Candidate) -> None:
    """Find a wave's mean and spread, and what it explains of the errors."""
    errors, n, d = ridges.errors, n_examined_of(ridges), design.n_inputs
    h_, r_, hh, rh, known = 0.0, 0.0, 0.0, 0.0, 0
    for j in range(n):
        units = ridges.row_units.part(d * j, d)
        h, r = wave_of(design, w, units), errors[examined_row(ridges, j)]
        if h == h:
            known += 1
            h_ += h
            r_ += r
            hh += h * h
            rh += r * h
    candidate.score = -1.0
    if known < 2:
        return
    mean = h_ / known
    variance = hh / known - mean * mean
    if variance > LEAST_VARIANCE:
        candidate.mean, candidate.factor = mean, 1.0 / math.sqrt(variance)
        explained = rh - r_ * mean
        candidate.score = explained * explained / (variance * known)


@exact_separate
def add_wave(ridges: Ridges, design: Design) -> None:
    """Add the best of a few waves, where one varies."""
    w = design.n_columns - design.n_additive
    best, other = ridges.candidates[0], ridges.candidates[1]
    best.score = -1.0
    for _ in range(N_DRAWN):
        # In the last place, behind all waves.
        draw_wave(ridges, design, N_WAVES)
        examine_wave(ridges, design, N_WAVES, other)
        if other.score > best.score:
            best.mean, best.factor, best.score = other.mean, other.factor, other.score
            for a in range(N_ARMS):
                design.arm_inputs[N_ARMS * w + a] = design.arm_inputs[N_ARMS * N_WAVES + a]
                design.arm_factors[N_ARMS * w + a] = design.arm_factors[N_ARMS * N_WAVES + a]
            design.arms[w], design.phases[w] = design.arms[N_WAVES], design.phases[N_WAVES]
    if best.score >= 0.0:
        c = design.n_columns
        design.means[c], design.factors[c] = best.mean, best.factor
        design.n_columns = c + 1
