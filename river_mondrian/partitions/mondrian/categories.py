"""Categories: where trees place their levels, and which features are categories."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...arguments import LEVEL_DRAWS
from ...checks import check_array, check_number, check_types, refuse
from ...compiling.kernels import address_of, inlined, kernel, separate
from ...limits import LEAST_LEVEL
from ...records import Float32s, Float64s, Int64, Int64s, Memory, OwnsArrays, Record, entry
from ...status import DONE
from ..splitmix import mixed, state_after, uniform_of

# Levels of categories as values that trees cut.
#
# Each tree puts a level of a category at u, a hash of the tree's key, of the feature and of the
# level: uniform in (0, 1), and independent of where it puts others. Given these places the tree
# is a Mondrian tree of numbers, so that all that holds for numbers holds: it is exact and
# projective, and a level may come at any time. What is here is compiled only where there are
# categories: a forest's record holds the kernel's address.


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


class Categories(OwnsArrays):
    """The categories among a forest's inputs (see the module).

    Parameters
    ----------
    states
        The states of the trees' random numbers, of which the keys are made.

    """

    _DERIVED: ClassVar[frozenset[str]] = frozenset({"memory"})

    def __init__(self, states: NDArray[np.int64]) -> None:
        entropy = states.view(np.uint64).tolist()
        sequence = np.random.SeedSequence(entropy, spawn_key=(LEVEL_DRAWS,))
        self.keys = sequence.generate_state(len(states), np.uint64).view(np.int64)
        # 1 for each input that is a category.
        self.flags = np.zeros(0, dtype=np.int64)

    def finish(self) -> Any:
        """Make what is derived from the rest; returns the kernels' record."""
        self.memory = Memory(LevelPlaces)
        record = self.memory[0]
        record.n_inputs = len(self.flags)
        self.memory.own("keys", self.keys)
        self.memory.own("is_category", self.flags)
        record.place = address_of(place_levels)
        return record

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self._DERIVED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        check_types(self, {"keys": np.ndarray, "flags": np.ndarray})
        check_array(self, "flags", self.flags, np.int64, 0, 1)
        if self.keys.dtype != np.int64 or self.keys.ndim != 1 or self.flags.ndim != 1:
            refuse(self, "keys", self.keys.shape, f"of {self.keys.dtype}")

    def check(self, n_trees: int, n_inputs: int) -> None:
        """Refuse what is not of so many trees and inputs."""
        check_number(self, "the number of keys", len(self.keys), n_trees, n_trees)
        check_number(self, "the number of flags", len(self.flags), n_inputs, n_inputs)

    @property
    def places(self) -> list[int]:
        """The inputs that are categories."""
        found: list[int] = np.flatnonzero(self.flags).tolist()
        return found

    def place(self, t: int, feature: int, code: float) -> float:
        """Return where a tree puts the level of a code, as `place_levels` does."""
        found: float = place_of(self.memory[0], t, feature, code)
        return found

    @property
    def nbytes(self) -> int:
        """Bytes held by arrays."""
        return self.memory.nbytes

    def with_inputs(self, are_categories: NDArray[np.bool_]) -> Categories:
        """Return these with more inputs; kernels may have these meanwhile."""
        made = copy.copy(self)
        made.flags = np.append(self.flags, are_categories.astype(np.int64))
        return made

    def copied(self) -> Categories:
        """Return categories for other trees."""
        return copy.copy(self)

    def part(self, start: int, stop: int) -> Categories:
        """Return those of the trees `start` to `stop` (see `parts`)."""
        made = copy.copy(self)
        made.keys, made.flags = self.keys[start:stop].copy(), self.flags.copy()
        return made

    @classmethod
    def joined(cls, parts: Sequence[Categories]) -> Categories:
        """Return those of the trees of all parts."""
        made = parts[0].part(0, 0)
        made.keys = np.concatenate([part.keys for part in parts])
        return made
