"""Forests of many dimensions, whose nodes keep the sides that differ from their parents' boxes."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

from river_mondrian import (
    ModelFormatError,
    MondrianForestClassifier,
    MondrianForestRegressor,
    load,
    save,
)
from river_mondrian.partitions.mondrian import row_layouts
from river_mondrian.partitions.mondrian.parts import joined, part_of
from river_mondrian.partitions.mondrian.records import INSETS, NONE, OWN_INSETS
from tests.naive import insets as naive
from tests.test_light_nodes import predict, rows_of

MODELS = {
    "classes": lambda: MondrianForestClassifier(3, seed=1),
    "split pure": lambda: MondrianForestClassifier(2, split_pure=True, lifetime=3.0, seed=1),
    "zeros": lambda: MondrianForestClassifier(2, missing="zero", seed=1),
    "directions": lambda: MondrianForestClassifier(2, directions=9, seed=1),
    "targets": lambda: MondrianForestRegressor(2, seed=1),
}
# Sums of the same distances in another order: as many terms as places on a way, each of one half of
# a unit in the last place, and what exponentials and mixtures make of that.
RTOL = 1e-10


def draw(seed, n, n_dims, *, lacks=True):
    """Return samples with ties, of which some lack a value; half of the features come later."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(3, n_dims))
    samples = []
    for i in range(n):
        label = int(rng.integers(3))
        row = (centres[label] + rng.normal(size=n_dims) * (rng.random(n_dims) < 0.4)).round(1)
        x = dict(enumerate(row[: n_dims if i > 60 else n_dims // 2].tolist()))
        if lacks and i > 200 and rng.random() < 0.2:
            x[int(rng.integers(len(x)))] = None
        samples.append((x, label))
    return samples


def learn(model, samples):
    found = []
    for i, (x, y) in enumerate(samples):
        found.append(predict(model, x))
        model.learn_one(x, y, *([2.5] if i == 300 else []))
    return found


@pytest.fixture
def many(monkeypatch):
    """Let few dimensions be so many that there are insets, and half of all sides few."""
    monkeypatch.setattr(row_layouts, "LIGHT_SIZES", {5: 3})
    monkeypatch.setattr(row_layouts, "INSET_DIMS", 8)
    monkeypatch.setattr(row_layouts, "MOST_SHARE", 2)


def nodes_of(model):
    """Return all nodes in preorder, tree by tree, with those that are hidden."""
    trees = model._trees
    return [node for t in range(trees.n_trees) for node in trees.read(t, hidden=True)]


def assert_same(model, twin):
    """Compare the trees of two models: cuts, counts and boxes are the same."""
    found, expected = nodes_of(model), nodes_of(twin)
    assert len(found) == len(expected)
    for node, other in zip(found, expected, strict=True):
        assert (node.parent, node.n_samples, node.dim) == (other.parent, other.n_samples, other.dim)
        np.testing.assert_array_equal(node.lower, other.lower)
        np.testing.assert_array_equal(node.upper, other.upper)
        np.testing.assert_allclose(node.cut, other.cut, rtol=1e-6)


def insets_of(tree, row, forest):
    """Return a node's insets, place by place, and the numbers of their further rows."""
    own = row.insets(forest)
    found, numbers, part, capacity = {}, [], own, OWN_INSETS
    while True:
        places, values = part.places(capacity), part.values(capacity)
        for i in range(part.n):
            assert places[i] not in found
            found[places[i]] = values[i]
        if part.following == NONE:
            return found, numbers
        numbers.append(int(part.following))
        part, capacity = tree.insets.row(part.following), INSETS


def check_rows(model):
    """Check which nodes have insets, that no row is lost, and return how many have which box."""
    forest = model._trees.forest
    n_whole, n_insets, longest = 0, 0, 0
    for t in range(model._trees.n_trees):
        naive.check_boxes(forest, t, insets_of)
    for tree, rows in rows_of(model):
        used, n_boxes = [], 0
        for row in rows:
            has_insets, has_box = row.has_insets(forest), row.has_box(forest)
            assert not (has_insets and has_box)
            assert (has_insets or has_box) == (row.n_samples > forest.light_size)
            assert row.dim >= 0 or not has_insets
            n_boxes += has_box
            if has_insets:
                found, numbers = insets_of(tree, row, forest)
                assert len(found) <= forest.most_insets
                used += numbers
                longest = max(longest, len(found))
                n_insets += 1
        n_whole += n_boxes
        r, b = int(tree.free_inset), int(tree.free_box)
        while r != NONE:
            used.append(r)
            r = int(tree.insets.row(r).following)
        while b != NONE:
            n_boxes, b = n_boxes + 1, int(tree.boxes.row(b).next_free()[0])
        assert sorted(used) == list(range(int(tree.insets.n_rows)))
        assert n_boxes == tree.boxes.n_rows
    return n_whole, n_insets, longest


@pytest.mark.parametrize("n_dims", [9, 40])
@pytest.mark.parametrize("name", MODELS)
def test_all_is_as_with_whole_boxes(name, n_dims, many, monkeypatch):
    samples = draw(1, 330, n_dims)
    model = MODELS[name]()
    found = learn(model, samples)
    monkeypatch.setattr(row_layouts, "LIGHT_SIZES", {})
    twin = MODELS[name]()
    expected = learn(twin, samples)
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=RTOL, atol=RTOL)
    assert_same(model, twin)
    _, n_insets, longest = check_rows(model)
    assert n_insets > 5
    assert longest > OWN_INSETS or n_dims == 9
    pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("name", ["classes", "split pure", "targets"])
def test_sides_may_be_unknown_below_known_ones(name, many, monkeypatch):
    """Features that most samples lack: boxes without a value in them lie in boxes with some."""
    rng = np.random.default_rng(13)
    samples = [
        ({j: v if j < 6 or rng.random() < 0.08 else None for j, v in x.items()}, y)
        for x, y in draw(13, 400, 24, lacks=False)
    ]
    model = MODELS[name]()
    found = learn(model, samples)
    monkeypatch.setattr(row_layouts, "LIGHT_SIZES", {})
    twin = MODELS[name]()
    for own, other in zip(found, learn(twin, samples), strict=True):
        np.testing.assert_allclose(own, other, rtol=RTOL, atol=RTOL)
    assert_same(model, twin)
    for t in range(model._trees.n_trees):
        naive.check_boxes(model._trees.forest, t, insets_of)
    whole = [{j: float(j % 3) for j in range(24)}, dict.fromkeys(range(24), -2.0)]
    for x in whole:
        np.testing.assert_allclose(predict(model, x), predict(twin, x), rtol=RTOL, atol=RTOL)


@pytest.mark.parametrize("lacks", [False, True])
@pytest.mark.parametrize("name", ["split pure", "targets", "zeros"])
def test_samples_are_forgotten_as_with_whole_boxes(name, lacks, many, monkeypatch):
    samples = draw(2, 299, 20, lacks=lacks)
    rest = draw(3, 120, 20, lacks=lacks)
    models = []
    for sizes in ({5: 3}, {}):
        monkeypatch.setattr(row_layouts, "LIGHT_SIZES", sizes)
        model = MODELS[name]()
        learn(model, samples)
        models.append(model)
    model, twin = models
    assert check_rows(model)[1] > 0
    for k, (x, y) in enumerate(samples[::3]):
        for one in models:
            one.forget_one(x, y)
        if k % 20 == 0:
            assert_same(model, twin)
            check_rows(model)
            pickle.loads(pickle.dumps(model))
    for own, other in zip(learn(model, rest), learn(twin, rest), strict=True):
        np.testing.assert_allclose(own, other, rtol=RTOL, atol=RTOL)
    assert_same(model, twin)
    # Walks that learn turn whole boxes to insets again.
    assert check_rows(model)[1] > 0


@pytest.mark.parametrize("name", ["classes", "split pure", "targets"])
def test_copies_and_files_go_on_alike(name, many, tmp_path):
    samples = draw(4, 300, 20)
    model = MODELS[name]()
    learn(model, samples)
    save(model, tmp_path / "model")
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), load(tmp_path / "model")]
    rest = draw(5, 40, 20)
    expected = learn(model, rest)
    for one in copies:
        assert one._trees.forest.most_insets > 0
        assert learn(one, rest) == expected


@pytest.mark.parametrize("name", ["classes", "targets"])
def test_batches_threads_and_parts(name, many):
    samples = draw(6, 600, 20)[100:]
    one, many_rows = MODELS[name](), MODELS[name]()
    rows = np.array([[math.nan if v is None else v for v in x.values()] for x, _ in samples])
    labels = np.array([y for _, y in samples])
    for row, y in zip(rows.tolist(), labels.tolist(), strict=True):
        one.learn_one(dict(enumerate(row)), y)
    many_rows.n_jobs = 2
    many_rows.learn_many(rows, labels)
    expected = [predict(one, x) for x, _ in samples]
    assert [predict(many_rows, x) for x, _ in samples] == expected
    trees = many_rows._trees
    many_rows._trees = joined([part_of(trees, 0, 1), part_of(trees, 1, trees.n_trees)])
    assert [predict(many_rows, x) for x, _ in samples] == expected
    check_rows(many_rows)


@pytest.mark.parametrize("n_dims", [12, 30])
def test_hyperparameters_are_chosen_by_samples_that_lack_values(n_dims, many, monkeypatch):
    """To choose them, targets are taken out of the leaves of samples, to which ways lead."""
    samples = draw(10, 1150, n_dims)
    model = MODELS["targets"]()
    for x, y in samples:
        model.learn_one(x, y)
    monkeypatch.setattr(row_layouts, "LIGHT_SIZES", {})
    twin = MODELS["targets"]()
    for x, y in samples:
        twin.learn_one(x, y)
    assert_same(model, twin)
    for x, _ in samples[::50]:
        np.testing.assert_allclose(predict(model, x), predict(twin, x), rtol=1e-7)


def test_a_step_takes_no_more_rows_than_there_is_room_for(many, monkeypatch):
    """Sides that differ in all places, so that as many insets come at once as may."""
    monkeypatch.setattr(row_layouts, "MOST_SHARE", 1)
    rng = np.random.default_rng(12)
    model = MondrianForestClassifier(1, split_pure=True, seed=3)
    most = 0
    for i in range(600):
        row = rng.normal(size=40) * np.exp(rng.normal(size=40) + i / 300)
        before = int(model._trees.trees.words["insets.n_rows"][0]) if i else 0
        model.learn_one(dict(enumerate(row.tolist())), i % 3)
        most = max(most, int(model._trees.trees.words["insets.n_rows"][0]) - before)
        words = model._trees.trees.words
        assert (words["insets.n_rows"] <= words["insets.capacity"]).all()
    assert most > 2
    check_rows(model)


def test_windows_keep_whole_boxes(many):
    model = MondrianForestClassifier(2, window=60, seed=1)
    learn(model, draw(7, 150, 20))
    forest = model._trees.forest
    assert forest.light_size == 3
    assert forest.most_insets == 0


def test_features_that_come_later_bring_insets(many, monkeypatch):
    """Forests get wide, then light nodes, then insets; places of upper sides move."""
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(200, 24)).round(1)
    widths = [3, 6, 12, 24]
    samples = [
        (dict(enumerate(row[: widths[i // 50]].tolist())), int(row[0] > 0.0))
        for i, row in enumerate(rows)
    ]
    model = MondrianForestClassifier(2, seed=1)
    seen = set()
    for x, y in samples:
        model.learn_one(x, y)
        forest = model._trees.forest
        seen.add((forest.light_size > 0, forest.most_insets > 0))
    assert seen == {(False, False), (True, False), (True, True)}
    monkeypatch.setattr(row_layouts, "LIGHT_SIZES", {})
    twin = MondrianForestClassifier(2, seed=1)
    learn(twin, samples)
    assert_same(model, twin)
    assert check_rows(model)[1] > 5


def test_damaged_insets_are_refused(many):
    model = MODELS["classes"]()
    learn(model, draw(9, 250, 20, lacks=False))
    forest = model._trees.forest
    tree, rows = next(rows_of(model))
    kept = [row for row in rows if row.has_insets(forest)]
    few = next(row for row in kept if row.insets(forest).n >= 2)
    long = next(row for row in kept if row.insets(forest).following != NONE)

    def refuses(match):
        with pytest.raises(ModelFormatError, match=match):
            pickle.loads(pickle.dumps(model))

    places, values = few.insets(forest).places(OWN_INSETS), few.insets(forest).values(OWN_INSETS)
    at_node = r"tree 0, node [0-9]+: its insets is wrong"
    for spans, wrong in ((places, 5_000), (places, -1), (places, places[1]), (values, 1e31)):
        known, spans[0] = spans[0], wrong
        refuses(at_node)
        spans[0] = known
    known, values[0] = values[0], 1e20
    refuses(r"node [0-9]+: (its insets is wrong|cut is)")
    values[0] = known
    for row, wrong in ((few.insets(forest), OWN_INSETS + 1), (few.insets(forest), -2)):
        known, row.n = row.n, wrong
        refuses(r"node [0-9]+: its insets is wrong")
        row.n = known

    def refs(row):
        return int(row.left), int(row.right)

    def is_inset(tree, ref):
        return tree.nodes.row(ref).has_insets(forest)

    own = long.insets(forest)
    known = int(own.following)
    for wrong in (70_000, -5):
        own.following = wrong
        refuses(at_node)
    own.following = NONE
    refuses("tree 0: free_inset is")
    own.following = known
    known, tree.free_inset = int(tree.free_inset), int(own.following)
    refuses("tree 0: free_inset is")
    tree.free_inset = known
    # A row behind that has nothing, and one that is not full before another.
    row = tree.insets.row(own.following)
    for wrong in (0, INSETS + 1):
        n, row.n = row.n, wrong
        refuses(at_node)
        row.n = n
    n, own.n = own.n, OWN_INSETS - 1
    refuses(at_node)
    own.n = n
    whole = next(row for row in rows if row.has_box(forest))
    whole.insets(forest).following = 0
    refuses(at_node)
    whole.insets(forest).following = NONE
    # A cut that does not part what is below it.
    parents = [row for row in rows if row.dim >= 0]
    above = [row for row in parents if any(r >= 0 and is_inset(tree, r) for r in refs(row))]
    for row in above:
        known_cut, row.cut = row.cut, row.cut + 50.0
        refuses("either side of it, within its box")
        row.cut = known_cut - 50.0
        refuses("either side of it, within its box")
        row.cut = known_cut
    # The same row twice.
    other = next(row for row in kept if row.insets(forest).following not in (NONE, own.following))
    known, other.insets(forest).following = int(other.insets(forest).following), own.following
    refuses(at_node)
    other.insets(forest).following = known
    pickle.loads(pickle.dumps(model))
