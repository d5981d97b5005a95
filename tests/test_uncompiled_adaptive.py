"""The adaptive forest where nothing is compiled, and where every access is checked."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
from small_adaptive import FORGETS_AT, N_SAMPLES, results


def run(**environment):
    """Return the results of another process."""
    here = pathlib.Path(__file__).parent
    # Another processor would round otherwise.
    known = {
        k: v
        for k, v in os.environ.items()
        if k == "NUMBA_CPU_NAME" or not k.startswith(("NUMBA", "RIVER"))
    }
    given = {**known, "PYTHONPATH": str(here.parent), **environment}
    script = [sys.executable, str(here / "small_adaptive.py")]
    found = subprocess.run(script, check=True, env=given, capture_output=True, text=True)
    return json.loads(found.stdout)


@pytest.fixture(scope="module")
def compiled():
    return results()


def check(found, compiled, tolerance):
    """Compare with what has been compiled: predictions, and the trees, which must be equal."""
    assert found["roots"] == compiled["roots"] == [40 + N_SAMPLES - 1 - FORGETS_AT] * 2
    assert found["nodes"] == compiled["nodes"]
    for expected, own in zip(compiled["predicted"], found["predicted"], strict=True):
        assert own == pytest.approx(expected, abs=tolerance)


def test_the_forest_runs_as_python(compiled):
    """Sums of float32 are rounded less often there."""
    check(run(NUMBA_DISABLE_JIT="1"), compiled, 3e-7)


def test_the_forest_runs_with_every_access_checked(compiled, tmp_path):
    """Loops with checks are no vectors, which sum in another order."""
    found = run(RIVER_MONDRIAN_CHECKS="1", NUMBA_CACHE_DIR=str(tmp_path))
    check(found, compiled, 1e-12)
