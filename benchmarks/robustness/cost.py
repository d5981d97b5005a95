"""Time to learn if the features' ranges stay the same, or if a stream starts in a corner."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..data import Array, DataFolder, Stream, min_max_stream, stream
from ..report import Report, progress, pyplot
from ..timing import BLOCK, no_gc
from .corner import START, sorted_start
from .runs import CLASSIFIERS, REGRESSORS, Limits

FULL, QUICK = Limits(10_000, 5), Limits(600, 1)
N_TREES, DIMENSION = 100, 16
WARM_UP = 256


def _streams(n: int) -> dict[str, tuple[Array, Array]]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, DIMENSION))
    y = (X[:, 0] * X[:, 1] + X[:, 2] > 0.0).astype(int)
    # Half of the features start within a twentieth of their range.
    order = sorted_start(X, 0, min(START, n // 3))
    cornered = X[order]
    cornered[: min(START, n // 3), : DIMENSION // 2] *= 0.05
    return {"even": (X, y), "corner": (cornered, y[order])}


def _calls(models: dict[str, Any], streams: dict[str, Stream]) -> dict[str, Array]:
    """Return the CPU milliseconds of each call; the models take turns."""
    spent = {name: np.empty(len(samples)) for name, samples in streams.items()}
    names = list(models)
    with no_gc():
        for start in range(0, max(len(samples) for samples in streams.values()), BLOCK):
            for name in names:
                learn, own = models[name].learn_one, spent[name]
                for i, (x, y) in enumerate(streams[name][start : start + BLOCK], start):
                    begun = time.process_time_ns()
                    learn(x, y)
                    own[i] = 1e-6 * (time.process_time_ns() - begun)
            names.reverse()
    return spent


def _measure(name: str, make: Callable[..., Any], n: int, repeats: int) -> dict[str, Array]:
    """Return the times of calls by stream; a time is the median of repeats with one seed."""
    streams = {}
    for what, (X, y) in _streams(n).items():
        samples = stream(X, y.astype(float))
        streams[what] = samples
        streams[f"{what}, given"] = min_max_stream(samples)
    runs = []
    for repeat in range(repeats):
        progress(f"{name}, repeat {repeat}")
        models = {
            what: make(n_estimators=N_TREES, seed=1, scale=not what.endswith("given"))
            for what in streams
        }
        runs.append(_calls(models, streams))
    return {what: np.median([run[what] for run in runs], axis=0) for what in streams}


def cost(data: DataFolder, report: Report, quick: bool, limits: Limits) -> None:
    """Compare the time to learn with and without given ranges; measure the longest calls."""
    n, repeats, _ = limits.over(QUICK if quick else FULL)
    rows, curves = [], {}
    for name, make in {**CLASSIFIERS, **REGRESSORS}.items():
        _measure(name, make, 300, 1)  # Compile kernels before timing.
        found = _measure(name, make, n, repeats)
        for what in ("even", "corner"):
            own, given = found[what], found[f"{what}, given"]
            curves[name, what] = own, given
            longest = [t for ms in (own, given) for t in (ms[:WARM_UP].max(), ms[WARM_UP:].max())]
            rows.append(
                [
                    name,
                    what,
                    f"{1e3 * own.mean():.0f}",
                    f"{1e3 * given.mean():.0f}",
                    f"{own.sum() / given.sum():.2f}",
                    *(f"{ms:.2f}" for ms in longest),
                ]
            )
    report.note(
        "Time to learn if the features' ranges stay the same, and if a stream starts in a corner. "
        f"Times are CPU microseconds of learn_one with {N_TREES} trees, {DIMENSION} normal "
        f"features and {n} samples. The time of a call is the median of {repeats} repeats with one "
        "seed, in one process in which models take turns. In columns with the word `given`, inputs "
        "are scaled by the range of the full stream, and the model has scale=False. The corner "
        f"stream starts with {START} samples (at most a third) that have the smallest values of "
        "one feature in ascending order. In these samples, half of the features are within a "
        "twentieth of their range. The columns `first` and `later` have the longest calls in "
        f"milliseconds, within the first {WARM_UP} samples and after them."
    )
    headers = ["model", "stream", "us", "given, us", "ratio", "first", "later"]
    headers += ["given, first", "given, later"]
    report.table(headers, rows)
    _plot(report, curves)


def _plot(report: Report, curves: dict[tuple[str, str], tuple[Array, Array]]) -> None:
    plt = pyplot()
    if plt is None:
        return
    names = list(dict.fromkeys(name for name, _ in curves))
    figure, axes = plt.subplots(2, len(names), figsize=(4 * len(names), 7), sharex=True)
    for (name, what), (own, given) in curves.items():
        column, color = axes[:, names.index(name)], "C0" if what == "even" else "C1"
        for losses, style, label in ((own, "-", what), (given, ":", f"{what}, given")):
            blocks = losses[: len(losses) // BLOCK * BLOCK].reshape(-1, BLOCK)
            places = BLOCK * np.arange(1, len(blocks) + 1)
            column[0].plot(places, 1e3 * blocks.mean(axis=1), style, color=color, label=label)
            column[1].plot(places, blocks.max(axis=1), style, color=color)
        column[0].set(title=name)
        column[1].set(xlabel="samples", yscale="log")
    axes[0, 0].set_ylabel("learn_one, mean of 100, us")
    axes[1, 0].set_ylabel("longest of 100, ms")
    axes[0, 0].legend(fontsize=8)
    figure.tight_layout()
    report.figure(figure, "")
    plt.close(figure)
