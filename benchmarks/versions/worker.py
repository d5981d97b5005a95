"""The process of one version: it does tasks that come as pickles, and returns their results."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import river_mondrian

from ..data import Array
from . import forests, linear

CONFIGURATIONS = {
    f"{group}: {name}": run
    for groups in (forests.GROUPS, linear.GROUPS)
    for group, named in groups.items()
    for name, run in named.items()
}


def names() -> list[str]:
    return list(CONFIGURATIONS)


def digest(name: str, n: int) -> Array:
    return np.asarray(CONFIGURATIONS[name](n), dtype=np.float64)


TASKS: dict[str, Callable[..., Any]] = {"names": names, "digest": digest}


def main() -> None:
    # What libraries print must not get between the results.
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
