"""Losses on all streams of the benchmarks with four outliers each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..adaptive import comparing
from ..data import Array, DataFolder, Stream
from ..regressor.streams import load_streams
from ..report import Report, progress
from .runs import (
    CLASSIFIERS,
    REGRESSORS,
    Excesses,
    Limits,
    deviations,
    excess,
    misses,
    plot_excesses,
    scored,
    written,
)

FULL, QUICK = Limits(5000, 5, 10), Limits(500, 1, 1)
QUICK_STREAMS = ("Bananas", "Friedman")
WILD = 1e6  # Interquartile ranges.
N_WILD = 4
START = 500  # Number of first samples whose errors are excluded.
# Large excesses of the error rate, and of the mean absolute error in percent.
LARGE = {False: 0.003, True: 2.0}


def _streams(data: DataFolder, n: int, quick: bool) -> Iterator[tuple[str, Stream, bool]]:
    """Yield the name and the samples of each stream, and whether it has targets."""
    for name in (*comparing.MADE, *comparing.FILES):
        if not quick or name in QUICK_STREAMS:
            samples = comparing.load(data, name, n)
            if samples is not None:
                yield name, samples, False
    for name, samples in load_streams(data, False):
        if (name in QUICK_STREAMS or not quick) and (not data.sets or name in data.sets):
            yield name, samples[: START + 100 if quick else n], True


def _with_wild(samples: Stream, placement: int) -> tuple[Stream, list[int]]:
    """Return a stream with outliers, and the indices of the samples with an outlier."""
    rng = np.random.default_rng(placement)
    places = sorted(rng.choice(len(samples), N_WILD, replace=False).tolist())
    names = [name for name, value in samples[0][0].items() if not isinstance(value, (str, bool))]
    found = list(samples)
    for i in places:
        name = names[rng.integers(len(names))]
        values = np.array([x[name] for x, _ in samples if name in x], dtype=float)
        low, middle, high = np.quantile(values, (0.25, 0.5, 0.75)).tolist()
        unit = high - low or float(np.ptp(values)) or 1.0
        x, y = samples[i]
        found[i] = {**x, name: middle + float(rng.choice((-1.0, 1.0))) * WILD * unit}, y
    return found, places


def _with_wild_targets(samples: Stream, placement: int) -> tuple[Stream, list[int]]:
    """Return a stream with outlying targets, and the indices of these samples."""
    rng = np.random.default_rng(placement)
    places = sorted(rng.choice(len(samples), N_WILD, replace=False).tolist())
    low, middle, high = np.quantile([y for _, y in samples], (0.25, 0.5, 0.75)).tolist()
    found = list(samples)
    for i in places:
        wild = middle + float(rng.choice((-1.0, 1.0))) * WILD * (high - low)
        found[i] = samples[i][0], wild
    return found, places


def _mean(losses: Array, places: list[int], regression: bool) -> float:
    counted = np.ones(len(losses), dtype=bool)
    counted[places] = False
    if regression:
        counted[: min(START, len(losses) // 2)] = False
    return float(losses[counted].mean())


def _compare(
    name: str,
    make: Callable[..., Any],
    samples: Stream,
    regression: bool,
    seeds: int,
    placements: int,
    place: Callable[[Stream, int], tuple[Stream, list[int]]] = _with_wild,
) -> tuple[float, Array]:
    """Return the mean loss without outliers, and the excesses, shape (placements, seeds)."""
    run = deviations if regression else misses
    clean = []
    for seed in range(seeds):
        progress(f"{name}, clean, seed {seed}")
        clean.append(run(make(seed=seed), samples))
    found = np.empty((placements, seeds))
    for placement in range(placements):
        wild, places = place(samples, placement)
        for seed in range(seeds):
            progress(f"{name}, placement {placement}, seed {seed}")
            with_wild = _mean(run(make(seed=seed), wild), places, regression)
            without = _mean(clean[seed], places, regression)
            found[placement, seed] = excess(with_wild, without, regression)
    return float(np.mean([_mean(losses, [], regression) for losses in clean])), found


def _standard_error(excesses: Array, regression: bool) -> str:
    """Return the standard error of the mean excess over seeds."""
    by_seed = excesses.mean(axis=0)
    if len(by_seed) < 2:
        return "-"
    error = by_seed.std(ddof=1) / math.sqrt(len(by_seed))
    return f"{error:.1f} %" if regression else f"{error:.4f}"


def outliers(data: DataFolder, report: Report, quick: bool, limits: Limits) -> None:
    """Measure the effect of four outliers on every stream of the benchmarks."""
    n, seeds, placements = limits.over(QUICK if quick else FULL)
    rows: list[list[Any]] = []
    excesses: Excesses = []
    for stream, samples, regression in _streams(data, n, quick):
        for model, make in (REGRESSORS if regression else CLASSIFIERS).items():
            own = 1 if stream in comparing.WIDE else seeds
            name = f"{stream}, {model}"
            clean, found = _compare(name, make, samples, regression, own, placements)
            mean, by_placement = float(found.mean()), found.mean(axis=1)
            of_targets = ""
            if regression:
                _, others = _compare(name, make, samples, True, own, placements, _with_wild_targets)
                of_targets = written(float(others.mean()), True)
            excesses.append((name, regression, by_placement.tolist()))
            rows.append(
                [
                    stream,
                    len(samples),
                    model,
                    scored(clean, regression),
                    written(mean, regression),
                    _standard_error(found, regression),
                    written(float(by_placement.max()), regression),
                    f"{(by_placement > LARGE[regression]).sum()} of {placements}",
                    of_targets,
                ]
            )
    if not rows:
        return
    report.note(
        f"Streams with four outliers each. In a stream, {N_WILD} random samples have an outlier in "
        f"a random feature: {WILD:.0e} interquartile ranges above or below the median. If this "
        f"range is 0, the full range is used. There are {placements} placements with {seeds} seeds "
        "each (one on mnist). The same seeds are also run without outliers. Streams have at most "
        f"{n} samples, or twice as many with one abrupt change. The forests have 10 trees (20 in "
        "the adaptive classifier). Rows of classifiers have the progressive accuracy and the "
        "increase of the error rate. Rows of regressors have the mean absolute error and its "
        f"increase in percent, without the first {START} samples (at most the first half). Scores "
        "exclude samples with an outlier. The column `error` has the standard error of the excess "
        "over seeds. The column `worst` has the largest mean excess of a placement. The column "
        f"`beyond` counts the placements whose mean excess is above {LARGE[False]}, or "
        f"{LARGE[True]:.0f} %. The column `targets` has the mean increase for {N_WILD} outlying "
        "targets."
    )
    headers = ["stream", "n", "model", "clean", "excess", "error", "worst", "beyond", "targets"]
    report.table(headers, rows)
    what = {False: "loss of accuracy", True: "more error, %"}
    plot_excesses(report, excesses, what, (12, 8), LARGE)
