"""Density estimates: counts of samples in cells over the volumes of these.

The numbers of equations are those of O'Reilly and Tran (2022).
"""

from __future__ import annotations

import math

from ..compiling.kernels import exact_batch_kernel, exact_inlined, exact_kernel, exact_separate
from ..limits import LARGEST
from ..partitions.unbounded.cells import contains
from ..partitions.unbounded.growth import add_sample, stored_leaf
from ..partitions.unbounded.inspection import reveal, reveal_last_occupied
from ..partitions.unbounded.records import Node, Partition, along_directions, log_volume
from ..records import Array, Float64, Float64s, Int64, Record, Table, transient
from ..status import DONE, NO_ROOM

# Estimators: the mean of counts over volumes, mean counts over mean volumes, and the mean of counts
# over the expectations of volumes.
FOREST = 0
LAPLACE = 1
KERNEL = 2


class DensityNode(Node):
    """A node of a density forest."""

    # Of a leaf's cell; NaN where it is not known.
    log_volume: Float64

    def begin(self, log_volume: float) -> None:
        """Keep the volume of a cell."""
        self.log_volume = log_volume

    def widen(self, log_side: float) -> None:
        """Keep the volume of a cell that has one dimension more."""
        self.log_volume = self.log_volume + log_side


class CellEstimate(Record):
    """What a tree contributes to the estimate at a point."""

    # Samples in the point's cell.
    count: Float64
    # Of the cell; where the count is 0 it matters to the Laplace estimator only.
    log_volume: Float64


class DensityPartition(Partition):
    """The trees of a density forest, and what is on the way in them."""

    nodes: Table[DensityNode]
    # One of `FOREST`, `LAPLACE` and `KERNEL`.
    estimator: Int64
    # Samples learned.
    n_samples: Int64
    # Whether something is to be finished before anything else.
    is_unfinished: Int64 = transient()
    # Of a sample that was short of room: one more than the tree that goes on, else 0; and the
    # sample's lifetime. It is in `inputs`.
    next_tree: Int64 = transient()
    next_lifetime: Float64 = transient()
    # Whether leaves of the sample in `inputs`, which has been learned, have no volume yet.
    lacks_volumes: Int64 = transient()
    # The sample that is learned or predicted alone.
    inputs: Float64s = transient()
    # The features' means, and the numbers of values behind them.
    means: Float64s
    n_values: Float64s
    # By tree.
    estimates: Array[CellEstimate] = transient()


@exact_inlined
def bad_input(forest: DensityPartition, x: Float64s) -> int:
    """Return the first input that is not finite in single precision, or `DONE`."""
    for j in range(forest.n_inputs):
        if math.fabs(x[j]) > LARGEST:
            return j
    return DONE


@exact_inlined
def fill_missing(forest: DensityPartition, x: Float64s) -> None:
    """Replace missing values by the means so far."""
    for j in range(forest.n_inputs):
        if math.isnan(x[j]):
            x[j] = forest.means[j]


@exact_inlined
def learn_means(forest: DensityPartition, x: Float64s) -> None:
    """Let the means learn the values that are not missing."""
    for j in range(forest.n_inputs):
        value = x[j]
        if not math.isnan(value):
            count = forest.n_values[j] + 1.0
            forest.n_values[j] = count
            forest.means[j] = forest.means[j] * (1.0 - 1.0 / count) + value / count


@exact_inlined
def extend_trees(forest: DensityPartition, x: Float64s, first: int, lifetime: float) -> int:
    """Extend the trees from `first` on by a sample, and count it; returns `DONE` or `NO_ROOM`."""
    for t in range(first, forest.n_trees):
        if not math.isnan(lifetime):
            forest.trees[t].lifetime = lifetime
        if not add_sample(forest, t, along_directions(forest, t, x, forest.along)):
            for j in range(forest.n_inputs):
                forest.inputs[j] = x[j]
            forest.next_tree = t + 1
            forest.next_lifetime = lifetime
            forest.is_unfinished = 1
            return NO_ROOM
    forest.next_tree = 0
    forest.samples.n_rows = forest.samples.n_rows + forest.stores_samples
    forest.n_samples = forest.n_samples + 1
    if forest.directions:
        forest.lacks_volumes = 1
        forest.is_unfinished = 1
    return DONE


@exact_separate
def learn_row(forest: DensityPartition, x: Float64s, lifetime: float) -> int:
    """Learn a sample of `n_inputs` values, whose gaps are filled; NaN is missing.

    The lifetime is NaN where the trees keep their own. Returns `DONE`, or the first bad input, or
    `NO_ROOM`: then nothing is learned, unless the forest is unfinished and `go_on` is to be called.
    Oblique leaves may lack a volume, which leaves the forest unfinished, too.
    """
    bad = bad_input(forest, x)
    if bad != DONE:
        return bad
    if forest.stores_samples and forest.samples.n_rows >= forest.samples.capacity:
        return NO_ROOM
    learn_means(forest, x)
    fill_missing(forest, x)
    if forest.stores_samples:
        values = forest.samples.row(forest.samples.n_rows).values(forest)
        for j in range(forest.n_inputs):
            values[j] = x[j]
    return extend_trees(forest, x, 0, lifetime)


@exact_kernel
def go_on(forest: DensityPartition) -> int:
    """Go on with a sample that was short of room, if there is one; returns `DONE` or `NO_ROOM`."""
    if forest.next_tree == 0:
        return DONE
    return extend_trees(forest, forest.inputs, forest.next_tree - 1, forest.next_lifetime)


@exact_kernel
def learn_one(forest: DensityPartition, lifetime: float) -> int:
    """Learn the sample in `inputs`, with the results of `learn_row`."""
    return learn_row(forest, forest.inputs, lifetime)


@exact_batch_kernel
def learn_rows(forest: DensityPartition, rows: Float64s, n: int, lifetimes: Float64s) -> int:
    """Learn rows of `n_inputs` values each, which are cut along the axes.

    Parameters
    ----------
    forest
        The forest.
    rows
        The rows, side by side.
    n
        How many there are.
    lifetimes
        The lifetime at each row; none where the trees keep their own.

    Returns
    -------
    `DONE`, or `NO_ROOM` or the first bad input of a row as `learn_row` does; the rows behind that
    one are not learned.

    """
    width = forest.n_inputs
    for i in range(n):
        lifetime = lifetimes[i] if lifetimes else math.nan
        found = learn_row(forest, rows.part(width * i, width), lifetime)
        if found != DONE:
            return found
    return DONE


@exact_inlined
def inspect_cell(forest: DensityPartition, t: int, z: Float64s, estimate: CellEstimate) -> None:
    """Write the number of samples in a point's cell of a tree, and the log of its volume.

    Where the volume is NaN, of an oblique cell, that is the cell on the way.
    """
    tree = forest.trees[t]
    estimate.count = 0.0
    estimate.log_volume = 0.0
    is_empty = True
    if contains(tree.cell, z):
        node = forest.nodes.row(stored_leaf(forest, tree, z))
        if node.time > tree.lifetime and not math.isnan(node.log_volume):
            estimate.count = float(node.n_samples)
            estimate.log_volume = node.log_volume
            return
        is_empty = node.time <= tree.lifetime and node.n_samples == 0
    if is_empty and forest.estimator != LAPLACE:
        return
    estimate.count = float(reveal(forest, t, z))
    estimate.log_volume = log_volume(forest, forest.cell)


@exact_inlined
def log_mean_of(estimates: Array[CellEstimate], n_trees: int, n: float, is_laplace: bool) -> float:
    """Return the logarithm of the density by the estimates of all trees, after `n` samples.

    With n_m samples in the cell of tree m, of volume V_m, the logarithm of

        sum_m n_m / V_m / (n M) (Equation 13), or (1 / n) sum_m n_m / sum_m V_m

    for the Laplace estimator (the last equation of Section 5 before the proof of Theorem 5.1, whose
    factors 1 / M cancel). The largest term is taken out of the sums, so that none over- or
    underflows.
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


@exact_inlined
def log_mean_density(forest: DensityPartition) -> float:
    """Return the logarithm of the density, by the estimates of all trees."""
    is_laplace = forest.estimator == LAPLACE
    return log_mean_of(forest.estimates, forest.n_trees, float(forest.n_samples), is_laplace)


@exact_separate
def log_density(forest: DensityPartition, x: Float64s, is_floored: bool) -> float:
    """Return the logarithm of the density at a sample of `n_inputs` values, whose gaps are filled.

    The cuts are along the axes. Where the density is 0 and to be floored, each tree's last cell
    that holds samples counts as if it held one. Returns NaN where an input is bad.
    """
    if bad_input(forest, x) != DONE:
        return math.nan
    fill_missing(forest, x)
    for t in range(forest.n_trees):
        estimate = forest.estimates[t]
        inspect_cell(forest, t, x, estimate)
        if forest.estimator == KERNEL:
            # The mean of a side is 2 / lifetime (Equation 16).
            log_side = math.log(2.0 / forest.trees[t].lifetime)
            estimate.log_volume = float(forest.n_dims) * log_side
    found = log_mean_density(forest)
    if is_floored and found == -math.inf:
        for t in range(forest.n_trees):
            reveal_last_occupied(forest, t, x)
            forest.estimates[t].count = 1.0
            forest.estimates[t].log_volume = log_volume(forest, forest.cell)
        found = log_mean_density(forest)
    return found


@exact_kernel
def log_density_one(forest: DensityPartition, is_floored: bool) -> float:
    """Return the logarithm of the density at the sample in `inputs`, as `log_density` does."""
    return log_density(forest, forest.inputs, is_floored)


@exact_batch_kernel
def log_densities(
    forest: DensityPartition, rows: Float64s, n: int, is_floored: bool, out: Float64s
) -> None:
    """Write the logarithms of the density at `n` rows of `n_inputs` values each."""
    width = forest.n_inputs
    for i in range(n):
        out[i] = log_density(forest, rows.part(width * i, width), is_floored)


# Kernels for oblique cells, whose volumes Python computes.


@exact_kernel
def estimate_by_tree(forest: DensityPartition, t: int) -> None:
    """Write a tree's estimate at the sample in `inputs`, as `inspect_cell` does."""
    fill_missing(forest, forest.inputs)
    z = along_directions(forest, t, forest.inputs, forest.along)
    inspect_cell(forest, t, z, forest.estimates[t])


@exact_kernel
def reveal_last_cell(forest: DensityPartition, t: int) -> None:
    """Let the cell on the way be the last one to the sample in `inputs` that holds samples."""
    reveal_last_occupied(forest, t, along_directions(forest, t, forest.inputs, forest.along))


@exact_kernel
def keep_volume(forest: DensityPartition, t: int, log_size: float) -> None:
    """Keep the volume of the leaf in which the sample in `inputs` falls, and which is stored."""
    tree = forest.trees[t]
    z = along_directions(forest, t, forest.inputs, forest.along)
    forest.nodes.row(stored_leaf(forest, tree, z)).log_volume = log_size


@exact_kernel
def combine_estimates(forest: DensityPartition) -> float:
    """Return the logarithm of the density by the estimates of all trees."""
    return log_mean_density(forest)
