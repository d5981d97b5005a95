"""Ranking on the classical public sets of ADBench (Han et al. 2022), as streams."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from ..data import Array, DataFolder, stream
from ..report import Report, progress
from .detectors import OURS, PEERS
from .pictures import draw_dots
from .ranking import run

# Scores of the first rows are excluded, because HalfSpaceTrees do not score the first 250 rows.
WARM_UP = 256
SEEDS = 3
# Number of rows of a set, and number of sets, in a quick run.
QUICK_ROWS, QUICK_SETS = 600, 2
ONLINE = ("HalfSpaceTrees, 10", "HalfSpaceTrees, 100", "LODA", "OneClassSVM")
WINDOWED = "isolation forest, windowed"


def scores_of(who: str, X: Array, seed: int) -> Array:
    """Return the score of each row before the row is learned."""
    make: Any = OURS[who] if who in OURS else PEERS[who].make
    return run(make(seed), stream(X, np.zeros(len(X)))).scores


def adbench(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare ROC AUC and average precision on 19 of ADBench's sets."""
    found = data.load("adbench")
    if found is None:
        return
    names = [str(name) for name in found["names"]][: QUICK_SETS if quick else None]
    everybody = [*OURS, *ONLINE, WINDOWED]
    results = np.zeros((len(names), len(everybody), 2))
    n_seeds = 1 if quick else SEEDS
    for i, name in enumerate(names):
        X, y = found[f"X_{name}"].astype(float), found[f"y_{name}"]
        for seed in range(n_seeds):
            order = np.random.default_rng(12345 + seed).permutation(len(X))
            rows = order[: QUICK_ROWS if quick else None]
            labels = y[rows][WARM_UP:]
            if len(set(labels.tolist())) < 2:
                continue
            for j, who in enumerate(everybody):
                progress(f"{name}, {who}, seed {seed}")
                scores = np.nan_to_num(scores_of(who, X[rows], seed))[WARM_UP:]
                both = roc_auc_score(labels, scores), average_precision_score(labels, scores)
                results[i, j] += np.array(both) / n_seeds
    report.note(
        "Ranking of anomalies on 19 of ADBench's sets. A cell has ROC AUC / average precision, "
        f"means over {n_seeds} random orders of the rows. Each row is scored and then learned. "
        f"Scores are evaluated from row {WARM_UP + 1} on. Features are unscaled, except for "
        "River's detectors. MinMaxScaler scales features for HalfSpaceTrees, and StandardScaler "
        "for River's other detectors. The isolation forest is refitted every 256 rows. "
        "`NearestNeighborDetector` was designed on these sets. The column `nearest, "
        "skip_anomalies` is this detector with `skip_anomalies=True`."
    )
    text = [[f"{auc:.3f} / {ap:.3f}" for auc, ap in row] for row in results]
    mean = [f"**{auc:.3f} / {ap:.3f}**" for auc, ap in results.mean(axis=0)]
    rows_of = [[name, *row] for name, row in zip(names, text, strict=True)]
    report.table(["set", *everybody], [*rows_of, ["mean", *mean]])
    areas = {
        name: dict(zip(everybody, row[:, 0].tolist(), strict=True))
        for name, row in zip(names, results, strict=True)
    }
    draw_dots(report, areas, list(OURS), "ROC AUC")
    best = results[:, [everybody.index(who) for who in ONLINE]].max(axis=1, keepdims=True)
    reached = (results >= best).sum(axis=0)
    for own in OURS:
        auc, ap = reached[everybody.index(own)]
        report.note(
            f"{own} is at or above River's best detector on {auc} sets by ROC AUC, and on {ap} "
            "sets by average precision."
        )
