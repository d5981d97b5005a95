"""Two workers, compared with one process and with threads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from river_mondrian import MondrianForestClassifier

from ..adaptive.streams import load
from ..data import DataFolder, available
from ..report import Report, progress

N_TREES, BLOCK, WARM_UP = 100, 1000, 256
Block = tuple[pd.DataFrame, list[Any]]


@contextmanager
def local_ray() -> Iterator[None]:
    """Run Ray on this machine; the number of CPUs may exceed the number of processors."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise SystemExit("this needs Ray: pip install river-mondrian[ray]") from None
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


def blocks_of(X: Any, y: Any, size: int) -> list[Block]:
    """Return consecutive frames of `size` rows, with labels."""
    frame = pd.DataFrame(np.asarray(X, float), columns=[f"x{i}" for i in range(X.shape[1])])
    labels = np.asarray(y).tolist()
    return [
        (frame.iloc[i : i + size].reset_index(drop=True), labels[i : i + size])
        for i in range(0, len(frame), size)
    ]


def _begun(start: Block, n_jobs: int = 1) -> Any:
    """Return a model that has learned the first block twice, so all kernels are loaded."""
    model = MondrianForestClassifier(N_TREES, n_jobs=n_jobs, seed=1)
    model.learn_many(*start)
    model.learn_many(*start)
    return model


def _workers(start: Block) -> Any:
    from river_mondrian.distributed import ShardedForest

    sharded = ShardedForest.scatter(_begun(start), 2, save_every=10_000)
    # The workers load their kernels in this call.
    sharded.learn_many(*start)
    sharded.finish()
    return sharded


PEERS: dict[str, Callable[[Block], Any]] = {
    "one process": _begun,
    "n_jobs=2": lambda start: _begun(start, 2),
    "two workers": _workers,
}


def _rate(model: Any, blocks: list[Block]) -> float:
    """Return the rows per second at which a model learns blocks."""
    started = time.perf_counter()
    for block in blocks:
        model.learn_many(*block)
    if hasattr(model, "finish"):
        model.finish()
    rate = sum(len(labels) for _, labels in blocks) / (time.perf_counter() - started)
    if hasattr(model, "close"):
        model.close()
    return rate


def sharding(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare rates of two workers, one process and threads.

    Rows per second of two workers, one process and two threads. There are {N_TREES} trees, and
    blocks of {BLOCK:,} rows after the first {WARM_UP} rows. Rates are by the wall clock, the
    best of the repeats, in which the methods take turns.
    """
    n, repeats = (4000, 1) if quick else (15_000, 3)
    rows = []
    with local_ray():
        streams = dict(available(lambda name: load(data, name, n), ("letter", "covtype")))
        for name, samples in (streams or {"ImageSegments": load(data, "ImageSegments", n)}).items():
            X, y = np.array([list(x.values()) for x, _ in samples]), [y for _, y in samples]
            (start,) = blocks_of(X[:WARM_UP], y[:WARM_UP], WARM_UP)
            blocks = blocks_of(X[WARM_UP:], y[WARM_UP:], BLOCK)
            best = dict.fromkeys(PEERS, 0.0)
            for repeat in range(repeats):
                progress(f"{name}, repeat {repeat}")
                for peer, make in PEERS.items():
                    best[peer] = max(best[peer], _rate(make(start), blocks))
            rows.append([name, *(f"{rate:.0f}" for rate in best.values())])
        report.about(sharding)
        report.table(["stream", *PEERS], rows)
