"""Timing of models in turns, so that the load of the machine affects all models alike."""

import gc
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .data import Array, Stream

Seconds = dict[str, dict[str, float]]  # By model and phase.

BLOCK = 100
# Number of blocks in a turn. With shorter turns, refilling caches would take most of the time.
TURN = 10
# Number of first samples, whose learning is a separate phase in `test_then_learn`.
WARM_START = 3 * BLOCK


@contextmanager
def no_gc() -> Iterator[None]:
    """Switch off the garbage collector during a timed block."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def alternate(
    peers: Mapping[str, Iterator[str]], steps: int, clock: Callable[[], float] = time.perf_counter
) -> Seconds:
    """Run iterators in turns of `steps` steps; each round reverses their order.

    A step of an iterator yields the name of its phase. Returns the seconds by iterator and phase.
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
    """Predict and learn blocks of samples: phases "predict", "learn, first" and "learn, later"."""
    predict, learn = getattr(model, method), model.learn_one
    for start in range(0, len(samples), BLOCK):
        block = samples[start : start + BLOCK]
        for x, _ in block:
            predict(x)
        yield "predict"
        for x, y in block:
            learn(x, y)
        yield "learn, first" if start < WARM_START else "learn, later"


def call_seconds(call: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Array:
    """Return the processor seconds of each call."""
    spent = np.empty(len(arguments))
    with no_gc():
        for i, given in enumerate(arguments):
            start = time.process_time()
            call(*given)
            spent[i] = time.process_time() - start
    return spent


def progressive(model: Any, samples: Stream, *methods: str) -> Iterator[str]:
    """Predict each sample by some methods and then learn it; yield "both" after each block."""
    calls = [getattr(model, method) for method in methods]
    for start in range(0, len(samples), BLOCK):
        for x, y in samples[start : start + BLOCK]:
            for call in calls:
                call(x)
            model.learn_one(x, y)
        yield "both"


# Returns an iterator that runs with a seed, and writes its results to the mapping.
Run = Callable[[int, dict[str, Any]], Iterator[str]]


def in_turns(peers: Mapping[str, Run], seeds: Mapping[str, int]) -> dict[str, list[dict[str, Any]]]:
    """Run each peer with its number of seeds, in turns.

    Returns the results of each seed by peer. The result "seconds" is the processor time.
    """
    found: dict[str, list[dict[str, Any]]] = {
        name: [{} for _ in range(seeds[name])] for name in peers
    }
    runs = {
        f"{name}/{i}": peers[name](i + 1, out)
        for name, outs in found.items()
        for i, out in enumerate(outs)
    }
    for key, phases in alternate(runs, TURN, time.process_time).items():
        name, _, i = key.rpartition("/")
        found[name][int(i)].setdefault("seconds", sum(phases.values()))
    return found


def repeated(
    repeats: int,
    peers: Callable[[int], Mapping[str, Iterator[str]]],
    steps: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Seconds]:
    """Run `alternate` repeatedly on new models, whose seed is the number of the repeat."""
    return [alternate(peers(i), steps, clock) for i in range(repeats)]


def median(runs: list[Seconds], peer: str, phase: str) -> float:
    """Return the median time of all phases that start with `phase`; "both" means all phases."""
    return statistics.median(_spent(run[peer], phase) for run in runs)


def ratio(runs: list[Seconds], slow: str, fast: str, phase: str) -> tuple[float, float, float]:
    """Return the median, smallest and largest ratio of the times of two models over runs."""
    ratios = [_spent(run[slow], phase) / _spent(run[fast], phase) for run in runs]
    return statistics.median(ratios), min(ratios), max(ratios)


def compared(
    runs: list[Seconds], peers: Sequence[str], call: str, n: int
) -> tuple[int, list[float], tuple[float, float, float]]:
    """Compare times of a call over n samples.

    Returns the number of timed samples, and the microseconds per sample of each peer. Also returns
    the median, smallest and largest ratio of the last peer's time to the first peer's time.
    """
    count = n - min(WARM_START, n) if call == "learn, later" else n
    us = [1e6 * median(runs, peer, call) / count for peer in peers]
    return count, us, ratio(runs, peers[-1], peers[0], call)


def _spent(phases: Mapping[str, float], phase: str) -> float:
    return sum(s for name, s in phases.items() if phase == "both" or name.startswith(phase))
