"""The records of a forest that is rebuilt from a window of the stream, and paths down its trees."""

from __future__ import annotations

import math
from typing import Any, TypeVar

from ...compiling.kernels import inlined, merged, separate
from ...learners.drift import Errors
from ...limits import DONE
from ...partitions.mondrian.constants import EMPTY, NONE
from ...partitions.mondrian.records import LEAF, Forest, Node, Point, Tree
from ...partitions.mondrian.sampling import side_of
from ...records import (
    Array,
    Bounds,
    Float32s,
    Float64,
    Float64s,
    Int32,
    Int64,
    Int64s,
    Record,
    Ref,
    Table,
    derived,
    instead_of,
    prefetch,
    stored,
    transient,
)

# Records of forests whose trees are built anew, and what a kind of them overrides.
#
# A leaf's block pauses until it is cut from outside (`building`), so that the cut can be chosen
# by what is known of the samples in it. Only the extension outside of boxes cuts as in any other
# Mondrian tree.


# What a tree is for: nothing; predicting, from all samples of the window or from recent ones; or
# it is being built, and is given its points, is split, is shown the points in order, or is done.
IDLE = 0
LONG = 1
RECENT = 2
GATHERING = 3
SPLITTING = 4
REPLAYING = 5
BUILT = 6

# What an accepted sample waits for: nothing, since it has been learned; to be learned; where it
# doubles the number of samples, for its point and the ranges, once the mixture has learned it; and
# for the trees of all samples.
LEARNED = 0
ACCEPTED = 1
MIXED_IN = 2
RESCALED = 3

# `next_waiting` of the last leaf in a tree's queue.
LAST = -2

# Length at which the path of a sample ends.
DEEPEST = 512
# Entries for which a tree has room.
PATH_LENGTH = DEEPEST + 1


class RebuiltPoint(Point):
    """A stored sample."""

    def pauses_with(self, forest: Forest, other: Point) -> bool:
        """Tell that a block of two points pauses, as all do."""
        return True


# A leaf of a queue.
WAITING = Ref("nodes", none=LAST, when=LEAF, finds=LEAF, chain="queue")


class RebuiltNode(Node):
    """A node, and as a leaf its place in the queue of those that wait for their split."""

    # Of a leaf in its tree's queue the next leaf's row there, or LAST; NONE outside of it.
    next_waiting: Int32 = instead_of("right", WAITING)

    def is_paused(self, forest: Forest) -> bool:
        """Tell that a leaf's block pauses, as all do."""
        return True

    def ends_pause(self, forest: Forest, point: Point) -> bool:
        """Tell that no point ends a pause."""
        return False


class RebuiltTree(Tree):
    """A tree that predicts, is being built, or is empty."""

    nodes: Table[RebuiltNode]
    role: Int64 = stored(Bounds(IDLE, BUILT))
    # First leaf of those that wait to be split, or NONE.
    queue: Int64 = stored(Ref("nodes", finds=LEAF, chain="queue"))
    # Entries of the path of the sample predicted last, 0 where the tree does not predict; and how
    # many rows the tree had then.
    path_length: Int64 = transient()
    rows_before: Int64 = transient()

    def predicts(self) -> bool:
        """Tell whether the tree predicts."""
        return self.role in (LONG, RECENT)


class PathEntry(Record):
    """A node on a sample's path."""

    ref: Int64
    # Its row or, for a point, the point's row.
    place: Record

    def note(self, forest: Forest, tree: Tree) -> None:
        """Note what a kind keeps of the node that the path has come to."""

    def fetch(self, forest: Forest) -> None:
        """Ask for the memory of that ahead of its use."""


class Candidate(Record):
    """A cut that may be chosen."""

    dim: Int64
    cut: Float64


class RebuiltForest(Forest):
    """A forest of trees that are built anew; a kind keeps the sample that is accepted."""

    trees: Array[RebuiltTree]
    points: Table[RebuiltPoint]
    # Cuts among which one is chosen.
    n_candidates: Int64 = stored(Bounds(1, 1 << 31))
    # Samples that may be stored: sample i is point i % window_capacity.
    window_capacity: Int64 = stored(Bounds(1, 1 << 31))
    horizon: Float64 = stored(Bounds(math.inf))
    # The first sample that a tree holds: no earlier one is needed.
    oldest: Int64 = derived()
    # Of the tree that is being built: its first sample and the next one that it takes, what the
    # call may still spend, in points, and for how many rows of either kind it needs room.
    built_from: Int64
    cursor: Int64
    budget: Int64
    rows_needed: Int64 = transient()
    # Rows beside the nodes that a call may need in a tree, and that a split may need.
    side_room: Int64 = derived()
    split_room: Int64 = derived()
    # What calls that go on with building may spend, and whether it is time to plan that.
    granted: Int64 = derived()
    is_plan_due: Int64 = transient()
    # Samples before which there is nothing to plan.
    quiet_until: Int64 = derived()
    # What the sample in `inputs` waits for, that counts as learned though it may need memory.
    stage: Int64 = transient()
    # The errors of predictions, by which drifts are detected; and, where the last one has shown a
    # drift, how many samples are to be kept, else 0.
    errors: Errors
    kept: Int64 = transient()
    # Gains of the cuts in each dimension, a row of `n_dims` for each tree; and weights of the
    # dimensions' sides where candidates are drawn.
    gains: Float64s
    dim_weights: Float64s
    # Whether the last prediction is of `last_inputs` by the trees as they are.
    is_predicted: Int64 = transient()
    last_inputs: Float64s
    # Paths of the sample predicted last, PATH_LENGTH entries for each tree; which trees still walk.
    paths: Array[PathEntry]
    walking: Int64s
    # Room for drawing a cut: sums of weighted sides, and the candidates.
    side_sums: Float64s
    candidates: Array[Candidate]

    def path_of(self, t: int) -> Any:
        """Return a tree's path, of the entries of its kind."""
        return self.paths.part(PATH_LENGTH * t, PATH_LENGTH)

    # What a kind overrides.

    def predict_anew(self, inputs: Float64s) -> int:
        """Predict a sample of these inputs; returns DONE, or the first that is too large."""
        return -1

    def take(self, y: float, weight: float, is_new: bool) -> None:
        """Note the label or the target, and the weight, of the sample that is accepted."""

    def error(self) -> float:
        """Return the error of the last prediction of the accepted sample; below 0 for none."""
        return -1.0

    def score(self) -> None:
        """Let what mixes the predictions learn the accepted sample."""

    def keep_sample(self, p: int) -> None:
        """Store what the accepted sample has besides its values as a point."""

    def begin_walk(self, t: int, p: int) -> None:
        """Let a tree's paths learn the accepted sample, point `p`, ahead of the extension.

        The walk that extends the tree begins at its root unless this changes that.
        """

    def update_tree(self, t: int, p: int, n: int) -> None:
        """Add a point by which a tree has been extended to what is known along its path.

        The path has `n` entries.
        """

    def catch_up(self, t: int, p: int, backlog: int) -> None:
        """Complete the rows that a tree has got by a point while it is being built.

        The latest `backlog` samples before it have not been shown to the tree.
        """

    def enqueue_built(self, t: int, ref: int) -> None:
        """Let a leaf of a tree that is being built wait for its split, where it is to have one."""

    def weigh_cuts(self, t: int, j: int, m: int) -> tuple[int, float]:
        """Add up how `m` candidates part a sample of the points of a leaf's row.

        Returns a number for `gain_of`, and for how many points one of the sample stands.
        """
        return 0, 1.0

    def gain_of(self, c: int, n_points: int, n: int) -> float:
        """Return the gain of a candidate for a block, by what `weigh_cuts` has added up."""
        return 0.0

    def split(self, t: int, j: int, chosen: Candidate, time: float, last: int) -> None:
        """Split a leaf by a cut at a time since its parent, and let its children wait for theirs.

        `last` is the latest of all points, or NONE for a tree that is being built.
        """

    def replays(self) -> bool:
        """Tell whether a tree that has been split is shown its points in order."""
        return False

    def replay(self, t: int, start: int, stop: int) -> int:
        """Show a tree the samples `start` to `stop` in order; returns where it stopped.

        It stops where a tree has no room for more rows.
        """
        return stop


R = TypeVar("R", bound=RebuiltForest)


@inlined
def _enter(forest: RebuiltForest, tree: RebuiltTree, entry: PathEntry, ref: int) -> None:
    """Note a reference and its row."""
    entry.ref = ref
    if ref >= 0:
        entry.place = tree.nodes.row(ref)
    else:
        entry.place = forest.points.row(~ref)


@inlined
def _goes_on(tree: RebuiltTree, entry: PathEntry, n: int) -> bool:
    """Tell whether a path of `n` entries goes on behind the last."""
    return entry.ref >= 0 and n < DEEPEST and tree.nodes.known(entry.place).dim >= 0


@separate
def path_from(
    forest: R, tree: RebuiltTree, x: Float32s, path: Array[PathEntry], n: int, ref: int
) -> int:
    """Write a sample's path down a tree from a reference on, behind `n` entries.

    Returns how many entries there are then.
    """
    while True:
        entry = path[n]
        _enter(forest, tree, entry, ref)
        entry.note(forest, tree)
        n += 1
        if not _goes_on(tree, entry, n):
            return n
        node = tree.nodes.known(entry.place)
        ref = node.child(side_of(forest, tree, node, x))


@inlined
def path_to(forest: R, tree: RebuiltTree, x: Float32s, path: Array[PathEntry]) -> int:
    """Write a sample's path down a tree; returns how many entries it has."""
    return path_from(forest, tree, x, path, 0, tree.root)


@separate
def walk_all(forest: R) -> None:
    """Write the paths of the sample in the forest's `row` down all trees that predict.

    The trees are walked in lock-step, so that one tree's cache misses overlap another's. Paths of
    trees that do not predict have the length 0.
    """
    walking, paths = forest.walking, forest.paths
    n_walking = 0
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        tree.path_length = 0
        if tree.predicts() and tree.root != EMPTY:
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
                node = tree.nodes.known(entry.place)
                child = node.child(side_of(forest, tree, node, x))
                below = paths[PATH_LENGTH * t + depth + 1]
                _enter(forest, tree, below, child)
                prefetch(below.place, forest.node_words if child >= 0 else forest.links_word)
                walking[still] = t
                still += 1
        n_walking = still
        depth += 1


@merged
def path_of_grown(forest: R, tree: RebuiltTree, x: Float32s, path: Array[PathEntry], n: int) -> int:
    """Write the path of a point by which a tree has just grown; returns how many entries it has.

    `n` entries are of its path before: down to where the walk ended they are so still.
    """
    parent = tree.walk_parent
    while parent != NONE and n > 0:
        entry = path[n - 1]
        if entry.ref == parent:
            child = tree.nodes.known(entry.place).child(tree.walk_side)
            return path_from(forest, tree, x, path, n, child)
        n -= 1
    return path_to(forest, tree, x, path)


# The sample predicted last.


@inlined
def note_predicted(forest: RebuiltForest, inputs: Float64s) -> None:
    """Note that the last prediction is of these inputs."""
    for i in range(forest.n_inputs):
        forest.last_inputs[i] = inputs[i]
    forest.is_predicted = 1


@inlined
def ensure_predicted(forest: RebuiltForest, inputs: Float64s) -> int:
    """Predict a sample, unless the last prediction is of it by the trees as they are.

    Returns as `predict_anew` does.
    """
    if forest.is_predicted == 0:
        return forest.predict_anew(inputs)
    last = forest.last_inputs
    for i in range(forest.n_inputs):
        # A missing value is the same as another one.
        if last[i] != inputs[i] and (last[i] == last[i] or inputs[i] == inputs[i]):
            return forest.predict_anew(inputs)
    return DONE
