"""Tests that wide forests with light nodes, which store no box, equal forests with all boxes."""

import math

import numpy as np
import pytest
from common import answer, as_kernels, fed, refused, restored

import tests.naive.mondrian as naive
from river_mondrian import MondrianForestClassifier, MondrianForestRegressor
from river_mondrian.partitions.mondrian import boxes
from river_mondrian.partitions.mondrian.box_vectors import BLOCK, MOST_PARTS
from river_mondrian.partitions.mondrian.constants import FREE, NONE
from river_mondrian.partitions.mondrian.records import Point
from river_mondrian.partitions.mondrian.shards import joined, shard_of
from river_mondrian.records import Float32s, Float64s, Int64s, Memory

distance_outside, distances_to_batch, distance_to_inputs = as_kernels(
    boxes.distance_outside,
    boxes.distances_to_batch,
    boxes.distance_to_inputs,
)


N = 330

MODELS = {
    "classes": lambda: MondrianForestClassifier(3, seed=1),
    "split pure": lambda: MondrianForestClassifier(2, split_pure=True, lifetime=2.0, seed=1),
    "window": lambda: MondrianForestClassifier(3, window=60, seed=1),
    "directions": lambda: MondrianForestClassifier(2, directions=9, seed=1),
    "bounded": lambda: MondrianForestClassifier(2, max_nodes=41, seed=1),
    "targets": lambda: MondrianForestRegressor(2, seed=1),
    "targets, window": lambda: MondrianForestRegressor(2, window=70, min_samples_split=4, seed=1),
}
# Largest number of samples of light nodes, by the smallest number of dimensions for which it holds.
# New features make the forests wide.
SIZES = {9: 4, BLOCK: 7}


def draw(seed, n=N):
    """Return samples with ties, missing values and two late features."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 12)).round(1)
    samples = []
    for i, row in enumerate(rows.tolist()):
        x = dict(enumerate(row[: BLOCK + 2 * (i > 20) + 2 * (i > 150)]))
        if i > 200 and rng.random() < 0.2:
            x[int(rng.integers(len(x)))] = None
        samples.append((x, int(row[0] > 0.0) + int(row[1] > 1.0)))
    return samples


def learn(model, samples):
    found = []
    for i, (x, y) in enumerate(samples):
        found.append(answer(model, x))
        model.learn_one(x, y, 2.5 if i > 300 else 1.0)
    return found


@pytest.fixture
def wide(monkeypatch):
    """Reduce the smallest number of dimensions of wide forests."""
    monkeypatch.setattr(boxes, "LIGHT_SIZES", SIZES)


def boxes_of(model):
    """Return the boxes of all nodes in preorder, tree by tree, hidden nodes included."""
    trees = model._trees
    return [
        np.stack([node.lower, node.upper])
        for t in range(trees.n_trees)
        for node in trees.reader.read(t, hidden=True)
    ]


def rows_of(model):
    """Yield each tree with its used rows."""
    trees = model._trees
    for tree in trees.trees:
        rows = [tree.nodes.row(j) for j in range(int(tree.nodes.n_rows))]
        yield tree, [row for row in rows if row.dim != FREE]


def assert_boxes(one, other):
    for known, found in zip(boxes_of(one), boxes_of(other), strict=True):
        np.testing.assert_array_equal(known, found)


@pytest.mark.parametrize("name", MODELS)
def test_all_is_bit_for_bit_as_with_boxes(name, monkeypatch):
    samples = draw(1)
    twin = MODELS[name]()
    expected = learn(twin, samples)
    monkeypatch.setattr(boxes, "LIGHT_SIZES", SIZES)
    model = MODELS[name]()
    assert learn(model, samples) == expected
    assert_boxes(twin, model)
    forest = model._trees.forest
    assert forest.light_size == {"bounded": 0, "directions": 4}.get(name, 7)
    for _, rows in rows_of(model) if forest.light_size else ():
        kept = [row for row in rows if row.has_box(forest)]
        assert all(row.has_box(forest) == (row.n_samples > forest.light_size) for row in rows)
        assert len({row.box_number(forest) for row in kept}) == len(kept)
        assert len(kept) < len(rows) or not rows


@pytest.mark.parametrize("name", ["classes", "window", "targets"])
def test_samples_are_forgotten_as_with_boxes(name, monkeypatch):
    samples, models = draw(2, 200), []
    for sizes in ({}, SIZES):
        monkeypatch.setattr(boxes, "LIGHT_SIZES", sizes)
        models.append(MODELS[name]())
        learn(models[-1], samples)
        for sample in samples[-50::3]:
            models[-1].forget_one(*sample)
    twin, model = models
    rest = draw(3, 100)
    assert learn(twin, rest) == learn(model, rest)
    assert_boxes(twin, model)
    # Each row of boxes is used or free.
    forest = model._trees.forest
    for tree, rows in rows_of(model):
        n, b = sum(row.has_box(forest) for row in rows), int(tree.free_box)
        while b != NONE:
            n, b = n + 1, int(tree.boxes.row(b).next_free()[0])
        assert n == tree.boxes.n_rows


@pytest.mark.parametrize("name", ["classes", "targets"])
def test_batches_and_parts(name, wide):
    samples = draw(6, 600)[160:]
    one, many = fed(MODELS[name](), samples), MODELS[name]()
    rows = np.array([[np.nan if v is None else v for v in x.values()] for x, _ in samples])
    many.n_jobs = 2
    many.learn_many(rows, [y for _, y in samples])
    assert [answer(many, x) for x, _ in samples] == [answer(one, x) for x, _ in samples]
    trees = many._trees
    many._trees = joined([shard_of(trees, 0, 1), shard_of(trees, 1, trees.n_trees)])
    assert_boxes(one, many)


@pytest.mark.parametrize("n", [127, 255])
def test_trees_that_are_drawn_anew_have_room_for_all_boxes(n):
    """A copy has little memory for more boxes, and the next sample redraws the trees."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(n + 1, 512)), rng.integers(3, size=n + 1).tolist()
    model = MondrianForestClassifier(20, split_pure=True, seed=2)
    model.learn_many(X[:n], y[:n])
    model = restored(model)
    before = model._trees.trees.words["boxes.n_rows"].tolist()
    model.learn_many(X[n:], y[n:])
    words = model._trees.trees.words
    assert words["boxes.n_rows"].tolist() != before
    assert (words["boxes.n_rows"] <= words["boxes.capacity"]).all()


def test_damaged_boxes_are_refused(wide):
    model = MODELS["classes"]()
    learn(model, draw(7)[:200])
    forest = model._trees.forest
    tree, rows = next(rows_of(model))
    heavy = [row for row in rows if row.has_box(forest)]
    light = next(row for row in rows if not row.has_box(forest))
    number = heavy[0].box_row(forest)[0]
    inner = next(row for row in heavy if row.dim >= 0)
    for node, wrong in ((heavy[0], 40_000), (heavy[0], NONE), (heavy[1], number), (light, 0)):
        place = node.box_row(forest)
        known, place[0] = place[0], wrong
        refused(model, "box_row is")
        place[0] = known
    tree.free_box = number
    refused(model, r"(free_box|box_row|next_free) is")
    tree.free_box = NONE
    box = inner.box(forest, tree)
    known, box[inner.dim] = box[inner.dim], 0.5 * (inner.cut + box[forest.dim_capacity + inner.dim])
    refused(model, "its box is")
    box[inner.dim] = known
    restored(model)


@pytest.mark.parametrize("is_scaled", [0, 1])
@pytest.mark.parametrize("dims", [BLOCK, 9, 15, 16, 17, 54, 130])
def test_distances_to_points_are_the_twins(dims, is_scaled):
    # A row has three numbers before the point; some values and dimensions are missing.
    rng = np.random.default_rng(dims)
    offsets, factors = rng.normal(size=dims), rng.lognormal(size=dims)
    scaling = Float64s.of(offsets), Float64s.of(factors)
    for missing in (0.0, 0.3):
        inputs = 10.0 * rng.standard_normal((40, dims + 3))
        inputs[rng.random(inputs.shape) < missing] = np.nan
        inputs[:, 3] = np.nan
        rows = inputs if is_scaled else inputs.astype(np.float32)
        values = (inputs[:, 3:] - offsets) * factors if is_scaled else inputs[:, 3:]
        values = values.astype(np.float32)
        places = Memory(boxes.PointAt, len(rows))
        for place, row in zip(places, rows, strict=True):
            place.point = Point(row.ctypes.data)
        for n_parts in (1, 2, 5, MOST_PARTS):
            ends = np.sort(rng.choice(np.arange(1, len(rows)), n_parts, replace=False))
            starts = np.concatenate([[0], ends]).astype(np.int64)
            starts[-1] = len(rows)
            x = (10.0 * rng.standard_normal(dims)).astype(np.float32)
            found = np.empty(n_parts)
            own = boxes.Source(3 + 3 * is_scaled, is_scaled, *scaling), Float32s.of(x), dims
            distances_to_batch(places.array, Int64s.of(starts), n_parts, *own, Float64s.of(found))
            for start, distance in zip(starts[:-1].tolist(), found.tolist(), strict=True):
                twin = naive.Node(lower=[math.nan] * dims, upper=[math.nan] * dims)
                for row in values[start:].tolist():
                    twin.grow(row)
                assert distance == pytest.approx(twin.distance(x.tolist()), rel=1e-12)
                corners = np.array([twin.lower, twin.upper], dtype=np.float32)
                # Distances equal those from stored boxes bit for bit.
                box = (Float32s.of(corner) for corner in corners)
                assert distance == distance_outside(Float32s.of(x), *box, dims)
        for row, value in zip(inputs[:, 3:], values, strict=True):
            box = Float32s.of(value)
            if is_scaled:
                found = distance_to_inputs(Float32s.of(x), Float64s.of(row), *scaling, dims)
                assert found == distance_outside(Float32s.of(x), box, box, dims)
