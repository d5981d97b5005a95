"""When widths are looked at, what is found, and how far the trees are on their way, in plain loops.

Numbers of samples and inputs decide, and nothing else.
"""

from __future__ import annotations

import math

from .ranges import robust_range

WARM_UP = 256
LOOKED_AT = 256
FENCE = 10.0
FACTOR = 2.0
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


def n_telling(column):
    """Return how many values tell the range: those other than one that both quartiles are."""
    values = sorted(value for value in column if not math.isnan(value))
    if not values:
        return 0

    def quantile(rate):
        place = rate * (len(values) - 1)
        first = math.floor(place)
        second = min(first + 1, len(values) - 1)
        return values[first] + (place - first) * (values[second] - values[first])

    if quantile(0.25) < quantile(0.75):
        return len(values)
    return sum(value != quantile(0.25) for value in values)


def found_widths(rows, widths, fence=FENCE):
    """Return the widths by samples of which most are recent; `widths` are those so far."""
    places = [int(len(rows) * math.sqrt((i + 0.5) / LOOKED_AT)) for i in range(LOOKED_AT)]
    found = []
    for column, old in zip(zip(*(rows[i] for i in places), strict=True), widths, strict=True):
        found.append(width_of(column, fence) if n_telling(column) >= EVIDENCE else old)
    return found


def history(rows, n_trees, fence=FENCE):
    """Return the widths of each tree after each sample of a stream, from the warm-up's end on."""
    widths = [width_of(column, fence) for column in zip(*rows[:WARM_UP], strict=True)]
    of_trees = [widths] * n_trees
    target, turn, taken, next_look, begun = None, 0, 0, math.ceil(LOOK_RATIO * WARM_UP), 0
    told = [list(of_trees)]
    for n in range(WARM_UP, len(rows)):
        if n >= next_look:
            found = found_widths(rows[:n], widths, fence)
            if any(max(a / b, b / a) > FACTOR for a, b in zip(found, widths, strict=True)):
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
