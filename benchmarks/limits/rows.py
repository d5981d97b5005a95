"""Memory of exact forests: rows of nodes, boxes of nodes, and stored samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from river_mondrian import MondrianForestClassifier, MondrianForestRegressor

from ..data import DataFolder, Stream, stream
from ..report import Report, progress

N_TREES = 10
# Largest numbers of samples of small nodes.
SIZES = (2, 4, 8, 16)
# Bytes of an index, by which a node refers to a box in a separate row.
NUMBER = 4


def _counted(what: str, model: Any, samples: Stream) -> list[Any]:
    """Train a model, and return the bytes of its parts per sample and tree."""
    progress(f"rows: {what}")
    for x, y in samples:
        model.learn_one(x, y)
    trees, n = model._trees, len(samples) * N_TREES
    sizes = np.concatenate([trees.reader.column("nodes", "n_samples", t) for t in range(N_TREES)])
    box = 8 * int(trees.forest.dim_capacity)
    whole, n_rows = model._raw_memory_usage / n, len(sizes) / n
    header = trees.nodes.row_bytes - box
    line = [what, len(samples), f"{n_rows:.2f}", header, box, f"{trees.points.nbytes / n:.0f}"]
    line.append(f"{whole:.0f}")
    for size in SIZES:
        share = float((sizes <= size).mean())
        line.append(f"{share:.2f}: {whole - n_rows * (share * box - NUMBER):.0f}")
    return line


def rows(data: DataFolder, report: Report, quick: bool) -> None:
    """Compute the bytes of nodes with and without the boxes of small nodes."""
    n = 3000 if quick else 30_000
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 21))
    y = X[:, 0] + np.sin(3.0 * X[:, 1]) + 0.1 * rng.standard_normal(n)
    regressor = MondrianForestRegressor(N_TREES, seed=1)
    lines = [_counted("regressor, normal, 21", regressor, stream(X, y))]
    labels = rng.integers(0, 3, n)
    overlapping = rng.standard_normal((n, 16)) + 0.5 * labels[:, None]
    classifier = MondrianForestClassifier(N_TREES, seed=1)
    lines.append(_counted("exact, overlapping, 16", classifier, stream(overlapping, labels)))
    letter = data.load("letter")
    if letter is not None:
        samples = stream(letter["X_train"], letter["y_train"], min(n, len(letter["X_train"])))
        classifier = MondrianForestClassifier(N_TREES, seed=1)
        lines.append(_counted("exact, letter, 16", classifier, samples))
    report.note(
        f"Memory of exact forests with {N_TREES} trees by part. The column `rows` has the number "
        "of rows of nodes per sample and tree. The next columns have the bytes of a row without "
        "its box (`header`) and of a box. The columns `points` and `bytes` have the bytes of the "
        "stored samples and of the model, per sample and tree. The last columns have the share of "
        "nodes with at most the number of samples in the header. After a colon, a cell has the "
        "bytes of a model without boxes for these nodes. The other nodes of this model store the "
        "index of a box."
    )
    headers = ["forest", "samples", "rows", "header", "box", "points", "bytes"]
    report.table([*headers, *(f"at most {size}" for size in SIZES)], lines)
