"""Resident memory of detectors over millions of samples."""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from river_mondrian import Alarms, NearestNeighborDetector, RandomCutForest

from ..data import DataFolder
from ..report import Report, progress

# Number of rows per call, and number of features.
BLOCK, N_FEATURES = 10_000, 3

# Models by name, with a description. Models are small, which makes the run fast.
MODELS: dict[str, tuple[str, Callable[[], Any]]] = {
    "NearestNeighborDetector": ("default", lambda: NearestNeighborDetector(seed=1)),
    "RandomCutForest": (
        "2 trees, 32 samples of 128",
        lambda: RandomCutForest(2, 128, 32, seed=1),
    ),
    "Alarms": (
        "one detector, 32 samples of 128",
        lambda: Alarms(NearestNeighborDetector(window=128, max_samples=32, seed=1)),
    ),
}


def resident() -> int:
    """Return this process's resident memory in bytes on Linux, or its peak on other systems."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def held_after(name: str, numbers: list[int]) -> list[tuple[int, int]]:
    """Return resident memory and the model's `memory_usage` after some numbers of samples."""
    model, found = MODELS[name][1](), []
    rng = np.random.default_rng(1)
    for block in range(numbers[-1] // BLOCK):
        # The scale of the samples varies, so alarms are raised.
        X = rng.normal(size=(BLOCK, N_FEATURES)) * (1.0 + block % 7)
        model.learn_many(X)
        n = BLOCK * (block + 1)
        if n in numbers:
            found.append((resident(), model.memory_usage))
            progress(f"{name}: {n:,} samples, {found[-1][0] / 2**20:.1f} MiB")
    return found


def memory(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure resident memory after 100,000, a million and ten million samples."""
    numbers = [10_000, 20_000, 50_000] if quick else [100_000, 1_000_000, 10_000_000]
    rows = []
    for name, (kind, _) in MODELS.items():
        # A separate process holds only the memory of this model.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found = pool.apply(held_after, (name, numbers))
        sizes = [f"{held / 2**20:.1f}" for held, _ in found]
        rows.append([name, kind, *sizes, f"{found[0][1]:,}", f"{found[-1][1]:,}"])
    report.note(
        "Memory of a process in MiB by the number of learned samples. The samples have "
        f"{N_FEATURES} features and are learned by `learn_many` in blocks of {BLOCK:,} samples. "
        "The last two columns have `memory_usage`, the model's own count of bytes, for the "
        "smallest and the largest number of samples."
    )
    headers = ["model", "with", *(f"{n:,}" for n in numbers), "model, bytes", "at the end"]
    report.table(headers, rows)
