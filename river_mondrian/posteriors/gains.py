"""Gains of a tree's cuts, over classes or over targets, for feature importances."""

import math
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from ..partitions.mondrian.reading import TreeTable

# Gains of a tree's cuts over classes, computed from the class weights at the nodes.
#
# At a node, the class of each sample is predicted from the earlier samples at the node. Let n_k of
# the n earlier samples be in class k of K classes. Jeffreys' prior gives the probability (n_k +
# 1/2) / (n + K/2) (Krichevsky and Trofimov 1981). Now let n and n_k count all samples at the node.
# The product of the probabilities is E = prod_k [G(n_k + 1/2) / G(1/2)] G(K/2) / G(n + K/2), with
# the gamma function G. E does not depend on the order of the samples, and is defined even if each
# n_k is a sum of weights. The gain of a cut is log E_left + log E_right - log E. The gain is the
# reduction of the node's log loss, in nats. The gain is negative if the two children predict the
# classes worse than the node.
#
# Cuts are random, and many cuts are uninformative. So a gain is multiplied by the posterior
# probability that the tree is not pruned at or above the cut. A priori, a pruning that reaches an
# internal node ends there with probability 1/2. P = (E + P_left P_right) / 2 is then the mean over
# all prunings of the product of E over the pruning's leaves. At a leaf, P is E. P_left P_right / (2
# P) is the posterior probability that a reached node is not pruned (context-tree weighting,
# Willems, Shtarkov and Tjalkens 1995).
#
# The hierarchical posterior of the forest (HNSP, see `labels.hnsp`) is not used. At an internal
# node, the HNSP's count of a class with samples below is at most two, whatever the frequency of the
# class. With these counts, cuts near leaves would have large gains, and cuts on irrelevant features
# would gain as much as other cuts.


# Pseudo-count of each class under Jeffreys' prior.
JEFFREYS = 0.5


def class_weights(trees: Any, t: int, table: TreeTable) -> NDArray[np.float64]:
    """Return the weights of the classes below a tree's nodes, shape (nodes, classes)."""
    by_node = np.zeros((len(table), int(trees.forest.n_classes)))
    leaves, refs = table.leaves, table.refs[table.leaves]
    points, rows = refs < 0, refs >= 0
    labels, weights = (trees.column("points", name)[~refs[points]] for name in ("label", "weight"))
    by_node[leaves[points], labels] = weights
    by_node[leaves[rows]] = trees.leaf_weights(t, refs[rows])
    table.add_up(by_node)
    return by_node


def log_evidence(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log E (see above) of each node, given class weights, shape (nodes, classes)."""
    n_classes = weights.shape[1]
    terms = np.zeros_like(weights)
    # Classes of weight 0 are skipped to save time, since most nodes have few of many classes.
    some = weights > 0.0
    log_gamma = scipy.special.gammaln
    terms[some] = log_gamma(weights[some] + JEFFREYS) - log_gamma(JEFFREYS)
    total = weights.sum(axis=1) + JEFFREYS * n_classes
    return terms.sum(axis=1) + log_gamma(JEFFREYS * n_classes) - log_gamma(total)


def gains_of_classes(table: TreeTable, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the gain of each cut times the posterior probability that the cut is not pruned.

    Parameters
    ----------
    table
        The tree.
    weights
        The weights of the classes below the tree's nodes, shape (nodes, classes).

    Returns
    -------
    Gains in nats, in the order of the internal nodes.

    """
    evidence = log_evidence(weights)
    # log P, and the probability that a reached node is not pruned.
    mixed, goes_on = evidence.copy(), np.zeros(len(evidence))
    for inner, left in reversed(table.by_depth):
        below = mixed[left] + mixed[left + 1]
        mixed[inner] = np.logaddexp(evidence[inner], below) - math.log(2.0)
        goes_on[inner] = np.exp(below - math.log(2.0) - mixed[inner])
    reached = np.ones(len(evidence))
    for inner, left in table.by_depth:
        reached[inner] *= goes_on[inner]
        reached[left] = reached[left + 1] = reached[inner]
    inner, left = table.inner, table.lefts
    return reached[inner] * (evidence[left] + evidence[left + 1] - evidence[inner])


# Gains of a tree's cuts over targets, by leave-one-out squared errors.
#
# A node predicts each of its targets by the node's mean without this target. Let S be the weighted
# sum of the squared errors. The gain of a cut is S - S_left - S_right.
#
# With the Gaussian posterior, leave-one-out predictions have a closed form. Let m_j and v_j be the
# posterior mean and variance of node j's mean. Let c_j be the posterior covariance of this mean
# with the mean of the leaf of a target y. Let R be the noise variance divided by the weight of y.
# Without y, the mean of node j has the posterior mean
#
#     m_j - c_j (y - m_leaf) / (R - v_leaf).
#
# A node's share is the weight of the parent's mean in the node's mean (`messages.posterior_below`).
# c_j is v_j times the product of the shares on the path from below node j to the leaf. So S is
# computed from sums over subtrees, which one pass from the leaves up accumulates.
#
# With plain means, a target is predicted by the mean of the other targets at the same node. If a
# node has a single target, this target is predicted by the mean of the other targets at the parent.
#
# A leaf stores the mean of its targets, but not their scatter: the weighted sum of squared
# deviations from the mean. The total scatter within leaves follows from the scatter of all targets.
# This total is divided among the leaves in proportion to each leaf's number of samples minus 1.
# Each target at a node counts with the mean weight of the node's targets.


Array = NDArray[np.float64]

# Least value of R - v_leaf, in units of R.
LEAST_REST = 1e-9


class Blocks(NamedTuple):
    """The targets below each node: weight, number, mean and scatter, each of shape (nodes,)."""

    weights: Array
    numbers: Array
    # Means are relative to the mean of all targets.
    means: Array
    # Weighted sums of squared deviations from the node's own mean.
    scatters: Array

    @property
    def sizes(self) -> Array:
        """Mean weight of a sample at each node, shape (nodes,)."""
        return np.divide(self.weights, self.numbers)


def blocks_of(
    table: TreeTable, weights: Array, numbers: Array, means: Array, total_scatter: float
) -> Blocks:
    """Return the `Blocks` of a tree, given the weights, numbers and means of targets in leaves.

    Parameters
    ----------
    table
        The tree.
    weights, numbers, means
        Arrays of shape (nodes,). Only the values at leaves are read. Means are relative to the mean
        of all targets.
    total_scatter
        The weighted sum of squared deviations of all targets from their mean.

    """
    leaves = table.leaves
    between = float(weights[leaves] @ means[leaves] ** 2)
    freedoms = numbers[leaves] - 1.0
    within = max(total_scatter - between, 0.0) / max(freedoms.sum(), 1.0)
    # Weighted sums of targets and of squared targets.
    sums, squares = np.zeros_like(weights), np.zeros_like(weights)
    scatters = np.zeros_like(weights)
    scatters[leaves] = within * freedoms
    sums[leaves] = weights[leaves] * means[leaves]
    squares[leaves] = scatters[leaves] + sums[leaves] * means[leaves]
    weights, numbers = weights.copy(), numbers.copy()
    for values in (weights, numbers, sums, squares):
        table.add_up(values)
    means = np.divide(sums, weights, out=np.zeros_like(sums), where=weights > 0.0)
    inner = table.inner
    scatters[inner] = np.maximum(squares[inner] - sums[inner] * means[inner], 0.0)
    return Blocks(weights, numbers, means, scatters)


def gains_of_means(table: TreeTable, blocks: Blocks) -> Array:
    """Return the gain of each cut of a tree with plain means, in the order of internal nodes."""
    weights, sizes = blocks.weights, blocks.sizes
    inner, left = table.inner, table.lefts
    several = (blocks.numbers > 1.0) & (weights > 0.0)
    errors = np.zeros_like(weights)
    errors[several] = blocks.scatters[several] * _left_out(weights, sizes)[several] ** 2
    gains = errors[inner].copy()
    for child in (left, left + 1):
        # The mean of the parent's other targets predicts a single target.
        gaps = (blocks.means[child] - blocks.means[inner]) * _left_out(weights, sizes)[inner]
        single = weights[child] * gaps**2
        gains -= np.where(several[child], errors[child], single)
    return gains


def _left_out(weights: Array, sizes: Array) -> Array:
    """Return W / (W - w) for each node: leave-one-out errors relative to deviations from the mean.

    W is the weight of the node's targets, and w is the mean weight of a target.
    """
    rest = weights - sizes
    return np.divide(weights, rest, out=np.zeros_like(weights), where=rest > 0.0)


class Posterior(NamedTuple):
    """The posterior of all nodes' means: mean, variance, and the weight of the parent's mean."""

    # Means are relative to the mean of all targets.
    means: Array
    # Variances are in units of gamma1 (see `targets.messages`).
    variances: Array
    shares: Array


def posterior_of(table: TreeTable, blocks: Blocks, priors: Array, noise: float) -> Posterior:
    """Return the posterior of the nodes' means, by one pass up and one pass down the tree.

    Parameters
    ----------
    table, blocks
        The tree and its targets.
    priors
        The prior variance of each node's mean given the parent's mean, in units of gamma1, shape
        (nodes,).
    noise
        The noise variance, in units of gamma1.

    """
    leaves = table.leaves
    precisions, likely = np.zeros_like(priors), np.zeros_like(priors)
    precisions[leaves] = blocks.weights[leaves] / noise
    likely[leaves] = blocks.means[leaves]
    for inner, left in reversed(table.by_depth):
        sides = [precisions[i] / (1.0 + precisions[i] * priors[i]) for i in (left, left + 1)]
        total = sides[0] + sides[1]
        precisions[inner] = total
        share = np.divide(sides[1], total, out=np.zeros_like(total), where=total > 0.0)
        likely[inner] = likely[left] + share * (likely[left + 1] - likely[left])
    shares = 1.0 / (1.0 + priors * precisions)
    means, variances = np.zeros_like(priors), np.zeros_like(priors)
    # Set the root's moments. The slices are empty if the tree has no nodes.
    means[:1] = (1.0 - shares[:1]) * likely[:1]
    variances[:1] = shares[:1] * priors[:1]
    for inner, left in table.by_depth:
        for child in (left, left + 1):
            share = shares[child]
            means[child] = likely[child] + share * (means[inner] - likely[child])
            variances[child] = share * (share * variances[inner] + priors[child])
    return Posterior(means, variances, shares)


def gains_of_posterior(
    table: TreeTable, blocks: Blocks, posterior: Posterior, noise: float
) -> Array:
    """Return the gain of each cut of a tree with the Gaussian posterior."""
    weights, targets, scatters = blocks.weights, blocks.means, blocks.scatters
    means, variances, shares = posterior
    leaves = table.leaves
    leaves = leaves[weights[leaves] > 0.0]
    # Weighted sums of e, y e and e^2, where e is (y - m_leaf) / (R - v_leaf) times the shares on
    # the path.
    errors, products, squares = (np.zeros_like(weights) for _ in range(3))
    noises = noise / blocks.sizes[leaves]
    # The lower bound avoids a division by 0 if there is almost no noise.
    rest = np.maximum(noises - variances[leaves], LEAST_REST * noises)
    gaps, leaf_weights = targets[leaves] - means[leaves], weights[leaves]
    errors[leaves] = leaf_weights * gaps / rest
    products[leaves] = (leaf_weights * targets[leaves] * gaps + scatters[leaves]) / rest
    squares[leaves] = (leaf_weights * gaps**2 + scatters[leaves]) / rest**2
    for inner, left in reversed(table.by_depth):
        right = left + 1
        for sums, power in ((errors, 1), (products, 1), (squares, 2)):
            sums[inner] = shares[left] ** power * sums[left] + shares[right] ** power * sums[right]
    totals = scatters + weights * (targets - means) ** 2
    totals += 2.0 * variances * (products - means * errors) + variances**2 * squares
    return totals[table.inner] - totals[table.lefts] - totals[table.lefts + 1]
