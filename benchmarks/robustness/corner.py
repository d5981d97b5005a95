"""Models with and without given ranges on streams that start in a corner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..data import Array, DataFolder, min_max_stream, stream
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

FULL, QUICK = Limits(20_000, 5), Limits(600, 1)
START = 2000
CLASSES = ("letter", "satimage", "a9a", "covtype")
NUMBERS = ("california", "cpu", "kin8nm")


def _sample(arrays: dict[str, Array], n: int, seed: int) -> tuple[Array, Array]:
    """Return n random rows of a set in random order."""
    parts = [part for part in ("train", "test") if f"X_{part}" in arrays]
    X, y = (np.concatenate([arrays[f"{what}_{part}"] for part in parts]) for what in "Xy")
    order = np.random.default_rng(seed).permutation(len(X))[:n]
    return X[order].astype(float), y[order]


def _entropy(values: Array) -> float:
    _, counts = np.unique(values, return_counts=True)
    p = counts / counts.sum()
    return float(-(p * np.log(p)).sum())


def sorted_start(X: Array, rank: int, start: int) -> Array:
    """Return an order of rows: the smallest values of a feature, ascending, then the rest.

    The values of `rank` other features have a larger entropy than the values of this feature.
    """
    entropies = [_entropy(column) for column in X.T]
    feature = np.argsort(np.negative(entropies), kind="stable")[rank % X.shape[1]]
    first = np.argsort(X[:, feature], kind="stable")[:start]
    rest = np.setdiff1d(np.arange(len(X)), first)
    return np.concatenate([first, np.random.default_rng(rank).permutation(rest)])


def _pair(
    name: str, make: Callable[..., Any], X: Array, y: Array, regression: bool, seed: int
) -> tuple[Array, Array]:
    """Return the losses of a model that learns the widths, and of a model with given ranges."""
    run = deviations if regression else misses
    samples = stream(X, y.astype(float) if regression else y)
    progress(f"{name}, seed {seed}")
    learned = run(make(seed=seed), samples)
    progress(f"{name}, seed {seed}, given")
    return learned, run(make(seed=seed, scale=False), min_max_stream(samples))


def _row(stream: str, n: int, model: str, found: Array, regression: bool) -> list[Any]:
    """Return the table's row for a model: losses with and without given ranges, and excesses."""
    learned, given = found.mean(axis=0).tolist()
    more = excess(learned, given, regression)
    each = [excess(a, b, regression) for a, b in found.tolist()]
    return [
        stream,
        n,
        model,
        scored(learned, regression),
        scored(given, regression),
        written(more, regression),
        written(max(each), regression),
    ]


def corner(data: DataFolder, report: Report, quick: bool, limits: Limits) -> None:
    """Compare models on sets that start sorted by a feature, and on bike_hour in file order."""
    n, seeds, _ = limits.over(QUICK if quick else FULL)
    _sets(data, report, n, seeds)
    _bikes(data, report, n, seeds)


def _sets(data: DataFolder, report: Report, n: int, seeds: int) -> None:
    rows: list[list[Any]] = []
    points: Excesses = []
    for name in (*CLASSES, *NUMBERS):
        arrays = data.load(name)
        if arrays is None:
            continue
        regression = name in NUMBERS
        for model, make in (REGRESSORS if regression else CLASSIFIERS).items():
            found = []
            for seed in range(seeds):
                X, y = _sample(arrays, n, seed)
                order = sorted_start(X, seed, min(START, len(X) // 3))
                pair = _pair(f"{name}, {model}", make, X[order], y[order], regression, seed)
                found.append([losses[len(losses) // 2 :].mean() for losses in pair])
            rows.append(_row(name, len(X), model, np.array(found), regression))
            points.append(
                (f"{name}, {model}", regression, [excess(a, b, regression) for a, b in found])
            )
    if not rows:
        return
    report.note(
        "Streams that start in a corner, compared with models with given ranges. The first "
        f"{START} samples (at most a third) have the smallest values of one feature in ascending "
        f"order. The other samples are in random order. There are at most {n} random rows, 10 "
        f"trees (20 in the adaptive classifier) and {seeds} seeds. Each seed uses another feature "
        "for sorting, starting with the feature whose values have the largest entropy. The table "
        "has the accuracy or the mean absolute error over the last half. For the column `given`, "
        "inputs are scaled by the range of the full stream, and the model has scale=False. The "
        "excess is the increase of the error rate, or of the absolute error in percent, over the "
        "column `given`. The last column has the largest excess of a seed."
    )
    headers = ["stream", "n", "model", "learned", "given", "excess", "worst"]
    report.table(headers, rows)
    what = {False: "accuracy below given", True: "more error than given, %"}
    plot_excesses(report, points, what, (11, 4))


def _bikes(data: DataFolder, report: Report, n: int, seeds: int) -> None:
    """Compare the regressors on bike_hour in the order of the file."""
    arrays = data.load("bike_hour")
    if arrays is None:
        return
    X, y = arrays["X"][:n], arrays["y"][:n]
    rows = []
    for model, make in REGRESSORS.items():
        pairs = [_pair(f"bike_hour, {model}", make, X, y, True, seed) for seed in range(seeds)]
        for what, first in (("all", 0), ("last half", len(y) // 2)):
            found = [[losses[first:].mean() for losses in pair] for pair in pairs]
            rows.append(_row(what, len(y), model, np.array(found), True))
    report.note("The next table has the regressors on bike_hour in the order of the file.")
    headers = ["samples", "n", "model", "learned", "given", "excess", "worst"]
    report.table(headers, rows)
