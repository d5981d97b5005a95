"""Messages up a tree over targets, and the posterior of a node's mean on the way down."""

from __future__ import annotations

import math

from ...compiling.kernels import batch_kernel, inlined, kernel, merged, separate
from ...partitions.mondrian.records import EMPTY, LEFT, NONE, RIGHT
from .records import UNKNOWN, Message, T, TargetForest, TargetNode, TargetTree


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
    found = node.prior_variance
    if found < 0.0:
        gamma2 = tree.gamma2
        above = time_of(parent)
        found = logistic_rise(math.exp(-gamma2 * above), gamma2 * (node.cut_time - above))
        node.prior_variance = found
    return found


@inlined
def prior_variance_to_end(tree: TargetTree, parent: TargetNode) -> float:
    """Return the prior variance of a leaf below a node."""
    gamma2 = tree.gamma2
    above = time_of(parent)
    return logistic_rise(math.exp(-gamma2 * above), gamma2 * (tree.lifetime - above))


@inlined
def side_of_child(parent: TargetNode, ref: int) -> int:
    """Return the side of its parent on which a child is."""
    return LEFT if parent.left == ref else RIGHT


@inlined
def _write(message: Message, precision: float, mean: float) -> None:
    message.precision = precision
    message.mean = mean


@merged
def _first_unknown_below(forest: TargetForest, tree: TargetTree, node: TargetNode) -> int:
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
        _write(message, max(precision, 0.0), leaf_mean(forest, tree, child))
    return -1


@merged
def _send_up(
    forest: TargetForest, tree: TargetTree, parent: TargetNode, side: int, node: TargetNode
) -> None:
    """Send a node's joint message to a side of its parent, none above the root."""
    # Predictions need the prior variance of the root, too.
    variance = 0.0 if forest.plain_means == 1 else prior_variance_of(tree, parent, node)
    if parent:
        precision = joint_precision(node)
        if forest.plain_means == 0:
            precision = passed_on(precision, variance)
        _write(parent.messages[side], max(precision, 0.0), joint_mean(node))


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
            following, parent, side = NONE, tree.nodes.none(), LEFT
            if above != NONE:
                parent = tree.nodes.row(above)
                side = side_of_child(parent, ref)
                following = int(parent.messages[side].mean)
            _send_up(forest, tree, parent, side, node)
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
    forest: TargetForest,
    tree: TargetTree,
    parent: TargetNode,
    ref: int,
    prior_variance: float,
    mean: float,
    variance: float,
) -> tuple[float, float, float]:
    """Return a node's share of its parent's mean, and its own posterior mean and variance.

    `mean` and `variance` are the parent's; the root has none, but the prior's mean.
    """
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
    share = 0.0 if is_known else 1.0 - prior_variance * precision
    share = max(share, 0.0)
    own_variance = share * (share * variance + prior_variance)
    return share, likely + share * (mean - likely), own_variance
