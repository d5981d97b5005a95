"""Text as mappings, without dense arrays."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from river import linear_model, optim
from scipy import sparse

from river_mondrian import DualOGDClassifier, IsolationFeatures, NystromFeatures, OGDClassifier

from ..data import DataFolder, Stream
from ..report import Report, progress
from .models import IK_A, IK_I, NOGD, OGD, RATE, T


def _samples(data: DataFolder, quick: bool) -> tuple[str, Stream, Stream] | None:
    """Return a name, and training and test texts as mappings from words to numbers."""
    if data.folder is None:
        rng = np.random.default_rng(0)
        samples = []
        for i in range(600 if quick else 4000):
            common = rng.zipf(1.3, 40) % 100_000
            topic = 100_000 + 500 * (i % 2) + rng.integers(0, 500, 20)
            samples.append(({f"w{word}": 1.0 for word in (*common, *topic)}, i % 2))
        n = 3 * len(samples) // 4
        return "made-up text", samples[:n], samples[n:]
    arrays = data.load("reuters_acq")
    if arrays is None:
        return None
    found = []
    for part in ("train", "test"):
        values, places = (arrays[f"X_{part}_{kind}"] for kind in ("data", "indices"))
        starts, y = arrays[f"X_{part}_indptr"], arrays[f"y_{part}"]
        order = np.random.default_rng(0).permutation(len(y))[: 400 if quick else None]
        found.append(
            [
                (
                    {
                        f"w{place}": value
                        for place, value in zip(
                            places[starts[i] : starts[i + 1]].tolist(),
                            values[starts[i] : starts[i + 1]].tolist(),
                            strict=True,
                        )
                    },
                    int(y[i]),
                )
                for i in order
            ]
        )
    return "reuters_acq", found[0], found[1]


def _models(train: Stream, pool: int, quick: bool) -> dict[str, Callable[[], tuple[str, Any]]]:
    """Return, by name, functions that return the selected setting and a new model."""
    hinge = {"loss": "hinge", "learning_rate": RATE}
    grid = (0.03,) if quick else (0.01, 0.03, 0.1, 0.3, 1.0)

    def best(make: Callable[[float], Any]) -> tuple[str, Any]:
        """Select a lifetime by the accuracy on the last fifth of some training samples."""
        part = train[:2000]
        cut = len(part) * 4 // 5

        def score(lifetime: float) -> float:
            model = make(lifetime)
            for x, y in part[:cut]:
                model.learn_one(x, y)
            return statistics.mean(model.predict_one(x) == y for x, y in part[cut:])

        lifetime = max(grid, key=score)
        return f"lifetime {lifetime}", make(lifetime)

    def isolation(method: str, linear: bool = False) -> tuple[str, Any]:
        features = IsolationFeatures(T, 256, method=method, pool_size=pool, seed=1)
        return "psi 256", OGDClassifier(features=features, linear=linear, **hinge)

    return {
        IK_A: lambda: isolation("anne"),
        IK_I: lambda: isolation("iforest"),
        f"{IK_A} and words": lambda: isolation("anne", linear=True),
        OGD: lambda: best(
            lambda lifetime: DualOGDClassifier("laplace", lifetime, learning_rate=RATE)
        ),
        NOGD: lambda: best(
            lambda lifetime: OGDClassifier(
                features=NystromFeatures(T, kernel="laplace", lifetime=lifetime), **hinge
            )
        ),
        "River's LogisticRegression": lambda: (
            "SGD(10)",
            linear_model.LogisticRegression(optim.SGD(10.0)),
        ),
    }


def text(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure accuracy, time and memory on text as mappings."""
    sets = _samples(data, quick)
    if sets is None:
        return
    name, train, test = sets
    pool = min(1024, len(train))
    rows = []
    for peer, make in _models(train, pool, quick).items():
        progress(f"text: {peer}")
        setting, model = make()
        warm = copy.deepcopy(model)
        for x, y in train[:100]:
            warm.learn_one(x, y)
            warm.predict_one(x)
        began = time.perf_counter()
        for x, y in train:
            model.learn_one(x, y)
        learned = time.perf_counter()
        right = [int(model.predict_one(x)) == y for x, y in test]
        predicted = time.perf_counter()
        rows.append(
            (
                peer,
                setting,
                f"{statistics.mean(right):.4f}",
                f"{1e6 * (learned - began) / len(train):.0f}",
                f"{1e6 * (predicted - learned) / len(test):.0f}",
                "-" if "River" in peer else f"{model._raw_memory_usage / len(train):.0f}",
            )
        )
    rows.append(_svm(train, test, pool))
    words = {word for x, _ in train for word in x}
    report.note(
        f"Accuracy, time and memory on text as mappings. The set {name} has {len(train)} training "
        f"samples with {statistics.mean((len(x) for x, _ in train)):.0f} of {len(words)} words on "
        f"average, and {len(test)} test samples. The isolation kernels have {T} partitions and a "
        f"pool of {pool} samples, and NOGD has the budget {T}. The models learn the training "
        "samples once. All models except River's have the hinge loss and the constant learning "
        f"rate {RATE}. Lifetimes are selected on the first 2,000 samples. IK_a-SVM is LinearSVC on "
        "the final cells of all training samples."
    )
    report.table(
        ("model", "setting", "accuracy", "learn, us", "predict, us", "bytes per training row"), rows
    )


def _svm(train: Stream, test: Stream, pool: int) -> tuple[str, ...]:
    from sklearn.svm import LinearSVC

    features = IsolationFeatures(T, 256, pool_size=pool, seed=1)
    for x, _ in train:
        features.learn_one(x)

    def matrix(samples: Stream) -> sparse.csr_matrix:
        cells = np.array([features.cells_one(x) for x, _ in samples])
        columns = cells + features.n_cells * np.arange(T)
        starts = np.arange(0, columns.size + 1, T)
        shape = (len(samples), T * features.n_cells)
        return sparse.csr_matrix((np.full(columns.size, 0.1), columns.ravel(), starts), shape)

    began = time.perf_counter()
    model = LinearSVC(C=1.0).fit(matrix(train), [y for _, y in train])
    learned = time.perf_counter()
    accuracy = model.score(matrix(test), [y for _, y in test])
    predicted = time.perf_counter()
    return (
        "IK_a-SVM",
        "psi 256, C 1",
        f"{accuracy:.4f}",
        f"{1e6 * (learned - began) / len(train):.0f}",
        f"{1e6 * (predicted - learned) / len(test):.0f}",
        f"{features._raw_memory_usage / len(train):.0f}",
    )
