"""Records of forests that are rebuilt from a window of the stream, and paths of samples."""

import math
from typing import Any, TypeVar

from ... import records as rec
from ...compiling.kernels import always_inline, inline_in_source, link_by_name
from ...learners.drift import DriftWatchRecord
from ...learners.neighbors import NeighborsRecord
from ...limits import DONE
from ...partitions.mondrian import constants, sampling
from ...partitions.mondrian.records import LEAF, Forest, Node, Point, Tree

# Records of forests whose trees are rebuilt, and the methods that subclasses override.
#
# A leaf is paused until `splits` cuts the leaf. So the labels or targets in the leaf can guide the
# cut. Cuts between a new sample and a node's box are drawn as in any other Mondrian tree.


# Roles of a tree. An IDLE tree is not in use. LONG trees predict from all samples of the window,
# and RECENT trees from recent samples. The other roles are the stages of a build: the tree gathers
# points, splits leaves, replays points, or is complete.
IDLE = 0
LONG = 1
RECENT = 2
GATHERING = 3
SPLITTING = 4
REPLAYING = 5
BUILT = 6

# Stages of the *accepted* sample, which is being learned. LEARNED: learning is complete.
# ACCEPTED: learning has not begun. If ranges are fitted at the sample (see `sample`), there are two
# more stages. MIXED_IN: the mixture has learned the sample, but the sample is not stored and the
# ranges are not fitted. REBUILD_DUE: the sample's point is stored, and the trees must be rebuilt.
LEARNED = 0
ACCEPTED = 1
MIXED_IN = 2
REBUILD_DUE = 3

# `next_waiting` of the last leaf in a tree's queue.
LAST = -2

# Largest length of a sample's path.
DEEPEST = 512
# Capacity of each tree's path, in nodes.
PATH_LENGTH = DEEPEST + 1


class RebuiltPoint(Point):
    """A stored sample."""

    def pauses_with(self, forest: Forest, other: Point) -> bool:
        """Return True, because leaves are always paused."""
        return True


# A reference to the next leaf in a queue of splits.
WAITING = rec.Ref("nodes", none=LAST, when=LEAF, finds=LEAF, chain="queue")


class RebuiltNode(Node):
    """A node. A leaf may be in the tree's queue of splits."""

    # For a leaf in the tree's queue: the row of the next leaf, or LAST. NONE for other leaves.
    next_waiting: rec.Int32 = rec.instead_of("right", WAITING)

    def is_paused(self, forest: Forest) -> bool:
        """Return True, because only splits of the queue cut leaves."""
        return True

    def ends_pause(self, forest: Forest, point: Point) -> bool:
        """Return False, because only splits of the queue end pauses."""
        return False


class RebuiltTree(Tree):
    """A tree that predicts, is being built, or is empty."""

    nodes: rec.Table[RebuiltNode]
    role: rec.Int64 = rec.stored(rec.Bounds(IDLE, BUILT))
    # First leaf in the queue of splits, or NONE.
    queue: rec.Int64 = rec.stored(rec.Ref("nodes", finds=LEAF, chain="queue"))
    # Length of the last predicted sample's path, 0 if the tree does not predict. Number of node
    # rows before the tree's last walk.
    path_length: rec.Int64 = rec.transient()
    rows_before: rec.Int64 = rec.transient()

    def predicts(self) -> bool:
        """Return whether the tree predicts."""
        return self.role in (LONG, RECENT)

    def lacks_rows(self, n: int, n_side: int) -> bool:
        """Return whether the tree lacks memory for `n` more nodes or `n_side` more side rows."""
        nodes, side_rows = self.nodes, self.side_rows
        return nodes.n_rows + n > nodes.capacity or side_rows.n_rows + n_side > side_rows.capacity


class PathEntry(rec.Record):
    """A node on a sample's path."""

    ref: rec.Int64
    # The row of the node or of the point.
    row: rec.Record

    def note(self, forest: Forest, tree: Tree) -> None:
        """Set the fields that a subclass adds."""

    def fetch(self, forest: Forest) -> None:
        """Prefetch the memory to which the subclass's fields refer."""


class Candidate(rec.Record):
    """A possible cut of a leaf."""

    dim: rec.Int64
    cut: rec.Float64


class Pending(rec.Record):
    """Work of a call that kernels leave to `RebuiltTrees`."""

    EMBEDDED = True

    # Stage of the accepted sample in `inputs`. `RebuiltTrees.n_begun` counts the sample even while
    # memory must still be allocated.
    stage: rec.Int64 = rec.transient()
    # Number of samples to keep if the last error has shown a drift, otherwise 0.
    n_to_keep: rec.Int64 = rec.transient()
    # Whether the schedule must be planned, and the least number of samples for planning.
    is_planning_due: rec.Int64 = rec.transient()
    plan_from: rec.Int64 = rec.derived()


class Build(rec.Record):
    """The state of a build: the next sample, the budgets, and the rows that are needed."""

    EMBEDDED = True

    # The tree's first sample, and the next sample to gather or replay.
    first: rec.Int64
    cursor: rec.Int64
    # The call's remaining budget, and the budget of each call that continues to build, in points.
    budget: rec.Int64
    budget_of_call: rec.Int64 = rec.derived()
    # Number of rows that the tree needs.
    rows_needed: rec.Int64 = rec.transient()
    # Largest numbers of side rows (rows of statistics) that a call needs in a tree, and that a
    # split needs.
    side_rows_of_call: rec.Int64 = rec.derived()
    side_rows_of_split: rec.Int64 = rec.derived()


class LastPrediction(rec.Record):
    """The last predicted sample."""

    EMBEDDED = True

    # Whether the prediction is for `inputs` and from the current trees.
    is_current: rec.Int64 = rec.transient()
    inputs: rec.Float64s
    # Paths of the sample, shape (trees, PATH_LENGTH). Buffer for the trees with unfinished paths.
    paths: rec.Array[PathEntry]
    walking: rec.Int64s


class GuidedCuts(rec.Record):
    """The choice of cuts: gains of earlier cuts, and buffers for the cut of a leaf."""

    EMBEDDED = True

    # Number of cuts from which the best cut is chosen.
    n_candidates: rec.Int64 = rec.stored(rec.Bounds(1, 1 << 31))
    candidates: rec.Array[Candidate]
    # Gains of the cuts in each dimension, shape (trees, n_dims). Weights of the dimensions in draws
    # of candidates.
    gains: rec.Float64s
    dim_weights: rec.Float64s
    # Buffer for sums of weighted sides.
    side_sums: rec.Float64s


class RebuiltForest(Forest):
    """A forest of trees that are rebuilt. Subclasses add fields for the accepted sample."""

    trees: rec.Array[RebuiltTree]
    points: rec.Table[RebuiltPoint]
    # Largest number of stored samples. Sample i is point i % window_capacity.
    window_capacity: rec.Int64 = rec.stored(rec.Bounds(1, 1 << 31))
    horizon: rec.Float64 = rec.stored(rec.Bounds(math.inf))
    # The earliest sample in any tree.
    oldest: rec.Int64 = rec.derived()
    predicted: LastPrediction
    # The nearest neighbours among the latest samples, which are experts of the mixture.
    neighbors: NeighborsRecord
    # The errors of predictions, for the detection of drifts.
    errors: DriftWatchRecord
    pending: Pending
    cuts: GuidedCuts
    build: Build

    def path_of(self, t: int) -> Any:
        """Return a tree's path, as an array of the subclass's `PathEntry`."""
        return self.predicted.paths.part(PATH_LENGTH * t, PATH_LENGTH)

    # Methods that subclasses override.

    def predict_sample(self, inputs: rec.Float64s) -> int:
        """Predict a sample; return DONE, or the index of the first input that is too large."""
        return -1

    def take(self, y: float, weight: float, is_new: bool) -> None:
        """Set the accepted sample's label or target, and its weight."""

    def error(self) -> float:
        """Return the prediction error for the accepted sample, or -1 without a prediction."""
        return -1.0

    def score(self) -> None:
        """Update the mixture of predictions with the accepted sample."""

    def keep_sample(self, p: int) -> None:
        """Store the accepted sample's label or target, and its weight, in point `p`."""

    def learn_stops(self, t: int) -> None:
        """Update the weights of the nodes on a tree's path, before the sample extends the tree."""

    def begin_walk(self, t: int, p: int) -> None:
        """Set the node at which the walk of point `p` in a tree begins, if this is not the root."""

    def update_tree(self, t: int, p: int, n: int) -> None:
        """Add a new point of a tree to the statistics of the `n` nodes on the point's path."""

    def catch_up(self, t: int, p: int, backlog: int) -> None:
        """Compute the statistics of new nodes that a point has added to a tree during its build.

        The latest `backlog` samples before the point have not yet been replayed.
        """

    def enqueue_built(self, t: int, ref: int) -> None:
        """Add a leaf to the tree's queue during a build, if the leaf should be split."""

    def weigh_cuts(self, t: int, j: int, m: int) -> tuple[int, float]:
        """Sum statistics over a subset of a leaf's points, for each side of `m` candidates.

        Returns the argument `n` of `gain_of`, and about the ratio of the leaf's number of points to
        the size of the subset.
        """
        return 0, 1.0

    def gain_of(self, c: int, n_points: int, n: int) -> float:
        """Return the gain of candidate `c` for a leaf, from the sums of `weigh_cuts`."""
        return 0.0

    def split(self, t: int, j: int, chosen: Candidate, time: float, last: int) -> None:
        """Cut a leaf `time` after the parent's cut, and queue the children that should be split.

        `last` is the latest stored point, or NONE for a tree that is being built.
        """

    def replays(self) -> bool:
        """Return whether a tree replays its points in order after the splits of its build."""
        return False

    def replay(self, t: int, start: int, stop: int) -> int:
        """Replay samples `start` to `stop` - 1 in a tree, and return the next sample to replay.

        If the tree has no room for more rows, the replay stops early.
        """
        return stop


R = TypeVar("R", bound=RebuiltForest)


@always_inline
def _enter(forest: RebuiltForest, tree: RebuiltTree, entry: PathEntry, ref: int) -> None:
    """Set the reference and the row of a node on a path."""
    entry.ref = ref
    if ref >= 0:
        entry.row = tree.nodes.row(ref)
    else:
        entry.row = forest.points.row(~ref)


@always_inline
def _goes_on(tree: RebuiltTree, entry: PathEntry, n: int) -> bool:
    """Return whether a path of `n` nodes continues after `entry`, its last node."""
    return entry.ref >= 0 and n < DEEPEST and tree.nodes.cast(entry.row).dim >= 0


@link_by_name
def path_from(
    forest: R, tree: RebuiltTree, x: rec.Float32s, path: rec.Array[PathEntry], n: int, ref: int
) -> int:
    """Continue a sample's path of `n` nodes at `ref`, a node or a point.

    Returns the new number of nodes.
    """
    while True:
        entry = path[n]
        _enter(forest, tree, entry, ref)
        entry.note(forest, tree)
        n += 1
        if not _goes_on(tree, entry, n):
            return n
        node = tree.nodes.cast(entry.row)
        ref = node.child(sampling.side_of(forest, tree, node, x))


@always_inline
def path_to(forest: R, tree: RebuiltTree, x: rec.Float32s, path: rec.Array[PathEntry]) -> int:
    """Write a sample's path in a tree, and return the path's number of nodes."""
    return path_from(forest, tree, x, path, 0, tree.root)


@link_by_name
def walk_all(forest: R) -> None:
    """Write the paths of the sample in the forest's `row`, in all trees that predict.

    The trees are descended in lock-step, so that their cache misses overlap. Trees that do not
    predict get paths of length 0.
    """
    walking, paths = forest.predicted.walking, forest.predicted.paths
    n_walking = 0
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        tree.path_length = 0
        if tree.predicts() and tree.root != constants.EMPTY:
            _enter(forest, tree, paths[PATH_LENGTH * t], tree.root)
            walking[n_walking] = t
            n_walking += 1
    depth = 0
    while n_walking > 0:
        still = 0
        for i in range(n_walking):
            t = walking[i]
            tree = forest.trees[t]
            entry = paths[PATH_LENGTH * t + depth]
            entry.note(forest, tree)
            tree.path_length = depth + 1
            entry.fetch(forest)
            if _goes_on(tree, entry, depth + 1):
                x = forest.row.part(tree.first_value, forest.dim_capacity)
                node = tree.nodes.cast(entry.row)
                child = node.child(sampling.side_of(forest, tree, node, x))
                below = paths[PATH_LENGTH * t + depth + 1]
                _enter(forest, tree, below, child)
                rec.prefetch(below.row, forest.node_words if child >= 0 else forest.links_word)
                walking[still] = t
                still += 1
        n_walking = still
        depth += 1


@inline_in_source
def path_of_grown(
    forest: R, tree: RebuiltTree, x: rec.Float32s, path: rec.Array[PathEntry], n: int
) -> int:
    """Write the path of a tree's newest point, and return the path's number of nodes.

    `path` has the `n` nodes of the path before the point has extended the tree. These nodes are
    still valid above the node where the point's walk has ended.
    """
    parent = tree.walk_parent
    while parent != constants.NONE and n > 0:
        entry = path[n - 1]
        if entry.ref == parent:
            child = tree.nodes.cast(entry.row).child(tree.walk_side)
            return path_from(forest, tree, x, path, n, child)
        n -= 1
    return path_to(forest, tree, x, path)


# The last predicted sample.


@always_inline
def note_predicted(forest: RebuiltForest, inputs: rec.Float64s) -> None:
    """Record that the last prediction is for these inputs."""
    for i in range(forest.n_inputs):
        forest.predicted.inputs[i] = inputs[i]
    forest.predicted.is_current = 1


@always_inline
def ensure_predicted(forest: RebuiltForest, inputs: rec.Float64s) -> int:
    """Predict a sample, unless the current trees have just predicted the sample.

    Returns the result of `predict_sample`.
    """
    if forest.predicted.is_current == 0:
        return forest.predict_sample(inputs)
    last = forest.predicted.inputs
    for i in range(forest.n_inputs):
        # NaN differs from itself, but two missing values are treated as equal.
        if last[i] != inputs[i] and (last[i] == last[i] or inputs[i] == inputs[i]):
            return forest.predict_sample(inputs)
    return DONE
