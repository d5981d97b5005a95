"""Kernels give the same where nothing is compiled, and where every access is checked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_mixtures import RESULTS

MODES = {"plain": "NUMBA_DISABLE_JIT", "checked": "RIVER_MONDRIAN_CHECKS"}


@pytest.fixture(scope="module", params=MODES)
def others(request, tmp_path_factory):
    """Return the results of another process, whose compiled code is kept apart."""
    cache = tmp_path_factory.mktemp("cache")
    found = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("small_mixtures.py"))],
        env={**os.environ, MODES[request.param]: "1", "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_the_same(others, name):
    np.testing.assert_allclose(others[name], RESULTS[name](), rtol=1e-12, atol=1e-12)
