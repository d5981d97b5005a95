"""Accuracy with wrong values, and with changes of units."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from river import forest, preprocessing

import river_mondrian as rm

from .adaptive.streams import FILES, MADE, WIDE, class_streams
from .data import Array, DataFolder, Stream
from .regressor import load_streams
from .report import Report, progress
from .scores import deviations, misses

# Constructors with the argument `seed` and other arguments; the key is whether targets are numbers.
MODELS: dict[bool, dict[str, Callable[..., Any]]] = {
    False: {"exact": rm.MondrianForestClassifier, "adaptive": rm.AdaptiveMondrianForestClassifier},
    True: {
        "gaussian": rm.MondrianForestRegressor,
        "mean": lambda **kwargs: rm.MondrianForestRegressor(posterior="mean", **kwargs),
    },
}


def losses_of(model: Any, samples: Stream, is_real: bool) -> Array:
    """Return the absolute error of each sample, or 1 for a wrong class and 0 otherwise."""
    return deviations(model, samples) if is_real else misses(model, samples)


def excess(loss: float, least: float, is_real: bool) -> float:
    """Return the excess over `least`: of the error rate, or of the absolute error in percent."""
    return 100.0 * (loss / least - 1.0) if is_real else loss - least


def written(value: float, is_real: bool) -> str:
    """Return an excess as text."""
    return f"{value:+.1f} %" if is_real else f"{value:+.4f}"


def scored(loss: float, is_real: bool) -> str:
    """Return a loss as text: the accuracy for an error rate, or the absolute error."""
    return f"{loss:.4g}" if is_real else f"{1.0 - loss:.4f}"


# Outliers.

WILD = 1e6  # Distance of an outlier from the median, in interquartile ranges.
N_WILD = 4
START = 500  # Number of first samples whose absolute errors are excluded.
# Thresholds of large excesses: of the error rate, and of the mean absolute error in percent.
LARGE = {False: 0.003, True: 2.0}


def _streams(data: DataFolder, n: int, quick: bool) -> Iterator[tuple[str, Stream, bool]]:
    """Yield the name and the samples of each stream, and whether it has targets."""
    names = ("Bananas",) if quick else (*MADE, *FILES)
    for name, samples in class_streams(data, n, names):
        yield name, samples, False
    for name, samples in load_streams(data, False):
        if not quick or name == "Friedman":
            yield name, samples[: START + 100 if quick else n], True


def _with_outliers(samples: Stream, placement: int, of_targets: bool) -> tuple[Stream, list[int]]:
    """Return a stream with outliers, and the indices of the samples with an outlier."""
    rng = np.random.default_rng(placement)
    places = sorted(rng.choice(len(samples), N_WILD, replace=False).tolist())
    names = [name for name, value in samples[0][0].items() if not isinstance(value, (str, bool))]
    found = list(samples)
    for i in places:
        name = None if of_targets else names[rng.integers(len(names))]
        values = [y if of_targets else x[name] for x, y in samples if of_targets or name in x]
        low, middle, high = np.quantile(values, (0.25, 0.5, 0.75)).tolist()
        unit = high - low or float(np.ptp(values)) or 1.0
        wild = middle + float(rng.choice((-1.0, 1.0))) * WILD * unit
        x, y = samples[i]
        found[i] = (x, wild) if of_targets else ({**x, name: wild}, y)
    return found, places


def _mean(losses: Array, places: list[int], is_real: bool) -> float:
    counted = np.ones(len(losses), dtype=bool)
    counted[places] = False
    if is_real:
        counted[: min(START, len(losses) // 2)] = False
    return float(losses[counted].mean())


def outliers(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the effect of four outliers on the accuracy of forests.

    Streams with four outliers each. In a stream, {N_WILD} random samples have an outlier in a
    random numeric feature: {WILD:.0e} interquartile ranges above or below the median. If this
    range is 0, the full range is used. There are {placements} placements with {seeds} seeds
    each (one seed on mnist). The same seeds are also run without outliers. Streams have at most
    {n} samples, or twice as many with one abrupt change. The forests have 10 trees (20 in the
    adaptive classifier). Rows of classifiers have the progressive accuracy and the increase of
    the error rate. Rows of regressors have the mean absolute error and its increase in percent,
    without the first {START} samples (at most the first half). The excess compares both runs
    without the samples that have an outlier. The column `error` has the standard error of the
    excess over seeds. The column `worst` has the largest mean excess of a placement. The column
    `beyond` counts the placements whose mean excess is above .003, or 2 %. The column `targets`
    has the mean increase for {N_WILD} outlying targets.
    """
    n, seeds, placements = (500, 1, 1) if quick else (5000, 5, 10)
    rows: list[list[Any]] = []
    for name, samples, is_real in _streams(data, n, quick):
        for model, make in MODELS[is_real].items():
            own = range(1 if name in WIDE else seeds)
            clean = [losses_of(make(seed=seed), samples, is_real) for seed in own]
            kinds = (False, True) if is_real else (False,)
            found = {kind: np.empty((placements, len(own))) for kind in kinds}
            for of_targets, excesses in found.items():
                for placement in range(placements):
                    progress(f"{name}, {model}, placement {placement}")
                    wild, places = _with_outliers(samples, placement, of_targets)
                    for seed in own:
                        loss = losses_of(make(seed=seed), wild, is_real)
                        pair = (_mean(one, places, is_real) for one in (loss, clean[seed]))
                        excesses[placement, seed] = excess(*pair, is_real)
            of_values, by_placement = found[False], found[False].mean(axis=1)
            error = of_values.mean(axis=0).std(ddof=1) / math.sqrt(len(own)) if own[1:] else None
            row = [name, len(samples), model]
            row += [scored(float(np.mean([_mean(one, [], is_real) for one in clean])), is_real)]
            row += [written(float(of_values.mean()), is_real)]
            row += ["-" if error is None else written(error, is_real).lstrip("+")]
            row += [written(float(by_placement.max()), is_real)]
            row += [f"{(by_placement > LARGE[is_real]).sum()} of {placements}"]
            rows.append([*row, written(float(found[True].mean()), True) if is_real else ""])
    report.about(outliers, placements=placements, seeds=seeds, n=n)
    headers = ["stream", "n", "model", "clean", "excess", "error", "worst", "beyond", "targets"]
    report.table(headers, rows)


# Streams whose features change.

FEATURES = ("first", "second", "third", "fourth", "fifth")


def _place(n: int) -> Array:
    return np.arange(n) / n


def _later(n: int) -> Array:
    return np.arange(n) >= n // 2


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
    "months": (lambda u: np.floor(24.0 * _place(len(u))) % 12.0 / 11.0, lambda u: 1.0 + 11.0 * u),
    "code -9999": (
        lambda u: np.where(np.random.default_rng(9).random(len(u)) < 0.05, -0.5, u),
        lambda u: np.where(u < 0.0, -9999.0, u),
    ),
    "rarely 1000": (lambda u: (u < 0.005).astype(float), lambda u: 1e3 * u),
}


def _made(change: str, n: int, seed: int, is_real: bool) -> tuple[Stream, Stream]:
    """Return a stream without and with the change; missing values are absent."""
    rng = np.random.default_rng(seed)
    U = rng.random((n, len(FEATURES)))
    tell, show = CHANGES[change]
    U[:, 0] = tell(U[:, 0])
    X = U.copy()
    X[:, 0] = show(U[:, 0])
    # In the signal, a missing first feature counts as 0.5.
    first = np.where(np.isnan(U[:, 0]), 0.5, U[:, 0])
    signal = 10.0 * np.sin(np.pi * first * U[:, 1]) + 10.0 * first + 5.0 * U[:, 2]
    y = np.searchsorted(np.quantile(signal, (1 / 3, 2 / 3)), signal)
    if is_real:
        y = signal + rng.normal(0.0, 0.5, n)
    known, changed = (
        [
            ({name: v for name, v in zip(FEATURES, row, strict=True) if v == v}, target)
            for row, target in zip(rows.tolist(), y.tolist(), strict=True)
        ]
        for rows in (U, X)
    )
    return known, changed


def _peers(is_real: bool) -> dict[str, Any]:
    make = forest.AMFRegressor if is_real else forest.AMFClassifier
    amf, own = make(n_estimators=10, seed=0), make(n_estimators=10, seed=0)
    return {"AMF": amf, "AMF, standardized": preprocessing.StandardScaler() | own}


def changes(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare models on streams in which a feature changes its units, appears late or grows.

    Streams whose features change. Five features u1, ..., u5 are uniform on [0, 1]. Then the
    first feature changes: units change and late features appear in the middle of the stream.
    There are {n} samples and 10 trees (20 in the adaptive classifier). The signal is 10 sin(pi
    u1 u2) + 10 u1 + 5 u3. Classes are the thirds of the signal; targets are the signal with
    normal noise of standard deviation 0.5. The tables have the accuracy or the mean absolute
    error over the second half. The model of the column `given` has scale=False and gets the
    first feature without the change, so the feature's units never change. The model of the
    column `restarted` is the same, but starts with the second half. The excess is the increase
    of the error rate, or of the absolute error in percent, over the column `given`. The last
    column has the excess in the last quarter. Figures are means of {seeds} seeds of data and
    model, with one seed for River's AMF.
    """
    n, seeds = (500, 1) if quick else (10_000, 3)
    report.about(changes, n=n, seeds=seeds)
    half = n // 2
    for is_real, title in ((False, "Classifiers"), (True, "Regressors")):
        rows = []
        for change in list(CHANGES)[:2] if quick else CHANGES:
            for model, make in MODELS[is_real].items():
                runs: list[list[Array]] = [[], [], []]
                for seed in range(seeds):
                    progress(f"{change}, {model}, seed {seed}")
                    known, changed = _made(change, n, seed, is_real)
                    given = {"seed": seed, "scale": False}
                    runs[0].append(losses_of(make(seed=seed), changed, is_real))
                    runs[1].append(losses_of(make(**given), known, is_real))
                    runs[2].append(losses_of(make(**given), known[half:], is_real))
                losses = [np.mean(run, axis=0)[-half:] for run in runs]
                means = [float(one.mean()) for one in losses]
                last = [float(one[-half // 2 :].mean()) for one in losses]
                both = (excess(*values[:2], is_real) for values in (means, last))
                cells = [scored(value, is_real) for value in means]
                rows.append([change, model, *cells, *(written(one, is_real) for one in both)])
            for name, peer in _peers(is_real).items():
                try:
                    found = losses_of(peer, _made(change, n, 0, is_real)[1], is_real)
                    cell = scored(float(found[half:].mean()), is_real)
                except (KeyError, ArithmeticError):
                    cell = "fails"
                rows.append([change, name, cell, *[""] * 4])
        report.heading(title)
        headers = ["change", "model", "learned", "given", "restarted", "excess", "last quarter"]
        report.table(headers, rows)


PARTS = (outliers, changes)
