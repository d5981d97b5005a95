"""Transforms of inputs into the values that trees cut: directions and places of levels."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ... import arguments
from ... import records as rec
from ...checks import check_arrays, check_number, check_types
from ...compiling.kernels import always_inline, inline_in_source, kernel, link_by_name, set_entries
from ...elementary import mixed, state_after, uniform_of
from ...limits import DONE, FARTHEST, LARGEST, LEAST_LEVEL

# Values along cut directions. If the rows of U are the directions, an axis-aligned partition of U x
# is an oblique partition of x. See O'Reilly and Tran (2022), Theorem 3.1.
#
# A missing input is replaced by the mean of the feature's learned inputs. The value along a
# direction is missing if all inputs with a nonzero coefficient are missing. During a redraw, the
# means at the start of the redraw replace missing inputs of stored samples. The kernels below are
# compiled only if there are directions, and are called through addresses in the forest's record.


class Moments(rec.Record):
    """Moments and range of an input's values in the current scaling (see `scaling`)."""

    n: rec.Float64
    mean: rec.Float64
    least: rec.Float64
    largest: rec.Float64


class ObliqueTransform(rec.Record):
    """The cut directions of a forest, and buffers for kernels."""

    # Whether every direction has at least one nonzero coefficient.
    is_whole: rec.Int64
    n_inputs: rec.Int64
    input_capacity: rec.Int64
    n_directions: rec.Int64
    # Value of earlier samples for a new feature (see `Forest`).
    absent: rec.Float64
    # Shape (sets, capacity for inputs, directions).
    coefficients: rec.Float64s
    moments: rec.Array[Moments]
    # Replacements for missing inputs of stored samples while trees are redrawn.
    means: rec.Float64s
    # Two scalings of the inputs, and the index of the current scaling. Moments are in the current
    # scaling.
    scalings: rec.Float64s
    scaling: rec.Int64
    # Buffers for a sample's inputs in each scaling, and for the values of a set. `lacks`:
    # whether the value along a direction may be missing.
    inputs: rec.Float64s
    projected: rec.Float64s
    lacks: rec.Int64
    prepare: Callable[[ObliqueTransform, rec.Float64s, int, int], int] = rec.entry()
    project: Callable[[ObliqueTransform, rec.Float32s, rec.Float64s, int, int], int] = rec.entry()
    learn_moments: Callable[[ObliqueTransform, rec.Float64s], int] = rec.entry()
    keep_means: Callable[[ObliqueTransform], int] = rec.entry()
    change_scaling: Callable[[ObliqueTransform], int] = rec.entry()

    def offsets(self, scaling: int) -> rec.Float64s:
        """Return the offsets of a scaling, which are subtracted from inputs."""
        return self.scalings.part(2 * scaling * self.input_capacity, self.input_capacity)

    def factors(self, scaling: int) -> rec.Float64s:
        """Return the factors of a scaling, which multiply the inputs minus the offsets."""
        return self.scalings.part((2 * scaling + 1) * self.input_capacity, self.input_capacity)

    def scaled(self, scaling: int) -> rec.Float64s:
        """Return the buffer for inputs in a scaling."""
        return self.inputs.part(scaling * self.input_capacity, self.input_capacity)


@always_inline
def clipped(v: float) -> float:
    """Return a value clipped to [-FARTHEST, FARTHEST], which float32 can represent."""
    # NaN fails both comparisons, so NaN is not changed.
    v = FARTHEST if v > FARTHEST else v
    return -FARTHEST if v < -FARTHEST else v


@always_inline
def scaled(raw: float, offset: float, factor: float) -> float:
    """Return the value of an input in a tree's scaling, clipped and rounded to float32."""
    return np.float64(np.float32(clipped((raw - offset) * factor)))


@inline_in_source
def _has_input(
    coefficients: rec.Float64s, inputs: rec.Float64s, n_inputs: int, n: int, r: int
) -> bool:
    """Return whether direction `r` has a nonzero coefficient for an input that is not missing."""
    for d in range(n_inputs):
        v = inputs[d]
        if v == v and coefficients[d * n + r] != 0.0:
            return True
    return False


@always_inline
def _raw(oblique: ObliqueTransform, d: int, v: float) -> float:
    """Return the unscaled input, given a value in the current scaling."""
    scaling = oblique.scaling
    return v / oblique.factors(scaling)[d] + oblique.offsets(scaling)[d]


@link_by_name
def prepare(oblique: ObliqueTransform, inputs: rec.Float64s, scaling: int, is_stored: int) -> int:
    """Write inputs in a scaling, with replacements for missing inputs, and return DONE.

    `is_stored` is 1 for a stored sample.
    """
    prepared = oblique.scaled(scaling)
    offsets, factors = oblique.offsets(scaling), oblique.factors(scaling)
    lacks = oblique.is_whole == 0 and oblique.absent != oblique.absent
    for d in range(oblique.n_inputs):
        v = (inputs[d] - offsets[d]) * factors[d]
        if v != v:
            lacks = True
            v = oblique.moments[d].mean
            if is_stored == 1:
                v = (oblique.means[d] - offsets[d]) * factors[d]
            elif scaling != oblique.scaling:
                v = (_raw(oblique, d, v) - offsets[d]) * factors[d]
        prepared[d] = v
    oblique.lacks = 1 if lacks else 0
    return DONE


@link_by_name
def project(
    oblique: ObliqueTransform, target: rec.Float32s, inputs: rec.Float64s, s: int, scaling: int
) -> int:
    """Write the projections of scaled inputs on a set of directions, and return DONE."""
    prepared, projected = oblique.scaled(scaling), oblique.projected
    n_inputs, n = oblique.n_inputs, oblique.n_directions
    set_size = n * oblique.input_capacity
    coefficients = oblique.coefficients.part(set_size * s, set_size)
    for r in range(n):
        projected[r] = 0.0
    for d in range(n_inputs):
        v = prepared[d]
        weights = coefficients.part(n * d, n)
        for r in range(n):
            projected[r] = projected[r] + weights[r] * v
    lacks = oblique.lacks == 1
    for r in range(n):
        v = projected[r]
        if lacks and not _has_input(coefficients, inputs, n_inputs, n, r):
            v = math.nan
        target[r] = clipped(v)
    return DONE


@link_by_name
def learn_moments(oblique: ObliqueTransform, inputs: rec.Float64s) -> int:
    """Add the inputs that `prepare` has just scaled to the moments, and return DONE."""
    prepared = oblique.scaled(oblique.scaling)
    for d in range(oblique.n_inputs):
        if inputs[d] == inputs[d]:
            v = prepared[d]
            moments = oblique.moments[d]
            n = moments.n + 1.0
            moments.n = n
            moments.mean = moments.mean + (v - moments.mean) / n
            moments.least = v if n == 1.0 else min(moments.least, v)
            moments.largest = v if n == 1.0 else max(moments.largest, v)
    return DONE


@link_by_name
def keep_means(oblique: ObliqueTransform) -> int:
    """Store the means of all inputs at the start of a redraw, and return DONE."""
    for d in range(oblique.n_inputs):
        oblique.means[d] = _raw(oblique, d, oblique.moments[d].mean)
    return DONE


@link_by_name
def change_scaling(oblique: ObliqueTransform) -> int:
    """Convert the moments to the other scaling, which all trees now use, and return DONE."""
    other = 1 - oblique.scaling
    offsets, factors = oblique.offsets(other), oblique.factors(other)
    for d in range(oblique.n_inputs):
        moments = oblique.moments[d]
        if moments.n > 0.0:
            moments.mean = (_raw(oblique, d, moments.mean) - offsets[d]) * factors[d]
            moments.least = (_raw(oblique, d, moments.least) - offsets[d]) * factors[d]
            moments.largest = (_raw(oblique, d, moments.largest) - offsets[d]) * factors[d]
    oblique.scaling = other
    return DONE


# Number of moments of an input.
MOMENTS_WIDTH = Moments.SIZE // 8

# A mean of inputs is at most LARGEST, except for rounding.
LARGEST_MEAN = 2.0 * LARGEST


class OfTrees(rec.OwnsArrays):
    """A transform of inputs: an array with a row for each tree, and data that the trees share."""

    _DERIVED: ClassVar[frozenset[str]] = frozenset({"memory"})
    # Name of the array attribute with a row for each tree.
    _BY_TREE: ClassVar[str]

    def part(self, start: int, stop: int) -> Self:
        """Return the data of the trees `start` to `stop` - 1 (see `shards`)."""
        made = copy.deepcopy(self)
        setattr(made, self._BY_TREE, getattr(self, self._BY_TREE)[start:stop].copy())
        return made

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the joined data of the trees of all parts."""
        made, name = copy.deepcopy(parts[0]), cls._BY_TREE
        setattr(made, name, np.concatenate([getattr(part, name) for part in parts]))
        return made


class CutDirections(OfTrees):
    """Cut directions of trees.

    All trees share given directions. Random directions are drawn for each tree, uniformly on the
    sphere over the features of the first sample. A later feature gets a normally distributed
    coefficient in each direction. With n directions, the mean absolute value of this coefficient is
    1 / n, as if the feature were the only feature. If features were added during the warm-up, the
    next fit of ranges (if there is one) draws all directions again.

    Parameters
    ----------
    directions
        Number of random directions of a tree, or given directions: mappings from feature to
        coefficient.
    n_trees
        Number of trees.
    seed
        Seed of random directions.

    """

    _BY_TREE = "coefficients"

    def __init__(
        self, directions: int | Sequence[Mapping[Any, float]], n_trees: int, seed: int | None
    ) -> None:
        if isinstance(directions, Sequence):
            self.given: list[dict[Any, float]] | None = [dict(one) for one in directions]
            self.n_dims, n_sets = len(directions), 1
        else:
            self.given = None
            self.n_dims, n_sets = int(directions), n_trees
        self.n_inputs = 0
        # Number of inputs at the last draw of random directions.
        self.n_drawn = 0
        sequence = np.random.SeedSequence(seed, spawn_key=(arguments.DIRECTION_DRAWS,))
        self.generator = np.random.default_rng(sequence)
        # Coefficients, shape (sets, inputs, directions); and the number, mean, least and largest
        # value of each input.
        self.coefficients = np.zeros((n_sets, 0, self.n_dims))
        self.moments = np.zeros((0, MOMENTS_WIDTH))
        # Replacements for missing inputs of stored samples while trees are redrawn.
        self.means = np.zeros(0)

    @property
    def n_sets(self) -> int:
        """Number of sets of directions: one for all trees, or one for each tree."""
        return len(self.coefficients)

    def finish(self, scalings: rec.Floats, scaling: int, absent: float) -> Any:
        """Create and return the record that kernels read.

        Parameters
        ----------
        scalings
            Offsets and factors of two scalings, shape (2, 2, inputs).
        scaling
            Index of the current scaling.
        absent
            Value of earlier samples for a new feature: NaN or 0.

        """
        self.memory = rec.Memory(ObliqueTransform)
        record = self.memory[0]
        record.is_whole = int(self.coefficients[0].any(axis=0).all())
        record.n_inputs = self.n_inputs
        record.absent = absent
        record.input_capacity = self.coefficients.shape[1]
        record.n_directions = self.n_dims
        self.memory.own("coefficients", self.coefficients)
        record.moments = rec.Array.over(Moments, self.moments)
        self.memory.own("means", self.means)
        self.memory.own("scalings", scalings.reshape(-1))
        record.scaling = scaling
        self.memory.own("inputs", np.empty(2 * self.coefficients.shape[1]))
        self.memory.own("projected", np.empty(self.n_dims))
        set_entries(record, prepare, project, learn_moments, keep_means, change_scaling)
        return record

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        check_types(self, dict.fromkeys(("n_dims", "n_inputs", "n_drawn"), int))
        check_types(self, {"given": (type(None), list), "coefficients": np.ndarray})
        check_types(self, {"generator": np.random.Generator, "moments": np.ndarray})
        capacity = len(self.moments)
        check_number(self, "n_inputs", self.n_inputs, 0, capacity)
        check_number(self, "n_drawn", self.n_drawn, 0, self.n_inputs)
        if self.given is not None:
            check_number(self, "n_dims", self.n_dims, len(self.given), len(self.given))
            check_number(self, "n_sets", self.n_sets, 1, 1)
        shape = self.n_sets, capacity, self.n_dims
        arrays: dict[str, Any] = {"coefficients": (np.float64, shape)}
        arrays["moments"] = np.float64, (capacity, MOMENTS_WIDTH)
        arrays["means"] = np.float64, (capacity,), -LARGEST_MEAN, LARGEST_MEAN
        check_arrays(self, arrays)

    def add_inputs(self, names: Sequence[Hashable], capacity: int) -> None:
        """Add inputs, and increase the capacity for inputs to at least `capacity`."""
        old, n = self.n_inputs, self.n_inputs + len(names)
        more = capacity - len(self.means)
        if more > 0:
            self.coefficients = np.pad(self.coefficients, ((0, 0), (0, more), (0, 0)))
            self.moments = np.pad(self.moments, ((0, more), (0, 0)))
            self.means = np.pad(self.means, (0, more))
        self.n_inputs = n
        if self.given is not None:
            self.coefficients[0, old:n] = arguments.coefficients(self.given, names).T
        elif old == 0:
            self.redraw()
        else:
            # If there is a single input, its coefficient in each of n directions is 1 / n or -1 /
            # n. The mean absolute value of a normal coefficient is also 1 / n.
            deviation = arguments.isotropic_scale(1) * np.sqrt(np.pi / 2.0) / self.n_dims
            shape = (self.n_sets, n - old, self.n_dims)
            self.coefficients[:, old:n] = deviation * self.generator.standard_normal(shape)

    def redraw(self) -> None:
        """Draw random directions for all inputs, if inputs were added since the last draw."""
        if self.given is None and self.n_drawn < self.n_inputs:
            self.n_drawn = self.n_inputs
            for one in self.coefficients:
                rows = arguments.sphere_directions(self.n_dims, self.n_inputs, self.generator)
                one[: self.n_inputs] = rows.T

    def ranges(self) -> tuple[rec.Floats, rec.Floats]:
        """Return the least and the largest value of each input, in the current scaling."""
        low, high = self.moments[: self.n_inputs, 2:].T
        return low.copy(), high.copy()

    def of_tree(self, t: int) -> rec.Floats:
        """Return a tree's directions, shape (directions, inputs)."""
        return self.coefficients[min(t, self.n_sets - 1), : self.n_inputs].T.copy()


# Numbers that replace the levels of categories in each tree.
#
# In each tree, a level of a category has a *place*: a hash of the tree's key, the feature and the
# level. Places are uniform in (0, 1) and independent. Given the places, the tree is a Mondrian tree
# over numbers. Points can therefore be added and removed exactly, and a new level may occur at any
# time. The kernel is compiled only if there are categories, and is called through an address in the
# forest's record.


# Factor that converts codes of levels, from LEAST_LEVEL to 2 LEAST_LEVEL, to integers.
_TO_BITS = 2.0**52 / LEAST_LEVEL


class LevelPlaces(rec.Record):
    """The inputs that are categories, and the keys of trees that determine the places of levels."""

    n_inputs: rec.Int64
    # A flag for each input, 1 for a category; and the key of each tree.
    is_category: rec.Int64s
    keys: rec.Int64s
    place_levels: Callable[[LevelPlaces, rec.Float32s, rec.Float64s, int], int] = rec.entry()


@always_inline
def hash_of(code: float, key: int) -> int:
    """Return a hash of a level's code and a key: 64 random bits."""
    return mixed(mixed(key ^ int(code * _TO_BITS)))


@link_by_name
def place_levels(places: LevelPlaces, values: rec.Float32s, inputs: rec.Float64s, t: int) -> int:
    """Write the places of a sample's levels to the values that a tree cuts, and return DONE."""
    is_category, key = places.is_category, places.keys[t]
    for d in range(places.n_inputs):
        code = inputs[d]
        # Absent levels have no place. Their code is NaN or 0.
        if is_category[d] == 1 and code >= LEAST_LEVEL:
            values[d] = uniform_of(hash_of(code, state_after(key, d)))
    return DONE


@kernel
def place_of(places: LevelPlaces, t: int, d: int, code: float) -> float:
    """Return the place of a level in a tree, given the level's code."""
    return uniform_of(hash_of(code, state_after(places.keys[t], d)))


class Categories(OfTrees):
    """The categories among a forest's inputs, and the places of their levels in each tree.

    Parameters
    ----------
    states
        The random states of the trees, which determine the keys.

    """

    _BY_TREE = "keys"

    def __init__(self, states: rec.Ints) -> None:
        entropy = states.view(np.uint64).tolist()
        sequence = np.random.SeedSequence(entropy, spawn_key=(arguments.LEVEL_DRAWS,))
        self.keys = sequence.generate_state(len(states), np.uint64).view(np.int64)
        # A flag for each input: 1 for a category.
        self.flags = np.zeros(0, dtype=np.int64)

    def finish(self) -> Any:
        """Create and return the record that kernels read."""
        self.memory = rec.Memory(LevelPlaces)
        record = self.memory[0]
        record.n_inputs = len(self.flags)
        self.memory.own("keys", self.keys)
        self.memory.own("is_category", self.flags)
        set_entries(record, place_levels)
        return record

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        n_trees, n_inputs = np.shape(self.keys), np.shape(self.flags)
        check_arrays(self, {"keys": (np.int64, n_trees), "flags": (np.int64, n_inputs, 0, 1)})

    @property
    def places(self) -> list[int]:
        """The indices of the inputs that are categories."""
        return np.flatnonzero(self.flags).tolist()

    def with_inputs(self, are_categories: NDArray[np.bool_]) -> Categories:
        """Return a copy with more inputs. This object is unchanged, as kernels may still use it."""
        made = copy.copy(self)
        made.flags = np.append(self.flags, are_categories.astype(np.int64))
        return made
