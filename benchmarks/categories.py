"""Accuracy on streams with categories, compared with encodings and River's models."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from river import ensemble, forest, tree
from river.datasets import synth

from river_mondrian import AdaptiveMondrianForestClassifier, MondrianForestClassifier

from .data import DataFolder, available, take
from .report import Report, progress
from .scores import class_scores

PREFIX = 5000

Samples = list[tuple[dict[str, Any], Any]]

# The features of a9a are one-hot encoded. The mapping has the first column of each feature, and the
# number of columns.
A9A_NAMES = "age workclass fnlwgt education education_num marital_status occupation relationship "
A9A_NAMES += "race sex capital_gain capital_loss hours country"
A9A_STARTS = (0, 5, 13, 18, 34, 39, 46, 60, 66, 71, 73, 75, 77, 82)
A9A = dict(zip(A9A_NAMES.split(), A9A_STARTS, strict=True)) | {"": 123}


def from_one_hot(X: Any, y: Any, starts: dict[str, int], n: int) -> Samples:
    """Return samples in which levels replace one-hot columns; features without a 1 are left out."""
    bounds = list(starts.values())
    parts = list(zip(starts, bounds, bounds[1:], strict=False))
    hot = [{name: np.flatnonzero(row[a:b]) for name, a, b in parts} for row in X[:n]]
    return [
        ({name: f"{name} {at[0]}" for name, at in row.items() if len(at)}, label)
        for row, label in zip(hot, y[:n].tolist(), strict=True)
    ]


def mushrooms(n: int) -> Samples:
    """Return mushrooms with 22 features of 2 to 12 levels; four features determine the class."""
    rng = np.random.default_rng(1)
    sizes = [int(k) for k in rng.integers(2, 13, 22)]
    # The class depends on four features: odour, spores, habitat and population.
    sizes[4], sizes[19], sizes[20], sizes[21] = 9, 9, 6, 7
    samples = []
    for _ in range(n):
        kind = int(rng.integers(4))
        # With probability .4, a feature depends on `kind`, so features are correlated.
        drawn = [
            int((kind * 3 + rng.integers(2)) % k if rng.random() < 0.4 else rng.integers(k))
            for k in sizes
        ]
        odour, spores, habitat, population = (drawn[i] for i in (4, 19, 20, 21))
        kills = odour in (2, 5, 7) or (odour == 0 and spores in (1, 4))
        kills = kills or (spores == 8 and habitat == 3 and population != 2)
        samples.append(({f"a{i}": f"level {v}" for i, v in enumerate(drawn)}, kills))
    return samples


def users(n: int) -> Samples:
    """Return clicks with a user, a page and an hour, for 3,000 users and 40 pages."""
    rng = np.random.default_rng(1)
    tastes, appeal = rng.normal(0.0, 2.0, 3000), rng.normal(0.0, 1.0, 40)
    samples = []
    for _ in range(n):
        user, page = min(int(rng.pareto(0.7) * 10), 2999), int(rng.integers(40))
        hour = rng.random() * 24.0
        score = tastes[user] + appeal[page] + math.sin(hour * math.pi / 12.0)
        clicks = bool(rng.random() < 1.0 / (1.0 + math.exp(-score)))
        samples.append(({"user": f"u{user}", "page": f"p{page}", "hour": hour}, clicks))
    return samples


AGRAWAL = {"elevel", "car", "zipcode"}


def _agrawal(function: int, seed: int, n: int) -> Samples:
    """Return samples of Agrawal in which the values of categorical features are strings."""
    return [
        ({name: f"{name} {v}" if name in AGRAWAL else v for name, v in x.items()}, y)
        for x, y in take(synth.Agrawal(classification_function=function, seed=seed), n)
    ]


MADE: dict[str, Callable[[int], Samples]] = {
    "Agrawal 1": lambda n: _agrawal(0, 1, n),
    "Agrawal 4": lambda n: _agrawal(3, 1, n),
    "Agrawal 9": lambda n: _agrawal(8, 1, n),
    "AgrawalDrift": lambda n: _agrawal(2, 1, n) + _agrawal(6, 2, n),
    "LED": lambda n: [
        ({str(i): bool(v) for i, v in x.items()}, y)
        for x, y in take(synth.LED(seed=1, noise_percentage=0.1, irrelevant_features=True), n)
    ],
    "mushrooms": mushrooms,
    "users": users,
}


def load(data: DataFolder, name: str, n: int) -> Samples:
    """Return the first samples of a stream."""
    data.check_selected(name)
    if name in MADE:
        return MADE[name](n)
    arrays = data.load(name)
    X, y = arrays["X_train"], arrays["y_train"]
    if name == "a9a":
        return from_one_hot(X, y, A9A, n)
    if name == "dna":
        # Three columns encode a base; for the fourth base they are all 0.
        order = np.random.default_rng(0).permutation(len(X))
        starts = {f"base{i}": 3 * i for i in range(61)}
        found = from_one_hot(X[order], y[order], starts, n)
        bases = list(starts)[:-1]
        return [({base: x.get(base, "none") for base in bases}, label) for x, label in found]
    # The columns of covertype are ten numeric features, and the one-hot codes of area and soil.
    found = from_one_hot(X[:n, 10:], y[:n], {"area": 0, "soil": 4, "": 44}, n)
    return [
        ({f"x{i}": float(v) for i, v in enumerate(row)} | x, label)
        for (x, label), row in zip(found, X[:n, :10], strict=True)
    ]


STREAMS = (*MADE, "a9a", "dna", "covtype")


class Encoded:
    """Wrapper that encodes levels for a model; the encoding learns from earlier samples.

    Parameters
    ----------
    model
        The model.
    encoding
        "one-hot", "ordinal" or "target". An ordinal is the index of a level in order of appearance.
        A target encoding has the smoothed frequency of each class, except the first class, among
        the samples with this level.
    """

    def __init__(self, model: Any, encoding: str) -> None:
        self.model, self.encoding = model, encoding
        self.levels: dict[str, dict[str, int]] = defaultdict(dict)
        self.counts: dict[Any, Counter[Any]] = defaultdict(Counter)

    def _encode(self, x: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for name, value in x.items():
            if not isinstance(value, (str, bool)):
                found[name] = value
            elif self.encoding == "one-hot":
                found |= {f"{name}={v}": float(v == value) for v in self.levels[name]}
            elif self.encoding == "ordinal":
                found[name] = self.levels[name].get(value, -1)
            else:
                seen, total = self.counts[name, value], self.counts[None]
                n, all_n = sum(seen.values()), max(1, sum(total.values()))
                for label in list(total)[1:]:
                    share = total[label] / all_n
                    found[f"{name}, {label}"] = (seen[label] + 2.0 * share) / (n + 2.0)
        return found

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Any, float]:
        return self.model.predict_proba_one(self._encode(x))

    def learn_one(self, x: dict[str, Any], y: Any) -> None:
        for name, value in x.items():
            if isinstance(value, (str, bool)):
                self.levels[name].setdefault(value, len(self.levels[name]))
        self.model.learn_one(self._encode(x), y)
        self.counts[None][y] += 1
        for name, value in x.items():
            if isinstance(value, (str, bool)):
                self.counts[name, value][y] += 1


def _exact(seed: int) -> Any:
    return MondrianForestClassifier(seed=seed)


def _adaptive(seed: int) -> Any:
    return AdaptiveMondrianForestClassifier(10, seed=seed)


MODELS: dict[str, Callable[[int], Any]] = {
    "adaptive": _adaptive,
    "adaptive, one-hot": lambda seed: Encoded(_adaptive(seed), "one-hot"),
    "exact": _exact,
    "exact, one-hot": lambda seed: Encoded(_exact(seed), "one-hot"),
    "exact, ordinal": lambda seed: Encoded(_exact(seed), "ordinal"),
    "exact, target": lambda seed: Encoded(_exact(seed), "target"),
    "ARF": lambda seed: forest.ARFClassifier(seed=seed),
    "SRP": lambda seed: ensemble.SRPClassifier(n_models=10, seed=seed),
    "HT": lambda seed: tree.HoeffdingTreeClassifier(),
    "HAT": lambda seed: tree.HoeffdingAdaptiveTreeClassifier(seed=seed),
}
PEERS = ("ARF", "SRP", "HT", "HAT")


def classes(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare accuracy and log loss with River's models on streams with categories.

    Progressive accuracy / log loss on streams with categories, at most the first {n} samples of
    each (AgrawalDrift: twice as many). Scores are means of 3 seeds, and of one seed for SRP.
    The models without an encoding in the name get the levels themselves. One-hot, ordinal and
    target are encodings, learned from earlier samples.
    """
    n, seeds = (1000, (1,)) if quick else (PREFIX, (1, 2, 3))
    rows = []
    for name, samples in available(lambda name: load(data, name, n), STREAMS):
        found: dict[str, tuple[float, float]] = {}
        for model, make in MODELS.items():
            # SRP has one seed, because it is the slowest model.
            own = seeds[:1] if model == "SRP" else seeds
            accuracy, loss, _ = np.mean([class_scores(make(k), samples) for k in own], axis=0)
            found[model] = float(accuracy), float(loss)
            progress(f"{name}: {model} {accuracy:.3f} / {loss:.3f}")
        rows.append([name, *(f"{a:.3f} / {b:.3f}" for a, b in found.values())])
    report.about(classes, n=n)
    report.table(["stream", *MODELS], rows)


PARTS = (classes,)
