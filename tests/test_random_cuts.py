"""Tests of random cut forests: scores, distributions, ranges, windows, shingles, errors."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from common import as_kernels, fed, raises, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import cuts as naive
from naive import mondrian
from scipy import stats

import river_mondrian as rm
from river_mondrian.posteriors import displacement
from river_mondrian.posteriors.displacement import DENSITY, DEPTH, DISPLACEMENT, RELATIVE

rank, keep = as_kernels(displacement.rank_of, displacement.add_score)


LEVEL = 0.001


def as_twin(trees, t, X):
    """Copy a tree to nodes of the reference, with the points of the window in the leaves."""
    return mondrian.route(mondrian.copied(trees.reader.read(t)), X)


def draw(n, seed, dims=2, places=0):
    """Return points in single precision, with at most `places` different points."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, dims))
    if places:
        X = rng.normal(size=(places, dims))[rng.integers(places, size=n)]
    return X.astype(np.float32).astype(float)


def mapped(x):
    return dict(enumerate(np.asarray(x, float).tolist()))


def learned(samples, **params):
    """Return a model of three trees that has learned mappings, or rows of an array."""
    rows = samples if isinstance(samples, list) else map(mapped, samples)
    return fed(rm.RandomCutForest(**{"n_estimators": 3, "seed": 1} | params), rows)


def stream(n, seed=0, missing=0.0, levels=False, names="abc"):
    rng = np.random.default_rng(seed)
    found = []
    for row in rng.normal(size=(n, len(names))).tolist():
        x = {name: v for name, v in zip(names, row, strict=True) if rng.random() >= missing}
        if levels:
            x["level"] = "red" if rng.random() < 0.8 else "blue"
        found.append(x)
    return found


@pytest.mark.parametrize("places", [0, 9])
@pytest.mark.parametrize("dims", [1, 3])
@pytest.mark.parametrize("window", [None, 25])
def test_scores_are_expectations_over_all_places(places, dims, window):
    X = draw(60, 5, dims, places)
    model = learned(X, window=window, scale=False)
    held, trees = X[-(window or 60) :], model._trees
    twins = [as_twin(trees, t, held) for t in range(3)]
    asked = np.vstack([X[:5], held[-5:], draw(10, 6, dims), 4.0 * draw(10, 7, dims)])
    for x in asked.astype(np.float32).astype(float):
        model._readings(mapped(x))
        expected = np.mean([naive.expected(twin, x) for twin in twins], axis=0)
        cells = np.mean([naive.n_in_cell(twin, x, 2.0) for twin in twins])
        # A distance is a sum of single-precision differences. Thus the relative error of eta span
        # is a few units in the last place. The error of exp(-eta span) is at most 1/e of this
        # error, and the error of a step at most n times as large.
        n, steps = len(held), 1 + expected[2]
        unit = (dims + 1) * 2.0**-24 / math.e * 2.0 * steps
        found = trees.out[[DISPLACEMENT, RELATIVE, DEPTH, DENSITY]]
        sizes = np.array([n, math.log(n), steps, n])
        errors = found * [1.0, math.log1p(n), 1.0, n] - [*expected, cells]
        assert (np.abs(errors) <= unit * sizes).all()


def test_scores_are_those_of_samples_that_are_put_in(seed):
    n_trees, X = 400, draw(25, 8)
    tests = [0.1, 0.2], [1.5, -1.0], [4.0, 4.0]
    for x in tests:
        model = learned(X, n_estimators=n_trees, seed=seed, window=None, scale=False)
        twins = [as_twin(model._trees, t, X) for t in range(n_trees)]
        expected = np.array([naive.expected(twin, x) for twin in twins])
        model.learn_one(mapped(x))
        shapes = [naive.shape_of(as_twin(model._trees, t, [*X, x])) for t in range(n_trees)]
        sizes = np.array([naive.displacement(shape, len(X)) for shape in shapes])
        depths = [naive.depth(shape, len(X)) for shape in shapes]
        gaps = np.array([sizes, np.log1p(sizes), depths]).T - expected
        errors = gaps.std(axis=0, ddof=1) / math.sqrt(n_trees)
        limit = stats.norm.isf(LEVEL / (2 * 3 * 3 * len(tests)))
        assert (np.abs(gaps.mean(axis=0)) < limit * errors).all()


@settings(max_examples=40)
@given(st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.5000001, 3.0, 7.0, 1e-300]), max_size=30))
def test_ranks_are_the_twins(values):
    model = rm.RandomCutForest(1, seed=1)
    model.learn_one({"a": 0.0})
    ranks = model._trees.forest.ranks
    for i, value in enumerate(values):
        for asked in (0.0, 0.05, 0.5, 2.0, 3.0, 100.0):
            found = rank(ranks, asked)
            assert found == pytest.approx(naive.rank(asked, values[:i]), abs=1e-12)
            assert 0.0 <= found <= 1.0
        keep(ranks, value)
    assert model._trees.scores.memory.arrays["ranked"][: len(values)].tolist() == sorted(values)
    assert model.recent_scores == values


@pytest.mark.parametrize("params", [{"window": 5}, {"window": 60, "max_samples": 40}])
def test_the_latest_scores_of_all_samples_are_kept(params):
    n = displacement.KEPT + 300
    model, raw = rm.RandomCutForest(2, seed=1, **params), []
    for i, x in enumerate(stream(n, names="a")):
        # Raw scores among few samples are not kept, because each of them is anomalous.
        if i >= min(32, params["window"]):
            raw.append(model.raw_scores_one(x)["relative"])
        model.learn_one(x)
        if i in (7, 300, displacement.KEPT, displacement.KEPT + 1, n - 1):
            assert model.recent_scores == raw[-displacement.KEPT :]
            kept = model._trees.scores.memory.arrays["ranked"][: len(model.recent_scores)]
            np.testing.assert_array_equal(kept, np.sort(raw[-displacement.KEPT :]))
            asked = model.raw_scores_one({"a": 0.7})["relative"]
            expected = naive.rank(asked, raw[-displacement.KEPT :])
            assert model.score_one({"a": 0.7}) == pytest.approx(expected, abs=1e-12)
    assert len(model.recent_scores) == displacement.KEPT


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_scoring_before_learning_is_the_same_as_learning(missing):
    scored, plain = (rm.RandomCutForest(4, window=30, seed=1) for _ in range(2))
    samples = stream(300, missing=missing)
    for i, x in enumerate(samples):
        # Results stored while scoring a sample are not used after another sample is learned.
        if i % 7 != 1:
            scored.score_one(x)
        if i % 7 == 0:
            scored.score_one(samples[(i + 1) % 300])
        # Stored results are not used after the trees change, either.
        for model in (scored, plain):
            if i % 5 == 0 and i > 40:
                model.forget_one(samples[i - 3])
            model.learn_one(x)
        if i in (105, 203):
            scored.score_one(samples[i + 1])
            for model in (scored, plain):
                model.resample()
    assert scored.recent_scores == plain.recent_scores
    assert pickle.dumps(scored) == pickle.dumps(plain)


@pytest.mark.parametrize("missing, most", [(0.0, 30), (0.3, 10)])
def test_shingles_are_samples_of_several(missing, most):
    """Samples that do not enter the trees must have correct shingles, too."""
    params = {"window": 30, "max_samples": most, "seed": 1}
    shingled, plain = (rm.RandomCutForest(4, shingle=n, **params) for n in (3, 1))
    samples = stream(120, missing=missing, levels=True, names="ab")
    for x in samples[:2]:
        assert shingled.score_one(x) == 0.0
        shingled.learn_one(x)
    assert shingled.n_samples == 0
    for i in range(2, len(samples)):
        joined = {(k, ago): v for ago in range(3) for k, v in samples[i - ago].items()}
        assert shingled.score_one(samples[i]) == plain.score_one(joined)
        shingled.learn_one(samples[i])
        plain.learn_one(joined)
    assert shingled.feature_names == plain.feature_names
    assert shingled.recent_scores == plain.recent_scores
    assert shingled.explain_one(samples[0]).keys() == {*plain.feature_names}


@pytest.mark.parametrize("window", [1, 2, 7, 300])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_trees_hold_the_latest_samples(window, missing):
    model, samples = rm.RandomCutForest(2, window=window, seed=1), stream(350, missing=missing)
    for i, x in enumerate(samples):
        model.learn_one(x)
        if i % 60 == 0 or i > 340:
            trees = pickle.loads(pickle.dumps(model))._trees
            assert trees.n_points == min(i + 1, window) == trees.reader.read(0)[0].n_samples
    raises(KeyError, "no stored sample equals", lambda: model.forget_one(samples[349 - window]))
    for x in samples[350 - window :]:
        model.forget_one(x)
    assert model.score_one({"a": 1.0}) == 0.0 and model.n_samples == 0


@pytest.mark.parametrize("params", [{}, {"shingle": 3}, {"window": None}])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_features_share_the_score(params, missing):
    model = learned(stream(150, missing=missing, levels=True), **{"window": 60} | params)
    for x in [*stream(20, 4, missing=missing, levels=True), {"a": 50.0, "b": 0.0}, {}]:
        shares = model.explain_one(x)
        assert list(shares) == model.feature_names
        assert min(shares.values()) >= 0.0
        assert sum(shares.values()) == pytest.approx(model.score_one(x), abs=1e-12)


def test_parts_are_those_of_the_paths():
    """The reference computes the share of each dimension along the same path."""
    X = draw(50, 4)
    model = learned(X, n_estimators=4, window=None, scale=False)
    trees = model._trees
    twins = [as_twin(trees, t, X) for t in range(4)]
    for x in np.array([[3.0, 0.0], [0.1, 0.1], X[3], [-2.0, 5.0]], np.float32).astype(float):
        model._write(mapped(x), trees)
        parts = trees.reader.explain(trees.vector[:2].copy())[1]
        expected = np.mean([naive.parts(twin, x) for twin in twins], axis=0) / math.log1p(50)
        np.testing.assert_allclose(parts, expected, atol=1e-5)


def test_samples_that_are_all_equal():
    model = learned([{"a": 1.0, "b": 2.0}] * 60, window=20)
    assert model.score_one({"a": 1.0, "b": 2.0}) == 0.5
    assert model.explain_one({"a": 1.0, "b": 2.0}) == {"a": 0.25, "b": 0.25}
    assert model.score_one({"a": 1.0, "b": 3.0}) > 0.9


def test_before_any_learning():
    model = rm.RandomCutForest(3, seed=1)
    assert model.score_one({"a": 1.0}) == 0.0
    assert set(model.raw_scores_one({"a": 1.0}).values()) == {0.0}
    assert model.explain_one({"a": 1.0}) == {}
    assert model.recent_scores == []
    for _ in range(32):
        model.learn_one({"a": 1.0})
        assert model.score_one({"a": 5.0}) == 0.0
        assert model.raw_scores_one({"a": 5.0})["relative"] == 1.0
    model.learn_one({})
    assert model.n_samples == 33
    # The score is a rank among stored scores, and the only stored score is 0.
    assert model.score_one({"a": 5.0}) == 0.75


# Samples that enter the trees, if trees store a random part of the window.


def learn(model, found):
    """Learn samples; return whether each sample has entered the trees."""
    entered = []
    for x in found:
        n_passed = 0 if model._trees is None else int(model._trees.forest.n_passed)
        model.learn_one(x)
        entered.append(int(model._trees.forest.n_passed) == n_passed)
    return entered


def test_each_sample_enters_with_the_same_probability(seed):
    window, most, n = 80, 20, 4000
    model = rm.RandomCutForest(1, window=window, max_samples=most, seed=seed)
    entered = learn(model, stream(n, names="ab"))
    assert all(entered[:most])
    later = np.array(entered[most:])
    share = most / window
    assert stats.binomtest(int(later.sum()), len(later), share).pvalue > LEVEL / 6
    # Samples enter independently, so consecutive samples enter together as often as others.
    pairs = int((later[1:] & later[:-1]).sum())
    error = math.sqrt(len(later) * share**2 * (1.0 - share**2 + 2.0 * share * (1.0 - share)))
    assert abs(pairs - len(later) * share**2) < stats.norm.isf(LEVEL / 12) * error


@pytest.mark.parametrize("params", [{}, {"scale": False}, {"rescale": False}])
def test_the_trees_are_those_of_the_samples_that_entered(params):
    found = stream(900, 5, names="ab")
    found[400:] = [{name: 30.0 * v for name, v in x.items()} for x in found[400:]]
    part = rm.RandomCutForest(4, window=200, max_samples=50, seed=3, **params)
    entered = [x for x, is_in in zip(found, learn(part, found), strict=True) if is_in]
    alone = fed(rm.RandomCutForest(4, window=50, max_samples=50, seed=3, **params), entered)
    assert part.n_samples == 900 > alone.n_samples == len(entered)
    for x in stream(20, 6, names="ab"):
        assert part.raw_scores_one(x) == alone.raw_scores_one(x)
    # The last samples that entered are stored.
    for x in entered[-50:]:
        part.forget_one(x)
    assert part.n_samples == 0


@pytest.mark.parametrize("window", [1, 30, None])
def test_a_smaller_window_is_held_as_a_whole(window):
    found = stream(200)
    one, other = (rm.RandomCutForest(2, window=window, max_samples=m, seed=1) for m in (30, 1000))
    assert all(learn(one, found)) and all(learn(other, found))
    assert one.recent_scores == other.recent_scores


# In shingles, features have the same types as in single samples.


# After four other samples, the trees know the feature, but the stored earlier samples do not have
# it.
FIRST = [("red", b"2", 0), (True, b"2", 0), (1.0, "red", 0), (1.0, "red", 1), (1.0, "red", 4)]


@pytest.mark.parametrize("first, bad, n_others", FIRST)
def test_a_feature_is_of_one_kind_from_its_first_value_on(first, bad, n_others):
    """A refused value has no effect, and a value of the right type is learned afterwards."""
    kind = "number" if bad == "red" else "level of a category"
    before, text = [{"a": first}, *[{"b": 1.0}] * n_others], f"'a' must be a {kind}.*, got {bad!r}"
    model, other = (learned(before, window=40, shingle=3) for _ in range(2))
    for call in (model.learn_one, model.score_one, model.explain_one):
        with pytest.raises(TypeError, match=text):
            call({"a": bad})
    for one in (model, other):
        fed(one, [{"b": 2.0}, before[0], {}] * 10)
    assert model.n_samples == len(before) + 28
    assert pickle.dumps(model) == pickle.dumps(other)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_are_of_their_features_kinds(frame):
    rows = [{"a": float(i % 2), "c": "rgb"[i % 3]} for i in range(60)]
    model = learned(rows, window=40, shingle=3)
    numbers, flags = [1.0, 0.0, 1.0, 1.0], [True, False, True, True]
    one, other = (model.score_many(frame({"a": a, "c": [*"rrgb"]})) for a in (numbers, flags))
    assert list(one) == list(other)
    before = pickle.dumps(model)
    for bad, text in (
        ({"a": [1.0, 2.0], "c": [b"r", b"g"]}, "'c' must be a level of a category"),
        ({"a": ["x", "y"], "c": [*"rg"]}, "'a' must be a number, got 'x'"),
    ):
        for call in (model.score_many, model.learn_many):
            with pytest.raises(TypeError, match=text):
                call(frame(bad))
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("shingle", [1, 3])
def test_known_ranges_are_those_of_all_values_of_a_feature(shingle):
    model = rm.RandomCutForest(2, shingle=shingle, seed=1, ranges={"a": (-4.0, 4.0)})
    for i in range(300):
        model.learn_one({"a": i % 7, "b": i % 5})
    for name, width in pickle.loads(pickle.dumps(model)).widths.items():
        own = name if shingle == 1 else name[0]
        assert width == {"a": 8.0, "b": 4.0}[own]
    assert len(model.widths) == 2 * shingle


@pytest.mark.parametrize("value", [float("inf"), 1e40, -1e40, 2.0**202, float("nan"), 1])
def test_a_damaged_past_is_refused(value):
    model = learned([{"a": 1.0}] * 5, shingle=3)
    model._past = model.n_samples, ({"a": value}, {"a": 1.0}), ()
    refused(model, "_past")
