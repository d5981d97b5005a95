"""Batches of the adaptive forests: as single samples, bit for bit, by any number of threads."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import Future

import numpy as np
import pandas as pd
import pytest
from attack.detectors import EveryFew
from river import drift

import river_mondrian as rm
from river_mondrian.posteriors.rebuilt import trees as rebuilt_trees
from river_mondrian.posteriors.rebuilt.forest import GATHERING, REPLAYING, SPLITTING
from river_mondrian.posteriors.rebuilt.trees import ROWS_PREDICTED
from river_mondrian.records import Memory

N = 700
# Rows that several threads share.
N_ASKED = 3 * ROWS_PREDICTED + 5


def table(n, seed=0, n_classes=3, levels=False):
    """Make a frame of samples: some lack values, a feature comes late; and labels and weights."""
    rng = np.random.default_rng(seed)
    values = rng.random((n, 4))
    values[rng.random(values.shape) < 0.1] = np.nan
    values[: n // 3, 3] = np.nan
    X = pd.DataFrame(values, columns=list("abcd"))
    if levels:
        X["color"] = pd.Series(rng.choice(["red", "blue", "green", None], n), dtype=object)
    # The last classes are there in the second half only.
    last = np.where(np.arange(n) < n // 2, n_classes - 1, n_classes)
    labels = np.minimum((np.nan_to_num(values[:, 0]) * n_classes).astype(int), last - 1)
    return X, labels.tolist(), rng.choice([0.0, 0.5, 1.0, 3.0], n)


def rows_of(X):
    """Return the rows of a frame as mappings that lack what is missing."""
    return [{k: v for k, v in x.items() if v == v and v is not None} for x in X.to_dict("records")]


def draw(kind=rm.AdaptiveMondrianForestClassifier, **params):
    return kind(**{"n_estimators": 5, "seed": 2} | params)


Regressor = rm.AdaptiveMondrianForestRegressor
KINDS = {
    "usual": ({}, {}),
    "no change": ({"autoregressive": True}, {}),
    "no detector": ({"drift_detector": drift.NoDrift()}, {}),
    "levels": ({}, {"levels": True}),
    "zeros": ({"missing": "zero"}, {"levels": True}),
    "many classes": ({}, {"n_classes": 150}),
    "many classes, no detector": ({"drift_detector": drift.NoDrift()}, {"n_classes": 150}),
    "fixed widths": ({"rescale": False, "scale": False}, {}),
    "regressor": ({"kind": Regressor}, {}),
    "regressor, no detector": ({"kind": Regressor, "drift_detector": drift.NoDrift()}, {}),
    "regressor, levels": ({"kind": Regressor}, {"levels": True}),
    "regressor, series": ({"kind": Regressor, "autoregressive": True}, {}),
    "regressor, squares": ({"kind": Regressor, "loss": "squared", "missing": "zero"}, {}),
}
kinds = pytest.mark.parametrize("kind", KINDS)
weighted = pytest.mark.parametrize("weighted", [False, True])


def drawn(kind, weighted):
    """Return a model that is new, and what it may learn."""
    params, of_table = KINDS[kind]
    X, labels, weights = table(N, **of_table)
    model = draw(**params)
    if isinstance(model, Regressor):
        labels = [label + 0.1 * (i % 7) for i, label in enumerate(labels)]
    weights[0] = 1.0
    return model, X, labels, weights if weighted else np.ones(N)


def said_one_by_one(model, rows):
    if isinstance(model, Regressor):
        laws = [model.predict_one(x, with_dist=True) for x in rows]
        points = [model.predict_one(x) for x in rows]
        return [[point, law.mean, law.variance] for point, law in zip(points, laws, strict=True)]
    return [list(model.predict_proba_one(x).values()) for x in rows]


def said_at_once(model, X):
    if isinstance(model, Regressor):
        found = model.predict_many(X, with_dist=True)
        assert model.predict_many(X).tolist() == found["prediction"].tolist()
        return found.to_numpy().tolist()
    found = model.predict_proba_many(X)
    assert list(found.columns) == model.classes
    return found.to_numpy().tolist()


@kinds
@weighted
def test_batches_predict_what_single_samples_are(kind, weighted):
    model, X, labels, weights = drawn(kind, weighted)
    rows, asked = rows_of(X), X[-N_ASKED:]
    for i, (x, label, weight) in enumerate(zip(rows, labels, weights.tolist(), strict=True)):
        model.learn_one(x, label, weight)
        if i in (3, 100, 300, 520, N - 1):
            expected = said_one_by_one(model, rows[-N_ASKED:])
            for n_jobs in (1, 2, 4, -1):
                model.mutate({"n_jobs": n_jobs})
                assert said_at_once(model, asked) == expected
    best = model.predict_many(asked)
    assert best.tolist() == [model.predict_one(x) for x in rows[-N_ASKED:]]
    assert list(best.index) == list(asked.index)


@kinds
@weighted
@pytest.mark.parametrize("sizes", [(N,), (1, 2, 400, 1, 296)])
def test_batches_are_learned_as_single_samples_are(kind, weighted, sizes):
    one, X, labels, weights = drawn(kind, weighted)
    many = one.clone()
    for x, label, weight in zip(rows_of(X), labels, weights.tolist(), strict=True):
        one.learn_one(x, label, weight)
    start = 0
    for size in sizes:
        part = slice(start, start + size)
        many.learn_many(X[part], labels[part], weights[part])
        start += size
    assert one.n_samples == many.n_samples == np.count_nonzero(weights)
    assert one.feature_names == many.feature_names
    assert pickle.dumps(one) == pickle.dumps(many)


@pytest.mark.parametrize("kind", [rm.AdaptiveMondrianForestClassifier, Regressor])
@pytest.mark.parametrize("window", [1000, 1500])
def test_batches_forget_as_single_samples_do(kind, window):
    """The window is halved and turns, trees are built at once and over calls."""
    one, many = (draw(kind, window=window, drift_detector=drift.NoDrift()) for _ in range(2))
    X, labels, _ = table(2600, 4)
    for x, label in zip(rows_of(X), labels, strict=True):
        one.learn_one(x, label)
    many.learn_many(X, labels)
    assert pickle.dumps(one) == pickle.dumps(many)


def test_drifts_are_found_in_batches():
    X, labels, _ = table(N)
    one, many = (draw(drift_detector=EveryFew(30)) for _ in range(2))
    turned = [(label + (i // 100) % 2) % 3 for i, label in enumerate(labels)]
    for x, label in zip(rows_of(X), turned, strict=True):
        one.learn_one(x, label)
    many.learn_many(X, turned)
    assert len(many.drift_log) > 1 and many.drift_log == one.drift_log
    assert many.predict_proba_many(X).equals(one.predict_proba_many(X))


def test_predictions_are_there_while_trees_are_built(monkeypatch):
    monkeypatch.setattr(rebuilt_trees, "BUILD_BUDGET", 5)
    model = draw(drift_detector=drift.NoDrift())
    X, labels, _ = table(N)
    rows, roles = rows_of(X), set()
    for i, (x, label) in enumerate(zip(rows, labels, strict=True)):
        model.learn_one(x, label)
        being_built = {tree.role for tree in model._trees.trees} - roles
        if i > 256 and being_built:
            roles |= being_built
            expected = [list(model.predict_proba_one(x).values()) for x in rows[:N_ASKED]]
            for model.n_jobs in (1, 2):
                assert model.predict_proba_many(X[:N_ASKED]).to_numpy().tolist() == expected
    assert roles >= {GATHERING, SPLITTING, REPLAYING}


def memory_of(trees):
    """Return the bytes of all that a forest's kernels may write to, by name."""
    memories = {"forest": trees.shared, "trees": trees.trees}
    for name, part in vars(trees).items():
        memory = getattr(part, "memory", None)
        if isinstance(memory, Memory):
            memories[name] = memory
    assert len(memories) > 3
    found = {"row": trees.row.tobytes(), "inputs": trees.inputs.tobytes()}
    for name, memory in memories.items():
        found[name] = memory.bytes.tobytes()
        found |= {f"{name}.{key}": a.tobytes() for key, a in memory.arrays.items()}
    return found


@pytest.mark.parametrize(
    "kind", ["levels", "zeros", "many classes", "regressor, levels", "regressor, series"]
)
def test_a_batch_writes_to_nothing_of_the_forest(kind):
    """Another thread may predict a sample by that, and each of several has its own."""
    model, X, labels, weights = drawn(kind, True)
    model.learn_many(X, labels, weights)
    trees = model._trees
    rows = model._arrange(*model._read_frame(X)[1:])
    model.predict_one(rows_of(X)[0])
    before = memory_of(trees)
    expected = trees.predict_rows(rows, 1)
    assert trees.predict_rows(rows, 3).tolist() == expected.tolist()
    assert memory_of(trees) == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_batch_leaves_the_model(monkeypatch, error):
    """Threads may still read the trees: whatever changes these waits for them."""
    model = draw(n_jobs=2)
    X, labels, _ = table(N)
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


@pytest.mark.parametrize("n", [0, 1, ROWS_PREDICTED, ROWS_PREDICTED + 1])
def test_batches_of_any_size(n):
    model = draw(n_jobs=3)
    X, labels, _ = table(300)
    assert model.predict_proba_many(X[:n]).shape == (n, 0)
    model.learn_many(X, labels)
    model.learn_many(X[:0], [])
    found = model.predict_proba_many(X[:n])
    assert found.shape == (n, 3)
    assert found.to_numpy().tolist() == [
        list(model.predict_proba_one(x).values()) for x in rows_of(X[:n])
    ]
