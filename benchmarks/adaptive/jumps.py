"""Adaptive forest and linear models on streams whose linear boundary jumps or turns."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from river import forest, linear_model, optim, preprocessing

from river_mondrian import AdaptiveMondrianForestClassifier

from ..data import DataFolder, Stream
from ..report import Report, progress
from ..scores import FLOOR
from .comparing import N_TREES

# Number of samples between two changes, and number of samples after each change that have a
# separate score.
EVERY = 2000
FIRST = 500
N_LINES = 4


def _plain(rate: float) -> Callable[[int], Any]:
    def made(seed: int) -> Any:
        line = linear_model.LogisticRegression(optim.SGD(rate))
        return preprocessing.StandardScaler() | line

    return made


MODELS: dict[str, Callable[[int], Any]] = {
    "adaptive, 20 trees": lambda seed: AdaptiveMondrianForestClassifier(seed=seed),
    "adaptive, 10 trees": lambda seed: AdaptiveMondrianForestClassifier(N_TREES, seed=seed),
    "SGD(0.01)": _plain(0.01),
    "SGD(0.1)": _plain(0.1),
    "SGD(1)": _plain(1.0),
    "ARF": lambda seed: forest.ARFClassifier(seed=seed),
}


def _stream(n_features: int, noise: float, turn: float, every: int, seed: int) -> Stream:
    """Return samples of two classes; if `turn` is 0, the boundary jumps instead of turning."""
    rng = np.random.default_rng(seed)
    normal, found = np.zeros(n_features), []
    for i in range(N_LINES * every):
        if i % every == 0:
            drawn = rng.normal(size=n_features)
            if turn and i > 0:
                across = drawn - drawn @ normal * normal
                normal = math.cos(turn) * normal + math.sin(turn) * across / np.linalg.norm(across)
            else:
                normal = drawn / np.linalg.norm(drawn)
        x = rng.normal(size=n_features)
        label = bool(x @ normal > 0.0) != bool(rng.random() < noise)
        found.append((dict(enumerate(x.tolist())), label))
    return found


def jumps(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the adaptive forest with logistic regressions after a boundary jumps or turns.

    Accuracy and log loss after a linear boundary jumps or turns. The inputs are normal, and a
    hyperplane separates two classes. The hyperplane changes {n_changes} times, after every
    {every} samples. The column `noise` has the share of flipped labels. A cell has accuracy /
    accuracy on the {FIRST} samples after each change / log loss. In the log loss, probabilities
    below {FLOOR} count as {FLOOR}. All scores are progressive and start at the first change.
    Cells are means of {seeds} seeds. SGD is StandardScaler | LogisticRegression with the step
    size in parentheses; .01 is the default.
    """
    every, seeds = (300, 1) if quick else (EVERY, 3)
    table = []
    kinds = itertools.product((0.0, math.pi / 6.0), (5, 20), (0.0, 0.1))
    for turn, n_features, noise in kinds:
        name = "30 degrees" if turn else "any"
        cells = []
        for model, make in MODELS.items():
            if quick and model == "ARF":
                continue
            right, losses = np.empty((2, seeds, N_LINES, every))
            for seed in range(seeds):
                progress(f"{name}, {n_features} features, noise {noise}, {model}, seed {seed + 1}")
                learner = make(seed + 1)
                chances = []
                for x, y in _stream(n_features, noise, turn, every, seed + 1):
                    chances.append(learner.predict_proba_one(x).get(y, 0.5))
                    learner.learn_one(x, y)
                of_labels = np.reshape(chances, (N_LINES, every))
                right[seed] = of_labels > 0.5
                losses[seed] = -np.log(np.maximum(of_labels, FLOOR))
            after = right[:, 1:]
            means = after.mean(), after[:, :, :FIRST].mean(), losses[:, 1:].mean()
            cells.append(" / ".join(f"{mean:.3f}" for mean in means))
        table.append([name, n_features, noise, *cells])
    report.about(jumps, n_changes=N_LINES - 1, every=every, seeds=seeds)
    models = [model for model in MODELS if not (quick and model == "ARF")]
    report.table(["turn", "features", "noise", *models], table)
