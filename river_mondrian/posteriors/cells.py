"""Mondrian trees whose leaves are numbered cells.

The cells of a tree are numbered at one or several lifetimes. At each lifetime, the cuts up to this
time divide space into cells, and each cell has a column of the feature map. One descent of a tree
passes the sample's cells at all lifetimes.

Each node has one number, `cell`. Lifetimes are numbered from k = 0. A node is a cell at lifetime k
if this lifetime is between the parent's cut and the node's cut. The column of the cell is then
`cell` + k. A node that is inserted above another node copies the other node's number, so existing
cells keep their columns. If a sample opens a new leaf, the leaf gets a column for each lifetime
after the new cut.

Leaves store no lists of points. A point that is a leaf stores its `cell` in place of a link to the
next point. Cuts do not depend on labels, so no leaf is paused (see `Node.is_paused`).
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import records as rec
from ..checks import check_array, check_equal, check_number, check_types, refuse
from ..compiling.kernels import always_inline, batch_kernel, kernel, link_by_name
from ..limits import DONE, TOO_LARGE, WAITS
from ..maps.record import CompiledMap, MapRecord, Outputs, Sample, Transform, outputs_of
from ..partitions.mondrian import constants, extension, reading, sampling, scaling, tree_store
from ..partitions.mondrian.readers import TreeReader
from ..partitions.mondrian.records import INNER, LANES, Forest, Node, Tree
from ..partitions.mondrian.sampling import SampledForest
from ..partitions.mondrian.trees import MondrianTrees
from ..records.memory import grown
from ..restored import Followed, Rows


class CellNode(Node):
    """A node whose column at lifetime k is `cell` + k."""

    cell: rec.Int32
    cut_time: rec.Float64 = rec.stored(rec.Bounds(0.0, when=INNER))

    def end_time(self, start: float) -> float:
        """Return the time of the cut."""
        return self.cut_time

    def latest_above(self, time: float) -> float:
        """Return the time of a new parent's cut: the smaller of `time` and `cut_time`."""
        return min(time, self.cut_time)

    def set_time(self, time: float) -> None:
        """Set the time of a new cut."""
        self.cut_time = time

    def take_over(self, forest: Forest, tree: Tree, t: int, ref: int) -> None:
        """Copy the `cell` of `ref`, the node or point above which this node is inserted."""
        self.cell = cell_of(CellForest(forest), CellTree(tree), t, ref)


class CellTree(Tree):
    """A tree whose leaves are numbered cells."""

    nodes: rec.Table[CellNode]
    # Number of leaves that have a `cell`.
    n_cells: rec.Int64


class Owner(rec.Record):
    """The cell of a column."""

    # The tree, and the number of the cell's leaf, in the order in which the leaves were opened. The
    # name of the column contains both numbers. This number differs from `CellNode.cell`.
    tree: rec.Int32
    cell: rec.Int32


class CellForest(SampledForest):
    """A forest of cells."""

    trees: rec.Array[CellTree]
    # Ascending lifetimes of each tree, shape (trees, lifetimes).
    lifetimes: rec.Float64s
    n_lifetimes: rec.Int64 = rec.stored(rec.Bounds(1))
    # The cell of each column.
    owners: rec.Array[Owner]
    n_columns: rec.Int64 = rec.stored(rec.Bounds(0))
    horizon: rec.Float64 = rec.stored(rec.Bounds(math.inf))
    column_capacity: rec.Int64 = rec.derived()

    def lists_points(self) -> bool:
        """Return False, because leaves store no points."""
        return False

    def lifetimes_of(self, t: int) -> rec.Float64s:
        """Return the lifetimes of a tree."""
        return self.lifetimes.part(self.n_lifetimes * t, self.n_lifetimes)


C = TypeVar("C", bound=CellForest)


@always_inline
def cell_of(forest: CellForest, tree: CellTree, t: int, ref: int) -> int:
    """Return the `cell` of `ref`, a node or a point."""
    if ref < 0:
        return forest.links_of(~ref)[t]
    return tree.nodes.row(ref).cell


SMALLEST_TABLE = 64


@dataclass
class CellView(reading.NodeView):
    """A node with its `cell` (see `CellNode`). With one lifetime, a leaf's `cell` is its column."""

    cell: int


class CellReader(TreeReader):
    """A reader of `CellTrees`."""

    VIEW: ClassVar[Any] = CellView

    def description(self, slot: int, hidden: bool) -> reading.Description:
        """Return a function that describes a node (see `TreeReader.description`)."""
        forest = self.forest

        def describe(ref: int, record: Any) -> tuple[bool, bool, tuple[int]]:
            if ref < 0:
                return True, False, (int(forest.links_in(record)[slot]),)
            return bool(record.dim < 0), False, (int(record.cell),)

        return describe


class CellTrees(MondrianTrees[CellForest]):
    """Mondrian trees of numbered cells.

    Only points that open a cell are stored, so memory grows with the number of cells.

    Parameters
    ----------
    partitions
        Number, lifetime and other arguments of the trees (`tree_store.Partitions`).
    lifetimes
        Lifetimes whose cells are numbered, in ascending order. Trees are cut up to the last
        lifetime. None means that the cells of each tree are numbered at the lifetime of the tree.

    """

    _FOREST = CellForest
    _READER = CellReader

    def __init__(
        self, partitions: tree_store.Partitions, lifetimes: Sequence[float] | None = None
    ) -> None:
        # Ascending lifetimes of each tree.
        self.lifetimes = np.zeros((partitions.n_trees, len(lifetimes or [0.0])))
        # The `Owner` of each column.
        self.owners = np.zeros((SMALLEST_TABLE, 2), dtype=np.int32)
        super().__init__(partitions)
        ends = self.trees.words["lifetime"]
        self.lifetimes[:] = ends[:, None] if lifetimes is None else lifetimes
        ends[:] = self.lifetimes[:, -1]

    def _check_kind(self) -> None:
        is_ascending = (self.lifetimes[:, 1:] > self.lifetimes[:, :-1]).all()
        if not (is_ascending and (self.lifetimes >= 0.0).all()):
            refuse(self, "lifetimes", self.lifetimes.tolist(), "but they should ascend from 0 on")
        check_array(self, "owners", self.owners[:, 0], np.int32, 0, self.forest.n_trees - 1)

    def _check_tree(self, t: int, tables: dict[str, Rows], followed: Followed) -> None:
        nodes, links = tables["nodes"], tables["points"].word(int(self.forest.links_word) + t)
        dims, times, root = nodes.column("dim"), nodes.column("cut_time"), [self.trees[t].root]
        inner = dims >= 0
        sides = [nodes.column(name)[inner] for name in ("left", "right")]
        refs = np.concatenate([*sides, root if root != [constants.EMPTY] else []]).astype(np.int64)
        since = np.concatenate([times[inner], times[inner], [-1.0]])[: len(refs)]
        # References below 0 name points. Points and leaves have no cut, so their cut's time is
        # infinite.
        ends, cells = np.append(np.where(inner, times, np.inf), np.inf), nodes.column("cell")
        until, below = ends[np.maximum(refs, -1)], refs < 0
        numbers = np.zeros(len(refs), np.int64)
        numbers[below], numbers[~below] = links[~refs[below]], cells[refs[~below]]
        # A node or point has a column for each lifetime between `since` and `until`.
        first = np.searchsorted(self.lifetimes[t], since, "right")
        last = np.searchsorted(self.lifetimes[t], until, "right") - 1
        bad = (numbers + first < 0) | (numbers + last >= self.forest.n_columns)
        if (bad & (first <= last)).any() or (dims == constants.PAUSED).any():
            refuse(f"tree {t}", "a cell", "wrong", f"but there are {self.forest.n_columns} columns")

    def _set_up(self) -> None:
        self.forest.n_lifetimes = self.lifetimes.shape[1]

    def _finish(self) -> None:
        super()._finish()
        self.forest.lifetimes = rec.Float64s.of(self.lifetimes)
        self._reserve_columns()

    def _refresh(self) -> None:
        super()._refresh()
        self._reserve_columns()

    def _reserve_columns(self) -> None:
        """Reserve memory for the columns that a sample may need."""
        self.owners = grown(self.owners, self.n_columns + self.lifetimes.size)
        self.forest.owners = rec.Array.over(Owner, self.owners)
        self.forest.column_capacity = len(self.owners)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"owners": self.owners[: self.n_columns].copy()}

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        n_trees, n_lifetimes = self.forest.n_trees, self.forest.n_lifetimes
        shapes = {"lifetimes": (n_trees, n_lifetimes), "owners": (self.forest.n_columns, 2)}
        return super()._shapes() | shapes

    @property
    def n_columns(self) -> int:
        """Number of columns: the cells of all trees at all lifetimes."""
        return self.forest.n_columns

    # Learning.

    def reserve_next(self) -> None:
        """Reserve memory for the point and the columns of the next sample."""
        self.close()
        self._reserve_points(self.n_points + 1)
        self._reserve_columns()
        self.open()

    def make_rows(self, t: int) -> None:
        """Reserve the rows that a tree needs to continue its walk."""
        self._reserve_rows(t, self.trees[t].rows_needed)

    def keep_change(self) -> None:
        """Keep the current change, and close the trees until all started walks are complete."""
        self._before = None
        self.enter()

    def _complete(self) -> None:
        """Do nothing, since `MondrianMap` has the output array and completes the walks."""


class Descent(rec.Record):
    """A sample's descent of one tree. All trees are descended in lock-step."""

    ref: rec.Int64
    # The row at `ref`, or none at a point.
    node: CellNode
    # Index of the first lifetime whose cell is unknown.
    lifetime: rec.Int64
    # In the i-th record: the tree of the i-th unfinished descent.
    active: rec.Int64


class MondrianRecord(MapRecord):
    """A feature map to the cells of Mondrian partitions."""

    forest: CellForest
    # A buffer for the descent of each tree.
    descents: rec.Array[Descent] = rec.derived()


@always_inline
def _go_to(forest: CellForest, tree: CellTree, t: int, ref: int, descent: Descent) -> None:
    """Move a descent to a node or a point, and prefetch the node's row or the point's link."""
    descent.ref = ref
    if ref >= 0:
        node = tree.nodes.row(ref)
        rec.prefetch(node, forest.box_word)
        descent.node = node
    else:
        rec.prefetch(forest.links_of(~ref).part(t, 1), 1)
        descent.node = tree.nodes.none()


@link_by_name
def find_cells(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Write the columns of a sample's cells, ordered by lifetime and then by tree.

    All trees are descended in lock-step, so that their cache misses overlap. Returns the result of
    `MapRecord.transform`.
    """
    mondrian, cells = MondrianRecord(record), outputs.cells
    forest, descents = mondrian.forest, mondrian.descents
    bad = scaling.scale(forest, forest.row, sample.values)
    if bad >= 0:
        return bad
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        _go_to(forest, tree, t, tree.root, descents[t])
        descents[t].lifetime = 0
        descents[t].active = t
    n_active = forest.n_trees
    while n_active > 0:
        still = 0
        for i in range(n_active):
            t = descents[i].active
            descent, tree = descents[t], forest.trees[t]
            node = tree.nodes.cast(descent.node)
            # A leaf has no cut, so the cut's time is infinite.
            time = node.cut_time if node and node.dim >= 0 else math.inf
            k, lifetimes = descent.lifetime, forest.lifetimes_of(t)
            if lifetimes[k] <= time:
                cell = node.cell if node else forest.links_of(~descent.ref)[t]
                while k < forest.n_lifetimes and lifetimes[k] <= time:
                    cells[k * forest.n_trees + t] = cell + k
                    k += 1
                descent.lifetime = k
                if k == forest.n_lifetimes:
                    continue
            x = forest.row.part(tree.first_value, forest.dim_capacity)
            _go_to(forest, tree, t, node.child(sampling.side_of(forest, tree, node, x)), descent)
            descents[still].active = t
            still += 1
        n_active = still
    return DONE


@always_inline
def _end(record: MondrianRecord, outputs: Outputs, status: int) -> int:
    """Add columns for the cells that a point has opened, and count the sample, if `status` is DONE.

    Writes the columns of the point's cells, or only the new columns if there are several lifetimes.
    A point that has opened no cell is not stored. If `status` is the number of a tree, the walk in
    this tree has not ended. The forest is then closed until `MondrianMap` has completed the walks.
    Returns `status`.
    """
    forest = record.forest
    if status != DONE:
        if status >= 0:
            forest.version = constants.CLOSED
        return status
    p, out = forest.n_points, outputs.cells
    n_lifetimes = forest.n_lifetimes
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        leaf = tree.n_cells
        # A tree has one more leaf than cuts. If a leaf has no number, the sample has opened a cell.
        if leaf > tree.n_splits:
            if n_lifetimes == 1:
                out[t] = cell_of(forest, tree, t, tree.walk_ref)
            continue
        forest.n_points = p + 1
        tree.n_cells = leaf + 1
        first = 0
        if leaf > 0:
            lifetimes = forest.lifetimes_of(t)
            time = tree.nodes.row(tree.nodes.n_rows - 1).cut_time
            while first < n_lifetimes and lifetimes[first] <= time:
                first += 1
        column = forest.n_columns
        forest.links_of(p)[t] = column - first
        for k in range(first, n_lifetimes):
            out[k * forest.n_trees + t] = column
            owner = forest.owners[column]
            owner.tree = t
            owner.cell = leaf
            column += 1
        forest.n_columns = column
    forest.n_samples = forest.n_samples + 1
    forest.n_walking = 0
    record.n_columns = forest.n_columns
    record.is_ahead = 1
    return DONE


@batch_kernel
def complete_walks(record: MondrianRecord, outputs: Outputs) -> int:
    """Complete walks that `learn_one` has begun, and return the result of `learn_one`."""
    forest = record.forest
    if forest.n_walking == 0:
        return DONE
    return _end(record, outputs, extension.extend_trees(forest, 0, forest.n_trees, LANES))


@kernel
def learn_one(record: MondrianRecord, sample: Sample, outputs: Outputs) -> int:
    """Extend all trees by a sample, and number the cells that the sample opens.

    Returns WAITS if there is no room for a point and its columns, otherwise the result of
    `extension.learn_point`. If the result is the number of a tree, `complete_walks` continues the
    call.
    """
    forest = record.forest
    p = forest.n_points
    if p >= forest.points.capacity or forest.n_columns + record.n_out > forest.column_capacity:
        return WAITS
    return _end(record, outputs, extension.learn_point(forest, sample.values, p))


class MondrianMap(CompiledMap):
    """A feature map to the cells of Mondrian partitions at one or several lifetimes."""

    KIND = MondrianRecord
    _DERIVED: ClassVar[frozenset[str]] = CompiledMap._DERIVED | {
        *("descents", "before", "_before", "_cells_before", "_outputs_before", "_learn_one"),
    }
    _IN_SNAPSHOT = ("memory", "descents")
    record: MondrianRecord
    # The compiled kernel, set by the first call of `learn`.
    _learn_one: Callable[[MondrianRecord, Sample, Outputs], int] | None = None

    def __init__(
        self, partitions: tree_store.Partitions, lifetimes: Sequence[float] | None = None
    ) -> None:
        n_partitions = partitions.n_trees
        self.n_lifetimes = 1 if lifetimes is None else len(lifetimes)
        super().__init__(0, n_partitions * self.n_lifetimes, 0, 0, False, False)
        self.trees = CellTrees(partitions, lifetimes)
        self.record.value = 1.0 / math.sqrt(n_partitions)
        self._finish()

    def _check(self) -> None:
        check_types(self, {"n_lifetimes": int, "trees": CellTrees})
        forest = self.trees.forest
        check_number(self, "n_lifetimes", self.n_lifetimes, *[forest.n_lifetimes] * 2)
        n_out = forest.n_trees * forest.n_lifetimes
        n_columns, n_inputs = forest.n_columns, forest.n_inputs
        check_equal(self, self.record, n_out=n_out, n_columns=n_columns, n_inputs=n_inputs)
        check_equal(self, self.record, is_dense=0, is_sparse=0)

    def _transform(self) -> Transform:
        return find_cells

    def _finish(self) -> None:
        super()._finish()
        self.before = np.zeros_like(self.out[: None if self.n_lifetimes > 1 else 0])
        self._before = outputs_of(self.before)
        # The references are created only once, since their creation takes as long as a kernel call.
        self._cells_before, self._outputs_before = rec.Int32s.of(self.before), self._before[0]

    def _bind(self) -> None:
        self.descents = rec.Memory(Descent, len(self.trees.trees))
        self.record.descents = self.descents.array
        self.record.forest = self.trees.forest

    def add_inputs(self, names: Sequence[Hashable], first_values: rec.Floats) -> None:
        """Add features with their first values.

        The caller then calls `complete` to keep the features, or `trees.settle` to remove the
        features.
        """
        self.trees.begin_change()
        self.trees.add_inputs(names, first_values)
        self.record.n_inputs = self.trees.n_inputs
        self._bind()

    def learn(self, sample: Sample) -> int:
        """Extend the partitions by a sample.

        Returns DONE, or the index of an input that is too large. If the call is interrupted after
        walks have begun, `complete` completes the walks.
        """
        learn = self._learn_one
        if learn is None:
            learn = self._learn_one = learn_one.of()
        if self.n_lifetimes > 1 and self.trees.n_samples > 0:
            self._map_one(self.record, sample, self._outputs_before)
            self.record.before = self._cells_before
            # The kernel writes only new cells. The sample's other cells do not change.
            self.out[:] = self.before
        status = learn(self.record, sample, self.outputs)
        if status == WAITS:
            self.trees.reserve_next()
            status = learn(self.record, sample, self.outputs)
        if status >= 0:
            return self._complete_walks()
        return status if status == DONE else TOO_LARGE - status

    def complete(self) -> int:
        """Complete `add_inputs` or an interrupted `learn`, and return DONE."""
        self.trees.keep_change()
        return self._complete_walks()

    def _complete_walks(self) -> int:
        """Complete the walks of a sample, if walks have begun, and return DONE."""
        trees = self.trees
        while (needy := complete_walks(self.record, self.outputs)) >= 0:
            trees.make_rows(needy)
        trees.open()
        return DONE

    def settle(self) -> None:
        """Complete an interrupted call."""
        self.complete()

    def forget_before(self) -> None:
        """Discard the cells that the last sample had before the sample was learned."""
        self.record.before = rec.Int32s(0)

    @property
    def maps_learned(self) -> bool:
        """Whether `out` holds the cells of the sample that has just been learned."""
        return self.n_lifetimes == 1 or bool(self.record.before)

    @property
    def lifetimes(self) -> list[float]:
        """The lifetimes if there are several, otherwise an empty list."""
        lifetimes: list[float] = self.trees.lifetimes[0].tolist()
        return lifetimes if self.n_lifetimes > 1 else []

    def transform_stored(self, pool: Any, start: int, stop: int) -> NDArray[Any]:
        """Return the cells of the samples `start` to `stop` - 1 of a pool of stored samples."""
        rows = np.full((stop - start, max(1, self.n_inputs)), np.nan)
        for row, values in zip(rows, pool.rows[start:stop], strict=True):
            known = values[: len(row)]
            row[: len(known)] = known
        return self.transform_rows(rows)[0]

    def names(self, columns: Sequence[int]) -> list[str]:
        """Return the names of columns."""
        owners = self.trees.owners[np.asarray(columns, dtype=np.int64)]
        return [f"mondrian_{t}_{cell}" for t, cell in owners.tolist()]
