"""Streams whose features change: units, late features, growth, tails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from river import forest, preprocessing

from ..data import Array, DataFolder, Stream
from ..report import Report, progress, pyplot
from .runs import CLASSIFIERS, REGRESSORS, Limits, deviations, excess, misses, scored, written

FULL, QUICK = Limits(10_000, 3), Limits(500, 1)
FEATURES = ("first", "second", "third", "fourth", "fifth")


def _place(n: int) -> Array:
    return np.arange(n) / n


def _later(n: int) -> Array:
    return np.arange(n) >= n // 2


def _months(u: Array) -> Array:
    return np.floor(24.0 * _place(len(u))) % 12.0 / 11.0


# Changes of the first feature, which is uniform on [0, 1]. The first function returns the feature
# in known units, for models without scaling. The second function changes this feature for the other
# models.
CHANGES: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "units up": (lambda u: u, lambda u: u * np.where(_later(len(u)), 1e3, 1.0)),
    "units down": (lambda u: u, lambda u: u * np.where(_later(len(u)), 1e-3, 1.0)),
    "late": (lambda u: np.where(_later(len(u)), u, np.nan), lambda u: 50.0 * u),
    "constant": (lambda u: np.where(_later(len(u)), u, 0.5), lambda u: 50.0 * u),
    "time stamps": (lambda u: _place(len(u)), lambda u: 1.7e9 + 3600.0 * len(u) * u),
    "Cauchy": (lambda u: u, lambda u: np.tan(np.pi * (u - 0.5))),
    "shrinks": (lambda u: u, lambda u: u * 1e-3 ** _place(len(u))),
    "months": (_months, lambda u: 1.0 + 11.0 * u),
    "code -9999": (
        lambda u: np.where(np.random.default_rng(9).random(len(u)) < 0.05, -0.5, u),
        lambda u: np.where(u < 0.0, -9999.0, u),
    ),
    "rarely 1000": (lambda u: (u < 0.005).astype(float), lambda u: 1e3 * u),
}


def _made(change: str, n: int, seed: int) -> tuple[Array, Array, Array, Array]:
    """Return rows without the change, rows with the change, classes and targets."""
    rng = np.random.default_rng(seed)
    U = rng.random((n, len(FEATURES)))
    tell, show = CHANGES[change]
    U[:, 0] = tell(U[:, 0])
    X = U.copy()
    X[:, 0] = show(U[:, 0])
    # In the signal, a missing first feature counts as 0.5.
    first = np.where(np.isnan(U[:, 0]), 0.5, U[:, 0])
    signal = 10.0 * np.sin(np.pi * first * U[:, 1]) + 10.0 * first + 5.0 * U[:, 2]
    classes = np.searchsorted(np.quantile(signal, (1 / 3, 2 / 3)), signal)
    return U, X, classes, signal + rng.normal(0.0, 0.5, n)


def _stream(X: Array, y: Array) -> Stream:
    """Convert rows to samples without NaN."""
    return [
        ({name: v for name, v in zip(FEATURES, row, strict=True) if v == v}, target)
        for row, target in zip(X.tolist(), y.tolist(), strict=True)
    ]


def _peers(regression: bool) -> dict[str, Callable[[], Any]]:
    make = forest.AMFRegressor if regression else forest.AMFClassifier
    return {
        "AMF": lambda: make(n_estimators=10, seed=0),
        "AMF, standardized": lambda: preprocessing.StandardScaler() | make(n_estimators=10, seed=0),
    }


def _ours(
    change: str, model: str, regression: bool, n: int, seeds: int
) -> tuple[Array, Array, Array]:
    """Return mean losses by sample: with learned widths, with known units, and restarted.

    The restarted model has known units, and starts in the middle of the stream.
    """
    make = (REGRESSORS if regression else CLASSIFIERS)[model]
    run = deviations if regression else misses
    learned, given, restarted = [], [], []
    for seed in range(seeds):
        progress(f"{change}, {model}, seed {seed}")
        U, X, *ys = _made(change, n, seed)
        learned.append(run(make(seed=seed), _stream(X, ys[regression])))
        known = _stream(U, ys[regression])
        given.append(run(make(seed=seed, scale=False), known))
        restarted.append(run(make(seed=seed, scale=False), known[n // 2 :]))
    return np.mean(learned, axis=0), np.mean(given, axis=0), np.mean(restarted, axis=0)


def _peer(change: str, name: str, regression: bool, n: int) -> Array | None:
    """Return the losses of one of River's models, or None if it fails."""
    progress(f"{change}, {name}")
    _, X, *ys = _made(change, n, 0)
    model, run = _peers(regression)[name](), deviations if regression else misses
    try:
        return run(model, _stream(X, ys[regression]))
    except (KeyError, ArithmeticError):
        return None


def _row(
    change: str, model: str, regression: bool, learned: Array, given: Array, restarted: Array
) -> list[str]:
    """Return the table's row for a model: losses in the second half, and excesses."""
    half = len(restarted)
    own, known, late = learned[-half:].mean(), given[-half:].mean(), restarted.mean()
    last = excess(learned[-half // 2 :].mean(), given[-half // 2 :].mean(), regression)
    return [
        change,
        model,
        *(scored(loss, regression) for loss in (own, known, late)),
        written(excess(own, known, regression), regression),
        written(last, regression),
    ]


def changes(data: DataFolder, report: Report, quick: bool, limits: Limits) -> None:
    """Compare models on streams in which a feature changes its units, appears late or grows."""
    n, seeds, _ = limits.over(QUICK if quick else FULL)
    report.note(
        "Streams whose features change. Five features u1, ..., u5 are uniform on [0, 1]. Then the "
        "first feature changes: units change and late features appear in the middle of the "
        f"stream. There are {n} samples and 10 trees (20 in the adaptive classifier). The signal "
        "is 10 sin(pi u1 u2) + 10 u1 + 5 u3. Classes are the thirds of the signal; targets are "
        "the signal with normal noise of standard deviation 0.5. The tables have the accuracy or "
        "the mean absolute error over the second half. The model of the column `given` has "
        "scale=False and gets the first feature without the change, so the feature's units never "
        "change. The model of the column `restarted` is the same, but starts with the second "
        "half. The excess is the increase of the error rate, or of the absolute error in percent, "
        "over the column `given`. The last column has the excess in the last quarter. Figures are "
        f"means of {seeds} seeds of data and model, with one seed for River's AMF."
    )
    for regression in (False, True):
        rows, curves = [], {}
        for change in list(CHANGES)[:2] if quick else CHANGES:
            for model in REGRESSORS if regression else CLASSIFIERS:
                learned, given, restarted = _ours(change, model, regression, n, seeds)
                curves[change, model] = learned
                curves[change, f"{model}, given"] = given
                rows.append(_row(change, model, regression, learned, given, restarted))
            for name in _peers(regression):
                losses = _peer(change, name, regression, n)
                cell = "fails" if losses is None else scored(losses[n // 2 :].mean(), regression)
                rows.append([change, name, cell, *[""] * 4])
        report.heading("Regressors" if regression else "Classifiers")
        headers = ["change", "model", "learned", "given", "restarted", "excess", "last quarter"]
        report.table(headers, rows)
        _plot(report, curves, regression)


def _plot(report: Report, curves: dict[tuple[str, str], Array], regression: bool) -> None:
    plt = pyplot()
    if plt is None:
        return
    names = list(dict.fromkeys(change for change, _ in curves))
    columns = (len(names) + 1) // 2
    figure, axes = plt.subplots(2, columns, figsize=(3.5 * columns, 6))
    for axis, change in zip(axes.flat, names, strict=False):
        lines = {model: losses for (own, model), losses in curves.items() if own == change}
        for i, (model, losses) in enumerate(lines.items()):
            window = max(20, len(losses) // 40)
            smooth = np.convolve(losses, np.ones(window) / window, "valid")
            style = ":" if model.endswith("given") else "-"
            places = np.arange(len(smooth)) + window
            axis.plot(places, smooth, style, color=f"C{i // 2}", label=model)
        axis.set(title=change, xlabel="samples")
    axes.flat[0].legend(fontsize=8)
    what = "absolute error, moving" if regression else "error rate, moving"
    axes.flat[0].set_ylabel(what)
    figure.tight_layout()
    report.figure(figure, "numbers" if regression else "classes")
    plt.close(figure)
