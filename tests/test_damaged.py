"""Damaged models are refused when they are restored, with an error that names the place."""

import pickle

import numpy as np
import pytest
from attack.bitflips import attack, forge
from common import refused
from stored_models import IN_GOLDEN, MODELS, answers, learn, learned, stream
from test_files import rewritten

import river_mondrian as rm


def trees_of(model):
    return model._trees if hasattr(model, "_trees") else model._features._map.trees


def inner(trees, t=0):
    """Return the first row of a tree that is an internal node above another row."""
    tree = trees.trees[t]
    for j in range(tree.nodes.n_rows):
        node = tree.nodes.row(j)
        if node.dim >= 0 and node.left >= 0:
            return j, node
    raise AssertionError("no such node")


def leaf(trees, t=0):
    tree = trees.trees[t]
    for j in range(tree.nodes.n_rows):
        node = tree.nodes.row(j)
        if node.dim < 0 and node.n_samples > 2:
            return j, node
    raise AssertionError("no such leaf")


def put(name, value):
    return lambda node: setattr(node, name, value)


INNER = {
    "left is 40000, which is no row of nodes, or one": put("left", 40_000),
    "left is 0, which is no row": put("left", 0),
    "right is .* or one that is referred to from elsewhere": lambda node: setattr(
        node, "right", node.left
    ),
    "n_samples is .*, not what is below": lambda node: setattr(node, "n_samples", 3),
    "cut is inf": put("cut", np.inf),
    "dim is 2, not from -4 to 1": put("dim", 2),
}


@pytest.mark.parametrize("name", ["classifier", "regressor", "adaptive", "ogd"])
@pytest.mark.parametrize("text", INNER)
def test_damaged_nodes(name, text):
    model = learned(name, 300)
    j, node = inner(trees_of(model))
    INNER[text](node)
    # The error names either of two references to one row, or of numbers that do not add up.
    either = "left|right" if "row" in text or "elsewhere" in text else "n_samples|dim"
    refused(model, f"tree 0, nodes? {j} .*{text}|tree 0, nodes? [0-9]+ .*({either}) is")


@pytest.mark.parametrize("name", ["classifier, window", "regressor, window"])
def test_damaged_orders_of_arrival_and_free_rows(name):
    model = learned(name, 300)
    trees = trees_of(model)
    forest, tree = trees.forest, trees.trees[0]
    arrival = forest.arrivals.row(3)
    older, newer, free, last = arrival.older, arrival.newer, tree.free_row, forest.last_arrival
    for change, back, text in (
        (lambda: setattr(arrival, "older", 9), lambda: setattr(arrival, "older", older), "order"),
        (lambda: setattr(arrival, "newer", 3), lambda: setattr(arrival, "newer", newer), "order"),
        (
            lambda: setattr(forest, "last_arrival", 3),
            lambda: setattr(forest, "last_arrival", last),
            "order",
        ),
        (lambda: setattr(tree, "free_row", 0), lambda: setattr(tree, "free_row", free), "tree 0"),
    ):
        change()
        refused(model, f"{text}.*(arrival|newer|free_row)")
        back()
    pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("name", ["classifier", "regressor, normal", "adaptive"])
def test_damaged_leaves(name):
    model = learned(name, 300)
    trees = trees_of(model)
    _, node = leaf(trees)
    p = node.first_point
    for change, back, text in (
        (put("first_point", 40_000), put("first_point", p), "first_point is 40000"),
        (put("n_samples", 10_000), put("n_samples", node.n_samples), "n_samples is"),
        (lambda n: n.lower(trees.forest, trees.trees[0]).view().fill(-9.0), None, "its box"),
    ):
        change(node)
        refused(model, f"tree 0, nodes? [0-9]+ is damaged: {text}")
        if back is not None:
            back(node)


def test_lists_of_points_that_come_back():
    model = learned("classifier", 300)
    trees = trees_of(model)
    _, node = leaf(trees, 1)
    p = node.first_point
    trees.forest.links_of(p)[1] = p
    refused(model, f"tree 1, points {p} is damaged: link is {p}, which is no row of points, or one")


def test_damaged_ends_of_lists():
    model = learned("classifier, window", 300)
    j, node = leaf(trees_of(model))
    node.list_end = 40_000
    refused(model, f"tree 0, node {j} is damaged: its box")


def test_damaged_points_and_queues():
    model = learned("classifier", 300)
    trees_of(model).forest.points.row(17).label = 7
    refused(model, "point 17 is damaged: label is 7, not from 0 to 1")
    model = learned("adaptive", 300)
    trees_of(model).trees[0].queue = 5_000
    refused(model, "tree 0, tree 0 is damaged: queue is 5000, which is no row of nodes")
    model = learned("adaptive", 300)
    trees = trees_of(model)
    trees.schedule = trees.schedule._replace(starts=(7, *trees.schedule.starts[1:]))
    refused(model, "tree 0 is damaged: n_samples of its root is")


def test_damaged_regions():
    for field, value, text in (
        ("first", 10_000, "first is 10000, which is no row of regions"),
        ("first", 0, "which is no row of regions, or one that is referred to"),
        ("next", 1, "which is no row of regions|never cut off"),
        ("time", np.nan, "never cut off"),
        ("pivot", 10_000, "pivots.* is 10000"),
        ("n_samples", 3, "n_samples is 20"),
    ):
        model = learned("density, mixed", 100)
        trees = model._trees
        row = trees.trees[0].root
        assert row == 0
        setattr(trees.forest.regions.row(row), field, value)
        refused(model, text)
    for field, value, text in (
        ("unused_region", 1, "n_unused_regions"),
        ("n_unused_samples", 1, "or other samples are not in use"),
        ("oldest", -1, "or other samples are not in use"),
        ("n_usual", -1, "n_usual is -1"),
    ):
        model = learned("density, mixed", 15)
        setattr(model._trees.forest, field, value)
        refused(model, text)
    model = learned("density, mixed", 100)
    model._trees.forest.samples.row(0).links(model._trees.forest)[0] += 1
    refused(model, "since it is in use more or less often")


def test_damaged_renewals_of_rates():
    for name, n, value, text in (
        ("density, mixed", 40, 39, "renews_at is 39, but it should be from 40"),
        ("density, mixed", 300, 7, "renews_at is 7, but it should be from 300"),
        ("density", 40, 64, "renews_at is 64, but trees like these are never renewed"),
    ):
        model = learned(name, n)
        model._trees.forest.renews_at = value
        refused(model, text)
    for n in (15, 16, 17, 64, 255, 256, 257):
        pickle.loads(pickle.dumps(learned("density, mixed", n)))


def test_damaged_isolation_trees():
    model = learned("isolation, trees", 70)
    model._map.nodes[1, 0, 2] = 0
    refused(model, "tree 1, node 0: child 0 is 0, which is neither a node nor a cell")


def test_damaged_tables_of_cells():
    model = learned("binning", 70)
    model._map.table[:, 2] = 1
    refused(model, "the number of used slots is 256")


def test_damaged_slots():
    model = learned("ogd", 70)
    model._current.memory.arrays["slots"][3] = 9999
    refused(model, r"slots\[3\] is 9999")
    model = learned("ridge", 70)
    model._current.numbers.learned["slots"][3] = 9999
    refused(model, r"slots\[3\] is 9999")


def test_slots_have_one_dimension():
    weights = learned("ogd", 70)._current
    for slots in (np.array(0, np.int32), np.zeros((2, 3), np.int32)):
        made = object.__new__(type(weights))
        with pytest.raises(rm.ModelFormatError, match="the shape of slots is"):
            made.__setstate__(weights.__getstate__() | {"slots": slots})


def test_damaged_labels_and_names():
    model = learned("classifier", 70)
    model._labels[1] = 5
    refused(model, r"_labels\[1\] is 5, but it should be 1")
    model = learned("classifier", 70)
    model._features.names[1] = "a"
    refused(model, "but each is there once")
    model = learned("regressor", 70)
    model.n_estimators = -3
    refused(model, "n_estimators must be an integer >= 1, got -3")


def test_files_with_a_damaged_content(tmp_path):
    path = tmp_path / "model.safetensors"
    rm.save(learned("classifier", 70), path)

    def change(arrays, metadata, tree):
        left = arrays["model/_trees/nodes/left"].copy()
        left[left >= 0] = 40_000
        arrays["model/_trees/nodes/left"] = left

    rewritten(path, change)
    with pytest.raises(rm.ModelFormatError, match=r"tree 0, nodes \d+ is damaged: left is 40000"):
        rm.load(path)


def test_models_at_any_moment_are_restored():
    for name in ("classifier, bounded", "regressor", "adaptive", "ogd, auto", "density, mixed"):
        model = MODELS[name]()
        for i, sample in enumerate(stream(600)):
            learn(model, [sample])
            if i % 23 == 0:
                again = pickle.loads(pickle.dumps(model))
        assert answers(again) == answers(pickle.loads(pickle.dumps(again)))


def test_a_pickle_without_a_checksum_is_of_what_only_others_store():
    model = rm.DensityForest(2, lifetime=lambda n: n**0.25, seed=1)
    learn(model, stream(30))
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(model)
    assert len(model.__reduce_ex__(2)) == 3
    model.lifetime = 1.0
    _, (kind, content, checksum) = model.__reduce_ex__(2)
    damaged = bytearray(content)
    damaged[len(damaged) // 2] ^= 1
    with pytest.raises(rm.ModelFormatError, match="DensityForest is damaged: its checksum"):
        model.__reduce_ex__(2)[0](kind, bytes(damaged), checksum)


# Flips of the suite for each class; `python tests/attack/bitflips.py` makes 2,000.
FLIPS = 6


@pytest.mark.parametrize("name", [*IN_GOLDEN, "classifier, window", "regressor, window"])
def test_forged_files_never_crash_nor_hang(name):
    counts, bad = forge(name, 2 * FLIPS)
    assert sum(counts.values()) == 2 * FLIPS
    assert not bad


@pytest.mark.parametrize("name", IN_GOLDEN)
def test_flipped_bits_never_crash_nor_hang(name):
    counts, bad = attack(name, FLIPS)
    assert sum(counts.values()) == FLIPS
    assert not bad


def test_features_of_trees_are_those_that_are_named():
    model = learned("classifier", 70)
    n = len(model._features)
    model._features.keep_first(n - 1)
    refused(model, rf"the trees have {n} features and categories at .*, but {n - 1} and")
