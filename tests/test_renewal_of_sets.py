"""Widths that are renewed where trees have values of their own: with categories, or directions."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import columns as naive
from naive.following import history
from scipy import stats
from test_renewal import answer, corner, phase_of
from tree_shapes import shape_of

from river_mondrian import (
    AdaptiveMondrianForestClassifier,
    AdaptiveMondrianForestRegressor,
    ModelFormatError,
    MondrianForestClassifier,
    MondrianForestRegressor,
    load,
    save,
)
from river_mondrian.estimators.merging import divided
from river_mondrian.partitions.mondrian.records import DRAWING, SETTLING, STEADY
from river_mondrian.partitions.mondrian.trees import MondrianTrees
from river_mondrian.partitions.mondrian.widths import FollowingTrees
from river_mondrian.posteriors.rebuilt.forest import LONG, RECENT
from river_mondrian.records import ChunkedRows

NAMES = "abc"
COLORS = ("red", "green", "blue")
GIVEN = [{"a": 1.0, "b": 1.0}, {"a": 1.0, "b": -0.5}, {"c": 2.0}]
EXACT = {"exact": MondrianForestClassifier, "regressor": MondrianForestRegressor}
ADAPTIVE = {
    "adaptive": AdaptiveMondrianForestClassifier,
    "adaptive regressor": AdaptiveMondrianForestRegressor,
}
SETS = {"categories": {}, "drawn": {"directions": 3}, "given": {"directions": GIVEN}}
exact_kinds = pytest.mark.parametrize("kind", EXACT)
sets = pytest.mark.parametrize("own", SETS)
# All that there are: adaptive trees have no directions.
KINDS = [(kind, own) for kind in EXACT for own in SETS] + [
    (kind, "categories") for kind in ADAPTIVE
]
kinds = pytest.mark.parametrize("kind, own", KINDS)


def make(kind, own, **more):
    made = {"n_estimators": 3, "seed": 1} | SETS[own] | more
    if kind in ADAPTIVE:
        return ADAPTIVE[kind](**{"n_candidates": 3} | made)
    return EXACT[kind](**made)


def color_of(row):
    """Return a level that follows from a row's first number."""
    return COLORS[int(abs(row[0]) * 1e4) % 3 if abs(row[0]) < 1e4 else 0]


def samples(X, own, since=0):
    """Yield samples, with a category from the row `since` on where there are such."""
    for i, row in enumerate(X.tolist()):
        x = {name: v for name, v in zip("abc", row, strict=True) if not math.isnan(v)}
        if own == "categories" and i >= since:
            x["color"] = color_of(row)
        yield x


def learned(model, own, X, y, since=0):
    for x, label in zip(samples(X, own, since), y, strict=True):
        model.learn_one(x, label)
    return model


def answers(model, own, seed=5):
    X, _ = corner(20, seed, at=10)
    return [answer(model, x) for x in samples(X, own)]


def checked(model):
    """Return a copy that has passed all checks of restored trees."""
    return pickle.loads(pickle.dumps(model))


def shapes_of(model, numbers):
    """Return of some trees the root's time, its dimension and cut, its size and its mean depth."""
    return np.array([shape_of(model._trees, t) for t in numbers])


def assert_one_law(first, second, n_dims, level):
    """Compare roots' times, cuts, dimensions, and numbers and depths of nodes of two samples."""
    for column in (0, 2, 3, 4):
        assert stats.ks_2samp(first[:, column], second[:, column]).pvalue > level / 5
    parts = [np.bincount(one[:, 1].astype(int), minlength=n_dims) for one in (first, second)]
    table = np.array(parts)[:, np.sum(parts, axis=0) > 0]
    if table.shape[1] > 1:
        assert stats.chi2_contingency(table + 1).pvalue > level / 5


# When, and what for.


@exact_kinds
@sets
@pytest.mark.parametrize("n_trees", [1, 3])
def test_trees_have_the_twins_widths_after_each_sample(kind, own, n_trees):
    X, y = corner(1100)
    X[np.random.default_rng(1).random(X.shape) < 0.03] = math.nan
    model = make(kind, own, n_estimators=n_trees)
    told = history(X.tolist(), n_trees)
    assert told[0] != told[-1]
    for i, (x, label) in enumerate(zip(samples(X, own), y, strict=True)):
        model.learn_one(x, label)
        for t in range(n_trees if i >= 255 else 0):
            widths = model.tree_widths(t)
            assert widths.pop("color", 1.0) == 1.0
            expected = told[i - 255][t]
            assert list(widths.values()) == pytest.approx(expected, rel=1e-6), (i, t)


@exact_kinds
@pytest.mark.parametrize("since", [0, 5, 300, 384, 400, 430, 467, 503, 506, 515, 600])
def test_a_category_may_come_at_any_time(kind, since):
    """Also in mid-renewal, of which it changes nothing."""
    X, y = corner(800)
    model, told = make(kind, "categories"), history(X.tolist(), 3)
    for i, (x, label) in enumerate(zip(samples(X, "categories", since), y, strict=True)):
        model.learn_one(x, label)
        for t in range(3 if i >= 255 else 0):
            widths = model.tree_widths(t)
            widths.pop("color", None)
            assert list(widths.values()) == pytest.approx(told[i - 255][t], rel=1e-6), (i, t)
        if i in (since, since + 7, 799):
            copy = checked(model)
            assert answers(copy, "categories") == answers(model, "categories")
            assert_values(model, X[: i + 1], since, 2.0**-22, 2.0**-40)
            kept = model._trees.column("points", "inputs")
            # Of samples before they are known to 48 bits of the widths, which are 10 at most.
            places = [model.feature_names.index(name) for name in NAMES]
            np.testing.assert_allclose(kept[:, places], X[: i + 1], 0.0, 10.0 * 2.0**-47)


@kinds
def test_nothing_is_drawn_anew_where_widths_hold(kind, own):
    X, y = corner(1500, stretched=(1.3, 0.8, 1.0))
    model, fixed = (make(kind, own, rescale=renews) for renews in (True, False))
    for x, label in zip(samples(X, own), y, strict=True):
        model.learn_one(x, label)
        fixed.learn_one(x, label)
        assert phase_of(model) == STEADY
    assert answers(model, own) == answers(fixed, own)
    assert model.widths == fixed.widths == model.tree_widths(0)
    # What inputs take, and a column for the spare tree, and its links and record.
    n_inputs = int(model._trees.forest.input_capacity)
    n_dims = 0 if kind in ADAPTIVE else int(model._trees.forest.dim_capacity)
    more = model._trees.points.row_bytes - fixed._trees.points.row_bytes
    assert more == 8 * n_inputs + 4 * n_dims + 4 * (kind in EXACT)


@kinds
def test_levels_are_no_numbers_of_which_widths_are_found(kind, own):
    """A category stays at width 1 whatever comes, and a late number has one of its own."""
    X, y = corner(2500, stretched=(10.0, 1.0, 100.0))
    model = learned(make(kind, own), own, X[:320], y[:320])
    for i, x in enumerate(samples(X[320:], own)):
        model.learn_one(x | {"late": 50.0 * X[320 + i, 1] if i else 1.0}, y[320 + i])
    assert phase_of(model) == STEADY
    assert model.widths.get("color", 1.0) == 1.0
    for name, width in {"a": 10.0, "b": 1.0, "c": 100.0, "late": 50.0}.items():
        assert model.widths[name] == pytest.approx(width, rel=0.1)
    assert all(model.tree_widths(t) == model.widths for t in range(model._n_readable))


# The law.


@exact_kinds
@sets
@pytest.mark.parametrize("seed", range(3))
def test_trees_have_the_law_of_a_batch_under_their_own_widths(kind, own, seed):
    """In mid-renewal; at a level of 1e-3 for all kinds of a seed."""
    X, y = corner(455, seed, at=280)
    model = learned(make(kind, own, n_estimators=140, seed=seed), own, X, y)
    assert phase_of(model) == DRAWING
    # Of trees in either frame.
    parts = range(60), range(80, 140)
    widths = [[model.tree_widths(t) for t in part] for part in parts]
    assert all(one != other for one, other in zip(*widths, strict=True))
    drawn = [shapes_of(model, part) for part in parts]
    model.resample()
    assert [[model.tree_widths(t) for t in part] for part in parts] == widths
    for part, shapes in zip(parts, drawn, strict=True):
        assert_one_law(shapes, shapes_of(model, part), model._trees.forest.n_dims, 1e-3 / 12)


@exact_kinds
@sets
@pytest.mark.parametrize("seed", range(3))
def test_renewed_trees_have_the_law_of_trees_that_were_told_the_widths(kind, own, seed):
    """Trees that have learned all samples under them, with places and directions of their own."""
    X, y = corner(560, seed, at=280)
    model = learned(make(kind, own, n_estimators=140, seed=seed), own, X, y)
    assert phase_of(model) == STEADY and model.widths["a"] > 5.0
    offsets, factors = model._trees.scaling[:, :3]
    ends = zip(offsets.tolist(), (offsets + 1.0 / factors).tolist(), strict=True)
    ranges = dict(zip("abc", ends, strict=True))
    other = make(kind, own, n_estimators=140, seed=99 - seed, ranges=ranges, rescale=False)
    learned(other, own, X, y)
    assert other.widths == pytest.approx(model.widths, rel=1e-12)
    first, second = (shapes_of(one, range(140)) for one in (model, other))
    assert_one_law(first, second, model._trees.forest.n_dims, 1e-3 / 6)


# What trees cut.


def expected_values(model, X, since, t, means):
    """Return a tree's values of samples by the twin."""
    trees = model._trees
    offsets, factors = trees.frames[trees.trees[t].frame]
    names = model.feature_names
    order = ["abc".index(name) if name != "color" else 3 for name in names]
    scaling = [(offsets[d], factors[d]) for d in range(len(names))]
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


def assert_values(model, X, since=0, rtol=2.0**-23, atol=0.0, means=(0.0, 0.0, 0.0)):
    """Compare what the trees cut of the stored points, which are the rows, with the twin's."""
    trees, n = model._trees, model._trees.n_points
    stored = trees.column("points", "values")
    for t in range(trees.n_trees):
        # A tree that is being built, or none, may have those of another tree.
        if getattr(trees.trees[t], "role", LONG) not in (LONG, RECENT):
            continue
        first = int(trees.trees[t].first_value)
        found = stored[:, first : first + int(trees.forest.n_dims)]
        expected = expected_values(model, X[:n], since, t, means)
        # A tree of recent samples only has no others.
        start = trees.schedule.starts[t] if hasattr(trees, "schedule") else 0
        np.testing.assert_allclose(found[start:], expected[start:], rtol, atol)


@given(
    st.sampled_from(KINDS),
    st.integers(0, 2**20),
    st.sampled_from([1e-6, 1e-3, 1e3, 1e6]),
    st.sampled_from([0.0, 1e6]),
)
@settings(max_examples=20, deadline=None)
def test_points_have_the_values_of_their_inputs(which, seed, factor, offset):
    """As a fresh forest has, whatever units were before: inputs are kept as they are."""
    (kind, own), rng = which, np.random.default_rng(seed)
    X, y = corner(1200, seed, stretched=(factor, 1.0, 1.0 / factor))
    X[:, 0] += offset * factor
    is_sum = own != "categories"
    if not is_sum:
        X[1:][rng.random((len(X) - 1, 3)) < 0.02] = math.nan
    X[1 + rng.integers(0, len(X) - 1, 6), 1] = [1e12, -1e12, 1e30, -1e30, 1e38, 3e38]
    model = make(kind, own, n_estimators=2)
    for i, (x, label) in enumerate(zip(samples(X, own), y, strict=True)):
        model.learn_one(x, label)
        if i in (430, 899, 1199):
            # Sums of three products, of which two may cancel.
            size = np.nan_to_num(np.abs(X[: i + 1])).max(axis=0) @ model._trees.frames[:, 1, :3].T
            atol = 2.0**-50 * size.max() * 3.0 if is_sum else 0.0
            assert_values(model, X[: i + 1], 0, 2.0**-23, atol)
    assert phase_of(model) == STEADY and model._trees.forest.renewed > 0


@exact_kinds
@pytest.mark.parametrize("own", ["drawn", "given"])
def test_what_was_missing_counts_as_the_mean_of_when_a_renewal_began(kind, own):
    X, y = corner(700)
    X[1:][np.random.default_rng(2).random((699, 3)) < 0.1] = math.nan
    model, begun = make(kind, own), 0
    for i, (x, label) in enumerate(zip(samples(X, own), y, strict=True)):
        model.learn_one(x, label)
        if phase_of(model) == DRAWING and not begun:
            begun = i
    assert phase_of(model) == STEADY and begun > 300
    means = np.nanmean(X[:begun], axis=0)
    trees, stored = model._trees, model._trees.column("points", "values")[:begun]
    for t in range(3):
        first = int(trees.trees[t].first_value)
        expected = expected_values(model, X[:begun], 0, t, means)
        np.testing.assert_allclose(stored[:, first : first + 3], expected, 1e-5, 1e-6)
    # What those count as that come then goes on from there.
    told = trees.directions.moments[:3]
    mean = told[:, 1] / trees.scaling[1, :3] + trees.scaling[0, :3]
    np.testing.assert_allclose(mean, np.nanmean(X, axis=0), 1e-9)
    low, high = trees.ranges()
    np.testing.assert_allclose(low, np.nanmin(X, axis=0), atol=1e-9)
    np.testing.assert_allclose(high, np.nanmax(X, axis=0), rtol=1e-9)


# What must not matter.


@kinds
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_frames_and_single_samples_learn_the_same(kind, own, n_jobs):
    more = {} if kind in ADAPTIVE else {"n_jobs": n_jobs}
    X, y = corner(1300)
    X[1:][np.random.default_rng(2).random((1299, 3)) < 0.02] = math.nan
    rows = list(samples(X, own))
    model = make(kind, own, **more)
    for x, label in zip(rows, y, strict=True):
        model.learn_one(x, label)
    for size in (37, 400):
        of_frames = make(kind, own, **more)
        for first in range(0, len(X), size):
            frame = pd.DataFrame(rows[first : first + size])
            of_frames.learn_many(frame, pd.Series(y[first : first + size]))
        assert answers(of_frames, own) == answers(model, own)
        assert of_frames.widths == model.widths


@kinds
def test_copies_and_files_go_on_alike_at_any_time(kind, own, tmp_path):
    X, y = corner(700)
    model, phases, copies = make(kind, own), set(), {}
    rows = list(samples(X, own))
    for i, (x, label) in enumerate(zip(rows, y, strict=True)):
        model.learn_one(x, label)
        phases.add(phase_of(model))
        if i >= 380 and (i % 29 == 0 or phase_of(model) == SETTLING):
            if i % 2:
                copies[i] = checked(model)
            else:
                save(model, tmp_path / "model")
                copies[i] = load(tmp_path / "model")
            assert answers(copies[i], own) == answers(model, own)
    assert phases == {STEADY, DRAWING, SETTLING}
    expected = answers(model, own)
    for i, copy in copies.items():
        for x, label in zip(rows[i + 1 :], y[i + 1 :], strict=True):
            copy.learn_one(x, label)
        assert answers(copy, own) == expected


@kinds
def test_interruptions_do_not_matter(kind, own, monkeypatch):
    """Each method in which a renewal does something fails once before and once after it."""
    X, y = corner(700)
    rows = list(samples(X, own, 430))
    plain = make(kind, own)
    for x, label in zip(rows, y, strict=True):
        plain.learn_one(x, label)
    expected, n_failed = answers(plain, own), 0
    places = [
        (FollowingTrees, "look_at_widths"),
        (FollowingTrees, "_begin_renewal"),
        (FollowingTrees, "_relay"),
        (FollowingTrees, "_put_inputs"),
        (FollowingTrees, "_do_owed"),
        (MondrianTrees, "_reserve_rows"),
        (ChunkedRows, "reserve"),
    ]
    for owner, name in places:
        for fails_after in (False, True):
            model = make(kind, own)
            method, calls = getattr(owner, name), [0]

            def failing(*args, calls=calls, method=method, fails_after=fails_after, **named):
                calls[0] += 1
                # More and more calls lie between, so that each sample is learned in the end.
                fails = math.isqrt(8 * calls[0] + 1) ** 2 == 8 * calls[0] + 1
                if fails and not fails_after:
                    raise MemoryError
                found = method(*args, **named)
                if fails:
                    raise MemoryError
                return found

            for i, (x, label) in enumerate(zip(rows, y, strict=True)):
                if i >= 300:
                    monkeypatch.setattr(owner, name, failing)
                while model.n_samples == i:
                    try:
                        model.learn_one(x, label)
                    except MemoryError:
                        n_failed += 1
                monkeypatch.setattr(owner, name, method)
            assert model.n_samples == len(y)
            assert answers(model, own) == expected, (name, fails_after)
    assert n_failed > 20


@sets
@pytest.mark.parametrize("n", [300, 430, 480, 505, 600])
def test_in_which_columns_trees_have_their_values_does_not_matter(own, n):
    """A part of a forest has them in the order of the trees; also where a value is missing."""
    X, y = corner(640)
    model = learned(make("exact", own), own, X[:n], y[:n])
    (part,) = divided(model, 1)
    asked = [*samples(X[n:], own), {"a": 3.0}, {"b": 0.2, "c": 0.01}]
    if own == "categories":
        asked += [{"a": 0.5, "color": "red"}, {"color": "blue"}]
    for one in (model, part):
        # What was there before is not to be read.
        one._trees.row[:] = 0.25
    assert [answer(part, x) for x in asked] == [answer(model, x) for x in asked]
    frame = pd.DataFrame(asked)
    assert part.predict_proba_many(frame).equals(model.predict_proba_many(frame))


# What may happen meanwhile.

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


@kinds
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("n", [395, 440, 480, 505])
def test_what_may_happen_meanwhile(kind, own, event, n):
    if event == "category" and own != "categories":
        pytest.skip("directions are of numbers")
    X, y = corner(1000)
    model = learned(make(kind, own), own, X[:n], y[:n])
    assert phase_of(model) != STEADY or kind in ADAPTIVE
    EVENTS[event](model, next(samples(X[n:], own)))
    copy = checked(model)
    assert answers(copy, own) == answers(model, own)
    for one in (model, copy):
        learned(one, own, X[n:], y[n:])
    assert answers(copy, own) == answers(model, own)
    assert phase_of(checked(model)) == STEADY
    assert model.widths["a"] == pytest.approx(10.0, rel=0.1)
    assert model.widths == model.tree_widths(0)


@exact_kinds
@sets
@pytest.mark.parametrize("window", [None, 300])
def test_samples_are_forgotten_meanwhile(kind, own, window):
    """Those that trees hold have the values of their inputs at any moment."""
    X, y = corner(900, at=500)
    rows = list(samples(X, own))
    model, phases = make(kind, own, window=window), set()
    for i, (x, label) in enumerate(zip(rows, y, strict=True)):
        model.learn_one(x, label)
        phases.add(phase_of(model))
        if window is None and i >= 300:
            model.forget_one(rows[i - 300], y[i - 300])
        if i % 41 == 0:
            assert answers(checked(model), own) == answers(model, own)
    assert phases == {STEADY, DRAWING, SETTLING}
    assert model.widths["a"] == pytest.approx(10.0, rel=0.1)
    trees, stored = model._trees, model._trees.column("points", "values")
    held = X[600 + (window is None) * (900 - 600 - model._trees.n_points) :]
    for t in range(3):
        first = int(trees.trees[t].first_value)
        found = stored[:, first : first + int(trees.forest.n_dims)]
        expected = expected_values(model, held, 0, t, (0.0, 0.0, 0.0)).astype(np.float32)
        found, expected = (one[np.lexsort(one.T)] for one in (found, expected))
        np.testing.assert_allclose(found, expected, 2.0**-22, 2.0**-40)
    for i in range(899, 850, -1):
        model.forget_one(rows[i], y[i])
    checked(model)


# What is damaged.


def damaged_inputs(model):
    trees = model._trees
    trees.forest.inputs_in(trees.forest.points.row(9))[0] = math.inf


def damaged_level(model):
    trees = model._trees
    place = model.feature_names.index("color")
    trees.forest.inputs_in(trees.forest.points.row(9))[place] = 3.0


DAMAGES = {
    "inputs is inf": damaged_inputs,
    "first_value is": lambda model: setattr(model._trees.trees[1], "first_value", 0),
    "frame is": lambda model: setattr(model._trees.trees[2], "frame", 1),
    "keeps_inputs is False": lambda model: setattr(model._trees, "keeps_inputs", False),
    "inputs is 3.0": damaged_level,
    "means": lambda model: model._trees.directions.means.fill(math.nan),
}


@sets
@pytest.mark.parametrize("text", DAMAGES)
def test_damaged_forests_are_refused(own, text):
    if (text == "means" and own == "categories") or (own != "categories" and "3.0" in text):
        pytest.skip("there are none")
    X, y = corner(300)
    model = learned(make("exact", own), own, X, y)
    if own == "given" and text == "first_value is":
        model._trees.trees[1].first_value = 3
    else:
        DAMAGES[text](model)
    with pytest.raises(ModelFormatError, match=text if "keeps" not in text else "rows|keeps"):
        checked(model)


@exact_kinds
@sets
def test_a_forest_that_is_not_full_yet_is_drawn_anew(kind, own):
    X, y = corner(700)
    n_nodes = 2 * 450 + 1 if kind == "regressor" else 2 * 220 + 1
    model, phases = make(kind, own, max_nodes=n_nodes), []
    for i, (x, label) in enumerate(zip(samples(X, own), y, strict=True)):
        model.learn_one(x, label)
        forest = model._trees.forest
        phases.append((forest.phase, forest.is_full))
        # All samples are stored until the renewal is over.
        assert forest.is_full or forest.n_points == forest.n_samples
        if i % 29 == 0:
            assert answers(checked(model), own) == answers(model, own)
    assert (DRAWING, 0) in phases
    assert not {(DRAWING, 1), (SETTLING, 1)} & set(phases)
    assert model.widths["a"] == pytest.approx(10.0, rel=0.1)
    assert model.widths == model.tree_widths(0)
