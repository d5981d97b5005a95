"""Random cut forests that hold a random part of a window: which samples enter, and what follows."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from river_mondrian import RandomCutForest
from river_mondrian.compiling.kernels import kernel
from river_mondrian.posteriors.displacement import CutForest


@kernel
def does_pass(forest: CutForest) -> int:
    """Tell whether the next sample does not enter."""
    return int(forest.passes())


LEVEL = 0.001


def samples(n, seed=0, names="ab"):
    rows = np.random.default_rng(seed).normal(size=(n, len(names))).tolist()
    return [dict(zip(names, row, strict=True)) for row in rows]


def learn(model, found):
    """Learn samples; returns which of them have entered the trees."""
    entered = []
    for x in found:
        n_passed = 0 if model._trees is None else int(model._trees.forest.n_passed)
        model.learn_one(x)
        entered.append(int(model._trees.forest.n_passed) == n_passed)
    return entered


@pytest.mark.parametrize("seed", range(3))
def test_each_sample_enters_with_the_same_probability(seed):
    window, most, n = 80, 20, 4000
    entered = learn(RandomCutForest(1, window=window, max_samples=most, seed=seed), samples(n))
    assert all(entered[:most])
    later = np.array(entered[most:])
    share = most / window
    assert stats.binomtest(int(later.sum()), len(later), share).pvalue > LEVEL / 6
    # One after another, neither more nor less often than apart.
    pairs = int((later[1:] & later[:-1]).sum())
    error = math.sqrt(len(later) * share**2 * (1.0 - share**2 + 2.0 * share * (1.0 - share)))
    assert abs(pairs - len(later) * share**2) < stats.norm.isf(LEVEL / 12) * error


@pytest.mark.parametrize("params", [{}, {"scale": False}, {"rescale": False}])
def test_the_trees_are_those_of_the_samples_that_entered(params):
    found = samples(900, 5)
    found[400:] = [{name: 30.0 * v for name, v in x.items()} for x in found[400:]]
    part = RandomCutForest(4, window=200, max_samples=50, seed=3, **params)
    entered = learn(part, found)
    alone = RandomCutForest(4, window=50, max_samples=50, seed=3, **params)
    for x, is_in in zip(found, entered, strict=True):
        if is_in:
            alone.learn_one(x)
    assert part.n_samples == 900 > alone.n_samples == sum(entered)
    for x in samples(20, 6):
        assert part.raw_scores_one(x) == alone.raw_scores_one(x)
    # And held are the latest of them.
    for x in [x for x, is_in in zip(found, entered, strict=True) if is_in][-50:]:
        part.forget_one(x)
    assert part.n_samples == 0


def test_scores_are_kept_of_all_samples():
    model, raw = RandomCutForest(3, window=60, max_samples=40, seed=1), []
    for i, x in enumerate(samples(500)):
        if i >= 32:
            raw.append(model.raw_scores_one(x)["relative"])
        if i % 3:
            model.score_one(x)
        model.learn_one(x)
    assert model.recent_scores == raw


@pytest.mark.parametrize("window", [1, 30, None])
def test_a_smaller_window_is_held_as_a_whole(window):
    found = samples(200)
    one, other = (RandomCutForest(2, window=window, max_samples=m, seed=1) for m in (30, 1000))
    assert all(learn(one, found)) and all(learn(other, found))
    assert one.recent_scores == other.recent_scores


def test_a_shingle_goes_on_over_samples_that_do_not_enter():
    one = RandomCutForest(2, window=40, max_samples=10, shingle=3, seed=1)
    plain = RandomCutForest(2, window=40, max_samples=10, seed=1)
    values = [x["a"] for x in samples(120)]
    for i, v in enumerate(values):
        one.learn_one({"a": v})
        if i >= 2:
            plain.learn_one({ago: values[i - ago] for ago in range(3)})
    assert one.recent_scores == plain.recent_scores


def test_frames_files_and_copies_go_on_alike():
    X = pd.DataFrame(samples(150))
    one, many = (RandomCutForest(3, window=64, max_samples=16, seed=1) for _ in range(2))
    for x in X.to_dict("records"):
        one.learn_one(x)
    many.learn_many(X[:70])
    many = pickle.loads(pickle.dumps(many))
    many.learn_many(X[70:])
    assert one.recent_scores == many.recent_scores
    assert one.score_many(X).tolist() == many.score_many(X).tolist()


def test_asking_who_enters_changes_nothing():
    model = RandomCutForest(1, window=40, max_samples=10, seed=1)
    learn(model, samples(30))
    for x in samples(50, 2):
        asked = [does_pass(model._trees.forest) for _ in range(3)]
        assert [asked[0]] * 3 == asked
        with pytest.raises(ValueError, match="'a'"):
            model.learn_one({"a": math.inf})
        assert learn(model, [x]) == [not asked[0]]


@pytest.mark.parametrize("value", [0, -1, 1.5, "10", None])
def test_bad_numbers_are_refused(value):
    with pytest.raises((TypeError, ValueError), match="max_samples must be"):
        RandomCutForest(max_samples=value)
