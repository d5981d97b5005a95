"""First calls: seconds from a new process to the first prediction, compiled and from the cache."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from ..data import DataFolder
from ..report import Report, progress

REPEATS = 3

PROBE = """
import json, time
start = time.perf_counter()
from river_mondrian import {name}
imported = time.process_time()
from river_mondrian.compiling.first_calls import WATCH
model = {name}(seed=1, **{arguments})
for i in range(2):
    x = {{"a": i * 37 % 101 / 101, "b": i * 53 % 103 / 103}}
    model.learn_one(x, i)
    model.predict_one(x)
print(json.dumps([imported, time.process_time(), time.perf_counter() - start, len(WATCH.names)]))
"""
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "exact": ("MondrianForestClassifier", {}),
    "adaptive": ("AdaptiveMondrianForestClassifier", {}),
    "regressor": ("MondrianForestRegressor", {}),
}


def _probe(name: str, arguments: dict[str, Any], cache: str) -> list[float]:
    """Return seconds until all is imported, until the end, by the clock, and functions compiled."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(name=name, arguments=arguments)],
        env=os.environ | {"NUMBA_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return list(json.loads(done.stdout))


def calls(data: DataFolder, report: Report, quick: bool) -> None:
    """Seconds until the first predictions of a new process, compiled and cached."""
    rows = []
    for model, (name, arguments) in MODELS.items():
        found: dict[str, list[list[float]]] = {"compiled": [], "cached": []}
        for repeat in range(1 if quick else REPEATS):
            progress(f"calls: {model}, {repeat + 1}")
            with tempfile.TemporaryDirectory() as cache:
                for how in ("compiled", "cached", "cached"):
                    found[how].append(_probe(name, arguments, cache))
        for how, times in found.items():
            imported, whole, clock, n = (
                statistics.median(each) for each in zip(*times, strict=True)
            )
            seconds = (f"{each:.2f}" for each in (imported, whole, clock))
            rows.append([model, how, int(n), *seconds])
    report.note(
        "Two samples are learned and predicted in a new process. Seconds of the processor from its "
        "start, until the package is imported and until the last prediction; by the clock from the "
        "import on, where other processes are in it; medians. Compiled: the cache was empty. "
        "Functions are those compiled to machine code of their own."
    )
    headers = ("model", "start", "functions", "imported", "predicted", "by the clock")
    report.table(list(headers), rows)
