"""Synthetic streams with fixed seeds, which are equal in every process."""

import math
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

import numpy as np

from ..data import Array, Stream, stream

# Returns a stream of a given number of samples.
Source = Callable[[int], Stream]
Options = ParamSpec("Options")


def source(make: Callable[Concatenate[int, Options], Stream]) -> Callable[Options, Source]:
    """Convert a function of a number of samples and options to a function of the options."""

    def of_options(*given: Options.args, **options: Options.kwargs) -> Source:
        return lambda n: make(n, *given, **options)

    return of_options


def times(factor: float, of_length: Source) -> Source:
    """Return a source with another number of samples."""
    return lambda n: of_length(int(factor * n))


@source
def labelled(n: int, d: int, k: int = 3, decimals: int = 12) -> Stream:
    """Return two clusters per class, in features of different units, with 5 % random labels."""
    rng = np.random.default_rng(1)
    X, which = _clusters(rng, n, d, 2 * k)
    X *= 10.0 ** rng.integers(-2, 3, size=d)
    y = np.where(rng.random(n) < 0.05, rng.integers(k, size=n), which % k)
    return stream(X.round(decimals), y)


def _clusters(rng: np.random.Generator, n: int, d: int, k: int) -> tuple[Array, Array]:
    centres = rng.random((k, d))
    which = rng.integers(k, size=n)
    return centres[which] + 0.12 * rng.normal(size=(n, d)), which


@source
def unit(n: int, d: int, k: int = 3) -> Stream:
    """Return clusters in the unit cube, for models that do not scale features."""
    X, which = _clusters(np.random.default_rng(1), n, d, 2 * k)
    return stream(X, which % k)


@source
def targets(n: int, d: int, scale: float = 1.0) -> Stream:
    """Return targets: a smooth function of the first and last feature, plus heavy-tailed noise."""
    rng = np.random.default_rng(1)
    X = rng.random((n, d))
    y = np.sin(6.0 * X[:, 0]) + 2.0 * X[:, -1] ** 2 + 0.1 * rng.standard_t(3, size=n)
    return stream(X, scale * y)


def text(n: int) -> Stream:
    """Return samples of ten words out of 500, which are too many for a dense map."""
    rng = np.random.default_rng(1)
    found: Stream = []
    for _ in range(n):
        y = int(rng.integers(2))
        words = (500 * rng.random(10) ** (1.5 + y)).astype(int).tolist()
        found.append(({f"w{word}": float(1 + words.count(word)) for word in words}, y))
    return found


def odd(n: int) -> Stream:
    """Return samples with constant, huge, tiny and categorical features, and labels of 7 types."""
    labels: list[Any] = ["a", ("b", 1), 2, 3.5, True, frozenset({"c"}), b"d"]
    return [
        (
            {"one": 7.0, "huge": x["x0"] * 1e30, "tiny": x["x1"] * 1e-30, "kind": f"{x['x2']:.1f}"},
            labels[y],
        )
        for x, y in labelled(3, len(labels))(n)
    ]


@source
def holes(n: int, of_length: Source, share: float = 0.3) -> Stream:
    """Remove random values; half of them become absent, and half become NaN."""
    rng = np.random.default_rng(2)
    found: Stream = []
    for x, y in of_length(n):
        draws = dict(zip(x, rng.random(len(x)).tolist(), strict=True))
        kept = {
            name: value if draws[name] >= share else math.nan
            for name, value in x.items()
            if draws[name] >= 0.5 * share
        }
        found.append((kept, y))
    return found


@source
def late(n: int, of_length: Source) -> Stream:
    """Return samples in which features and classes first appear one after another."""
    samples = of_length(n)
    d = len(samples[0][0])
    k = 1 + max(int(y) for _, y in samples)
    return [
        (
            {name: v for j, (name, v) in enumerate(x.items()) if i * (d + 1) >= j * n},
            y % (1 + i * k // n),
        )
        for i, (x, y) in enumerate(samples)
    ]


@source
def swapped(n: int, of_length: Source) -> Stream:
    """Return samples whose labels are permuted from the middle on."""
    samples = of_length(n)
    k = 1 + max(y for _, y in samples)
    return [(x, (y + (2 * i >= n)) % k) for i, (x, y) in enumerate(samples)]
