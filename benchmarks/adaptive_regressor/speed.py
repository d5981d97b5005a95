"""Time and memory of the adaptive regressor."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from river.datasets import synth

import river_mondrian
from river_mondrian import MondrianForestClassifier

from ..data import DataFolder, Stream, stream
from ..report import Report, progress
from ..timing import TURN, median, ratio, repeated
from .models import OURS, is_there, models
from .streams import load

TIMED = ("adaptive", "exact", "AMF, raw", "ARF")


def _progressive(model: Any, samples: Stream) -> Iterator[str]:
    for start in range(0, len(samples), 100):
        for x, y in samples[start : start + 100]:
            model.predict_one(x)
            model.learn_one(x, y)
        yield "both"


def _letters(data: DataFolder, n: int) -> float | None:
    """Return the microseconds that the exact forest takes to learn a sample of letter."""
    arrays = data.load("letter")
    if arrays is None:
        return None
    samples = stream(arrays["X_train"], arrays["y_train"], n)
    spent = []
    for _ in range(4):
        model = MondrianForestClassifier(n_estimators=10, seed=1)
        began = time.process_time()
        for x, y in samples:
            model.learn_one(x, y)
        spent.append(time.process_time() - began)
    return 1e6 * min(spent) / len(samples)


def speed(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the time to predict and learn with River's forests; time the longest call."""
    n, repeats, long = (300, 1, 1000) if quick else (3000, 5, 100_000)
    timed = {name: model for name, model in models().items() if name in TIMED}
    rows = []
    for name in ("Friedman", "cpu"):
        samples = load(data, name, n)
        if samples is None:
            continue

        def peers(seed: int, samples: Stream = samples) -> dict[str, Iterator[str]]:
            return {peer: _progressive(m.make(seed), samples) for peer, m in timed.items()}

        progress(name)
        for peer in ("adaptive", "exact"):  # Compile kernels before timing.
            if peer in timed:
                list(_progressive(timed[peer].make(0), samples[:300]))
        runs = repeated(repeats, peers, TURN, time.process_time)
        for peer in timed:
            us = 1e6 * median(runs, peer, "both") / len(samples)
            times = ratio(runs, peer, "adaptive", "both")[0] if "adaptive" in timed else None
            rows.append(
                [
                    name,
                    peer,
                    f"{us:.1f}",
                    "-" if times is None else f"{times:.1f}",
                ]
            )
    report.note(
        "Processor time to predict and learn a sample, compared with River's forests. All "
        f"forests have 10 trees and run on the first {n} samples. Times are medians of {repeats} "
        "repeats, in which the models take turns. The last column has the time relative to the "
        "adaptive regressor."
    )
    report.table(["stream", "model", "us", "ratio"], rows)
    letters = _letters(data, n)
    if letters is not None:
        report.note(
            f"The exact forest of 10 trees takes {letters:.1f} us to learn a sample of letter."
        )
    if is_there():
        _report_longest(report, long)


def _report_longest(report: Report, n: int) -> None:
    model = getattr(river_mondrian, OURS)(seed=1)
    longest = 0.0
    for x, y in synth.Friedman(seed=7).take(n):
        began = time.process_time()
        model.predict_one(x)
        model.learn_one(x, y)
        longest = max(longest, 1e3 * (time.process_time() - began))
    report.note(f"The longest call in {n} samples of Friedman takes {longest:.2f} ms of CPU time.")


def memory(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure memory, speed and error over a long stream, with a window of samples."""
    if not is_there():
        report.note("The estimator under test does not exist yet.")
        return
    n, most = (3000, 1000) if quick else (1_000_000, 20_000)
    model = getattr(river_mondrian, OURS)(window=most, seed=1)
    source = iter(synth.Friedman(seed=7))
    rows, longest, errors, began = [], 0.0, 0.0, time.process_time()
    for i in range(1, n + 1):
        x, y = next(source)
        errors += abs(model.predict_one(x) - y)
        start = time.process_time()
        model.learn_one(x, y)
        longest = max(longest, time.process_time() - start)
        if i % (n // 10) == 0:
            part = n // 10
            us = 1e6 * (time.process_time() - began) / part
            size = model._raw_memory_usage / 2**20
            rows.append(
                [i, f"{size:.1f}", f"{us:.1f}", f"{errors / part:.3f}", f"{1e3 * longest:.1f}"]
            )
            progress(f"{i} samples")
            longest, errors, began = 0.0, 0.0, time.process_time()
    report.note(
        f"Memory, speed and error over a long stream. The stream is Friedman, with window={most}. "
        "A row describes a tenth of the stream: the memory, the CPU time per sample, the mean "
        "absolute error, and the longest learn_one. The CPU time includes the generation of "
        "samples, prediction and learning."
    )
    report.table(["samples", "MiB", "us", "MAE", "longest, ms"], rows)
