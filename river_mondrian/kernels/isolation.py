"""Trees that isolate each of a few points: their growth, and the walk to a sample's cell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from . import maps
from .memory import exact_inlined, exact_kernel, f32, f64, i32, i64, put_f32, put_i32

# Words of the record. A tree has room for `n_cells` - 1 nodes of four words: the feature, the cut
# (float32), and what lies at or below the cut and above it: a node's number, or ~column.
FACTORS = maps.OWN
ROW = maps.OWN + 1
NODES = maps.OWN + 2
N_CELLS = maps.OWN + 3
N_WORDS = 4

FEATURE = 0
CUT = 1
LEFT = 2
RIGHT = 3
NODE_WIDTH = 4


@exact_kernel
def grow(
    starts: NDArray[np.int64],
    places: NDArray[np.int32],
    values: NDArray[np.float32],
    members: NDArray[np.int64],
    draws: NDArray[np.float64],
    nodes: NDArray[np.int32],
    cuts: NDArray[np.float32],
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    count: NDArray[np.int64],
    first_column: int,
) -> int:
    """Isolate points of a CSR matrix by cuts parallel to the axes (section 4.1).

    The feature is drawn from those in which the points of a node differ, the cut uniformly from
    their range. Points that differ in nothing share the cell of the first of them. Without any cut
    the tree's first node sends both sides to that cell.

    Parameters
    ----------
    starts, places, values
        The matrix; rows are sorted by place.
    members
        Rows of the points, which are numbered in this order.
    draws
        Uniform draws, two per possible cut.
    nodes, cuts
        The tree's nodes as integers, and the same memory as float32.
    low, high, count
        Room per feature; `count` is zero.
    first_column
        Column of the first point's cell.

    Returns
    -------
    The number of entries that have been looked at.

    """
    n = len(members)
    order = np.arange(n)
    right_side = np.empty(n, dtype=np.int64)
    met = np.empty(len(count), dtype=np.int64)
    stack = np.empty((n + 1, 3), dtype=np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, n, -1
    depth, n_nodes, looks, k = 1, 0, 0, 0
    while depth > 0:
        depth -= 1
        begin, end, link = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        size = end - begin
        n_met = 0
        if size > 1:
            for i in range(begin, end):
                m = members[order[i]]
                for e in range(starts[m], starts[m + 1]):
                    place, value = places[e], values[e]
                    if count[place] == 0:
                        met[n_met] = place
                        n_met += 1
                        low[place] = high[place] = value
                    low[place] = min(low[place], value)
                    high[place] = max(high[place], value)
                    count[place] += 1
                looks += starts[m + 1] - starts[m]
        n_varying = 0
        for q in range(n_met):
            place = met[q]
            if count[place] < size:
                low[place] = min(low[place], np.float32(0.0))
                high[place] = max(high[place], np.float32(0.0))
            count[place] = 0
            if low[place] < high[place]:
                met[n_varying] = place
                n_varying += 1
        if n_varying == 0:
            leaf = ~(first_column + order[begin])
            if link >= 0:
                nodes[link] = leaf
            else:
                nodes[FEATURE], cuts[CUT] = 0, np.float32(0.0)
                nodes[LEFT] = nodes[RIGHT] = leaf
            continue
        feature = met[min(int(draws[k] * n_varying), n_varying - 1)]
        lower, upper = low[feature], high[feature]
        cut = np.float32(lower + draws[k + 1] * (np.float64(upper) - np.float64(lower)))
        k += 2
        if not lower <= cut < upper:
            cut = lower
        node = n_nodes * NODE_WIDTH
        nodes[node + FEATURE], cuts[node + CUT] = feature, cut
        if link >= 0:
            nodes[link] = n_nodes
        n_nodes += 1
        kept, n_right = begin, 0
        for i in range(begin, end):
            m = members[order[i]]
            value = np.float32(0.0)
            for e in range(starts[m], starts[m + 1]):
                if places[e] == feature:
                    value = values[e]
                    break
            if value <= cut:
                order[kept] = order[i]
                kept += 1
            else:
                right_side[n_right] = order[i]
                n_right += 1
        for i in range(n_right):
            order[kept + i] = right_side[i]
        stack[depth, 0], stack[depth, 1], stack[depth, 2] = kept, end, node + RIGHT
        stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = begin, kept, node + LEFT
        depth += 2
    return looks


@exact_inlined
def walk(record: int, row: int, out: int) -> None:
    """Walk a row down every tree."""
    n_cells = i64(record, N_CELLS)
    stride = 4 * NODE_WIDTH * max(np.int64(1), n_cells - 1)
    tree = i64(record, NODES)
    for i in range(i64(record, maps.N_OUT)):
        number = np.int64(0)
        while number >= 0:
            node = tree + 4 * NODE_WIDTH * number
            side = LEFT if f32(row, i32(node, FEATURE)) <= f32(node, CUT) else RIGHT
            number = i32(node, side)
        put_i32(out, i, ~number)
        tree += stride


def walk_vector(record: int, x: int, out: int) -> int:
    """Map a vector."""
    row = i64(record, ROW)
    bad = maps.read_vector(record, x, i64(record, FACTORS), row)
    if bad < 0:
        walk(record, row, out)
    return bad


def walk_entries(record: int, x: int, out: int) -> int:
    """Map a sparse sample; the row of all features is zero before and after."""
    bad = maps.bad_entry(record, x)
    if bad >= 0:
        return bad
    row, factors = i64(record, ROW), i64(record, FACTORS)
    places, values = i64(x, maps.PLACES), i64(x, maps.VALUES)
    n = i64(record, maps.N_INPUTS)
    for e in range(i64(x, maps.ENTRIES)):
        place, value = i32(places, e), f64(values, e)
        if 0 <= place < n and value == value:
            put_f32(row, place, maps.scaled(value, f64(factors, place)))
    walk(record, row, out)
    for e in range(i64(x, maps.ENTRIES)):
        if 0 <= i32(places, e) < n:
            put_f32(row, i32(places, e), 0.0)
    return -1
