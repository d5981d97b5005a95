"""Nothing that happens at any moment leaves an adaptive forest neither as before nor as after."""

from __future__ import annotations

import pickle

import pytest
from attack.adaptive_moments import HAPPENINGS, MOMENTS, READING, forest, happening
from attack.detectors import EveryFew
from attack.judging import Judge, some
from attack.moments import FRAME, LABELS
from test_attack import JUDGE


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


# An explanation takes some ten thousand lines, most of which are the same for each expert.
SELDOM = Judge(JUDGE.looks, JUDGE.go_on, every=500)


@pytest.mark.parametrize("call", some(READING, 4))
def test_exceptions_and_failing_allocations_while_reading(call):
    state = pickle.dumps(forest(30, drift_detector=EveryFew()))
    judge = SELDOM if call == "explain_one" else JUDGE
    assert judge.lines(state, READING[call]) == {0}
    judge.allocations(state, READING[call])


@pytest.mark.parametrize("n_known", some([250, 5]))
@pytest.mark.parametrize("weight", some([2.0, 1.0]))
def test_an_exception_at_any_line_of_learning_many(n_known, weight):
    def learn(model, n):
        model.learn_many(FRAME[:n], LABELS[:n], [weight if i > 4 else 1.0 for i in range(n)])

    state = pickle.dumps(forest(n_known, drift_detector=EveryFew()))
    found = JUDGE.lines_of_many(state, learn, 9)
    assert 0 in found
    assert len(found) > 1
