"""Nothing that happens at any moment leaves a model that is neither as before nor as after."""

from __future__ import annotations

import pickle

import pytest
from attack import states
from attack.interrupts import count_lines, interrupt
from attack.moments import FRAME, LABELS, MOMENTS, READING, forest, samples, short_of_rows
from attack.states import EVERY

ASKED = [x for x, _ in samples(3, first=8)]
LATER = samples(12, n_features=3, first=9)


def looks(model):
    """Return what can be seen of a forest; its pickle holds all rows of its trees."""
    seen = [model.n_samples, [model.predict_proba_one(x) for x in ASKED]]
    return [*seen, model.features, model.classes], pickle.dumps(model)


def goes_on(model):
    for x, y in LATER:
        model.learn_one(x, y)
    return looks(model)


def attack(state, call):
    """Interrupt a call at its lines; the model is as before it or as after it."""
    return states.attack(state, call, looks, goes_on)


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_exception_at_any_line_of_learning(moment):
    make, call = MOMENTS[moment]
    state = pickle.dumps(make())
    assert 0 in attack(state, call)


def test_an_exception_while_a_tree_gets_rows():
    model, (x, y) = short_of_rows()
    assert attack(pickle.dumps(model), lambda m: m.learn_one(x, y)) == {0, 1}


@pytest.mark.parametrize("call", READING)
def test_an_exception_at_any_line_of_reading(call):
    state = pickle.dumps(forest(30))
    assert attack(state, READING[call]) == {0}


def attack_many(state, n_known, frame=FRAME, labels=LABELS):
    """Interrupt learning a frame; the model is as after some rows, which `n_samples` tells."""
    reached = []
    for n in range(len(frame) + 1):
        model = pickle.loads(state)
        if n:
            model.learn_many(frame[:n], labels[:n])
        reached.append(looks(model)[0])
    whole = pickle.loads(state)
    n_lines = count_lines(lambda: whole.learn_many(frame, labels))
    counts = set()
    for k in range(1, n_lines + 1, EVERY):
        model = pickle.loads(state)
        assert interrupt(lambda model=model: model.learn_many(frame, labels), k)
        seen = looks(model)[0]
        assert seen == reached[seen[0] - n_known], f"line {k} of {n_lines}"
        counts.add(seen[0])
    assert min(counts) == n_known
    assert len(counts) > 1


@pytest.mark.parametrize("n_known", [5, 250, 300])
def test_an_exception_at_any_line_of_learning_many(n_known):
    attack_many(pickle.dumps(forest(n_known)), n_known)
