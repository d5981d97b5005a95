"""Comparison of the memory of both versions."""

from __future__ import annotations

import statistics
from typing import Any

from ..data import DataFolder
from ..report import Report, progress
from .peers import Failed, Peers

LIMIT = 1.05
PAGES = 2**19  # Bytes by which the memory of a process varies between runs of the same code.
REPEATS = 3
SAMPLES, QUICK_SAMPLES = 10_000, 1000


def memory(data: DataFolder, report: Report, quick: bool, base: str, repeats: int) -> None:
    """Compare memory by the models' own count, and by the memory of the process."""
    n, repeats = (QUICK_SAMPLES, 1) if quick else (SAMPLES, min(repeats, REPEATS))
    rows: list[tuple[Any, ...]] = []
    for name in ["exact"] if quick else _names(base, data):
        found = []
        for i in range(repeats):
            progress(f"memory: {name}, {i + 1} of {repeats}")
            # A process is new, because models would reuse memory that an earlier task has freed.
            with Peers(base, turns=i) as peers:
                found.append(peers.both("memory", data.folder, name, n))
        rows += _rows(name, found)
    report.note(
        f"Old: {base}; new: the working tree. The models predict and learn the first {n} samples "
        "of a stream. Rows with `counted` have the memory that the model reports. Rows with "
        "`process` have the peak memory of a new process during learning, minus its memory before "
        f"learning with the kernels loaded. The memory of a process is a median of {repeats} runs."
    )
    headers = ("model", "stream", "n", "what", "old, MiB", "new, MiB", "new / old", "")
    report.table(headers, rows)


def _names(base: str, data: DataFolder) -> list[str]:
    with Peers(base) as peers:
        names: list[str] = peers.one("forests", data.sets)
        return names


def _rows(name: str, found: list[tuple[Any, Any]]) -> list[tuple[Any, ...]]:
    for pair in found:
        for which, outputs in zip(("old", "new"), pair, strict=True):
            if isinstance(outputs, Failed):
                return [
                    (name, "", "", f"the {which} version raises {outputs.last_line}", *[""] * 4)
                ]
            if outputs is None:
                return []
    stream, n = found[0][0][:2]
    rows = []
    for place, what in ((2, "counted"), (3, "process")):
        old, new = (statistics.median(pair[i][place] for pair in found) for i in (0, 1))
        share = new / old if old > 0 else 1.0
        more = share > LIMIT and (what == "counted" or new - old > PAGES)
        sizes = (f"{old / 2**20:.2f}", f"{new / 2**20:.2f}", f"{share:.3f}")
        rows.append((name, stream, n, what, *sizes, "MORE" if more else ""))
    return rows
