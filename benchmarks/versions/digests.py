"""Comparison of the predictions of both versions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data import Array, DataFolder
from ..report import Report, progress
from .peers import SAMPLES, Failed, Peers

# Relative difference above which predictions count as different.
TOLERANCE = 1e-6
# Differences are relative to at least this share of the median absolute value, because a sum near
# 0 has few correct digits. The median is over the values of the configuration other than 0.
SMALL = 1e-6

QUICK_SAMPLES = 300


@dataclass
class Difference:
    """Index of the first difference between two arrays, and the largest differences."""

    same_bits: bool
    first: int
    absolute: float
    relative: float


def compare(old: Array, new: Array) -> Difference:
    """Compare two arrays; NaN equals NaN, and arrays of different lengths differ by infinity."""
    if old.tobytes() == new.tobytes():
        return Difference(True, -1, 0.0, 0.0)
    n = min(len(old), len(new))
    a, b = old[:n], new[:n]
    differ = (a != b) & ~(np.isnan(a) & np.isnan(b))
    first = int(differ.argmax()) if differ.any() else n
    if len(old) != len(new):
        return Difference(False, first, np.inf, np.inf)
    if not differ.any():  # Only the sign of a zero differs.
        bits = a.view(np.int64) != b.view(np.int64)
        return Difference(False, int(bits.argmax()), 0.0, 0.0)
    sizes = np.abs(old[np.isfinite(old) & (old != 0.0)])
    least = SMALL * float(np.median(sizes)) if len(sizes) else 0.0
    a, b = a[differ], b[differ]
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = np.abs(a - b)
        shares = gaps / np.maximum(np.maximum(np.abs(a), np.abs(b)), least)
    # One of the values is infinite or NaN.
    gaps[~np.isfinite(gaps)] = np.inf
    shares[~np.isfinite(shares)] = np.inf
    return Difference(False, first, float(gaps.max()), float(shares.max()))


def digests(data: DataFolder, report: Report, quick: bool, base: str, repeats: int) -> bool:
    """Compare the predictions of many configurations, which should be equal bit for bit."""
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
        f"Old: {base}; new: the working tree. {len(names)} configurations run on synthetic "
        f"streams of about {n} samples. All outputs of a model (predictions before each "
        "sample, trees, weights) are compared as float64. The columns have a checksum of the "
        "old outputs, and whether the new outputs are the same bit for bit. If not, they "
        "have the first different place and the largest differences. A relative difference "
        f"above {TOLERANCE:g} counts as another prediction. Values below {SMALL:g} of a "
        "configuration's median size are treated as having this size."
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
    """Return a row of the table, whether predictions are equal, and whether all bits are equal."""
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
