"""Scaled, shuffled and split data sets of the isolation kernel's benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data import Array, DataFolder, available, min_max

# Numbers of training and test rows of the two-class sets: a subset for most parts, and all rows.
ROWS = {"a9a": (32561, 16281), "covtype": (50_000, 20_000), "mnist": (20_000, 10_000)}
WHOLE = {"a9a": (32561, 16281), "covtype": (464_810, 116_202), "mnist": (60_000, 10_000)}
# Labels that become class 1. In other sets, only the label 1 becomes class 1.
ONES = {"mnist": (3, 4, 6, 7, 9)}


class Set(NamedTuple):
    """Training rows, shuffled and scaled to [0, 1], and test rows with the same scale."""

    name: str
    X: NDArray[np.float64]
    y: NDArray[Any]
    X_test: NDArray[np.float64]
    y_test: NDArray[Any]

    @property
    def d(self) -> int:
        return self.X.shape[1]

    def part(self, n: int, n_test: int) -> Set:
        """Return the set with its first `n` training rows and its first `n_test` test rows."""
        return Set(self.name, self.X[:n], self.y[:n], self.X_test[:n_test], self.y_test[:n_test])


def split(name: str, X: Array, y: Array, share: float = 0.8) -> Set:
    order = np.random.default_rng(0).permutation(len(X))
    n = round(share * len(X))
    train, test = X[order[:n]], X[order[n:]]
    scaled = min_max(train, test)
    return Set(name, scaled[0], y[order[:n]], scaled[1], y[order[n:]])


def load_set(data: DataFolder, name: str) -> Set:
    """Return a set of the folder with its own split, or with a random split if it has none."""
    arrays = data.load(name)
    X, y = arrays["X_train"], arrays["y_train"]
    if "X_test" not in arrays:
        return split(name, X, y)
    order = np.random.default_rng(0).permutation(len(X))
    if name == "mnist":
        X, X_test = X[order] / 255.0, arrays["X_test"] / 255.0
    else:
        X, X_test = min_max(X[order], arrays["X_test"])
    return Set(name, X, y[order], X_test, arrays["y_test"])


def digits_set() -> Set:
    """Return the digits of scikit-learn."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    return split("digits", digits.data, digits.target)


def two_class_sets(
    data: DataFolder, quick: bool, limits: Mapping[str, tuple[int, int]] = ROWS
) -> list[Set]:
    """Return the paper's two-class sets in the folder, with the classes 0 and 1.

    Without a folder, the set is scikit-learn's digits, odd or even.
    """
    found = []
    for name, each in available(partial(load_set, data), limits):
        ones = ONES.get(name, (1,))
        y, y_test = (np.isin(labels, ones).astype(int) for labels in (each.y, each.y_test))
        limit = (1500, 500) if quick else limits[name]
        found.append(each._replace(y=y, y_test=y_test).part(*limit))
        if quick:
            break
    if data.folder is None:
        digits = digits_set()
        odd = digits._replace(name="digits, odd", y=digits.y % 2, y_test=digits.y_test % 2)
        found.append(odd.part(*((600, 300) if quick else (len(odd.y), len(odd.y_test)))))
    return found


def gaussian_blobs(n: int, d: int, seed: int = 0) -> tuple[Array, Array]:
    """Draw rows of two classes, each a mixture of Gaussian blobs."""
    rng = np.random.default_rng(seed)
    centres = rng.random((20, d))
    which = rng.integers(0, 20, n)
    return centres[which] + 0.1 * rng.normal(size=(n, d)), which % 2
