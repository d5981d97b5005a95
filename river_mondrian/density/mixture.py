"""Density estimates over trees of regions, at one lifetime or mixed over several lifetimes.

A mixture uses the estimator `KERNEL` at several levels g. The lifetime of level g is a share of the
largest lifetime, and levels go from coarse to fine. In the density of level g, the previous level
has the weight of one sample:

    f_g(x) = (sum_m n_mg(x) / M (lifetime_g / 2)^d + f_{g-1}(x)) / (n + 1)

Here n_mg(x) is the number of samples in the cell of x at level g in tree m. M, n and d are the
numbers of trees, samples and dimensions. The density f_0 is the mean over trees of the density of
one sample in a cell. This cell is the last cell that x shares with samples up to the lifetime of
level 1. The density is therefore above 0 everywhere. The weight of a level is the product of the
densities that the level predicted for past samples. Recent samples have larger exponents in this
product. The other estimators use only the level with the largest weight.

The *surprise* of a sample x is -log f(x). Without an origin, scores measure *rarity*, (surprise -
median) / deviation. The median is over past surprises, and the deviation is their mean distance
from the median. The level with the highest density of past samples does not measure rarity well,
because most samples are nearly alone in their cells. So rarity is the maximum over the levels at
which cells contain a moderate share of all samples.

Equations, sections and theorems refer to O'Reilly and Tran (2022).
"""

import math

from ..checks import LARGEST_SIZE
from ..compiling.kernels import batch_kernel, helper, kernel, link_by_name
from ..limits import DONE, LARGEST, NO_ROOM, WAITS
from ..records import Array, Bounds, Float64, Float64s, Int64, Record, stored, transient
from .regions import NONE, PivotPartition, has_room, release_sample, take_sample
from .walks import ADD, ASK, REMOVE, add_regions, count_missing, log_polytope_volume, reveal, walk

# Kernels of this module compute each sum in the order of the source, because LLVM's order would
# depend on the processor.
ORDERED_SUMS = True

# Estimators over trees, divided by the number of samples: mean(count / volume), mean(count) /
# mean(volume), and mean(count / expected volume).
FOREST = 0
LAPLACE = 1
KERNEL = 2

# Results for a sample: its log density, its log density with a floor, and its score.
LOG_DENSITY = 0
FLOORED = 1
SCORE = 2

# Factor of a level's log weight at each new sample, so that recent samples count more.
MEMORY = 0.999

# Smallest length of a cell's side. Shorter sides count as at least this long, so that logarithms
# are finite.
LEAST_SIDE = 1e-300

# Rarity uses a level if the mean share of samples in a sample's cell is in this range.
LEAST_PART, LARGEST_PART = 2.0**-8, 2.0**-2

# Smallest weight of a new sample in the running statistics of levels, and smallest mean deviation
# of surprises, in nats.
RECENT = 1.0 / 512.0
LEAST_SPREAD = 1e-3

# Volumes of cells are slow to compute. If estimates need volumes, only every `USUAL_EVERY`-th
# sample updates the running statistics.
USUAL_EVERY = 8


# Bounds of the numbers of samples and of regions.
SIZE = Bounds(0, LARGEST_SIZE)


class CellEstimate(Record):
    """One tree's contribution to the density estimate at a point."""

    # Number of samples in the point's cell.
    count: Float64
    # Log volume of the cell. If the count is 0, only the Laplace estimator uses the volume.
    log_volume: Float64


class PivotForest(PivotPartition):
    """The trees of a density forest, and the state of the current call."""

    # One of `FOREST`, `LAPLACE` and `KERNEL`.
    estimator: Int64 = stored(Bounds(0, 2))
    # Number of learned samples, and number of samples that have not been removed.
    n_learned: Int64 = stored(SIZE)
    n_samples: Int64 = stored(SIZE)
    # Bounds on the number of samples and on the number of regions in the trees; 0 for no bound.
    window: Int64 = stored(SIZE)
    max_nodes: Int64 = stored(SIZE)
    # `adapts`: whether features' rates are estimated from samples. `renews_at`: the number of
    # samples after which all rates are renewed; 0 for never. `constants`: for each feature without
    # a rate, the value that all samples in the trees have.
    adapts: Int64 = stored(Bounds(0, 1))
    renews_at: Int64 = stored(SIZE)
    constants: Float64s
    # The means of features, and the number of values in each mean.
    means: Float64s
    n_values: Float64s
    # Whether a change was interrupted, so that the addresses of rows must be passed to kernels
    # again.
    is_unfinished: Int64 = transient()
    # `n_usual`: the number of samples in the running statistics. For each level: the mean share of
    # samples in a sample's cell, the median of surprises, and their mean deviation from the median.
    n_usual: Int64 = stored(SIZE)
    parts: Float64s
    medians: Float64s
    spreads: Float64s
    # Log weights of levels, and log densities of levels at the current sample.
    log_weights: Float64s
    log_levels: Float64s = transient()
    # For each level: the number of samples in the current sample's cells, summed over trees.
    totals: Float64s = transient()
    # The sample to be learned or predicted, in calls for one sample.
    inputs: Float64s = transient()
    # A sample whose missing values have been replaced, and the largest number of new regions that
    # the sample may need.
    complete: Float64s = transient()
    n_missing: Int64 = transient()
    # Faces of an oblique cell.
    faces: Float64s = transient()
    # The contribution of each tree to the density estimate.
    estimates: Array[CellEstimate] = transient()


@helper
def replacement(forest: PivotForest, j: int) -> float:
    """Return the value that replaces missing values of a feature: a mean, or the constant value."""
    return forest.means[j] if forest.rates[j] > 0.0 else forest.constants[j]


@helper
def read_sample(forest: PivotForest, x: Float64s) -> int:
    """Replace missing values; return `DONE`, or the index of the first invalid input.

    If an input is invalid, no value is replaced.
    """
    for j in range(forest.n_inputs):
        if math.fabs(x[j]) > LARGEST:
            return j
    for j in range(forest.n_inputs):
        if math.isnan(x[j]):
            x[j] = replacement(forest, j)
    return DONE


@helper
def log_mean_of(estimates: Array[CellEstimate], n_trees: int, n: float, is_laplace: bool) -> float:
    """Return the log density after `n` samples, from the contributions of all trees.

    With n_m samples in the cell of tree m, which has the volume V_m, and M trees, the density is

        sum_m n_m / V_m / (n M)  (Equation 13 of O'Reilly and Tran 2022).

    The Laplace estimator is (1 / n) sum_m n_m / sum_m V_m. In the paper (the last equation of
    Section 5 before the proof of Theorem 5.1), both sums have a factor 1 / M, which cancels.
    Factoring out the largest term avoids overflow and underflow.
    """
    largest, counts = -math.inf, 0.0
    for t in range(n_trees):
        count, log_size = estimates[t].count, estimates[t].log_volume
        counts += count
        if is_laplace:
            largest = max(largest, log_size)
        elif count > 0.0:
            largest = max(largest, math.log(count) - log_size)
    if counts == 0.0:
        return -math.inf
    total = 0.0
    for t in range(n_trees):
        count, log_size = estimates[t].count, estimates[t].log_volume
        if is_laplace:
            total += math.exp(log_size - largest)
        elif count > 0.0:
            total += count * math.exp(-log_size - largest)
    if is_laplace:
        return math.log(counts / n) - largest - math.log(total)
    return largest + math.log(total / (n * float(n_trees)))  # Equation 13


@helper
def log_side(lifetime: float) -> float:
    """Return the log of the mean side of a point's cell (Equation 16 of O'Reilly and Tran 2022)."""
    return math.log(2.0 / lifetime)


@link_by_name
def mix_levels(forest: PivotForest, totals: Float64s, log_first: float) -> float:
    """Return the mixture's log density for all trees' counts; write each level's log density."""
    n, d, lifetime = float(forest.n_samples), float(forest.n_dims), forest.trees[0].lifetime
    levels, weights = forest.log_levels, forest.log_weights
    log_n, log_trees, before = math.log1p(n), math.log(float(forest.n_trees)), log_first
    largest = -math.inf
    for g in range(forest.n_shares):
        log_value = before
        if totals[g] > 0.0:
            # The logarithm of exp(log_level) + exp(before).
            log_level = math.log(totals[g]) - log_trees - d * log_side(lifetime * forest.shares[g])
            high = max(log_level, before)
            log_value = high + math.log1p(math.exp(min(log_level, before) - high))
        before = levels[g] = log_value - log_n
        largest = max(largest, weights[g] + before)
    total, weight = 0.0, 0.0
    for g in range(forest.n_shares):
        total += math.exp(weights[g] + levels[g] - largest)
        weight += math.exp(weights[g])
    return largest + math.log(total / weight)


@helper
def learn_weights(forest: PivotForest) -> None:
    """Update each level's weight with the level's density at a sample."""
    weights, largest = forest.log_weights, -math.inf
    for g in range(forest.n_shares):
        weights[g] = MEMORY * weights[g] + forest.log_levels[g]
        largest = max(largest, weights[g])
    for g in range(forest.n_shares):
        weights[g] -= largest


@helper
def learn_usual(forest: PivotForest) -> None:
    """Update each level's running statistics with the level's surprise at a sample."""
    n_usual = forest.n_usual
    forest.n_usual = n_usual + 1
    share = max(1.0 / float(n_usual + 1), RECENT)
    n = float(forest.n_samples) * float(forest.n_trees)
    for g in range(forest.n_shares):
        surprise = -forest.log_levels[g]
        if n_usual == 0:
            forest.medians[g] = surprise
            forest.spreads[g] = 1.0
        above = surprise - forest.medians[g]
        if above != 0.0:
            forest.medians[g] += math.copysign(share * forest.spreads[g], above)
        forest.spreads[g] += share * (math.fabs(above) - forest.spreads[g])
        forest.parts[g] += share * (forest.totals[g] / n - forest.parts[g])


@helper
def best_lifetime(forest: PivotForest, t: int) -> float:
    """Return a tree's lifetime at the level with the largest weight."""
    best = 0
    for g in range(1, forest.n_shares):
        if forest.log_weights[g] >= forest.log_weights[best]:
            best = g
    return forest.trees[t].lifetime * forest.shares[best]


@helper
def log_unit(forest: PivotForest) -> float:
    """Return the log product of all positive rates, or 0 if rates are not estimated.

    The result converts log densities to the units of the features.
    """
    total = 0.0
    if forest.adapts:
        for j in range(forest.n_dims):
            if forest.rates[j] > 0.0:
                total += math.log(forest.rates[j])
    return total


@helper
def log_volume(forest: PivotForest, t: int) -> float:
    """Return the log volume of the current cell, with lengths in units of 1 / rate."""
    cell, total = forest.cell, 0.0
    if forest.directions:
        n_inputs, n_dims = forest.n_inputs, forest.n_dims
        matrix = forest.directions.part(t * forest.directions_step, n_dims * n_inputs)
        return log_polytope_volume(matrix, n_inputs, n_dims, cell, forest.along, forest.faces)
    for j in range(forest.n_dims):
        if forest.rates[j] > 0.0:
            # Rounding may make a cell's ends equal, but a cell is at least as wide as the gap
            # between floats.
            least = max(math.fabs(cell.lower[j]) * 2.0**-53, LEAST_SIDE)
            total += math.log(max(cell.upper[j] - cell.lower[j], least))
    return total + log_unit(forest)


@link_by_name
def log_of_cells(forest: PivotForest, x: Float64s, is_floored: bool) -> float:
    """Return the log density from the counts and volumes of cells."""
    is_laplace = forest.estimator == LAPLACE
    for t in range(forest.n_trees):
        estimate = forest.estimates[t]
        estimate.count = float(reveal(forest, t, x, best_lifetime(forest, t)))
        if is_laplace or estimate.count > 0.0:
            estimate.log_volume = log_volume(forest, t)
    n = float(forest.n_samples)
    log_mean = log_mean_of(forest.estimates, forest.n_trees, n, is_laplace)
    if is_floored and log_mean == -math.inf:
        for t in range(forest.n_trees):
            walk(forest, t, x, NONE, ASK)
            estimate = forest.estimates[t]
            reveal(forest, t, x, min(forest.shared_until, best_lifetime(forest, t)))
            estimate.count = 1.0
            estimate.log_volume = log_volume(forest, t)
        log_mean = log_mean_of(forest.estimates, forest.n_trees, n, is_laplace)
    return log_mean


@link_by_name
def log_of_counts(
    forest: PivotForest, x: Float64s, stored: int, change: int, is_floored: bool
) -> float:
    """Return the log density from counts of samples in cells; then add `change` to the counts.

    Lengths are in units of 1 / rate.
    """
    d, n_shares = float(forest.n_dims), forest.n_shares
    totals, counts = forest.totals, forest.counts
    for g in range(n_shares):
        totals[g] = 0.0
    largest, share = -math.inf, 0.0
    for t in range(forest.n_trees):
        walk(forest, t, x, stored, change)
        estimate, lifetime = forest.estimates[t], forest.trees[t].lifetime
        estimate.count = counts[0]
        estimate.log_volume = d * log_side(lifetime)
        for g in range(n_shares):
            totals[g] += counts[g]
        # The floor of the density is computed at the time until which the sample shares a cell with
        # other samples, at most the smallest lifetime.
        last = min(forest.shared_until, lifetime * forest.shares[0])
        if last > 0.0:
            value = -d * log_side(last)
            if value > largest:
                share = share * math.exp(largest - value) if share > 0.0 else 0.0
                largest = value
            share += math.exp(value - largest)
    if forest.n_samples == 0:
        return -math.inf
    log_first = largest + math.log(share / float(forest.n_trees))
    if n_shares > 1:
        return mix_levels(forest, totals, log_first)
    n = float(forest.n_samples)
    log_mean = log_mean_of(forest.estimates, forest.n_trees, n, False)
    forest.log_levels[0] = log_first - math.log(n) if log_mean == -math.inf else log_mean
    return forest.log_levels[0] if is_floored else log_mean


@helper
def log_density(forest: PivotForest, x: Float64s, is_floored: bool) -> float:
    """Return the log density at a sample without missing values.

    Lengths are in units of 1 / rate.
    """
    if forest.n_samples == 0:
        return -math.inf
    if forest.estimator == KERNEL:
        return log_of_counts(forest, x, NONE, ASK, is_floored)
    return log_of_cells(forest, x, is_floored)


@helper
def score_of(forest: PivotForest, x: Float64s) -> float:
    """Return the score of a sample without missing values, from 0 to 1; rarity 0 has the score 0.5.

    Without samples, the score is 0. In trees with an origin, the score does not depend on
    the order of samples. A merged forest thus returns the same scores as a forest that has learned
    all samples.
    """
    if forest.n_samples == 0:
        return 0.0
    if forest.origin:
        # The score is 1 / (1 + exp(m)). Here exp(m) is n times the density times the mean volume of
        # an axis-aligned cell in the first tree, about the expected number of samples in the cell.
        size = float(forest.n_inputs) * log_side(forest.trees[0].lifetime)
        m = math.log(float(forest.n_samples)) + log_density(forest, x, True) + size
        small = math.exp(-math.fabs(m))
        return (small if m > 0.0 else 1.0) / (1.0 + small)
    if forest.n_usual == 0:
        return 0.5
    if forest.n_shares > 1 or forest.estimator == KERNEL:
        log_of_counts(forest, x, NONE, ASK, True)
    else:
        forest.log_levels[0] = log_of_cells(forest, x, True)
    # The score uses the largest rarity of the levels whose mean share of samples is in the range
    # from LEAST_PART to LARGEST_PART.
    rarity, n_used = 0.0, 0
    for g in range(forest.n_shares - 1, -1, -1):
        part = forest.parts[g]
        is_moderate = LEAST_PART <= part <= LARGEST_PART
        # If no level is in the range, the finest level above the range is used. If there is no such
        # level, the coarsest level is used.
        if is_moderate or (n_used == 0 and (part > LARGEST_PART or g == 0)):
            above = -forest.log_levels[g] - forest.medians[g]
            value = above / max(forest.spreads[g], LEAST_SPREAD)
            rarity = value if n_used == 0 else max(rarity, value)
            n_used += 1
    return 0.5 + 0.5 * rarity / (1.0 + math.fabs(rarity))


# Learning.


@link_by_name
def remove_oldest(forest: PivotForest) -> None:
    """Remove the oldest samples until the bounds allow another sample."""
    window, max_nodes = forest.window, forest.max_nodes
    limit = window
    if max_nodes > 0:
        # Samples that are not pivots take memory but no region, so their number is limited, too.
        per_tree = max_nodes // forest.n_trees
        limit = min(window, per_tree) if window > 0 else per_tree
    if limit == 0:
        return
    while forest.n_queued > 0:
        n_regions = forest.regions.n_rows - forest.n_unused_regions
        is_full = max_nodes > 0 and n_regions + forest.n_trees > max_nodes
        if forest.n_queued < limit and not is_full:
            return
        row = forest.oldest
        sample = forest.samples.row(row)
        values = sample.values(forest)
        for t in range(forest.n_trees):
            walk(forest, t, values, row, REMOVE)
        forest.oldest = sample.links(forest)[1]
        if forest.oldest == NONE:
            forest.newest = NONE
        forest.n_queued -= 1
        release_sample(forest, row)
        forest.n_samples -= 1


@link_by_name
def regions_needed(forest: PivotForest, x: Float64s) -> int:
    """Return the largest number of new regions that a sample may need; missing values are NaN."""
    if not forest.origin:
        return forest.n_trees
    complete, n = forest.complete, 0
    for j in range(forest.n_inputs):
        complete[j] = replacement(forest, j) if math.isnan(x[j]) else x[j]
    for t in range(forest.n_trees):
        n += count_missing(forest, t, complete)
    return n


@link_by_name
def learn_row(forest: PivotForest, x: Float64s, lifetime: float) -> int:
    """Learn a sample of `n_inputs` values; missing values (NaN) are replaced in place.

    The lifetime is NaN if each tree keeps its lifetime. Return `DONE` if the sample has been
    learned. Otherwise, return the index of the first invalid input, `NO_ROOM`, or `WAITS` if the
    rates must be renewed first.
    """
    for j in range(forest.n_inputs):
        if math.fabs(x[j]) > LARGEST:
            return j
    if forest.renews_at > 0 and forest.n_learned >= forest.renews_at:
        return WAITS
    forest.n_missing = regions_needed(forest, x)
    if not has_room(forest, forest.n_missing):
        return NO_ROOM
    for j in range(forest.n_inputs):
        if not math.isnan(x[j]):
            count = forest.n_values[j] + 1.0
            forest.n_values[j] = count
            forest.means[j] = forest.means[j] * (1.0 - 1.0 / count) + x[j] / count
    read_sample(forest, x)
    if forest.adapts:
        # A constant feature has no width, so its rate is set at the first value that differs from
        # the constant.
        for j in range(forest.n_inputs):
            if forest.rates[j] == 0.0 and x[j] != forest.constants[j]:
                forest.rates[j] = 1.0 / max(math.fabs(x[j] - forest.constants[j]), 1e-100)
    remove_oldest(forest)
    if not math.isnan(lifetime):
        for t in range(forest.n_trees):
            forest.trees[t].lifetime = lifetime
    row, has_levels = NONE, forest.n_shares > 1
    learns_usual = False if forest.origin else forest.n_samples > 0
    by_cells = forest.estimator != KERNEL and not has_levels
    if by_cells and learns_usual and forest.n_learned % USUAL_EVERY == 0:
        forest.log_levels[0] = log_of_cells(forest, x, True)
        learn_usual(forest)
    if not forest.origin:
        row = take_sample(forest, x)
    if by_cells:
        for t in range(forest.n_trees):
            walk(forest, t, x, row, ADD)
    else:
        log_of_counts(forest, x, row, ADD, True)
        if learns_usual:
            learn_weights(forest)
            learn_usual(forest)
    if row != NONE and forest.samples.row(row).links(forest)[0] == 0:
        release_sample(forest, row)
    forest.n_samples += 1
    forest.n_learned += 1
    return DONE


@kernel
def learn_one(forest: PivotForest, lifetime: float) -> int:
    """Learn the sample in `inputs`; return the result of `learn_row`."""
    return learn_row(forest, forest.inputs, lifetime)


@batch_kernel
def learn_rows(forest: PivotForest, rows: Float64s, n: int, lifetimes: Float64s) -> int:
    """Learn rows of `n_inputs` values each.

    Parameters
    ----------
    forest
        The forest.
    rows
        The rows, one after another.
    n
        Number of rows.
    lifetimes
        The lifetime at each row; empty if each tree keeps its lifetime.

    Returns
    -------
    `DONE`, or the result of `learn_row` for the first row that is not learned. Later rows are not
    learned.

    """
    width = forest.n_inputs
    for i in range(n):
        lifetime = lifetimes[i] if lifetimes else math.nan
        status = learn_row(forest, rows.part(width * i, width), lifetime)
        if status != DONE:
            return status
    return DONE


@batch_kernel
def add_samples(forest: PivotForest, other: PivotForest) -> None:
    """Add the samples of another forest with the same keys and origin; `forest` must have room."""
    add_regions(forest, other)
    forest.n_samples += other.n_samples
    forest.n_learned += other.n_learned


# Prediction.


@helper
def reading_of(forest: PivotForest, x: Float64s, reading: int) -> float:
    """Return the log density or score of a sample of `n_inputs` values; NaN if a value is invalid.

    NaN values count as missing. `FLOORED` replaces the density 0, unless there are no samples: in
    each tree, the last cell with samples counts as a cell with one sample.
    """
    if read_sample(forest, x) != DONE:
        return math.nan
    if reading == SCORE:
        return score_of(forest, x)
    return log_density(forest, x, reading == FLOORED) + log_unit(forest)


@kernel
def read_one(forest: PivotForest, reading: int) -> float:
    """Return the log density or score of the sample in `inputs`; see `reading_of`."""
    return reading_of(forest, forest.inputs, reading)


@batch_kernel
def read_rows(forest: PivotForest, rows: Float64s, n: int, reading: int, out: Float64s) -> None:
    """Write the log density or score of each of `n` rows of `n_inputs` values."""
    width = forest.n_inputs
    for i in range(n):
        out[i] = reading_of(forest, rows.part(width * i, width), reading)
