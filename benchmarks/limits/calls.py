"""Time of first calls: compiled, from the cache, and from a wheel."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import river_mondrian
from river_mondrian.__main__ import estimators

from ..data import DataFolder
from ..report import Report, progress

QUICK = (
    "MondrianForestClassifier",
    "AdaptiveMondrianForestClassifier",
    "MondrianForestRegressor",
)
PACKAGE = Path(river_mondrian.__file__).parent

# Each program prints its processor time since the start, and the number of compiled functions.
IMPORTS = """
import json, time
import numba, river.base
print(json.dumps([time.process_time(), 0]))
"""
OURS = """
import json, sys, time
from pathlib import Path
import river_mondrian
from river_mondrian.compiling.cache import CACHE
from river_mondrian.compiling.first_calls import WATCH
from river_mondrian.rehearsal import call_first
call_first(getattr(river_mondrian, sys.argv[1])())
print(json.dumps([time.process_time(), len(WATCH.names)]))
if len(sys.argv) == 3:
    CACHE.pack(Path(sys.argv[2]))
"""
RIVERS = """
import json, sys, time
from river import forest
model = getattr(forest, sys.argv[1])(seed=1)
for i in range(3):
    x = {0: i * 37 % 101 / 101, 1: i * 53 % 103 / 103}
    model.learn_one(x, i % 2)
    model.predict_one(x)
print(json.dumps([time.process_time(), 0]))
"""
PEERS = ("AMFClassifier", "AMFRegressor", "ARFClassifier", "ARFRegressor")


def _probe(code: str, *arguments: str, **environ: str) -> tuple[float, int]:
    """Return the output of a program."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments],
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    seconds, n_compiled = json.loads(done.stdout)
    return seconds, n_compiled


def _seconds(code: str, *arguments: str, **environ: str) -> float:
    """Return the seconds of a program that compiles nothing."""
    seconds, n_compiled = _probe(code, *arguments, **environ)
    assert n_compiled == 0, f"{arguments}: compiled"
    return seconds


def _starts(name: str, folder: Path) -> tuple[int, list[float]]:
    """Return the number of functions that first calls compile, and the three times."""
    # A wheel has code for other processors, but code for this processor loads equally fast.
    wheel = folder / "wheel"
    shutil.copytree(PACKAGE, wheel / PACKAGE.name, ignore=shutil.ignore_patterns("compiled"))
    code = wheel / PACKAGE.name / "compiled"
    code.mkdir()
    kept = {"NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(wheel)}
    compiled = _probe(OURS, name, str(code), **kept)
    cached = _seconds(OURS, name, **kept | {"PYTHONPATH": str(PACKAGE.parent)})
    empty = {"NUMBA_CACHE_DIR": str(folder / "empty"), "PYTHONPATH": str(wheel)}
    return compiled[1], [compiled[0], cached, _seconds(OURS, name, **empty)]


def calls(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the time to the first predictions: compiled, cached and in a wheel."""
    imports = _seconds(IMPORTS)
    rows = []
    for name in QUICK if quick else estimators():
        progress(f"calls: {name}")
        with tempfile.TemporaryDirectory() as folder:
            n_compiled, seconds = _starts(name, Path(folder))
        beyond = [f"{one - imports:.2f}" for one in seconds]
        rows.append([name, n_compiled, *beyond])
    for name in PEERS:
        progress(f"calls: {name}")
        rows.append([name, "", "", f"{_seconds(RIVERS, name) - imports:.2f}", ""])
    report.note(
        "Time to the first predictions of a new process. Each process learns and predicts three "
        "samples. Times are processor times in seconds from the start to the last prediction, "
        f"without the time of `import numba, river.base` ({imports:.2f} s). The kernels are "
        "compiled (with an empty cache), loaded from the cache of an earlier process, or loaded "
        "from an installed wheel. The column `functions` has the number of separately compiled "
        "functions."
    )
    report.table(["model", "functions", "compiled", "cached", "wheel"], rows)
