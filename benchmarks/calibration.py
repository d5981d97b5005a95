"""Calibrated intervals and sets of classes, compared with models and other methods."""

from __future__ import annotations

import bisect
import itertools
import math
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from river import base, conf, linear_model, preprocessing
from river.datasets import synth

from river_mondrian import (
    AdaptiveMondrianForestClassifier,
    AdaptiveMondrianForestRegressor,
    Calibrated,
    MondrianForestRegressor,
)
from river_mondrian.learners.quantile_tracking import N_NEEDED

from .adaptive.comparing import FILES, MADE
from .adaptive.comparing import load as load_classes
from .adaptive_regressor.streams import SOURCES, load
from .data import Array, DataFolder, Stream, stream
from .regressor.peers import PEERS
from .report import Report, progress, pyplot
from .timing import TURN, median, repeated

LEVELS = (0.5, 0.8, 0.95)
DELAYS = (0, 1, 10, 100)
MOST, MOST_LATE, MOST_OF_CLASSES = 20_000, 4000, 5000
BLOCK = 1000
# Intervals of distributions are slow, so only every tenth sample is scored.
SCORED_EVERY = 10
COVERAGE = 0.9
# Step of adaptive conformal inference that its authors use.
GAMMA = 0.005
# Smallest number of labels for which the coverage of a class is reported.
LEAST_OF_CLASS = 100

OURS, BEFORE, SPLIT, ADAPTIVE = "calibrated", "distribution", "split", "adaptive"
JACKKNIFE, LATE_JACKKNIFE = "jackknife", "jackknife, 1,000"
OTHERS = (SPLIT, ADAPTIVE, JACKKNIFE, LATE_JACKKNIFE)


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


@dataclass
class Ends:
    """Lower and upper ends of intervals, shape (levels, samples); NaN without an interval."""

    low: Array
    high: Array

    @classmethod
    def of(cls, n: int) -> Ends:
        return cls(np.full((len(LEVELS), n), np.nan), np.full((len(LEVELS), n), np.nan))


def _follow(samples: Stream, delay: int, seed: int, others: bool) -> dict[str, Ends]:
    """Return the intervals of each method; a sample is learned after `delay` others."""
    n = len(samples)
    found = {name: Ends.of(n) for name in (OURS, BEFORE, *(OTHERS if others else ()))}
    model = AdaptiveMondrianForestRegressor(seed=seed)
    calibrated = Calibrated(model)
    conformal = {
        name: [Conformal(level, gamma) for level in LEVELS]
        for name, gamma in ((SPLIT, 0.0), (ADAPTIVE, GAMMA))
    }
    echo = EchoRegressor()
    knives = {
        name: [conf.RegressionJackknife(echo, level, window) for level in LEVELS]
        for name, window in ((JACKKNIFE, None), (LATE_JACKKNIFE, BLOCK))
    }
    waiting: deque[tuple[float, float, dict[str, list[float]]]] = deque()
    for i, (x, y) in enumerate(samples):
        thresholds: dict[str, list[float]] = {}
        centre, scale = 0.0, 0.0
        if i > delay:
            law = model.predict_one(x, with_dist=True)
            centre, scale = law.mean, float(law.weights @ law.scales)
            away = abs(2.0 * law.cdf(y) - 1.0)
            for k, level in enumerate(LEVELS):
                ends = calibrated.predict_interval_one(x, level)
                found[OURS].low[k, i], found[OURS].high[k, i] = ends
                if i % SCORED_EVERY == 0:
                    # Quantiles are slow. The distribution is symmetric, so one quantile suffices.
                    half = law.quantile((1.0 + level) / 2.0) - centre
                    ends = centre - half, centre + half
                else:
                    # These ends only show whether the interval contains the target.
                    ends = (-math.inf, math.inf) if away <= level else (math.inf, math.inf)
                found[BEFORE].low[k, i], found[BEFORE].high[k, i] = ends
            if others:
                echo.point = centre
                for name, ones in conformal.items():
                    thresholds[name] = [one.threshold() for one in ones]
                    widths = scale * np.array(thresholds[name])
                    found[name].low[:, i], found[name].high[:, i] = centre - widths, centre + widths
                for name, wrappers in knives.items():
                    for k, wrapper in enumerate(wrappers):
                        one = wrapper.predict_one(x, with_interval=True)
                        found[name].low[k, i], found[name].high[k, i] = one.lower, one.upper
        else:
            calibrated.predict_one(x)
        waiting.append((centre, scale, thresholds))
        if i < delay:
            continue
        x_then, y_then = samples[i - delay]
        centre, scale, thresholds = waiting.popleft()
        calibrated.learn_one(x_then, y_then)
        if thresholds:
            echo.point = centre
            for name, ones in conformal.items():
                for one, threshold in zip(ones, thresholds[name], strict=True):
                    one.learn(abs(y_then - centre) / scale, threshold)
            for wrappers in knives.values():
                for wrapper in wrappers:
                    wrapper.learn_one(x_then, y_then)
    return found


class HeldSamplesRecord(NamedTuple):
    """Coverage of intervals at a level, and their mean score."""

    coverage: float
    score: float
    holds: bool
    bad_blocks: int
    blocks: int
    # Whether too many targets are missed before the thresholds can change.
    is_lost: bool


def _allowed(level: float, n: int, least: float, errors: float) -> float:
    return max(least, errors * math.sqrt(level * (1.0 - level) / n))


def _judge(ends: Ends, y: Array, delay: int) -> list[HeldSamplesRecord]:
    """Return the scores of intervals at each level, without the first tenth of the samples."""
    first = max(len(y) // 10, delay + 1)
    found = []
    for level, low, high in zip(LEVELS, ends.low, ends.high, strict=True):
        inside = ((low <= y) & (y <= high))[first:]
        n = len(inside)
        off = abs(inside.mean() - level)
        starts = range(0, n - BLOCK + 1, BLOCK)
        far = [abs(inside[s : s + BLOCK].mean() - level) for s in starts]
        bad = sum(gap > _allowed(level, BLOCK, 0.06, 3.0) for gap in far)
        scored = np.arange(len(y)) % SCORED_EVERY == 0
        scored[:first] = False
        a, b, t = low[scored], high[scored], y[scored]
        missed = np.maximum(a - t, 0.0) + np.maximum(t - b, 0.0)
        score = float(np.mean(b - a + 2.0 / (1.0 - level) * missed))
        allowed = _allowed(level, n, 0.015, 2.5)
        early = inside[: max(2 * delay + N_NEEDED - first, 0)]
        is_lost = bool((~early).sum() > (1.0 - level + allowed) * n)
        holds = bool(off <= allowed)
        found.append(
            HeldSamplesRecord(float(inside.mean()), score, holds, bad, len(starts), is_lost)
        )
    return found


@dataclass
class _Total:
    """Results of a method on all streams and seeds."""

    held: list[list[HeldSamplesRecord]] = field(default_factory=list)
    ratios: list[list[float]] = field(default_factory=list)
    nearer: int = 0
    better: int = 0


def _streams(data: DataFolder, quick: bool, most: int) -> Iterator[tuple[str, Stream, int]]:
    names = ("TrumpApproval", "ChickWeights", "ahead") if quick else SOURCES
    for name in names:
        samples = load(data, name, most)
        if samples is not None:
            yield name, samples, SOURCES[name].delay


def _compare(
    data: DataFolder, report: Report, quick: bool, delays: tuple[int, ...], most: int
) -> dict[tuple[int, str], _Total]:
    most = 400 if quick else most
    seeds = range(1, 2 if quick else 4)
    rows: list[list[Any]] = []
    totals: dict[tuple[int, str], _Total] = {}
    for name, samples, own_delay in _streams(data, quick, most):
        y = np.array([t for _, t in samples], dtype=float)
        for asked in delays:
            delay = max(min(asked, len(samples) // 10), own_delay)
            methods: dict[str, list[list[HeldSamplesRecord]]] = {}
            for seed in seeds:
                progress(f"{name}, {delay} late, seed {seed}")
                for method, ends in _follow(samples, delay, seed, asked == 0).items():
                    methods.setdefault(method, []).append(_judge(ends, y, delay))
            before = np.array([[h.score for h in held] for held in methods[BEFORE]]).mean(axis=0)
            cells = []
            for method, runs in methods.items():
                total = totals.setdefault((asked, method), _Total())
                coverage = np.array([[h.coverage for h in held] for held in runs]).mean(axis=0)
                scores = np.array([[h.score for h in held] for held in runs]).mean(axis=0)
                total.held += runs
                total.ratios.append((scores / before).tolist())
                ours = np.array([[h.coverage for h in held] for held in methods[OURS]])
                nearer = np.abs(ours.mean(axis=0) - LEVELS) <= np.abs(coverage - LEVELS) + 1e-9
                own = np.array([[h.score for h in held] for held in methods[OURS]]).mean(axis=0)
                total.nearer += int(nearer.sum())
                total.better += int((own <= scores).sum())
                shown = ", ".join(f"{100 * c:.1f}" for c in coverage)
                relative = ", ".join(f"{r:.3f}" for r in scores / before)
                cells.append(shown if method == BEFORE else f"{shown} / {relative}")
            rows.append([name, len(samples), delay, *cells])
    methods_shown = [m for asked, m in totals if asked == delays[0]]
    report.note(
        f"Coverage and scores of intervals, compared with other methods. At most the first {most} "
        f"samples are used, with {len(seeds)} seeds, without the first tenth. The delay is the "
        "number of later samples that are predicted before a target is learned. The delay is at "
        "most a tenth of the stream. A cell has the coverage of 50, 80 and 95 % intervals in "
        "percent. After a slash, a cell has the mean interval scores relative to the predicted "
        f"distribution, on every {SCORED_EVERY}th sample. The column `{BEFORE}` has the intervals "
        "of the predicted distribution."
    )
    report.table(["stream", "n", "delay", *methods_shown], rows)
    _summarize(report, totals)
    return totals


def _summarize(report: Report, totals: dict[tuple[int, str], _Total]) -> None:
    rows = []
    for (asked, method), total in totals.items():
        every = [h for held in total.held for h in held]
        whole = sum(all(h.holds for h in held) for held in total.held)
        bad, blocks = sum(h.bad_blocks for h in every), sum(h.blocks for h in every)
        ratios = np.array(total.ratios)
        cells = [f"{math.exp(np.log(r[np.isfinite(r)]).mean()):.4f}" for r in ratios.T]
        n = len(LEVELS) * len(total.ratios)
        held = f"{whole} of {len(total.held)}"
        counts = [f"{one} of {n}" for one in (total.nearer, total.better)]
        rows.append([asked, method, held, f"{bad} of {blocks}", *cells, *counts])
    report.note(
        "In a run within limits, the coverage differs from each level by at most 1.5 points or "
        "2.5 standard errors, whichever is larger. In a block outside the limits, the coverage of "
        f"{BLOCK} samples differs from the level by more than 6 points and 3 standard errors. The "
        "columns 50, 80 and 95 % have geometric means of the interval scores, relative to the "
        "distribution. The last columns compare calibrated intervals with the method in the row, "
        "on all pairs of a stream and a level. The column `calibrated is nearer` counts pairs on "
        "which the coverage of calibrated intervals is at least as near to the level. The column "
        "`calibrated scores better` counts pairs on which the score of calibrated intervals is at "
        "least as good."
    )
    headers = ["delay", "method", "runs within limits", "blocks outside", "50 %", "80 %", "95 %"]
    report.table([*headers, "calibrated is nearer", "calibrated scores better"], rows)


def intervals(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the coverage and the scores of intervals with other methods."""
    _compare(data, report, quick, (0,), MOST)


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
    """Compare intervals if targets are 1, 10 or 100 samples late; measure errors."""
    totals = _compare(data, report, quick, DELAYS[1:], MOST_LATE)
    counts = []
    for asked in DELAYS[1:]:
        outside = [held for held in totals[asked, OURS].held if not all(h.holds for h in held)]
        counts.append([asked, len(outside), sum(any(h.is_lost for h in held) for held in outside)])
    report.note(
        "The next table has the runs of calibrated intervals outside the limits. A target changes "
        f"the thresholds if at least {N_NEEDED} samples had been learned before its prediction. In "
        "runs out of reach, too many targets are missed before the thresholds can change."
    )
    report.table(["delay", "runs outside", "out of reach"], counts)
    rows, logs = [], []
    for name, samples, own_delay in _streams(data, quick, 400 if quick else MOST_LATE):
        ratios = []
        for asked in DELAYS[1:]:
            progress(f"{name}, {asked} late, errors")
            delay = max(min(asked, len(samples) // 10), own_delay)
            forest = AdaptiveMondrianForestRegressor(seed=1)
            ask = AdaptiveMondrianForestRegressor.predict_one
            alone = _error(forest.clone(), ask, samples, delay)
            ratios.append(
                _error(Calibrated(forest), Calibrated.predict_one, samples, delay) / alone
            )
        rows.append([name, *(f"{ratio:.3f}" for ratio in ratios)])
        logs.append(np.log(ratios))
    means = np.exp(np.mean(logs, axis=0))
    rows.append(["geometric mean", *(f"{mean:.3f}" for mean in means)])
    report.note(
        "The next table has the mean absolute errors of the adaptive forest within `Calibrated`, "
        "relative to the forest alone, by delay, with seed 1. Within `Calibrated` the forest "
        "learns each target from the prediction that it made when the sample arrived."
    )
    report.table(["stream", *map(str, DELAYS[1:])], rows)
    name, delay = "ahead", SOURCES["ahead"].delay
    samples = load(DataFolder(data.folder), name, 400 if quick else None) or []
    make, predict = PEERS["Bayesian linear"]
    forest = AdaptiveMondrianForestRegressor(seed=1)
    models = {
        "alone": (forest.clone(), AdaptiveMondrianForestRegressor.predict_one),
        "calibrated": (Calibrated(forest), Calibrated.predict_one),
        "Bayesian linear": (make(), lambda model, x: predict(model, x)[0]),
    }
    errors = [f"{label} {_error(*m, samples, delay):.4f}" for label, m in models.items()]
    report.note(
        f"Mean absolute errors on all samples of the stream `{name}`, whose targets are {delay} "
        f"samples late: {', '.join(errors)}."
    )


# Sets of classes.


def _scores(p: dict[Any, float]) -> dict[str, dict[Any, float]]:
    """Return scores of classes: 1 - p, and the sum of all probabilities of at least p."""
    total, sums = 0.0, {}
    for label in sorted(p, key=p.__getitem__, reverse=True):
        total += p[label]
        sums[label] = total
    return {"1 - p": {label: 1.0 - own for label, own in p.items()}, "sums": sums}


SETS_OF_OTHERS = {
    f"{name}, {score}": (score, gamma)
    for score in ("1 - p", "sums")
    for name, gamma in ((SPLIT, 0.0), (ADAPTIVE, GAMMA))
}
EXACT, BY_CLASS = "exact", "by class"
METHODS = (OURS, EXACT, BY_CLASS, *SETS_OF_OTHERS)


def _follow_sets(samples: Stream, delay: int, seed: int) -> dict[str, list[tuple[bool, int]]]:
    """Return whether sets contain the label, and their sizes, by method and sample."""
    echo = EchoClassifier()
    calibrated = Calibrated(AdaptiveMondrianForestClassifier(seed=seed))
    by_class = Calibrated(echo, by_class=True)
    conformal = {name: Conformal(COVERAGE, gamma) for name, (_, gamma) in SETS_OF_OTHERS.items()}
    found: dict[str, list[tuple[bool, int]]] = {name: [] for name in METHODS}
    waiting: deque[Any] = deque()
    for i, (x, y) in enumerate(samples):
        p = echo.probabilities = calibrated.predict_proba_one(x)
        sets = {
            OURS: calibrated.predict_set_one(x, COVERAGE),
            EXACT: calibrated.predict_set_one(x, COVERAGE, exact=True),
            BY_CLASS: by_class.predict_set_one(x, COVERAGE),
        }
        scores = _scores(p)
        thresholds = {name: one.threshold() for name, one in conformal.items()}
        first = {max(p, key=p.__getitem__)} if p else set()
        for name, (score, _) in SETS_OF_OTHERS.items():
            own = {k for k, s in scores[score].items() if s <= thresholds[name]}
            sets[name] = own | first
        for name, one in sets.items():
            found[name].append((y in one, len(one)))
        waiting.append((scores, thresholds))
        if i >= delay:
            x_then, y_then = samples[i - delay]
            scores, thresholds = waiting.popleft()
            calibrated.learn_one(x_then, y_then)
            by_class.learn_one(x_then, y_then)
            for name, (score, _) in SETS_OF_OTHERS.items():
                if y_then in scores[score]:
                    conformal[name].learn(scores[score][y_then], thresholds[name])
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
    """Compare the coverage and the size of sets of classes at 90 % with conformal sets."""
    seeds = range(1, 2 if quick else 4)
    n_most = 400 if quick else MOST_OF_CLASSES
    delays = (0, 10) if quick else (0, 10, 100)
    names = ("Phishing", "ImageSegments") if quick else (*MADE, *FILES)
    rows, means = [], {}
    for name in names:
        samples = load_classes(data, name, n_most)
        if samples is None:
            continue
        labels, n, first = [y for _, y in samples], len(samples), len(samples) // 10
        least = COVERAGE - _allowed(COVERAGE, n - first, 0.01, 2.5)
        for asked in delays:
            delay = min(asked, n // 10)
            runs = []
            for seed in seeds:
                progress(f"{name}, {delay} late, seed {seed}")
                runs.append(_follow_sets(samples, delay, seed))
            cells = []
            for method in METHODS:
                own = np.array([run[method] for run in runs], dtype=float)
                held, size = own[:, first:].mean(axis=(0, 1))
                classes = [_classes_held(one[:, 0], labels, first, delay) for one in own]
                total = np.sum(classes, axis=0)
                means.setdefault((asked, method), []).append((held, size, held >= least, *total))
                cells.append(f"{100 * held:.1f} / {size:.2f}")
            rows.append([name, n, delay, *cells])
    report.note(
        f"Coverage and size of sets of classes with a level of {COVERAGE:.0%}, predicted from the "
        "adaptive forest. A cell has the coverage in percent and the mean size, without the first "
        f"tenth, as means of {len(seeds)} seeds. The columns `exact` and `by class` are for "
        "options of `Calibrated`. Split conformal prediction uses the scores of all earlier "
        "samples. Adaptive conformal inference changes its level after each label, with the step "
        f"size gamma = {GAMMA}. If a conformal set is empty, the most probable class is added. The "
        "score of a label with probability p is 1 - p, or the sum of all probabilities of at "
        "least p."
    )
    report.table(["stream", "n", "delay", *METHODS], rows)
    totals = []
    for (asked, method), found in means.items():
        own = np.array(found)
        counts = f"{own[:, 2].sum():.0f} of {len(own)}", f"{own[:, 1].mean():.3f}"
        totals.append([asked, method, *counts, f"{own[:, 3].sum():.0f} of {own[:, 4].sum():.0f}"])
    report.note(
        "The column `streams` counts the streams with a coverage of at least "
        f"{COVERAGE - 0.01:.0%}, or at most 2.5 standard errors below the level. The column "
        f"`classes` counts classes by the same rule, among classes with at least {LEAST_OF_CLASS} "
        "labels, summed over all runs. Labels of a class are included after the first sample of "
        "the class has been learned."
    )
    report.table(["delay", "method", "streams", "mean size", "classes"], totals)


# Held-out streams.

N_LAGS = 5
MOST_HELD_OUT = 3000


def _next_values(data: DataFolder) -> Iterator[tuple[str, Stream]]:
    """Yield the series of NAB; the latest values are the features, and the next is the target."""
    arrays = data.load("nab")
    if arrays is None:
        return
    ends = arrays["start"].tolist()
    for name, start, stop in zip(arrays["names"].tolist(), ends, ends[1:], strict=False):
        values = arrays["value"][start:stop][: MOST_HELD_OUT + N_LAGS]
        rows = np.lib.stride_tricks.sliding_window_view(values, N_LAGS + 1)
        yield name, stream(rows[:, :-1], rows[:, -1])


def _labelled(data: DataFolder) -> Iterator[tuple[str, Stream]]:
    """Yield ADBench's sets, whose classes are normal and anomalous, and the texts of Reuters."""
    arrays = data.load("adbench")
    if arrays is not None:
        for name in arrays["names"].tolist():
            yield name, stream(arrays[f"X_{name}"], arrays[f"y_{name}"], MOST_HELD_OUT)
    arrays = data.load("reuters_acq")
    if arrays is not None:
        parts = (arrays[f"X_train_{part}"] for part in ("indptr", "indices", "data"))
        ends, columns, values = (part.tolist() for part in parts)
        labels = arrays["y_train"].tolist()[: MOST_HELD_OUT // 10]
        rows = itertools.pairwise(ends)
        yield (
            "reuters_acq",
            [
                (dict(zip(columns[a:b], values[a:b], strict=True)), label)
                for (a, b), label in zip(rows, labels, strict=False)
            ],
        )


def held_out(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure coverage on NAB's series, ADBench's sets and Reuters, which were held out."""
    rows, n_held, n_runs, bad, blocks = [], 0, 0, 0, 0
    for name, samples in itertools.islice(_next_values(data), 2 if quick else None):
        progress(name)
        y = np.array([t for _, t in samples], dtype=float)
        ends = _follow(samples, 0, 1, others=False)
        judged = {method: _judge(one, y, 0) for method, one in ends.items()}
        own, before = judged[OURS], judged[BEFORE]
        is_held = all(h.holds for h in own)
        n_held, n_runs = n_held + is_held, n_runs + 1
        bad, blocks = bad + sum(h.bad_blocks for h in own), blocks + sum(h.blocks for h in own)
        cells = [", ".join(f"{100 * h.coverage:.1f}" for h in held) for held in (own, before)]
        ratios = [
            h.score / b.score if b.score > 0.0 else 1.0 for h, b in zip(own, before, strict=True)
        ]
        ratio = ", ".join(f"{r:.3f}" for r in ratios)
        rows.append([name, len(y), *cells, ratio])
    report.note(
        f"Coverage on held-out series, sets and texts. At most the first {MOST_HELD_OUT} samples "
        "are used, with seed 1 and no delay. The columns `calibrated` and `distribution` have the "
        "coverage in percent of 50, 80 and 95 % intervals, without the first tenth. The last "
        "column has the interval scores of `calibrated` divided by those of `distribution`."
    )
    report.table(["series", "n", OURS, BEFORE, "scores"], rows)
    report.note(
        f"In {n_held} of {n_runs} runs, the coverage differs from each level by at most 1.5 points "
        f"or 2.5 standard errors, whichever is larger. In {bad} of {blocks} blocks of {BLOCK} "
        "samples, the coverage differs from the level by more than 6 points and 3 standard errors."
    )
    rows, n_held = [], 0
    for name, samples in itertools.islice(_labelled(data), 2 if quick else None):
        progress(name)
        model = Calibrated(AdaptiveMondrianForestClassifier(seed=1))
        found = []
        for x, label in samples:
            own_set = model.predict_set_one(x, COVERAGE)
            found.append((label in own_set, len(own_set)))
            model.learn_one(x, label)
        late_part = np.array(found[len(found) // 10 :], dtype=float)
        share, size = late_part.mean(axis=0)
        is_held = share >= COVERAGE - _allowed(COVERAGE, len(late_part), 0.01, 2.5)
        n_held += is_held
        rows.append([name, len(found), f"{100 * share:.1f}", f"{size:.3f}"])
    report.note(
        "The next table has the coverage and the mean size of sets of classes with a level of "
        f"{COVERAGE:.0%}. On {n_held} sets the coverage is at most 1 point, or 2.5 standard "
        "errors, below this level."
    )
    report.table(["set", "n", "coverage, %", "size"], rows)


# Time and memory.

COSTLY: dict[str, Callable[[], Any]] = {
    "River's linear regression": (
        lambda: preprocessing.StandardScaler() | linear_model.LinearRegression()
    ),
    "exact regressor": lambda: MondrianForestRegressor(seed=1),
    "adaptive regressor": lambda: AdaptiveMondrianForestRegressor(seed=1),
    "adaptive classifier": lambda: AdaptiveMondrianForestClassifier(seed=1),
}


def _learned(model: Any, samples: Stream, *predict: str) -> Iterator[str]:
    calls = [getattr(model, name) for name in predict]
    for start in range(0, len(samples), 100):
        for x, y in samples[start : start + 100]:
            for call in calls:
                call(x)
            model.learn_one(x, y)
        yield ""


def cost(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the processor time and memory of `Calibrated`."""
    n, repeats = (600, 1) if quick else (3000, 5)
    samples, rows = list(synth.Friedman(seed=1).take(n)), []
    for name, make in COSTLY.items():
        progress(name)
        point, sets, own = "predict_one", "predict_interval_one", samples
        if "classifier" in name:
            point, sets = "predict_proba_one", "predict_set_one"
            own = [(x, y > 14.0) for x, y in samples]

        def peers(
            seed: int, make: Any = make, own: Stream = own, point: str = point, sets: str = sets
        ) -> dict[str, Iterator[str]]:
            return {
                "alone": _learned(make(), own, point),
                "sets": _learned(Calibrated(make()), own, sets),
                "both": _learned(Calibrated(make()), own, point, sets),
            }

        for steps in peers(0).values():  # Compile kernels before timing.
            list(steps)
        runs = repeated(repeats, peers, TURN, time.process_time)
        us = [1e6 * median(runs, peer, "") / n for peer in ("alone", "sets", "both")]
        model = Calibrated(make())
        list(_learned(model, own[:100], sets))
        tracemalloc.start()
        for x, _ in synth.Friedman(seed=2).take(1000):
            getattr(model, sets)(x)
        size = tracemalloc.get_traced_memory()[0] / 1000
        tracemalloc.stop()
        rows.append(
            [name, *(f"{t:.1f}" for t in (us[0], us[1] - us[0], us[2] - us[0])), f"{size:.0f}"]
        )
    report.note(
        "Processor time and memory of `Calibrated`, with ten features. The column `us` has the "
        f"microseconds to predict and learn a sample without the wrapper, for the first {n} "
        "samples of Friedman. The column `+ us` has the additional microseconds if intervals or "
        "sets are predicted with the wrapper. The next column also includes predictions of points "
        f"or probabilities. Times are medians of {repeats} repeats, in which the models take "
        "turns. The last column has the memory of a sample that waits for its label."
    )
    report.table(["model", "us", "+ us", "+ us, with points", "bytes"], rows)


# Pictures.


def _moving(inside: Array, window: int) -> Array:
    sums = np.concatenate([[0.0], np.cumsum(inside)])
    moving: Array = (sums[window:] - sums[:-window]) / window
    return moving


def pictures(data: DataFolder, report: Report, quick: bool) -> None:
    """Draw coverage over time, reliability with and without calibration, and sizes of sets."""
    plt = pyplot()
    if plt is None:
        return
    names = ("abrupt", "ahead", "price")
    figure, axes = plt.subplots(3, len(names), figsize=(15, 11))
    window, level = (50, 1) if quick else (500, 1)
    for column, name in zip(axes.T, names, strict=True):
        samples = load(DataFolder(data.folder), name, 400 if quick else 10_000)
        if samples is None:
            continue
        progress(name)
        y = np.array([t for _, t in samples], dtype=float)
        found = _follow(samples, SOURCES[name].delay, 1, others=False)
        q = LEVELS[level]
        for method, ends in ((BEFORE, found[BEFORE]), (OURS, found[OURS])):
            inside = (ends.low[level] <= y) & (y <= ends.high[level])
            moving = _moving(inside, window)
            column[0].plot(np.arange(len(moving)) + window, moving, label=method)
            whole = [((a <= y) & (y <= b)).mean() for a, b in zip(ends.low, ends.high, strict=True)]
            column[1].plot(LEVELS, whole, "o-", label=method)
        band = 2.0 * math.sqrt(q * (1.0 - q) / window)
        column[0].axhspan(q - band, q + band, color="0.9")
        column[0].set(title=name, xlabel="samples", ylabel=f"in {q:.0%} intervals, moving")
        column[1].plot([0, 1], [0, 1], color="0.7")
        column[1].set(xlabel="asked for", ylabel="held")
    streams: dict[str, Callable[[int], Stream]] = {k: MADE[k] for k in ("LED", "SEADrift")}
    streams["ImageSegments"] = MADE["ImageSegments"]
    for ax, (name, make) in zip(axes[2], streams.items(), strict=True):
        progress(name)
        sets_found = _follow_sets(make(300 if quick else 3000), 0, 1)
        # Calibrated methods have the same color in all rows.
        for method in ("split, 1 - p", OURS):
            sizes = np.array([size for _, size in sets_found[method]])
            ax.plot(_moving(sizes, 100), label=method)
        ax.set(title=name, xlabel="samples", ylabel=f"size of {COVERAGE:.0%} sets, moving")
        ax.legend()
    axes[0, 0].legend()
    figure.tight_layout()
    report.note(
        "Coverage over time, reliability with and without calibration, and sizes of sets. The "
        f"top row shows the coverage of the latest {window} targets, with a band of two standard "
        "errors on either side. The middle row shows the coverage over the whole stream by "
        "level. The bottom row shows mean sizes of sets of classes over 100 samples."
    )
    report.figure(figure, "")
    plt.close(figure)


PARTS: dict[str, Callable[..., None]] = {
    "intervals": intervals,
    "late": late,
    "sets": sets,
    "held_out": held_out,
    "cost": cost,
    "pictures": pictures,
}
