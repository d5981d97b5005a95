"""Mondrian trees on the whole space that know the true cells of the samples, revealed as needed.

The cell that a point has at time s in the Mondrian of the whole space reaches Exp(s) past the point
on each side of each dimension, independently (Equation 16). So a tree begins with its first
sample's cell at its lifetime. It is refined downwards as Mondrians are, and extended *upwards*,
back in time, where a sample falls outside of it: each of the 2 D faces was cut at a uniform time of
(0, s), whatever the cell; before the latest of these times t that face was further away by
Exp(t). What the face parts from the cell is a fresh Mondrian begun at t. Hence no window and no
boundary effect: every cell is one of the Mondrian of the whole space.

A node has a key, and all its draws are functions of it; the keys of its children are functions
of it, too. So cells are those that the key of the tree and the first sample say, whenever they are
revealed, and a prediction reveals what it needs without storing it. A node is stored once a sample
falls into its cell. Only the root's cell is stored; the others follow from the cuts on the way.

A node is a leaf, that is a cell, until the lifetime reaches the time of its cut. Where lifetimes
grow, samples are stored, each leaf heads a list of its own, and a leaf whose time has come is cut
when a sample next falls into it.
"""

from __future__ import annotations

import math

import numpy as np

from .memory import (
    LARGEST,
    exact_inlined,
    exact_kernel,
    f64,
    i32,
    i64,
    put_f64,
    put_i32,
    put_i64,
    row_address,
)

# Words of the forest's record.
N_TREES = 0
N_DIMS = 1  # D of the partition: features, or cut directions
N_INPUTS = 2  # features
DIRECTIONS = 3  # address of matrices of directions, D rows each; 0 for the axes
LIFTED = 4  # address of 2 D reals: the sample on the way along the directions, and a stored one
MEANS = 5  # address of the features' means and then of the numbers of values behind them
TREES = 6  # address of the trees' records
NODES = 7  # address of the table of nodes
NODE_CAPACITY = 8
N_NODES = 9
POINTS = 10  # address of the table of stored samples
POINT_CAPACITY = 11
N_POINTS = 12
STORES = 13  # whether samples are stored
ESTIMATOR = 14
N_SAMPLES = 15
NEXT_TREE = 16  # one more than the tree at which an interrupted sample goes on, or 0
CELL = 17  # address of 2 D reals: the cell on the way, its lower and upper corner
SET_BYTES = 18  # from a tree's matrix of directions to the next tree's; 0 where all have one
WORDS = 19

# Words of a tree's record; the lower and upper corner of the root's cell follow.
ROOT = 0
BEGAN = 1  # time at which the root's cell is known
KEY_ABOVE = 2
LIFETIME = 3
CORNERS = 4

# Words of a node.
KEY = 0
TIME = 1  # of its cut
DIM = 2
PLACE = 3
LEFT = 4  # a leaf: its first stored sample
RIGHT = 5
COUNT = 6  # samples of a leaf; 0 for what is no leaf
LOG_VOLUME = 7  # of a leaf; NaN where it is not known
NODE_WORDS = 8

NONE = -1

# Estimators: the mean of counts over volumes, mean counts over mean volumes, and the mean of counts
# over the expectations of volumes.
FOREST = 0
LAPLACE = 1
KERNEL = 2

# What is derived from a key.
LEFT_KEY = 0
RIGHT_KEY = 1
ABOVE_KEY = 2
DRAW_TIME = 3
DRAW_DIM = 4
DRAW_PLACE = 5
DRAW_REACH = 6
NEXT_KEY = 7
# From here on three per dimension: the reach of a cell on either side, and a key.
PER_DIM = 8


@exact_inlined
def derived(key: int, i: int) -> int:
    """Return the i-th number derived from a key (the i-th output of splitmix64)."""
    z = np.uint64(key) + np.uint64(i + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(z ^ (z >> np.uint64(31)))


@exact_inlined
def uniform(key: int, i: int) -> float:
    """Return the i-th uniform of the open interval (0, 1) derived from a key."""
    bits = np.uint64(derived(key, i)) >> np.uint64(12)
    return (np.float64(bits) + 0.5) * (1.0 / 4503599627370496.0)


@exact_inlined
def exponential(key: int, i: int, rate: float) -> float:
    """Return the i-th exponential of a rate derived from a key; infinite at rate 0."""
    if rate == 0.0:
        return math.inf
    return -math.log(uniform(key, i)) / rate


@exact_inlined
def beyond(value: float, step: float) -> float:
    """Return the value plus a positive step, or what is next to it where rounding eats the step."""
    return max(value + step, value + math.fabs(value) * 2.220446049250313e-16)


@exact_inlined
def side(lower: float, upper: float) -> float:
    """Return the length of a side, 0 where no number lies between its ends to cut at."""
    middle = lower + 0.5 * (upper - lower)
    return upper - lower if lower < middle < upper else 0.0


@exact_inlined
def between(lower: float, upper: float, u: float) -> float:
    """Return the place at share u of a side that can be cut."""
    place = lower + u * (upper - lower)
    return place if lower < place < upper else lower + 0.5 * (upper - lower)


@exact_inlined
def tree_at(forest: int, t: int) -> int:
    """Return the address of a tree's record."""
    return i64(forest, TREES) + 8 * t * (CORNERS + 2 * i64(forest, N_DIMS))


@exact_inlined
def node_at(forest: int, node: int) -> int:
    """Return the address of a node."""
    return row_address(i64(forest, NODES), node, 2 * NODE_WORDS)


@exact_inlined
def point_at(forest: int, p: int) -> int:
    """Return the address of a stored sample: its values, and a link for each tree."""
    width = 2 * i64(forest, N_INPUTS) + i64(forest, N_TREES)
    return row_address(i64(forest, POINTS), p, width)


@exact_inlined
def link_at(forest: int, p: int, t: int) -> int:
    """Return the address of the word that names the next sample in a sample's leaf."""
    return point_at(forest, p) + 8 * i64(forest, N_INPUTS) + 4 * t


@exact_inlined
def lift(forest: int, t: int, x: int, out: int) -> int:
    """Return the address of a sample's values along a tree's directions, written to `out`."""
    directions = i64(forest, DIRECTIONS)
    if directions == 0:
        return x
    directions += t * i64(forest, SET_BYTES)
    n = i64(forest, N_INPUTS)
    for j in range(i64(forest, N_DIMS)):
        total = 0.0
        for k in range(n):
            total += f64(directions, j * n + k) * f64(x, k)
        put_f64(out, j, total)
    return out


@exact_inlined
def lift_stored(forest: int, t: int, p: int) -> int:
    """Return the address of a stored sample's values along a tree's directions."""
    room = i64(forest, LIFTED) + 8 * i64(forest, N_DIMS)
    return lift(forest, t, point_at(forest, p), room)


@exact_inlined
def rate_of(forest: int, cell: int) -> float:
    """Return the rate at which a cell is cut, the sum of its sides."""
    dims = i64(forest, N_DIMS)
    rate = 0.0
    for j in range(dims):
        rate += side(f64(cell, j), f64(cell, dims + j))
    return rate


@exact_inlined
def cut_of(forest: int, cell: int, key: int, began: float) -> tuple[float, int, float]:
    """Return the time, the dimension and the place at which a cell is cut."""
    dims = i64(forest, N_DIMS)
    rate = rate_of(forest, cell)
    time = began + exponential(key, DRAW_TIME, rate)
    rest = uniform(key, DRAW_DIM) * rate
    dim, place = np.int64(NONE), 0.0
    for j in range(dims):
        length = side(f64(cell, j), f64(cell, dims + j))
        if length > 0.0 and rest >= 0.0:
            dim = j
            rest -= length
    if dim != NONE:
        place = between(f64(cell, dim), f64(cell, dims + dim), uniform(key, DRAW_PLACE))
    return time, dim, place


@exact_inlined
def log_volume(forest: int, cell: int) -> float:
    """Return the logarithm of a cell's volume; NaN for oblique cells."""
    if i64(forest, DIRECTIONS) != 0:
        return math.nan
    dims = i64(forest, N_DIMS)
    total = 0.0
    for j in range(dims):
        total += math.log(f64(cell, dims + j) - f64(cell, j))
    return total


@exact_inlined
def holds(forest: int, cell: int, z: int) -> bool:
    """Tell whether a cell holds a point. Cells are closed above and open below."""
    dims = i64(forest, N_DIMS)
    for j in range(dims):
        if not f64(cell, j) < f64(z, j) <= f64(cell, dims + j):
            return False
    return True


@exact_inlined
def copy_root_cell(forest: int, tree: int, cell: int) -> None:
    """Write the cell of a tree's root."""
    for j in range(2 * i64(forest, N_DIMS)):
        put_f64(cell, j, f64(tree, CORNERS + j))


@exact_inlined
def clip(forest: int, cell: int, dim: int, place: float, right: bool) -> None:
    """Turn a cell into its part on one side of a cut."""
    put_f64(cell, dim if right else i64(forest, N_DIMS) + dim, place)


@exact_kernel
def open_node(forest: int, key: int, began: float) -> int:
    """Store a node for the cell on the way and draw its cut; there has to be room."""
    node = i64(forest, N_NODES)
    put_i64(forest, N_NODES, node + 1)
    row, cell = node_at(forest, node), i64(forest, CELL)
    time, dim, place = cut_of(forest, cell, key, began)
    put_i64(row, KEY, key)
    put_f64(row, TIME, time)
    put_i64(row, DIM, dim)
    put_f64(row, PLACE, place)
    put_i64(row, LEFT, NONE)
    put_i64(row, RIGHT, NONE)
    put_i64(row, COUNT, np.int64(0))
    put_f64(row, LOG_VOLUME, log_volume(forest, cell))
    return node


@exact_kernel
def latest_face(forest: int, key: int, began: float) -> tuple[float, int, float]:
    """Return when the face that was cut last was cut, which it is, and how far it was before.

    Faces are numbered 2 dim, the lower, and 2 dim + 1.
    """
    faces = 2 * i64(forest, N_DIMS)
    time = began * uniform(key, DRAW_TIME) ** (1.0 / faces)
    face = min(np.int64(uniform(key, DRAW_DIM) * faces), faces - 1)
    return time, face, exponential(key, DRAW_REACH, time)


@exact_inlined
def push_back(forest: int, cell: int, face: int, reach: float) -> float:
    """Move a face of a cell outwards; returns where it was."""
    dim = face >> 1
    if face & 1:
        j = i64(forest, N_DIMS) + dim
        old = f64(cell, j)
        put_f64(cell, j, beyond(old, reach))
    else:
        old = f64(cell, dim)
        put_f64(cell, dim, -beyond(-old, reach))
    return old


@exact_kernel
def climb(forest: int, tree: int, z: int) -> bool:
    """Extend a tree back in time until its root's cell holds a point; False if room is short."""
    cell = tree + 8 * CORNERS
    while not holds(forest, cell, z):
        node = i64(forest, N_NODES)
        if node >= i64(forest, NODE_CAPACITY):
            return False
        put_i64(forest, N_NODES, node + 1)
        key = i64(tree, KEY_ABOVE)
        time, face, reach = latest_face(forest, key, f64(tree, BEGAN))
        row = node_at(forest, node)
        put_i64(row, KEY, key)
        put_f64(row, TIME, time)
        put_i64(row, DIM, face >> 1)
        put_f64(row, PLACE, push_back(forest, cell, face, reach))
        put_i64(row, LEFT, i64(tree, ROOT) if face & 1 else np.int64(NONE))
        put_i64(row, RIGHT, np.int64(NONE) if face & 1 else i64(tree, ROOT))
        put_i64(row, COUNT, np.int64(0))
        put_f64(row, LOG_VOLUME, math.nan)
        put_i64(tree, ROOT, node)
        put_f64(tree, BEGAN, time)
        put_i64(tree, KEY_ABOVE, derived(key, ABOVE_KEY))
    return True


@exact_inlined
def plant(forest: int, tree: int, z: int) -> bool:
    """Begin a tree with the cell of its first sample; False if room is short."""
    if i64(forest, N_NODES) >= i64(forest, NODE_CAPACITY):
        return False
    dims, key, rate = i64(forest, N_DIMS), i64(tree, KEY_ABOVE), f64(tree, LIFETIME)
    for j in range(dims):
        value = f64(z, j)
        below = exponential(key, PER_DIM + 3 * j, rate)
        above = exponential(key, PER_DIM + 3 * j + 1, rate)
        put_f64(tree, CORNERS + j, -beyond(-value, below))
        put_f64(tree, CORNERS + dims + j, beyond(value, above))
    copy_root_cell(forest, tree, i64(forest, CELL))
    put_f64(tree, BEGAN, rate)
    put_i64(tree, ROOT, open_node(forest, derived(key, LEFT_KEY), rate))
    put_i64(tree, KEY_ABOVE, derived(key, ABOVE_KEY))
    return True


@exact_kernel
def child_of(forest: int, row: int, right: bool) -> int:
    """Return a node's child on one side, stored if need be; the cell on the way is the child's."""
    slot = RIGHT if right else LEFT
    if i64(row, slot) == NONE:
        key = derived(i64(row, KEY), RIGHT_KEY if right else LEFT_KEY)
        put_i64(row, slot, open_node(forest, key, f64(row, TIME)))
    return i64(row, slot)


@exact_kernel
def divide(forest: int, t: int, row: int) -> None:
    """Cut the leaf on the way, hand its samples to its children; there has to be room for two."""
    dims, cell = i64(forest, N_DIMS), i64(forest, CELL)
    point, dim, place = i64(row, LEFT), i64(row, DIM), f64(row, PLACE)
    lower, upper = f64(cell, dim), f64(cell, dims + dim)
    put_i64(row, LEFT, NONE)
    put_i64(row, COUNT, np.int64(0))
    while point != NONE:
        link = link_at(forest, point, t)
        following = i32(link, 0)
        right = f64(lift_stored(forest, t, point), dim) > place
        clip(forest, cell, dim, place, right)
        child = node_at(forest, child_of(forest, row, right))
        put_f64(cell, dim, lower)
        put_f64(cell, dims + dim, upper)
        put_i32(link, 0, i64(child, LEFT))
        put_i64(child, LEFT, point)
        put_i64(child, COUNT, i64(child, COUNT) + 1)
        point = following


@exact_kernel
def enter(forest: int, t: int, z: int) -> bool:
    """Count a point in its leaf of a tree; False, and nothing counted, if room is short."""
    tree = tree_at(forest, t)
    if i64(tree, ROOT) == NONE and not plant(forest, tree, z):
        return False
    if not climb(forest, tree, z):
        return False
    lifetime = f64(tree, LIFETIME)
    row = node_at(forest, i64(tree, ROOT))
    # Most samples fall into leaves that are there: no cell is needed on the way to those.
    while f64(row, TIME) <= lifetime and i64(row, COUNT) == 0:
        child = i64(row, RIGHT if f64(z, i64(row, DIM)) > f64(row, PLACE) else LEFT)
        if child == NONE:
            break
        row = node_at(forest, child)
    if f64(row, TIME) <= lifetime:
        cell = i64(forest, CELL)
        copy_root_cell(forest, tree, cell)
        row = node_at(forest, i64(tree, ROOT))
        while f64(row, TIME) <= lifetime:
            if i64(forest, N_NODES) + 2 > i64(forest, NODE_CAPACITY):
                return False
            if i64(row, COUNT) > 0:
                divide(forest, t, row)
            right = f64(z, i64(row, DIM)) > f64(row, PLACE)
            clip(forest, cell, i64(row, DIM), f64(row, PLACE), right)
            row = node_at(forest, child_of(forest, row, right))
    put_i64(row, COUNT, i64(row, COUNT) + 1)
    if i64(forest, STORES):
        point = i64(forest, N_POINTS)
        put_i32(link_at(forest, point, t), 0, i64(row, LEFT))
        put_i64(row, LEFT, point)
    return True


@exact_inlined
def bad_place(forest: int, x: int) -> int:
    """Return the place of the first value that is not finite in single precision, or `NONE`."""
    for j in range(i64(forest, N_INPUTS)):
        if math.fabs(f64(x, j)) > LARGEST:
            return j
    return NONE


@exact_inlined
def fill(forest: int, x: int, learn: bool) -> None:
    """Put the means so far in for missing values, and let the means learn the others."""
    n = i64(forest, N_INPUTS)
    means = i64(forest, MEANS)
    for j in range(n):
        value = f64(x, j)
        if value != value:
            put_f64(x, j, f64(means, j))
        elif learn:
            count = f64(means, n + j) + 1.0
            put_f64(means, n + j, count)
            put_f64(means, j, f64(means, j) * (1.0 - 1.0 / count) + value / count)


@exact_kernel
def learn_rows(forest: int, x: int, n: int, lifetimes: int) -> int:
    """Learn rows of `N_INPUTS` values; NaN is missing, and its place is filled.

    Each row has its lifetime at `lifetimes`, or the trees keep their own (0). Returns the number
    of rows learned: fewer than `n` where room is short, and then the row that follows is to be
    the first of the next call; or -1 - place of a bad input, of whose row nothing is learned.
    """
    for i in range(n):
        row = x + 8 * i * i64(forest, N_INPUTS)
        bad = bad_place(forest, row)
        if bad != NONE:
            return -1 - bad
        begun = i64(forest, NEXT_TREE)
        if i64(forest, STORES) and i64(forest, N_POINTS) >= i64(forest, POINT_CAPACITY):
            return i
        if begun == 0:
            fill(forest, row, True)
        if i64(forest, STORES):
            point = point_at(forest, i64(forest, N_POINTS))
            for j in range(i64(forest, N_INPUTS)):
                put_f64(point, j, f64(row, j))
        for t in range(max(begun - 1, np.int64(0)), i64(forest, N_TREES)):
            if lifetimes != 0:
                put_f64(tree_at(forest, t), LIFETIME, f64(lifetimes, i))
            if not enter(forest, t, lift(forest, t, row, i64(forest, LIFTED))):
                put_i64(forest, NEXT_TREE, t + 1)
                return i
        put_i64(forest, NEXT_TREE, np.int64(0))
        put_i64(forest, N_POINTS, i64(forest, N_POINTS) + i64(forest, STORES))
        put_i64(forest, N_SAMPLES, i64(forest, N_SAMPLES) + 1)
    return n


@exact_inlined
def count_in_cell(forest: int, t: int, point: int) -> int:
    """Return how many samples of a leaf's list are in the cell on the way."""
    count = np.int64(0)
    while point != NONE:
        if holds(forest, i64(forest, CELL), lift_stored(forest, t, point)):
            count += 1
        point = i32(link_at(forest, point, t), 0)
    return count


@exact_kernel
def reveal(forest: int, t: int, z: int) -> int:
    """Write the cell of a tree that holds a point to the cell on the way; returns its count.

    Nothing is stored.
    """
    tree, cell = tree_at(forest, t), i64(forest, CELL)
    lifetime = f64(tree, LIFETIME)
    point = np.int64(NONE)
    copy_root_cell(forest, tree, cell)
    if holds(forest, cell, z):
        node = i64(tree, ROOT)
        key, began = np.int64(0), 0.0
        while node != NONE:
            row = node_at(forest, node)
            count, dim, place = i64(row, COUNT), i64(row, DIM), f64(row, PLACE)
            if f64(row, TIME) > lifetime:
                return count
            right = f64(z, dim) > place
            clip(forest, cell, dim, place, right)
            key = derived(i64(row, KEY), RIGHT_KEY if right else LEFT_KEY)
            began = f64(row, TIME)
            if count > 0:
                point = i64(row, LEFT)
                break
            node = i64(row, RIGHT if right else LEFT)
    else:
        key, began = i64(tree, KEY_ABOVE), f64(tree, BEGAN)
        while True:
            began, face, reach = latest_face(forest, key, began)
            place = push_back(forest, cell, face, reach)
            if holds(forest, cell, z):
                break
            key = derived(key, ABOVE_KEY)
        clip(forest, cell, face >> 1, place, face & 1 == 1)
        key = derived(key, RIGHT_KEY if face & 1 else LEFT_KEY)
    while True:
        began, dim, place = cut_of(forest, cell, key, began)
        if began > lifetime:
            break
        right = f64(z, dim) > place
        clip(forest, cell, dim, place, right)
        key = derived(key, RIGHT_KEY if right else LEFT_KEY)
    return count_in_cell(forest, t, point)


@exact_inlined
def look(forest: int, t: int, z: int, out: int) -> None:
    """Write the number of samples in a point's cell of a tree, and the log of its volume.

    Where the count is 0 the volume is written for the Laplace estimator only.
    """
    tree = tree_at(forest, t)
    lifetime = f64(tree, LIFETIME)
    put_f64(out, 0, 0.0)
    put_f64(out, 1, 0.0)
    if holds(forest, tree + 8 * CORNERS, z):
        row = node_at(forest, i64(tree, ROOT))
        while f64(row, TIME) <= lifetime and i64(row, COUNT) == 0:
            child = i64(row, RIGHT if f64(z, i64(row, DIM)) > f64(row, PLACE) else LEFT)
            if child == NONE:
                break
            row = node_at(forest, child)
        if f64(row, TIME) > lifetime and f64(row, LOG_VOLUME) == f64(row, LOG_VOLUME):
            put_f64(out, 0, np.float64(i64(row, COUNT)))
            put_f64(out, 1, f64(row, LOG_VOLUME))
            return
        empty = f64(row, TIME) <= lifetime and i64(row, COUNT) == 0
    else:
        empty = True
    if empty and i64(forest, ESTIMATOR) != LAPLACE:
        return
    put_f64(out, 0, np.float64(reveal(forest, t, z)))
    put_f64(out, 1, log_volume(forest, i64(forest, CELL)))


@exact_inlined
def mean_density(forest: int, parts: int) -> float:
    """Return the log of the density, by the count and the log of the volume in each tree."""
    trees, laplace = i64(forest, N_TREES), i64(forest, ESTIMATOR) == LAPLACE
    largest, counts = -math.inf, 0.0
    for t in range(trees):
        count, volume = f64(parts, 2 * t), f64(parts, 2 * t + 1)
        counts += count
        if laplace:
            largest = max(largest, volume)
        elif count > 0.0:
            largest = max(largest, math.log(count) - volume)
    if counts == 0.0:
        return -math.inf
    total = 0.0
    for t in range(trees):
        count, volume = f64(parts, 2 * t), f64(parts, 2 * t + 1)
        if laplace:
            total += math.exp(volume - largest)
        elif count > 0.0:
            total += count * math.exp(-volume - largest)
    n = np.float64(i64(forest, N_SAMPLES))
    if laplace:
        return math.log(counts / n) - largest - math.log(total)
    return largest + math.log(total / (n * np.float64(trees)))


@exact_kernel
def last_held(forest: int, t: int, z: int) -> None:
    """Write the last cell on the way to a point that holds samples to the cell on the way.

    It is that of the lifetime until which the tree does not part the point from all samples.
    """
    tree, cell, dims = tree_at(forest, t), i64(forest, CELL), i64(forest, N_DIMS)
    lifetime = f64(tree, LIFETIME)
    copy_root_cell(forest, tree, cell)
    if holds(forest, cell, z):
        row = node_at(forest, i64(tree, ROOT))
        while f64(row, TIME) <= lifetime and i64(row, COUNT) == 0:
            right = f64(z, i64(row, DIM)) > f64(row, PLACE)
            child = i64(row, RIGHT if right else LEFT)
            if child == NONE:
                return
            clip(forest, cell, i64(row, DIM), f64(row, PLACE), right)
            row = node_at(forest, child)
        # A leaf: cut it, where its time has come, as long as it holds samples.
        key, time, dim, place = i64(row, KEY), f64(row, TIME), i64(row, DIM), f64(row, PLACE)
        while time <= lifetime:
            right = f64(z, dim) > place
            j = dim if right else dims + dim
            old = f64(cell, j)
            put_f64(cell, j, place)
            if count_in_cell(forest, t, i64(row, LEFT)) == 0:
                put_f64(cell, j, old)
                return
            key = derived(key, RIGHT_KEY if right else LEFT_KEY)
            time, dim, place = cut_of(forest, cell, key, time)
        return
    key, began = i64(tree, KEY_ABOVE), f64(tree, BEGAN)
    while not holds(forest, cell, z):
        began, face, reach = latest_face(forest, key, began)
        push_back(forest, cell, face, reach)
        key = derived(key, ABOVE_KEY)


@exact_kernel
def log_densities(forest: int, x: int, n: int, floored: bool, parts: int, out: int) -> int:
    """Write the logarithms of the density at rows of `N_INPUTS` values, whose gaps are filled.

    Where it is 0 and to be `floored`, each tree's last cell that holds samples counts as if it
    held one. `parts` is room for two reals per tree. Returns -1, or the place of a bad input.
    """
    for i in range(n):
        row = x + 8 * i * i64(forest, N_INPUTS)
        bad = bad_place(forest, row)
        if bad != NONE:
            return bad
        fill(forest, row, False)
        for t in range(i64(forest, N_TREES)):
            look(forest, t, row, parts + 16 * t)
            if i64(forest, ESTIMATOR) == KERNEL:
                # The mean of a side is 2 / lifetime (Equation 16).
                log_side = math.log(2.0 / f64(tree_at(forest, t), LIFETIME))
                put_f64(parts + 16 * t, 1, np.float64(i64(forest, N_DIMS)) * log_side)
        found = mean_density(forest, parts)
        if floored and found == -math.inf:
            for t in range(i64(forest, N_TREES)):
                last_held(forest, t, row)
                put_f64(parts + 16 * t, 0, 1.0)
                put_f64(parts + 16 * t, 1, log_volume(forest, i64(forest, CELL)))
            found = mean_density(forest, parts)
        put_f64(out, i, found)
    return NONE


@exact_kernel
def lift_one(forest: int, t: int, x: int) -> int:
    """Fill a sample's gaps; returns the address of its values along a tree's directions."""
    fill(forest, x, False)
    return lift(forest, t, x, i64(forest, LIFTED))


@exact_kernel
def look_one(forest: int, t: int, z: int, out: int) -> None:
    """Do `look`; an oblique cell whose volume is not known is the cell on the way then."""
    look(forest, t, z, out)


@exact_kernel
def keep_volume(forest: int, t: int, z: int, log_volume: float) -> None:
    """Store the volume of the leaf of a tree in which a point falls, and which is there."""
    tree = tree_at(forest, t)
    row = node_at(forest, i64(tree, ROOT))
    while f64(row, TIME) <= f64(tree, LIFETIME):
        right = f64(z, i64(row, DIM)) > f64(row, PLACE)
        row = node_at(forest, i64(row, RIGHT if right else LEFT))
    put_f64(row, LOG_VOLUME, log_volume)


@exact_kernel
def combine(forest: int, parts: int) -> float:
    """Return the log of the density, by the count and the log of the volume in each tree."""
    return mean_density(forest, parts)


@exact_kernel
def add_dim(forest: int, t: int, value: float, sides: int, write: bool) -> int:
    """Extend a tree by a dimension in which all of its samples have one value.

    The tree is the slice of a Mondrian of one dimension more: in that, cells are cut in the new
    dimension, too, at the rate of their side there. On the slice each such cut leaves the cell
    whole, so that it is a node above with one empty child.

    Parameters
    ----------
    forest
        Address of the forest's record; its number of dimensions is that from before.
    t
        Number of the tree.
    value
        The samples' value.
    sides
        Where to write the lower and the upper end of the root's cell in the new dimension.
    write
        Whether to change the tree, which takes room. The draws are the same without.

    Returns
    -------
    Number of nodes that are stored, or have to be.

    """
    tree, dim = tree_at(forest, t), i64(forest, N_DIMS)
    if i64(tree, ROOT) == NONE:
        return 0
    lifetime, above, before = f64(tree, LIFETIME), i64(tree, KEY_ABOVE), f64(tree, BEGAN)
    first = PER_DIM + 3 * dim
    put_f64(sides, 0, -beyond(-value, exponential(above, first, before)))
    put_f64(sides, 1, beyond(value, exponential(above, first + 1, before)))
    n_new = np.int64(0)
    # Nodes to extend: the node, the word that refers to it, when it began, its side.
    numbers = np.empty((i64(forest, N_NODES) + 1, 2), dtype=np.int64)
    reals = np.empty((i64(forest, N_NODES) + 1, 3), dtype=np.float64)
    numbers[0, 0], numbers[0, 1] = i64(tree, ROOT), tree + 8 * ROOT
    reals[0, 0], reals[0, 1], reals[0, 2] = before, f64(sides, 0), f64(sides, 1)
    size = 1
    while size > 0:
        size -= 1
        node, holder = numbers[size, 0], numbers[size, 1]
        began, lower, upper = reals[size, 0], reals[size, 1], reals[size, 2]
        row = node_at(forest, node)
        is_leaf = i64(row, COUNT) > 0
        key = derived(i64(row, KEY), first + 2)
        while True:
            time = began + exponential(key, DRAW_TIME, side(lower, upper))
            if time >= f64(row, TIME):
                break
            place = between(lower, upper, uniform(key, DRAW_PLACE))
            if is_leaf and time > lifetime:
                if write:
                    put_f64(row, TIME, time)
                    put_i64(row, DIM, dim)
                    put_f64(row, PLACE, place)
                break
            right = value > place
            if write:
                added = i64(forest, N_NODES)
                put_i64(forest, N_NODES, added + 1)
                put_i64(holder, 0, added)
                new = node_at(forest, added)
                put_i64(new, KEY, key)
                put_f64(new, TIME, time)
                put_i64(new, DIM, dim)
                put_f64(new, PLACE, place)
                put_i64(new, LEFT, np.int64(NONE) if right else node)
                put_i64(new, RIGHT, node if right else np.int64(NONE))
                put_i64(new, COUNT, np.int64(0))
                put_f64(new, LOG_VOLUME, math.nan)
                holder = new + 8 * (RIGHT if right else LEFT)
            n_new += 1
            began = time
            if right:
                lower = place
            else:
                upper = place
            key = derived(key, NEXT_KEY)
        if is_leaf:
            if write:
                put_f64(row, LOG_VOLUME, f64(row, LOG_VOLUME) + math.log(upper - lower))
            continue
        for slot in (LEFT, RIGHT):
            if i64(row, slot) != NONE:
                numbers[size, 0], numbers[size, 1] = i64(row, slot), row + 8 * slot
                reals[size, 0], reals[size, 1], reals[size, 2] = f64(row, TIME), lower, upper
                size += 1
    return n_new
