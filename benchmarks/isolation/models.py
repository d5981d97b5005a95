"""Models of the isolation kernel's benchmarks, and the selection of psi."""

import math
import statistics
from typing import Any

import numpy as np
import pandas as pd

import river_mondrian as rm

from ..data import Array, frame_of, stream

OGD, NOGD, RFF = "OGD Laplace", "NOGD", "random Fourier"
IK_A, IK_I = "IK_a-OGD", "IK_i-OGD"
PEERS = (OGD, NOGD, RFF, IK_I, IK_A)
METHODS = {IK_A: "anne", IK_I: "iforest"}
RATE = 0.5  # Learning rate in the paper.
T = 100  # Number of partitions, and budget b, in the paper.
PSI = (4, 16, 64, 256, 1024, 4096)  # Every second value of the range in the paper.
FOLDS = 5


def built(features: Any, X: Array) -> Any:
    """Return a map built from rows; empty samples are added if the rows do not fill the pool."""
    features.learn_many(frame_of(X))
    while isinstance(features, rm.IsolationFeatures) and not features.frozen:
        features.learn_one({})
    return features


class _Dual:
    """Dual model that gets rows one by one."""

    def __init__(self, model: rm.DualOGDClassifier) -> None:
        self.model = model

    def learn(self, X: Array, y: Array) -> None:
        for x, label in stream(X, y):
            self.model.learn_one(x, label)

    def predict(self, X: Array) -> Array:
        return np.array([self.model.predict_one(x) for x, _ in stream(X, np.zeros(len(X)))])


class Primal:
    """Linear model on a map that is built from the rows `X`."""

    def __init__(self, features: Any, X: Array, **arguments: Any) -> None:
        features = built(features, X)
        arguments = {"loss": "hinge", "learning_rate": RATE, **arguments}
        self.model = rm.OGDClassifier(features=features, **arguments)

    def learn(self, X: Array, y: Array) -> None:
        self.model.learn_many(frame_of(X), pd.Series(y))

    def predict(self, X: Array) -> Array:
        return self.model.predict_many(frame_of(X)).to_numpy()


def isolation_map(method: str, psi: int, n: int, t: int = T) -> rm.IsolationFeatures:
    """Return a map for `n` rows; pools of more than 25 points per cell hardly change results."""
    pool = min(n, max(1024, 25 * psi))
    return rm.IsolationFeatures(t, psi, method=method, pool_size=pool, seed=1)


def features_of(peer: str, psi: int, n: int, d: int, t: int = T) -> Any:
    """Return the map of a model; a Laplace kernel has lifetime log(psi) / d, as in the paper."""
    lifetime = math.log(psi) / d
    if peer == NOGD:
        return rm.NystromFeatures(min(t, n), kernel="laplace", lifetime=lifetime)
    if peer == RFF:
        return rm.RandomFourierFeatures(t, kernel="laplace", lifetime=lifetime, seed=1)
    return isolation_map(METHODS[peer], psi, n, t)


def make_model(peer: str, psi: int, X: Array, **arguments: Any) -> Any:
    if peer == OGD:
        lifetime = math.log(psi) / X.shape[1]
        return _Dual(rm.DualOGDClassifier("laplace", lifetime=lifetime, learning_rate=RATE))
    return Primal(features_of(peer, psi, len(X), X.shape[1]), X, **arguments)


def accuracy_of(model: Any, X: Array, y: Array) -> float:
    return float((model.predict(X) == y).mean())


def _sample(peer: str, d: int) -> int:
    """Return the number of rows that are used to select psi."""
    if peer not in METHODS:
        return 2000
    return 10_000 if d < 200 else 5000


def choose_psi(peer: str, X: Array, y: Array, quick: bool) -> int:
    """Return the psi with the best accuracy in cross-validation."""
    n = 500 if quick else _sample(peer, X.shape[1])
    X, y = X[:n], y[:n]
    fold = np.arange(len(X)) % FOLDS
    # A partition uses at most a quarter of the rows.
    able = [psi for psi in PSI if peer not in METHODS or 4 * psi <= len(X)]
    folds = range(1 if quick else FOLDS)

    def score(psi: int) -> float:
        found = []
        for k in folds:
            model = make_model(peer, psi, X[fold != k])
            model.learn(X[fold != k], y[fold != k])
            found.append(accuracy_of(model, X[fold == k], y[fold == k]))
        return statistics.mean(found)

    return max(able[::3] if quick else able, key=score)
