"""What is to be learned how: a loss and a learning rate."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import optim

from ...arguments import is_real
from ...checks import check_types
from .losses import Loss
from .record import GradientDescent

# Losses of River's that kernels know, with the attributes that are fields of a learner's record.
NATIVE: dict[type[optim.losses.Loss], tuple[Loss, dict[str, str]]] = {
    optim.losses.Hinge: (Loss.HINGE, {"margin": "threshold"}),
    optim.losses.Log: (
        Loss.LOG,
        {"positive_weight": "weight_pos", "negative_weight": "weight_neg"},
    ),
    optim.losses.Squared: (Loss.SQUARED, {}),
    optim.losses.EpsilonInsensitiveHinge: (Loss.EPSILON_INSENSITIVE, {"margin": "eps"}),
    optim.losses.Huber: (Loss.HUBER, {"margin": "epsilon"}),
}


class Rule:
    """A loss and a learning rate.

    Parameters
    ----------
    loss
        A loss of River's.
    learning_rate
        A number, or a scheduler, SGD or AdaGrad of River's.
    softmax
        Whether several scores share one loss, the cross-entropy.

    """

    def __init__(self, loss: Any, learning_rate: Any, softmax: bool) -> None:
        self.loss, self.learning_rate = copy.deepcopy(loss), copy.deepcopy(learning_rate)
        self.softmax = softmax
        self._read()

    def _read(self) -> None:
        """Make what follows from the arguments."""
        loss, learning_rate = self.loss, self.learning_rate
        self.native = type(loss) in NATIVE
        self.adaptive, self.eps, rate = False, 0.0, learning_rate
        if isinstance(rate, optim.base.Optimizer):
            if type(rate) not in (optim.SGD, optim.AdaGrad):
                raise ValueError(
                    "of River's optimizers, learning_rate may be SGD or AdaGrad, "
                    f"got {type(rate).__name__}"
                )
            if isinstance(rate, optim.AdaGrad):
                self.adaptive, self.eps = True, float(rate.eps)
            rate = rate.lr
        if isinstance(rate, optim.schedulers.Constant):
            rate = rate.learning_rate
        self.schedule: optim.base.Scheduler | None = None
        if isinstance(rate, optim.base.Scheduler):
            self.schedule, rate = rate, 0.0
        elif not (is_real(rate) and 0.0 < rate < math.inf):
            raise ValueError(
                "learning_rate must be a finite number > 0, or a scheduler, SGD or AdaGrad of "
                f"River's, got {learning_rate!r}"
            )
        self.rate = float(rate)

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("loss", "learning_rate", "softmax")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        check_types(self, {"loss": optim.losses.Loss, "learning_rate": object, "softmax": bool})
        self._read()

    def rate_at(self, step: int) -> float:
        """Return the learning rate after so many steps."""
        return self.rate if self.schedule is None else float(self.schedule.get(step))

    def rates_from(self, step: int, n: int) -> NDArray[np.float64]:
        """Return the learning rates of `n` steps, after so many."""
        if self.schedule is None:
            return np.full(n, self.rate)
        return np.array([self.rate_at(step + i) for i in range(n)])

    def write(self, learner: GradientDescent) -> None:
        """Write the loss, for the learner's number of scores, and how steps adapt."""
        has_words, n_classes = bool(learner.has_words), max(2, learner.n_scores)
        learner.is_adaptive = int(self.adaptive and not has_words)
        learner.is_adaptive_by_column = int(self.adaptive and has_words)
        learner.eps = self.eps
        # Scores have the farther to go the more classes there are: the first loss is log(n).
        learner.rate_of_words = math.log2(n_classes) if self.adaptive else 1.0
        if learner.n_scores > 1 and self.softmax:
            learner.loss = Loss.SOFTMAX
        elif not self.native:
            learner.loss = Loss.FOREIGN
        else:
            learner.loss, fields = NATIVE[type(self.loss)]
            for field, attribute in fields.items():
                setattr(learner, field, float(getattr(self.loss, attribute)))
