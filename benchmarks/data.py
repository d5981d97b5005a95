"""Data sets of the benchmarks, as arrays and as streams of (mapping, label)."""

import itertools
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from river import datasets

Array = NDArray[Any]
Stream = list[tuple[dict[Any, float], Any]]
Loaded = TypeVar("Loaded")


class MissingSet(Exception):
    """A data set has no file, or is not selected."""


class Arrays(dict[str, Array]):
    """Arrays of a file by their names."""

    def __init__(self, path: Path, arrays: dict[str, Array]) -> None:
        super().__init__(arrays)
        self.path, self.names = path, sorted(arrays)

    def __missing__(self, name: str) -> Array:
        raise SystemExit(f"{self.path} has no array {name}, but {', '.join(self.names)}")


class DataFolder:
    """Folder of .npz files.

    If there is no folder or no file, `load` raises `MissingSet`. If some sets are selected, `load`
    also raises `MissingSet` for all other sets.
    """

    def __init__(self, folder: Path | None, sets: Sequence[str] = ()) -> None:
        if folder is not None and not folder.is_dir():
            raise SystemExit(f"no such folder: {folder}")
        self.folder = folder
        self.sets = sets
        # Names of the sets that the parts have asked for, in order.
        self.asked: dict[str, None] = {}

    def check_selected(self, name: str) -> None:
        """Raise `MissingSet` if other sets are selected."""
        self.asked[name] = None
        if self.sets and name not in self.sets:
            raise MissingSet

    def load(self, name: str) -> Arrays:
        """Return the arrays of a set by name.

        Most sets have the arrays X_train, y_train, X_test and y_test, or X and y. In sets with X
        and y, X is also returned as X_train, and y as y_train.
        """
        self.check_selected(name)
        path = None if self.folder is None else self.folder / f"{name}.npz"
        if path is None or not path.exists():
            where = "--data is not given" if path is None else f"--data has no {name}.npz"
            print(f"{name}: skipped, because {where}", flush=True)
            raise MissingSet
        if not zipfile.is_zipfile(path):
            raise SystemExit(f"{path} is no .npz file")
        with np.load(path) as file:
            arrays = Arrays(path, {key: file[key] for key in file.files})
        for X, y in (("X", "y"), ("X_train", "y_train"), ("X_test", "y_test")):
            if X in arrays and len(arrays[X]) != len(arrays[y]):
                raise SystemExit(f"{path}: {X} has {len(arrays[X])} rows, and {y} {len(arrays[y])}")
        for key, array in arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise SystemExit(f"{path}: {key} has NaN or infinite values")
        if "X" in arrays:
            arrays["X_train"], arrays["y_train"] = arrays["X"], arrays["y"]
        return arrays


def available(load: Callable[[str], Loaded], names: Iterable[str]) -> Iterator[tuple[str, Loaded]]:
    """Yield the names and the contents of the sets that `load` can load."""
    for name in names:
        try:
            found = load(name)
        except MissingSet:
            continue
        yield name, found


def min_max(train: Array, *others: Array) -> list[Array]:
    """Return arrays scaled to [0, 1] by the column ranges of the first array."""
    low = train.min(axis=0).astype(float)
    reach = train.max(axis=0) - low
    reach[reach == 0.0] = 1.0
    return [(rows - low) / reach for rows in (train, *others)]


def stream(X: Array, y: Array, n: int | None = None) -> Stream:
    """Convert rows to mappings from column names ("x0", "x1", ...) to numbers."""
    names = [f"x{i}" for i in range(X.shape[1])]
    labels = y[:n].tolist()
    rows = X[:n].astype(float).tolist()
    return [(dict(zip(names, row, strict=True)), k) for row, k in zip(rows, labels, strict=True)]


def frame_of(X: Array) -> pd.DataFrame:
    """Return rows as a frame with the columns "x0", "x1", ..."""
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])


def min_max_stream(samples: Stream) -> Stream:
    """Return a stream scaled to [0, 1] by the range of all its samples."""
    names = list(samples[0][0])
    (X,) = min_max(np.array([[x[name] for name in names] for x, _ in samples], dtype=float))
    return [
        (dict(zip(names, row, strict=True)), y)
        for row, (_, y) in zip(X.tolist(), samples, strict=True)
    ]


def pair(folder: DataFolder, name: str, n: int) -> tuple[Stream, Stream]:
    """Return the first n samples of a stream, raw and scaled by the range of all training rows."""
    if name == "Bananas":
        raw = [(dict(x), y) for x, y in datasets.Bananas()]
        return raw[:n], min_max_stream(raw)[:n]
    arrays = folder.load(name)
    X, y = arrays["X_train"], arrays["y_train"]
    (scaled,) = min_max(X)
    return stream(X, y, n), stream(scaled, y, n)


def take(dataset: Any, n: int) -> Stream:
    """Return the first n samples of a River data set."""
    return [(dict(x), y) for x, y in itertools.islice(dataset, n)]
