"""Memory and latency."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from river_mondrian import MondrianForestClassifier

from ..data import Array, DataFolder, Stream, stream
from ..report import Report, progress
from ..timing import no_gc
from .peers import frame_of, make_ours

WARM_UP = 256  # In the warm-up, the forest is rebuilt when the number of samples doubles.


def memory(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the bytes of the model per sample and tree."""
    rows = []
    for name, n, trees in (("letter", 15000, 100), ("covtype", 50000, 10)):
        arrays = data.load(name)
        if arrays is None:
            continue
        n = n // 10 if quick else n
        progress(f"memory: {name}")
        model = make_ours(1, trees)
        model.learn_many(frame_of(arrays["X_train"][:n]), pd.Series(arrays["y_train"][:n]))
        size = model._raw_memory_usage
        each = size / (n * trees)
        rows.append((name, n, trees, f"{size / 2**20:.1f}", f"{each:.0f}"))
    report.note("Memory of the exact classifier after n samples, in total and per sample and tree.")
    report.table(("data", "n", "trees", "MiB", "bytes per sample and tree"), rows)


def latency(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the longest learn_one with 100 trees and 16 features."""
    MondrianForestClassifier.warmup()
    rows: list[tuple[Any, ...]] = []
    letter = data.load("letter")
    if letter is not None:
        X = np.concatenate([letter["X_train"], letter["X_test"]])
        y = np.concatenate([letter["y_train"], letter["y_test"]])
        samples = stream(X, y, 3000 if quick else None)
        progress("latency: letter")
        times = _latencies(make_ours(1, 100).learn_one, samples)
        rows += _latency_rows("letter, warm-up", times[:WARM_UP])
        rows += _latency_rows("letter, after it", times[WARM_UP:])
        progress("latency: an idle loop of calls as long")
        times = _latencies(_idle(float(np.median(times[WARM_UP:, 0]))), samples)
        rows += _latency_rows("idle loop, as long", times)
    n = 10_000 if quick else 100_000
    rng = np.random.default_rng(1)
    X = rng.random((n + 1000, 16))
    y = np.zeros(len(X), dtype=int)
    y[n:] = rng.integers(1, 26, 1000)
    progress(f"latency: {n} samples of one class, then others")
    times = _latencies(make_ours(1, 100).learn_one, stream(X, y))
    rows += _latency_rows("one class, warm-up", times[:WARM_UP])
    rows += _latency_rows(f"one class, to {n}", times[WARM_UP:n])
    rows += _latency_rows("other classes after it", times[n:])
    progress("latency: an idle loop of calls as long")
    idle = _idle(float(np.median(times[WARM_UP:n, 0])))
    rows += _latency_rows("idle loop, as long", _latencies(idle, stream(X, y)))
    report.note(
        "Milliseconds of single calls of learn_one, with 100 trees and 16 features. The wall clock "
        "includes interruptions by other processes. The CPU time of the thread includes fewer "
        "interruptions. The idle loop runs Python arithmetic for as long as the median call, so "
        "its longest calls show the interruptions. The stream of one class has uniform features "
        "and one label, and then 1,000 samples with 25 other labels."
    )
    report.table(
        ("part", "clock", "calls", "median", "99.9 %", "max", "above 5 ms"),
        rows,
    )


def _latencies(call: Callable[[Any, Any], None], samples: Stream) -> Array:
    """Return the wall-clock and CPU seconds of each call."""
    times = np.empty((len(samples), 2))
    wall, cpu = time.perf_counter, time.thread_time
    with no_gc():
        for i, (x, y) in enumerate(samples):
            cpu_start = cpu()
            wall_start = wall()
            call(x, y)
            times[i] = wall() - wall_start, cpu() - cpu_start
    return times


def _idle(seconds: float) -> Callable[[Any, Any], None]:
    """Return a call that does nothing for about the given time."""

    def spin(turns: int) -> None:
        for _ in range(turns):
            pass

    start = time.perf_counter()
    spin(1_000_000)
    turns = int(seconds / (time.perf_counter() - start) * 1_000_000)
    return lambda x, y: spin(turns)


def _latency_rows(part: str, times: Array) -> list[tuple[Any, ...]]:
    rows = []
    for clock, values in zip(("wall", "CPU"), 1e3 * times.T, strict=True):
        rows.append(
            (
                part,
                clock,
                len(values),
                f"{np.median(values):.3f}",
                f"{np.quantile(values, 0.999):.2f}",
                f"{values.max():.2f}",
                int((values > 5.0).sum()),
            )
        )
    return rows
