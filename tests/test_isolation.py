"""Tests of isolation kernel maps: reference, definition, and public interface."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from common import fed, raises, restored
from naive import isolation as naive
from scipy import stats

from river_mondrian import IsolationFeatures, load, save

METHODS = ["anne", "iforest"]


LEVEL = 0.01


KINDS = {
    "real": lambda rng, shape: rng.normal(size=shape),
    "binary": lambda rng, shape: rng.integers(0, 2, shape),
    "tenths": lambda rng, shape: rng.integers(-5, 6, shape) / 10.0,
    "few": lambda rng, shape: rng.normal(size=shape) * (rng.random(shape) < 0.02),
    "few binary": lambda rng, shape: rng.random(shape) < 0.02,
}


def samples(kind, n, dims, seed):
    X = KINDS[kind](np.random.default_rng(seed), (n, dims)).astype(float)
    return [{f"f{j:03d}": v for j, v in enumerate(row) if v != 0.0} for row in X.tolist()]


def frame(rows):
    return pd.DataFrame(rows).fillna(0.0)


def built(rows, pool_size=None, **params):
    """Let a map learn rows, and then the first row until the map is complete; return the map."""
    features = fed(IsolationFeatures(pool_size=pool_size or len(rows), **params), rows)
    while not features.frozen:
        features.learn_one(rows[0])
    return features


def assert_cells(features, queries, expected):
    """Check the cells of samples, one by one and in a frame."""
    np.testing.assert_array_equal([features.cells_one(x) for x in queries], expected)
    np.testing.assert_array_equal(features.cells_many(frame(queries)), expected)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("kind", "dims"), [("real", 3), ("real", 20), ("binary", 9), ("few", 300), ("few binary", 300)]
)
@pytest.mark.parametrize("scale", [False, True])
def test_cells_are_the_twins(method, kind, dims, scale):
    pool, queries = samples(kind, 60, dims, 1), samples(kind, 25, dims, 2)
    features = built(pool, n_partitions=12, n_cells=9, method=method, scale=scale, seed=5)
    factors = naive.scaled(pool) if scale else None
    known = {name for x in pool for name in x}
    queries = [{name: v for name, v in x.items() if name in known} for x in queries]
    scaled = [[naive.scale(x, factors) for x in rows] for rows in (pool, queries)]
    # Maps are built at 2, 4, 8, 16, 32 and 60 samples.
    build = {"seed": 5, "number": 5, "t": 12, "psi": 9}
    expected = np.array(naive.cells(method, *scaled, **build))
    assert_cells(features, queries, expected)
    kernel = [features.kernel(x, queries[0]) for x in queries]
    np.testing.assert_allclose(kernel, np.mean(expected == expected[0], axis=1), rtol=1e-12)


WAYS = ["scan", "tree", "index", "product"]


DIAGRAMS = "river_mondrian.partitions.voronoi.diagrams"


def force(monkeypatch, way):
    """Make maps use one search method, whatever the cost, even for small pools and batches."""
    monkeypatch.setattr(f"{DIAGRAMS}.TREE_LEAST", 1)
    monkeypatch.setattr(f"{DIAGRAMS}.PRODUCT_LEAST", 2)
    for name in WAYS:
        cost = {way: 0.0, "product": -1.0 if way == "product" else math.inf}.get(name, 1e9)
        name = f"{DIAGRAMS}.VoronoiMap._{name}_cost"
        monkeypatch.setattr(name, lambda self, *args, cost=cost: cost)


def searching(monkeypatch, way, rows, **params):
    """Return a map that uses one search method."""
    with monkeypatch.context() as patch:
        force(patch, way)
        features = built(rows, **params)
    made = features._map
    assert (made.tree is not None) == (way in ("tree", "product"))
    assert made.indexed == (way == "index")
    assert (made.centred is not None) == (way == "product")
    return features


@pytest.mark.covering
@pytest.mark.blas
@pytest.mark.parametrize("kind", ["real", "binary", "tenths", "few", "twice"])
@pytest.mark.parametrize("dims", [1, 17, 60, 150])
def test_every_way_to_search_gives_the_same_cells(monkeypatch, kind, dims):
    pool = samples("real" if kind == "twice" else kind, 1000, dims, 1)
    if kind == "twice":
        pool[500:] = pool[:500]
    queries = samples("real" if kind == "twice" else kind, 200, dims, 2) + pool[:50]
    queries += [{name: v + 1e-7 for name, v in x.items()} for x in pool[:50]]
    params = {"n_partitions": 30, "n_cells": 80, "seed": 3}
    expected = searching(monkeypatch, "scan", pool, **params).cells_many(frame(queries))
    for way in WAYS:
        features = searching(monkeypatch, way, pool, **params)
        np.testing.assert_array_equal(features.cells_many(frame(queries)), expected)
        assert_cells(features, queries[::5], expected[::5])


def in_unit(unit, rows):
    return [{name: unit * v for name, v in x.items()} for x in rows]


@pytest.mark.covering
@pytest.mark.blas
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("unit", [1e12, 1.0, 1e-18, 1e-21, 3e-22, 1e-23, 1e-30])
def test_values_whose_squares_single_precision_does_not_hold(monkeypatch, way, unit):
    """Squares overflow, or underflow and lose some or all digits."""
    pool, queries = (in_unit(unit, samples("real", 200, 4, seed)) for seed in (0, 1))
    queries += [{**pool[0], "f001": s * 10.0**e} for e in range(6, 39) for s in (-1, 1)]
    params = {"n_partitions": 10, "n_cells": 40, "seed": 0}
    features, reference = (searching(monkeypatch, w, pool, **params) for w in (way, "scan"))
    assert_cells(features, queries, [reference.cells_one(x) for x in queries])


def exact_kernel(method, pool, x, y, psi):
    """Return the average of the kernel over all subsets (Ting et al. 2021, Equation 1)."""
    total = 0.0
    subsets = list(itertools.combinations(range(len(pool)), psi))
    for subset in subsets:
        points = [pool[i] for i in subset]
        if method == "anne":
            total += naive.voronoi_cell(points, x) == naive.voronoi_cell(points, y)
            continue
        for name in x:
            low, high = sorted(z[name] for z in points)
            between = min(high, max(x[name], y[name])) - max(low, min(x[name], y[name]))
            total += (1.0 - max(0.0, between) / (high - low)) / len(x)
    return total / len(subsets)


@pytest.mark.parametrize(("method", "psi"), [("anne", 2), ("anne", 3), ("iforest", 2)])
def test_the_kernel_follows_its_definition(method, psi):
    """The number of shared cells is binomial; its probability is the exact kernel."""
    rng = np.random.default_rng(0)
    t, seeds, n_pairs = 2000, 4, 6
    pool, queries = (
        [naive.scale(dict(zip("ab", row, strict=True)), None) for row in rows.tolist()]
        for rows in (rng.normal(size=(4 * psi, 2)), rng.normal(size=(2 * n_pairs, 2)))
    )
    for seed in range(seeds):
        features = built(pool, n_partitions=t, n_cells=psi, method=method, seed=seed)
        for x, y in zip(queries[::2], queries[1::2], strict=True):
            shared = round(t * features.kernel(x, y))
            expected = exact_kernel(method, pool, x, y, psi)
            p = stats.binomtest(shared, t, expected).pvalue
            assert p > LEVEL / (3 * seeds * n_pairs)


# The public interface: growth, frames, copies, bad input.


@pytest.mark.parametrize("method", METHODS)
def test_useful_from_two_samples_on_then_frozen(method):
    features = IsolationFeatures(n_partitions=7, n_cells=8, method=method, pool_size=100, seed=1)
    builds = []
    assert features.transform_one({"a": 1.0}) == {}
    raises(RuntimeError, "has to learn samples first", lambda: features.cells_one({"a": 1.0}))
    for n, x in enumerate(samples("real", 120, 4, 0), 1):
        features.learn_one(x)
        mapped = features.transform_one(x)
        assert list(mapped.values()) == [pytest.approx(7**-0.5)] * (7 if n > 1 else 0)
        if mapped:
            # A name consists of the build, the partition and the cell.
            build, _, cells = zip(*(name.split("_") for name in mapped), strict=True)
            builds += [] if builds and builds[-1][1] == {*build} else [(n, {*build})]
            assert max(map(int, cells)) < min(8, max(1, n // 4))
            assert features.kernel(x, x) == 1.0
    numbers = (2, 4, 8, 16, 32, 64, 100)
    assert builds == [(n, {f"{method}{k}"}) for k, n in enumerate(numbers)]
    assert features.frozen and features._pool is None


LIMITS = [("iforest", "isolation.ENTRIES_OF_CALL", 100), ("anne", "voronoi.diagrams.PROJECTION", 0)]


@pytest.mark.blas
@pytest.mark.parametrize("method, part, limit", LIMITS)
def test_building_is_spread_over_calls(monkeypatch, method, part, limit, tmp_path):
    rows = samples("real", 64, 4, 0)
    force(monkeypatch, "tree")
    whole = built(rows, n_partitions=40, method=method, seed=3)
    monkeypatch.setattr(f"river_mondrian.partitions.{part}", limit)
    spread, calls = IsolationFeatures(n_partitions=40, method=method, pool_size=64, seed=3), 0
    spread.learn_many(frame(rows))
    while not spread.frozen:
        # Later samples do not change the map, and a copy continues the build.
        save(restored(spread), tmp_path / "spread")
        spread = load(tmp_path / "spread")
        spread.learn_one({"b": 3.0})
        calls += 1
    assert calls > (5 if method == "iforest" else 0)
    assert_cells(spread, rows, whole.cells_many(frame(rows)))


def arrays_of(part, seen):
    """Return the bytes of each array of an object by the array's id."""
    if isinstance(part, np.ndarray):
        while isinstance(part.base, np.ndarray):
            part = part.base
        return {} if id(part) in seen else {id(part): part.nbytes}
    parts = part
    if isinstance(part, dict):
        parts = part.values()
    elif type(part).__module__.startswith("river_mondrian"):
        # Locks have no attributes.
        parts = getattr(part, "__dict__", {}).values()
    elif not isinstance(part, list | tuple):
        return {}
    found = {}
    for piece in list(parts):
        found |= arrays_of(piece, {*seen, *found})
    return found


@pytest.mark.parametrize("method", METHODS)
def test_a_hundred_of_a_million_keys(method):
    """Memory is proportional to the non-zero values; a dense pool would need 0.4 GB."""
    rng = np.random.default_rng(0)
    rows = [dict.fromkeys(rng.integers(0, 1_000_000, 100).tolist(), 1.0) for _ in range(1100)]
    features = built(rows[:1024], method=method, seed=0)
    assert features._map.sparse
    assert features._raw_memory_usage < 500 * sum(len(x) for x in rows[:1024])
    for x in rows[1024:]:
        assert features.cells_one(x).shape == (100,)
        features.learn_one(x)
    # A sample with some of the features is nearer than a sample without common features.
    half = dict(list(rows[5].items())[:90])
    assert features.kernel(rows[5], half) > features.kernel(rows[5], rows[6])


@pytest.mark.blas
@pytest.mark.parametrize("way", WAYS)
def test_a_bad_row_is_found_by_every_way(monkeypatch, way):
    force(monkeypatch, way)
    features = built(samples("real", 100, 3, 0), n_cells=8, seed=1)
    values = np.zeros((600, 3))
    values[400, 2] = 1e39
    assert features._map.transform_rows(values)[1] == 400 * 3 + 2


@pytest.mark.parametrize("n_empty", [0, 5, 50, 60])
def test_by_the_cosine_empty_texts_are_no_points(n_empty):
    """An empty text in the pool would be nearer than all texts at more than 60 degrees."""
    rng = np.random.default_rng(0)
    texts = [{} for _ in range(n_empty)]
    while len(texts) < 60:
        texts.append({f"w{k:03}": 0.3 for k in rng.choice(400, 9, replace=False)})
    features = IsolationFeatures(20, 10, pool_size=60, metric="cosine", seed=1)
    for i in rng.permutation(60):
        features.learn_one(texts[i])
    if n_empty < 60:
        lengths = np.linalg.norm(features._map._points().astype(float), axis=1)
        np.testing.assert_allclose(lengths, 1.0, atol=1e-6)
    assert len(features.cells_one(texts[-1])) == 20


@pytest.mark.parametrize("kind", ["text", "dense"])
def test_cosine_cells_are_those_at_the_least_angle(kind):
    """The reference has cosines in double precision; ties up to rounding are excluded."""
    rng = np.random.default_rng(0)
    d, n = (400, 12) if kind == "text" else (6, 6)
    rows = np.zeros((90, d))
    for row in rows:
        row[rng.choice(d, n, replace=False)] = rng.uniform(0.1, 5.0, n) * rng.choice([1, 30])
        row[0] += 1.0
    samples = [{f"w{k:03}": row[k] for k in np.flatnonzero(row)} for row in rows.tolist()]
    metric = "auto" if kind == "text" else "cosine"
    features = fed(IsolationFeatures(20, 10, pool_size=60, metric=metric, seed=1), samples[:60])
    assert features._map.sparse == (kind == "text")
    points = features._map._points().astype(float)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, atol=1e-6)
    places = features._reader.index.index_of
    known = np.zeros((d, points.shape[1]))
    for k in range(d):
        if 0 <= (place := places.get(f"w{k:03}", -1)) < len(known.T):
            known[k, place] = 1.0
    for x, row in zip(samples, rows, strict=True):
        cosines = points @ (row @ known) / np.linalg.norm(row @ known)
        of_members = cosines[features._map.members]
        found = features.cells_one(x)
        assert (of_members[found, np.arange(20)] >= of_members.max(axis=0) - 1e-6).all()


@pytest.mark.blas
@pytest.mark.parametrize("way", ["tree", "product"])
def test_no_tree_is_planted_of_points_whose_squares_overflow(monkeypatch, way):
    pool = samples("real", 200, 3, 0)
    pool += [{**pool[0], "f001": s * 10.0**e} for e in range(6, 39) for s in (-1, 1)]
    reference = searching(monkeypatch, "scan", pool, n_cells=20, seed=0)
    force(monkeypatch, way)
    features = built(pool, n_cells=20, seed=0)
    assert features._map.tree is None
    assert_cells(features, pool, [reference.cells_one(x) for x in pool])
