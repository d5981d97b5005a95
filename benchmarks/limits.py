"""Time and memory of models with many features or classes, and of first calls."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from river import forest

import river_mondrian as rm
from river_mondrian.__main__ import estimators

from .data import Array, DataFolder, Stream, available, stream
from .report import Report, progress
from .timing import call_seconds

# Number of test samples, and number of timed samples at the end of training.
N_PREDICTED, N_TIMED = 200, 1000
# Number of first calls, at most half of all calls, that the longest call excludes, because they
# compile or load kernels.
N_FIRST = 1000
# River's forests take milliseconds per sample, so in `width` they get only this number of samples.
N_OF_PEERS = 400

RIVERS: dict[str, Callable[[], Any]] = {
    "River's AMF": lambda: forest.AMFClassifier(10, seed=1),
    "River's ARF": lambda: forest.ARFClassifier(10, seed=1),
}


def _us(spent: Array) -> str:
    return f"{1e6 * np.median(spent):,.0f}"


def _width_row(what: str, name: str, model: Any, samples: Stream) -> list[Any]:
    """Train a model on all samples except the last `N_PREDICTED`; return its costs."""
    learned, fresh = samples[:-N_PREDICTED], samples[-N_PREDICTED:]
    spent = call_seconds(model.learn_one, list(learned))
    model.predict_one(fresh[0][0])  # The first call compiles kernels.
    predicted = call_seconds(model.predict_one, [(x,) for x, _ in fresh])
    longest = 1e3 * spent[min(N_FIRST, len(spent) // 2) :].max()
    n, n_trees = len(learned), 10 if name in RIVERS else model.n_estimators
    size = model._raw_memory_usage
    row = [what, n, name, n_trees, _us(spent[-N_TIMED:]), _us(predicted)]
    return [*row, f"{longest:,.1f}", f"{size / n / n_trees:,.0f}", f"{size / 1e6:,.1f}"]


def _pixels(X: Array, side: int) -> Array:
    """Return the pixels in the central square of MNIST's images."""
    first = (28 - side) // 2
    rows = slice(first, first + side)
    found: Array = X.reshape(-1, 28, 28)[:, rows, rows].reshape(-1, side * side)
    return found


def width(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure time and memory against the number of features, and on long streams.

    Time and memory against the number of features, and on long streams. The pixels are the
    central squares of MNIST's images, which are in random order. Times are median processor
    times of a call in microseconds: learn_one for the latest {N_TIMED} samples, and predict_one
    for {N_PREDICTED} test samples. The longest call is in milliseconds. It excludes the first
    {N_FIRST} samples, or the first half of the samples if this half is shorter. Bytes are per
    sample and tree, and MB are for the whole model.
    """
    rows = []

    def add(what: str, model: Any, samples: Stream, name: str = "exact") -> None:
        progress(f"width: {what}, {name}")
        rows.append(_width_row(what, name, model, samples))

    for _, mnist in available(data.load, ["mnist"]):
        order = np.random.default_rng(0).permutation(len(mnist["X_train"]))
        X, y = mnist["X_train"][order], mnist["y_train"][order]
        n, n_many = (1000, 1000) if quick else (5000, 7300)
        for side, n_learned, trees in ((28, n, 10), (28, n, 100), (16, n, 10), (16, n_many, 100)):
            samples = stream(_pixels(X, side), y, n_learned + N_PREDICTED)
            add(f"{side * side} pixels", rm.MondrianForestClassifier(trees, seed=1), samples)
        few = stream(X, y, N_OF_PEERS + N_PREDICTED)
        add("784 pixels", rm.MondrianForestClassifier(10, seed=1), few)
        for name, make in {} if quick else RIVERS.items():
            add("784 pixels", make(), few, name)
    for _, letter in available(data.load, ["letter"]):
        samples = stream(letter["X_train"], letter["y_train"], 3000 if quick else None)
        add("letter, 16", rm.MondrianForestClassifier(10, seed=1), samples)
    n = 5000 if quick else 100_000
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n + N_PREDICTED, 21))
    y = X[:, 0] + np.sin(3.0 * X[:, 1]) + 0.1 * rng.standard_normal(len(X))
    add("normal, 21", rm.MondrianForestRegressor(10, seed=1), stream(X, y), "regressor")
    X = rng.standard_normal(((1000 if quick else 5000) + N_PREDICTED, 784))
    samples = stream(X, rng.integers(10, size=len(X)))
    add("normal, 784", rm.MondrianForestClassifier(10, seed=1), samples)
    report.about(width)
    headers = ["features", "samples", "forest", "trees", "learn_one", "predict_one"]
    report.table([*headers, "longest", "bytes", "MB"], rows)


def classes(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure time and memory against the number of classes.

    Time and memory against the number of classes. Classes are normal around centres in the unit
    cube of {d} dimensions, with standard deviation {spread}. The forests have 10 trees. Times
    are mean processor times of a call in microseconds: learn_one for the latest {N_TIMED}
    samples, and predictions for {N_PREDICTED} test samples. The accuracy is on the test
    samples. Bytes are per sample and tree.
    """
    n, d, spread = 2000 if quick else 10_000, 16, 0.2
    ours: dict[str, Callable[[], Any]] = {
        "exact": lambda: rm.MondrianForestClassifier(10, seed=1),
        "adaptive": lambda: rm.AdaptiveMondrianForestClassifier(10, seed=1),
    }
    rows = []
    for n_classes in (26, 100, 1000):
        for n_learned, makes in ((n, ours), (1200, ours | ({} if quick else RIVERS))):
            rng = np.random.default_rng(0)
            n_drawn = n_learned + N_PREDICTED
            centres, y = rng.random((n_classes, d)), rng.integers(n_classes, size=n_drawn)
            found = stream(centres[y] + spread * rng.standard_normal((n_drawn, d)), y)
            samples, fresh = found[:n_learned], [(x,) for x, _ in found[n_learned:]]
            for name, make in makes.items():
                progress(f"classes: {n_classes}, {name}, {n_learned} samples")
                model = make()
                spent = call_seconds(model.learn_one, list(samples))[-N_TIMED:]
                # The first call compiles kernels.
                calls = [model.predict_one, model.predict_proba_one]
                for call in calls:
                    call(*fresh[0])
                times = [spent, *(call_seconds(call, fresh) for call in calls)]
                right = [model.predict_one(x) == y for x, y in found[n_learned:]]
                size = f"{model._raw_memory_usage / n_learned / 10:,.0f}"
                us = (f"{1e6 * one.mean():,.0f}" for one in times)
                rows.append([n_classes, n_learned, name, *us, f"{np.mean(right):.3f}", size])
    report.about(classes, d=d, spread=spread)
    headers = ["classes", "samples", "forest", "learn_one", "predict_one", "predict_proba_one"]
    report.table([*headers, "accuracy", "bytes"], rows)


# First calls.

PACKAGE = Path(rm.__file__).parent
# Each program prints its processor time since the start, and the number of compiled functions.
IMPORTS = """
import json, time
import numba, river.base
print(json.dumps([time.process_time(), 0]))
"""
OURS = """
import json, sys, time
from pathlib import Path
import river_mondrian
from river_mondrian.compiling.cache import CACHE
from river_mondrian.compiling.first_calls import WATCH
from river_mondrian.rehearsal import call_first
call_first(getattr(river_mondrian, sys.argv[1])())
print(json.dumps([time.process_time(), len(WATCH.names)]))
if len(sys.argv) == 3:
    CACHE.pack(Path(sys.argv[2]))
"""
OF_RIVER = """
import json, sys, time
from river import forest
model = getattr(forest, sys.argv[1])(seed=1)
for i in range(3):
    x = {0: i * 37 % 101 / 101, 1: i * 53 % 103 / 103}
    model.learn_one(x, i % 2)
    model.predict_one(x)
print(json.dumps([time.process_time(), 0]))
"""


def _probe(code: str, *arguments: str, **environ: str) -> tuple[float, int]:
    """Return the output of a program: seconds and a number of compiled functions."""
    command = [sys.executable, "-P", "-c", code, *arguments]
    done = subprocess.run(
        command, env=os.environ | environ, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    seconds, n_compiled = json.loads(done.stdout)
    return seconds, n_compiled


def _starts(name: str, folder: Path) -> tuple[int, list[float]]:
    """Return the number of compiled functions, and the times: compiled, cached and in a wheel."""
    # A wheel has code for other processors, but code for this processor loads equally fast.
    wheel = folder / "wheel"
    shutil.copytree(PACKAGE, wheel / PACKAGE.name, ignore=shutil.ignore_patterns("compiled"))
    code = wheel / PACKAGE.name / "compiled"
    code.mkdir()
    full, empty = ({"NUMBA_CACHE_DIR": str(folder / cache)} for cache in ("cache", "empty"))
    compiled, n_compiled = _probe(OURS, name, str(code), PYTHONPATH=str(wheel), **full)
    cached = _probe(OURS, name, PYTHONPATH=str(PACKAGE.parent), **full)
    packed = _probe(OURS, name, PYTHONPATH=str(wheel), **empty)
    assert cached[1] == packed[1] == 0, f"{name}: compiled"
    return n_compiled, [compiled, cached[0], packed[0]]


def calls(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the time to the first predictions: compiled, cached and in a wheel.

    Time to the first predictions of a new process. Each process learns and predicts three
    samples. Times are processor times in seconds from the start to the last prediction, without
    the time of `import numba, river.base` ({imports:.2f} s). The kernels are compiled (with an
    empty cache), loaded from the cache of an earlier process, or loaded from an installed
    wheel. The column `functions` has the number of separately compiled functions.
    """
    imports, _ = _probe(IMPORTS)
    rows = []
    quick_names = ("MondrianForestClassifier", "AdaptiveMondrianForestClassifier")
    for name in quick_names if quick else estimators():
        progress(f"calls: {name}")
        with tempfile.TemporaryDirectory() as folder:
            n_compiled, seconds = _starts(name, Path(folder))
        rows.append([name, n_compiled, *(f"{one - imports:.2f}" for one in seconds)])
    for name in ("AMFClassifier", "AMFRegressor", "ARFClassifier", "ARFRegressor"):
        progress(f"calls: {name}")
        rows.append([name, "", "", f"{_probe(OF_RIVER, name)[0] - imports:.2f}", ""])
    report.about(calls, imports=imports)
    report.table(["model", "functions", "compiled", "cached", "wheel"], rows)


PARTS = (calls, classes, width)
