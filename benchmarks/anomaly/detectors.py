"""Detectors of the comparison, as functions of a seed."""

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

# The detectors of this package with default parameters, and one with an option.
OURS: dict[str, Callable[[int], Any]] = {
    "DensityForest": lambda seed: DensityForest(seed=seed),
    "NearestNeighborDetector": lambda seed: NearestNeighborDetector(seed=seed),
    "RandomCutForest": lambda seed: RandomCutForest(seed=seed),
    "nearest, skip_anomalies": lambda seed: NearestNeighborDetector(skip_anomalies=True, seed=seed),
}

# Rows in the window of the isolation forest, and rows between two fits.
WINDOW, FITTED_EVERY = 2048, 256


class Peer(NamedTuple):
    """A detector, and the largest number of samples that a slow detector gets."""

    make: Callable[[int], Any]
    most: int | None = None
    # The largest number of features for which the detector is fast enough.
    most_features: int | None = None
    # Whether the detector uses only the last value of a series.
    is_of_series: bool = False


class CutForest(base.AnomalyDetector):
    """Detector of `rrcf` as in its examples: the score is a sample's mean displacement.

    The trees hold a sliding window. `score_one` inserts the sample, so `learn_one` does nothing.
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
        """Do nothing, because `score_one` has inserted the sample."""


class WindowedForest:
    """Isolation forest of scikit-learn, refitted to the latest rows after every 256 rows."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def scores(self, X: Array) -> Array:
        """Return each row's score from the latest fit before the row; 0 before the first fit."""
        scores = np.zeros(len(X))
        for start in range(FITTED_EVERY, len(X), FITTED_EVERY):
            part = slice(start, start + FITTED_EVERY)
            forest = IsolationForest(n_estimators=100, random_state=self.seed)
            forest.fit(X[max(0, start - WINDOW) : start])
            scores[part] = -forest.score_samples(X[part])
        return scores


class LastValue:
    """Detector that applies `GaussianScorer` to the last value of a shingle."""

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
