"""When widths are looked at, what is found, and how far the trees are on their way, in plain loops.

Numbers of samples and inputs decide, and nothing else.
"""

from __future__ import annotations

import math

from .ranges import quantile, robust_range

WARM_UP = 256
LOOKED_AT = 256
FENCE, NEAR_FENCE = 100.0, 10.0
FACTOR, FACTOR_OF_SPREAD = 2.0, 1.7
EVIDENCE = 8
LOOK_RATIO = 1.5
RENEWAL_RATIO = 1.5
POINTS_PER_SAMPLE_AND_TREE = 4
SETTLED_PER_SAMPLE = 64


def width_of(column, fence):
    """Return what a feature is divided by: its robust range, its size where it has not moved."""
    low, high = robust_range(column, fence)
    if math.isnan(low):
        return 1.0
    return (high - low) or abs(low) or 1.0


def telling(column):
    """Return the values that tell the range: those other than one that both quartiles are."""
    values = [value for value in column if not math.isnan(value)]
    if not values or quantile(values, 0.25) < quantile(values, 0.75):
        return values
    commonest = quantile(values, 0.25)
    return [value for value in values if value != commonest]


def spread_of(values):
    """Return the interquartile range, 0 of none."""
    return quantile(values, 0.75) - quantile(values, 0.25) if values else 0.0


def looked_at(rows):
    """Return the columns of samples of which most are recent."""
    places = [int(len(rows) * math.sqrt((i + 0.5) / LOOKED_AT)) for i in range(LOOKED_AT)]
    return list(zip(*(rows[i] for i in places), strict=True))


def differ(one, other, factor):
    """Tell whether one of two numbers is more than so many times the other."""
    return one > factor * other or other > factor * one


def found_widths(rows, widths, n_before):
    """Return the widths by the latest samples where those so far do not hold any more, else those.

    `widths` are those so far, which were found when there were `n_before` samples.
    """
    found = []
    columns = zip(looked_at(rows), looked_at(rows[:n_before]), widths, strict=True)
    for column, column_before, old in columns:
        values, before = telling(column), telling(column_before)
        spread, spread_before = spread_of(values), spread_of(before)
        is_known = len(before) >= EVIDENCE and max(spread, spread_before) > 0.0
        has_shrunk = is_known and spread_before > FACTOR_OF_SPREAD * spread
        new = width_of(column, NEAR_FENCE if has_shrunk else FENCE)
        is_over = len(values) >= EVIDENCE and differ(new, old, FACTOR)
        if is_known:
            is_over = is_over and differ(spread, spread_before, FACTOR_OF_SPREAD)
        found.append(new if is_over else old)
    return found


def history(rows, n_trees):
    """Return the widths of each tree after each sample of a stream, from the warm-up's end on."""
    widths = [width_of(column, FENCE) for column in zip(*rows[:WARM_UP], strict=True)]
    of_trees = [widths] * n_trees
    target, turn, taken, next_look, begun = None, 0, 0, math.ceil(LOOK_RATIO * WARM_UP), 0
    told = [list(of_trees)]
    for n in range(WARM_UP, len(rows)):
        if n >= next_look:
            found = found_widths(rows[:n], widths, begun or WARM_UP)
            if found != widths:
                target, turn, taken, next_look, begun = found, 0, 0, math.inf, n
            else:
                next_look = n + math.ceil((LOOK_RATIO - 1.0) * n)
        learned = n + 1
        if target is not None and turn < n_trees:
            taken = min(taken + POINTS_PER_SAMPLE_AND_TREE * n_trees, learned)
            if taken == learned:
                of_trees = [*of_trees[:turn], target, *of_trees[turn + 1 :]]
                turn, taken = turn + 1, 0
        elif target is not None:
            taken = min(taken + SETTLED_PER_SAMPLE, learned)
            if taken == learned:
                next_look = max(learned, int(RENEWAL_RATIO * begun))
                widths, target = target, None
        told.append(list(of_trees))
    return told
