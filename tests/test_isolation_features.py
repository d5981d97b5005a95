"""Isolation kernel feature maps as their users meet them: growth, frames, copies, bad input."""

from __future__ import annotations

import itertools
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from test_isolation import METHODS, WAYS, built, force, frame, samples, state

from river_mondrian import IsolationFeatures

# Growth.


@pytest.mark.parametrize("method", METHODS)
def test_useful_from_two_samples_on_then_frozen(method):
    features = IsolationFeatures(n_partitions=7, n_cells=8, method=method, pool_size=100, seed=1)
    cells_of, builds = {}, []
    assert features.transform_one({"a": 1.0}) == {}
    with pytest.raises(RuntimeError, match="cannot map yet"):
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
    spread = IsolationFeatures(n_partitions=40, method="iforest", pool_size=64, seed=3)
    for x in rows:
        spread.learn_one(x)
    calls = 0
    while not spread.frozen:
        # What comes meanwhile is not part of the map, and a copy goes on where this one is.
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
    one = IsolationFeatures(n_partitions=10, pool_size=64, seed=3)
    for x in rows:
        one.learn_one(x)
    many = IsolationFeatures(n_partitions=10, pool_size=64, seed=3)
    many.learn_many(frame(rows))
    assert not one.frozen
    assert state(one) == state(many)
    arrays = sum(arrays_of(one, ()).values())
    points = one._next.points
    arrays += points.data.nbytes + points.indices.nbytes + points.indptr.nbytes
    index = one._reader.index
    objects = [one, one.__dict__, index.names, index.places, *index.names]
    objects += [one._pool, one._map, one._map.tree, one._next]
    assert one._raw_memory_usage == arrays + sum(sys.getsizeof(part) for part in objects)
    copied = pickle.loads(pickle.dumps(one))
    for features in (one, copied):
        features.learn_one(rows[0])
        assert features.frozen
        for x in rows:
            np.testing.assert_array_equal(features.cells_one(x), whole.cells_one(x))


@pytest.mark.parametrize("method", METHODS)
def test_a_feature_that_the_pool_lacks_is_ignored(method):
    pool = samples("real", 80, 4, 0)
    features = built(pool, n_partitions=20, method=method, seed=1)
    cells = features.cells_one(pool[0])
    np.testing.assert_array_equal(cells, features.cells_one({**pool[0], "other": 1e9, 7: -3.0}))


# Frames, seeds, copies, memory.


@pytest.mark.parametrize("method", METHODS)
def test_csr_and_gram_are_the_kernel(method):
    rows = samples("real", 100, 4, 0)
    features = built(rows, n_partitions=30, n_cells=8, method=method, seed=0)
    matrix, gram = features.to_csr(frame(rows)), features.gram(frame(rows), frame(rows[:7]))
    assert matrix.shape == (100, 30 * 8)
    expected = [[features.kernel(x, y) for y in rows[:7]] for x in rows]
    np.testing.assert_allclose(gram, expected, rtol=1e-12)
    np.testing.assert_allclose((matrix @ matrix[:7].T).toarray(), expected, rtol=1e-12)
    np.testing.assert_array_equal(features.gram(frame(rows[:7])), gram[:7])


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
    found: dict[int, int] = {}
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


# Bad input.


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


# In River.


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
    features = IsolationFeatures(20, 10, pool_size=60, metric=metric, seed=1)
    for x in samples[:60]:
        features.learn_one(x)
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
    with pytest.raises(ValueError, match="metric"):
        IsolationFeatures(metric="angle")
    with pytest.raises(ValueError, match="anne"):
        IsolationFeatures(method="iforest", metric="cosine")
