"""Streams with targets: streams of the study that selected the design, and other streams.

The other streams, and the held-out streams among them (`KEPT`), were fixed before the estimator was
written. A `Generator` takes the data folder and returns all samples of a stream.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from river import datasets
from river.datasets import synth

from ..data import Array, DataFolder, Stream, available, stream, take

Generator = Callable[[DataFolder], Stream]


class Source(NamedTuple):
    """A stream, and its delay: the number of later samples after which a target is learned."""

    make: Generator
    delay: int = 0


def _of_file(name: str) -> Generator:
    def make(data: DataFolder) -> Stream:
        arrays = data.load(name)
        X, y = arrays["X_train"], arrays["y_train"]
        if "X_test" in arrays:
            X, y = np.vstack([X, arrays["X_test"]]), np.concatenate([y, arrays["y_test"]])
        return stream(X, y.astype(float))

    return make


def _made(dataset: Callable[[], object], n: int) -> Generator:
    return lambda data: take(dataset(), n)


def _mv() -> Iterator[tuple[dict[int, float], float]]:
    """Yield River's Mv, in which numbers replace categories in order of appearance."""
    codes: dict[object, int] = {}
    for x, y in synth.Mv(seed=7):
        yield (
            {k: codes.setdefault(v, len(codes)) if isinstance(v, str) else v for k, v in x.items()},
            y,
        )


STUDIED: dict[str, Source] = {
    "TrumpApproval": Source(_made(datasets.TrumpApproval, 1001)),
    "ChickWeights": Source(_made(datasets.ChickWeights, 578)),
    "Friedman": Source(_made(lambda: synth.Friedman(seed=7), 10_000)),
    "FriedmanDrift gra": Source(
        _made(lambda: synth.FriedmanDrift("gra", (5000, 10_000), 1000, seed=7), 15_000)
    ),
    "FriedmanDrift lea": Source(
        _made(lambda: synth.FriedmanDrift("lea", (4000, 8000, 12_000), seed=8), 16_000)
    ),
    "Planes2D": Source(_made(lambda: synth.Planes2D(seed=7), 10_000)),
    "Mv": Source(_made(_mv, 10_000)),
    "bike_hour": Source(_of_file("bike_hour")),
    "california": Source(_of_file("california")),
    "kin8nm": Source(_of_file("kin8nm")),
    "cpu": Source(_of_file("cpu")),
}


# Streams from files.


def _price(data: DataFolder) -> Stream:
    """Return elec2; the target is the price of the next half hour."""
    arrays = data.load("elec2")
    X = arrays["X_train"][:20_001].astype(float)
    return stream(X[:-1], X[1:, 3])


def _letter_column(data: DataFolder) -> Stream:
    """Return letter; the target is the width of the letter, 0 to 15."""
    arrays = data.load("letter")
    X = arrays["X_train"].astype(float)
    return stream(np.delete(X, 2, axis=1), X[:, 2])


def _age(data: DataFolder) -> Stream:
    """Return a9a; the target is the quintile of the person's age."""
    arrays = data.load("a9a")
    X = arrays["X_train"][:10_000].astype(float)
    return stream(X[:, 5:], X[:, :5] @ np.arange(1.0, 6.0))


def _elevation(data: DataFolder) -> Stream:
    """Return covtype in file order; the target is the elevation."""
    arrays = data.load("covtype")
    X = arrays["X_train"][:10_000].astype(float)
    return stream(X[:, 1:], X[:, 0])


# Generated streams.


def _uniform(seed: int, n: int, d: int) -> tuple[np.random.Generator, Array]:
    rng = np.random.default_rng(seed)
    return rng, rng.random((n, d))


def _surface(X: Array) -> Array:
    """Return a function of the first four columns with a jump and a standard deviation of .7."""
    wave = np.sin(2.0 * math.pi * X[:, 0]) * (0.5 + X[:, 1])
    return wave + 2.0 * (X[:, 2] - 0.5) ** 2 + 1.5 * X[:, 3] * (X[:, 0] > 0.3)


def _heavy_tails(data: DataFolder) -> Stream:
    """Return targets with noise of infinite variance: Student's t with 1.5 degrees of freedom."""
    rng, X = _uniform(11, 10_000, 8)
    return stream(X, 5.0 * _surface(X) + 0.5 * rng.standard_t(1.5, len(X)))


def _noise_levels(data: DataFolder) -> Stream:
    """Return targets whose noise level rises with one feature and jumps with another feature."""
    rng, X = _uniform(12, 10_000, 8)
    spread = 0.05 * 50.0 ** X[:, 4] * np.where(X[:, 5] > 0.8, 3.0, 1.0)
    return stream(X, 5.0 * _surface(X) + spread * rng.normal(size=len(X)))


def _abrupt(data: DataFolder) -> Stream:
    """Return a stream whose function of the features is drawn again every 3,000 samples."""
    rng, X = _uniform(13, 12_000, 8)
    y = np.empty(len(X))
    for start in range(0, len(X), 3000):
        rows = X[start : start + 3000]
        line = rows @ rng.normal(0.0, 2.0, 8) + rng.normal(0.0, 5.0)
        y[start : start + 3000] = line + 3.0 * _surface(rows[:, rng.permutation(8)])
    return stream(X, y + rng.normal(0.0, 0.3, len(X)))


def _recurring(data: DataFolder) -> Stream:
    """Return a stream that alternates between two functions every 1,500 samples."""
    rng, X = _uniform(14, 12_000, 8)
    first, second = 4.0 * _surface(X), 4.0 * _surface(X[:, ::-1]) - 3.0
    is_second = np.arange(len(X)) // 1500 % 2 == 1
    return stream(X, np.where(is_second, second, first) + rng.normal(0.0, 0.3, len(X)))


def _needles(data: DataFolder) -> Stream:
    """Return 100 features and the sum of a sign, a product and a linear term of three of them."""
    rng = np.random.default_rng(15)
    X = rng.normal(size=(8000, 100))
    y = 3.0 * np.sign(X[:, 17]) + 2.0 * X[:, 42] * X[:, 77] + 1.5 * X[:, 42]
    return stream(X, y + rng.normal(0.0, 0.5, len(X)))


def _counts(data: DataFolder) -> Stream:
    """Return counts from 0 to a few hundred, whose mean is a function of the features."""
    rng, X = _uniform(16, 10_000, 8)
    return stream(X, rng.poisson(np.exp(1.5 * _surface(X) + X[:, 4])).astype(float))


AHEAD = 12


def _ahead(data: DataFolder) -> Stream:
    """Return a series, to be predicted 12 steps ahead from earlier values and the time.

    A day has 24 steps, and a week 7 days. The level and the size of the daily season drift.
    """
    rng = np.random.default_rng(17)
    n = 12_000
    t = np.arange(n)
    level = np.cumsum(rng.normal(0.0, 0.05, n))
    size = 2.0 + np.cumsum(rng.normal(0.0, 0.01, n))
    day = np.sin(2.0 * math.pi * t / 24.0) + 0.5 * np.sin(4.0 * math.pi * t / 24.0 + 1.0)
    quiet = np.where(t // 24 % 7 >= 5, 0.4, 1.0)
    rest = np.zeros(n)
    for i in range(1, n):
        rest[i] = 0.8 * rest[i - 1] + rng.normal(0.0, 0.3)
    series = 10.0 + level + size * quiet * day + rest
    first = 168
    rows = range(first, n - AHEAD)
    lags = np.array([[series[i - k] for k in (0, 1, 2, 6, 12, 24, 156)] for i in rows])
    clock = np.array([[(i + AHEAD) % 24, (i + AHEAD) // 24 % 7] for i in rows], dtype=float)
    return stream(np.hstack([lags, clock]), series[first + AHEAD :])


def _long(data: DataFolder) -> Stream:
    """Return 100,000 samples of smooth waves and steps in 10 correlated features, with drift."""
    rng = np.random.default_rng(18)
    n = 100_000
    X = rng.normal(size=(n, 10)) @ (np.eye(10) + 0.3 * rng.normal(size=(10, 10)))
    directions = rng.normal(size=(6, 10)) / math.sqrt(10.0)
    phase = np.linspace(0.0, 2.0, n)
    y = sum(np.sin(X @ w + k * phase) for k, w in enumerate(directions))
    y = y + 2.0 * (X[:, 0] * X[:, 1] > 0.5) + 0.5 * X[:, 2]
    return stream(X, y + rng.normal(0.0, 0.3, n))


OTHERS: dict[str, Source] = {
    "abrupt": Source(_abrupt),
    "age": Source(_age),
    "ahead": Source(_ahead, delay=AHEAD),
    "counts": Source(_counts),
    "elevation": Source(_elevation),
    "heavy tails": Source(_heavy_tails),
    "letter column": Source(_letter_column),
    "long": Source(_long),
    "needles": Source(_needles),
    "noise levels": Source(_noise_levels),
    "price": Source(_price),
    "recurring": Source(_recurring),
}
# Every third stream by name was held out until the estimator was final.
KEPT = tuple(itertools.islice(OTHERS, 2, None, 3))

SOURCES = STUDIED | OTHERS


def target_streams(
    data: DataFolder, n: int | None = None, names: Iterable[str] = SOURCES
) -> Iterator[tuple[str, Stream]]:
    """Yield the names and the first n samples of streams (all samples and streams by default)."""

    def load(name: str) -> Stream:
        data.check_selected(name)
        # Files are not checked against the selection: a stream and its file may differ in name.
        return SOURCES[name].make(DataFolder(data.folder))[:n]

    return available(load, names)
