"""Time and memory of forests by number of classes, compared with River's forests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from river import base, forest

from river_mondrian import AdaptiveMondrianForestClassifier, MondrianForestClassifier

from ..data import DataFolder, Stream, stream
from ..report import Report, progress
from ..timing import no_gc

N_TREES = 10
N_FEATURES = 16
# Standard deviation of a class around its centre in the unit cube.
SPREAD = 0.2
# Number of test samples, and number of timed samples at the end of training.
N_PREDICTED = 200
N_TIMED = 1000

Make = Callable[[int], base.Classifier]

OURS: dict[str, Make] = {
    "exact": lambda seed: MondrianForestClassifier(N_TREES, seed=seed),
    "adaptive": lambda seed: AdaptiveMondrianForestClassifier(N_TREES, seed=seed),
}
PEERS: dict[str, Make] = {
    "River's AMF": lambda seed: forest.AMFClassifier(N_TREES, seed=seed),
    "River's ARF": lambda seed: forest.ARFClassifier(N_TREES, seed=seed),
}


class Cost(NamedTuple):
    """Microseconds of each call, accuracy on test samples, and bytes of the model."""

    learn: float
    predict: float
    predict_proba: float
    accuracy: float
    n_bytes: int


def _draw(n: int, n_classes: int, seed: int = 0) -> Stream:
    """Draw samples of classes with normal features."""
    rng = np.random.default_rng(seed)
    centres, y = rng.random((n_classes, N_FEATURES)), rng.integers(n_classes, size=n)
    return stream(centres[y] + SPREAD * rng.standard_normal((n, N_FEATURES)), y)


def _microseconds(call: Callable[..., Any], arguments: list[tuple[Any, ...]]) -> float:
    """Return the mean processor time of a call in microseconds."""
    with no_gc():
        start = time.process_time()
        for one in arguments:
            call(*one)
        return 1e6 * (time.process_time() - start) / len(arguments)


def _cost(model: base.Classifier, samples: Stream, fresh: Stream) -> Cost:
    """Train a model, and return its costs on the last samples."""
    for x, y in samples[:-N_TIMED]:
        model.learn_one(x, y)
    inputs: list[tuple[Any, ...]] = [(x,) for x, _ in fresh]
    # The first call compiles kernels.
    model.predict_one(*inputs[0])
    model.predict_proba_one(*inputs[0])
    learn = _microseconds(model.learn_one, list(samples[-N_TIMED:]))
    predict = _microseconds(model.predict_one, inputs)
    proba = _microseconds(model.predict_proba_one, inputs)
    accuracy = float(np.mean([model.predict_one(x) == y for x, y in fresh]))
    return Cost(learn, predict, proba, accuracy, model._raw_memory_usage)


def classes(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure time and memory against the number of classes."""
    n = 2000 if quick else 10_000
    rows = []
    for n_classes in (26, 100, 1000):
        for n_learned, makes in ((n, OURS), (1200, OURS | PEERS)):
            found = _draw(n_learned + N_PREDICTED, n_classes)
            samples, fresh = found[:n_learned], found[n_learned:]
            for name, make in makes.items():
                if quick and name in PEERS:
                    continue
                progress(f"classes: {n_classes}, {name}, {n_learned} samples")
                cost = _cost(make(1), samples, fresh)
                each = f"{cost.n_bytes / n_learned / N_TREES:,.0f}"
                times = (f"{t:,.0f}" for t in cost[:3])
                rows.append([n_classes, n_learned, name, *times, f"{cost.accuracy:.3f}", each])
    report.note(
        "Time and memory against the number of classes. Classes are normal around centres in the "
        f"unit cube of {N_FEATURES} dimensions, with standard deviation {SPREAD}. The forests have "
        f"{N_TREES} trees. Times are processor times of a call in microseconds: learn_one for the "
        f"latest {N_TIMED} samples, and predictions for {N_PREDICTED} test samples. The accuracy "
        "is on the test samples. Bytes are per sample and tree."
    )
    report.table(
        [
            "classes",
            "samples",
            "forest",
            "learn_one",
            "predict_one",
            "predict_proba_one",
            "accuracy",
            "bytes",
        ],
        rows,
    )
