"""Learning of a sample, splits of queued leaves, and rebuilding of a tree in parts."""

from ...compiling.kernels import inlined, kernel, merged, rare, separate
from ...learners.drift import NOBODY, watch
from ...limits import BUDGET_SPENT, DONE, LEAST_WEIGHT, NO_POINT_ROOM, NO_ROOM, TOO_LARGE, WAITS
from ...partitions.mondrian import boxes, extension, sampling, scaling, widths
from ...partitions.mondrian.constants import CLOSED, COMPLETE, NONE, START
from ...partitions.mondrian.extension import LANES, count_walked, extend_trees
from ...partitions.mondrian.records import Tree
from ...records import Array, Float32s, Float64s
from . import forest as rebuilt
from .forest import Candidate, R, RebuiltTree, ensure_predicted
from .schedule import BUILD_EVERY

# Candidates for a guided cut, drawn from the Mondrian distribution with weights of dimensions.
#
# The dimension of a cut is drawn in proportion to the box's sides (Lakshminarayanan, Roy and Teh
# 2014, Algorithm 2, lines 6 and 7). The position is then uniform within the side. The sides may be
# weighted by the gains of earlier cuts in the same dimension.


# Approximate number of a leaf's points on which candidates are compared.
GAIN_SAMPLE = 256


@merged
def draw_candidates(
    tree: Tree,
    lower: Float32s,
    upper: Float32s,
    weights: Float64s,
    sums: Float64s,
    n_dims: int,
    candidates: Array[Candidate],
    m: int,
) -> None:
    """Draw `m` cuts, each from the Mondrian distribution of a box with weighted sides.

    Dimensions are drawn by systematic sampling: each dimension's number of cuts is proportional to
    the dimension's weighted side, rounded up or down. The index of the first cut in `candidates` is
    random, since the first of equally good cuts is kept. `sums` is a buffer with an element per
    dimension.
    """
    total = 0.0
    for d in range(n_dims):
        side = upper[d] - lower[d]
        # A side without values is NaN.
        total += weights[d] * (side if side > 0.0 else 0.0)
        sums[d] = total
    step = total / m
    threshold = sampling.uniform(tree) * step
    place = int(sampling.uniform(tree) * m)
    d = 0
    for _ in range(m):
        while d < n_dims - 1 and sums[d] <= threshold:
            d += 1
        # Due to rounding, `d` may be one of the last dimensions, whose sides may be empty.
        while not upper[d] > lower[d]:
            d -= 1
        place = place + 1 if place + 1 < m else 0
        candidate = candidates[place]
        candidate.dim = d
        candidate.cut = sampling.uniform_cut(tree, lower[d], upper[d])
        threshold += step


@separate
def draw_guided(forest: R, t: int, j: int) -> Candidate:
    """Draw candidates for the cut of a leaf, and return the candidate with the largest gain.

    The gain is added to the gains of the candidate's dimension.
    """
    tree = forest.trees[t]
    node, n_dims, candidates = tree.nodes.row(j), forest.n_dims, forest.candidates
    # A few points can be separated in only a few ways, and two points in only one way.
    m = min(forest.n_candidates, 3 * node.n_samples - 5)
    lower, upper = node.lower(forest, tree), node.upper(forest, tree)
    weights, sums = forest.dim_weights, forest.side_sums
    draw_candidates(tree, lower, upper, weights, sums, n_dims, candidates, m)
    n, factor = forest.weigh_cuts(t, j, m)
    best, most = candidates[0], -1.0
    for c in range(m):
        gain = forest.gain_of(c, node.n_samples, n)
        if gain > most:
            best, most = candidates[c], gain
    gains = forest.gains.part(n_dims * t, n_dims)
    # Scale the gain from the subset of points to all points.
    gains[best.dim] = gains[best.dim] + max(most, 0.0) * factor
    return best


# Number of node rows that a split may need, and the default number of side rows (rows of
# statistics).
SPLIT_ROWS = 4
# Budget of a call for the splits of one tree, in points.
SPLIT_BUDGET = 400


@inlined
def push(tree: RebuiltTree, j: int) -> None:
    """Add a leaf to the front of the tree's queue."""
    first = tree.queue
    tree.nodes.row(j).next_waiting = rebuilt.LAST if first == NONE else first
    tree.queue = j


@separate
def split_queued(forest: R, t: int, budget: int, last: int) -> int:
    """Split the leaves in a tree's queue, and return the remaining budget.

    The cost of a split is the leaf's number of points. `last` is the latest stored point, or NONE
    for a tree that is being built.
    """
    tree = forest.trees[t]
    while budget > 0 and tree.queue != NONE:
        if tree.nodes.n_rows + SPLIT_ROWS > tree.nodes.capacity:
            return budget
        if tree.side_rows.n_rows + forest.split_room > tree.side_rows.capacity:
            return budget
        j = tree.queue
        node = tree.nodes.row(j)
        following = node.next_waiting
        tree.queue = NONE if following == rebuilt.LAST else following
        node.next_waiting = NONE
        budget -= node.n_samples
        rate = boxes.linear_dimension(
            node.lower(forest, tree), node.upper(forest, tree), forest.n_dims
        )
        if rate > 0.0:
            time = sampling.exponential(tree, rate)
            forest.split(t, j, draw_guided(forest, t, j), time, last)
        else:
            # All sides of the leaf's box are empty, so the leaf is never cut.
            node.dim = COMPLETE
    return budget


# Learning of a sample, first by the mixture of predictions, then by the trees.
#
# A subclass of `RebuiltForest` stores the label or the target of the sample. `RebuiltTrees`
# completes steps that kernels cannot, including allocations, and continues from `stage`.


# Number of node rows that a call may need in a tree, and the default number of side rows.
ROOM = 64


@inlined
def _doubles(forest: R) -> bool:
    """Return whether ranges are fitted when the next sample is learned.

    During the warm-up, ranges are fitted when the number of samples becomes a power of 2.
    """
    return forest.n_points + 1 == forest.next_fit


@inlined
def _lacks(forest: R) -> int:
    """Return DONE, NO_POINT_ROOM, or the number of a tree without room for the next sample."""
    if forest.n_samples % forest.window_capacity >= forest.points.capacity:
        return NO_POINT_ROOM
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        if tree.role != rebuilt.IDLE and (
            tree.nodes.n_rows + ROOM > tree.nodes.capacity
            or tree.side_rows.n_rows + forest.side_room > tree.side_rows.capacity
        ):
            return t
    return DONE


@merged
def _begin_walks(forest: R, p: int) -> None:
    """Set the walk of each tree that learns point `p` to the tree's root."""
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        is_split = tree.role in (rebuilt.SPLITTING, rebuilt.REPLAYING)
        tree.walk_ref, tree.walk_point = START, p
        # A tree that is gathering points adds point `p` later.
        tree.walk_end = p + 1 if tree.predicts() or is_split else p
        tree.rows_before = tree.nodes.n_rows
        forest.begin_walk(t, p)


@merged
def _update_trees(forest: R, p: int) -> None:
    """Update the statistics on the path of point `p`, which has extended the trees."""
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        if tree.predicts():
            path, length = forest.path_of(t), tree.path_length
            # Without a new node, the path of the prediction is still valid.
            if length == 0 or tree.nodes.n_rows != tree.rows_before:
                x = boxes.values_of(forest, tree, p, tree.value_room)
                length = rebuilt.path_of_grown(forest, tree, x, path, length)
            forest.update_tree(t, p, length)
        elif tree.role in (rebuilt.SPLITTING, rebuilt.REPLAYING):
            forest.catch_up(t, p, forest.n_samples - forest.cursor)


@separate
def learn_sample(forest: R) -> None:
    """Learn the accepted sample, which has been predicted, and count the sample.

    Each tree must have room for `ROOM` more rows. If a build must continue now, the forest's
    version becomes CLOSED.
    """
    n = forest.n_samples
    p = n % forest.window_capacity
    forest.score()
    forest.is_predicted = 0
    scaling.store_inputs(forest, forest.inputs, p)
    forest.keep_sample(p)
    _begin_walks(forest, p)
    extend_trees(forest, 0, forest.n_trees, LANES)
    _update_trees(forest, p)
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        if tree.queue != NONE and tree.predicts():
            split_queued(forest, t, SPLIT_BUDGET, p)
    forest.n_samples = n + 1
    forest.n_points = max(forest.n_points, p + 1)
    if n + 1 >= forest.quiet_until and (n + 1) % BUILD_EVERY == 0:
        forest.is_plan_due = 1
        forest.budget = forest.granted
        forest.version = CLOSED


@kernel
def error_of(forest: R) -> float:
    """Return the prediction error for the sample in `inputs`, whose label or target is set.

    If the i-th input is too large, return `TOO_LARGE - i`.
    """
    bad = ensure_predicted(forest, forest.inputs)
    return float(TOO_LARGE - bad) if bad >= 0 else forest.error()


@kernel
def learn(forest: R, y: float, weight: float, is_new: bool, found: int) -> int:
    """Learn the label or the target of the sample in `inputs`, and count the sample.

    Weights below LEAST_WEIGHT are raised to LEAST_WEIGHT. If an external detector has detected a
    drift, `found` is the number of samples that the detector would keep, otherwise 0. Returns DONE,
    or `TOO_LARGE - i` if the i-th input is too large. If an input is too large, nothing has
    changed. Returns WAITS if `RebuiltTrees` must complete a build, the adaptation to a drift, or
    the learning of the sample. While the sample is not completely learned, `n_walking` is 1.
    """
    bad = ensure_predicted(forest, forest.inputs)
    if bad >= 0:
        return TOO_LARGE - bad
    forest.take(y, max(weight, LEAST_WEIGHT), is_new)
    if forest.errors.detector != NOBODY:
        error = forest.error()
        if error >= 0.0:
            forest.kept = watch(forest.errors, error, found, forest.n_samples + 1)
    overwritten = forest.n_samples - forest.window_capacity
    if _doubles(forest) or overwritten >= forest.oldest or _lacks(forest) != DONE:
        forest.stage = rebuilt.ACCEPTED
        forest.n_walking = 1
        forest.version = CLOSED
        return WAITS
    learn_sample(forest)
    if forest.kept > 0:
        forest.version = CLOSED
    return WAITS if forest.version == CLOSED else DONE


@kernel
def learn_accepted(forest: R) -> int:
    """Learn the accepted sample.

    If ranges are fitted at this sample (see `_doubles`), only the mixture learns the sample.
    Returns DONE, NO_POINT_ROOM, or the number of a tree that needs room for `ROOM` more rows.
    Without room, nothing has been learned. Since an allocation may move rows that the last
    prediction refers to, the sample may be predicted again.
    """
    doubles = _doubles(forest)
    lacks = DONE if doubles else _lacks(forest)
    if lacks != DONE:
        return lacks
    ensure_predicted(forest, forest.inputs)
    if doubles:
        forest.score()
        forest.is_predicted = 0
        forest.stage = rebuilt.MIXED_IN
        return DONE
    learn_sample(forest)
    forest.n_walking = 0
    forest.stage = rebuilt.LEARNED
    return DONE


# Rebuilding of a tree from the samples of the window, in parts.
#
# The tree gathers its points in one leaf, which is then split. In a forest over classes, the tree
# then replays the points in order. So the statistics equal the statistics of a tree that has
# learned the points one at a time.


# Cost of replaying a point, relative to the cost per point of a split.
REPLAY_COST = 12

# Number of rows that are reserved at once for a tree that is being built.
GROWTH = 4 * ROOM

# Budget of each kernel call for a tree that is built at once. The budget is bounded so that kernels
# return soon.
PART = 1 << 17


@kernel
def begin(forest: R, t: int, first: int, dim_weights: Float64s) -> None:
    """Clear a tree, and begin a build of the tree with the samples from `first` on.

    `dim_weights` are the weights of the dimensions for draws of cuts.
    """
    tree = forest.trees[t]
    sampling.clear_tree(tree)
    tree.queue = NONE
    # During a renewal of widths, new trees have the new widths.
    is_renewing = forest.is_renewing == 1
    widths.use_scaling(forest, tree, 1 - forest.scaling if is_renewing else forest.scaling)
    tree.root = sampling.new_leaf(forest, tree)
    tree.role = rebuilt.GATHERING
    forest.is_predicted = 0
    forest.cursor = forest.built_from = first
    forest.rows_needed = GROWTH
    n_dims = forest.n_dims
    gains = forest.gains.part(n_dims * t, n_dims)
    for d in range(n_dims):
        gains[d] = 0.0
        forest.dim_weights[d] = dim_weights[d]


@merged
def _gather(forest: R, tree: RebuiltTree, t: int, start: int, stop: int) -> None:
    """Add the samples `start` to `stop` - 1 to the root of a tree that is being built."""
    # The previous tree in this slot may have had another scaling.
    is_renewed = forest.has_columns == 1 and forest.renewed_at_sample > 0
    for i in range(start, stop):
        p = i % forest.window_capacity
        if is_renewed:
            scaling.write_column(forest, tree, t, forest.points.row(p))
        sampling.put_point(forest, tree, tree.root, p)


@merged
def _build(forest: R, t: int) -> int:
    """Implement `build_part` within the forest's budget."""
    tree, n = forest.trees[t], forest.n_samples
    if tree.role == rebuilt.BUILT:
        return DONE
    room = forest.rows_needed
    if tree.nodes.n_rows + room > tree.nodes.capacity:
        return NO_ROOM
    if tree.side_rows.n_rows + max(room, forest.side_room) > tree.side_rows.capacity:
        return NO_ROOM
    forest.rows_needed = GROWTH
    while forest.budget > 0 and tree.role != rebuilt.BUILT:
        budget, cursor = forest.budget, forest.cursor
        if tree.role == rebuilt.GATHERING:
            stop = min(n, cursor + budget)
            _gather(forest, tree, t, cursor, stop)
            forest.budget = budget - (stop - cursor)
            forest.cursor = stop
            if stop == n:
                forest.enqueue_built(t, tree.root)
                tree.role = rebuilt.SPLITTING
        elif tree.role == rebuilt.SPLITTING:
            forest.budget = split_queued(forest, t, budget, NONE)
            if tree.queue != NONE:
                return NO_ROOM if forest.budget > 0 else BUDGET_SPENT
            tree.role = rebuilt.REPLAYING if forest.replays() else rebuilt.BUILT
            forest.cursor = forest.built_from
        else:
            stop = min(n, cursor + budget // REPLAY_COST + 1)
            done = forest.replay(t, cursor, stop)
            left = budget - REPLAY_COST * (done - cursor)
            # After a stop for lack of room, the replay continues to the same `stop`. So the work of
            # a call does not depend on capacities.
            forest.budget = max(left, 1) if done < stop else left - 1
            forest.cursor = done
            if done < stop:
                if done == cursor:
                    # The sample may have a long path, so reserve rows for the longest path.
                    forest.rows_needed = rebuilt.DEEPEST
                return NO_ROOM
            if done == n:
                tree.role = rebuilt.BUILT
    return DONE if tree.role == rebuilt.BUILT else BUDGET_SPENT


@kernel
def build_part(forest: R, t: int, may_stop: bool) -> int:
    """Continue to build a tree within the forest's budget, which is reduced by the cost.

    If `may_stop` is False, the budget is `PART`, and the forest's budget is not changed. Returns
    BUDGET_SPENT, DONE if the tree is BUILT, or NO_ROOM. NO_ROOM means that there was no room for
    `rows_needed` nodes or side rows, or that the build needs more rows.
    """
    granted = forest.budget
    forest.budget = granted if may_stop else PART
    status = _build(forest, t)
    forest.budget = forest.budget if may_stop else granted
    return status


@kernel
@rare
def fit(forest: R, scaling: Float64s, next_fit: int) -> None:
    """Store and count the accepted sample, and give all samples another scaling.

    There must be room for the sample's point. The caller must rebuild the trees next. The next fit
    is at `next_fit` samples.
    """
    n = forest.n_samples + 1
    forest.keep_sample(n - 1)
    extension.fit(forest, scaling, n, next_fit)
    forest.n_walking = 1
    count_walked(forest)
    forest.is_predicted = 0
    forest.stage = rebuilt.RESCALED
