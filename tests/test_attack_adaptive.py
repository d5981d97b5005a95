"""Nothing that happens at any moment leaves an adaptive forest neither as before nor as after."""

from __future__ import annotations

import pickle

import pytest
from attack.adaptive_moments import HAPPENINGS, MOMENTS, READING, forest, happening
from attack.detectors import EveryFew
from attack.moments import FRAME, LABELS
from test_attack import attack, attack_many


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_exception_at_any_line_of_learning(moment):
    make, call = MOMENTS[moment]
    assert 0 in attack(pickle.dumps(make()), call)


@pytest.mark.parametrize("name", HAPPENINGS)
def test_an_exception_at_any_line_of_what_happens_now_and_then(name):
    state, (x, y) = happening(name)
    assert attack(state, lambda m: m.learn_one(x, y)) == {0, 1}


@pytest.mark.parametrize("call", READING)
def test_an_exception_at_any_line_of_reading(call):
    state = pickle.dumps(forest(30, drift_detector=EveryFew()))
    assert attack(state, READING[call]) == {0}


@pytest.mark.parametrize("n_known", [5, 250])
def test_an_exception_at_any_line_of_learning_many(n_known):
    attack_many(
        pickle.dumps(forest(n_known, drift_detector=EveryFew())), n_known, FRAME[:9], LABELS[:9]
    )
