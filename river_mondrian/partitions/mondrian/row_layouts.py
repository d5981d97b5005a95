"""What the rows of a forest's tables have, and how many columns of values a point."""

from __future__ import annotations

from typing import ClassVar

from ...records import FLOAT32, FLOAT64, INT32, Part, Record, RowLayout, words_of
from .categories import Categories
from .changes import AnyForest, ChangingTrees
from .cut_directions import CutDirections
from .records import UNLIMITED, Arrival, BoxRow, LightNode, Node, Point, Tree

# Dimensions from which on nodes may be light, and of how many samples they are then at most. With
# fewer dimensions, boxes in rows of their own cost more time than they save: walks wait for two
# places instead of one: of 21, a regressor learns and predicts a third slower with 8. With more,
# memory matters more.
LIGHT_SIZES = {512: 16, 128: 9}


def light_size_for(n_dims: int) -> int:
    """Return the number of samples up to which nodes are light; 0 where none is."""
    return next((size for wide, size in LIGHT_SIZES.items() if n_dims >= wide), 0)


class LaidOutTrees(ChangingTrees[AnyForest]):
    """Trees whose memory consists of tables of rows.

    A kind of trees names its records.
    """

    # The records of the kind: its forest's, its trees', its nodes' and its points'.
    _FOREST: type[AnyForest]
    _TREE: ClassVar[type[Tree]] = Tree
    _NODE: ClassVar[type[Node]] = Node
    _POINT: ClassVar[type[Point]] = Point
    # Whether the kind's widths may be renewed, and how many trees it then has besides those that
    # predict.
    _RENEWS: ClassVar[bool] = False
    _N_SPARE: ClassVar[int] = 1

    # What decides how many values a point has.
    directions: CutDirections | None
    categories: Categories | None
    renews: bool
    keeps_inputs: bool

    @property
    def n_trees(self) -> int:
        """Number of trees that predict."""
        found: int = self.shared[0].n_trees
        return found

    @property
    def _has_sets(self) -> bool:
        """Whether each tree has values of its own."""
        if self.directions is not None:
            return self.directions.given is None
        return self.categories is not None

    @property
    def _has_frames(self) -> bool:
        """Whether points have a column for either frame, which all trees in it share."""
        return self.renews and not self._has_sets

    @property
    def _has_remainders(self) -> bool:
        """Whether points have what single precision has cut off their inputs."""
        return self._has_frames and not self.keeps_inputs

    @property
    def follows(self) -> bool:
        """Whether widths are looked at: forests with categories of earlier files lack inputs."""
        return self.keeps_inputs or self._has_remainders

    @property
    def has_window(self) -> bool:
        """Whether the latest samples only are held."""
        found: bool = self.shared[0].window != UNLIMITED
        return found

    def _set_words(self) -> None:
        """Write where the parts of nodes' and points' rows begin."""
        forest = self.forest
        forest.box_word = self._NODE.WORDS + words_of(self._kept_parts())
        forest.n_values = self._n_columns * forest.dim_capacity
        forest.n_sets = self.n_trees if self._has_sets else 1
        forest.values_word = self._POINT.WORDS
        forest.inputs_word = forest.values_word + forest.n_values
        forest.links_word = forest.inputs_word + words_of(self._input_parts())
        forest.has_frames = int(self._has_frames)
        forest.keeps_inputs = int(self.keeps_inputs)
        forest.n_slots = len(self.trees)
        forest.tree_words = self._TREE.WORDS
        forest.node_words = self._node_layout().words

    @property
    def _n_columns(self) -> int:
        """How many values a point has in each dimension: one, two, or one for each tree."""
        if self._has_frames:
            return 2
        if not self._has_sets:
            return 1
        return len(self.trees) if self.keeps_inputs else self.n_trees

    def _input_parts(self) -> tuple[Part, ...]:
        """Return what a point's row has between its values and its links."""
        if not self.keeps_inputs:
            return ()
        return (Part("inputs", FLOAT64, self.forest.input_capacity),)

    def _kept_parts(self) -> tuple[Part, ...]:
        """Return what a node's row has between its record and its box."""
        return ()

    def _node_layout(self) -> RowLayout:
        """Return what a node's row is."""
        has_light = self.forest.light_size > 0
        box = (Part("box_row", INT32, 1),) if has_light else self._box_parts()
        return RowLayout(self._NODE, (*self._kept_parts(), *box))

    @property
    def _may_have_light(self) -> bool:
        """Whether nodes may be light; leaves of full trees count samples that are not stored."""
        return issubclass(self._NODE, LightNode) and self.shared[0].max_splits == UNLIMITED

    def _box_parts(self) -> tuple[Part, ...]:
        """Return what a box is."""
        n_dims = self.forest.dim_capacity
        return Part("lower", FLOAT32, n_dims), Part("upper", FLOAT32, n_dims)

    def _box_layout(self) -> RowLayout:
        """Return what the row of a box is; nothing where nodes have them in theirs."""
        return RowLayout(BoxRow, self._box_parts() if self.forest.light_size > 0 else ())

    def _point_layout(self) -> RowLayout:
        """Return what a stored point's row is."""
        values = Part("values", FLOAT32, self.forest.n_values)
        links = Part("links", INT32, len(self.trees))
        return RowLayout(self._POINT, (values, *self._input_parts(), links))

    def _remainder_layout(self) -> RowLayout:
        """Return what a moved point's row of remainders is; nothing where none is ever moved."""
        if not self._has_remainders:
            return RowLayout(Record)
        return RowLayout(Record, (Part("remainders", FLOAT32, self.forest.dim_capacity),))

    def _arrival_layout(self) -> RowLayout:
        """Return what a sample's row in the order of arrival is; nothing where none is kept."""
        return RowLayout(Arrival if self.has_window else Record)

    def _side_layout(self) -> RowLayout:
        """Return what a row beside the nodes is; nothing where there is none."""
        return RowLayout(Record)

    def _layouts(self) -> dict[str, RowLayout]:
        """Return what the rows of each table are."""
        return {
            "nodes": self._node_layout(),
            "boxes": self._box_layout(),
            "side_rows": self._side_layout(),
            "points": self._point_layout(),
            "remainders": self._remainder_layout(),
            "arrivals": self._arrival_layout(),
        }
