"""Adaptive trees over classes, linear discriminants, and the mixture of both."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ... import checks, limits, restored
from ...compiling.kernels import kernel, set_entries
from ...learners import drift, experts
from ...learners.discriminants import N_DISCRIMINANTS, LinearDiscriminants
from ...partitions.mondrian.reading import Kept, NodeView, Path, TreeTable, contributions, gaps_from
from ...partitions.mondrian.records import Node, Point, Tree
from ...partitions.mondrian.tree_memory import WARM_UP, Partitions
from ...partitions.mondrian.trees import ClassTrees
from ...records import INT32, Float64s, Floats, Ints, Memory, Part, RowLayout, Singles
from ..gains import class_weights, gains_of_classes
from ..rebuilt.forest import DEEPEST, LONG, PATH_LENGTH, RECENT
from ..rebuilt.rebuilt_trees import RebuiltTrees, room_for
from . import nodes, prediction, seen, weighting
from .class_forest import ClassForest
from .nodes import A, SeenClass, Statistics

# With at most this many classes, a row of statistics stores all classes, which is faster. With more
# classes, a row stores only the seen classes (see `seen`).
MOST_DENSE = 128

# With many classes, these parts follow the statistics in a node's row. Linked rows have further
# classes in place of the statistics (see `seen`).
SEEN_PARTS = (Part("seen", SeenClass, nodes.N_FIRST), Part("links", INT32, nodes.N_LINKS))

POSTERIORS = (
    "hierarchical posterior",
    "average over prunings",
    "average over prunings with forgetting",
)
DISCRIMINANTS = ("softmax, small steps", "softmax, large steps", "naive Bayes")
EXPERTS = (
    *(f"{name}, {of}" for of in ("trees of all samples", "all trees") for name in POSTERIORS),
    *DISCRIMINANTS,
    "fixed share of the others",
)
# Number of experts that predict with trees' posteriors, and number of experts without the fixed
# share.
N_TREE_EXPERTS = 2 * nodes.N_POSTERIORS
N_EXPERTS = N_TREE_EXPERTS + N_DISCRIMINANTS


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
    n, n_classes, below = tree.path_length, forest.n_classes, forest.below
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
                # The node has no samples, so the prediction has no term for branching off there.
                here[i], branches[i] = above, -leaves * above
                continue
            discount = math.exp(-gamma * spans[i])
            passed = reach[i] * etas[i] / (etas[i] + gamma) * (1.0 - stays[i] * discount)
            kept, passed = max(leaves - passed, 0.0), passed if etas[i] > 0.0 else 0.0
            own = (customers[i] - discount * tables + discount * tables.sum() * above) / total
            branches[i] = kept * (tables / tables.sum() - own) + passed * (above - own)
            here[i] = above = own
        return here, Path(t, refs, etas, spans, reach, stays), branches


@dataclass
class AdaptiveView(NodeView):
    """A node with its class weights. The weights are integers if all samples have weight 1."""

    counts: NDArray[Any]


class AdaptiveTrees(RebuiltTrees[ClassForest, AdaptiveView], ClassTrees[ClassForest, AdaptiveView]):
    """Trees of all samples in a window, trees of recent samples, and a spare tree for builds.

    Parameters
    ----------
    partitions
        Number, lifetime and other arguments of the trees. Initially, the last tree is the spare
        tree.
    n_long
        Number of trees of all samples.
    n_candidates
        Number of cuts from which the best cut is chosen.
    max_samples
        Number of samples at which the window is halved.
    max_bytes
        Largest size of the trees in bytes. The window is halved earlier to stay below this size.
        None sets no limit.
    root_forgets
        Whether class counts are discounted at the roots too, not only at other nodes.
    watch
        The model's errors and the drift detector. None disables drift detection.

    """

    _FOREST = ClassForest
    _TREE: ClassVar[type[Tree]] = nodes.AdaptiveTree
    _NODE: ClassVar[type[Node]] = nodes.AdaptiveNode
    _POINT: ClassVar[type[Point]] = nodes.AdaptivePoint
    _VIEW = AdaptiveView
    _PREDICT: ClassVar[Any] = prediction.predict_one
    _ZEROED_SIDE_ROWS: ClassVar[bool] = False
    _DERIVED: ClassVar[frozenset[str]] = RebuiltTrees._DERIVED | {"out"}
    _ENTRY = nodes.StatisticsEntry

    def __init__(
        self,
        partitions: Partitions,
        n_long: int,
        n_candidates: int,
        max_samples: int,
        max_bytes: int | None,
        root_forgets: bool,
        watch: drift.DriftWatch | None = None,
    ) -> None:
        self.root_forgets = root_forgets
        self.mixture = experts.Mixture(N_EXPERTS)
        self.discriminants = LinearDiscriminants()
        super().__init__(partitions, n_long, n_candidates, max_samples, max_bytes, watch)

    def _check_kind(self) -> None:
        super()._check_kind()
        checks.check_equal(self, self.mixture.record, n_experts=N_EXPERTS + 1)
        n, capacity = self.forest.n_classes, self.forest.class_capacity
        checks.check_number(
            self, "class_capacity", capacity, max(nodes.BLOCK, n), 2 * nodes.MOST_CLASSES
        )
        if capacity % nodes.BLOCK:
            checks.refuse(self, "class_capacity", capacity, f"but not a multiple of {nodes.BLOCK}")

    def _check_tree(
        self, t: int, tables: dict[str, restored.Rows], found: restored.Followed
    ) -> None:
        super()._check_tree(t, tables, found)
        if self.forest.is_sparse:
            numbers, n = tables["nodes"].column("statistics_row"), int(self.forest.n_classes)
            rows = self.side_rows.rows(self.trees[t].slot, tables["side_rows"].n)
            if not seen.is_sound(rows, numbers[numbers > 0] - 1, n):
                checks.refuse(
                    self, "side_rows", len(rows), f"of tree {t}, with wrong links or classes"
                )

    def _set_up(self) -> None:
        super()._set_up()
        self.forest.gamma = 1.0
        self.forest.root_forgets = int(self.root_forgets)
        self.forest.class_capacity = nodes.BLOCK

    def _set_words(self) -> None:
        super()._set_words()
        self.forest.statistics_words = self._side_layout().words

    def _side_layout(self) -> RowLayout:
        if self.forest.is_sparse:
            return RowLayout(Statistics, SEEN_PARTS)
        capacity = self.forest.class_capacity
        blocks = Part("blocks", nodes.ClassBlock, capacity // nodes.BLOCK)
        sides = Part("sides", INT32, -(-capacity // nodes.CLASSES_OF_WORD))
        return RowLayout(Statistics, (blocks, sides))

    @property
    def _side_room(self) -> tuple[int, int]:
        of_call, of_split = super()._side_room
        if not self.forest.is_sparse:
            return of_call, of_split
        # Two new nodes need side rows (rows of statistics). Each node on a path may need one more
        # row, for a class that the node has not seen.
        more = 2 * nodes.most_rows(int(self.forest.class_capacity))
        return of_call + DEEPEST + more, of_split + more

    def _finish(self) -> None:
        super()._finish()
        forest, own = self.forest, self.shared.own
        capacity = int(forest.class_capacity)
        own("nothing", np.zeros(SeenClass.SIZE, dtype=np.uint8))
        own("class_sides", room_for(nodes.ClassSides, self.n_candidates * capacity))
        own("block_classes", np.zeros(capacity, dtype=np.int64))
        own("class_numbers", np.zeros(capacity, dtype=np.int64))
        own("ages", np.empty(self.points.capacities[0], dtype=np.int32))
        mixture, discriminants = self.mixture, self.discriminants
        mixture.reserve(capacity)
        discriminants.record.n_inputs = self.n_inputs
        predicted, categories = mixture.predicted[N_TREE_EXPERTS:N_EXPERTS], self.category_places
        discriminants.reserve(capacity, self.inputs.shape[1], predicted, categories)
        forest.experts, forest.discriminants = mixture.record, discriminants.record
        if forest.is_sparse:
            of_many = seen.find, seen.list_many, weighting.add_seen, prediction.average_many
            set_entries(forest, *of_many)
        if forest.is_weighted:
            self._show_weighted()
        self._show_classes()

    def _show_weighted(self) -> None:
        """Compile the kernels for weights other than 1, and store the kernels' addresses."""
        of_weights = prediction.clear_below, prediction.count_tables, weighting.update_by_logs
        set_entries(self.forest, *of_weights)

    def _own_prediction(self, shared: Memory[ClassForest]) -> None:
        super()._own_prediction(shared)
        own, capacity = shared.own, int(shared[0].class_capacity)
        own("steps", room_for(nodes.Step, PATH_LENGTH))
        own("posterior_sums", np.zeros(2 * shared[0].n_sums(), dtype=np.float32))
        own("found", room_for(nodes.FoundRow, nodes.N_TOGETHER * nodes.most_rows(capacity)))
        own("seen_labels", np.zeros(capacity, dtype=np.int64))
        own("node_c", np.zeros(capacity, dtype=np.float32))
        own("below", np.zeros(capacity, dtype=np.float32))

    def _reader(self) -> list[Memory[Any]]:
        mixture = self.mixture.reader()
        of_trees = N_TREE_EXPERTS * int(mixture[0].width)
        discriminants = self.discriminants.reader(mixture.arrays["predicted"][of_trees:])
        shared, *rest = super()._reader()
        shared[0].experts, shared[0].discriminants = mixture[0], discriminants[0]
        return [shared, *rest, mixture, discriminants]

    def _reserve_points(self, n: int) -> None:
        # Enlarge the buffer for ages first, since kernels can use new capacity for points
        # immediately.
        capacity = self.points.reserve(0, n)
        if capacity > self.forest.ages.length:
            self.shared.own("ages", np.empty(capacity, dtype=np.int32))
        super()._reserve_points(n)

    def _show_classes(self) -> None:
        """Set the number of classes of the mixture and the discriminants."""
        n_classes = int(self.forest.n_classes)
        self.mixture.record.n_classes = self.discriminants.record.n_classes = n_classes
        self.out = self.mixture.memory.arrays["mixed"][:n_classes]
        self._forget_predicted()

    @property
    def _bytes_of_points(self) -> tuple[int, int]:
        (of_each, of_all), ages = super()._bytes_of_points, self.shared.arrays["ages"]
        return of_each + ages.itemsize, of_all + ages.nbytes

    def add_inputs(
        self, names: Sequence[Hashable], first_values: Floats, gaps: Floats | float = math.nan
    ) -> None:
        """Add features (see `GrowingTrees.add_inputs`)."""
        super().add_inputs(names, first_values, gaps)
        new = (self.n_inputs - len(names) + np.flatnonzero(np.isfinite(gaps))).tolist()
        self.discriminants.begin_at_zero([i for i in new if i not in self.category_places])
        if self.n_samples < WARM_UP:
            self.forest.gamma = 10.0 * self.n_inputs

    def add_class(self) -> int:
        """Add a class, and return its number."""
        forest = self.forest
        label = int(forest.n_classes)
        forest.n_classes = label + 1
        if label >= MOST_DENSE and not forest.is_sparse:
            self._keep_seen()
        old = int(forest.class_capacity)
        if label >= old:
            known, n_sides = forest.statistics_words, self._side_layout().parts[-1].length
            forest.class_capacity = -(-5 * old // (4 * nodes.BLOCK)) * nodes.BLOCK
            if not forest.is_sparse:
                self._set_words()
                words, new = forest.statistics_words, self._side_layout().parts[-1].length
                moves = [(0, 0, known - n_sides), (known - n_sides, words - new, n_sides)]
                self.side_rows = self.side_rows.resized(words, moves)
            self._finish()
        self._show_classes()
        return label

    def _keep_seen(self) -> None:
        """Convert rows of statistics of all classes to rows of the seen classes."""
        forest, known, n_classes = self.forest, self.side_rows, int(self.forest.n_classes)
        capacity = int(forest.class_capacity)
        forest.is_sparse = 1
        self._set_words()
        self.side_rows = known.resized(forest.statistics_words, [(0, 0, Statistics.WORDS)])
        for t, tree in enumerate(self.trees):
            rows = known.rows(tree.slot, tree.side_rows.n_rows)
            classes, numbers, n = seen.seen_in(rows, min(n_classes, capacity), capacity)
            self.side_rows.show(tree.slot, tree.side_rows)
            self.side_rows.grow(tree.slot, tree.side_rows, tree.side_rows.n_rows + n)
            seen.put_seen.of()(forest, t, classes, numbers, n)
        self._finish()

    def _restore(self, state: dict[str, Any]) -> None:
        forest = state["shared"][0]
        forest.is_sparse = int(forest.n_classes > MOST_DENSE)
        super()._restore(state)

    # Learning.

    def learn(self, y: float, weight: float = 1.0, is_new: bool = False, found: int = 0) -> int:
        """Learn a sample (see `RebuiltTrees.learn`)."""
        if weight != 1.0 and not self.forest.is_weighted:
            self._show_weighted()
        return super().learn(y, weight, is_new, found)

    def forget_before(self, n: int) -> None:
        """Keep the latest `n` samples, and adapt the discriminants and the mixture to a drift."""
        self.discriminants.follow_drift()
        self.mixture.follow_drift()
        super().forget_before(n)

    # Prediction.

    def predict_rows(self, inputs: Floats, n_jobs: int) -> Floats:
        """Predict rows of checked inputs, and return probabilities, shape (n, classes)."""
        predict = prediction.predict_rows.of(self._FOREST)
        return self._predict_rows_by(predict, inputs, int(self.forest.n_classes), n_jobs)

    # Inspection.

    def counts(self, t: int) -> Singles:
        """Return the classes' weights in a tree's rows of statistics, shape (rows, classes)."""
        rows = self.side_rows.rows(t, self.trees[t].side_rows.n_rows)
        return seen.counts_in(rows, int(self.forest.n_classes), bool(self.forest.is_sparse))

    def leaf_weights(self, t: int, rows: Ints) -> Floats:
        """Return the class weights of leaves, given the leaves' rows, shape (leaves, classes)."""
        found = np.zeros((len(rows), int(self.forest.n_classes)))
        numbers = self.column("nodes", "statistics_row", t)[rows]
        found[numbers > 0] = self.counts(t)[numbers[numbers > 0] - 1]
        return found

    def _kept(self, t: int, hidden: bool) -> Kept:
        n_classes, of_rows = int(self.forest.n_classes), self.counts(t)
        # If all samples have weight 1, counts are integers.
        kind = np.float64 if self.forest.is_weighted else np.int64

        def kept(ref: int, record: Any) -> tuple[bool, bool, tuple[NDArray[Any]]]:
            counts = np.zeros(n_classes, dtype=kind)
            if ref < 0:
                counts[record.label] = record.weight
                return True, True, (counts,)
            if record.statistics_row > 0:
                counts[:] = of_rows[record.statistics_row - 1]
            return record.dim < 0, bool((counts > 0).sum() == 1), (counts,)

        return kept

    def cut_gains(self, t: int) -> tuple[TreeTable, Floats, float]:
        """Return a tree's `TreeTable`, the gain of each cut, and the weight of all samples."""
        table = self.table(t)
        weights = class_weights(self, t, table)
        return table, gains_of_classes(table, weights), float(weights[:1].sum())

    def root_prediction(self) -> Floats:
        """Return the mixture's prediction without features: trees predict at their roots."""
        inputs = np.full(self.n_inputs, np.nan)
        self.predict(inputs.tobytes(), bytearray(self.out.nbytes))
        return Explanation(self, inputs).baseline

    def explain(self, inputs: Floats) -> tuple[int, Floats]:
        """Return DONE and each feature's contribution to the prediction of a sample.

        If an input is too large, the first result is the index of this input.
        """
        best = self.predict(inputs.tobytes(), bytearray(self.out.nbytes))
        if best <= limits.TOO_LARGE:
            return limits.TOO_LARGE - best, np.empty((0, 0))
        return limits.DONE, Explanation(self, inputs).contributions
