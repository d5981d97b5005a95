"""Scores of a regressor on a stream: errors, densities, coverage, time."""

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from river_mondrian import PredictiveDistribution

from ..data import Array, Stream
from ..timing import BLOCK
from .models import Model

LEVELS = (0.5, 0.8, 0.95)
LEAST_LOG = -700.0
# The CRPS is slow, so it is computed for every tenth sample only.
CRPS_EVERY = 10


def run(model: Model, samples: Stream, delay: int, seed: int, out: dict[str, Any]) -> Iterator[str]:
    """Predict each sample, learn it after `delay` other samples, and write the scores.

    Predictions before the first sample is learned are 0. Yields after each block of samples.
    Scores of distributions exclude the first tenth of the samples. An ArithmeticError ends the
    run; then only "failure" is written to `out`.
    """
    regressor, n, seconds = model.make(seed), len(samples), 0.0
    errors, logs, crps, widths = [], [], [], []
    # For each target, the smallest level at which the central interval contains it.
    levels: list[float] = []
    for start in range(0, n, BLOCK):
        found: list[tuple[float, Any]] = []
        began = time.process_time()
        try:
            for i in range(start, min(start + BLOCK, n)):
                x = samples[i][0]
                found.append(model.predict(regressor, x) if i > delay else (0.0, None))
                if i >= delay:
                    regressor.learn_one(*samples[i - delay])
        except ArithmeticError as error:
            out["failure"] = f"{type(error).__name__}: {error}"
            return
        seconds += time.process_time() - began
        for i, (point, law) in enumerate(found, start):
            y = samples[i][1]
            errors.append(y - (point if math.isfinite(point) else 0.0))
            if i < n // 10 or law is None:
                continue
            if isinstance(law, PredictiveDistribution):
                logs.append(max(law.log_pdf(y), LEAST_LOG))
                levels.append(abs(2.0 * law.cdf(y) - 1.0))
                widths.append(law.var)
                if i % CRPS_EVERY == 0:
                    crps.append(law.crps(y))
            else:  # The ends of a 95 % interval.
                levels.append(0.95 if law[0] <= y <= law[1] else 1.0)
        yield "both"
    out |= {
        "mae": float(np.abs(errors).mean()),
        "rmse": math.sqrt(np.square(errors).mean()),
        "us": 1e6 * seconds / n,
    }
    if logs:
        out |= {"log": float(np.mean(logs)), "crps": float(np.mean(crps))}
    if levels:
        quarters = np.array_split(np.argsort(widths, kind="stable"), 4) if widths else []
        out["coverage"] = coverage(np.array(levels), [np.arange(len(levels)), *quarters])


def coverage(levels: Array, parts: list[Array]) -> list[list[float]]:
    """Return the share of targets in each central interval, for each part of the targets."""
    return [[float((levels[part] <= q).mean()) for q in LEVELS] for part in parts]


def mean_of(runs: list[dict[str, Any]], what: str) -> float:
    """Return the mean of a score over seeds, or NaN if no run has this score."""
    values = [run[what] for run in runs if what in run]
    return float(np.mean(values)) if values else math.nan


def number(value: float, form: str = ".4g") -> str:
    """Return a score as text."""
    return "-" if math.isnan(value) else format(value, form)
