"""Functions for several parts: blocks of data sets, Ray, and clocks."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from river import datasets

from river_mondrian import save
from river_mondrian.files.store import read

from ..data import DataFolder

N_TREES = 100
BLOCK = 1000
WARM_UP = 256


@contextmanager
def local_ray(n_cpus: int = 4) -> Iterator[Any]:
    """Run Ray on this machine; `n_cpus` may exceed the number of processors."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise SystemExit("this needs Ray: pip install river-mondrian[ray]") from None
    ray.init(num_cpus=n_cpus, include_dashboard=False, log_to_driver=False)
    try:
        yield ray
    finally:
        ray.shutdown()


Block = tuple[pd.DataFrame, list[Any]]


def blocks_of(X: Any, y: Any, size: int) -> list[Block]:
    """Return consecutive frames of `size` rows, with labels."""
    frame = pd.DataFrame(np.asarray(X, float), columns=[f"x{i}" for i in range(X.shape[1])])
    labels = np.asarray(y).tolist()
    return [
        (frame.iloc[i : i + size].reset_index(drop=True), labels[i : i + size])
        for i in range(0, len(frame), size)
    ]


def streams(data: DataFolder, n: int) -> dict[str, tuple[Any, Any]]:
    """Return the first rows of letter and covtype, or of River's Phishing without a folder."""
    found = {}
    for name in ("letter", "covtype"):
        arrays = data.load(name)
        if arrays is not None:
            found[name] = arrays["X_train"][:n], arrays["y_train"][:n]
    if not found:
        samples = list(datasets.Phishing())
        rows = np.array([list(x.values()) for x, _ in samples])
        found["Phishing"] = rows[:n], np.array([int(y) for _, y in samples[:n]])
    return found


def same_trees(one: Any, other: Any) -> bool:
    """Return whether two models have equal files, except for the distribution of targets."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for model in (one, other):
            save(model, Path(folder) / "model")
            arrays, _ = read(Path(folder) / "model")
            arrays.pop("model/_trees/tails", None)
            found.append({name: array.tobytes() for name, array in arrays.items()})
    return found[0] == found[1]
