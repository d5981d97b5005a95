"""What adaptive trees have learned of classes, and how the mixture's prediction has come about."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...compiling.kernels import inlined, kernel
from ...learners.experts import FLOOR, mixed, parts_of_mixture, parts_of_softmax, shared_out
from ...partitions.mondrian.reading import Path, TreeTable, contributions, gaps_from
from ...records import Float32s, Float64s
from ..rebuilt.forest import LONG, RECENT
from .seen import numbers_of, sides_of
from .statistics import (
    LATE,
    LATEST,
    MIXED,
    N_POSTERIORS,
    N_WEIGHTINGS,
    NOISY,
    PRIORS,
    A,
    AdaptiveForest,
)

# Numbers of a step, and rows of numbers for each class.
STEP_NUMBERS = 1 + N_WEIGHTINGS
STEP_ROWS = 2 + N_WEIGHTINGS


@inlined
def _customers(forest: AdaptiveForest, count: float, bits: int, below: float, ends: bool) -> float:
    """Return c of Algorithm 5 at a node, of a class that has gone on the sides of these bits.

    `below` of it has gone on along the path.
    """
    if ends:
        return count
    if forest.is_weighted == 1:
        return min(below, 1.0) + min(max(count - below, 0.0), 1.0)
    return np.float64((bits & 1) + (bits >> 1))


@inlined
def _describe_silent(
    forest: AdaptiveForest, ref: int, k: int, rows: Float64s, below: Float32s
) -> None:
    """Describe what has no statistics: a single point; or nothing, and all classes are alike."""
    n_classes = forest.n_classes
    weight = forest.weight_of(~ref) if ref < 0 else 0.0
    own = weight if ref < 0 and forest.label_of(~ref) == k else 0.0
    rows[k] = own
    rows[n_classes + k] = min(own, 1.0)
    below[k] = own
    for v in range(N_WEIGHTINGS):
        alpha = PRIORS[v]
        rows[(2 + v) * n_classes + k] = (own + alpha) / (weight + alpha * n_classes)


@kernel
def describe_path(forest: A, t: int, numbers: Float64s, distributions: Float64s) -> None:
    """Describe the nodes on a tree's path of the sample predicted last.

    `numbers` gets `STEP_NUMBERS` for each step: 1 where the node says something of the classes,
    and its probabilities to stop. `distributions` gets `STEP_ROWS` rows of a number for each class:
    c and the tables of the HNSP, then the node's own distributions in the weightings.
    """
    tree, path = forest.trees[t], forest.path_of(t)
    n, n_classes, below = tree.path_length, forest.n_classes, forest.below
    # From the end up, since what has gone on along the path is known below.
    for i in range(n - 1, -1, -1):
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
                known = numbers_of(forest, tree, statistics, k)
                count = np.float64(known.words[0])
                of_all = statistics.estimate(known, PRIORS[MIXED], n_classes)
                late = statistics.forgetting_estimate(known, LATE, PRIORS[MIXED], n_classes)
                latest = statistics.forgetting_estimate(known, LATEST, PRIORS[MIXED], n_classes)
                shares = statistics.shares
                mixed = shares[0] * of_all + shares[1] * late + shares[2] * latest
                noisy = statistics.estimate(known, PRIORS[NOISY], n_classes)
                bits = sides_of(forest, tree, statistics, k)
                rows[k] = _customers(forest, count, bits, below[k], ends)
                below[k] = count
                rows[n_classes + k] = min(count, 1.0)
                rows[(2 + NOISY) * n_classes + k] = noisy
                rows[(2 + MIXED) * n_classes + k] = mixed
            else:
                _describe_silent(forest, ref, k, rows, below)


Array = NDArray[np.float64]


def class_weights(trees: Any, t: int, table: TreeTable) -> Array:
    """Return the weights of the classes below a tree's nodes, by those in its leaves."""
    n_classes = int(trees.forest.n_classes)
    found = np.zeros((len(table), n_classes))
    leaves = table.leaves
    refs = table.refs[leaves]
    points, rows = leaves[refs < 0], leaves[refs >= 0]
    labels, weights = (trees.column("points", name) for name in ("label", "weight"))
    held = ~refs[refs < 0]
    found[points, labels[held]] = weights[held]
    seen = trees.counts(t)
    numbers = trees.column("nodes", "statistics_row", t)[refs[refs >= 0]]
    found[rows[numbers > 0]] = seen[numbers[numbers > 0] - 1]
    table.add_up(found)
    return found


def floored(experts: Array) -> Array:
    """Return probabilities of which none is near 0, as `experts.floor_experts` does."""
    raised = np.maximum(experts, FLOOR / experts.shape[-1])
    found: Array = raised / raised.sum(axis=-1, keepdims=True)
    return found


class Explanation:
    """What each feature adds to the prediction of the sample predicted last.

    A tree's posterior changes from node to node on the path of the sample: what a cut changes goes
    to its feature (see `tracing.contributions`). Lines share out by what the features add to their
    logits. So all features together have moved each expert from what it says at the roots, or
    without any feature, and the mixture shares that out (see `learners.experts`).

    Parameters
    ----------
    trees
        The `AdaptiveTrees`.
    inputs
        The sample's inputs.

    """

    def __init__(self, trees: Any, inputs: Array) -> None:
        self.trees = trees
        n_classes = int(trees.forest.n_classes)
        of_all = self._mean_of(LONG)
        of_recent = self._mean_of(RECENT) or of_all
        assert of_all is not None
        assert of_recent is not None
        starts, parts = (
            [*own, *(0.5 * (own + others))] for own, others in zip(of_all, of_recent, strict=True)
        )
        for logits, added in trees.discriminants.logits(inputs):
            powers = np.exp(logits - logits.max())
            starts.append(powers / powers.sum())
            parts.append(parts_of_softmax(logits, added))
        start, end = floored(np.array(starts)), trees.mixture.predicted[:, :n_classes]
        moved = np.array([shared_out(*one) for one in zip(parts, end - start, strict=True)])
        self.baseline = mixed(trees.mixture, start)
        self.contributions = parts_of_mixture(trees.mixture, start, end, moved)

    def _mean_of(self, role: int) -> tuple[Array, Array] | None:
        """Return what trees of a role say at their roots, and what each feature adds, a mean.

        There is a row of classes for each posterior. None where there is no tree of the role.
        """
        found = [
            self._tree(t)
            for t, tree in enumerate(self.trees.trees)
            if tree.role == role and tree.path_length > 0
        ]
        if not found:
            return None
        starts, parts = (np.mean(part, axis=0) for part in zip(*found, strict=True))
        return starts, parts

    def _tree(self, t: int) -> tuple[Array, Array]:
        """Return what a tree's root says by each posterior, and what each feature adds."""
        forest, tree = self.trees.forest, self.trees.trees[t]
        n, n_classes = int(tree.path_length), int(forest.n_classes)
        numbers, said = np.empty((n, STEP_NUMBERS)), np.empty((n, STEP_ROWS, n_classes))
        describe_path(forest, t, Float64s.of(numbers.ravel()), Float64s.of(said.ravel()))
        refs = np.array([forest.path_of(t)[i].ref for i in range(n)])
        x = self.trees.row[int(tree.first_value) :][: int(forest.n_dims)]
        hierarchy, path, branches = self._hierarchy(t, refs, x, said[:, :2])
        parts = np.zeros((N_POSTERIORS, len(x), n_classes))
        parts[0] = contributions(forest, tree, path, x, hierarchy, branches)
        # The weightings: a node that says nothing passes on what is above.
        says, stops = numbers[:, 0] > 0.0, numbers[:, 1:]
        known = np.maximum.accumulate(np.where(says, np.arange(n), 0))
        said = said[known]
        rests = np.cumprod(1.0 - np.where(says[:, None], stops, 0.0), axis=0)
        for i in range(1, n):
            dim = int(tree.nodes.row(int(refs[i - 1])).dim)
            parts[1:, dim] += rests[i - 1][:, None] * (said[i, 2:] - said[i - 1, 2:])
        return np.concatenate([hierarchy[:1], said[0, 2:]]), parts

    def _hierarchy(
        self, t: int, refs: NDArray[np.int64], x: NDArray[np.float32], counts: Array
    ) -> tuple[Array, Path, Array]:
        """Return the HNSP's distributions on a path, its geometry, and what branching off adds.

        `counts` has c and the tables of each step.
        """
        customers, presence = counts[:, 0], counts[:, 1]
        forest, tree = self.trees.forest, self.trees.trees[t]
        gamma, n = float(forest.gamma), len(refs)
        here, branches = np.zeros_like(customers), np.zeros_like(customers)
        etas, spans, reach, stays = np.zeros(n), np.full(n, math.inf), np.ones(n), np.ones(n)
        above, comes = np.full(customers.shape[1], 1.0 / customers.shape[1]), 1.0
        for i, ref in enumerate(refs.tolist()):
            if i < n - 1:
                spans[i] = tree.nodes.row(ref).delta
            etas[i], reach[i] = gaps_from(forest, t, ref, x).sum(), comes
            if etas[i] > 0.0:
                stays[i] = math.exp(-etas[i] * spans[i])
            comes *= stays[i]
            total, tables = customers[i].sum(), presence[i]
            leaves = reach[i] * (1.0 - stays[i])
            if not total > 0.0:
                # It says nothing, also of what branches off there.
                here[i], branches[i] = above, -leaves * above
                continue
            discount = math.exp(-gamma * spans[i])
            passed = reach[i] * etas[i] / (etas[i] + gamma) * (1.0 - stays[i] * discount)
            kept, passed = max(leaves - passed, 0.0), passed if etas[i] > 0.0 else 0.0
            own = (customers[i] - discount * tables + discount * tables.sum() * above) / total
            branches[i] = kept * (tables / tables.sum() - own) + passed * (above - own)
            here[i] = above = own
        return here, Path(t, refs, etas, spans, reach, stays), branches
