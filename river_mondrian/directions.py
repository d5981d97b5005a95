"""Cut directions, and the kernels to which partitions tend that are cut in them.

An axis-aligned partition of U x is one of x with the cut directions that are the rows of U
(O'Reilly and Tran, Theorem 3.1). In our units, where the axis-aligned partition's kernel is that of
|x - y|_1, the paper's measure of a segment is divided by the number of directions (Equation 10).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .arguments import is_distribution, is_real

# None for the axes, a number of random directions, or the directions as mappings from feature to
# coefficient.
Directions: TypeAlias = int | Sequence[Mapping[Any, float]] | None


def check_directions(directions: Any) -> None:
    """Refuse what is neither None, nor a number >= 1, nor a sequence of mappings.

    Raises
    ------
    TypeError
        If the directions or one of them have the wrong type.
    ValueError
        If there is no direction, or one has no coefficient but 0, or one that is not finite.

    """
    if directions is None:
        return
    if isinstance(directions, (int, np.integer)) and not isinstance(directions, bool):
        if directions < 1:
            raise ValueError(
                f"directions must be at least 1 where it is a number, got {directions}"
            )
        return
    if not isinstance(directions, Sequence) or isinstance(directions, (str, bytes)):
        raise TypeError(
            "directions must be None, an integer or a sequence of mappings from feature to "
            f"coefficient, got {directions!r}"
        )
    if not directions:
        raise ValueError("directions must not be empty")
    for i, direction in enumerate(directions):
        if not isinstance(direction, Mapping):
            raise TypeError(
                f"direction {i} must be a mapping from feature to coefficient, got {direction!r}"
            )
        for name, value in direction.items():
            if not is_real(value) or not math.isfinite(value):
                raise ValueError(
                    f"direction {i} must have finite coefficients, got {value!r} for {name!r}"
                )
        if not any(direction.values()):
            raise ValueError(f"direction {i} must have a coefficient that is not 0")


def coefficients(
    directions: Sequence[Mapping[Any, float]], names: Sequence[Hashable]
) -> NDArray[np.float64]:
    """Return given directions as a matrix with a row for each and a column per feature."""
    return np.array(
        [[float(direction.get(name, 0.0)) for name in names] for direction in directions]
    ).reshape(len(directions), len(names))


def isotropic_scale(d: int) -> float:
    """Return the c with which the mean of c |<u, v>|, u uniform on the unit sphere, is |v|_2.

    That is d kappa_d / (2 kappa_(d-1)) with kappa_d the volume of the unit ball: the inverse of
    the factor of Equation 9.
    """
    return math.sqrt(math.pi) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2))


def sphere_directions(n: int, d: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Draw directions uniform on the sphere, scaled towards the isotropic exponential kernel.

    Returns
    -------
    An array, shape (n, d), of rows u with the norm d kappa_d / (2 kappa_(d-1) n). As n grows,
    exp(-lifetime |U (x - y)|_1) tends to exp(-lifetime |x - y|_2).

    """
    rows = generator.standard_normal((n, d))
    norms: NDArray[np.float64] = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * (isotropic_scale(d) / n / norms)


def distances(
    directions: Directions, names: Sequence[Hashable], gaps: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return h, of which the limit kernel is exp(-lifetime h), for differences of samples.

    Parameters
    ----------
    directions
        As for `check_directions`: h is |v|_1 along the axes, |v|_2 for random directions (the
        isotropic limit, Equation 9), |U v|_1 for given ones (Equation 10).
    names
        The features.
    gaps
        Differences v, shape (n, features), NaN where a value is missing: that adds no distance.

    """
    gaps = np.nan_to_num(gaps, nan=0.0)
    found: NDArray[np.float64]
    if directions is None:
        found = np.abs(gaps).sum(axis=1)
    elif isinstance(directions, Sequence):
        found = np.abs(gaps @ coefficients(directions, names).T).sum(axis=1)
    else:
        found = np.linalg.norm(gaps, axis=1)
    return found


def level_kernel(lifetime: float) -> float:
    """Return the mean of exp(-lifetime |u - v|), with u and v uniform in [0, 1] and independent.

    That is the limit kernel of two levels of a category, 2 (l - 1 + exp(-l)) / l^2 at lifetime l.
    """
    if lifetime < 1e-4:
        return 1.0 - lifetime / 3.0 + lifetime * lifetime / 12.0
    if lifetime == math.inf:
        return 0.0
    return 2.0 * (lifetime + math.expm1(-lifetime)) / (lifetime * lifetime)


def laplace_transform(lifetime: Any, h: float, n_levels: int = 0) -> float:
    """Return the mean of exp(-lifetime h): the limit kernel at distance h (Theorem 4.2).

    Each of `n_levels` categories in which two samples differ is a factor within the mean (see
    `level_kernel`). Without any the mean has a closed form for a number and for gamma, exponential
    and uniform distributions (Corollary 4.2), and is integrated numerically for others.
    """
    if not is_distribution(lifetime):
        return math.exp(-float(lifetime) * h) * level_kernel(float(lifetime)) ** n_levels
    if n_levels > 0:
        return float(
            lifetime.expect(lambda value: math.exp(-value * h) * level_kernel(value) ** n_levels)
        )
    name = lifetime.dist.name
    least, most = (float(end) for end in lifetime.support())
    if name in ("gamma", "expon"):
        rest, variance = float(lifetime.mean()) - least, float(lifetime.var())
        power = -rest * rest / variance
        return math.exp(-least * h) * math.pow(1.0 + variance / rest * h, power)
    if name == "uniform":
        width = (most - least) * h
        return math.exp(-least * h) * (-math.expm1(-width) / width if width > 0.0 else 1.0)
    return float(lifetime.expect(lambda value: np.exp(-value * h)))
