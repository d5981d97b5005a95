"""What a sweep over lifetimes has found."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...optional import require

Array = NDArray[np.float64]

LEARNERS = ("ridge", "sgd", "forest")
SETS = ("train", "validation", "test")


@dataclass(frozen=True)
class LifetimePath:
    """What a sweep found, by lifetime: 0 and the time of every cut, or of every so many.

    Attributes
    ----------
    lifetimes
        Times from which on the results of the same place hold, until the next.
    n_cells
        Cells of all partitions together.
    errors
        Root mean squared errors by learner ("ridge", "sgd", "forest") and set ("train",
        "validation", "test").
    log_marginal_likelihood
        Log density of the centred training targets under ridge regression; empty without it.
    seconds
        Time spent from the start of the sweep.
    lifetime_max
        The terminal lifetime.
    cuts
        Structured array of the cuts, by time: "partition", "cell", "feature" and "place". Points of
        the cell above the place went to the next cell number; numbers 0 to M - 1 are the whole
        space in each of the M partitions.
    weights
        By learner, what each cell says of the target less its mean, at the terminal lifetime; a
        prediction is the mean over a row's M cells.
    test_prediction
        Predictions of the test rows by ridge regression, averaged over the posterior of the
        lifetime; None without a prior.

    """

    lifetimes: Array
    n_cells: NDArray[np.int64]
    errors: dict[str, dict[str, Array]]
    log_marginal_likelihood: Array
    seconds: Array
    lifetime_max: float
    cuts: NDArray[Any]
    weights: dict[str, Array]
    test_prediction: Array | None = field(default=None)

    def best(self, learner: str = "ridge", by: str = "validation") -> float:
        """Return the lifetime at which a learner's error on a set is least.

        Parameters
        ----------
        learner
            "ridge", "sgd" or "forest".
        by
            "train", "validation" or "test"; or "marginal" for the largest marginal likelihood.

        Raises
        ------
        ValueError
            If the sweep has no such results.

        """
        if by == "marginal":
            if not len(self.log_marginal_likelihood):
                raise ValueError("the sweep had no ridge regression")
            return float(self.lifetimes[self.log_marginal_likelihood.argmax()])
        if by not in self.errors.get(learner, {}):
            raise ValueError(f"the sweep has no {by} error of {learner!r}")
        return float(self.lifetimes[self.errors[learner][by].argmin()])

    def posterior(self, prior: Any) -> Array:
        """Return the posterior probability of each stretch from a lifetime to the next.

        Parameters
        ----------
        prior
            A frozen distribution of `scipy.stats`, cut off at the terminal lifetime.

        Raises
        ------
        ValueError
            If the sweep had no ridge regression, or the prior has no mass below the terminal
            lifetime.

        """
        if not len(self.log_marginal_likelihood):
            raise ValueError("the sweep had no ridge regression")
        masses = np.diff(prior.cdf(np.append(self.lifetimes, self.lifetime_max)))
        with np.errstate(divide="ignore"):
            logs = np.log(masses) + self.log_marginal_likelihood
        if logs.max() == -math.inf:
            raise ValueError("the prior has no mass below the terminal lifetime")
        shares: Array = np.exp(logs - logs.max())
        shares /= shares.sum()
        return shares

    def to_frame(self) -> Any:
        """Return a pandas frame with a row per lifetime."""
        pd = require("pandas", "pandas", "to_frame")
        columns = {"lifetime": self.lifetimes, "n_cells": self.n_cells}
        if len(self.log_marginal_likelihood):
            columns["log_marginal_likelihood"] = self.log_marginal_likelihood
        for learner, errors in self.errors.items():
            columns |= {f"{learner}_{kind}": values for kind, values in errors.items()}
        return pd.DataFrame(columns | {"seconds": self.seconds})

    def plot(self, ax: Any = None) -> Any:
        """Plot the errors by lifetime; see `river_mondrian.plot.lifetimes`.

        Parameters
        ----------
        ax
            Axes of matplotlib to draw on; None stands for those of a new figure.

        Returns
        -------
        The axes.

        """
        from ...plot.sweeps import lifetimes

        return lifetimes(self, ax)
