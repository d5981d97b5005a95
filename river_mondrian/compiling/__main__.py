"""Compile kernels for a wheel: `python -m river_mondrian.compiling FOLDER N_JOBS`."""

import sys
from pathlib import Path

from ..__main__ import estimators, warmup
from .cache import CACHE


def main(folder: Path, n_jobs: int) -> None:
    """Compile the kernels of all classes, and copy the code to a folder.

    `NUMBA_CPU_NAME` and `NUMBA_CPU_FEATURES` must describe the oldest supported processor, as set
    by `hatch_build.py`.
    """
    warmup(estimators(), n_jobs)
    CACHE.pack(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
