"""The memory of a forest's trees: layouts and allocation of rows, changes, and pickles."""

import abc
import copy
import math
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from ... import arguments, checks
from ... import records as rec
from ...compiling.kernels import set_entries
from ...elementary import mixed
from ...limits import LEAST_LEVEL, LEAST_ORIGIN
from ...restored import Edges, Followed, Rows
from . import checking, scaling, transforms
from .boxes import OF_LIGHT, light_size_for
from .constants import CLOSED, EMPTY, FREE, NEVER, NONE, UNLIMITED
from .records import Arrival, BoxRow, Forest, LightNode, Node, Point, Tree

# The tables with separate rows for each tree.
TABLES = ("nodes", "boxes", "side_rows")

# Number of samples in the warm-up, which fits ranges repeatedly. With a smaller window, the warm-up
# ends when the window is full. Afterwards widths are only checked occasionally, and the
# hyperparameter gamma of `LabelTrees` is fixed.
WARM_UP = 256


@dataclass(frozen=True)
class Partitions:
    """Arguments that all classes of Mondrian trees have.

    Parameters
    ----------
    n_trees
        Number of trees.
    lifetime
        Upper bound of the times of cuts, or a distribution from which each tree draws this bound.
    directions
        Cut directions. None for cuts along the axes.
    max_nodes
        Largest number of nodes (leaves and internal nodes) of a tree. None for no limit.
    scale
        Whether inputs are divided by their widths.
    absent
        Value of earlier samples for a new feature: NaN (unknown) or 0.
    seed
        Seed of the random numbers.
    ranges
        Known lowest and highest values of features, by the name of the feature.
    rescale
        Whether trees are redrawn if widths become invalid.
    window
        Number of most recent samples that trees contain. None for all samples.

    """

    n_trees: int
    lifetime: Any
    directions: arguments.Directions = None
    max_nodes: int | None = None
    scale: bool = False
    absent: float = math.nan
    seed: int | None = None
    ranges: Mapping[Hashable, tuple[float, float]] = field(default_factory=dict)
    rescale: bool = False
    window: int | None = None


# Attributes that describe a change in progress. `begin_change` does not save them.
OF_CHANGES = frozenset({"version", "is_changing", "_before", "_jobs", "_jobs_end"})


class SavedTrees(NamedTuple):
    """The state before a change: `n_begun`, the attributes, and the bytes of the records."""

    n_begun: int
    attributes: dict[str, Any]
    forest: NDArray[np.uint8]
    trees: NDArray[np.uint8]


AnyForest = TypeVar("AnyForest", bound=Forest)


class TreeStore(rec.OwnsArrays, abc.ABC, Generic[AnyForest]):
    """The memory of trees over shared points: tables of rows.

    Each subclass sets the class of its forest's record. During a change that needs several kernel
    calls, the forest's record is `CLOSED` to calls for one sample. The next call that enters the
    trees completes or undoes an interrupted change (see ARCHITECTURE.md).
    """

    forest: AnyForest

    # The class of the forest's record. The annotations of the record name the classes of the trees,
    # the nodes and the points.
    _FOREST: type[AnyForest]
    _TREE: ClassVar[type[Tree]]
    _NODE: ClassVar[type[Node]]
    _POINT: ClassVar[type[Point]]
    # Whether widths may be renewed, and the number of spare trees in this case.
    _RENEWS: ClassVar[bool] = False
    _N_SPARE: ClassVar[int] = 1

    # Attributes that are not pickled, because they describe a change, are computed by `_finish`, or
    # are set at first use.
    _DERIVED: ClassVar[frozenset[str]] = OF_CHANGES | {
        *("inputs", "buffers", "vector", "row", "forest", "version_now", "_predict_one")
    }
    # Whether new side rows are zero.
    _ZEROED_SIDE_ROWS: ClassVar[bool] = True

    # Version of the trees, which each change increases, for example a new input or class. The
    # forest's record has the same number while the trees are open. Trees are closed during a change
    # that needs several kernel calls, and after an interruption.
    version = CLOSED + 1
    # Whether a call of this object has closed the trees.
    is_changing = False
    # The state before a change. The change is undone if it is interrupted before a sample is
    # learned.
    _before: SavedTrees | None = None
    # The current change's jobs in other threads.
    _jobs: Sequence[Future[None]] = ()
    # Whether jobs should stop early.
    _jobs_end = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if hasattr(cls, "_FOREST"):
            (cls._TREE,) = get_args(cls._FOREST.FIELDS["trees"].kind)
            (cls._POINT,) = get_args(cls._FOREST.FIELDS["points"].kind)
            (cls._NODE,) = get_args(cls._TREE.FIELDS["nodes"].kind)

    def __init__(self, partitions: Partitions) -> None:
        n_trees, max_nodes, seed = partitions.n_trees, partitions.max_nodes, partitions.seed
        self.scale = partitions.scale
        self.bounded = max_nodes is not None
        directions = partitions.directions
        self.directions = (
            None if directions is None else transforms.CutDirections(directions, n_trees, seed)
        )
        # Places of levels; None before the first category.
        self.categories: transforms.Categories | None = None
        self.renews = partitions.rescale and self._RENEWS and self.scale
        n_slots = n_trees + (self._N_SPARE if self.renews else 0)
        self.trees: rec.Memory[Any] = rec.Memory(self._TREE, n_slots)
        self.shared = rec.Memory(self._FOREST)
        self.forest = self.shared[0]
        words = self.trees.words
        words["root"] = EMPTY
        words["free_row"] = words["free_box"] = words["free_side_row"] = NONE
        words["slot"] = np.arange(n_slots)
        states = np.random.SeedSequence(seed).generate_state(n_trees, dtype=np.uint64)
        words["random_state"][:n_trees] = states.view(np.int64)
        words["renewal_state"] = [mixed(state) for state in words["random_state"].tolist()]
        words["lifetime"][:n_trees] = arguments.draw_lifetimes(partitions.lifetime, n_trees, seed)
        forest = self.forest
        forest.n_trees = forest.n_all_trees = n_trees
        forest.renewal.next_check = NEVER
        forest.input_capacity = forest.dim_capacity = 1
        if self.directions is not None:
            forest.n_dims = forest.dim_capacity = self.directions.n_dims
            if self._has_own_columns:
                words["first_value"] = self.directions.n_dims * np.arange(n_slots)
        forest.max_splits = UNLIMITED if max_nodes is None else (max_nodes - 1) // 2
        forest.horizon = math.inf
        forest.absent = partitions.absent
        forest.hide_limit = UNLIMITED
        if partitions.window is not None and not forest.may_forget():
            raise ValueError(
                f"window must be None, because {self._FOREST.__name__} forgets no samples"
            )
        forest.window = UNLIMITED if partitions.window is None else partitions.window
        forest.first_arrival = forest.last_arrival = NONE
        self._set_up()
        # Two scalings: offsets and factors of the inputs, shape (2, 2, input_capacity).
        self.scalings = np.array([[[0.0], [1.0]]] * 2)
        # The lower and upper end of each input's given range; NaN if no range is given.
        self.given = np.zeros((2, 0))
        self.known_ranges = dict(partitions.ranges)
        # The first fit of ranges is at the first sample.
        forest.next_fit = 1 if self.scale else NEVER
        if self._may_have_light:
            forest.light_size = light_size_for(forest.dim_capacity)
        self._set_words()
        layouts = self._layouts()
        self.points = rec.ChunkedRows(1, layouts["points"].words)
        self.arrivals = rec.ChunkedRows(1, layouts["arrivals"].words, False)
        self._new_rows()
        self._finish()
        self.open()

    # Layouts of rows.

    @property
    def n_trees(self) -> int:
        """Number of trees, without spare trees for redraws."""
        return self.shared[0].n_trees

    @property
    def _has_columns(self) -> bool:
        """Whether points store columns of values, because values are slow to compute."""
        return self.directions is not None or self.categories is not None

    @property
    def _has_own_columns(self) -> bool:
        """Whether each tree has a column of its own."""
        return self.categories is not None or (
            self.directions is not None and self.directions.given is None
        )

    @property
    def has_window(self) -> bool:
        """Whether trees contain only the latest samples."""
        return self.shared[0].window != UNLIMITED

    def _set_words(self) -> None:
        """Set the layout in the forest's record: sizes of rows, and the first word of each part."""
        forest = self.forest
        forest.box_word = self._NODE.WORDS + rec.words_of(self._kept_sections())
        n_columns = len(self.trees) if self._has_own_columns else 1 + self.renews
        forest.n_values = n_columns * forest.dim_capacity
        forest.has_columns = int(self._has_columns)
        forest.has_own_columns = int(self._has_own_columns)
        forest.columns_word = self._POINT.WORDS
        forest.inputs_word = forest.columns_word + forest.has_columns * forest.n_values
        forest.links_word = forest.inputs_word + 2 * forest.input_capacity
        forest.n_slots = len(self.trees)
        forest.tree_words = self._TREE.WORDS
        forest.node_words = self._node_layout().words

    def _kept_sections(self) -> tuple[rec.Section, ...]:
        """Return the parts of a node's row between its record and its box."""
        return ()

    def _node_layout(self) -> rec.RowLayout:
        """Return the layout of a node's row."""
        has_light = self.forest.light_size > 0
        box = (rec.Section("box_row", rec.INT32, 1),) if has_light else self._box_sections()
        return rec.RowLayout(self._NODE, (*self._kept_sections(), *box))

    @property
    def _may_have_light(self) -> bool:
        """Whether nodes may be light.

        With `max_nodes`, a box cannot be computed from points, since leaves count samples that are
        not stored.
        """
        return issubclass(self._NODE, LightNode) and self.shared[0].max_splits == UNLIMITED

    def _box_sections(self) -> tuple[rec.Section, ...]:
        """Return the parts of a row's layout that a box needs."""
        n_dims = self.forest.dim_capacity
        return rec.Section("lower", rec.FLOAT32, n_dims), rec.Section("upper", rec.FLOAT32, n_dims)

    def _point_layout(self) -> rec.RowLayout:
        """Return the layout of a stored point's row."""
        forest = self.forest
        columns = (rec.Section("columns", rec.FLOAT32, forest.n_values),) * self._has_columns
        inputs = rec.Section("inputs", rec.FLOAT64, forest.input_capacity)
        links = rec.Section("links", rec.INT32, len(self.trees))
        return rec.RowLayout(self._POINT, (*columns, inputs, links))

    def _side_layout(self) -> rec.RowLayout:
        """Return the layout of a side row; the layout is empty if there are no side rows."""
        return rec.RowLayout(rec.Record)

    def _layouts(self) -> dict[str, rec.RowLayout]:
        """Return the layout of each table's rows, empty for an unused table."""
        has_light = self.forest.light_size > 0
        return {
            "nodes": self._node_layout(),
            "boxes": rec.RowLayout(BoxRow, self._box_sections() if has_light else ()),
            "side_rows": self._side_layout(),
            "points": self._point_layout(),
            "arrivals": rec.RowLayout(Arrival if self.has_window else rec.Record),
        }

    # Rows.

    @property
    def n_with_nodes(self) -> int:
        """Number of trees with nodes, including the spare tree during a redraw."""
        return len(self.trees) if self.shared[0].is_redrawing() else self.n_trees

    @property
    def current_scaling(self) -> rec.Floats:
        """The current offsets and factors of the inputs, shape (2, input_capacity)."""
        return self.scalings[self.forest.scaling]

    @property
    def next_scaling(self) -> rec.Floats:
        """The scaling of redrawn trees during a renewal; otherwise the current scaling."""
        forest = self.forest
        return self.scalings[1 - forest.scaling if forest.renewal.is_running else forest.scaling]

    def _new_rows(self) -> None:
        """Create new tables for the trees."""
        self._new_rows_of_nodes()
        n, width = len(self.trees), self._side_layout().words
        self.side_rows = rec.ChunkedRows(n, width, self._ZEROED_SIDE_ROWS)

    def _new_rows_of_nodes(self) -> None:
        """Create new tables of nodes and boxes for the trees."""
        n, layouts = len(self.trees), self._layouts()
        self.nodes = rec.ChunkedRows(n, layouts["nodes"].words, False)
        self.boxes = rec.ChunkedRows(n, layouts["boxes"].words, False)

    def _set_up(self) -> None:
        """Set the fields that the subclass adds to the forest's record."""

    def _n_rows(self) -> dict[str, list[int]]:
        """Return the number of rows in use of each table."""
        words = self.trees.words
        order = np.argsort(words["slot"])
        n_rows = {name: words[f"{name}.n_rows"][order].tolist() for name in TABLES}
        forest = self.forest
        if not forest.is_redrawing():
            # After a redraw, the spare tree still has the rows of the replaced tree. These rows are
            # not counted, because they are unused.
            for spare in words["slot"][self.n_trees :].tolist():
                for counts in n_rows.values():
                    counts[spare] = 0
        n_arrivals = self.n_points if self.has_window else 0
        more = {"points": self.n_points, "arrivals": n_arrivals}
        return n_rows | {name: [n] for name, n in more.items()}

    def _finish(self) -> None:
        """Set the derived attributes, which are not pickled."""
        self.forest = forest = self.shared[0]
        # A view of the record's version: the trees' version, or CLOSED during a change. Estimators
        # read this view in each call.
        self.version_now = self.shared.word("version")
        self.inputs = np.full((1, int(forest.input_capacity)), np.nan)
        self.vector = self.inputs[0]
        self.row = np.empty(int(forest.n_values), dtype=np.float32)
        forest.trees = self.trees.array
        forest.inputs = rec.Float64s.of(self.inputs)
        forest.row = rec.Float32s.of(self.row)
        n_dims = int(forest.dim_capacity)
        self.buffers = np.empty((len(self.trees), 3 * n_dims), dtype=np.float32)
        for tree in self.trees:
            tree.buffer = rec.Float32s.of(self.buffers[int(tree.slot), : 2 * n_dims])
            tree.value_buffer = rec.Float32s.of(self.buffers[int(tree.slot), 2 * n_dims :])
        if forest.light_size > 0:
            set_entries(forest, *OF_LIGHT)
        TreeStore._refresh(self)

    def _refresh_scaling(self) -> None:
        """Set the references of the forest's record to scaling, directions and places of levels."""
        forest = self.forest
        if self._has_columns:
            set_entries(forest, scaling.write_columns, scaling.write_spare_column)
        forest.scalings = rec.Float64s.of(self.scalings.reshape(-1))
        if self.directions is not None:
            current = int(forest.scaling)
            forest.oblique = self.directions.finish(self.scalings, current, forest.absent)
        if self.categories is not None:
            forest.levels = self.categories.finish()

    @property
    def _warm_up_end(self) -> int:
        """Number of stored samples at which the warm-up ends."""
        return min(WARM_UP, int(self.shared[0].window))

    @property
    def is_warming_up(self) -> bool:
        """Whether ranges are still fitted."""
        return bool(self.shared[0].next_fit != NEVER)

    def _reserve_points(self, n: int) -> None:
        capacity = self.points.reserve(0, n)
        if self.has_window:
            self.arrivals.reserve(0, capacity)
            self.arrivals.show(0, self.forest.arrivals)
        self.points.show(0, self.forest.points)

    def _reserve_rows(self, t: int, n: int, n_side: int = 1) -> None:
        """Reserve room in a tree for `n` more rows, and for `n_side` more side rows."""
        tree = self.trees[t]
        nodes, boxes, side_rows, slot = tree.nodes, tree.boxes, tree.side_rows, tree.slot
        self.nodes.grow(slot, nodes, nodes.n_rows + n)
        self.boxes.grow(slot, boxes, boxes.n_rows + n if self.forest.light_size > 0 else 0)
        self.side_rows.grow(slot, side_rows, side_rows.n_rows + n_side)

    def _reserve_all(self, n: int) -> None:
        """Reserve room for `n` rows in total, and one more side row, in all but the spare trees."""
        words = self.trees.words
        slots = words["slot"].tolist()
        counts = words["side_rows.n_rows"].tolist()
        for slot, n_side in zip(slots[: self.n_trees], counts, strict=False):
            self.nodes.reserve(slot, n)
            self.boxes.reserve(slot, n if self.forest.light_size > 0 else 0)
            self.side_rows.reserve(slot, n_side + 1)
        for name in TABLES:
            self.__dict__[name].show_all(name, words, slots)

    def _refresh(self) -> None:
        """Refresh all addresses that kernels use."""
        self._refresh_scaling()
        self._reserve_points(self.n_points)
        self._reserve_all(0)

    # Growth.

    def add_inputs(
        self,
        names: Sequence[Hashable],
        first_values: rec.Floats,
        gaps: rec.Floats | float = math.nan,
    ) -> None:
        """Add features.

        Parameters
        ----------
        names
            Names of the features.
        first_values
            The first value of each feature; for categories, the code of a level.
        gaps
            Value of each feature in past samples: NaN, or 0 if `absent` is 0.

        """
        forest = self.forest
        old = int(forest.input_capacity)
        n_inputs = self.n_inputs
        wanted = n_inputs + len(names)
        are_zero = np.broadcast_to(np.isfinite(gaps), len(names))
        unknown = np.zeros(0, dtype=np.int64)
        if not self._absent_is_unknown and self.n_samples > 0:
            unknown = n_inputs + np.flatnonzero(~are_zero)
        # For the first sample's features the capacity is exact. Later the capacity grows by at
        # least an eighth, so that rows are rarely copied.
        spare = 0 if n_inputs == 0 else old // 8
        capacity = old if wanted <= old else max(wanted, old + spare)
        if self.directions is not None:
            self.directions = copy.deepcopy(self.directions)
            self.directions.add_inputs(names, capacity)
        else:
            self._note_categories(first_values >= LEAST_LEVEL)
        is_resized = self._resize_rows(capacity, unknown)
        if capacity > old:
            self._add_input_capacity(old, capacity)
        else:
            # The scalings are copied, because an undone change needs the old array.
            self.scalings = self.scalings.copy()
        ends = [self.known_ranges.get(name, (math.nan, math.nan)) for name in names]
        self.given = np.hstack([self.given, np.array(ends, dtype=np.float64).T])
        if self.scale or self.directions is not None:
            # With directions, the first value replaces missing values of a new feature.
            self.scalings[:, 0, n_inputs:wanted] = np.where(are_zero, 0.0, first_values)
        else:
            are_far = (np.abs(first_values) >= LEAST_ORIGIN) & (first_values < LEAST_LEVEL)
            are_far &= ~are_zero | (n_inputs == 0)
            self.scalings[:, 0, n_inputs:wanted] = np.where(are_far, first_values, 0.0)
        forest.n_inputs = wanted
        if self.directions is None:
            forest.n_dims = wanted
            if self.n_samples > 0 and not are_zero.all():
                forest.has_missing = 1
        self._finish()
        if self.scale:
            fitted = scaling.scaling_by(self.given[:, n_inputs:], first_values, first_values)
            if self.n_samples > 0:
                fitted[0, are_zero] = 0.0
            fitted[:, first_values >= LEAST_LEVEL] = [[0.0], [1.0]]
            self.scalings[:, :, n_inputs:wanted] = fitted
        if is_resized and self.categories is not None:
            scaling.write_all_columns.of(self._FOREST)(self.forest)

    def _add_input_capacity(self, old: int, new: int) -> None:
        """Increase the scalings' capacity for inputs from `old` to `new`."""
        scalings = np.zeros((2, 2, new))
        scalings[:, 1] = 1.0
        scalings[:, :, :old] = self.scalings
        self.scalings = scalings

    def _note_categories(self, are_categories: NDArray[np.bool_]) -> None:
        """Store which new inputs are categories. The first category adds a column for each tree."""
        if self.categories is not None:
            self.categories = self.categories.with_inputs(are_categories)
        elif are_categories.any():
            words = self.trees.words
            made = transforms.Categories(words["random_state"][: self.n_trees])
            known = np.zeros(self.n_inputs, dtype=np.bool_)
            self.categories = made.with_inputs(known).with_inputs(are_categories)
            words["first_value"] = int(self.forest.dim_capacity) * np.arange(len(self.trees))

    def _resize_rows(self, capacity: int, unknown: rec.Ints) -> bool:
        """Reserve room for `capacity` inputs in rows; return whether rows were copied.

        In past samples, the new inputs in `unknown` are NaN, and other new inputs have the value
        `absent`. If rows were copied, the columns of trees with categories must be computed again.
        """
        forest, n_slots = self.forest, len(self.trees)
        old, n_old = int(forest.dim_capacity), int(forest.input_capacity)
        is_same = capacity == n_old and self._has_columns == bool(forest.has_columns)
        if is_same and len(unknown) == 0:
            return False
        box, columns = int(forest.box_word), int(forest.columns_word)
        inputs, links = int(forest.inputs_word), int(forest.links_word)
        new = capacity if self.directions is None else old
        forest.dim_capacity, forest.input_capacity = new, capacity
        self._set_words()
        # New features get this value in past samples.
        fill = scaling.NAN_BITS if self._absent_is_unknown else 0
        dims = unknown if self.directions is None else unknown[:0]
        # Boxes are in separate rows, or in the rows of nodes.
        if (new > old or len(dims)) and forest.light_size > 0:
            moves = [(0, 0, old), (old, new, old)]
            self.boxes = self.boxes.resized(self._layouts()["boxes"].words, moves, fill)
            self.boxes.fill([0, new], dims, scaling.NAN_BITS)
        elif new > old or len(dims):
            moves = [(0, 0, box + old), (box + old, box + new, old)]
            self.nodes = self.nodes.resized(self._node_layout().words, moves, fill)
            self.nodes.fill([box, box + new], dims, scaling.NAN_BITS)
            if self._may_have_light and light_size_for(new) > 0:
                self._part_boxes(light_size_for(new))
        # Move the projections, the inputs and the links of points.
        n_fixed = columns if self.directions is None else inputs
        moves = [(0, 0, n_fixed), (inputs, int(forest.inputs_word), 2 * n_old)]
        moves.append((links, int(forest.links_word), n_slots))
        points = self.points.resized(self._point_layout().words, moves, 0)
        # An interrupted call may have reserved room for more points, which is freed here.
        points.trim(0, self.n_points)
        self.points = points
        self._put_absent(n_old, unknown)
        words = self.trees.words
        words["first_value"] = words["first_value"] // old * new
        return True

    def _part_boxes(self, light_size: int) -> None:
        """Move boxes to separate rows, and remove the boxes of light nodes."""
        forest, words, counts = self.forest, self.trees.words, self._n_rows()["nodes"]
        rows = [self.nodes.rows(slot, n) for slot, n in enumerate(counts)]
        columns = {column.name: column for column in self._node_layout().columns}
        box, width = int(forest.box_word), self.nodes.row_bytes
        forest.light_size = light_size
        self._set_words()
        self._new_rows_of_nodes()
        slots = words["slot"].tolist()
        for slot, old in enumerate(rows):
            dims = columns["dim"].over(old, len(old), width)
            n_samples = columns["n_samples"].over(old, len(old), width)
            has_box = (dims != FREE) & (n_samples > light_size)
            new = np.zeros((len(old), self.nodes.width), dtype=np.int32)
            new[:, :box] = old[:, :box]
            new[:, box] = np.where(has_box, np.cumsum(has_box) - 1, NONE)
            self.nodes.extend(slot, 0, new)
            self.boxes.extend(slot, 0, np.ascontiguousarray(old[has_box, box:]))
            words["boxes.n_rows"][slots.index(slot)] = np.count_nonzero(has_box)

    def _put_absent(self, first: int, unknown: rec.Ints) -> None:
        """Set the points' inputs from `first` on to `absent`, and the inputs `unknown` to NaN."""
        column = next(c for c in self._point_layout().columns if c.name == "inputs")
        for chunk in self.points.chunks[0]:
            inputs = column.over(chunk, len(chunk), self.points.row_bytes)
            inputs[:, first:] = self.forest.absent
            inputs[:, unknown] = math.nan

    def _inputs_at(self, points: rec.Ints, n_rows: int) -> rec.Floats:
        """Return the inputs of some points, shape (n_rows, inputs), padded with rows of NaN."""
        rows = np.full((n_rows, self.n_inputs), math.nan)
        given = rec.Int64s.of(points), len(points), rec.Float64s.of(rows.reshape(-1))
        scaling.read_inputs.of(self._FOREST)(self.forest, *given)
        return rows

    # Changes.

    @property
    def n_begun(self) -> int:
        """Number of samples that were learned or whose walks have begun."""
        return self.forest.n_samples + self.forest.n_walking

    @property
    def is_empty(self) -> bool:
        """Whether the trees contain no sample and no walk has begun."""
        return self.forest.n_held() + self.forest.n_walking == 0

    def close(self) -> None:
        """Close the trees to kernel calls for one sample until `open` is called."""
        self.is_changing = True
        self.forest.version = CLOSED

    def open(self) -> None:
        """Open the trees to kernel calls for one sample, unless a change has begun."""
        if self._before is None:
            self.forest.version = self.version
            self.is_changing = False

    def enter(self) -> None:
        """Close the trees, and complete or undo an interrupted change."""
        forest = self.forest
        is_whole = not self.is_changing and self._before is None and forest.version == self.version
        self.close()
        # If another thread has begun a sample and closed the trees before this call, the sample
        # must be completed.
        if is_whole and forest.n_walking == 0:
            return
        # Wait until no other thread works on an interrupted change.
        self._jobs_end = True
        for job in self._jobs:
            if not job.cancel():
                job.exception()
        self._jobs = ()
        self._jobs_end = False
        before = self._before
        if before is not None and before.n_begun == self.n_begun:
            self.__dict__.update(before.attributes)
            # The new version invalidates calls that were prepared for the undone state.
            self.version += 1
            self.shared.bytes[:] = before.forest
            self.trees.bytes[:] = before.trees
            self._finish()
            self.close()
        self._before = None
        self._refresh()
        self._complete()

    def settle(self) -> None:
        """Complete or undo an interrupted change, and open the trees."""
        self.enter()
        self.open()

    def begin_change(self) -> None:
        """Begin a change.

        If the change is interrupted before a sample's walks begin, the next call undoes the change.
        The change may replace or extend the trees' memory, but must not overwrite it.
        """
        if not self.is_changing:
            self.enter()
        attributes = {
            name: value for name, value in self.__dict__.items() if name not in OF_CHANGES
        }
        saved = self.shared.bytes.copy(), self.trees.bytes.copy()
        # The new version invalidates calls that were prepared for the old inputs and classes.
        self.version += 1
        self._before = SavedTrees(self.n_begun, attributes, *saved)

    def end_change(self) -> None:
        """End a change and keep the new state."""
        self._before = None
        self.open()

    @abc.abstractmethod
    def _complete(self) -> None:
        """Complete the work that kernels have begun. The call can be interrupted and repeated."""

    # Pickling.

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        layouts, counts = self._layouts(), self._n_rows()
        for name, layout in layouts.items():
            state[name] = rec.TableState(self.__dict__[name], counts[name], layout)
        return state

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the stored arrays."""
        forest = self.forest
        capacity = forest.input_capacity
        return {"scalings": (2, 2, capacity), "given": (2, forest.n_inputs)}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        # The state of live trees is valid, so it is not checked. `__setstate__` checks pickles.
        made._restore(copy.deepcopy(self.__getstate__(), memo))
        return made

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = rec.owned(state)
        self.__dict__.update(state)
        checking.check_sizes(self)
        self.forest = self.shared[0]
        rec.check_shapes(self, self._shapes())
        self._check_kind()
        self._restore(state)
        checking.check_trees(self)

    def _restore(self, state: dict[str, Any]) -> None:
        """Restore the trees from the state that `__getstate__` returned."""
        self.__dict__.update(state)
        self.forest = self.shared[0]
        self._set_words()
        zeroed = {"side_rows": self._ZEROED_SIDE_ROWS, "points": True}
        layouts, counts = self._layouts(), self._n_rows()
        for name, layout in layouts.items():
            if state[name].counts != counts[name]:
                raise checks.ModelFormatError(
                    f"{type(self).__name__} has {counts[name]} rows of {name}, but "
                    f"{state[name].counts} are stored"
                )
            setattr(self, name, state[name].restored(layout, zeroed.get(name, False)))
        self._finish()
        self.open()

    def _held_by(self, t: int) -> tuple[int, int] | None:
        """Return a tree's number of samples, and the least number of samples in a leaf.

        Returns None for an unused tree.
        """
        forest = self.forest
        return (forest.n_held() if t < forest.n_trees else int(forest.renewal.n_spare_points)), 1

    def _edges(self, slot: int, tables: dict[str, Rows]) -> list[Edges]:
        """Return the references between a tree's rows that are stored outside of records."""
        return checking.edges_of(self, slot, tables)

    def _check_kind(self) -> None:
        """Check the fields that the subclass adds to the forest."""

    def _check_tree(self, t: int, tables: dict[str, Rows], found: Followed) -> None:
        """Check the fields that the subclass adds to the rows of a tree."""

    # Counts in the forest's record.

    @property
    def n_samples(self) -> int:
        """Number of samples learned."""
        return self.forest.n_samples

    @property
    def n_points(self) -> int:
        """Number of samples stored."""
        return self.forest.n_points

    @property
    def n_inputs(self) -> int:
        """Number of features in use."""
        return self.forest.n_inputs

    @property
    def _absent_is_unknown(self) -> bool:
        """Whether earlier samples get NaN, rather than 0, for a new feature."""
        return math.isnan(self.forest.absent)

    @property
    def category_indices(self) -> list[int]:
        """The indices of the features that are categories."""
        return [] if self.categories is None else self.categories.places
