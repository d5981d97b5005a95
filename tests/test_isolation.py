"""Isolation kernel feature maps against their twin and their definition, and as users meet them."""

import itertools
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from common import fed
from naive import isolation as naive
from scipy import stats

from river_mondrian import IsolationFeatures

METHODS = ["anne", "iforest"]


LEVEL = 0.01


def samples(kind, n, dims, seed):
    rng = np.random.default_rng(seed)
    if kind == "real":
        X = rng.normal(size=(n, dims))
    elif kind == "binary":
        X = rng.integers(0, 2, size=(n, dims)).astype(float)
    elif kind == "tenths":
        X = rng.integers(-5, 6, size=(n, dims)) / 10.0
    elif kind == "few":
        X = rng.normal(size=(n, dims)) * (rng.random((n, dims)) < 0.02)
    else:
        X = (rng.random((n, dims)) < 0.02).astype(float)
    return [{f"f{j:03d}": v for j, v in enumerate(row) if v != 0.0} for row in X.tolist()]


def frame(rows):
    return pd.DataFrame(rows).fillna(0.0)


def built(rows, **params):
    """Learn rows, and continue until the map has been built."""
    features = fed(IsolationFeatures(pool_size=len(rows), **params), rows)
    while not features.frozen:
        features.learn_one(rows[0])
    return features


def last_build(n):
    """Return the number of the build of n samples."""
    return sum(1 for k in range(2, n + 1) if k & (k - 1) == 0 or k == n) - 1


def state(features):
    """Pickle part by part: equal parts may or may not be the same object to a whole one."""
    return {name: pickle.dumps(part) for name, part in features.__dict__.items()}


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
    expected = naive.cells(
        method,
        [naive.scale(x, factors) for x in pool],
        [naive.scale(x, factors) for x in queries],
        seed=5,
        number=last_build(60),
        t=12,
        psi=9,
    )
    assert [features.cells_one(x).tolist() for x in queries] == expected
    assert features.cells_many(frame(queries)).tolist() == expected
    kernel = [features.kernel(x, queries[0]) for x in queries]
    shared = [[a == b for a, b in zip(c, expected[0], strict=True)] for c in expected]
    np.testing.assert_allclose(kernel, np.mean(shared, axis=1), rtol=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["real", "binary", "tenths"])
def test_cells_do_not_depend_on_how_samples_are_stored(method, kind):
    """A feature per sample that only it has makes the pool sparse and changes no comparison."""
    pool = samples(kind, 300, 6, 3)
    queries = [x for k in ("real", "binary", "tenths") for x in samples(k, 100, 6, 4)]
    # By the cosine where samples are read by their entries, unless one says.
    params = {"n_partitions": 20, "n_cells": 40, "method": method, "metric": "euclidean", "seed": 1}
    dense = built(pool, **params)
    padded = [{**x, **{f"g{j:03d}": 0.0 for j in range(400)}} for x in pool]
    for j, x in enumerate(padded[:2]):
        x[f"g{j:03d}"] = 1e-300
    sparse = built(padded, **params)
    assert sparse._map.sparse and not dense._map.sparse
    for x in queries:
        np.testing.assert_array_equal(dense.cells_one(x), sparse.cells_one(x))
    np.testing.assert_array_equal(
        dense.cells_many(frame(queries)), sparse.cells_many(frame(queries))
    )


WAYS = ["scan", "tree", "index", "product"]


def force(monkeypatch, way):
    """Make the map search in one way, whatever it costs, and however small pool and batch are."""
    monkeypatch.setattr("river_mondrian.partitions.voronoi.diagrams.TREE_LEAST", 1)
    monkeypatch.setattr("river_mondrian.partitions.voronoi.diagrams.PRODUCT_LEAST", 2)
    for name in ("tree", "index", "scan", "product"):
        cost = {way: 0.0, "product": -1.0 if way == "product" else math.inf}.get(name, 1e9)
        monkeypatch.setattr(
            f"river_mondrian.partitions.voronoi.diagrams.VoronoiMap._{name}_cost",
            lambda self, *args, cost=cost: cost,
        )


def assert_way(compiled, way):
    assert (compiled.tree is not None) == (way in ("tree", "product"))
    assert compiled.indexed == (way == "index")
    assert (compiled.centred is not None) == (way == "product")


@pytest.mark.blas
@pytest.mark.parametrize("kind", ["real", "binary", "tenths", "few", "twice"])
@pytest.mark.parametrize("dims", [1, 17, 60, 150])
def test_every_way_to_search_gives_the_same_cells(monkeypatch, kind, dims):
    pool = samples("real" if kind == "twice" else kind, 1000, dims, 1)
    if kind == "twice":
        pool[500:] = pool[:500]
    queries = samples("real" if kind == "twice" else kind, 200, dims, 2) + pool[:50]
    queries += [{name: v + 1e-7 for name, v in x.items()} for x in pool[:50]]
    cells = {}
    for way in WAYS:
        with monkeypatch.context() as patch:
            force(patch, way)
            features = built(pool, n_partitions=30, n_cells=80, seed=3)
            assert_way(features._map, way)
        cells[way] = features.cells_many(frame(queries))
        single = [features.cells_one(x) for x in queries[::5]]
        np.testing.assert_array_equal(single, cells[way][::5])
        np.testing.assert_array_equal(cells[way], cells["scan"])


@pytest.mark.blas
@pytest.mark.parametrize("way", ["tree", "product"])
@pytest.mark.parametrize("unit", [1.0, 1e12])
def test_values_that_are_too_large_for_single_precision_squares(monkeypatch, way, unit):
    pool = [{name: unit * v for name, v in x.items()} for x in samples("real", 200, 3, 0)]
    far = [{**pool[0], "f001": s * 10.0**e} for e in range(6, 39) for s in (-1, 1)]
    force(monkeypatch, way)
    near = built(pool, n_partitions=10, n_cells=20, seed=0)
    assert_way(near._map, way)
    huge = built(pool + far, n_partitions=10, n_cells=20, seed=0)
    assert huge._map.tree is None
    force(monkeypatch, "scan")
    for features, rows in ((near, pool), (huge, pool + far)):
        reference = built(rows, n_partitions=10, n_cells=20, seed=0)
        queries = far + pool[:20]
        expected = [reference.cells_one(x).tolist() for x in queries]
        assert [features.cells_one(x).tolist() for x in queries] == expected
        assert features.cells_many(frame(queries)).tolist() == expected


@pytest.mark.blas
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("unit", [1e-18, 1e-21, 3e-22, 1e-23, 1e-30])
def test_values_whose_squares_single_precision_does_not_hold(monkeypatch, way, unit):
    """Squares underflow, and what is left of them has few digits or none."""
    pool, queries = (
        [{name: unit * v for name, v in x.items()} for x in samples("real", 200, 4, seed)]
        for seed in (0, 1)
    )
    force(monkeypatch, way)
    features = built(pool, n_partitions=10, n_cells=40, seed=0)
    assert_way(features._map, way)
    force(monkeypatch, "scan")
    reference = built(pool, n_partitions=10, n_cells=40, seed=0)
    expected = [reference.cells_one(x).tolist() for x in queries]
    assert [features.cells_one(x).tolist() for x in queries] == expected
    assert features.cells_many(frame(queries)).tolist() == expected


@pytest.mark.blas
def test_the_way_is_chosen_by_what_it_costs():
    def chosen(rows, n_cells):
        return built(rows, n_cells=n_cells, seed=0)._map

    rng = np.random.default_rng(0)
    plane = chosen(samples("real", 4000, 2, 0), 256)
    assert plane.tree is not None and not plane.indexed
    noise = pd.DataFrame(rng.normal(size=(2000, 80))).add_prefix("f").to_dict("records")
    assert chosen(noise, 64).tree is None
    assert chosen(noise, 64).centred is not None
    binary = chosen(samples("few binary", 2000, 200, 0), 64)
    assert binary.indexed and binary.centred is None


def exact_kernel(method, pool, x, y, psi):
    """Average over all subsets (Equation 1); the trees of two points have one cut."""
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
    """Shared cells of independent partitions are binomial with the exact kernel as their mean."""
    rng = np.random.default_rng(0)
    t, seeds, n_pairs = 2000, 4, 6
    pool = [dict(zip("ab", row, strict=True)) for row in rng.normal(size=(4 * psi, 2)).tolist()]
    queries = [dict(zip("ab", row, strict=True)) for row in rng.normal(size=(12, 2)).tolist()]
    pool = [naive.scale(x, None) for x in pool]
    queries = [naive.scale(x, None) for x in queries]
    for seed in range(seeds):
        features = built(pool, n_partitions=t, n_cells=psi, method=method, seed=seed)
        for x, y in zip(queries[::2], queries[1::2], strict=True):
            shared = round(t * features.kernel(x, y))
            expected = exact_kernel(method, pool, x, y, psi)
            p = stats.binomtest(shared, t, expected).pvalue
            assert p > LEVEL / (3 * seeds * n_pairs)


# Isolation kernel feature maps as their users meet them: growth, frames, copies, bad input.


@pytest.mark.parametrize("method", METHODS)
def test_useful_from_two_samples_on_then_frozen(method):
    features = IsolationFeatures(n_partitions=7, n_cells=8, method=method, pool_size=100, seed=1)
    cells_of, builds = {}, []
    assert features.transform_one({"a": 1.0}) == {}
    with pytest.raises(RuntimeError, match="has to learn samples first"):
        features.cells_one({"a": 1.0})
    for n, x in enumerate(samples("real", 120, 4, 0), 1):
        features.learn_one(x)
        mapped = features.transform_one(x)
        assert len(mapped) == (7 if n > 1 else 0)
        assert all(value == pytest.approx(7**-0.5) for value in mapped.values())
        if mapped:
            build = {name.split("_")[0] for name in mapped}
            assert len(build) == 1
            builds += [(n, *build)] if not builds or builds[-1][1] not in build else []
            cells_of[n] = max(int(name.split("_")[2]) for name in mapped)
            assert features.kernel(x, x) == 1.0
    assert [n for n, _ in builds] == [2, 4, 8, 16, 32, 64, 100]
    assert [name for _, name in builds] == [f"{method}{k}" for k in range(7)]
    assert all(cells < min(8, max(1, n // 4)) for n, cells in cells_of.items())
    assert features.frozen
    assert features._pool is None


def test_growing_trees_is_spread_over_calls(monkeypatch):
    rows = samples("real", 64, 4, 0)
    whole = built(rows, n_partitions=40, method="iforest", seed=3)
    monkeypatch.setattr("river_mondrian.partitions.isolation.GROWTH", 100)
    spread = fed(IsolationFeatures(n_partitions=40, method="iforest", pool_size=64, seed=3), rows)
    calls = 0
    while not spread.frozen:
        # Samples that come meanwhile are not part of the map, and a copy continues from here.
        spread = pickle.loads(pickle.dumps(spread))
        spread.learn_one({"b": 3.0})
        calls += 1
    assert calls > 5
    for x in rows:
        np.testing.assert_array_equal(spread.cells_one(x), whole.cells_one(x))


@pytest.mark.blas
def test_planting_a_tree_may_take_two_calls(monkeypatch):
    rows = samples("real", 64, 4, 0)
    force(monkeypatch, "tree")
    whole = built(rows, n_partitions=10, seed=3)
    monkeypatch.setattr("river_mondrian.partitions.voronoi.diagrams.PROJECTION", 0)
    one = fed(IsolationFeatures(n_partitions=10, pool_size=64, seed=3), rows)
    many = IsolationFeatures(n_partitions=10, pool_size=64, seed=3)
    many.learn_many(frame(rows))
    assert not one.frozen
    assert state(one) == state(many)
    copied = pickle.loads(pickle.dumps(one))
    for features in (one, copied):
        features.learn_one(rows[0])
        assert features.frozen
        for x in rows:
            np.testing.assert_array_equal(features.cells_one(x), whole.cells_one(x))


def arrays_of(part, seen):
    """Find the arrays that an object owns, each once."""
    if isinstance(part, np.ndarray):
        while isinstance(part.base, np.ndarray):
            part = part.base
        return {} if id(part) in seen else {id(part): part.nbytes}
    if isinstance(part, dict):
        parts = list(part.values())
    elif isinstance(part, (list, tuple)):
        parts = list(part)
    elif type(part).__module__.startswith("river_mondrian"):
        # A model's lock has no attributes.
        parts = list(getattr(part, "__dict__", {}).values())
    else:
        return {}
    found = {}
    for piece in parts:
        found |= arrays_of(piece, {*seen, *found})
    return found


@pytest.mark.parametrize("method", METHODS)
def test_a_hundred_of_a_million_keys(method):
    """Memory goes with the entries stored; a dense pool alone would take 4 GB."""
    rng = np.random.default_rng(0)
    rows = [{int(k): 1.0 for k in rng.integers(0, 1_000_000, size=100)} for _ in range(1100)]
    features = built(rows[:1024], method=method, seed=0)
    assert features._map.sparse
    n_entries = sum(len(x) for x in rows[:1024])
    assert features._raw_memory_usage < 500 * n_entries
    for x in rows[1024:]:
        assert features.cells_one(x).shape == (100,)
        features.learn_one(x)
    # Of two samples with nothing in common, and one with all of it, the latter is the nearer.
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


def test_extreme_values_have_cells():
    pool = [{"a": s * 10.0**e} for e in range(-38, 39) for s in (1, -1)] + [{"a": 0.0}] * 2
    for method, scale in itertools.product(METHODS, (False, True)):
        features = built(pool, n_partitions=10, n_cells=8, method=method, scale=scale, seed=0)
        cells = features.cells_many(pd.DataFrame(pool))
        assert ((cells >= 0) & (cells < 8)).all()


@pytest.mark.parametrize("n_empty", [0, 5, 50, 60])
def test_by_the_cosine_empty_texts_are_no_points(n_empty):
    """They would be nearer than any point at more than 60 degrees to all texts of length 1."""
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
    """Against cosines in double precision, but for cells that are as near up to rounding."""
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
    index = [features._reader.index.places.get(f"w{k:03}", -1) for k in range(d)]
    for x, row in zip(samples, rows, strict=True):
        placed = np.zeros(d)
        placed[[place for place in index if place >= 0]] = [
            row[k] for k, place in enumerate(index) if place >= 0
        ]
        cosines = points @ placed[: points.shape[1]] / np.linalg.norm(placed)
        of_members = cosines[features._map.members]
        found = features.cells_one(x)
        assert (of_members[found, np.arange(20)] >= of_members.max(axis=0) - 1e-6).all()
