"""What trees with cut directions know of them: the coefficients, and means for missing inputs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .arena import address_of
from .arguments import DIRECTION_DRAWS
from .directions import coefficients, isotropic_scale, sphere_directions
from .kernels import memory, scaling


class Lift:
    """Cut directions of trees (see `kernels.scaling`).

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

    _DERIVED: ClassVar[frozenset[str]] = frozenset({"record", "inputs", "lifted"})

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
        self.moments = np.zeros((0, scaling.MOMENTS_WIDTH))

    def finish(self) -> int:
        """Make what is derived from the rest; returns the address of the kernels' record."""
        self.inputs = np.empty(self.coefficients.shape[1])
        self.lifted = np.empty(self.n_dims)
        self.record = np.zeros(scaling.N_LIFT, dtype=np.int64)
        self.record[scaling.N_SETS] = self.n_sets
        self.record[scaling.WHOLE] = self.coefficients[0].any(axis=0).all()
        self.record[scaling.COEFFICIENTS] = address_of(self.coefficients)
        self.record[scaling.MOMENTS] = address_of(self.moments)
        self.record[scaling.INPUTS] = address_of(self.inputs)
        self.record[scaling.LIFTED] = address_of(self.lifted)
        self.record[scaling.LIFT_INTO] = memory.address_of(scaling.lift_into)
        self.record[scaling.ADD_TO_MOMENTS] = memory.address_of(scaling.add_to_moments)
        return address_of(self.record)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self._DERIVED}

    @property
    def nbytes(self) -> int:
        """Bytes held by arrays."""
        arrays = (self.coefficients, self.moments, self.inputs, self.lifted, self.record)
        return sum(array.nbytes + 128 for array in arrays)

    def add_inputs(self, names: Sequence[Hashable], capacity: int) -> None:
        """Add inputs; there is room for `capacity` in all."""
        old, n = self.n_inputs, self.n_inputs + len(names)
        if capacity > self.coefficients.shape[1]:
            room = np.zeros((self.n_sets, capacity, self.n_dims))
            room[:, :old] = self.coefficients[:, :old]
            moments = np.zeros((capacity, scaling.MOMENTS_WIDTH))
            moments[:old] = self.moments[:old]
            self.coefficients, self.moments = room, moments
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
        """Return the least and the largest scaled value of each input."""
        low, high = self.moments[: self.n_inputs, 2:].T
        return low.copy(), high.copy()

    def of_tree(self, t: int) -> NDArray[np.float64]:
        """Return a tree's directions, shape (directions, inputs)."""
        rows: NDArray[np.float64] = self.coefficients[min(t, self.n_sets - 1), : self.n_inputs].T
        return rows.copy()
