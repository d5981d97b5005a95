"""Accuracy with missing values."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from river import preprocessing, stats

from river_mondrian import MondrianForestClassifier

from ..data import Array, DataFolder, Stream, stream
from ..report import Report, progress
from ..timing import BLOCK
from .peers import make_ours

FLOOR = 1e-3  # Smallest probability in the log loss.


def _score(model: Any, samples: Stream, scores: list[float]) -> Iterator[str]:
    """Add accuracy (0 or 1) and log loss of each sample to `scores`; yield after each block."""
    for i, (x, y) in enumerate(samples, 1):
        probabilities = model.predict_proba_one(x)
        if probabilities:
            scores[0] += max(probabilities, key=probabilities.__getitem__) == y
        scores[1] -= math.log(max(probabilities.get(y, 0.0), FLOOR))
        model.learn_one(x, y)
        if i % BLOCK == 0 or i == len(samples):
            yield "both"


def missing(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare accuracy with absent values and accuracy with running means in their place."""
    letter = data.load("letter")
    if letter is None:
        return
    MondrianForestClassifier.warmup()
    n, seeds = (1000, 1) if quick else (10_000, 3)
    whole = stream(letter["X_train"], letter["y_train"], n)
    rows = []
    for share in (0.0, 0.2, 0.4):
        found: dict[str, list[list[float]]] = {}
        for seed in range(seeds):
            progress(f"missing: {share:.0%}, seed {seed}")
            rng = random.Random(seed)
            holes = [[rng.random() < share for _ in x] for x, _ in whole]
            absent = [
                ({name: v for (name, v), hole in zip(x.items(), row, strict=True) if not hole}, y)
                for (x, y), row in zip(whole, holes, strict=True)
            ]
            none: Any = [({name: x.get(name) for name in whole[0][0]}, y) for x, y in absent]
            means = ((name, stats.Mean()) for name in whole[0][0])
            for how, model, samples in (
                ("absent", make_ours(seed), absent),
                ("running mean", preprocessing.StatImputer(*means) | make_ours(seed), none),
            ):
                scores = [0.0, 0.0]
                for _ in _score(model, samples, scores):
                    pass
                found.setdefault(how, []).append(scores)
        ours, imputed = (np.array(found[how]) / n for how in ("absent", "running mean"))
        rows.append(
            (
                f"{share:.0%}",
                _spread(ours[:, 0]),
                _spread(imputed[:, 0]),
                f"{(ours - imputed)[:, 0].mean():+.4f}",
                _spread(ours[:, 1]),
                _spread(imputed[:, 1]),
            )
        )
    report.note(
        "Accuracy with absent values, compared with running means in their place. In the first "
        f"{n} samples of letter, each value is absent with the probability in the first column. "
        "The other columns have the progressive accuracy and log loss with 10 trees, as mean +- "
        f"standard deviation over {seeds} seeds. An absent feature is not in the mapping. Running "
        "means are from StatImputer with stats.Mean() before the Mondrian forest."
    )
    report.table(
        (
            "absent",
            "accuracy",
            "with running mean",
            "difference",
            "log loss",
            "with running mean",
        ),
        rows,
    )


def _spread(values: Array) -> str:
    return f"{values.mean():.4f} +- {values.std():.4f}"
