"""Process of one version, which reads pickled tasks and writes pickled results."""

import os
import pickle
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import river_mondrian

from ..data import Array
from ..timing import BLOCK, no_gc
from .configurations import CALLS, CONFIGURATIONS, FUNCTIONS, learner, outputs


def compile_all(n: int) -> None:
    """Compile all kernels into numba's cache; errors show later, in the comparison."""
    for name in (*CONFIGURATIONS, *FUNCTIONS):
        with suppress(Exception):
            outputs(name, n)


def timed(name: str, n: int) -> dict[str, Array]:
    """Return the processor seconds of each block of predictions and of learning."""
    make, of_length = CONFIGURATIONS[name]
    model, samples = make(), of_length(n)
    predict = next(getattr(model, call) for call in CALLS if hasattr(model, call))
    learn = learner(model)
    found: dict[str, list[float]] = {"learn": [], "predict": []}
    with no_gc():
        for start in range(0, len(samples), BLOCK):
            begun = time.process_time()
            for x, y in samples[start : start + BLOCK]:
                learn(x, y)
            between = time.process_time()
            for x, _ in samples[start : start + BLOCK]:
                predict(x)
            found["learn"].append(between - begun)
            found["predict"].append(time.process_time() - between)
    return {call: np.array(seconds) for call, seconds in found.items()}


TASKS: dict[str, Callable[..., Any]] = {
    "outputs": outputs,
    "compile_all": compile_all,
    "timed": timed,
}


def main() -> None:
    # The output of libraries must not mix with the results.
    tasks, results = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1]).resolve()
    found = Path(river_mondrian.__file__).resolve()
    if folder not in found.parents:
        raise SystemExit(f"the package came from {found}, not from {folder}")
    while True:
        try:
            task, arguments = pickle.load(tasks)
        except EOFError:
            return
        try:
            done = True, TASKS[task](*arguments)
        except Exception:
            done = False, traceback.format_exc()
        pickle.dump(done, results)
        results.flush()


if __name__ == "__main__":
    main()
