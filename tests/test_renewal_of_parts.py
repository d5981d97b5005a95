"""Forests whose trees are redrawn while they learn in parts: equal to one model at any time."""

import copy
import itertools

import numpy as np
import pandas as pd
import pytest
from naive.following import history
from test_parts import assert_same, grow, law_of, learn_in_parts

import river_mondrian as rm
from river_mondrian.distributed import ShardedForest
from river_mondrian.estimators.merging import divided, splits_at, united
from river_mondrian.partitions.mondrian import widths
from river_mondrian.partitions.mondrian.constants import DRAWING, REBASING, STEADY

N_TREES = 5
MORE = {"seed": 1, "rescale": True}
FORESTS = {
    "classes": lambda: rm.MondrianForestClassifier(N_TREES, **MORE),
    "targets": lambda: rm.MondrianForestRegressor(N_TREES, **MORE),
    "means": lambda: rm.MondrianForestRegressor(N_TREES, lifetime=grow, posterior="mean", **MORE),
    "categories": lambda: rm.MondrianForestClassifier(N_TREES, **MORE),
    "targets of levels": lambda: rm.MondrianForestRegressor(N_TREES, **MORE),
    "drawn directions": lambda: rm.MondrianForestClassifier(N_TREES, directions=2, **MORE),
    "given directions": lambda: rm.MondrianForestRegressor(
        N_TREES, posterior="mean", directions=[{"a": 1.0, "b": 1.0}, {"c": -1.0}], **MORE
    ),
}
LATE = ("targets", "targets of levels")
CATEGORIES = ("categories", "targets of levels")
CLASSES = ("classes", "categories", "drawn directions")
forests = pytest.mark.parametrize("name", FORESTS)

# Samples after which units change, and how long a renewal takes then, at most.
CHANGES_AT = {name: 2600 if name in LATE else 300 for name in FORESTS}
ALL_PHASES = {STEADY, DRAWING, REBASING}


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Let widths be checked before 4,096 samples, so that a renewal is under way at these."""
    monkeypatch.setattr(widths, "LOOK_RATIO", 1.4)


def stream(name, n, seed=0):
    """Return a frame whose features change their units, and labels or targets."""
    rng = np.random.default_rng(seed)
    values = rng.random((n, 3))
    y = values[:, 0] * values[:, 1] + 0.1 * rng.standard_t(3, size=n)
    values[CHANGES_AT[name] :] *= (10.0, 1.0, 0.1)
    X = pd.DataFrame(values, columns=list("abc")).mask(rng.random((n, 3)) < 0.02)
    if name in CATEGORIES:
        X["color"] = rng.choice(["red", "blue", None], n, p=[0.5, 0.48, 0.02])
    return X, np.digitize(y, [0.1, 0.4]).tolist() if name in CLASSES else y.tolist()


class Blocks:
    """Blocks of a stream of all sizes, one after the other."""

    def __init__(self, name, start, n, n_blocks):
        self.X, self.y = stream(name, n)
        self.bounds = np.linspace(start, n, n_blocks + 1).astype(int).tolist()
        self.start = start

    def before(self):
        return self.X[: self.start], self.y[: self.start]

    def __iter__(self):
        for first, last in itertools.pairwise(self.bounds):
            yield self.X[first:last], self.y[first:last]


def begun(name, n_blocks=14):
    """Return a forest that can be divided, and blocks in which a renewal begins and ends."""
    model = FORESTS[name]()
    start = splits_at(model)
    blocks = Blocks(name, start, 3 * start if start == 256 else start + start // 3, n_blocks)
    model.learn_many(*blocks.before())
    return model, blocks


def phase_of(model):
    return int(model._trees.forest.phase)


@forests
def test_a_forest_is_divided_in_mid_renewal(name, tmp_path):
    """At any moment, into any number of parts, and these again."""
    whole, blocks = begun(name, 40)
    law, ways = law_of(whole), [2, 5, 3, 1, 4]
    parts, phases = divided(whole, 2), set()
    for i, (X, y) in enumerate(blocks):
        whole.learn_many(X, y)
        learn_in_parts(parts, X, y, law)
        phases.add(phase_of(whole))
        if i % 3 == 0:
            parts = [*divided(parts[0], min(2, parts[0].n_estimators)), *parts[1:]]
        elif i % 3 == 1:
            parts = divided(united(parts, law), ways[i % 5])
    assert phases == ALL_PHASES
    assert_same(united(parts, law), whole, tmp_path)


def test_parts_that_do_not_follow_one_another():
    model, _ = begun("classes")
    parts = divided(model, 3)
    with pytest.raises(ValueError, match="tree 2 is to follow, but got tree 3"):
        united([parts[0], parts[2]])
    with pytest.raises(ValueError, match="tree 2 is to follow, but got tree 0"):
        united([parts[0], parts[0]])


@pytest.mark.parametrize("name", ["classes", "means"])
@pytest.mark.parametrize("first, n_trees", [(0, 1), (1, 3), (3, 2)])
def test_trees_of_a_part_have_the_twins_widths_after_each_sample(name, first, n_trees, monkeypatch):
    monkeypatch.setattr(widths, "LOOK_RATIO", 1.5)
    model, blocks = begun(name)
    part = united(divided(model, N_TREES)[first : first + n_trees])
    told = history(blocks.X.to_numpy().tolist(), N_TREES)
    assert told[0] != told[-1]
    for i in range(256, len(blocks.X)):
        part.learn_many(blocks.X[i : i + 1], blocks.y[i : i + 1])
        for t in range(n_trees):
            found = list(part.tree_widths(t).values())
            assert found == pytest.approx(told[i - 255][first + t], rel=1e-6), (i, t)


# On workers.


@forests
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_worker_that_dies_in_mid_renewal_is_replaced(name, when, engine, tmp_path):
    model, blocks = begun(name, 12)
    whole = copy.deepcopy(model)
    drawn = []
    for i, (X, y) in enumerate(blocks):
        whole.learn_many(X, y)
        if phase_of(whole) != STEADY:
            drawn.append(i)
    assert drawn
    # Two workers, a call of each for a block.
    for first in (2 * drawn[0] + 1, 2 * drawn[len(drawn) // 2] + 2, 2 * drawn[-1] + 1):
        engine.n_calls = 0
        engine.deaths = {first: when, first + 3: when}
        sharded = ShardedForest.scatter(model, 2, save_every=3, in_flight=2)
        for block in blocks:
            sharded.learn_many(*block)
        assert_same(sharded.gather(), whole, tmp_path)
        assert sharded.n_restarts > 0
