"""Time of forests compared with River's forests, and costs of a model over a long stream."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .data import Stream
from .report import Report, progress
from .timing import TURN, median, progressive, ratio, repeated

PEERS = ("AMF", "ARF")


def report_speed(
    report: Report,
    models: Mapping[str, Callable[[int], Any]],
    method: str,
    streams: Iterable[tuple[str, Stream]],
    repeats: int,
) -> None:
    """Report the time to predict and learn with an adaptive forest, and ratios to other forests.

    `models` has the forests "adaptive", "exact", "AMF" and "ARF".
    """
    rows = []
    for name, samples in streams:
        progress(name)

        def peers(seed: int, samples: Stream = samples) -> Any:
            return {m: progressive(make(seed), samples, method) for m, make in models.items()}

        for model in ("adaptive", "exact"):  # Compile kernels before timing.
            list(progressive(models[model](0), samples[:300], method))
        runs = repeated(repeats, peers, TURN, time.process_time)
        own = 1e6 * median(runs, "adaptive", "both") / len(samples)
        times = [ratio(runs, peer, "adaptive", "both")[0] for peer in PEERS]
        over = ratio(runs, "adaptive", "exact", "both")[0]
        rows.append([name, len(samples), f"{own:.0f}", *(f"{t:.1f}" for t in times), f"{over:.1f}"])
    report.note(
        "Processor time to predict and learn a sample, compared with River's forests. All forests "
        "have 10 trees. The column `us` has the time of the adaptive forest in microseconds. The "
        "columns `AMF` and `ARF` have the times of these forests divided by the time of the "
        "adaptive forest. The column `over exact` has the time of the adaptive forest divided by "
        f"the time of the exact forest. Times and ratios are medians of {repeats} repeats in one "
        "process, in which the models take turns."
    )
    report.table(["stream", "n", "us", *PEERS, "over exact"], rows)


def report_long_run(
    report: Report,
    model: Any,
    source: Iterable[tuple[Any, Any]],
    n: int,
    what: str,
    score: Callable[[Any, Any], float],
) -> None:
    """Report memory, speed, a mean score and the longest call for each tenth of a long stream."""
    rows, part, samples = [], n // 10, iter(source)
    type(model).warmup()
    for tenth in range(1, 11):
        longest, total, began = 0.0, 0.0, time.process_time()
        for _ in range(part):
            x, y = next(samples)
            total += score(model.predict_one(x), y)
            start = time.process_time()
            model.learn_one(x, y)
            longest = max(longest, time.process_time() - start)
        rate = part / (time.process_time() - began)
        size = f"{model._raw_memory_usage / 2**20:.1f}"
        rows.append([tenth * part, size, f"{rate:,.0f}", f"{total / part:.4f}"])
        rows[-1].append(f"{1e3 * longest:.1f}")
        progress(f"{tenth * part} samples")
    report.table(["samples", "MiB", "samples/s", what, "longest, ms"], rows)
