"""Tests that predictions are equal if nothing is compiled, and if all accesses are checked.

`python tests/test_modes.py NAME ...` prints the predictions of configurations in the mode of this
process.
"""

import functools
import json
import math
import os
import sys
from pathlib import Path

import common
import numpy as np
import pytest
from test_configurations import CONFIGURATIONS, ROWS, learn, says
from test_isolation import WAYS, force

HERE = Path(__file__)
# The rows include a new feature, a new class, and weights other than 1.
FIRST, LAST = 40, 130
# These configurations run each kind of kernel at least once.
CASES = ["classifier, oblique", "classifier, window", "adaptive, one model", "regressor, bounded"]
CASES += ["means, growing", "adaptive regressor, autoregressive", "density, directions"]
CASES += ["kernel density", "shingles", "neighbors, shingles", "mondrian", "binning"]
CASES += ["isolation, trees", "nystrom, gaussian", "fourier, laplace", "ogd, foreign"]
CASES += ["ogd, one against the rest", "ogd, lifetimes", "ogd regressor", "ridge, dense"]
CASES += ["ridge, window", "dual, cells", *(f"isolation, {way}" for way in WAYS)]
# Configurations that run with all accesses checked. tests/fuzz.py runs forests in this mode, too.
CHECKED = ["isolation, tree", "nystrom, gaussian", "ridge, window", "dual, cells"]


def predictions(name):
    """Return the predictions of some samples, before each sample is learned."""
    with pytest.MonkeyPatch.context() as patch:
        if name not in CONFIGURATIONS:
            # A small map is forced to search in each way.
            name, way = name.split(", ")
            force(patch, way)
        model = CONFIGURATIONS[name]()
        found = []
        for i in range(FIRST, LAST):
            if i % 10 == 9:
                found.append(says(model, ROWS[i]))
            learn(model, i, i + 1)
        return flat(found)


def flat(found):
    """Return all values of nested lists and mappings, and all keys of mappings."""
    if isinstance(found, dict):
        found = [one for pair in found.items() for one in pair]
    if isinstance(found, list | tuple | np.ndarray):
        return [one for part in found for one in flat(part)]
    return [float(found) if isinstance(found, int | float) else repr(found)]


def run(names, **settings):
    """Return the predictions of configurations in a process with other settings."""
    # Code for another processor would round differently.
    kept = "NUMBA_CPU_NAME", "NUMBA_CACHE_DIR"
    known = {
        k: v for k, v in os.environ.items() if k in kept or not k.startswith(("NUMBA", "RIVER"))
    }
    paths = os.pathsep.join([str(HERE.parents[1]), str(HERE.parent)])
    found, _ = common.run(str(HERE), *names, inherited=known, PYTHONPATH=paths, **settings)
    return json.loads(found)


@functools.cache
def compiled():
    return {name: predictions(name) for name in CASES}


def compare(found, expected, bound):
    for name, own in found.items():
        for one, other in zip(own, expected[name], strict=True):
            if isinstance(one, float) and math.isfinite(one):
                assert math.isclose(one, other, rel_tol=bound, abs_tol=bound), (name, one, other)
            else:
                assert one == other or one != one, (name, one, other)


@pytest.mark.blas
def test_kernels_run_with_every_access_checked():
    checked = run(CHECKED, RIVER_MONDRIAN_CHECKS="1")
    # Loops with checks are not vectorized, so the order of additions differs.
    compare(checked, compiled(), 1e-9)


@pytest.mark.blas
def test_kernels_run_as_python():
    plain = run(CASES, NUMBA_DISABLE_JIT="1")
    # Python rounds sums of float32 less often.
    compare(plain, compiled(), 1e-6)


if __name__ == "__main__":
    json.dump({name: predictions(name) for name in sys.argv[1:]}, sys.stdout)
