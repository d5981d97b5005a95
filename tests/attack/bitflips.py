"""Flipped bits in pickles: what is loaded, and goes on predicting and learning, in a process apart.

`python tests/attack/bitflips.py --flips 2000` runs that many flips for each kind of model.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import pickle
import resource
import select
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from stored_models import MODELS, answers, learn, stream

# What comes of a flip: an exception while unpickling; neither an exception nor a crash; and what
# must never be, an exception later among that.
REFUSED, WORKS, ERROR = "refused", "works", "error"
MEMORY, CRASH, HANG = "memory", "crash", "hang"
# An exception or a crash of another package: NumPy's reading of its types, River's detectors.
OTHERS = "others"
OUTCOMES = (REFUSED, WORKS, OTHERS, ERROR, MEMORY, CRASH, HANG)

PACKAGE = "river_mondrian"

# Seconds after which a flip counts as one that hangs, bytes that a process may take, and flips that
# one process takes if none of them ends it.
LIMIT = 20.0
MOST_BYTES = 8 << 30
BATCH = 25

# Samples that models have learned before they are pickled: within the warm-up, and after it.
LEARNED = (40, 300)


def states(name):
    """Return the pickles of a kind of model in which bits are flipped."""
    found = []
    for n in LEARNED:
        model = MODELS[name]()
        learn(model, stream(n))
        # What is compiled before the fork need not be compiled after.
        found.append(pickle.dumps(model))
        again = pickle.loads(found[-1])
        for x in (model, again):
            answers(x)
            learn(x, stream(50, 5, ("a", "b", "c"), 3))
            answers(x)
    return found


def flips(state, n, seed):
    """Return the numbers of `n` bits of a pickle."""
    return np.random.default_rng(seed).integers(8 * len(state), size=n).tolist()


def flipped(state, bit):
    """Return a pickle with one bit flipped."""
    changed = bytearray(state)
    changed[bit >> 3] ^= 1 << (bit & 7)
    return bytes(changed)


def attempt(state, bit, kind):
    """Load a pickle with a flipped bit; predict, learn and predict if that is possible."""
    try:
        model = pickle.loads(flipped(state, bit))
    except BaseException:
        # A wild size that asks for too much is as well as any other. A panic of River's is no
        # Exception.
        return REFUSED
    if type(model) is not kind:
        # Some other part of the pickle has become the whole: no model is loaded.
        return REFUSED
    try:
        answers(model)
        learn(model, stream(50, 5, ("a", "b", "c"), 3))
        answers(model)
    except MemoryError:
        return MEMORY
    except BaseException as error:
        if PACKAGE not in traceback.extract_tb(error.__traceback__)[-1].filename:
            return OTHERS
        if "FLIPS_TRACE" in os.environ:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(last.filename).name}:{last.lineno}"
            print(f"bit {bit} of {len(state)}: {error!r} in {where}", flush=True)
        return ERROR
    return WORKS


def _serve(state, bits, out, kind, stack):
    """Attempt flips one after the other, in a process of its own; writes what comes of each."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)
    faulthandler.enable(stack)
    for bit in bits:
        os.write(out, bytes([OUTCOMES.index(attempt(state, bit, kind))]))


def _batch(state, bits):
    """Return what comes of flips, up to the first that ends or blocks the process."""
    kind = type(pickle.loads(state))
    stack = tempfile.TemporaryFile()  # noqa: SIM115
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(ours)
            _serve(state, bits, theirs, kind, stack)
        finally:
            os._exit(0)
    os.close(theirs)
    found = []
    while len(found) < len(bits):
        ready, _, _ = select.select([ours], [], [], LIMIT)
        part = os.read(ours, len(bits)) if ready else b""
        if not part:
            os.kill(child, signal.SIGKILL)
            stack.seek(0)
            # Where Python was, the innermost call first.
            calls = [line for line in stack.read().decode().splitlines() if "File " in line]
            is_ours = not calls or f"/{PACKAGE}/" in calls[0]
            found.append(HANG if not ready else CRASH if is_ours else OTHERS)
            break
        found += [OUTCOMES[code] for code in part]
    os.close(ours)
    os.waitpid(child, 0)
    return found


def run(state, bits):
    """Return what comes of each flip."""
    found = []
    while len(found) < len(bits):
        batch = _batch(state, bits[len(found) : len(found) + BATCH])
        if batch[-1] in (OTHERS, CRASH, HANG) and len(batch) > 1:
            # Earlier ones may have damaged the process: each has one of its own.
            batch = [_batch(state, [bit])[0] for bit in bits[len(found) : len(found) + len(batch)]]
        found += batch
    return found


def attack(name, n, seed=0):
    """Return how often each outcome comes of `n` flips, and the bits of those that must not be."""
    counts, bad = Counter(), []
    both = states(name)
    for which, state in enumerate(both):
        bits = flips(state, n // len(both), [seed, which])
        found = run(state, bits)
        counts.update(found)
        pairs = zip(found, bits, strict=True)
        bad += [(o, LEARNED[which], bit) for o, bit in pairs if o not in (REFUSED, WORKS, OTHERS)]
    return counts, bad


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("names", nargs="*", default=list(MODELS))
    given = parser.parse_args()
    print(f"{'':32}" + "".join(f"{outcome:>9}" for outcome in OUTCOMES))
    for name in given.names:
        counts, bad = attack(name, given.flips, given.seed)
        print(f"{name:32}" + "".join(f"{counts[o]:9}" for o in OUTCOMES), flush=True)
        for outcome, n, bit in bad:
            if outcome != ERROR:
                print(f"  {outcome}: bit {bit} after {n} samples", flush=True)


if __name__ == "__main__":
    main()
