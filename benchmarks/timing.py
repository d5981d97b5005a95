"""Timing of models in turns, so the machine's load affects all of them."""

from __future__ import annotations

import gc
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .data import Stream

Seconds = dict[str, dict[str, float]]  # By model, by phase.

BLOCK = 100
# Blocks before models alternate. With fewer, most of the time would be to refill the caches.
TURN = 10
# Samples of the start of a model, which `test_then_learn` reports as a separate phase.
WARM_START = 3 * BLOCK


@contextmanager
def no_gc() -> Iterator[None]:
    """Switch the garbage collector off during a timed block."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def alternate(
    peers: Mapping[str, Iterator[str]],
    steps: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Seconds:
    """Run iterators in turn, some steps each, in an order that is reversed every round.

    Each iterator yields the name of the phase of its step. Returns the sums of the seconds.
    """
    seconds: Seconds = {name: defaultdict(float) for name in peers}
    running = dict(peers)
    with no_gc():
        while running:
            for name in list(running):
                for _ in range(steps):
                    start = clock()
                    phase = next(running[name], None)
                    spent = clock() - start
                    if phase is None:
                        del running[name]
                        break
                    seconds[name][phase] += spent
            running = dict(reversed(running.items()))
    return seconds


def test_then_learn(
    model: Any, samples: Stream, method: str = "predict_proba_one"
) -> Iterator[str]:
    """Predict a block of samples, then learn it: phases "predict" and "learn, first" or "later"."""
    predict, learn = getattr(model, method), model.learn_one
    for start in range(0, len(samples), BLOCK):
        block = samples[start : start + BLOCK]
        for x, _ in block:
            predict(x)
        yield "predict"
        for x, y in block:
            learn(x, y)
        yield "learn, first" if start < WARM_START else "learn, later"


def repeated(
    repeats: int,
    peers: Callable[[int], Mapping[str, Iterator[str]]],
    steps: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Seconds]:
    """Run `alternate` on new models, which get the number of the repeat as their seed."""
    return [alternate(peers(i), steps, clock) for i in range(repeats)]


def median(runs: list[Seconds], peer: str, phase: str) -> float:
    """Return the median time of all phases whose name starts with this; "both" are all phases."""
    return statistics.median(_spent(run[peer], phase) for run in runs)


def ratio(runs: list[Seconds], slow: str, fast: str, phase: str) -> tuple[float, float, float]:
    """Return the median, smallest and largest ratio of two models over the runs."""
    ratios = [_spent(run[slow], phase) / _spent(run[fast], phase) for run in runs]
    return statistics.median(ratios), min(ratios), max(ratios)


def _spent(phases: Mapping[str, float], phase: str) -> float:
    return sum(s for name, s in phases.items() if phase == "both" or name.startswith(phase))
