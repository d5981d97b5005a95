"""Nothing that happens at any moment leaves a regressor neither as before nor as after."""

from __future__ import annotations

import pickle

import pytest
from attack.interrupts import count_lines, interrupt
from attack.judging import Judge, some
from attack.target_moments import (
    FRAME,
    GROWING,
    MOMENTS,
    READING,
    TARGETS,
    WEIGHTS,
    learn,
    regressor,
    samples,
    short_of_rows,
)

ASKED = [x for x, _ in samples(3, first=8)]
LATER = samples(12, n_features=3, first=9)


def looks(model):
    """Return what can be seen of a regressor; its pickle holds all rows of its trees."""
    seen = [model.n_samples, [model.predict_one(x) for x in ASKED]]
    seen += [model.feature_names, model.hyperparameters, model.tail_weights]
    return seen, pickle.dumps(model)


def go_on(model):
    for x, y in LATER:
        model.learn_one(x, y)


JUDGE = Judge(looks, go_on, every=23)


@pytest.mark.parametrize("moment", some(MOMENTS))
def test_exceptions_and_failing_allocations_in_learning(moment):
    make, call = MOMENTS[moment]
    state = pickle.dumps(make())
    assert 0 in JUDGE.lines(state, call)
    JUDGE.allocations(state, call)


@pytest.mark.parametrize("params", some([GROWING, {}, {"posterior": "mean"}]))
def test_exceptions_and_failing_allocations_while_a_tree_gets_rows(params):
    model, (x, y) = short_of_rows(**params)
    state = pickle.dumps(model)
    assert JUDGE.lines(state, lambda m: m.learn_one(x, y)) == {0, 1}
    JUDGE.allocations(state, lambda m: m.learn_one(x, y))


@pytest.mark.parametrize("n", some([255, 63, 1023]))
def test_a_choice_that_is_interrupted_is_completed(n):
    """The sample has been learned from its kernel on."""
    state = pickle.dumps(regressor(n))
    assert JUDGE.lines(state, learn) == {0, 1}
    assert 1 in JUDGE.allocations(state, learn)


def test_a_choice_may_be_interrupted_again_and_again():
    state = pickle.dumps(regressor(1023))
    whole, model = pickle.loads(state), pickle.loads(state)
    n_lines = count_lines(lambda: learn(whole))
    assert interrupt(lambda: learn(model), n_lines // 2)
    assert model.n_samples == 1024
    for k in range(1, 400, 13):
        if not interrupt(lambda: model.predict_one(ASKED[0]), k):
            break
    assert looks(model) == looks(whole)


@pytest.mark.parametrize("call", some(READING, 4))
def test_exceptions_and_failing_allocations_while_reading(call):
    state = pickle.dumps(regressor(9))
    assert JUDGE.lines(state, READING[call]) == {0}
    JUDGE.allocations(state, READING[call])


@pytest.mark.parametrize(
    ("n_known", "params"),
    some(
        [
            (250, {}),
            (5, {}),
            (300, {}),
            (506, {"n_jobs": 2}),
            (300, {"n_jobs": 2}),
            (506, {}),
            (300, GROWING),
            (300, {"max_nodes": 7}),
            (300, {"directions": 3}),
        ]
    ),
)
def test_an_exception_at_any_line_of_learning_many(n_known, params):
    """The regressor is as after some number of rows, which `n_samples` tells."""
    state = pickle.dumps(regressor(n_known, **params))

    def call(model, n):
        model.learn_many(FRAME[:n], TARGETS[:n], WEIGHTS[:n])

    found = JUDGE.lines_of_many(state, call, len(FRAME))
    assert 0 in found
    assert len(found) > 1
