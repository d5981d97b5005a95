"""The classifier as its users meet it: data of all kinds, bad input, copies, memory, pipelines."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

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


def learned(n=400, seed=7, **params):
    X, y = make_data(n)
    model = MondrianForestClassifier(seed=seed, n_estimators=4, **params)
    for x, label in zip(rows(X), y, strict=True):
        model.learn_one(x, label)
    return model, X, y


def test_pickle_holds_no_slack():
    model, _, _ = learned(n=3000)
    dumped = pickle.dumps(model)
    assert abs(len(pickle.dumps(pickle.loads(dumped))) - len(dumped)) < 100
    trees = model._trees
    rows_in_use = int(trees.trees.words["nodes.n_rows"].sum())
    data = 4 * (rows_in_use * trees.nodes.width + 3000 * trees.points.width)
    assert data < len(dumped) < data + 5000


# Bad input.


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
    st.fixed_dictionaries({}, optional=kinds), st.sampled_from(["x", "y", 3, (1, 2), True, None])
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


# What the parameters promise.


def test_gamma_is_fixed_by_the_features_of_the_warm_up():
    model, _, _ = learned(n=300)
    assert model._trees.forest.gamma == 40.0
    model.learn_one({"a": 1.0, "late": 1.0}, 0)
    assert model._trees.forest.gamma == 40.0


def test_a_sample_that_lacks_the_value_of_a_cut_goes_to_the_nearer_child():
    model = MondrianForestClassifier(20, scale=False, seed=1)
    for a, b in ((0.0, 0.0), (100.0, 1.0)):
        model.learn_one({"a": a, "b": b}, b)
    for b, expected in ((0.9, [1, 2]), (0.2, [2, 2])):
        model.learn_one({"b": b}, round(b))
        trees = [model._trees.read(t) for t in range(20)]
        of_a = [nodes for nodes in trees if nodes[0].dim == 0]
        assert len(of_a) > 10
        for nodes in of_a:
            root = nodes[0]
            assert [nodes[i].n_samples for i in (root.left, root.right)] == expected
