"""Tests of adaptive forests with many classes, whose nodes store only classes with samples."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from common import as_kernels, refused, restored
from hypothesis import given, settings
from hypothesis import strategies as st
from river import drift

from river_mondrian import AdaptiveMondrianForestClassifier, load, save
from river_mondrian.compiling.kernels import kernel
from river_mondrian.posteriors.adaptive import adaptive_trees, nodes, seen
from river_mondrian.records import Float64s

N_NUMBERS = 2 + nodes.N_FORGETTING
new_row, add_sample = as_kernels(seen.new_row, seen.add_sample)


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Reduce the largest number of classes of dense nodes to 32."""
    monkeypatch.setattr(adaptive_trees, "MOST_DENSE", 32)


@kernel
def read_classes(
    forest: nodes.AdaptiveForest, tree: nodes.AdaptiveTree, own: nodes.Statistics, out: Float64s
) -> None:
    """Write the weights and sides of all classes at a node."""
    for k in range(forest.n_classes):
        numbers = seen.numbers_of(forest, tree, own, k)
        for m in range(1 + nodes.N_FORGETTING):
            out[N_NUMBERS * k + m] = numbers.words[m * numbers.step]
        sides = own.sides_of(k, forest.class_capacity) if forest.is_sparse == 0 else 0
        if forest.is_sparse == 1:
            sides = forest.find(forest, tree, own, k, False).key & 3
        out[N_NUMBERS * k + 1 + nodes.N_FORGETTING] = sides


def classes_at(trees, t, own):
    """Return the weights and sides of all classes at a node."""
    found = np.zeros((trees.forest.n_classes, N_NUMBERS))
    read_classes(trees.forest, trees.trees[t], own, Float64s.of(found.reshape(-1)))
    return found


def draw(n, n_classes, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = rng.normal(y[:, None] * [0.05, 0.03, 0.0], 0.2)
    return [({"a": a, "b": b, "c": c}, k) for (a, b, c), k in zip(X, y.tolist(), strict=True)]


def learned(samples, dense, weighted=False):
    """Return a model with dense nodes for up to `dense` classes, and the predictions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adaptive_trees, "MOST_DENSE", dense)
        model = AdaptiveMondrianForestClassifier(2, seed=3, drift_detector=drift.NoDrift())
        predicted = []
        for i, (x, y) in enumerate(samples):
            if i % 50 == 49:
                predicted.append(list(model.predict_proba_one(x).values()))
            model.learn_one(x, y, 0.5 + i % 3 if weighted else 1.0)
    return model, predicted


def nodes_of(trees):
    """Yield the statistics of the nodes of trees, and the numbers of rows and samples."""
    for t, tree in enumerate(trees.trees):
        yield [tree.nodes.n_rows, trees.reader.counts(t).sum()]
        for j in range(tree.nodes.n_rows) if tree.role else ():
            if tree.nodes.row(j).statistics_row:
                own = tree.nodes.row(j).statistics(tree)
                yield classes_at(trees, t, own)
                yield [own.weight, own.n_seen, own.n_sides, *own.stops.view(), *own.shares.view()]
                yield [*own.totals.view(), *own.units.view()]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dense", [3, 11])
def test_what_nodes_have_seen_is_what_places_for_all_classes_tell(weighted, dense):
    """Sparse and dense nodes are equal, even after new classes and after rebuilds."""
    samples = draw(700, 25, 1)
    (all_classes, expected), (model, found) = (learned(samples, n, weighted) for n in (32, dense))
    trees, others = model._trees, all_classes._trees
    assert (trees.forest.is_sparse, others.forest.is_sparse) == (1, 0)
    for own, other in zip(nodes_of(trees), nodes_of(others), strict=True):
        np.testing.assert_array_equal(own, other)
    for own, other in zip(found, expected, strict=True):
        # Single-precision sums are added in another order.
        np.testing.assert_allclose(own, other, rtol=1e-3, atol=1e-6)
    assert trees.reader.cut_gains(0)[1].tolist() == others.reader.cut_gains(0)[1].tolist()
    own, other = (each.explain_one(samples[0][0]) for each in (model, all_classes))
    assert own == {k: pytest.approx(v, abs=1e-5) for k, v in other.items()}


@given(st.integers(0, 2**20), st.lists(st.integers(0, 60), min_size=1, max_size=4))
@settings(max_examples=20)
def test_a_node_knows_what_it_has_seen_wherever_that_is(seed, numbers):
    """Classes come in any order."""
    rng = np.random.default_rng(seed)
    trees = learned(draw(150, 80, 0), 32)[0]._trees
    forest, tree = trees.forest, trees.trees[0]
    trees.side_rows.grow(0, tree.side_rows, tree.side_rows.n_rows + 200)
    row = new_row(forest, tree)
    tree.side_rows.row(row).begin()
    twin, n_sides = {}, 0
    for i, n in enumerate(numbers):
        # The number of classes grows during the test.
        known = min(16 * (i + 1), int(forest.n_classes))
        for label in rng.integers(0, known, n).tolist():
            weight, side = float(rng.integers(1, 4)), int(rng.integers(-1, 2))
            add_sample(forest, tree, tree.side_rows.row(row), label, weight, True, side)
            own = twin.setdefault(label, np.zeros(N_NUMBERS))
            for known_class in twin.values():
                known_class[1:-1] /= nodes.GROWTHS
            own[:-1] += weight
            bits = int(own[-1]) | (0 if side == seen.NO_SIDE else 1 + side)
            n_sides += bits.bit_count() - int(own[-1]).bit_count()
            own[-1] = bits
    statistics = tree.side_rows.row(row)
    expected = np.array([twin.get(k, np.zeros(N_NUMBERS)) for k in range(int(forest.n_classes))])
    found = classes_at(trees, 0, statistics)
    found[:, 1:-1] /= statistics.units.view()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-12)
    assert (statistics.n_seen, statistics.n_sides) == (len(twin), n_sides)
    np.testing.assert_allclose(trees.reader.counts(0)[row], expected[:, 0])
    assert trees.reader.counts(0)[row + 1 :].sum() == 0.0


@given(st.integers(0, 2**20), st.integers(1, 400), st.integers(1, 5))
@settings(max_examples=20)
def test_rows_are_as_many_as_are_made_room_for(seed, n_classes, n_steps):
    """A node needs at most `most_rows` rows, in any order of the classes."""
    order = np.random.default_rng(seed).permutation(n_classes * n_steps)[:n_classes]
    room, links = [nodes.N_FIRST], [{}]
    for label in order.tolist():
        row, bits = 0, label
        while room[row] == 0:
            row, bits = links[row].setdefault(bits & 1, len(room)), bits >> 1
            if row == len(room):
                room.append(nodes.N_MORE)
                links.append({})
        room[row] -= 1
    assert len(room) <= nodes.most_rows(n_classes)


def test_many_classes_take_memory_by_what_is_seen():
    """With ten times as many classes, trees are deeper, but bytes per sample grow less than 4-fold.

    The classes are separate, so most nodes have samples of few classes.
    """
    sizes = []
    for n_classes in (40, 400):
        rng = np.random.default_rng(0)
        samples = [({"a": k + 0.1 * rng.random()}, k) for k in range(n_classes)] * 3
        trees = learned(samples, 32)[0]._trees
        rows = sum(tree.side_rows.n_rows for tree in trees.trees)
        sizes.append(rows * trees.side_rows.row_bytes / len(samples))
    assert sizes[1] < 4.0 * sizes[0]


@pytest.mark.parametrize("how", ["pickle", "file"])
def test_many_classes_are_stored(how, tmp_path):
    samples = draw(400, 60, 2)
    model, _ = learned(samples[:300], 32)
    assert model._trees.forest.is_sparse
    save(model, tmp_path / "model")
    other = restored(model) if how == "pickle" else load(tmp_path / "model")
    for x, y in samples[300:]:
        assert other.predict_proba_one(x) == model.predict_proba_one(x)
        for each in (model, other):
            each.learn_one(x, y)
    # Threads share the rows of a batch and have separate buffers.
    model.n_jobs, X = 2, pd.DataFrame([x for x, _ in samples])
    expected = [list(model.predict_proba_one(x).values()) for x, _ in samples]
    assert model.predict_proba_many(X).to_numpy().tolist() == expected


@pytest.mark.parametrize("damage", ["back", "beyond", "twice", "class"])
def test_damaged_rows_are_refused(damage):
    model, _ = learned(draw(300, 60, 5), 32)
    trees = model._trees
    tree = next(tree for tree in trees.trees if tree.role)
    n = tree.side_rows.n_rows
    rows = trees.side_rows.chunks[tree.slot][0][:n]
    # Another row has a link to this row.
    row = rows[np.flatnonzero(rows[:, nodes.LINKS_WORD])[0]]
    place, value = {
        "back": (nodes.LINKS_WORD, 1),
        "beyond": (nodes.LINKS_WORD, n + 1),
        "twice": (nodes.LINKS_WORD + 1, row[nodes.LINKS_WORD]),
        "class": (nodes.HEAD_WORDS, 4 * (trees.forest.n_classes + 1)),
    }[damage]
    row[place] = value
    refused(model, "side_rows")
