"""Let allocations of all kinds fail under a limit of the process's memory."""

import pickle
import resource
from functools import partial
from pathlib import Path

from common import exit_of, forked

from .tally import note

# Bytes that the process may allocate beyond its size, and number of new features of a sample.
MARGIN = 24 << 20
NEW_FEATURES = 400


def size():
    """Return the size of the process's address space in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()


def samples(n, first=0):
    """Return samples, each with new features."""
    found = []
    for i in range(first, first + n):
        own = {f"f{i}_{j}": 0.5 + j % 3 for j in range(NEW_FEATURES)}
        found.append(({"a": i % 7 / 7, "b": i % 5 / 5} | own, i % 2))
    return found


def attack(state, learn, look):
    """Let a model learn in a child process until memory is short; return 0 if the model is intact.

    The model must have its state before or after the failed sample, and must continue to learn from
    this state.
    """
    note("limits of memory", 1)
    return exit_of(forked(partial(_run, state, learn, look)))


def _run(state, learn, look):
    model, grown, is_short = pickle.loads(state), [], False
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = size() + MARGIN
    # Each sample needs more memory, so memory becomes short in the end.
    while not is_short:
        grown += samples(1, len(grown))
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
        try:
            learn(model, grown[-1])
        except MemoryError:
            is_short = True
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    other = pickle.loads(state)
    for sample in grown[:-1]:
        learn(other, sample)
    if look(model) != look(other):
        learn(other, grown[-1])
    if look(model) != look(other):
        return 3
    for sample in samples(3, len(grown)):
        learn(model, sample)
        learn(other, sample)
    return 0 if look(model) == look(other) else 4
