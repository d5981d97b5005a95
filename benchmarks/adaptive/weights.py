"""Recall of the adaptive forest for a class, by the weight of its samples."""

from typing import Any

import numpy as np
from river import datasets

from river_mondrian import AdaptiveMondrianForestClassifier

from ..data import DataFolder, Stream, take
from ..report import Report, progress
from .comparing import N_TREES


def _with_rare_classes(n: int) -> dict[str, tuple[Stream, Any]]:
    """Return streams by name, each with the class whose weight is varied."""
    rng = np.random.default_rng(1)
    bananas = take(datasets.Bananas(), n)
    thinned = [(x, y) for x, y in bananas if not y or rng.random() < 0.1]
    rare = rng.random(n) < 0.04
    values = rng.normal(size=(n, 4)) + 1.5 * rare[:, None] * [1.0, 1.0, 0.0, 0.0]
    normals = [
        (dict(zip("abcd", row, strict=True)), y)
        for row, y in zip(values.tolist(), rare.tolist(), strict=True)
    ]
    return {
        "Bananas": (bananas, True),
        "ImageSegments": (take(datasets.ImageSegments(), n), "window"),
        "Bananas, a tenth of the positives": (thinned, True),
        "two normals in 4 dimensions": (normals, True),
    }


def _recall(samples: Stream, label: Any, weight: float, seed: int) -> tuple[float, float]:
    """Return recall and precision of a weighted class, without the first 300 samples."""
    model = AdaptiveMondrianForestClassifier(N_TREES, seed=seed)
    found, said, right = 0, 0, 0
    for i, (x, y) in enumerate(samples):
        if i >= 300:
            is_said = model.predict_one(x) == label
            found += y == label
            said += is_said
            right += is_said and y == label
        model.learn_one(x, y, weight if y == label else 1.0)
    return right / found, right / max(said, 1)


def weights(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the recall of a class by the weight of its samples.

    Recall / precision of a class by the weight of its samples. The weight is in the header of
    the column. All other samples have the weight 1. Progressive scores from the 301st sample on
    are means of {seeds} seeds. The forest has {N_TREES} trees.
    """
    n, seeds = (600, 1) if quick else (6000, 3)
    table = []
    for name, (samples, label) in _with_rare_classes(n).items():
        progress(name)
        part = sum(y == label for _, y in samples) / len(samples)
        cells = []
        for weight in (0.2, 1.0, 5.0, 20.0):
            runs = [_recall(samples, label, weight, seed) for seed in range(1, seeds + 1)]
            cells.append(" / ".join(f"{mean:.3f}" for mean in np.mean(runs, axis=0)))
        table.append([name, str(label), f"{part:.3f}", *cells])
    report.about(weights, seeds=seeds)
    report.table(["stream", "class", "share", "0.2", "1", "5", "20"], table)
