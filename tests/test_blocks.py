"""Batches of more rows than are learned at once."""

from __future__ import annotations

import numpy as np
import pytest

from river_mondrian import MondrianForestClassifier, MondrianForestRegressor
from river_mondrian.estimators import classifier, regressor
from river_mondrian.partitions.mondrian import trees

N = 900


@pytest.mark.parametrize("rows_at_once", [1, 37, N])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_size_of_blocks_changes_nothing(rows_at_once, n_jobs, monkeypatch):
    for module in (trees, classifier, regressor):
        monkeypatch.setattr(module, "LEARNED_ROWS", rows_at_once)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 4))
    labels = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    targets = X[:, 0] + rng.normal(size=N)
    names = range(4)
    for make, seen, predict in (
        (MondrianForestClassifier, labels, "predict_proba_one"),
        (MondrianForestRegressor, targets, "predict_one"),
    ):
        one, many = make(3, seed=1), make(3, seed=1, n_jobs=n_jobs)
        for x, y in zip(X.tolist(), seen.tolist(), strict=True):
            one.learn_one(dict(zip(names, x, strict=True)), y)
        many.learn_many(X, seen)
        for x in X[::90].tolist():
            sample = dict(zip(names, x, strict=True))
            assert getattr(one, predict)(sample) == getattr(many, predict)(sample)
