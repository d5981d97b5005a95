"""Records of a Mondrian forest: nodes, points, trees and the forest.

A *reference* names a row of the tree's nodes (>= 0), a single stored point (`~point`, negative) or
no node (`EMPTY`). If no value is missing, a leaf with one point needs no row.

A node's row consists of a record and a box: the lower and the upper corner, `dim_capacity` float32
each. The record ends with the fields of the subclass. A box is NaN in a dimension if no point of
the node has a value in this dimension. In some forests with many dimensions, boxes have separate
rows, and nodes of few points have no boxes (`LightNode`).

A point's row is its record (the fields of the subclass), its inputs as float64, and a link per
tree. A link is the number of the next point of the same leaf. Cuts are thresholds on *values*:
float32 numbers. A tree computes a point's values from its inputs with the tree's scaling: an offset
and a factor for each input (see `scaling`). With cut directions or categories, values are
projections or places of levels (see `transforms`). Such values are computed once, and stored in a
column of the point's row.

Each class of forests (see `posteriors` and `features`) has its own subclass of each record. The
subclasses add fields, and override the methods that partitions call. Kernels that take a `Forest`
are compiled for each subclass that is passed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from ... import records as rec
from ...compiling.kernels import always_inline
from ...limits import LARGEST
from .constants import COMPLETE, EMPTY, FARTHEST_CUT, FREE, NEVER, NONE, PAUSED, UNLIMITED
from .transforms import LevelPlaces, ObliqueTransform

# Cases of a node's row: an internal node, a leaf, a row in use, a free row.
INNER = rec.Case("dim", 0, 2**31 - 1)
LEAF = rec.Case("dim", COMPLETE, PAUSED)
IN_USE = rec.Case("dim", COMPLETE, 2**31 - 1)
FREED = rec.Case("dim", FREE, FREE)

# Largest number of descents in lock-step. In lock-step, their cache misses overlap.
LANES = 16


class Point(rec.Record):
    """A stored sample. Its row continues with columns of values (if any), inputs and links."""

    def pauses_with(self, forest: Forest, other: Point) -> bool:
        """Return whether a leaf with this point and another point is paused."""
        return False

    def mass(self) -> float:
        """Return the sample's contribution to `Node.mass`."""
        return 1.0

    def is_like(self, other: Point) -> bool:
        """Return whether two points are equal in the fields that the subclass adds."""
        return True


class Node(rec.Record):
    """An internal node or a leaf. If no value is missing, leaves of one point have no record."""

    # References to the children.
    left: rec.Int32 = rec.stored(rec.Ref("nodes", "points", None, when=INNER, finds=IN_USE))
    right: rec.Int32 = rec.stored(rec.Ref("nodes", "points", None, when=INNER, finds=IN_USE))
    # The first point in the list of a leaf's points.
    first_point: rec.Int32 = rec.instead_of("left", rec.Ref("points", when=LEAF))
    # The next free row after a free row, or NONE.
    next_free: rec.Int32 = rec.instead_of("left", rec.Ref("nodes", when=FREED, finds=FREED))
    # The dimension of the cut; PAUSED, COMPLETE or MIXED in a leaf, and FREE in a free row.
    dim: rec.Int32 = rec.stored(rec.Bounds(FREE, below="n_dims"))
    # Threshold of the cut. Smaller and equal values go left.
    cut: rec.Float32 = rec.stored(rec.Bounds(-FARTHEST_CUT, FARTHEST_CUT, when=INNER))
    # In a forest with a window, 1 plus the number of the last point in a leaf's list, or 0 if
    # unknown. With a window, a list is in order of arrival, so the list's first point is the
    # oldest.
    list_end: rec.Int32 = rec.instead_of("cut")
    # Time from the parent's cut to this cut. Deep in the tree, a difference of two float32 times
    # would be too imprecise.
    delta: rec.Float32 = rec.stored(rec.Bounds(0.0, LARGEST, when=INNER))
    # Number of samples below an internal node, or in a leaf.
    n_samples: rec.Int32 = rec.stored(rec.Bounds(0, when=IN_USE))

    def begin_row(self, forest: Forest) -> None:
        """Initialise a new or a reused row."""

    def has_box(self, forest: Forest) -> bool:
        """Return whether the node stores its box."""
        return True

    def box(self, forest: Forest, tree: Tree) -> rec.Float32s:
        """Return both corners of the box, if the node has one: the lower corner, then the upper."""
        return rec.Float32s(self, forest.box_word, 2 * forest.dim_capacity)

    def lower(self, forest: Forest, tree: Tree) -> rec.Float32s:
        """Return the lower corner of the box."""
        return self.box(forest, tree).part(0, forest.dim_capacity)

    def upper(self, forest: Forest, tree: Tree) -> rec.Float32s:
        """Return the upper corner of the box."""
        return self.box(forest, tree).part(forest.dim_capacity, forest.dim_capacity)

    def look_ahead(self, forest: Forest, tree: Tree) -> None:
        """Prefetch the data outside the node's row that the next step of a descent reads."""

    def take_box(self, forest: Forest, tree: Tree) -> None:
        """Allocate a separate row for the box, with undefined content, if boxes have such rows."""

    def leave_box(self, forest: Forest, tree: Tree) -> None:
        """Zero and free the separate row of the box, if there is one."""

    def child(self, side: int) -> int:
        """Return the reference to the child on a side."""
        return rec.Int32s(self, side, 1)[0]

    def set_child(self, side: int, ref: int) -> None:
        """Set the reference to the child on a side."""
        rec.Int32s(self, side, 1)[0] = ref

    def begin_waiting(self, start: float, following: int) -> None:
        """Queue a leaf for its first cut: store the time of the parent's cut, and the next leaf.

        Until `end_waiting`, the fields `right`, `cut` and `delta` store the next leaf and the time.
        """
        self.right = following
        rec.Float64s(self, WAITING_WORD, 1)[0] = start

    def waiting_start(self) -> float:
        """Return the time of the cut of a queued leaf's parent."""
        return rec.Float64s(self, WAITING_WORD, 1)[0]

    def end_waiting(self) -> None:
        """Clear the fields that `begin_waiting` has set."""
        self.right = NONE
        rec.Float64s(self, WAITING_WORD, 1)[0] = 0.0

    def clear(self, forest: Forest) -> None:
        """Zero the row except its box."""
        words = rec.Int32s(self, 0, forest.box_word)
        for i in range(forest.box_word):
            words[i] = 0

    # Methods that a subclass overrides. The reference `child` names a row or a point.

    def add_point(self, forest: Forest, point: Point) -> None:
        """Update a leaf's fields for a new point."""

    def pass_point(self, forest: Forest, side: int, point: Point) -> None:
        """Update an internal node's fields for a new point on a side."""

    def inherit(self, forest: Forest, tree: Tree, side: int, child: int) -> None:
        """Initialise the fields for a side of a new internal node from the child on this side."""

    def mass(self, forest: Forest) -> float:
        """Return the sum of `Point.mass` over the samples below."""
        return np.float64(self.n_samples)

    def is_paused(self, forest: Forest) -> bool:
        """Return whether a leaf with this node's points pauses."""
        return False

    def ends_pause(self, forest: Forest, point: Point) -> bool:
        """Return whether a new point ends the pause of a leaf."""
        return True

    def hides(self, forest: Forest) -> bool:
        """Return whether an internal node is read as a paused leaf."""
        return False

    def count_point(self, forest: Forest, tree: Tree, point: Point) -> None:
        """Update a leaf that will not be cut, before `add_point` adds a point to the leaf."""

    def end_time(self, start: float) -> float:
        """Return the time of an internal node's cut, given the time `start` of the parent's cut."""
        return start + self.delta

    def latest_above(self, time: float) -> float:
        """Return `time`, the time of a new parent's cut; subclasses may return an earlier time."""
        return time

    def set_time(self, time: float) -> None:
        """Store the time of a new cut."""

    def take_over(self, forest: Forest, tree: Tree, t: int, ref: int) -> None:
        """Copy the cell number, if any, of the node or point `ref`, which this new row replaces."""

    # Methods for the removal of points (see `forgetting`).

    def drop_point(self, forest: Forest, tree: Tree, point: Point) -> None:
        """Update a leaf's fields after a point was removed from the leaf's list."""

    def renew_side(self, forest: Forest, tree: Tree, side: int, child: int) -> None:
        """Recompute the fields for a side of an internal node from the child on this side."""

    def change_parent(self) -> None:
        """Update the fields of an internal node whose parent has changed."""

    def collapses(self, forest: Forest) -> bool:
        """Return whether an internal node with two leaves as children becomes a paused leaf."""
        return self.n_samples <= forest.hide_limit and self.hides(forest)

    def give_back(self, forest: Forest, tree: Tree) -> None:
        """Free a leaf's row in another table, if there is one."""


# The word of a node's row where `cut` begins; `delta` is the next word.
WAITING_WORD = Node.FIELDS["cut"].word


class BoxRow(rec.Record):
    """A separate row for the box of a node: the lower corner, then the upper corner."""

    def next_free(self) -> rec.Int32s:
        """Return the word with the number of the next free row, or with NONE, in a free row."""
        return rec.Int32s(self, 0, 1)

    def box(self, forest: Forest) -> rec.Float32s:
        """Return both corners of the box."""
        return rec.Float32s(self, 0, 2 * forest.dim_capacity)


class LightNode(Node):
    """A node whose box, in a forest with many dimensions, has a separate row or is not stored.

    In such a forest, `Forest.light_size` is positive. A node of at most `light_size` samples is
    *light*: its box is not stored. The box of a light node is computed from the points below, which
    all trees share. Light nodes save most of the memory of boxes: more than half of all nodes have
    at most four samples, and `light_size` is at least nine. Corners are values of points, so a
    computed box equals a stored box bit for bit (see `boxes`). In a node's row, the number of the
    box's row, or NONE, replaces the box.
    """

    def box_row(self, forest: Forest) -> rec.Int32s:
        """Return the word with the number of the box's separate row, or with NONE."""
        return rec.Int32s(self, forest.box_word, 1)

    def begin_row(self, forest: Forest) -> None:
        """Set the number of the box's row to NONE, if boxes have separate rows."""
        if forest.light_size > 0:
            self.box_row(forest)[0] = NONE

    def has_box(self, forest: Forest) -> bool:
        """Return whether the node stores its box."""
        return forest.light_size == 0 or self.box_row(forest)[0] != NONE

    def box(self, forest: Forest, tree: Tree) -> rec.Float32s:
        """Return both corners of the box, if the node has one: the lower corner, then the upper."""
        if forest.light_size == 0:
            return rec.Float32s(self, forest.box_word, 2 * forest.dim_capacity)
        return tree.boxes.row(self.box_row(forest)[0]).box(forest)

    def box_number(self, forest: Forest) -> int:
        """Return the number of the box's row, or NONE if the box has no separate row."""
        return NONE if forest.light_size == 0 else self.box_row(forest)[0]

    def look_ahead(self, forest: Forest, tree: Tree) -> None:
        """Prefetch the box or, if the node is light, its children or its first point."""
        b = self.box_number(forest)
        if b != NONE:
            rec.prefetch(tree.boxes.row(b), 2 * forest.dim_capacity)
        elif self.dim >= 0:
            for side in range(2):
                ref = self.child(side)
                if ref >= 0:
                    rec.prefetch(tree.nodes.row(ref), 1)
                else:
                    forest.prefetch_values(tree, forest.points.row(~ref))
        elif self.first_point != NONE:
            forest.prefetch_values(tree, forest.points.row(self.first_point))

    def take_box(self, forest: Forest, tree: Tree) -> None:
        """Allocate a separate row for the box, with undefined content, if boxes have such rows."""
        if forest.light_size == 0:
            return
        b = tree.free_box
        if b == NONE:
            b = tree.boxes.n_rows
            tree.boxes.n_rows = b + 1
        else:
            tree.free_box = tree.boxes.row(b).next_free()[0]
        self.box_row(forest)[0] = b

    def leave_box(self, forest: Forest, tree: Tree) -> None:
        """Zero and free the separate row of the box, if there is one."""
        b = self.box_number(forest)
        if b == NONE:
            return
        row = tree.boxes.row(b)
        box = row.box(forest)
        for i in range(2 * forest.dim_capacity):
            box[i] = 0.0
        row.next_free()[0] = tree.free_box
        tree.free_box = b
        self.box_row(forest)[0] = NONE


class Arrival(rec.Record):
    """The previous and the next sample in the order of arrival, in a forest with a window."""

    # The samples that arrived before and after this sample, or NONE.
    older: rec.Int32
    newer: rec.Int32 = rec.stored(rec.Ref("arrivals", chain="newer"))


class Tree(rec.Record):
    """A Mondrian tree, and the state of the walk that adds a point to the tree."""

    # Reference to the root.
    root: rec.Int64 = rec.stored(rec.Ref("nodes", "points", EMPTY, finds=IN_USE))
    nodes: rec.Table[Node]
    # The separate rows of boxes.
    boxes: rec.Table[BoxRow]
    # Rows that a subclass adds for some nodes.
    side_rows: rec.Table[rec.Record]
    # The first free row of each table, or NONE. Rows become free when points are removed.
    free_row: rec.Int64 = rec.stored(rec.Ref("nodes", finds=FREED))
    free_box: rec.Int64 = rec.stored(rec.Ref("boxes"))
    free_side_row: rec.Int64 = rec.stored(rec.Ref("side_rows"))
    # Number of cuts.
    n_splits: rec.Int64
    # Random states of online cuts and of redraws, 64 bits each.
    random_state: rec.Int64
    renewal_state: rec.Int64
    # The tree has no cut at or after this time.
    lifetime: rec.Float64 = rec.stored(rec.Bounds(0.0))
    # Index of the tree's scaling, and of the tree's first value in a row of values (see
    # `Forest.row`).
    scaling: rec.Int64
    first_value: rec.Int64
    # Index of the tree's link in a point's row, and of the tree's rows in the tables of
    # `TreeStore`.
    slot: rec.Int64
    # The walk of a point down the tree: the current reference, the parent's row, the child's side,
    # and the time of the parent's cut. Then the walk's point, the end of the points to add, and the
    # number of rows that the tree needs.
    walk_ref: rec.Int64 = rec.transient()
    walk_parent: rec.Int64 = rec.transient()
    walk_side: rec.Int64 = rec.transient()
    walk_time: rec.Float64 = rec.transient()
    walk_point: rec.Int64 = rec.transient()
    walk_end: rec.Int64 = rec.transient()
    rows_needed: rec.Int64 = rec.transient()
    # The values of the walk's point.
    walk_values: rec.Float32s = rec.transient()
    # Buffers for the box of a light node or a point, and for the values of a point.
    buffer: rec.Float32s = rec.derived()
    value_buffer: rec.Float32s = rec.derived()

    def succeed(self, forest: Forest, old: Tree) -> None:
        """Set the fields that the subclass adds, before this redrawn tree replaces `old`."""


class Renewal(rec.Record):
    """A renewal of widths: trees are redrawn with the other scaling (see `widths`)."""

    EMBEDDED = True

    # Whether trees are being redrawn.
    is_running: rec.Int64 = rec.stored(rec.Bounds(0, 1))
    # The numbers of samples at the next check of widths, and at the start of the last renewal.
    next_check: rec.Int64
    began_at: rec.Int64
    # In exact forests: the redrawn tree's index in the whole forest, and the number of points in
    # the spare tree, which will replace the redrawn tree.
    tree: rec.Int64
    n_spare_points: rec.Int64
    # Number of learned samples for which the redraw has not continued yet, and whether the spare
    # tree is being extended.
    n_owed: rec.Int64 = rec.transient()
    is_extending: rec.Int64 = rec.transient()
    # In adaptive forests: whether the trees are scheduled to be rebuilt.
    is_scheduled: rec.Int64 = rec.stored(rec.Bounds(0, 1))


class Forest(rec.Record):
    """The data that all trees of a forest share."""

    trees: rec.Array[Tree]
    # Number of trees, and number of slots. In exact forests, the spare tree, if any (see `widths`),
    # has a slot, too. In adaptive forests, some of the trees do not predict.
    n_trees: rec.Int64 = rec.stored(rec.Bounds(1))
    n_slots: rec.Int64 = rec.derived()
    # Number of trees in the whole forest, and the index of this shard's first tree in the whole
    # forest (see `shards`).
    n_all_trees: rec.Int64
    first_tree: rec.Int64
    # Number of words of a tree's record.
    tree_words: rec.Int64 = rec.derived()
    points: rec.Table[Point]
    # The word of a node's row where the box, or the number of the box's row, begins. The words of a
    # point's row where columns of values, inputs and links begin.
    box_word: rec.Int64 = rec.derived()
    columns_word: rec.Int64 = rec.derived()
    inputs_word: rec.Int64 = rec.derived()
    links_word: rec.Int64 = rec.derived()
    # Largest number of samples of a node without a box; 0 if all nodes have boxes in their rows.
    light_size: rec.Int64
    # Functions that few forests need (`set_entries`): three functions of `boxes` for light nodes,
    # two functions for columns of values, and a function for redraws.
    hold_below: Callable[[rec.Record, rec.Record, int, rec.Float32s], int] = rec.entry()
    distance_to_light: Callable[[rec.Record, rec.Record, int, rec.Float32s], float] = rec.entry()
    distances_down: Callable[
        [rec.Record, rec.Record, int, rec.Float32s, int, rec.Float64s], int
    ] = rec.entry()
    write_columns: Callable[[rec.Record, rec.Float32s, rec.Float64s], int] = rec.entry()
    write_spare_column: Callable[[rec.Record, int], int] = rec.entry()
    continue_renewal: Callable[[rec.Record], int] = rec.entry()
    # Number of words of a node's row.
    node_words: rec.Int64 = rec.derived()
    # Number of dimensions that trees cut, and capacity for dimensions.
    n_dims: rec.Int64
    dim_capacity: rec.Int64
    # Number of values in a row of values (see `row`), and whether points store columns of values.
    n_values: rec.Int64 = rec.derived()
    has_columns: rec.Int64 = rec.derived()
    # Whether each tree has a column of its own, because of random directions or categories.
    has_own_columns: rec.Int64 = rec.derived()
    # Number of features, and capacity for features.
    n_inputs: rec.Int64
    input_capacity: rec.Int64
    # Largest number of cuts of a tree. A tree with this number of cuts is *full*.
    max_splits: rec.Int64 = rec.stored(rec.Bounds(0, UNLIMITED))
    # Largest number of samples of a paused leaf without hidden cuts. A larger leaf gets one hidden
    # cut for each new sample, which bounds the work at the end of a pause.
    hide_limit: rec.Int64 = rec.stored(rec.Bounds(1, UNLIMITED))
    # Whether a stored point may lack a value.
    has_missing: rec.Int64 = rec.stored(rec.Bounds(0, 1))
    # Value of earlier samples for a new feature: NaN (unknown) or 0.
    absent: rec.Float64
    # Predictions ignore cuts at or after this time.
    horizon: rec.Float64
    # Numbers of learned samples, of stored samples, and of points that walks are adding. A point
    # counts as learned when all trees contain the point.
    n_samples: rec.Int64 = rec.stored(rec.Bounds(0, UNLIMITED))
    n_points: rec.Int64
    n_walking: rec.Int64 = rec.transient()
    # The first of the points that walks are adding.
    first_walking: rec.Int64 = rec.transient()
    # Number of samples that were learned and forgotten, and the largest number of samples in a
    # window.
    n_forgotten: rec.Int64
    window: rec.Int64 = rec.stored(rec.Bounds(1, UNLIMITED))
    # In a forest with a window, the order of arrival, and the first and last point in this order,
    # or NONE.
    arrivals: rec.Table[Arrival]
    first_arrival: rec.Int64 = rec.stored(rec.Ref("arrivals", chain="newer"))
    last_arrival: rec.Int64
    # Number of points at the next fit of ranges, NEVER after the warm-up. When the warm-up ends,
    # `next_fit` equals `n_points` until `_end_warm_up` has run.
    next_fit: rec.Int64 = rec.stored(rec.Bounds(1, NEVER))
    # Whether every tree is full, so that samples are no longer stored.
    is_full: rec.Int64
    # `TreeStore.version`, or CLOSED during a change that needs several kernel calls. A kernel for
    # one sample does nothing if its caller expects another version.
    version: rec.Int64 = rec.transient()
    # Two scalings, each with offsets and factors of `input_capacity` inputs, and the index of the
    # current scaling. During a renewal of widths, trees are redrawn with the other scaling.
    scalings: rec.Float64s
    scaling: rec.Int64
    renewal: Renewal
    # Projections of inputs on cut directions, if there are directions.
    oblique: ObliqueTransform
    # Places of levels in trees, if there are categories.
    levels: LevelPlaces
    # The inputs and the values of the sample that is learned or predicted. A row of values has one
    # part for each tree if trees have their own columns, otherwise one part for each scaling.
    inputs: rec.Float64s
    row: rec.Float32s
    # Whether walks read their point's values from `row`, rather than from the stored point.
    walks_row: rec.Int64 = rec.transient()

    def n_held(self) -> int:
        """Return the number of samples that the trees contain."""
        return self.n_samples - self.n_forgotten

    def inputs_in(self, point: Point) -> rec.Float64s:
        """Return the inputs in a point's row; a missing input is NaN."""
        return rec.Float64s(point, self.inputs_word, self.input_capacity)

    def columns_in(self, point: Point) -> rec.Float32s:
        """Return the row of values in a point's row, if points store columns of values."""
        return rec.Float32s(point, self.columns_word, self.n_values)

    def column_in(self, tree: Tree, point: Point) -> rec.Float32s:
        """Return a tree's values in a point's row, if points store columns of values."""
        return rec.Float32s(point, self.columns_word + tree.first_value, self.dim_capacity)

    def prefetch_values(self, tree: Tree, point: Point) -> None:
        """Prefetch the part of a point's row that a tree reads: a column of values, or inputs."""
        if self.has_columns == 1:
            rec.prefetch(self.column_in(tree, point), self.dim_capacity + 1)
        else:
            rec.prefetch(self.inputs_in(point), 2 * self.input_capacity + 1)

    def links_of(self, p: int) -> rec.Int32s:
        """Return a stored point's links by slot: the next point in the leaf's list, or NONE."""
        return self.links_in(self.points.row(p))

    def links_in(self, point: Point) -> rec.Int32s:
        """Return the links in a point's row by slot."""
        return rec.Int32s(point, self.links_word, self.n_slots)

    def offsets(self, scaling: int) -> rec.Float64s:
        """Return the offsets of a scaling, which are subtracted from inputs."""
        return self.scalings.part(2 * scaling * self.input_capacity, self.input_capacity)

    def factors(self, scaling: int) -> rec.Float64s:
        """Return the factors of a scaling, which multiply the inputs minus the offsets."""
        return self.scalings.part((2 * scaling + 1) * self.input_capacity, self.input_capacity)

    def redrawn_tree(self) -> int:
        """Return the redrawn tree's index in this shard.

        For a tree of another shard, the index is out of range.
        """
        return self.renewal.tree - self.first_tree

    def spare(self) -> Tree:
        """Return the spare tree, which replaces the redrawn tree at the end of the redraw."""
        return self.trees[self.n_trees]

    def is_redrawing(self) -> bool:
        """Return whether a tree of this shard is being redrawn."""
        return self.renewal.is_running == 1 and 0 <= self.redrawn_tree() < self.n_trees

    def n_with_nodes(self) -> int:
        """Return the number of trees with nodes, including the spare tree during a redraw."""
        return self.n_slots if self.is_redrawing() else self.n_trees

    def update_drawn(self) -> None:
        """Update fields of the spare tree that new points do not update; subclasses override."""

    def sample_leaf(self, t: int, j: int, start: float, most: int) -> None:
        """Sample the cuts of a leaf with `sampling.sample_block`, unless leaves always pause."""

    def may_forget(self) -> bool:
        """Return whether samples may be forgotten.

        If so, each node's box is the smallest box around the node's points.
        """
        return False

    def forget_sample(self, p: int) -> None:
        """Update the subclass's fields of the forest for a point that is forgotten."""

    def n_holding(self, p: int) -> int:
        """Return the number of trees that contain a point, including the spare tree."""
        return self.n_trees + (1 if self.is_redrawing() and p < self.renewal.n_spare_points else 0)

    def lists_points(self) -> bool:
        """Return whether leaves have lists of their points. A subclass may override this method."""
        return True

    def keeps_points(self, tree: Tree) -> bool:
        """Return whether a tree's leaves list their points.

        The leaves of a full tree list no new points.
        """
        return self.lists_points() and tree.n_splits < self.max_splits


F = TypeVar("F", bound=Forest)


class Layout(NamedTuple):
    """A copy of the forest's layout for loops that write to memory.

    Without the copy, such a loop would reload the fields after each write.
    """

    n_dims: int
    capacity: int
    box_word: int
    node_words: int
    max_splits: int
    has_missing: int
    light_size: int


@always_inline
def layout_of(forest: Forest) -> Layout:
    """Return the layout of a forest's rows."""
    return Layout(
        forest.n_dims,
        forest.dim_capacity,
        forest.box_word,
        forest.node_words,
        forest.max_splits,
        forest.has_missing,
        forest.light_size,
    )
