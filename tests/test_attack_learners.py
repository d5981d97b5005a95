"""Nothing leaves a feature map, or a learner on one, that is neither as before nor as after."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from attack.allocations import count_allocations, fail_allocation
from attack.learners import (
    JUDGE,
    LEARNERS,
    MAPS,
    MOMENTS,
    MOMENTS_OF_START,
    ROWS,
    WIDE,
    X,
    answers,
    before_growth,
    call_of,
    is_map,
    learn,
    learn_rows,
    learned,
)
from attack.moments import samples
from river import optim

from river_mondrian import OGDRegressor

MODELS = MAPS | LEARNERS
# Moments at which more or fewer labels make a difference.
OF_CLASSES = [moment for moment in MOMENTS if "class" in moment]
CASES = [
    (name, moment)
    for name in MODELS
    for moment in MOMENTS
    if moment not in OF_CLASSES or (name.startswith(("ogd", "dual")) and "regressor" not in name)
]
# Maps are built anew of 255 samples at the first of them: thousands of lines.
OF_START = [(name, moment) for name in MODELS if "auto" in name for moment in MOMENTS_OF_START]

GROWTH = [(name, table) for name in MODELS if "mondrian" in name for table in ("nodes", "points")]

N_KNOWN = [0, 12, 60]
N_READ = [1, 40]
if JUDGE.every > 1:
    # Some of each; each model is among them.
    CASES, GROWTH, N_KNOWN, N_READ = [*CASES[::7], OF_START[4]], GROWTH[::5], [12], [40]
    SOME = list(MODELS)[::3]
else:
    CASES, SOME = CASES + OF_START, list(MODELS)


def state_before(name, moment):
    n, n_labels, _, _ = (MOMENTS | MOMENTS_OF_START)[moment]
    return pickle.dumps(learned(MODELS[name], n, n_labels))


@pytest.mark.parametrize(("name", "moment"), CASES)
def test_exceptions_and_failing_allocations_in_learning(name, moment):
    state = state_before(name, moment)
    assert JUDGE.lines(state, call_of(moment)) <= {0, 1}
    JUDGE.allocations(state, call_of(moment))


@pytest.mark.parametrize(("name", "table"), GROWTH)
def test_exceptions_and_failing_allocations_while_a_table_grows(name, table):
    state, x, y = before_growth(MODELS[name], table, 260 if "auto" in name else 20)
    JUDGE.lines(state, lambda model: learn(model, x, y))
    JUDGE.allocations(state, lambda model: learn(model, x, y))


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("n_known", N_KNOWN)
def test_an_exception_at_any_line_of_learning_many(name, n_known):
    state = pickle.dumps(learned(MODELS[name], n_known))
    found = JUDGE.lines_of_many(state, learn_rows, 12)
    assert 0 in found


def read(model):
    """Call what reads a model."""
    x = WIDE | {"unknown": 1.0}
    if is_map(model):
        model.transform_one(x)
        model.transform_many(ROWS)
    else:
        model.predict_one(x)
        if hasattr(model, "predict_many"):
            model.predict_many(ROWS)
    model.__getstate__()


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("n", N_READ)
def test_exceptions_and_failing_allocations_while_reading(name, n):
    state = pickle.dumps(learned(MODELS[name], n))
    assert JUDGE.lines(state, read) == {0}
    JUDGE.allocations(state, read)


def test_each_allocation_can_be_made_to_fail():
    def call():
        arrays = [np.empty(10), np.zeros((3, 3)), np.full(4, 1.0)]
        arrays += [arrays[0].copy(), np.concatenate(arrays[1:2])]
        arrays[0].resize(100, refcheck=False)

    n = count_allocations(call)
    assert n >= 6
    assert all(fail_allocation(call, k) for k in range(1, n + 1))
    assert not fail_allocation(call, n + 1)
    assert count_allocations(lambda: None) == 0


class Refusing(optim.losses.Squared):
    """A loss that has no gradient for a target."""

    def gradient(self, y_true, y_pred):
        if y_true == 13.0:
            raise ValueError("no gradient")
        return super().gradient(y_true, y_pred)


@pytest.mark.parametrize("name", ["mondrian", "fourier", "binning"])
def test_a_loss_that_raises_an_error_raises_it_once(name):
    """The sample counts, without a step."""
    model, other = (OGDRegressor(MAPS[name](), Refusing()) for _ in range(2))
    for i, (x, y) in enumerate(samples(40)):
        if i == 20:
            with pytest.raises(ValueError, match="no gradient"):
                model.learn_one(x, 13.0)
            other.learn_one(x, y, 0.0)
        else:
            model.learn_one(x, y)
            other.learn_one(x, y)
        assert model.n_samples == other.n_samples == i + 1
    assert answers(model) == answers(other)


def test_a_loss_that_raises_in_replays():
    """Stored samples are learned again by each map that is built of them, and raise there once."""
    model, n_errors = OGDRegressor(MAPS["anne"](), Refusing()), 0
    for i, (x, y) in enumerate(samples(60)):
        try:
            model.learn_one(x, 13.0 if i == 3 else y)
        except ValueError:
            n_errors += 1
        assert model.n_samples == i + 1
    # When it comes, and for the two maps after that.
    assert n_errors == 3
    model.predict_one(X)


def test_a_signal_is_not_taken_for_the_error_of_a_loss():
    """A handler may raise an error of any kind within the loss: the sample has its step then."""
    raised = []

    class Interrupted(Refusing):
        def gradient(self, y_true, y_pred):
            if y_true == 5.0 and not raised:
                raised.append(1)
                raise TimeoutError
            return super().gradient(y_true, y_pred)

    model, other = (OGDRegressor(MAPS["mondrian"](), loss()) for loss in (Interrupted, Refusing))
    for i, (x, y) in enumerate(samples(40)):
        target = 5.0 if i == 20 else y
        other.learn_one(x, target)
        try:
            model.learn_one(x, target)
        except TimeoutError:
            assert i == 20
    assert raised
    assert answers(model) == answers(other)
