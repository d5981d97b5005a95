"""What may be wrong with restored trees: numbers for kernels, and the words of the error."""

from __future__ import annotations

FINE = 0
ROOT = 1
ROOT_SAMPLES = 2
LIFETIME = 3
N_SPLITS = 4
NOT_FULL = 5
DIM = 6
BOX = 7
LEFT = 8
RIGHT = 9
N_SAMPLES = 10
DELTA = 11
CUT = 12
N_IN_LEAF = 13
POINTS = 14
BOX_OF_POINTS = 15
VALUES = 16
MISSING = 17
# Of kinds of trees.
LABEL = 18
CLASSES = 19
COUNT_ROW = 20
TARGET = 21
WEIGHT = 22
CUT_TIME = 23
LEAF_WEIGHT = 24
GAMMA2 = 25
NOISE = 26
CELL = 27
N_CELLS = 28
STATISTICS_ROW = 29
NEXT_WAITING = 30
QUEUE = 31
WINDOW = 32
WEIGHTS = 33
MEAN = 35
LEARNS = 36
# Of what is forgotten.
FREE_ROW = 37
FREE_SIDE_ROW = 38
APART = 39
ARRIVAL = 40
LIST_END = 41
# Of what widths are renewed by.
INPUTS = 42
# Of boxes in rows of their own.
BOX_ROW = 43
FREE_BOX = 44

_BELOW = (
    "but there are {n_rows} rows and {forest.n_points} points, each of which is at one place only"
)

# By fault: what it is in, the field, and what is wrong with that.
TEXTS = {
    ROOT: ("tree", "root", _BELOW),
    ROOT_SAMPLES: ("tree", "root", "whose samples are not those of the tree"),
    LIFETIME: ("tree", "lifetime", "but a lifetime is a number >= 0"),
    N_SPLITS: ("tree", "n_splits", "but there are more or fewer cuts in its {n_rows} rows"),
    NOT_FULL: ("tree", "n_splits", "but the forest is full at {forest.max_splits}"),
    DIM: ("node", "dim", "but there are {forest.n_dims} dimensions"),
    BOX: ("node", "box", "a side of it is no interval of finite numbers"),
    BOX_ROW: (
        "node",
        "box_row",
        "but nodes of more than {forest.light_size} samples have one each",
    ),
    FREE_BOX: ("tree", "free_box", "whose list leaves the free rows or comes back"),
    LEFT: ("node", "left", _BELOW),
    RIGHT: ("node", "right", _BELOW),
    N_SAMPLES: ("node", "n_samples", "but those of its children add up to another number"),
    DELTA: ("node", "delta", "but a time is >= 0"),
    CUT: ("node", "cut", "but a cut is finite"),
    N_IN_LEAF: ("node", "n_samples", "but another number of points is in its list"),
    POINTS: ("node", "first_point", "whose list leaves the points or comes back"),
    LIST_END: ("node", "list_end", "but that is not the last point of its list"),
    BOX_OF_POINTS: ("node", "box", "it is not that of the leaf's points"),
    VALUES: ("point", "values", "one of them is too large"),
    MISSING: ("point", "values", "one of them is missing, but no point lacks any"),
    LABEL: ("point", "label", "but it is no class"),
    CLASSES: ("node", "classes", "there are fewer classes"),
    COUNT_ROW: ("node", "count_row", "but there are {tree.side_rows.n_rows} rows of counts"),
    WEIGHTS: (
        "node",
        "weights",
        "some are out of range or of other classes than those there",
    ),
    TARGET: ("point", "target", "but a target is finite"),
    WEIGHT: ("point", "weight", "but a weight is from 0 to 1e30, of a class above 0"),
    MEAN: ("node", "mean", "but a mean is finite"),
    LEARNS: ("tree", "learns", "but trees learn other targets"),
    CUT_TIME: ("node", "cut_time", "but a time is >= 0"),
    LEAF_WEIGHT: ("node", "messages", "a leaf's weight is finite and >= 0"),
    GAMMA2: ("tree", "gamma2", "but a rate is > 0"),
    NOISE: ("tree", "noise", "but a variance is >= 0"),
    CELL: ("node", "cell", "but there are {forest.n_columns} columns"),
    N_CELLS: ("tree", "n_cells", "but there are {tree.n_splits} cuts"),
    STATISTICS_ROW: (
        "node",
        "statistics_row",
        "but there are {tree.side_rows.n_rows} rows of statistics",
    ),
    NEXT_WAITING: ("node", "next_waiting", "but there are {n_rows} rows"),
    QUEUE: ("tree", "queue", "which leaves the leaves or comes back"),
    FREE_ROW: ("tree", "free_row", "whose list leaves the free rows or comes back"),
    FREE_SIDE_ROW: ("tree", "free_side_row", "whose list leaves the rows or comes back"),
    APART: ("node", "cut", "but its children are not on either side of it, within its box"),
    INPUTS: ("point", "inputs", "one of them is too large, or no level of a category"),
    ARRIVAL: ("point", "arrival", "but the order of arrival has each point once"),
    WINDOW: ("tree", "starts", "a point is not among the samples that it holds"),
}
