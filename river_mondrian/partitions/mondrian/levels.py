"""Levels of categories as values that trees cut.

Each tree puts a level of a category at u, a hash of the tree's key, of the feature and of the
level: uniform in (0, 1), and independent of where it puts others. Given these places the tree is a
Mondrian tree of numbers, so that all that holds for numbers holds: it is exact and projective, and
a level may come at any time. What is here is compiled only where there are categories: a forest's
record holds the kernel's address.
"""

from __future__ import annotations

from collections.abc import Callable

from ...compiling.kernels import separate
from ...records import Float32s, Float64s, Int64, Int64s, Record, entry
from ...status import DONE
from ..splitmix import mixed, state_after, uniform_of


class LevelPlaces(Record):
    """Which inputs are categories, and what the places of their levels depend on."""

    n_trees: Int64
    n_inputs: Int64
    # Values of one tree.
    capacity: Int64
    # 1 for each input that is a category, and the key of each tree.
    is_category: Int64s
    keys: Int64s
    apply: Callable[[LevelPlaces, Float32s, Float64s], int] = entry()


@separate
def place_levels(places: LevelPlaces, values: Float32s, inputs: Float64s) -> int:
    """Complete a sample's values for each tree, of which the first tree's numbers are there.

    Returns DONE.
    """
    capacity, is_category = places.capacity, places.is_category
    for t in range(1, places.n_trees):
        own = values.part(capacity * t, capacity)
        for d in range(capacity):
            own[d] = values[d]
    for t in range(places.n_trees):
        own = values.part(capacity * t, capacity)
        key = places.keys[t]
        for d in range(places.n_inputs):
            code = inputs[d]
            # A missing level is missing.
            if is_category[d] == 1 and code == code:
                level = mixed(state_after(key, d) ^ int(code))
                own[d] = uniform_of(mixed(level))
    return DONE
