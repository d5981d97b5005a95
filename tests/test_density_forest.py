"""Density forests as River's anomaly detectors: batches, missing values, scores, bad input."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from naive import density as naive
from naive import pivots
from scipy import stats
from sklearn import metrics
from test_density import cells, keys, learned, mapping

from river_mondrian import DensityForest
from river_mondrian.density.trees import LEVELS

# As a River estimator.


def frames(stream):
    table = pd.DataFrame(stream, columns=["x02", "x00", "x01"])
    return [
        table.set_index(np.arange(len(table)) + 100),
        pl.from_pandas(table, nan_to_null=True),
        pa.Table.from_pandas(table, preserve_index=False),
    ]


def test_a_new_feature_has_its_first_value_in_the_mean():
    forests = [DensityForest(20, 1.0, seed=3) for _ in range(2)]
    for forest, last in zip(forests, (math.nan, 6.0), strict=True):
        for x in [{"a": 1.0}, {"a": 2.0}, {"a": 3.0, "b": 5.0}, {"a": 3.0, "b": 9.0}]:
            forest.learn_one(x)
        forest.learn_one({"a": 4.0, "b": last})  # (5 + 5 + 5 + 9) / 4
    for x in ({"a": 1.0, "b": 5.0}, {"a": 4.0, "b": 6.1}):
        assert forests[0].density_one(x) == forests[1].density_one(x) > 0.0


@pytest.mark.parametrize("lifetime", [3.0, None])
def test_means_count_a_sample_once_however_often_it_waits_for_room(lifetime):
    X = np.random.default_rng(0).normal(size=(60, 3))
    forest = learned(X, n_estimators=20, lifetime=lifetime, seed=1)
    batch = DensityForest(20, lifetime, seed=1)
    batch.learn_many(pd.DataFrame([mapping(row) for row in X]))
    mean = mapping(X.mean(axis=0))
    for model in (forest, batch):
        assert len(model._trees.samples.chunks[0]) > 0
        np.testing.assert_allclose(model._trees.means, X.mean(axis=0))
        assert model.surprise_one({}) == pytest.approx(model.surprise_one(mean), rel=1e-9)


def test_missing_values_count_as_means():
    first, second = DensityForest(20, 1.0, seed=3), DensityForest(20, 1.0, seed=3)
    for x in [{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 4.0}]:
        first.learn_one(x)
        second.learn_one(x)
    first.learn_one({"a": 5.0})
    second.learn_one({"a": 5.0, "b": 3.0})
    assert first.density_one({"a": math.nan, "b": 1.0}) == second.density_one({"a": 3.0, "b": 1.0})
    first.learn_one({"a": 3.0, "b": math.nan})
    second.learn_one({"a": 3.0, "b": 3.0})
    for x in ({"a": 1.0, "b": 2.0}, {"a": 4.0, "b": 3.3}):
        assert first.density_one(x) == second.density_one(x)


def test_a_lifetime_that_falls_changes_nothing():
    forest = DensityForest(3, lambda n: 5.0 - (n > 4), seed=1)
    for i in range(4):
        forest.learn_one({"a": float(i)})
    state = {k: pickle.dumps(v) for k, v in forest.__dict__.items() if k != "lifetime"}
    with pytest.raises(ValueError, match=r"must not fall, got 4.0 for 5 samples after 5.0"):
        forest.learn_one({"a": 9.0, "b": 1.0})
    with pytest.raises(ValueError, match="must not fall"):
        forest.learn_many(pd.DataFrame({"a": [1.0], "c": [1.0]}))
    assert {k: pickle.dumps(v) for k, v in forest.__dict__.items() if k != "lifetime"} == state
    with pytest.raises(ValueError, match="for 1 samples"):
        DensityForest(3, lambda n: n - 1.0).learn_one({"a": 1.0})


def test_scores():
    forest = DensityForest(10, 1.0, seed=1)
    assert forest.density_one({"a": 1.0}) == 0.0
    assert forest.log_density_one({"a": 1.0}) == -math.inf
    assert forest.score_one({"a": 1.0}) == 0.0
    assert forest.n_samples == 0
    rng = np.random.default_rng(0)
    scores, labels = [], []
    for i in range(600):
        odd = i > 100 and rng.random() < 0.1
        x = mapping(rng.normal(size=2) + 6.0 * rng.choice([-1, 1]) * odd)
        scores.append(forest.score_one(x))
        forest.learn_one(x)
        labels.append(odd)
    assert metrics.roc_auc_score(labels[100:], scores[100:]) > 0.9
    x = {"x00": 0.1, "x01": 0.2}
    assert forest.surprise_one(x) == -forest.log_density_one(x)
    assert forest.density_one(x) == math.exp(forest.log_density_one(x))


@pytest.mark.parametrize("lifetime", [1.5, None])
@pytest.mark.parametrize("estimator", ["forest", "laplace", "kernel"])
def test_surprise_where_the_density_is_zero(lifetime, estimator):
    """The last cells count that hold a sample, as if they held one."""
    X = np.random.default_rng(0).normal(size=(20, 2))
    forest = learned(X, n_estimators=6, lifetime=lifetime, method=estimator, seed=2)
    horizon, ended = (math.inf, 20**0.25) if lifetime is None else (1.5, 1.5)
    rates, roots = [1.0, 1.0], [None] * 6
    for t, key in enumerate(keys(2, 6)):
        for z in X:
            roots[t] = pivots.learn(roots[t], key, horizon, rates, z.tolist())
    far = 0
    for x in [np.array([a, b]) for a in (-40.0, -3.0, 3.0) for b in (-3.0, 0.1, 1e4)]:
        if forest.density_one(mapping(x)) > 0.0:
            continue
        far += 1
        volumes = []
        for root in roots:
            parted = min(pivots.parted_at(root, horizon, rates, x.tolist()), ended)
            cell, inside = pivots.cell_of(root, horizon, parted, rates, x.tolist())
            assert inside
            size = (2.0 / parted) ** 2 if estimator == "kernel" else naive.volume(cell)
            volumes.append(size)
        mean = (
            np.mean(volumes) if estimator == "laplace" else 1.0 / np.mean(1.0 / np.array(volumes))
        )
        assert forest.surprise_one(mapping(x)) == pytest.approx(math.log(20 * mean), rel=1e-6)
    assert far >= 4


def test_a_mixture_is_the_twin():
    """Levels, weights, rates of a first deviation, rarities: before the first renewal."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 3)).round(1)
    X[:4, 1] = X[0, 1]
    forest = DensityForest(4, seed=5)
    rates, roots = [0.0] * 3, [None] * 4
    lifetimes, weights = (64.0 * LEVELS).tolist(), [0.0] * len(LEVELS)
    medians, spreads, parts = [], [], [0.0] * len(LEVELS)
    for n, row in enumerate(X):
        z = row.tolist()
        for j in range(3):
            if rates[j] == 0.0 and z[j] != X[0, j]:
                rates[j] = 1.0 / abs(z[j] - X[0, j])
        # What no sample differs in parts none, at any rate.
        known = [rate or 1.0 for rate in rates]
        if n > 0:
            counts = [
                [len(pivots.cell_of(root, 64.0, g, known, z)[1]) for root in roots]
                for g in lifetimes
            ]
            parted = [pivots.parted_at(root, 64.0, known, z) for root in roots]
            levels, density = pivots.mixture(counts, lifetimes, parted, n, 3, weights)
            surprises = [-math.log(f) for f in levels]
            if n == 1:
                medians, spreads = surprises, [1.0] * len(levels)
            else:
                found, score = (m(mapping(row)) for m in (forest.surprise_one, forest.score_one))
                unit = sum(math.log(rate) for rate in rates if rate)
                if all(forest._trees.rates > 0.0):
                    assert found == pytest.approx(-math.log(density) - unit)
                expected = pivots.rarity(levels, medians, spreads, parts)
            gaps = [s - m for s, m in zip(surprises, medians, strict=True)]
            medians = [
                m + np.sign(gap) * spread / n
                for m, gap, spread in zip(medians, gaps, spreads, strict=True)
            ]
            spreads = [s + (abs(gap) - s) / n for s, gap in zip(spreads, gaps, strict=True)]
            shares = [sum(row) / 4 / n for row in counts]
            parts = [p + (share - p) / n for p, share in zip(parts, shares, strict=True)]
            weights = [0.999 * w - s for w, s in zip(weights, surprises, strict=True)]
            weights = [w - max(weights) for w in weights]
        for t, key in enumerate(keys(5, 4)):
            roots[t] = pivots.learn(roots[t], key, 64.0, known, z)
        forest.learn_one(mapping(row))
        if n > 1:
            assert score == pytest.approx(0.5 + 0.5 * expected / (1.0 + abs(expected)))
            np.testing.assert_allclose(forest._trees.log_weights, weights, rtol=1e-9)


@pytest.mark.parametrize("estimator", [None, "forest", "laplace"])
def test_the_default_needs_no_scaling(estimator):
    """Features in other units: the same trees, and densities per unit of theirs."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(700, 3))
    units = np.array([1.0, 1024.0, 2.0**-20])
    one, other = (
        learned(rows, n_estimators=5, method=estimator, seed=1) for rows in (X, X * units)
    )
    for x in 2.0 * X[:20]:
        expected = one.surprise_one(mapping(x)) + np.log(units).sum()
        assert other.surprise_one(mapping(x * units)) == pytest.approx(expected, rel=1e-9)
        assert other.score_one(mapping(x * units)) == pytest.approx(one.score_one(mapping(x)))


@pytest.mark.parametrize("estimator", ["forest", "laplace", "kernel"])
def test_score_tells_how_far_from_usual_a_surprise_is(estimator):
    rng = np.random.default_rng(2)
    forest = DensityForest(5, 1.0, method=estimator, seed=1)
    every, n_usual = 1 if estimator == "kernel" else 8, 0
    for n, row in enumerate(rng.normal(size=(600, 2))):
        if n and n % every == 0:
            surprise = forest.surprise_one(mapping(row))
            if n_usual == 0:
                median, spread = surprise, 1.0
            gap, share = surprise - median, max(1.0 / (n_usual + 1), 1.0 / 512.0)
            median += np.sign(gap) * share * spread
            spread += share * (abs(gap) - spread)
            n_usual += 1
        forest.learn_one(mapping(row))
    asked = sorted(3.0 * rng.normal(size=(200, 2)), key=lambda x: forest.surprise_one(mapping(x)))
    for x in asked:
        r = (forest.surprise_one(mapping(x)) - median) / spread
        expected = (1.0 + r / (1.0 + abs(r))) / 2.0
        assert 0.0 < expected < 1.0
        assert forest.score_one(mapping(x)) == pytest.approx(expected, rel=1e-9)


def test_half_of_usual_samples_have_scores_above_a_half():
    rng = np.random.default_rng(2)
    forest = DensityForest(20, 2.0, method="kernel", seed=1)
    forest.learn_many(pd.DataFrame([mapping(x) for x in rng.normal(size=(3000, 2))]))
    fresh = np.array([forest.score_one(mapping(x)) for x in rng.normal(size=(400, 2))])
    assert stats.binomtest(int((fresh > 0.5).sum()), 400).pvalue > 1e-3
    assert forest.score_one(mapping([9.0, 9.0])) > fresh.max()


# Bounds.


@pytest.mark.parametrize("lifetime", ["auto", 1.0, None])
@pytest.mark.parametrize("bounds", [{"window": 30}, {"max_nodes": 90}])
def test_counts_are_those_of_the_latest_samples(lifetime, bounds):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)).round(1)
    X[200:] += 5.0
    forest = DensityForest(2, lifetime, seed=1, **bounds)
    for n, row in enumerate(X, 1):
        forest.learn_one(mapping(row))
        if n % 20 or n < 60:
            continue
        # Loading checks all links.
        forest = pickle.loads(pickle.dumps(forest))
        trees = forest._trees
        n_live = trees.forest.n_samples
        assert n_live == 30 if "window" in bounds else 20 < n_live <= 45
        latest = X[n - n_live : n]
        np.testing.assert_array_equal(trees._queued(), latest)
        for x in latest[::5]:
            counts, corners = cells(forest, mapping(x))
            for count, (lower, upper) in zip(counts, corners, strict=True):
                assert ((latest > lower) & (latest <= upper)).all(axis=1).sum() == count
        assert trees.forest.regions.n_rows <= (90 if "max_nodes" in bounds else 150)


def test_memory_is_flat_within_bounds():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(4000, 4)), columns=list("abcd"))
    X += np.linspace(0.0, 20.0, len(X))[:, None]
    for bounds in ({"window": 200}, {"max_nodes": 2000}):
        forest = DensityForest(5, seed=1, **bounds)
        forest.learn_many(X[:2000])
        size = forest._raw_memory_usage
        forest.learn_many(X[2000:])
        assert forest._raw_memory_usage == size
        assert forest.n_samples == 4000
    # Samples that are all the same take memory, too.
    same = DensityForest(5, max_nodes=50, seed=1)
    same.learn_many(pd.DataFrame({"a": np.ones(2000)}))
    assert same._trees.forest.samples.n_rows <= 11


def test_features_without_values_have_density_one():
    forest = DensityForest(3, 1.0, seed=1)
    forest.learn_one({})
    forest.learn_one({"a": math.nan})
    assert forest.density_one({}) == 1.0
    forest.learn_one({"a": 2.0})
    assert forest.n_samples == 3
    assert (cells(forest, {"a": 2.0})[0] == 3).all()


# As plain Python.
