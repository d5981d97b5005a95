"""Accuracy on streams, with and without missing values."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from river import base, datasets, preprocessing, stats, tree
from river import forest as river_forest
from river.datasets import synth

from river_mondrian import MondrianForestClassifier

from ..data import Array, DataFolder, Stream, stream, take
from ..report import Report, progress
from ..timing import BLOCK, TURN, alternate
from .peers import OURS, make_amf, make_ours

FLOOR = 1e-3  # Smallest probability in the log loss.


class LastLabel(base.Classifier):
    """Classifier that predicts the last label."""

    def __init__(self) -> None:
        self.last: Any = None

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Any, y: Any, **kwargs: Any) -> None:
        self.last = y

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Any, float]:
        return {} if self.last is None else {self.last: 1.0}


def _online(name: str) -> Any:
    """Return a new model by name."""
    if name == OURS:
        return make_ours(1)
    if name == "MinMaxScaler + AMF":
        return preprocessing.MinMaxScaler() | make_amf(1)
    if name == "ARF":
        return river_forest.ARFClassifier(n_models=10, seed=1)
    if name == "HoeffdingTree":
        return tree.HoeffdingTreeClassifier()
    return LastLabel()


def progressive(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare progressive accuracy and log loss on streams with River's classifiers."""
    MondrianForestClassifier.warmup()
    peers = (OURS, "MinMaxScaler + AMF", "ARF", "HoeffdingTree", "last label")
    rows = []
    for name, samples in _streams(data, 1000 if quick else 10_000):
        progress(f"progressive: {name}, {', '.join(peers)}")
        models = {peer: _online(peer) for peer in peers}
        scores: dict[str, list[float]] = {peer: [0.0, 0.0] for peer in peers}
        scored = {peer: _score(models[peer], samples, scores[peer]) for peer in peers}
        seconds = alternate(scored, TURN)
        for peer, (right, loss) in scores.items():
            rows.append(
                (
                    name,
                    len(samples),
                    peer,
                    f"{right / len(samples):.4f}",
                    f"{loss / len(samples):.3f}",
                    f"{seconds[peer]['both']:.2f}",
                )
            )
    report.note(
        "Progressive accuracy and log loss on streams, compared with River's classifiers. Each "
        "sample is predicted and then learned. The models have seed 1, and the forests 10 trees. "
        "Parameters are default, and features are raw (scaled for AMF only). A probability below "
        f"{FLOOR} counts as {FLOOR}; this includes labels not seen before."
    )
    report.table(("data", "n", "model", "accuracy", "log loss", "seconds"), rows)


def _streams(data: DataFolder, n: int) -> Iterator[tuple[str, Stream]]:
    yield "Bananas", take(datasets.Bananas(), n)
    yield "Phishing", take(datasets.Phishing(), n)
    yield "ImageSegments", take(datasets.ImageSegments(), n)
    from sklearn.datasets import load_digits

    digits = load_digits()
    yield "digits", stream(digits.data, digits.target, n)
    yield "Agrawal", take(synth.Agrawal(seed=1), n)
    yield (
        "RandomRBF",
        take(synth.RandomRBF(seed_model=1, seed_sample=1, n_classes=4, n_features=10), n),
    )
    for name in ("letter", "covtype", "elec2"):
        arrays = data.load(name)
        if arrays is not None:
            yield name, stream(arrays["X_train"], arrays["y_train"], n)


def _score(model: Any, samples: Stream, scores: list[float]) -> Iterator[str]:
    """Add each sample's hit and log loss to `scores`; yield after each block."""
    for i, (x, y) in enumerate(samples, 1):
        probabilities = model.predict_proba_one(x)
        if probabilities:
            scores[0] += max(probabilities, key=probabilities.__getitem__) == y
        scores[1] -= math.log(max(probabilities.get(y, 0.0), FLOOR))
        model.learn_one(x, y)
        if i % BLOCK == 0 or i == len(samples):
            yield "both"


def missing(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare accuracy with absent values and accuracy with running means in their place."""
    letter = data.load("letter")
    if letter is None:
        return
    MondrianForestClassifier.warmup()
    n, seeds = (1000, 1) if quick else (10_000, 3)
    whole = stream(letter["X_train"], letter["y_train"], n)
    rows = []
    for share in (0.0, 0.2, 0.4):
        found: dict[str, list[list[float]]] = {}
        for seed in range(seeds):
            progress(f"missing: {share:.0%}, seed {seed}")
            rng = random.Random(seed)
            holes = [[rng.random() < share for _ in x] for x, _ in whole]
            absent = [
                ({name: v for (name, v), hole in zip(x.items(), row, strict=True) if not hole}, y)
                for (x, y), row in zip(whole, holes, strict=True)
            ]
            none: Any = [({name: x.get(name) for name in whole[0][0]}, y) for x, y in absent]
            means = ((name, stats.Mean()) for name in whole[0][0])
            for how, model, samples in (
                ("absent", make_ours(seed), absent),
                ("running mean", preprocessing.StatImputer(*means) | make_ours(seed), none),
            ):
                scores = [0.0, 0.0]
                for _ in _score(model, samples, scores):
                    pass
                found.setdefault(how, []).append(scores)
        ours, imputed = (np.array(found[how]) / n for how in ("absent", "running mean"))
        rows.append(
            (
                f"{share:.0%}",
                _spread(ours[:, 0]),
                _spread(imputed[:, 0]),
                f"{(ours - imputed)[:, 0].mean():+.4f}",
                _spread(ours[:, 1]),
                _spread(imputed[:, 1]),
            )
        )
    report.note(
        "Accuracy with absent values, compared with running means in their place. In the first "
        f"{n} samples of letter, each value is absent with the probability in the first column. "
        "The other columns have the progressive accuracy and log loss with 10 trees: the mean +- "
        f"standard deviation of {seeds} seeds of forest and absent values. An absent feature is "
        "not in the mapping. Running means are from StatImputer with stats.Mean() before the "
        "Mondrian forest."
    )
    report.table(
        (
            "absent",
            "accuracy",
            "with running mean",
            "difference",
            "log loss",
            "with running mean",
        ),
        rows,
    )


def _spread(values: Array) -> str:
    return f"{values.mean():.4f} +- {values.std():.4f}"
