"""Tests of absent features that count as 0, as in bags of words and one-hot encodings."""

import functools
import itertools
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from common import accuracy, answer, fed

import river_mondrian as rm
from river_mondrian.inputs import gap_of

NAMES = [f"w{i:02}" for i in range(12)]
KINDS = {
    "exact": functools.partial(rm.MondrianForestClassifier, 3, seed=1),
    "weights": functools.partial(rm.MondrianForestClassifier, 3, seed=1),
    "split pure": functools.partial(rm.MondrianForestClassifier, 3, split_pure=True, seed=1),
    "adaptive": functools.partial(rm.AdaptiveMondrianForestClassifier, 3, seed=1),
    "gaussian": functools.partial(rm.MondrianForestRegressor, 3, seed=1),
    "mean": functools.partial(rm.MondrianForestRegressor, 3, posterior="mean", seed=1),
}


def bags(n, seed=0):
    """Return counts of words, some of which come late, with labels that depend on them."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        known = min(len(NAMES), 3 + i // 25)
        words = rng.integers(0, known, 4)
        x = {NAMES[w]: float((words == w).sum()) * (1.0 if w % 2 else -0.5) for w in set(words)}
        found.append((x, int(sum(w % 3 == 0 for w in words) > 1)))
    return found


def test_a_feature_that_is_undone_has_counted_nothing():
    """The test covers a feature with reserved memory, and a feature that returns as a category."""
    names = [f"f{i:02}" for i in range(17)]
    model = rm.AdaptiveMondrianForestClassifier(2, missing="zero", seed=1)
    fed(model, [(dict.fromkeys(names, float(i % 3)), i % 2) for i in range(30)])
    model.learn_one({"late": 1.0}, 0)
    assert model.predict_one({"f00": 1.0}) is not None
    before = pickle.dumps(model)
    model._settle()
    model._trees.begin_change()
    model._add_features({"later": 2.0})
    # This is the state after an exception.
    assert model.predict_one({"f00": 1.0}) is not None
    assert pickle.dumps(model) == before
    model.learn_one({"later": "red"}, 1)
    counts = model._trees.discriminants.learned["counts"][0]
    assert counts[1 + model.feature_names.index("later")] == 1.0


BY_FEATURE = KINDS | {
    "adaptive regressor": functools.partial(rm.AdaptiveMondrianForestRegressor, 3, seed=1),
    "levels": KINDS["exact"],
    "adaptive, levels": KINDS["adaptive"],
    "directions": functools.partial(rm.MondrianForestClassifier, 3, directions=3, seed=1),
    "random cuts": functools.partial(rm.RandomCutForest, 3, seed=1),
    "random cuts, shingle": functools.partial(rm.RandomCutForest, 3, shingle=2, seed=1),
    "nearest neighbors": functools.partial(rm.NearestNeighborDetector, seed=1),
    "nearest neighbors, shingle": functools.partial(rm.NearestNeighborDetector, shingle=2, seed=1),
}


def mixed(kind, n, seed=0, age_from=300):
    """Return bags of words with an age that may be missing, and (for some kinds) a level."""
    rng = np.random.default_rng(seed)
    found = []
    for i, (x, y) in enumerate(bags(n, seed)):
        if i >= age_from and rng.random() < 0.6:
            x["age"] = float(rng.normal(30.0 + y))
        if "levels" in kind and rng.random() < 0.5:
            x["w_color"] = "red" if rng.random() < 0.3 + 0.4 * y else "blue"
        found.append((x, y))
    return found


def teach(kind, model, pairs):
    weights = (0.5, 1.0, 1.5) if kind == "weights" else (1.0,)
    return fed(model, [(*pair, w) for pair, w in zip(pairs, itertools.cycle(weights))])


def told(model, pairs):
    """Return all results of a model for samples."""
    return [answer(model, x) for x, _ in pairs]


def filled(pairs):
    """Return samples in which no word is absent."""
    return [(dict.fromkeys(NAMES, 0.0) | x, y) for x, y in pairs]


@pytest.mark.parametrize("kind", [*BY_FEATURE])
def test_a_mapping_of_all_features_is_the_word(kind):
    """Absent words and words with value 0 give the same results bit for bit."""
    pairs, later = mixed(kind, 330, age_from=200), mixed(kind, 20, 1, 0)
    for word, mappings in (
        ("zero", [{"": "zero"}, {"w": "zero", "age": "zero"}]),
        ("unknown", [{}, {"w0": "unknown"}]),
    ):
        expected = told(teach(kind, BY_FEATURE[kind](missing=word), pairs), later)
        for mapping in mappings:
            assert told(teach(kind, BY_FEATURE[kind](missing=mapping), pairs), later) == expected


@pytest.mark.parametrize("kind", [kind for kind in BY_FEATURE if "cuts" not in kind])
def test_words_that_are_zero_and_values_that_are_unknown_go_together(kind):
    """The reference has explicit zeros, and missing values are unknown."""
    first = (dict.fromkeys(NAMES, 0.1), 0)
    pairs = [first, *mixed(kind, 350, age_from=280)]
    sparse = teach(kind, BY_FEATURE[kind](missing={"w": "zero", "w_color": "unknown"}), pairs)
    full = teach(kind, BY_FEATURE[kind](missing="unknown"), filled(pairs))
    later = mixed(kind, 20, 1, 0)
    holes = [({"w03": None, "w04": math.nan, "age": None} | x, y) for x, y in later]
    assert told(sparse, later) == told(sparse, holes) == told(full, filled(later))
    if "shingle" not in kind and hasattr(sparse, "predict_many"):
        frames = [pd.DataFrame([x for x, _ in rows]) for rows in (holes, filled(later))]
        for method in ("predict_many", "predict_proba_many"):
            if hasattr(sparse, method):
                models = zip((sparse, full), frames, strict=True)
                one, other = (np.asarray(getattr(m, method)(X)) for m, X in models)
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("kind", ["exact", "weights", "split pure", "mean"])
def test_words_have_been_zero_and_later_values_have_been_unknown(kind, many):
    """The reference has all words from the start, but not the age."""
    more = {"scale": False} | ({} if kind == "mean" else {"prior_rate": 20.0})
    sparse, full = (KINDS[kind](missing=gaps, **more) for gaps in ({"w": "zero"}, {}))
    pairs = mixed(kind, 400)
    for model, known in ((sparse, pairs), (full, filled(pairs))):
        if many:
            X = pd.DataFrame([x for x, _ in known], columns=[*NAMES, "age"])
            model.learn_many(X, [y for _, y in known])
        else:
            teach(kind, model, known)
    assert sparse.feature_names == full.feature_names
    later = mixed(kind, 30, 1, 0)
    assert told(sparse, later) == told(full, filled(later))


def test_the_longest_key_that_a_name_begins_with_counts():
    missing = {"": "zero", "age": "unknown", "age_group_": "zero", 3: "unknown"}
    missing["a", 1] = "unknown"
    for name in ("age_group_1", "ag", 4, ("a", 2), (), ""):
        assert gap_of(name, missing) == 0.0, name
    for name in ("age", "age of", 3, ("a", 1), ("age", 2)):
        assert math.isnan(gap_of(name, missing)), name
    assert math.isnan(gap_of("word", {"age": "zero"}))


def test_categories_that_are_absent_are_a_level():
    """The absence of a category is as informative as a level."""
    rng = np.random.default_rng(0)
    colors = [({}, {"color": "red"}, {"color": "blue"})[k] for k in rng.integers(3, size=600)]
    samples = [({"size": float(rng.random())} | color, not color) for color in colors]
    for make in (rm.MondrianForestClassifier, rm.AdaptiveMondrianForestClassifier):
        assert accuracy(make(seed=1, missing="zero"), samples, 300) > 280 / 300
