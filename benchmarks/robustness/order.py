"""Sets in the order of their files: the first part is learned, the rest predicted."""

from __future__ import annotations

from typing import Any

import numpy as np
from river import forest

from ..data import Array, DataFolder, Stream, stream
from ..report import Report, progress, verdict
from .runs import CLASSIFIERS, REGRESSORS, Limits, hit

FULL, QUICK = Limits(60_000, 3), Limits(500, 1)
TRAINED = 0.8
# Sets in which neighbours are alike: in time, or in space.
CLASSES = ("elec2", "covtype", "satimage")
NUMBERS = ("bike_hour", "california")


def _rows(arrays: dict[str, Array], n: int) -> tuple[Array, Array]:
    """Return rows at even distances, at most n of them, in the order of the file."""
    X, y = arrays["X_train"], arrays["y_train"]
    step = -(-len(X) // n)
    return X[::step], y[::step]


def _accuracy(model: Any, train: Stream, test: Stream) -> float:
    for x, y in train:
        model.learn_one(x, y)
    return float(np.mean([hit(model, x, y) for x, y in test]))


def _error(model: Any, train: Stream, test: Stream) -> float:
    for x, y in train:
        model.learn_one(x, y)
    return float(np.mean([abs(model.predict_one(x) - y) for x, y in test]))


def _class_row(name: str, X: Array, y: Array, seeds: int) -> list[Any]:
    n = int(TRAINED * len(y))
    train, test = stream(X[:n], y[:n]), stream(X[n:], y[n:])
    values, counts = np.unique(y[:n], return_counts=True)
    majority = float(np.mean(y[n:] == values[counts.argmax()]))
    progress(f"{name}, AMF")
    amf = _accuracy(forest.AMFClassifier(seed=0), train, test)
    row: list[Any] = [name, len(y), f"{majority:.4f}", f"{amf:.4f}"]
    for model, make in CLASSIFIERS.items():
        found = []
        for seed in range(seeds):
            progress(f"{name}, {model}, seed {seed}")
            found.append(_accuracy(make(seed=seed), train, test))
        mean = float(np.mean(found))
        row += [f"{mean:.4f}", verdict(mean >= max(majority, amf))]
    return row


def _number_row(name: str, X: Array, y: Array, seeds: int) -> list[Any]:
    n = int(TRAINED * len(y))
    train, test = stream(X[:n], y[:n]), stream(X[n:], y[n:])
    constant = float(np.abs(y[n:] - np.median(y[:n])).mean())
    progress(f"{name}, AMF")
    amf = _error(forest.AMFRegressor(n_estimators=10, seed=0), train, test)
    row: list[Any] = [name, len(y), f"{constant:.4g}", f"{amf:.4g}"]
    for model, make in REGRESSORS.items():
        found = []
        for seed in range(seeds):
            progress(f"{name}, {model}, seed {seed}")
            found.append(_error(make(seed=seed), train, test))
        mean = float(np.mean(found))
        row += [f"{mean:.4g}", verdict(mean <= min(constant, amf))]
    return row


def order(data: DataFolder, report: Report, quick: bool, limits: Limits) -> None:
    """The first 80 % of ordered sets in the order of their files, tested on the rest."""
    n, seeds, _ = limits.over(QUICK if quick else FULL)
    classes, numbers = [], []
    for name in (*CLASSES, *NUMBERS):
        arrays = data.load(name)
        if arrays is None:
            continue
        X, y = _rows(arrays, n)
        if name in NUMBERS:
            y = y.astype(float)
            numbers.append(_number_row(name, X, y, seeds))
            y = (y > np.median(y[: int(TRAINED * len(y))])).astype(int)
            name = f"{name}, above the median"
        classes.append(_class_row(name, X, y, seeds))
    if not classes:
        return
    report.note(
        f"At most {n} rows at even distances in the order of the file, the first 80 % learned, the "
        f"rest predicted, 10 trees; means of {seeds} seeds, of River's AMF without a scaler one. "
        "Sets in which neighbouring rows are alike. Targets: accuracy no lower, error no higher "
        "than that of AMF and that of the commonest class, or of the median target, of the rows "
        "learned. The classes of sets with a target are made: above the median of these rows."
    )
    headers = ["set", "n", "commonest class", "AMF"]
    report.table([*headers, *_with_verdicts(list(CLASSIFIERS))], classes)
    headers = ["set", "n", "median target", "AMF"]
    report.table([*headers, *_with_verdicts(list(REGRESSORS))], numbers)


def _with_verdicts(names: list[str]) -> list[str]:
    return [header for name in names for header in (name, "reached")]
