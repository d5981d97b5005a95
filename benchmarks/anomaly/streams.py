"""Streams with anomalies: sets in which one class is made rare, and generated streams.

The streams were fixed before any selection. The streams of `UNSEEN` were not used until scores and
lifetimes were final. The number of samples in trees was selected on all streams.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from river import datasets

from ..data import Array, DataFolder, Stream, take

# Share of anomalies in streams with a rare class, and seed of the streams.
SHARE = 0.02
SEED = 7

# Number of values of a series in a shingle.
SHINGLE = 16

UNSEEN = ("credit", "mnist", "covtype", "shifts")


class Labelled(NamedTuple):
    """A stream whose labels mark anomalies, and whether its samples are shingles of a series."""

    samples: Stream
    is_series: bool


def _stream(X: Array, is_odd: Array) -> Stream:
    names = [f"x{j:03}" for j in range(X.shape[1])]
    rows = X.astype(float).tolist()
    return [(dict(zip(names, row, strict=True)), y) for row, y in zip(rows, is_odd, strict=True)]


def shuttle(data: DataFolder, n: int) -> Labelled:
    """Return River's Shuttle stream in its original order."""
    return Labelled([(x, bool(y)) for x, y in take(datasets.Shuttle(), 2 * n)], False)


def _rare(name: str, label: int) -> Callable[[DataFolder, int], Labelled]:
    """Return a function that returns a set as a stream in which one class is rare."""

    def make(data: DataFolder, n: int) -> Labelled:
        arrays = data.load(name)
        X, y = arrays["X_train"], arrays["y_train"]
        rng = np.random.default_rng(SEED)
        usual, odd = (rng.permutation(np.flatnonzero(same)) for same in (y != label, y == label))
        n_odd = int(SHARE * min(n, len(usual)))
        rows = rng.permutation(np.concatenate([usual[: n - n_odd], odd[:n_odd]]))
        return Labelled(_stream(X[rows], (y[rows] == label).tolist()), False)

    make.__doc__ = f"{SHARE:.0%} of class {label} of {name} among the others."
    return make


def credit(data: DataFolder, n: int) -> Labelled:
    """Return payments of 28 uncorrelated components, a time and an amount, with .5 % frauds."""
    rng = np.random.default_rng(SEED)
    scales = np.geomspace(2.0, 0.3, 28)
    X = scales * rng.standard_t(4.0, size=(2 * n, 28))
    amount = rng.lognormal(3.0, 1.5, size=2 * n)
    is_odd = rng.random(2 * n) < 0.005
    moved = rng.choice(28, size=8, replace=False)
    shift = rng.choice([-1.0, 1.0], size=8) * rng.uniform(1.5, 4.0, size=8) * scales[moved]
    for i in np.flatnonzero(is_odd):
        part = rng.random(8) < 0.7
        X[i, moved[part]] += shift[part] * rng.gamma(2.0, 0.5)
    hours = np.sort(rng.uniform(0.0, 172800.0, size=2 * n))
    return Labelled(_stream(np.column_stack([hours, X, amount]), is_odd.tolist()), False)


def floods(data: DataFolder, n: int) -> Labelled:
    """Return requests with duration, bytes, recent requests and errors; bursts are anomalies."""
    rng = np.random.default_rng(SEED)
    rows, labels = [], []
    while len(rows) < 2 * n:
        if len(rows) > 300 and rng.random() < 0.001:
            # A flood repeats one request of one sender, so its samples are similar.
            size, reply = rng.lognormal(4.0, 0.3), rng.lognormal(5.0, 0.3)
            for i in range(int(rng.integers(10, 40))):
                noise = rng.normal(1.0, 0.02, size=3)
                recent = 40.0 + 10.0 * i + rng.poisson(20)
                rows.append([0.01 * noise[0], size * noise[1], reply * noise[2], recent, 0.6])
                labels.append(True)
            continue
        kind = rng.random()
        size = rng.lognormal(5.5 if kind < 0.8 else 8.0, 0.6)
        reply = rng.lognormal(8.0 if kind < 0.6 else 5.0, 1.2)
        errors = rng.beta(1.0, 20.0)
        rows.append([rng.gamma(1.5, 0.3), size, reply, rng.poisson(8.0), errors])
        labels.append(False)
    X = np.array(rows[: 2 * n])
    X[:, :3] = np.log1p(X[:, :3])
    return Labelled(_stream(X, np.array(labels[: 2 * n]).tolist()), False)


def _shingles(values: Array, is_odd: Array) -> Labelled:
    """Return the shingles of a series; a shingle is anomalous if its last value is anomalous."""
    X = np.lib.stride_tricks.sliding_window_view(values, SHINGLE)
    return Labelled(_stream(X, is_odd[SHINGLE - 1 :].tolist()), True)


def _season(rng: np.random.Generator, n: int) -> Array:
    t = np.arange(n)
    wave = np.sin(2.0 * np.pi * t / 48.0) + 0.4 * np.sin(2.0 * np.pi * t / 12.0)
    return np.asarray(wave + rng.normal(0.0, 0.15, size=n))


def spikes(data: DataFolder, n: int) -> Labelled:
    """Return a seasonal series with single values that are too high or too low."""
    rng = np.random.default_rng(SEED)
    values, is_odd = _season(rng, n), rng.random(n) < 0.01
    height = rng.choice([-1.0, 1.0], size=n) * rng.uniform(0.8, 2.5, size=n)
    return _shingles(values + height * is_odd, is_odd)


def shifts(data: DataFolder, n: int) -> Labelled:
    """Return a seasonal series with level shifts; the 10 values after a shift are anomalies."""
    rng = np.random.default_rng(SEED)
    values, is_odd = _season(rng, n), np.zeros(n, bool)
    for start in np.sort(rng.choice(np.arange(400, n - 20), size=max(3, n // 500), replace=False)):
        values[start:] += rng.choice([-1.0, 1.0]) * rng.uniform(1.5, 3.0)
        is_odd[start : start + 10] = True
    return _shingles(values, is_odd)


def seasons(data: DataFolder, n: int) -> Labelled:
    """Return a seasonal series; it is anomalous while its season stops or is 3 times as fast."""
    rng = np.random.default_rng(SEED)
    values, is_odd = _season(rng, n), np.zeros(n, bool)
    for start in rng.choice(np.arange(400, n - 40, 60), size=max(3, n // 800), replace=False):
        part = slice(start, start + 24)
        fast = np.sin(2.0 * np.pi * np.arange(24) / 4.0)
        still = np.full(24, values[start])
        values[part] = (fast if rng.random() < 0.5 else still) + rng.normal(0.0, 0.1, size=24)
        is_odd[part] = True
    return _shingles(values, is_odd)


# Functions from a number of samples to a stream of about this length, by name.
STREAMS: dict[str, Callable[[DataFolder, int], Labelled]] = {
    "shuttle": shuttle,
    "credit": credit,
    "letter": _rare("letter", 0),
    "satimage": _rare("satimage", 1),
    "mnist": _rare("mnist", 0),
    "covtype": _rare("covtype", 3),
    "floods": floods,
    "spikes": spikes,
    "shifts": shifts,
    "seasons": seasons,
}
