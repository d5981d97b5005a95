"""Comparison of the time per sample of both versions."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..data import DataFolder
from ..report import Report, progress
from ..timing import BLOCK
from .peers import Failed, Peers

LIMIT = 1.05
SAMPLES, QUICK_SAMPLES = 3000, 300
PASSES = 3
# Number of repeats in the same processes. Memory addresses affect the speed, so new processes are
# started after these repeats.
SAME_PROCESSES = 3

Pairs = list[tuple[float, float]]  # Old and new times of the same repeat.


@dataclass
class Call:
    """Times of a call: microseconds per sample by repeat, and fastest seconds of each block."""

    row: str
    stream: str
    name: str
    pairs: Pairs = field(default_factory=list)
    blocks: list[Any] = field(default_factory=lambda: [np.inf, np.inf])

    def add(self, old: Any, new: Any, n_samples: int) -> None:
        """Add a repeat, given the old and the new seconds of its blocks."""
        us = [1e6 * float(times.sum()) / n_samples for times in (old, new)]
        self.pairs.append((us[0], us[1]))
        self.blocks = [
            np.minimum(best, times) for best, times in zip(self.blocks, (old, new), strict=True)
        ]

    @property
    def fastest(self) -> float:
        """Return the ratio new / old of the fastest repeats of all blocks."""
        return float(self.blocks[1].sum() / self.blocks[0].sum())

    def cells(self) -> tuple[str, ...]:
        """Return the row of the table."""
        return (self.row, self.stream, self.name, *ratios(self.pairs, self.fastest))


def speed(data: DataFolder, report: Report, quick: bool, base: str, repeats: int) -> None:
    """Compare the time of calls, with the old and the new version in turns."""
    n, repeats, passes = (QUICK_SAMPLES, 1, 1) if quick else (SAMPLES, repeats, PASSES)
    left_out: list[str] = []
    calls: dict[tuple[str, str, str], Call] = {}  # By row, stream and call.
    failed: dict[str, str] = {}
    for start in range(0, repeats, SAME_PROCESSES):
        stop = min(start + SAME_PROCESSES, repeats)
        with Peers(base, turns=start) as peers:
            for name in peers.one("rows", data.sets):
                if name in failed:
                    continue
                progress(f"speed: {name}, repeats {start + 1} to {stop} of {repeats}")
                # The first task reads streams and loads kernels.
                if None in peers.both("timed", data.folder, name, n):
                    left_out += [name] * (start == 0)
                    continue
                try:
                    for _ in range(start, stop):
                        for key, found in _repeat(peers, data, name, n, passes).items():
                            calls.setdefault(key, Call(*key)).add(*found)
                except RuntimeError as error:
                    failed[name] = str(error)
    rows: list[tuple[Any, ...]] = [call.cells() for call in calls.values()]
    rows += [(name, "", what, *[""] * 6) for name, what in failed.items()]
    report.note(
        f"Old: {base}; new: the working tree. Times are processor microseconds per sample, as "
        f"medians of {repeats} repeats. New processes start after every {SAME_PROCESSES} repeats. "
        f"A repeat is {passes} passes of each version in turn, with the same seed. The fastest "
        f"pass of each block of {BLOCK} samples counts. The columns after the times have the "
        "median, smallest and largest ratio over the repeats. The column `fastest` has the ratio "
        "of the fastest of all repeats, which a busy machine affects least. SLOWER means that the "
        f"median ratio and the fastest ratio are above {LIMIT}. The word `unsure` means that one "
        f"of them is above {LIMIT}. The models predict and learn the first {n} samples of a "
        "stream, or some of them, by blocks. End to end is progressive_val_score (accuracy). All "
        "kernels are compiled in advance."
    )
    if left_out:
        report.note(f"Rows without a stream in the folder are left out: {'; '.join(left_out)}.")
    headers = ("row", "stream", "call", "old, us", "new, us", "new / old", "smallest - largest")
    report.table((*headers, "fastest", ""), rows)
    slow = [f"{row[0]} {row[2]}" for row in rows if row[-1] == "SLOWER"]
    report.note(f"{len(slow)} of {len(rows)} slower{': ' * bool(slow)}{'; '.join(slow)}.")


def _repeat(
    peers: Peers, data: DataFolder, name: str, n: int, passes: int
) -> dict[tuple[str, str, str], tuple[Any, Any, int]]:
    """Time a row; return, by call, old and new seconds of blocks, and the number of samples."""
    fastest: list[dict[str, Any]] = [{}, {}]
    outputs: tuple[Any, Any] = (None, None)
    for _ in range(passes):
        outputs = peers.both("timed", data.folder, name, n)
        for which, one, best in zip(("old", "new"), outputs, fastest, strict=True):
            if isinstance(one, Failed):
                raise RuntimeError(f"the {which} version raises {one.last_line}")
            for call, times in one[2].items():
                best[call] = np.minimum(best.get(call, np.inf), times)
    stream, n_samples, _ = outputs[0]
    return {
        (name, stream, call): (fastest[0][call], fastest[1][call], n_samples) for call in fastest[0]
    }


def ratios(pairs: Pairs, fastest: float, limit: float = LIMIT) -> tuple[str, ...]:
    """Return medians, median ratio, range of the ratio, fastest ratio, and a remark."""
    old, new = (statistics.median(values) for values in zip(*pairs, strict=True))
    shares = [b / a if a else 1.0 for a, b in pairs]
    middle = statistics.median(shares)
    above = (middle > limit) + (fastest > limit)
    return (
        f"{old:.2f}",
        f"{new:.2f}",
        f"{middle:.3f}",
        f"{min(shares):.3f} - {max(shares):.3f}",
        f"{fastest:.3f}",
        ("", "unsure", "SLOWER")[above],
    )
