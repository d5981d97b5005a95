"""The Mondrian kernel: error against the Laplace kernel, speed, and choice of the lifetime.

Figures are those of Balog et al. (2016).
"""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from river import linear_model, optim

import river_mondrian as rm

from .data import DataFolder, Stream, available, min_max, stream
from .report import Report, progress
from .timing import BLOCK, median, no_gc, ratio, repeated

LIFETIME = 10.0
SIZES = (10, 20, 50, 100, 200, 500, 1000)
MAPS: dict[str, Callable[[int, int], Any]] = {
    "Mondrian": lambda m, seed: rm.MondrianFeatures(m, LIFETIME, seed=seed),
    "random binning": lambda m, seed: rm.RandomBinningFeatures(m, LIFETIME, seed),
    "random Fourier": lambda m, seed: rm.RandomFourierFeatures(m, "laplace", LIFETIME, seed=seed),
}

ROWS = 10_000
WARM = 2000  # Number of first rows whose errors are excluded, at most half of all rows.
AUTO_SETS = ("cpu", "california", "kin8nm", "elec2", "letter")
CLASSES = ("elec2", "letter")


def figure5(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the kernel's error by number of partitions (Figure 5 of Balog et al. 2016).

    Error of the Mondrian kernel against the number of partitions M (Figure 5 of Balog et al.
    2016). A cell has the largest absolute error over all pairs of 100 uniform points of the
    unit square. The lifetime is 10. Each point has one non-zero feature in each partition;
    random Fourier features have M features instead. A cell is the median of {seeds} seeds
    (smallest, largest). The last row has the slope of log error against log M; the expected
    slope is -1/2.
    """
    sizes, seeds = (SIZES[:4], 3) if quick else (SIZES, 10)
    points = np.random.default_rng(0).random((100, 2)).astype(np.float32).astype(float)
    exact = np.exp(-LIFETIME * np.abs(points[:, None] - points).sum(axis=2))
    frame = pd.DataFrame(points, columns=["a", "b"])
    errors: dict[str, np.ndarray] = {}
    for name, make in MAPS.items():
        errors[name] = np.empty((len(sizes), seeds))
        for i, m in enumerate(sizes):
            progress(f"{name}, M = {m}")
            for seed in range(seeds):
                features = make(m, seed)
                features.learn_many(frame)
                errors[name][i, seed] = np.abs(features.gram(frame) - exact).max()
    report.about(figure5, seeds=seeds)
    rows: list[list[Any]] = []
    for i, m in enumerate(sizes):
        bands = (errors[name][i] for name in MAPS)
        rows.append([m, *(f"{np.median(e):.3f} ({e.min():.3f}, {e.max():.3f})" for e in bands)])
    logs = np.log(np.array(sizes, dtype=float))
    slopes = [np.polyfit(logs, np.log(np.median(errors[n], axis=1)), 1)[0] for n in MAPS]
    rows.append(["slope", *(f"{slope:.2f}" for slope in slopes)])
    report.table(["M", *MAPS], rows)
    with report.drawing() as axis:
        for name, found in errors.items():
            axis.plot(sizes, np.median(found, axis=1), "o-", label=name)
            axis.fill_between(sizes, found.min(axis=1), found.max(axis=1), alpha=0.2)
        axis.set(xscale="log", yscale="log", xlabel="M", ylabel="largest absolute error")
        axis.legend()


def _progressive(model: Any, samples: Stream, wrong: list[float], block: int) -> Iterator[str]:
    """Predict and learn blocks of samples; append squared errors, or 1 for each wrong class."""
    for start in range(0, len(samples), block):
        part = samples[start : start + block]
        outputs = [model.predict_one(x) for x, _ in part]
        yield "predict"
        for x, y in part:
            model.learn_one(x, y)
        yield "learn"
        for p, (_, y) in zip(outputs, part, strict=True):
            wrong.append((p - y) ** 2 if isinstance(y, float) else float(p != y))


def speed(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the time per sample of `OGDRegressor` with a pipeline of map and linear model.

    Time per sample of `OGDRegressor` with Mondrian features, compared with a pipeline. The
    first {n} samples of letter, scaled to [0, 1], are predicted and then learned, with M = 50
    partitions and lifetime 2. The target is the number of the letter, standardized, and the
    classifiers learn the letter itself. The pipeline is `MondrianFeatures() |
    LinearRegression()` with the same learning rate. Rates are medians of {repeats} runs in one
    process.
    """
    arrays = data.load("letter")
    n, repeats = (1000, 1) if quick else (ROWS, 3)
    (X,) = min_max(arrays["X_train"])
    numbers = arrays["y_train"].astype(float)
    targets = (numbers - numbers.mean()) / numbers.std()
    real, classes = stream(X, targets, n), stream(X, arrays["y_train"], n)
    wrong: dict[str, list[float]] = {}

    def peers(seed: int) -> dict[str, Iterator[str]]:
        features = rm.MondrianFeatures(50, 2.0, seed=seed)
        slow = features | linear_model.LinearRegression(optim.SGD(0.1), intercept_lr=0.0)
        models: dict[str, tuple[Any, Stream]] = {
            "OGDRegressor": (rm.OGDRegressor(features, learning_rate=0.1), real),
            "pipeline": (slow, real),
            "OGDClassifier, softmax": (rm.OGDClassifier(features), classes),
            "OGDClassifier, ovr": (rm.OGDClassifier(features, multiclass="ovr"), classes),
        }
        found = {}
        for name, (model, samples) in models.items():
            wrong[name] = []
            found[name] = _progressive(model, samples, wrong[name], BLOCK)
        return found

    # Compile kernels before timing.
    repeated(1, lambda seed: {k: v for k, v in peers(seed).items() if k != "pipeline"})
    runs = repeated(repeats, peers, steps=100)
    report.about(speed, n=n, repeats=repeats)
    table = []
    for name in wrong:
        rates = [f"{n / median(runs, name, phase):,.0f}" for phase in ("learn", "predict")]
        error = float(np.mean(wrong[name]))
        table.append([name, *rates, f"{error:.3f}"])
    report.table(["learner", "learn_one/s", "predict_one/s", "progressive error"], table)
    times = [ratio(runs, "pipeline", "OGDRegressor", p)[0] for p in ("learn", "predict", "both")]
    report.note(
        f"The pipeline takes {times[0]:.1f} times as long to learn, {times[1]:.1f} to predict and "
        f"{times[2]:.1f} for both."
    )


def _run(model: Any, samples: Stream, block: int = 1) -> tuple[float, float]:
    """Return the mean error without the first `WARM` rows (at most half), and the total seconds."""
    wrong: list[float] = []
    with no_gc():
        began = time.perf_counter()
        for _ in _progressive(model, samples, wrong, block):
            pass
        spent = time.perf_counter() - began
    return float(np.mean(wrong[min(WARM, len(wrong) // 2) :])), spent


def auto(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the lifetime "auto" with the best of its 16 lifetimes in hindsight.

    Automatic lifetime, compared with the best of its 16 lifetimes in hindsight. Each sample is
    predicted and then learned, with M = {m} partitions and default losses and learning rates.
    The first columns have the mean squared error of the standardized target, or the error rate
    (elec2, letter). Errors are measured from row {WARM:,} on, for the first seed. The column
    `largest share` has the lifetime with the largest weight. Ratio and time are medians of
    {seeds} seeds (smallest - largest). The column `ratio, late` has the ratio if {BLOCK}
    samples are predicted before they are learned, for the first seed. Time is the time to
    predict and learn, relative to the largest lifetime. The features of cpu are raw, and those
    of the other sets are scaled to [0, 1].
    """
    m, seeds = (20, 1) if quick else (50, 3)
    table = []
    for name, arrays in available(data.load, AUTO_SETS):
        X, y = arrays["X_train"].astype(float), arrays["y_train"]
        if name != "cpu":
            (X,) = min_max(X)
        if name not in CLASSES:
            y = (y.astype(float) - y.mean()) / y.std()
        samples = stream(X, y, 1000 if quick else ROWS)

        kind: Any = rm.OGDClassifier if name in CLASSES else rm.OGDRegressor

        def learner(lifetime: Any, seed: int, kind: Any = kind) -> Any:
            return kind(rm.MondrianFeatures(m, lifetime, seed=seed))

        _run(learner("auto", 0), samples[:300])  # Compile kernels before timing.
        ratios, times = [], []
        for seed in range(1, seeds + 1):
            progress(f"{name}, seed {seed}")
            chooser = learner("auto", seed)
            error, seconds = _run(chooser, samples)
            fixed = {k: _run(learner(k, seed), samples) for k in chooser.lifetimes}
            best = min(fixed, key=lambda k: fixed[k][0])
            ratios.append(error / fixed[best][0])
            times.append(seconds / fixed[max(fixed)][1])
            if seed == 1:
                row = [name, f"{error:.4f}", f"{fixed[best][0]:.4f}", f"{best:.3g}"]
                row.append(f"{max(chooser.lifetimes, key=chooser.lifetimes.__getitem__):.3g}")
        late = _run(learner("auto", 1), samples, BLOCK)[0]
        late /= min(_run(learner(k, 1), samples, BLOCK)[0] for k in chooser.lifetimes)
        middle, longer = statistics.median(ratios), statistics.median(times)
        row.append(f"{middle:.3f} ({min(ratios):.3f} - {max(ratios):.3f})")
        row += [f"{late:.3f}", f"{longer:.2f}"]
        table.append(row)
    report.about(auto, m=m, seeds=seeds)
    headers = ["set", "auto", "best fixed", "best lifetime", "largest share"]
    report.table([*headers, "ratio", "ratio, late", "time"], table)


PARTS = (figure5, speed, auto)
