"""Sums of products, and the ridge regressions that are solved from these sums.

Each sample adds products to the sums, and old products fade by factors. No sample is subtracted, so
rounding errors do not build up as in a running inverse. Inner loops update the elements of a row
independently, so vector units can process them although sums must not be reordered.
"""

import math

from ...compiling.kernels import helper, link_by_name
from ...elementary import sort
from ...records import Float64s
from . import records
from .records import Design, RidgeExpertsRecord

# The compiler must not reorder sums, because batches and single samples must have equal results.
ORDERED_SUMS = True

# Stored rows of the stream, and the columns of a linear model that are computed from a row. One of
# every `stride` rows of the whole stream is kept. The stride doubles when the memory is full. A
# ring has the latest rows. Measured rows come from both stores, at most N_MEASURED from each.
#
# Columns are a constant, inputs in robust units, bends of an input, products of two inputs, and
# waves. A wave approximates the sine of a phase plus a weighted sum of inputs, by a parabola for
# each half turn.


# Distance in standard deviations between the quartiles of a normal distribution, and between the
# 2 % and 98 % quantiles.
OF_QUARTILES = 1.349
OF_TAILS = 4.107


@helper
def fill_row(ridges: RidgeExpertsRecord, row: Float64s, inputs: Float64s, weight: float) -> None:
    """Write a sample to a row, with the target of `ADDITIVE` and the logarithm of the error."""
    row[records.TARGET], row[records.WEIGHT] = ridges.targets[records.ADDITIVE], weight
    row[records.SIZE] = ridges.targets[records.SIZES]
    for i in range(ridges.n_inputs):
        row[records.FIRST_INPUT + i] = inputs[i]


@helper
def keep_row(ridges: RidgeExpertsRecord, inputs: Float64s, weight: float) -> None:
    """Store a sample in the ring, and every `stride`-th sample also in the rows of the stream."""
    i = ridges.n_samples
    fill_row(ridges, ridges.latest_row(i % records.N_LATEST), inputs, weight)
    if i % ridges.stride > 0:
        return
    if ridges.n_kept == ridges.kept_capacity:
        # Every second row is dropped, because the memory is full.
        ridges.n_kept, ridges.stride = ridges.n_kept // 2, 2 * ridges.stride
        for j in range(1, ridges.n_kept):
            row, source = ridges.kept_row(j), ridges.kept_row(2 * j)
            for k in range(ridges.row_length):
                row[k] = source[k]
        if ridges.stage != records.IDLE:
            # The unfinished design starts again, because its source rows have moved.
            ridges.stage, ridges.next_design = records.IDLE, i + 1
    fill_row(ridges, ridges.kept_row(ridges.n_kept), inputs, weight)
    ridges.n_kept += 1


@helper
def n_measured_of(ridges: RidgeExpertsRecord) -> int:
    """Return the number of measured rows."""
    return min(ridges.kept_before, records.N_MEASURED) + min(ridges.n_before, records.N_MEASURED)


@helper
def measured_row(ridges: RidgeExpertsRecord, j: int) -> Float64s:
    """Return the j-th measured row; rows of the whole stream come before the latest rows."""
    n = min(ridges.kept_before, records.N_MEASURED)
    if j < n:
        return ridges.kept_row(j * ridges.kept_before // n)
    return ridges.latest_row((ridges.n_before - 1 - (j - n)) % records.N_LATEST)


# Measuring inputs.


@helper
def quantile(values: Float64s, n: int, part: float) -> float:
    """Return a quantile of sorted numbers, by linear interpolation."""
    place = part * (n - 1)
    i = min(int(place), n - 1)
    following = values[min(i + 1, n - 1)]
    return values[i] + (place - i) * (following - values[i])


@link_by_name
def measure(ridges: RidgeExpertsRecord, design: Design, i: int) -> None:
    """Find the centre, the unit and the possible bends of an input.

    An input has no unit if it is categorical, has fewer than two values, or has only equal values.
    """
    values, n = ridges.values, 0
    design.centres[i], design.rates[i] = 0.0, 0.0
    if ridges.ignored[i]:
        return
    for j in range(n_measured_of(ridges)):
        value = measured_row(ridges, j)[records.FIRST_INPUT + i]
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
        # Quantiles are useless if nearly all values are equal. If all other values are equal to
        # each other, the geometric mean of the mean deviation and the range approximates the
        # standard deviation.
        total = 0.0
        for j in range(n):
            total += abs(values[j] - centre)
        spread = math.sqrt(total / n) * math.sqrt(values[n - 1] - values[0])
    rate = 1.0 / spread if spread > 0.0 else 0.0
    if 0.0 < rate < math.inf:
        design.centres[i], design.rates[i] = centre, rate
        for q in range(records.N_BENDS):
            bend = quantile(values, n, (q + 1.0) / (records.N_BENDS + 1.0))
            design.bends[records.N_BENDS * i + q] = (bend - centre) * rate


# Bound on the distance of an input from its centre, in units of the input.
LARGEST = 5.0


@helper
def in_units(design: Design, inputs: Float64s, i: int) -> float:
    """Return the distance of an input from its centre in units, clipped at +-`LARGEST`.

    A missing input is NaN. An input without a unit becomes 0.
    """
    scaled = (inputs[i] - design.centres[i]) * design.rates[i]
    return LARGEST if scaled > LARGEST else -LARGEST if scaled < -LARGEST else scaled


@helper
def column_of(first: float, second: float, kind: int, knot: float) -> float:
    """Return a column's value before centring and scaling, from results of `in_units`.

    `kind` is the column's second input, BEND or ITSELF.
    """
    if kind == records.ITSELF:
        return first
    if kind == records.BEND:
        return 0.0 if first < knot else first - knot
    return first * second


@helper
def wave_of(design: Design, w: int, units: Float64s) -> float:
    """Return the value of a wave, from -1 to 1, or NaN if one of its inputs is missing.

    Each turn consists of two parabolas.
    """
    turns = design.phases[w]
    for a in range(records.N_ARMS * w, records.N_ARMS * w + design.arms[w]):
        turns += design.arm_factors[a] * units[design.arm_inputs[a]]
    if turns != turns:
        return turns
    place = turns - math.floor(turns + 0.5)
    return place * (8.0 - 16.0 * abs(place))


@helper
def standardized(design: Design, c: int, raw: float) -> float:
    """Return a column in standard deviations from its mean, or 0 if the column is missing."""
    scaled = (raw - design.means[c]) * design.factors[c]
    return scaled if scaled == scaled else 0.0


@link_by_name
def make_columns(
    ridges: RidgeExpertsRecord, design: Design, inputs: Float64s, out: Float64s
) -> None:
    """Write the columns of a sample."""
    units, n_additive = ridges.units, design.n_additive
    for i in range(design.n_inputs):
        units[i] = in_units(design, inputs, i)
    out[0] = 1.0
    for c in range(1, n_additive):
        first, kind = units[design.firsts[c]], design.seconds[c]
        second = units[kind] if kind >= 0 else 0.0
        out[c] = standardized(design, c, column_of(first, second, kind, design.knots[c]))
    for w in range(design.n_columns - n_additive):
        c = n_additive + w
        out[c] = standardized(design, c, wave_of(design, w, units))


# Prior precisions of weights, in samples of columns with variance 1. `OF_INTERCEPT` is for the
# intercept. For each regression, `WAVE_PENALTIES` is for waves, and `PENALTIES` for other columns.
OF_INTERCEPT = 0.01
PENALTIES = (1.0, 1.0, 1.0, 5.0, 1.0, 1.0, 20.0)
WAVE_PENALTIES = (0.0, 0.0, 0.0, 0.0, 5.0, 5.0, 0.0)
# For each regression: the regression whose weights are its prior mean, or -1 for a prior mean of 0.
PRIORS = (-1, records.LINEAR, -1, records.ADDITIVE, -1, -1, -1)
# Order of solutions: each regression comes after the regression whose weights are its prior mean.
ORDER = (
    records.LINEAR,
    records.ADDITIVE,
    records.WAVES,
    records.SIZES,
    records.LATEST_LINEAR,
    records.LATE_ADDITIVE,
)
# A regression that was solved after n samples waits for n / SOLVED_AFTER more samples, at most
# LONGEST_WAITS and at least 1. Then the regression is solved again.
SOLVED_AFTER = (30.0, 30.0, 30.0, 30.0, 10.0, 1.0, 10.0)
LONGEST_WAITS = (1 << 40, 4, 1 << 40, 16, 1 << 40, 0, 1 << 40)


@helper
def add_to_triangle(triangle: Float64s, n: int, columns: Float64s, fade: float, by: float) -> None:
    """Multiply a triangle by `fade`, and add `by` times the products of columns."""
    start = 0
    for j in range(n):
        row = triangle.part(start, j + 1)
        factor = by * columns[j]
        for k in range(j + 1):
            row[k] = fade * row[k] + factor * columns[k]
        start += j + 1


@helper
def add_to_moments(moments: Float64s, n: int, columns: Float64s, fade: float, by: float) -> None:
    """Multiply moments by `fade`, and add `by` times the columns."""
    for j in range(n):
        moments[j] = fade * moments[j] + by * columns[j]


@helper
def logarithm_of(design: Design, target: float) -> float:
    """Return the signed logarithm of a target.

    The logarithm is an odd function of the target minus the design's `low`.
    """
    logarithm = math.log1p(abs(target - design.low) / design.unit)
    return logarithm if target >= design.low else -logarithm


@helper
def target_of(design: Design, k: int, targets: Float64s) -> float:
    """Return the target that a regression learns."""
    if k < records.N_PLAIN:
        return targets[k] - design.shift
    return logarithm_of(design, targets[records.ADDITIVE]) if k < records.N_RIDGES else targets[k]


@link_by_name
def add_row(
    design: Design, columns: Float64s, targets: Float64s, weight: float, which: int, age: int
) -> None:
    """Add a row to the sums with the index `which`, or to all sums if `which` is negative.

    The row is `age` samples old. If `which` is negative, the old sums are multiplied by their
    factors in `FORGETTING`.
    """
    for s in range(records.N_SUMS):
        fades = which < 0
        if not fades and s != which:
            continue
        fade = records.FORGETTING[s] if fades else 1.0
        by = weight * records.FORGETTING[s] ** age if age > 0 else weight
        add_to_triangle(design.gram(s), design.n_summed(s), columns, fade, by)
        for k in range(records.N_SOLVED):
            if records.SUMS[k] == s:
                term = by * target_of(design, k, targets)
                add_to_moments(design.moments_of(k), design.width_of(k), columns, fade, term)


@helper
def add_held(ridges: RidgeExpertsRecord, design: Design, s: int) -> None:
    """Fade a triangle once for each held sample, and add the products of the held columns."""
    a, b = ridges.held_row(0), ridges.held_row(1)
    c, d = ridges.held_row(2), ridges.held_row(3)
    triangle, start, forgetting = design.gram(s), 0, records.FORGETTING[s]
    factor = forgetting**ridges.n_held
    # Unused rows need no check, because they have weight 0.
    weights, last = ridges.held_weights, ridges.n_held - 1
    by_a, by_d = weights[0] * forgetting**last, weights[3]
    by_b = weights[1] * forgetting ** max(last - 1, 0)
    by_c = weights[2] * forgetting ** max(last - 2, 0)
    for j in range(design.n_summed(s)):
        row = triangle.part(start, j + 1)
        of_a, of_b, of_c, of_d = by_a * a[j], by_b * b[j], by_c * c[j], by_d * d[j]
        for k in range(j + 1):
            row[k] = factor * row[k] + ((of_a * a[k] + of_b * b[k]) + (of_c * c[k] + of_d * d[k]))
        start += j + 1


@link_by_name
def flush(ridges: RidgeExpertsRecord, design: Design) -> None:
    """Add the products of the held columns to the triangles `ALL` and `LATE` of a design."""
    if ridges.n_held > 0:
        add_held(ridges, design, records.ALL)
        add_held(ridges, design, records.LATE)
        forget_held(ridges)


@helper
def forget_held(ridges: RidgeExpertsRecord) -> None:
    """Clear the held rows."""
    ridges.n_held = 0
    for i in range(records.N_HELD):
        ridges.held_weights[i] = 0.0


@link_by_name
def hold_row(
    ridges: RidgeExpertsRecord, design: Design, columns: Float64s, targets: Float64s, weight: float
) -> None:
    """Add a sample to the moments and to the triangle `LATEST`, and hold its columns.

    `flush` adds the products of held columns to the other triangles.
    """
    held, n = ridges.held_row(ridges.n_held), design.n_columns
    for j in range(n):
        held[j] = columns[j]
    ridges.held_weights[ridges.n_held] = weight
    ridges.n_held += 1
    fade, n = records.FORGETTING[records.LATEST], design.n_summed(records.LATEST)
    add_to_triangle(design.gram(records.LATEST), n, columns, fade, weight)
    for k in range(records.N_SOLVED):
        term, fade = weight * target_of(design, k, targets), records.FORGETTING[records.SUMS[k]]
        add_to_moments(design.moments_of(k), design.width_of(k), columns, fade, term)
    if ridges.n_held == records.N_HELD:
        flush(ridges, design)


@helper
def factorize(triangle: Float64s, n: int, work: Float64s) -> None:
    """Replace the triangle of a positive definite matrix by its Cholesky factor."""
    for k in range(n):
        at = k * (k + 1) // 2
        diagonal = math.sqrt(triangle[at + k])
        triangle[at + k] = diagonal
        # A contiguous copy of the column lets the next loop use vector units.
        for i in range(k + 1, n):
            i_k = i * (i + 1) // 2 + k
            entry = triangle[i_k] / diagonal
            triangle[i_k] = entry
            work[i] = entry
        for i in range(k + 1, n):
            row = triangle.part(i * (i + 1) // 2 + k + 1, i - k)
            column = work.part(k + 1, i - k)
            factor = work[i]
            for j in range(i - k):
                row[j] = row[j] - factor * column[j]


@helper
def solve_factorized(factor: Float64s, n: int, vector: Float64s) -> None:
    """Solve L L' x = v in place, first along the columns of L, then along the columns of L'."""
    for j in range(n):
        solved = vector[j] / factor[j * (j + 1) // 2 + j]
        vector[j] = solved
        for i in range(j + 1, n):
            vector[i] = vector[i] - factor[i * (i + 1) // 2 + j] * solved
    for j in range(n - 1, -1, -1):
        row = factor.part(j * (j + 1) // 2, j + 1)
        solved = vector[j] / row[j]
        vector[j] = solved
        for i in range(j):
            vector[i] = vector[i] - row[i] * solved


@helper
def penalty(design: Design, k: int, j: int) -> float:
    """Return the prior precision of a column's weight in a regression."""
    if j == 0:
        return OF_INTERCEPT
    return PENALTIES[k] if j < design.n_additive else WAVE_PENALTIES[k]


@helper
def solve_for(ridges: RidgeExpertsRecord, design: Design, k: int) -> None:
    """Solve for the weights of a regression, given the Cholesky factor of its matrix."""
    n, prior = design.width_of(k), PRIORS[k]
    vector, solution, moments = ridges.vector, ridges.solution(k), design.moments_of(k)
    for j in range(n):
        vector[j] = moments[j]
        if prior >= 0:
            vector[j] = vector[j] + penalty(design, k, j) * ridges.solution(prior)[j]
    solve_factorized(ridges.triangle, n, vector)
    for j in range(n):
        solution[j] = vector[j]


@link_by_name
def solve(ridges: RidgeExpertsRecord, design: Design, k: int) -> None:
    """Solve (G + D) w = m + D w0 for the weights w of a regression.

    G and m are sums of products. D and w0 are the precision and the mean of the prior.
    """
    n = design.width_of(k)
    triangle, gram = ridges.triangle, design.gram(records.SUMS[k])
    for i in range(n * (n + 1) // 2):
        triangle[i] = gram[i]
    for j in range(n):
        triangle[j * (j + 1) // 2 + j] = triangle[j * (j + 1) // 2 + j] + penalty(design, k, j)
    factorize(triangle, n, ridges.values)
    solve_for(ridges, design, k)
    if k == records.WAVES:
        # `LOG_WAVES` has the same matrix as `WAVES`, so one factorization serves both.
        solve_for(ridges, design, records.LOG_WAVES)


@link_by_name
def solve_due(ridges: RidgeExpertsRecord, design: Design) -> None:
    """Solve for the weights of all regressions that are due."""
    n = ridges.n_samples
    for k in ORDER:
        if n >= ridges.next_solutions[k]:
            flush(ridges, design)
            solve(ridges, design, k)
            wait = min(int(n / SOLVED_AFTER[k]), LONGEST_WAITS[k])
            ridges.next_solutions[k] = n + max(wait, 1)


@helper
def solve_all(ridges: RidgeExpertsRecord, design: Design) -> None:
    """Solve for all weights of a new design, whose sums need no held samples."""
    forget_held(ridges)
    for k in range(records.N_SOLVED):
        ridges.next_solutions[k] = 0
    solve_due(ridges, design)


@helper
def dot(first: Float64s, second: Float64s, n: int) -> float:
    """Return the dot product, computed as four partial sums."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = n - n % 4
    for i in range(0, whole, 4):
        a += first[i] * second[i]
        b += first[i + 1] * second[i + 1]
        c += first[i + 2] * second[i + 2]
        d += first[i + 3] * second[i + 3]
    for i in range(whole, n):
        a += first[i] * second[i]
    return (a + b) + (c + d)
