"""Models that learn the first rows of sets in file order, and predict the last rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from river import forest

from ..data import Array, DataFolder, Stream, stream
from ..report import Report, progress
from .runs import CLASSIFIERS, REGRESSORS, Limits, hit, scored

FULL, QUICK = Limits(60_000, 3), Limits(500, 1)
TRAINED = 0.8
# Sets whose neighbouring rows are similar, because they are near in time or in space.
CLASSES = ("elec2", "covtype", "satimage")
NUMBERS = ("bike_hour", "california")


def _rows(arrays: dict[str, Array], n: int) -> tuple[Array, Array]:
    """Return at most n evenly spaced rows in the order of the file."""
    X, y = arrays["X_train"], arrays["y_train"]
    step = -(-len(X) // n)
    return X[::step], y[::step]


def _loss(model: Any, train: Stream, test: Stream, regression: bool) -> float:
    """Return the test error, or the share of wrong classes, of a model after training."""
    for x, y in train:
        model.learn_one(x, y)
    losses = [
        abs(model.predict_one(x) - y) if regression else not hit(model, x, y) for x, y in test
    ]
    return float(np.mean(losses))


def _row(name: str, X: Array, y: Array, seeds: int, regression: bool) -> list[Any]:
    """Return the test losses of a constant, of AMF and of the forests on a set."""
    n = int(TRAINED * len(y))
    train, test = stream(X[:n], y[:n]), stream(X[n:], y[n:])
    progress(f"{name}, AMF")
    if regression:
        constant = float(np.abs(y[n:] - np.median(y[:n])).mean())
        peer: Any = forest.AMFRegressor(n_estimators=10, seed=0)
    else:
        values, counts = np.unique(y[:n], return_counts=True)
        constant = float(np.mean(y[n:] != values[counts.argmax()]))
        peer = forest.AMFClassifier(seed=0)
    amf = _loss(peer, train, test, regression)
    row: list[Any] = [name, len(y), scored(constant, regression), scored(amf, regression)]
    for model, make in (REGRESSORS if regression else CLASSIFIERS).items():
        found = []
        for seed in range(seeds):
            progress(f"{name}, {model}, seed {seed}")
            found.append(_loss(make(seed=seed), train, test, regression))
        mean = float(np.mean(found))
        row.append(scored(mean, regression))
    return row


def order(data: DataFolder, report: Report, quick: bool, limits: Limits) -> None:
    """Compare models that learn the first 80 % of ordered sets and predict the rest."""
    n, seeds, _ = limits.over(QUICK if quick else FULL)
    classes, numbers = [], []
    for name in (*CLASSES, *NUMBERS):
        arrays = data.load(name)
        if arrays is None:
            continue
        X, y = _rows(arrays, n)
        if name in NUMBERS:
            y = y.astype(float)
            numbers.append(_row(name, X, y, seeds, True))
            y = (y > np.median(y[: int(TRAINED * len(y))])).astype(int)
            name = f"{name}, above the median"
        classes.append(_row(name, X, y, seeds, False))
    if not classes:
        return
    report.note(
        "Accuracy or mean absolute error on the last rows of sets in the order of their files. At "
        f"most {n} evenly spaced rows are used. Models learn the first 80 % and predict the rest, "
        f"with 10 trees (20 in the adaptive classifier). Figures are means of {seeds} seeds, with "
        "one seed for River's AMF without a scaler. Neighbouring rows of these sets are similar. "
        "For sets with a target, classifiers predict whether the target is above the median of "
        "the learned rows."
    )
    headers = ["set", "n", "most common class", "AMF"]
    report.table([*headers, *CLASSIFIERS], classes)
    headers = ["set", "n", "median target", "AMF"]
    report.table([*headers, *REGRESSORS], numbers)
