"""What the cuts of a tree over classes have told, by the classes' weights at its nodes.

Let a block foresee the class of each of its samples from those before it, by their numbers n_k and
Jeffreys' prior: (n_k + 1/2) / (n + K/2) (Krichevsky and Trofimov 1981). The product of these
probabilities, E = prod_k G(n_k + 1/2) / G(1/2) G(K/2) / G(n + K/2) with the gamma function G, does
not depend on the order, and is defined for sums of weights as well. A cut gains log E_left + log
E_right - log E nats: by so much it has lowered the log loss of its block. That is negative where
what it tells is less than what it costs to learn in two blocks what could be learned in one.

Trees are cut at random, and where that tells nothing, too. So a cut counts as much as the posterior
says that the tree is not to be pruned at it or above. A priori each internal node is a leaf of the
pruned tree with probability 1/2; then P = (E + P_left P_right) / 2 is the mean over all prunings of
the product of E over their leaves, and P_left P_right / (2 P) the posterior probability to go on
below a node that is reached (context-tree weighting, Willems, Shtarkov and Tjalkens 1995).

Neither asks what the posterior of the forest is. The counts of the HNSP at nodes high up are one or
two for each class that is there, whatever the frequencies, so that cuts near leaves seem to change
everything, and of features that say nothing as much as of others.
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from ..partitions.mondrian.reading import TreeTable

# Jeffreys' prior.
PRIOR = 0.5


def log_evidence(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log E of nodes, by the weights of their classes, shape (nodes, classes)."""
    n_classes = weights.shape[1]
    terms = np.zeros_like(weights)
    # Most nodes have few of many classes.
    some = weights > 0.0
    log_gamma = scipy.special.gammaln
    terms[some] = log_gamma(weights[some] + PRIOR) - log_gamma(PRIOR)
    total = weights.sum(axis=1) + PRIOR * n_classes
    found: NDArray[np.float64] = terms.sum(axis=1) + log_gamma(PRIOR * n_classes) - log_gamma(total)
    return found


def gains_of_classes(table: TreeTable, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the gain of each cut, times the posterior probability that it is not pruned.

    Parameters
    ----------
    table
        The tree.
    weights
        The weights of the classes below its nodes, shape (nodes, classes).

    Returns
    -------
    In nats, in the order of the internal nodes.

    """
    own = log_evidence(weights)
    # log P, and the probability to go on below a node.
    mixed, goes_on = own.copy(), np.zeros(len(own))
    for inner, left in reversed(table.levels):
        below = mixed[left] + mixed[left + 1]
        mixed[inner] = np.logaddexp(own[inner], below) - math.log(2.0)
        goes_on[inner] = np.exp(below - math.log(2.0) - mixed[inner])
    kept = np.ones(len(own))
    for inner, left in table.levels:
        kept[inner] *= goes_on[inner]
        kept[left] = kept[left + 1] = kept[inner]
    inner, left = table.inner, table.lefts
    found: NDArray[np.float64] = kept[inner] * (own[left] + own[left + 1] - own[inner])
    return found
