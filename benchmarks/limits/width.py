"""Time and memory of exact forests with many features, with many trees and on long streams."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from river import forest

from river_mondrian import MondrianForestClassifier, MondrianForestRegressor

from ..data import Array, DataFolder, Stream, stream
from ..report import Report, progress
from ..timing import no_gc

# Number of test samples, and number of timed samples at the end of training.
N_PREDICTED = 200
N_TIMED = 1000
# Number of first calls that are not timed, because some of them compile or load kernels.
N_FIRST = 1000
# Other libraries take milliseconds per sample, so they get this many samples.
N_OF_PEERS = 400
SIDE = 28


class Cost(NamedTuple):
    """Median microseconds of calls, milliseconds of the longest call, and bytes of the model."""

    learn: float
    predict: float
    longest: float
    n_bytes: int


def _cost(model: Any, samples: Stream, n_first: int = N_FIRST) -> Cost:
    """Train a model on all samples except the last ones, and return its costs."""
    learned, fresh = samples[:-N_PREDICTED], samples[-N_PREDICTED:]
    spent = np.empty(len(learned))
    with no_gc():
        for i, (x, y) in enumerate(learned):
            start = time.process_time()
            model.learn_one(x, y)
            spent[i] = time.process_time() - start
        # The first call compiles kernels.
        model.predict_one(fresh[0][0])
        predicted = np.empty(len(fresh))
        for i, (x, _) in enumerate(fresh):
            start = time.process_time()
            model.predict_one(x)
            predicted[i] = time.process_time() - start
    longest = 1e3 * spent[min(n_first, len(spent) // 2) :].max()
    medians = (1e6 * float(np.median(times)) for times in (spent[-N_TIMED:], predicted))
    return Cost(*medians, float(longest), int(model._raw_memory_usage))


def _pixels(X: Array, side: int) -> Array:
    """Return the central square of images."""
    first = (SIDE - side) // 2
    rows = slice(first, first + side)
    found: Array = X.reshape(-1, SIDE, SIDE)[:, rows, rows].reshape(-1, side * side)
    return found


def _line(what: str, n: int, name: str, n_trees: int, cost: Cost) -> list[Any]:
    each = f"{cost.n_bytes / n / n_trees:,.0f}"
    times = (f"{cost.learn:,.0f}", f"{cost.predict:,.0f}", f"{cost.longest:,.1f}")
    return [what, n, name, n_trees, *times, each, f"{cost.n_bytes / 1e6:,.1f}"]


def _images(data: DataFolder, quick: bool) -> list[list[Any]]:
    arrays = data.load("mnist")
    if arrays is None:
        return []
    order = np.random.default_rng(0).permutation(len(arrays["X_train"]))
    X, y = arrays["X_train"][order], arrays["y_train"][order]
    peers: dict[str, Callable[[], Any]] = {
        "River's AMF": lambda: forest.AMFClassifier(10, seed=1),
        "River's ARF": lambda: forest.ARFClassifier(10, seed=1),
    }
    found = []
    n, n_many = (1000, 1000) if quick else (5000, 7300)
    sizes = ((SIDE, n, 10), (SIDE, n, 100), (16, n, 10), (16, n_many, 100))
    for side, n_learned, n_trees in sizes:
        what = f"{side * side} pixels"
        progress(f"width: {what}, {n_trees} trees")
        n_drawn = n_learned + N_PREDICTED
        samples = stream(_pixels(X[:n_drawn], side), y, n_drawn)
        cost = _cost(MondrianForestClassifier(n_trees, seed=1), samples)
        found.append(_line(what, n_learned, "exact", n_trees, cost))
    n_drawn = N_OF_PEERS + N_PREDICTED
    few = stream(_pixels(X[:n_drawn], SIDE), y, n_drawn)
    makes = {"exact": lambda: MondrianForestClassifier(10, seed=1)} | ({} if quick else peers)
    for name, make in makes.items():
        progress(f"width: {name}")
        found.append(_line(f"{SIDE * SIDE} pixels", N_OF_PEERS, name, 10, _cost(make(), few, 10)))
    return found


def width(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure time and memory against the number of features, and on long streams."""
    rows = _images(data, quick)
    letter = data.load("letter")
    if letter is not None:
        n = 3000 if quick else len(letter["X_train"]) - N_PREDICTED
        progress("width: letter")
        samples = stream(letter["X_train"], letter["y_train"], n + N_PREDICTED)
        cost = _cost(MondrianForestClassifier(10, seed=1), samples)
        rows.append(_line("letter, 16", n, "exact", 10, cost))
    n = 5000 if quick else 100_000
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n + N_PREDICTED, 21))
    y = X[:, 0] + np.sin(3.0 * X[:, 1]) + 0.1 * rng.standard_normal(len(X))
    progress("width: regressor")
    cost = _cost(MondrianForestRegressor(10, seed=1), stream(X, y))
    rows.append(_line("normal, 21", n, "regressor", 10, cost))
    X = rng.standard_normal(((1000 if quick else 5000) + N_PREDICTED, SIDE**2))
    progress("width: normal values")
    cost = _cost(MondrianForestClassifier(10, seed=1), stream(X, rng.integers(10, size=len(X))))
    rows.append(_line(f"normal, {SIDE**2}", len(X) - N_PREDICTED, "exact", 10, cost))
    report.note(
        "Time and memory against the number of features, and on long streams. Pixels are from the "
        "middle of MNIST's images, in random order. Times are median processor times of a call in "
        f"microseconds: learn_one for the latest {N_TIMED} samples, and predict_one for "
        f"{N_PREDICTED} test samples. The longest call is in milliseconds, without the first "
        f"{N_FIRST} samples. Bytes are per sample and tree, and MB are for the whole model."
    )
    report.table(
        [
            "features",
            "samples",
            "forest",
            "trees",
            "learn_one",
            "predict_one",
            "longest",
            "bytes",
            "MB",
        ],
        rows,
    )
