"""The classifier as its users meet it: data of all kinds, bad input, copies, memory, pipelines."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from river import (
    bandit,
    compose,
    datasets,
    drift,
    ensemble,
    evaluate,
    metrics,
    model_selection,
    preprocessing,
)

from river_mondrian import MondrianForestClassifier
from river_mondrian.estimators.label_forest import by_label

NAMES = ["a", "b", "c", "d"]


def make_data(n, seed=0, dims=4, classes=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, dims))
    y = (np.floor(2 * X[:, 0] + X[:, 1]) % classes).astype(int)
    return X, y.tolist()


@pytest.mark.parametrize("n", [0, 1, 2, 3, 40])
def test_values_by_label_are_in_the_order_of_the_labels(n):
    labels = {f"class {k * 37 % 41}": k for k in range(n)}
    before = dict(labels)
    values = [0.5 + k for k in range(n)]
    assert list(by_label(labels, values).items()) == list(zip(before, values, strict=True))
    assert labels == before


def rows(X, names=NAMES):
    return [dict(zip(names, row, strict=False)) for row in X.tolist()]


def state(model):
    """Pickle a model part by part: equal parts may or may not be the same object to a whole one."""
    parts = model._state()
    trees = parts.pop("_trees")
    if trees is not None:
        parts |= trees.__getstate__()
    return {name: pickle.dumps(part) for name, part in parts.items()}


def learned(n=400, seed=7, **params):
    X, y = make_data(n)
    model = MondrianForestClassifier(seed=seed, n_estimators=4, **params)
    for x, label in zip(rows(X), y, strict=True):
        model.learn_one(x, label)
    return model, X, y


PARAMS = [
    {},
    {"split_pure": True},
    {"lifetime": 1.5},
    {"max_nodes": 41},
    {"scale": False},
    {"split_pure": True, "lifetime": 3.0, "gamma": 5.0},
]


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("cut", [0, 100, 300])
def test_batches_equal_single_samples_bit_for_bit(params, cut):
    one, X, y = learned(**params)
    for n_jobs in (1, 3, -1):
        many = MondrianForestClassifier(seed=7, n_estimators=4, n_jobs=n_jobs, **params)
        for part in (slice(0, cut), slice(cut, None)):
            if len(X[part]):
                many.learn_many(pd.DataFrame(X[part], columns=NAMES), y[part])
        for tree in range(4):
            pd.testing.assert_frame_equal(one.to_dataframe(tree), many.to_dataframe(tree))
        queries = pd.DataFrame(make_data(60, seed=1)[0], columns=NAMES)
        single = [one.predict_proba_one(x) for x in queries.to_dict("records")]
        np.testing.assert_array_equal(
            np.array([[p[k] for k in one.classes] for p in single]),
            many.predict_proba_many(queries)[one.classes].to_numpy(),
        )
        assert many.predict_many(queries).tolist() == [
            one.predict_one(x) for x in queries.to_dict("records")
        ]


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("copying", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy])
@pytest.mark.parametrize("n", [0, 1, 5, 255, 256, 300])
def test_copies_continue_bit_for_bit(params, copying, n):
    X, y = make_data(400, seed=2)
    model = MondrianForestClassifier(seed=1, n_estimators=3, **params)
    for x, label in zip(rows(X[:n]), y[:n], strict=True):
        model.learn_one(x, label)
    other = copying(model)
    for x, label in zip(rows(X[n:]), y[n:], strict=True):
        assert model.predict_proba_one(x) == other.predict_proba_one(x)
        model.learn_one(x, label)
        other.learn_one(x, label)
    assert state(model) == state(other)


def test_pickle_holds_no_slack():
    model, _, _ = learned(n=3000)
    dumped = pickle.dumps(model)
    assert abs(len(pickle.dumps(pickle.loads(dumped))) - len(dumped)) < 100
    trees = model._trees
    rows_in_use = int(trees.trees.words["nodes.n_rows"].sum())
    data = 4 * (rows_in_use * trees.nodes.width + 3000 * trees.points.width)
    assert data < len(dumped) < data + 5000


def test_equal_seeds_equal_forests_whatever_the_order_of_keys():
    X, y = make_data(300)
    models = [MondrianForestClassifier(seed=5) for _ in range(2)]
    shuffler = np.random.default_rng(0)
    for x, label in zip(rows(X), y, strict=True):
        models[0].learn_one(x, label)
        keys = shuffler.permutation(4)
        models[1].learn_one({NAMES[k]: x[NAMES[k]] for k in keys}, label)
    assert state(models[0]) == state(models[1])
    other = MondrianForestClassifier(seed=6)
    for x, label in zip(rows(X), y, strict=True):
        other.learn_one(x, label)
    queries = rows(make_data(50, seed=3)[0])
    assert any(models[0].predict_proba_one(x) != other.predict_proba_one(x) for x in queries)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_frames_come_back_as_they_went_in(kind):
    X, y = make_data(350)
    plain = pd.DataFrame(X, columns=NAMES, index=np.arange(350)[::-1] * 3)
    frame = {
        "pandas": lambda: plain,
        "polars": lambda: pl.DataFrame(plain),
        "pyarrow": lambda: pa.Table.from_pandas(plain, preserve_index=False),
    }[kind]()
    labels = {"pandas": pd.Series, "polars": pl.Series, "pyarrow": pa.array}[kind](y)
    model = MondrianForestClassifier(seed=7, n_estimators=4)
    assert list(model.predict_many(frame))[:2] in ([None, None], [pa.scalar(None)] * 2)
    model.learn_many(frame, labels)
    probabilities = model.predict_proba_many(frame)
    assert type(probabilities) is type(frame)
    reference, _, _ = learned(n=350)
    expected = reference.predict_proba_many(plain)
    got = probabilities if kind == "pandas" else probabilities.to_pandas()
    np.testing.assert_array_equal(got.to_numpy(), expected.to_numpy())
    if kind == "pandas":
        assert probabilities.index.equals(plain.index)
        assert model.predict_many(frame).index.equals(plain.index)
        assert list(probabilities.columns) == model.classes
    else:
        assert [str(c) for c in model.classes] == list(got.columns)


def test_nullable_columns_are_missing_values():
    model, X, _ = learned()
    frame = pd.DataFrame(X[:50], columns=NAMES).astype("Float64")
    frame.loc[3, "b"] = pd.NA
    direct = frame.astype(float)
    np.testing.assert_array_equal(
        model.predict_proba_many(frame).to_numpy(), model.predict_proba_many(direct).to_numpy()
    )
    table = pl.DataFrame({"a": [0.5, None], "b": [1, 2]})
    expected = [model.predict_proba_one({"a": 0.5, "b": 1}), model.predict_proba_one({"b": 2})]
    got = model.predict_proba_many(table).to_numpy()
    np.testing.assert_array_equal(got, [[p[k] for k in model.classes] for p in expected])


# Bad input.

BAD_SAMPLES = [
    ({"a": ["text"], "b": 1.0}, 0, TypeError, "'a'.*'text'"),
    ({"a": 1.0, "b": math.inf}, 0, ValueError, "'b'.*inf"),
    ({"a": 1.0, "b": -math.inf}, 0, ValueError, "'b'.*-inf"),
    ({"a": 1.0, "b": 1e39}, 0, ValueError, "'b'.*1e\\+39"),
    ({"a": 1.0, "b": 10**400}, 0, ValueError, "'b'"),
    ({"a": 1.0, "b": [1.0]}, 0, TypeError, "'b'"),
    ({"a": 1.0, "b": 1j}, 0, TypeError, "'b'"),
    ({"new": math.inf, "a": 1.0}, 0, ValueError, "'new'"),
    ({"a": 1.0, "b": 2.0, "c": 3.0, "d": math.inf}, 0, ValueError, "'d'.*inf"),
    ({"a": 1.0, "b": 2.0, "c": 3.0, "d": ("x",)}, 0, TypeError, "'d'.*'x'"),
    ({"a": 1.0}, [1], TypeError, "hashable.*\\[1\\]"),
    ({"a": 1.0}, None, ValueError, "missing.*None"),
    ({"a": 1.0}, math.nan, ValueError, "missing.*nan"),
    ({"a": math.inf}, "a new label", ValueError, "'a'"),
]


@pytest.mark.parametrize(("x", "y", "error", "message"), BAD_SAMPLES)
@pytest.mark.parametrize("n", [0, 20, 300])
def test_a_bad_sample_is_refused_and_changes_nothing(x, y, error, message, n):
    model = MondrianForestClassifier(seed=1, n_estimators=2)
    X, labels = make_data(n)
    for good, label in zip(rows(X), labels, strict=True):
        model.learn_one(good, label)
    before = state(model)
    with pytest.raises(error, match=message):
        model.learn_one(x, y)
    if n and "new" not in x and isinstance(y, int):
        with pytest.raises(error, match=message):
            model.predict_proba_one(x)
    if n:
        assert state(model) == before
    else:
        assert model.n_samples == 0
        assert model.classes == []
        assert model.features == []


FRAME = pd.DataFrame(make_data(10)[0], columns=NAMES)


@pytest.mark.parametrize(
    ("X", "y", "error", "message"),
    [
        (FRAME, [0] * 9, ValueError, "10 rows.*9 labels"),
        (FRAME, [0] * 9 + [None], ValueError, "missing"),
        (FRAME, [0] * 9 + [{}], TypeError, "hashable"),
        (FRAME.assign(b="x"), [0] * 10, TypeError, "'b'.*'x'"),
        (FRAME.assign(b=[1.0] * 9 + [math.inf]), [0] * 10, ValueError, "'b'.*inf.*row 9"),
        (FRAME.set_axis(["a", "b", "b", "c"], axis=1), [0] * 10, ValueError, "'b'.*more than once"),
    ],
)
@pytest.mark.parametrize("n", [3, 300])
def test_a_bad_frame_is_refused_and_changes_nothing(X, y, error, message, n):
    model, _, _ = learned(n=n)
    before = state(model)
    with pytest.raises(error, match=message):
        model.learn_many(X, y)
    assert state(model) == before


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_estimators": 0}, "n_estimators.*0"),
        ({"n_estimators": 2.5}, "n_estimators.*2.5"),
        ({"n_estimators": True}, "n_estimators.*True"),
        ({"lifetime": -1.0}, "lifetime.*-1"),
        ({"lifetime": math.nan}, "lifetime.*nan"),
        ({"lifetime": "long"}, "lifetime.*'long'"),
        ({"gamma": 0.0}, "gamma.*0"),
        ({"gamma": math.inf}, "gamma.*inf"),
        ({"max_nodes": 0}, "max_nodes.*0"),
        ({"n_jobs": 0}, "n_jobs must be -1 or an integer >= 1, got 0"),
        ({"n_jobs": -2}, "n_jobs.*-2"),
        ({"n_jobs": -1.0}, "n_jobs.*-1.0"),
        ({"n_jobs": True}, "n_jobs.*True"),
    ],
)
def test_a_bad_parameter_is_named(params, message):
    with pytest.raises(ValueError, match=message):
        MondrianForestClassifier(**params)


def test_an_empty_mapping_teaches_the_label_alone():
    model = MondrianForestClassifier(seed=1)
    for label in "aab":
        model.learn_one({}, label)
    assert model.predict_one({}) == "a"
    p = model.predict_proba_one({})
    assert p["a"] > p["b"] > 0.0
    model.learn_one({"x": 1.0}, "b")
    assert math.isclose(sum(model.predict_proba_one({"x": 1.0}).values()), 1.0)


values = st.one_of(
    st.floats(-1e6, 1e6, width=32),
    st.floats(width=32, allow_infinity=False),
    st.integers(-3, 3),
    st.just(math.nan),
    st.none(),
)
levels = st.sampled_from(["red", "blue", "", True, None])
kinds = {"a": values, "b": values, "c": levels, 1: values, ("t", 2): values, "d": st.booleans()}
samples = st.tuples(
    st.fixed_dictionaries({}, optional=kinds),
    st.sampled_from(["x", "y", 3, (1, 2), True, None]),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(samples, max_size=60),
    st.sampled_from([math.inf, 0.0, 1.0, 30.0]),
    st.booleans(),
    st.sampled_from([None, 1, 9]),
    st.booleans(),
)
@example([({"b": 0.03125}, "x"), ({"b": 1}, "x"), ({}, "x")], 1.0, True, None, False)
def test_whatever_comes_the_counts_add_up(stream, lifetime, split_pure, max_nodes, scale):
    model = MondrianForestClassifier(
        n_estimators=2,
        lifetime=lifetime,
        split_pure=split_pure,
        max_nodes=max_nodes,
        scale=scale,
        seed=1,
    )
    n = 0
    for x, y in stream:
        if y is None:
            with pytest.raises(ValueError, match="missing"):
                model.learn_one(x, y)
            continue
        model.learn_one(x, y)
        n += 1
        p = model.predict_proba_one(x)
        assert set(p) == set(model.classes)
        assert all(0.0 <= v <= 1.0 for v in p.values())
        assert math.isclose(sum(p.values()), 1.0, abs_tol=1e-9)
    assert model.n_samples == n
    for tree in range(2 if n else 0):
        nodes = model._trees.read(tree, hidden=True)
        if max_nodes is not None:
            assert len(nodes) <= max_nodes
        for node in nodes:
            if node.is_leaf:
                assert int(node.counts.sum()) == node.n_samples
            else:
                children = [nodes[node.left], nodes[node.right]]
                assert node.n_samples == sum(child.n_samples for child in children)
                for child in children:
                    assert child.is_leaf or child.time >= node.time
                    assert not (child.lower < node.lower).any()
                    assert not (child.upper > node.upper).any()
        if nodes:
            assert nodes[0].n_samples == n


# Reading.


def test_reading_a_tree():
    model, X, _ = learned()
    frame = model.to_dataframe(1)
    inner = frame[~frame.is_leaf]
    assert set(inner.feature) <= set(NAMES)
    assert (frame.parent[1:] >= 0).all()
    for x in rows(X[:50]):
        node = frame.loc[0]
        while not node.is_leaf:
            goes_left = x[node.feature] <= node.threshold
            node = frame.loc[node.left if goes_left else node.right]
        text = model.debug_one(x, tree=1)
        assert f"{node.n_samples} samples" in text.split("forest")[0].splitlines()[-1]
    with pytest.raises(ValueError, match="tree"):
        model.debug_one(rows(X[:1])[0], tree=4)
    assert MondrianForestClassifier().debug_one({"a": 1.0}) == "nothing has been learned yet"


def test_drawing():
    import matplotlib as mpl

    mpl.use("Agg")
    X, y = make_data(300, dims=2)
    model = MondrianForestClassifier(seed=1, n_estimators=2)
    for x, label in zip(rows(X), y, strict=True):
        model.learn_one(x, label)
    leaves = int(model.to_dataframe(0).is_leaf.sum())
    assert f"{leaves} leaves" in model.draw().get_title()
    assert len(model.draw_partition().patches) == 3 * leaves
    with pytest.raises(ValueError, match="two features"):
        learned()[0].draw_partition()


# In River's company.


def test_in_a_pipeline_and_an_ensemble():
    stream = datasets.Phishing
    for model in (
        preprocessing.StandardScaler() | MondrianForestClassifier(seed=1),
        compose.Select("empty_server_form_handler", "https", "age_of_domain")
        | MondrianForestClassifier(seed=1),
        compose.TransformerUnion(preprocessing.StandardScaler(), preprocessing.MinMaxScaler())
        | MondrianForestClassifier(seed=1),
        ensemble.BaggingClassifier(MondrianForestClassifier(n_estimators=2), n_models=2, seed=1),
        ensemble.ADWINBaggingClassifier(
            MondrianForestClassifier(n_estimators=2), n_models=2, seed=1
        ),
        drift.DriftRetrainingClassifier(
            MondrianForestClassifier(seed=1), drift.binary.DDM(warm_start=50)
        ),
    ):
        metric = evaluate.progressive_val_score(stream().take(500), model, metrics.Accuracy())
        assert metric.get() > 0.75
    steps = evaluate.iter_progressive_val_score(
        stream().take(300), MondrianForestClassifier(seed=1), metrics.LogLoss(), step=100
    )
    assert len(list(steps)) == 3


def test_model_selection():
    candidates = [MondrianForestClassifier(n_estimators=n, seed=1) for n in (1, 2, 4)]
    for selector in (
        model_selection.SuccessiveHalvingClassifier(
            candidates, metric=metrics.Accuracy(), budget=300, seed=1
        ),
        model_selection.BanditClassifier(
            candidates,
            metric=metrics.Accuracy(),
            policy=bandit.EpsilonGreedy(epsilon=0.1, seed=1),
        ),
    ):
        metric = evaluate.progressive_val_score(
            datasets.Phishing().take(400), selector, metrics.Accuracy()
        )
        assert metric.get() > 0.75
        assert selector.best_model in selector.models


def test_the_order_of_columns_does_not_matter():
    X, y = make_data(350)
    frame = pd.DataFrame(X, columns=NAMES)
    models = []
    for columns in (NAMES, NAMES[::-1]):
        model = MondrianForestClassifier(seed=7, n_estimators=4)
        model.learn_many(frame[columns], y)
        models.append(state(model))
    assert models[0] == models[1]
