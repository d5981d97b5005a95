"""Scores, time and memory of the adaptive forest and of River's classifiers."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from river import ensemble, forest, preprocessing, tree
from river.datasets import synth

from river_mondrian import AdaptiveMondrianForestClassifier, MondrianForestClassifier

from ..costs import report_long_run, report_speed
from ..data import Array, DataFolder, Stream
from ..report import Report, progress
from ..scores import class_scores
from ..timing import BLOCK, in_turns
from .streams import CHOSEN_ON, PREFIX, WIDE, class_streams

N_TREES = 10


class LastLabel:
    """Classifier that predicts the last label, with its smoothed accuracy as the probability."""

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
# Models that run with one seed.
ONCE = ("SRP", "AMF, raw", "last label")


def _follow(
    make: Callable[[int], Any], samples: Stream, seed: int, out: dict[str, Any]
) -> Iterator[str]:
    """Predict and learn samples; write the scores, and the memory in MiB."""
    model, scores = make(seed), []
    for start in range(0, len(samples), BLOCK):
        block = samples[start : start + BLOCK]
        scores.append(len(block) * np.array(class_scores(model, block)))
        yield "both"
    out["scores"] = np.sum(scores, axis=0) / len(samples)
    out["MiB"] = getattr(model, "_raw_memory_usage", 0) / 2**20


def streams(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare accuracy, log loss and Brier score with River's models on all streams.

    Progressive accuracy / log loss / Brier score of the adaptive forest and of other models. In
    the log loss, probabilities below .001 count as .001. Streams have at most {n} samples, or
    twice as many if they have one abrupt drift. Each forest has 10 trees. Features for AMF are
    scaled by River's StandardScaler, except in the column `AMF, raw`. All other models get raw
    features. The models take turns, and times are processor times. Scores are means over seeds
    ({repeats}; one on mnist). Most settings were selected only on the streams without a mark.
    The share of recent trees and the way to draw candidate splits were also selected on the
    streams marked *, except mnist.
    """
    n, most = (600, 1) if quick else (PREFIX, 3)
    seeds = {model: 1 if model in ONCE else most for model in MODELS}
    if quick:
        del seeds["ARF"], seeds["SRP"]
    better = dict.fromkeys(("accuracy", "log loss"), 0)
    errors: dict[str, Array] = {}
    tables: dict[str, list[list[Any]]] = {"scores": [], "samples/s": [], "MiB": []}
    for name, samples in class_streams(data, n):
        progress(name)
        for model in ("adaptive", "exact"):  # Compile kernels before timing.
            class_scores(MODELS[model](0), samples[:300])
        own = seeds if name not in WIDE else {m: 1 for m in seeds if m != "SRP"}
        peers = {model: partial(_follow, MODELS[model], samples) for model in own}
        runs = in_turns(peers, own)
        found = {}
        for model, outs in runs.items():
            scores = np.array([out["scores"] for out in outs])
            rate = np.mean([len(samples) / out["seconds"] for out in outs])
            found[model] = *scores.mean(axis=0), rate, np.mean([out["MiB"] for out in outs])
            if len(outs) > 1:
                error = scores.std(axis=0, ddof=1) / math.sqrt(len(outs))
                errors[model] = np.maximum(errors.get(model, 0.0), error)
        rivals = [found[peer] for peer in PEERS if peer in found]
        better["accuracy"] += found["adaptive"][0] >= max(rival[0] for rival in rivals)
        better["log loss"] += found["adaptive"][1] <= min(rival[1] for rival in rivals)
        texts = {
            "scores": lambda s: f"{s[0]:.4f} / {s[1]:.3f} / {s[2]:.3f}",
            "samples/s": lambda s: f"{s[3]:,.0f}",
            "MiB": lambda s: f"{s[4]:.1f}",
        }
        for what, text in texts.items():
            cells = [text(found[model]) if model in found else "-" for model in seeds]
            tables[what].append([name if name in CHOSEN_ON else f"{name} *", len(samples), *cells])
    repeats = ", ".join(f"{model} {k}" for model, k in seeds.items())
    report.about(streams, n=n, repeats=repeats)
    for what, rows in tables.items():
        report.heading(what)
        report.table(["stream", "n", *seeds], rows)
        if what == "scores" and errors:
            largest = (f"{m} {a:.4f} / {b:.3f} / {c:.3f}" for m, (a, b, c) in errors.items())
            report.note(f"Largest standard errors of the means: {', '.join(largest)}.")
    for what, count in better.items():
        report.note(
            f"The {what} of the adaptive forest is at least as good as the best result of River's "
            f"models on {count} of {len(tables['scores'])} streams."
        )
    for _, samples in class_streams(data, n, ["elec2"]):
        own = [
            class_scores(
                AdaptiveMondrianForestClassifier(N_TREES, autoregressive=True, seed=seed), samples
            )
            for seed in range(1, most + 1)
        ]
        accuracy = np.mean([scores.accuracy for scores in own])
        report.note(f"Accuracy on elec2 with `autoregressive=True`: {accuracy:.4f}.")


def sizes(data: DataFolder, report: Report, quick: bool) -> None:
    """Compute scores by number of trees, and times relative to 10 trees.

    Scores and times of the adaptive forest with {listed} trees. Progressive scores are means of
    {seeds} seeds, on at most {n} samples (twice as many on streams with one abrupt drift).
    Times are processor times to predict and learn, relative to 10 trees. Most other settings
    were selected only on the streams without a mark.
    """
    n, seeds = (600, 1) if quick else (PREFIX, 3)
    numbers = (5, 10, 20, 30, 50)
    makes = {f"{k} trees": partial(AdaptiveMondrianForestClassifier, k) for k in numbers}
    digits = {"accuracy": 4, "log loss": 3, "time": 2}
    found: dict[str, Array] = {}
    lengths: dict[str, Any] = {"mean": ""}
    for name, samples in class_streams(data, n):
        progress(name)
        peers = {
            k: partial(_follow, lambda seed, make=make: make(seed=seed), samples)
            for k, make in makes.items()
        }
        runs = in_turns(peers, dict.fromkeys(peers, seeds))
        values = np.array(
            [[(*out["scores"][:2], out["seconds"]) for out in outs] for outs in runs.values()]
        )
        values[:, :, 2] /= values[numbers.index(10), :, 2]
        label = name if name in CHOSEN_ON else f"{name} *"
        found[label], lengths[label] = values.mean(axis=1), len(samples)
    report.about(sizes, listed=", ".join(map(str, numbers)), seeds=seeds, n=n)
    if found:
        found["mean"] = np.mean(list(found.values()), axis=0)
    for column, (what, places) in enumerate(digits.items()):
        report.heading(what)
        rows = [
            [name, lengths[name], *(f"{value:.{places}f}" for value in values[:, column])]
            for name, values in found.items()
        ]
        report.table(["stream", "n", *makes], rows)


def speed(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the time to predict and learn with River's forests."""
    n, repeats = (500, 1) if quick else (3000, 9)
    found = class_streams(data, n, ("letter", "covtype", "Agrawal"))
    models = {model: MODELS[model] for model in ("adaptive", "exact", "AMF", "ARF")}
    report_speed(report, models, "predict_proba_one", found, repeats)


def memory(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure memory, speed and the longest call over a long stream.

    Memory, speed and the longest call over a long stream. The stream is Agrawal with 5 %
    perturbation. The forest has {N_TREES} trees and window={most}. A row describes a tenth of
    the stream: the memory, the samples per second, the accuracy, and the CPU time of the
    longest learn_one. The samples per second count the time to generate, predict and learn
    samples.
    """
    n, most = (5000, 1000) if quick else (1_000_000, 20_000)
    model = AdaptiveMondrianForestClassifier(N_TREES, window=most, seed=1)
    source = synth.Agrawal(seed=1, perturbation=0.05)
    report.about(memory, most=most)
    report_long_run(report, model, source, n, "accuracy", lambda predicted, y: predicted == y)
