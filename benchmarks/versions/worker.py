"""Process of one version, which reads pickled tasks and writes pickled results."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import river_mondrian

from ..data import Array
from . import forests, linear, rows

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


def compile_all(n: int) -> None:
    """Compile all kernels into numba's cache; errors show later, in the comparison."""
    for run in CONFIGURATIONS.values():
        with suppress(Exception):
            run(n)


def row_names(sets: Sequence[str]) -> list[str]:
    """Return the names of the rows that use one of the sets, or all names without sets."""
    return [name for name, row in rows.ROWS.items() if not sets or set(sets) & set(row[1])]


def forest_names(sets: Sequence[str]) -> list[str]:
    return [name for name, row in rows.FORESTS.items() if not sets or set(sets) & set(row[1])]


TASKS: dict[str, Callable[..., Any]] = {
    "names": names,
    "digest": digest,
    "compile_all": compile_all,
    "rows": row_names,
    "timed": rows.timed,
    "forests": forest_names,
    "memory": rows.memory,
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
