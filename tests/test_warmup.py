"""Tests of first calls: functions compiled after `warmup`, the log, and imports."""

import contextlib
import errno
import gc
import json
import logging
import os
import sys

import pytest
from attack.judging import some
from common import raises, run
from river import base

import river_mondrian
from river_mondrian import progress
from river_mondrian.__main__ import estimators, main
from river_mondrian.compiling import first_calls, folders
from river_mondrian.compiling.cache import CACHE, CodeCache
from river_mondrian.compiling.first_calls import Watch
from river_mondrian.compiling.kernels import COMPILES

# Program that records the functions that a process compiles or loads.
NOTING = """
import json, sys
from numba.core.dispatcher import Dispatcher

made = []
add = Dispatcher.add_overload

def noting(self, compiled):
    made.append(self.py_func)
    add(self, compiled)

Dispatcher.add_overload = noting
import river_mondrian
"""

# Program that calls `warmup` of each class in a fork, and then uses a model with other arguments.
CHILD = f"""{NOTING}
import inspect, os, pickle
import polars
from common import fed, stream

def use(cls):
    cls.warmup()
    after_warmup = len(made)
    model = cls()
    samples = stream(1100, 7, "uvw", 2 if cls.__name__.endswith("OGDClassifier") else 3)
    left = ("_", "learn", "forget", "explain", "debug")
    reads = [name for name, one in inspect.getmembers(cls)
             if name.endswith(("_one", "_many")) and not name.startswith(left)
             and one.__module__.startswith("river_mondrian")]
    if cls.__name__ == "DualOGDClassifier":
        reads.remove("predict_proba_one")
    for i, sample in enumerate(samples[:-8]):
        fed(model, [sample])
        if i % 97 == 0 and getattr(model, "frozen", True):
            for name in reads:
                if name.endswith("_one"):
                    getattr(model, name)(sample[0])
                    getattr(model, name)(dict(v=0.5))
    rows, targets = map(list, zip(*samples[-8:]))
    frame = polars.DataFrame(rows)
    if hasattr(model, "learn_many"):
        takes_targets = "y" in inspect.signature(model.learn_many).parameters
        model.learn_many(frame, *([polars.Series(targets)] if takes_targets else []))
    for name in reads:
        if name.endswith("_many"):
            getattr(model, name)(frame)
    model = pickle.loads(pickle.dumps(model))
    fed(model, samples[:1])
    later = [function.__qualname__ for function in made[after_warmup:]]
    print(json.dumps([cls.__name__, after_warmup, later, sorted(reads)]), flush=True)

for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        use(getattr(river_mondrian, name))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name
"""

# Program that prints the number of functions that first calls load from the cache.
FIRST = f"""{NOTING}
from river_mondrian.rehearsal import call_first

call_first(getattr(river_mondrian, sys.argv[1])())
print(sum(function.__module__.startswith("river_mondrian.") for function in made))
"""

# Child processes import helpers of tests from this folder.
PATHS = os.pathsep.join([os.path.dirname(__file__), *sys.path])

needs_compiler = pytest.mark.skipif(not COMPILES, reason="nothing is compiled")

# Largest number of functions in the first calls that learn and predict.
MOST_FUNCTIONS = {
    "MondrianForestClassifier": 21,
    "MondrianForestRegressor": 34,
    "AdaptiveMondrianForestClassifier": 35,
    "AdaptiveMondrianForestRegressor": 55,
}


@needs_compiler
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_nothing_is_left_to_compile_after_the_warmup():
    lines = run("-c", CHILD, *estimators(), PYTHONPATH=PATHS)[0].splitlines()
    assert len(lines) == len(estimators())
    for name, n_before, left, reads in map(json.loads, lines):
        assert n_before > 0, name
        assert left == [], name
        # A monitor does not predict.
        assert any(one.endswith("_one") for one in reads) or name == "DriftMonitor"


@needs_compiler
@pytest.mark.parametrize("name", some(MOST_FUNCTIONS))
def test_first_calls_need_few_functions(name):
    run("-c", FIRST, name)
    assert 0 < int(run("-c", FIRST, name)[0]) <= MOST_FUNCTIONS[name]


def test_every_estimator_has_a_warmup():
    named = {name: getattr(river_mondrian, name) for name in river_mondrian.__all__}
    kinds = {name: one for name, one in named.items() if isinstance(one, type)}
    found = {name for name, one in kinds.items() if issubclass(one, base.Estimator)}
    assert found - {"Calibrated"} == {*estimators()}
    assert all(named[name].warmup.__doc__.startswith("Compile") for name in estimators())


FOURIER, BINNING = "RandomFourierFeatures", "RandomBinningFeatures"


@needs_compiler
def test_the_command_says_what_it_compiled_and_where_code_is(capsys):
    main(["warmup", FOURIER, BINNING])
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines[:2]] == [FOURIER, BINNING]
    assert lines[2].startswith("Code is in ")


def test_the_command_fails_at_once_where_nothing_is_kept(monkeypatch, capsys):
    monkeypatch.setattr(CACHE, "_looked", True)
    monkeypatch.setattr(CACHE, "_folder", None)
    with pytest.raises(SystemExit, match="is not kept" if COMPILES else "Nothing is compiled"):
        main(["warmup", FOURIER])
    monkeypatch.setattr(river_mondrian.__main__, "COMPILES", False)
    raises(SystemExit, "NUMBA_DISABLE_JIT is set", lambda: main(["warmup", FOURIER]))
    assert capsys.readouterr().out == ""


@needs_compiler
def test_the_command_fails_where_code_could_not_be_written(monkeypatch):
    monkeypatch.setattr(CACHE, "n_unkept", 2)
    with pytest.raises(SystemExit, match="Code of 2 functions could not be written"):
        main(["warmup", FOURIER])


def test_code_that_could_not_be_written_is_counted(monkeypatch, tmp_path):
    package = CodeCache(tmp_path, "fake")
    # The removed folder causes no warning.
    package.write(tmp_path / "gone" / "one.nbc", b"code")
    assert package.n_unkept == 1

    def fail(path, content):
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(folders, "write", fail)
    with pytest.warns(RuntimeWarning, match="no room"):
        package.write(tmp_path / "two.nbc", b"code")
    assert package.n_unkept == 2
    (tmp_path / "two.nbc").write_bytes(b"code")
    package.write(tmp_path / "two.nbc", b"code")
    assert package.n_unkept == 2


def test_the_command_names_a_class_that_it_does_not_know(capsys):
    raises(SystemExit, None, lambda: main(["warmup", "RandomForest"]))
    error = capsys.readouterr().err
    assert "no class with kernels: RandomForest; there are AdaptiveMondrianForest" in error


def test_warmup_takes_arguments_of_the_model():
    with pytest.raises(ValueError, match="n_estimators must be"):
        river_mondrian.MondrianForestClassifier.warmup(n_estimators=0)


def compiling(watch, wanted=True, folder=None, expected=False):
    """Report two compiled functions to a watch."""
    with watch.expected(wanted) if expected else contextlib.nullcontext():
        watch.compiles("one", folder)
        watch.compiles("two", folder)


def test_the_first_function_is_a_warning_and_the_others_are_not(caplog):
    watch = Watch()
    with caplog.at_level(logging.DEBUG, "river_mondrian"):
        compiling(watch)
    assert [(one.levelname, one.getMessage().partition(".")[0]) for one in caplog.records] == [
        ("WARNING", "kernels are compiled at their first call, which takes seconds"),
        ("DEBUG", "compiling one"),
        ("DEBUG", "compiling two"),
    ]
    assert "every process compiles again" in caplog.text
    assert watch.names == ["one", "two"]


def test_who_calls_warmup_is_not_warned(caplog, tmp_path):
    with caplog.at_level(logging.INFO, "river_mondrian"):
        compiling(Watch(), folder=tmp_path, expected=True)
    assert [one.levelname for one in caplog.records] == ["INFO"]
    assert str(tmp_path) in caplog.text


def test_who_calls_warmup_sees_what_is_compiled(capsys, monkeypatch):
    monkeypatch.setattr(progress, "EVERY_IN_A_LOG", 0.0)
    watch = Watch()
    for wanted in (False, True):
        with watch.expected(wanted):
            pass
        assert capsys.readouterr().err == ""
        compiling(watch, wanted, expected=True)
        lines = [line.rpartition(", ")[0] for line in capsys.readouterr().err.splitlines()]
        shown = ["1 functions, compiling one", "2 functions, compiling two", "2 functions"]
        assert lines == wanted * shown
    # Without stderr the log is not shown.
    monkeypatch.setattr(sys, "stderr", None)
    compiling(watch, expected=True)
    assert watch.names == ["one", "two"] * 3


def test_all_objects_are_searched_for_garbage_again_after_the_last_warmup():
    watch, before = Watch(), gc.get_threshold()
    watch.compiles("one", None)
    assert gc.get_threshold() == before
    with pytest.raises(KeyboardInterrupt), watch.expected():
        with watch.expected():
            assert gc.get_threshold() == (*before[:2], first_calls._NEVER)
        assert gc.get_threshold() != before
        raise KeyboardInterrupt
    assert gc.get_threshold() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_does_not_wait_for_a_thread_that_warms_up():
    code = """
import gc, os, signal, threading
from river_mondrian.compiling.first_calls import WATCH

before, begun = gc.get_threshold(), threading.Event()

def warm_up_for_ever():
    with WATCH.expected(), WATCH._lock:
        begun.set()
        threading.Event().wait()

threading.Thread(target=warm_up_for_ever, daemon=True).start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(300)
    is_restored = gc.get_threshold() == before
    with WATCH.expected():
        WATCH.compiles("two", None)
        is_lowered = gc.get_threshold() != before
    os._exit(0 if is_restored and is_lowered and gc.get_threshold() == before else 1)
print(os.waitpid(child, 0)[1], flush=True)
os._exit(0)
"""
    assert run("-W", "ignore", "-c", code)[0] == "0\n"


def test_a_process_that_loads_its_kernels_says_nothing_and_imports_little():
    code = """
import sys
from river_mondrian import MondrianForestClassifier
model = MondrianForestClassifier(2, seed=1)
for i in range(3):
    model.learn_one({"a": float(i), "b": 1.0 - i}, i % 2)
    model.predict_one({"a": 0.5})
late = "narwhals", "pandas", "scipy.special", "scipy.sparse", "matplotlib", "numba.np.linalg"
print([name for name in late if name in sys.modules])
"""
    run("-c", code)
    assert run("-c", code) == ("[]\n", "")
