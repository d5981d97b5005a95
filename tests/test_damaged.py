"""Tests that damaged models are not restored, and that the error names the damage."""

import math
import pickle
from functools import partial

import numpy as np
import pytest
import scipy
from attack import swaps
from attack.bitflips import attack
from common import answers, fed, raises, refused, restored, stream
from stored_models import IN_GOLDEN, MODELS, learned

import river_mondrian as rm
from river_mondrian.learners.experts import Mixture
from river_mondrian.learners.gradient_descent.weights import WORD_ARRAYS
from river_mondrian.learners.regression.mixing import TargetMixture
from river_mondrian.learners.regression.ridges import RidgeExperts
from river_mondrian.partitions.voronoi.diagrams import TRIALS


def trees_of(model):
    return model._trees if hasattr(model, "_trees") else model._features._map.trees


def forest(model):
    return trees_of(model).forest


def tree(model):
    return trees_of(model).trees[0]


def node_that(fits, t=0):
    """Return a function that finds the first row of a tree for which `fits` is true."""

    def find(model):
        nodes = trees_of(model).trees[t].nodes
        return next(filter(fits, (nodes.row(j) for j in range(nodes.n_rows))))

    return find


def is_leaf(node):
    return node.dim < 0 and node.n_samples > 2


inner = node_that(lambda node: node.dim >= 0 and node.left >= 0)
leaf = node_that(is_leaf)


def put(find, **values):
    """Return a function that damages a model by setting fields of a record."""

    def damage(model):
        for name, value in values.items():
            setattr(find(model), name, value)

    return damage


def both_to_left(model):
    inner(model).right = inner(model).left


def small_box(model):
    leaf(model).lower(forest(model), tree(model)).view().fill(-9.0)


def link_back(model):
    p = node_that(is_leaf, 1)(model).first_point
    forest(model).links_of(p)[1] = p


def start_late(model):
    schedule = trees_of(model).schedule
    trees_of(model).schedule = schedule._replace(starts=(7, *schedule.starts[1:]))


def scheduled(**values):
    """Return a function that damages a model by setting fields of the schedule."""

    def damage(model):
        owner = trees_of(model)
        owner.schedule = owner.schedule._replace(**values)

    return damage


def region(model):
    assert tree(model).root == 0
    return forest(model).regions.row(0)


def link_more(model):
    forest(model).samples.row(0).links(forest(model))[0] += 1


def fewer_features(model):
    model._features = model._features.first(len(model._features) - 1)


def number(find, place, value):
    """Return a function that damages a model by setting a number in an array."""
    return lambda model: find(model).__setitem__(place, value)


def point(model):
    return forest(model).points.row(17)


def inputs(model):
    return forest(model).inputs_in(point(model))


def watch(model):
    return trees_of(model).watch


def sizes(model):
    return watch(model).learned["sizes"]


def fewer_totals(model):
    learned = watch(model).learned
    learned["totals"] = learned["totals"][:-1]


def second_tree(model):
    return trees_of(model).trees[1]


def whole(model):
    return model


def arrival(model):
    return forest(model).arrivals.row(3)


def other_map(model):
    model._map = learned("isolation", 40)._map


def unfinished_map(model):
    found = model._map
    found.points = scipy.sparse.csr_matrix((found.record.n_points, 2))
    found.trials = np.zeros((TRIALS, 2))


def add_words(model):
    weights = model._current
    arrays = {name: np.zeros(0, kind) for name, kind in WORD_ARRAYS.items()}
    arrays["column_squares"] = np.zeros(weights.compiled.n_columns)
    weights.has_words = True
    weights._bind_words(arrays)


NODES = r"tree 0, nodes? \d+ (is damaged: |.*)"
# The error names one of two references to a row, or one of the counts that do not add up.
EITHER, SUM = NODES + "(left|right) is", NODES + "(n_samples|dim) is"
INNER = [
    (put(inner, left=40_000), EITHER),
    (put(inner, left=0), EITHER),
    (both_to_left, EITHER),
    (put(inner, n_samples=3), SUM),
    (put(inner, cut=np.inf), NODES + "cut is inf"),
    (put(inner, delta=np.inf), NODES + "delta is inf"),
    (put(inner, dim=2), NODES + "dim is 2, not from -4 to 1"),
]
LEAVES = [
    (put(leaf, first_point=40_000), NODES + "first_point is 40000"),
    (put(leaf, n_samples=10_000), NODES + "n_samples is"),
    (small_box, NODES + "its box"),
]
ORDER = "order.*(arrival|newer)"
WINDOW = [
    (put(arrival, older=9), ORDER),
    (put(arrival, newer=3), ORDER),
    (put(forest, last_arrival=3), ORDER),
    (put(tree, free_row=0), "tree 0.*free_row"),
]
WEIGHTS = [
    (put(point, weight=weight), f"point 17 is damaged: weight is {text}")
    for weight, text in ((math.nan, "nan"), (0.0, "0"), (-1.0, "-1"), (1e31, "(9.9|1e)"))
]
LINK = r"tree 1, points (\d+) is damaged: link is \1, which is no row of points, or one"
COLUMNS = r"the trees have \d features and categories at .*, but \d and"
# Damages and their errors, by kind of model and number of learned samples.
DAMAGES = {
    ("classifier", 300): [
        *INNER,
        *LEAVES,
        (link_back, LINK),
        (put(point, label=7), "point 17 is damaged: label is 7, not from 0 to 1"),
        (number(lambda model: model._labels, 1, 5), r"_labels\[1\] is 5, but it should be 1"),
        (number(lambda model: model._features.names, 1, "a"), "but each should occur once"),
        (fewer_features, COLUMNS),
        (put(whole, n_estimators=-3), "n_estimators must be an integer >= 1, got -3"),
        (put(forest, absent=0.0), "absent"),
    ],
    ("classifier, levels", 40): [
        (put(lambda model: model._features, categories=frozenset({"color"})), "categories"),
        (number(lambda model: trees_of(model).categories.flags, 0, 7), "flags"),
        (number(inputs, 2, 3.0), "inputs is 3.0"),
        (put(lambda model: trees_of(model).trees[2], scaling=1), "scaling is"),
    ],
    ("classifier, given directions", 300): [
        (number(inputs, 0, math.inf), "inputs is inf"),
        (put(second_tree, first_value=3), "first_value is"),
    ],
    ("classifier, oblique", 300): [
        (put(second_tree, first_value=0), "first_value is"),
        (number(lambda model: trees_of(model).directions.means, 0, math.nan), "means"),
    ],
    ("classifier, weights", 40): WEIGHTS,
    ("adaptive, weights", 40): WEIGHTS,
    ("adaptive regressor", 40): [
        (put(tree, extends=2), "extends is 2, not from 0 to 1"),
        (put(trees_of, mixture=TargetMixture(3)), "n_experts is 3"),
        (put(trees_of, first_mixture=TargetMixture(2)), "n_experts is 2"),
        (put(lambda model: trees_of(model).ridges.designs[0], n_linear=3), "n_linear is 3"),
    ],
    ("adaptive, ADWIN", 1100): [
        (scheduled(first=95), "first is 95, but it should be from 96 to 1100")
    ],
    ("regressor", 300): INNER,
    ("regressor, normal", 300): LEAVES,
    ("adaptive", 300): [
        *INNER,
        *LEAVES,
        (put(tree, queue=5_000), "tree 0, tree 0 is damaged: queue is 5000, which is no row"),
        (put(forest, is_weighted=2), "is_weighted is 2, not from 0 to 1"),
        (start_late, "tree 0 is damaged: n_samples of its root is"),
        (scheduled(max_samples=1), "max_samples is 1, but it should be from 512 to 50000"),
        (scheduled(max_samples=50_001), "max_samples is 50001, but it should be from 512 to 50000"),
        (number(sizes, 3, 7), "sizes"),
        (number(sizes, 3, -1), "sizes"),
        (number(sizes, -1, 1), "sizes"),
        (put(lambda model: watch(model).record, clock=0), "clock"),
        (put(lambda model: watch(model).record, width=1e9), "sizes"),
        (put(lambda model: watch(model).record, max_buckets=100), "the shape of totals"),
        (put(lambda model: watch(model).record, detector=3), "detector"),
        (fewer_totals, "totals"),
        (put(whole, _fed=(1, 0, 1)), "_fed"),
        (put(trees_of, drifts=((1, "2"),)), "drifts"),
        (put(trees_of, drifts=3), "drifts"),
        (put(trees_of, mixture=Mixture(3)), "n_experts is 4"),
    ],
    ("classifier, window", 300): [*WINDOW, (put(leaf, list_end=40_000), NODES + "its box")],
    ("regressor, window", 300): WINDOW,
    ("density, mixed", 100): [
        (put(region, first=10_000), "first is 10000, which is no row of regions"),
        (put(region, first=0), "which is no row of regions, or one that is referred to"),
        (put(region, next=1), "which is no row of regions|never cut off"),
        (put(region, time=np.nan), "never cut off"),
        (put(region, pivot=10_000), "pivots.* is 10000"),
        (put(region, n_samples=3), "n_samples is 20"),
        (link_more, "since its number of uses differs"),
        (put(forest, renews_at=7), "renews_at is 7, but it should be from 100"),
    ],
    ("density, mixed", 15): [
        (put(forest, unused_region=1), "n_unused_regions"),
        (put(forest, n_unused_samples=1), "but counts of queued or unused samples differ"),
        (put(forest, oldest=-1), "but counts of queued or unused samples differ"),
        (put(forest, n_usual=-1), "n_usual is -1"),
        (put(forest, renews_at=14), "renews_at is 14, but it should be from 15"),
    ],
    ("density", 40): [
        (put(forest, renews_at=64), "renews_at is 64, but trees like these are never renewed")
    ],
    ("isolation, trees", 120): [
        (number(lambda model: model._map.nodes, (1, 0, 2), 0), "child 0 is 0, which is neither a")
    ],
    ("nearest neighbors", 40): [
        (number(lambda model: model._table.learned["given_rates"], 0, math.inf), "given_rates"),
        (number(lambda model: model._table.held, (0, 1, 3), -math.inf), "held is "),
    ],
    ("isolation", 40): [(unfinished_map, "a map is .*, but it is unfinished")],
    ("fourier", 40): [(other_map, "a map is .*, but it is unfinished, or of another kind")],
    ("ogd, ovr", 300): [(add_words, "but words need a map that reads texts")],
    ("mondrian", 40): [
        (number(lambda model: model._map.trees.lifetimes, 1, np.nan), "should ascend from 0 on")
    ],
    ("binning", 70): [
        (number(lambda model: model._map.table, (..., 2), 1), "the number of used slots is 256")
    ],
    ("ogd", 300): [
        *INNER,
        (number(lambda m: m._current.memory.arrays["slots"], 3, 9999), r"slots\[3\] is 9999"),
    ],
    ("ridge, window", 70): [(put(whole, window=21), "window is 21, but it holds 25")],
    ("alarms", 200): [
        (put(whole, _alarms=(((3,), 1, 0, ""),)), "_alarms"),
        # An incident without an answer.
        (put(whole, _alarms=(((3, 1, 1.0, (), {}, {}, {}), 1, 0),)), "_alarms"),
        (put(whole, window=50), "window"),
        (put(whole, window=101), r"_table is \(2, 100, .* parameters are \(2, 101"),
        (put(whole, threshold=0.5), "_table is .* but the parameters are"),
        (put(lambda model: model._table, means=np.zeros((2, 7))), "means"),
        (put(lambda model: model._table, excesses=np.zeros(3)), "excesses"),
        (put(lambda model: model._table, parts=np.zeros((1, 2, 9))), "parts"),
        (put(lambda model: model._table, dismissed=np.zeros((5, 2))), "dismissed"),
        (put(lambda model: model._table, n_values=np.zeros(9, np.int64)), "n_values"),
    ],
    ("ridge", 70): [
        (number(lambda m: m._current.numbers.learned["slots"], 3, 9999), r"slots\[3\] is 9")
    ],
}


@pytest.mark.parametrize(
    ("kind", "damage", "text"), [(kind, *row) for kind, rows in DAMAGES.items() for row in rows]
)
def test_damage_is_refused(kind, damage, text):
    model = learned(*kind)
    damage(model)
    refused(model, text)


# A model with these values could not have been pickled.
STATES = [
    ("adaptive", whole, "_fed", (), "_fed"),
    ("adaptive", whole, "_trees", "trees", "_trees"),
    ("adaptive", trees_of, "watch", None, "watch"),
    ("adaptive regressor", trees_of, "ridges", RidgeExperts(), "RidgeExperts.* room is 0"),
]


@pytest.mark.parametrize(("kind", "find", "name", "value", "text"), STATES)
def test_a_damaged_state_is_refused(kind, find, name, value, text):
    owner = find(learned(kind, 30))
    state = owner.__getstate__() | {name: value}
    raises(rm.ModelFormatError, text, lambda: object.__new__(type(owner)).__setstate__(state))


def test_slots_have_one_dimension():
    weights = learned("ogd", 70)._current
    for slots in (np.array(0, np.int32), np.zeros((2, 3), np.int32)):
        made = object.__new__(type(weights))
        with pytest.raises(rm.ModelFormatError, match="the shape of slots is"):
            made.__setstate__(weights.__getstate__() | {"slots": slots})


AT_ANY_MOMENT = ["classifier, bounded", "regressor", "adaptive", "ogd, lifetimes", "density, mixed"]


@pytest.mark.parametrize("name", AT_ANY_MOMENT)
def test_models_at_any_moment_are_restored(name):
    model = MODELS[name]()
    for i, sample in enumerate(stream(600)):
        fed(model, [sample])
        # Mixed densities are renewed after 16, 64 and 256 samples.
        if i % 23 == 0 or i + 1 in (15, 16, 17, 64, 255, 256, 257):
            assert answers(restored(model)) == answers(model)


def test_a_pickle_without_a_checksum_is_of_what_only_others_store():
    model = rm.DensityForest(2, lifetime=lambda n: n**0.25, seed=1)
    fed(model, stream(30))
    raises((AttributeError, pickle.PicklingError), None, partial(pickle.dumps, model))
    assert len(model.__reduce_ex__(2)) == 3
    model.lifetime = 1.0
    _, (kind, content, checksum) = model.__reduce_ex__(2)
    damaged = bytearray(content)
    damaged[len(damaged) // 2] ^= 1
    with pytest.raises(rm.ModelFormatError, match="DensityForest is damaged: its checksum"):
        model.__reduce_ex__(2)[0](kind, bytes(damaged), checksum)


# Number of flipped bits per class in the suite; `python tests/attack/bitflips.py` flips 2,000.
FLIPS = 6


@pytest.mark.parametrize("name", [*IN_GOLDEN, "classifier, window", "regressor, window"])
def test_forged_files_never_crash_nor_hang(name):
    counts, bad = attack(name, 2 * FLIPS, is_file=True)
    assert sum(counts.values()) == 2 * FLIPS
    assert not bad


@pytest.mark.parametrize("name", IN_GOLDEN)
def test_exchanged_parts_never_crash_nor_hang(name):
    counts, bad = swaps.attack(name, 2 * FLIPS)
    assert sum(counts.values()) == 4 * FLIPS
    assert not bad


@pytest.mark.parametrize("name", IN_GOLDEN)
def test_flipped_bits_never_crash_nor_hang(name):
    counts, bad = attack(name, FLIPS)
    assert sum(counts.values()) == FLIPS
    assert not bad


@pytest.mark.parametrize("name, value", [("key", 7), ("horizon", 4.0), ("rates", 0.0)])
def test_densities_with_other_cuts_get_the_regions_that_they_count(name, value):
    model = learned("density, origin", 40)
    if name == "rates":
        forest(model).rates[0] = value
    else:
        setattr(tree(model), name, value)
    regions = forest(model).regions
    for x, _ in stream(30, 5):
        n_before = regions.n_rows
        model.learn_one(x)
        assert regions.n_rows - n_before == forest(model).n_missing


def test_weights_in_a_damaged_model_without_weights_are_learned():
    model = learned("adaptive", 40)
    for j in range(40):
        forest(model).points.row(j).weight = 3.0
    assert fed(model, stream(400, 5)).predict_proba_one({"a": 0.0, "b": 0.0})
