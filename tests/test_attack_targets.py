"""Nothing that happens at any moment leaves a regressor neither as before nor as after."""

from __future__ import annotations

import os
import pickle

import pytest
from attack.interrupts import count_lines, interrupt
from attack.states import attack, attack_many
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
EVERY = int(os.environ.get("ATTACK_EVERY", "11"))


def looks(model):
    """Return what can be seen of a regressor; its pickle holds all rows of its trees."""
    seen = [model.n_samples, [model.predict_one(x) for x in ASKED]]
    seen += [model.features, model.hyperparameters, model.scale_weights]
    return seen, pickle.dumps(model)


def goes_on(model):
    for x, y in LATER:
        model.learn_one(x, y)
    return looks(model)


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_exception_at_any_line_of_learning(moment):
    make, call = MOMENTS[moment]
    assert 0 in attack(pickle.dumps(make()), call, looks, goes_on)


@pytest.mark.parametrize("params", [{}, {"posterior": "mean"}, GROWING])
def test_an_exception_while_a_tree_gets_rows(params):
    model, (x, y) = short_of_rows(**params)
    found = attack(pickle.dumps(model), lambda m: m.learn_one(x, y), looks, goes_on)
    assert found == {0, 1}


@pytest.mark.parametrize("n", [63, 255, 1023])
def test_a_choice_that_is_interrupted_is_completed(n):
    """The sample has been learned from its kernel on."""
    state = pickle.dumps(regressor(n))
    assert attack(state, learn, looks, goes_on, every=7) == {0, 1}


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


@pytest.mark.parametrize("call", READING)
def test_an_exception_at_any_line_of_reading(call):
    state = pickle.dumps(regressor(9))
    assert attack(state, READING[call], looks, goes_on) == {0}


@pytest.mark.parametrize(
    ("n_known", "params"),
    [
        (5, {}),
        (250, {}),
        (300, {}),
        (506, {}),
        (300, {"n_jobs": 2}),
        (506, {"n_jobs": 2}),
        (300, {"max_nodes": 7}),
        (300, {"directions": 3}),
        (300, GROWING),
    ],
)
def test_an_exception_at_any_line_of_learning_many(n_known, params):
    """The regressor is as after some number of rows, which `n_samples` tells."""
    state = pickle.dumps(regressor(n_known, **params))

    def call(model, n):
        model.learn_many(FRAME[:n], TARGETS[:n], WEIGHTS[:n])

    counts = attack_many(state, call, len(FRAME), looks, n_known)
    assert min(counts) == n_known
    assert len(counts) > 1
