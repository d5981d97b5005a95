"""What the integers in the kernels' arrays mean.

A *reference* names what hangs at a place of a tree: a row of the tree's nodes (>= 0), a single
stored point (`~point`, negative) or nothing (`EMPTY`). A leaf that holds one point needs no row.

A node's row is a header, what its sides carry, and a box::

    LEFT RIGHT DIM CUT DELTA COUNT | of the left | of the right | lower ... | upper ...

A forest over classes keeps sets of them. An internal node has the classes below each child: the
interpolated Kneser-Ney counts are c_jk = tab_left,k + tab_right,k, each 0 or 1. A leaf keeps its
classes in the left set and its row of class counts, if any, in `RIGHT`. A forest over targets keeps
messages, pairs of float64: what each child says of the node's mean; a leaf's own weight and mean
are in the left one. Two float64 follow: the time of the node's cut, since differences of times
change by rounding when another node is put between, which must not reach the messages below; and
how far the logistic function of `gaussian` rises from the parent's time to that. Trees of cells
keep the number of a cell and the time of the node's cut (float64). A row of an adaptive tree
has the number of its statistics plus 1 (see `adaptive`), which are kept as rows of counts.

A leaf has the first of its points in `LEFT` (points are linked). A box side is NaN in a dimension
in which no point of the node has a value.

A point's row is its values, its class or its target and weight (float64), and a link per tree. In
trees of cells points are not linked: a point that is a leaf has its cell there. The values are what
the trees cut: scaled features, or with cut directions what those make of them, once for all trees
or, with directions of its own for each tree, once for each.
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
MESSAGES = 6
TIME = 14

CELL = 6
CELL_TIME = 8
STATS = 6

# Precision of a message, or rise, that is not up to date.
UNKNOWN = -1.0

# Words of what a row carries over targets, and of a point's target and weight.
MESSAGE_WORDS = 12
TARGET_WORDS = 4

# Words of what a row of a tree of cells carries, and of one of an adaptive tree.
CELL_WORDS = 4
STATS_WORDS = 1

# N_WORDS of trees that are not over classes.
TARGETS = 0
CELLS = -1
ADAPTIVE = -2

# DIM of a leaf. A pending leaf is paused: its block has not been sampled. A settled one is known
# to have no cut inside its box within the lifetime. A mixed one is about to be sampled.
PENDING = -1
SETTLED = -2
MIXED = -3

# Columns of a tree's integers. NODES and COUNTS are the addresses of tables of chunks; WALK_TAU,
# GAMMA2, NOISE and LIFETIME are float64. OFFSET is where a tree's values are in a point, in bytes.
# ROLE and QUEUE are what an adaptive tree is for, and the first of the leaves that it is to split.
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
GAMMA2 = 16
NOISE = 17
N_CELLS = 18
LIFETIME = 19
OFFSET = 20
ROLE = 21
QUEUE = 22
TREE_WIDTH = 23

# Columns of the integers that all trees share: the forest whose address every kernel gets. TREES,
# POINTS and SCALING are addresses, OWNERS, LIFETIMES, LIFT, GAINS and DIM_WEIGHTS, too; from
# HORIZON to NOISE_VARIANCE they are float64. N_WORDS is that of a set of classes, or TARGETS, CELLS
# or ADAPTIVE. TAILS is the address of the law of the targets (see `tails`), 0 where that is normal,
# TOLD that of room for a target's densities; FIND_DENSITIES, LEARN_SCALES, SAMPLE_BLOCK, ARRIVE,
# EXTEND, PREDICT_ROWS, COLLECT and COLLECT_DENSITIES are kernels', which are called by address. A
# point has N_VALUES values; LINKS is where its links begin. LIFT is 0 where inputs are cut as they
# are (see `scaling`). Adaptive trees have room for RING points.
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
POINT_CAPACITY = 15
LINKS = 16
MIN_SPLIT = 17
HIDE_LIMIT = 18
POOLS = 19
HORIZON = 20
GAMMA = 21
Y_WEIGHT = 22
Y_MEAN = 23
Y_SQUARES = 24
PRIOR_SCALE = 25
NOISE_VARIANCE = 26
N_COLUMNS = 27
OWNERS = 28
LIFETIMES = 29
N_LIFETIMES = 30
N_VALUES = 31
N_INPUTS = 32
INPUT_CAPACITY = 33
LIFT = 34
CLASS_CAPACITY = 35
N_CANDIDATES = 36
RING = 37
ROOT_FORGETS = 38
GAINS = 39
DIM_WEIGHTS = 40
# Scratch of adaptive trees, by address: ways down the trees and their lengths, a way's steps, what
# the posteriors say, the mixture's record, the result, the values predicted last and whether the
# trees are what they were then; candidates for a cut; sums of posteriors.
# OUT is that of the result in other forests over classes, too.
# DISCRIMINANTS is the address of the record of the linear discriminants. SPLIT_ALL and
# PREDICT_ANEW are kernels', which are called by address. Of the tree that is being built there are
# what may be spent on it now, the number of the sample that it gets next, and of its first.
PATHS = 41
LENGTHS = 42
STEPS = 43
FOUND = 44
STATE = 45
OUT = 48
LAST_VALUES = 49
PREDICTED = 50
CANDIDATES = 51
SUMS = 52
TAILS = 53
TOLD = 54
FIND_DENSITIES = 55
LEARN_SCALES = 56
DISCRIMINANTS = 57
SAMPLE_BLOCK = 59
ARRIVE = 60
EXTEND = 61
PREDICT_ROWS = 62
COLLECT = 63
COLLECT_DENSITIES = 64
SPLIT_ALL = 65
PREDICT_ANEW = 66
BUDGET = 67
CURSOR = 68
BUILT_FROM = 69
# Counts of samples and of stored points, where kernels keep these; addresses: of a sample's values,
# of what trees cut of them, and of the raw values of the samples so far while the ranges may
# change, else 0.
N_SAMPLES = 70
N_POINTS = 71
VALUES = 72
ROW = 73
WARM_UP = 74
FOREST_WIDTH = 75

# MAX_SPLITS of trees that are cut without limit.
UNLIMITED = 2**62

# `HIDE_LIMIT` over classes: past this many points a paused leaf samples one hidden cut an event, so
# that un-pausing never has to go through more.
PAUSE_LIMIT = 32
