"""Nothing that happens at any moment leaves a density forest neither as before nor as after."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from attack.density_moments import FRAME, GIVEN, MOMENTS, READING, forest, root, samples
from attack.judging import Judge, some

from river_mondrian import DensityForest

ASKED = [*samples(3, first=8), {"x0": 50.0, "x1": 1.0}]
LATER = samples(8, n_features=3, first=9)


def looks(model):
    """Return what can be seen of a forest; its pickle holds all rows of its trees."""
    scores = [(model.score_one(x), model.surprise_one(x)) for x in ASKED]
    seen = [model.n_samples, scores, model.feature_names]
    return seen, pickle.dumps(model)


def go_on(model):
    for x in LATER:
        model.learn_one(x)


JUDGE = Judge(looks, go_on, every=11)


@pytest.mark.parametrize("moment", some(MOMENTS))
def test_exceptions_and_failing_allocations_in_learning(moment):
    make, call = MOMENTS[moment]
    state = pickle.dumps(make())
    assert 0 in JUDGE.lines(state, call)
    JUDGE.allocations(state, call)


@pytest.mark.parametrize(
    "params",
    some([{}, {"lifetime": None}, {"lifetime": root}, {"origin": {"x0": 0.0, "x1": 1.0}}]),
)
def test_an_exception_while_tables_grow(params):
    """From 6 to 36 samples, both tables grow by copying."""
    state = pickle.dumps(forest(6, **params))
    stream = samples(30, first=4)

    def call(model, n):
        for x in stream[:n]:
            model.learn_one(x)

    assert len(JUDGE.lines_of_many(state, call, len(stream))) > 10


@pytest.mark.parametrize("call", some(READING, 4))
@pytest.mark.parametrize("params", [{}, {"directions": GIVEN}])
def test_exceptions_and_failing_allocations_while_reading(call, params):
    state = pickle.dumps(forest(6, **params))
    assert JUDGE.lines(state, READING[call]) == {0}
    JUDGE.allocations(state, READING[call])


@pytest.mark.parametrize(
    ("n_known", "params"),
    some(
        [
            (5, {}),
            (0, {}),
            (20, {"lifetime": None}),
            (14, {"lifetime": "auto"}),
            (20, {"lifetime": root}),
            (20, {"max_nodes": 30}),
        ]
    ),
)
def test_an_exception_at_any_line_of_learning_many(n_known, params):
    """The forest is as after some number of rows, which `n_samples` tells."""
    state = pickle.dumps(forest(n_known, **params))

    def call(model, n):
        model.learn_many(FRAME[:n])

    found = JUDGE.lines_of_many(state, call, len(FRAME))
    assert 0 in found
    assert len(found) > 1


def test_names_that_do_not_compare():
    """A NumPy scalar is compared with each item of a tuple, which is no answer."""
    names = [np.int64(1), ("a", "b"), (0, 5), "c", np.float64(2.5)]
    plain = DensityForest(n_estimators=3, lifetime=2.0, seed=1)
    model = DensityForest(n_estimators=3, lifetime=2.0, seed=1)
    # Features of one sample are ordered by name: by the types' names first.
    order = sorted(names, key=lambda name: (type(name).__name__, repr(name)))
    for row in np.random.default_rng(1).random((5, len(names))).tolist():
        model.learn_one(dict(zip(order, row, strict=True)))
        plain.learn_one(dict(zip("abcde", row, strict=True)))
    assert model.feature_names == order
    asked = [0.5] * len(names)
    found = model.log_density_one(dict(zip(order, asked, strict=True)))
    assert found == plain.log_density_one(dict(zip("abcde", asked, strict=True)))
