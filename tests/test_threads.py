"""Tests of threads that share a model: results do not mix, and all samples are learned."""

import collections
import contextlib
import copy
import functools
import inspect
import itertools
import os
import signal
import sys
import threading
import time
from concurrent import futures
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from attack.detectors import EveryFew
from attack.tally import note
from common import HANGS, answer, exit_of, fed, forked, restored, run, stream
from river import base
from test_contract import SUPERVISED, learned, models

import river_mondrian as rm
from river_mondrian.model import Model

# A slow machine may need more time for the smallest number of runs.
SECONDS, LEAST_RUNS = float(os.environ.get("ATTACK_SECONDS", "0.25")), 3


@pytest.fixture(autouse=True)
def switches_often():
    """Let threads switch as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*works):
    """Run each function in a thread for some time, at least `LEAST_RUNS` times."""
    begin = threading.Barrier(len(works))

    def run(work):
        begin.wait()
        end, n_runs = time.monotonic() + SECONDS, 0
        while n_runs < LEAST_RUNS or time.monotonic() < end:
            work()
            n_runs += 1
        return n_runs

    threads = futures.ThreadPoolExecutor(len(works))
    started = [threads.submit(run, work) for work in works]
    assert not futures.wait(started, SECONDS + HANGS).not_done, "a thread hangs"
    n_runs = sum(one.result() for one in started)
    note(f"runs of {len(works)} threads with one model", n_runs)


@models
def test_predictions_are_those_of_their_own_samples(name):
    # Alarms score 0 before they have learned 100 samples.
    model, n_threads = learned(name, 150), 4
    asked = [x for x, _ in stream(n_threads, 5)]
    # A distant sample raises an alarm.
    asked[0] = {feature: 100.0 * value for feature, value in asked[0].items()}
    expected = [answer(model, x) for x in asked]
    assert any(one != expected[0] for one in expected)

    def ask(i):
        for _ in range(50):
            assert answer(model, asked[i]) == expected[i]

    together(*(functools.partial(ask, i) for i in range(n_threads)))


def calls(model, counts, folder):
    """Return the calls that threads may make; append numbers of learned samples to `counts`."""
    learning = threading.Lock()
    endless = itertools.cycle(stream(500, 7))
    x, labels = stream(1, 9)[0][0], [y for _, y in stream(30, 8)]
    frame = pd.DataFrame([x for x, _ in stream(30, 8)])

    def learn_some():
        # Threads may not share an iterator.
        with learning:
            samples = [next(endless) for _ in range(10)]
        for sample in samples:
            fed(model, [sample])
            counts.append(1)

    def learn_many():
        model.learn_many(frame, *([labels] if isinstance(model, SUPERVISED) else []))
        counts.append(len(frame))

    def predict():
        for x, _ in stream(10, 9):
            answer(model, x)

    def predict_many():
        for name in ("predict_many", "score_many", "transform_many"):
            if hasattr(model, name):
                getattr(model, name)(frame)

    def save():
        path = folder / f"{threading.get_ident()}"
        rm.save(model, path)
        answer(rm.load(path), x)

    found = [learn_some, predict, save, lambda: restored(model)]
    found.append(lambda: answer(copy.deepcopy(model), x))
    return found + ([learn_many, predict_many] if hasattr(model, "learn_many") else [])


@pytest.mark.covering
@models
@pytest.mark.parametrize("n", [0, 300])
def test_everything_at_once(name, n, tmp_path):
    """The model has learned all samples of all threads."""
    model, counts = learned(name, n), []
    together(*calls(model, counts, tmp_path))
    assert getattr(model, "n_samples", n + sum(counts)) == n + sum(counts)
    again = restored(model)
    for x, _ in stream(5, 10):
        assert answer(model, x) == answer(again, x)


def test_predictions_beside_drifts_are_before_or_after_them():
    """A prediction is made before or after a drift, never in between."""
    model = rm.AdaptiveMondrianForestClassifier(2, drift_detector=EveryFew(5), seed=1)
    fed(model, stream(300))
    seen, asked, other = set(), stream(1, 9)[0][0], copy.deepcopy(model)
    end, predicted = threading.Event(), threading.Event()

    def said(model):
        return tuple(model.predict_proba_one(asked).items())

    def predict():
        while not end.is_set():
            seen.add(said(model))
            predicted.set()

    # The labels change every 40 samples.
    turning = [(x, (y + i // 40) % 2) for i, (x, y) in enumerate(stream(400, 4))]
    with futures.ThreadPoolExecutor(1) as thread:
        predicting = thread.submit(predict)
        try:
            for start in range(0, 400, 40):
                fed(model, turning[start : start + 40])
                # This ensures a prediction after each block, even on a busy machine.
                predicted.clear()
                assert predicted.wait(HANGS)
        finally:
            end.set()
        predicting.result()
    possible = {said(other)}
    for sample in turning:
        fed(other, [sample])
        possible.add(said(other))
    assert len(model.drift_log) > 2
    assert len(seen) > 3
    assert seen <= possible


@pytest.mark.parametrize("name", ["classifier", "adaptive"])
def test_calls_that_are_prepared_within_a_change_are_forgotten_with_it(name):
    """The comparison of a new label may call the model and raise an error."""
    model, asked = learned(name, 40), {"a": 0.1, "b": 0.2}

    class Label:
        breaks = True

        def __hash__(self):
            return 1

        def __eq__(self, other):
            if self.breaks:
                model.predict_one(asked)
                self.breaks = False
                raise RuntimeError
            return self is other

    before = model.predict_proba_one(asked)
    with contextlib.suppress(RuntimeError):
        model.learn_one({"a": 0.3, "b": 0.1, "new": 1.0}, Label())
    assert model.predict_proba_one(asked) == before
    model.learn_one({"a": 0.3, "b": 0.1}, "other")
    assert list(model.predict_proba_one(asked))[-1] == "other"


@models
def test_public_methods_hold_the_lock(name):
    """Besides `clone` and `warmup`, only some methods of classifiers take no lock.

    These methods use separate buffers, and rely on the global interpreter lock.
    """
    model, lock = learned(name, 40), mock.MagicMock()
    lock._is_owned.return_value = False
    model._lock = lock
    left = {"clone", "warmup"}
    if name in ("classifier", "classifier, window", "adaptive"):
        left |= {"predict_one", "predict_proba_one"}
    if name.startswith("classifier"):
        left |= {"learn_one", "learn_many"}
    frame, labels = pd.DataFrame([x for x, _ in stream(4, 2)]), [y for _, y in stream(4, 2)]
    x, y = stream(1, 3)[0]
    known = {"X": frame, "x": x, "y": y, "partition": 0, "tree": 0, "t": 0}
    known |= {"feature": "a", "levels": ["red"], "alarm": None}
    for attribute, method in inspect.getmembers(type(model), inspect.isfunction):
        is_own = method.__module__.startswith("river_mondrian")
        if attribute.startswith(("_", "draw")) or attribute in left or not is_own:
            continue
        given = {key: known[key] for key in inspect.signature(method).parameters if key in known}
        if attribute == "gram":
            given = {"X": frame}
        elif {"X", "y"} <= given.keys():
            given["y"] = labels
        elif attribute in ("kernel", "limit_kernel"):
            given["y"] = x
        lock.reset_mock()
        # Removing a sample that was not learned raises an error.
        try:
            method(model, **given)
        except NotImplementedError:
            # The method does not read the model.
            continue
        except (ValueError, KeyError):
            pass
        assert lock.__enter__.called, attribute


@models
def test_locks_are_not_copied(name):
    model, x = learned(name, 5), stream(1)[0][0]
    for other in (copy.deepcopy(model), copy.copy(model), restored(model)):
        assert other._lock is not model._lock
        with futures.ThreadPoolExecutor(1) as thread, model._lock:
            thread.submit(answer, other, x).result(HANGS)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_has_no_locks_of_other_threads():
    model, x = learned("regressor", 20), stream(1)[0][0]
    expected = answer(model, x)
    held, release = threading.Event(), threading.Event()

    def hold():
        with model._lock:
            held.set()
            release.wait()

    def answer_in_time():
        signal.alarm(int(HANGS))
        return answer(model, x) != expected

    with futures.ThreadPoolExecutor(1) as thread:
        thread.submit(hold)
        try:
            assert held.wait(HANGS)
            assert exit_of(forked(answer_in_time)) == 0
        finally:
            release.set()


AT_THE_END = """
import atexit, threading, time
import numpy as np, river_mondrian as rm
def score():
    for model in models:
        print(model.score_many(X).sum() == before[id(model)])
def late():
    time.sleep(0.5)
    score()
X = np.random.default_rng(1).random((400, 2))
models = [make(n_jobs=2, seed=1) for make in (rm.NearestNeighborDetector, rm.RandomCutForest)]
before = {}
for model in models:
    model.learn_many(X[:100])
    before[id(model)] = model.score_many(X).sum()
atexit.register(score)
threading.Thread(target=late).start()
"""


def test_threads_can_be_used_at_the_end_of_a_process():
    """A thread that outlives the main thread, and a function of `atexit`, use several threads."""
    found, errors = run("-c", AT_THE_END)
    assert found.split() == ["True"] * 4, errors


def test_threads_that_cannot_start_are_not_needed(monkeypatch):
    X = np.random.default_rng(1).random((40, 2))
    model = fed(rm.NearestNeighborDetector(n_jobs=3, seed=1), [dict(enumerate(x)) for x in X])
    expected = model.score_many(X).tolist()

    def refuse(self):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert model.score_many(X).tolist() == expected


def test_a_mapping_may_call_the_model():
    class Asking(collections.UserDict):
        def keys(self):
            asked.append(model.predict_one({"a": 0.1, "b": 0.2}))
            return super().keys()

    for name in ("classifier", "regressor", "adaptive", "ogd"):
        model, asked = learned(name, 40), []
        fed(model, [(Asking(a=0.3, b=0.4, c=0.5), 1)])
        assert asked, name
        assert isinstance(model, Model)
        assert isinstance(model, base.Estimator)


@pytest.mark.parametrize("name", ["classifier", "adaptive"])
def test_the_classifiers_without_a_global_lock(name, monkeypatch):
    """On a Python without GIL, calls hold the lock, and results are the same."""
    usual = learned(name, 60)
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    model = learned(name, 60)
    assert model._prepared is None
    assert usual._prepared is not None
    for x, _ in stream(10, 5):
        assert model.predict_proba_one(x) == usual.predict_proba_one(x)
    assert model._prepared is None


@pytest.mark.parametrize(("nested", "label"), [({"a": 0.1, "c": 0.7}, "v"), ({"a": 0.1}, "new")])
def test_a_sample_that_learns_another_sample_while_it_is_read_is_learned_second(nested, label):
    class Learning(collections.UserDict):
        """Mapping that lets the model learn the waiting samples when it is read."""

        def __getitem__(self, key):
            learn_waiting()
            return super().__getitem__(key)

        def __iter__(self):
            learn_waiting()
            return super().__iter__()

    def learn_waiting():
        if waiting:
            model.learn_one(*waiting.pop())

    x, states = {"a": 0.3, "b": 0.9}, []
    for is_nested in (True, False):
        rng, waiting = np.random.default_rng(1), []
        model = rm.AdaptiveMondrianForestClassifier(3, seed=1)
        for a, b, y in rng.random((40, 3)):
            model.learn_one({"a": a, "b": b}, "u" if y < 0.5 else "v")
        sample, waiting = Learning(x), [(nested, label)]
        if not is_nested:
            learn_waiting()
        model.learn_one(sample, "new")
        assert not waiting
        states.append((model.n_samples, model.classes, model.predict_proba_one(x)))
    assert states[0] == states[1]
