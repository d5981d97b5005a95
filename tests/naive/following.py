"""Widths of features under drift, in plain loops: when widths are checked and renewed.

Widths depend only on the inputs and the number of samples.
"""

import math
from collections import Counter

from .ranges import quantile, robust_range

WARM_UP = 256
N_CHECKED, N_MEASURED = 256, 1024
FENCE, NEAR_FENCE = 100.0, 10.0
FACTOR, FACTOR_OF_SPREAD = 2.0, 1.7
EVIDENCE = 1 / 32
CHECK_RATIO = 1.5
RENEWAL_RATIO = 1.5
POINTS_PER_SAMPLE_AND_TREE = 4


def width_of(column, fence):
    """Return the robust range of a feature, the absolute value of a constant, or else 1."""
    low, high = robust_range(column, fence)
    if math.isnan(low):
        return 1.0
    return (high - low) or abs(low) or 1.0


def telling(column):
    """Return the informative values: all except a value that more than half of the values have."""
    values = [value for value in column if not math.isnan(value)]
    many = {value for value, count in Counter(values).items() if 2 * count > len(values)}
    return [value for value in values if value not in many]


def spread_of(values):
    """Return the interquartile range, or 0 without values."""
    return quantile(values, 0.75) - quantile(values, 0.25) if values else 0.0


def looked_at(rows, count):
    """Return the columns of `count` samples, which include more of the recent samples."""
    places = [int(len(rows) * math.sqrt((i + 0.5) / count)) for i in range(count)]
    return list(zip(*(rows[i] for i in places), strict=True))


def differ(one, other, factor):
    """Return whether one of two numbers is more than `factor` times the other."""
    return one > factor * other or other > factor * one


def found_by(rows, widths, n_before, count):
    """Return each feature's width from `count` samples, and whether the old width is obsolete."""
    found = []
    columns = looked_at(rows, count), looked_at(rows[:n_before], count)
    for column, column_before, old in zip(*columns, widths, strict=True):
        values, before = telling(column), telling(column_before)
        spread, spread_before = spread_of(values), spread_of(before)
        is_known = len(before) >= EVIDENCE * count and max(spread, spread_before) > 0.0
        has_shrunk = is_known and spread_before > FACTOR_OF_SPREAD * spread
        new = width_of(column, NEAR_FENCE if has_shrunk else FENCE)
        has_changed = differ(spread, spread_before, FACTOR_OF_SPREAD)
        is_over = differ(new, old, FACTOR) and (has_changed or not is_known)
        is_told = len(values) >= EVIDENCE * count
        is_new = is_told and (is_over or new > FACTOR * old)
        found.append((new if is_new else old, is_told and is_over))
    return found


def found_widths(rows, widths, n_before):
    """Return new widths if at least one of `widths` is obsolete, and otherwise `widths`.

    The old widths `widths` were computed from `n_before` samples.
    """
    if not any(is_over for _, is_over in found_by(rows, widths, n_before, N_CHECKED)):
        return widths
    return [new for new, _ in found_by(rows, widths, n_before, N_MEASURED)]


def history(rows, n_trees):
    """Return the widths of each tree after each sample of a stream, after the warm-up."""
    widths = [width_of(column, FENCE) for column in zip(*rows[:WARM_UP], strict=True)]
    of_trees = [widths] * n_trees
    target, turn, taken, next_check, begun = None, 0, 0, math.ceil(CHECK_RATIO * WARM_UP), 0
    told = [list(of_trees)]
    for n in range(WARM_UP, len(rows)):
        if n >= next_check:
            found = found_widths(rows[:n], widths, begun or WARM_UP)
            if found != widths:
                target, turn, taken, next_check, begun = found, 0, 0, math.inf, n
            else:
                next_check = n + math.ceil((CHECK_RATIO - 1.0) * n)
        learned = n + 1
        if target is not None:
            taken = min(taken + POINTS_PER_SAMPLE_AND_TREE * n_trees, learned)
            if taken == learned:
                of_trees = [*of_trees[:turn], target, *of_trees[turn + 1 :]]
                turn, taken = turn + 1, 0
            if turn == n_trees:
                next_check = max(learned, int(RENEWAL_RATIO * begun))
                widths, target = target, None
        told.append(list(of_trees))
    return told
