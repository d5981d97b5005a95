"""The adaptive forests, compared with CapyMOA's learners (Java) in a separate interpreter.

Set `CAPYMOA_PYTHON` to the path of an interpreter with CapyMOA (`pip install capymoa`), which needs
Java.
"""

import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from river_mondrian import AdaptiveMondrianForestClassifier, AdaptiveMondrianForestRegressor

from ..adaptive.streams import CHOSEN_ON, FILES, MADE, class_streams
from ..adaptive_regressor.streams import STUDIED, target_streams
from ..data import Array, DataFolder, Stream
from ..report import Report, progress
from .worker import CLASSIFIERS, REGRESSORS

WORKER = Path(__file__).with_name("worker.py")
CLASSES = tuple(name for name in (*MADE, *FILES) if name not in ("dna", "a9a", "mnist"))
TARGETS = (*STUDIED, "elevation", "noise levels", "price", "recurring")
SEEDS = 3


def _python() -> str | None:
    """Return the path of the interpreter in CAPYMOA_PYTHON.

    If the variable is not set, or there is no Java, print the reason and return None.
    """
    python = os.environ.get("CAPYMOA_PYTHON", "")
    if not python:
        print("capymoa: skipped, because CAPYMOA_PYTHON is not set", flush=True)
    elif shutil.which("java") is None:
        print("capymoa: skipped, because there is no java on the path", flush=True)
    else:
        return python
    return None


def _arrays(samples: Stream, of_targets: bool) -> tuple[Array, Array]:
    """Return a stream as arrays; labels are numbered in order of appearance."""
    X = np.array([[float(value) for value in x.values()] for x, _ in samples])
    if of_targets:
        return X, np.array([float(y) for _, y in samples])
    numbers: dict[Any, int] = {}
    return X, np.array([numbers.setdefault(y, len(numbers)) for _, y in samples])


def _theirs(python: str, samples: Stream, of_targets: bool, names: list[str]) -> Any:
    """Return the score and the seconds of each of CapyMOA's learners."""
    X, y = _arrays(samples, of_targets)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stream.npz")
        np.savez(path, X=X, y=y)
        command = [python, str(WORKER), str(path), *names]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["name"]: (line["score"], line["seconds"]) for line in lines}


def _ours(make: Callable[..., Any], samples: Stream, of_targets: bool, seeds: int) -> Any:
    """Return the mean score and the median seconds of progressive runs of an adaptive forest."""
    scores, seconds = [], []
    for seed in range(1, seeds + 1):
        model, found = make(seed=seed), 0.0
        start = time.process_time()
        for x, y in samples:
            predicted = model.predict_one(x)
            found += abs(y - (predicted or 0.0)) if of_targets else predicted == y
            model.learn_one(x, y)
        seconds.append(time.process_time() - start)
        scores.append(found / len(samples))
    return statistics.fmean(scores), statistics.median(seconds)


def _compare(
    report: Report,
    streams: dict[str, Stream],
    make: Callable[..., Any],
    peers: list[str],
    of_targets: bool,
    seeds: int,
) -> None:
    """Report scores and times of the adaptive forest and of CapyMOA's learners.

    {what} of the adaptive forest and of CapyMOA's learners. The adaptive forest has 10 trees
    and default parameters; its scores are means of {seeds} seeds. CapyMOA's learners run with
    one seed, the number of trees that their name gives, and otherwise default parameters. All
    models get unscaled features. Each sample is predicted and then learned. CapyMOA's
    prequential evaluation runs in Java.
    """
    python = _python()
    if python is None or not streams:
        return
    # Compile the kernels before they are timed.
    _ours(make, next(iter(streams.values())), of_targets, 1)
    scores, times, ahead = [], [], 0
    for name, samples in streams.items():
        progress(f"capymoa: {name}")
        found = {"ours": _ours(make, samples, of_targets, seeds)}
        found |= _theirs(python, samples, of_targets, peers)
        best = (min if of_targets else max)(found[peer][0] for peer in peers)
        ours = found["ours"][0]
        ahead += ours <= best if of_targets else ours >= best
        marked = name if of_targets or name in CHOSEN_ON else f"{name} *"
        shown = ".4g" if of_targets else ".4f"
        head = [marked, len(samples)]
        scores.append([*head, *(format(score, shown) for score, _ in found.values())])
        times.append([*head, *(f"{1e6 * s / len(samples):,.0f}" for _, s in found.values())])
    headers = ["stream", "n", "adaptive", *peers]
    what = "Mean absolute error" if of_targets else "Progressive accuracy"
    report.about(_compare, what=what, seeds=seeds)
    report.table(headers, scores)
    if not of_targets:
        report.note(
            "Most settings of the adaptive forest were selected only on the streams without a "
            "mark. The share of recent trees and the way to draw candidate splits were also "
            "selected on the streams marked *."
        )
    report.note(
        f"The adaptive forest is at least as accurate as CapyMOA's best learner on {ahead} of "
        f"{len(streams)} streams."
    )
    report.heading("Microseconds of processor time per sample, all threads")
    report.table(headers, times)


def classes(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the accuracy and time of classifiers."""
    n, names = (300, CLASSES[:2]) if quick else (5000, CLASSES)
    streams = dict(class_streams(data, n, names))
    peers, seeds = (list(CLASSIFIERS)[:1], 1) if quick else (list(CLASSIFIERS), SEEDS)
    make = partial(AdaptiveMondrianForestClassifier, 10)
    _compare(report, streams, make, peers, False, seeds)


def targets(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the absolute error and time of regressors."""
    n, names = (300, TARGETS[:2]) if quick else (5000, TARGETS)
    streams = dict(target_streams(data, n, names))
    peers, seeds = (list(REGRESSORS)[2:], 1) if quick else (list(REGRESSORS), SEEDS)
    _compare(report, streams, AdaptiveMondrianForestRegressor, peers, True, seeds)


PARTS = (classes, targets)
