"""Widths that are renewed: when and what for, by which law, and that nothing else is changed."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive.following import history
from river import datasets, drift
from scipy import stats
from tree_shapes import shape_of

from river_mondrian import (
    AdaptiveMondrianForestClassifier,
    AdaptiveMondrianForestRegressor,
    MondrianForestClassifier,
    MondrianForestRegressor,
)
from river_mondrian.partitions.mondrian.records import DRAWING, SETTLING, STEADY
from river_mondrian.partitions.mondrian.trees import MondrianTrees
from river_mondrian.partitions.mondrian.widths import FollowingTrees
from river_mondrian.partitions.ranges import without_rounding
from river_mondrian.records import ChunkedRows

RENEWED = {"n_estimators": 3, "seed": 1, "rescale": True}
ADAPTIVE = RENEWED | {"n_candidates": 3}
KINDS = {
    "exact": lambda **own: MondrianForestClassifier(**RENEWED | own),
    "regressor": lambda **own: MondrianForestRegressor(**RENEWED | own),
    "adaptive": lambda **own: AdaptiveMondrianForestClassifier(**ADAPTIVE | own),
    "adaptive regressor": lambda **own: AdaptiveMondrianForestRegressor(**ADAPTIVE | own),
}
kinds = pytest.mark.parametrize("kind", list(KINDS))
exact_kinds = pytest.mark.parametrize("kind", ["exact", "regressor"])
NAMES = "abc"


def corner(n, seed=0, stretched=(10.0, 1.0, 0.1), at=300):
    """Return a stream whose features change their ranges after some samples, and its labels."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    y = ((X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)).astype(int)
    X[at:] *= stretched
    return X, y.tolist()


def samples(X):
    for row in X.tolist():
        yield {name: v for name, v in zip(NAMES, row, strict=True) if not math.isnan(v)}


def learned(model, X, y):
    for x, label in zip(samples(X), y, strict=True):
        model.learn_one(x, label)
    return model


def answer(model, x):
    if isinstance(model, MondrianForestRegressor):
        law = model.predict_one(x, with_dist=True)
        return law.mu, law.sigma
    if isinstance(model, AdaptiveMondrianForestRegressor):
        return model.predict_one(x)
    return model.predict_proba_one(x)


def answers(model, seed=5):
    X, _ = corner(20, seed, at=10)
    return [answer(model, x) for x in samples(X)]


def phase_of(model):
    return model._trees.forest.phase


def checked(model):
    """Return a copy that has passed all checks of restored trees."""
    return pickle.loads(pickle.dumps(model))


# When, and what for.


@exact_kinds
@pytest.mark.parametrize("n_trees", [1, 4])
@pytest.mark.parametrize("seed", range(2))
def test_trees_have_the_twins_widths_after_each_sample(kind, n_trees, seed):
    X, y = corner(1400, seed)
    X[:, 2] *= X[:, 2] > 0.07
    X[np.random.default_rng(seed).random(X.shape) < 0.03] = math.nan
    model = KINDS[kind](n_estimators=n_trees)
    told = history(X.tolist(), n_trees)
    assert told[0] != told[-1]
    learned(model, X[:256], y[:256])
    for i in range(256, len(X)):
        learned(model, X[i : i + 1], y[i : i + 1])
        for t, widths in enumerate(told[i - 255]):
            found = list(model.tree_widths(t).values())
            assert found == pytest.approx(widths, rel=1e-6), (i, t)


@kinds
def test_nothing_is_drawn_anew_where_widths_hold(kind):
    X, y = corner(3000, stretched=(1.3, 0.8, 1.0))
    model = KINDS[kind]()
    for x, label in zip(samples(X), y, strict=True):
        model.learn_one(x, label)
        assert phase_of(model) == STEADY
    widths = model.widths
    assert all(model.tree_widths(t) == widths for t in range(model._n_readable))
    assert model._trees.remainders.nbytes < 1000


@kinds
@pytest.mark.parametrize("seed", range(3))
def test_long_tails_and_a_wild_value_are_no_change(kind, seed):
    rng = np.random.default_rng(seed)
    X = np.stack(
        [
            rng.standard_cauchy(2500),
            np.exp(rng.normal(size=2500)),
            rng.normal(size=2500) * (rng.random(2500) < 0.2),
        ],
        axis=1,
    )
    X[1000, 2] = 1e6
    model = KINDS[kind](n_estimators=2)
    for x, label in zip(samples(X), (X[:, 2] > 0.0).astype(int).tolist(), strict=True):
        model.learn_one(x, label)
        assert phase_of(model) == STEADY


@kinds
def test_widths_follow_inputs_and_not_labels(kind):
    X, y = corner(900)
    told = []
    # Where a drift is found by labels, widths are those of the samples that are kept.
    own = {"drift_detector": drift.NoDrift()} if kind.startswith("adaptive") else {}
    for labels in (y, [0] * len(y), np.random.default_rng(1).integers(0, 2, len(y)).tolist()):
        model = KINDS[kind](n_estimators=2, **own)
        told.append([])
        for x, label in zip(samples(X), labels, strict=True):
            model.learn_one(x, label)
            told[-1].append(model.widths)
    assert told[0] == told[1] == told[2]


@kinds
def test_after_a_renewal_widths_are_those_of_the_later_samples(kind):
    X, y = corner(4000, stretched=(10.0, 1.0, 100.0))
    model = learned(KINDS[kind](), X, y)
    assert phase_of(model) == STEADY
    for name, column in zip(NAMES, X[300:].T, strict=True):
        assert model.widths[name] == pytest.approx(np.ptp(column), rel=0.1)
    assert all(model.tree_widths(t) == model.widths for t in range(model._n_readable))


@kinds
def test_known_ranges_stay(kind):
    X, y = corner(900, stretched=(30.0, 1.0, 10.0))
    model = learned(KINDS[kind](ranges={"a": (0.0, 10.0), "b": (-1.0, 1.0)}), X, y)
    assert model.widths["a"] == 10.0 and model.widths["b"] == 2.0
    assert model.widths["c"] == pytest.approx(10.0, rel=0.1)


@kinds
@pytest.mark.parametrize(
    "ranges, message",
    [
        ([("a", (0, 1))], "must be None or a mapping"),
        ({"a": (1.0, 0.0)}, "feature 'a' must be two finite numbers"),
        ({"a": (0.0, math.inf)}, "feature 'a' must be two finite numbers"),
        ({"b": 3.0}, "feature 'b' must be two finite numbers"),
        ({"b": (0.0, "1")}, "feature 'b' must be two finite numbers"),
    ],
)
def test_wrong_ranges_are_refused(kind, ranges, message):
    with pytest.raises(ValueError, match=message):
        KINDS[kind](ranges=ranges)


@kinds
def test_ranges_need_scaling(kind):
    with pytest.raises(ValueError, match="but scale is False"):
        KINDS[kind](ranges={"a": (0.0, 1.0)}, scale=False)


@kinds
def test_widths_of_trees_that_there_are_not(kind):
    model = KINDS[kind]()
    assert model.tree_widths(0) == {}
    with pytest.raises(ValueError, match="got 3"):
        model.tree_widths(3)
    with pytest.raises(ValueError, match="got -1"):
        model.tree_widths(-1)


# The law.


def shapes_of(model):
    """Return of each tree the root's time, its dimension and cut in raw units, and its size."""
    found = []
    for t in range(model.n_estimators):
        shape = shape_of(model._trees, t)
        _, cut = model._trees.cut_of(t, shape.dim, shape.cut)
        found.append(shape._replace(cut=cut))
    return np.array(found)


@exact_kinds
@pytest.mark.parametrize("n, phase", [(700, STEADY), (460, DRAWING)])
@pytest.mark.parametrize("seed", range(3))
def test_trees_have_the_law_of_a_batch_under_their_own_widths(kind, n, phase, seed):
    X, y = corner(n, seed, at=280)
    model = KINDS[kind](n_estimators=150, seed=seed)
    learned(model, X, y)
    assert phase_of(model) == phase
    drawn = shapes_of(model)
    widths = [model.tree_widths(t) for t in range(150)]
    # Of trees in either frame, which the first and the last are among.
    parts = [range(150)]
    if phase == DRAWING:
        n_renewed = sum(own == widths[0] for own in widths)
        parts = [range(n_renewed), range(n_renewed, 150)]
        assert min(map(len, parts)) >= 40
    model.resample()
    assert [model.tree_widths(t) for t in range(150)] == widths
    fresh = shapes_of(model)
    level = 1e-3 / 8
    for own in parts:
        first, second = drawn[own], fresh[own]
        for column in (0, 2, 3, 4):
            assert stats.ks_2samp(first[:, column], second[:, column]).pvalue > level
        tables = [np.bincount(part[:, 1].astype(int), minlength=3) + 1 for part in (first, second)]
        assert stats.chi2_contingency(tables).pvalue > level


def values_of(model, X):
    """Return the points' values, and those of their inputs, under the trees' scaling."""
    trees = model._trees
    n_inputs, forest = trees.n_inputs, trees.forest
    column = trees.column("points", "values")
    first = forest.frame * forest.dim_capacity
    offsets, factors = trees.scaling[:, :n_inputs]
    expected = np.clip((X - offsets) * factors, -1e30, 1e30).astype(np.float32)
    return column[:, first : first + n_inputs], expected


@kinds
@given(st.integers(0, 2**20), st.sampled_from([1e-6, 1e-3, 1e3, 1e6]), st.sampled_from([0.0, 1e6]))
@settings(max_examples=5, deadline=None)
def test_points_have_the_values_of_their_inputs(kind, seed, factor, offset):
    rng = np.random.default_rng(seed)
    X, y = corner(1200, seed, stretched=(factor, 1.0, 1.0 / factor))
    X[:, 0] += offset * factor
    X[1:][rng.random((len(X) - 1, 3)) < 0.02] = math.nan
    X[1 + rng.integers(0, len(X) - 1, 6), 1] = [1e12, -1e12, 1e30, -1e30, 1e38, 3e38]
    model = learned(KINDS[kind](n_estimators=1), X, y)
    assert phase_of(model) == STEADY and model._trees.forest.renewed > 0
    found, expected = values_of(model, X)
    assert (np.isnan(found) == np.isnan(X)).all()
    # An input is known to 48 bits of what it was under the widths before, which were so many times
    # as wide at most.
    ratio = max(factor, 1.0 / factor)
    known = ~np.isnan(X)
    np.testing.assert_allclose(
        found[known], expected[known], rtol=2.0**-23, atol=2.0**-47 * ratio * max(1.0, offset)
    )


# What must not matter.


@kinds
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_frames_and_single_samples_learn_the_same(kind, n_jobs):
    own = {} if "adaptive" in kind else {"n_jobs": n_jobs}
    X, y = corner(1600)
    model = learned(KINDS[kind](**own), X, y)
    for size in (37, 400):
        of_frames = KINDS[kind](**own)
        for first in range(0, len(X), size):
            frame = pd.DataFrame(X[first : first + size], columns=list(NAMES))
            of_frames.learn_many(frame, pd.Series(y[first : first + size]))
        assert answers(of_frames) == answers(model)
        assert of_frames.widths == model.widths


@kinds
def test_copies_go_on_alike_at_any_time(kind):
    X, y = corner(900)
    model, phases = KINDS[kind](), set()
    rows, labels = list(samples(X)), y
    copies = {}
    for i, (x, label) in enumerate(zip(rows, labels, strict=True)):
        model.learn_one(x, label)
        phases.add(phase_of(model))
        if i % 23 == 0 and i >= 299:
            copies[i] = checked(model)
            assert answers(copies[i]) == answers(model)
    assert phases == {STEADY, DRAWING, SETTLING}
    expected = answers(model)
    for i, copy in copies.items():
        for x, label in zip(rows[i + 1 :], labels[i + 1 :], strict=True):
            copy.learn_one(x, label)
        assert answers(copy) == expected


@kinds
def test_interruptions_do_not_matter(kind, monkeypatch):
    """Each method in which a renewal does something fails once before and once after it."""
    X, y = corner(900)
    expected = answers(learned(KINDS[kind](), X, y))
    n_failed = 0
    places = [
        (FollowingTrees, "look_at_widths"),
        (FollowingTrees, "_begin_renewal"),
        (FollowingTrees, "_drop_spare"),
        (FollowingTrees, "_do_owed"),
        (MondrianTrees, "_reserve_rows"),
        (ChunkedRows, "reserve"),
    ]
    for owner, name in places:
        for fails_after in (False, True):
            model = KINDS[kind]()
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

            for i, (x, label) in enumerate(zip(samples(X), y, strict=True)):
                if i >= 300:
                    monkeypatch.setattr(owner, name, failing)
                while model.n_samples == i:
                    try:
                        model.learn_one(x, label)
                    except MemoryError:
                        n_failed += 1
                monkeypatch.setattr(owner, name, method)
            assert model.n_samples == len(y)
            assert answers(model) == expected, (name, fails_after)
    assert n_failed > 20


# What may happen meanwhile.


def until(model, phase, X, y, part=0.5):
    """Let a model learn until it is in a phase, and some way into it; returns the next sample."""
    i = 0
    while phase_of(model) != phase if i else True:
        learned(model, X[i : i + 1], y[i : i + 1])
        i += 1
        if phase_of(model) == phase:
            break
    more = int(part * 40) if phase == DRAWING else 1
    learned(model, X[i : i + more], y[i : i + more])
    return i + more


EVENTS = {
    "feature": lambda model: model.learn_one({"a": 3.0, "b": 0.2, "z": 5.0}, 1),
    "category": lambda model: model.learn_one({"a": 3.0, "b": 0.2, "color": "red"}, 1),
    "class": lambda model: model.learn_one({"a": 3.0, "b": 0.2, "c": 0.05}, 2),
    "weight": lambda model: model.learn_one({"a": 3.0, "b": 0.2, "c": 0.05}, 1, 2.5),
    "missing": lambda model: model.learn_one({"a": 3.0}, 0),
    "resample": lambda model: model.resample(),
    "wild": lambda model: model.learn_one({"a": 1e30, "b": -1e30, "c": 0.05}, 1),
}


@kinds
@pytest.mark.parametrize("event", list(EVENTS))
@pytest.mark.parametrize("phase", [DRAWING, SETTLING])
def test_what_may_happen_meanwhile(kind, event, phase):
    X, y = corner(1100)
    model = KINDS[kind]()
    i = until(model, phase, X, y)
    EVENTS[event](model)
    copy = checked(model)
    learned(model, X[i:], y[i:])
    learned(copy, X[i:], y[i:])
    assert answers(copy) == answers(model)
    assert phase_of(checked(model)) == STEADY
    assert model.widths["a"] == pytest.approx(10.0, rel=0.1)
    assert model.widths == model.tree_widths(0)


@exact_kinds
@pytest.mark.parametrize("directions", [None, 3, [{"a": 1.0, "b": 1.0}]])
def test_a_full_forest_keeps_its_widths(kind, directions):
    X, y = corner(900)
    own = {"max_nodes": 41, "directions": directions}
    model, fixed = (KINDS[kind](**own, rescale=renews) for renews in (True, False))
    assert learned(model, X, y).widths == learned(fixed, X, y).widths
    assert model.widths["a"] == pytest.approx(1.0, rel=0.1)
    assert answers(checked(model)) == answers(model)


def test_a_forest_that_was_full_before_the_first_look_keeps_its_widths():
    """Also where what it has stored would tell others."""
    X, y = corner(900)
    model = learned(KINDS["regressor"](max_nodes=2 * 340 + 1), X[:383], y[:383])
    assert model._trees.forest.is_full and model.n_samples > model._trees.n_points > 300
    learned(model, X[383:], y[383:])
    assert model.widths["a"] == pytest.approx(1.0, rel=0.1)
    assert answers(checked(model)) == answers(model)


@exact_kinds
@pytest.mark.parametrize("n_trees", [1, 2, 3])
@pytest.mark.parametrize("at", [0, 5, 300])
def test_a_category_changes_nothing_where_widths_hold(kind, n_trees, at):
    X, y = corner(400, stretched=(1.0, 1.0, 1.0))
    models = [KINDS[kind](n_estimators=n_trees, rescale=renews) for renews in (True, False)]
    for i, (x, label) in enumerate(zip(samples(X), y, strict=True)):
        for model in models:
            model.learn_one(x | {"color": "red" if i % 3 else "blue"} if i >= at else x, label)
    assert answers(models[0]) == answers(models[1])
    assert answers(checked(models[0])) == answers(models[1])
    text = [model.debug_one({"a": 0.1, "b": 0.7, "color": "red"}) for model in models]
    assert text[0] == text[1]


@kinds
def test_without_scaling_nothing_is_renewed(kind):
    X, y = corner(600)
    model = learned(KINDS[kind](scale=False), X, y)
    assert set(model.widths.values()) == {1.0}


@exact_kinds
def test_a_forest_that_is_not_full_yet_is_drawn_anew(kind):
    X, y = corner(700)
    n_nodes = 2 * 450 + 1 if kind == "regressor" else 2 * 130 + 1
    model, phases = KINDS[kind](max_nodes=n_nodes), []
    for i in range(len(X)):
        learned(model, X[i : i + 1], y[i : i + 1])
        forest = model._trees.forest
        phases.append((forest.phase, forest.is_full))
        # All samples are stored until the renewal is over.
        assert forest.is_full or forest.n_points == forest.n_samples
        if i % 29 == 0:
            assert answers(checked(model)) == answers(model)
    assert (DRAWING, 0) in phases and phases[-1] == (STEADY, 1)
    assert not {(DRAWING, 1), (SETTLING, 1)} & set(phases)
    assert model.widths["a"] == pytest.approx(10.0, rel=0.1)
    assert model.widths == model.tree_widths(0)
    # What it took is given back at the next look, which is the last one.
    learned(model, X, y)
    assert model._trees.remainders.nbytes < 1000
    of_frames = KINDS[kind](max_nodes=n_nodes)
    for first in range(0, len(X), 50):
        frame = pd.DataFrame(X[first : first + 50], columns=list(NAMES))
        of_frames.learn_many(frame, pd.Series(y[first : first + 50]))
    of_frames.learn_many(pd.DataFrame(X, columns=list(NAMES)), pd.Series(y))
    assert answers(of_frames) == answers(model)


@pytest.mark.parametrize("seed", range(2))
def test_full_trees_have_the_law_of_trees_that_learned_under_their_widths(seed):
    X, y = corner(600, seed, at=280)
    model = learned(KINDS["regressor"](n_estimators=200, max_nodes=901, seed=seed), X, y)
    assert model._trees.forest.is_full and model.widths["a"] > 5.0
    ranges = {name: (0.0, width) for name, width in model.widths.items()}
    other = KINDS["regressor"](n_estimators=200, max_nodes=901, seed=99 - seed, ranges=ranges)
    first, second = shapes_of(model), shapes_of(learned(other, X, y))
    assert (first[:, 3] == 901).all() and (second[:, 3] == 901).all()
    for column in (0, 2, 4):
        assert stats.ks_2samp(first[:, column], second[:, column]).pvalue > 1e-3 / 8
    tables = [np.bincount(part[:, 1].astype(int), minlength=3) + 1 for part in (first, second)]
    assert stats.chi2_contingency(tables).pvalue > 1e-3 / 8


@kinds
@pytest.mark.parametrize("event", ["weight", "class", "feature"])
def test_what_may_happen_after_a_renewal(kind, event):
    """Also to what a file has, in which the spare tree has nothing left."""
    X, y = corner(1000)
    model = learned(KINDS[kind](), X, y)
    assert phase_of(model) == STEADY and model._trees.forest.renewed > 0
    copy = checked(model)
    for one in (model, copy):
        EVENTS[event](one)
        learned(one, X[:50], y[:50])
    assert answers(copy) == answers(model)


def test_a_window_of_samples_is_followed():
    X, y = corner(6000, stretched=(10.0, 1.0, 1.0), at=4000)
    model = KINDS["adaptive"](window=1000)
    learned(model, X, y)
    assert model.widths["a"] == pytest.approx(10.0, rel=0.1)
    checked(model)


# What it is for.


@pytest.mark.parametrize("kind", ["exact", "adaptive"])
def test_a_stream_that_begins_in_a_corner_ends_as_one_whose_ranges_are_known(kind):
    right = {}
    for ranges in (None, {"a": (0.0, 1.0), "b": (0.0, 1.0), "c": (0.0, 1.0)}):
        right[ranges is None] = 0
        for seed in range(3):
            rng = np.random.default_rng(seed)
            X = rng.random((3000, 3))
            y = ((X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)).astype(int).tolist()
            X[:300, 0] = 0.5 + 0.001 * (X[:300, 0] - 0.5)
            model = KINDS[kind](n_estimators=5, seed=seed, ranges=ranges)
            for i, (x, label) in enumerate(zip(samples(X), y, strict=True)):
                right[ranges is None] += i >= 1500 and model.predict_one(x) == label
                model.learn_one(x, label)
    # Three standard deviations of a difference of other draws are less.
    assert right[True] / 4500 > right[False] / 4500 - 0.015


def test_units_that_shrink_cost_a_regressor_little():
    rng = np.random.default_rng(2)
    X = rng.random((2500, 3))
    y = (np.sin(6.0 * X[:, 0]) + X[:, 1]).tolist()
    changed = X.copy()
    changed[400:, 0] /= 1000.0
    errors = []
    for rows in (X, changed):
        model = KINDS["regressor"](n_estimators=5)
        error = 0.0
        for i, (x, target) in enumerate(zip(samples(rows), y, strict=True)):
            error += (i >= 1500) * abs(model.predict_one(x) - target)
            model.learn_one(x, target)
        errors.append(error)
    kept = KINDS["regressor"](n_estimators=5, ranges={"a": (0.0, 1.0)})
    error = 0.0
    for i, (x, target) in enumerate(zip(samples(changed), y, strict=True)):
        error += (i >= 1500) * abs(kept.predict_one(x) - target)
        kept.learn_one(x, target)
    # With widths that stay, the feature is all but lost.
    assert errors[1] < 0.5 * (errors[0] + error)


def test_inputs_that_differ_by_rounding_are_one_value():
    """Of a feature that is mostly 0, as stored, the range of the others is found, not of noise."""
    stream = corner(400, stretched=(1.0, 1.0, 1.0))
    model = learned(MondrianForestClassifier(2, seed=1), *stream)
    trees = model._trees
    offsets, factors = trees.scaling[:, :3]
    rng = np.random.default_rng(0)
    for n_others in (0, 40, 400):
        inputs = np.tile(offsets + rng.choice([0.1, 0.7, 3.0, 1e6]) / factors, (1000, 1))
        inputs[:n_others] = offsets + rng.integers(-50, 50, (n_others, 3)) / factors
        inputs[500, 1] = math.nan
        exact = rng.permutation(inputs)
        # Stored numbers are known to 48 bits of the widths, and of what is beyond them.
        size = np.abs(exact - offsets) + 1.0 / factors
        stored = exact + rng.uniform(-1.0, 1.0, exact.shape) * 2.0**-48 * size
        order = np.argsort(stored, axis=0)
        ordered = np.take_along_axis(stored, order, axis=0).T
        joined = without_rounding(np.vstack([ordered, ordered]), trees._rounding())[:3]
        found = np.empty_like(stored)
        np.put_along_axis(found, order, joined.T, axis=0)
        np.testing.assert_allclose(found, exact, rtol=0, atol=2.0**-34 * np.nanmax(size))
        for place in range(3):
            for value in np.unique(exact[:, place]):
                same = found[exact[:, place] == value, place]
                assert len(set(same.tolist())) == min(len(same), 1)
            distinct = {*exact[~np.isnan(exact[:, place]), place].tolist()}
            assert len({*found[~np.isnan(found[:, place]), place].tolist()}) == len(distinct)


@pytest.mark.parametrize("window", [None, 1024])
def test_a_feature_that_is_mostly_one_value_keeps_its_width(window):
    """Its values are brought to other widths and back, and are rounded each time."""
    model, held = MondrianForestClassifier(1, window=window, seed=0), []
    for x, y in datasets.Shuttle().take(5000):
        model.learn_one(x, y)
        held.append((x, y))
        if window is None and len(held) > 1024:
            model.forget_one(*held.pop(0))
        assert len(held) < 256 or min(model.widths.values()) >= 1.0


@pytest.mark.parametrize("window", [None, 1024])
@pytest.mark.parametrize("factor", [1e-6, 1e-9, 1e-10])
def test_a_unit_that_is_a_billion_times_larger_is_followed(window, factor):
    """Values that are as dense as what rounding parts are not one value where they are many."""
    model = MondrianForestClassifier(1, window=window, seed=0)
    for i, value in enumerate(np.random.default_rng(0).normal(size=4000).tolist()):
        model.learn_one({"a": value if i < 600 else factor * value}, False)
    # The range of normal values that are all within fences is about 6.5 deviations.
    assert 3.0 < model.widths["a"] / factor < 10.0
