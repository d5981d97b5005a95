"""Kernels of feature maps where nothing is compiled: plain Python over the same memory."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

# Runs where nothing is compiled, and here.
SCRIPT = """
import sys

import numpy as np
import pandas as pd

from river_mondrian import (
    IsolationFeatures, NystromFeatures, RandomBinningFeatures, RandomFourierFeatures
)
from river_mondrian.partitions.voronoi import map as voronoi


def samples(n, d, share, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * (rng.random((n, d)) < share)


def mapping(row):
    return {f"f{j:03d}": v for j, v in enumerate(row.tolist()) if v != 0.0}


def isolation(**params):
    return IsolationFeatures(5, 4, pool_size=30, seed=1, **params)


def search(way, **params):
    voronoi.TREE_LEAST, voronoi.PRODUCT_LEAST = 1, 2
    costs = {"tree": 1.0, "index": 1.0, "scan": 1.0, "product": float("inf"), way: 0.0}
    if way == "product":
        costs["product"] = -1.0
    for name, cost in costs.items():
        setattr(voronoi.VoronoiMap, f"_{name}_cost", lambda self, *_, cost=cost: cost)
    return isolation(**params)


MAPS = {
    "scan": (lambda: search("scan"), 3, 1.0),
    "tree": (lambda: search("tree"), 3, 1.0),
    "tree of rests": (lambda: search("tree", scale=True), 20, 1.0),
    "product": (lambda: search("product"), 3, 1.0),
    "index": (lambda: search("index"), 3, 0.5),
    "sparse": (lambda: isolation(), 300, 0.02),
    "trees": (lambda: isolation(method="iforest"), 3, 1.0),
    "sparse trees": (lambda: isolation(method="iforest", scale=True), 300, 0.02),
    "fourier": (lambda: RandomFourierFeatures(6, seed=1), 3, 0.5),
    "binning": (lambda: RandomBinningFeatures(40, seed=1), 3, 0.5),
    "laplace": (lambda: NystromFeatures(8, 4), 3, 0.5),
    "gaussian": (lambda: NystromFeatures(8, 4, kernel="gaussian"), 3, 0.5),
}
found = {}
for name, (make, d, share) in MAPS.items():
    features, rows = make(), samples(36, d, share, 0)
    for row in rows:
        features.learn_one(mapping(row))
    queries = samples(6, d, share, 1)
    table = pd.DataFrame(queries, columns=[f"f{j:03d}" for j in range(d)])
    one = [features._output(mapping(row)).astype(float) for row in queries]
    found[name] = np.stack([*one, *features._read(table)[1]])
    found[name + " gram"] = features.gram(table)
    if name == "binning":
        found["learned by rows"] = features.cells_many(table.fillna(0.0))
        features.learn_many(table)
        found["met by rows"] = features.cells_many(table)
np.savez(sys.argv[1], **found)
"""


def run(path, **environment):
    root = str(pathlib.Path(__file__).parents[1])
    # Another processor would round otherwise.
    known = {
        k: v
        for k, v in os.environ.items()
        if k == "NUMBA_CPU_NAME" or not k.startswith(("NUMBA", "RIVER"))
    }
    cache = {"NUMBA_CACHE_DIR": os.environ["NUMBA_CACHE_DIR"]} if _caches(environment) else {}
    given = {**known, "PYTHONPATH": root, **cache, **environment}
    subprocess.run([sys.executable, "-c", SCRIPT, str(path)], check=True, env=given)
    return dict(np.load(path))


def _caches(environment):
    """Tell whether what is compiled may come from the cache of the tests, and go there."""
    return not environment and "NUMBA_CACHE_DIR" in os.environ


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    return run(tmp_path_factory.mktemp("maps") / "compiled.npz")


@pytest.mark.blas
def test_maps_run_as_python(compiled, tmp_path):
    plain = run(tmp_path / "plain.npz", NUMBA_DISABLE_JIT="1")
    assert plain.keys() == compiled.keys()
    for name, expected in compiled.items():
        np.testing.assert_allclose(plain[name], expected, rtol=0.0, atol=1e-12, err_msg=name)


@pytest.mark.blas
def test_maps_run_with_every_access_checked(compiled, tmp_path):
    environment = {"RIVER_MONDRIAN_CHECKS": "1", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    checked = run(tmp_path / "checked.npz", **environment)
    for name, expected in compiled.items():
        np.testing.assert_array_equal(checked[name], expected, err_msg=name)
