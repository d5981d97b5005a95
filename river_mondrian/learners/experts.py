"""Mixing several predictions of a class in a log-linear pool.

With p_ek the probability that expert e gives class k, the pool predicts

    p_k = prod_e p_ek^a_e / sum_j prod_e p_ej^a_e.

The exponents a_e learn by gradient descent on the log loss, whose steps shrink with the sum of the
squared gradients (AdaGrad; Duchi, Hazan and Singer 2011). Their sum is the pool's inverse
temperature: it is 1 at first, and grows where all experts are too careful.

The gradient of a sample of weight w counts w / W times, where W is the largest weight of late.
Otherwise one heavy sample would make all later steps small.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..compiling.kernels import kernel
from ..elementary import FEW, divide, logarithm, logarithms, normalize_logs
from ..limits import LARGEST_WEIGHT
from ..records import Bounds, Float64, Float64s, Int64, Record, sized, stored, transient
from .learned import Learned

Array = NDArray[np.float64]

# More classes than any mixture has.
LARGEST_WIDTH = 1 << 25

# Smallest probability that an expert may give, times the number of classes.
FLOOR = 1e-4
# Part of the largest weight by which it fades at each sample.
FADING = 0.001
# Size of an exponent's steps, its sum of squared gradients at first, and its bounds.
STEP = 0.1
FIRST_SQUARES = 20.0
LARGEST_EXPONENT = 4.0
LEAST_EXPONENT = -1.0


class Experts(Record):
    """Experts that predict a class, and what mixing them has learned.

    Probabilities are in rows of `width`, of which the first `n_classes` are used.
    """

    n_experts: Int64 = stored(Bounds(1, LARGEST_WIDTH))
    # Number of classes so far.
    n_classes: Int64
    # Number of classes for which a row has room.
    width: Int64 = stored(Bounds(0, LARGEST_WIDTH))
    # Exponent of each expert, and the sum of its squared gradients.
    exponents: Float64s = sized("n_experts")
    squares: Float64s = sized("n_experts")
    # Largest weight of a sample, which fades, or 1.
    largest_weight: Float64 = stored(Bounds(1.0, LARGEST_WEIGHT))
    # Of the last sample: what each expert has predicted and the logarithms of that (n_experts rows
    # each), and what the pool has.
    predicted: Float64s = transient("n_experts", "width")
    logs: Float64s = transient("n_experts", "width")
    mixed: Float64s = transient("width")


@kernel
def combine(experts: Experts) -> None:
    """Mix what the experts have predicted, which is floored in place."""
    n, n_classes, width = experts.n_experts, experts.n_classes, experts.width
    predicted, logs, mixed = experts.predicted, experts.logs, experts.mixed
    for k in range(n_classes):
        mixed[k] = 0.0
    for e in range(n):
        # Logarithms of probabilities near 0 would decide the pool alone.
        expert, total = predicted.part(width * e, width), 0.0
        for k in range(n_classes):
            expert[k] = max(expert[k], FLOOR / n_classes)
            total += expert[k]
        divide(expert, n_classes, total)
    if n_classes <= FEW:
        # All at once, with what is behind the classes.
        logarithms(predicted, n * width, logs)
    for e in range(n):
        expert, own_logs = predicted.part(width * e, width), logs.part(width * e, width)
        exponent = experts.exponents[e]
        for k in range(n_classes):
            if n_classes > FEW:
                own_logs[k] = logarithm(expert[k])
            mixed[k] += exponent * own_logs[k]
    normalize_logs(mixed, n_classes)


@kernel
def learn(experts: Experts, label: int, weight: float) -> None:
    """Let the exponents learn a class, of a sample of a weight, after `combine`."""
    width, mixed = experts.width, experts.mixed
    exponents, squares = experts.exponents, experts.squares
    largest = max(weight, 1.0, (1.0 - FADING) * experts.largest_weight)
    experts.largest_weight = largest
    for e in range(experts.n_experts):
        # d/da of the log loss of p_k = exp(a l_k + ...) / sum_j exp(a l_j + ...). As log p_k is
        # a l_k + ... - log sum_j exp(a l_j + ...), it is sum_k p_k l_k - l_label.
        logs = experts.logs.part(width * e, width)
        gradient = -logs[label]
        for k in range(experts.n_classes):
            gradient += mixed[k] * logs[k]
        gradient *= weight / largest
        squares[e] += gradient * gradient
        moved = exponents[e] - STEP * gradient / math.sqrt(squares[e])
        exponents[e] = min(max(moved, LEAST_EXPONENT), LARGEST_EXPONENT)


class Mixture(Learned[Experts]):
    """The memory of experts and of what mixing them has learned.

    Parameters
    ----------
    n
        Number of experts.

    """

    _KIND = Experts

    def __init__(self, n: int) -> None:
        super().__init__(n_experts=n, largest_weight=1.0)
        self.learned["exponents"][:], self.learned["squares"][:] = 1.0 / n, FIRST_SQUARES
        self.show()

    def reserve(self, width: int) -> None:
        """Make room for the probabilities of so many classes; those of the last sample go."""
        self.record.width = width
        self.show()

    @property
    def exponents(self) -> Array:
        """Exponent of each expert."""
        return self.learned["exponents"]

    @property
    def predicted(self) -> Array:
        """What the experts have predicted of the last sample, a row each."""
        return super().predicted.reshape(self.record.n_experts, self.record.width)

    def follow_drift(self) -> None:
        """Make steps as large as at first."""
        self.learned["squares"][:] = FIRST_SQUARES


# Sharing out what a mixture of experts predicts among the features that have moved the experts.
#
# Let expert e move from b_e to p_e, and feature f have moved it by a_ef, which add up to p_e -
# b_e. Move all experts at once, each on a straight line from b_e to p_e: then feature f has moved
# the mixture's prediction F by the integral of sum_e dF/dp_e a_ef along the way. These add up to
# the whole change, since F' is linear in the a_ef; they are the Aumann-Shapley values (Aumann and
# Shapley 1974; integrated gradients, Sundararajan, Taly and Yan 2017).


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
    return parts + shares * (change - parts.sum(axis=0))


def _softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _moved(probabilities: Array, logits: Array) -> Array:
    """Return how probabilities move where their logits do."""
    return probabilities * (logits - (probabilities * logits).sum(axis=-1, keepdims=True))


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
