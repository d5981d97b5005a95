"""Context-tree weighting (Willems, Shtarkov and Tjalkens 1995) along the paths of samples.

A pruning of a tree predicts a sample's class by what the samples in its leaf there say. The
weighted prediction is that of all prunings, each weighted by its prior and by how well it has
predicted so far. Let E be the product of what a node itself has predicted of its samples, P_w that
of what its subtree's prunings together have, and D the product of P_w over its children. With the
prior probability s to stop at the node,

    P_w = s E + (1 - s) D.

A sample multiplies E by p_own, and D by the p of the child to which it goes. So P_w is multiplied
by

    p = b p_own + (1 - b) p_child,      b = s E / P_w,

which is what the node's subtree predicts, and the posterior probability to stop, b, becomes
b p_own / p. None of the products is needed: a node keeps b (`Statistics.stops`), and learning a
sample is one pass from its leaf, where p = p_own, up to the root. A prediction is a pass down:
p_own of a node has the weight of b times the product of 1 - b above (`prediction`).

The loss of a sample of weight w counts w times: its likelihoods are taken to the power of w. So E
is multiplied by p_own^w and P_w by q = b p_own^w + (1 - b) q_child; the q of a leaf is p_own^w.

Aggregated Mondrian forests (AMF: Mourtada, Gaiffas and Scornet 2021) predict by the same recursion
with s = 1/2 and the Dirichlet prior 1/2, and keep the logarithms of E and P_w. What differs here:

- There are two weightings (`PRIORS`, `STOP_PRIORS`), which the mixture of experts weighs. The
  first has the priors of AMF; the other goes deeper, and its p_own mixes three memories.
- The tree may have been cut by the labels that b learns from, so that depth is trusted too much.
- b keeps a distance of `LEAST_STOP` from 0 and 1, so that a node can change its mind.
- A node that is inserted above another takes over what that has seen, but not E and P_w, which are
  not known: its b begins with s.
- A single point in a leaf has no statistics: it counts by its weight in the Dirichlet estimate.
"""

from __future__ import annotations

import math

from ...compiling.kernels import inlined, merged, separate
from ...records import Array, Float32s
from .records import AdaptiveForest, AdaptiveTree, StatisticsEntry
from .seen import fetch_class, numbers_of
from .statistics import LATE, LATEST, MIXED, N_MEMORIES, NOISY, PRIORS, ClassNumbers, Statistics

# Share that the memories of a node exchange at each visit, and the bounds of a stop probability.
SHARE_RATE = 0.02
LEAST_STOP = 1e-4


@inlined
def _learn_stop(statistics: Statistics, v: int, stopped: float, below: float) -> float:
    """Let a weighting's probability to stop learn from what node and child have predicted.

    `stopped` is that probability times the node's own. Returns what the node's subtree has given.
    """
    predicted = stopped + (1.0 - statistics.stops[v]) * below
    statistics.stops[v] = min(max(stopped / predicted, LEAST_STOP), 1.0 - LEAST_STOP)
    return predicted


@inlined
def _share(shares: Float32s, first: float, second: float, third: float) -> float:
    """Let shares be as their products with likelihoods, by fixed share; returns the sum of these.

    See Herbster and Warmuth 1998.
    """
    total = first + second + third
    kept = (1.0 - SHARE_RATE) / total
    shares[0] = kept * first + SHARE_RATE / N_MEMORIES
    shares[1] = kept * second + SHARE_RATE / N_MEMORIES
    shares[2] = kept * third + SHARE_RATE / N_MEMORIES
    return total


@inlined
def _end_estimate(forest: AdaptiveForest, ref: int, own: int, label: int, v: int) -> float:
    """Return a class's estimate where there are no statistics: by a point that is not `own`."""
    is_point = ref < 0 and ~ref != own
    size = forest.weight_of(~ref) if is_point else 0.0
    same = size if is_point and forest.label_of(~ref) == label else 0.0
    return (same + PRIORS[v]) / (size + PRIORS[v] * forest.n_classes)


@separate
def update_weights(
    forest: AdaptiveForest,
    tree: AdaptiveTree,
    path: Array[StatisticsEntry],
    n: int,
    label: int,
    weight: float,
    own: int,
) -> None:
    """Let the weights on a sample's path learn its class from the leaf up.

    `own` is the sample's point where it is in the tree already: as a leaf it has seen nothing.
    """
    if forest.is_sparse == 1:
        for i in range(n):
            if path[i].statistics:
                fetch_class(forest, tree, path[i].statistics, label)
    if weight != 1.0:
        _update_by_logs(forest, tree, path, n, label, weight, own)
        return
    n_classes = forest.n_classes
    # What the subtree below has predicted in each weighting.
    noisy, mixed = 0.0, 0.0
    for i in range(n - 1, -1, -1):
        entry = path[i]
        statistics = entry.statistics
        if not statistics:
            noisy = _end_estimate(forest, entry.ref, own, label, NOISY)
            mixed = _end_estimate(forest, entry.ref, own, label, MIXED)
            continue
        stops, shares = statistics.stops, statistics.shares
        numbers = numbers_of(forest, tree, statistics, label)
        first = statistics.estimate(numbers, PRIORS[MIXED], n_classes, shares[0])
        second = statistics.forgetting_estimate(numbers, LATE, PRIORS[MIXED], n_classes, shares[1])
        third = statistics.forgetting_estimate(numbers, LATEST, PRIORS[MIXED], n_classes, shares[2])
        together = _share(shares, first, second, third)
        if i == n - 1:
            noisy = statistics.estimate(numbers, PRIORS[NOISY], n_classes)
            mixed = together
            continue
        stopped = statistics.estimate(numbers, PRIORS[NOISY], n_classes, stops[NOISY])
        noisy = _learn_stop(statistics, NOISY, stopped, noisy)
        mixed = _learn_stop(statistics, MIXED, stops[MIXED] * together, mixed)


# Samples that do not weigh 1.


@inlined
def _learn_stop_by_logs(statistics: Statistics, v: int, own: float, below: float) -> float:
    """Let a probability to stop learn from the logarithms of what node and child have given.

    Returns that of what the node's subtree has.
    """
    stop = statistics.stops[v]
    # Over the larger of both, since either may be too small for a number.
    most = max(own, below)
    stopped = stop * math.exp(own - most)
    given = stopped + (1.0 - stop) * math.exp(below - most)
    statistics.stops[v] = min(max(stopped / given, LEAST_STOP), 1.0 - LEAST_STOP)
    return most + math.log(given)


@merged
def _learn_shares(
    statistics: Statistics, numbers: ClassNumbers, weight: float, n_classes: int
) -> float:
    """Let the memories' shares learn a class; returns the probability that they have given it."""
    shares = statistics.shares
    of_all = statistics.estimate(numbers, PRIORS[MIXED], n_classes)
    late = statistics.forgetting_estimate(numbers, LATE, PRIORS[MIXED], n_classes)
    latest = statistics.forgetting_estimate(numbers, LATEST, PRIORS[MIXED], n_classes)
    together = shares[0] * of_all + shares[1] * late + shares[2] * latest
    # Over the largest, since powers may be too small for numbers.
    most = max(of_all, late, latest)
    first = shares[0] * (of_all / most) ** weight
    second = shares[1] * (late / most) ** weight
    third = shares[2] * (latest / most) ** weight
    _share(shares, first, second, third)
    return together


@separate
def _update_by_logs(
    forest: AdaptiveForest,
    tree: AdaptiveTree,
    path: Array[StatisticsEntry],
    n: int,
    label: int,
    weight: float,
    own: int,
) -> None:
    """Let the weights on a sample's path learn its class as `update_weights` does."""
    n_classes = forest.n_classes
    # Logarithm of the likelihood of the subtree below, to the power of the sample's weight.
    noisy, mixed = 0.0, 0.0
    for i in range(n - 1, -1, -1):
        entry = path[i]
        statistics = entry.statistics
        if statistics:
            numbers = numbers_of(forest, tree, statistics, label)
            by_noisy = statistics.estimate(numbers, PRIORS[NOISY], n_classes)
            together = _learn_shares(statistics, numbers, weight, n_classes)
        else:
            by_noisy = _end_estimate(forest, entry.ref, own, label, NOISY)
            together = _end_estimate(forest, entry.ref, own, label, MIXED)
        by_noisy, by_mixed = weight * math.log(by_noisy), weight * math.log(together)
        if i == n - 1 or not statistics:
            noisy, mixed = by_noisy, by_mixed
            continue
        noisy = _learn_stop_by_logs(statistics, NOISY, by_noisy, noisy)
        mixed = _learn_stop_by_logs(statistics, MIXED, by_mixed, mixed)
