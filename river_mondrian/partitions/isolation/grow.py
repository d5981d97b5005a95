"""The growth of isolation trees."""

from __future__ import annotations

import numpy as np

from ...compiling.kernels import exact_batch_kernel, exact_inlined
from .records import ABOVE, BELOW, Growth


@exact_inlined
def find_ranges(growth: Growth, begin: int, end: int) -> int:
    """Find the range of each feature that a part's points have; returns how many these are."""
    starts, places, values = growth.starts, growth.places, growth.values
    low, high, count, met = growth.low, growth.high, growth.count, growth.met
    n_met = 0
    for i in range(begin, end):
        m = growth.members[growth.order[i]]
        for e in range(starts[m], starts[m + 1]):
            place, value = places[e], values[e]
            if count[place] == 0:
                met[n_met] = place
                n_met += 1
                low[place] = value
                high[place] = value
            low[place] = min(low[place], value)
            high[place] = max(high[place], value)
            count[place] = count[place] + 1
        growth.n_visited += starts[m + 1] - starts[m]
    return n_met


@exact_inlined
def find_varying(growth: Growth, begin: int, end: int) -> int:
    """Write the features in which a part's points differ to `met`; returns how many these are."""
    size = end - begin
    if size <= 1:
        return 0
    n_met = find_ranges(growth, begin, end)
    low, high, count, met = growth.low, growth.high, growth.count, growth.met
    n_varying = 0
    for q in range(n_met):
        place = met[q]
        # Points without an entry are 0 there.
        if count[place] < size:
            low[place] = min(low[place], 0.0)
            high[place] = max(high[place], 0.0)
        count[place] = 0
        if low[place] < high[place]:
            met[n_varying] = place
            n_varying += 1
    return n_varying


@exact_inlined
def link(growth: Growth, parent: int, side: int, child: int) -> None:
    """Let a parent, if there is one, know its child."""
    if parent >= 0:
        growth.nodes[parent].children[side] = child


@exact_inlined
def end_part(growth: Growth, begin: int, parent: int, side: int) -> None:
    """Make a cell of a part, that of its first point."""
    leaf = ~(growth.first_column + growth.order[begin])
    if parent >= 0:
        link(growth, parent, side, leaf)
        return
    # Without any cut the first node sends both sides to the cell.
    only = growth.nodes[0]
    only.feature = 0
    only.cut = 0.0
    only.children[BELOW] = leaf
    only.children[ABOVE] = leaf


@exact_inlined
def draw_cut(growth: Growth, n_varying: int) -> int:
    """Make a node whose cut is drawn from the range of one of the features met."""
    k = growth.n_draws
    growth.n_draws = k + 2
    feature = growth.met[min(int(growth.draws[k] * n_varying), n_varying - 1)]
    lower, upper = growth.low[feature], growth.high[feature]
    cut: float = np.float64(np.float32(lower + growth.draws[k + 1] * (upper - lower)))
    # Rounding may reach the upper end, at which nothing would be above.
    if not lower <= cut < upper:
        cut = lower
    number = growth.n_nodes
    growth.n_nodes = number + 1
    node = growth.nodes[number]
    node.feature = feature
    node.cut = cut
    return number


@exact_inlined
def value_of(growth: Growth, m: int, feature: int) -> float:
    """Return the value of a feature in a row."""
    for e in range(growth.starts[m], growth.starts[m + 1]):
        if growth.places[e] == feature:
            return growth.values[e]
    return 0.0


@exact_inlined
def split(growth: Growth, begin: int, end: int, number: int) -> int:
    """Bring the points below a cut before those above; returns where the latter begin."""
    order, above, node = growth.order, growth.above, growth.nodes[number]
    kept, n_above = begin, 0
    for i in range(begin, end):
        point = order[i]
        if value_of(growth, growth.members[point], node.feature) <= node.cut:
            order[kept] = point
            kept += 1
        else:
            above[n_above] = point
            n_above += 1
    for i in range(n_above):
        order[kept + i] = above[i]
    return kept


@exact_inlined
def put_part(growth: Growth, depth: int, begin: int, end: int, parent: int, side: int) -> None:
    """Write a part that is yet to be isolated."""
    part = growth.parts[depth]
    part.begin = begin
    part.end = end
    part.parent = parent
    part.side = side


@exact_inlined
def begin_tree(growth: Growth, tree: int) -> None:
    """Turn to a tree, of which there is nothing yet."""
    n, n_nodes = growth.n_members, max(1, growth.n_members - 1)
    growth.draws = growth.all_draws.part(2 * n * tree, 2 * n)
    growth.nodes = growth.all_nodes.part(n_nodes * tree, n_nodes)
    growth.first_column = n * tree
    growth.n_draws = 0
    growth.n_nodes = 0
    for i in range(n):
        growth.members[i] = growth.all_members[growth.n_trees * i + tree]
        growth.order[i] = i


@exact_inlined
def grow(growth: Growth) -> None:
    """Isolate a tree's points by cuts parallel to the axes (section 4.1).

    The feature is drawn from those in which the points of a node differ, the cut uniformly from
    their range. Points that differ in nothing share the cell of the first of them.
    """
    put_part(growth, 0, 0, growth.n_members, -1, BELOW)
    depth = 1
    while depth > 0:
        depth -= 1
        part = growth.parts[depth]
        begin, end, parent, side = part.begin, part.end, part.parent, part.side
        n_varying = find_varying(growth, begin, end)
        if n_varying == 0:
            end_part(growth, begin, parent, side)
            continue
        number = draw_cut(growth, n_varying)
        link(growth, parent, side, number)
        middle = split(growth, begin, end, number)
        put_part(growth, depth, middle, end, number, ABOVE)
        put_part(growth, depth + 1, begin, middle, number, BELOW)
        depth += 2


@exact_batch_kernel
def grow_trees(growth: Growth, first: int, most: int) -> int:
    """Grow trees from one on, until `most` entries or points have been visited.

    Returns the first that has not been grown.
    """
    growth.n_visited = 0
    for tree in range(first, growth.n_trees):
        begin_tree(growth, tree)
        grow(growth)
        growth.n_visited += growth.n_members
        if growth.n_visited >= most:
            return tree + 1
    return growth.n_trees
