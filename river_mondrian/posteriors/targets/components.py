"""Predictions of targets: a mixture of normal distributions from the walks of a sample.

A tree predicts a normal distribution at the sample's leaf, and at each node where the sample may
branch off the path. The forest's prediction is the mixture of these components over all trees. The
weight of a component is the probability that the sample branches off at the node, or reaches the
leaf. A subclass of `TargetPrediction` collects the components.
"""

import math
from typing import NamedTuple, TypeVar

import numpy as np

from ...compiling.kernels import always_inline, batch_kernel, inline_in_source, kernel, link_by_name
from ...partitions.mondrian import scaling
from ...partitions.mondrian.records import Forest
from ...partitions.mondrian.walks import NEGLIGIBLE, Prediction, Walk, predict_rows
from ...records import Array, Float32s, Float64, Float64s, Floats, Int64, Memory, Record
from . import messages, scale_mixture
from .messages import T, TargetForest, TargetTree
from .scale_mixture import N_SCALES, SCALES

# A quadrature on (0, 1): the Gauss-Legendre rule with squared positions, as pairs (position,
# weight).
_ABSCISSAS, _WEIGHTS = np.polynomial.legendre.leggauss(6)
_ROOTS = (_ABSCISSAS + 1.0) / 2.0
RULE = tuple(zip((_ROOTS**2).tolist(), (_ROOTS * _WEIGHTS).tolist(), strict=True))


class Normal(NamedTuple):
    """A component of a tree's prediction: a normal distribution, and its weight."""

    weight: float
    mean: float
    variance: float


class TargetPrediction(Prediction):
    """A collector of the components that trees predict."""

    def add_walk(self, forest: Forest, t: int, walk: Walk, row: int) -> None:
        """Add the components of a walk to the prediction."""
        add_components(TargetForest(forest), t, walk, self, row)

    def add(self, forest: TargetForest, t: int, row: int, normal: Normal, whole: float) -> None:
        """Add a component of tree `t`; `whole` is the variance of all targets."""


Q = TypeVar("Q", bound=TargetPrediction)


class MomentsPrediction(TargetPrediction):
    """Sums of the first two moments about the targets' running mean, two for each sample."""

    sums: Float64s

    def add(self, forest: TargetForest, t: int, row: int, normal: Normal, whole: float) -> None:
        """Add a component to the moments."""
        weight, mean, variance = normal
        gap = mean - forest.y_mean
        if forest.scale_mixture:
            variance = scale_mixture.variance_over_scales(forest.scale_mixture, variance, whole)
        self.sums[2 * row] = self.sums[2 * row] + weight * gap
        self.sums[2 * row + 1] = self.sums[2 * row + 1] + weight * (variance + gap * gap)


class Component(Record):
    """A component of a mixture of normals."""

    weight: Float64
    mean: Float64
    variance: Float64


class ComponentsPrediction(TargetPrediction):
    """The components of a mixture. `n` counts all components, even those beyond `capacity`."""

    n: Int64
    capacity: Int64
    components: Array[Component]

    def append(self, weight: float, mean: float, variance: float) -> None:
        """Append a component if its weight is above 0."""
        n = self.n
        if n < self.capacity and weight > 0.0:
            component = self.components[n]
            component.weight = weight
            component.mean = mean
            component.variance = variance
        if weight > 0.0:
            self.n = n + 1

    def add(self, forest: TargetForest, t: int, row: int, normal: Normal, whole: float) -> None:
        """Append a component; with a learned distribution, append a component for each scale."""
        weight, mean, variance = normal
        mixture = forest.scale_mixture
        if not mixture or not (variance > 0.0 and whole > 0.0):
            self.append(weight, mean, variance)
            return
        precision = whole / variance
        for j in range(N_SCALES):
            at_scale = whole / scale_mixture.precision_at(precision, SCALES[j])
            self.append(weight * mixture.weights[j], mean, at_scale)


class DensityPrediction(TargetPrediction):
    """The density of a target under each tree, at each scale."""

    trees: Array[scale_mixture.TargetDensity]

    def add(self, forest: TargetForest, t: int, row: int, normal: Normal, whole: float) -> None:
        """Add a component's density at each scale to the density under tree `t`."""
        density = self.trees[t]
        scale_mixture.add_density(density, normal.weight, normal.mean, normal.variance, whole)


@always_inline
def variance_of_targets(forest: TargetForest) -> float:
    """Return the running variance of the targets, or 0 before the first target."""
    weight = forest.y_weight
    return forest.y_squares / weight if weight > 0.0 else 0.0


@always_inline
def scale_of(forest: TargetForest, tree: TargetTree) -> float:
    """Return gamma1, which is the unit of prior and noise variances."""
    if forest.gamma1 > 0.0:
        return forest.gamma1
    if forest.noise_variance > 0.0:
        return forest.noise_variance / tree.noise
    # Set gamma1 so that the prior variance of a target equals the variance of all targets.
    prior = messages.prior_variance_to_end(tree, tree.nodes.none()) + tree.noise
    return variance_of_targets(forest) / prior


@kernel
def scale_of_first(forest: T) -> float:
    """Return gamma1 of the first tree."""
    return scale_of(forest, forest.trees[0])


@inline_in_source
def moments_of_branch(eta: float, span: float, gamma2: float, decay: float) -> tuple[float, float]:
    """Return the first two moments of r, the share of a branch's prior variance above a new node.

    A sample branches off at a new node, the time T after the start of the branch. T is exponential
    with rate `eta`, truncated to `span`. The share r is a logistic function of T, from 0 at T = 0
    to 1 at T = `span`. If `eta` is at least gamma2, the quadrature is over the quantiles of T.
    Otherwise the quadrature integrates the distribution function of r over the values of r. The
    error is below 2e-4.
    """
    b = gamma2 * span
    discount = math.exp(-b)
    lost = -math.expm1(-b)
    end = 1.0 + decay * discount
    stays = math.exp(-eta * span)
    leaves = -math.expm1(-eta * span)
    # A branch of length 0 has no variance, so r has no effect.
    if not (lost > 0.0 and leaves > 0.0):
        return 0.0, 0.0
    power = eta / gamma2
    first, second = 0.0, 0.0
    for rest, weight in RULE:
        if power < 1.0:
            r = 1.0 - rest
            # exp(-gamma2 T) at the time when the share is r.
            left = (discount * (1.0 + decay) + lost * rest) / (end + decay * lost * r)
            share = weight * (left**power - stays) / leaves
            first += share
            second += 2.0 * r * share
        else:
            # exp(-gamma2 T) at the quantile 1 - rest.
            left = (rest * leaves + stays) ** (1.0 / power)
            r = (1.0 - left) / (1.0 + decay * left) * end / lost
            first += weight * r
            second += weight * r * r
    return first, second


@kernel
def mean_share_of_branch(eta: float, span: float, gamma2: float, decay: float) -> float:
    """Return the first moment of `moments_of_branch` to Python."""
    return moments_of_branch(eta, span, gamma2, decay)[0]


@link_by_name
def add_components(forest: T, t: int, walk: Walk, prediction: Q, row: int) -> None:
    """Add the components of a walk, from the root to the leaf.

    If the sample branches off above a node, the node gets a new parent. The new parent's mean is a
    point of a Brownian bridge from the old parent's mean to the node's mean. The part of the branch
    above this point has the share r of the branch's prior variance. The new leaf is at the end of a
    separate branch from the new parent.
    """
    tree = forest.trees[t]
    plain = forest.plain_means == 1
    whole = variance_of_targets(forest)
    factor = 0.0 if plain else scale_of(forest, tree)
    # The parent, and the posterior mean and variance of the parent's mean.
    mean, variance = forest.y_mean, 0.0
    parent = tree.nodes.none()
    for i in range(1, walk.depth + 1):
        step = walk.path[i]
        ends = messages.is_leaf(tree, step.ref)
        node = tree.nodes.none() if ends else tree.nodes.row(step.ref)
        prior_variance = 0.0
        if not plain:
            if ends:
                prior_variance = messages.prior_variance_to_end(tree, parent)
            else:
                prior_variance = messages.prior_variance_of(tree, parent, node)
        share, mean_here, variance_here = messages.posterior_below(
            forest, tree, parent, step.ref, prior_variance, (mean, variance)
        )
        if step.eta > 0.0:
            weight = step.reach * (1.0 - step.stays)
            if plain:
                prediction.add(forest, t, row, Normal(weight, mean_here, 0.0), whole)
            elif weight > NEGLIGIBLE:
                start, end = messages.time_of(parent), node.cut_time if node else tree.lifetime
                decay = math.exp(-tree.gamma2 * start)
                r, r2 = moments_of_branch(step.eta, end - start, tree.gamma2, decay)
                gap = mean_here - mean
                free = (1.0 - 2.0 * r + r2) * variance + r2 * variance_here
                # Add the covariance of the parent's and the node's mean, and the variance of the
                # bridge.
                free += 2.0 * (r - r2) * (share * variance) + (r - r2) * prior_variance
                rest = messages.prior_variance_to_end(tree, parent)
                free += rest - r * prior_variance + tree.noise
                spread = factor * free + (r2 - r * r) * gap * gap
                prediction.add(forest, t, row, Normal(weight, mean + r * gap, spread), whole)
        mean, variance, parent = mean_here, variance_here, node
    spread = factor * (variance + tree.noise)
    prediction.add(forest, t, row, Normal(walk.reach, mean, spread), whole)


@always_inline
def _predict(forest: TargetForest, rows: Float32s, n: int, prediction: MomentsPrediction) -> None:
    """Predict the mean and the variance for `n` rows of values."""
    out = prediction.sums
    for k in range(2 * n):
        out[k] = 0.0
    predict_rows(forest, rows, n, prediction)
    for r in range(n):
        first = out[2 * r] / forest.n_trees
        second = out[2 * r + 1] / forest.n_trees
        out[2 * r] = forest.y_mean + first
        out[2 * r + 1] = max(second - first * first, 0.0)


@batch_kernel
def predict_many(forest: T, rows: Float32s, n: int, prediction: MomentsPrediction) -> None:
    """Predict the mean and the variance for `n` rows of values."""
    _predict(forest, rows, n, prediction)


@kernel
def predict_one(forest: T, prediction: MomentsPrediction) -> int:
    """Predict the mean and the variance for the sample in the forest's `inputs`.

    Returns DONE, or the index of an input that is too large.
    """
    bad = scaling.scale(forest, forest.row, forest.inputs)
    if bad < 0:
        _predict(forest, forest.row, 1, prediction)
    return bad


@kernel
def predict_mixture(forest: T, prediction: ComponentsPrediction) -> int:
    """Predict the components for the sample in the forest's `inputs`.

    The weights add up to the number of trees. Returns DONE, or the index of an input that is too
    large.
    """
    bad = scaling.scale(forest, forest.row, forest.inputs)
    if bad < 0:
        prediction.n = 0
        predict_rows(forest, forest.row, 1, prediction)
    return bad


# Initial capacity of a mixture, in components per tree and scale.
FIRST_COMPONENTS = 16


def components_of(forest: TargetForest) -> tuple[int, Floats]:
    """Return the result of `predict_mixture`, and the mixture as an array.

    Each component has a row with its weight, mean and variance.
    """
    capacity = FIRST_COMPONENTS * forest.n_trees * (N_SCALES if forest.scale_mixture else 1)
    while True:
        numbers = np.empty((capacity, 3))
        memory = Memory(ComponentsPrediction)
        memory[0].capacity = capacity
        memory[0].components = Array.over(Component, numbers)
        bad, n = predict_mixture(forest, memory[0]), memory[0].n
        if bad >= 0 or n <= capacity:
            return bad, numbers[:n]
        capacity = n
