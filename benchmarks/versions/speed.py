"""How long both versions take for a sample."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from ..data import DataFolder
from ..report import Report, progress
from ..timing import BLOCK
from .peers import Failed, Peers

LIMIT = 1.05
SAMPLES, QUICK_SAMPLES = 3000, 300
PASSES = 3
# Repeats after which there are new processes: where a process has its memory makes it faster or
# slower throughout.
SAME_PROCESSES = 3

Pairs = list[tuple[float, float]]  # old and new, taken one after the other


def speed(data: DataFolder, report: Report, quick: bool, base: str, repeats: int) -> None:
    """Time of single calls, old and new in turn."""
    n, repeats = (QUICK_SAMPLES, 1) if quick else (SAMPLES, repeats)
    pairs: dict[tuple[str, str, str], Pairs] = {}  # by row, stream and call
    failed: dict[str, str] = {}
    for start in range(0, repeats, SAME_PROCESSES):
        stop = min(start + SAME_PROCESSES, repeats)
        with Peers(base, turns=start) as peers:
            for name in peers.one("rows", data.sets):
                if name not in failed:
                    progress(f"speed: {name}, repeats {start + 1} to {stop} of {repeats}")
                    # Streams are read and kernels loaded.
                    peers.both("timed", data.folder, name, n, start)
                    for seed in range(start + 1, stop + 1):
                        _repeat(peers, data, name, n, seed, pairs, failed)
    rows: list[tuple[Any, ...]] = [(*key, *ratios(found)) for key, found in pairs.items()]
    rows += [(name, "", what, *[""] * 5) for name, what in failed.items()]
    report.note(
        f"Old: {base}; new: the working tree. Microseconds of the processor per sample, medians of "
        f"{repeats} repeats, in new processes after every {SAME_PROCESSES}; new / old: median "
        f"(least to largest) of the ratios. A repeat is {PASSES} passes of each version in turn, "
        f"with the same seed: of each block of {BLOCK} samples the fastest counts. The first {n} "
        "samples of a stream, or a part of them, prediction and learning by blocks; end to end: "
        "progressive_val_score (accuracy). All was compiled before."
    )
    report.table(
        ("row", "stream", "call", "old, us", "new, us", "new / old", "least - largest", ""), rows
    )
    slow = [f"{row[0]} {row[2]}" for row in rows if row[-1]]
    report.note(f"{len(slow)} of {len(rows)} above {LIMIT}{': ' * bool(slow)}{'; '.join(slow)}.")


def _repeat(
    peers: Peers,
    data: DataFolder,
    name: str,
    n: int,
    seed: int,
    pairs: dict[tuple[str, str, str], Pairs],
    failed: dict[str, str],
) -> None:
    """Time a row of both versions; adds to `pairs`, or to `failed` what a version raised."""
    fastest: list[dict[str, Any]] = [{}, {}]
    for _ in range(PASSES):
        said = peers.both("timed", data.folder, name, n, seed)
        for which, one, best in zip(("old", "new"), said, fastest, strict=True):
            if isinstance(one, Failed):
                failed[name] = f"the {which} version raises {one.last_line}"
                return
            if one is None:  # no such file
                return
            for call, times in one[2].items():
                best[call] = np.minimum(best.get(call, np.inf), times)
    stream, n_samples, calls = said[0]
    for call in calls:
        us = [1e6 * float(best[call].sum()) / n_samples for best in fastest]
        pairs.setdefault((name, stream, call), []).append((us[0], us[1]))


def ratios(pairs: Pairs, digits: int = 2, limit: float = LIMIT) -> tuple[str, ...]:
    """Return both medians, the median of the ratios and their range, and what to say of it."""
    old, new = (statistics.median(values) for values in zip(*pairs, strict=True))
    shares = [b / a if a else 1.0 for a, b in pairs]
    middle = statistics.median(shares)
    return (
        f"{old:.{digits}f}",
        f"{new:.{digits}f}",
        f"{middle:.3f}",
        f"{min(shares):.3f} - {max(shares):.3f}",
        "SLOWER" if middle > limit else "",
    )
