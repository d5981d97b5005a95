"""Results of workers that are killed at random moments."""

from __future__ import annotations

import os
import random
import signal
import threading

import numpy as np

from river_mondrian import MondrianForestClassifier, MondrianForestRegressor

from ..data import DataFolder
from ..report import Report, progress
from .sharding import blocks_of, local_ray, same_trees

N_SAMPLES, QUICK_SAMPLES = 100_000, 6_000
KILLS, QUICK_KILLS = 200, 2
SIZE = 250
N_TREES = 10
# Largest number of seconds between the start of a block and the kill.
LATEST = 0.5


def _run(kind: type, n: int, n_kills: int) -> list[object]:
    from river_mondrian.distributed import ShardedForest

    rng, moments = np.random.default_rng(1), random.Random(1)
    X = rng.normal(size=(n, 6))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.standard_t(3, size=n)
    if kind is MondrianForestClassifier:
        y = np.digitize(y, [-0.5, 0.0, 0.5])
    blocks = blocks_of(X, y, SIZE)
    whole = kind(N_TREES, seed=1)
    sharded = ShardedForest(whole.clone(), 2, save_every=7)
    asked = blocks_of(rng.normal(size=(50, 6)), np.zeros(50), 50)[0][0]
    first = 4_096 // SIZE + 1
    killed, differ, worst = 0, 0, 0.0
    for i, block in enumerate(blocks):
        killer = None
        due = n_kills * (i - first + 1) // (len(blocks) - first)
        if i > first and killed < due:
            process = moments.choice(sharded.describe_shards())["process"]
            wait = LATEST * moments.random()
            killer = threading.Timer(wait, os.kill, (process, signal.SIGKILL))
            killer.start()
            killed += 1
        whole.learn_many(*block)
        sharded.learn_many(*block)
        if killer is not None:
            killer.join()
            if kind is MondrianForestClassifier:
                found, expected = (m.predict_proba_many(asked).to_numpy() for m in (sharded, whole))
            else:
                found, expected = (
                    m.predict_many(asked, with_dist=True).to_numpy() for m in (sharded, whole)
                )
            gap = float(np.max(np.abs(found - expected) / np.maximum(np.abs(expected), 1.0)))
            worst = max(worst, gap)
            differ += gap > 1e-12
            progress(f"{kind.__name__}: {killed} kills, {sharded.n_restarts} restarts")
    differ += not same_trees(sharded.gather(), whole)
    restarts = sharded.n_restarts
    sharded.close()
    return [
        kind.__name__,
        f"{n:,}",
        killed,
        restarts,
        differ,
        f"{worst:.0e}",
    ]


def kills(data: DataFolder, report: Report, quick: bool) -> bool:
    """Kill workers at random moments; compare predictions and trees with a single model."""
    n, n_kills = (QUICK_SAMPLES, QUICK_KILLS) if quick else (N_SAMPLES, KILLS)
    with local_ray():
        rows = [
            _run(MondrianForestClassifier, n, n_kills // 2),
            _run(MondrianForestRegressor, n, n_kills - n_kills // 2),
        ]
    report.note(
        f"Results of workers that are killed at random moments. Two workers have {N_TREES} trees, "
        f"learn blocks of {SIZE} samples, and save after every 7 blocks. In some blocks, a "
        f"worker's process gets SIGKILL within {LATEST} s after the block starts. After such a "
        "block, probabilities (or means and variances) are compared with the predictions of a "
        "single model. At the end the trees are compared. The column `differ` counts differences "
        "above 1e-12."
    )
    headers = ["model", "samples", "kills", "restarts", "differ", "largest difference"]
    report.table(headers, rows)
    return not any(differ for *_, differ, _ in rows)
