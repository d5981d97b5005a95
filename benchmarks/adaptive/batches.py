"""Time of batches in adaptive forests, compared with calls for single samples."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from river import drift

from river_mondrian import AdaptiveMondrianForestClassifier, AdaptiveMondrianForestRegressor

from ..data import DataFolder, Stream, min_max_stream
from ..report import Report, progress
from ..timing import no_gc
from .comparing import load

# Number of rows per call of `learn_many`.
CHUNK = 500


def _timed(times: dict[str, list[float]], name: str, work: Callable[[], object]) -> None:
    start, cpu = time.perf_counter(), time.process_time()
    work()
    times[name].append(time.perf_counter() - start)
    times[f"{name}, CPU"].append(time.process_time() - cpu)


def _measure(make: Callable[[], Any], known: Stream, asked: Stream, repeats: int) -> list[str]:
    """Return microseconds per row to learn and to predict, with single samples and with batches."""
    one, many = make(), make()
    learning: dict[str, list[float]] = defaultdict(list)
    with no_gc():
        for start in range(0, len(known), CHUNK):
            samples = known[start : start + CHUNK]
            X, y = np.array([list(x.values()) for x, _ in samples]), [y for _, y in samples]

            def learn_one(samples: Stream = samples) -> None:
                for x, label in samples:
                    one.learn_one(x, label)

            def learn_many(X: Any = X, y: Any = y) -> None:
                many.learn_many(X, y)

            _timed(learning, "one", learn_one)
            _timed(learning, "many", learn_many)
        X = np.array([list(x.values()) for x, _ in asked])
        predicting: dict[str, list[float]] = defaultdict(list)
        for _ in range(repeats):
            _timed(predicting, "one", lambda: [one.predict_one(x) for x, _ in asked])
            for n_jobs in (1, 2):
                many.mutate({"n_jobs": n_jobs})
                _timed(predicting, f"{n_jobs}", lambda: many.predict_many(X))
    # The first call includes the warm-up.
    learned = [sum(learning[f"{name}, CPU"][1:]) for name in ("one", "many")]
    found = [1e6 * spent / (len(known) - CHUNK) for spent in learned]
    found += [1e6 * min(predicting[f"{name}, CPU"]) / len(asked) for name in ("one", "1")]
    found += [1e6 * min(predicting[name]) / len(asked) for name in ("1", "2")]
    return [f"{us:.1f}" for us in found]


def batches(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the time of batches and of single samples, with one and two threads."""
    n, n_asked, repeats = (1000, 500, 3) if quick else (6000, 4000, 15)
    table = []
    for name in ("letter", "elec2", "covtype"):
        samples = load(data, name, n + n_asked)
        if samples is None:
            continue
        samples = [(dict(enumerate(x.values())), y) for x, y in samples]
        targets = [(x, float(next(iter(x.values())))) for x, _ in min_max_stream(samples)]
        progress(name)
        for kind, own in (
            (AdaptiveMondrianForestClassifier, samples),
            (AdaptiveMondrianForestRegressor, targets),
        ):
            for detector in (None, drift.NoDrift()):

                def make(kind: Any = kind, detector: Any = detector) -> Any:
                    return kind(drift_detector=detector, seed=1)

                _measure(make, own[: 2 * CHUNK], own[:100], 1)  # Compile kernels before timing.
                row = _measure(make, own[:n], own[n:], repeats)
                task = "labels" if kind is AdaptiveMondrianForestClassifier else "a feature"
                table.append([name, task, "adwin" if detector is None else "none", *row])
    report.note(
        "Time of batches and of single samples, in microseconds per row. The columns `learn_one` "
        f"and `learn_many` have the CPU time to learn rows {CHUNK} to {n}, the latter in batches "
        f"of {CHUNK} rows. The columns `predict_one` and `predict_many` have the CPU time to "
        f"predict {n_asked} more rows, the latter in one batch. The last two columns have the "
        f"wall-clock time of this batch with one and with two threads, the fastest of {repeats} "
        "runs. The target of the regressor is the first feature."
    )
    timed = ["learn_one", "learn_many", "predict_one", "predict_many", "n_jobs=1", "n_jobs=2"]
    report.table(["stream", "of", "detector", *timed], table)
