"""The likelihood of the latest samples under hyperparameters of the Gaussian posterior.

The cuts of the trees do not change. The latest targets are removed from the trees. Then the mixture
of the trees predicts each of these targets from the earlier targets. After the prediction, the
target is inserted again. This progressive likelihood costs one pass over the trees, and one pass
along a path per sample and tree. The likelihood can be computed for a few trees at a time, while
further samples are learned. The targets of these further samples are then removed temporarily, like
the latest targets.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...checks import check_array, check_number, check_types, refuse
from ...compiling.kernels import always_inline, batch_kernel, inline_in_source
from ...partitions.mondrian.boxes import values_of
from ...partitions.mondrian.constants import EMPTY, NONE
from ...partitions.mondrian.sampling import side_of
from ...records import Array, Float64, Float64s, Floats, Int64, Memory, Record, copy_record, inline
from . import components, messages
from .messages import Message, T, TargetForest, TargetNode, TargetTree

# A point is searched for among at most this many of a leaf's latest points.
LONGEST = 1024

# Smaller variances of predicted targets, in units of gamma1, are raised to this number.
LEAST_VARIANCE = 1e-12
# Smaller densities, per standard deviation of the earlier targets, are raised to this number.
LEAST_DENSITY = 1e-300

# If at most this fraction of a weight remains, the remainder is a rounding error.
_ROUNDING = 1e-9


# A range of points or trees: the first, and the last plus 1.
Span = tuple[int, int]


class RemovedTarget(Record):
    """The saved state of a removed target: a record for each tree, and a record for the point."""

    # Reference to the target's leaf; EMPTY if the target has not been removed.
    leaf: Int64
    # Weight and mean of the leaf with the target; in the point's record, the point's weight.
    weight: Float64
    mean: Float64


class SavedNode(Record):
    """The saved messages and prior variance of a node."""

    messages: Array[Message] = inline(2)
    prior_variance: Float64


class PathStep(Record):
    """A step of a path: the reference to a node or leaf, and the row of an internal node."""

    node: TargetNode
    ref: Int64


class Trial(Record):
    """Hyperparameters on trial in some trees, and the saved state of these trees."""

    gamma2: Float64
    noise: Float64
    # The first tree, and the last tree plus 1. The first predicted point, and the last predicted
    # point plus 1.
    first_tree: Int64
    end_tree: Int64
    first_point: Int64
    end_point: Int64
    # The saved records of the trees, messages of their nodes, and moments of the targets.
    trees: Array[TargetTree]
    nodes: Array[SavedNode]
    y_weight: Float64
    y_mean: Float64
    y_squares: Float64
    # The removed targets: for each point, a record for each tree and a record for the point.
    removed: Array[RemovedTarget]
    # Buffer for a path.
    path: Array[PathStep]
    # For each predicted target, the sum of its densities over trees, and the standard deviation of
    # the earlier targets.
    densities: Float64s

    def n_trees(self) -> int:
        """Return the number of trees."""
        return self.end_tree - self.first_tree

    def removed_at(self, p: int) -> Array[RemovedTarget]:
        """Return the records of a point's target."""
        width = self.n_trees() + 1
        return self.removed.part(width * (p - self.first_point), width)


@inline_in_source
def _find_leaf(forest: T, t: int, p: int) -> int:
    """Return the leaf of a point, or EMPTY if the point is not found.

    A walk with missing values may miss the leaf. In a leaf, at most `LONGEST` points are searched.
    """
    tree = forest.trees[t]
    ref = tree.root
    x = values_of(forest, tree, p, tree.value_buffer)
    while not messages.is_leaf(tree, ref):
        node = tree.nodes.row(ref)
        ref = node.child(side_of(forest, tree, node, x))
    if ref < 0:
        return ref if ref == ~p else EMPTY
    q = tree.nodes.row(ref).first_point
    for _ in range(LONGEST):
        if q in (p, NONE):
            break
        q = forest.links_of(q)[tree.slot]
    return ref if q == p else EMPTY


@inline_in_source
def _remove(forest: T, trial: Trial, p: int) -> None:
    """Remove a point's target from its leaves and from the moments of the targets.

    A target that is set aside as an outlier is in no leaf.
    """
    n_trees, removed = trial.n_trees(), trial.removed_at(p)
    own = removed[n_trees]
    own.leaf = ~p if forest.points.row(p).weight >= 0.0 else EMPTY
    for t in range(n_trees):
        leaf = _find_leaf(forest, trial.first_tree + t, p)
        removed[t].leaf = leaf
        if leaf == EMPTY:
            own.leaf = EMPTY
    if own.leaf == EMPTY:
        return
    point = forest.points.row(p)
    y, weight = point.target, point.weight
    own.weight = weight
    point.weight = 0.0
    for t in range(n_trees):
        leaf = removed[t].leaf
        if leaf >= 0:
            message = forest.trees[trial.first_tree + t].nodes.row(leaf).messages[0]
            total, mean = message.precision, message.mean
            removed[t].weight = total
            removed[t].mean = mean
            rest = total - weight
            # A remainder within rounding errors counts as no sample.
            rest = rest if rest > _ROUNDING * total else 0.0
            message.precision = rest
            if rest > 0.0:
                message.mean = mean + (mean - y) * weight / rest
    messages.subtract_target(forest, y, weight)


@inline_in_source
def _density(forest: T, t: int, p: int, weight: float, path: Array[PathStep]) -> tuple[float, int]:
    """Return a tree's predictive density of a point's target, and the depth of the point's leaf.

    Writes to `path` first a record without a node, then the internal nodes, then the leaf.
    """
    tree = forest.trees[t]
    factor, ref = components.scale_of(forest, tree), tree.root
    x = values_of(forest, tree, p, tree.value_buffer)
    mean, variance = forest.y_mean, 0.0
    parent, depth = tree.nodes.none(), 0
    path[0].node = parent
    while not messages.is_leaf(tree, ref):
        node = tree.nodes.row(ref)
        prior = messages.prior_variance_of(tree, parent, node)
        above = mean, variance
        _, mean, variance = messages.posterior_below(forest, tree, parent, ref, prior, above)
        depth += 1
        path[depth].node = node
        path[depth].ref = ref
        ref = node.child(side_of(forest, tree, node, x))
        parent = node
    path[depth + 1].ref = ref
    prior, above = messages.prior_variance_to_end(tree, parent), (mean, variance)
    _, mean, variance = messages.posterior_below(forest, tree, parent, ref, prior, above)
    variance = factor * max(variance + tree.noise / weight, LEAST_VARIANCE)
    if not variance > 0.0:
        return 0.0, depth
    size = math.exp(-0.5 * (forest.points.row(p).target - mean) ** 2 / variance)
    return size / math.sqrt(2.0 * math.pi * variance), depth


@inline_in_source
def _renew(forest: T, tree: TargetTree, depth: int, path: Array[PathStep]) -> None:
    """Update the messages along a path, from a leaf with a changed target up to the root."""
    for i in range(depth, 0, -1):
        parent, ref = tree.nodes.cast(path[i].node), path[i + 1].ref
        if i == depth:
            precision = messages.leaf_precision(forest, tree, ref)
            mean = messages.leaf_mean(forest, tree, ref)
            prior = messages.prior_variance_to_end(tree, parent)
        else:
            below = tree.nodes.cast(path[i + 1].node)
            precision, mean = messages.joint_precision(below), messages.joint_mean(below)
            prior = messages.prior_variance_of(tree, parent, below)
        message = parent.messages[messages.side_of_child(parent, ref)]
        message.precision = messages.passed_on(precision, prior)
        message.mean = mean


@always_inline
def _copy_messages(source: TargetNode | SavedNode, to: TargetNode | SavedNode) -> None:
    """Copy messages and prior variance."""
    for side in range(2):
        to.messages[side].precision = source.messages[side].precision
        to.messages[side].mean = source.messages[side].mean
    to.prior_variance = source.prior_variance


@inline_in_source
def _begin(forest: T, trial: Trial) -> None:
    """Save the trees and the moments, and set the hyperparameters on trial."""
    start = 0
    for t in range(trial.first_tree, trial.end_tree):
        tree = forest.trees[t]
        for j in range(tree.nodes.n_rows):
            _copy_messages(tree.nodes.row(j), trial.nodes[start + j])
        start += tree.nodes.n_rows
        copy_record(tree, trial.trees[t - trial.first_tree])
        tree.gamma2, tree.noise = trial.gamma2, trial.noise
        messages.forget_messages(tree)
    trial.y_weight, trial.y_mean, trial.y_squares = forest.y_weight, forest.y_mean, forest.y_squares


@inline_in_source
def _predict_and_insert(forest: T, trial: Trial, p: int) -> None:
    """Predict a removed target from the earlier targets, and insert the target again.

    Only targets before `Trial.end_point` are predicted. A target that is not removed, or has no
    weight, is skipped.
    """
    removed, n_trees = trial.removed_at(p), trial.n_trees()
    own, is_predicted = removed[n_trees], p < trial.end_point
    n_found = 2 if is_predicted else 0
    found = trial.densities.part(n_found * (p - trial.first_point), n_found)
    if own.leaf == EMPTY:
        if is_predicted:
            found[1] = math.nan
        return
    y, weight = forest.points.row(p).target, own.weight
    is_scored = is_predicted and weight > 0.0
    for t in range(n_trees):
        tree, depth = forest.trees[trial.first_tree + t], 0
        if is_scored:
            density, depth = _density(forest, trial.first_tree + t, p, weight, trial.path)
            found[0] = found[0] + density
        forest.points.row(p).weight = weight
        if removed[t].leaf >= 0:
            message = tree.nodes.row(removed[t].leaf).messages[0]
            message.precision, message.mean = removed[t].weight, removed[t].mean
        if is_scored:
            _renew(forest, tree, depth, trial.path)
    if is_predicted and weight == 0.0:
        found[1] = math.nan
    elif is_predicted and found[1] == found[1]:
        found[1] = math.sqrt(forest.y_squares / forest.y_weight)
    messages.add_target(forest, y, weight)


@inline_in_source
def _end(forest: T, trial: Trial) -> None:
    """Restore the moments, the trees and the messages."""
    forest.y_weight, forest.y_mean, forest.y_squares = trial.y_weight, trial.y_mean, trial.y_squares
    start = 0
    for t in range(trial.first_tree, trial.end_tree):
        tree = forest.trees[t]
        copy_record(trial.trees[t - trial.first_tree], tree)
        for j in range(tree.nodes.n_rows):
            _copy_messages(trial.nodes[start + j], tree.nodes.row(j))
        start += tree.nodes.n_rows


@batch_kernel
def _try(forest: T, trial: Trial) -> None:
    """Add the densities of targets under the trial's trees and hyperparameters."""
    end = forest.n_points
    _begin(forest, trial)
    # The latest target is removed first.
    for p in range(end - 1, trial.first_point - 1, -1):
        _remove(forest, trial, p)
    messages.update_messages(forest, trial.first_tree, trial.end_tree)
    for p in range(trial.first_point, end):
        _predict_and_insert(forest, trial, p)
    _end(forest, trial)


def add_densities(
    forest: TargetForest, points: Span, trees: Span, pair: tuple[float, float], found: Floats
) -> None:
    """Add the densities of targets under some trees to `found`. The forest is not changed.

    Parameters
    ----------
    forest
        The forest, whose messages are up to date.
    points
        First point whose target is predicted, and the last such point plus 1. Each target is
        predicted from the earlier targets. The targets of later points are removed temporarily.
    trees
        First tree, and the last tree plus 1.
    pair
        The hyperparameters: gamma2 and the noise variance in units of gamma1.
    found
        For each target, the sum of the target's densities over trees, and the standard deviation of
        the earlier targets. The standard deviation of a skipped target is NaN. Shape (targets, 2).

    """
    n, n_trees = int(forest.n_points) - points[0], trees[1] - trees[0]
    sizes = [int(forest.trees[t].nodes.n_rows) for t in range(*trees)]
    memory = Memory(Trial)
    trial = memory[0]
    trial.first_point, trial.end_point = points
    trial.first_tree, trial.end_tree = trees
    trial.gamma2, trial.noise = pair
    lengths = {"trees": n_trees, "removed": n * (n_trees + 1)}
    lengths |= {"nodes": sum(sizes), "path": max(sizes) + 2}
    for name, length in lengths.items():
        memory.own_records(name, length)
    memory.own("densities", found.reshape(-1))
    _try(forest, trial)


def progressive_likelihood(found: Floats, n_trees: int) -> float:
    """Return the mean log density of targets, per standard deviation of the earlier targets.

    `found` has the sums of `add_densities` over `n_trees` trees.
    """
    total, n = 0.0, 0
    for density, spread in found.tolist():
        if spread > 0.0:
            total += math.log(max(density * spread / n_trees, LEAST_DENSITY))
            n += 1
    return total / n if n > 0 else 0.0


# Changes of hyperparameters by hill climbing on the progressive likelihood.
#
# In a large forest a change is spread over later samples, so that no sample waits for the whole
# change. With each sample, the model computes the densities of some trees under one candidate, or
# sets the chosen hyperparameters of some trees. An unfinished change affects only the trees that
# have been processed.


# Exponents (a, b): gamma2 is 2^a times its reference value, and the noise is NOISE_STEP^b times its
# reference value (see `TargetTrees._hyperparameters`).
Choice = tuple[int, int]

# The exponent b is from 0 to LAST_NOISE. Each step of b away from 0 must increase the log
# likelihood by LEAST_GAIN per sample.
NOISE_STEP = 5.0
LAST_NOISE = 4
LEAST_GAIN = 0.03

# Largest number of steps of hill climbing, and largest total number of scored candidates.
MOST_MOVES = 5
MOST_CANDIDATES = 5 * MOST_MOVES

# Largest number of predicted targets. At most the latest half of the targets is predicted.
CHOICE_SAMPLES = 128

# Upper bound of the absolute values of the exponents of any choice.
MOST_STEPS = 100


def n_targets(n: int) -> int:
    """Return the number of predicted targets, given `n` samples."""
    return min(n // 2, CHOICE_SAMPLES)


def chosen(
    start: Choice, scores: Mapping[Choice, float], moves_gamma2: bool, moves_noise: bool
) -> tuple[Choice, Choice | None]:
    """Return the choice that hill climbing reaches from `start`, and the next candidate to score.

    If the candidate is None, hill climbing has ended.
    """

    def score(one: Choice) -> float:
        return scores[one] - LEAST_GAIN * one[1]

    reached = start
    for _ in range(MOST_MOVES):
        power, step = reached
        near = [reached]
        if moves_gamma2:
            near += [(power - 1, step), (power + 1, step)]
        if moves_noise:
            near += [(power, s) for s in (step - 1, step + 1) if 0 <= s <= LAST_NOISE]
        if len(near) == 1:
            break
        for one in near:
            if one not in scores:
                return reached, one
        best = max(near, key=score)
        if best == reached:
            break
        reached = best
    return reached, None


@dataclass(frozen=True)
class Change:
    """An unfinished change of hyperparameters.

    Parameters
    ----------
    n
        Number of samples when the change began.
    at
        Number of samples at the latest step.
    extent
        Sum of the sides of the root's box when the change began.
    variance
        Variance of the targets when the change began.
    scaling
        Index (0 or 1) of the scaling for which `extent` was computed.
    n_forgotten
        Number of forgotten samples when the change began.
    choice
        The exponents (`Choice`) when the change began, and later the new exponents.
    is_chosen
        Whether `choice` has the new exponents, which are then set in the trees.
    scores
        The progressive likelihood of each scored candidate.
    n_done
        Number of trees with densities for the current candidate, or with the new hyperparameters.
    densities
        The densities under the first `n_done` trees (see `add_densities`), or None.

    """

    n: int
    at: int
    extent: float
    variance: float
    scaling: int
    n_forgotten: int
    choice: Choice
    is_chosen: bool
    scores: dict[Choice, float] = field(default_factory=dict)
    n_done: int = 0
    densities: Floats | None = None


def check_choice(owner: object, choice: Any) -> None:
    """Refuse a stored choice that is not a pair of integers within MOST_STEPS."""
    are_integers = type(choice) is tuple and [*map(type, choice)] == [int, int]
    if not are_integers or max(map(abs, choice)) > MOST_STEPS:
        refuse(owner, "choice", choice, f"but it should be two integers up to {MOST_STEPS}")


def check_change(owner: Any, state: Any) -> None:
    """Refuse the stored state of a change that is impossible for the owner's trees."""
    if type(state) is not dict or set(state) != set(Change.__dataclass_fields__):
        refuse(owner, "change", state, "but its fields are wrong")
    change = Change(**state)
    whole = dict.fromkeys(("n", "at", "scaling", "n_forgotten", "n_done"), int)
    real = dict.fromkeys(("extent", "variance"), float)
    check_types(change, whole | real | {"is_chosen": bool, "choice": tuple, "scores": dict})
    forest = owner.forest
    for name, least, most in (
        ("n", 1, forest.n_samples),
        ("at", change.n, forest.n_samples),
        ("scaling", 0, 1),
        ("n_forgotten", 0, forest.n_forgotten),
        ("n_done", 0, forest.n_trees),
        ("extent", 0.0, math.inf),
        ("variance", 0.0, math.inf),
    ):
        check_number(change, name, getattr(change, name), least, most)
    for choice in (change.choice, *change.scores):
        check_choice(change, choice)
    for score in change.scores.values():
        if type(score) is not float:
            refuse(change, "a score", score, "but it should be a float")
    found = change.densities
    if found is not None:
        check_array(change, "densities", np.nan_to_num(found), np.float64, 0.0, math.inf)
        shape = n_targets(change.n), 2
        if found.shape != shape:
            refuse(change, "the shape of densities", found.shape, f"but it should be {shape}")
