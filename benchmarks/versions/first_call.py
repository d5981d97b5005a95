"""Time of both versions from the start of a process to the first predictions."""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from pathlib import Path

from ..data import DataFolder
from ..report import Report, progress
from . import snapshots
from .speed import LIMIT, Pairs, ratios

REPEATS = 3

# River's own import is excluded, because it is the same for both versions.
PROBE = """
import json, sys, time
import river.base
from river import anomaly, drift
clock = time.process_time
wall, start = time.perf_counter(), clock()
from river_mondrian import {names}
imported = clock()
model = {make}
def say(i):
    x = {{"a": i * 37 % 101 / 101, "b": i * 53 % 103 / 103}}
    {say}
for i in range(2):
    say(i)
first = clock()
for i in range(2, 300):
    say(i)
last, whole = clock(), time.perf_counter() - wall
import river_mondrian
times = [first - start, last - start, whole, imported - start]
json.dump([times, river_mondrian.__file__], sys.stdout)
"""
SUPERVISED = "model.learn_one(x, i % 3); model.predict_one(x)"
MODELS = {
    "exact": ("MondrianForestClassifier", "MondrianForestClassifier(seed=1)", SUPERVISED),
    "adaptive": (
        "AdaptiveMondrianForestClassifier",
        "AdaptiveMondrianForestClassifier(seed=1)",
        SUPERVISED,
    ),
    "regressor": (
        "MondrianForestRegressor",
        "MondrianForestRegressor(seed=1)",
        "model.learn_one(x, float(i % 7)); model.predict_one(x)",
    ),
    "OGD, isolation": (
        "IsolationFeatures, OGDClassifier",
        "OGDClassifier(IsolationFeatures(seed=1))",
        SUPERVISED,
    ),
    "density": ("DensityForest", "DensityForest(seed=1)", "model.learn_one(x); model.score_one(x)"),
}
# The wall clock is not compared, because other processes affect it.
WALL = "300 samples, wall clock"
TIMES = ("first prediction", "300 samples", WALL, "import")


def first_call(data: DataFolder, report: Report, quick: bool, base: str, repeats: int) -> None:
    """Compare the time of first calls, with an empty and with a full cache."""
    repeats = 1 if quick else min(repeats, REPEATS)
    folders = snapshots.of_commit(base), snapshots.of_working_tree()
    rows = []
    for model in ("exact",) if quick else MODELS:
        pairs: dict[tuple[str, str], Pairs] = {}
        for repeat in range(repeats):
            with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
                # A quick run compiles nothing.
                for how in ("cached",) if quick else ("compiled", "cached", "cached"):
                    progress(f"first_call: {model}, {how}, {repeat + 1} of {repeats}")
                    caches = (None, None) if quick else (Path(one), Path(other))
                    outputs = [[0.0], [0.0]]
                    for i in (0, 1) if repeat % 2 == 0 else (1, 0):
                        outputs[i] = _probe(model, folders[i], caches[i])
                    for time, old, new in zip(TIMES, *outputs, strict=True):
                        pairs.setdefault((how, time), []).append((old, new))
        for (how, time), found in pairs.items():
            limit = math.inf if time == WALL else LIMIT
            old, new = (min(values) for values in zip(*found, strict=True))
            rows.append((model, how, time, *ratios(found, new / old, limit)))
    report.note(
        f"Old: {base}; new: the working tree. Times are processor seconds in new processes (one "
        f"row has the wall clock), as medians of {repeats} runs. The time starts before the "
        "package's import and after River's import. A full run repeats cached runs twice as "
        "often. Compiled runs have an empty cache of numba. The columns after the times have the "
        "median, smallest and largest ratio, and the ratio of the fastest runs. SLOWER means that "
        f"the median ratio and the fastest ratio are above {LIMIT}. The word `unsure` means that "
        f"one of them is above {LIMIT}."
    )
    headers = ("model", "start", "until", "old, s", "new, s", "new / old", "smallest - largest")
    report.table((*headers, "fastest", ""), rows)


def _probe(model: str, folder: Path, cache: Path | None) -> list[float]:
    names, make, say = MODELS[model]
    code = PROBE.format(names=names, make=make, say=say)
    found = subprocess.run(
        snapshots.python("-c", code),
        env=snapshots.environment(folder, cache),
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        raise RuntimeError(f"the probe of {model} failed:\n{found.stderr}")
    times, file = json.loads(found.stdout)
    if folder.resolve() not in Path(file).resolve().parents:
        raise RuntimeError(f"the package came from {file}, not from {folder}")
    return list(times)
