"""The adaptive forest as its users meet it: accuracy, drift, bounded memory, bad input."""

import copy
import math
import pickle
import random
from concurrent.futures import Future

import numpy as np
import pandas as pd
import pytest
from naive import adaptive as naive
from naive.discriminants import Discriminants
from river import drift
from river.datasets import synth
from test_adaptive import SEEDS, begin_building, draw, grown, long_slots, posteriors

from river_mondrian import AdaptiveMondrianForestClassifier
from river_mondrian.learners import experts
from river_mondrian.learners.drift import AFTER_DRIFT
from river_mondrian.posteriors.adaptive.adaptive_trees import N_TREE_EXPERTS
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
    model = AdaptiveMondrianForestClassifier(**{"n_estimators": 3, "seed": 1} | params)
    for x, y in data:
        model.learn_one(x, y)
    return model


def test_discriminants_are_the_twins():
    """With missing values, a late feature and a late class, around the warm-up."""
    model, twin = AdaptiveMondrianForestClassifier(2, seed=1), Discriminants()
    labels, features = {}, set()
    for x, y in stream(400):
        labels[y] = None
        features |= x.keys()
        expected = []
        for predicted in twin.predict(x, labels):
            floored = {k: max(p, experts.FLOOR / len(labels)) for k, p in predicted.items()}
            expected.append({k: p / sum(floored.values()) for k, p in floored.items()})
        if y in model.classes:
            model.predict_proba_one(x)
            rows = model._trees.mixture.predicted[N_TREE_EXPERTS:, : len(labels)]
            for row, other in zip(rows.tolist(), expected, strict=True):
                assert row == pytest.approx(list(other.values()), rel=1e-7)
        model.learn_one(x, y)
        twin.learn(x, y, labels, len(features), expected)
    assert features == set("abc")
    assert set(labels) == {"yes", "no", "late"}


def two_concepts(n):
    first = list(synth.Sine(classification_function=0, seed=1).take(n))
    return first + list(synth.Sine(classification_function=1, seed=2).take(n))


def accuracy_after(model, data, start):
    right = 0
    for i, (x, y) in enumerate(data):
        right += i >= start and model.predict_one(x) == y
        model.learn_one(x, y)
    return right / (len(data) - start)


@pytest.mark.parametrize("detector", [None, drift.PageHinkley(threshold=10), drift.binary.HDDMA()])
def test_a_drift_is_survived(detector):
    data = two_concepts(2500)
    model = AdaptiveMondrianForestClassifier(5, drift_detector=detector, seed=1)
    assert accuracy_after(model, data, 2700) > 0.95
    assert all(n > 2500 for n, _ in model.drift_log)
    if detector is not None:
        assert [kept for n, kept in model.drift_log if n < 2600] == [AFTER_DRIFT]
        root = model._trees.read(0)[0]
        assert root.n_samples == 2500 + AFTER_DRIFT - (model.drift_log[0][0] - 2500)


@pytest.mark.parametrize("limit", [1_500_000, 3_000_000])
@pytest.mark.parametrize("drifts", [False, True])
def test_memory_stays_below_a_limit_in_bytes(limit, drifts):
    model = AdaptiveMondrianForestClassifier(
        3, max_bytes=limit, drift_detector=None if drifts else drift.NoDrift(), seed=1
    )
    largest, right, n = 0, 0, 20_000
    source = synth.Agrawal(classification_function=0, seed=1, perturbation=0.1)
    for i, (x, y) in enumerate(source.take(n)):
        right += model.predict_one(x) == y
        model.learn_one(x, y)
        if i % 100 == 0:
            largest = max(largest, model._raw_memory_usage)
    # The limit is used, and what is kept is enough to learn from.
    assert 0.5 * limit < largest <= limit
    assert right / n > 0.8


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
    """A new tree has learned the samples that came while it was built, in all its nodes."""
    X, y = draw(1300, 2)
    trees = grown(X[:1000], y[:1000], n_trees=2, seed=4)
    ages = trees.schedule.ages
    for x, label in zip(X[1000:], y[1000:], strict=True):
        trees.vector[:] = x
        trees.learn(label)
        for t in range(2):
            assert trees.read(t)[0].n_samples == trees.n_samples
    assert trees.schedule.ages != ages
    for t in range(2):
        nodes = trees.read(t)
        seen = [np.zeros(3, dtype=int) for _ in nodes]
        for x, label in zip(X, y, strict=True):
            for number in naive.route(nodes, x):
                seen[number][label] += 1
        for node, counts in zip(nodes, seen, strict=True):
            assert node.counts.tolist() == counts.tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_missing_values_leave_probabilities(seed):
    """On a coarse grid with half the values missing, paths down a tree are not stable."""
    rng = np.random.default_rng(seed)
    model = AdaptiveMondrianForestClassifier(3, drift_detector=drift.NoDrift(), seed=seed)
    for _ in range(900):
        x = {name: float(rng.integers(0, 4)) for name in "abcde" if rng.random() < 0.5}
        found = model.predict_proba_one(x)
        if found:
            assert min(found.values()) >= 0.0
            assert sum(found.values()) == pytest.approx(1.0, abs=1e-9)
            for slot in long_slots(model._trees):
                raw = posteriors(model._trees, slot, model._trees.row)
                assert raw.min() > -1e-6
        model.learn_one(x, int(rng.integers(0, 3)))


def test_a_feature_that_is_often_missing_can_be_the_best():
    rng = np.random.default_rng(1)
    X = rng.random((300, 2)).astype(np.float32).astype(float)
    y = (X[:, 1] > 0.5).astype(int).tolist()
    X[rng.random(300) < 0.6, 1] = math.nan
    X[0], y[0], y[1] = 0.9, 1, 0
    trees = grown(X, y, n_trees=1, n_candidates=200)
    trees.build()
    assert trees.read(0)[0].dim == 1


@pytest.mark.parametrize(
    ("n_estimators", "window", "every"), [(40, 1000, None), (3, 2000, 300), (2, 1000, 90)]
)
def test_no_tree_holds_a_sample_that_is_overwritten(n_estimators, window, every):
    """With more trees than can be built in time, and drifts before recent trees are due."""
    rng = np.random.default_rng(0)
    model = AdaptiveMondrianForestClassifier(
        n_estimators, window=window, drift_detector=drift.NoDrift(), seed=1
    )
    for i in range(3 * window):
        x = {"a": float(rng.random()), "b": float(rng.random())}
        model.learn_one(x, bool(rng.random() < x["a"]))
        trees = model._trees
        if every and i > 2500 and i % every == 0:
            trees.forget_before(80)
        in_use = trees.trees.words["role"] != forest.IDLE
        assert np.array(trees.schedule.starts)[in_use].min() > i + 1 - 2 * window - 1
    # Each tree has every sample since its first one, once.
    for t, slot in enumerate(long_slots(trees)):
        assert trees.read(t)[0].n_samples == model.n_samples - trees.schedule.starts[slot]
    n_long = (trees.trees.words["role"] == forest.LONG).sum()
    assert n_long == round(2 / 3 * n_estimators)


def test_recent_trees_do_not_outlive_a_drift():
    X, y = draw(4200, 1)
    trees = grown(X[:2200], y[:2200], n_trees=2)
    roles = trees.trees.words["role"]
    assert (roles == forest.RECENT).sum() == 2
    trees.forget_before(100)
    assert (roles == forest.RECENT).sum() == 0
    for x, label in zip(X[2200:], y[2200:], strict=True):
        trees.vector[:] = x
        trees.learn(label)
    assert (roles == forest.RECENT).sum() == 2
    assert np.array(trees.schedule.starts)[roles == forest.RECENT].min() >= 2100


def test_a_tree_that_must_be_built_at_once_does_not_disturb_another():
    X, y = draw(300, 6)
    trees = grown(X, y, n_trees=2)
    begin_building(trees)
    trees.forest.budget = 50
    assert not trees._build(trees.schedule.slot, True)
    starts = list(trees.schedule.starts)
    starts[long_slots(trees)[0]] = -1
    trees._follow(trees.schedule._replace(starts=tuple(starts)).without(-1))
    trees.forest.budget = 1 << 40
    trees._complete()
    for t in range(2):
        assert trees.read(t)[0].n_samples == 300
    assert [trees.schedule.starts[t] for t in long_slots(trees)] == [0, 0]


@pytest.mark.parametrize("seed", [0, 5])
def test_a_copy_whose_rows_have_other_room_goes_on_alike(seed):
    """A copy runs out of room for rows at other samples, which delays no tree."""
    rng, n_classes = random.Random(seed), 30
    model, copy = (AdaptiveMondrianForestClassifier(3, seed=1) for _ in range(2))
    for i in range(1200):
        n_classes += i > 300 and i % 20 == 0
        y = rng.randrange(n_classes)
        x = {"a": y / n_classes + rng.gauss(0.0, 0.01), "b": rng.random()}
        assert model.predict_proba_one(x) == copy.predict_proba_one(x)
        model.learn_one(x, y)
        copy.learn_one(x, y)
        if i % 37 == 0 and i:
            copy = pickle.loads(pickle.dumps(copy))


# Batches of the adaptive forests: as single samples, bit for bit, by any number of threads.

N = 700


# Rows that several threads share.
N_ASKED = 3 * ROWS_PREDICTED + 5


def table(n):
    """Return a frame of samples with missing values and a late feature, and labels."""
    values = np.random.default_rng(0).random((n, 4))
    values[np.random.default_rng(1).random((n, 4)) < 0.1] = np.nan
    values[: n // 3, 3] = np.nan
    # The last class is there in the second half only.
    last = np.where(np.arange(n) < n // 2, 1, 2)
    labels = np.minimum((np.nan_to_num(values[:, 0]) * 3).astype(int), last)
    return pd.DataFrame(values, columns=list("abcd")), labels.tolist()


def rows_of(X):
    """Return the rows of a frame as mappings without missing values."""
    return [{k: v for k, v in x.items() if v == v} for x in X.to_dict("records")]


def made(**params):
    return AdaptiveMondrianForestClassifier(**{"n_estimators": 5, "seed": 2} | params)


def test_predictions_are_there_while_trees_are_built(monkeypatch):
    monkeypatch.setattr(rebuilt_trees, "BUILD_BUDGET", 5)
    model = made(drift_detector=drift.NoDrift())
    X, labels = table(N)
    rows, roles = rows_of(X), set()
    for i, (x, label) in enumerate(zip(rows, labels, strict=True)):
        model.learn_one(x, label)
        being_built = {tree.role for tree in model._trees.trees} - roles
        if i > 256 and being_built:
            roles |= being_built
            expected = [list(model.predict_proba_one(x).values()) for x in rows[:N_ASKED]]
            for model.n_jobs in (1, 2):
                assert model.predict_proba_many(X[:N_ASKED]).to_numpy().tolist() == expected
    assert roles >= {forest.GATHERING, forest.SPLITTING, forest.REPLAYING}


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_batch_leaves_the_model(monkeypatch, error):
    """Threads may still read the trees: calls that change the trees wait for them."""
    model = made(n_jobs=2)
    X, labels = table(N)
    model.learn_many(X[:400], labels[:400])
    same = copy.deepcopy(model)
    result = Future.result

    def interrupted(job, timeout=None):
        monkeypatch.setattr(Future, "result", result)
        raise error

    monkeypatch.setattr(Future, "result", interrupted)
    with pytest.raises(error):
        model.predict_many(X[:N_ASKED])
    jobs = model._trees._jobs
    # The other part is done by the caller.
    assert len(jobs) == 1
    for one in (model, same):
        one.learn_many(X[400:], labels[400:])
    assert all(job.done() for job in jobs) and not model._trees._jobs
    assert pickle.dumps(model) == pickle.dumps(same)
