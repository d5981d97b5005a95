"""Mixing several predictions of a class by their progressive log loss.

The experts are mixed in two ways: by fixed share (Herbster and Warmuth 1998), whose result is
sharpened or flattened by a temperature that is learned online; and in a log-linear pool whose
exponents are learned online. A second fixed share chooses among these two and the first expert as
it is.

A sample of weight w has w times the loss and w times the gradients of one of weight 1. A fixed
share has its bound for at most one log loss at a time, so that it counts losses in units of the
largest weight W of late: as w / W of a sample, which also takes as much of the share's time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import check_number, check_types
from ..compiling.kernels import inlined, kernel
from ..elementary import FEW, divide, logarithm, logarithms, normalize_logs, ordered_sum
from ..limits import LARGEST_WEIGHT
from ..records import (
    Float64,
    Float64s,
    Int64,
    Memory,
    Record,
    check_shapes,
    owned,
    transient,
)

Array = NDArray[np.float64]

# More classes than any mixture has.
LARGEST_WIDTH = 1 << 25

# Smallest probability that an expert may give, times the number of classes.
FLOOR = 1e-4
# Part of the weights that a fixed share spreads evenly at each sample.
SHARE_RATE = 0.01
# Part of the largest weight by which it fades at each sample.
FADING = 0.001
# Of the exponents and the temperature: size of the steps, and bounds.
STEP = 0.05
LARGEST_EXPONENT = 4.0
LEAST_EXPONENT = -1.0
LEAST_INVERSE = 0.05

# What the last fixed share chooses among: rows of `Experts.finalists`.
TEMPERED = 0
LOG_LINEAR = 1
FIRST = 2
N_FINALISTS = 3


class Experts(Record):
    """Experts that predict a class, and what mixing them has learned.

    Probabilities are in rows of `width`, of which the first `n_classes` are used.
    """

    n_experts: Int64
    # Number of classes so far.
    n_classes: Int64
    # Number of classes for which a row has room.
    width: Int64
    # Weight of each expert in the fixed share; they add up to 1.
    weights: Float64s
    # Exponent of each expert in the log-linear pool, and the sum of its squared gradients.
    exponents: Float64s
    squares: Float64s
    # Weight of each finalist in the last fixed share; they add up to 1.
    last_weights: Float64s
    # Inverse temperature of the fixed share, and the sum of its squared gradients.
    inverse_temperature: Float64
    temperature_squares: Float64
    # Largest weight of a sample, which fades, or 1.
    largest_weight: Float64
    # Of the last sample: what each expert has predicted (n_experts rows), the logarithms of that
    # and of the fixed share (n_experts + 1 rows), what the last fixed share chose among
    # (N_FINALISTS rows), and its result (one row).
    predicted: Float64s = transient()
    logs: Float64s = transient()
    finalists: Float64s = transient()
    mixed: Float64s = transient()


@inlined
def floor_experts(experts: Experts) -> None:
    """Let no expert give a class a probability near 0, which would end its weight for good."""
    predicted, n_classes, width = experts.predicted, experts.n_classes, experts.width
    for e in range(experts.n_experts):
        expert = predicted.part(width * e, width)
        total = 0.0
        for k in range(n_classes):
            expert[k] = max(expert[k], FLOOR / n_classes)
            total += expert[k]
        divide(expert, n_classes, total)


@kernel
def combine(experts: Experts) -> None:
    """Mix what the experts have predicted, which is floored in place."""
    n, n_classes, width = experts.n_experts, experts.n_classes, experts.width
    predicted, logs = experts.predicted, experts.logs
    weights, exponents, last_weights = experts.weights, experts.exponents, experts.last_weights
    inverse, finalists, mixed = experts.inverse_temperature, experts.finalists, experts.mixed
    tempered = finalists.part(width * TEMPERED, width)
    pooled = finalists.part(width * LOG_LINEAR, width)
    first = finalists.part(width * FIRST, width)
    for k in range(n_classes):
        tempered[k] = 0.0
        pooled[k] = 0.0
    floor_experts(experts)
    if n_classes <= FEW:
        # All at once, with what is behind the classes.
        logarithms(predicted, n * width, logs)
    for e in range(n):
        expert, own_logs = predicted.part(width * e, width), logs.part(width * e, width)
        weight, exponent = weights[e], exponents[e]
        for k in range(n_classes):
            if n_classes > FEW:
                own_logs[k] = logarithm(expert[k])
            # The fixed share is sum_e w_e p_ek; the pool is prod_e p_ek^a_e but for a factor.
            tempered[k] = tempered[k] + weight * expert[k]
            pooled[k] = pooled[k] + exponent * own_logs[k]
    share_logs = logs.part(width * n, width)
    logarithms(tempered, n_classes, share_logs)
    for k in range(n_classes):
        # Probabilities to the power of the inverse temperature, but for a factor.
        tempered[k] = inverse * share_logs[k]
        first[k] = predicted[k]
    normalize_logs(tempered, n_classes)
    normalize_logs(pooled, n_classes)
    total = 0.0
    w_tempered, w_pooled = last_weights[TEMPERED], last_weights[LOG_LINEAR]
    w_first = last_weights[FIRST]
    for k in range(n_classes):
        mixed[k] = w_tempered * tempered[k] + w_pooled * pooled[k] + w_first * first[k]
    for k in range(n_classes):
        total += mixed[k]
    divide(mixed, n_classes, total)


@inlined
def share(
    weights: Float64s, n: int, width: int, probabilities: Float64s, label: int, part: float
) -> None:
    """Let the weights of a fixed share learn a class (Herbster and Warmuth 1998).

    `probabilities` has what each of the `n` has predicted, in rows of `width`; of the sample a
    `part` counts, which is at most 1.
    """
    for e in range(n):
        # Loss update: w_e exp(-loss), where the loss is a part of the log loss -log p_e.
        p = probabilities.part(width * e, width)[label]
        weights[e] = weights[e] * (p if part == 1.0 else p**part)
    total = ordered_sum(weights, n)
    rate = SHARE_RATE * part
    for e in range(n):
        # Share update: (1 - a) w_e + a / (n - 1) sum_{i != e} w_i with a = rate (n - 1) / n, which
        # is (1 - rate) w_e + rate / n, as the weights add up to 1.
        weights[e] = (1.0 - rate) * weights[e] / total + rate / n


@inlined
def log_loss_gradient(probabilities: Float64s, logs: Float64s, n_classes: int, label: int) -> float:
    """Return d/da of the log loss of p_k = exp(a l_k + ...) / sum_j exp(a l_j + ...).

    As log p_k = a l_k + ... - log sum_j exp(a l_j + ...), it is sum_k p_k l_k - l_label.
    """
    gradient = -logs[label]
    for k in range(n_classes):
        gradient += probabilities[k] * logs[k]
    return gradient


@inlined
def descended(value: float, gradient: float, squares: float, least: float) -> float:
    """Return an exponent after a step of AdaGrad (Duchi, Hazan and Singer 2011), within bounds.

    `squares` is the sum of its squared gradients, this one included.
    """
    moved = value - STEP * gradient / math.sqrt(1.0 + squares)
    return min(max(moved, least), LARGEST_EXPONENT)


@kernel
def learn(experts: Experts, label: int, weight: float) -> None:
    """Let the mixture learn a class, of a sample of a weight, after `combine`."""
    n, n_classes, width = experts.n_experts, experts.n_classes, experts.width
    exponents, squares, logs = experts.exponents, experts.squares, experts.logs
    finalists = experts.finalists
    pooled = finalists.part(width * LOG_LINEAR, width)
    for e in range(n):
        gradient = log_loss_gradient(pooled, logs.part(width * e, width), n_classes, label)
        gradient *= weight
        squares[e] = squares[e] + gradient * gradient
        exponents[e] = descended(exponents[e], gradient, squares[e], LEAST_EXPONENT)
    tempered = finalists.part(width * TEMPERED, width)
    gradient = log_loss_gradient(tempered, logs.part(width * n, width), n_classes, label)
    gradient *= weight
    experts.temperature_squares = experts.temperature_squares + gradient * gradient
    experts.inverse_temperature = descended(
        experts.inverse_temperature, gradient, experts.temperature_squares, LEAST_INVERSE
    )
    largest = max(weight, 1.0, (1.0 - FADING) * experts.largest_weight)
    experts.largest_weight = largest
    part = weight / largest
    share(experts.weights, n, width, experts.predicted, label, part)
    share(experts.last_weights, N_FINALISTS, width, finalists, label, part)


def _own_prediction(memory: Memory[Experts]) -> None:
    """Give a record the memory that the prediction of a sample is written to."""
    n, width = memory[0].n_experts, memory[0].width
    n_rows = {"predicted": n, "logs": n + 1, "finalists": N_FINALISTS, "mixed": 1}
    for name, n_of in n_rows.items():
        memory.own(name, np.zeros(n_of * width))


class Mixture:
    """The memory of experts and of what mixing them has learned.

    Parameters
    ----------
    n
        Number of experts.

    """

    def __init__(self, n: int) -> None:
        self.weights = np.full(n, 1.0 / n)
        self.exponents = np.full(n, 1.0 / n)
        self.squares = np.zeros(n)
        self.last_weights = np.full(N_FINALISTS, 1.0 / N_FINALISTS)
        self.memory = Memory(Experts)
        self.record.n_experts = n
        self.record.inverse_temperature = 1.0
        self.record.largest_weight = 1.0
        self.reserve(0)

    @property
    def record(self) -> Experts:
        """The record, for kernels."""
        return self.memory[0]

    def reserve(self, width: int) -> None:
        """Make room for the probabilities of so many classes; those of the last sample go."""
        self.record.width = width
        for name in ("weights", "exponents", "squares", "last_weights"):
            self.memory.own(name, getattr(self, name))
        _own_prediction(self.memory)
        arrays = self.memory.arrays
        self.predicted = arrays["predicted"].reshape(len(self.weights), width)
        self.mixed = arrays["mixed"]

    def reader(self) -> Memory[Experts]:
        """Return a copy of the record by which another thread predicts."""
        copy = self.memory.copied()
        _own_prediction(copy)
        return copy

    def follow_drift(self) -> None:
        """Let the steps of the pool's exponents be as large as at first again."""
        self.squares[:] = 0.0

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.memory.nbytes

    def __getstate__(self) -> dict[str, Any]:
        # The rest holds the last sample only.
        learned = ("weights", "exponents", "squares", "last_weights", "memory")
        return {name: self.__dict__[name] for name in learned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(owned(state))
        n = (self.record.n_experts,)
        shapes = {"weights": n, "exponents": n, "squares": n, "last_weights": (N_FINALISTS,)}
        check_types(self, {"memory": Memory} | dict.fromkeys(shapes, np.ndarray))
        check_shapes(self, shapes)
        check_number(self, "width", self.record.width, 0, LARGEST_WIDTH)
        largest = self.record.largest_weight
        check_number(self, "largest_weight", largest, 1.0, LARGEST_WEIGHT)
        self.reserve(self.record.width)
