"""Predictions of both versions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data import Array, DataFolder
from ..report import Report, progress
from .peers import SAMPLES, Failed, Peers

# Relative difference from which on predictions count as different.
TOLERANCE = 1e-6
# What is smaller than this share of the median size of a configuration's values, those not 0, is
# compared as if it were as large: a sum that is nearly 0 has few digits.
SMALL = 1e-6

QUICK_SAMPLES = 300


@dataclass
class Difference:
    """How two arrays differ: the first place, and the largest differences."""

    same_bits: bool
    first: int
    absolute: float
    relative: float


def compare(old: Array, new: Array) -> Difference:
    """Compare two arrays; NaN equals NaN, and arrays of different lengths differ infinitely."""
    if old.tobytes() == new.tobytes():
        return Difference(True, -1, 0.0, 0.0)
    n = min(len(old), len(new))
    a, b = old[:n], new[:n]
    differ = (a != b) & ~(np.isnan(a) & np.isnan(b))
    first = int(differ.argmax()) if differ.any() else n
    if len(old) != len(new):
        return Difference(False, first, np.inf, np.inf)
    if not differ.any():  # the sign of a zero
        bits = a.view(np.int64) != b.view(np.int64)
        return Difference(False, int(bits.argmax()), 0.0, 0.0)
    sizes = np.abs(old[np.isfinite(old) & (old != 0.0)])
    least = SMALL * float(np.median(sizes)) if len(sizes) else 0.0
    a, b = a[differ], b[differ]
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = np.abs(a - b)
        shares = gaps / np.maximum(np.maximum(np.abs(a), np.abs(b)), least)
    # Infinity or NaN on one side only.
    gaps[~np.isfinite(gaps)] = np.inf
    shares[~np.isfinite(shares)] = np.inf
    return Difference(False, first, float(gaps.max()), float(shares.max()))


def digests(data: DataFolder, report: Report, quick: bool, base: str, repeats: int) -> bool:
    """Predictions of many configurations, which should be the same bit for bit."""
    n = QUICK_SAMPLES if quick else SAMPLES
    rows, others, not_same = [], [], []
    with Peers(base) as peers:
        names = peers.one("names")
        for i, name in enumerate(names, 1):
            progress(f"digests: {i} of {len(names)}, {name}")
            old, new = peers.both("digest", name, n)
            row, fine, same = _row(name, old, new)
            rows.append(row)
            if not fine:
                others.append(name)
            elif not same:
                not_same.append(name)
    report.note(
        f"Old: {base}; new: the working tree. {len(names)} configurations on synthetic streams of "
        f"about {n} samples, all that a model says (predictions before each sample, trees, "
        "weights) as float64: a checksum of the old one's, whether the new one's are the same bit "
        "for bit, and where not, the first place that differs and the largest differences. A "
        f"relative difference above {TOLERANCE:g} counts as another prediction; values below "
        f"{SMALL:g} of a configuration's median size are taken to be as large as that."
    )
    report.table(
        ("configuration", "values", "checksum", "same bits", "from", "absolute", "relative", ""),
        rows,
    )
    report.note(
        f"{len(rows) - len(not_same) - len(others)} of {len(rows)} the same bit for bit, "
        f"{len(not_same)} within {TOLERANCE:g}{_list(not_same)}, "
        f"{len(others)} others{_list(others)}."
    )
    return not others


def _list(names: list[str]) -> str:
    return f" ({'; '.join(names)})" if names else ""


def _row(name: str, old: Any, new: Any) -> tuple[tuple[Any, ...], bool, bool]:
    """Return a row of the table, whether all is well, and whether all bits are the same."""
    if isinstance(new, Failed):
        return (name, "", "", "NO", "", "", "", f"raises {new.last_line}"), False, False
    if isinstance(old, Failed):
        # A configuration that the old version lacks cannot be compared.
        what = f"the old version raises {old.last_line}"
        return (name, len(new), "", "-", "", "", "", what), True, False
    checksum = hashlib.sha256(old.tobytes()).hexdigest()[:12]
    found = compare(old, new)
    if found.same_bits:
        return (name, len(old), checksum, "yes", "", "", "", ""), True, True
    fine = found.relative <= TOLERANCE
    what = "" if fine else "DIFFERS"
    if len(old) != len(new):
        what += f", {len(new)} values"
    differences = (f"{found.absolute:.2g}", f"{found.relative:.2g}")
    return (name, len(old), checksum, "NO", found.first, *differences, what), fine, False
