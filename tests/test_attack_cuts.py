"""Nothing that happens at any moment leaves a random cut forest neither as before nor as after."""

from __future__ import annotations

import pickle

import pytest
from attack.cut_moments import FRAME, MOMENTS, READING, forest, samples
from attack.judging import Judge, some

ASKED = [*samples(3, first=8), {"x0": 50.0, "x1": 1.0}]
LATER = samples(8, n_features=3, first=9)


def looks(model):
    """Return what can be seen of a forest; its pickle holds all rows of its trees."""
    scores = [(model.score_one(x), model.raw_scores_one(x)) for x in ASKED]
    seen = [model.n_samples, scores, model.feature_names, model._past_now(), model.recent_scores]
    return seen, pickle.dumps(model._trees)


def go_on(model):
    for x in LATER:
        model.score_one(x)
        model.learn_one(x)


JUDGE = Judge(looks, go_on, every=17)


@pytest.mark.parametrize("moment", some(MOMENTS))
def test_exceptions_and_failing_allocations_in_learning(moment):
    make, call = MOMENTS[moment]
    state = pickle.dumps(make())
    assert 0 in JUDGE.lines(state, call)
    JUDGE.allocations(state, call)


@pytest.mark.parametrize("call", some(READING, 4))
@pytest.mark.parametrize("params", [{}, {"shingle": 3}])
def test_exceptions_and_failing_allocations_while_reading(call, params):
    state = pickle.dumps(forest(60, **params))
    assert JUDGE.lines(state, READING[call]) == {0}
    JUDGE.allocations(state, READING[call])


@pytest.mark.parametrize(("n_known", "params"), some([(36, {}), (0, {}), (60, {"shingle": 3})]))
def test_an_exception_at_any_line_of_learning_many(n_known, params):
    """The forest is as after some number of rows."""
    state = pickle.dumps(forest(n_known, **params))
    found = JUDGE.lines_of_many(state, lambda model, n: model.learn_many(FRAME[:n]), len(FRAME))
    assert 0 in found
    assert len(found) > 1
