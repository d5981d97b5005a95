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

Aggregated Mondrian forests (AMF: Mourtada, Gaiffas and Scornet 2021) predict by the same recursion
with s = 1/2 and the Dirichlet prior 1/2, and keep the logarithms of E and P_w. What differs here:

- There are three weightings (`PRIORS`, `STOP_PRIORS`), which the mixture of experts weighs. The
  first has the priors of AMF; the others go deeper, and p_own of the last mixes three memories.
- The tree may have been cut by the labels that b learns from, so that depth is trusted too much.
- b keeps a distance of `LEAST_STOP` from 0 and 1, so that a node can change its mind.
- A node that is inserted above another takes over what that has seen, but not E and P_w, which are
  not known: its b begins with s.
- A single point in a leaf has no statistics: it counts as one sample in the Dirichlet estimate.
"""

from __future__ import annotations

from ...compiling.kernels import inlined, merged, separate
from ...records import Array
from .records import AdaptiveForest, PathEntry
from .statistics import DEEP, LATE, LATEST, MIXED, N_MEMORIES, NOISY, PRIORS, Statistics

# Share that the memories of a node exchange at each visit, and the bounds of a stop probability.
SHARE_RATE = 0.02
LEAST_STOP = 1e-4


@inlined
def _learn_stop(statistics: Statistics, v: int, own: float, below: float, ends: bool) -> float:
    """Let a weighting's probability to stop learn from what node and child have predicted.

    Returns the probability that the node's subtree has given.
    """
    if ends:
        return own
    stop = statistics.stops[v]
    stopped = stop * own
    predicted = stopped + (1.0 - stop) * below
    statistics.stops[v] = min(max(stopped / predicted, LEAST_STOP), 1.0 - LEAST_STOP)
    return predicted


@merged
def _learn_shares(statistics: Statistics, label: int, of_all: float, n_classes: int) -> float:
    """Let the memories' shares learn a class, by fixed share (Herbster and Warmuth 1998).

    Returns the probability that they have given together; `of_all` is that of the first.
    """
    shares = statistics.shares
    alpha = PRIORS[MIXED]
    late = statistics.forgetting_estimate(label, LATE, alpha, n_classes)
    latest = statistics.forgetting_estimate(label, LATEST, alpha, n_classes)
    first = shares[0] * of_all
    second = shares[1] * late
    third = shares[2] * latest
    total = first + second + third
    kept = (1.0 - SHARE_RATE) / total
    shares[0] = kept * first + SHARE_RATE / N_MEMORIES
    shares[1] = kept * second + SHARE_RATE / N_MEMORIES
    shares[2] = kept * third + SHARE_RATE / N_MEMORIES
    return total


@separate
def update_weights(
    forest: AdaptiveForest, path: Array[PathEntry], n: int, label: int, own: int
) -> None:
    """Let the weights on a sample's path learn its class from the leaf up.

    `own` is the sample's point where it is in the tree already: as a leaf it has seen nothing.
    """
    n_classes = forest.n_classes
    # What the subtree below has predicted in each weighting.
    noisy, deep, mixed = 0.0, 0.0, 0.0
    for i in range(n - 1, -1, -1):
        entry = path[i]
        ref, statistics = entry.ref, entry.statistics
        if not statistics:
            is_point = ref < 0 and ~ref != own
            size = 1.0 if is_point else 0.0
            same = 1.0 if is_point and forest.label_of(~ref) == label else 0.0
            noisy = (same + PRIORS[NOISY]) / (size + PRIORS[NOISY] * n_classes)
            deep = (same + PRIORS[DEEP]) / (size + PRIORS[DEEP] * n_classes)
            mixed = (same + PRIORS[MIXED]) / (size + PRIORS[MIXED] * n_classes)
            continue
        ends = i == n - 1
        # The first memory has the same prior in the last two weightings.
        of_all = statistics.estimate(label, PRIORS[DEEP], n_classes)
        together = _learn_shares(statistics, label, of_all, n_classes)
        first = statistics.estimate(label, PRIORS[NOISY], n_classes)
        noisy = _learn_stop(statistics, NOISY, first, noisy, ends)
        deep = _learn_stop(statistics, DEEP, of_all, deep, ends)
        mixed = _learn_stop(statistics, MIXED, together, mixed, ends)
