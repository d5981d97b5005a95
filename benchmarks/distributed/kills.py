"""Workers that are killed at random moments, and the results."""

from __future__ import annotations

import os
import random
import signal
import threading

import numpy as np

from river_mondrian import MondrianForestClassifier, MondrianForestRegressor

from ..data import DataFolder
from ..report import Report, progress, verdict
from .runs import blocks_of, local_ray, same_trees

N_SAMPLES, QUICK_SAMPLES = 100_000, 6_000
KILLS, QUICK_KILLS = 200, 2
SIZE = 250
N_TREES = 10
# Seconds within which a kill comes after a prediction, at any moment of what follows.
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
    same = same_trees(sharded.gather(), whole)
    restarts = sharded.n_restarts
    sharded.close()
    return [
        kind.__name__,
        f"{n:,}",
        killed,
        restarts,
        differ,
        f"{worst:.0e}",
        verdict(same and differ == 0),
    ]


def kills(data: DataFolder, report: Report, quick: bool) -> bool:
    """Kill workers at random moments; predictions after each, and the trees at the end."""
    n, n_kills = (QUICK_SAMPLES, QUICK_KILLS) if quick else (N_SAMPLES, KILLS)
    with local_ray():
        rows = [
            _run(MondrianForestClassifier, n, n_kills // 2),
            _run(MondrianForestRegressor, n, n_kills - n_kills // 2),
        ]
    report.note(
        f"{N_TREES} trees in two workers, blocks of {SIZE}, saved every 7 blocks. A worker's "
        f"process gets SIGKILL within {LATEST} s of a moment at which all was learned; then "
        "probabilities, or means and variances, are compared with those of the one model, and the "
        "trees at the end."
    )
    headers = ["model", "samples", "kills", "restarts", "differ", "largest gap", "the same"]
    report.table(headers, rows)
    return all(row[-1] == "yes" for row in rows)
