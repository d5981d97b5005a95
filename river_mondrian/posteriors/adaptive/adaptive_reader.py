"""Reader of adaptive trees over classes: views of nodes, gains of cuts, and explanations."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ... import limits
from ...compiling.kernels import kernel
from ...learners import experts
from ...partitions.mondrian.reading import (
    Description,
    NodeView,
    Path,
    TreeTable,
    contributions,
    gaps_from,
)
from ...records import Float64s, Floats, Ints, Singles
from ..gains import class_weights, gains_of_classes
from ..labels.label_reader import effect_of_branching
from ..rebuilt.forest import LONG, RECENT
from ..rebuilt.rebuilt_trees import RebuiltReader
from . import nodes, seen
from .nodes import N_EXPERTS, A

# Explanations of the mixture's predictions.


# For each node on a path: number of scalars, and number of rows with a value per class.
STEP_NUMBERS = 1 + nodes.N_WEIGHTINGS
STEP_ROWS = 2 + nodes.N_WEIGHTINGS


@kernel
def describe_path(forest: A, t: int, numbers: Float64s, distributions: Float64s) -> None:
    """Describe the nodes on the path of the last predicted sample in a tree.

    `numbers` gets `STEP_NUMBERS` values per node. The first value is 1 if the node has seen samples
    or ends the path, otherwise 0. The other values are the probabilities of stopping (see
    `weighting`). `distributions` gets `STEP_ROWS` rows per node, with a value per class: c and tab
    of the HNSP (see `labels.hnsp`), then the distributions of the weightings.
    """
    tree, path = forest.trees[t], forest.path_of(t)
    n, n_classes, below = tree.path_length, forest.n_classes, forest.posterior.below
    # Walk from the end up, since a node's c depends on the weights in the node below.
    for i in range(n - 1, -1, -1):
        entry = path[i]
        ref, statistics, ends = entry.ref, entry.statistics, i == n - 1
        has_seen = bool(statistics) and statistics.n_seen > 0
        own = numbers.part(STEP_NUMBERS * i, STEP_NUMBERS)
        own[0] = 1.0 if has_seen or ends else 0.0
        for v in range(nodes.N_WEIGHTINGS):
            stop = statistics.stops[v] if has_seen else 0.0
            own[1 + v] = 1.0 if ends else stop
        rows = distributions.part(STEP_ROWS * n_classes * i, STEP_ROWS * n_classes)
        for k in range(n_classes):
            if not has_seen:
                # The node has at most one point, so all classes except the point's class are
                # equally probable.
                weight = forest.weight_of(~ref) if ref < 0 else 0.0
                count = weight if ref < 0 and forest.label_of(~ref) == k else 0.0
                rows[k] = count
                for v in range(nodes.N_WEIGHTINGS):
                    alpha = nodes.PRIORS[v]
                    rows[(2 + v) * n_classes + k] = (count + alpha) / (weight + alpha * n_classes)
            else:
                known = seen.numbers_of(forest, tree, statistics, k)
                alpha = nodes.PRIORS[nodes.MIXED]
                of_all = statistics.estimate(known, alpha, n_classes, 1.0)
                late = statistics.late_estimate(known, nodes.LATE, alpha, n_classes, 1.0)
                latest = statistics.late_estimate(known, nodes.LATEST, alpha, n_classes, 1.0)
                shares = statistics.shares
                mixed = shares[0] * of_all + shares[1] * late + shares[2] * latest
                noisy = statistics.estimate(known, nodes.PRIORS[nodes.NOISY], n_classes, 1.0)
                rows[(2 + nodes.NOISY) * n_classes + k] = noisy
                rows[(2 + nodes.MIXED) * n_classes + k] = mixed
                count = np.float64(known.words[0])
                # Compute c of the HNSP (see `labels.hnsp`). The child on the path has a part of
                # the class's weight, and the other child has the rest.
                bits = seen.sides_of(forest, tree, statistics, k)
                if ends:
                    rows[k] = count
                elif forest.is_weighted == 1:
                    rows[k] = min(below[k], 1.0) + min(max(count - below[k], 0.0), 1.0)
                else:
                    rows[k] = np.float64((bits & 1) + (bits >> 1))
            rows[n_classes + k] = min(count, 1.0)
            below[k] = count


class Explanation:
    """The features' contributions to the prediction for the last predicted sample.

    A tree's posterior changes from node to node on the path of the sample. The change at a cut is
    assigned to the cut's feature (see `reading.contributions`). The contributions to a
    discriminant's prediction are computed from the contributions to the discriminant's logits. The
    contributions to an expert's prediction add up to the difference between the expert's
    predictions with and without features. The contributions to the mixture are computed from the
    contributions to the experts (see `learners.experts`).

    Parameters
    ----------
    trees
        The `AdaptiveTrees`.
    inputs
        The sample's inputs.

    """

    def __init__(self, trees: Any, inputs: Floats) -> None:
        self.trees = trees
        n_classes = int(trees.forest.n_classes)
        of_all, of_recent = (self._mean_of(role) for role in (LONG, RECENT))
        assert of_all is not None
        of_recent = of_recent or of_all
        starts, parts = (
            [*own, *(0.5 * (own + others))] for own, others in zip(of_all, of_recent, strict=True)
        )
        for logits, added in trees.discriminants.logits(inputs):
            powers = np.exp(logits - logits.max())
            starts.append(powers / powers.sum())
            parts.append(experts.parts_of_softmax(logits, added))
        for own, added in trees.neighbors.parts():
            starts.append(own)
            parts.append(added)
        # Raise small probabilities to the floor of the mixture (`experts.combine`).
        raised = np.maximum(starts, experts.FLOOR / n_classes)
        mixture = trees.mixture
        start = mixture.with_share(raised / raised.sum(axis=-1, keepdims=True))
        end = mixture.predicted[:, :n_classes]
        changes = (end - start)[:N_EXPERTS]
        moved = [experts.shared_out(*one) for one in zip(parts, changes, strict=True)]
        whole = mixture.with_share(np.array(moved))
        self.baseline = experts.mixed(mixture, start)
        self.contributions = experts.parts_of_mixture(mixture, start, end, whole)

    def _mean_of(self, role: int) -> tuple[Floats, Floats] | None:
        """Return the mean predictions at the roots of a role's trees, and the mean contributions.

        The arrays have the shapes (posteriors, classes) and (posteriors, features, classes). If the
        role has no tree, return None.
        """
        trees = self.trees.trees
        used = [t for t, tree in enumerate(trees) if tree.role == role and tree.path_length > 0]
        if not used:
            return None
        starts, parts = (np.mean(part, axis=0) for part in zip(*map(self._tree, used), strict=True))
        return starts, parts

    def _tree(self, t: int) -> tuple[Floats, Floats]:
        """Return each posterior's prediction at a tree's root, and the features' contributions."""
        forest, tree = self.trees.forest, self.trees.trees[t]
        n, n_classes = int(tree.path_length), int(forest.n_classes)
        numbers, own = np.empty((n, STEP_NUMBERS)), np.empty((n, STEP_ROWS, n_classes))
        describe_path(forest, t, Float64s.of(numbers.ravel()), Float64s.of(own.ravel()))
        refs = np.array([forest.path_of(t)[i].ref for i in range(n)])
        x = self.trees.row[int(tree.first_value) :][: int(forest.n_dims)]
        hierarchy, path, branches = self._hierarchy(t, refs, x, own[:, :2])
        parts = np.zeros((nodes.N_POSTERIORS, len(x), n_classes))
        parts[0] = contributions(forest, tree, path, x, hierarchy, branches)
        # In the weightings, a node without samples has the distribution of the node above.
        has_own, stops = numbers[:, 0] > 0.0, numbers[:, 1:]
        known = np.maximum.accumulate(np.where(has_own, np.arange(n), 0))
        own = own[known]
        rests = np.cumprod(1.0 - np.where(has_own[:, None], stops, 0.0), axis=0)
        for i in range(1, n):
            dim = int(tree.nodes.row(int(refs[i - 1])).dim)
            parts[1:, dim] += rests[i - 1][:, None] * (own[i, 2:] - own[i - 1, 2:])
        return np.concatenate([hierarchy[:1], own[0, 2:]]), parts

    def _hierarchy(
        self, t: int, refs: Ints, x: Singles, counts: Floats
    ) -> tuple[Floats, Path, Floats]:
        """Return the HNSP's distributions on a path, the path, and the effects of branching off.

        `counts` has c and tab of each node by class (see `labels.hnsp`). The effect at a node is
        the change in the prediction when the sample may branch off there (see
        `reading.contributions`).
        """
        customers, presence = counts[:, 0], counts[:, 1]
        forest, tree = self.trees.forest, self.trees.trees[t]
        gamma, n = float(forest.gamma), len(refs)
        here, branches = np.zeros_like(customers), np.zeros_like(customers)
        etas, spans, reach, stays = np.zeros(n), np.full(n, math.inf), np.ones(n), np.ones(n)
        path = Path(t, refs, etas, spans, reach, stays)
        above, comes = np.full(customers.shape[1], 1.0 / customers.shape[1]), 1.0
        for i, ref in enumerate(refs.tolist()):
            if i < n - 1:
                spans[i] = tree.nodes.row(ref).delta
            etas[i], reach[i] = gaps_from(forest, t, ref, x).sum(), comes
            if etas[i] > 0.0:
                stays[i] = math.exp(-etas[i] * spans[i])
            comes *= stays[i]
            total, tables = customers[i].sum(), presence[i]
            if not total > 0.0:
                # The node has no samples, so the prediction has no term for branching off there.
                here[i], branches[i] = above, -reach[i] * (1.0 - stays[i]) * above
                continue
            discount = math.exp(-gamma * spans[i])
            own = (customers[i] - discount * tables + discount * tables.sum() * above) / total
            branches[i] = effect_of_branching(path, i, gamma, discount, tables, own, above)
            here[i] = above = own
        return here, path, branches


@dataclass
class AdaptiveView(NodeView):
    """A node with its class weights. The weights are integers if all samples have weight 1."""

    counts: NDArray[Any]


class AdaptiveReader(RebuiltReader):
    """A reader of `AdaptiveTrees`."""

    VIEW: ClassVar[Any] = AdaptiveView

    def counts(self, slot: int) -> Singles:
        """Return the classes' weights in a tree's rows of statistics, shape (rows, classes)."""
        rows = self.store.side_rows.rows(slot, self.store.trees[slot].side_rows.n_rows)
        return seen.counts_in(rows, int(self.forest.n_classes), bool(self.forest.is_sparse))

    def leaf_weights(self, slot: int, rows: Ints) -> Floats:
        """Return the class weights of leaves, given the leaves' rows, shape (leaves, classes)."""
        found = np.zeros((len(rows), int(self.forest.n_classes)))
        numbers = self.column("nodes", "statistics_row", slot)[rows]
        found[numbers > 0] = self.counts(slot)[numbers[numbers > 0] - 1]
        return found

    def description(self, slot: int, hidden: bool) -> Description:
        """Return a function that describes a node (see `TreeReader.description`)."""
        n_classes, of_rows = int(self.forest.n_classes), self.counts(slot)
        # If all samples have weight 1, counts are integers.
        kind = np.float64 if self.forest.is_weighted else np.int64

        def describe(ref: int, record: Any) -> tuple[bool, bool, tuple[NDArray[Any]]]:
            counts = np.zeros(n_classes, dtype=kind)
            if ref < 0:
                counts[record.label] = record.weight
                return True, True, (counts,)
            if record.statistics_row > 0:
                counts[:] = of_rows[record.statistics_row - 1]
            return record.dim < 0, bool((counts > 0).sum() == 1), (counts,)

        return describe

    def cut_gains(self, slot: int) -> tuple[TreeTable, Floats, float]:
        """Return a tree's `TreeTable`, the gain of each cut, and the weight of all samples."""
        table = self.table(slot)
        weights = class_weights(self, slot, table)
        return table, gains_of_classes(table, weights), float(weights[:1].sum())

    def root_prediction(self) -> Floats:
        """Return the mixture's prediction without features: trees predict at their roots."""
        inputs = np.full(self.store.n_inputs, np.nan)
        self.store.predict(inputs.tobytes(), bytearray(self.store.out.nbytes))
        return Explanation(self.store, inputs).baseline

    def explain(self, inputs: Floats) -> tuple[int, Floats]:
        """Return DONE and each feature's contribution to the prediction of a sample.

        If an input is too large, the first result is the index of this input.
        """
        best = self.store.predict(inputs.tobytes(), bytearray(self.store.out.nbytes))
        if best <= limits.TOO_LARGE:
            return limits.TOO_LARGE - best, np.empty((0, 0))
        return limits.DONE, Explanation(self.store, inputs).contributions
