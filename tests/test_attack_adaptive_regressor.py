"""Nothing that happens at any moment leaves an adaptive regressor neither as before nor after."""

from __future__ import annotations

import pickle

import pytest
from attack.adaptive_target_moments import HAPPENINGS, MOMENTS, READING, happening, regressor
from attack.detectors import EveryFew
from attack.judging import Judge, some
from attack.target_moments import FRAME, TARGETS, samples

ASKED = [x for x, _ in samples(3, first=8)]
LATER = samples(12, n_features=3, first=9)


def looks(model):
    """Return what can be seen of a model; its pickle holds all rows of its trees."""
    seen = [model.n_samples, [model.predict_one(x) for x in ASKED], model.feature_names]
    return seen, pickle.dumps(model)


def go_on(model):
    for x, y in LATER:
        model.learn_one(x, y)


JUDGE = Judge(looks, go_on, every=31)
# An explanation takes many lines, most of which are the same for each order.
SELDOM = Judge(looks, go_on, every=500)


@pytest.mark.parametrize("moment", some(MOMENTS))
def test_exceptions_and_failing_allocations_in_learning(moment):
    make, call = MOMENTS[moment]
    state = pickle.dumps(make())
    assert 0 in JUDGE.lines(state, call)
    JUDGE.allocations(state, call)


@pytest.mark.parametrize("name", some(HAPPENINGS))
def test_exceptions_and_failing_allocations_in_what_happens_now_and_then(name):
    state, (x, y) = happening(name)
    assert JUDGE.lines(state, lambda m: m.learn_one(x, y)) == {0, 1}
    JUDGE.allocations(state, lambda m: m.learn_one(x, y))


@pytest.mark.parametrize("call", some(READING, 4))
def test_exceptions_and_failing_allocations_while_reading(call):
    state = pickle.dumps(regressor(30, drift_detector=EveryFew()))
    judge = SELDOM if call == "explain_one" else JUDGE
    assert judge.lines(state, READING[call]) == {0}
    judge.allocations(state, READING[call])


@pytest.mark.parametrize("n_known", some([250, 5]))
def test_an_exception_at_any_line_of_learning_many(n_known):
    def learn(model, n):
        model.learn_many(FRAME[:n], TARGETS[:n])

    state = pickle.dumps(regressor(n_known))
    found = JUDGE.lines_of_many(state, learn, 9)
    assert 0 in found
    assert len(found) > 1
