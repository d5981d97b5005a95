"""Speed of the Mondrian forest, compared with River's AMF and onelearn."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pandas as pd
from river import evaluate, metrics, preprocessing

from river_mondrian import MondrianForestClassifier

from ..data import Array, DataFolder, Stream, min_max, pair
from ..report import Report, progress
from ..timing import BLOCK, TURN, WARM_START, Seconds, median, ratio, repeated, test_then_learn
from .peers import AMF, OURS, frame_of, make_amf, make_ours

ONELEARN_ROWS = 444.0  # Rows per second of onelearn 0.3.0, for machines without onelearn.


def speed(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the time to learn and predict a sample with River's AMFClassifier."""
    MondrianForestClassifier.warmup()
    n, repeats = (1000, 1) if quick else (3000, 9)
    rows = []
    for name in ("letter", "covtype", "Bananas", "elec2"):
        samples = pair(data, name, n)
        if samples is None:
            continue
        raw, scaled = samples
        progress(f"speed: {name}, learn and predict")
        runs = repeated(repeats, partial(_calls, scaled), 2 * TURN, time.process_time)
        progress(f"speed: {name}, end to end")
        whole = repeated(repeats, partial(_end_to_end, raw), TURN, time.process_time)
        start = min(WARM_START, n)
        rows += [
            _speed_row(name, "learn", runs, n),
            _speed_row(name, "predict", runs, n),
            _speed_row(name, "both", runs, n),
            _speed_row(name, "learn, first", runs, start),
            _speed_row(name, "learn, later", runs, n - start),
            _speed_row(name, "end to end", whole, n),
        ]
    report.note(
        "Processor time to learn and predict a sample, compared with River's AMFClassifier. The "
        f"first {n} samples of each stream are used, with 10 trees. Times are medians of {repeats} "
        "repeats in one process, and the last column has the smallest and the largest ratio. The "
        "rows `learn` and `predict` have the times of learn_one and predict_proba_one on the same "
        f"min-max scaled stream. Blocks of {BLOCK} samples are predicted and then learned. The two "
        f"forests alternate every {TURN} blocks. The rows `end to end` have the time of "
        "progressive_val_score (accuracy), for the Mondrian forest on the raw stream and for "
        "MinMaxScaler | AMFClassifier. All times include the rebuilds of the warm-up; separate "
        f"rows have the first {WARM_START} samples and the later samples."
    )
    report.table(
        (
            "data",
            "call",
            "n",
            "Mondrian, us",
            "AMF, us",
            "ratio",
            "smallest - largest",
        ),
        rows,
    )


def _calls(samples: Stream, seed: int) -> dict[str, Iterator[str]]:
    return {
        OURS: test_then_learn(make_ours(seed), samples),
        AMF: test_then_learn(make_amf(seed), samples),
    }


def _end_to_end(samples: Stream, seed: int) -> dict[str, Iterator[str]]:
    """Return iterators over progressive_val_score by blocks, so that models can alternate."""

    def steps(model: Any) -> Iterator[str]:
        metric = metrics.Accuracy()
        for _ in evaluate.iter_progressive_val_score(samples, model, metric, step=BLOCK):
            yield "end to end"

    return {
        OURS: steps(make_ours(seed)),
        AMF: steps(preprocessing.MinMaxScaler() | make_amf(seed)),
    }


def _speed_row(name: str, call: str, runs: list[Seconds], n: int) -> tuple[Any, ...]:
    middle, least, most = ratio(runs, AMF, OURS, call)
    return (
        name,
        call,
        n,
        f"{median(runs, OURS, call) / n * 1e6:.1f}",
        f"{median(runs, AMF, call) / n * 1e6:.0f}",
        f"{middle:.1f}",
        f"{least:.1f} - {most:.1f}",
    )


def batch(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the rows per second of learn_many with 100 trees."""
    letter = data.load("letter")
    if letter is None:
        return
    MondrianForestClassifier.warmup()
    n, repeats = (2000, 1) if quick else (15000, 3)
    (scaled,) = min_max(letter["X_train"])
    X, y = scaled[:n], letter["y_train"][:n]
    frame, labels = frame_of(X), pd.Series(y)

    def learn(model: Any, *args: Any) -> Iterator[str]:
        model(*args)
        yield "learn"

    onelearn = _onelearn(X, y)

    def peers(seed: int) -> dict[str, Iterator[str]]:
        progress(f"batch: repeat {seed + 1} of {repeats}")
        found = {
            f"{OURS}, n_jobs={jobs}": learn(
                make_ours(seed, 100, n_jobs=jobs).learn_many, frame, labels
            )
            for jobs in (1, 2)
        }
        if onelearn is not None:
            found["onelearn"] = learn(onelearn)
        return found

    runs = repeated(repeats, peers)
    rates = {peer: n / median(runs, peer, "learn") for peer in runs[0]}
    reference = rates.get("onelearn", ONELEARN_ROWS)
    report.note(
        f"Rows per second of learn_many. One call learns {n} rows of letter with 100 trees. Rates "
        f"are medians of {repeats} calls."
    )
    if onelearn is None:
        report.note(
            f"onelearn is not installed. The rate of version 0.3.0, {ONELEARN_ROWS:.0f} rows/s "
            "for all 15,000 rows in one partial_fit, was measured earlier on a busy machine with "
            "2 cores. Therefore the ratio is approximate."
        )
    report.table(
        ("model", "rows/s", "times onelearn"),
        [
            (
                peer,
                f"{rate:.0f}",
                f"{rate / reference:.1f}",
            )
            for peer, rate in rates.items()
        ],
    )


def _onelearn(X: Array, y: Array) -> Callable[[], None] | None:
    """Return a call that trains a new onelearn forest, or None if onelearn is not installed."""
    if importlib.util.find_spec("onelearn") is None:
        return None
    from onelearn import AMFClassifier

    def learn(n: int = len(X), trees: int = 100) -> None:
        classes = int(y.max()) + 1
        AMFClassifier(n_classes=classes, n_estimators=trees).partial_fit(X[:n], y[:n].astype(float))

    progress("batch: onelearn compiles")
    learn(100, 2)
    return learn
