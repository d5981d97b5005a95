"""Learning of targets: the running moments, the distribution of targets, and the trees."""

import math

import numpy as np
from numpy.typing import NDArray

from ...compiling.kernels import always_inline, batch_kernel, kernel, link_by_name, ordered_sums
from ...limits import DONE, LARGEST_TARGET, TOO_LARGE, WAITS
from ...partitions.mondrian import boxes, extension, forgetting, scaling, walks
from ...partitions.mondrian.constants import CLOSED, FREE, NONE, START
from ...partitions.mondrian.extension import count_walked, extend_by_point, extend_trees, must_wait
from ...partitions.ranges import robust_ranges
from ...records import Array, Float32s, Float64s, Int64, Int64s, Record, array_buffer, copy_record
from . import components, messages
from .messages import T, TargetForest
from .scale_mixture import N_SCALES, TargetDensity, is_used, learn_scales

# Outliers among the targets are set aside.
#
# By default, the unit of the prior and of the noise is proportional to the variance of the targets.
# Each target moves the means of all nodes on the sample's path. A target of 10^6 among small
# targets would dominate the variance and these means permanently. So a target beyond *fences* is
# set aside. The sample still extends the trees, but the target has no weight in means, in moments
# or in the distribution of targets.
#
# The distance of the fences from the robust range of the stored targets is `FENCE` times the length
# of this range (see `partitions.ranges`). The fences are renewed four times while the number of
# samples doubles (`renewal`). Up to `LAST_JUDGED` samples, new fences apply to all stored targets,
# as if earlier targets had been learned with the new fences. Later fences apply only to later
# targets. If the targets' level shifts, the fences follow at the first renewal at which at least a
# quarter of the samples came after the shift.
#
# A full forest stores no more samples. So it cannot renew its fences, and sets no more targets
# aside.


# Distance of the fences from the robust range, as a multiple of the range's length.
FENCE = 10.0

# Largest number of stored points that are read, at equal strides, to compute fences and the sides
# of the root's box (`TargetTrees._extent`).
MOST_READ = 1024

# Least number of samples for fences, and largest number of samples at which new fences apply to
# stored targets.
LEAST_FENCED = 16
LAST_JUDGED = 4096


def renewal(n: int) -> int:
    """Return the last number of samples up to `n` at which fences are renewed.

    Fences are renewed if all binary digits of the number of samples, except the first three, are 0.
    """
    rest = max(n.bit_length() - 3, 0)
    return n >> rest << rest


def strided(n: int) -> tuple[int, int]:
    """Return the number of points to read among `n` stored points, and the stride."""
    step = -(-n // MOST_READ)
    return -(-n // step), step


@always_inline
def judged(forest: TargetForest, y: float, weight: float) -> float:
    """Return the stored weight of a target: the weight, negated if the target is set aside."""
    counts = forest.is_full == 1 or forest.low_fence <= y <= forest.high_fence
    return weight if counts else -weight


@batch_kernel
def read_targets(forest: T, n: int, step: int, out: Float64s) -> None:
    """Write the targets of every `step`-th stored point, or NaN for targets with weight 0."""
    for i in range(n):
        point = forest.points.row(i * step)
        out[i] = point.target if point.weight != 0.0 else math.nan


def find_fences(forest: TargetForest) -> tuple[float, float]:
    """Return fences computed from the targets that were stored up to the latest renewal.

    Fences are infinite if there are few targets, or if all targets are equal.
    """
    n = renewal(forest.n_points)
    if n < LEAST_FENCED:
        return -math.inf, math.inf
    n, step = strided(n)
    targets = np.empty(n)
    read_targets(forest, n, step, Float64s.of(targets))
    return fences_of(targets)


def fences_of(targets: NDArray[np.float64]) -> tuple[float, float]:
    """Return fences beyond the robust range of targets, or infinity if all targets are equal."""
    # Targets that are too large, which only a damaged model has, are ignored.
    targets = np.where(np.abs(targets) <= LARGEST_TARGET, targets, math.nan)
    low, high = (float(end[0]) for end in robust_ranges(targets[:, None]))
    reach = FENCE * (high - low)
    return (low - reach, high + reach) if reach > 0.0 else (-math.inf, math.inf)


@batch_kernel
def put_fences(forest: T, low: float, high: float) -> None:
    """Set new fences, and set aside the stored targets beyond the fences.

    If more than `LAST_JUDGED` points are stored, the fences apply only to later targets. If the
    same targets as before are set aside, no tree changes. The moments are then recomputed only if
    samples were forgotten. Afterwards the caller must update messages.
    """
    forest.low_fence = low
    forest.high_fence = high
    has_changed = False
    for p in range(forest.n_points if forest.n_points <= LAST_JUDGED else 0):
        point = forest.points.row(p)
        weight = judged(forest, point.target, abs(point.weight))
        if weight != point.weight:
            point.weight = weight
            has_changed = True
    if has_changed or forest.n_forgotten > 0:
        # Recompute the moments because weights have changed, or to remove rounding errors from
        # removed targets.
        forest.add_up(NONE)
    if not has_changed:
        return
    for t in range(forest.n_with_nodes()):
        tree = forest.trees[t]
        for j in range(tree.nodes.n_rows):
            node = tree.nodes.row(j)
            if node.dim < 0 and node.dim != FREE:
                # Leaves of a full tree count points that are not in the list. Such leaves cannot be
                # recomputed.
                n, q = 0, node.first_point
                while q != NONE:
                    n += 1
                    q = forest.links_of(q)[tree.slot]
                if n == node.n_samples:
                    node.refill(forest, tree)
        messages.forget_messages(tree)


_buffer_of_forest = array_buffer(TargetForest, 1)
_buffer_of_prediction = array_buffer(components.DensityPrediction, 1)


@kernel
def put_target(forest: T, y: float, weight: float, p: int) -> None:
    """Write the target and weight of a stored point."""
    point = forest.points.row(p)
    point.target = y
    point.weight = judged(forest, y, weight)


@kernel
def put_targets(forest: T, targets: Float64s, weights: Float64s, n: int, first: int) -> None:
    """Write the targets and weights of the points `first`, `first + 1`, ..."""
    for i in range(n):
        put_target(forest, targets[i], weights[i], first + i)


@link_by_name
@ordered_sums
def find_densities(forest: T, p: int, out: Array[TargetDensity]) -> None:
    """Write the density of a stored point's target under each tree.

    If there is no density to learn, the first record's target is set to NaN. There is no density to
    learn before two targets differ, for a target of weight 0, or for a target that is set aside.
    """
    point = forest.points.row(p)
    weight = point.weight
    if not (weight > 0.0 and components.variance_of_targets(forest) > 0.0):
        out[0].target = math.nan
        return
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        density = out[t]
        density.target = point.target
        density.extra_variance = (
            components.scale_of(forest, tree) * tree.noise * (1.0 / weight - 1.0)
        )
        for j in range(N_SCALES):
            density.densities[j] = 0.0
    prediction = _buffer_of_prediction()[0]
    prediction.trees = out
    row = forest.columns_in(point) if forest.has_columns == 1 else forest.row
    if forest.has_columns == 0:
        scaling.scale(forest, row, forest.inputs_in(point))
    walks.predict_rows(forest, row, 1, prediction)


@batch_kernel
def read_values(forest: T, n: int, step: int, out: Float32s) -> None:
    """Write the values of every `step`-th stored point in the first tree, and the root's box."""
    tree, n_dims = forest.trees[0], forest.n_dims
    for i in range(n):
        values = boxes.values_of(forest, tree, i * step, tree.value_buffer)
        for d in range(n_dims):
            out[i * n_dims + d] = values[d]
    if tree.root >= 0:
        box = boxes.box_of(forest, tree, tree.root, tree.buffer)
    else:
        box = tree.buffer
        boxes.begin_box(forest, box)
    for side in range(2):
        row = out.part((n + side) * n_dims, n_dims)
        for d in range(n_dims):
            row[d] = box[side * forest.dim_capacity + d]


@batch_kernel
def put_hyperparameters(forest: T, gamma2: float, noise: float, drawn_gamma2: float) -> None:
    """Set the hyperparameters of all trees. Afterwards the caller must update messages.

    Trees that are redrawn under new widths get `drawn_gamma2`. A tree that already has the
    hyperparameters is not changed.
    """
    forest.drawn_gamma2 = drawn_gamma2
    for t in range(forest.n_with_nodes()):
        tree = forest.trees[t]
        is_drawn = forest.renewal.is_running == 1 and tree.scaling != forest.scaling
        of_tree = drawn_gamma2 if is_drawn else gamma2
        if tree.gamma2 != of_tree or tree.noise != noise:
            tree.gamma2 = of_tree
            tree.noise = noise
            messages.forget_messages(tree)


@always_inline
def _learn_as(forest: TargetForest, y: float, weight: float, p: int) -> int:
    """Learn the sample in the forest's `inputs` as point `p`; return the result of `learn_one`."""
    bad = scaling.find_too_large(forest, forest.inputs)
    if bad >= 0:
        return TOO_LARGE - bad
    scaling.store_inputs(forest, forest.inputs, p)
    point = forest.points.row(p)
    point.target = y
    point.weight = judged(forest, y, weight)
    if bool(forest.scale_mixture) and is_used(forest.n_samples):
        find_densities(forest, p, forest.densities)
        learn_scales(forest.scale_mixture, forest.densities, forest.n_trees)
    status = extend_by_point(forest, p)
    if status == DONE:
        count_walked(forest)
        messages.update_messages(forest, 0, forest.n_trees)
        if forest.renewal.n_owed > 0:
            status = forest.continue_renewal(forest)
        if status == DONE and forest.n_samples >= forest.renewed_at:
            status = 0
    if status >= 0:
        forest.version = CLOSED
    messages.add_target(forest, y, point.weight)
    forest.horizon = forest.next_horizon
    return status


@kernel
def learn_one(forest: T, y: float, weight: float) -> int:
    """Store the sample in the forest's `inputs` as the next point, and extend every tree.

    Returns WAITS, or `TOO_LARGE - i` if the i-th input is too large. In both cases nothing has
    changed. Otherwise the sample has been learned. DONE means that the call is complete. If the
    status is 0 or more, the forest is closed until `TargetTrees` has completed the call.
    """
    if must_wait(forest):
        return WAITS
    return _learn_as(forest, y, weight, forest.n_points)


@kernel
def learn_in_window(forest: T, y: float, weight: float) -> int:
    """Learn a sample as `learn_one` does, in a forest with a window.

    The kernel is separate, so that forests without a window do not compile the code for forgetting,
    which takes seconds.
    """
    if must_wait(forest):
        return WAITS
    p = forgetting.next_point(forest, forest.inputs)
    if p < 0:
        return p
    # Densities must not include the removed oldest sample, so messages are updated first.
    messages.update_messages(forest, 0, forest.n_trees)
    return _learn_as(forest, y, weight, p)


@kernel
def rebuild(forest: T, scaling: Float64s, n: int, next_fit: int) -> None:
    """Rebuild the trees from the first `n` samples with `extension.rebuild`.

    The last target is added to the moments. Afterwards the caller must update messages.
    """
    extension.rebuild(forest, scaling, n, next_fit)
    point = forest.points.row(n - 1)
    messages.add_target(forest, point.target, point.weight)
    forest.horizon = forest.next_horizon


class Block(Record):
    """A block of learned rows: points `start` to `end` - 1, after `n` earlier samples."""

    start: Int64
    end: Int64
    n: Int64
    # Densities of used targets (`is_used`), shape (used targets, trees). For each tree, the first
    # point without a computed density, initially `start`.
    densities: Array[TargetDensity]
    done: Int64s


@batch_kernel
def extend_with_densities(forest: T, first: int, last: int, lanes: int, block: Block) -> int:
    """Extend trees `first` to `last` - 1 by a block's points.

    Before a tree learns a used target (`is_used`), the target's density is computed. Returns the
    result of `extend_trees`. The next call continues at the same place, even with fewer trees in
    lock-step (`lanes`).
    """
    n_trees, start, end, done = forest.n_trees, block.start, block.end, block.done
    # The forest before a point, with the running moments of the earlier targets.
    before = _buffer_of_forest()[0]
    for group in range(first, last, lanes):
        stop = min(group + lanes, last)
        copy_record(forest, before)
        before.n_trees = 1
        # The tree's buffer serves as `row`. No other thread uses this buffer, and no walk of the
        # group is running.
        before.row = forest.trees[group].buffer
        place, p, added = 0, start, start
        while True:
            while p < end and not is_used(block.n + p - start):
                p += 1
            if p >= done[group]:
                for t in range(group, stop):
                    forest.trees[t].walk_end = p
                status = extend_trees(forest, group, stop, lanes)
                if status >= 0:
                    return status
            if p == end:
                break
            if p >= done[group]:
                messages.update_messages(forest, group, stop)
                for q in range(added, p):
                    point = forest.points.row(q)
                    messages.add_target(before, point.target, point.weight)
                added = p
                for t in range(group, stop):
                    # `before` becomes a forest with the single tree `t`.
                    before.trees = forest.trees.part(t, 1)
                    find_densities(before, p, block.densities.part(place + t, 1))
                    forest.trees[t].walk_ref = START
                    done[t] = p + 1
            place += n_trees
            p += 1
    return DONE


@batch_kernel
def count_rows(forest: T, block: Block) -> None:
    """Count a block's points, which have extended all trees, and learn their targets.

    The distribution of targets is learned from the densities. Afterwards the caller must update
    messages.
    """
    place = 0
    for p in range(block.start, block.end):
        if bool(forest.scale_mixture) and is_used(block.n + p - block.start):
            of_trees = block.densities.part(place, forest.n_trees)
            learn_scales(forest.scale_mixture, of_trees, forest.n_trees)
            place += forest.n_trees
        point = forest.points.row(p)
        messages.add_target(forest, point.target, point.weight)
    count_walked(forest)
    forest.horizon = forest.next_horizon
