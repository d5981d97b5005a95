"""Time of random cut forests and of detectors with as many trees and the same window."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from river import anomaly, preprocessing

from river_mondrian import RandomCutForest

from ..data import DataFolder, Stream, stream
from ..report import Report, progress
from .detectors import CutForest, rrcf

# Numbers of trees, windows and features.
SIZES = ((50, 1024, 10), (40, 256, 10), (100, 256, 10), (50, 1024, 2))
TARGET_SIZE = SIZES[0]

ROUNDS = 5

# Number of samples of the window that trees store by default.
HELD = RandomCutForest().max_samples

# Number of timed samples per round, for most detectors and for the slow `rrcf`.
N_SAMPLES, N_SLOW = 300, 10


def _half_spaces(n_trees: int, window: int) -> Any:
    trees = anomaly.HalfSpaceTrees(n_trees=n_trees, window_size=window, seed=1)
    return preprocessing.MinMaxScaler() | trees


# By name: a function from the number of trees and the window to a detector, and the number of
# samples per round.
DETECTORS: dict[str, tuple[Callable[[int, int], Any], int]] = {
    "RandomCutForest": (lambda n, window: RandomCutForest(n, window, seed=1), N_SAMPLES),
    "RandomCutForest that holds all": (
        lambda n, window: RandomCutForest(n, window, max_samples=window, seed=1),
        N_SAMPLES,
    ),
    "HalfSpaceTrees": (_half_spaces, N_SAMPLES),
}
if rrcf is not None:
    DETECTORS["rrcf"] = lambda n, window: CutForest(n, window, 1), N_SLOW


def _run(model: Any, samples: Stream) -> float:
    """Score and learn each sample; return the processor time per sample in microseconds."""
    started = time.process_time()
    for x, _ in samples:
        model.score_one(x)
        model.learn_one(x)
    return 1e6 * (time.process_time() - started) / len(samples)


def cuts(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the time to score and learn a sample in a full window."""
    rounds = 2 if quick else ROUNDS
    rows = []
    for size in SIZES[-1:] if quick else SIZES:
        n_trees, window, d = size
        X = np.random.default_rng(1).normal(size=(window + 10 + rounds * N_SAMPLES, d))
        samples = stream(X, np.zeros(len(X)))
        models = {name: make(n_trees, window) for name, (make, _) in DETECTORS.items()}
        for name, model in models.items():
            progress(f"{name}, {n_trees} trees, window {window}, {d} features")
            _run(model, samples[: window + 10])
        times: dict[str, list[float]] = {name: [] for name in models}
        for i in range(rounds):
            for name, model in models.items():
                start = window + 10 + i * N_SAMPLES
                times[name].append(_run(model, samples[start : start + DETECTORS[name][1]]))
        found = {name: float(np.median(values)) for name, values in times.items()}
        ours = times["RandomCutForest"]
        for name, value in found.items():
            ratios = np.divide(times[name], ours)
            ratio = f"{np.median(ratios):.1f} ({ratios.min():.1f} to {ratios.max():.1f})"
            rows.append([str(n_trees), f"{window:,}", str(d), name, f"{value:,.0f}", ratio])
        if size == TARGET_SIZE:
            own = found["RandomCutForest"]
            report.note(
                f"With {n_trees} trees, a window of {window:,} and {d} features, RandomCutForest "
                f"takes {own:.0f} us to score and learn a sample."
            )
            if "rrcf" in found:
                ratio = float(np.median(np.divide(times["rrcf"], ours)))
                report.note(f"`rrcf` takes {ratio:.0f} times as long.")
    report.note(
        f"The trees of RandomCutForest store at most {HELD} samples of the window by default. In "
        "rows with `holds all`, the trees store all samples of the window. Normal samples are "
        f"scored and then learned in a full window. Times are processor times, medians of {rounds} "
        f"rounds in which the detectors take turns. A round has {N_SAMPLES} samples ({N_SLOW} for "
        "`rrcf`). The last column has the median, smallest and largest ratio to RandomCutForest "
        "over the rounds."
    )
    report.table(["trees", "window", "features", "detector", "us per sample", "ratio"], rows)
