"""Comparison of the predictions and of the speed of two versions, in two processes."""

import pickle
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from ..data import Array, DataFolder
from ..report import Report, progress
from . import snapshots
from .configurations import CONFIGURATIONS, FUNCTIONS, TIMED

# Number of samples of a configuration; with fewer samples, some kernels are not called.
SAMPLES, QUICK_SAMPLES = 1500, 300
# Relative difference above which predictions count as different.
TOLERANCE = 1e-6
# Differences are relative to at least this share of the median absolute value, because a sum near
# 0 has few correct digits.
SMALL = 1e-6
# Ratio of times above which a call counts as slower.
LIMIT = 1.05


class Failed(NamedTuple):
    """Last line of the traceback of a task that failed in one version."""

    what: str


class Peer:
    """A process that imports the package from one folder."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.process = subprocess.Popen(
            # With -P, Python does not import from the current folder.
            [sys.executable, "-P", "-m", "benchmarks.versions.worker", str(folder)],
            env=snapshots.environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def do(self, task: str, *arguments: Any) -> Any:
        """Send a task; return the result, or a `Failed` with the error."""
        process = self.process
        assert process.stdin is not None and process.stdout is not None
        try:
            pickle.dump((task, arguments), process.stdin)
            process.stdin.flush()
            done, result = pickle.load(process.stdout)
        except (EOFError, BrokenPipeError) as error:
            code = process.wait()
            raise RuntimeError(f"the {self.name} version ended with {code} in {task}") from error
        return result if done else Failed(result.strip().splitlines()[-1])

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


class Peers:
    """Processes of the old version, from a commit, and of the new version, from the working tree.

    A version is compiled once, in a separate process, because a process that compiles a kernel may
    round differently.
    """

    def __init__(self, base: str) -> None:
        self.turns = 0
        folders = {"old": snapshots.of_commit(base), "new": snapshots.of_working_tree()}
        for name, folder in folders.items():
            if not (folder / "is_compiled").exists():
                progress(f"the {name} version is compiled, which takes minutes")
                peer = Peer(name, folder)
                peer.do("compile_all", SAMPLES)
                peer.close()
                (folder / "is_compiled").touch()
        self.peers = [Peer(name, folder) for name, folder in folders.items()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        for peer in self.peers:
            peer.close()

    def both(self, task: str, *arguments: Any) -> list[Any]:
        """Send a task to both versions in the order A B, B A, ...; return both results."""
        results: list[Any] = [None, None]
        for i in (0, 1) if self.turns % 2 == 0 else (1, 0):
            results[i] = self.peers[i].do(task, *arguments)
        self.turns += 1
        return results


def gap(old: Array, new: Array) -> tuple[int, float]:
    """Return the first place at which arrays differ, and the largest relative difference.

    NaN equals NaN, and arrays of different lengths differ by infinity.
    """
    n = min(len(old), len(new))
    a, b = old[:n], new[:n]
    differ = (a != b) & ~(np.isnan(a) & np.isnan(b))
    first = int(differ.argmax()) if differ.any() else n
    if len(old) != len(new):
        return first, np.inf
    sizes = np.abs(old[np.isfinite(old) & (old != 0.0)])
    least = SMALL * float(np.median(sizes)) if len(sizes) else 1.0
    a, b = a[differ], b[differ]
    with np.errstate(invalid="ignore", over="ignore"):
        shares = np.abs(a - b) / np.maximum(np.maximum(np.abs(a), np.abs(b)), least)
    # One of the values is infinite or NaN.
    shares[~np.isfinite(shares)] = np.inf
    return first, float(shares.max(initial=0.0))


def digests(data: DataFolder, report: Report, quick: bool, base: str) -> bool:
    """Compare the predictions of many configurations, which should be equal bit for bit.

    Old: {base}; new: the working tree. All outputs of a model (predictions before each sample,
    batches, nodes) are compared as float64. The columns have the first different place and the
    largest relative difference. A difference of at most {TOLERANCE:g} counts as nearly the
    same. Values below {SMALL:g} of a configuration's median size are treated as having this
    size.
    """
    rows, counts = [], dict.fromkeys(("yes", "nearly", "NO"), 0)
    with Peers(base) as peers:
        for name in (*CONFIGURATIONS, *FUNCTIONS):
            progress(f"digests: {name}")
            old, new = peers.both("outputs", name, QUICK_SAMPLES if quick else SAMPLES)
            if isinstance(old, Failed) or isinstance(new, Failed):
                # A configuration that the old version lacks cannot be compared.
                same = "NO" if isinstance(new, Failed) else "nearly"
                rows.append((name, "", same, "", f"old: {old!s:.60}; new: {new!s:.60}"))
            elif old.tobytes() == new.tobytes():
                same = "yes"
                rows.append((name, len(new), same, "", ""))
            else:
                first, largest = gap(old, new)
                same = "nearly" if largest <= TOLERANCE else "NO"
                rows.append((name, len(new), same, first, f"{largest:.2g}"))
            counts[same] += 1
    report.about(digests, base=base)
    report.table(("configuration", "values", "same bits", "from", "difference"), rows)
    report.note(", ".join(f"{same}: {count}" for same, count in counts.items()))
    return counts["NO"] == 0


def speed(data: DataFolder, report: Report, quick: bool, base: str) -> None:
    """Compare the time of calls, with the old and the new version in turns.

    Old: {base}; new: the working tree. Times are processor microseconds per sample, as medians
    of {repeats} repeats in which the versions take turns. For the column `fastest`, each block
    of samples counts with its fastest repeat. SLOWER means that the median ratio and the
    fastest ratio are above {LIMIT}. The word `unsure` means that one of them is above {LIMIT}.
    All kernels are compiled in advance.
    """
    n, repeats = (QUICK_SAMPLES, 1) if quick else (2 * SAMPLES, 9)
    rows = []
    with Peers(base) as peers:
        for name in TIMED:
            peers.both("timed", name, n)  # Load kernels before timing.
            progress(f"speed: {name}")
            runs = [peers.both("timed", name, n) for _ in range(repeats)]
            failed = [one for run in runs for one in run if isinstance(one, Failed)]
            if failed:
                rows.append((name, failed[0].what, *[""] * 5))
                continue
            for call in ("learn", "predict"):
                pairs = [[1e6 * one[call].sum() / n for one in run] for run in runs]
                middle = float(statistics.median(new / old for old, new in pairs))
                # The fastest repeat of each block is affected least by other processes.
                least = [np.min([run[i][call] for run in runs], axis=0).sum() for i in (0, 1)]
                fastest = float(least[1] / least[0])
                mark = ("", "unsure", "SLOWER")[(middle > LIMIT) + (fastest > LIMIT)]
                us = (f"{statistics.median(side):.2f}" for side in zip(*pairs, strict=True))
                rows.append((name, call, *us, f"{middle:.3f}", f"{fastest:.3f}", mark))
    report.about(speed, base=base, repeats=repeats)
    headers = ("configuration", "call", "old, us", "new, us", "new / old", "fastest", "")
    report.table(headers, rows)
