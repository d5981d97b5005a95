"""Label posterior of a Mondrian tree: the hierarchical normalized stable process (HNSP).

The counts of the HNSP are interpolated Kneser-Ney counts (`records`). Equation 4 of
Lakshminarayanan, Roy and Teh (2014) is linear in the parent's distribution: G_j = b_j + a_j
G_parent. All equations and algorithms named in this module are from this paper. A prediction is a
weighted sum of the terms b_j along the path (Equations 5 and 6). So the descent computes only the
probabilities of branching off (see `partitions.mondrian.walks`). One pass from the leaf up adds the
weighted term of each node to the probabilities of the classes. The pass ends early if the remaining
weight is negligible.

Suppose that the sample has not branched off above node j, which has the counts c and the tables
tab. Then Equation 4 is G_jk = (c_jk - d tab_jk) / c_j + d tab_j / c_j G_parent,k with the discount
d = exp(-gamma span). The span of node j is the time from the parent's cut to the cut of node j.

Suppose that the sample branches off at node j with the rate eta. The time from the parent's cut is
Delta ~ Exp(eta), truncated to the span. Then node j gets a new parent with the counts c = tab =
min(c_j, 1) (Algorithm 8, line 10). The expected discount (line 9) is

    E[exp(-gamma Delta)] = eta / (eta + gamma) (1 - exp(-(eta + gamma) span)) / (1 - exp(-eta span))

The probability of branching off is 1 - exp(-eta span). The expected discount times this probability
is eta / (eta + gamma) (1 - stays d), with stays = exp(-eta span).

If samples have weights other than 1, c and tab are real numbers (`records`).
"""

import math
from collections.abc import Callable

import numpy as np

from ...compiling.kernels import (
    always_inline,
    batch_kernel,
    helper,
    inline_in_source,
    kernel,
    link_by_name,
)
from ...limits import LARGEST_WEIGHT, TOO_LARGE, WAITS
from ...partitions.mondrian import extension, forgetting, widths
from ...partitions.mondrian.constants import EMPTY, LEFT, NONE, RIGHT
from ...partitions.mondrian.records import Forest
from ...partitions.mondrian.scaling import scale
from ...partitions.mondrian.walks import NEGLIGIBLE, Prediction, Walk, predict_row, predict_rows
from ...records import Float32s, Float64s, Int32s, Int64s, Packed, array_buffer
from ...records.arrays import Writable
from ...records.numba_types import lowest_bit
from . import records
from .records import L, LabelForest, LabelNode, LabelPoint, LabelTree, word_at


class LabelPrediction(Prediction):
    """Sums over trees of the class probabilities, shape (samples, n_classes)."""

    probabilities: Float64s

    def add_walk(self, forest: Forest, t: int, walk: Walk, row: int) -> None:
        """Add the prediction of tree `t` for the `row`-th sample."""
        add_posterior(LabelForest(forest), t, walk, self, row)


_buffer_of_prediction = array_buffer(LabelPrediction, 1)


@always_inline
def _add_each(word: int, first: int, weight: float, out: Float64s) -> None:
    """Add a weight to `out` for each class in a word of a set."""
    while word != 0:
        k = first + lowest_bit(word)
        out[k] = out[k] + weight
        word &= word - 1


@inline_in_source
def _add_counts(forest: L, tree: LabelTree, node: LabelNode, factor: float, out: Float64s) -> None:
    """Add a factor times the class counts of a leaf of several classes."""
    if node.count_row != NONE:
        counts = tree.side_rows.row(node.count_row).counts(forest)
        for k in range(forest.n_classes):
            out[k] = out[k] + factor * counts[k]
        return
    p = node.first_point
    while p != NONE:
        point = forest.points.row(p)
        out[point.label] = out[point.label] + factor
        p = forest.links_in(point)[tree.slot]


@inline_in_source
def _add_classes(
    left: Int32s, right: Int32s, n_words: int, of_both: float, of_any: float, out: Float64s
) -> None:
    """Add `of_both` to classes in both sets, and `of_any` to classes in at least one set."""
    size = records.WORD_CLASSES
    if of_both != 0.0:
        for w in range(n_words):
            _add_each(word_at(left, w) & word_at(right, w), size * w, of_both, out)
    for w in range(n_words):
        _add_each(word_at(left, w) | word_at(right, w), size * w, of_any, out)


@always_inline
def branching(
    eta: float, reach: float, stays: float, gamma: float, discount: float
) -> tuple[float, float]:
    """Return the weights of a node's tables and of the parent's distribution after branching off.

    The function implements Algorithm 8, lines 6 to 12, of Lakshminarayanan, Roy and Teh (2014),
    without the sums over classes.
    """
    if not eta > 0.0:
        return 0.0, 0.0
    passed = reach * eta / (eta + gamma) * (1.0 - stays * discount)
    return max(reach * (1.0 - stays) - passed, 0.0), passed


# Terms of Equation 4 at a node or a point. `weight` is the weight of the node's distribution, and
# `at_node` the weight of the node's tables after branching off there. The functions that add the
# terms return the weight of the parent's distribution.


@always_inline
def point_terms(mass: float, weight: float, at_node: float, discount: float) -> tuple[float, float]:
    """Return the weights of the class and of the parent's distribution at a point.

    For the class of the point, c is the mass of the point, and tab is min(c, 1).
    """
    share = discount * (min(mass, 1.0) / mass)
    return weight * (1.0 - share) + at_node, weight * share


@inline_in_source
def _add_point(
    point: LabelPoint, weight: float, at_node: float, discount: float, out: Float64s
) -> float:
    """Add the terms of a point."""
    of_class, of_parent = point_terms(point.weight, weight, at_node, discount)
    out[point.label] = out[point.label] + of_class
    return of_parent


@inline_in_source
def _add_weights(
    forest: L, node: LabelNode, weight: float, at_node: float, discount: float, out: Float64s
) -> float:
    """Add the terms of a node in a forest with weights."""
    n_classes = forest.n_classes
    left, right = node.weights(forest, LEFT), node.weights(forest, RIGHT)
    is_leaf = node.dim < 0 or node.hides(forest)
    # Sums of c and of tab over classes.
    total, tables = 0.0, 0.0
    for k in range(n_classes):
        whole = left[k] + right[k]
        total += whole if is_leaf else min(left[k], 1.0) + min(right[k], 1.0)
        tables += min(whole, 1.0)
    for k in range(n_classes):
        whole = left[k] + right[k]
        table = min(whole, 1.0)
        count = whole if is_leaf else min(left[k], 1.0) + min(right[k], 1.0)
        # Quotients are computed first, since products with a small weight may underflow.
        term = weight * (count / total - discount * (table / total)) + at_node * (table / tables)
        out[k] = out[k] + term
    return weight * (discount * (tables / total))


@inline_in_source
def _add_sets(
    forest: L,
    tree: LabelTree,
    node: LabelNode,
    is_leaf: bool,
    weight: float,
    at_node: float,
    discount: float,
    out: Float64s,
) -> float:
    """Add the terms of a node in a forest without weights, where each class below has tab 1."""
    n_words = records.n_words_of(forest.n_classes)
    left = node.classes(forest, LEFT)
    right = left if node.dim < 0 else node.classes(forest, RIGHT)
    n_below, n_in_both = records.count_classes(left, right, n_words)
    if is_leaf:
        # At a leaf, c of a class is the number of samples of the class.
        total, of_both = np.float64(node.n_samples), 0.0
        if n_below > 1:
            _add_counts(forest, tree, node, weight / total, out)
            of_any = at_node / n_below - weight * discount / total
        else:
            of_any = at_node + weight * (total - discount) / total
    else:
        # At an internal node, c of a class is the number of children whose subtrees contain the
        # class.
        total = np.float64(n_below + n_in_both)
        of_any = at_node / n_below + weight * (1.0 - discount) / total
        of_both = weight / total
    _add_classes(left, right, n_words, of_both, of_any, out)
    return weight * discount * n_below / total


@link_by_name
def add_posterior(forest: L, t: int, walk: Walk, prediction: LabelPrediction, row: int) -> None:
    """Add the class probabilities of a walk, from the leaf up to the uniform base distribution."""
    tree, n_classes = forest.trees[t], forest.n_classes
    out = prediction.probabilities.part(n_classes * row, n_classes)
    # Probability of reaching the leaf without branching off.
    weight = walk.reach
    for i in range(walk.depth, 0, -1):
        step = walk.path[i]
        discount = math.exp(-forest.gamma * step.span)
        at_node, passed = branching(step.eta, step.reach, step.stays, forest.gamma, discount)
        if step.ref < 0:
            weight = _add_point(forest.points.row(~step.ref), weight, at_node, discount, out)
        elif forest.has_weights():
            weight = _add_weights(forest, tree.nodes.row(step.ref), weight, at_node, discount, out)
        else:
            node, is_leaf = tree.nodes.row(step.ref), i == walk.depth
            weight = _add_sets(forest, tree, node, is_leaf, weight, at_node, discount, out)
        weight += passed
        if weight + step.above < NEGLIGIBLE:
            return
    # The base distribution is uniform, so each class gets an equal part of the remaining weight.
    for k in range(n_classes):
        out[k] = out[k] + weight / n_classes


@always_inline
def most_probable(probabilities: Float64s, n_classes: int) -> int:
    """Return the most probable class, or the first of several equally probable classes."""
    best = 0
    for k in range(1, n_classes):
        if probabilities[k] > probabilities[best]:
            best = k
    return best


@always_inline
def _begin(out: Float64s, size: int) -> None:
    """Set sums of probabilities to 0."""
    for k in range(size):
        out[k] = 0.0


@always_inline
def _average(forest: L, out: Float64s, size: int) -> None:
    """Divide sums over trees by the number of trees."""
    for k in range(size):
        # Means are clipped to 1, because rounding may lead to means slightly above 1.
        out[k] = min(out[k] / forest.n_trees, 1.0)


@batch_kernel
def predict_many(forest: L, rows: Float32s, n: int, prediction: LabelPrediction) -> None:
    """Predict class probabilities for `n` rows of values."""
    size = n * forest.n_classes
    _begin(prediction.probabilities, size)
    predict_rows(forest, rows, n, prediction)
    _average(forest, prediction.probabilities, size)


@always_inline
def _predict_all(forest: L, row: Float32s, prediction: LabelPrediction) -> int:
    """Predict a row as `predict_row` does, but always with all trees."""
    predict_rows(forest, row, 1, prediction)
    return forest.n_trees


@always_inline
def _predict(
    forest: L, version: int, inputs: Packed, out: Writable, predict: Callable[..., int]
) -> int:
    """Return the result of `predict_one`; `predict` is `predict_row` or `_predict_all`."""
    if version != forest.version:
        return WAITS
    bad = scale(forest, forest.row, Float64s(inputs, 0, forest.n_inputs))
    if bad >= 0:
        return TOO_LARGE - bad
    prediction, n_classes = _buffer_of_prediction()[0], forest.n_classes
    probabilities = prediction.probabilities = Float64s(out, 0, n_classes)
    _begin(probabilities, n_classes)
    if predict(forest, forest.row, prediction) < forest.n_trees:
        return WAITS
    _average(forest, probabilities, n_classes)
    return most_probable(probabilities, n_classes)


@kernel
def predict_one(forest: L, version: int, inputs: Packed, out: Writable) -> int:
    """Predict a sample, and write the probability of each class to `out`.

    Returns the most probable class, or `TOO_LARGE - i` if the i-th input is too large. Returns
    WAITS if the trees' version is not `version`, if a value is missing, or if a path is long.
    """
    return _predict(forest, version, inputs, out, predict_row)


@kernel
def predict_any(forest: L, version: int, inputs: Packed, out: Writable) -> int:
    """Predict a sample as `predict_one` does, even with missing values or long paths."""
    return _predict(forest, version, inputs, out, _predict_all)


@kernel
def put_samples(forest: L, labels: Int64s, weights: Float64s, n: int, first: int) -> None:
    """Write the classes and the weights of the points `first`, `first + 1`, ..."""
    for i in range(n):
        forest.points.row(first + i).put(labels[i], weights[i])


@always_inline
def _takes(forest: L, version: int, weight: float) -> bool:
    """Return whether the trees accept a sample now, with this version and this weight."""
    is_known = weight == 1.0 or (forest.has_weights() and 0.0 < weight <= LARGEST_WEIGHT)
    return is_known and version == forest.version and not extension.must_wait(forest)


@kernel
def learn_one(forest: L, version: int, inputs: Packed, label: int, weight: float) -> int:
    """Store a sample as the next point, and extend every tree by this point.

    Returns WAITS if the trees have another version or must wait. Also returns WAITS if the weight
    is out of range, or is not 1 while nodes have no weights. Otherwise returns the result of
    `widths.learn_next`.
    """
    if not _takes(forest, version, weight):
        return WAITS
    p = forest.n_points
    forest.points.row(p).put(label, weight)
    return widths.learn_next(forest, Float64s(inputs, 0, forest.n_inputs), p)


@kernel
def learn_in_window(forest: L, version: int, inputs: Packed, label: int, weight: float) -> int:
    """Learn a sample as `learn_one` does, in a forest with a window.

    The kernel is separate, so that forests without a window do not compile the code for forgetting,
    which takes seconds.
    """
    if not _takes(forest, version, weight):
        return WAITS
    values = Float64s(inputs, 0, forest.n_inputs)
    p = forgetting.next_point(forest, values)
    if p < 0:
        return p
    forest.points.row(p).put(label, weight)
    return widths.learn_next(forest, values, p)


# Weights of the samples in leaves.


@helper
def count_leaf(forest: LabelForest, t: int, node: LabelNode, counts: Float64s) -> None:
    """Write the number of samples of each class in a leaf of a tree without weights."""
    tree = forest.trees[t]
    for k in range(forest.n_classes):
        counts[k] = 0.0
    if node.n_classes(forest) == 1:
        label = records.first_class(node.classes(forest, LEFT), forest.n_set_words)
        counts[label] = node.n_samples
    elif node.count_row != NONE:
        known = tree.side_rows.row(node.count_row).counts(forest)
        for k in range(forest.n_classes):
            counts[k] = known[k]
    else:
        p = node.first_point
        while p != NONE:
            label = forest.points.row(p).label
            counts[label] = counts[label] + 1.0
            p = forest.links_of(p)[tree.slot]


@batch_kernel
def count_leaves(forest: L, t: int, rows: Int64s, n: int, counts: Float64s) -> None:
    """Write the class weights of `n` leaves, given the leaves' rows, shape (n, n_classes)."""
    for i in range(n):
        own = counts.part(forest.n_classes * i, forest.n_classes)
        node = forest.trees[t].nodes.row(rows[i])
        if not forest.has_weights():
            count_leaf(forest, t, node, own)
            continue
        left, right = node.weights(forest, LEFT), node.weights(forest, RIGHT)
        for k in range(forest.n_classes):
            own[k] = left[k] + right[k]


@batch_kernel
def fill_weights(forest: L, t: int, order: Int32s) -> None:
    """Write the class weights to a tree's rows, given that all samples have weight 1.

    The rows must have room for weights. `order` is a buffer with an element for each row.
    """
    tree = forest.trees[t]
    if tree.root == EMPTY or tree.root < 0:
        return
    # List the rows from the root down. Then fill the rows from the leaves up, since parents read
    # their children.
    order[0] = tree.root
    n, done = 1, 0
    while done < n:
        node = tree.nodes.row(order[done])
        done += 1
        for side in range(2):
            if node.dim >= 0 and node.child(side) >= 0:
                order[n] = node.child(side)
                n += 1
    for i in range(n - 1, -1, -1):
        node = tree.nodes.row(order[i])
        if node.dim < 0:
            count_leaf(forest, t, node, node.weights(forest, LEFT))
            # Drop the reference to the row of counts, since leaves with weights have no such rows.
            node.right = NONE
        else:
            for side in range(2):
                node.inherit(forest, tree, side, node.child(side))
