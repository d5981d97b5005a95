"""Label posterior of a Mondrian tree whose samples have weights: Equation 4 with real numbers.

`hnsp` is the case in which all weights are 1; it says how the pass from the leaf up goes. Here the
counts c and the tables tab are real numbers (see `weighted_records`). Where a sample branches off,
the new parent has the counts c = tab = min(c_j, 1).
"""

from __future__ import annotations

import math

from ...compiling.kernels import batch_kernel, helper, kernel, merged, separate
from ...limits import LARGEST_WEIGHT
from ...partitions.mondrian.extension import must_wait
from ...partitions.mondrian.records import EMPTY, LEFT, NONE, RIGHT, Forest
from ...partitions.mondrian.renewal import learn_next
from ...partitions.mondrian.stored import next_point
from ...partitions.mondrian.walks import Walk
from ...records import Float32s, Float64s, Int32s, Int64s, Packed, Room, room_of_array
from ...status import WAITS
from .hnsp import NEGLIGIBLE, LabelPrediction, average, branching, predict_packed
from .leaf_counts import count_leaf
from .records import LabelForest
from .weighted_records import W, WeightedForest, WeightedNode


class WeightedPrediction(LabelPrediction):
    """Sums of the trees' probabilities of each class, by weighted samples."""

    def add_walk(self, forest: Forest, t: int, walk: Walk, row: int) -> None:
        """Add the prediction of tree `t` for the `row`-th sample."""
        add_posterior(WeightedForest(forest), t, walk, self, row)


_room_of_prediction = room_of_array(WeightedPrediction, 1)


@merged
def _add_node(
    forest: WeightedForest,
    node: WeightedNode,
    weight: float,
    own: float,
    discount: float,
    out: Float64s,
) -> float:
    """Add a node's terms for its own classes; returns the share of the weight that goes up.

    `weight` is that of the node's distribution, `own` that of its tables alone.
    """
    n_classes = forest.n_classes
    left, right = node.weights(forest, LEFT), node.weights(forest, RIGHT)
    is_leaf = node.dim < 0 or node.hides(forest)
    # c of each class, and tab, whose sums are those over classes.
    total, tables = 0.0, 0.0
    for k in range(n_classes):
        whole = left[k] + right[k]
        total += whole if is_leaf else min(left[k], 1.0) + min(right[k], 1.0)
        tables += min(whole, 1.0)
    for k in range(n_classes):
        whole = left[k] + right[k]
        table = min(whole, 1.0)
        count = whole if is_leaf else min(left[k], 1.0) + min(right[k], 1.0)
        # Divided first: a weight may be so small that products lose it.
        term = weight * (count / total - discount * (table / total)) + own * (table / tables)
        out[k] = out[k] + term
    return discount * (tables / total)


@separate
def add_posterior(forest: W, t: int, walk: Walk, prediction: WeightedPrediction, row: int) -> None:
    """Add a walk's prediction, from its leaf up to the base (Algorithm 8)."""
    tree = forest.trees[t]
    gamma, n_classes = forest.gamma, forest.n_classes
    out = prediction.probabilities.part(n_classes * row, n_classes)
    # Probability of reaching the leaf without branching off.
    weight = walk.reach
    for i in range(walk.depth, 0, -1):
        step = walk.path[i]
        discount = math.exp(-gamma * step.span)
        own, passed = branching(step, gamma, discount)
        if step.ref < 0:
            # A single point: c is its weight.
            point = forest.points.row(~step.ref)
            share = discount * (min(point.weight, 1.0) / point.weight)
            out[point.label] = out[point.label] + weight * (1.0 - share) + own
        else:
            node = tree.nodes.row(step.ref)
            share = _add_node(forest, node, weight, own, discount, out)
        weight = weight * share + passed
        if weight + step.above < NEGLIGIBLE:
            return
    # The base distribution is uniform.
    for k in range(n_classes):
        out[k] = out[k] + weight / n_classes


@batch_kernel
def predict_many(forest: W, rows: Float32s, n: int, prediction: WeightedPrediction) -> None:
    """Predict `n` rows of values."""
    average(forest, rows, n, prediction)


@kernel
def predict_one(forest: W, version: int, inputs: Packed, out: Room) -> int:
    """Predict a sample as `hnsp.predict_one` does."""
    return predict_packed(forest, version, inputs, out, _room_of_prediction()[0])


@kernel
def put_samples(forest: W, labels: Int64s, weights: Float64s, n: int, first: int) -> None:
    """Write the classes and the weights of the points `first`, `first + 1`, ..."""
    for i in range(n):
        forest.points.row(first + i).put(labels[i], weights[i])


@kernel
def learn_one(forest: W, version: int, inputs: Packed, label: int, weight: float) -> int:
    """Learn a sample as `hnsp.learn_one` does; WAITS where the weight is out of its range."""
    if version != forest.version or must_wait(forest):
        return WAITS
    if not 0.0 < weight <= LARGEST_WEIGHT:
        return WAITS
    p = forest.n_points
    forest.points.row(p).put(label, weight)
    return learn_next(forest, Float64s(inputs, 0, forest.n_inputs), p)


@kernel
def learn_in_window(forest: W, version: int, inputs: Packed, label: int, weight: float) -> int:
    """Learn a sample as `learn_one` does, where there is a window."""
    if version != forest.version or must_wait(forest):
        return WAITS
    if not 0.0 < weight <= LARGEST_WEIGHT:
        return WAITS
    values = Float64s(inputs, 0, forest.n_inputs)
    p = next_point(forest, values)
    if p < 0:
        return p
    forest.points.row(p).put(label, weight)
    return learn_next(forest, values, p)


# From trees whose samples all weigh 1.


@helper
def _fill_leaf(
    forest: WeightedForest, t: int, node: WeightedNode, plain: LabelForest, j: int
) -> None:
    """Give a leaf's row the weights of its samples."""
    count_leaf(plain, t, plain.trees[t].nodes.row(j), node.weights(forest, LEFT))
    node.n_below = node.count_classes(forest)


@batch_kernel
def fill_weights(forest: WeightedForest, t: int, plain: LabelForest, order: Int32s) -> None:
    """Give the rows of a tree, which are as in another forest, the weights of their samples.

    `order` has room for as many numbers as there are rows.
    """
    tree = forest.trees[t]
    if tree.root == EMPTY or tree.root < 0:
        return
    # From the root down; then from below up.
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
        j = order[i]
        node = tree.nodes.row(j)
        if node.dim < 0:
            _fill_leaf(forest, t, node, plain, j)
            # It has no row of counts.
            node.right = NONE
        else:
            for side in range(2):
                node.inherit(forest, tree, side, node.child(side))
