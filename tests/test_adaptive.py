"""Tests of the adaptive forest's trees: statistics, posteriors, cuts, and their distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from common import as_kernel, assert_one_law, learn_rows, weights_of
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import adaptive as naive
from naive import hnsp
from naive.mondrian import copied
from scipy import stats

from river_mondrian import MondrianForestClassifier
from river_mondrian.compiling.kernels import kernel
from river_mondrian.partitions.mondrian.records import Tree
from river_mondrian.partitions.mondrian.tree_store import Partitions
from river_mondrian.posteriors.adaptive import adaptive_trees, nodes, prediction
from river_mondrian.posteriors.adaptive.nodes import BLOCK, N_POSTERIORS, StatisticsEntry
from river_mondrian.posteriors.rebuilt import forest as paths
from river_mondrian.posteriors.rebuilt import splits
from river_mondrian.posteriors.rebuilt.forest import IDLE, LONG, PATH_LENGTH, Candidate
from river_mondrian.records import Array, Float32s, Float64s, Memory

draw_candidates = as_kernel(splits.draw_candidates)

LEVEL = 0.01
SEEDS = range(3)


@kernel
def predict_tree(
    forest: nodes.AdaptiveForest, t: int, x: Float32s, path: Array[StatisticsEntry], out: Float32s
) -> None:
    n = paths.path_to(forest, forest.trees[t], x, path)
    prediction.predict_tree(forest, forest.trees[t], x, path, n, out)


def draw(n, seed, dims=3, classes=3):
    rng = np.random.default_rng(seed)
    X = rng.random((n, dims)).astype(np.float32).astype(float)
    y = np.where(rng.random(n) < 0.8, (X[:, 0] * classes).astype(int), rng.integers(0, classes, n))
    return X, y.tolist()


def grown(X, y, n_trees=2, n_candidates=20, seed=0, forgets=False, max_samples=5000, weights=None):
    partitions = Partitions(2 * n_trees + 1, math.inf, seed=seed)
    sizes = n_trees, n_candidates, max_samples, None
    trees = adaptive_trees.AdaptiveTrees(partitions, *sizes, forgets)
    trees.add_inputs(list(range(X.shape[1])), X[0])
    for _ in range(max(y) + 1):
        trees.add_class()
    return learn_rows(trees, X, y, weights)


def begin_building(trees):
    """Start to build a tree of all samples, and stop any other build."""
    trees._set_schedule(trees.schedule._replace(role=IDLE, jobs=(LONG,)))
    trees._set_schedule(trees.schedule.next_job(trees.n_samples))
    trees._begin(trees.schedule.slot)


def long_slots(trees):
    return np.flatnonzero(trees.trees.words["role"] == LONG).tolist()


def posteriors(trees, slot, x):
    """Return the posteriors of one tree, shape (N_POSTERIORS, classes)."""
    forest = trees.forest
    path = Array.over(StatisticsEntry, np.zeros(PATH_LENGTH * StatisticsEntry.SIZE, np.uint8))
    found = np.zeros(forest.n_sums(), dtype=np.float32)
    row = np.ascontiguousarray(x, dtype=np.float32)
    predict_tree(forest, slot, Float32s.of(row), path, Float32s.of(found))
    if forest.is_sparse:
        of_classes = found.reshape(-1, N_POSTERIORS)
        found = (of_classes[nodes.N_FRONT :] + of_classes[0]).T
    return found.reshape(N_POSTERIORS, -1)[:, : forest.n_classes]


# Statistics and posteriors.


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize(("classes", "dense"), [(3, 3), (2 * BLOCK + 2, 32), (18, 32), (18, 4)])
@pytest.mark.parametrize("weighted", [False, True])
def test_posteriors_of_a_built_tree_are_the_twins(
    forgets, seed, classes, dense, weighted, monkeypatch
):
    """The references get the same nodes and all samples."""
    monkeypatch.setattr(adaptive_trees, "MOST_DENSE", dense)
    X, y = draw(250, seed, classes=classes)
    weights = weights_of(250, seed) if weighted else None
    trees = grown(X, y, forgets=forgets, seed=seed, weights=weights)
    assert trees.forest.is_sparse == (classes > dense)
    trees.build()
    queries = np.vstack([X[:15], 2.0 * draw(15, seed + 9)[0] - 0.5])
    queries = queries.astype(np.float32).astype(float)
    gamma = float(trees.forest.gamma)
    for t, slot in enumerate(long_slots(trees)):
        read = trees.reader.read(t)
        seen = naive.replay(read, X, y, classes, forgets, weights)
        twin = copied(read, naive.hnsp_counts(read, seen))
        for x in queries:
            found = posteriors(trees, slot, x)
            expected = hnsp.predict(twin, x.tolist(), gamma, [1.0 / classes] * classes)
            np.testing.assert_allclose(found[0], expected, atol=1e-5)
            expected = [naive.predict(read, seen, x, v) for v in range(2)]
            np.testing.assert_allclose(found[1:], expected, atol=2e-5)


@given(st.integers(0, 2**20), st.integers(2, 60), st.integers(1, 6), st.booleans())
@settings(max_examples=50)
def test_online_statistics_are_those_of_a_replay(seed, n, places, weighted):
    """Trees have duplicates, conflicting cuts, new parents and splits of leaves, in any order."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2)).astype(np.float32).astype(float)
    X = X[rng.integers(0, max(1, n * places // 6), n)]
    y = rng.integers(0, 3, n).tolist()
    y[0] = 2
    weights = weights_of(n, seed) if weighted else [1.0] * n
    # The root forgets here, because a root without forgetting would differ from the replay once the
    # root gets a parent.
    trees = grown(X, y, n_trees=1, n_candidates=3, seed=seed, forgets=True, weights=weights)
    (slot,) = long_slots(trees)
    read = trees.reader.read(0)
    seen = naive.replay(read, X, y, 3, True, weights)
    tree = trees.trees[slot]
    # Rows are visited in preorder, as `read` numbers nodes.
    waiting, number = [tree.root], 0
    while waiting:
        ref = waiting.pop()
        if ref >= 0:
            row = tree.nodes.row(ref)
            own = row.statistics(tree)
            counts = seen[number].counts
            # Sums of integer weights are exact.
            rel = 1e-5 if weighted else 0.0
            known = np.array([own.numbers_of(k).words.view()[::BLOCK] for k in range(3)])
            np.testing.assert_allclose(known[:, 0], counts[0], rtol=rel)
            assert own.weight == pytest.approx(sum(counts[0]), rel=rel)
            assert own.n_seen == sum(count > 0 for count in counts[0])
            units = [own.units[m] for m in range(nodes.N_FORGETTING)]
            decayed = known.T[1 : 1 + len(units)] / np.array(units)[:, None]
            np.testing.assert_allclose(decayed, counts[1:], rtol=1e-4, atol=1e-6)

            if row.dim >= 0:
                children = (read[number].left, read[number].right)
                c = [sum(seen[i].counts[0][k] > 0.0 for i in children) for k in range(3)]
                sides = own.sides(trees.forest.class_capacity)[0]
                assert [(sides >> 2 * k & 3).bit_count() for k in range(3)] == c
                assert own.n_sides == sum(c)
                waiting += [row.right, row.left]
        number += 1
    assert number == len(read)


def test_memories_hold_no_subnormal_number():
    """Some processors need 100 times as long for subnormal numbers, so tiny counts become 0."""
    y = [0, 1] * 30 + [2, 3] * 300
    trees = grown(np.random.default_rng(0).random((len(y), 2)), y, n_candidates=3, forgets=True)
    found = []
    for tree in (tree for tree in trees.trees if tree.role):
        for own in (tree.nodes.row(j).statistics(tree) for j in range(tree.nodes.n_rows)):
            found += [own.numbers_of(k).words.view()[::BLOCK].copy() for k in range(4) if own]
    found = np.array(found)
    assert ((found == 0.0) | (found > nodes.UNNOTICED)).all()
    assert ((found[:, 0] > 0.0) & (found[:, 1 + nodes.LATEST] == 0.0)).any()


def test_a_memory_is_scaled_back_before_it_overflows():
    X = np.tile([[0.3, 0.4], [0.6, 0.1]], (2000, 1))
    y = [0, 1] * 2000
    trees = grown(X, y, n_trees=1)
    seen = naive.replay(trees.reader.read(0), X, y, 2)
    for x in ([0.3, 0.4], [0.6, 0.1]):
        found = posteriors(trees, long_slots(trees)[0], x)
        assert np.isfinite(found).all()
        leaf = seen[naive.route(trees.reader.read(0), x)[-1]]
        assert found[2].argmax() == np.argmax(leaf.counts[2])


# Cuts.


@pytest.mark.parametrize("weighted", [False, True])
def test_gains_are_the_twins(weighted):
    """The gain of a dimension is the total gain of its splits in the tree."""
    X, y = draw(120, 4)
    weights = weights_of(120, 4) if weighted else [1.0] * 120
    trees = grown(X, y, n_trees=1, seed=3, weights=weights)
    trees.build()
    expected = naive.gains(trees.reader.read(0), X, y, weights, naive.gini)
    rtol = 1e-5 if weighted else 1e-6
    np.testing.assert_allclose(trees.gains[long_slots(trees)[0]], expected, rtol=rtol)


@pytest.mark.parametrize("m", [1, 7])
def test_each_candidate_has_the_law_of_mondrian_cuts(seed, m):
    """Dimensions get candidates in proportion to their sides, rounded; positions are uniform."""
    lower = np.array([0.0, 2.0, -1.0, 0.0], dtype=np.float32)
    upper = np.array([1.0, 2.0, 1.5, 0.5], dtype=np.float32)
    tree, candidates = Memory(Tree)[0], Memory(Candidate, m)
    tree.random_state = seed
    box, arrays = map(Float32s.of, (lower, upper)), map(Float64s.of, (np.ones(4), np.zeros(4)))
    places = (tree, *box, *arrays, 4, candidates.array, m)
    sides = (upper - lower).astype(float)
    shares, n = sides / sides.sum(), 3000
    dims, cuts = np.empty((n, m), int), np.empty((n, m))
    for i in range(n):
        draw_candidates(*places)
        dims[i], cuts[i] = candidates.words["dim"], candidates.words["cut"]
        assert (np.abs(np.bincount(dims[i], minlength=4) - m * shares) < 1.0).all()
    level, drawn = LEVEL / (len(SEEDS) * 4 * m), shares > 0.0
    for own, at in zip(dims.T, cuts.T, strict=True):
        counts = np.bincount(own, minlength=4)
        assert counts[~drawn].sum() == 0
        assert stats.chisquare(counts[drawn], n * shares[drawn]).pvalue > level
        assert stats.kstest((at - lower[own]) / sides[own], "uniform").pvalue > level


@pytest.mark.parametrize("rebuilt", [False, True])
def test_one_candidate_gives_the_law_of_the_exact_forest(seed, rebuilt):
    X, y = draw(24, 7, dims=2, classes=2)
    n = 400
    trees = grown(X, y, n_trees=n, n_candidates=1, seed=seed)
    if rebuilt:
        trees.build()
    exact = MondrianForestClassifier(n, scale=False, seed=seed + 50)
    exact.learn_many(X, y)
    pair = ([shape_of(one.reader.read(t)) for t in range(n)] for one in (trees, exact._trees))
    assert_one_law(*pair, LEVEL / (5 * 2 * 3))


def shape_of(read):
    """Return numbers that summarize a tree; tests compare the distributions of these numbers."""
    root, n_leaves = read[0], sum(node.is_leaf for node in read)
    below = min((node.time for node in read if node.depth == 2), default=9.9)
    return [root.time, root.dim, n_leaves, max(node.depth for node in read), below]


def test_building_in_parts_is_building_at_once():
    X, y = draw(400, 3)
    found = []
    for budget in (1 << 40, 7, 100):
        trees = grown(X, y, n_trees=1, seed=5)
        slot = trees.schedule.slot
        tree = trees.trees[slot]
        tree.random_state = 12345
        begin_building(trees)
        while not trees._build(slot, budget):
            pass
        heads = trees.nodes.rows(slot, tree.nodes.n_rows)
        rows = trees.side_rows.rows(slot, tree.side_rows.n_rows)
        found.append((heads.tobytes(), rows.tobytes()))
    assert found[0] == found[1] == found[2]
