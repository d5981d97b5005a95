"""A limit of the process's memory, under which allocations of all kinds fail."""

import os
import pickle
import resource
import sys
import traceback
from pathlib import Path

from .tally import note

# Bytes that the process may take above what it has, and features that each sample adds.
MARGIN = 24 << 20
NEW_FEATURES = 400


def _size():
    """Return the bytes of the process's address space."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()


def samples(n, first=0):
    """Return samples each of which has features of its own."""
    found = []
    for i in range(first, first + n):
        own = {f"f{i}_{j}": 0.5 + j % 3 for j in range(NEW_FEATURES)}
        found.append(({"a": i % 7 / 7, "b": i % 5 / 5} | own, i % 2))
    return found


def attack(state, learn, look, n=400):
    """Let a model learn in a child until memory is short; return an error's text or nothing.

    It has to be as before the sample for which memory was short, or as after it, and to go on.
    """
    note("limits of memory", 1)
    grown = samples(n)
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        os._exit(_run(state, learn, look, grown))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _run(state, learn, look, grown):
    model, k = pickle.loads(state), 0
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_size() + MARGIN, hard))
    is_short = False
    try:
        while k < len(grown):
            learn(model, grown[k])
            k += 1
    except MemoryError:
        is_short = True
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    if not is_short:
        return 2
    other = pickle.loads(state)
    for sample in grown[:k]:
        learn(other, sample)
    if look(model) != look(other):
        learn(other, grown[k])
    if look(model) != look(other):
        return 3
    for sample in samples(3, len(grown)):
        learn(model, sample)
        learn(other, sample)
    return 0 if look(model) == look(other) else 4
