"""Streams with class labels, from River and from files."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from river import datasets
from river.datasets import synth

from ..data import DataFolder, Stream, available, stream, take

PREFIX = 5000
# Streams with many features, on which SRP does not run, because it is too slow.
WIDE = ("mnist",)

# Most settings were selected on these streams. Two settings were also selected on the other streams
# except mnist: the share of recent trees, and the way to draw candidate splits.
CHOSEN_ON = ("elec2", "Agrawal", "dna", "covtype", "Bananas", "Phishing", "ImageSegments")
CHOSEN_ON += ("letter", "LED", "SineDrift", "AgrawalDrift", "SEADrift", "Hyperplane", "a9a")


# Functions that return data sets. A stream joins the first samples of each data set.
MADE: dict[str, Callable[[], list[Any]]] = {
    "Agrawal": lambda: [synth.Agrawal(classification_function=0, seed=1)],
    "LED": lambda: [synth.LED(seed=1, noise_percentage=0.1, irrelevant_features=True)],
    "SineDrift": lambda: [synth.Sine(0, seed=1), synth.Sine(1, seed=2)],
    "AgrawalDrift": lambda: [synth.Agrawal(2, seed=1), synth.Agrawal(6, seed=2)],
    "SEADrift": lambda: [synth.SEA(0, noise=0.1, seed=1), synth.SEA(2, noise=0.1, seed=2)],
    "Hyperplane": lambda: [
        synth.Hyperplane(seed=1, n_features=10, n_drift_features=5, mag_change=0.001)
    ],
    "RandomRBF": lambda: [synth.RandomRBF(1, 1, n_classes=4, n_centroids=20)],
    "RBFDrift": lambda: [
        synth.RandomRBFDrift(1, 1, n_classes=4, n_centroids=20, change_speed=0.001)
    ],
    "Bananas": lambda: [datasets.Bananas()],
    "Phishing": lambda: [datasets.Phishing()],
    "ImageSegments": lambda: [datasets.ImageSegments()],
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


def _load(data: DataFolder, name: str, n: int) -> Stream:
    if name in MADE:
        data.check_selected(name)
        return [sample for part in MADE[name]() for sample in take(part, n)]
    arrays = data.load(name)
    X, y = arrays["X_train"], arrays["y_train"]
    if "X_test" in arrays and len(X) < n:
        X, y = np.vstack([X, arrays["X_test"]]), np.concatenate([y, arrays["y_test"]])
    if FILES[name]:
        order = np.random.default_rng(0).permutation(len(X))
        X, y = X[order], y[order]
    return stream(X, y, n)


def class_streams(
    data: DataFolder, n: int, names: Iterable[str] = (*MADE, *FILES)
) -> Iterator[tuple[str, Stream]]:
    """Yield the name and the samples of each stream: the first n of each of its data sets."""
    return available(lambda name: _load(data, name, n), names)
