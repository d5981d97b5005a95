"""How designs are made while the stream goes on, from the rows that have been kept.

It takes several calls, of bounded time each: inputs are measured, columns are chosen, waves are
drawn, and rows are replayed, first the latest ones. Then the design takes the place of the one in
use. The first are made after 8, 16, 32 samples and so on; when not all rows are kept any more, one
is made only where inputs have moved.
"""

from __future__ import annotations

from ...compiling.kernels import exact_inlined, exact_separate
from .choosing import COLUMNS_PER_ROW, choose, differs
from .columns import make_columns
from .drawing import N_DRAWN, N_EXAMINED, add_wave, note_units
from .records import (
    ALL,
    CHOOSING,
    DRAWING,
    FIRST_INPUT,
    IDLE,
    LATE,
    LATEST,
    MEASURING,
    N_RIDGES,
    N_SOLVED,
    N_WAVES,
    REPLAYING,
    SIZE,
    TARGET,
    WEIGHT,
    Design,
    Ridges,
)
from .rows import N_LATEST, measure, n_measured_of
from .solving import add_row, solve_all

# What a call may spend on designs, in operations, and rows that it replays at least.
BUDGET = 150_000
LEAST_ROWS = 4
# Samples to the second design, and after a new input to the next one.
FIRST_GAP = 8
# Of so few samples a call makes a design of them all.
ROWS_AT_ONCE = 64


# Replaying rows.


@exact_separate
def replay(ridges: Ridges, design: Design) -> None:
    """Add the next row: first come the latest ones, before they are overwritten."""
    n, i = min(ridges.n_before, N_LATEST), ridges.cursor
    columns = ridges.columns.part(0, ridges.capacity)
    is_late = i < n
    time = ridges.n_before - n + i
    row = ridges.latest_row(time % N_LATEST) if is_late else ridges.kept_row(i - n)
    make_columns(ridges, design, row.part(FIRST_INPUT, ridges.n_inputs), columns)
    # One of the first may be wild.
    target = min(max(row[TARGET], design.fence), design.upper_fence)
    for k in range(N_SOLVED):
        ridges.targets[k] = target if k < N_RIDGES else row[SIZE]
    if is_late:
        age = ridges.n_samples - 1 - time
        add_row(design, columns, ridges.targets, row[WEIGHT], LATE, age)
        add_row(design, columns, ridges.targets, row[WEIGHT], LATEST, age)
    else:
        weight = row[WEIGHT] * ridges.stride
        add_row(design, columns, ridges.targets, weight, ALL, 0)
    ridges.cursor += 1


@exact_inlined
def begin_replay(ridges: Ridges, design: Design) -> None:
    """Begin the sums of a design whose columns have been chosen."""
    n = design.n_columns
    for i in range(n * (n + 1) // 2):
        design.all_gram[i] = design.late_gram[i] = 0.0
    for i in range((1 + design.n_linear) * (2 + design.n_linear) // 2):
        design.latest_gram[i] = 0.0
    for k in range(N_SOLVED):
        moments = design.moments_of(k)
        for j in range(n):
            moments[j] = 0.0
    ridges.n_before, ridges.kept_before = ridges.n_samples, ridges.n_kept
    ridges.stage, ridges.cursor = REPLAYING, 0


# All of it, by calls.


@exact_inlined
def begin_design(ridges: Ridges, design: Design) -> None:
    """Begin another design."""
    design.n_inputs = ridges.n_inputs
    ridges.n_before, ridges.kept_before = ridges.n_samples, ridges.n_kept
    ridges.stage, ridges.cursor = MEASURING, 0
    ridges.next_design = ridges.n_samples + ridges.gap
    ridges.gap = 2 * ridges.gap


@exact_separate
def go_on(ridges: Ridges) -> None:
    """Go on with the design that is not in use, within a budget."""
    active, design = ridges.designs[ridges.active], ridges.designs[1 - ridges.active]
    if ridges.stage == IDLE and ridges.n_samples >= ridges.next_design:
        begin_design(ridges, design)
    spent = 0
    while ridges.stage == MEASURING and spent < BUDGET:
        if ridges.cursor < design.n_inputs:
            measure(ridges, design, ridges.cursor)
            spent += 12 * n_measured_of(ridges)
            ridges.cursor += 1
        else:
            is_full = ridges.n_samples > ridges.kept_capacity
            ridges.stage = CHOOSING if differs(design, active) or not is_full else IDLE
    if ridges.stage == CHOOSING and 2 * spent < BUDGET:
        choose(ridges, design, active)
        ridges.stage, ridges.cursor = DRAWING, 0
        spent += 0 if ridges.n_samples <= ROWS_AT_ONCE else BUDGET
    n_waves = min(int(COLUMNS_PER_ROW * n_measured_of(ridges)), N_WAVES)
    if ridges.stage == DRAWING and spent < BUDGET:
        note_units(ridges, design)
        spent += N_EXAMINED * design.n_inputs
    while ridges.stage == DRAWING and spent < BUDGET:
        if ridges.cursor < n_waves and design.n_linear > 0:
            add_wave(ridges, design)
            spent += 4 * N_DRAWN * N_EXAMINED
            ridges.cursor += 1
        else:
            begin_replay(ridges, design)
    n_rows = min(ridges.n_before, N_LATEST) + ridges.kept_before
    done = 0
    while ridges.stage == REPLAYING and (spent < BUDGET or done < LEAST_ROWS):
        if ridges.cursor < n_rows:
            replay(ridges, design)
            spent += design.n_columns * (design.n_columns + 1) // 2
            done += 1
        else:
            ridges.active = 1 - ridges.active
            ridges.stage = IDLE
            solve_all(ridges, design)
