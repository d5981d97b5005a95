"""Scores of the adaptive forest and of River's classifiers, and scores by number of trees."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import datasets, ensemble, forest, preprocessing, tree
from river.datasets import synth

from river_mondrian import AdaptiveMondrianForestClassifier, MondrianForestClassifier

from ..data import Array, DataFolder, Stream, stream, take
from ..report import Report, progress

FLOOR = 1e-3
PREFIX = 5000
LONG = 20_000
N_TREES = 10

# Most settings were selected on these streams. Two settings were also selected on the other streams
# except mnist: the share of recent trees, and the way to draw candidate splits.
CHOSEN_ON = ("elec2", "Agrawal", "dna", "covtype", "Bananas", "Phishing", "ImageSegments")
CHOSEN_ON += ("letter", "LED", "SineDrift", "AgrawalDrift", "SEADrift", "Hyperplane", "a9a")


def _joined(first: Any, second: Any, n: int) -> Stream:
    return take(first, n) + take(second, n)


MADE: dict[str, Callable[[int], Stream]] = {
    "Agrawal": lambda n: take(synth.Agrawal(classification_function=0, seed=1), n),
    "LED": lambda n: take(synth.LED(seed=1, noise_percentage=0.1, irrelevant_features=True), n),
    "SineDrift": lambda n: _joined(
        synth.Sine(classification_function=0, seed=1),
        synth.Sine(classification_function=1, seed=2),
        n,
    ),
    "AgrawalDrift": lambda n: _joined(
        synth.Agrawal(classification_function=2, seed=1),
        synth.Agrawal(classification_function=6, seed=2),
        n,
    ),
    "SEADrift": lambda n: _joined(
        synth.SEA(variant=0, noise=0.1, seed=1), synth.SEA(variant=2, noise=0.1, seed=2), n
    ),
    "Hyperplane": lambda n: take(
        synth.Hyperplane(seed=1, n_features=10, n_drift_features=5, mag_change=0.001), n
    ),
    "RandomRBF": lambda n: take(
        synth.RandomRBF(seed_model=1, seed_sample=1, n_classes=4, n_centroids=20), n
    ),
    "RBFDrift": lambda n: take(
        synth.RandomRBFDrift(
            seed_model=1, seed_sample=1, n_classes=4, n_centroids=20, change_speed=0.001
        ),
        n,
    ),
    "Bananas": lambda n: take(datasets.Bananas(), n),
    "Phishing": lambda n: take(datasets.Phishing(), n),
    "ImageSegments": lambda n: take(datasets.ImageSegments(), n),
}
# Data sets from files, and whether their rows are shuffled.
FILES = {
    "elec2": False,
    "covtype": False,
    "letter": False,
    "dna": True,
    "satimage": True,
    "a9a": False,
    "mnist": False,
}


def load(data: DataFolder, name: str, n: int) -> Stream | None:
    if name in MADE:
        return MADE[name](n) if not data.sets or name in data.sets else None
    arrays = data.load(name)
    if arrays is None:
        return None
    X, y = arrays["X_train"], arrays["y_train"]
    if "X_test" in arrays and len(X) < n:
        X, y = np.vstack([X, arrays["X_test"]]), np.concatenate([y, arrays["y_test"]])
    if FILES[name]:
        order = np.random.default_rng(0).permutation(len(X))
        X, y = X[order], y[order]
    return stream(X, y, n)


def adaptive_forest(seed: int) -> Any:
    # River's forests have 10 trees by default.
    return AdaptiveMondrianForestClassifier(N_TREES, seed=seed)


def standardized_amf(seed: int) -> Any:
    """Return a pipeline of a scaler and AMF, which prefers to split features with wide ranges."""
    return preprocessing.StandardScaler() | forest.AMFClassifier(seed=seed)


MODELS: dict[str, Callable[[int], Any]] = {
    "adaptive": adaptive_forest,
    "exact": lambda seed: MondrianForestClassifier(seed=seed),
    "AMF": standardized_amf,
    "ARF": lambda seed: forest.ARFClassifier(seed=seed),
    "SRP": lambda seed: ensemble.SRPClassifier(n_models=10, seed=seed),
    "HAT": lambda seed: tree.HoeffdingAdaptiveTreeClassifier(seed=seed),
    "AMF, raw": lambda seed: forest.AMFClassifier(seed=seed),
    "last label": lambda seed: LastLabel(),
}
PEERS = ("AMF", "AMF, raw", "ARF", "SRP", "HAT")
WIDE = ("mnist",)


class LastLabel:
    """Classifier that predicts the last label with the frequency of its correct predictions."""

    def __init__(self) -> None:
        self.last: Any = None
        self.seen: set[Any] = set()
        self.n, self.right = 0, 0

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        if self.last is None:
            return {}
        p = (self.right + 1.0) / (self.n + 2.0)
        others = len(self.seen) - 1
        rest = (1.0 - p) / others if others else 0.0
        return {label: p if label == self.last else rest for label in self.seen}

    def learn_one(self, x: Any, y: Any) -> None:
        if self.last is not None:
            self.n += 1
            self.right += y == self.last
        self.last = y
        self.seen.add(y)


def scores(model: Any, samples: Stream) -> tuple[float, float, float]:
    """Return progressive accuracy, log loss and Brier score."""
    right, loss, brier = 0, 0.0, 0.0
    for x, y in samples:
        p = model.predict_proba_one(x)
        right += bool(p) and max(p, key=p.__getitem__) == y
        own = p.get(y, 0.0)
        loss -= math.log(max(own, FLOOR))
        brier += 1.0 - 2.0 * own + sum(q * q for q in p.values())
        model.learn_one(x, y)
    n = len(samples)
    return right / n, loss / n, brier / n


def _runs(name: str, make: Callable[[int], Any], samples: Stream, seeds: int) -> Array:
    """Return scores, samples per second of processor time and MiB, with a row for each seed."""
    found = []
    for seed in range(1, seeds + 1):
        progress(f"{name}, seed {seed}")
        model = make(seed)
        start = time.process_time()
        found_scores = scores(model, samples)
        rate = len(samples) / (time.process_time() - start)
        size = getattr(model, "_raw_memory_usage", 0) / 2**20
        found.append([*found_scores, rate, size])
    return np.array(found)


def _compare(
    data: DataFolder, report: Report, n: int, seeds: dict[str, int], least: int = 0
) -> dict[str, list[float]]:
    """Run models, each with its number of seeds, on the first `n` samples of all streams.

    Streams of at most `least` samples are skipped. Wide streams are run with one seed and without
    the slowest peer. Returns the scores of the adaptive forest.
    """
    n_streams, better = 0, {"accuracy": 0, "log loss": 0}
    ours: dict[str, list[float]] = {}
    errors: dict[str, Array] = {}
    tables: dict[str, list[list[Any]]] = {"scores": [], "samples/s": [], "MiB": []}
    for name in (*MADE, *FILES):
        samples = load(data, name, n)
        if samples is None or len(samples) <= least:
            continue
        found = {}
        for model in ("adaptive", "exact"):  # Compile kernels before timing.
            scores(MODELS[model](0), samples[:300])
        for model, model_seeds in seeds.items():
            if name in WIDE:
                if model == "SRP":
                    continue
                model_seeds = 1
            runs = _runs(f"{name}, {model}", MODELS[model], samples, model_seeds)
            found[model] = runs.mean(axis=0).tolist()
            if model_seeds > 1:
                error = runs[:, :3].std(axis=0, ddof=1) / math.sqrt(model_seeds)
                errors[model] = np.maximum(errors.get(model, 0.0), error)
        own = ours[name] = found["adaptive"]
        rivals = [found[peer] for peer in PEERS if peer in found]
        n_streams += 1
        better["accuracy"] += own[0] >= max(rival[0] for rival in rivals)
        better["log loss"] += own[1] <= min(rival[1] for rival in rivals)
        marked = [name if name in CHOSEN_ON else f"{name} *", len(samples)]
        texts = {
            "scores": lambda s: f"{s[0]:.4f} / {s[1]:.3f} / {s[2]:.3f}",
            "samples/s": lambda s: f"{s[3]:,.0f}",
            "MiB": lambda s: f"{s[4]:.1f}",
        }
        for what, text in texts.items():
            cells = [text(found[model]) if model in found else "-" for model in seeds]
            tables[what].append([*marked, *cells])
    repeats = ", ".join(f"{model} {k}" for model, k in seeds.items())
    report.note(
        f"Progressive accuracy / log loss (floored at {FLOOR}) / Brier score of the adaptive "
        f"forest and of other models. Streams have at most {n} samples, or twice as many if they "
        "have one abrupt drift. Each forest has 10 trees and gets raw features. Features for AMF "
        "are scaled by River's StandardScaler, except in a column named raw. Times are processor "
        f"times. Scores are means over seeds ({repeats}; one on mnist). Streams marked * were not "
        "used to select settings, except the share of recent trees and the way to draw candidate "
        "splits."
    )
    for what, rows in tables.items():
        report.heading(what)
        report.table(["stream", "n", *seeds], rows)
        if what == "scores" and errors:
            largest = (
                f"{model} {a:.4f} / {b:.3f} / {c:.3f}" for model, (a, b, c) in errors.items()
            )
            report.note(f"Largest standard errors of the means: {', '.join(largest)}.")
    for what, count in better.items():
        report.note(
            f"The {what} of the adaptive forest is at least as good as the best result of River's "
            f"models on {count} of {n_streams} streams."
        )
    return ours


def streams(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare accuracy, log loss and Brier score with River's models on all streams."""
    n, most = (600, 1) if quick else (PREFIX, 3)
    seeds = dict.fromkeys(MODELS, most) | {"AMF, raw": 1, "SRP": 1, "last label": 1}
    if quick:
        del seeds["ARF"], seeds["SRP"]
    _compare(data, report, n, seeds)
    samples = load(data, "elec2", n)
    if samples is not None:
        found = _runs(
            "elec2, autoregressive",
            lambda seed: AdaptiveMondrianForestClassifier(N_TREES, autoregressive=True, seed=seed),
            samples,
            most,
        )
        report.note(f"Accuracy on elec2 with `autoregressive=True`: {found[:, 0].mean():.4f}.")


def sizes(data: DataFolder, report: Report, quick: bool) -> None:
    """Compute scores by number of trees, and times relative to 10 trees."""
    n, seeds = (600, 1) if quick else (PREFIX, 3)
    numbers = (5, 10, 20, 30, 50)
    rows: dict[str, list[list[Any]]] = {"accuracy": [], "log loss": [], "time": []}
    found: dict[str, NDArray[np.float64]] = {}
    for name in (*MADE, *FILES):
        samples = load(data, name, n)
        if samples is None:
            continue
        runs = np.empty((len(numbers), seeds, 3))
        # The numbers of trees take turns, so that other load on the machine affects all of them.
        for seed, (place, number) in itertools.product(range(seeds), enumerate(numbers)):
            progress(f"{name}, {number} trees, seed {seed + 1}")
            model = AdaptiveMondrianForestClassifier(number, seed=seed + 1)
            start = time.process_time()
            accuracy, loss, _ = scores(model, samples)
            runs[place, seed] = accuracy, loss, time.process_time() - start
        mean = found[name] = runs.mean(axis=1)
        mean[:, 2] = np.median(runs[:, :, 2] / runs[1, :, 2], axis=1)
        marked = [name if name in CHOSEN_ON else f"{name} *", len(samples)]
        for what, column, digits in (("accuracy", 0, 4), ("log loss", 1, 3), ("time", 2, 2)):
            rows[what].append([*marked, *(f"{value:.{digits}f}" for value in mean[:, column])])
    if found:
        total = np.mean(list(found.values()), axis=0)
        for what, column, digits in (("accuracy", 0, 4), ("log loss", 1, 3), ("time", 2, 2)):
            cells = [f"{value:.{digits}f}" for value in total[:, column]]
            rows[what].append(["mean", "", *cells])
    report.note(
        f"Scores and times of the adaptive forest with {', '.join(map(str, numbers))} trees. "
        f"Progressive scores are means of {seeds} seeds, on at most {n} samples (twice as many on "
        "streams with one abrupt drift). Times are medians of processor times to predict and "
        "learn, relative to 10 trees. Streams marked * were not used to select other settings."
    )
    for what, table in rows.items():
        report.heading(what)
        report.table(["stream", "n", *(f"{number} trees" for number in numbers)], table)


def long(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare scores on longer prefixes of the streams, without the slowest peer."""
    models = ("adaptive", "exact", "AMF", "ARF", "HAT", "last label")
    seeds = {model: 1 for model in models if not (quick and model == "ARF")}
    n, least = (700, 600) if quick else (LONG, PREFIX)
    _compare(data, report, n, seeds, least)
