"""Learners where nothing is compiled, and where every access is checked: with equal results."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
from small_learners import LEARNERS, results


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
    script = [sys.executable, str(here / "small_learners.py")]
    found = subprocess.run(script, check=True, env=given, capture_output=True, text=True)
    return json.loads(found.stdout)


@pytest.fixture(scope="module")
def compiled():
    return results()


def test_learners_run_as_python(compiled):
    plain = run(NUMBA_DISABLE_JIT="1")
    assert plain.keys() == LEARNERS.keys()
    for name, rows in compiled.items():
        for expected, found in zip(rows, plain[name], strict=True):
            assert found == pytest.approx(expected, rel=1e-12, abs=1e-12), name


def test_learners_run_with_every_access_checked(compiled, tmp_path):
    checked = run(RIVER_MONDRIAN_CHECKS="1", NUMBA_CACHE_DIR=str(tmp_path))
    assert checked == compiled
