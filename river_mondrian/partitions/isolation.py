"""Partitions that isolate points of a pool, and isolation trees.

The docstrings cite sections of Ting, Wells and Washio (2021).
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from .. import checks
from .. import records as rec
from ..compiling.kernels import batch_kernel, helper, link_by_name
from ..limits import DONE, FARTHEST, MANY_FEATURES
from ..maps import record as maps
from ..maps.record import MapRecord, Outputs, Pool, Sample, Transform
from .ranges import robust_ranges_of_sparse

# Kernels of this module compute each sum in the order of the source, so that results do not depend
# on the compiler.
ORDERED_SUMS = True

# Samples are read by their nonzero entries if there are many features, and less than this share of
# the pool's values is nonzero.
DENSE_SHARE = 0.1


class PointPartitions(maps.CompiledMap):
    """Partitions that each isolate `psi` points of a pool (Ting, Wells and Washio 2021, section 4).

    Parameters
    ----------
    number
        Number of this build of the map, from 0. The names of columns contain this number.
    n_partitions
        Number of partitions.
    psi
        Number of points in a partition. With the metric "cosine", at most the number of nonzero
        rows of the pool.
    pool
        The samples from which points are drawn.
    n_inputs
        Number of features that are read.
    scale
        Whether to divide each feature by its robust range over the pool.
    rng
        Generator for the draws of points.
    metric
        "cosine" divides the points by their lengths, and "euclidean" does not. "auto" is "cosine"
        if samples are read by their nonzero entries, otherwise "euclidean". Among points of equal
        length, the nearest point has the smallest angle to the sample, up to rounding.

    """

    # Prefix of column names.
    METHOD: ClassVar[str]
    record: Any

    def __init__(
        self,
        number: int,
        n_partitions: int,
        psi: int,
        pool: Pool,
        n_inputs: int,
        scale: bool,
        rng: np.random.Generator,
        metric: str = "euclidean",
    ) -> None:
        indices, values, starts = pool.csr(0, len(pool))
        few = len(indices) < DENSE_SHARE * len(pool) * n_inputs and n_inputs >= MANY_FEATURES
        points = scipy.sparse.csr_matrix((values, indices, starts), shape=(len(pool), n_inputs))
        factors = factors_of(points, scale)
        is_cosine = metric == "cosine" or (metric == "auto" and few)
        rows = np.arange(len(pool))
        if is_cosine:
            # Rows of zeros are not drawn if the pool has other rows. They have no direction, and
            # would be nearest to every sample of small length.
            owners = np.repeat(rows, np.diff(starts))[factors[indices] != 0.0]
            there = np.bincount(owners, minlength=len(rows))
            rows = rows[there > 0] if there.any() else rows[:1]
            psi = min(psi, len(rows))
        n_columns = n_partitions * psi
        super().__init__(number, n_partitions, n_columns, n_inputs, dense=False, sparse=few)
        self.psi = psi
        # Each partition has a uniformly drawn subset of psi points (Ting, Wells and Washio 2021,
        # section 4, Definition 1). A random order of the pool, the same for all partitions, breaks
        # ties.
        order = rows[rng.permutation(len(rows))]
        draws = [rng.choice(len(rows), psi, replace=False) for _ in range(n_partitions)]
        members = np.sort(draws, axis=1)
        used, members = np.unique(members, return_inverse=True)
        self.members = np.ascontiguousarray(members.reshape(n_partitions, psi).T, dtype=np.int32)
        self.factors = factors
        points = points[order[used]]
        scaled = points.data.astype(np.float64) * self.factors[points.indices]
        scaled = np.clip(scaled, -FARTHEST, FARTHEST)
        if is_cosine:
            scaled /= np.repeat(lengths_of(scaled, points.indptr), np.diff(points.indptr))
        points.data = scaled.astype(np.float32)
        points.eliminate_zeros()
        self._lay_out(points, pool)

    @property
    def reads_text(self) -> bool:
        """Whether samples have many features and few nonzero values, as in texts."""
        return self.sparse

    def _check(self) -> None:
        checks.check_types(self, {"psi": int})
        checks.check_number(self, "psi", self.psi, 1, maps.MOST_OUT)
        checks.check_number(self, "n_out", self.n_out, 1, maps.MOST_OUT)
        n_columns = self.n_out * self.psi
        checks.check_equal(self, self.record, n_columns=n_columns, n_cells=self.psi, is_dense=0)
        checks.check_arrays(self, {"factors": (np.float64, (max(1, self.n_inputs),))})

    @abc.abstractmethod
    def _lay_out(self, points: scipy.sparse.csr_matrix, pool: Pool) -> None:
        """Store the points of all partitions in the form that the subclass needs."""

    def names(self, columns: Sequence[int]) -> list[str]:
        """Return names of columns: the method, the build, the partition and the cell."""
        return [f"{self.METHOD}{self.number}_{c // self.psi}_{c % self.psi}" for c in columns]


def lengths_of(values: rec.Floats, starts: NDArray[np.integer[Any]]) -> rec.Floats:
    """Return the length of each row of a sparse matrix, or 1 for a row of zeros."""
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    squares = np.bincount(rows, weights=values**2, minlength=len(starts) - 1)
    return np.sqrt(np.where(squares > 0.0, squares, 1.0))


def factors_of(points: scipy.sparse.csr_matrix, scale: bool) -> rec.Floats:
    """Return, for each feature, the factor that scales the robust range over the pool to 1.

    A feature that does not vary in the pool has the factor 0. Without `scale`, all factors are 1.
    """
    if not scale or points.shape[1] == 0:
        return np.ones(max(1, points.shape[1]))
    low, high = robust_ranges_of_sparse(points)
    reach = high - low
    return np.divide(1.0, reach, out=np.zeros_like(reach), where=reach > 0.0)


def parts_of(matrix: Any) -> tuple[rec.Ints, NDArray[np.int32], rec.Singles]:
    """Return the starts, indices and values of a CSR or CSC matrix."""
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data


def records_of(kind: type[rec.Record], rows: NDArray[Any]) -> rec.Array[Any]:
    """Return the rows of an array as records."""
    return rec.Array.of_kind(rec.Array[kind], rows.ctypes.data, len(rows))  # type: ignore[valid-type]


def check_cuts(owner: object, nodes: NDArray[np.int32], psi: int, n_features: int) -> None:
    """Raise ModelFormatError if a descent of an isolation tree may end outside the tree's cells.

    A child node must have a larger number than its parent, so that there are no cycles.

    Parameters
    ----------
    owner
        The map that owns the trees, for error messages.
    nodes
        A row for each node, shape (trees, nodes, words): feature, cut, and the children below and
        above the cut. Both children of an unused node are 0.
    psi
        Number of cells of a tree.
    n_features
        Number of features.

    Raises
    ------
    ModelFormatError
        If a feature is out of range, if a child is neither a used node nor a cell of the tree, or
        if a tree's first node is unused.

    """
    n_trees, size = nodes.shape[:2]
    features, children = nodes[:, :, 0], nodes[:, :, 2:].astype(np.int64)
    checks.check_array(owner, "the feature of nodes", features, np.int32, 0, n_features - 1)
    is_made = (children != 0).any(axis=2)
    first = (psi * np.arange(n_trees))[:, None, None]
    is_cell = (children < 0) & (~children >= first) & (~children < first + psi)
    is_node = (children > np.arange(size)[:, None]) & (children < size)
    below = np.where(is_node, children, 0)
    is_node &= np.take_along_axis(is_made, below.reshape(n_trees, -1), 1).reshape(below.shape)
    bad = is_made[:, :, None] & ~(is_cell | is_node)
    bad[:, :1] |= ~is_made[:, :1, None]
    if bad.any():
        t, j, side = np.argwhere(bad)[0].tolist()
        where = f"tree {t}, node {j}: child {side}"
        checks.refuse(owner, where, int(children[t, j, side]), "which is neither a node nor a cell")


# Sides of a cut.
BELOW = 0
ABOVE = 1

# A call grows isolation trees until it has visited this number of entries and points (about 5 ms).
ENTRIES_OF_CALL = 1_000_000


class Cut(rec.Record):
    """A node: a cut of one feature."""

    feature: rec.Int32
    # Values up to the cut are on the side BELOW.
    cut: rec.Float32
    # The children below and above the cut: numbers of the tree's nodes, or ~column for cells.
    children: rec.Int32s = rec.inline(2)


class IsolationTrees(MapRecord):
    """Isolation trees, one for each output."""

    # Factor by which each feature is multiplied.
    factors: rec.Float64s
    # Number of cells of a tree.
    n_cells: rec.Int64
    # Nodes of all trees, max(1, n_cells - 1) for each tree.
    nodes: rec.Array[Cut]
    # Buffer for the scaled sample. For a sparse sample, kernels write only the elements of the
    # sample's entries, and zero these elements afterwards.
    row: rec.Float32s = rec.transient()


class Subtree(rec.Record):
    """The points of a subtree that has no node yet, and the parent of the future node."""

    # Start and end of the points in `Growth.order`.
    begin: rec.Int64
    end: rec.Int64
    # Number of the parent node, or -1 without a parent; and the side of the parent's cut.
    parent: rec.Int64
    side: rec.Int64


class Growth(rec.Record):
    """A tree that is being grown, and the points to isolate."""

    # The points: a CSR matrix with each row sorted by feature.
    starts: rec.Int64s
    indices: rec.Int32s
    values: rec.Float32s
    # For all trees: the rows of the points, shape (points, trees); two uniform draws for each point
    # (a tree has fewer cuts than points); the nodes.
    n_trees: rec.Int64
    all_members: rec.Int32s
    all_draws: rec.Float64s
    all_nodes: rec.Array[Cut]
    # Row of each point of the tree in the CSR matrix.
    members: rec.Int64s
    n_members: rec.Int64
    # The tree's draws, two for each node. The tree's nodes, and their number.
    draws: rec.Float64s
    nodes: rec.Array[Cut]
    n_nodes: rec.Int64
    # Column of the first point's cell.
    first_column: rec.Int64
    # Number of entries and points that the current call has visited.
    n_visited: rec.Int64
    # Buffers with an element per feature: the least and the largest value; the number of entries, 0
    # between calls; the features that occur.
    low: rec.Float32s
    high: rec.Float32s
    count: rec.Int64s
    met: rec.Int64s
    # Buffers with an element per point: the points ordered by node, and the points above a cut.
    order: rec.Int64s
    above: rec.Int64s
    # Stack of subtrees, with a capacity of one more than the number of points.
    subtrees: rec.Array[Subtree]


@helper
def find_varying(growth: Growth, begin: int, end: int) -> int:
    """Write to `met` the features that vary among a node's points, and return their number."""
    size = end - begin
    if size <= 1:
        return 0
    starts, indices, values = growth.starts, growth.indices, growth.values
    low, high, count, met = growth.low, growth.high, growth.count, growth.met
    # Find the range of each feature that occurs in the points.
    n_met = 0
    for i in range(begin, end):
        m = growth.members[growth.order[i]]
        for e in range(starts[m], starts[m + 1]):
            index, value = indices[e], values[e]
            if count[index] == 0:
                met[n_met] = index
                n_met += 1
                low[index] = value
                high[index] = value
            low[index] = min(low[index], value)
            high[index] = max(high[index], value)
            count[index] = count[index] + 1
        growth.n_visited += starts[m + 1] - starts[m]
    n_varying = 0
    for q in range(n_met):
        index = met[q]
        # Points without an entry have the value 0.
        if count[index] < size:
            low[index] = min(low[index], 0.0)
            high[index] = max(high[index], 0.0)
        count[index] = 0
        if low[index] < high[index]:
            met[n_varying] = index
            n_varying += 1
    return n_varying


@helper
def link(growth: Growth, parent: int, side: int, child: int) -> None:
    """Link a parent to its child, if there is a parent."""
    if parent >= 0:
        growth.nodes[parent].children[side] = child


@helper
def split(growth: Growth, begin: int, end: int, number: int) -> int:
    """Move the points below a cut to the front; return the start of the points above the cut."""
    order, above, node = growth.order, growth.above, growth.nodes[number]
    middle, n_above = begin, 0
    for i in range(begin, end):
        point, value = order[i], 0.0
        m = growth.members[point]
        for e in range(growth.starts[m], growth.starts[m + 1]):
            if growth.indices[e] == node.feature:
                value = growth.values[e]
                break
        if value <= node.cut:
            order[middle] = point
            middle += 1
        else:
            above[n_above] = point
            n_above += 1
    for i in range(n_above):
        order[middle + i] = above[i]
    return middle


@helper
def push_subtree(growth: Growth, depth: int, begin: int, end: int, parent: int, side: int) -> None:
    """Write a subtree to the stack at the index `depth`."""
    subtree = growth.subtrees[depth]
    subtree.begin = begin
    subtree.end = end
    subtree.parent = parent
    subtree.side = side


@helper
def grow(growth: Growth) -> None:
    """Isolate a tree's points by axis-parallel cuts (Ting, Wells and Washio 2021, section 4.1).

    The feature of a cut is drawn uniformly from the features that vary among the node's points. The
    threshold is drawn uniformly from the range of the feature among these points. Equal points
    share the cell of the first of these points.
    """
    push_subtree(growth, 0, 0, growth.n_members, -1, BELOW)
    depth = 1
    while depth > 0:
        depth -= 1
        top = growth.subtrees[depth]
        begin, end, parent, side = top.begin, top.end, top.parent, top.side
        n_varying = find_varying(growth, begin, end)
        if n_varying == 0:
            # Equal points get the cell of the first of these points.
            leaf = ~(growth.first_column + growth.order[begin])
            link(growth, parent, side, leaf)
            if parent < 0:
                # If all points are equal, both sides of the first node lead to the only cell.
                only = growth.nodes[0]
                only.feature = 0
                only.cut = 0.0
                only.children[BELOW] = leaf
                only.children[ABOVE] = leaf
            continue
        # Draw a new node's cut from the range of one of the varying features.
        number = growth.n_nodes
        growth.n_nodes = number + 1
        feature = growth.met[min(int(growth.draws[2 * number] * n_varying), n_varying - 1)]
        lower, upper = growth.low[feature], growth.high[feature]
        cut: float = np.float64(np.float32(lower + growth.draws[2 * number + 1] * (upper - lower)))
        node = growth.nodes[number]
        node.feature = feature
        # Rounding may move the cut to the upper end, where no point is above the cut. The lower end
        # is a valid cut.
        node.cut = cut if lower <= cut < upper else lower
        link(growth, parent, side, number)
        middle = split(growth, begin, end, number)
        push_subtree(growth, depth, middle, end, number, ABOVE)
        push_subtree(growth, depth + 1, begin, middle, number, BELOW)
        depth += 2


@batch_kernel
def grow_trees(growth: Growth, first: int, limit: int) -> int:
    """Grow trees from `first` on until the number of visited entries and points reaches `limit`.

    Returns the index of the first tree that has not been grown.
    """
    growth.n_visited = 0
    n, n_nodes = growth.n_members, max(1, growth.n_members - 1)
    for tree in range(first, growth.n_trees):
        growth.draws = growth.all_draws.part(2 * n * tree, 2 * n)
        growth.nodes = growth.all_nodes.part(n_nodes * tree, n_nodes)
        growth.first_column = n * tree
        growth.n_nodes = 0
        for i in range(n):
            growth.members[i] = growth.all_members[growth.n_trees * i + tree]
            growth.order[i] = i
        grow(growth)
        growth.n_visited += growth.n_members
        if growth.n_visited >= limit:
            return tree + 1
    return growth.n_trees


@helper
def walk(record: IsolationTrees, cells: rec.Int32s) -> None:
    """Write the scaled sample's cell in each tree."""
    row, nodes, stride = record.row, record.nodes, max(1, record.n_cells - 1)
    for i in range(record.n_out):
        number = 0
        while number >= 0:
            node = nodes[stride * i + number]
            side = BELOW if row[node.feature] <= node.cut else ABOVE
            number = node.children[side]
        cells[i] = ~number


@link_by_name
def walk_vector(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Write a vector's cells."""
    trees = IsolationTrees(record)
    bad = maps.read_vector(trees, sample, trees.factors, trees.row)
    if bad < 0:
        walk(trees, outputs.cells)
    return bad


@link_by_name
def walk_entries(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Write a sparse sample's cells. The buffer `row` is zero before and after the call."""
    trees = IsolationTrees(record)
    bad = maps.bad_entry(trees, sample)
    if bad >= 0:
        return bad
    row, factors, n = trees.row, trees.factors, trees.n_inputs
    indices, entries = sample.indices, sample.entries
    for e in range(sample.n_entries):
        index, value = indices[e], entries[e]
        if 0 <= index < n and value == value:
            row[index] = maps.scaled(value, factors[index])
    walk(trees, outputs.cells)
    for e in range(sample.n_entries):
        if 0 <= indices[e] < n:
            row[indices[e]] = 0.0
    return DONE


class IsolationTreesMap(PointPartitions):
    """The map of samples to the cells of isolation trees (Ting et al. 2021, section 4.1)."""

    METHOD = "iforest"
    KIND = IsolationTrees
    record: IsolationTrees

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.record.n_cells = self.psi
        self.draws = args[-1].random((self.n_out, 2 * self.psi))
        self.n_grown = 0

    def _lay_out(self, points: scipy.sparse.csr_matrix, pool: Pool) -> None:
        self.starts, self.indices, self.values = parts_of(points)
        shape = (self.n_out, max(1, self.psi - 1), Cut.WORDS)
        self.nodes = np.zeros(shape, dtype=np.int32)

    @property
    def ready(self) -> bool:
        """Whether all trees have been grown."""
        return self.n_grown == self.n_out

    def advance(self) -> bool:
        """Grow some trees, and return whether all trees have been grown."""
        memory, psi, n_features = rec.Memory(Growth), self.psi, max(1, self.n_inputs)
        growth = memory[0]
        memory.refer(self, "starts", "indices", "values")
        growth.n_trees, growth.n_members = self.n_out, psi
        growth.all_members = rec.Int32s.of(self.members)
        growth.all_draws = rec.Float64s.of(self.draws)
        growth.all_nodes = self._cuts()
        for name in ("low", "high"):
            memory.own(name, np.empty(n_features, dtype=np.float32))
        memory.own("count", np.zeros(n_features, dtype=np.int64))
        for name, n in (("met", n_features), ("members", psi), ("order", psi), ("above", psi)):
            memory.own(name, np.empty(n, dtype=np.int64))
        subtrees = np.empty((psi + 1, Subtree.SIZE // 8), dtype=np.int64)
        growth.subtrees = records_of(Subtree, subtrees)
        self.n_grown = grow_trees(growth, self.n_grown, ENTRIES_OF_CALL)
        if not self.ready:
            return False
        # Only growth needs these arrays.
        del self.starts, self.indices, self.values, self.members, self.draws
        self._finish()
        return True

    def _cuts(self) -> rec.Array[Cut]:
        """Return the nodes of all trees."""
        return records_of(Cut, self.nodes.reshape(-1, self.nodes.shape[2]))

    def _check(self) -> None:
        super()._check()
        checks.check_types(self, {"n_grown": int})
        checks.check_number(self, "n_grown", self.n_grown, 0, self.n_out)
        t, psi = self.n_out, self.psi
        checks.check_arrays(self, {"nodes": (np.int32, (t, max(1, psi - 1), Cut.WORDS))})
        check_cuts(self, self.nodes[: self.n_grown], psi, max(1, self.n_inputs))
        if self.ready:
            return
        # If some trees are not grown yet, their growth needs these arrays.
        checks.check_types(self, {"starts": np.ndarray, "indices": np.ndarray})
        n_entries, farthest = (self.indices.size,), 2.0 * FARTHEST
        checks.check_starts(self, "starts", self.starts, *n_entries)
        arrays = {
            "indices": (np.int32, n_entries, 0, self.n_inputs - 1),
            "values": (np.float32, n_entries, -farthest, farthest),
            "members": (np.int32, (psi, t), 0, len(self.starts) - 2),
            "draws": (np.float64, (t, 2 * psi), 0.0, 1.0),
        }
        checks.check_arrays(self, arrays)
        checks.check_ascending_rows(self, "indices", self.indices, self.starts)

    def _transform(self) -> Transform:
        return walk_entries if self.sparse else walk_vector

    def _bind(self) -> None:
        self.memory.refer(self, "factors")
        self.record.nodes = self._cuts()
        self.memory.own("row", np.zeros(max(1, self.n_inputs), dtype=np.float32))
