"""Command line: `python -m river_mondrian warmup` compiles kernels before their first use."""

import argparse
import contextlib
import subprocess
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from river.base import Estimator, Wrapper

import river_mondrian

from .compiling.cache import CACHE
from .compiling.first_calls import WATCH
from .compiling.kernels import COMPILES
from .model import Model
from .progress import EVERY, EVERY_IN_A_LOG, is_terminal, show


def estimators() -> list[str]:
    """Return the names of the classes whose kernels the command can compile."""
    names = []
    for name in river_mondrian.__all__:
        value = getattr(river_mondrian, name)
        is_model = isinstance(value, type) and issubclass(value, Model)
        if is_model and issubclass(value, Estimator) and not issubclass(value, Wrapper):
            names.append(name)
    return names


def warmup(names: list[str], n_jobs: int = 1) -> None:
    """Compile the kernels of the named classes; print the times and the folder of the code.

    If `n_jobs` is not 1 and there are several names, each class is compiled in a separate process,
    because numba compiles in one thread at a time.

    Raises
    ------
    SystemExit
        If compilation is disabled, compiled code cannot be stored, or another process fails.

    """
    if not COMPILES:
        raise SystemExit("Nothing is compiled: NUMBA_DISABLE_JIT is set.")
    folder = CACHE.folder
    if folder is None:
        raise SystemExit("Code is not kept: set NUMBA_CACHE_DIR to a folder that can be written.")
    if n_jobs == 1 or len(names) == 1:
        for name in names:
            _warmup_here(name)
        if CACHE.n_unkept:
            raise SystemExit(
                f"Code of {CACHE.n_unkept} functions could not be written to {folder}."
            )
    else:
        with ThreadPoolExecutor(n_jobs) as pool:
            waiting = [pool.submit(_warmup_apart, name) for name in names]
            _show_progress(waiting, folder)
    show(f"Code is in {folder}, {size_of_code(folder) / 1e6:.1f} MB", file=sys.stdout)


def _warmup_here(name: str) -> None:
    n_before, start = len(WATCH.names), time.perf_counter()
    getattr(river_mondrian, name).warmup()
    n_new, seconds = len(WATCH.names) - n_before, time.perf_counter() - start
    show(f"{name}: {seconds:.1f} s, functions compiled: {n_new}", file=sys.stdout)


def _warmup_apart(name: str) -> str:
    """Compile the kernels of a class in another process; return the first line of its output."""
    command = [sys.executable, "-m", __package__, "warmup", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    return done.stdout.partition("\n")[0]


def _show_progress(waiting: list[Future[str]], folder: Path) -> None:
    """Print the output of each ended process; show the number of compiled functions on stderr."""
    before, start = set(folder.glob("*.nbc")), time.perf_counter()
    n_classes, shown_at = len(waiting), start
    every = EVERY if is_terminal() else EVERY_IN_A_LOG
    while waiting:
        done, _ = wait(waiting, every, FIRST_COMPLETED)
        waiting = [future for future in waiting if future not in done]
        for future in done:
            show(future.result(), file=sys.stdout)
        if time.perf_counter() - shown_at >= every:
            shown_at = time.perf_counter()
            n = len(set(folder.glob("*.nbc")) - before)
            text = f"{n} functions compiled in {shown_at - start:.0f} s, "
            text += f"{len(waiting)} of {n_classes} classes left"
            ends = ("\r\033[K", "\r") if is_terminal() else ("", "\n")
            show(ends[0] + text, ends[1])


def size_of_code(folder: Path) -> int:
    """Return the size of the compiled code in a folder, in bytes."""
    size = 0
    for path in folder.glob("*.nbc"):
        # Another process may have removed the file, which then counts as empty.
        with contextlib.suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


def main(arguments: list[str] | None = None) -> None:
    """Parse the arguments, and run the command."""
    parser = argparse.ArgumentParser(prog="python -m river_mondrian", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser(
        "warmup",
        help="compile the kernels of classes before their first use",
        description="Compile the kernels with which classes learn and predict, unless they are "
        "compiled already. They are compiled for this processor, or for the processor that "
        "NUMBA_CPU_NAME names. They are stored below NUMBA_CACHE_DIR if it is set.",
    )
    known = estimators()
    command.add_argument(
        "names", nargs="*", metavar="CLASS", help=f"by default all: {', '.join(known)}"
    )
    command.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="processes to compile in, by default 1"
    )
    options = parser.parse_args(arguments)
    names = options.names
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    unknown = sorted(set(names) - set(known))
    if unknown:
        parser.error(f"no class with kernels: {', '.join(unknown)}; there are {', '.join(known)}")
    warmup(names or known, options.jobs)


if __name__ == "__main__":
    main()
