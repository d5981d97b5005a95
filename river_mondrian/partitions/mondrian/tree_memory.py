"""The memory of a forest's trees: records and rows, room for more of them, features, pickling."""

from __future__ import annotations

import abc
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...arguments import draw_lifetimes
from ...directions import Directions
from ...errors import ModelFormatError
from ...records import (
    FLOAT32,
    INT32,
    ChunkedRows,
    Float32s,
    Float64s,
    Memory,
    Part,
    Record,
    RowLayout,
    TableState,
    check_shapes,
    owned,
    words_of,
)
from . import scaling
from .cut_directions import CutDirections
from .records import EMPTY, UNLIMITED, Forest, Node, Point, Tree

NAN_BITS = 0x7FC00000

# The ranges and gamma are fixed after this many samples.
WARM_UP = 256


@dataclass(frozen=True)
class Partitions:
    """Arguments of Mondrian trees of all kinds.

    Parameters
    ----------
    n_trees
        Number of trees.
    lifetime
        Time at which the trees stop being cut, or a distribution from which each draws its own.
    directions
        Cut directions; None for the axes.
    max_nodes
        Nodes (leaves and internal ones) at which a tree stops being cut.
    scale
        Whether inputs are divided by their range over the warm-up.
    seed
        Seed of the random numbers.

    """

    n_trees: int
    lifetime: Any
    directions: Directions = None
    max_nodes: int | None = None
    scale: bool = False
    seed: int | None = None


AnyForest = TypeVar("AnyForest", bound=Forest)


class TreeMemory(abc.ABC, Generic[AnyForest]):
    """The memory of trees over one store of points.

    A kind of trees names its records.
    """

    # What `_finish` makes from the rest, and what is found at first use.
    _DERIVED: ClassVar[frozenset[str]] = frozenset(
        {"inputs", "vector", "row", "forest", "_learn_one", "_predict_one"}
    )
    # The records of the kind: its forest's, its trees', its nodes' and its points'.
    _FOREST: type[AnyForest]
    _TREE: ClassVar[type[Tree]] = Tree
    _NODE: ClassVar[type[Node]] = Node
    _POINT: ClassVar[type[Point]] = Point
    # Whether new rows beside the nodes are zero.
    _ZEROED_SIDE_ROWS: ClassVar[bool] = True

    def __init__(self, partitions: Partitions) -> None:
        n_trees, max_nodes, seed = partitions.n_trees, partitions.max_nodes, partitions.seed
        self.scale = partitions.scale
        self.full = False
        self.bounded = max_nodes is not None
        directions = partitions.directions
        self.directions = None if directions is None else CutDirections(directions, n_trees, seed)
        self.trees: Memory[Any] = Memory(self._TREE, n_trees)
        self.shared = Memory(self._FOREST)
        self.forest = self.shared[0]
        words = self.trees.words
        words["root"] = EMPTY
        states = np.random.SeedSequence(seed).generate_state(n_trees, dtype=np.uint64)
        words["random_state"] = states.view(np.int64)
        words["lifetime"] = draw_lifetimes(partitions.lifetime, n_trees, seed)
        forest = self.forest
        forest.n_trees = n_trees
        forest.input_capacity = forest.dim_capacity = 1
        if self.directions is not None:
            forest.n_dims = forest.dim_capacity = self.directions.n_dims
            if self.directions.n_sets > 1:
                words["first_value"] = self.directions.n_dims * np.arange(n_trees)
        forest.max_splits = UNLIMITED if max_nodes is None else (max_nodes - 1) // 2
        forest.horizon = math.inf
        forest.hide_limit = UNLIMITED
        self._set_up()
        # What is subtracted from each input, and what that is multiplied with.
        self.scaling = np.array([[0.0], [1.0]])
        # The inputs of the samples so far, while the ranges may change.
        self.warm_up: NDArray[np.float64] | None = np.zeros((0, 1)) if self.scale else None
        self._set_words()
        self.nodes = ChunkedRows(n_trees, self._node_layout().words, zeroed=False)
        self.points = ChunkedRows(1, self._point_layout().words)
        side_words = self._side_layout().words
        self.side_rows = ChunkedRows(n_trees, side_words, zeroed=self._ZEROED_SIDE_ROWS)
        self._finish()

    def _set_up(self) -> None:
        """Write what the kind of trees adds to the forest's record."""

    def _set_words(self) -> None:
        """Write where the parts of nodes' and points' rows begin."""
        forest = self.forest
        forest.box_word = self._NODE.WORDS + words_of(self._kept_parts())
        n_sets = 1 if self.directions is None else self.directions.n_sets
        forest.n_values = n_sets * forest.dim_capacity
        forest.values_word = self._POINT.WORDS
        forest.links_word = forest.values_word + forest.n_values
        forest.node_words = forest.box_word + 2 * forest.dim_capacity

    def _kept_parts(self) -> tuple[Part, ...]:
        """Return what a node's row has between its record and its box."""
        return ()

    def _node_layout(self) -> RowLayout:
        """Return what a node's row is."""
        n_dims = self.forest.dim_capacity
        box = Part("lower", FLOAT32, n_dims), Part("upper", FLOAT32, n_dims)
        return RowLayout(self._NODE, (*self._kept_parts(), *box))

    def _point_layout(self) -> RowLayout:
        """Return what a stored point's row is."""
        values = Part("values", FLOAT32, self.forest.n_values)
        return RowLayout(self._POINT, (values, Part("links", INT32, len(self.trees))))

    def _side_layout(self) -> RowLayout:
        """Return what a row beside the nodes is; nothing where there is none."""
        return RowLayout(Record)

    def _layouts(self) -> dict[str, RowLayout]:
        """Return what the rows of each table are."""
        return {
            "nodes": self._node_layout(),
            "side_rows": self._side_layout(),
            "points": self._point_layout(),
        }

    def _n_rows(self) -> dict[str, list[int]]:
        """Return how many rows of each table are in use."""
        words = self.trees.words
        found = {name: words[f"{name}.n_rows"].tolist() for name in ("nodes", "side_rows")}
        return found | {"points": [self.n_points]}

    def _finish(self) -> None:
        """Make what is derived from the rest and not pickled."""
        self.forest = forest = self.shared[0]
        self.inputs = np.full((1, int(forest.input_capacity)), np.nan)
        self.vector = self.inputs[0]
        self.row = np.empty(int(forest.n_values), dtype=np.float32)
        forest.trees = self.trees.array
        forest.inputs = Float64s.of(self.inputs)
        forest.row = Float32s.of(self.row)
        offsets, factors = self.scaling
        forest.offsets, forest.factors = Float64s.of(offsets), Float64s.of(factors)
        if self.directions is not None:
            forest.oblique = self.directions.finish(offsets, factors)
        self._reserve_warm_up(self.n_samples)
        self._reserve_points(self.n_points)
        self._reserve_all(0)

    def _reserve_warm_up(self, n: int) -> None:
        """Make room for inputs until the number of samples, which is `n`, has doubled."""
        if self.warm_up is None:
            self.forest.raw_values = Float64s(0, 0, 0)
            return
        n_rows = min(1 << n.bit_length(), WARM_UP)
        if n_rows > len(self.warm_up):
            more = np.full((n_rows, self.inputs.shape[1]), np.nan)
            more[: len(self.warm_up)] = self.warm_up
            self.warm_up = more
        self.forest.raw_values = Float64s.of(self.warm_up)

    def _reserve_points(self, n: int) -> None:
        self.points.reserve(0, n)
        self.points.show(0, self.forest.points)

    def _reserve_rows(self, t: int, n: int, n_side: int = 1) -> None:
        """Make room in a tree for `n` more rows, and for `n_side` of those beside them."""
        tree = self.trees[t]
        nodes, side_rows = tree.nodes, tree.side_rows
        self.nodes.grow(t, nodes, nodes.n_rows + n)
        self.side_rows.grow(t, side_rows, side_rows.n_rows + n_side)

    def _reserve_all(self, n: int) -> None:
        """Make room for `n` rows in all, and for one more of those beside, in every tree."""
        words = self.trees.words
        for t, n_side in enumerate(words["side_rows.n_rows"].tolist()):
            self.nodes.reserve(t, n)
            self.side_rows.reserve(t, n_side + 1)
        for name, rows in (("nodes", self.nodes), ("side_rows", self.side_rows)):
            words[f"{name}.chunks"] = rows.addresses
            words[f"{name}.capacity"] = rows.capacities
            words[f"{name}.row_bytes"] = rows.row_bytes

    # Pickling.

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name not in self._DERIVED}
        if self.warm_up is not None:
            state["warm_up"] = self.warm_up[: self.n_samples].copy()
        layouts, counts = self._layouts(), self._n_rows()
        for name, layout in layouts.items():
            state[name] = TableState(self.__dict__[name], counts[name], layout)
        return state

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of what is stored."""
        forest = self.forest
        found: dict[str, tuple[int, ...]] = {"scaling": (2, forest.input_capacity)}
        if self.warm_up is not None:
            found["warm_up"] = (self.n_samples, forest.input_capacity)
        return found

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(owned(state))
        self.forest = self.shared[0]
        check_shapes(self, self._shapes())
        if len(self.trees) != self.forest.n_trees:
            raise ModelFormatError(f"{len(self.trees)} trees of {self.forest.n_trees} are stored")
        self._set_words()
        zeroed = {"nodes": False, "side_rows": self._ZEROED_SIDE_ROWS, "points": True}
        layouts, counts = self._layouts(), self._n_rows()
        for name, layout in layouts.items():
            if state[name].counts != counts[name]:
                raise ModelFormatError(
                    f"{type(self).__name__} has {counts[name]} rows of {name}, but "
                    f"{state[name].counts} are stored"
                )
            setattr(self, name, state[name].restored(layout, zeroed[name]))
        self._finish()

    @property
    def nbytes(self) -> int:
        """Bytes held by arrays."""
        arrays = (self.scaling, self.inputs, self.row)
        size = sum(array.nbytes + 128 for array in arrays)
        size += self.trees.nbytes + self.shared.nbytes
        if self.warm_up is not None:
            size += self.warm_up.nbytes
        if self.directions is not None:
            size += self.directions.nbytes
        return size + self.nodes.nbytes + self.points.nbytes + self.side_rows.nbytes

    # What has been learned. Kernels count.

    @property
    def n_samples(self) -> int:
        """Number of samples learned."""
        return self.forest.n_samples

    @n_samples.setter
    def n_samples(self, n: int) -> None:
        self.forest.n_samples = n

    @property
    def n_points(self) -> int:
        """Number of samples stored."""
        return self.forest.n_points

    @n_points.setter
    def n_points(self, n: int) -> None:
        self.forest.n_points = n

    @property
    def n_inputs(self) -> int:
        """Number of features in use."""
        return self.forest.n_inputs

    # Growth.

    def add_inputs(self, names: Sequence[Hashable], first_values: NDArray[np.float64]) -> None:
        """Add features, each with the first value that was seen of it."""
        forest = self.forest
        old = int(forest.input_capacity)
        n_inputs = self.n_inputs
        wanted = n_inputs + len(names)
        capacity = old
        if wanted > old:
            # The first sample's features get exact room; later ones some to spare.
            capacity = wanted if n_inputs == 0 else max(wanted, old + old // 8)
        if self.directions is not None:
            self.directions.add_inputs(names, capacity)
        elif capacity > old:
            self._add_dims(old, capacity)
        if capacity > old:
            self._add_input_capacity(old, capacity)
        if self.scale or self.directions is not None:
            # With directions, a feature counts as its first value before it appears.
            self.scaling[0, n_inputs:wanted] = first_values
        forest.n_inputs = wanted
        if self.directions is None:
            forest.n_dims = wanted
            if self.n_samples > 0:
                forest.has_missing = 1
        self._finish()
        if self.scale:
            self.inputs[0, n_inputs:wanted] = first_values
            scaling.fit_ranges(self.forest, Float64s.of(self.inputs), 1, n_inputs)

    def _add_input_capacity(self, old: int, new: int) -> None:
        """Make room for more inputs in what is kept of each."""
        self.forest.input_capacity = new
        scales = np.vstack([np.zeros(new), np.ones(new)])
        scales[:, :old] = self.scaling
        self.scaling = scales
        if self.warm_up is not None:
            rows = np.full((len(self.warm_up), new), np.nan)
            rows[:, :old] = self.warm_up
            self.warm_up = rows

    def _add_dims(self, old: int, new: int) -> None:
        """Make room for more dimensions."""
        forest = self.forest
        box, values = int(forest.box_word), int(forest.values_word)
        forest.dim_capacity = new
        self._set_words()
        self.nodes.relayout(
            self._node_layout().words, [(0, 0, box + old), (box + old, box + new, old)], NAN_BITS
        )
        self.points.relayout(
            self._point_layout().words,
            [(0, 0, values + old), (values + old, values + new, len(self.trees))],
            NAN_BITS,
        )
