"""Synthetic streams with fixed seeds, which are equal in every process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data import Array, Stream, stream


def labelled(n: int, d: int, k: int = 3, seed: int = 1, decimals: int | None = None) -> Stream:
    """Return two clusters per class, in features of different units, with 5 % wrong labels."""
    rng = np.random.default_rng(seed)
    X, which = _clusters(rng, n, d, 2 * k)
    X *= 10.0 ** rng.integers(-2, 3, size=d)
    y = np.where(rng.random(n) < 0.05, rng.integers(k, size=n), which % k)
    return stream(X if decimals is None else X.round(decimals), y)


def _clusters(rng: np.random.Generator, n: int, d: int, k: int) -> tuple[Array, Array]:
    centres = rng.random((k, d))
    which = rng.integers(k, size=n)
    return centres[which] + 0.12 * rng.normal(size=(n, d)), which


def unit(n: int, d: int, k: int = 3, seed: int = 1) -> Stream:
    """Return clusters in the unit cube, for models that do not scale features."""
    rng = np.random.default_rng(seed)
    X, which = _clusters(rng, n, d, 2 * k)
    return stream(X, which % k)


def wide(n: int, seed: int = 1) -> Stream:
    """Return 54 features like covertype: 10 numbers and a one-hot encoding of 44 levels."""
    rng = np.random.default_rng(seed)
    X, which = _clusters(rng, n, 10, 14)
    ones = np.eye(44)[(which * 5 + rng.integers(4, size=n)) % 44]
    return stream(np.hstack([X * 1000.0, ones]), which % 7)


def targets(n: int, d: int, seed: int = 1, scale: float = 1.0) -> Stream:
    """Return targets that are a smooth function of the first features with heavy-tailed noise."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    y = np.sin(6.0 * X[:, 0]) + 2.0 * X[:, -1] ** 2 + 0.1 * rng.standard_t(3, size=n)
    return stream(X, scale * y)


def text(n: int, seed: int = 1) -> Stream:
    """Return samples of ten words out of 500, which are too many for a dense map."""
    rng = np.random.default_rng(seed)
    found: Stream = []
    for _ in range(n):
        y = int(rng.integers(2))
        words = (500 * rng.random(10) ** (1.5 + y)).astype(int).tolist()
        found.append(({f"w{word}": float(1 + words.count(word)) for word in words}, y))
    return found


def holes(samples: Stream, share: float = 0.3, seed: int = 2) -> Stream:
    """Remove random values; half of them become absent, and half become NaN."""
    rng = np.random.default_rng(seed)
    found: Stream = []
    for x, y in samples:
        draws = dict(zip(x, rng.random(len(x)).tolist(), strict=True))
        kept = {
            name: value if draws[name] >= share else math.nan
            for name, value in x.items()
            if draws[name] >= 0.5 * share
        }
        found.append((kept, y))
    return found


def late_features(samples: Stream) -> Stream:
    """Return samples in which each feature appears later than the previous feature."""
    n, d = len(samples), len(samples[0][0])
    return [
        ({name: v for j, (name, v) in enumerate(x.items()) if i * (d + 1) >= j * n}, y)
        for i, (x, y) in enumerate(samples)
    ]


def late_classes(samples: Stream) -> Stream:
    """Return samples whose classes appear one after another."""
    n, k = len(samples), 1 + max(y for _, y in samples)
    return [(x, y % (1 + i * k // n)) for i, (x, y) in enumerate(samples)]


def one_class_first(samples: Stream) -> Stream:
    """Return samples whose first two thirds have one label."""
    return [(x, 0 if 3 * i < 2 * len(samples) else y) for i, (x, y) in enumerate(samples)]


def sticky(samples: Stream, run: int = 20) -> Stream:
    """Return samples whose labels repeat."""
    return [(x, samples[i - i % run][1]) for i, (x, _) in enumerate(samples)]


def swapped(samples: Stream) -> Stream:
    """Return samples whose labels are permuted in the middle."""
    n, k = len(samples), 1 + max(y for _, y in samples)
    return [(x, (y + (2 * i >= n)) % k) for i, (x, y) in enumerate(samples)]


def relabelled(samples: Stream, labels: Sequence[Any]) -> Stream:
    return [(x, labels[y]) for x, y in samples]


def weights(n: int, seed: int = 3) -> list[float]:
    """Return weights of samples, some of them 0 or 1."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.3, rng.integers(2, size=n), rng.exponential(size=n)).tolist()
