"""Time per sample of detectors and alarms, and memory of density forests."""

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


MODELS: dict[str, Callable[[], Any]] = {
    "DensityForest, default": _forest(),
    'lifetime 3, "kernel"': _forest(lifetime=3.0, method="kernel"),
    'lifetime 3, "forest"': _forest(lifetime=3.0),
    "lifetime None": _forest(lifetime=None),
    "default, window 1,000": _forest(window=1000),
    "default, max_nodes 10,000": _forest(max_nodes=10_000),
    "MinMaxScaler, HalfSpaceTrees": lambda: (
        preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(N_TREES, seed=1)
    ),
    "RandomCutForest": lambda: RandomCutForest(seed=1),
    "NearestNeighborDetector": lambda: NearestNeighborDetector(seed=1),
    "`Alarms` with one NearestNeighborDetector": lambda: Alarms(NearestNeighborDetector(seed=1)),
    "Alarms, default": Alarms,
}


def _us(calls: list[Callable[[Any], Any]], samples: Stream) -> float:
    """Return the processor time of the calls per sample, in microseconds."""
    started = time.process_time()
    for x, _ in samples:
        for call in calls:
            call(x)
    return 1e6 * (time.process_time() - started) / len(samples)


def _least(call: Callable[[Any], Any], samples: Stream) -> float:
    """Return the smallest mean processor time of five blocks of calls in microseconds."""
    size = len(samples) // 5
    return min(_us([call], samples[i : i + size]) for i in range(0, len(samples), size))


def cost(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure time and memory by the number of features.

    Time per sample of detectors and alarms, and memory of density forests. The models learn
    {n:,} normal samples. `DensityForest` and HalfSpaceTrees have {N_TREES} trees, and the other
    models have default parameters. Learning is timed on the last 1,000 samples, and scoring on
    1,000 other samples. `Alarms` scores each sample that it learns. A time is the smallest mean
    processor time of five blocks of calls. The bytes of a `DensityForest` are per sample and
    tree.
    """
    n = 2000 if quick else 10_000
    rows = []
    for d in (2, 10, 50):
        samples = stream(np.random.default_rng(1).normal(size=(n + 1000, d)), np.zeros(n + 1000))
        for name, make in MODELS.items():
            progress(f"{name}, {d} features")
            model = make()
            for x, _ in samples[:300]:  # Compile kernels before timing.
                model.score_one(x)
                model.learn_one(x)
            for x, _ in samples[300 : n - 1000]:
                model.learn_one(x)
            learn = _least(model.learn_one, samples[n - 1000 : n])
            score = _least(model.score_one, samples[n:])
            is_forest = isinstance(model, DensityForest)
            size = f"{model._raw_memory_usage / n / N_TREES:.0f}" if is_forest else ""
            rows.append([str(d), name, f"{learn:.1f}", f"{score:.1f}", size])
    report.about(cost, n=n)
    report.table(["features", "model", "learn, us", "score, us", "bytes"], rows)
