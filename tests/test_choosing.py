"""Changes of hyperparameters that are spread over samples."""

from __future__ import annotations

import numpy as np
import pytest
from test_gaussian import draw, forget_all, hyperparameters

import river_mondrian as rm
from river_mondrian.posteriors.targets import trees as target_trees
from river_mondrian.posteriors.targets.hyperparameters import LAST_NOISE, MOST_CANDIDATES, chosen
from river_mondrian.posteriors.targets.trees import CHOICES, SPREAD_FROM

# Trees of which a sample at 1,024 sees to some.
N_TREES = 12
BEGIN = 1024


def stream(n, seed=2):
    X, y = draw(n, seed)
    # Noise, so that the choice has to go some steps.
    y = y + np.random.default_rng(seed).normal(size=n)
    return [dict(enumerate(row)) for row in X.tolist()], y.tolist()


def begun(n=BEGIN + 5, **params):
    """Return a regressor in which a change is under way, and the samples to come."""
    model = rm.MondrianForestRegressor(N_TREES, seed=1, **params)
    xs, ys = stream(n + 300)
    for x, y in zip(xs[:n], ys[:n], strict=True):
        model.learn_one(x, y)
    assert model._trees.change is not None
    return model, xs[n:], ys[n:]


def learned(model, xs, ys):
    for x, y in zip(xs, ys, strict=True):
        model.learn_one(x, y)
    assert model._trees.change is None
    return model


def best_by(scores, start, moves_gamma2=True, moves_noise=True):
    """Go as `chosen` does, where scores are a function; returns what was asked, too."""
    found = {}
    while True:
        reached, candidate = chosen(start, found, moves_gamma2, moves_noise)
        if candidate is None:
            return reached, list(found)
        assert candidate not in found
        found[candidate] = scores(candidate)


def test_steps_lead_uphill_one_at_a_time():
    def hill(one):
        return -abs(one[0] - 2) - abs(one[1] - 1)

    assert best_by(hill, (0, 0))[0] == (2, 1)
    assert best_by(hill, (0, 0), moves_gamma2=False)[0] == (0, 1)
    assert best_by(hill, (0, 3), moves_noise=False)[0] == (2, 3)
    assert best_by(hill, (0, 0), False, False) == ((0, 0), [])
    # Five steps at most, and no more noise than the last.
    reached, asked = best_by(lambda one: one[0] + one[1], (0, 0))
    assert sum(reached) == 5
    assert len(asked) <= MOST_CANDIDATES
    assert max(step for _, step in asked) <= LAST_NOISE
    # Noise has to gain something.
    assert best_by(lambda one: 0.001 * one[1], (0, 0))[0] == (0, 0)


@pytest.mark.parametrize("n", [1024, 2048])
def test_each_sample_takes_a_step_and_trees_take_over_in_turn(n, monkeypatch):
    asked, put = [], []
    add_densities = target_trees.choice.add_densities
    put_hyperparameters = target_trees.learning.put_hyperparameters
    monkeypatch.setattr(
        target_trees.choice,
        "add_densities",
        lambda *args: (asked.append(args[2]), add_densities(*args)),
    )
    monkeypatch.setattr(
        target_trees.learning,
        "put_hyperparameters",
        lambda *args: (put.append(args[4:]), put_hyperparameters(*args)),
    )
    model, xs, ys = begun(n)
    asked.clear(), put.clear()
    most = max(8192 // n, 1)
    for x, y in zip(xs, ys, strict=True):
        before = len(asked), len(put)
        pairs = [hyperparameters(model._trees, t) for t in range(N_TREES)]
        was_asking = model._trees.change is not None and not model._trees.change.is_chosen
        model.learn_one(x, y)
        assert (len(asked) - before[0]) + (len(put) - before[1]) <= 1
        assert all(stop - start <= most for start, stop in asked)
        if was_asking:
            # Nothing shows that candidates are tried.
            assert pairs == [hyperparameters(model._trees, t) for t in range(N_TREES)]
        if model._trees.change is None:
            break
    assert model.n_samples < n + 200
    assert model._trees.change is None
    assert bool(asked) == (n == 1024)
    assert [stop - start for start, stop in put[:-1]] == [most] * (len(put) - 1)
    assert len({hyperparameters(model._trees, t) for t in range(N_TREES)}) == 1
    trees = model._trees
    before = trees.__getstate__()["nodes"].rows
    forget_all(trees)
    for rows, old in zip(trees.__getstate__()["nodes"].rows, before, strict=True):
        np.testing.assert_array_equal(rows, old)


def test_a_sample_that_is_forgotten_ends_the_change():
    model, xs, ys = begun()
    first_xs, first_ys = stream(BEGIN + 305)
    model.forget_one(first_xs[3], first_ys[3])
    trees = model._trees
    assert trees.change is None
    assert trees._climbed[0] != BEGIN
    assert len({hyperparameters(trees, t) for t in range(N_TREES)}) == 1
    before = trees.__getstate__()["nodes"].rows
    forget_all(trees)
    for rows, old in zip(trees.__getstate__()["nodes"].rows, before, strict=True):
        np.testing.assert_array_equal(rows, old)
    learned(model, xs, ys)


@pytest.mark.parametrize("params", [{"window": 5000}, {"max_nodes": 4001}])
def test_where_points_move_or_lack_a_change_is_made_at_once(params):
    model = rm.MondrianForestRegressor(2, seed=1, **params)
    for x, y in zip(*stream(BEGIN), strict=True):
        model.learn_one(x, y)
    assert model._trees.change is None
    assert model._trees._climbed[0] == BEGIN


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", BEGIN + 100),
        ("at", BEGIN - 1),
        ("n_done", N_TREES + 1),
        ("extent", float("nan")),
        ("frame", 2),
        ("n_forgotten", 1),
        ("choice", (0, 0.5)),
        ("scores", {(0, 1000): 0.5}),
        ("scores", {(0, 1): "a"}),
        ("densities", np.zeros((3, 2))),
        ("is_chosen", 1),
    ],
)
def test_a_damaged_change_is_refused(name, value):
    model, _, _ = begun()
    stored = model._trees.__getstate__()
    stored["change"][name] = value
    made = object.__new__(type(model._trees))
    with pytest.raises(rm.ModelFormatError):
        made.__setstate__(stored)
    del stored["change"][name]
    with pytest.raises(rm.ModelFormatError, match="other parts"):
        made.__setstate__(stored)


def test_parts_are_made_once_no_change_can_be_under_way():
    assert SPREAD_FROM in CHOICES
    for n_trees in (1, 10, 300):
        trees = rm.MondrianForestRegressor(n_trees, seed=1)._grown()
        least = CHOICES[-1] + MOST_CANDIDATES * -(-min(n_trees, 10) // 2) + -(-n_trees // 2)
        assert least < trees.splits_at < least + 10
