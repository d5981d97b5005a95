"""Messages from a tree's leaves to its root, and the posterior of a node's mean on a path."""

from __future__ import annotations

import math
from typing import TypeVar

from ... import records as rec
from ...compiling.kernels import (
    always_inline,
    batch_kernel,
    helper,
    inline_in_source,
    kernel,
    link_by_name,
    ordered_sums,
)
from ...partitions.mondrian.constants import EMPTY, LEFT, NONE, RIGHT
from ...partitions.mondrian.records import Forest, LightNode, Point, Tree
from ...partitions.mondrian.sampling import SampledForest
from .scale_mixture import ScaleMixture, TargetDensity

# State of a forest over targets: messages about the means of nodes, and running moments.
#
# The posterior is described by Lakshminarayanan, Roy and Teh (2016), with the hyperparameters
# gamma1 and gamma2. The mean of a node, given the parent's mean, is normal. The variance of this
# distribution is the *prior variance* phi = sigma(gamma2 tau) - sigma(gamma2 tau_parent). sigma is
# the logistic function, and tau and tau_parent are the times of both nodes. A target, given the
# leaf's mean, has the variance `noise`. Both variances are in units of gamma1. So the precisions of
# messages do not depend on the targets' scale, which changes with each sample.
#
# A node stores a message for each side: the likelihood of the node's mean given the samples on this
# side. The likelihood is normal, and its precision and mean are stored. If a point enters or
# leaves a side, the side's message becomes unknown and gets a negative precision. `update_messages`
# updates only unknown messages, so learning a sample costs one pass along the sample's path. With
# plain means, a message is a weight and a mean.


# `y_squares` is recomputed if the sum has shrunk to this fraction of the largest sum (`y_most`),
# because mostly rounding errors would remain.
KEPT = 1e-6

# In leaves of at most this many samples, each removal recomputes the mean, which is exact and
# cheap.
LARGE = 32

# Precision of an unknown message, and value of an unknown prior variance.
UNKNOWN = -1.0


class Message(rec.Record):
    """The likelihood of a node's mean given the samples on one side."""

    # The precision is in units of 1 / gamma1. With plain means, this field is the samples' weight.
    precision: rec.Float64
    mean: rec.Float64


class TargetPoint(Point):
    """A stored sample with its target."""

    target: rec.Float64
    # Negative if the target is set aside as an outlier (see `learning`).
    weight: rec.Float64

    def counted(self) -> float:
        """Return the target's weight, or 0 if the target is set aside as an outlier."""
        return max(self.weight, 0.0)

    def pauses_with(self, forest: Forest, other: Point) -> bool:
        """Return whether a leaf with this point and another point is too small to be split."""
        return TargetForest(forest).min_split > 2

    def is_like(self, other: Point) -> bool:
        """Return whether two points have the same target and the same absolute weight."""
        sample = TargetPoint(other)
        return self.target == sample.target and abs(self.weight) == abs(sample.weight)


class TargetNode(LightNode):
    """A node with a message for each side. A leaf's weight and mean are in the left message."""

    messages: rec.Array[Message] = rec.inline(2)
    # Time of the cut. Time differences alone are not enough, because an inserted node would change
    # the rounding of the times below, and thus the messages.
    cut_time: rec.Float64
    # Variance of the node's mean given the parent's mean.
    prior_variance: rec.Float64

    def add_point(self, forest: Forest, point: Point) -> None:
        """Add a target to a leaf's weight and mean."""
        added, message = TargetPoint(point), self.messages[0]
        weight = added.counted()
        message.precision = message.precision + weight
        if message.precision > 0.0:
            message.mean = message.mean + (added.target - message.mean) * weight / message.precision

    def pass_point(self, forest: Forest, side: int, point: Point) -> None:
        """Set the message of a side to unknown, since the point changes the message."""
        self.messages[side].precision = UNKNOWN

    def inherit(self, forest: Forest, tree: Tree, side: int, child: int) -> None:
        """Set the message of a new node's side to unknown."""
        self.messages[side].precision = UNKNOWN

    def is_paused(self, forest: Forest) -> bool:
        """Return whether a leaf is paused because the leaf has too few samples to be cut."""
        return self.n_samples < TargetForest(forest).min_split

    def ends_pause(self, forest: Forest, point: Point) -> bool:
        """Return whether a paused leaf has enough samples to be cut after one more point."""
        return self.n_samples + 1 >= TargetForest(forest).min_split

    def drop_point(self, forest: Forest, tree: Tree, point: Point) -> None:
        """Remove a target from a leaf's weight and mean, or recompute both from the other points.

        Subtraction leaves rounding errors. So a large leaf is recomputed when the removed weight
        exceeds the remaining weight. The mean cost is about one step for each removed sample. Until
        the recomputation, the rounding errors are at most the errors of a sum over all points,
        including removed points. These errors are relative to the largest target, which is bounded
        by the fences against outliers (see `learning`). Without fences, or if the target is beyond
        the current fences, the leaf is recomputed immediately. The right message of a leaf stores
        the removed weight.
        """
        targets, message, gone = TargetForest(forest), self.messages[0], self.messages[1]
        y, weight = TargetPoint(point).target, TargetPoint(point).counted()
        if weight == 0.0:
            return
        left, gone_then = message.precision - weight, gone.precision + weight
        is_within = targets.low_fence <= y <= targets.high_fence
        has_fences = targets.high_fence - targets.low_fence < math.inf
        is_known = gone.precision >= 0.0 and gone_then <= left
        if self.n_samples > LARGE and is_within and has_fences and is_known:
            message.mean = message.mean + (message.mean - y) * weight / left
            message.precision = left
            gone.precision = gone_then
        else:
            self.refill(targets, TargetTree(tree))

    def refill(self, forest: TargetForest, tree: TargetTree) -> None:
        """Recompute a leaf's weight and mean from the leaf's list of points."""
        self.messages[0].precision = 0.0
        self.messages[0].mean = 0.0
        self.messages[1].precision = 0.0
        q = self.first_point
        while q != NONE:
            self.add_point(forest, forest.points.row(q))
            q = forest.links_of(q)[tree.slot]

    def renew_side(self, forest: Forest, tree: Tree, side: int, child: int) -> None:
        """Set the message of a side to unknown."""
        self.messages[side].precision = UNKNOWN

    def change_parent(self) -> None:
        """Set the prior variance to unknown."""
        self.prior_variance = UNKNOWN

    def collapses(self, forest: Forest) -> bool:
        """Return whether the node has too few samples to be cut."""
        return self.n_samples < TargetForest(forest).min_split

    def end_time(self, start: float) -> float:
        """Return the time of the cut."""
        return self.cut_time

    def latest_above(self, time: float) -> float:
        """Return the time of a new parent's cut: the smaller of `time` and `cut_time`.

        The node gets a new parent, so the prior variance becomes unknown.
        """
        self.prior_variance = UNKNOWN
        return min(time, self.cut_time)

    def set_time(self, time: float) -> None:
        """Set the time of a new cut."""
        self.cut_time = time
        self.prior_variance = UNKNOWN


class TargetTree(Tree):
    """A tree over targets."""

    nodes: rec.Table[TargetNode]
    # Rate of the logistic function per unit of time, and the noise variance in units of gamma1.
    gamma2: rec.Float64
    noise: rec.Float64

    def succeed(self, forest: Forest, old: Tree) -> None:
        """Set the hyperparameters of a redrawn tree: the new gamma2, and the noise of `old`."""
        self.gamma2 = TargetForest(forest).drawn_gamma2
        self.noise = TargetTree(old).noise


class TargetForest(SampledForest):
    """A forest over targets."""

    trees: rec.Array[TargetTree]
    points: rec.Table[TargetPoint]
    # Least number of samples of a leaf that is cut.
    min_split: rec.Int64 = rec.stored(rec.Bounds(2))
    horizon: rec.Float64 = rec.stored(rec.Bounds(0.0))
    # Whether nodes have plain means instead of the Gaussian posterior.
    plain_means: rec.Int64
    # The weight, the mean and the sum of squared deviations of the targets that are not set aside
    # as outliers.
    y_weight: rec.Float64
    y_mean: rec.Float64
    y_squares: rec.Float64
    # The largest `y_squares` at any removal after the last recomputation of the moments.
    y_most: rec.Float64
    # gamma1 and the noise variance in the targets' units if given by the user, otherwise 0.
    gamma1: rec.Float64
    noise_variance: rec.Float64
    # gamma2 of redrawn trees.
    drawn_gamma2: rec.Float64
    # The learned distribution of targets around the prediction, or none if the distribution is
    # normal.
    scale_mixture: ScaleMixture
    # The fences beyond which a target is set aside (see `learning`).
    low_fence: rec.Float64
    high_fence: rec.Float64
    # Number of samples at the next renewal of fences and hyperparameters.
    renewed_at: rec.Int64 = rec.transient()
    # The `horizon` after the next learned sample or block of rows.
    next_horizon: rec.Float64 = rec.transient()
    # Buffer for the densities of a target under all trees.
    densities: rec.Array[TargetDensity] = rec.derived()

    def may_forget(self) -> bool:
        """Return True, because target forests may forget samples."""
        return True

    def update_drawn(self) -> None:
        """Update the messages of the tree that is being redrawn."""
        update_messages(self, self.n_trees, self.n_trees + 1)

    def forget_sample(self, p: int) -> None:
        """Remove the target of a stored point from the running moments.

        If a subtraction would leave mostly rounding errors in the sum of squares, the moments are
        recomputed from all other points.
        """
        point = self.points.row(p)
        weight = point.counted()
        self.y_most = max(self.y_most, self.y_squares)
        subtract_target(self, point.target, weight)
        if weight > 0.0 and not self.y_squares > KEPT * self.y_most:
            self.add_up(p)

    def add_up(self, left_out: int) -> None:
        """Recompute the moments from all stored targets except `left_out`, which may be NONE."""
        self.y_weight = 0.0
        self.y_mean = 0.0
        self.y_squares = 0.0
        self.y_most = 0.0
        for p in range(self.n_points):
            if p != left_out:
                point = self.points.row(p)
                add_target(self, point.target, point.weight)


@helper
@ordered_sums
def add_target(forest: TargetForest, y: float, weight: float) -> None:
    """Add a target to the running mean and sum of squares, unless the target is set aside."""
    if not weight > 0.0:
        return
    total = forest.y_weight + weight
    gap = y - forest.y_mean
    mean = forest.y_mean + gap * weight / total
    forest.y_weight = total
    forest.y_mean = mean
    forest.y_squares = forest.y_squares + weight * gap * (y - mean)


@helper
@ordered_sums
def subtract_target(forest: TargetForest, y: float, weight: float) -> None:
    """Remove a target from the moments, as the inverse of `add_target`."""
    rest = forest.y_weight - weight
    if rest > 0.0 and weight > 0.0:
        gap = y - forest.y_mean
        mean = forest.y_mean - gap * weight / rest
        forest.y_squares = max(forest.y_squares - weight * gap * (y - mean), 0.0)
        forest.y_mean = mean
        forest.y_weight = rest


T = TypeVar("T", bound=TargetForest)

# Posterior mean and variance of a node's mean.
Moments = tuple[float, float]


@always_inline
def logistic_rise(decay: float, span: float) -> float:
    """Return sigma(a + span) - sigma(a) without cancellation, with decay = exp(-a).

    sigma is the logistic function. Let e = exp(-span). The result is 1 / (1 + decay e) - 1 / (1 +
    decay). This difference equals decay (1 - e) / ((1 + decay) (1 + decay e)).
    """
    lost = -math.expm1(-span)
    return decay * lost / ((1.0 + decay) * (1.0 + decay * (1.0 - lost)))


@kernel
def prior_variance_over(decay: float, span: float) -> float:
    """Return the result of `logistic_rise` to Python."""
    return logistic_rise(decay, span)


@always_inline
def passed_on(precision: float, prior_variance: float) -> float:
    """Return the precision of a message to the parent, given the precision at the node."""
    return 1.0 / (1.0 / precision + prior_variance)


@always_inline
def is_leaf(tree: TargetTree, ref: int) -> bool:
    """Return whether a reference names a leaf."""
    return ref < 0 or tree.nodes.row(ref).dim < 0


@always_inline
def leaf_precision(forest: TargetForest, tree: TargetTree, ref: int) -> float:
    """Return the precision of the likelihood of a leaf's mean, given the leaf's samples."""
    if ref < 0:
        weight = forest.points.row(~ref).counted()
    else:
        weight = tree.nodes.row(ref).messages[0].precision
    return weight if forest.plain_means == 1 else weight / tree.noise


@always_inline
def leaf_mean(forest: TargetForest, tree: TargetTree, ref: int) -> float:
    """Return the weighted mean of a leaf's targets, or 0 if no target has a weight."""
    if ref < 0:
        point = forest.points.row(~ref)
        # Targets without weight are replaced by 0, since a huge target would absorb other targets
        # in sums.
        return point.target if point.weight > 0.0 else 0.0
    return tree.nodes.row(ref).messages[0].mean


@always_inline
def joint_precision(node: TargetNode) -> float:
    """Return the joint precision of both sides' messages."""
    return node.messages[LEFT].precision + node.messages[RIGHT].precision


@always_inline
def joint_mean(node: TargetNode) -> float:
    """Return the joint mean of both sides' messages."""
    left, right = node.messages[LEFT], node.messages[RIGHT]
    total = left.precision + right.precision
    share = right.precision / total if total > 0.0 else 0.0
    return left.mean + (right.mean - left.mean) * share


@always_inline
def time_of(node: TargetNode) -> float:
    """Return the time of a node's cut, or 0 above the root."""
    return node.cut_time if node else 0.0


@always_inline
def prior_variance_of(tree: TargetTree, parent: TargetNode, node: TargetNode) -> float:
    """Return an internal node's prior variance. An unknown prior variance is computed first."""
    if node.prior_variance < 0.0:
        gamma2, above = tree.gamma2, time_of(parent)
        variance = logistic_rise(math.exp(-gamma2 * above), gamma2 * (node.cut_time - above))
        node.prior_variance = variance
    return node.prior_variance


@always_inline
def prior_variance_to_end(tree: TargetTree, parent: TargetNode) -> float:
    """Return the prior variance of a leaf below a node, or of a leaf without a parent."""
    gamma2, above = tree.gamma2, time_of(parent)
    return logistic_rise(math.exp(-gamma2 * above), gamma2 * (tree.lifetime - above))


@always_inline
def side_of_child(parent: TargetNode, ref: int) -> int:
    """Return the side of a child at its parent."""
    return LEFT if parent.left == ref else RIGHT


@inline_in_source
def _first_unknown_below(forest: T, tree: TargetTree, node: TargetNode) -> int:
    """Update the unknown messages of a node from children that are leaves.

    Returns the first internal child whose message to the node is unknown, or -1.
    """
    for side in range(2):
        message = node.messages[side]
        if not message.precision < 0.0:
            continue
        child = node.child(side)
        if not is_leaf(tree, child):
            return child
        precision = leaf_precision(forest, tree, child)
        if forest.plain_means == 0:
            precision = passed_on(precision, prior_variance_to_end(tree, node))
        # The precision is at least 0, since a negative precision means an unknown message.
        message.precision = max(precision, 0.0)
        message.mean = leaf_mean(forest, tree, child)
    return -1


@link_by_name
def update_messages(forest: T, first: int, last: int) -> None:
    """Update the unknown messages of trees `first` to `last` - 1, from the leaves up.

    On the way down, the mean of an unknown message stores the row of the node above. So the way
    back needs no stack.
    """
    for t in range(first, last):
        tree = forest.trees[t]
        if tree.root == EMPTY or is_leaf(tree, tree.root):
            continue
        above, ref = NONE, tree.root
        while ref != NONE:
            node = tree.nodes.row(ref)
            child = _first_unknown_below(forest, tree, node)
            if child >= 0:
                node.messages[side_of_child(node, child)].mean = above
                above, ref = ref, child
                continue
            # Pass the node's joint message to its parent, if there is a parent. The prior variance
            # is computed even at the root, because predictions need it.
            following, parent, variance = NONE, tree.nodes.none(), 0.0
            if above != NONE:
                parent = tree.nodes.row(above)
            if forest.plain_means == 0:
                variance = prior_variance_of(tree, parent, node)
            if parent:
                message = parent.messages[side_of_child(parent, ref)]
                precision = joint_precision(node)
                following = int(message.mean)
                if forest.plain_means == 0:
                    precision = passed_on(precision, variance)
                message.precision = max(precision, 0.0)
                message.mean = joint_mean(node)
            above, ref = following, above


@batch_kernel
def update(forest: T, first: int, last: int) -> None:
    """Update the unknown messages of trees `first` to `last` - 1."""
    update_messages(forest, first, last)


@always_inline
def forget_messages(tree: TargetTree) -> None:
    """Set all messages and prior variances of a tree to unknown."""
    for j in range(tree.nodes.n_rows):
        node = tree.nodes.row(j)
        if node.dim >= 0:
            node.messages[LEFT].precision = UNKNOWN
            node.messages[RIGHT].precision = UNKNOWN
            node.prior_variance = UNKNOWN


@always_inline
def posterior_below(
    forest: T, tree: TargetTree, parent: TargetNode, ref: int, prior_variance: float, above: Moments
) -> tuple[float, float, float]:
    """Return the weight of the parent's mean, and a node's posterior mean and variance.

    `above` has the parent's posterior mean and variance, or the prior's mean and 0 for the root.
    """
    mean, variance = above
    if parent:
        message = parent.messages[side_of_child(parent, ref)]
        precision, likely = message.precision, message.mean
    elif is_leaf(tree, ref):
        precision = passed_on(leaf_precision(forest, tree, ref), prior_variance)
        likely = leaf_mean(forest, tree, ref)
    else:
        node = tree.nodes.row(ref)
        precision = passed_on(joint_precision(node), prior_variance)
        likely = joint_mean(node)
    # Plain means have no prior, so the parent's mean is used only if no sample has a weight.
    is_known = forest.plain_means == 1 and precision > 0.0
    share = 0.0 if is_known else max(1.0 - prior_variance * precision, 0.0)
    own_variance = share * (share * variance + prior_variance)
    return share, likely + share * (mean - likely), own_variance
