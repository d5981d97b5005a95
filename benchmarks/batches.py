"""Time of batches and of single samples, with one and with two threads."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import river_mondrian as rm

from .adaptive.streams import class_streams
from .data import DataFolder, Stream, min_max_stream
from .report import Report, progress
from .timing import no_gc

# By name: a function from a number of threads to a forest, and whether two threads learn.
FORESTS: dict[str, tuple[Callable[[int], Any], bool]] = {
    "exact, 10 trees": (lambda jobs: rm.MondrianForestClassifier(10, n_jobs=jobs, seed=1), True),
    "exact, 100 trees": (lambda jobs: rm.MondrianForestClassifier(100, n_jobs=jobs, seed=1), True),
    "adaptive, 20 trees": (
        lambda jobs: rm.AdaptiveMondrianForestClassifier(20, n_jobs=jobs, seed=1),
        False,
    ),
    "adaptive regressor, 10 trees": (
        lambda jobs: rm.AdaptiveMondrianForestRegressor(n_jobs=jobs, seed=1),
        False,
    ),
}
# Number of samples that are learned before the timed samples, to end the warm-up.
WARM_UP = 500


def _us(clock: Callable[[], float], work: Callable[[], object], n: int) -> float:
    with no_gc():
        start = clock()
        work()
        return 1e6 * (clock() - start) / n


def _measure(
    make: Callable[[int], Any], learns: bool, known: Stream, asked: Stream, repeats: int
) -> list[str]:
    """Return microseconds per row to learn and to predict, with single samples and batches."""
    rows = [np.array([list(x.values()) for x, _ in part]) for part in (known, asked)]
    labels, cpu, wall = [y for _, y in known], time.process_time, time.perf_counter
    found = []
    for _ in range(repeats):
        models = [make(1), make(1), make(2)]
        for model in models:
            model.learn_many(rows[0][:WARM_UP], labels[:WARM_UP])
        one, many, two = models
        n = len(known) - WARM_UP

        def each(one: Any = one) -> None:
            for x, y in known[WARM_UP:]:
                one.learn_one(x, y)

        def batch(model: Any) -> Callable[[], None]:
            return lambda: model.learn_many(rows[0][WARM_UP:], labels[WARM_UP:])

        times = [_us(cpu, each, n), _us(cpu, batch(many), n), _us(wall, batch(two), n)]
        n = len(asked)
        times.append(_us(cpu, lambda one=one: [one.predict_one(x) for x, _ in asked], n))
        times += [_us(wall, lambda m=m: m.predict_many(rows[1]), n) for m in (many, two)]
        found.append(times)
    shown = [f"{us:.1f}" for us in np.min(found, axis=0)]
    return shown if learns else [*shown[:2], "-", *shown[3:]]


def forests(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the time of batches and of single samples, with one and two threads.

    Time of batches and of single samples, in microseconds per row. The first columns have the
    time to learn rows {WARM_UP} to {n}, one by one, in one batch, and in one batch with two
    threads. The last columns have the time to predict {n_asked} more rows, one by one, in one
    batch, and in one batch with two threads. Times of single samples and of learning with one
    thread are CPU times, and the others are wall-clock times. Times are the fastest of
    {repeats} runs. Adaptive forests learn in one thread. The target of the regressor is the
    first feature.
    """
    n, n_asked, repeats = (1000, 500, 1) if quick else (14_800, 4000, 7)
    table = []
    for name, samples in class_streams(data, n + n_asked, ("letter", "elec2", "covtype")):
        samples = [(dict(enumerate(x.values())), y) for x, y in samples]
        targets = [(x, float(x[0])) for x, _ in min_max_stream(samples)]
        for forest, (make, learns) in FORESTS.items():
            if "100" in forest and name != "letter":
                continue
            progress(f"{name}, {forest}")
            own = targets if "regressor" in forest else samples
            _measure(make, learns, own[: 2 * WARM_UP], own[:100], 1)  # Compile kernels.
            row = _measure(make, learns, own[:n], own[n:], repeats)
            table.append([name, forest, *row])
    report.about(forests, n=n, n_asked=n_asked, repeats=repeats)
    headers = ["stream", "forest", "learn_one", "learn_many", "two threads"]
    report.table([*headers, "predict_one", "predict_many", "two threads"], table)


PARTS = (forests,)
