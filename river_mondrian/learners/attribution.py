"""Sharing out what a mixture of experts predicts among the features that have moved the experts.

Let expert e move from b_e to p_e, and feature f have moved it by a_ef, which add up to p_e - b_e.
Move all experts at once, each on a straight line from b_e to p_e: then feature f has moved the
mixture's prediction F by the integral of sum_e dF/dp_e a_ef along the way. These add up to the
whole change, since F' is linear in the a_ef; they are the Aumann-Shapley values (Aumann and Shapley
1974; integrated gradients, Sundararajan, Taly and Yan 2017).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .experts import Mixture

Array = NDArray[np.float64]

# A rule on (0, 1), with positions close to both ends, where probabilities may be near 0.
_ABSCISSAS, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_ANGLES = np.pi / 4.0 * (_ABSCISSAS + 1.0)
POSITIONS = np.sin(_ANGLES) ** 2
LENGTHS = np.pi / 4.0 * _WEIGHTS * np.sin(2.0 * _ANGLES)


def shared_out(parts: Array, change: Array) -> Array:
    """Return parts that add up to a change along the first axis.

    What the given ones lack, by rounding and the like, is shared by their sizes.
    """
    sizes = np.abs(parts)
    total = sizes.sum(axis=0)
    even = np.full_like(parts, 1.0 / max(len(parts), 1))
    shares = np.divide(sizes, total, out=even, where=total > 0.0)
    found: Array = parts + shares * (change - parts.sum(axis=0))
    return found


def _softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    found: Array = powers / powers.sum(axis=-1, keepdims=True)
    return found


def _moved(probabilities: Array, logits: Array) -> Array:
    """Return how probabilities move where their logits do."""
    mean = (probabilities * logits).sum(axis=-1, keepdims=True)
    found: Array = probabilities * (logits - mean)
    return found


def parts_of_softmax(start: Array, parts: Array) -> Array:
    """Share out the softmax of a sum of logits.

    Parameters
    ----------
    start
        The logits without any feature, shape (classes,).
    parts
        What each feature adds, shape (features, classes).

    Returns
    -------
    What each adds to the probabilities, shape (features, classes).

    """
    whole = parts.sum(axis=0)
    found = np.zeros_like(parts)
    for position, length in zip(POSITIONS.tolist(), LENGTHS.tolist(), strict=True):
        found += length * _moved(_softmax(start + position * whole), parts)
    return shared_out(found, _softmax(start + whole) - _softmax(start))


def mixed(mixture: Mixture, experts: Array) -> Array:
    """Return what a mixture predicts by experts, shape (experts, classes), as `combine` does."""
    return _softmax(mixture.exponents @ np.log(experts))


def parts_of_mixture(mixture: Mixture, start: Array, end: Array, parts: Array) -> Array:
    """Share out the change of what a mixture predicts.

    Parameters
    ----------
    mixture
        The mixture.
    start, end
        What the experts predict before and after, shape (experts, classes).
    parts
        By how much each feature has moved each, shape (experts, features, classes).

    Returns
    -------
    By how much each has moved the mixture, shape (features, classes).

    """
    found = np.zeros_like(parts[0])
    for position, length in zip(POSITIONS.tolist(), LENGTHS.tolist(), strict=True):
        experts = start + position * (end - start)
        moved = np.einsum("ek,efk->fk", mixture.exponents[:, None] / experts, parts)
        found += length * _moved(mixed(mixture, experts), moved)
    return shared_out(found, mixed(mixture, end) - mixed(mixture, start))
