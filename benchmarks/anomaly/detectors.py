"""The detectors that are compared, each as a function of a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from river import anomaly, base, preprocessing
from sklearn.ensemble import IsolationForest

from river_mondrian import DensityForest, NearestNeighborDetector, RandomCutForest

from ..data import Array

try:
    import rrcf
except ImportError:
    rrcf = None

# Our detectors, at their defaults.
OURS: dict[str, Callable[[int], Any]] = {
    "DensityForest": lambda seed: DensityForest(seed=seed),
    "NearestNeighborDetector": lambda seed: NearestNeighborDetector(seed=seed),
    "RandomCutForest": lambda seed: RandomCutForest(seed=seed),
}

# Rows of the window of the isolation forest, and after how many it is fitted again.
WINDOW, FITTED_EVERY = 2048, 256


class Peer(NamedTuple):
    """Another detector, and its number of samples if it is too slow for all."""

    make: Callable[[int], Any]
    most: int | None = None
    # Features with which it is too slow.
    most_features: int | None = None
    # Whether it takes the last value of a series only.
    is_of_series: bool = False


class CutForest(base.AnomalyDetector):
    """`rrcf` as its own examples use it: a sample's mean displacement after it was inserted.

    Trees are over a sliding window. Scoring inserts the sample, so that learning does nothing more.
    """

    def __init__(self, n_trees: int, window: int, seed: int) -> None:
        self.n_trees = n_trees
        self.window = window
        self.seed = seed
        self.trees = [rrcf.RCTree(random_state=1000 * seed + t) for t in range(n_trees)]
        self.n = 0

    def score_one(self, x: dict[Any, float]) -> float:
        """Insert a sample, and return its displacement."""
        point = np.array([x[name] for name in sorted(x)])
        total = 0.0
        for tree in self.trees:
            if len(tree.leaves) >= self.window:
                tree.forget_point(self.n - self.window)
            tree.insert_point(point, index=self.n)
            total += tree.codisp(self.n)
        self.n += 1
        return total / len(self.trees)

    def learn_one(self, x: dict[Any, float]) -> None:
        """Do nothing: the sample has been inserted."""


class WindowedForest:
    """scikit-learn's isolation forest over the latest rows, fitted again from time to time."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def scores(self, X: Array) -> Array:
        """Return the score of each row by the rows before it; 0 before the first fit."""
        scores = np.zeros(len(X))
        for start in range(FITTED_EVERY, len(X), FITTED_EVERY):
            part = slice(start, start + FITTED_EVERY)
            forest = IsolationForest(n_estimators=100, random_state=self.seed)
            forest.fit(X[max(0, start - WINDOW) : start])
            scores[part] = -forest.score_samples(X[part])
        return scores


class LastValue:
    """`GaussianScorer` over the last value of a shingle."""

    def __init__(self) -> None:
        self.scorer = anomaly.GaussianScorer()

    def score_one(self, x: dict[Any, float]) -> float:
        """Return the score of the last value."""
        return float(self.scorer.score_one(None, x[max(x)]))

    def learn_one(self, x: dict[Any, float]) -> None:
        """Learn the last value."""
        self.scorer.learn_one(None, x[max(x)])


def _scaled(make: Callable[[int], Any], scaler: Any) -> Callable[[int], Any]:
    return lambda seed: scaler() | make(seed)


_UNIT, _STANDARD = preprocessing.MinMaxScaler, preprocessing.StandardScaler

PEERS: dict[str, Peer] = {
    "HalfSpaceTrees, 10": Peer(
        _scaled(lambda s: anomaly.HalfSpaceTrees(n_trees=10, seed=s), _UNIT)
    ),
    "HalfSpaceTrees, 100": Peer(
        _scaled(lambda s: anomaly.HalfSpaceTrees(n_trees=100, seed=s), _UNIT)
    ),
    "LODA": Peer(_scaled(lambda s: anomaly.LODA(seed=s), _STANDARD)),
    "OneClassSVM": Peer(_scaled(lambda s: anomaly.OneClassSVM(nu=0.1), _STANDARD)),
    "LocalOutlierFactor": Peer(
        _scaled(lambda s: anomaly.LocalOutlierFactor(n_neighbors=20), _UNIT), 1000, 40
    ),
    "GaussianScorer": Peer(lambda s: LastValue(), is_of_series=True),
    "isolation forest, windowed": Peer(WindowedForest),
}
if rrcf is not None:
    PEERS["rrcf, 40"] = Peer(_scaled(lambda s: CutForest(40, 256, s), _STANDARD), 1000)
