"""Removal of samples: the distribution of trees afterwards, and the cost of windows.

Each part of the suite is a function of the data folder, the report, and a flag for quick runs.
"""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import drift as river_drift
from river import ensemble
from river.datasets import synth
from river.drift import binary
from scipy import stats

from river_mondrian import (
    AdaptiveMondrianForestClassifier,
    IsolationFeatures,
    MondrianForestClassifier,
    MondrianForestRegressor,
    RandomFourierFeatures,
    RidgeRegressor,
)

from .data import DataFolder, Stream, stream
from .report import Report, progress

KINDS: dict[str, Any] = {
    "classifier": MondrianForestClassifier,
    "regressor": MondrianForestRegressor,
}

# Significance level of all tests of distributions together.
LEVEL = 1e-3

Points = NDArray[np.float64]


def _points(n: int = 14) -> tuple[Points, list[int]]:
    """Return points in two dimensions, some of them equal, with labels of three classes."""
    rng = np.random.default_rng(8)
    X = rng.random((n, 2)).astype(np.float32).astype(np.float64)
    X[9:11] = X[2]
    return X, rng.integers(0, 3, n).tolist()


def _chosen(X: Points, y: Sequence[int]) -> dict[str, list[int]]:
    """Return the points to be removed, by the name of their selection."""
    ends = {int(end(X[:, d])) for d in range(2) for end in (np.argmin, np.argmax)}
    return {
        "first": [*range(4)],
        "last": [*range(10, 14)],
        "random": [1, 4, 7, 8, 12],
        "of one class": [i for i, label in enumerate(y) if label == 0],
        "duplicates": [2, 9, 10],
        "extremes": sorted(ends),
        "all but two": [*range(2, 14)],
    }


def _learned(kind: str, X: Points, y: Sequence[int], n_trees: int, seed: int, own: Any) -> Any:
    model = KINDS[kind](n_trees, scale=False, seed=seed, **own)
    for x, label in zip(X.tolist(), y, strict=True):
        model.learn_one({"a": x[0], "b": x[1]}, label)
    return model


def _summaries(model: Any, X: Points) -> dict[str, list[float]]:
    """Return summaries of trees whose distributions are compared, by name."""
    found: dict[str, list[float]] = {}
    for t in range(model.n_estimators):
        nodes = model._trees.reader.read(t)
        root, depths, blocks = nodes[0], [], []
        for x in X:
            node = root
            while not node.is_leaf:
                node = nodes[node.left if x[node.dim] <= node.cut else node.right]
            depths.append(node.depth)
            blocks.append(id(node))
        seen = {
            "root time": root.time,
            "root dimension": root.dim,
            "root cut": root.cut,
            "blocks": len(set(blocks)),
            "mean depth": float(np.mean(depths)),
            "largest block": max(blocks.count(block) for block in blocks),
            "paused blocks": sum(node.paused for node in nodes),
            "first two together": blocks[0] == blocks[1],
        }
        for name, value in seen.items():
            found.setdefault(name, []).append(float(value))
    return found


def _p_value(one: list[float], other: list[float]) -> float | None:
    """Return the p-value of the test that both samples have one distribution, or None."""
    a, b = np.nan_to_num(one, posinf=1e9), np.nan_to_num(other, posinf=1e9)
    values = np.unique(np.concatenate([a, b]))
    if len(values) == 1:
        return None
    if len(values) < 8:
        table = [[(sample == v).sum() for v in values] for sample in (a, b)]
        return float(stats.chi2_contingency(table).pvalue)
    return float(stats.ks_2samp(a, b).pvalue)


def law(data: DataFolder, report: Report, quick: bool) -> None:
    """Test that trees after removals are distributed like batch trees of the other samples."""
    X, y = _points()
    chosen = _chosen(X, y)
    n_trees, seeds = (200, 1) if quick else (2000, 5)
    settings = {
        "classifier, paused": ("classifier", {}),
        "classifier, not paused": ("classifier", {"split_pure": True}),
        "classifier, lifetime 2": ("classifier", {"lifetime": 2.0}),
        "classifier, lifetime 2, not paused": ("classifier", {"lifetime": 2.0, "split_pure": True}),
        "regressor": ("regressor", {}),
        "regressor, lifetime 2": ("regressor", {"lifetime": 2.0}),
        "regressor, blocks of 4": ("regressor", {"min_samples_split": 4}),
    }
    rows, least = [], []
    for name, (kind, own) in settings.items():
        row: list[Any] = [name]
        for places in chosen.values():
            progress(f"law: {name}")
            found: list[float] = []
            rest = [i for i in range(len(y)) if i not in places]
            labels = [y[i] for i in rest]
            for seed in range(seeds):
                left = _learned(kind, X, y, n_trees, seed, own)
                for i in places:
                    left.forget_one({"a": X[i, 0], "b": X[i, 1]}, y[i])
                batch = _learned(kind, X[rest], labels, n_trees, 1000 + seed, own)
                batch.resample()
                pairs = _summaries(left, X[rest]), _summaries(batch, X[rest])
                for summary in pairs[0]:
                    p = _p_value(pairs[0][summary], pairs[1][summary])
                    if p is not None:
                        found.append(p)
            least += found
            row.append(f"{min(found):.2g} of {len(found)}" if found else "")
        rows.append(row)
    expected = LEVEL / len(least)
    report.note(
        f"Distribution of trees after removals, compared with batch trees. For each of {seeds} "
        f"seeds, {n_trees} trees learn 14 points in two dimensions, one by one. Some of the points "
        "are equal. The selection in the header of the column is then removed. The remaining "
        "trees are compared with batch trees of the remaining points. The tests compare time, "
        "dimension and cut of the root, number of leaves, size of the largest leaf, number of "
        "paused leaves, and mean depth. The tests also compare how often two points share a leaf. "
        "A cell has the smallest p-value, and the number of p-values. At the significance level "
        f"{LEVEL:g} of all {len(least)} tests together, the level of each test is {expected:.2g}; "
        f"the smallest p-value is {min(least):.2g}."
    )
    report.table(("trees", *chosen), rows)


def _uniform(n: int) -> Stream:
    rng = np.random.default_rng(0)
    X = rng.random((n, 10))
    return stream(X, (X[:, 0] * 4.0 + X[:, 1] * 3.0).astype(int) % 4)


def _binary(n: int) -> Stream:
    """Return samples of two binary features, which occur as four different points."""
    rng = np.random.default_rng(0)
    return stream(rng.integers(0, 2, (n, 2)).astype(np.float64), rng.integers(0, 2, n))


def speed(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the time to learn in a full window with a forest that stores all samples."""
    n_timed, repeats, rows = (300, 1, []) if quick else (3000, 5, [])
    for window in (1024, 5000):
        n = window + 3 * n_timed
        streams = {"uniform, 10 features": _uniform(n), "2 binary features": _binary(n)}
        arrays = data.load("letter")
        if arrays is not None:
            streams["letter"] = stream(arrays["X_train"], arrays["y_train"], n)
        for name, samples in streams.items():
            for kind, n_trees in (("classifier", 10), ("classifier", 100), ("regressor", 10)):
                progress(f"speed: {name}, {kind}, window {window}")
                times: dict[int | None, list[float]] = {None: [], window: []}
                worst = []
                for _ in range(repeats):
                    for own in times:
                        model = KINDS[kind](n_trees, seed=1, window=own)
                        for x, y in samples[:-n_timed]:
                            model.learn_one(x, y)
                        calls = []
                        for x, y in samples[-n_timed:]:
                            begun = time.process_time()
                            model.learn_one(x, y)
                            calls.append(time.process_time() - begun)
                        times[own].append(1e6 * float(np.mean(calls)))
                        if own is not None:
                            worst.append(1e3 * max(calls))
                plain, own_time = min(times[None]), min(times[window])
                ratio = own_time / plain
                figures = [f"{plain:.1f}", f"{own_time:.1f}", f"{ratio:.2f}", f"{min(worst):.2f}"]
                rows.append((name, kind, n_trees, window, *figures))
    report.note(
        "Time to learn in a full window, compared with a forest that stores all samples. Times are "
        "CPU times of learn_one in microseconds, the fastest means of interleaved runs. The last "
        "column has the longest call in milliseconds (minimum over runs)."
    )
    headers = ("data", "forest", "trees", "window", "no window", "window", "ratio", "longest")
    report.table(headers, rows)


def ridge(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the time to learn by ridge regression in a full window, and errors after removals."""
    n_timed, repeats, rows = (500, 1, []) if quick else (2000, 5, [])
    maps: dict[str, Any] = {
        "isolation, 50 of 16 cells": lambda: IsolationFeatures(50, 16, pool_size=256, seed=1),
        "isolation, 20 of 8 cells": lambda: IsolationFeatures(20, 8, pool_size=256, seed=1),
        "Fourier, 100": lambda: RandomFourierFeatures(100, seed=1),
        "Fourier, 500": lambda: RandomFourierFeatures(500, seed=1),
    }
    for name, make in maps.items():
        for window in (300, 1000):
            progress(f"ridge: {name}, window {window}")
            # After this many samples, the isolation features are final and the window is full.
            n_before = 1500
            samples = _uniform(n_before + n_timed)
            fastest: dict[int | None, float] = {}
            longest = math.inf
            for _ in range(repeats):
                models = {own: RidgeRegressor(make(), window=own) for own in (None, window)}
                times = dict.fromkeys(models, 0.0)
                worst = 0.0
                for i, (x, y) in enumerate(samples):
                    for own, model in models.items():
                        begun = time.process_time()
                        model.learn_one(x, y)
                        took = time.process_time() - begun
                        if i >= n_before:
                            times[own] += took
                            worst = max(worst, took) if own is not None else worst
                fastest = {own: min(t, fastest.get(own, t)) for own, t in times.items()}
                longest = min(longest, worst)
            model = models[window]
            again = RidgeRegressor(model._features)
            for x, y in samples[-window:]:
                again.learn_one(x, y)
            error = max(
                abs(model.predict_one(x) - again.predict_one(x))
                / again.predict_one(x, with_dist=True).var ** 0.5
                for x, _ in samples[:200]
            )
            model.forget_one(*samples[-1])
            # Subtracting such a large weight would leave only rounding errors, so the model is
            # refitted.
            model.learn_one(*samples[0], 1e20)
            begun = time.process_time()
            model.forget_one(*samples[0], 1e20)
            refit = 1e3 * (time.process_time() - begun)
            plain, own_time = (1e6 * fastest[own] / n_timed for own in (None, window))
            ratio = own_time / plain
            figures = [f"{plain:.1f}", f"{own_time:.1f}", f"{ratio:.2f}", f"{1e3 * longest:.2f}"]
            figures += [f"{refit:.0f}", f"{error:.1e}"]
            rows.append((name, model.n_columns, window, *figures))
    report.note(
        "Time to learn by ridge regression in a full window, compared with a model that has no "
        "window. Times are CPU times of learn_one in microseconds, the fastest means of runs in "
        "which both models take turns on each sample. The column `longest` has the longest call "
        "in milliseconds (minimum over runs). The column `refit` has the time to remove a sample "
        "with a large weight, after which the model learns all samples of the window again. The "
        "error is the largest difference between a prediction and the prediction of a model "
        "refitted to the window, in predicted standard deviations."
    )
    times_of = ("no window", "window", "ratio", "longest", "refit, ms")
    headers = ("map", "columns", "window", *times_of, "error")
    report.table(headers, rows)


def memory(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the memory of a forest with a window of 1,000 samples on a long stream."""
    n, rows = 20_000 if quick else 10_000_000, []
    rng = np.random.default_rng(1)
    block = rng.random((10_000, 5))
    samples = stream(block, (block[:, 0] * 4.0).astype(int))
    model = MondrianForestClassifier(10, window=1000, seed=1)
    marks = [m for m in (10_000, 100_000, 1_000_000, 10_000_000) if m <= n]
    done, longest = 0, 0.0
    tracemalloc.start()
    for mark in marks:
        while done < mark:
            progress(f"memory: {done} samples")
            begun = time.process_time()
            for x, y in samples:
                model.learn_one(x, y)
            longest = max(longest, time.process_time() - begun)
            done += len(samples)
        traced = tracemalloc.get_traced_memory()[0]
        rows.append((f"{done:,}", f"{model._raw_memory_usage / 1024:.0f}", f"{traced / 1024:.0f}"))
    report.note(
        "Memory of a forest with a window of 1,000 samples by the number of samples, in KiB. The "
        "column `model` has the model's own count, and the column `traced` has a trace of "
        "Python's allocator."
    )
    report.table(("samples", "model", "traced"), rows)


def drift(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare accuracy and error on drifting streams by window."""
    n, rows = 4000 if quick else 20_000, []
    windows = (None, 500, 2000)
    for name, period in (("one change", n // 2), ("a change every 2,500", 2500)):
        rng = np.random.default_rng(2)
        X = rng.random((n, 3))
        turn = (np.arange(n) // period) % 2
        z = np.where(turn == 0, X[:, 0] + X[:, 1], X[:, 2] - X[:, 1])
        y = (z > np.median(z)).astype(int)
        row: list[Any] = [name]
        for kind, targets in (("classifier", y.tolist()), ("regressor", z.tolist())):
            for window in windows:
                progress(f"drift: {name}, {kind}, window {window}")
                model, scores = KINDS[kind](10, seed=1, window=window), []
                for x, target in zip(stream(X, y), targets, strict=True):
                    said = model.predict_one(x[0])
                    right = kind == "classifier" and said == target
                    scores.append(right if kind == "classifier" else abs(said - target))
                    model.learn_one(x[0], target)
                row.append(f"{np.mean(scores):.3f}")
        rows.append(row)
    report.note(
        f"Prequential accuracy and mean absolute error on drifting streams of {n} samples by the "
        "size of the window. The word `all` means no window. The forests have 10 trees and seed 1."
    )
    headers = [f"{what}, {w or 'all'}" for what in ("accuracy", "error") for w in windows]
    report.table(("stream", *headers), rows)


def _retrained(detector: Any, **own: Any) -> Callable[[int], Any]:
    return lambda seed: river_drift.DriftRetrainingClassifier(
        MondrianForestClassifier(10, seed=seed), drift_detector=detector(), **own
    )


def _bagged(wrapper: Any) -> Callable[[int], Any]:
    return lambda seed: wrapper(MondrianForestClassifier(3, seed=seed), n_models=5, seed=seed)


# Functions from a seed to a model, by name.
WRAPPERS: dict[str, Callable[[int], Any]] = {
    "none": lambda seed: MondrianForestClassifier(10, seed=seed),
    "none, `window=1000`": lambda seed: MondrianForestClassifier(10, seed=seed, window=1000),
    "none, the adaptive forest": lambda seed: AdaptiveMondrianForestClassifier(10, seed=seed),
    "`DriftRetrainingClassifier`, `DDM()`": _retrained(binary.DDM),
    "`DriftRetrainingClassifier`, `HDDMA()`": _retrained(binary.HDDMA),
    "`DriftRetrainingClassifier`, `HDDMW()`": _retrained(binary.HDDMW),
    "`DriftRetrainingClassifier`, `ADWIN()`, no background": _retrained(
        river_drift.ADWIN, train_in_background=False
    ),
    "`ADWINBaggingClassifier`, 5 forests of 3 trees": _bagged(ensemble.ADWINBaggingClassifier),
    "`LeveragingBaggingClassifier`, 5 forests of 3 trees": _bagged(
        ensemble.LeveragingBaggingClassifier
    ),
}

# Number of samples before the drift, and after the drift.
BEFORE, AFTER = 2000, 4000


def _changing(name: str, seed: int, before: int, after: int) -> Stream:
    """Return one of two streams with an abrupt drift."""
    if name == "SEA":
        parts = [synth.SEA(variant=variant, seed=seed) for variant in (0, 3)]
    else:
        parts = [
            synth.RandomRBF(own, seed, n_classes=4, n_features=5, n_centroids=20)
            for own in (2 * seed, 2 * seed + 1)
        ]
    return [*parts[0].take(before), *parts[1].take(after)]


def wrappers(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare accuracy before and after an abrupt drift with River's wrappers."""
    before, after, seeds = (500, 1000, 1) if quick else (BEFORE, AFTER, 5)
    rows = []
    for wrapper, make in WRAPPERS.items():
        row = [wrapper]
        for name in ("SEA", "RBF"):
            progress(f"wrappers: {wrapper}, {name}")
            found = []
            for seed in range(1, seeds + 1):
                model, right = make(seed), []
                for x, y in _changing(name, seed, before, after):
                    right.append(model.predict_one(x) == y)
                    model.learn_one(x, y)
                found.append((np.mean(right[:before]), np.mean(right[before:])))
            row += [f"{value:.3f}" for value in np.mean(found, axis=0).tolist()]
        rows.append(row)
    report.note(
        f"Progressive accuracy before and after an abrupt drift at sample {before:,} of "
        f"{before + after:,}, for exact forests in River's wrappers. Models have 10 trees unless "
        f"the name says otherwise. Accuracies are means over {seeds} streams. SEA changes from "
        "variant 0 to 3. RBF is RandomRBF with 4 classes, 5 features and 20 centroids, which are "
        "drawn again at the drift."
    )
    headers = ["wrapper", "SEA before", "SEA after", "RBF before", "RBF after"]
    report.table(headers, rows)


PARTS: dict[str, Callable[[DataFolder, Report, bool], None]] = {
    "law": law,
    "speed": speed,
    "ridge": ridge,
    "memory": memory,
    "drift": drift,
    "wrappers": wrappers,
}
