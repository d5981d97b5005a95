"""Accuracy on XOR of two normals with wrong values."""

from __future__ import annotations

import numpy as np
from river import forest

from ..data import Array, DataFolder, Stream, stream
from ..report import Report, progress, pyplot
from .runs import CLASSIFIERS, Limits, misses

FULL, QUICK = Limits(8000, 10), Limits(600, 1)
VALUES = (1e3, 1e6, 1e12, 1e30)
# Number of the sample with a wrong value, counted from 1, or share of samples with a wrong value.
PLACES = ("1", "100", "255", "1000", "1 %")
# Losses below this are drawn on a linear scale.
LINEAR = 0.005


def _made(n: int, seed: int) -> tuple[Array, Array]:
    X = np.random.default_rng(seed).normal(size=(n, 2))
    return X, (X.prod(axis=1) > 0.0).astype(int)


def _wrong(place: str, n: int, seed: int) -> Array:
    """Return whether each sample has a wrong value."""
    if place == "1 %":
        return np.random.default_rng([1, seed]).random(n) < 0.01
    return np.arange(1, n + 1) == int(place)


def _losses(name: str, value: float, place: str, n: int, seeds: int, clean: list[Array]) -> Array:
    """Return the error rate on correct samples, with and without wrong values, by seed."""
    found = []
    for seed in range(seeds):
        progress(f"{name}: {value:.0e} at {place}, seed {seed}")
        X, y = _made(n, seed)
        wrong = _wrong(place, n, seed)
        X[wrong, 0] = value
        missed = misses(_model(name, seed), stream(X, y))
        found.append([missed[~wrong].mean(), clean[seed][~wrong].mean()])
    return np.array(found)


def _model(name: str, seed: int) -> object:
    return forest.AMFClassifier(seed=seed) if name == "AMF" else CLASSIFIERS[name](seed=seed)


def _clean(n: int, seed: int) -> Stream:
    return stream(*_made(n, seed))


def xor(data: DataFolder, report: Report, quick: bool, limits: Limits) -> None:
    """Measure accuracy on XOR of two normals with one wrong value, or 1 % wrong values."""
    n, seeds, _ = limits.over(QUICK if quick else FULL)
    values = VALUES[1:2] if quick else VALUES
    places = [p for p in PLACES if not p.isdigit() or int(p) <= n]
    by_model = dict.fromkeys(CLASSIFIERS, seeds) | {"AMF": 1}
    rows, losses = [], {}
    for name, own in by_model.items():
        clean = [misses(_model(name, seed), _clean(n, seed)) for seed in range(own)]
        row: list[str] = [name, "clean", f"{1.0 - np.mean(clean):.4f}"]
        rows.append([*row, *["" for _ in places[1:]]])
        for value in values:
            found = [_losses(name, value, place, n, own, clean) for place in places]
            lost = [float(np.mean(both[:, 0] - both[:, 1])) for both in found]
            losses[name, value] = lost
            cells = [f"{1.0 - both[:, 0].mean():.4f}" for both in found]
            rows.append([name, f"{value:.0e}", *cells])
    report.note(
        "Accuracy on XOR of two normals with wrong values. The label is the sign of the product "
        f"of two normal features. There are {n} samples and 10 trees (20 in the adaptive "
        "classifier). The first column has the wrong value of the first feature. The other "
        "columns have the progressive accuracy on correct samples, by the position of the wrong "
        f"value or the share of wrong values. Accuracies are means of {seeds} seeds of data and "
        "model, with one seed for River's AMF without a scaler."
    )
    report.table(["model", "value", *places], rows)
    _plot(report, places, losses)


def _plot(report: Report, places: list[str], losses: dict[tuple[str, float], list[float]]) -> None:
    plt = pyplot()
    if plt is None:
        return
    names = list(dict.fromkeys(name for name, _ in losses))
    figure, axes = plt.subplots(1, len(names), figsize=(5 * len(names), 4), sharey=True)
    for axis, name in zip(axes, names, strict=True):
        for (model, value), lost in losses.items():
            if model == name:
                axis.plot(places, lost, "o-", label=f"{value:.0e}")
        axis.set(title=name, xlabel="sample with the wrong value")
        axis.set_yscale("symlog", linthresh=LINEAR)
        axis.set_ylim(bottom=-LINEAR)
    axes[0].set_ylabel("loss of accuracy")
    axes[0].legend()
    report.figure(figure, "")
    plt.close(figure)
