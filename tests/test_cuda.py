"""Tests of the CUDA kernels, which are also compiled from the same source for the CPU."""

import ctypes
import gc
import importlib.util
import math
import pickle
import re
import sys
import types
from fractions import Fraction
from pathlib import Path

import device
import numpy as np
import pandas as pd
import pytest
from common import raises
from naive import voronoi as naive

from river_mondrian import IsolationFeatures
from river_mondrian.features import kernel_maps
from river_mondrian.partitions.voronoi import cuda, nearest

runs_kernels = pytest.mark.skipif(
    device.COMPILER is None or sys.platform != "linux",
    reason="nearest.cu is run on the processor by g++ on Linux",
)

# Numbers of rows, features, pool points, partitions and cells around the sizes of tiles, and 1.
SHAPES = [(1, 1, 1, 1, 1), (65, 1, 300, 3, 40), (64, 16, 128, 5, 7), (31, 17, 129, 1, 60)]
SHAPES += [(70, 7, 600, 11, 33), (2, 40, 257, 9, 1), (100, 33, 60, 4, 60)]


def partitions(n_pool, t, psi, seed=0):
    """Draw the members of partitions without replacement."""
    rng = np.random.default_rng(seed)
    return np.array([rng.choice(n_pool, psi, replace=False) for _ in range(t)])


# Functions that derive hard rows from normal rows.
KINDS = {
    "normal": lambda normal, wild, rng: normal,
    "far from 0": lambda normal, wild, rng: 1.6e9 + 1e4 * normal,
    "binary": lambda normal, wild, rng: (normal > 0.5) * 1.0,
    "two values": lambda normal, wild, rng: (normal > 0.5) * 0.37,
    "levels": lambda normal, wild, rng: rng.integers(0, 4, normal.shape) / 7,
    "partly whole": lambda normal, wild, rng: rng.integers(0, 3, normal.shape) + 0.1 * wild,
    "huge": lambda normal, wild, rng: normal * rng.choice([1e15, 1e18, 1e29], wild.shape),
    "tiny": lambda normal, wild, rng: normal * rng.choice([1e-20, 1e-38, 1e-42], wild.shape),
    "outliers": lambda normal, wild, rng: normal * np.where(wild, 1e6, 1.0),
    "wild": lambda normal, wild, rng: normal * np.where(wild, 1e20, 1.0),
    # Distances from 0 are equal, up to the order of summation.
    "permuted": lambda normal, wild, rng: rng.permuted(
        np.tile(1.0 / np.arange(1, normal.shape[1] + 1), (len(normal), 1)), axis=1
    ),
}


def rows_like(kind, n, d, rng):
    """Return rows whose scores are hard to compute, by kind."""
    return KINDS[kind](rng.normal(size=(n, d)), rng.random((n, 1)) < 0.1, rng).astype(np.float32)


@pytest.fixture
def install(monkeypatch):
    """Return a function that installs a module as CuPy."""

    def put(module):
        monkeypatch.setitem(sys.modules, "cupy", module)
        extras = types.ModuleType("cupyx")
        extras.empty_pinned = np.empty
        monkeypatch.setitem(sys.modules, "cupyx", extras)
        return module

    return put


@pytest.fixture
def cells_of(install):
    """Return a function that returns cells by the kernels, and the simulated CuPy."""

    def cells(X, pool, members, **options):
        xp = install(device.cupy(**options))
        return cuda.VoronoiCells(pool, members, xp).cells(X), xp

    return cells


def n_settled(xp):
    """Return the number of pairs that needed exact distances in the last call."""
    return int(xp.launched["decide"][-1].host[0])


@runs_kernels
@pytest.mark.parametrize("kind", KINDS)
def test_cells_are_those_of_the_distances_as_they_are_defined(monkeypatch, cells_of, kind):
    # With this setting, splits of small pools have several tiles.
    monkeypatch.setattr(cuda, "SPLITS_LEAST", 1)
    for seed, (n, d, n_pool, t, psi) in enumerate(SHAPES):
        rng = np.random.default_rng(seed)
        pool, X = rows_like(kind, n_pool, d, rng), rows_like(kind, n, d, rng)
        X[::5] = pool[rng.integers(0, n_pool, len(X[::5]))]
        X[1::5] = 0.0
        members = partitions(n_pool, t, psi, seed)
        # Orders of threads (ascending, descending, random), with few and many splits.
        got, _ = cells_of(X, pool, members, schedule=seed % 3, processors=1 + seed % 4 // 3)
        np.testing.assert_array_equal(got, naive.rounded_cells(X, pool, members))


@runs_kernels
def test_ties_of_whole_numbers_are_the_exact_twins_and_leave_nothing_open(cells_of):
    rng = np.random.default_rng(1)
    pool, X = (rng.integers(0, 3, (n, 5)).astype(np.float32) for n in (60, 40))
    members = partitions(60, 7, 11)
    # Sums of squares are integers, so ties are frequent; the first of tied points is chosen.
    got, xp = cells_of(X, pool, members)
    assert got.tolist() == [naive.cells(x, pool, members.tolist()) for x in X]
    last = [naive.cells(x, pool, members[:, ::-1].tolist()) for x in X]
    assert (got != 10 - np.array(last)).sum() > 50
    assert n_settled(xp) == 0


@runs_kernels
@pytest.mark.parametrize(("centre", "spread"), [(0.0, 1.0), (1.6e9, 1e4), (-3.0, 1e-4)])
def test_near_ties_are_settled(cells_of, centre, spread):
    rng = np.random.default_rng(2)
    pool = (centre + spread * rng.normal(size=(400, 8))).astype(np.float32)
    members = partitions(400, 5, 40)
    # Rows halfway between two members, where single precision cannot decide which member is nearer.
    pairs = pool[members[0].reshape(-1, 2)].astype(np.float64)
    ends = pairs.transpose(1, 0, 2) + 1e-3 * spread * rng.normal(size=(20, 8))
    pool[members[0].reshape(-1, 2)] = ends.transpose(1, 0, 2)
    X = np.vstack([ends.mean(axis=0), centre + spread * rng.normal(size=(60, 8))])
    X = X.astype(np.float32)
    got, xp = cells_of(X, pool, members)
    np.testing.assert_array_equal(got, naive.rounded_cells(X, pool, members))
    assert 0 < n_settled(xp) < 0.2 * got.size


@runs_kernels
def test_few_of_common_data_are_settled_whatever_the_outliers(cells_of):
    rng = np.random.default_rng(3)
    for kind in ("normal", "outliers"):
        pool, X = rows_like(kind, 500, 12, rng), rows_like("normal", 100, 12, rng)
        got, xp = cells_of(X, pool, partitions(500, 8, 60))
        assert n_settled(xp) <= 0.01 * got.size


@runs_kernels
@pytest.mark.parametrize("unit", [1.0, 1e-22, 1e9])
@pytest.mark.parametrize("d", [1, 7, 40])
def test_scores_are_off_by_no_more_than_the_bound(cells_of, d, unit):
    rng = np.random.default_rng(d)
    pool, X = ((unit * (5 + rng.normal(size=(n, d)))).astype(np.float32) for n in (20, 12))
    # With one point per partition, the smallest score is the score of the point.
    _, xp = cells_of(X, pool, np.arange(20)[:, None])
    minima, row_bounds = (xp.launched["decide"][i].host for i in (0, 4))
    scores = minima.view(np.float32)[0, :, :, 0]
    origin = xp.launched["measure_rows"][3].host[:d]
    relative, least = (Fraction(number) for number in nearest.score_error(d))
    for x, (share, factor, slack), own in zip(X, row_bounds, scores.T, strict=True):
        g = 1 - Fraction(float(share))
        c = [Fraction(float(value)) for value in x - origin]
        norm = sum(value * value for value in c)
        assert Fraction(float(factor)) >= 1 + Fraction(69, 10) * relative
        assert Fraction(float(slack)) >= Fraction(149, 10) * relative * norm + 3 * least
        for p, score in zip(pool, own, strict=True):
            k = [Fraction(float(value)) for value in p - origin]
            far = sum(value * value for value in k)
            found = Fraction(float(score)) + norm + g * far
            error = abs(found - naive.squared_distance(x, p))
            # In the derivation in nearest.py, e is E - 0.6 u.
            assert error <= (relative - Fraction(0.6 * nearest.SINGLE)) * (norm + far) + least


@runs_kernels
def test_shared_memory_and_memory_of_the_device_change_nothing(cells_of):
    rng = np.random.default_rng(4)
    pool, X = (rng.normal(size=(n, 6)).astype(np.float32) for n in (300, 150))
    members = partitions(300, 13, 30)
    expected, xp = cells_of(X, pool, members)
    assert xp.launched["scan_tiles"][10] == 13
    # Memory of 48 KiB holds the minima of 7 partitions, so the last group has 6 of 13 partitions.
    # With 40 KB free, kernels process a few rows at once.
    for options in ({"shared": 48 << 10}, {"free": 40_000}):
        got, xp = cells_of(X, pool, members, **options)
        assert xp.launched["scan_tiles"][10] == (6 if "shared" in options else 13)
        assert (xp.launched["scan_tiles"][2] < 150) == ("free" in options)
        np.testing.assert_array_equal(got, expected)


@runs_kernels
def test_no_rows_and_no_features(cells_of):
    pool = np.eye(3, dtype=np.float32)
    assert cells_of(np.empty((0, 3), np.float32), pool, np.array([[1]]))[0].shape == (0, 1)
    empty = np.empty((2, 0), np.float32)
    got, _ = cells_of(empty, np.empty((3, 0), np.float32), np.array([[2, 1], [0, 2]]))
    assert got.tolist() == [[0, 0], [0, 0]]


def test_more_cells_than_the_kernels_count(install):
    members = np.broadcast_to(np.int32(0), (1, cuda.CELLS_MOST + 1))
    with pytest.raises(ValueError, match="takes up to 16777216 cells a partition"):
        cuda.VoronoiCells(np.ones((1, 1), np.float32), members, install(device.cupy()))


def test_limits_of_many_features_are_infinite():
    assert nearest.score_error(258_000)[0] <= nearest.LARGEST_SCORE_ERROR
    assert nearest.score_error(258_200)[0] == math.inf


def test_both_sources_have_the_same_numbers():
    text = device.SOURCE.read_text()
    numbers = dict(re.findall(r"^const \w+ (\w+) = ([\d.e]+);", text, re.MULTILINE))
    own = {name: getattr(cuda, name) for name in ("ROWS", "POINTS", "THREADS")} | {"DEPTH": 16}
    own |= {name: getattr(nearest, name) for name in ("FARTHEST_SQUARE", "LARGEST_WHOLE_SQUARE")}
    assert {name: float(numbers[name]) for name in own} == own
    assert cuda.CELLS_MOST * cuda.POINTS <= 1 << 32


def nvrtc():
    """Return the NVRTC library of the wheel, or None."""
    try:
        wheel = importlib.util.find_spec("nvidia.cuda_nvrtc")
    except ModuleNotFoundError:
        return None
    folders = () if wheel is None else wheel.submodule_search_locations
    found = [path for folder in folders for path in Path(folder).glob("lib/libnvrtc.so.*")]
    return ctypes.CDLL(str(found[0])) if found else None


def compiled(library, architecture):
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    source = device.SOURCE.read_bytes()
    made = library.nvrtcCreateProgram(ctypes.byref(program), source, b"nearest.cu", 0, None, None)
    assert made == 0
    options = [b"--std=c++14", f"--gpu-architecture={architecture}".encode()]
    compiled = library.nvrtcCompileProgram(program, 2, (ctypes.c_char_p * 2)(*options))
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    assert compiled == 0, log.value.decode()
    library.nvrtcGetPTXSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    library.nvrtcGetPTX(program, text)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return text.value.decode()


@pytest.mark.parametrize("architecture", ["compute_80", "compute_90"])
def test_the_source_compiles_for_devices(architecture):
    library = nvrtc()
    if library is None:
        pytest.skip("NVRTC is not installed: pip install nvidia-cuda-nvrtc-cu12")
    text = compiled(library, architecture)
    assert f".target {architecture.replace('compute', 'sm')}" in text
    entries = re.findall(r"\.entry (\w+)\(", text)
    assert sorted(entries) == ["decide", "measure_rows", "scan_tiles", "settle"]


@runs_kernels
def test_what_is_on_the_device_goes_with_its_members_and_into_no_pickle(install):
    xp = install(device.cupy())
    rng = np.random.default_rng(5)
    pool, X = (rng.normal(size=(n, 3)).astype(np.float32) for n in (50, 9))
    members = partitions(50, 4, 8).T.copy()
    first = cuda.nearest_cells(X, lambda: pool, members, xp)
    np.testing.assert_array_equal(first, naive.rounded_cells(X, pool, members.T))
    prepared = cuda._prepared[id(members)][1]
    np.testing.assert_array_equal(cuda.nearest_cells(X, lambda: pool, members, xp), first)
    assert cuda._prepared[id(members)][1] is prepared
    raises(TypeError, "cannot be pickled", lambda: pickle.dumps(prepared))
    key = id(members)
    del members
    gc.collect()
    assert key not in cuda._prepared


def frame(X):
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])


def learned(pool, device, **arguments):
    features = IsolationFeatures(20, 64, pool_size=len(pool), device=device, seed=2, **arguments)
    features.learn_many(frame(pool))
    return features


@runs_kernels
@pytest.mark.parametrize(
    ("planted", "binary", "scale"),
    [(False, False, False), (False, True, True), (True, False, True), (True, True, False)],
)
def test_features_on_a_device_have_the_cells_of_the_processor(
    install, monkeypatch, planted, binary, scale
):
    install(device.cupy())
    n = 1500 if planted else 200
    if planted:
        # The search tree reorders the points, so it is kept even if it is slow.
        monkeypatch.setattr(kernel_maps.diagrams.VoronoiMap, "_choose", lambda *_: None)
    rng = np.random.default_rng(8)
    X = rng.normal(size=(n + 200, 6))
    X = 1.0 * (X > 1.0) if binary else X
    X[rng.random(X.shape) < 0.1] = np.nan
    here, there = (learned(X[:n], device, scale=scale) for device in ("cpu", "cuda"))
    assert (there._map.tree is not None) == planted
    rows = frame(X[-200:]).assign(never_seen=1.0)
    expected = here.cells_many(rows)
    np.testing.assert_array_equal(there.cells_many(rows), expected)
    assert (there.to_csr(rows) != here.to_csr(rows)).nnz == 0
    assert there.cells_one(rows.iloc[3].dropna().to_dict()).tolist() == expected[3].tolist()
    # A pickle contains no device memory, and a copy uses the device again.
    assert id(there._map.members) in cuda._prepared
    again = pickle.loads(pickle.dumps(there))
    # Sizes exclude the checksum, which has four or five bytes.
    sizes = [len(pickle.dumps(one.__getstate__())) for one in (here, there)]
    assert sizes[1] - sizes[0] == len("cuda") - len("cpu")
    np.testing.assert_array_equal(again.cells_many(rows), expected)


def test_trees_and_text_stay_on_the_processor(install):
    install(device.cupy())
    rng = np.random.default_rng(9)
    X = rng.normal(size=(64, 3))
    there, here = (learned(X, d, method="iforest").cells_many(frame(X)) for d in ("cuda", "cpu"))
    np.testing.assert_array_equal(there, here)
    text = IsolationFeatures(5, 4, pool_size=64, device="cuda", seed=1)
    for _ in range(64):
        text.learn_one({f"w{word}": 1.0 for word in rng.integers(0, 100_000, 20)})
    assert text._map.sparse
    text.cells_many(pd.DataFrame([{"w1": 1.0}]))
    assert id(text._map.members) not in cuda._prepared


def test_features_without_a_usable_device(install):
    install(device.cupy())
    X = np.random.default_rng(10).normal(size=(32, 3))
    features = learned(X, "cuda")
    stored = pickle.dumps(features)
    install(device.cupy(n_devices=0))
    # A model that was pickled on a machine with a GPU maps single samples without a GPU.
    arrived = pickle.loads(stored)
    assert arrived.cells_one({"x0": 1.0}).shape == (20,)
    calls = lambda: IsolationFeatures(device="cuda"), lambda: arrived.cells_many(frame(X))
    raises(RuntimeError, "CuPy finds no device", *calls)
    assert pickle.dumps(arrived) == stored


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (None, r"needs CuPy: install river-mondrian\[cuda12\]"),
        (device.cupy(driver=False), "no usable driver .*cudaErrorInsufficientDriver"),
        (device.cupy(n_devices=0), "finds no device"),
        (device.cupy(kernel=False), "a first kernel failed .*nvrtc"),
    ],
)
def test_importing_cupy_is_not_enough(install, module, message):
    install(module)
    assert cuda.device_namespace("cpu") is None
    raises(RuntimeError, message, lambda: cuda.device_namespace("cuda"))
