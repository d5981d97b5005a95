"""Messages up a tree over targets, and the posterior of a node's mean on the way down."""

from __future__ import annotations

import math
from typing import TypeVar

from ...compiling.kernels import batch_kernel, exact_inlined, inlined, kernel, merged, separate
from ...partitions.mondrian.constants import EMPTY, LEFT, NONE, RIGHT
from ...partitions.mondrian.records import Forest, LightNode, Point, Tree
from ...records import (
    Array,
    Bounds,
    Float64,
    Int64,
    Record,
    Table,
    derived,
    inline,
    stored,
    transient,
)
from .scale_mixture import ScaleMixture, TargetDensity

# What a forest over targets keeps: messages about the means of nodes, and running moments.
#
# The mean of a node given its parent's is normal. Its variance, the *prior variance*, is the
# increase of a logistic function over the time between the two, phi = sigma(gamma2 tau) -
# sigma(gamma2 tau_parent), and a target given its leaf's mean has the variance `noise`: both in
# units of gamma1, so that messages do not depend on the targets' scale, which changes with each
# sample.
#
# A node keeps for each side what the samples there say of the node's own mean: the precision and
# the mean of a normal likelihood. A message is unknown, with a negative precision, once a walk
# has passed that side; `messages.update_messages` goes after those and nothing else. So a sample
# costs one pass along its path. With plain means a message is a weight and a mean.


# Share of a sum of squares that is left where it need not be added up anew.
KEPT = 1e-6

# Samples of a leaf up to which its mean is made anew whenever one of them goes.
LARGE = 32

# Precision of a message, or prior variance, that is not up to date.
UNKNOWN = -1.0


class Message(Record):
    """What the samples on a side of a node say of the node's mean."""

    # In units of 1 / gamma1; the weight of the samples where there are plain means.
    precision: Float64
    mean: Float64


class TargetPoint(Point):
    """A stored sample with its target."""

    target: Float64
    # Below 0, the negative weight of a target that is set aside.
    weight: Float64

    def counted(self) -> float:
        """Return the weight that the target counts with, 0 where it is set aside."""
        return max(self.weight, 0.0)

    def pauses_with(self, forest: Forest, other: Point) -> bool:
        """Tell whether a block of two points pauses: it is too small."""
        return TargetForest(forest).min_split > 2

    def is_like(self, other: Point) -> bool:
        """Tell whether two points have one target and weight, set aside or not."""
        sample = TargetPoint(other)
        return self.target == sample.target and abs(self.weight) == abs(sample.weight)


class TargetNode(LightNode):
    """A node with what the samples on its sides say; a leaf's own weight and mean are the left."""

    messages: Array[Message] = inline(2)
    # Time of the cut. Differences of times change by rounding when another node is put between,
    # which must not reach the messages below.
    cut_time: Float64
    # Of the node's mean given its parent's.
    prior_variance: Float64

    def add_point(self, forest: Forest, point: Point) -> None:
        """Add a target to a leaf's weight and mean."""
        added, own = TargetPoint(point), self.messages[0]
        weight = added.counted()
        own.precision = own.precision + weight
        if own.precision > 0.0:
            own.mean = own.mean + (added.target - own.mean) * weight / own.precision

    def pass_point(self, forest: Forest, side: int, point: Point) -> None:
        """Forget the message of a side, which the point changes."""
        self.messages[side].precision = UNKNOWN

    def inherit(self, forest: Forest, tree: Tree, side: int, child: int) -> None:
        """Begin without a message: it comes when messages are updated."""
        self.messages[side].precision = UNKNOWN

    def is_paused(self, forest: Forest) -> bool:
        """Tell whether a leaf's block pauses: it is too small."""
        return self.n_samples < TargetForest(forest).min_split

    def ends_pause(self, forest: Forest, point: Point) -> bool:
        """Tell whether one more point makes a paused leaf's block large enough."""
        return self.n_samples + 1 >= TargetForest(forest).min_split

    def drop_point(self, forest: Forest, tree: Tree, point: Point) -> None:
        """Take a target out of a leaf's weight and mean, or make these anew of the other points.

        Differences leave rounding errors. So a large leaf's are made anew when as much weight has
        gone as is left, which costs as much as one step for each sample. Until then errors are as
        of a sum over its points and those that have gone: relative to the largest of these, which
        is within the fences. Beyond these, which may have moved, and without any, all is made anew.
        A leaf's right message has the weight that has gone.
        """
        targets, own, gone = TargetForest(forest), self.messages[0], self.messages[1]
        y, weight = TargetPoint(point).target, TargetPoint(point).counted()
        if weight == 0.0:
            return
        left, gone_then = own.precision - weight, gone.precision + weight
        is_within = targets.low_fence <= y <= targets.high_fence
        has_fences = targets.high_fence - targets.low_fence < math.inf
        is_known = gone.precision >= 0.0 and gone_then <= left
        if self.n_samples > LARGE and is_within and has_fences and is_known:
            own.mean = own.mean + (own.mean - y) * weight / left
            own.precision = left
            gone.precision = gone_then
        else:
            self.refill(targets, TargetTree(tree))

    def refill(self, forest: TargetForest, tree: TargetTree) -> None:
        """Make a leaf's weight and mean anew of the points in its list."""
        self.messages[0].precision = 0.0
        self.messages[0].mean = 0.0
        self.messages[1].precision = 0.0
        q = self.first_point
        while q != NONE:
            self.add_point(forest, forest.points.row(q))
            q = forest.links_of(q)[tree.slot]

    def renew_side(self, forest: Forest, tree: Tree, side: int, child: int) -> None:
        """Forget the message of a side."""
        self.messages[side].precision = UNKNOWN

    def change_parent(self) -> None:
        """Forget the prior variance."""
        self.prior_variance = UNKNOWN

    def collapses(self, forest: Forest) -> bool:
        """Tell whether there are too few samples below to be cut."""
        return self.n_samples < TargetForest(forest).min_split

    def end_time(self, start: float) -> float:
        """Return the time of the cut."""
        return self.cut_time

    def latest_above(self, time: float) -> float:
        """Forget the prior variance, since the parent changes; the cut's time stays as it is."""
        self.prior_variance = UNKNOWN
        return min(time, self.cut_time)

    def set_time(self, time: float) -> None:
        """Note the time of a new cut."""
        self.cut_time = time
        self.prior_variance = UNKNOWN


class TargetTree(Tree):
    """A tree over targets."""

    nodes: Table[TargetNode]
    # Rate of the logistic function, per unit of time, and the noise variance in units of gamma1.
    gamma2: Float64
    noise: Float64

    def succeed(self, forest: Forest, old: Tree) -> None:
        """Take over the hyperparameters, for the frame in which the tree is to be drawn."""
        self.gamma2 = TargetForest(forest).drawn_gamma2
        self.noise = TargetTree(old).noise


class TargetForest(Forest):
    """A forest over targets."""

    trees: Array[TargetTree]
    points: Table[TargetPoint]
    # Samples from which on a block is cut.
    min_split: Int64 = stored(Bounds(2))
    horizon: Float64 = stored(Bounds(0.0))
    # Whether nodes have plain means instead of the Gaussian posterior.
    plain_means: Int64
    # The targets so far that count: their weight, mean, and sum of squared deviations.
    y_weight: Float64
    y_mean: Float64
    y_squares: Float64
    # The largest sum of squares that one was taken out of since all of them were added up.
    y_most: Float64
    # gamma1 and the noise variance in the targets' units where these are given, else 0.
    gamma1: Float64
    noise_variance: Float64
    # gamma2 of trees that are drawn anew.
    drawn_gamma2: Float64
    # The law of targets around the forest's prediction; none where that is normal.
    scale_mixture: ScaleMixture
    # The fences beyond which a target is set aside (see `learning`).
    low_fence: Float64
    high_fence: Float64
    # Number of samples at which fences and hyperparameters are to be renewed, which follow it.
    renewed_at: Int64 = transient()
    # The horizon once what is learned next has been learned.
    next_horizon: Float64 = transient()
    # Room for the densities of a target under all trees.
    densities: Array[TargetDensity] = derived()

    def may_forget(self) -> bool:
        """Tell that samples may be forgotten."""
        return True

    def forget_sample(self, p: int) -> None:
        """Take the target of a stored point out of the running moments.

        Where most of the sum of squares has gone, which rounding errors would be left of, those of
        all other points are added up.
        """
        own = self.points.row(p)
        weight = own.counted()
        self.y_most = max(self.y_most, self.y_squares)
        subtract_target(self, own.target, weight)
        if weight > 0.0 and not self.y_squares > KEPT * self.y_most:
            self.add_up(p)

    def add_up(self, left_out: int) -> None:
        """Add up the moments anew of all stored targets but one; NONE for all of them."""
        self.y_weight = 0.0
        self.y_mean = 0.0
        self.y_squares = 0.0
        self.y_most = 0.0
        for p in range(self.n_points):
            if p != left_out:
                point = self.points.row(p)
                add_target(self, point.target, point.weight)


@exact_inlined
def add_target(forest: TargetForest, y: float, weight: float) -> None:
    """Add a target to the running mean and sum of squares, unless it is set aside."""
    if not weight > 0.0:
        return
    total = forest.y_weight + weight
    gap = y - forest.y_mean
    mean = forest.y_mean + gap * weight / total
    forest.y_weight = total
    forest.y_mean = mean
    forest.y_squares = forest.y_squares + weight * gap * (y - mean)


@exact_inlined
def subtract_target(forest: TargetForest, y: float, weight: float) -> None:
    """Take a target out of the moments, as `add_target` has put it there."""
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


@inlined
def logistic_rise(decay: float, span: float) -> float:
    """Return sigma(a + span) - sigma(a) without cancellation, from decay = exp(-a).

    With e = exp(-span) it is 1 / (1 + decay e) - 1 / (1 + decay) = decay (1 - e) / ((1 + decay)
    (1 + decay e)).
    """
    lost = -math.expm1(-span)
    return decay * lost / ((1.0 + decay) * (1.0 + decay * (1.0 - lost)))


@kernel
def prior_variance_over(decay: float, span: float) -> float:
    """Return what `logistic_rise` does, for Python."""
    return logistic_rise(decay, span)


@inlined
def passed_on(precision: float, prior_variance: float) -> float:
    """Return the precision of a message from a node once it has come up to the parent."""
    return 1.0 / (1.0 / precision + prior_variance)


@inlined
def is_leaf(tree: TargetTree, ref: int) -> bool:
    """Tell whether a reference names a leaf."""
    return ref < 0 or tree.nodes.row(ref).dim < 0


@inlined
def leaf_precision(forest: TargetForest, tree: TargetTree, ref: int) -> float:
    """Return the precision of what a leaf's samples say of its mean."""
    if ref < 0:
        weight = forest.points.row(~ref).counted()
    else:
        weight = tree.nodes.row(ref).messages[0].precision
    return weight if forest.plain_means == 1 else weight / tree.noise


@inlined
def leaf_mean(forest: TargetForest, tree: TargetTree, ref: int) -> float:
    """Return the weighted mean of a leaf's targets; 0 where none of them counts."""
    if ref < 0:
        point = forest.points.row(~ref)
        # What has no weight must not reach sums, where it may be so large that others are lost.
        return point.target if point.weight > 0.0 else 0.0
    return tree.nodes.row(ref).messages[0].mean


@inlined
def joint_precision(node: TargetNode) -> float:
    """Return the precision of both sides' messages together."""
    return node.messages[LEFT].precision + node.messages[RIGHT].precision


@inlined
def joint_mean(node: TargetNode) -> float:
    """Return the mean of both sides' messages together."""
    left, right = node.messages[LEFT], node.messages[RIGHT]
    total = left.precision + right.precision
    share = right.precision / total if total > 0.0 else 0.0
    return left.mean + (right.mean - left.mean) * share


@inlined
def time_of(node: TargetNode) -> float:
    """Return the time of a node's cut, 0 for what is above the root."""
    return node.cut_time if node else 0.0


@inlined
def prior_variance_of(tree: TargetTree, parent: TargetNode, node: TargetNode) -> float:
    """Return the prior variance of an internal node, kept until it or its parent changes."""
    if node.prior_variance < 0.0:
        gamma2, above = tree.gamma2, time_of(parent)
        found = logistic_rise(math.exp(-gamma2 * above), gamma2 * (node.cut_time - above))
        node.prior_variance = found
    return node.prior_variance


@inlined
def prior_variance_to_end(tree: TargetTree, parent: TargetNode) -> float:
    """Return the prior variance of a leaf below a node."""
    gamma2, above = tree.gamma2, time_of(parent)
    return logistic_rise(math.exp(-gamma2 * above), gamma2 * (tree.lifetime - above))


@inlined
def side_of_child(parent: TargetNode, ref: int) -> int:
    """Return the side of its parent on which a child is."""
    return LEFT if parent.left == ref else RIGHT


@merged
def _first_unknown_below(forest: T, tree: TargetTree, node: TargetNode) -> int:
    """Update the messages of a node that come from leaves; returns another child to go to, or -1.

    That is the first row whose own message is unknown.
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
        # Never below 0, by which it would be unknown for ever.
        message.precision = max(precision, 0.0)
        message.mean = leaf_mean(forest, tree, child)
    return -1


@separate
def update_messages(forest: T, first: int, last: int) -> None:
    """Bring the messages of trees `first` to `last` up to date, by a walk through the unknown.

    On the way down the mean of an unknown message is the row of the node above, by which the walk
    finds back: it needs no memory, which might be lacking.
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
            # The node's joint message goes to its parent, none above the root. Predictions need
            # the prior variance of the root, too.
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
    """Bring the messages of trees `first` to `last` up to date."""
    update_messages(forest, first, last)


@inlined
def forget_messages(tree: TargetTree) -> None:
    """Make all messages of a tree unknown, since what they depend on has changed."""
    for j in range(tree.nodes.n_rows):
        node = tree.nodes.row(j)
        if node.dim >= 0:
            node.messages[LEFT].precision = UNKNOWN
            node.messages[RIGHT].precision = UNKNOWN
            node.prior_variance = UNKNOWN


@inlined
def posterior_below(
    forest: T, tree: TargetTree, parent: TargetNode, ref: int, prior_variance: float, above: Moments
) -> tuple[float, float, float]:
    """Return a node's share of its parent's mean, and its own posterior mean and variance.

    `above` has the parent's mean and variance; the root has none, but the prior's mean.
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
    # Plain means have no prior; where no sample has a weight the parent's mean stands in.
    is_known = forest.plain_means == 1 and precision > 0.0
    share = 0.0 if is_known else max(1.0 - prior_variance * precision, 0.0)
    own_variance = share * (share * variance + prior_variance)
    return share, likely + share * (mean - likely), own_variance
