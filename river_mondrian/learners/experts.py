"""Log-linear pool of the class probabilities of several experts.

If expert e predicts class k with probability p_ek, the pool predicts

    p_k = prod_e p_ek^a_e / sum_j prod_e p_ej^a_e.

The last expert, called the fixed share, predicts a weighted mean of the other experts' predictions.
The fixed-share algorithm (Herbster and Warmuth 1998) sets the weights of this mean. The fixed share
finds the best expert within a few samples after a drift, before the exponents have changed much.

AdaGrad learns the exponents a_e from the log loss (Duchi, Hazan and Singer 2011): steps shrink as
the sum of the squared gradients grows. The sum of the exponents is the pool's inverse temperature.
The sum is 1 at first, and grows if all experts are underconfident.

The gradient of a sample of weight w is multiplied by w / W, where W is the largest recent weight,
and at least 1. Otherwise one heavy sample would make all later steps small. The log loss in the
fixed share is also multiplied by w / W. The loss bound of the fixed share assumes weights of at
most 1.
"""

import math

from ..compiling.kernels import helper, kernel, ordered_sums
from ..elementary import FEW, divide, logarithm, logarithms, normalize_logs
from ..limits import LARGEST_WEIGHT
from ..records import Bounds, Float64, Float64s, Floats, Int64, Record, sized, stored, transient
from .learned import Learned

# Bound on the number of classes, and on the number of experts.
LARGEST_WIDTH = 1 << 25

# `combine` raises smaller probabilities of experts to FLOOR divided by the number of classes.
FLOOR = 1e-4
# Fraction by which the largest weight of a sample (`largest_weight`) decays at each sample.
FADING = 0.001
# Step size of an exponent, its initial sum of squared gradients, and its bounds.
STEP_SIZE = 0.1
FIRST_SQUARES = 20.0
LARGEST_EXPONENT = 4.0
LEAST_EXPONENT = -1.0
# Fraction of the fixed share's weights that is spread evenly at each sample.
SHARE_RATE = 0.01


class MixtureRecord(Record):
    """Experts that predict a class, and the state of their mixture.

    Probabilities are in rows of length `width`; the first `n_classes` elements of a row are used.
    """

    n_experts: Int64 = stored(Bounds(2, LARGEST_WIDTH))
    # Current number of classes.
    n_classes: Int64
    # Number of classes that a row has room for.
    width: Int64 = stored(Bounds(0, LARGEST_WIDTH))
    # Exponent of each expert, and the sum of the exponent's squared gradients.
    exponents: Float64s = sized("n_experts")
    squares: Float64s = sized("n_experts")
    # Weights in the fixed share, for all experts except the last; the weights add up to 1.
    shares: Float64s = sized("n_shared", bounds=Bounds(0.0, 1.0))
    # Largest weight of a sample, at least 1; it decays at each sample (FADING).
    largest_weight: Float64 = stored(Bounds(1.0, LARGEST_WEIGHT))
    # For the last sample: the experts' predictions and their logarithms (a row per expert), the
    # pool's prediction, and each expert's probability of the label.
    predicted: Float64s = transient("n_experts", "width")
    logs: Float64s = transient("n_experts", "width")
    mixed: Float64s = transient("width")
    likelihoods: Float64s = transient("n_experts")

    def n_shared(self) -> int:
        """Return the number of experts, not counting the fixed share."""
        return self.n_experts - 1


@helper
@ordered_sums
def relative_weight(weight: float, largest: float) -> tuple[float, float]:
    """Return the new largest recent weight, at least 1, and `weight` divided by this weight."""
    largest = max(weight, 1.0, (1.0 - FADING) * largest)
    return largest, weight / largest


@helper
@ordered_sums
def share(weights: Float64s, n: int, densities: Float64s, power: float, rate: float) -> None:
    """Update the weights of a fixed share with experts' densities raised to `power`."""
    total = 0.0
    for e in range(n):
        weights[e] = weights[e] * (densities[e] if power == 1.0 else densities[e] ** power)
        total += weights[e]
    rate *= power
    for e in range(n):
        weights[e] = (1.0 - rate) * (weights[e] / total) + rate / n


@kernel
def combine(experts: MixtureRecord) -> None:
    """Raise probabilities below `FLOOR / n_classes` to this floor in place, and mix the experts."""
    n, n_classes, width = experts.n_experts, experts.n_classes, experts.width
    predicted, logs, mixed = experts.predicted, experts.logs, experts.mixed
    n_shared = experts.n_shared()
    shared = predicted.part(width * n_shared, width)
    for k in range(n_classes):
        mixed[k] = 0.0
        shared[k] = 0.0
    for e in range(n_shared):
        # A floor bounds the logarithms, because one probability near 0 would dominate the pool.
        expert, total = predicted.part(width * e, width), 0.0
        for k in range(n_classes):
            expert[k] = max(expert[k], FLOOR / n_classes)
            total += expert[k]
        divide(expert, n_classes, total)
        for k in range(n_classes):
            shared[k] += experts.shares[e] * expert[k]
    if n_classes <= FEW:
        # One call for all rows, with unused columns, is faster than a call for each short row.
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
def learn(experts: MixtureRecord, label: int, weight: float) -> None:
    """Update exponents and shares with the class and weight of the last sample of `combine`."""
    n, width, mixed = experts.n_experts, experts.width, experts.mixed
    exponents, squares = experts.exponents, experts.squares
    experts.largest_weight, power = relative_weight(weight, experts.largest_weight)
    for e in range(n):
        # Let l_k be the logarithms of the probabilities of an expert with exponent a. Then log p_k
        # = a l_k + ... - log sum_j exp(a l_j + ...). So the derivative of the log loss with respect
        # to a is sum_k p_k l_k - l_label.
        logs = experts.logs.part(width * e, width)
        gradient = -logs[label]
        for k in range(experts.n_classes):
            gradient += mixed[k] * logs[k]
        gradient *= power
        squares[e] += gradient * gradient
        moved = exponents[e] - STEP_SIZE * gradient / math.sqrt(squares[e])
        exponents[e] = min(max(moved, LEAST_EXPONENT), LARGEST_EXPONENT)
        experts.likelihoods[e] = experts.predicted[width * e + label]
    share(experts.shares, experts.n_shared(), experts.likelihoods, power, SHARE_RATE)


class Mixture(Learned[MixtureRecord]):
    """The memory of experts and of their mixture.

    Parameters
    ----------
    n
        Number of experts, not counting the fixed share.

    """

    _KIND = MixtureRecord

    def __init__(self, n: int) -> None:
        super().__init__(n_experts=n + 1, largest_weight=1.0)
        self.learned["exponents"][:], self.learned["squares"][:] = 1.0 / (n + 1), FIRST_SQUARES
        self.learned["shares"][:] = 1.0 / n
        self.show()

    def reserve(self, width: int) -> None:
        """Reserve memory for `width` classes, and clear the predictions for the last sample."""
        self.record.width = width
        self.show()

    @property
    def exponents(self) -> Floats:
        """Exponent of each expert."""
        return self.learned["exponents"]

    @property
    def predicted(self) -> Floats:
        """Predictions of the experts for the last sample, shape (experts, width)."""
        return super().predicted.reshape(self.record.n_experts, self.record.width)

    def follow_drift(self) -> None:
        """Reset steps to their initial size."""
        self.learned["squares"][:] = FIRST_SQUARES
