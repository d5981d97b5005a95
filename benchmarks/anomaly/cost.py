"""Time per sample of detectors and alarms, and memory of density forests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from river import anomaly, preprocessing

from river_mondrian import Alarms, DensityForest, NearestNeighborDetector, RandomCutForest

from ..data import DataFolder, Stream, stream
from ..report import Report, progress

N_TREES = 10


def _forest(**arguments: Any) -> Callable[[], Any]:
    return lambda: DensityForest(N_TREES, seed=1, **arguments)


def _half_spaces() -> Any:
    return preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(n_trees=N_TREES, seed=1)


MODELS: dict[str, Callable[[], Any]] = {
    "DensityForest, default": _forest(),
    'lifetime 3, "kernel"': _forest(lifetime=3.0, method="kernel"),
    'lifetime 3, "forest"': _forest(lifetime=3.0),
    "lifetime None": _forest(lifetime=None),
    "default, window 1,000": _forest(window=1000),
    "default, max_nodes 10,000": _forest(max_nodes=10_000),
    "MinMaxScaler, HalfSpaceTrees": _half_spaces,
    "RandomCutForest": lambda: RandomCutForest(seed=1),
    "NearestNeighborDetector": lambda: NearestNeighborDetector(seed=1),
    "`Alarms` with one NearestNeighborDetector": lambda: Alarms(NearestNeighborDetector(seed=1)),
    "Alarms, default": Alarms,
}


def _timed(call: Callable[[Any], Any], samples: Stream) -> float:
    """Return a call's processor time in microseconds, the smallest mean of five blocks."""
    found = []
    for start in range(0, len(samples), len(samples) // 5):
        part = samples[start : start + len(samples) // 5]
        started = time.process_time()
        for x, _ in part:
            call(x)
        found.append(1e6 * (time.process_time() - started) / len(part))
    return min(found)


def cost(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure time and memory by the number of features."""
    n = 2000 if quick else 10_000
    rows, kept = [], {}
    for d in (2, 10, 50):
        X = np.random.default_rng(1).normal(size=(n + 1000, d))
        samples = stream(X, np.zeros(n + 1000))
        for name, make in MODELS.items():
            progress(f"{name}, {d} features")
            model = make()
            for x, _ in samples[:300]:  # Compile kernels before timing.
                model.score_one(x)
                model.learn_one(x)
            for x, _ in samples[300 : n - 1000]:
                model.learn_one(x)
            learn = _timed(model.learn_one, samples[n - 1000 : n])
            score = _timed(model.score_one, samples[n:])
            is_forest = isinstance(model, DensityForest)
            memory = f"{model._raw_memory_usage / n / N_TREES:.0f}" if is_forest else ""
            kept[name, d] = learn, score, memory
            rows.append([str(d), name, f"{learn:.1f}", f"{score:.1f}", memory])
    report.note(
        "Time per sample of detectors and alarms, and memory of density forests. The models learn "
        f"{n:,} normal samples. `DensityForest` and HalfSpaceTrees have {N_TREES} trees, and the "
        "other models have default parameters. Learning is timed on the last 1,000 samples, and "
        "scoring on 1,000 other samples. `Alarms` scores each sample that it learns. A time is "
        "the smallest mean processor time of five blocks of calls. The bytes of a `DensityForest` "
        "are per sample and tree."
    )
    headers = ["features", "model", "learn, us", "score, us", "bytes"]
    report.table(headers, rows)
    learn, score, memory = kept["DensityForest, default", 10]
    report.note(
        f"With 10 features and default parameters, `DensityForest` learns a sample in {learn:.1f} "
        f"us and scores a sample in {score:.1f} us. The forest takes {memory} bytes per sample and "
        "tree."
    )
