"""Tests of the adaptive forest's public interface: accuracy, drift, memory, bad input."""

import copy
import math
import pickle
import random
from concurrent.futures import Future

import common
import numpy as np
import pandas as pd
import pytest
from common import Adaptive, accuracy, learn_rows, raises, restored
from naive import adaptive as naive
from naive.discriminants import LinearDiscriminantsRecord
from river import drift
from river.datasets import synth
from test_adaptive import begin_building, draw, grown, long_slots, posteriors

from river_mondrian.learners import experts
from river_mondrian.learners.drift import AFTER_DRIFT
from river_mondrian.posteriors.adaptive.nodes import N_MODEL_EXPERTS, N_TREE_EXPERTS
from river_mondrian.posteriors.rebuilt import forest, rebuilt_trees
from river_mondrian.posteriors.rebuilt.rebuilt_trees import ROWS_PREDICTED


def stream(n, seed=0):
    """Return samples with missing values, a late feature and a late class."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        a, b, c = rng.random(3)
        x = {"a": a, "b": 50.0 * b, "c": c}
        if i < n // 3:
            del x["c"]
        if rng.random() < 0.2:
            del x["a"]
        found.append((x, "late" if i > n // 2 and b > 0.8 else "yes" if a + b > 1.0 else "no"))
    return found


def fed(data, **params):
    return common.fed(Adaptive(**{"n_estimators": 3, "seed": 1} | params), data)


def test_discriminants_are_the_twins():
    """Missing values, a late feature and a late class occur around the warm-up."""
    model, twin = Adaptive(2, seed=1), LinearDiscriminantsRecord()
    labels, features = {}, set()
    for x, y in stream(400):
        labels[y] = None
        features |= x.keys()
        floored = np.maximum(twin.predict(x, labels), experts.FLOOR / len(labels))
        expected = floored / floored.sum(axis=1, keepdims=True)
        if y in model.classes:
            model.predict_proba_one(x)
            found = model._trees.mixture.predicted[N_TREE_EXPERTS:N_MODEL_EXPERTS, : len(labels)]
            np.testing.assert_allclose(found, expected, rtol=1e-7)
        model.learn_one(x, y)
        twin.learn(x, y, labels, len(features), expected)
    assert features == set("abc")
    assert set(labels) == {"yes", "no", "late"}


@pytest.mark.parametrize("detector", [None, drift.PageHinkley(threshold=10), drift.binary.HDDMA()])
def test_a_drift_is_survived(detector):
    data = [x for k in (0, 1) for x in synth.Sine(classification_function=k, seed=1).take(2500)]
    model = Adaptive(5, drift_detector=detector, seed=1)
    assert accuracy(model, data, 2700) > 0.95
    assert all(n > 2500 for n, _ in model.drift_log)
    if detector is not None:
        assert [kept for n, kept in model.drift_log if n < 2600] == [AFTER_DRIFT]
        root = model._trees.reader.read(0)[0]
        assert root.n_samples == 2500 + AFTER_DRIFT - (model.drift_log[0][0] - 2500)


@pytest.mark.covering
@pytest.mark.parametrize("limit", [1_500_000, 3_000_000])
@pytest.mark.parametrize("drifts", [False, True])
def test_memory_stays_below_a_limit_in_bytes(limit, drifts):
    model = Adaptive(3, max_bytes=limit, drift_detector=None if drifts else drift.NoDrift(), seed=1)
    data = list(synth.Agrawal(classification_function=0, seed=1, perturbation=0.1).take(20_000))
    right, sizes = [], []
    for start in range(0, len(data), 100):
        right.append(accuracy(model, data[start : start + 100]))
        sizes.append(model._raw_memory_usage)
    # The model uses its limit, and the memory suffices to learn.
    assert 0.5 * limit < max(sizes) <= limit
    assert np.mean(right) > 0.8


def test_a_sample_that_was_predicted_before_the_trees_were_built_anew():
    data = stream(600)
    models = [fed(data) for _ in range(2)]
    x, y = stream(1, seed=9)[0]
    models[0].predict_one(x)
    for model in models:
        model.resample()
        model.learn_one(x, y)
    assert models[0].predict_proba_one(x) == models[1].predict_proba_one(x)


def test_all_samples_stay_in_the_trees_that_are_built_meanwhile():
    """All nodes of a new tree have learned the samples that arrived while it was built."""
    X, y = draw(1300, 2)
    trees = grown(X[:1000], y[:1000], n_trees=2, seed=4)
    ages = trees.schedule.ages
    for i in range(1000, 1300):
        learn_rows(trees, X[i : i + 1], y[i : i + 1])
        assert [trees.reader.read(t)[0].n_samples for t in range(2)] == [i + 1] * 2
    assert trees.schedule.ages != ages
    for t in range(2):
        nodes = trees.reader.read(t)
        seen = naive.replay(nodes, X, y, 3)
        assert [node.counts.tolist() for node in nodes] == [one.counts[0].tolist() for one in seen]


def test_missing_values_leave_probabilities(seed):
    """On a coarse grid with half of the values missing, the path of a sample changes over time."""
    rng = np.random.default_rng(seed)
    model = Adaptive(3, drift_detector=drift.NoDrift(), seed=seed)
    for _ in range(900):
        x = {name: float(rng.integers(0, 4)) for name in "abcde" if rng.random() < 0.5}
        found = model.predict_proba_one(x)
        if found:
            assert min(found.values()) >= 0.0
            assert sum(found.values()) == pytest.approx(1.0, abs=1e-9)
            trees = model._trees
            assert all(posteriors(trees, t, trees.row).min() > -1e-6 for t in long_slots(trees))
        model.learn_one(x, int(rng.integers(0, 3)))


def test_a_feature_that_is_often_missing_can_be_the_best():
    rng = np.random.default_rng(1)
    X = rng.random((300, 2)).astype(np.float32).astype(float)
    y = (X[:, 1] > 0.5).astype(int).tolist()
    X[rng.random(300) < 0.6, 1] = math.nan
    X[0], y[0], y[1] = 0.9, 1, 0
    trees = grown(X, y, n_trees=1, n_candidates=200)
    trees.build()
    assert trees.reader.read(0)[0].dim == 1


@pytest.mark.parametrize(
    ("n_estimators", "window", "every"), [(40, 1000, None), (3, 2000, 300), (2, 1000, 90)]
)
def test_no_tree_holds_a_sample_that_is_overwritten(n_estimators, window, every):
    """Some settings have more trees than can be built in time, or frequent drifts."""
    rng = np.random.default_rng(0)
    model = Adaptive(n_estimators, window=window, drift_detector=drift.NoDrift(), seed=1)
    for i, (a, b, c) in enumerate(rng.random((3 * window, 3)).tolist()):
        model.learn_one({"a": a, "b": b}, c < a)
        trees = model._trees
        if every and i > 2500 and i % every == 0:
            trees.forget_before(80)
        in_use = trees.trees.words["role"] != forest.IDLE
        assert np.array(trees.schedule.starts)[in_use].min() > i + 1 - 2 * window - 1
    # Each tree has learned each sample since its start exactly once.
    for t, slot in enumerate(long_slots(trees)):
        assert trees.reader.read(t)[0].n_samples == model.n_samples - trees.schedule.starts[slot]
    n_long = (trees.trees.words["role"] == forest.LONG).sum()
    assert n_long == round(2 / 3 * n_estimators)


def test_recent_trees_do_not_outlive_a_drift():
    X, y = draw(4200, 1)
    trees = grown(X[:2200], y[:2200], n_trees=2)
    roles = trees.trees.words["role"]
    assert (roles == forest.RECENT).sum() == 2
    trees.forget_before(100)
    assert (roles == forest.RECENT).sum() == 0
    learn_rows(trees, X[2200:], y[2200:])
    assert (roles == forest.RECENT).sum() == 2
    assert np.array(trees.schedule.starts)[roles == forest.RECENT].min() >= 2100


def test_a_tree_that_must_be_built_at_once_does_not_disturb_another():
    X, y = draw(300, 6)
    trees = grown(X, y, n_trees=2)
    begin_building(trees)
    assert not trees._build(trees.schedule.slot, 50)
    starts = list(trees.schedule.starts)
    starts[long_slots(trees)[0]] = -1
    trees._set_schedule(trees.schedule._replace(starts=tuple(starts)).without(-1))
    trees.forest.build.budget = 1 << 40
    trees._complete()
    assert [trees.reader.read(t)[0].n_samples for t in range(2)] == [300, 300]
    assert [trees.schedule.starts[t] for t in long_slots(trees)] == [0, 0]


@pytest.mark.parametrize("seed", [0, 5])
def test_a_copy_whose_rows_have_other_room_goes_on_alike(seed):
    """A copy reserves memory for rows at other times; this must not delay a tree."""
    rng, n_classes = random.Random(seed), 30
    model, other = fed([]), fed([])
    for i in range(1200):
        n_classes += i > 300 and i % 20 == 0
        y = rng.randrange(n_classes)
        x = {"a": y / n_classes + rng.gauss(0.0, 0.01), "b": rng.random()}
        assert model.predict_proba_one(x) == other.predict_proba_one(x)
        model.learn_one(x, y)
        other.learn_one(x, y)
        if i % 37 == 0 and i:
            other = restored(other)


# Enough rows for several threads.
N_ASKED = 3 * ROWS_PREDICTED + 5


def test_predictions_are_there_while_trees_are_built(monkeypatch):
    monkeypatch.setattr(rebuilt_trees, "BUILD_BUDGET", 5)
    model, roles = fed([], n_estimators=5, seed=2, drift_detector=drift.NoDrift()), set()
    data = stream(700)
    rows = [x for x, _ in data[:N_ASKED]]
    for i, (x, label) in enumerate(data):
        model.learn_one(x, label)
        being_built = {tree.role for tree in model._trees.trees} - roles
        if i > 256 and being_built:
            roles |= being_built
            expected = [list(model.predict_proba_one(x).values()) for x in rows]
            for model.n_jobs in (1, 2):
                found = model.predict_proba_many(pd.DataFrame(rows))
                assert found.to_numpy().tolist() == expected
    assert roles >= {forest.GATHERING, forest.SPLITTING, forest.REPLAYING}


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_batch_leaves_the_model(monkeypatch, error):
    """After an interruption, threads may still read the trees, so later changes wait for them."""
    data = stream(700)
    model = fed(data[:400], n_jobs=2)
    same = copy.deepcopy(model)
    result = Future.result

    def interrupted(job, timeout=None):
        monkeypatch.setattr(Future, "result", result)
        raise error

    monkeypatch.setattr(Future, "result", interrupted)
    raises(error, None, lambda: model.predict_many(pd.DataFrame([x for x, _ in data[:N_ASKED]])))
    jobs = model._trees._jobs
    # The calling thread predicts the other part.
    assert len(jobs) == 1
    for one in (model, same):
        common.fed(one, data[400:])
    assert all(job.done() for job in jobs) and not model._trees._jobs
    assert pickle.dumps(model) == pickle.dumps(same)
