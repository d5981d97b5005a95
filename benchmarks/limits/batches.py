"""Time to learn rows one by one, in one call, by two threads, and by two processes."""

from __future__ import annotations

import statistics
import time
from typing import Any

from ..data import DataFolder
from ..distributed.runs import WARM_UP, Block, blocks_of, streams
from ..distributed.sharding import begun, one_process, two_of_their_own
from ..report import Report, progress
from ..timing import no_gc

N_TREES = 10
N_SAMPLES, QUICK_SAMPLES = 14_800, 4_000
REPEATS, QUICK_REPEATS = 7, 1
PEERS = ("learn_one", "learn_many", "n_jobs=2", "two processes", "half the trees")


def _one_by_one(model: Any, frame: Any, labels: list[Any]) -> float:
    """Learn rows one by one with a model, and return the seconds."""
    samples = list(zip(frame.to_dict("records"), labels, strict=True))
    with no_gc():
        started = time.perf_counter()
        for x, y in samples:
            model.learn_one(x, y)
        return time.perf_counter() - started


def _seconds(start: Block, frame: Any, labels: list[Any]) -> dict[str, float]:
    """Return the wall-clock seconds of each method for all rows."""
    n, blocks = len(labels), [(frame, labels)]
    return {
        "learn_one": _one_by_one(begun(start, N_TREES), frame, labels),
        "learn_many": n / one_process(start, blocks, n, 1, N_TREES).clock,
        "n_jobs=2": n / one_process(start, blocks, n, 2, N_TREES).clock,
        "two processes": n / two_of_their_own(start, blocks, n, N_TREES).clock,
        "half the trees": n / one_process(start, blocks, n, 1, N_TREES // 2).clock,
    }


def batches(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the time that `learn_many` and a second thread save."""
    rows = []
    for name, (X, y) in streams(data, QUICK_SAMPLES if quick else N_SAMPLES).items():
        start = blocks_of(X[:WARM_UP], y[:WARM_UP], WARM_UP)[0]
        frame, labels = blocks_of(X[WARM_UP:], y[WARM_UP:], len(X))[0]
        progress(f"batches: {name}")
        _seconds(start, frame, labels)  # Compile or load kernels before timing.
        found = []
        for repeat in range(QUICK_REPEATS if quick else REPEATS):
            progress(f"batches: {name}, repeat {repeat}")
            found.append(_seconds(start, frame, labels))
        each = {p: 1e6 * statistics.median(one[p] for one in found) / len(labels) for p in PEERS}
        share = statistics.median(one["two processes"] / one["n_jobs=2"] for one in found)
        rows.append(
            [
                f"{name}, {X.shape[1]}",
                f"{len(labels):,}",
                *(f"{each[peer]:.1f}" for peer in PEERS),
                f"{share:.2f}",
            ]
        )
    report.note(
        f"Time saved by learn_many and by a second thread. The forests have {N_TREES} trees and "
        f"learn all rows after the first {WARM_UP}. Times are wall-clock microseconds per row, "
        "medians of repeats in which the methods take turns. The methods are learn_one, "
        "learn_many, learn_many with two threads, two parallel processes with half of the trees "
        "each, and one of these processes alone. The share is the rate of two threads relative to "
        "two processes, a median over the repeats."
    )
    report.table(["stream", "rows", *PEERS, "share"], rows)
