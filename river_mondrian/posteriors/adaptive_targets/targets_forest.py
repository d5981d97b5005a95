"""Learning of a sample's targets by regressions, mixtures, the error distribution and trees.

`learn` and `learn_sample` in `rebuilt.sample` call the methods of `TargetsForest`.
"""

from ...compiling.kernels import (
    always_inline,
    batch_kernel,
    inline_in_source,
    link_by_name,
    ordered_sums,
)
from ...learners.neighbors import remember
from ...learners.regression import error_distribution, lags, mixing, ridges
from ...partitions.mondrian.boxes import hold, source_of, value_in, values_of
from ...partitions.mondrian.constants import EMPTY, LEFT, MISSING, NONE, PAUSED, RIGHT
from ...partitions.mondrian.sampling import part_leaf, side_of, uniform, uniform_cut
from ...records import Float64s
from ..rebuilt.forest import Candidate, path_to
from ..rebuilt.splits import GAIN_SAMPLE, push
from ..targets.learning import LEAST_FENCED, renewal
from . import means
from .means import KEPT, TARGET, AdaptiveTargetForest, T, TargetsNode, TargetsTree

# Cuts guided by targets: the candidate with the largest reduction of the targets' variance is kept.
#
# Candidates are drawn from the Mondrian distribution with weighted dimensions. The position of
# every second candidate is then drawn again, uniformly between the values of two random points. If
# these values are equal or missing, the candidate keeps its position.


@inline_in_source
def _draw_between(forest: T, tree: TargetsTree, n: int, m: int) -> None:
    """Move the cut of every second candidate between the values of two sampled points."""
    points, candidates = forest.leaf.points, forest.cuts.candidates
    source = source_of(forest, tree)
    for c in range(1, m, 2):
        candidate = candidates[c]
        p, q = points[int(uniform(tree) * n)], points[int(uniform(tree) * n)]
        a = value_in(forest.points.row(p), source, candidate.dim)
        b = value_in(forest.points.row(q), source, candidate.dim)
        if a < b:
            candidate.cut = uniform_cut(tree, a, b)
        elif b < a:
            candidate.cut = uniform_cut(tree, b, a)


@inline_in_source
def _add_up(forest: T, tree: TargetsTree, mean: float, n: int, m: int) -> None:
    """Sum weights and weighted deviations from `mean` of sampled points, by candidate and side."""
    candidates, sides, points = forest.cuts.candidates, forest.leaf.sides, forest.leaf.points
    source = source_of(forest, tree)
    for c in range(m):
        sums = sides[c]
        for k in range(3):
            sums.weights[k] = 0.0
            sums.sums[k] = 0.0
    for i in range(n):
        point = forest.points.row(points[i])
        weight = point.weight
        moved = weight * (point.targets[tree.learns] - mean)
        for c in range(m):
            candidate, sums = candidates[c], sides[c]
            v = value_in(point, source, candidate.dim)
            # The side is computed without a branch, since a branch would often be mispredicted.
            k = int(v > candidate.cut) + MISSING * int(v != v)
            sums.weights[k] = sums.weights[k] + weight
            sums.sums[k] = sums.sums[k] + moved


# A leaf is split only if it has at least SMALLEST_BLOCK samples, plus 1 for every SAMPLES_OF_ONE
# samples of the tree.
SMALLEST_BLOCK = 2
SAMPLES_OF_ONE = 2048


@link_by_name
def make_means(forest: T, t: int, j: int) -> bool:
    """Compute a leaf's means from its points, and return whether the points' targets differ.

    The mean of recent targets depends on the order of the list of points.
    """
    tree = forest.trees[t]
    node, k = tree.nodes.row(j), tree.learns
    p = node.first_point
    if p == NONE:
        return False
    # Each split reverses the list, so the list's direction is determined first.
    window, now, q = forest.window_capacity, forest.n_samples, forest.links_of(p)[t]
    newest_first = q == NONE or (now - p) % window < (now - q) % window
    start = forest.targets_of(p)[k]
    weight, moved, late_weight, late_moved, unit = 0.0, 0.0, 0.0, 0.0, 1.0
    differs = False
    while p != NONE:
        point = forest.points.row(p)
        point_weight, gap = point.weight, point.targets[k] - start
        differs = differs or gap != 0.0
        weight += point_weight
        moved += point_weight * gap
        if newest_first:
            late_weight += unit * point_weight
            late_moved += unit * point_weight * gap
            unit *= KEPT
        else:
            late_weight = KEPT * late_weight + point_weight
            late_moved = KEPT * late_moved + point_weight * gap
        p = forest.links_of(p)[t]
    mean, late_mean = start + moved / weight, start + late_moved / late_weight
    node.set_means((weight, late_weight, mean, late_mean))
    return differs


@always_inline
def may_wait(tree: TargetsTree, node: TargetsNode) -> bool:
    """Return whether a node is a leaf that is large enough for a split and not yet queued.

    In a tree of many samples, splits of small leaves add little accuracy, but would need most of
    the memory.
    """
    n = tree.nodes.row(tree.root).n_samples
    is_large = node.n_samples >= SMALLEST_BLOCK + n // SAMPLES_OF_ONE
    return is_large and node.dim == PAUSED and node.next_waiting == NONE


@batch_kernel
def read_targets(forest: T, n: int, step: int, out: Float64s) -> None:
    """Write the targets of `n` stored points: the first point, and then every `step`-th point."""
    for i in range(n):
        out[i] = forest.targets_of(i * step)[TARGET]


# Targets are clipped at fences, so that outliers have only a short effect.
#
# The distance of the fences from the robust range of the stored targets is `FENCE` times the length
# of this range (see `partitions.ranges`). The fences are renewed four times while the number of
# samples doubles. If several of the latest targets are beyond the fences, targets are not clipped
# (`score`).


def next_renewal(n: int) -> int:
    """Return the first number of samples after `n` at which fences are renewed."""
    if n < LEAST_FENCED:
        return LEAST_FENCED
    return renewal(n) + (1 << (n.bit_length() - 3))


# `TargetFences.n_beyond` counts the targets beyond the fences. Each sample multiplies the count by
# `FADING`. Targets are clipped only if the count is at most `MOST_BEYOND`.
FADING = 0.9
MOST_BEYOND = 3.0

# Least weight of the latest error in the running mean of absolute errors.
LEAST_RATE = 0.001


@always_inline
def ensure_means(forest: T, tree: TargetsTree, t: int, node: TargetsNode, p: int) -> None:
    """Compute the means of a new node on the path of point `p`, from the samples before `p`."""
    if node.weight > 0.0:
        return
    k = tree.learns
    if node.dim < 0:
        # The node is a leaf with two points.
        q = node.first_point
        while q != NONE:
            if q != p:
                node.add(forest.targets_of(q)[k], forest.points.row(q).weight)
            q = forest.links_of(q)[t]
        return
    sibling = node.right if node.left == ~p else node.left
    if sibling < 0:
        node.add(forest.targets_of(~sibling)[k], forest.points.row(~sibling).weight)
    else:
        node.set_means(tree.nodes.row(sibling).means())


@always_inline
def add_to_node(forest: T, t: int, ref: int, p: int) -> None:
    """Add a point to the means of a node on the point's path; queue a leaf whose targets differ."""
    tree = forest.trees[t]
    node, point = tree.nodes.row(ref), forest.points.row(p)
    target = point.targets[tree.learns]
    ensure_means(forest, tree, t, node, p)
    differs = target != node.mean
    node.add(target, point.weight)
    if differs and may_wait(tree, node):
        push(tree, ref)


# Error that drift detectors receive as 1, in units of the running mean of absolute errors.
LARGEST_ERROR = 4.0


class TargetsForest(AdaptiveTargetForest):
    """An adaptive forest over targets, with the methods that kernels of rebuilt trees call."""

    def predict_sample(self, inputs: Float64s) -> int:
        """Predict a sample; return DONE, or the index of the first input that is too large."""
        return means.predict_sample(self, inputs)

    def take(self, y: float, weight: float, is_new: bool) -> None:
        """Set the target and the weight of the accepted sample."""
        self.accepted.targets[TARGET] = y
        self.accepted.weight = weight

    @ordered_sums
    def error(self) -> float:
        """Return the absolute error divided by `LARGEST_ERROR` mean absolute errors, at most 1."""
        error = abs(self.accepted.targets[TARGET] - self.prediction.point)
        largest = LARGEST_ERROR * self.error_size
        if error < largest:
            return error / largest
        return 1.0 if error > 0.0 else 0.0

    def score(self) -> None:
        """Update the regressions, the mixtures and the error distribution with the sample."""
        weight, targets, fences = self.accepted.weight, self.accepted.targets, self.fences
        target = targets[TARGET]
        # If many recent targets are beyond the fences, the level may have shifted. Targets are then
        # not clipped.
        is_beyond = target < fences.low or target > fences.high
        fences.n_beyond = FADING * fences.n_beyond + (1.0 if is_beyond else 0.0)
        if fences.n_beyond <= MOST_BEYOND:
            target = min(max(target, fences.low), fences.high)
        targets[TARGET] = target
        # The first target has no residual and no error, since no model could have predicted it.
        is_first, regressed = self.n_samples == 0, self.first.predicted[means.RESIDUAL_OF]
        targets[means.RESIDUAL] = 0.0 if is_first else target - regressed
        targets[means.ERROR] = 0.0 if is_first else target - self.prediction.first_point
        point, spread, size = self.prediction.point, self.prediction.spread, self.ridges.size
        if self.accepted.is_late == 1:
            # The second mixture and the error distribution learn the error of the prediction at the
            # sample's arrival. The first mixture learns the error of the current prediction, so
            # that it adapts faster after a drift.
            then = self.accepted.remembered
            n = mixing.recall(self.second, then)
            point, spread, size = then[n], self.second.spread, then[n + 1]
        mixing.learn(self.first, target, weight)
        mixing.learn(self.second, target, weight)
        log_size = error_distribution.learn(
            self.error_distribution, point, spread, size, target, weight
        )
        ridges.learn(self.ridges, self.inputs, target, weight, log_size)
        if self.lags:
            lags.learn(self.lags, target, weight)
        rate = max(1.0 / (1.0 + self.n_samples), LEAST_RATE)
        self.error_size += rate * (abs(target - self.prediction.point) - self.error_size)

    def keep_sample(self, p: int) -> None:
        """Store the targets and the weight of the accepted sample."""
        point = self.points.row(p)
        for k in range(means.N_TARGETS):
            point.targets[k] = self.accepted.targets[k]
        point.weight = self.accepted.weight
        residual = self.accepted.targets[means.RESIDUAL]
        remember(self.neighbors, self.inputs, residual, self.accepted.weight)

    def begin_walk(self, t: int, p: int) -> None:
        """Begin a point's walk at the root if points outside boxes add cuts, otherwise at the leaf.

        If the walk begins at the leaf, the boxes on the path grow to contain the point. The path
        comes from the prediction. If the tree does not predict, the path is computed first.
        """
        tree, path = self.trees[t], self.path_of(t)
        if tree.extends == 1 or tree.walk_end <= p or tree.root == EMPTY:
            return
        n, x = tree.path_length, values_of(self, tree, p, tree.value_buffer)
        if n == 0:
            n = path_to(self, tree, x, path)
        tree.walk_parent = NONE
        tree.walk_time = 0.0
        for i in range(n - 1):
            ref = path[i].ref
            node = tree.nodes.row(ref)
            node.n_samples = node.n_samples + 1
            hold(x, node.lower(self, tree), node.upper(self, tree), self.n_dims)
            tree.walk_time = node.end_time(tree.walk_time)
            tree.walk_parent = ref
            tree.walk_side = LEFT if node.left == path[i + 1].ref else RIGHT
        tree.walk_ref = path[n - 1].ref

    def update_tree(self, t: int, p: int, n: int) -> None:
        """Add a new point of a tree to the means of the `n` nodes on the point's path.

        A leaf whose targets differ is queued for a split.
        """
        path = self.path_of(t)
        for i in range(n):
            if path[i].ref < 0:
                return
            add_to_node(self, t, path[i].ref, p)

    def catch_up(self, t: int, p: int, backlog: int) -> None:
        """Add a point to the means on the point's path, in a tree whose build splits leaves."""
        tree = self.trees[t]
        x, ref = values_of(self, tree, p, tree.value_buffer), tree.root
        while ref >= 0:
            node = tree.nodes.row(ref)
            add_to_node(self, t, ref, p)
            ref = EMPTY if node.dim < 0 else node.child(side_of(self, tree, node, x))

    def enqueue_built(self, t: int, ref: int) -> None:
        """Compute the means of a leaf, and queue the leaf if its targets differ."""
        tree = self.trees[t]
        if ref >= 0 and make_means(self, t, ref) and may_wait(tree, tree.nodes.row(ref)):
            push(tree, ref)

    def weigh_cuts(self, t: int, j: int, m: int) -> tuple[int, float]:
        """Sum weights and targets on each side of each candidate, over a subset of a leaf's points.

        Returns the size of the subset, and the ratio of the leaf's number of points to this size.
        """
        tree = self.trees[t]
        node = tree.nodes.row(j)
        step, p = -(-node.n_samples // GAIN_SAMPLE), node.first_point
        i, n = 0, 0
        while p != NONE:
            if i % step == 0:
                self.leaf.points[n] = p
                n += 1
            i += 1
            p = self.links_of(p)[t]
        _draw_between(self, tree, n, m)
        _add_up(self, tree, node.mean, n, m)
        return n, node.n_samples / n

    def gain_of(self, c: int, n_points: int, n: int) -> float:
        """Return the amount by which a cut reduces the sum of squared deviations from the mean."""
        sides = self.leaf.sides[c]
        left, right = sides.weights[0], sides.weights[1]
        if left == 0.0 or right == 0.0:
            return 0.0
        a, b = sides.sums[0], sides.sums[1]
        # Let S be the sums and n the weights. The gain is S_l^2 / n_l + S_r^2 / n_r - (S_l + S_r)^2
        # / (n_l + n_r).
        gap = a / left - b / right
        return gap * gap * (left * right / (left + right))

    def split(self, t: int, j: int, chosen: Candidate, time: float, last: int) -> None:
        """Cut a leaf `time` after the parent's cut, and queue the children that should be split."""
        tree = self.trees[t]
        node = tree.nodes.row(j)
        known = node.means()
        part_leaf(self, tree, j, chosen.dim, chosen.cut, time, 0.0)
        node.set_means(known)
        for side in range(2):
            self.enqueue_built(t, node.child(side))
