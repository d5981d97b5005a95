"""What the parameters of the classifier promise, and what it does with missing values."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from test_forest import NAMES, learned, make_data, rows, state

from river_mondrian import MondrianForestClassifier

# What the parameters promise.


def test_more_than_64_classes_of_any_hashable_kind():
    labels = [f"class {i}" for i in range(70)] + [(1, i) for i in range(70)]
    model = MondrianForestClassifier(seed=1, n_estimators=3)
    rng = np.random.default_rng(0)
    order = rng.integers(0, 140, 3000)
    for i in order:
        model.learn_one({"x": i + 0.2 * rng.random()}, labels[i])
    hits = sum(model.predict_one({"x": i + 0.1}) == labels[i] for i in range(140))
    assert hits > 120
    assert math.isclose(sum(model.predict_proba_one({"x": 3.0}).values()), 1.0)


@pytest.mark.parametrize("n", [50, 400])
def test_features_may_appear_at_any_time(n):
    model, _, _ = learned(n=n)
    rng = np.random.default_rng(0)
    for i in range(600):
        label = i % 2
        x = {"a": rng.normal(), "late": label + 0.1 * rng.normal()}
        if i > 50:
            x[f"later {i % 7}"] = rng.normal()
        model.learn_one(x, label)
    assert "late" in model.features
    hits = 0
    for i in range(100):
        x = {"a": rng.normal(), "late": i % 2 + 0.1 * rng.normal()}
        hits += model.predict_one(x) == i % 2
    assert hits > 75


def test_scaling_makes_units_irrelevant():
    X, y = make_data(600)
    factors = np.array([1e-6, 1.0, 1e6, 1e12])
    model, _, _ = learned(n=600)
    other = MondrianForestClassifier(seed=7, n_estimators=4)
    for x, label in zip(rows(X * factors + 3 * factors), y, strict=True):
        other.learn_one(x, label)
    agree = [
        model.predict_one(x) == other.predict_one(z)
        for x, z in zip(rows(X), rows(X * factors + 3 * factors), strict=True)
    ]
    assert np.mean(agree) > 0.99


def test_gamma_is_fixed_by_the_features_of_the_warm_up():
    model, _, _ = learned(n=300)
    assert model._trees.forest.gamma == 40.0
    model.learn_one({"a": 1.0, "late": 1.0}, 0)
    assert model._trees.forest.gamma == 40.0


def test_bounded_forests_stop_growing_and_go_on_learning():
    X, _ = make_data(4000)
    y = (X[:, 0] > 0.0).tolist()
    model = MondrianForestClassifier(seed=1, n_estimators=3, max_nodes=101)
    for x, label in zip(rows(X[:2000]), y[:2000], strict=True):
        model.learn_one(x, label)
    size = model._raw_memory_usage
    nodes = [len(model.to_dataframe(t)) for t in range(3)]
    hits = 0
    for x, label in zip(rows(X[2000:]), y[2000:], strict=True):
        hits += model.predict_one(x) == label
        model.learn_one(x, label)
    assert model._raw_memory_usage <= 1.1 * size
    assert all(n <= 101 for n in nodes)
    assert model.to_dataframe(0)["n_samples"].iloc[0] == 4000
    assert hits / 2000 > 0.6
    with pytest.raises(ValueError, match="max_nodes"):
        model.resample()


def test_memory_is_counted_exactly():
    model, _, _ = learned(n=2000)
    trees = model._trees
    chunks = [
        chunk
        for rows in (trees.nodes, trees.points, trees.side_rows)
        for table in rows.chunks
        for chunk in table
    ]
    arrays = sum(chunk.nbytes for chunk in chunks) + trees.trees.nbytes
    assert arrays < model._raw_memory_usage < 1.2 * arrays + 20_000


def test_many_samples_of_one_class_then_others():
    rng = np.random.default_rng(0)
    model = MondrianForestClassifier(seed=1, n_estimators=3)
    X = rng.random((20_000, 3))
    model.learn_many(pd.DataFrame(X, columns=NAMES[:3]), ["same"] * len(X))
    assert model.predict_proba_one({"a": 0.5, "b": 0.5, "c": 0.5}) == {"same": 1.0}
    assert len(model.to_dataframe(0)) == 1
    for x in rows(rng.random((200, 3)), NAMES[:3]):
        model.learn_one(x, "other")
    frame = model.to_dataframe(0)
    assert frame.loc[0, "n_samples"] == 20_200
    assert frame.loc[frame.is_leaf, "n_samples"].sum() == 20_200
    assert frame.loc[frame.is_leaf, "count_other"].sum() == 200


def test_resample_draws_another_forest_from_the_same_samples():
    model, X, y = learned(n=600)
    before = model.to_dataframe(0)
    model.resample()
    after = model.to_dataframe(0)
    assert after.loc[0, "n_samples"] == before.loc[0, "n_samples"] == 600
    assert after.loc[0, "time"] != before.loc[0, "time"]
    hits = [model.predict_one(x) == label for x, label in zip(rows(X), y, strict=True)]
    assert np.mean(hits) == 1.0


def missing_at_random(X, share, seed):
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


def test_missing_values_do_no_worse_than_imputing_the_running_mean():
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.default_rng(1).permutation(len(digits.target))
    X = digits.data[order]
    X = X[:, X.std(axis=0) > 0]
    y = digits.target[order].tolist()
    for share in (0.2, 0.4):
        accuracies = {"ours": [], "mean": []}
        for seed in range(2):
            holes = missing_at_random(X, share, seed)
            ours = MondrianForestClassifier(seed=seed)
            imputed = MondrianForestClassifier(seed=seed)
            sums = np.zeros(X.shape[1])
            counts = np.zeros(X.shape[1])
            hits = np.zeros(2)
            for row, label in zip(holes, y, strict=True):
                there = ~np.isnan(row)
                x = {j: float(row[j]) for j in np.flatnonzero(there)}
                means = sums / np.maximum(counts, 1)
                full = dict(enumerate(np.where(there, row, means).tolist()))
                hits += ours.predict_one(x) == label, imputed.predict_one(full) == label
                ours.learn_one(x, label)
                imputed.learn_one(full, label)
                sums[there] += row[there]
                counts += there
            accuracies["ours"].append(hits[0] / len(y))
            accuracies["mean"].append(hits[1] / len(y))
        assert np.mean(accuracies["ours"]) >= np.mean(accuracies["mean"]) - 0.005


def test_nan_and_absent_are_the_same():
    X, y = make_data(400)
    holes = missing_at_random(X, 0.3, 0)
    absent = MondrianForestClassifier(seed=1)
    nan = MondrianForestClassifier(seed=1)
    for row, label in zip(holes, y, strict=True):
        x = dict(zip(NAMES, row.tolist(), strict=True))
        short = {key: value for key, value in x.items() if value == value}
        assert absent.predict_proba_one(short) == nan.predict_proba_one(x)
        absent.learn_one(short, label)
        nan.learn_one(x, label)
    assert state(absent) == state(nan)
