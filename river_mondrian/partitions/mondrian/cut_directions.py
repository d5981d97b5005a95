"""The cut directions of trees: their coefficients, and means for missing inputs."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...arguments import DIRECTION_DRAWS
from ...checks import check_array, check_number, check_types
from ...compiling.kernels import address_of
from ...directions import coefficients, isotropic_scale, sphere_directions
from ...limits import LARGEST
from ...records import Array, Memory, OwnsArrays, check_shapes
from .oblique import (
    Moments,
    ObliqueTransform,
    change_frame,
    keep_means,
    learn_moments,
    prepare_inputs,
    project_inputs,
)

# Numbers that are kept of an input's values.
MOMENTS_WIDTH = Moments.SIZE // 8

# A mean of inputs is not larger, rounding aside.
LARGEST_MEAN = 2.0 * LARGEST


class CutDirections(OwnsArrays):
    """Cut directions of trees (see `oblique`).

    Given directions serve all trees, each tree draws its own random ones. Inputs are added as they
    appear: to a random direction, which is uniform on the sphere of the first sample's features, a
    later one adds a normal coefficient whose mean size is that of a direction of its own.

    Parameters
    ----------
    directions
        Number of random directions, or mappings from feature to coefficient.
    n_trees
        Number of trees.
    seed
        Seed of the directions.

    """

    _DERIVED: ClassVar[frozenset[str]] = frozenset({"memory"})

    def __init__(
        self, directions: int | Sequence[Mapping[Any, float]], n_trees: int, seed: int | None
    ) -> None:
        if isinstance(directions, Sequence):
            self.given: list[dict[Any, float]] | None = [dict(one) for one in directions]
            self.n_dims, self.n_sets = len(directions), 1
        else:
            self.given = None
            self.n_dims, self.n_sets = int(directions), n_trees
        self.n_inputs = 0
        # How many inputs the random directions were drawn for.
        self.n_drawn = 0
        self.generator = np.random.default_rng(
            np.random.SeedSequence(seed, spawn_key=(DIRECTION_DRAWS,))
        )
        # Coefficients, shape (sets, inputs, directions), and of each input's values the number,
        # mean, least and largest.
        self.coefficients = np.zeros((self.n_sets, 0, self.n_dims))
        self.moments = np.zeros((0, MOMENTS_WIDTH))
        # What missing inputs of stored samples count as while trees are drawn anew.
        self.means = np.zeros(0)

    def finish(self, frames: NDArray[np.float64], frame: int, absent: float) -> Any:
        """Make what is derived from the rest; returns the kernels' record.

        Parameters
        ----------
        frames
            By which inputs are scaled: offsets and factors of two frames, shape (2, 2, inputs).
        frame
            The one of these that trees are in.
        absent
            What a missing input counts as.

        """
        self.memory = Memory(ObliqueTransform)
        record = self.memory[0]
        record.n_sets = self.n_sets
        record.is_whole = int(self.coefficients[0].any(axis=0).all())
        record.n_inputs = self.n_inputs
        record.absent = absent
        record.input_capacity = self.coefficients.shape[1]
        record.n_directions = self.n_dims
        self.memory.own("coefficients", self.coefficients)
        record.moments = Array.over(Moments, self.moments)
        self.memory.own("means", self.means)
        self.memory.own("frames", frames.reshape(-1))
        record.frame = frame
        self.memory.own("inputs", np.empty(2 * self.coefficients.shape[1]))
        self.memory.own("projected", np.empty(self.n_dims))
        record.prepare = address_of(prepare_inputs)
        record.project = address_of(project_inputs)
        record.learn = address_of(learn_moments)
        record.keep_means = address_of(keep_means)
        record.change_frame = address_of(change_frame)
        return record

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self._DERIVED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        kinds = dict.fromkeys(("n_dims", "n_sets", "n_inputs", "n_drawn"), int)
        check_types(self, kinds | {"given": (type(None), list)})
        check_types(self, dict.fromkeys(("coefficients", "moments", "means"), np.ndarray))
        check_types(self, {"generator": np.random.Generator})
        capacity = len(self.moments)
        check_number(self, "n_inputs", self.n_inputs, 0, capacity)
        check_number(self, "n_drawn", self.n_drawn, 0, self.n_inputs)
        if self.given is not None:
            check_number(self, "n_dims", self.n_dims, len(self.given), len(self.given))
            check_number(self, "n_sets", self.n_sets, 1, 1)
        shape = (self.n_sets, max(capacity, self.n_inputs), self.n_dims)
        check_shapes(self, {"coefficients": shape, "moments": (capacity, MOMENTS_WIDTH)})
        check_array(self, "means", self.means, np.float64, -LARGEST_MEAN, LARGEST_MEAN)
        check_shapes(self, {"means": (capacity,)})

    @property
    def nbytes(self) -> int:
        """Bytes held by arrays."""
        return self.memory.nbytes + self.moments.nbytes + 128

    def copied(self) -> CutDirections:
        """Return directions that may be changed while kernels have these."""
        return copy.deepcopy(self)

    def part(self, start: int, stop: int) -> CutDirections:
        """Return the random directions of the trees `start` to `stop` (see `parts`)."""
        made = copy.deepcopy(self)
        made.coefficients, made.n_sets = made.coefficients[start:stop].copy(), stop - start
        return made

    @classmethod
    def joined(cls, parts: Sequence[CutDirections]) -> CutDirections:
        """Return the random directions of the trees of all parts."""
        made = copy.deepcopy(parts[0])
        made.coefficients = np.concatenate([part.coefficients for part in parts])
        made.n_sets = len(made.coefficients)
        return made

    def add_inputs(self, names: Sequence[Hashable], capacity: int) -> None:
        """Add inputs; there is room for `capacity` in all."""
        old, n = self.n_inputs, self.n_inputs + len(names)
        if capacity > self.coefficients.shape[1]:
            room = np.zeros((self.n_sets, capacity, self.n_dims))
            room[:, :old] = self.coefficients[:, :old]
            moments = np.zeros((capacity, MOMENTS_WIDTH))
            moments[:old] = self.moments[:old]
            means = np.zeros(capacity)
            means[:old] = self.means[:old]
            self.coefficients, self.moments, self.means = room, moments, means
        self.n_inputs = n
        if self.given is not None:
            self.coefficients[0, old:n] = coefficients(self.given, names).T
        elif old == 0:
            self.redraw()
        else:
            # One input's direction is 1 / n or -1 / n; a normal one has the same mean size.
            deviation = isotropic_scale(1) * np.sqrt(np.pi / 2.0) / self.n_dims
            shape = (self.n_sets, n - old, self.n_dims)
            self.coefficients[:, old:n] = deviation * self.generator.standard_normal(shape)

    def redraw(self) -> None:
        """Draw random directions for all inputs, where some have been added since the last draw."""
        if self.given is None and self.n_drawn < self.n_inputs:
            self.n_drawn = self.n_inputs
            for one in self.coefficients:
                rows = sphere_directions(self.n_dims, self.n_inputs, self.generator)
                one[: self.n_inputs] = rows.T

    def forget(self) -> None:
        """Forget the samples' moments, before all are scaled anew."""
        self.moments[:] = 0.0

    def ranges(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the least and the largest scaled value of each input, in the trees' frame."""
        low, high = self.moments[: self.n_inputs, 2:].T
        return low.copy(), high.copy()

    def of_tree(self, t: int) -> NDArray[np.float64]:
        """Return a tree's directions, shape (directions, inputs)."""
        rows: NDArray[np.float64] = self.coefficients[min(t, self.n_sets - 1), : self.n_inputs].T
        return rows.copy()
