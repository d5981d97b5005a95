"""The cut directions of density forests, as matrices."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arguments import DIRECTION_DRAWS
from ..directions import coefficients, sphere_directions
from ..inputs import check_value, ordered
from ..partitions.polytopes import check_oblique


def given_matrix(
    directions: Sequence[Mapping[Any, float]], names: Sequence[Hashable]
) -> NDArray[np.float64]:
    """Return the coefficients of given directions, shape (1, directions, features)."""
    return coefficients(directions, names)[None]


def drawn_matrices(n: int, d: int, n_trees: int, seed: int) -> NDArray[np.float64]:
    """Draw `n` random directions of `d` features for each tree, shape (trees, n, d).

    Raises
    ------
    ValueError
        If there is no feature, or more than cells may have.

    """
    if d == 0:
        raise ValueError("random directions need a feature in the first sample, got none")
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(DIRECTION_DRAWS,)))
    drawn = [sphere_directions(n, d, generator) for _ in range(n_trees)]
    for one in drawn:
        check_oblique(one)
    return np.array(drawn)


def declared(directions: Any, origin: Any) -> tuple[list[Any], list[float] | None]:
    """Check the origin and given directions.

    Returns
    -------
    The features that these name, and their values at the origin.

    """
    names: list[Any] = []
    if isinstance(directions, Sequence):
        names = ordered({name for direction in directions for name in direction})
        check_oblique(coefficients(directions, names))
    if origin is None:
        return names, None
    if not isinstance(origin, Mapping) or not origin:
        raise ValueError(f"origin must be a mapping from feature to number, got {origin!r}")
    if names and set(names) != set(origin):
        raise ValueError(f"directions name the features {names}, but the origin {[*origin]}")
    names = ordered(origin)
    return names, [_finite(name, origin[name]) for name in names]


def _finite(name: Hashable, value: Any) -> float:
    """Return a feature's value at the origin as a float."""
    number = check_value(name, value)
    if number != number:
        raise ValueError(f"feature {name!r} must be finite at the origin, got {value!r}")
    return number
