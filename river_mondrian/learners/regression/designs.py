"""Construction of designs from stored rows while the stream continues.

A design is a set of columns computed from the inputs (`records.py`). Its construction is spread
over several calls of bounded time. First, inputs are measured and columns are chosen. Then random
waves (random Fourier features) are drawn, and stored rows are added to the sums of products, the
latest rows first. Finally, the new design replaces the design in use. Designs are made after 8, 16,
32 samples and so on. After rows have been dropped, a design is made only if inputs are new or have
new centres or units.

Bends (hinge functions of an input) and products are ranked by their reduction of the linear
regression's squared errors. The reduction by a bend excludes the reduction by its input alone. Each
added wave is the best of several random waves: it reduces the additive regression's squared errors
most. Waves have all inputs, or drawn inputs. Most draws have probabilities proportional to the
scores of the inputs' columns.
"""

import math

from ...compiling.kernels import helper, link_by_name
from ...elementary import mixed, sort, state_after, uniform_of
from . import records, solving
from .records import Candidate, Design, RidgeExpertsRecord

# The compiler must not reorder sums, because batches and single samples must have equal results.
ORDERED_SUMS = True

# Bends and products are added up to this number of columns other than waves. At least LEAST_OTHERS
# bends and products may follow the linear columns, even beyond this number.
MOST_COLUMNS = 64
LEAST_OTHERS = 8
# Largest number of bends and products, and largest number of waves, per measured row.
COLUMNS_PER_ROW = 0.25
# Least variance of a column, in the units of its inputs.
LEAST_VARIANCE = 1e-3
# A new design is needed if a centre moved by more than MOVED units, or a unit changed by more than
# the factor RESCALED.
MOVED, RESCALED = 0.5, 1.5
# Replayed targets are clipped at this number of interquartile ranges beyond the quartiles.
FENCES = 10.0


@helper
def differs(design: Design, other: Design) -> bool:
    """Return whether the inputs of two designs differ in number, or in centres or units.

    Small differences of centres and units do not count (`MOVED`, `RESCALED`).
    """
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


@helper
def find_errors(ridges: RidgeExpertsRecord, active: Design, k: int) -> None:
    """Write the errors of a regression on the measured rows to `ridges.errors`."""
    columns, errors = ridges.columns.part(0, ridges.capacity), ridges.errors
    solution, n = ridges.solution(k), active.width_of(k)
    for j in range(solving.n_measured_of(ridges)):
        row = solving.measured_row(ridges, j)
        inputs = row.part(records.FIRST_INPUT, ridges.n_inputs)
        solving.make_columns(ridges, active, inputs, columns)
        errors[j] = row[records.TARGET] - active.shift - solving.dot(solution, columns, n)


@link_by_name
def examine(ridges: RidgeExpertsRecord, design: Design, candidate: Candidate) -> None:
    """Set a candidate's mean, factor and score, which is the reduction of squared errors.

    A column that is nearly constant has factor 0 and score -1.
    """
    first, second = candidate.first, candidate.second
    errors, n, rows = ridges.errors, 0, solving.n_measured_of(ridges)
    # Sums over the rows: the column h, its input z, the error r, and products of these three.
    h_, z_, r_, hh, zz, rh, rz, zh = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(rows):
        inputs = solving.measured_row(ridges, j).part(records.FIRST_INPUT, ridges.n_inputs)
        z = solving.in_units(design, inputs, first)
        second_input = solving.in_units(design, inputs, second) if second >= 0 else 0.0
        h, r = solving.column_of(z, second_input, second, candidate.knot), errors[j]
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
    candidate.mean, candidate.factor = mean, 1.0 / math.sqrt(variance)
    explained, left = rh - r_ * mean, hh - h_ * mean
    of_input = zz - z_ * z_ / n
    if second == records.BEND and of_input > 0.0:
        # The input's part is subtracted, because the input already has a column.
        slope = (zh - z_ * mean) / of_input
        explained -= slope * (rz - r_ * z_ / n)
        left -= slope * (zh - z_ * mean)
    if left > LEAST_VARIANCE * n:
        candidate.score = explained * explained / left


@helper
def best_of(ridges: RidgeExpertsRecord, n: int) -> int:
    """Return the candidate with the largest score, or -1 if no score is above 0."""
    best, score = -1, 0.0
    for c in range(n):
        if ridges.candidates[c].score > score:
            best, score = c, ridges.candidates[c].score
    return best


@helper
def add_column(design: Design, candidate: Candidate) -> None:
    """Add a column, and add its score to the `interest` of its inputs."""
    c = design.n_columns
    design.firsts[c], design.seconds[c] = candidate.first, candidate.second
    design.knots[c], design.means[c] = candidate.knot, candidate.mean
    design.factors[c] = candidate.factor
    design.n_columns = c + 1
    gain = max(candidate.score, 0.0)
    design.interest[candidate.first] = design.interest[candidate.first] + gain
    if candidate.second >= 0:
        design.interest[candidate.second] = design.interest[candidate.second] + gain


@helper
def propose(
    candidates: int, ridges: RidgeExpertsRecord, first: int, second: int, knot: float
) -> int:
    """Add a candidate, and return the new number of candidates."""
    candidate = ridges.candidates[candidates]
    candidate.first, candidate.second, candidate.knot = first, second, knot
    return candidates + 1


@link_by_name
def add_linear(ridges: RidgeExpertsRecord, design: Design) -> None:
    """Add columns of inputs, at most `MOST_LINEAR`. Prefer inputs with large scores."""
    n = 0
    for i in range(design.n_inputs):
        if design.rates[i] > 0.0:
            n = propose(n, ridges, i, records.ITSELF, 0.0)
    for c in range(n):
        examine(ridges, design, ridges.candidates[c])
    n_left = min(n, records.MOST_LINEAR)
    for c in range(n):
        if n <= records.MOST_LINEAR:
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


@link_by_name
def add_others(ridges: RidgeExpertsRecord, design: Design) -> None:
    """Add the bends and products that reduce the linear regression's squared errors most."""
    n, n_inputs = 0, design.n_inputs
    if n_inputs > records.MOST_BENT:
        return
    for i in range(n_inputs):
        before = -math.inf
        for q in range(records.N_BENDS):
            bend = design.bends[records.N_BENDS * i + q]
            if design.rates[i] > 0.0 and bend > before:
                n = propose(n, ridges, i, records.BEND, bend)
                before = bend
    for i in range(n_inputs if n_inputs <= records.MOST_MULTIPLIED else 0):
        for j in range(i):
            if design.rates[i] > 0.0 and design.rates[j] > 0.0:
                n = propose(n, ridges, i, j, 0.0)
    for c in range(n):
        examine(ridges, design, ridges.candidates[c])
    room = max(MOST_COLUMNS - design.n_columns, LEAST_OTHERS)
    room = min(room, int(COLUMNS_PER_ROW * solving.n_measured_of(ridges)))
    for _ in range(room):
        best = best_of(ridges, n)
        if best < 0:
            return
        add_column(design, ridges.candidates[best])
        ridges.candidates[best].score = -1.0


@link_by_name
def choose(ridges: RidgeExpertsRecord, design: Design, active: Design) -> None:
    """Choose all columns except waves, for a design whose inputs have been measured."""
    values, n = ridges.values, solving.n_measured_of(ridges)
    for j in range(n):
        values[j] = solving.measured_row(ridges, j)[records.TARGET]
    sort(values, n)
    design.shift = solving.quantile(values, n, 0.5)
    design.low = values[0]
    lower, upper = solving.quantile(values, n, 0.25), solving.quantile(values, n, 0.75)
    reach = FENCES * (upper - lower)
    design.fence, design.upper_fence = -math.inf, math.inf
    if reach > 0.0:
        design.fence, design.upper_fence = lower - reach, upper + reach
        design.low = max(design.low, design.fence)
    begins = max(lower - design.low, 0.1 * (design.shift - design.low))
    begins = begins if begins > 0.0 else values[n - 1] - design.low
    design.unit = begins if begins > 0.0 else 1.0
    design.most = solving.logarithm_of(design, min(values[n - 1], design.upper_fence)) + 0.5
    for j in range(n):
        ridges.errors[j] = solving.measured_row(ridges, j)[records.TARGET] - design.shift
    for i in range(design.n_inputs):
        design.interest[i] = 0.0
    design.n_columns = 1
    add_linear(ridges, design)
    find_errors(ridges, active, records.LINEAR)
    add_others(ridges, design)
    design.n_additive = design.n_columns
    find_errors(ridges, active, records.ADDITIVE)


# Number of waves drawn for each added wave. Lowest frequency in turns per unit of an input, and
# range of frequencies in octaves. Fraction of draws of an input in proportion to `Design.interest`;
# other draws are uniform.
N_DRAWN = 8
LOWEST, N_OCTAVES = 0.08, 2.5
BY_INTEREST = 0.7


@helper
def n_examined_of(ridges: RidgeExpertsRecord) -> int:
    """Return the number of rows used to examine waves."""
    return min(solving.n_measured_of(ridges), records.N_EXAMINED)


@helper
def examined_row(ridges: RidgeExpertsRecord, j: int) -> int:
    """Return the index of the j-th examined row among the measured rows."""
    return j * solving.n_measured_of(ridges) // n_examined_of(ridges)


@link_by_name
def note_units(ridges: RidgeExpertsRecord, design: Design) -> None:
    """Write the inputs of the rows used to examine waves, in units of the inputs."""
    d = design.n_inputs
    for j in range(n_examined_of(ridges)):
        row, units = solving.measured_row(ridges, examined_row(ridges, j)), ridges.row_units
        inputs = row.part(records.FIRST_INPUT, ridges.n_inputs)
        for i in range(d):
            units[d * j + i] = solving.in_units(design, inputs, i)


@helper
def draw(ridges: RidgeExpertsRecord) -> float:
    """Return a random number, uniform on (0, 1)."""
    bits = mixed(ridges.draws)
    ridges.draws = state_after(ridges.draws, 1)
    return uniform_of(bits)


@helper
def draw_input(ridges: RidgeExpertsRecord, design: Design) -> int:
    """Return a random input with a unit, drawn in proportion to `interest` or uniformly."""
    by_interest = draw(ridges) < BY_INTEREST
    total = 0.0
    for i in range(design.n_inputs):
        total += design.interest[i] if by_interest else design.rates[i] > 0.0
    left, drawn = draw(ridges) * total, 0
    for i in range(design.n_inputs):
        share = design.interest[i] if by_interest else 1.0
        if design.rates[i] > 0.0 and share > 0.0:
            drawn = i
            left -= share
            if left < 0.0:
                break
    return drawn


@link_by_name
def draw_wave(ridges: RidgeExpertsRecord, design: Design, w: int) -> None:
    """Draw a random wave of two, three or `N_ARMS` inputs, or of all inputs if there are fewer.

    A wave of all inputs has each input once. In other waves, inputs may repeat.
    """
    n_arms = min(design.n_inputs, records.N_ARMS)
    kind = int(3.0 * draw(ridges))
    n = n_arms if kind == 2 else min(kind + 2, n_arms)
    # A random frequency in turns per unit, divided by the square root of the number of inputs.
    scale = LOWEST * 2.0 ** (N_OCTAVES * draw(ridges)) / math.sqrt(n)
    for a in range(records.N_ARMS * w, records.N_ARMS * w + n):
        is_each = kind == 2 and design.n_inputs <= records.N_ARMS
        i = a - records.N_ARMS * w if is_each else draw_input(ridges, design)
        # The sum of three uniform numbers is nearly normal.
        normal = 2.0 * (draw(ridges) + draw(ridges) + draw(ridges) - 1.5)
        design.arm_inputs[a], design.arm_factors[a] = i, scale * normal
    design.arms[w], design.phases[w] = n, draw(ridges)


@link_by_name
def examine_wave(ridges: RidgeExpertsRecord, design: Design, w: int, candidate: Candidate) -> None:
    """Set a wave's mean, factor and score, which is the reduction of squared errors."""
    errors, n, d = ridges.errors, n_examined_of(ridges), design.n_inputs
    h_, r_, hh, rh, known = 0.0, 0.0, 0.0, 0.0, 0
    for j in range(n):
        units = ridges.row_units.part(d * j, d)
        h, r = solving.wave_of(design, w, units), errors[examined_row(ridges, j)]
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


@link_by_name
def add_wave(ridges: RidgeExpertsRecord, design: Design) -> None:
    """Add the best of a few random waves, unless all are nearly constant."""
    w = design.n_columns - design.n_additive
    best, proposed = ridges.candidates[0], ridges.candidates[1]
    best.score = -1.0
    for _ in range(N_DRAWN):
        # The proposed wave is in the row after all waves, because it replaces no wave yet.
        draw_wave(ridges, design, records.N_WAVES)
        examine_wave(ridges, design, records.N_WAVES, proposed)
        if proposed.score > best.score:
            best.mean, best.factor, best.score = proposed.mean, proposed.factor, proposed.score
            for a in range(records.N_ARMS):
                target, drawn = records.N_ARMS * w + a, records.N_ARMS * records.N_WAVES + a
                design.arm_inputs[target] = design.arm_inputs[drawn]
                design.arm_factors[target] = design.arm_factors[drawn]
            design.arms[w] = design.arms[records.N_WAVES]
            design.phases[w] = design.phases[records.N_WAVES]
    if best.score >= 0.0:
        c = design.n_columns
        design.means[c], design.factors[c] = best.mean, best.factor
        design.n_columns = c + 1


# A call stops work on a design after this number of operations, but a replay adds at least
# LEAST_ROWS rows in a call.
BUDGET = 150_000
LEAST_ROWS = 4
# Number of samples before the first design, and from the first to the second design.
FIRST_GAP = 8
# Up to this number of samples, one call may choose columns, draw waves and replay rows.
ROWS_AT_ONCE = 64


# Replaying rows.


@link_by_name
def replay(ridges: RidgeExpertsRecord, design: Design) -> None:
    """Add the next row to the sums; the latest rows come first, before the ring overwrites them."""
    n, i = min(ridges.n_before, records.N_LATEST), ridges.cursor
    columns = ridges.columns.part(0, ridges.capacity)
    is_late = i < n
    time = ridges.n_before - n + i
    row = ridges.latest_row(time % records.N_LATEST) if is_late else ridges.kept_row(i - n)
    solving.make_columns(ridges, design, row.part(records.FIRST_INPUT, ridges.n_inputs), columns)
    # The target is clipped, because early targets may be outliers.
    target = min(max(row[records.TARGET], design.fence), design.upper_fence)
    for k in range(records.N_SOLVED):
        ridges.targets[k] = target if k < records.N_RIDGES else row[records.SIZE]
    weight = row[records.WEIGHT]
    if is_late:
        age = ridges.n_samples - 1 - time
        solving.add_row(design, columns, ridges.targets, weight, records.LATE, age)
        solving.add_row(design, columns, ridges.targets, weight, records.LATEST, age)
    else:
        solving.add_row(design, columns, ridges.targets, weight * ridges.stride, records.ALL, 0)
    ridges.cursor += 1


@helper
def begin_replay(ridges: RidgeExpertsRecord, design: Design) -> None:
    """Clear the sums of a design with chosen columns, and begin the replay."""
    for s in range(records.N_SUMS):
        n, gram = design.n_summed(s), design.gram(s)
        for i in range(n * (n + 1) // 2):
            gram[i] = 0.0
    for k in range(records.N_SOLVED):
        moments = design.moments_of(k)
        for j in range(design.n_columns):
            moments[j] = 0.0
    ridges.n_before, ridges.kept_before = ridges.n_samples, ridges.n_kept
    ridges.stage, ridges.cursor = records.REPLAYING, 0


# All stages, spread over several calls.


@link_by_name
def continue_design(ridges: RidgeExpertsRecord) -> None:
    """Continue to build the inactive design, within a budget of operations."""
    active, design = ridges.designs[ridges.active], ridges.designs[1 - ridges.active]
    if ridges.stage == records.IDLE and ridges.n_samples >= ridges.next_design:
        design.n_inputs = ridges.n_inputs
        ridges.n_before, ridges.kept_before = ridges.n_samples, ridges.n_kept
        ridges.stage, ridges.cursor = records.MEASURING, 0
        ridges.next_design = ridges.n_samples + ridges.gap
        ridges.gap = 2 * ridges.gap
    spent = 0
    while ridges.stage == records.MEASURING and spent < BUDGET:
        if ridges.cursor < design.n_inputs:
            solving.measure(ridges, design, ridges.cursor)
            spent += 12 * solving.n_measured_of(ridges)
            ridges.cursor += 1
        else:
            is_full = ridges.n_samples > ridges.kept_capacity
            is_new = differs(design, active) or not is_full
            ridges.stage = records.CHOOSING if is_new else records.IDLE
    if ridges.stage == records.CHOOSING and 2 * spent < BUDGET:
        choose(ridges, design, active)
        ridges.stage, ridges.cursor = records.DRAWING, 0
        spent += 0 if ridges.n_samples <= ROWS_AT_ONCE else BUDGET
    n_waves = min(int(COLUMNS_PER_ROW * solving.n_measured_of(ridges)), records.N_WAVES)
    if ridges.stage == records.DRAWING and spent < BUDGET:
        note_units(ridges, design)
        spent += records.N_EXAMINED * design.n_inputs
    while ridges.stage == records.DRAWING and spent < BUDGET:
        if ridges.cursor < n_waves and design.n_linear > 0:
            add_wave(ridges, design)
            spent += 4 * N_DRAWN * records.N_EXAMINED
            ridges.cursor += 1
        else:
            begin_replay(ridges, design)
    n_rows = min(ridges.n_before, records.N_LATEST) + ridges.kept_before
    done = 0
    while ridges.stage == records.REPLAYING and (spent < BUDGET or done < LEAST_ROWS):
        if ridges.cursor < n_rows:
            replay(ridges, design)
            spent += design.n_columns * (design.n_columns + 1) // 2
            done += 1
        else:
            ridges.active = 1 - ridges.active
            ridges.stage = records.IDLE
            solving.solve_all(ridges, design)
