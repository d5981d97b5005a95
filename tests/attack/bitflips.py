"""Damage pickles and forge files, and use the loaded models in child processes.

In a pickle, one bit is flipped. In a file, one number of an array or of the document is replaced,
and the checksum is corrected. `python tests/attack/bitflips.py --flips 2000` damages 2,000 pickles
and 2,000 files of each kind of model. Accesses outside of arrays raise an error if nothing is
compiled (`NUMBA_DISABLE_JIT=1`) or if accesses are checked (`RIVER_MONDRIAN_CHECKS=1`).
"""

import argparse
import faulthandler
import os
import pickle
import re
import resource
import select
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from common import HANGS, answers, fed, forked, stream
from stored_models import MODELS, learned

import river_mondrian as rm
from attack.memory_limit import size
from river_mondrian.files import store

# Outcomes for a damaged model: loading is refused, the model works, or its use raises an error.
REFUSED, WORKS, ERROR = "refused", "works", "error"
MEMORY, CRASH, HANG = "memory", "crash", "hang"
# A kernel has accessed memory outside of an array.
OUTSIDE = "outside"
# Another package has raised or crashed, because NumPy and River restore their own objects.
OTHERS = "others"
OUTCOMES = (REFUSED, WORKS, OTHERS, ERROR, MEMORY, OUTSIDE, CRASH, HANG)

# Forbidden outcomes for pickles and for files. The numbers of a forged file may be meaningless, so
# errors are allowed.
BAD_OF_PICKLES = (ERROR, MEMORY, OUTSIDE, CRASH, HANG)
BAD_OF_FILES = (OUTSIDE, CRASH, HANG)

PACKAGE = "river_mondrian"

# Bytes that a child process may allocate beyond its size, and the number of damaged models in a
# process. The margin is large, because threads reserve memory on machines with many processors.
MARGIN = 8 << 30
BATCH = 25

# Numbers of samples learned before pickling: within the warm-up, and after the warm-up.
LEARNED = (40, 300)


def states(name, is_file):
    """Return the pickles of a kind of model, or the contents of its files."""
    found = []
    for n in LEARNED:
        model = learned(name, n)
        found.append(pickle.dumps(model))
        if is_file:
            with tempfile.TemporaryDirectory() as folder:
                rm.save(model, Path(folder) / "model")
                arrays, metadata = store.read(Path(folder) / "model")
                found[-1] = {key: array.copy() for key, array in arrays.items()}, metadata
        # Kernels are compiled before the fork, so that the children need not compile them.
        use(pickle.loads(pickle.dumps(model)))
        use(model)
    return found


def use(model):
    """Let a model predict, learn and predict, and pickle it."""
    answers(model)
    fed(model, stream(120, 5, ("a", "b", "c"), 3))
    answers(model)
    pickle.dumps(model)


def flipped(state, bit):
    """Return a pickle with one bit flipped."""
    changed = bytearray(state)
    changed[bit >> 3] ^= 1 << (bit & 7)
    return bytes(changed)


def forged(content, number):
    """Return the name of an array of a file, and this array with one number replaced."""
    arrays, _ = content
    rng = np.random.default_rng(number)
    if rng.random() < 0.3:
        return store.DOCUMENT, forged_document(arrays[store.DOCUMENT].tobytes(), rng)
    names = [name for name, array in arrays.items() if array.size and name != store.DOCUMENT]
    name = str(rng.choice(names))
    array = arrays[name].copy().reshape(-1)
    place = int(rng.integers(array.size))
    old, other = array[place], array[rng.integers(array.size)]
    if array.dtype.kind == "f":
        choices = [np.nan, np.inf, -np.inf, -old, 0.0, 1e30, -1.0, other]
    else:
        ends = np.iinfo(array.dtype)
        choices = [ends.max, ends.min, 0, -1 if ends.min else 1, other]
        choices += [min(max(int(old) + d, ends.min), ends.max) for d in (-1, 1, 7)]
    flipped = array[place : place + 1].copy()
    flipped.view(np.uint8)[rng.integers(array.itemsize)] ^= 1 << rng.integers(8)
    array[place] = [*choices, flipped[0]][rng.integers(len(choices) + 1)]
    return name, array.reshape(arrays[name].shape)


def forged_document(text, rng):
    """Return a document with one integer replaced."""
    found = list(re.finditer(rb"(?<=[:,\[])-?\d+(?=[],}])", text))
    old, other = (found[i] for i in rng.integers(len(found), size=2))
    value = int(old[0])
    choices = [b"0", b"1", b"-1", b"null", other[0]]
    choices += [b"%d" % (value + d) for d in (-1, 1, 7, value, -value // 2)]
    new = text[: old.start()] + choices[rng.integers(len(choices))] + text[old.end() :]
    return np.frombuffer(new, np.uint8)


def load_forged(content, number):
    """Return the model that is loaded from a forged file."""
    arrays, metadata = content
    name, array = forged(content, number)
    with tempfile.TemporaryDirectory() as folder:
        store.write(Path(folder) / "model", arrays | {name: array}, metadata)
        return rm.load(Path(folder) / "model")


def load_flipped(state, bit):
    """Return the model that is loaded from a pickle with one bit flipped."""
    return pickle.loads(flipped(state, bit))


def attempt(load, damage, kind):
    """Load a damaged or forged model, use it, and return the outcome."""
    try:
        model = load(damage)
    except BaseException:
        # A MemoryError for a wild size is a refusal, too. Panics of River's Rust code are not
        # subclasses of Exception.
        return REFUSED
    if type(model) is not kind:
        # The flipped bit has truncated the pickle to an inner object, so no model is loaded.
        return REFUSED
    try:
        use(model)
    except MemoryError:
        return MEMORY
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        if PACKAGE not in last.filename:
            return OTHERS
        in_kernel = "/records/" in last.filename or re.search(
            r"of (\w+ out of range|no )", str(error)
        )
        is_outside = isinstance(error, IndexError) and in_kernel
        return OUTSIDE if is_outside else ERROR
    return WORKS


def _serve(load, damages, out, kind, stack):
    """Write the outcome of each damaged model to `out`; this function runs in a child process."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = size() + MARGIN
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)
    faulthandler.enable(stack)
    for damage in damages:
        os.write(out, bytes([OUTCOMES.index(attempt(load, damage, kind))]))
    return 0


def _batch(load, damages, kind):
    """Return the outcomes of damaged models, up to the first that ends or blocks the process."""
    stack = tempfile.TemporaryFile()  # noqa: SIM115
    ours, theirs = os.pipe()
    child = forked(partial(_serve, load, damages, theirs, kind, stack))
    os.close(theirs)
    found = []
    while len(found) < len(damages):
        ready, _, _ = select.select([ours], [], [], HANGS)
        part = os.read(ours, len(damages)) if ready else b""
        if not part:
            os.kill(child, signal.SIGKILL)
            stack.seek(0)
            # The call stack has the innermost call first.
            calls = [line for line in stack.read().decode().splitlines() if "File " in line]
            is_ours = not calls or f"/{PACKAGE}/" in calls[0]
            found.append(HANG if not ready else CRASH if is_ours else OTHERS)
            break
        found += [OUTCOMES[code] for code in part]
    os.close(ours)
    os.waitpid(child, 0)
    return found


def run(load, damages, kind):
    """Return the outcome of each damaged model; a damage is an argument of `load`."""
    found = []
    while len(found) < len(damages):
        batch = _batch(load, damages[len(found) : len(found) + BATCH], kind)
        if batch[-1] in (OTHERS, CRASH, HANG) and len(batch) > 1:
            # Earlier damaged models may have corrupted the process, so each is loaded again in a
            # new process.
            again = damages[len(found) : len(found) + len(batch)]
            batch = [_batch(load, [damage], kind)[0] for damage in again]
        found += batch
    return found


def attack(name, n, seed=0, is_file=False):
    """Return the counts of outcomes of `n` damaged models, and the damages with forbidden outcomes.

    A damage is a flipped bit of a pickle or a forged file; the name of the forged array is
    reported.
    """
    counts, bad = Counter(), []
    for learned_n, state in zip(LEARNED, states(name, is_file), strict=True):
        n_own, rng = n // len(LEARNED), np.random.default_rng([seed, learned_n])
        numbers = rng.integers(1 << 31 if is_file else 8 * len(state), size=n_own).tolist()
        load = partial(load_forged if is_file else load_flipped, state)
        found = run(load, numbers, type(MODELS[name]()))
        counts.update(found)
        for outcome, number in zip(found, numbers, strict=True):
            if outcome in (BAD_OF_FILES if is_file else BAD_OF_PICKLES):
                where = [forged(state, number)[0]] if is_file else []
                bad.append((outcome, learned_n, number, *where))
    return counts, bad


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("names", nargs="*", default=list(MODELS))
    given = parser.parse_args()
    forbidden = []
    print(f"{'':32}" + "".join(f"{outcome:>9}" for outcome in OUTCOMES))
    for name in given.names:
        for is_file in (False, True):
            counts, bad = attack(name, given.flips, given.seed, is_file)
            print(f"{name:32}" + "".join(f"{counts[o]:9}" for o in OUTCOMES), flush=True)
            forbidden += bad
            for outcome, n, *where in bad:
                what = "forged" if is_file else "flipped"
                print(f"  {outcome}: {what} {where} after {n} samples", flush=True)
    sys.exit(bool(forbidden))


if __name__ == "__main__":
    main()
