"""Kernels give the same results where nothing is compiled, and where every access is checked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_adaptive import FORGETS_AT, N_SAMPLES

HERE = Path(__file__).parent


def run(*arguments, **settings):
    """Return the results of all small models in a process with other settings."""
    # Another processor would round otherwise.
    kept = "NUMBA_CPU_NAME", "NUMBA_CACHE_DIR"
    known = {
        k: v for k, v in os.environ.items() if k in kept or not k.startswith(("NUMBA", "RIVER"))
    }
    done = subprocess.run(
        [sys.executable, str(HERE / "modes.py"), *arguments],
        env={**known, "PYTHONPATH": str(HERE.parent), **settings},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def compiled():
    return run("forests")


def flat(found):
    """Return all numbers of nested lists."""
    return [v for part in found for v in flat(part)] if isinstance(found, list) else [found]


def compare(found, expected, tolerance):
    """Compare predictions by a tolerance for each name; nodes of trees must be equal."""
    assert found.keys() <= expected.keys()
    for name, own in found.items():
        other = expected[name]
        if isinstance(own, dict):
            assert own["nodes"] == other["nodes"]
            own, other = own["predicted"], other["predicted"]
        bound = tolerance(name)
        np.testing.assert_allclose(flat(own), flat(other), rtol=bound, atol=bound, err_msg=name)


@pytest.mark.quick
@pytest.mark.blas
def test_kernels_run_as_python(compiled):
    plain = run("forests", NUMBA_DISABLE_JIT="1")
    assert plain.keys() == compiled.keys()
    assert plain["adaptive"]["roots"] == [40 + N_SAMPLES - 1 - FORGETS_AT] * 2
    # Sums of float32 are rounded less often there.
    compare(plain, compiled, lambda name: 3e-7 if name == "adaptive" else 1e-12)


@pytest.mark.blas
def test_kernels_run_with_every_access_checked(compiled):
    checked = run(RIVER_MONDRIAN_CHECKS="1")
    assert len(checked) == len(compiled) - 6

    def tolerance(name):
        # Loops with checks are no vectors, which sum in another order.
        return 0.0 if name.startswith(("map", "learner")) else 1e-12

    compare(checked, compiled, tolerance)
