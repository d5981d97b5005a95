"""What the integers in the kernels' arrays mean.

A *reference* names what hangs at a place of a tree: a row of the tree's nodes (>= 0), a single
stored point (`~point`, negative) or nothing (`EMPTY`). A leaf that holds one point needs no row.

A node's row is a header, two sets of classes and a box::

    LEFT RIGHT DIM CUT DELTA COUNT | set of the left | set of the right | lower ... | upper ...

An internal node keeps the classes below each child: the interpolated Kneser-Ney counts are
c_jk = tab_left,k + tab_right,k, each 0 or 1. A leaf keeps its classes in the left set, the first
of its points in `LEFT` (points are linked) and its row of class counts, if any, in `RIGHT`. A box
side is NaN in a dimension in which no point of the node has a value.
"""

from __future__ import annotations

EMPTY = -(2**31)
NONE = -1

# Words of a node's header. CUT and DELTA (time since the parent) are float32.
LEFT = 0
RIGHT = 1
DIM = 2
CUT = 3
DELTA = 4
COUNT = 5
CLASSES = 6

# DIM of a leaf. A pending leaf is paused: its block has not been sampled. A settled one is known
# to have no cut inside its box within the lifetime. A mixed one is about to be sampled.
PENDING = -1
SETTLED = -2
MIXED = -3

# Columns of a tree's integers. NODES and COUNTS are the addresses of tables of chunks; WALK_TAU is
# a float64.
ROOT = 0
NODES = 1
COUNTS = 2
N_ROWS = 3
ROW_CAPACITY = 4
N_COUNTS = 5
COUNT_CAPACITY = 6
N_SPLITS = 7
RNG = 8
WALK_REF = 9
WALK_PARENT = 10
WALK_SIDE = 11
WALK_TAU = 12
WALK_POINT = 13
WALK_END = 14
NEED_ROWS = 15
TREE_WIDTH = 16

# Columns of the integers that all trees share: the forest whose address every kernel gets. TREES,
# POINTS and SCALING are addresses; LIFETIME and GAMMA are float64.
TREES = 0
N_TREES = 1
POINTS = 2
POINT_WIDTH = 3
N_DIMS = 4
DIM_CAPACITY = 5
N_WORDS = 6
BOX = 7
NODE_WIDTH = 8
N_CLASSES = 9
COUNT_WIDTH = 10
MAX_SPLITS = 11
SPLIT_PURE = 12
HAS_MISSING = 13
SCALING = 14
LIFETIME = 15
GAMMA = 16
POINT_CAPACITY = 17
FOREST_WIDTH = 18

# Past this many points a paused leaf samples one hidden cut an event, so that un-pausing never
# has to go through more.
PAUSE_LIMIT = 32
