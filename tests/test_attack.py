"""Tests that an interruption leaves a model in its state before or after the call.

The suite attacks one event of each mechanism. With `ATTACK_EVERY=n`, all events are attacked, at
every n-th line, or more often in short calls. Calls of 10,000 lines or more may be attacked less
often.
"""

import contextlib
import pickle
from functools import partial

import numpy as np
import pytest
from attack import moments
from attack.allocations import count_allocations, fail_allocation
from attack.interrupts import count_lines, interrupt
from attack.judging import IS_FULL, Judge
from common import has_probabilities, raises
from river import optim

from river_mondrian import OGDRegressor
from river_mondrian.model import Steps

JUDGE = Judge(moments.looks, moments.go_on, every=31)
# An explanation runs about ten thousand lines, mostly the same lines for each expert.
SELDOM = Judge(moments.looks, moments.go_on, every=500)


# One event of each mechanism, for the suite.
EXACT = ["first sample", "first weight late", "wider sets", "full window, new features"]
EXACT += ["end of the warm-up", "end of a renewal, category"]
REGRESSOR = ["third change", "lifetime, doubling", "setting aside, between"]
IN_SUITE = {
    "exact": EXACT,
    "adaptive": ["end of the warm-up", "many classes"],
    "regressor": [*REGRESSOR, "forgetting the last one"],
    "adaptive regressor": ["wild", "new features late"],
    "cuts": ["renewal", "shingle, new features"],
    "density": ["mixed, renewal", "random directions, growing", "window"],
    "ogd": ["third class late, new features"],
    "ogd auto": ["end of the start"],
    "mondrian": ["missing value"],
    "alarms": ["alarm", "confirm"],
    "monitor": ["reference, class"],
    "ridge window": ["forget"],
    **dict.fromkeys(["isolation trees", "nystrom", "dual cells"], ("15 samples",)),
    **dict.fromkeys(["neighbors", "ridge capped", "binning"], ("new features late",)),
}
HAPPEN_IN_SUITE = {
    "exact": ["rows grow"],
    "adaptive": ["a drift", "a recent tree is placed"],
    "adaptive regressor": ["fences move"],
    "cuts": ["a sample passes"],
    "monitor": ["an alarm", "the final version and a reference"],
}


def all_of(table, in_suite):
    chosen = table if IS_FULL else in_suite
    return [(kind, name) for kind, names in chosen.items() for name in names]


@pytest.mark.parametrize(("kind", "moment"), all_of(moments.MOMENTS, IN_SUITE))
def test_exceptions_and_failing_allocations_in_learning(kind, moment):
    n, params, call = moments.MOMENTS[kind][moment]
    state = pickle.dumps(moments.forest(kind, n, **params))
    assert 0 in JUDGE.lines(state, call)
    JUDGE.allocations(state, call)


@pytest.mark.parametrize("kind", ["ridge", "ogd", "binning"])
def test_steps_may_be_repeated_after_the_last_one(kind, monkeypatch):
    """An interruption may come between the last step and the record of its end."""
    n, params, call = moments.MOMENTS[kind]["15 samples"]
    state = pickle.dumps(moments.forest(kind, n, **params))
    model, other = pickle.loads(state), pickle.loads(state)
    call(model)
    once = Steps.settle
    monkeypatch.setattr(Steps, "settle", lambda steps: (once(steps), once(steps)))
    call(other)
    assert moments.looks(other) == moments.looks(model)


@pytest.mark.parametrize(("kind", "name"), all_of(moments.HAPPENINGS, HAPPEN_IN_SUITE))
def test_exceptions_and_failing_allocations_in_what_happens_now_and_then(kind, name):
    state, call = moments.happening(kind, name)
    assert JUDGE.lines(state, call) <= {0, 1}
    JUDGE.allocations(state, call)


READ = [
    (kind, name)
    for kind, (cls, _) in moments.KINDS.items()
    for name in moments.READINGS
    if hasattr(cls, name)
    and (name != "predict_proba_one" or has_probabilities(moments.forest(kind, 0)))
]


@pytest.mark.parametrize(("kind", "name"), READ if IS_FULL else READ[::29])
def test_exceptions_and_failing_allocations_while_reading(kind, name):
    state = pickle.dumps(moments.forest(kind, 30))
    judge = SELDOM if name == "explain_one" else JUDGE
    assert judge.lines(state, lambda model: moments.read(model, name)) == {0}
    judge.allocations(state, lambda model: moments.read(model, name))


# All configurations that learn frames, after several numbers of samples.
BATCHES = [
    (kind, n)
    for kind, (cls, _) in moments.KINDS.items()
    if hasattr(cls, "learn_many")
    for n in (5, 40, 250, 506)
]


@pytest.mark.parametrize(("kind", "n"), BATCHES if IS_FULL else BATCHES[1::14])
def test_an_exception_at_any_line_of_learning_many(kind, n):
    """The model has learned each row completely or not at all, and `n_samples` counts the rows."""
    state = pickle.dumps(moments.forest(kind, n))
    assert 0 in JUDGE.lines_of_many(state, moments.learn_rows, len(moments.FRAME))


def test_memory_of_kernels_can_be_made_to_fail():
    model, found = moments.forest("exact", 30), []

    def call():
        found.append(model.predict_proba_one({"x0": 0.3}))

    call()
    n = count_allocations(call)
    # The kernel makes the last allocation, for rows without a value.
    assert n > 0 and fail_allocation(call, n) and len(found) == 2
    call()
    assert found[0] == found[1] == found[2]


def test_a_change_of_hyperparameters_may_be_interrupted_again_and_again():
    state = pickle.dumps(moments.forest("regressor", 1023))
    whole, model = pickle.loads(state), pickle.loads(state)
    n_lines = count_lines(lambda: moments.usual(whole))
    assert interrupt(lambda: moments.usual(model), n_lines // 2)
    assert model.n_samples == 1024
    for k in range(1, 400, 13):
        if not interrupt(lambda: model.predict_one(moments.ASKED[0]), k):
            break
    assert moments.looks(model) == moments.looks(whole)


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


# Losses written in Python.


class Refusing(optim.losses.Squared):
    """A loss without a gradient for one target."""

    def gradient(self, y_true, y_pred):
        if y_true == 13.0:
            raise ValueError("no gradient")
        return super().gradient(y_true, y_pred)


@pytest.mark.parametrize("kind", ["mondrian", "fourier", "binning"])
def test_a_loss_that_raises_an_error_raises_it_once(kind):
    """The sample counts in `n_samples`, but the weights stay."""
    model, other = (OGDRegressor(moments.forest(kind, 0), Refusing()) for _ in range(2))
    for i, (x, y, _) in enumerate(moments.samples(40)):
        if i == 20:
            raises(ValueError, "no gradient", partial(model.learn_one, x, 13.0))
            other.learn_one(x, y, 0.0)
        else:
            model.learn_one(x, y)
            other.learn_one(x, y)
        assert model.n_samples == other.n_samples == i + 1
    assert moments.looks(model)[0] == moments.looks(other)[0]


def test_a_loss_that_raises_in_replays():
    """Each new map learns the stored samples again, and raises the refused sample's error once."""
    model, n_errors = OGDRegressor(moments.forest("isolation", 0), Refusing()), 0
    for i, (x, y, _) in enumerate(moments.samples(60)):
        try:
            model.learn_one(x, 13.0 if i == 3 else y)
        except ValueError:
            n_errors += 1
        assert model.n_samples == i + 1
    # The first error is from the sample itself, and the others are from the next two maps.
    assert n_errors == 3
    model.predict_one(moments.ASKED[0])


def test_a_signal_is_not_taken_for_the_error_of_a_loss():
    """A signal handler may raise any error during the computation of the loss; the step is kept."""
    raised, gives_up = [], pytest.raises(TimeoutError)

    class Interrupted(Refusing):
        def gradient(self, y_true, y_pred):
            if y_true == 5.0 and not raised:
                raised.append(1)
                raise TimeoutError
            return super().gradient(y_true, y_pred)

    model, other = (
        OGDRegressor(moments.forest("mondrian", 0), loss()) for loss in (Interrupted, Refusing)
    )
    for i, (x, y, _) in enumerate(moments.samples(40)):
        target = 5.0 if i == 20 else y
        other.learn_one(x, target)
        with gives_up if i == 20 else contextlib.nullcontext():
            model.learn_one(x, target)
    found = [[one.predict_one(x) for x in moments.ASKED] for one in (model, other)]
    assert found[0] == found[1]
