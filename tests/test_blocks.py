"""Batches of more rows than are learned at once."""

import numpy as np
import pytest

from river_mondrian import MondrianForestClassifier, MondrianForestRegressor
from river_mondrian.inputs import FeatureIndex
from river_mondrian.limits import LEAST_LEVEL
from river_mondrian.partitions.mondrian import trees

N = 900


@pytest.mark.parametrize("rows_at_once", [1, 37, N])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_size_of_blocks_changes_nothing(rows_at_once, n_jobs, monkeypatch):
    monkeypatch.setattr(trees, "LEARNED_ROWS", rows_at_once)
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


def batch(n=4000, d=4):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] + rng.normal(size=n) > 0).astype(int), X[:, 0] + rng.normal(size=n)


@pytest.mark.parametrize("make", [MondrianForestClassifier, MondrianForestRegressor])
def test_a_batch_is_learned_after_all_has_been_forgotten(make):
    X, labels, targets = batch(600)
    y = labels if make is MondrianForestClassifier else targets
    model = make(3, seed=1)
    model.learn_many(X[:400], y[:400])
    model.forget_many(X[:400], y[:400])
    assert model.n_samples == 0
    model.learn_many(X[400:], y[400:])
    assert model.n_samples == 200


def test_a_wrong_row_of_a_later_block_is_named():
    features = FeatureIndex()
    features.add({"a": 1.0, "b": 2.0})
    columns = np.zeros((5, 2))
    columns[3, 1] = LEAST_LEVEL
    with pytest.raises(TypeError, match=r"'b'.* in row 2051"):
        features.agree(["a", "b"], columns, 2048)
