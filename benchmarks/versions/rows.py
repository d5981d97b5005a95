"""Timed calls, and models whose memory is measured, in the process of one version."""

from __future__ import annotations

import ctypes
import functools
import gc
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from river import datasets, evaluate, metrics

from river_mondrian import (
    AdaptiveMondrianForestClassifier,
    DensityForest,
    IsolationFeatures,
    MondrianFeatures,
    MondrianForestClassifier,
    MondrianForestRegressor,
    NystromFeatures,
    OGDClassifier,
    RandomBinningFeatures,
    RandomFourierFeatures,
    RidgeRegressor,
)

from ..data import DataFolder, Stream, min_max, min_max_stream, stream, take
from ..timing import BLOCK, no_gc

Times = dict[str, list[float]]  # Seconds of each block of samples by call.
Run = Callable[[Stream, int], Times]

SEED = 1
LIFETIME = 2.0  # Lifetime of maps and densities for features in [0, 1].


@functools.cache
def samples(folder: Path | None, name: str, n: int, scaled: bool) -> Stream | None:
    """Return the first samples of a stream, or None if its file is missing."""
    if name in ("Bananas", "ImageSegments", "TrumpApproval"):
        found = take(getattr(datasets, name)(), 10_000)
        return (min_max_stream(found) if scaled else found)[:n]
    if folder is None or not (folder / f"{name}.npz").exists():
        return None
    arrays = DataFolder(folder).load(name)
    assert arrays is not None
    X, y = arrays["X_train"], arrays["y_train"]
    y = y.astype(float) if np.issubdtype(y.dtype, np.floating) or name == "cpu" else y
    return stream(min_max(X)[0] if scaled else X, y, n)


# Processor time excludes interruptions by other processes.
clock = time.process_time


def _each(calls: Mapping[str, Callable[[Any, Any], Any]], found: Stream) -> Times:
    """Return the seconds of each call on each block of samples."""
    times: Times = {name: [] for name in calls}
    for start in range(0, len(found), BLOCK):
        block = found[start : start + BLOCK]
        for name, call in calls.items():
            begun = clock()
            for x, y in block:
                call(x, y)
            times[name].append(clock() - begun)
    return times


def _classifier(make: Callable[[int], Any], method: str = "predict_proba_one") -> Run:
    def run(found: Stream, seed: int) -> Times:
        model = make(seed)
        predict = getattr(model, method)
        return _each({method: lambda x, y: predict(x), "learn_one": model.learn_one}, found)

    return run


def _with_end_to_end(make: Callable[[int], Any]) -> Run:
    parts = _classifier(make)

    def run(found: Stream, seed: int) -> Times:
        times, model, metric = parts(found, seed), make(seed), metrics.Accuracy()
        whole = []
        begun = clock()
        for _ in evaluate.iter_progressive_val_score(found, model, metric, step=BLOCK):
            now = clock()
            whole.append(now - begun)
            begun = now
        return times | {"end to end": whole}

    return run


def _map(make: Callable[[int], Any]) -> Run:
    def run(found: Stream, seed: int) -> Times:
        model = make(seed)
        learned = _each({"learn_one": lambda x, y: model.learn_one(x)}, found)
        return learned | _each({"transform_one": lambda x, y: model.transform_one(x)}, found)

    return run


def _anomalies(make: Callable[[int], Any]) -> Run:
    def run(found: Stream, seed: int) -> Times:
        model = make(seed)
        calls = {
            "score_one": lambda x, y: model.score_one(x),
            "learn_one": lambda x, y: model.learn_one(x),
        }
        return _each(calls, found)

    return run


def exact(seed: int) -> Any:
    return MondrianForestClassifier(10, seed=seed)


def adaptive(seed: int) -> Any:
    return AdaptiveMondrianForestClassifier(10, seed=seed)


def regressor(seed: int) -> Any:
    return MondrianForestRegressor(10, seed=seed)


def mean(seed: int) -> Any:
    return MondrianForestRegressor(10, posterior="mean", seed=seed)


def isolation(seed: int) -> Any:
    return OGDClassifier(IsolationFeatures(seed=seed), loss="hinge")


def isolation_trees(seed: int) -> Any:
    return OGDClassifier(IsolationFeatures(method="iforest", seed=seed), loss="log")


def mondrian(seed: int) -> Any:
    return OGDClassifier(MondrianFeatures(50, LIFETIME, seed=seed), loss="hinge")


def ridge(seed: int) -> Any:
    return RidgeRegressor(MondrianFeatures(20, 1.0, seed=seed))


def density(seed: int) -> Any:
    return DensityForest(10, lifetime=LIFETIME, seed=seed)


# Streams by preference; without files a stream of River's is used.
LETTER = ("letter", "ImageSegments")
CPU = ("cpu", "TrumpApproval")
ELEC = ("elec2", "Bananas")

# By name: run, streams in order of preference, whether features are scaled, share of the samples.
ROWS: dict[str, tuple[Run, tuple[str, ...], bool, float]] = {
    **{
        f"exact, {name}": (_with_end_to_end(exact), (name,), False, 1.0)
        for name in ("letter", "covtype", "Bananas", "elec2")
    },
    "adaptive": (_classifier(adaptive), LETTER, False, 0.5),
    "regressor, gaussian": (_classifier(regressor, "predict_one"), CPU, False, 0.5),
    "regressor, mean": (_classifier(mean, "predict_one"), CPU, False, 0.5),
    "OGD, isolation": (_classifier(isolation, "predict_one"), LETTER, True, 0.5),
    "OGD, isolation trees": (_classifier(isolation_trees), LETTER, True, 0.5),
    "OGD, mondrian": (_classifier(mondrian, "predict_one"), LETTER, True, 0.5),
    "isolation": (_map(lambda seed: IsolationFeatures(seed=seed)), LETTER, True, 0.3),
    "mondrian": (_map(lambda seed: MondrianFeatures(50, LIFETIME, seed=seed)), LETTER, True, 0.3),
    "binning": (_map(lambda seed: RandomBinningFeatures(100, LIFETIME, seed)), LETTER, True, 0.3),
    "fourier": (_map(lambda seed: RandomFourierFeatures(100, seed=seed)), LETTER, True, 0.3),
    "nystrom": (_map(lambda seed: NystromFeatures()), LETTER, True, 0.3),
    "ridge": (_classifier(ridge, "predict_one"), CPU, True, 0.2),
    "density": (_anomalies(density), ELEC, True, 1.0),
}


def timed(folder: Path | None, name: str, n: int) -> tuple[str, int, Times] | None:
    """Return the stream of a row, its number of samples and the times, or None without a stream."""
    run, sets, scaled, share = ROWS[name]
    for one in sets:
        found = samples(folder, one, int(share * n), scaled)
        if found is not None:
            with no_gc():
                return one, len(found), run(found, SEED)
    return None


# Memory.

FORESTS: dict[str, tuple[Callable[[int], Any], tuple[str, ...], bool]] = {
    "exact": (exact, LETTER, False),
    "exact, wide": (exact, ("covtype",), False),
    "adaptive": (adaptive, LETTER, False),
    "regressor, gaussian": (regressor, CPU, False),
    "regressor, mean": (mean, CPU, False),
    "density": (lambda seed: DensityForest(seed=seed), ELEC, True),
    "OGD, isolation": (isolation, LETTER, True),
    "OGD, mondrian": (mondrian, LETTER, True),
}


def memory(folder: Path | None, name: str, n: int) -> tuple[str, int, int, int] | None:
    """Return the stream, its number of samples, and bytes by the model's count and of the process.

    The bytes of the process are the peak memory during learning, minus the memory before learning
    with all kernels loaded. The process must be new.
    """
    make, sets, scaled = FORESTS[name]
    for one in sets:
        found = samples(folder, one, n, scaled)
        if found is None:
            continue
        for _ in _learned(make(1), found[:600]):
            pass
        _give_back()
        model, before = make(1), _held()
        _forget_peak()
        most = 0
        for i in _learned(model, found):
            if i % BLOCK == 0:
                most = max(most, _held())
        most = max(most, _peak() or _held())
        return one, len(found), model._raw_memory_usage, most - before
    return None


def _learned(model: Any, found: Stream) -> Iterator[int]:
    for i, (x, y) in enumerate(found):
        if isinstance(model, DensityForest):
            model.learn_one(x)
        else:
            model.predict_one(x)
            model.learn_one(x, y)
        yield i


def _give_back() -> None:
    """Return freed memory to the system, because models would reuse it."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _status(key: str) -> int:
    """Return a number of bytes that Linux reports for this process, or 0 on other systems."""
    with suppress(OSError), open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(key):
                return 1024 * int(line.split()[1])
    return 0


def _held() -> int:
    if sys.platform == "linux":
        return _status("VmRSS")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _peak() -> int:
    return _status("VmHWM")


def _forget_peak() -> None:
    with suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
