"""Processor time of a process and of its descendants."""

from __future__ import annotations

import os
from pathlib import Path


def _stats() -> dict[int, tuple[int, float]]:
    """Return the parent and the processor time in seconds of each process."""
    found = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                fields = (path / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            ticks = int(fields[11]) + int(fields[12])
            found[int(path.name)] = int(fields[1]), ticks / os.sysconf("SC_CLK_TCK")
    return found


def seconds_of(process: int) -> float:
    """Return the processor time of a live process, in seconds."""
    return _stats()[process][1]


def seconds_below() -> float:
    """Return the processor time of this process and its live descendants, in seconds."""
    stats = _stats()
    known, total = {os.getpid()}, stats[os.getpid()][1]
    # Each pass adds one generation of descendants.
    is_new = True
    while is_new:
        new = {p for p, (parent, _) in stats.items() if parent in known and p not in known}
        total += sum(stats[p][1] for p in new)
        known |= new
        is_new = bool(new)
    return total
