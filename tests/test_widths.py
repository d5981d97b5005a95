"""Widths of features: from first samples, renewed when units change; distributions of trees."""

from __future__ import annotations

import math
import pickle
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from common import fed
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import columns as naive
from naive.following import history
from naive.ranges import robust_range
from scipy import stats

import river_mondrian as rm
from river_mondrian.estimators.merging import divided
from river_mondrian.partitions.mondrian.constants import DRAWING, REBASING, STEADY
from river_mondrian.partitions.ranges import without_rounding
from river_mondrian.posteriors.rebuilt.forest import LONG, RECENT

COLORS = ("red", "green", "blue")
GIVEN = [{"a": 1.0, "b": 1.0}, {"a": 1.0, "b": -0.5}, {"c": 2.0}]
EXACT = {"exact": rm.MondrianForestClassifier, "regressor": rm.MondrianForestRegressor}
ADAPTIVE = {
    "adaptive": rm.AdaptiveMondrianForestClassifier,
    "adaptive regressor": rm.AdaptiveMondrianForestRegressor,
}
SETS = {"plain": {}, "categories": {}, "drawn": {"directions": 3}, "given": {"directions": GIVEN}}
# Each kind and each set, in pairs: adaptive trees have no directions.
OF_EXACT = [
    ("exact", "plain"),
    ("regressor", "plain"),
    ("regressor", "categories"),
    ("exact", "drawn"),
    ("regressor", "given"),
]
KINDS = [*OF_EXACT, ("adaptive", "plain"), ("adaptive regressor", "categories")]
# Those whose trees have values of their own.
OWN = [("exact", "categories"), *OF_EXACT[2:], *KINDS[-1:]]
kinds = pytest.mark.parametrize("kind, own", KINDS)
exact_kinds = pytest.mark.parametrize("kind, own", OF_EXACT)
sets = pytest.mark.parametrize("own", ["categories", "drawn", "given"])
plain_kinds = pytest.mark.parametrize("kind", [*EXACT, *ADAPTIVE])


def corner(n, seed=0, stretched=(10.0, 1.0, 0.1), at=300):
    """Return a stream whose features change their ranges after some samples, and its labels."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    y = ((X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)).astype(int)
    X[at:] *= stretched
    return X, y.tolist()


def color_of(row):
    """Return a level that follows from a row's first number."""
    return COLORS[int(abs(row[0]) * 1e4) % 3 if abs(row[0]) < 1e4 else 0]


def samples(X, own="plain", since=0):
    """Yield samples, with a category from the row `since` on if `own` has categories."""
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


def answer(model, x):
    if isinstance(model, rm.MondrianForestRegressor):
        law = model.predict_one(x, with_dist=True)
        return law.mean, law.var**0.5
    if isinstance(model, rm.AdaptiveMondrianForestRegressor):
        return model.predict_one(x)
    return model.predict_proba_one(x)


def answers(model, own="plain", seed=5):
    X, _ = corner(20, seed, at=10)
    return [answer(model, x) for x in samples(X, own)]


def phase_of(model):
    return model._trees.forest.phase


def checked(model):
    """Return a copy that has passed all checks of restored trees."""
    return pickle.loads(pickle.dumps(model))


# The shapes of trees, which tests of distributions compare.


class Shape(NamedTuple):
    """A tree's root time, root dimension and root cut, number of nodes and mean depth."""

    time: float
    dim: int
    cut: float
    n_nodes: int
    depth: float


def shape_of(trees, t):
    """Return the shape of a tree whose root has a cut, with all that is hidden."""
    table = trees.table(t)
    root = table.refs[0]
    time, dim, cut = (trees.column("nodes", name, t)[root] for name in ("delta", "dim", "cut"))
    assert dim >= 0
    depths = np.zeros(len(table))
    for inner, left in table.levels:
        depths[left] = depths[left + 1] = depths[inner] + 1
    return Shape(float(time), int(dim), float(cut), len(table), float(depths[table.leaves].mean()))


def shapes_of(model, numbers):
    """Return the shapes of some trees, a row for each."""
    return np.array([shape_of(model._trees, t) for t in numbers])


def assert_one_law(first, second, n_dims, level):
    """Compare roots' times, cuts, dimensions, and numbers and depths of nodes of two samples."""
    for column in (0, 2, 3, 4):
        assert stats.ks_2samp(first[:, column], second[:, column]).pvalue > level / 5
    parts = [np.bincount(one[:, 1].astype(int), minlength=n_dims) for one in (first, second)]
    table = np.array(parts)[:, np.sum(parts, axis=0) > 0]
    if table.shape[1] > 1:
        assert stats.chi2_contingency(table + 1).pvalue > level / 5


# First widths.

FENCE = 100.0


@plain_kinds
@pytest.mark.parametrize("missing", ["unknown", "zero"])
def test_first_widths_are_the_twins(kind, missing):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((256, 3)) * [1e6, 1.0, 1.0]
    X[rng.random(X.shape) < 0.2] = math.nan
    X[:, 1] = rng.random(256) < 0.05
    X[:, 2] = 7.0
    # A wild value sets no width.
    X[16, 0] = 1e12
    model = learned(make(kind, missing=missing), X, (X[:, 1] > 0.0).astype(int).tolist())
    columns = X if missing == "unknown" else np.nan_to_num(X)
    for name, column in zip("abc", columns.T, strict=True):
        low, high = robust_range(column.tolist(), FENCE)
        expected = (high - low) or abs(low) or 1.0
        assert model.widths[name] == pytest.approx(expected, rel=1e-12)


def test_widths_of_models_that_do_not_scale():
    assert rm.MondrianForestClassifier().widths == {}
    X, y = corner(600)
    for kind in (*EXACT, *ADAPTIVE):
        assert set(learned(make(kind, scale=False), X, y).widths.values()) == {1.0}
    model = rm.MondrianForestClassifier(3, seed=1)
    model.learn_one({"a": 5.0, "color": "red"}, 0)
    assert model.widths == {"a": 5.0, "color": 1.0}


# When widths are renewed, and what for.


@exact_kinds
@pytest.mark.parametrize("n_trees", [1, 3])
def test_trees_have_the_twins_widths_after_each_sample(kind, own, n_trees):
    X, y = corner(1100)
    X[:, 2] *= X[:, 2] > 0.07
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
    assert own != "plain" or model._trees.remainders.nbytes < 1000
    if own == "plain":
        return
    # What inputs take, and a column for the spare tree, and its links and record.
    n_inputs = int(model._trees.forest.input_capacity)
    n_dims = 0 if kind in ADAPTIVE else int(model._trees.forest.dim_capacity)
    more = model._trees.points.row_bytes - fixed._trees.points.row_bytes
    assert more == 8 * n_inputs + 4 * n_dims + 4 * (kind in EXACT)


@kinds
def test_levels_are_no_numbers_of_which_widths_are_found(kind, own):
    """A category stays at width 1 whatever comes, and a late number has one of its own."""
    X, y = corner(2500, stretched=(10.0, 1.0, 100.0))
    model = learned(make(kind, own), X[:320], y[:320], own)
    for i, x in enumerate(samples(X[320:], own)):
        model.learn_one(x | {"late": 50.0 * X[320 + i, 1] if i else 1.0}, y[320 + i])
    assert phase_of(model) == STEADY
    assert model.widths.get("color", 1.0) == 1.0
    for name, width in {"a": 10.0, "b": 1.0, "c": 100.0, "late": 50.0}.items():
        assert model.widths[name] == pytest.approx(width, rel=0.1)
    assert all(model.tree_widths(t) == model.widths for t in range(model._n_readable))


@plain_kinds
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
    model = make(kind, n_estimators=2)
    for x, label in zip(samples(X), (X[:, 2] > 0.0).astype(int).tolist(), strict=True):
        model.learn_one(x, label)
        assert phase_of(model) == STEADY


@plain_kinds
def test_known_ranges_stay(kind):
    X, y = corner(900, stretched=(30.0, 1.0, 10.0))
    model = learned(make(kind, ranges={"a": (0.0, 10.0), "b": (-1.0, 1.0)}), X, y)
    assert model.widths["a"] == 10.0 and model.widths["b"] == 2.0
    assert model.widths["c"] == pytest.approx(10.0, rel=0.1)


# The distribution.


@exact_kinds
def test_trees_have_the_law_of_a_batch_under_their_own_widths(kind, own, seed):
    """In mid-renewal; at a level of 1e-3 for all kinds of a seed."""
    X, y = corner(455, seed, at=280)
    model = learned(make(kind, own, n_estimators=140, seed=seed), X, y, own)
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
def test_renewed_trees_have_the_law_of_trees_that_were_told_the_widths(kind, own, seed):
    """Trees that have learned all samples under them, with places and directions of their own."""
    X, y = corner(560, seed, at=280)
    model = learned(make(kind, own, n_estimators=140, seed=seed), X, y, own)
    assert phase_of(model) == STEADY and model.widths["a"] > 5.0
    offsets, factors = model._trees.scaling[:, :3]
    ends = zip(offsets.tolist(), (offsets + 1.0 / factors).tolist(), strict=True)
    ranges = dict(zip("abc", ends, strict=True))
    other = make(kind, own, n_estimators=140, seed=99 - seed, ranges=ranges, rescale=False)
    learned(other, X, y, own)
    assert other.widths == pytest.approx(model.widths, rel=1e-12)
    first, second = (shapes_of(one, range(140)) for one in (model, other))
    assert_one_law(first, second, model._trees.forest.n_dims, 1e-3 / 6)


# What trees cut.


def values_of(model, X):
    """Return the points' values, and those of their inputs, under the trees' scaling."""
    trees = model._trees
    n_inputs, forest = trees.n_inputs, trees.forest
    column = trees.column("points", "values")
    first = forest.frame * forest.dim_capacity
    offsets, factors = trees.scaling[:, :n_inputs]
    expected = np.clip((X - offsets) * factors, -1e30, 1e30).astype(np.float32)
    return column[:, first : first + n_inputs], expected


@plain_kinds
@given(st.integers(0, 2**20), st.sampled_from([1e-6, 1e-3, 1e3, 1e6]), st.sampled_from([0.0, 1e6]))
@settings(max_examples=5, deadline=None)
def test_plain_points_have_the_values_of_their_inputs(kind, seed, factor, offset):
    rng = np.random.default_rng(seed)
    X, y = corner(1200, seed, stretched=(factor, 1.0, 1.0 / factor))
    X[:, 0] += offset * factor
    X[1:][rng.random((len(X) - 1, 3)) < 0.02] = math.nan
    X[1 + rng.integers(0, len(X) - 1, 6), 1] = [1e12, -1e12, 1e30, -1e30, 1e38, 3e38]
    model = learned(make(kind, n_estimators=1), X, y)
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
    """Compare the values of the stored points (the rows) that trees cut with the twin's."""
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
    st.sampled_from(OWN),
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


@pytest.mark.parametrize("kind, own", OF_EXACT[-2:])
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
    model = fed(make(kind, own, **more), zip(rows, y, strict=True))
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
        if i >= 380 and (i % 29 == 0 or phase_of(model) == REBASING):
            if i % 2:
                copies[i] = checked(model)
            else:
                rm.save(model, tmp_path / "model")
                copies[i] = rm.load(tmp_path / "model")
            assert answers(copies[i], own) == answers(model, own)
    assert phases == {STEADY, DRAWING, REBASING}
    expected = answers(model, own)
    for i, copy in copies.items():
        fed(copy, zip(rows[i + 1 :], y[i + 1 :], strict=True))
        assert answers(copy, own) == expected


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


# Each event with each kind, at one of several moments of a renewal or after it.
MEANWHILE = [
    (event, *which, (395, 440, 480, 505, 900)[(i + j) % 5])
    for i, event in enumerate(EVENTS)
    for j, which in enumerate(KINDS)
    if event != "category" or which[1] not in ("drawn", "given")
]


@pytest.mark.parametrize(("event", "kind", "own", "n"), MEANWHILE)
def test_what_may_happen_meanwhile(event, kind, own, n):
    X, y = corner(1000)
    model = learned(make(kind, own), X[:n], y[:n], own)
    assert phase_of(model) != STEADY or kind in ADAPTIVE or n == 900
    EVENTS[event](model, next(samples(X[n:], own)))
    copy = checked(model)
    assert answers(copy, own) == answers(model, own)
    for one in (model, copy):
        learned(one, X[n:], y[n:], own)
    assert answers(copy, own) == answers(model, own)
    assert phase_of(checked(model)) == STEADY
    assert model.widths["a"] == pytest.approx(10.0, rel=0.1)
    assert model.widths == model.tree_widths(0)


@pytest.mark.parametrize("kind, own", OWN[:-1])
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
    assert phases == {STEADY, DRAWING, REBASING}
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


@exact_kinds
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
    assert not {(DRAWING, 1), (REBASING, 1)} & set(phases)
    assert model.widths["a"] == pytest.approx(10.0, rel=0.1)
    assert model.widths == model.tree_widths(0)


@exact_kinds
def test_a_full_forest_keeps_its_widths(kind, own):
    X, y = corner(900)
    model, fixed = (make(kind, own, max_nodes=41, rescale=renews) for renews in (True, False))
    assert learned(model, X, y, own).widths == learned(fixed, X, y, own).widths
    assert model.widths["a"] == pytest.approx(1.0, rel=0.1)
    assert answers(checked(model), own) == answers(model, own)


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
    "inputs is 3.0": damaged_level,
    "means": lambda model: model._trees.directions.means.fill(math.nan),
}


@sets
@pytest.mark.parametrize("text", DAMAGES)
def test_damaged_forests_are_refused(own, text):
    if (text == "means" and own == "categories") or (own != "categories" and "3.0" in text):
        pytest.skip("there are none")
    X, y = corner(300)
    model = learned(make("exact", own), X, y, own)
    if own == "given" and text == "first_value is":
        model._trees.trees[1].first_value = 3
    else:
        DAMAGES[text](model)
    with pytest.raises(rm.ModelFormatError, match=text):
        checked(model)


# What it is for.


def test_inputs_that_differ_by_rounding_are_one_value():
    """For a feature that is mostly 0, as stored, the range is that of the others, not of noise."""
    stream = corner(400, stretched=(1.0, 1.0, 1.0))
    model = learned(rm.MondrianForestClassifier(2, seed=1), *stream)
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
@pytest.mark.parametrize("factor", [1e-6, 1e-9, 1e-10])
def test_a_unit_that_is_a_billion_times_larger_is_followed(window, factor):
    """Values that are as dense as what rounding parts are not one value where they are many."""
    model = rm.MondrianForestClassifier(1, window=window, seed=0)
    for i, value in enumerate(np.random.default_rng(0).normal(size=4000).tolist()):
        model.learn_one({"a": value if i < 600 else factor * value}, False)
    # The range of normal values that are all within fences is about 6.5 deviations.
    assert 3.0 < model.widths["a"] / factor < 10.0


@pytest.mark.parametrize("since", [5, 384, 430, 467, 506, 600])
def test_a_category_may_come_at_any_time(since):
    """Also in mid-renewal, which it does not change."""
    X, y = corner(800)
    model, told = make("exact", "categories"), history(X.tolist(), 3)
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
            places = [model.feature_names.index(name) for name in "abc"]
            np.testing.assert_allclose(kept[:, places], X[: i + 1], 0.0, 10.0 * 2.0**-47)


@sets
@pytest.mark.parametrize("n", [300, 430, 505])
def test_in_which_columns_trees_have_their_values_does_not_matter(own, n):
    """A part of a forest has them in the order of the trees; also where a value is missing."""
    X, y = corner(640)
    model = learned(make("exact", own), X[:n], y[:n], own)
    (part,) = divided(model, 1)
    asked = [*samples(X[n:], own), {"a": 3.0}, {"b": 0.2, "c": 0.01}]
    if own == "categories":
        asked += [{"a": 0.5, "color": "red"}, {"color": "blue"}]
    for one in (model, part):
        # Earlier content of the row must not be read.
        one._trees.row[:] = 0.25
    assert [answer(part, x) for x in asked] == [answer(model, x) for x in asked]
    frame = pd.DataFrame(asked)
    assert part.predict_proba_many(frame).equals(model.predict_proba_many(frame))
