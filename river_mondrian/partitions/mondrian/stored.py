"""Which samples are stored: their numbers, their order of arrival, and which one is forgotten.

Points have the numbers 0, 1, ... without gaps. The last one takes the number of one that is
forgotten, and in a full window the new sample takes that of the oldest.
"""

from __future__ import annotations

import math

from ...compiling.kernels import helper, inlined, separate
from ...records import Float64s, Int32s
from ...status import TOO_LARGE
from .forgetting import LANES, find_in_trees, rename_point, room_of_descents, take_out
from .frames import clear_remainders, copy_remainders
from .records import NONE, STEADY, UNLIMITED, F, Forest
from .scaling import scale


@inlined
def clear_point(forest: Forest, p: int) -> None:
    """Overwrite what is kept of a point that no tree holds any more."""
    n_words = forest.links_word + forest.n_slots
    words = Int32s(forest.points.row(p), 0, n_words)
    for i in range(n_words):
        words[i] = 0
    if forest.raw_values:
        inputs = forest.raw_values.part(forest.input_capacity * p, forest.input_capacity)
        for d in range(forest.input_capacity):
            inputs[d] = math.nan


@inlined
def _let_follow(forest: Forest, older: int, newer: int) -> None:
    """Let a point follow another one in the order of arrival; NONE is before and after all."""
    if older == NONE:
        forest.first_arrival = newer
    else:
        forest.arrivals.row(older).newer = newer
    if newer == NONE:
        forest.last_arrival = older
    else:
        forest.arrivals.row(newer).older = older


@inlined
def add_arrival(forest: Forest, p: int) -> None:
    """Let a point be the latest in the order of arrival."""
    _let_follow(forest, forest.last_arrival, p)
    _let_follow(forest, p, NONE)


@inlined
def _drop_arrival(forest: Forest, p: int) -> None:
    """Take a point out of the order of arrival."""
    own = forest.arrivals.row(p)
    _let_follow(forest, own.older, own.newer)


@inlined
def _rename_arrival(forest: Forest, p: int, new: int) -> None:
    """Let a point have another number in the order of arrival."""
    own = forest.arrivals.row(p)
    older, newer = int(own.older), int(own.newer)
    _let_follow(forest, older, new)
    _let_follow(forest, new, newer)


@helper
def _move_to(forest: F, p: int, hole: int) -> None:
    """Let a point have the number of one that has been forgotten."""
    if p == hole:
        return
    n_words = forest.links_word + forest.n_slots
    words = Int32s(forest.points.row(p), 0, n_words)
    others = Int32s(forest.points.row(hole), 0, n_words)
    for i in range(n_words):
        others[i] = words[i]
    if forest.phase != STEADY and p < forest.n_moved:
        copy_remainders(forest, p, hole)
    if forest.raw_values:
        capacity = forest.input_capacity
        row = forest.raw_values.part(capacity * p, capacity)
        other = forest.raw_values.part(capacity * hole, capacity)
        for d in range(capacity):
            other[d] = row[d]
    if forest.window != UNLIMITED:
        _rename_arrival(forest, p, hole)
    for t in range(forest.n_holding(p)):
        rename_point(forest, t, p, hole)


@separate
def forget_in_trees(forest: F, p: int) -> None:
    """Take a stored point out of all trees that hold it, and out of the order of arrival."""
    descents = room_of_descents()
    n = forest.n_holding(p)
    for first in range(0, n, LANES):
        last = min(first + LANES, n)
        find_in_trees(forest, first, last, p, descents)
        for t in range(first, last):
            take_out(forest, t, p, descents[t - first].ref, descents[t - first].above)
    forest.forget_sample(p)
    if forest.window != UNLIMITED:
        _drop_arrival(forest, p)
    forest.n_forgotten = forest.n_forgotten + 1


@separate
def forget_stored(forest: F, p: int) -> None:
    """Forget a stored point; another one takes its number, so that numbers go on without gaps.

    While trees are drawn anew, those that have been taken come first, and those that have been
    moved: the last of either takes the place of the one that goes, and leaves its own to others.
    """
    forget_in_trees(forest, p)
    hole = p
    if forest.phase != STEADY:
        if hole < forest.taken:
            last = forest.taken - 1
            _move_to(forest, last, hole)
            forest.taken = last
            hole = last
        if hole < forest.n_moved:
            last = forest.n_moved - 1
            _move_to(forest, last, hole)
            clear_remainders(forest, last)
            forest.n_moved = last
            hole = last
    last = forest.n_points - 1
    _move_to(forest, last, hole)
    clear_point(forest, last)
    forest.n_points = last
    # It stays as it was when a renewal has ended.
    forest.n_moved = min(forest.n_moved, last)


@inlined
def next_point(forest: F, inputs: Float64s) -> int:
    """Return the number of the point that a sample of checked size will be.

    That is the next one; in a full window that of the oldest sample, which is forgotten by this.
    Returns `TOO_LARGE - i` where the i-th input is; nothing has changed then.
    """
    if forest.n_points < forest.window:
        return forest.n_points
    bad = scale(forest, forest.row, inputs)
    if bad >= 0:
        return TOO_LARGE - bad
    p = int(forest.first_arrival)
    forget_in_trees(forest, p)
    forest.n_points = forest.n_points - 1
    return p
