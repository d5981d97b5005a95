"""Tests that signals and limits of memory leave a model in its state before or after a call."""

import os
import pickle
import signal
import sys
from functools import partial

import numpy as np
import pytest
from attack import memory_limit, signals
from attack.judging import some
from common import answer, fed, stream
from test_contract import learned, models

SIGNALS = int(os.environ.get("ATTACK_SIGNALS", "12"))

ASKED = [x for x, _ in stream(3, 8)]


def look(model):
    return getattr(model, "n_samples", None), [answer(model, x) for x in ASKED]


def learn_one(model, sample):
    fed(model, [sample])


def growing(n, first):
    """Return samples, some of which have a new feature or a new label."""
    return [
        (x | ({f"z{i}": 0.5} if i % 13 == 0 else {}), y + 2 * (i % 17 == 0))
        for i, (x, y) in enumerate(stream(n, first))
    ]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
@models
@pytest.mark.parametrize("n", some([30, 0, 250]))
def test_signals_while_a_model_learns(name, n):
    state = pickle.dumps(learned(name, n))
    given = partial(pickle.loads, state), growing(60, n), learn_one, look
    signals.attack(*given, SIGNALS, np.random.default_rng(n))


@pytest.mark.skipif(sys.platform != "linux", reason="needs enforced limits of memory")
@pytest.mark.parametrize("name", ["classifier", "regressor", "means", "adaptive"])
def test_memory_that_is_short(name):
    state = pickle.dumps(learned(name, 20))
    model = pickle.loads(state)
    # Kernels are compiled before the limit is set, because compiling needs memory.
    for sample in memory_limit.samples(6):
        learn_one(model, sample)
    look(model)
    assert memory_limit.attack(state, learn_one, look) == 0
