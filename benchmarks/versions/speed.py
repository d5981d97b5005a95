"""How long both versions take for a sample."""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import Any

from ..data import DataFolder
from ..report import Report, progress
from .peers import Failed, Peers

LIMIT = 1.05
SAMPLES, QUICK_SAMPLES = 3000, 300

Pairs = list[tuple[float, float]]  # old and new, taken one after the other


def speed(data: DataFolder, report: Report, quick: bool, base: str, repeats: int) -> None:
    """Time of single calls, old and new in turn."""
    n, repeats = (QUICK_SAMPLES, min(repeats, 3)) if quick else (SAMPLES, repeats)
    rows: list[tuple[Any, ...]] = []
    with Peers(base) as peers:
        for name in peers.one("rows", data.sets):
            progress(f"speed: {name}, warm-up")
            # Streams are read and kernels loaded.
            said = peers.both("timed", data.folder, name, n, 0)
            found: defaultdict[str, Pairs] = defaultdict(list)
            for i in range(repeats if all(said) else 0):
                progress(f"speed: {name}, {i + 1} of {repeats}")
                said = peers.both("timed", data.folder, name, n, 1 + i // 2)
                if any(isinstance(one, Failed) for one in said):
                    break
                for call in said[0].keys() & said[1].keys():
                    found[call].append((said[0][call], said[1][call]))
            rows += _rows(name, said, found)
    report.note(
        f"Old: {base}; new: the working tree. Microseconds of the processor per sample, medians of "
        f"{repeats} repeats; new / old: median (least to largest) of the ratios of two runs, one "
        f"straight after the other. The first {n} samples of a stream, or a part of them; "
        "prediction and learning by blocks of 100; end to end: progressive_val_score (accuracy). "
        "All was compiled before."
    )
    report.table(
        ("row", "stream", "call", "old, us", "new, us", "new / old", "least - largest", ""), rows
    )
    slow = [f"{row[0]} {row[2]}" for row in rows if row[-1] == "SLOWER"]
    report.note(f"{len(slow)} of {len(rows)} above {LIMIT}{': ' * bool(slow)}{'; '.join(slow)}.")


def _rows(name: str, said: tuple[Any, Any], found: dict[str, Pairs]) -> list[tuple[Any, ...]]:
    for which, one in zip(("old", "new"), said, strict=True):
        if isinstance(one, Failed):
            return [(name, "", f"the {which} version raises {one.last_line}", *[""] * 5)]
    if not all(said):
        return []
    stream, *calls = said[0]
    return [(name, stream, call, *ratios(found[call])) for call in calls if call in found]


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
