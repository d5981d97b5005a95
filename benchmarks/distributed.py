"""Forests in several processes with Ray, and one model per key."""

import os
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from river_mondrian import MondrianForestClassifier
from river_mondrian.distributed import KeyedModels

from .adaptive.streams import class_streams
from .data import DataFolder, frame_of
from .report import Report, progress

# Two workers, compared with one process and with threads.

N_TREES, BLOCK, WARM_UP = 100, 1000, 256
Block = tuple[pd.DataFrame, list[Any]]


@contextmanager
def local_ray() -> Iterator[None]:
    """Run Ray on this machine with four CPUs, which may exceed the number of processors."""
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
    frame = frame_of(np.asarray(X, float))
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

    Rows per second of two workers, one process and two threads. The forests have {N_TREES}
    trees, and learn blocks of {BLOCK:,} rows after the first {WARM_UP} rows. The methods take
    turns, and each rate is the best of several repeats by the wall clock.
    """
    n, repeats = (4000, 1) if quick else (15_000, 3)
    rows = []
    with local_ray():
        found = list(class_streams(data, n, ("letter", "covtype")))
        for name, samples in found or class_streams(data, n, ["ImageSegments"]):
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


# Many models by key.

KEYS, QUICK_KEYS = 100_000, 400
SAMPLES = 20
N_FEATURES = 6
BOUND = 200_000_000


def _megabytes() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def _run(n_keys: int, n_trees: int, visit: int, n_asked: int, **arguments: object) -> list[object]:
    rng = random.Random(1)
    keyed = KeyedModels("user", MondrianForestClassifier(n_trees, seed=1), **arguments)
    names = [f"f{j}" for j in range(N_FEATURES)]

    def sample(key: int) -> tuple[dict[str, object], int]:
        x: dict[str, object] = {name: rng.random() for name in names}
        label = int(x["f0"] + x["f1"] > 1.0)  # type: ignore[operator]
        return x | {"user": key}, label

    before, started = _megabytes(), time.perf_counter()
    for number in range(SAMPLES // visit):
        for key in range(n_keys):
            for _ in range(visit):
                keyed.learn_one(*sample(key))
        progress(f"{n_trees} trees: visit {number + 1} of {SAMPLES // visit}")
    spent = time.perf_counter() - started
    asked = []
    for _ in range(n_asked):
        x, _ = sample(rng.randrange(n_keys))
        begun = time.perf_counter()
        keyed.predict_one(x)
        asked.append(time.perf_counter() - begun)
    asked.sort()
    return [
        n_trees,
        f"{n_keys:,}",
        visit,
        keyed.counts["ready"],
        keyed.counts["packed"],
        f"{n_keys - len(keyed):,}",
        f"{keyed._raw_memory_usage / 1e6:.0f}",
        f"{_megabytes() - before:.0f}",
        f"{1e6 * spent / (n_keys * SAMPLES):.0f}",
        f"{1e3 * asked[len(asked) // 2]:.1f}",
        f"{1e3 * asked[int(0.99 * len(asked))]:.1f}",
    ]


def keys(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure time and memory of up to 100,000 forests by key, and of 5,000 with a memory limit.

    Time and memory of many models by key. Each key has {SAMPLES} samples of {N_FEATURES}
    features and two classes. The column `in a row` has the number of consecutive samples of a
    key. At most 1,000 models are ready; the others are packed in memory or stored in a folder.
    After learning, predictions for random keys are timed. The last two columns have the median
    and the 99 % quantile of the time of a prediction in ms.
    """
    n, n_asked = (QUICK_KEYS, 100) if quick else (KEYS, 2_000)
    rows = [_run(n, 10, SAMPLES, n_asked), _run(n // 20, 10, 5, n_asked)]
    with tempfile.TemporaryDirectory() as folder:
        bound = BOUND // 20 * n // KEYS
        rows.append(_run(n // 20, 10, 5, n_asked, max_bytes=bound, folder=folder))
    report.about(keys)
    headers = ["trees", "keys", "in a row", "ready", "packed", "in the folder", "MB counted"]
    headers += ["MB of the process", "us per sample learned", "ms per prediction", "99 %"]
    report.table(headers, rows)


PARTS = (sharding, keys)
