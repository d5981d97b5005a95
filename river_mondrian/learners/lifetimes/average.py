"""Predictions averaged by the posterior of the lifetime (Supplement B)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class LifetimeAverage:
    """Predictions averaged by the posterior of the lifetime, as it becomes known."""

    def __init__(self, prior: Any, n: int) -> None:
        self.prior = prior
        self.total, self.weight, self.top = np.zeros(n), 0.0, -math.inf

    def add(self, start: float, stop: float, log_likelihood: float, predictions: Array) -> None:
        """Add what holds from one lifetime to another."""
        mass = float(self.prior.cdf(stop) - self.prior.cdf(start))
        if not mass > 0.0:
            return
        log = math.log(mass) + log_likelihood
        if log > self.top:
            shrink = math.exp(self.top - log)
            self.total *= shrink
            self.weight *= shrink
            self.top = log
        share = math.exp(log - self.top)
        self.total += share * predictions
        self.weight += share

    @property
    def result(self) -> Array:
        """The average."""
        if self.weight == 0.0:
            raise ValueError("the prior has no mass below the terminal lifetime")
        return self.total / self.weight
