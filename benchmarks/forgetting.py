"""The cost of windows, and windows and wrappers on streams with drift."""

from collections.abc import Callable
from typing import Any

import numpy as np
from river import drift as river_drift
from river import ensemble
from river.datasets import synth
from river.drift import binary

import river_mondrian as rm

from .data import DataFolder, Stream, available, stream
from .report import Report, progress
from .timing import call_seconds

KINDS: dict[str, Any] = {
    "classifier": rm.MondrianForestClassifier,
    "regressor": rm.MondrianForestRegressor,
}


def _uniform(n: int) -> Stream:
    rng = np.random.default_rng(0)
    X = rng.random((n, 10))
    return stream(X, (X[:, 0] * 4.0 + X[:, 1] * 3.0).astype(int) % 4)


def _binary(n: int) -> Stream:
    """Return samples of two binary features, which occur as four different points."""
    rng = np.random.default_rng(0)
    return stream(rng.integers(0, 2, (n, 2)).astype(np.float64), rng.integers(0, 2, n))


def speed(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the time to learn in a full window with a forest that stores all samples.

    Time to learn in a full window, compared with a forest that stores all samples. Times are
    CPU times of learn_one in microseconds: the smallest mean of several interleaved runs. The
    last column has the longest call in milliseconds (minimum over runs).
    """
    n_timed, repeats, rows = (300, 1, []) if quick else (3000, 5, [])
    for window in (1024, 5000):
        n = window + 3 * n_timed
        streams = {"uniform, 10 features": _uniform(n), "2 binary features": _binary(n)}
        for name, arrays in available(data.load, ["letter"]):
            streams[name] = stream(arrays["X_train"], arrays["y_train"], n)
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
                        calls = call_seconds(model.learn_one, samples[-n_timed:])
                        times[own].append(1e6 * calls.mean())
                        if own is not None:
                            worst.append(1e3 * calls.max())
                plain, own_time = min(times[None]), min(times[window])
                ratio = own_time / plain
                figures = [f"{plain:.1f}", f"{own_time:.1f}", f"{ratio:.2f}", f"{min(worst):.2f}"]
                rows.append((name, kind, n_trees, window, *figures))
    report.about(speed)
    headers = ("data", "forest", "trees", "window", "no window", "window", "ratio", "longest")
    report.table(headers, rows)


def _retrained(detector: Any, **own: Any) -> Callable[[int], Any]:
    return lambda seed: river_drift.DriftRetrainingClassifier(
        rm.MondrianForestClassifier(10, seed=seed), drift_detector=detector(), **own
    )


def _bagged(wrapper: Any) -> Callable[[int], Any]:
    return lambda seed: wrapper(rm.MondrianForestClassifier(3, seed=seed), n_models=5, seed=seed)


# Functions from a seed to a model, by name.
WRAPPERS: dict[str, Callable[[int], Any]] = {
    "none": lambda seed: rm.MondrianForestClassifier(10, seed=seed),
    "none, `window=1000`": lambda seed: rm.MondrianForestClassifier(10, seed=seed, window=1000),
    "none, the adaptive forest": lambda seed: rm.AdaptiveMondrianForestClassifier(10, seed=seed),
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
    """Compare accuracy before and after an abrupt drift with River's wrappers.

    Progressive accuracy before and after an abrupt drift at sample {before:,} of {n:,}, for
    exact forests in River's wrappers, and for forests without a wrapper. Models have 10 trees
    unless the name says otherwise. Accuracies are means over {seeds} streams. SEA changes from
    variant 0 to 3. RBF is RandomRBF with 4 classes, 5 features and 20 centroids, which are
    drawn again at the drift.
    """
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
    report.about(wrappers, before=before, n=before + after, seeds=seeds)
    headers = ["wrapper", "SEA before", "SEA after", "RBF before", "RBF after"]
    report.table(headers, rows)


PARTS = (speed, wrappers)
