"""Scores of a regressor on a stream: errors, densities, coverage, time."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..data import Array, Stream
from ..timing import BLOCK
from .models import Model, finite

LEVELS = (0.5, 0.8, 0.95)
QUARTERS = 4
LEAST_LOG = -700.0
# The CRPS is slow, so it is computed for every tenth sample only.
CRPS_EVERY = 10
# Largest allowed difference between coverage and level, over all samples and in each quarter.
CLOSE, CLOSE_LOCALLY = 0.03, 0.08


@dataclass
class Scores:
    """Scores of one run. Scores of distributions exclude the first tenth of the samples."""

    n: int
    errors: list[float] = field(default_factory=list)
    log_likelihoods: list[float] = field(default_factory=list)
    crps: list[float] = field(default_factory=list)
    # For each target: the predicted probability of a smaller value, and the predicted variance.
    levels: list[float] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    seconds: float = 0.0
    # The error that ended the run.
    failure: str = ""

    def add(self, i: int, point: float, law: Any, y: float) -> None:
        """Update the scores by the prediction of the i-th target."""
        self.errors.append(y - finite(point))
        if law is None:
            return
        self.log_likelihoods.append(max(law.log_pdf(y), LEAST_LOG))
        if i >= self.n // 10:
            if i % CRPS_EVERY == 0:
                self.crps.append(law.crps(y))
            self.levels.append(law.cdf(y))
            self.widths.append(law.var)

    def coverage(self) -> list[list[float]]:
        """Return the share of targets in each central interval.

        The first row is for all samples, and the others for the quarters by predicted variance.
        """
        away = np.abs(2.0 * np.array(self.levels) - 1.0)
        parts: list[Array] = [np.arange(len(away))]
        parts += np.array_split(np.argsort(self.widths, kind="stable"), QUARTERS)
        return [[float((away[part] <= q).mean()) for q in LEVELS] for part in parts]

    def summary(self) -> dict[str, Any]:
        """Return the scores as Python numbers."""
        if self.failure:
            return {"n": self.n, "failure": self.failure}
        errors, n = np.array(self.errors), self.n
        found: dict[str, Any] = {
            "n": n,
            "mae": float(np.abs(errors).mean()),
            "rmse": math.sqrt(np.square(errors).mean()),
            "us": 1e6 * self.seconds / n,
        }
        if self.levels:
            logs = np.array(self.log_likelihoods)
            found["log"] = float(logs[-len(self.levels) :].mean())
            found["log, whole"] = float(logs.mean())
            found["crps"] = float(np.mean(self.crps))
            found["coverage"] = self.coverage()
        return found


def run(model: Model, seed: int, samples: Stream, delay: int, scores: Scores) -> Iterator[str]:
    """Predict each sample, learn it after `delay` other samples, and update the scores.

    The first prediction is 0. Yields after each block of samples. Only calls of the model are
    timed.
    """
    regressor, predict = model.make(seed), model.predict
    for start in range(0, len(samples), BLOCK):
        found: list[tuple[float, Any]] = []
        began = time.process_time()
        try:
            for i in range(start, min(start + BLOCK, len(samples))):
                found.append(predict(regressor, samples[i][0]) if i > delay else (0.0, None))
                if i >= delay:
                    regressor.learn_one(*samples[i - delay])
        except ArithmeticError as error:
            scores.failure = f"{type(error).__name__}: {error}"
            return
        scores.seconds += time.process_time() - began
        for i, (point, law) in enumerate(found, start):
            scores.add(i, point, law, samples[i][1])
        yield "both"


def holds(coverage: list[list[float]]) -> tuple[bool, bool]:
    """Return whether the coverage of all samples, and of each quarter, is within its limit."""
    whole, *quarters = coverage
    near = all(abs(c - q) <= CLOSE for c, q in zip(whole, LEVELS, strict=True))
    local = all(
        abs(c - q) <= CLOSE_LOCALLY for part in quarters for c, q in zip(part, LEVELS, strict=True)
    )
    return near, local
