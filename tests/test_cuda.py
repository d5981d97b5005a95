"""The cells on a device: the same lines over NumPy, and over arrays that refuse the host's."""

from __future__ import annotations

import gc
import pickle
import sys
import types

import numpy as np
import pandas as pd
import pytest
from naive import voronoi as naive

from river_mondrian import IsolationFeatures
from river_mondrian.features import isolation
from river_mondrian.partitions.voronoi import cuda


def partitions(n_pool, t, psi, seed=0):
    """Draw members without replacement."""
    rng = np.random.default_rng(seed)
    return np.array([rng.choice(n_pool, psi, replace=False) for _ in range(t)])


@pytest.mark.blas
@pytest.mark.parametrize("levels", [2, 4])
def test_cells_of_whole_numbers_are_the_twins_ties_included(levels):
    rng = np.random.default_rng(1)
    pool = rng.integers(0, levels, (60, 5)).astype(float)
    X = rng.integers(0, levels, (40, 5)).astype(float)
    members = partitions(60, 7, 11)
    expected = [naive.cells(x, pool, members.tolist()) for x in X]
    ties = sum(
        len({naive.squared_distance(x, pool[p]) for p in partition}) < len(partition)
        for x in X
        for partition in members
    )
    assert ties > 100
    assert cuda.VoronoiCells(pool, members).cells(X).tolist() == expected


@pytest.mark.blas
@pytest.mark.parametrize(("centre", "spread"), [(0.0, 1.0), (1.6e9, 1e4), (-3.0, 1e-4)])
def test_where_cells_differ_it_is_a_near_tie(centre, spread):
    rng = np.random.default_rng(2)
    pool = centre + spread * rng.normal(size=(200, 8))
    # Rows beside the middle of two members of a partition, so that there are near-ties at all.
    members = partitions(200, 5, 40)
    pairs = pool[members[0].reshape(-1, 2)]
    X = pairs.mean(axis=1) + 1e-6 * spread * rng.normal(size=(20, 8))
    X = np.vstack([X, centre + spread * rng.normal(size=(60, 8))])
    got = cuda.VoronoiCells(pool, members).cells(X)
    origin = np.median(pool, axis=0)
    for x, row in zip(X, got, strict=True):
        expected = naive.cells(x, pool, members.tolist())
        for partition, cell, right in zip(members, row, expected, strict=True):
            far, near = (
                float(naive.squared_distance(x, pool[partition[column]]))
                for column in (cell, right)
            )
            sizes = [np.linalg.norm(z - origin) for z in (x, *pool[partition])]
            assert far - near <= 1e-6 * max(sizes) ** 2


@pytest.mark.blas
def test_the_memory_that_may_be_filled_changes_nothing():
    rng = np.random.default_rng(3)
    pool, X = rng.normal(size=(300, 6)), rng.normal(size=(150, 6))
    members = partitions(300, 12, 30)
    whole = cuda.VoronoiCells(pool, members)
    assert len(whole._groups) == 1
    for n_bytes, groups in ((40_000, 1), (12_000, 2), (1, 12)):
        small = cuda.VoronoiCells(pool, members, n_bytes=n_bytes)
        assert len(small._groups) >= groups
        rows, together = small._block(small._groups[0])
        assert rows < len(X) or n_bytes == 40_000
        assert together <= len(small._groups[0].members)
        np.testing.assert_array_equal(small.cells(X), whole.cells(X))


def test_blocks_fit_the_memory():
    pool = np.random.default_rng(4).normal(size=(5000, 20))
    cells = cuda.VoronoiCells(pool, partitions(5000, 10, 256), n_bytes=4 << 20)
    for group in cells._groups:
        rows, together = cells._block(group)
        assert rows >= 1
        scores = 4 * rows * len(group.norms)
        assert group.nbytes + scores + 4 * rows * together * cells.n_cells <= 4 << 20


@pytest.mark.blas
def test_no_rows_and_one_partition_of_one_cell():
    pool = np.eye(3)
    members = np.array([[1]])
    assert cuda.VoronoiCells(pool, members).cells(np.empty((0, 3))).shape == (0, 1)
    assert cuda.VoronoiCells(pool, members).cells(np.ones((2, 3))).tolist() == [[0], [0]]


@pytest.mark.blas
def test_what_is_on_the_device_goes_with_its_members_and_into_no_pickle():
    rng = np.random.default_rng(5)
    pool, X = rng.normal(size=(50, 3)), rng.normal(size=(9, 3))
    members = partitions(50, 4, 8).T.copy()
    first = cuda.nearest_cells(X, lambda: pool, members)
    np.testing.assert_array_equal(first, cuda.VoronoiCells(pool, members.T).cells(X))
    prepared = cuda._prepared[id(members)][1]
    np.testing.assert_array_equal(cuda.nearest_cells(X, lambda: pool, members), first)
    assert cuda._prepared[id(members)][1] is prepared
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(prepared)
    key = id(members)
    del members
    gc.collect()
    assert key not in cuda._prepared


class DeviceArray:
    """An array of a made-up device: it works with its like only, and leaves by `get` only."""

    def __init__(self, data):
        assert isinstance(data, np.ndarray)
        self.data = data
        self.shape = data.shape

    def __len__(self):
        return len(self.data)

    @property
    def T(self):
        return DeviceArray(self.data.T)

    def __getitem__(self, key):
        return DeviceArray(self.data[key])

    def __setitem__(self, key, value):
        self.data[key] = value.data

    def __matmul__(self, other):
        return DeviceArray(self.data @ other.data)

    def __imul__(self, number):
        assert isinstance(number, np.float32)
        self.data *= number
        return self

    def __iadd__(self, other):
        self.data += other.data
        return self

    def __add__(self, number):
        return DeviceArray(self.data + number)

    def sum(self):
        return self.data.sum()

    def __array__(self, *args, **kwargs):
        raise TypeError("implicit copy to the host")

    def get(self, out):
        assert out.dtype == self.data.dtype
        out[...] = self.data


def fake_cupy(n_devices=1, free=1 << 20, kernel=True, driver=True):
    """Make a module with the calls of CuPy that are used, over `DeviceArray`."""
    module = types.ModuleType("cupy")
    module.int32 = np.int32

    def count():
        if not driver:
            raise OSError("cudaErrorInsufficientDriver")
        return n_devices

    def arange(n, dtype):
        if not kernel:
            raise OSError("cannot find nvrtc")
        return DeviceArray(np.arange(n, dtype=dtype))

    runtime = types.SimpleNamespace(getDeviceCount=count, memGetInfo=lambda: (free, 2 * free))
    module.cuda = types.SimpleNamespace(runtime=runtime)
    module.get_default_memory_pool = lambda: types.SimpleNamespace(free_bytes=lambda: 0)
    module.arange = arange
    module.asarray = lambda array: DeviceArray(array.copy())
    module.empty = lambda shape, dtype: DeviceArray(np.empty(shape, dtype))
    module.take = lambda a, i, axis: DeviceArray(np.take(a.data, i.data, axis))
    module.argmin = lambda a, axis: DeviceArray(np.argmin(a.data, axis))
    return module


@pytest.fixture
def install(monkeypatch):
    def put(module):
        monkeypatch.setitem(sys.modules, "cupy", module)
        extras = types.ModuleType("cupyx")
        extras.empty_pinned = np.empty
        monkeypatch.setitem(sys.modules, "cupyx", extras)
        return module

    return put


@pytest.mark.blas
@pytest.mark.parametrize("free", [1 << 14, 1 << 22])
def test_nothing_passes_between_host_and_device_but_by_the_buffers(install, free):
    install(fake_cupy(free=free))
    xp = cuda.device_namespace("cuda")
    rng = np.random.default_rng(6)
    pool, members, X = rng.normal(size=(90, 4)), partitions(90, 6, 20), rng.normal(size=(70, 4))
    got = cuda.nearest_cells(X, lambda: pool, members.T, xp)
    assert type(got) is np.ndarray
    np.testing.assert_array_equal(got, cuda.VoronoiCells(pool, members).cells(X))


def frame(X):
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])


def learned(pool, device, **arguments):
    features = IsolationFeatures(20, 64, pool_size=len(pool), device=device, seed=2, **arguments)
    features.learn_many(frame(pool))
    return features


@pytest.mark.blas
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("planted", [False, True])
def test_features_on_a_device_have_the_cells_of_the_processor(
    install, monkeypatch, planted, binary, scale
):
    install(fake_cupy())
    n = 1500 if planted else 200
    if planted:
        # Keep the tree, which reorders the points, whatever it costs.
        monkeypatch.setattr(isolation.VoronoiMap, "_choose", lambda *_: None)
    rng = np.random.default_rng(8)
    X = rng.normal(size=(n + 200, 6))
    X = (X > 1.0).astype(float) if binary else X
    X[rng.random(X.shape) < 0.1] = np.nan
    here, there = (learned(X[:n], device, scale=scale) for device in ("cpu", "cuda"))
    assert (there._map.tree is not None) == planted
    rows = frame(X).assign(never_seen=1.0)
    expected = here.cells_many(rows)
    np.testing.assert_array_equal(there.cells_many(rows), expected)
    assert (there.to_csr(rows) != here.to_csr(rows)).nnz == 0
    assert there.cells_one(rows.iloc[3].dropna().to_dict()).tolist() == expected[3].tolist()
    # Nothing of the device is in a pickle, and a copy finds its way to it again.
    assert id(there._map.members) in cuda._prepared
    again = pickle.loads(pickle.dumps(there))
    assert len(pickle.dumps(there)) == len(pickle.dumps(here)) + len("cuda") - len("cpu")
    np.testing.assert_array_equal(again.cells_many(rows), expected)


def test_trees_and_text_stay_on_the_processor(install):
    install(fake_cupy())
    rng = np.random.default_rng(9)
    X = rng.normal(size=(64, 3))
    trees = learned(X, "cuda", method="iforest")
    expected = learned(X, "cpu", method="iforest").cells_many(frame(X))
    np.testing.assert_array_equal(trees.cells_many(frame(X)), expected)
    text = IsolationFeatures(5, 4, pool_size=64, device="cuda", seed=1)
    for _ in range(64):
        text.learn_one({f"w{word}": 1.0 for word in rng.integers(0, 100_000, 20)})
    assert text._map.sparse
    text.cells_many(pd.DataFrame([{"w1": 1.0}]))
    assert id(text._map.members) not in cuda._prepared


def test_features_without_a_usable_device(install):
    install(fake_cupy())
    X = np.random.default_rng(10).normal(size=(32, 3))
    features = learned(X, "cuda")
    stored = pickle.dumps(features)
    install(fake_cupy(n_devices=0))
    with pytest.raises(RuntimeError, match="CuPy finds no device"):
        IsolationFeatures(device="cuda")
    # One that comes from elsewhere maps single samples.
    arrived = pickle.loads(stored)
    assert arrived.cells_one({"x0": 1.0}).shape == (20,)
    with pytest.raises(RuntimeError, match="CuPy finds no device"):
        arrived.cells_many(frame(X))
    assert pickle.dumps(arrived) == stored


def test_the_namespace_of_the_host():
    assert cuda.device_namespace("cpu") is np


def test_an_unknown_device():
    with pytest.raises(ValueError, match=r'device must be "cpu" or "cuda", got \'gpu\''):
        cuda.device_namespace("gpu")


def test_cupy_is_missing(install):
    install(None)
    with pytest.raises(RuntimeError, match=r"needs CuPy: install river-mondrian\[cuda12\]"):
        cuda.device_namespace("cuda")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"driver": False}, "no usable driver .*cudaErrorInsufficientDriver"),
        ({"n_devices": 0}, "finds no device"),
        ({"kernel": False}, "a first kernel failed .*nvrtc"),
    ],
)
def test_importing_cupy_is_not_enough(install, broken, message):
    install(fake_cupy(**broken))
    with pytest.raises(RuntimeError, match=message):
        cuda.device_namespace("cuda")
