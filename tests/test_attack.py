"""Nothing that happens at any moment leaves a model that is neither as before nor as after."""

from __future__ import annotations

import pickle

import pytest
from attack.allocations import count_allocations, fail_allocation
from attack.judging import Judge, some
from attack.moments import FRAME, LABELS, MOMENTS, READING, forest, samples, short_of_rows

ASKED = [x for x, _ in samples(3, first=8)]
LATER = samples(12, n_features=3, first=9)


def looks(model):
    """Return what can be seen of a forest; its pickle holds all rows of its trees."""
    seen = [model.n_samples, [model.predict_proba_one(x) for x in ASKED]]
    return [*seen, model.feature_names, model.classes], pickle.dumps(model)


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


def test_exceptions_and_failing_allocations_while_a_tree_gets_rows():
    model, (x, y) = short_of_rows()
    state = pickle.dumps(model)
    assert JUDGE.lines(state, lambda m: m.learn_one(x, y)) == {0, 1}
    JUDGE.allocations(state, lambda m: m.learn_one(x, y))


@pytest.mark.parametrize("call", some(READING, 4))
def test_exceptions_and_failing_allocations_while_reading(call):
    state = pickle.dumps(forest(30))
    assert JUDGE.lines(state, READING[call]) == {0}
    JUDGE.allocations(state, READING[call])


def test_memory_of_kernels_can_be_made_to_fail():
    model = forest(30)

    def call():
        found.append(model.predict_proba_one({"x0": 0.3}))

    found = []
    call()
    n = count_allocations(call)
    assert n > 0
    # The last allocation is the kernel's: room for which rows lack a value.
    assert fail_allocation(call, n)
    assert len(found) == 2
    call()
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("n_known", some([250, 5, 300]))
def test_an_exception_at_any_line_of_learning_many(n_known):
    def learn(model, n):
        model.learn_many(FRAME[:n], LABELS[:n])

    found = JUDGE.lines_of_many(pickle.dumps(forest(n_known)), learn, len(FRAME))
    assert 0 in found
    assert len(found) > 1
