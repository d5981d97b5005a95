"""Levels of categories as values that trees cut.

Each tree puts a level of a category at u, a hash of the tree's key, of the feature and of the
level: uniform in (0, 1), and independent of where it puts others. Given these places the tree is a
Mondrian tree of numbers, so that all that holds for numbers holds: it is exact and projective, and
a level may come at any time. What is here is compiled only where there are categories: a forest's
record holds the kernel's address.
"""

from __future__ import annotations

from collections.abc import Callable

from ...compiling.kernels import inlined, kernel, separate
from ...limits import LEAST_LEVEL
from ...records import Float32s, Float64s, Int64, Int64s, Record, entry
from ...status import DONE
from ..splitmix import mixed, state_after, uniform_of

# From codes of levels, which are from LEAST_LEVEL to twice that, to whole numbers.
_TO_BITS = 2.0**52 / LEAST_LEVEL


class LevelPlaces(Record):
    """Which inputs are categories, and what the places of their levels depend on."""

    n_inputs: Int64
    # 1 for each input that is a category, and the key of each tree.
    is_category: Int64s
    keys: Int64s
    place: Callable[[LevelPlaces, Float32s, Float64s, int], int] = entry()


@inlined
def hash_of(code: float, key: int) -> int:
    """Return 64 random bits of a level's code and a key."""
    return mixed(mixed(key ^ int(code * _TO_BITS)))


@separate
def place_levels(places: LevelPlaces, own: Float32s, inputs: Float64s, t: int) -> int:
    """Complete a tree's values of a sample, of which the numbers are there; returns DONE."""
    is_category, key = places.is_category, places.keys[t]
    for d in range(places.n_inputs):
        code = inputs[d]
        # A missing level is missing.
        if is_category[d] == 1 and code == code:
            own[d] = uniform_of(hash_of(code, state_after(key, d)))
    return DONE


@kernel
def place_of(places: LevelPlaces, t: int, d: int, code: float) -> float:
    """Return where a tree puts the level of a code."""
    return uniform_of(hash_of(code, state_after(places.keys[t], d)))
