"""First calls: what `warmup` leaves to compile, what the log says, and what is not imported."""

import errno
import gc
import json
import logging
import os
import subprocess
import sys

import pytest

import river_mondrian
from river_mondrian import progress
from river_mondrian.__main__ import estimators, main
from river_mondrian.compiling import first_calls, folders
from river_mondrian.compiling.cache import CACHE, CodeCache
from river_mondrian.compiling.first_calls import Watch
from river_mondrian.compiling.kernels import COMPILES

# Counts what a process compiles or loads, calls `warmup`, and then uses a model in its own way.
CHILD = """
import json, logging, pickle, random, sys
from numba.core.dispatcher import Dispatcher

made = []
add = Dispatcher.add_overload

def noting(self, compiled):
    made.append(self.py_func.__qualname__)
    add(self, compiled)

Dispatcher.add_overload = noting
import polars
import river_mondrian
from river import base

cls = getattr(river_mondrian, sys.argv[1])
cls.warmup()
after_warmup = len(made)
model = cls()
rng = random.Random(7)
rows = [{"u": rng.gauss(0.0, 1.0), "v": rng.random(), "w": 5.0 * rng.random()} for _ in range(1100)]
classes = ["no", "yes"] if sys.argv[1].endswith("OGDClassifier") else ["a", "b", "c", "d"]

def target(i):
    x = rows[i]
    if isinstance(model, base.Regressor):
        return x["u"] + 0.1 * rng.random()
    return classes[int(x["u"] * 7) % len(classes)]

supervised = isinstance(model, (base.Classifier, base.Regressor))
own = [name for name in dir(cls) if not name.startswith("_") and name.endswith(("_one", "_many"))]
own = [name for name in own if getattr(cls, name).__module__.startswith("river_mondrian")]
left = ("learn", "forget", "explain", "debug")
reads = [name for name in own if not name.startswith(left)]
if sys.argv[1] == "DualOGDClassifier":
    reads.remove("predict_proba_one")
for i, x in enumerate(rows[:-8]):
    model.learn_one(x, target(i)) if supervised else model.learn_one(x)
    if i % 97 == 0 and getattr(model, "frozen", True):
        for name in reads:
            if name.endswith("_one"):
                getattr(model, name)(x)
                getattr(model, name)({"v": 0.5})
frame = polars.DataFrame(rows[-8:])
if hasattr(model, "learn_many"):
    if supervised:
        model.learn_many(frame, polars.Series([target(i) for i in range(-8, 0)]))
    else:
        model.learn_many(frame)
for name in reads:
    if name.endswith("_many"):
        getattr(model, name)(frame)
model = pickle.loads(pickle.dumps(model))
model.learn_one(rows[0], target(0)) if supervised else model.learn_one(rows[0])
print(json.dumps([after_warmup, made[after_warmup:], sorted(reads)]))
"""


# Prints how many functions first calls load, which have been compiled before.
FIRST = """
import sys
from numba.core.dispatcher import Dispatcher

n = 0
add = Dispatcher.add_overload

def counting(self, compiled):
    global n
    n += self.py_func.__module__.startswith("river_mondrian.")
    add(self, compiled)

Dispatcher.add_overload = counting
import river_mondrian
from river_mondrian.rehearsal import call_first

call_first(getattr(river_mondrian, sys.argv[1])())
print(n)
"""

# Functions of the first calls of learning and predicting, with room for some more.
MOST_FUNCTIONS = {
    "MondrianForestClassifier": 22,
    "MondrianForestRegressor": 34,
    "AdaptiveMondrianForestClassifier": 50,
    "AdaptiveMondrianForestRegressor": 66,
}


def run(*arguments, **environ):
    """Run Python in a new process; return what it prints, and its errors."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize("name", estimators())
def test_nothing_is_left_to_compile_after_the_warmup(name):
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        pytest.skip("nothing is compiled")
    n_before, left, reads = json.loads(run("-c", CHILD, name)[0])
    assert n_before > 0
    assert left == []
    assert any(one.endswith("_one") for one in reads)


@pytest.mark.skipif(not COMPILES, reason="nothing is compiled")
@pytest.mark.parametrize("name", MOST_FUNCTIONS)
def test_first_calls_need_few_functions(name):
    run("-c", FIRST, name)
    assert 0 < int(run("-c", FIRST, name)[0]) <= MOST_FUNCTIONS[name]


def test_every_estimator_has_a_warmup():
    from river import base

    for name in river_mondrian.__all__:
        one = getattr(river_mondrian, name)
        if isinstance(one, type) and issubclass(one, base.Estimator) and name != "Calibrated":
            assert name in estimators()
            assert one.warmup.__doc__.startswith("Compile")


@pytest.mark.skipif(not COMPILES, reason="nothing is compiled")
def test_the_command_says_what_it_compiled_and_where_code_is(capsys):
    main(["warmup", "RandomFourierFeatures", "RandomBinningFeatures"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines[:2]] == [
        "RandomFourierFeatures",
        "RandomBinningFeatures",
    ]
    assert lines[2].startswith("Code is in ")


def test_the_command_fails_at_once_where_nothing_is_kept(monkeypatch, capsys):
    monkeypatch.setattr(CACHE, "_looked", True)
    monkeypatch.setattr(CACHE, "_folder", None)
    with pytest.raises(SystemExit, match="is not kept" if COMPILES else "Nothing is compiled"):
        main(["warmup", "RandomFourierFeatures"])
    monkeypatch.setattr(river_mondrian.__main__, "COMPILES", False)
    with pytest.raises(SystemExit, match="NUMBA_DISABLE_JIT is set"):
        main(["warmup", "RandomFourierFeatures"])
    assert capsys.readouterr().out == ""


@pytest.mark.skipif(not COMPILES, reason="nothing is compiled")
def test_the_command_fails_where_code_could_not_be_written(monkeypatch):
    monkeypatch.setattr(CACHE, "n_unkept", 2)
    with pytest.raises(SystemExit, match="Code of 2 functions could not be written"):
        main(["warmup", "RandomFourierFeatures"])


def test_code_that_could_not_be_written_is_counted(monkeypatch, tmp_path):
    package = CodeCache(tmp_path, "fake")
    # The folder is gone, which is no reason to warn.
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
    with pytest.raises(SystemExit):
        main(["warmup", "RandomForest"])
    error = capsys.readouterr().err
    assert "no class with kernels: RandomForest; there are AdaptiveMondrianForest" in error


def test_warmup_takes_arguments_of_the_model():
    with pytest.raises(ValueError, match="n_estimators must be"):
        river_mondrian.MondrianForestClassifier.warmup(n_estimators=0)


def test_the_first_function_is_a_warning_and_the_others_are_not(caplog):
    watch = Watch()
    with caplog.at_level(logging.DEBUG, "river_mondrian"), watch.call():
        watch.compiles("one", None)
        watch.compiles("two", None)
    assert [(one.levelname, one.getMessage().partition(".")[0]) for one in caplog.records] == [
        ("WARNING", "kernels are compiled at their first call, which takes seconds"),
        ("DEBUG", "compiling one"),
        ("DEBUG", "compiling two"),
    ]
    assert "every process compiles anew" in caplog.text
    assert watch.names == ["one", "two"]


def test_who_calls_warmup_is_not_warned(caplog, tmp_path):
    watch = Watch()
    with caplog.at_level(logging.INFO, "river_mondrian"), watch.expected(), watch.call():
        watch.compiles("one", tmp_path)
    assert [one.levelname for one in caplog.records] == ["INFO"]
    assert str(tmp_path) in caplog.text


def test_who_calls_warmup_sees_what_is_compiled(capsys, monkeypatch):
    monkeypatch.setattr(progress, "EVERY_IN_A_LOG", 0.0)
    watch = Watch()
    for wanted in (False, True):
        with watch.expected(wanted):
            pass
        assert capsys.readouterr().err == ""
        with watch.expected(wanted), watch.call():
            watch.compiles("one", None)
            watch.compiles("two", None)
        lines = capsys.readouterr().err.splitlines()
        assert lines == wanted * [
            "1 functions, compiling one, 0 s",
            "2 functions, compiling two, 0 s",
            "2 functions, 0 s",
        ]


def test_without_stderr_nothing_is_shown(monkeypatch):
    monkeypatch.setattr(progress, "EVERY_IN_A_LOG", 0.0)
    monkeypatch.setattr(sys, "stderr", None)
    watch = Watch()
    with watch.expected(True), watch.call():
        watch.compiles("one", None)
    assert watch.names == ["one"]


def test_all_objects_are_searched_for_garbage_again_after_the_outermost_call():
    watch, before = Watch(), gc.get_threshold()
    with pytest.raises(KeyboardInterrupt), watch.call():
        with watch.call():
            assert gc.get_threshold() == before
            watch.compiles("one", None)
            assert gc.get_threshold() == (*before[:2], first_calls._NEVER)
        assert gc.get_threshold() != before
        raise KeyboardInterrupt
    assert gc.get_threshold() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_does_not_wait_for_a_thread_that_compiles():
    code = """
import gc, os, signal, threading
from river_mondrian.compiling.first_calls import WATCH

before, begun = gc.get_threshold(), threading.Event()

def compile_for_ever():
    with WATCH.call(), WATCH.expected():
        WATCH.compiles("one", None)
        with WATCH._lock:
            begun.set()
            threading.Event().wait()

threading.Thread(target=compile_for_ever, daemon=True).start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    is_restored = gc.get_threshold() == before
    with WATCH.call():
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
