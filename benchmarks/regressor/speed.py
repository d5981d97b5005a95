"""Speed and memory, compared with River's AMFRegressor."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from river import forest as river_forest

from river_mondrian import MondrianForestRegressor

from ..data import DataFolder, Stream, min_max_stream
from ..report import Report, progress
from ..timing import BLOCK, TURN, WARM_START, median, ratio, repeated, test_then_learn
from .peers import GAUSSIAN, MEAN, make_ours
from .streams import load_streams

TIMED = ("cpu", "TrumpApproval")


def speed(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the time to learn and predict a sample with AMFRegressor; measure memory."""
    MondrianForestRegressor.warmup()
    n, repeats = (500, 1) if quick else (3000, 3)
    rows, memory = [], []
    for name, samples in load_streams(data, False):
        if name not in TIMED:
            continue
        part = samples[:n]
        names = list(part[0][0])
        scaled = min_max_stream(part)
        progress(f"speed: {name}")
        runs = repeated(repeats, partial(_calls, scaled), 2 * TURN, time.process_time)
        for call in ("learn", "learn, later", "predict"):
            middle, least, most = ratio(runs, "AMF", GAUSSIAN, call)
            count = len(part) - (min(WARM_START, len(part)) if call == "learn, later" else 0)
            rows.append(
                (
                    name,
                    call,
                    f"{median(runs, GAUSSIAN, call) / count * 1e6:.1f}",
                    f"{median(runs, MEAN, call) / count * 1e6:.1f}",
                    f"{median(runs, 'AMF', call) / count * 1e6:.0f}",
                    f"{middle:.0f}",
                    f"{least:.0f} - {most:.0f}",
                )
            )
        model = make_ours()
        for x, y in samples:
            model.learn_one(x, y)
        per = model._raw_memory_usage / len(samples) / model.n_estimators
        memory.append((name, len(samples), len(names), f"{per:.0f}"))
    report.note(
        "Processor time to learn and predict a sample, compared with AMFRegressor. At most the "
        f"first {n} samples are used, with 10 trees. Times are medians of {repeats} repeats in one "
        f"process. All models get the same min-max scaled stream, in blocks of {BLOCK} samples "
        "that are predicted and then learned. The ratio is AMF's time relative to the Gaussian "
        "posterior, which includes choices of hyperparameters. The rows `learn, later` exclude "
        f"the first {WARM_START} samples."
    )
    report.table(
        (
            "data",
            "call",
            "gaussian, us",
            "mean, us",
            "AMF, us",
            "ratio",
            "smallest - largest",
        ),
        rows,
    )
    report.note("The next table has the memory of the Gaussian model after all samples.")
    report.table(("data", "samples", "features", "bytes per sample and tree"), memory)


def _calls(samples: Stream, seed: int) -> dict[str, Iterator[str]]:
    peers = {
        GAUSSIAN: MondrianForestRegressor(10, seed=seed),
        MEAN: MondrianForestRegressor(10, posterior="mean", seed=seed),
        "AMF": river_forest.AMFRegressor(n_estimators=10, seed=seed),
    }
    return {name: test_then_learn(peer, samples, "predict_one") for name, peer in peers.items()}
