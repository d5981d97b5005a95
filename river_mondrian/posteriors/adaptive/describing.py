"""What the nodes on a path say of the classes, each by itself."""

from __future__ import annotations

from ...compiling.kernels import inlined, kernel
from ...records import Float64s
from .records import AdaptiveForest
from .statistics import DEEP, LATE, LATEST, MIXED, N_WEIGHTINGS, NOISY, PRIORS

# Numbers of a step, and rows of numbers for each class.
STEP_NUMBERS = 1 + N_WEIGHTINGS
STEP_ROWS = 2 + N_WEIGHTINGS


@inlined
def _estimate_point(own: bool, alpha: float, n_classes: int) -> float:
    """Return the Dirichlet estimate of a class by a single sample, which may be its own."""
    return ((1.0 if own else 0.0) + alpha) / (1.0 + alpha * n_classes)


@kernel
def describe_path(
    forest: AdaptiveForest, t: int, numbers: Float64s, distributions: Float64s
) -> None:
    """Describe the nodes on a tree's path of the sample predicted last.

    `numbers` gets `STEP_NUMBERS` for each step: 1 where the node says something of the classes,
    and its probabilities to stop. `distributions` gets `STEP_ROWS` rows of a number for each class:
    c and the tables of the HNSP, then the node's own distributions in the weightings.
    """
    tree, path = forest.trees[t], forest.path_of(t)
    n, n_classes = tree.path_length, forest.n_classes
    for i in range(n):
        entry = path[i]
        ref, statistics, ends = entry.ref, entry.statistics, i == n - 1
        says = bool(statistics) and statistics.n_seen > 0
        own = numbers.part(STEP_NUMBERS * i, STEP_NUMBERS)
        own[0] = 1.0 if says or ends else 0.0
        for v in range(N_WEIGHTINGS):
            own[1 + v] = 1.0 if ends else 0.0
            if says and not ends:
                own[1 + v] = statistics.stops[v]
        rows = distributions.part(STEP_ROWS * n_classes * i, STEP_ROWS * n_classes)
        for k in range(n_classes):
            if says:
                of_all = statistics.estimate(k, PRIORS[MIXED], n_classes)
                late = statistics.forgetting_estimate(k, LATE, PRIORS[MIXED], n_classes)
                latest = statistics.forgetting_estimate(k, LATEST, PRIORS[MIXED], n_classes)
                shares = statistics.shares
                mixed = shares[0] * of_all + shares[1] * late + shares[2] * latest
                noisy = statistics.estimate(k, PRIORS[NOISY], n_classes)
                rows[k] = float(statistics.count(k) if ends else statistics.customers(k))
                rows[n_classes + k] = 1.0 if statistics.count(k) > 0 else 0.0
                rows[(2 + NOISY) * n_classes + k] = noisy
                rows[(2 + DEEP) * n_classes + k] = statistics.estimate(k, PRIORS[DEEP], n_classes)
                rows[(2 + MIXED) * n_classes + k] = mixed
            else:
                # A single point; or nothing, and then all classes are as likely.
                is_own = ref < 0 and forest.label_of(~ref) == k
                rows[k] = rows[n_classes + k] = 1.0 if is_own else 0.0
                for v in range(N_WEIGHTINGS):
                    found = _estimate_point(is_own, PRIORS[v], n_classes)
                    rows[(2 + v) * n_classes + k] = found if ref < 0 else 1.0 / n_classes
