"""Tests of the classifier's public interface: data of all kinds, bad input, copies, memory."""

import math
import pickle
from functools import partial

import numpy as np
from common import raises
from hypothesis import example, given, settings
from hypothesis import strategies as st

from river_mondrian import MondrianForestClassifier


def learned(n):
    X = np.random.default_rng(0).normal(size=(n, 4))
    model = MondrianForestClassifier(4, seed=7)
    model.learn_many(X, (np.floor(2 * X[:, 0] + X[:, 1]) % 3).astype(int))
    return model


def test_pickle_holds_no_slack():
    model = learned(3000)
    dumped = pickle.dumps(model)
    assert abs(len(pickle.dumps(pickle.loads(dumped))) - len(dumped)) < 100
    trees = model._trees
    rows_in_use = int(trees.trees.words["nodes.n_rows"].sum())
    data = 4 * (rows_in_use * trees.nodes.width + 3000 * trees.points.width)
    assert data < len(dumped) < data + 5000


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


@settings(max_examples=150)
@given(
    st.lists(samples, max_size=60),
    st.sampled_from([math.inf, 0.0, 1.0, 30.0]),
    st.booleans(),
    st.sampled_from([None, 1, 9]),
    st.booleans(),
)
@example([({"b": 0.03125}, "x"), ({"b": 1}, "x"), ({}, "x")], 1.0, True, None, False)
def test_whatever_comes_the_counts_add_up(stream, lifetime, split_pure, max_nodes, scale):
    sizes = {"lifetime": lifetime, "max_nodes": max_nodes}
    model = MondrianForestClassifier(2, split_pure=split_pure, scale=scale, seed=1, **sizes)
    n = 0
    for x, y in stream:
        if y is None:
            raises(ValueError, "missing", partial(model.learn_one, x, y))
            continue
        model.learn_one(x, y)
        n += 1
        p = model.predict_proba_one(x)
        assert set(p) == set(model.classes)
        assert all(0.0 <= v <= 1.0 for v in p.values())
        assert math.isclose(sum(p.values()), 1.0, abs_tol=1e-9)
    assert model.n_samples == n
    # Unpickling checks boxes, times and numbers of samples of all nodes.
    model = pickle.loads(pickle.dumps(model))
    for tree in range(2 if n else 0):
        nodes = model._trees.reader.read(tree, hidden=True)
        assert len(nodes) <= (max_nodes or 2 * n)
        assert sum(node.counts.sum() for node in nodes if node.is_leaf) in (0, n)
        assert not nodes or nodes[0].n_samples == n


def test_gamma_is_fixed_by_the_features_of_the_warm_up():
    model = learned(300)
    assert model._trees.forest.gamma == 40.0
    model.learn_one({0: 1.0, "late": 1.0}, 0)
    assert model._trees.forest.gamma == 40.0


def test_a_sample_that_lacks_the_value_of_a_cut_goes_to_the_nearer_child():
    model = MondrianForestClassifier(20, scale=False, seed=1)
    for a, b in ((0.0, 0.0), (100.0, 1.0)):
        model.learn_one({"a": a, "b": b}, b)
    for b, expected in ((0.9, [1, 2]), (0.2, [2, 2])):
        model.learn_one({"b": b}, round(b))
        trees = [model._trees.reader.read(t) for t in range(20)]
        of_a = [nodes for nodes in trees if nodes[0].dim == 0]
        assert len(of_a) > 10
        for nodes in of_a:
            root = nodes[0]
            assert [nodes[i].n_samples for i in (root.left, root.right)] == expected
