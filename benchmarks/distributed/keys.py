"""Time and memory of many models by key."""

from __future__ import annotations

import random
import resource
import tempfile
import time

from river_mondrian import MondrianForestClassifier
from river_mondrian.distributed import KeyedModels

from ..data import DataFolder
from ..report import Report, progress

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
    """Measure time and memory of 100,000 forests by key, with and without a memory limit.

    Time and memory of many models by key. Each key has {SAMPLES} samples of {N_FEATURES}
    features and two classes. The column `in a row` has the number of consecutive samples of a
    key. At most 1,000 models are ready; the others are packed in memory or stored in a folder.
    After learning, predictions for random keys are timed. The last two columns have the median
    and the 99 % quantile of their times in ms.
    """
    n, n_asked = (QUICK_KEYS, 100) if quick else (KEYS, 2_000)
    rows = [_run(n, 10, SAMPLES, n_asked), _run(n // 20, 10, 5, n_asked)]
    with tempfile.TemporaryDirectory() as folder:
        bound = BOUND // 20 * n // KEYS
        rows.append(_run(n // 20, 10, 5, n_asked, max_bytes=bound, folder=folder))
    report.about(keys)
    report.table(
        [
            "trees",
            "keys",
            "in a row",
            "ready",
            "packed",
            "in the folder",
            "MB counted",
            "MB of the process",
            "us per sample learned",
            "ms per prediction",
            "99 %",
        ],
        rows,
    )
