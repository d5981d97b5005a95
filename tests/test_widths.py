"""Tests of widths of features: start, renewal after changes of units, distribution of trees."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from attack.judging import some
from common import answer, assert_one_law, fed, restored
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import columns as naive
from naive.following import history
from naive.ranges import robust_range

import river_mondrian as rm
from river_mondrian.estimators.merging import divided
from river_mondrian.partitions.mondrian.reading import box_at
from river_mondrian.posteriors.rebuilt.forest import LONG, RECENT

COLORS = ("red", "green", "blue")
GIVEN = [{"a": 1.0, "b": 1.0}, {"a": 1.0, "b": -0.5}, {"c": 2.0}]
EXACT = {"exact": rm.MondrianForestClassifier, "regressor": rm.MondrianForestRegressor}
ADAPTIVE = {
    "adaptive": rm.AdaptiveMondrianForestClassifier,
    "adaptive regressor": rm.AdaptiveMondrianForestRegressor,
}
SETS = {"plain": {}, "categories": {}, "drawn": {"directions": 3}, "given": {"directions": GIVEN}}
# Pairs of kinds and settings; adaptive trees have no directions.
OF_EXACT = [("exact", "plain"), ("regressor", "plain"), ("regressor", "categories")]
OF_EXACT += [("exact", "drawn"), ("regressor", "given")]
KINDS = [*OF_EXACT, ("adaptive", "plain"), ("adaptive regressor", "categories")]
# Pairs whose trees store separate values.
OWN = [("exact", "categories"), *OF_EXACT[2:], *KINDS[-1:]]
kinds = pytest.mark.parametrize("kind, own", KINDS)
exact_kinds = pytest.mark.parametrize("kind, own", OF_EXACT)
plain_kinds = pytest.mark.parametrize("kind", [*EXACT, *ADAPTIVE])


def corner(n, seed=0, stretched=(10.0, 1.0, 0.1), at=300):
    """Return a stream whose features change ranges after `at` samples, and labels."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    y = ((X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)).astype(int)
    X[at:] *= stretched
    return X, y.tolist()


def color_of(row):
    """Return a level that depends on a row's first number."""
    return COLORS[int(abs(row[0]) * 1e4) % 3 if abs(row[0]) < 1e4 else 0]


def samples(X, own="plain", since=0):
    """Yield samples, with a category from row `since` on if `own` has categories."""
    for i, row in enumerate(X.tolist()):
        x = {name: v for name, v in zip("abc", row, strict=True) if not math.isnan(v)}
        if own == "categories" and i >= since:
            x["color"] = color_of(row)
        yield x


def learned(model, X, y, own="plain", since=0):
    return fed(model, zip(samples(X, own, since), y, strict=True))


def make(kind, own="plain", **more):
    made = {"n_estimators": 3, "seed": 1} | SETS[own] | more
    if kind in ADAPTIVE:
        return ADAPTIVE[kind](**{"n_candidates": 3} | made)
    return EXACT[kind](**made)


def answers(model, own="plain"):
    X, _ = corner(20, 5, at=10)
    return [answer(model, x) for x in samples(X, own)]


def is_renewing(model):
    return bool(model._trees.forest.renewal.is_running)


# Distributions of the shapes of trees.


def shapes_of(model, numbers):
    """Return time, dimension and cut of the root, number of nodes and mean depth of each tree."""
    trees, found = model._trees, []
    for t in numbers:
        table = trees.reader.table(t)
        root = [
            trees.reader.column("nodes", name, t)[table.refs[0]] for name in ("delta", "dim", "cut")
        ]
        assert root[1] >= 0
        depths = np.zeros(len(table))
        for inner, left in table.by_depth:
            depths[left] = depths[left + 1] = depths[inner] + 1
        found.append([*root, len(table), depths[table.leaves].mean()])
    return found


# First widths.

FENCE = 100.0


@pytest.mark.covering
@plain_kinds
@pytest.mark.parametrize("missing", ["unknown", "zero"])
def test_first_widths_are_the_twins(kind, missing):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((256, 3)) * [1e6, 1.0, 1.0]
    X[rng.random(X.shape) < 0.2] = math.nan
    X[:, 1] = rng.random(256) < 0.05
    X[:, 2] = 7.0
    # A wild value does not change the width.
    X[16, 0] = 1e12
    model = learned(make(kind, missing=missing), X, (X[:, 1] > 0.0).astype(int).tolist())
    columns = X if missing == "unknown" else np.nan_to_num(X)
    for name, column in zip("abc", columns.T, strict=True):
        low, high = robust_range(column.tolist(), FENCE)
        expected = (high - low) or abs(low) or 1.0
        assert model.widths[name] == pytest.approx(expected, rel=1e-12)


def test_widths_of_models_that_do_not_scale():
    assert rm.MondrianForestClassifier().widths == {}
    for kind in (*EXACT, *ADAPTIVE):
        assert set(learned(make(kind, scale=False), *corner(600)).widths.values()) == {1.0}
    model = fed(rm.MondrianForestClassifier(3, seed=1), [({"a": 5.0, "color": "red"}, 0)])
    assert model.widths == {"a": 5.0, "color": 1.0}


# Times and causes of renewals.


def assert_told(model, told, i):
    """Compare the widths of each tree after sample `i` with the widths of the reference."""
    for t, expected in enumerate(told[i - 255] if i >= 255 else ()):
        widths = model.tree_widths(t)
        assert widths.pop("color", 1.0) == 1.0
        assert list(widths.values()) == pytest.approx(expected, rel=1e-6), (i, t)


@exact_kinds
@pytest.mark.parametrize("n_trees", [1, 3])
def test_trees_have_the_twins_widths_after_each_sample(kind, own, n_trees):
    X, y = corner(1100)
    X[:, 2] *= X[:, 2] > 0.07
    X[np.random.default_rng(1).random(X.shape) < 0.03] = math.nan
    model, told = make(kind, own, n_estimators=n_trees), history(X.tolist(), n_trees)
    assert told[0] != told[-1]
    for i, sample in enumerate(zip(samples(X, own), y, strict=True)):
        model.learn_one(*sample)
        assert_told(model, told, i)


@kinds
def test_nothing_is_drawn_anew_where_widths_hold(kind, own):
    X, y = corner(1500, stretched=(1.3, 0.8, 1.0))
    model, fixed = (make(kind, own, rescale=renews) for renews in (True, False))
    for sample in zip(samples(X, own), y, strict=True):
        model.learn_one(*sample)
        assert not is_renewing(model)
    learned(fixed, X, y, own)
    assert answers(model, own) == answers(fixed, own)
    assert model.widths == fixed.widths == model.tree_widths(0)


@kinds
def test_levels_are_no_numbers_of_which_widths_are_found(kind, own):
    """A category always has width 1, and a late numeric feature has a separate width."""
    X, y = corner(2500, stretched=(10.0, 1.0, 100.0))
    late = [{}] * 320 + [{"late": 50.0 * row[1] if i else 1.0} for i, row in enumerate(X[320:])]
    rows = [x | more for x, more in zip(samples(X, own), late, strict=True)]
    model = fed(make(kind, own), zip(rows, y, strict=True))
    assert not is_renewing(model)
    widths = {"a": 10.0, "b": 1.0, "c": 100.0, "late": 50.0, "color": 1.0}
    assert {"color": 1.0} | model.widths == pytest.approx(widths, rel=0.1)
    assert all(model.tree_widths(t) == model.widths for t in range(model._n_readable))


@plain_kinds
def test_known_ranges_stay(kind):
    ranges = {"a": (0.0, 10.0), "b": (-1.0, 1.0)}
    model = learned(make(kind, ranges=ranges), *corner(900, stretched=(30.0, 1.0, 10.0)))
    assert model.widths == {"a": 10.0, "b": 2.0, "c": pytest.approx(10.0, rel=0.1)}


# The distribution.


@exact_kinds
def test_trees_have_the_law_of_a_batch_under_their_own_widths(kind, own, seed):
    """A renewal is in progress; the tests of one seed have level 1e-3 together."""
    X, y = corner(455, seed, at=280)
    model = learned(make(kind, own, n_estimators=140, seed=seed), X, y, own)
    assert is_renewing(model)
    # Trees with the old and with the new scaling.
    parts = range(60), range(80, 140)
    widths = [[model.tree_widths(t) for t in part] for part in parts]
    assert all(one != other for one, other in zip(*widths, strict=True))
    drawn = [shapes_of(model, part) for part in parts]
    model.resample()
    assert [[model.tree_widths(t) for t in part] for part in parts] == widths
    for part, shapes in zip(parts, drawn, strict=True):
        assert_one_law(shapes, shapes_of(model, part), 1e-3 / 60)


@exact_kinds
def test_renewed_trees_have_the_law_of_trees_that_were_told_the_widths(kind, own, seed):
    """The compared forest has these widths from the start, and another seed."""
    X, y = corner(560, seed, at=280)
    model = learned(make(kind, own, n_estimators=140, seed=seed), X, y, own)
    assert not is_renewing(model) and model.widths["a"] > 5.0
    offsets, factors = model._trees.current_scaling[:, :3]
    ends = zip(offsets.tolist(), (offsets + 1.0 / factors).tolist(), strict=True)
    ranges = dict(zip("abc", ends, strict=True))
    other = make(kind, own, n_estimators=140, seed=99 - seed, ranges=ranges, rescale=False)
    learned(other, X, y, own)
    assert other.widths == pytest.approx(model.widths, rel=1e-12)
    first, second = (shapes_of(one, range(140)) for one in (model, other))
    assert_one_law(first, second, 1e-3 / 30)


# Values that trees cut.


FACTORS, OFFSETS = st.sampled_from([1e-6, 1e-3, 1e3, 1e6]), st.sampled_from([0.0, 1e6])


def wild(seed, factor, offset, missing=0.02):
    """Return a stream with other units, offsets, wild and missing values, and labels."""
    rng = np.random.default_rng(seed)
    X, y = corner(1200, seed, stretched=(factor, 1.0, 1.0 / factor))
    X[:, 0] += offset * factor
    X[1:][rng.random((1199, 3)) < missing] = math.nan
    X[1 + rng.integers(0, 1199, 6), 1] = [1e12, -1e12, 1e30, -1e30, 1e38, 3e38]
    return X, y


@plain_kinds
@given(st.integers(0, 2**20), FACTORS, OFFSETS)
@settings(max_examples=5)
def test_plain_points_have_the_values_of_their_inputs(kind, seed, factor, offset):
    X, y = wild(seed, factor, offset)
    model = learned(make(kind, n_estimators=1), X, y)
    trees = model._trees
    assert not is_renewing(model) and trees.forest.renewal.began_at > 0
    np.testing.assert_array_equal(trees.reader.column("points", "inputs"), X)
    offsets, factors = trees.current_scaling[:, :3]
    expected = np.clip((X - offsets) * factors, -1e30, 1e30).astype(np.float32)
    np.testing.assert_array_equal(values_of(model, trees.reader.slot_of(0)), expected)


def expected_values(model, X, since=0, t=0, means=(0.0, 0.0, 0.0)):
    """Return the reference's values of samples in a tree."""
    trees, names = model._trees, model.feature_names
    scaling = trees.scalings[trees.trees[t].scaling].T[: len(names)].tolist()
    order = ["abc".index(name) if name != "color" else 3 for name in names]
    rows = []
    for i, row in enumerate(X.tolist()):
        values = [*row, color_of(row) if i >= since else math.nan]
        row = [values[place] for place in order]
        if trees.directions is None:
            rows.append(naive.with_levels(row, scaling, int(trees.categories.keys[t])))
        else:
            own = trees.directions.of_tree(t).tolist()
            rows.append(naive.along(row, scaling, [means[place] for place in order], own))
    return np.array(rows)


def values_of(model, t):
    """Return the values of the stored points in a tree."""
    trees = model._trees
    boxes = [box_at(trees.forest, t, ~p) for p in range(trees.n_points)]
    return np.array(boxes)[:, 0, : trees.forest.n_dims]


def assert_values(model, X, since=0, rtol=2.0**-23, atol=0.0):
    """Compare the values that trees cut with the values of the reference."""
    trees = model._trees
    for t in range(trees.n_trees):
        # A slot that is free or being built may have the values of another tree.
        if getattr(trees.trees[t], "role", LONG) not in (LONG, RECENT):
            continue
        expected = expected_values(model, X[: trees.n_points], since, t)
        # A tree of recent samples has only the values of these samples.
        start = trees.schedule.starts[t] if hasattr(trees, "schedule") else 0
        np.testing.assert_allclose(values_of(model, t)[start:], expected[start:], rtol, atol)


@given(st.sampled_from(OWN), st.integers(0, 2**20), FACTORS, OFFSETS)
@settings(max_examples=20)
def test_points_have_the_values_of_their_inputs(which, seed, factor, offset):
    """Inputs are stored unchanged, so values equal a new forest's values after any units."""
    (kind, own), is_sum, start = which, which[1] != "categories", 0
    X, y = wild(seed, factor, offset, missing=0.0 if is_sum else 0.02)
    model = make(kind, own, n_estimators=2)
    for end in (431, 900, 1200):
        learned(model, X[start:end], y[start:end], own)
        # A value is a sum of three products, two of which may cancel.
        size = np.nan_to_num(np.abs(X[:end])).max(axis=0) @ model._trees.scalings[:, 1, :3].T
        assert_values(model, X[:end], atol=2.0**-50 * size.max() * 3.0 if is_sum else 0.0)
        start = end
    assert not is_renewing(model) and model._trees.forest.renewal.began_at > 0


@pytest.mark.parametrize("kind, own", OF_EXACT[-2:])
def test_what_was_missing_counts_as_the_mean_of_when_a_renewal_began(kind, own):
    X, y = corner(700)
    X[1:][np.random.default_rng(2).random((699, 3)) < 0.1] = math.nan
    model, renews = make(kind, own), []
    for sample in zip(samples(X, own), y, strict=True):
        model.learn_one(*sample)
        renews.append(is_renewing(model))
    begun = renews.index(True)
    assert not renews[-1] and begun > 300
    means = np.nanmean(X[:begun], axis=0)
    for t in range(3):
        expected = expected_values(model, X[:begun], 0, t, means)
        np.testing.assert_allclose(values_of(model, t)[:begun], expected, 1e-5, 1e-6)
    # The means that replace later missing values include all samples.
    trees = model._trees
    offsets, factors = trees.current_scaling[:, :3]
    mean = trees.directions.moments[:3, 1] / factors + offsets
    np.testing.assert_allclose(mean, np.nanmean(X, axis=0), 1e-9)
    extremes = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    np.testing.assert_allclose(trees.reader.ranges(), extremes, 1e-9, 1e-9)


# Invariances.


@kinds
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_frames_and_single_samples_learn_the_same(kind, own, n_jobs):
    more = {} if kind in ADAPTIVE else {"n_jobs": n_jobs}
    X, y = corner(1300)
    X[1:][np.random.default_rng(2).random((1299, 3)) < 0.02] = math.nan
    model, rows = learned(make(kind, own, **more), X, y, own), pd.DataFrame(samples(X, own))
    for size in (37, 400):
        of_frames = make(kind, own, **more)
        for first in range(0, len(X), size):
            of_frames.learn_many(rows[first : first + size], y[first : first + size])
        assert answers(of_frames, own) == answers(model, own)
        assert of_frames.widths == model.widths


@kinds
def test_copies_and_files_go_on_alike_at_any_time(kind, own, tmp_path):
    X, y = corner(700)
    model, renews, copies = make(kind, own), set(), {}
    for i, sample in enumerate(zip(samples(X, own), y, strict=True)):
        model.learn_one(*sample)
        renews.add(is_renewing(model))
        if i >= 380 and i % 29 == 0:
            rm.save(model, tmp_path / "model")
            copies[i + 1] = restored(model) if i % 2 else rm.load(tmp_path / "model")
            assert answers(copies[i + 1], own) == answers(model, own)
    assert renews == {False, True}
    for n, copy in copies.items():
        assert answers(learned(copy, X[n:], y[n:], own), own) == answers(model, own)


# Events during a renewal.

EVENTS = {
    "feature": lambda model, x: model.learn_one(x | {"z": 5.0}, 1),
    "features": lambda model, x: model.learn_one(x | {f"z{i}": 5.0 for i in range(9)}, 1),
    "category": lambda model, x: model.learn_one(x | {"shape": "round"}, 1),
    "class": lambda model, x: model.learn_one(x, 2),
    "weight": lambda model, x: model.learn_one(x, 1, 2.5),
    "missing": lambda model, x: model.learn_one({"a": 3.0}, 0),
    "resample": lambda model, x: model.resample(),
    "wild": lambda model, x: model.learn_one(x | {"a": 1e30, "b": -1e30}, 1),
}


# Each event with each kind, at some point during or after a renewal.
MEANWHILE = [
    (event, *which, (395, 440, 480, 505, 900)[(i + j) % 5])
    for i, event in enumerate(EVENTS)
    for j, which in enumerate(KINDS)
    if event != "category" or which[1] not in ("drawn", "given")
]


@pytest.mark.parametrize(("event", "kind", "own", "n"), some(MEANWHILE, 4))
def test_what_may_happen_meanwhile(event, kind, own, n):
    X, y = corner(1200)
    model = learned(make(kind, own), X[:n], y[:n], own)
    assert is_renewing(model) or kind in ADAPTIVE or n >= 505
    EVENTS[event](model, next(samples(X[n:], own)))
    copy = restored(model)
    assert answers(copy, own) == answers(model, own)
    for one in (model, copy):
        learned(one, X[n:], y[n:], own)
    assert answers(copy, own) == answers(model, own)
    assert not is_renewing(restored(model))
    assert model.widths["a"] == pytest.approx(10.0, rel=0.1)
    assert model.widths == model.tree_widths(0)


@pytest.mark.parametrize("kind, own", OWN[:-1])
@pytest.mark.parametrize("window", [None, 300])
def test_samples_are_forgotten_meanwhile(kind, own, window):
    """The values of stored samples match their inputs at any time."""
    X, y = corner(900, at=500)
    stream = list(zip(samples(X, own), y, strict=True))
    model, renews = make(kind, own, window=window), set()
    for i, sample in enumerate(stream):
        model.learn_one(*sample)
        renews.add(is_renewing(model))
        if window is None and i >= 300:
            model.forget_one(*stream[i - 300])
        if i % 41 == 0:
            assert answers(restored(model), own) == answers(model, own)
    assert renews == {False, True}
    assert model.widths["a"] == pytest.approx(10.0, rel=0.1)
    for t in range(3):
        found, expected = values_of(model, t), expected_values(model, X[600:], 0, t)
        found, expected = (one[np.lexsort(one.T)] for one in (found, expected.astype(np.float32)))
        np.testing.assert_allclose(found, expected, 2.0**-22, 2.0**-40 * (own != "categories"))
    for sample in stream[:850:-1]:
        model.forget_one(*sample)
    restored(model)


@exact_kinds
def test_a_forest_that_is_not_full_yet_is_drawn_anew(kind, own):
    X, y = corner(700)
    model, states = make(kind, own, max_nodes=901 if kind == "regressor" else 441), set()
    for i, sample in enumerate(zip(samples(X, own), y, strict=True)):
        model.learn_one(*sample)
        forest = model._trees.forest
        states.add((is_renewing(model), forest.is_full))
        # All samples are stored until the renewal ends.
        assert forest.is_full or forest.n_points == forest.n_samples
        if i % 29 == 0:
            assert answers(restored(model), own) == answers(model, own)
    assert (True, 0) in states and (True, 1) not in states
    assert model.widths == model.tree_widths(0) and model.widths["a"] > 9.0


@exact_kinds
def test_a_full_forest_keeps_its_widths(kind, own):
    X, y = corner(900)
    model, fixed = (make(kind, own, max_nodes=41, rescale=renews) for renews in (True, False))
    assert learned(model, X, y, own).widths == learned(fixed, X, y, own).widths
    assert model.widths["a"] == pytest.approx(1.0, rel=0.1)
    assert answers(restored(model), own) == answers(model, own)


# Large changes of units, the purpose of renewals.


@pytest.mark.covering
@pytest.mark.parametrize("window", [None, 1024])
@pytest.mark.parametrize("factor", [1e-6, 1e-9, 1e-10])
def test_a_unit_that_is_a_billion_times_larger_is_followed(window, factor):
    """Values that differ by less than the old rounding error must not become one common value."""
    model = rm.MondrianForestClassifier(1, window=window, seed=0)
    for i, value in enumerate(np.random.default_rng(0).normal(size=4000).tolist()):
        model.learn_one({"a": value if i < 600 else factor * value}, False)
    # All normal values are within the fences; their range is about 6.5 standard deviations.
    assert 3.0 < model.widths["a"] / factor < 10.0


@pytest.mark.parametrize("start, step", [(1.7e9, 60.0), (1.7e9, 219_000.0), (1e12, 2.0**-12)])
@pytest.mark.parametrize("window", [None, 1440])
def test_times_that_differ_have_values_that_differ(window, start, step):
    """In the window: a day of minutes, ten years, and a large offset with a small range."""
    model = rm.MondrianForestClassifier(2, window=window, seed=0)
    for i in range(4000):
        model.learn_one({"t": start + step * i}, i % 7 == 0)
    times = model._trees.reader.column("points", "inputs")[:, 0]
    for t in range(2):
        values = values_of(model, t)[np.argsort(times), 0]
        assert (np.diff(values) > 0.0).all()


@pytest.mark.parametrize("since", [5, 384, 430, 467, 506, 600])
def test_a_category_may_come_at_any_time(since):
    """A category that comes during a renewal does not change the renewal."""
    X, y = corner(800)
    model, told = make("exact", "categories"), history(X.tolist(), 3)
    for i, sample in enumerate(zip(samples(X, "categories", since), y, strict=True)):
        model.learn_one(*sample)
        assert_told(model, told, i)
        if i in (since, since + 7, 799):
            assert answers(restored(model), "categories") == answers(model, "categories")
            assert_values(model, X[: i + 1], since)
            kept = model._trees.reader.column("points", "inputs")
            places = [model.feature_names.index(name) for name in "abc"]
            np.testing.assert_array_equal(kept[:, places], X[: i + 1])


@pytest.mark.covering
@pytest.mark.parametrize("own", ["categories", "drawn", "given"])
@pytest.mark.parametrize("n", [300, 430, 505])
def test_in_which_columns_trees_have_their_values_does_not_matter(own, n):
    """A part stores values in the order of its trees; a value may also be missing."""
    X, y = corner(640)
    model = learned(make("exact", own), X[:n], y[:n], own)
    (part,) = divided(model, 1)
    asked = [*samples(X[n:], own), {"a": 3.0}, {"b": 0.2, "c": 0.01}]
    if own == "categories":
        asked += [{"a": 0.5, "color": "red"}, {"color": "blue"}]
    for one in (model, part):
        # The earlier content of the row must not be read.
        one._trees.row[:] = 0.25
    assert [answer(part, x) for x in asked] == [answer(model, x) for x in asked]
    frame = pd.DataFrame(asked)
    assert part.predict_proba_many(frame).equals(model.predict_proba_many(frame))
