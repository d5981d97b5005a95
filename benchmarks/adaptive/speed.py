"""Time and memory of the adaptive forest."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

from river import forest
from river.datasets import synth

from river_mondrian import AdaptiveMondrianForestClassifier, MondrianForestClassifier

from ..data import DataFolder, Stream
from ..report import Report, progress
from ..timing import TURN, median, ratio, repeated
from .comparing import LONG, MADE, N_TREES, adaptive_forest, load, scores, standardized_amf


def _progressive(model: Any, samples: Stream) -> Iterator[str]:
    for start in range(0, len(samples), 100):
        for x, y in samples[start : start + 100]:
            model.predict_proba_one(x)
            model.learn_one(x, y)
        yield "both"


def _longest(model: Any, samples: Stream) -> float:
    """Return the CPU time of the longest learn_one, in milliseconds."""
    longest = 0.0
    for x, y in samples:
        start = time.process_time()
        model.learn_one(x, y)
        longest = max(longest, time.process_time() - start)
    return 1e3 * longest


def speed(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the time to predict and learn with River's forests."""
    n, repeats = (500, 1) if quick else (3000, 9)
    table = []
    AdaptiveMondrianForestClassifier.warmup()
    MondrianForestClassifier.warmup()
    for name in ("letter", "covtype", "Agrawal"):
        samples = load(data, name, n)
        if samples is None:
            continue

        def peers(seed: int, samples: Stream = samples) -> Any:
            return {
                "adaptive": _progressive(adaptive_forest(seed), samples),
                "exact": _progressive(MondrianForestClassifier(seed=seed), samples),
                "AMF": _progressive(standardized_amf(seed), samples),
                "ARF": _progressive(forest.ARFClassifier(seed=seed), samples),
            }

        progress(f"{name}")
        runs = repeated(repeats, peers, TURN, time.process_time)
        own = 1e6 * median(runs, "adaptive", "both") / len(samples)
        times = {peer: ratio(runs, peer, "adaptive", "both")[0] for peer in ("AMF", "ARF", "exact")}
        cells = [f"{times[peer]:.1f}" for peer in ("AMF", "ARF")] + [f"{1 / times['exact']:.1f}"]
        whole = load(data, name, 500 if quick else LONG)
        longest = math.nan if whole is None else _longest(adaptive_forest(1), whole)
        table.append([name, len(samples), f"{own:.0f}", *cells, f"{longest:.1f}"])
    report.note(
        "Processor time to predict and learn a sample, compared with River's forests. All forests "
        "have 10 trees. The column `us` has the time of the adaptive forest in microseconds. The "
        "columns `AMF` and `ARF` have the times of these forests divided by the time of the "
        "adaptive forest. The column `over exact` has the time of the adaptive forest divided by "
        f"the time of the exact forest. Times and ratios are medians of {repeats} repeats in one "
        "process. The last column has the CPU time of the longest learn_one among the first "
        f"{LONG} samples, including the warm-up."
    )
    headers = ["stream", "n", "us", "AMF", "ARF", "over exact", "longest, ms"]
    report.table(headers, table)


def memory(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure memory, speed and the longest call over a long stream."""
    n, most = (5000, 1000) if quick else (1_000_000, 20_000)
    model = AdaptiveMondrianForestClassifier(N_TREES, window=most, seed=1)
    table, longest, began = [], 0.0, time.perf_counter()
    source = iter(synth.Agrawal(seed=1, perturbation=0.05))
    scores(adaptive_forest(0), MADE["Agrawal"](300))  # Compile kernels before timing.
    right = 0
    for i in range(1, n + 1):
        x, y = next(source)
        right += model.predict_one(x) == y
        start = time.process_time()
        model.learn_one(x, y)
        longest = max(longest, time.process_time() - start)
        if i % (n // 10) == 0:
            rate = (n // 10) / (time.perf_counter() - began)
            size = model._raw_memory_usage / 2**20
            accuracy = right / (n // 10)
            table.append(
                [i, f"{size:.1f}", f"{rate:,.0f}", f"{accuracy:.4f}", f"{1e3 * longest:.1f}"]
            )
            longest, right, began = 0.0, 0, time.perf_counter()
            progress(f"{i} samples")
    report.note(
        "Memory, speed and the longest call over a long stream. The stream is Agrawal with 5 % "
        f"perturbation. The forest has {N_TREES} trees and window={most}. A row describes a tenth "
        "of the stream: the memory, the samples per second, the accuracy, and the CPU time of the "
        "longest learn_one. The samples per second include the generation of samples, prediction "
        "and learning."
    )
    report.table(["samples", "MiB", "samples/s", "accuracy", "longest, ms"], table)
