"""Calibrated intervals and sets of classes, compared with other intervals and sets."""

import bisect
import math
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from river import base, conf, linear_model, preprocessing
from river.datasets import synth

import river_mondrian as rm

from .adaptive.streams import FILES, MADE, class_streams
from .adaptive_regressor.models import LINEAR, MODELS
from .adaptive_regressor.streams import SOURCES, target_streams
from .data import Array, DataFolder, Stream, stream
from .report import Report, progress
from .timing import TURN, median, progressive, repeated

LEVELS = (0.5, 0.8, 0.95)
LATE = (1, 10, 100)
BLOCK = 1000
# Intervals of distributions are slow, so only every tenth sample is scored.
SCORED_EVERY = 10
COVERAGE = 0.9
# Step size of adaptive conformal inference in the paper that proposed it.
GAMMA = 0.005
# Smallest number of labels for which the coverage of a class is reported.
LEAST_OF_CLASS = 100
N_LAGS = 5

OURS, BEFORE, SPLIT, ADAPTIVE = "calibrated", "distribution", "split", "adaptive"
JACKKNIVES = {"jackknife": None, "jackknife, 1,000": BLOCK}
CONFORMAL = {SPLIT: 0.0, ADAPTIVE: GAMMA}


class EchoRegressor(base.Regressor):
    """Regressor that predicts `point`, so that several wrappers share one model's predictions."""

    point = 0.0

    def predict_one(self, x: Any) -> float:
        return self.point

    def learn_one(self, x: Any, y: float) -> None:
        pass


class EchoClassifier(base.Classifier):
    """Classifier that predicts `probabilities`."""

    def __init__(self) -> None:
        self.probabilities: dict[Any, float] = {}

    @property
    def _multiclass(self) -> bool:
        return True

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Any, float]:
        return self.probabilities

    def learn_one(self, x: Any, y: Any, **kwargs: Any) -> None:
        pass


class Conformal:
    """Split conformal prediction with all earlier scores; adaptive if gamma is not 0."""

    def __init__(self, level: float, gamma: float) -> None:
        self.level, self.miss, self.gamma = level, 1.0 - level, gamma
        self.scores: list[float] = []

    def threshold(self) -> float:
        n = len(self.scores)
        k = math.ceil((n + 1) * (1.0 - self.miss))
        return math.inf if k > n else -math.inf if k < 1 else self.scores[k - 1]

    def learn(self, score: float, threshold: float) -> None:
        bisect.insort(self.scores, score)
        self.miss += self.gamma * ((1.0 - self.level) - (score > threshold))


def _follow(samples: Stream, delay: int, seed: int, others: bool) -> dict[str, Array]:
    """Return the ends of the intervals of each method, shape (2, levels, samples).

    A sample is learned after `delay` other samples. The ends are NaN if a method has no
    interval yet.
    """
    n = len(samples)
    names = (OURS, BEFORE, *((*CONFORMAL, *JACKKNIVES) if others else ()))
    found = {name: np.full((2, len(LEVELS), n), np.nan) for name in names}
    model = rm.AdaptiveMondrianForestRegressor(seed=seed)
    calibrated = rm.Calibrated(model)
    conformal = {name: [Conformal(q, gamma) for q in LEVELS] for name, gamma in CONFORMAL.items()}
    echo = EchoRegressor()
    knives = {
        name: [conf.RegressionJackknife(echo, q, window) for q in LEVELS]
        for name, window in JACKKNIVES.items()
    }
    waiting: deque[tuple[float, float, dict[str, list[float]]]] = deque()
    for i, (x, y) in enumerate(samples):
        thresholds: dict[str, list[float]] = {}
        centre, scale = 0.0, 0.0
        if i > delay:
            law = model.predict_one(x, with_dist=True)
            centre, scale = law.mean, float(law.weights @ law.scales)
            away = abs(2.0 * law.cdf(y) - 1.0)
            for k, q in enumerate(LEVELS):
                found[OURS][:, k, i] = calibrated.predict_interval_one(x, q)
                if i % SCORED_EVERY == 0:
                    # Quantiles are slow. The distribution is symmetric, so one quantile suffices.
                    half = law.quantile((1.0 + q) / 2.0) - centre
                    found[BEFORE][:, k, i] = centre - half, centre + half
                else:
                    # These ends only show whether the interval contains the target.
                    found[BEFORE][:, k, i] = (-math.inf if away <= q else math.inf), math.inf
            echo.point = centre
            for name, ones in conformal.items() if others else ():
                thresholds[name] = [one.threshold() for one in ones]
                widths = scale * np.array(thresholds[name])
                found[name][:, :, i] = centre - widths, centre + widths
            for name, wrappers in knives.items() if others else ():
                for k, wrapper in enumerate(wrappers):
                    one = wrapper.predict_one(x, with_interval=True)
                    found[name][:, k, i] = one.lower, one.upper
        else:
            calibrated.predict_one(x)
        waiting.append((centre, scale, thresholds))
        if i < delay:
            continue
        x_then, y_then = samples[i - delay]
        echo.point, scale, thresholds = waiting.popleft()
        calibrated.learn_one(x_then, y_then)
        for name, limits in thresholds.items():
            for one, limit in zip(conformal[name], limits, strict=True):
                one.learn(abs(y_then - echo.point) / scale, limit)
        for wrapper in (w for wrappers in knives.values() for w in wrappers if thresholds):
            wrapper.learn_one(x_then, y_then)
    return found


class Judged(NamedTuple):
    """Coverage and score by level, whether all coverages are within limits, and block counts."""

    coverage: Array
    score: Array
    holds: bool
    bad_blocks: int
    blocks: int


def _allowed(level: float, n: int, least: float, errors: float) -> float:
    return max(least, errors * math.sqrt(level * (1.0 - level) / n))


def _judge(ends: Array, y: Array, delay: int) -> Judged:
    """Judge intervals without the first tenth of the samples."""
    first = max(len(y) // 10, delay + 1)
    scored = np.arange(len(y)) % SCORED_EVERY == 0
    scored[:first] = False
    coverage, scores, holds, bad, blocks = [], [], True, 0, 0
    for level, low, high in zip(LEVELS, *ends, strict=True):
        inside = ((low <= y) & (y <= high))[first:]
        n = len(inside)
        coverage.append(inside.mean())
        holds &= abs(coverage[-1] - level) <= _allowed(level, n, 0.015, 2.5)
        for start in range(0, n - BLOCK + 1, BLOCK):
            gap = abs(inside[start : start + BLOCK].mean() - level)
            bad, blocks = bad + (gap > _allowed(level, BLOCK, 0.06, 3.0)), blocks + 1
        a, b, t = low[scored], high[scored], y[scored]
        missed = np.maximum(a - t, 0.0) + np.maximum(t - b, 0.0)
        scores.append(np.mean(b - a + 2.0 / (1.0 - level) * missed))
    return Judged(np.array(coverage), np.array(scores), bool(holds), int(bad), blocks)


def _compare(
    report: Report,
    streams: Iterable[tuple[str, Stream, int]],
    delays: tuple[int, ...],
    seeds: int,
    what: str,
) -> None:
    """Report the coverage and scores of intervals; each stream has a smallest delay.

    {what} The first tenth of a stream does not count. The delay is the number of later samples
    that are predicted before a target is learned. The delay is at most a tenth of the stream. A
    cell has the coverage of 50, 80 and 95 % intervals in percent. After a slash, a cell has the
    mean interval scores relative to the predicted distribution, on every {SCORED_EVERY}th
    sample. The column `{BEFORE}` has the intervals of the predicted distribution.
    """
    rows: list[list[Any]] = []
    totals: dict[tuple[int, str], list[tuple[list[Judged], Array]]] = {}
    others = delays == (0,) and seeds > 1
    for name, samples, own_delay in streams:
        y = np.array([t for _, t in samples], dtype=float)
        for asked in delays:
            delay = max(min(asked, len(samples) // 10), own_delay)
            found: dict[str, list[Judged]] = {}
            for seed in range(1, seeds + 1):
                progress(f"{name}, {delay} late, seed {seed}")
                for method, ends in _follow(samples, delay, seed, others).items():
                    found.setdefault(method, []).append(_judge(ends, y, delay))
            scores = {m: np.mean([one.score for one in runs], axis=0) for m, runs in found.items()}
            cells = []
            for method, runs in found.items():
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratios = np.nan_to_num(scores[method] / scores[BEFORE], nan=1.0, posinf=np.inf)
                totals.setdefault((asked, method), []).append((runs, ratios))
                covered = 100.0 * np.mean([one.coverage for one in runs], axis=0)
                shown = ", ".join(f"{c:.1f}" for c in covered)
                relative = ", ".join(f"{r:.3f}" for r in ratios)
                cells.append(shown if method == BEFORE else f"{shown} / {relative}")
            rows.append([name, len(samples), delay, *cells])
    report.about(_compare, what=what)
    methods = [method for asked, method in totals if asked == delays[0]]
    report.table(["stream", "n", "delay", *methods], rows)
    rows = []
    for (asked, method), pairs in totals.items():
        runs = [one for several, _ in pairs for one in several]
        blocks = f"{sum(one.bad_blocks for one in runs)} of {sum(one.blocks for one in runs)}"
        ratios = np.array([ratios for _, ratios in pairs]).T
        means = (np.exp(np.log(r[np.isfinite(r) & (r > 0.0)]).mean()) for r in ratios)
        within = f"{sum(one.holds for one in runs)} of {len(runs)}"
        rows.append([asked, method, within, blocks, *(f"{mean:.4f}" for mean in means)])
    report.note(
        "In a run within limits, the coverage differs from each level by at most 1.5 points or "
        "2.5 standard errors, whichever is larger. In a block outside the limits, the coverage of "
        f"{BLOCK} samples differs from the level by more than 6 points and 3 standard errors. The "
        "columns 50, 80 and 95 % have geometric means of the interval scores, relative to the "
        "distribution. Ratios that are 0 or infinite are left out."
    )
    headers = ["delay", "method", "runs within limits", "blocks outside"]
    report.table([*headers, "50 %", "80 %", "95 %"], rows)


def _streams(data: DataFolder, quick: bool, most: int) -> Iterator[tuple[str, Stream, int]]:
    names, n = (("TrumpApproval", "ahead"), 400) if quick else (SOURCES, most)
    for name, samples in target_streams(data, n, names):
        yield name, samples, SOURCES[name].delay


def intervals(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the coverage and the scores of intervals with other methods."""
    what = "Coverage and scores of intervals on at most the first 20,000 samples, with 3 seeds."
    _compare(report, _streams(data, quick, 20_000), (0,), 2 if quick else 3, what)


def held_out(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the coverage of intervals on NAB's series, which were held out."""
    arrays = data.load("nab")
    ends, found = arrays["start"].tolist(), []
    for name, a, b in zip(arrays["names"].tolist(), ends, ends[1:], strict=False):
        values = arrays["value"][a:b][: 3000 + N_LAGS]
        rows = np.lib.stride_tricks.sliding_window_view(values, N_LAGS + 1)
        found.append((name, stream(rows[:, :-1], rows[:, -1]), 0))
    what = (
        "Coverage and scores of intervals on the series of the Numenta benchmark, which were held "
        f"out. The features are the latest {N_LAGS} values, and the target is the next value. At "
        "most the first 3,000 samples are used, with seed 1."
    )
    _compare(report, found[: 2 if quick else None], (0,), 1, what)


def _error(model: Any, predict: Callable[..., Any], samples: Stream, delay: int) -> float:
    """Return the mean absolute error of a model that learns each sample after `delay` others."""
    total = 0.0
    for i, (x, y) in enumerate(samples):
        point = predict(model, x)
        # No prediction is possible before the first sample.
        total += abs(point - y) if i > 0 else 0.0
        if i >= delay:
            model.learn_one(*samples[i - delay])
    return total / len(samples)


def late(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare intervals if targets are 1, 10 or 100 samples late; measure errors.

    The next table has the mean absolute errors of the adaptive forest within `Calibrated`,
    relative to the forest alone, by delay, with seed 1. Within `Calibrated` the forest learns
    each target from the prediction that it made when the sample arrived.
    """
    what = "Coverage and scores of intervals on at most the first 4,000 samples, with 3 seeds."
    found = list(_streams(data, quick, 4000))
    _compare(report, found, LATE, 1 if quick else 3, what)

    def ask(model: Any, x: Any) -> float:
        return float(model.predict_one(x))

    rows, logs = [], []
    for name, samples, own_delay in found:
        ratios = []
        for asked in LATE:
            progress(f"{name}, {asked} late, errors")
            delay = max(min(asked, len(samples) // 10), own_delay)
            alone = rm.AdaptiveMondrianForestRegressor(seed=1)
            whole = _error(rm.Calibrated(alone.clone()), ask, samples, delay)
            ratios.append(whole / _error(alone, ask, samples, delay))
        rows.append([name, *(f"{ratio:.3f}" for ratio in ratios)])
        logs.append(np.log(ratios))
    means = np.exp(np.mean(logs, axis=0))
    rows.append(["geometric mean", *(f"{mean:.3f}" for mean in means)])
    report.about(late)
    report.table(["stream", *map(str, LATE)], rows)
    whole, n = DataFolder(data.folder), 400 if quick else None
    ((_, samples),) = target_streams(whole, n, ["ahead"])
    delay, linear = SOURCES["ahead"].delay, MODELS[LINEAR]
    forest = rm.AdaptiveMondrianForestRegressor(seed=1)
    errors = {
        "alone": _error(forest.clone(), ask, samples, delay),
        "calibrated": _error(rm.Calibrated(forest), ask, samples, delay),
        LINEAR: _error(linear.make(1), lambda m, x: linear.predict(m, x)[0], samples, delay),
    }
    report.note(
        f"Mean absolute errors on all samples of the stream `ahead`, whose targets are {delay} "
        f"samples late: {', '.join(f'{name} {error:.4f}' for name, error in errors.items())}."
    )


# Sets of classes.

EXACT, BY_CLASS = "exact", "by class"
METHODS = (OURS, EXACT, BY_CLASS, *CONFORMAL)


def _follow_sets(samples: Stream, delay: int, seed: int) -> Array:
    """Return whether sets contain the label, and their sizes, shape (methods, samples, 2)."""
    echo = EchoClassifier()
    calibrated = rm.Calibrated(rm.AdaptiveMondrianForestClassifier(seed=seed))
    by_class = rm.Calibrated(echo, by_class=True)
    conformal = [Conformal(COVERAGE, gamma) for gamma in CONFORMAL.values()]
    found = np.empty((len(METHODS), len(samples), 2))
    waiting: deque[Any] = deque()
    for i, (x, y) in enumerate(samples):
        p = echo.probabilities = calibrated.predict_proba_one(x)
        sets = [
            calibrated.predict_set_one(x, COVERAGE),
            calibrated.predict_set_one(x, COVERAGE, exact=True),
            by_class.predict_set_one(x, COVERAGE),
        ]
        thresholds = [one.threshold() for one in conformal]
        best = {max(p, key=p.__getitem__)} if p else set()
        sets += [{k for k, q in p.items() if 1.0 - q <= limit} | best for limit in thresholds]
        found[:, i] = [(y in one, len(one)) for one in sets]
        waiting.append((p, thresholds))
        if i >= delay:
            x_then, y_then = samples[i - delay]
            p, thresholds = waiting.popleft()
            calibrated.learn_one(x_then, y_then)
            by_class.learn_one(x_then, y_then)
            for one, limit in zip(conformal, thresholds, strict=True):
                if y_then in p:
                    one.learn(1.0 - p[y_then], limit)
    return found


def _classes_held(inside: Array, labels: list[Any], first: int, delay: int) -> tuple[int, int]:
    """Return how many classes have the requested coverage, and how many have enough samples."""
    held = n = 0
    for label in set(labels):
        places = np.flatnonzero([one == label for one in labels])
        # Before the first sample of a class is learned, no set can contain the class.
        own = inside[places[places > max(places[0] + delay, first - 1)]]
        if len(own) >= LEAST_OF_CLASS:
            n += 1
            held += int(own.mean() >= COVERAGE - _allowed(COVERAGE, len(own), 0.01, 2.5))
    return held, n


def sets(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the coverage and the size of sets of classes at 90 % with conformal sets.

    Coverage and size of sets of classes with a level of {COVERAGE:.0%}, predicted from the
    adaptive forest. A cell has the coverage in percent and the mean size, without the first
    tenth, as means of {seeds} seeds. The columns `exact` and `by class` are for options of
    `Calibrated`. Split conformal prediction uses the scores of all earlier samples; the score
    of a label with probability p is 1 - p. Adaptive conformal inference changes its level after
    each label, with the step size gamma = {GAMMA}. If a conformal set is empty, the most
    probable class is added.
    """
    n_most, seeds, delays = (400, 1, (0, 10)) if quick else (5000, 3, (0, 10, 100))
    rows, means = [], {}
    names = ("Phishing", "ImageSegments") if quick else (*MADE, *FILES)
    for name, samples in class_streams(data, n_most, names):
        labels, n, first = [y for _, y in samples], len(samples), len(samples) // 10
        least = COVERAGE - _allowed(COVERAGE, n - first, 0.01, 2.5)
        for asked in delays:
            delay = min(asked, n // 10)
            progress(f"{name}, {delay} late")
            runs = np.array([_follow_sets(samples, delay, seed + 1) for seed in range(seeds)])
            held, size = runs[:, :, first:].mean(axis=(0, 2)).T
            for k, method in enumerate(METHODS):
                classes = [_classes_held(run[k, :, 0], labels, first, delay) for run in runs]
                found = held[k] >= least, size[k], *np.sum(classes, axis=0)
                means.setdefault((asked, method), []).append(found)
            cells = (f"{100 * h:.1f} / {s:.2f}" for h, s in zip(held, size, strict=True))
            rows.append([name, n, delay, *cells])
    report.about(sets, seeds=seeds)
    report.table(["stream", "n", "delay", *METHODS], rows)
    totals = []
    for (asked, method), found in means.items():
        streams, size, held, n = np.sum(found, axis=0)
        counts = [f"{streams:.0f} of {len(found)}", f"{size / len(found):.3f}"]
        totals.append([asked, method, *counts, f"{held:.0f} of {n:.0f}"])
    report.note(
        "The column `streams` counts the streams with a coverage of at least "
        f"{COVERAGE - 0.01:.0%}, or at most 2.5 standard errors below the level. The column "
        f"`classes` counts classes by the same rule, among classes with at least {LEAST_OF_CLASS} "
        "labels, summed over all runs. Labels of a class are included after the first sample of "
        "the class has been learned."
    )
    report.table(["delay", "method", "streams", "mean size", "classes"], totals)


COSTLY: dict[str, Callable[[], Any]] = {
    "River's linear regression": (
        lambda: preprocessing.StandardScaler() | linear_model.LinearRegression()
    ),
    "exact regressor": lambda: rm.MondrianForestRegressor(seed=1),
    "adaptive regressor": lambda: rm.AdaptiveMondrianForestRegressor(seed=1),
    "adaptive classifier": lambda: rm.AdaptiveMondrianForestClassifier(seed=1),
}


def cost(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the processor time and memory of `Calibrated`.

    Processor time and memory of `Calibrated`, with ten features. The column `us` has the
    microseconds to predict and learn a sample without the wrapper, for the first {n} samples of
    Friedman. The column `+ us` has the additional microseconds if intervals or sets are
    predicted with the wrapper. The next column also includes predictions of points or
    probabilities. Times are medians of {repeats} repeats, in which the models take turns. The
    last column has the memory of a sample that waits for its label.
    """
    n, repeats = (600, 1) if quick else (3000, 5)
    rows = []
    for name, make in COSTLY.items():
        progress(name)
        own = list(synth.Friedman(seed=1).take(n))
        point, sets = "predict_one", "predict_interval_one"
        if "classifier" in name:
            point, sets = "predict_proba_one", "predict_set_one"
            own = [(x, y > 14.0) for x, y in own]

        def peers(
            seed: int, make: Any = make, own: Stream = own, point: str = point, sets: str = sets
        ) -> dict[str, Iterator[str]]:
            return {
                "alone": progressive(make(), own, point),
                "sets": progressive(rm.Calibrated(make()), own, sets),
                "both": progressive(rm.Calibrated(make()), own, point, sets),
            }

        for steps in peers(0).values():  # Compile kernels before timing.
            list(steps)
        runs = repeated(repeats, peers, TURN, time.process_time)
        us = [1e6 * median(runs, peer, "both") / n for peer in ("alone", "sets", "both")]
        model = rm.Calibrated(make())
        list(progressive(model, own[:100], sets))
        tracemalloc.start()
        for x, _ in synth.Friedman(seed=2).take(1000):
            getattr(model, sets)(x)
        size = tracemalloc.get_traced_memory()[0] / 1000
        tracemalloc.stop()
        times = (us[0], us[1] - us[0], us[2] - us[0])
        rows.append([name, *(f"{t:.1f}" for t in times), f"{size:.0f}"])
    report.about(cost, n=n, repeats=repeats)
    report.table(["model", "us", "+ us", "+ us, with points", "bytes"], rows)


PARTS = (intervals, held_out, late, sets, cost)
