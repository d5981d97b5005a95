"""Absent features as 0: forests on bags of words, counts and one-hot encodings."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from common import refused

import river_mondrian as rm
from river_mondrian.inputs import gap_of

NAMES = [f"w{i:02}" for i in range(12)]
KINDS = {
    "exact": lambda **more: rm.MondrianForestClassifier(3, seed=1, **more),
    "weights": lambda **more: rm.MondrianForestClassifier(3, seed=1, **more),
    "split pure": lambda **more: rm.MondrianForestClassifier(3, split_pure=True, seed=1, **more),
    "adaptive": lambda **more: rm.AdaptiveMondrianForestClassifier(
        3, n_candidates=4, seed=1, **more
    ),
    "gaussian": lambda **more: rm.MondrianForestRegressor(3, seed=1, **more),
    "mean": lambda **more: rm.MondrianForestRegressor(3, posterior="mean", seed=1, **more),
}


def bags(n, seed=0):
    """Return counts of words, some of which appear late, with labels that follow from them."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        known = min(len(NAMES), 3 + i // 25)
        words = rng.integers(0, known, 4)
        x = {NAMES[w]: float((words == w).sum()) * (1.0 if w % 2 else -0.5) for w in set(words)}
        found.append((x, int(sum(w % 3 == 0 for w in words) > 1)))
    return found


def dense(x):
    return {name: x.get(name, 0.0) for name in NAMES}


def learn(kind, model, x, y, i):
    if kind == "weights" and i % 3 == 0:
        model.learn_one(x, y, 0.5 + i % 2)
    else:
        model.learn_one(x, y)


def predicted(model, x):
    if hasattr(model, "predict_proba_one"):
        return list(model.predict_proba_one(x).values())
    if getattr(model, "posterior", "gaussian") == "gaussian":
        found = model.predict_one(x, with_dist=True)
        return [found.mean, found.var**0.5]
    return [model.predict_one(x)]


def test_a_damaged_value_of_absent_features_is_refused():
    model = rm.MondrianForestClassifier(2, seed=1)
    model.learn_one({"a": 1.0}, 0)
    model._trees.forest.absent = 0.0
    refused(model, "absent")


def test_a_feature_that_is_undone_has_counted_nothing():
    """In spare room, too, and where it comes back as a category."""
    names = [f"f{i:02}" for i in range(17)]
    model = rm.AdaptiveMondrianForestClassifier(2, missing="zero", seed=1)
    for i in range(30):
        model.learn_one(dict.fromkeys(names, float(i % 3)), i % 2)
    model.learn_one({"late": 1.0}, 0)
    assert model.predict_one({"f00": 1.0}) is not None
    before = pickle.dumps(model)
    model._settle()
    model._trees.begin_change()
    model._add_features({"later": 2.0})
    # As an exception would leave it.
    assert model.predict_one({"f00": 1.0}) is not None
    assert pickle.dumps(model) == before
    model.learn_one({"later": "red"}, 1)
    counts = model._trees.discriminants.learned["counts"][0]
    assert counts[1 + model.feature_names.index("later")] == 1.0


# By feature.

BY_FEATURE = KINDS | {
    "adaptive regressor": lambda **more: rm.AdaptiveMondrianForestRegressor(3, seed=1, **more),
    "levels": lambda **more: rm.MondrianForestClassifier(3, seed=1, **more),
    "adaptive, levels": lambda **more: rm.AdaptiveMondrianForestClassifier(3, seed=1, **more),
    "directions": lambda **more: rm.MondrianForestClassifier(3, directions=3, seed=1, **more),
    "random cuts": lambda **more: rm.RandomCutForest(3, seed=1, **more),
    "random cuts, shingle": lambda **more: rm.RandomCutForest(3, shingle=2, seed=1, **more),
    "nearest neighbors": lambda **more: rm.NearestNeighborDetector(seed=1, **more),
    "nearest neighbors, shingle": lambda **more: rm.NearestNeighborDetector(
        shingle=2, seed=1, **more
    ),
}


def mixed(kind, n, seed=0, age_from=300):
    """Return bags of words with an age that is not always there; and a level, of some kinds."""
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
    for i, (x, y) in enumerate(pairs):
        if hasattr(model, "score_one"):
            model.learn_one(x)
        else:
            learn(kind, model, x, y, i)


def told(model, pairs):
    if hasattr(model, "score_one"):
        return [model.score_one(x) for x, _ in pairs]
    return [predicted(model, x) for x, _ in pairs]


@pytest.mark.parametrize("kind", [*BY_FEATURE])
def test_a_mapping_of_all_features_is_the_word(kind):
    """Digit for digit, whichever keys it has."""
    pairs, later = mixed(kind, 330, age_from=200), mixed(kind, 20, 1, 0)
    for word, mappings in (
        ("zero", [{"": "zero"}, {"w": "zero", "age": "zero"}]),
        ("unknown", [{}, {"w0": "unknown", "x": "zero"}]),
    ):
        plain = BY_FEATURE[kind](missing=word)
        teach(kind, plain, pairs)
        for mapping in mappings:
            model = BY_FEATURE[kind](missing=mapping)
            teach(kind, model, pairs)
            if "zero" not in mapping.values() or word == "zero":
                assert told(model, later) == told(plain, later)


@pytest.mark.parametrize("kind", [kind for kind in BY_FEATURE if "cuts" not in kind])
def test_words_that_are_zero_and_values_that_are_unknown_go_together(kind):
    """Digit for digit as where zeros are there and everything else is unknown."""
    sparse = BY_FEATURE[kind](missing={"w": "zero", "w_color": "unknown"})
    full = BY_FEATURE[kind](missing="unknown")
    first = (dict.fromkeys(NAMES, 0.1), 0)
    pairs = [first, *mixed(kind, 350, age_from=280)]
    teach(kind, sparse, pairs)
    filled = [(dict.fromkeys(NAMES, 0.0) | x, y) for x, y in pairs]
    teach(kind, full, filled)
    later = mixed(kind, 20, 1, 0)
    holes = [({"w03": None, "w04": float("nan"), "age": None} | x, y) for x, y in later]
    expected = told(full, [(dict.fromkeys(NAMES, 0.0) | x, y) for x, y in later])
    assert told(sparse, later) == told(sparse, holes) == expected
    if "shingle" not in kind and hasattr(sparse, "predict_many"):
        frame = pd.DataFrame([x for x, _ in holes])
        whole = pd.DataFrame([dict.fromkeys(NAMES, 0.0) | x for x, _ in later])
        for method in ("predict_many", "predict_proba_many"):
            if hasattr(sparse, method):
                one, other = (getattr(m, method)(X) for m, X in ((sparse, frame), (full, whole)))
                np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("kind", ["exact", "weights", "split pure", "mean"])
def test_words_have_been_zero_and_later_values_have_been_unknown(kind, many):
    """Digit for digit as where all words are there from the start, and the age is not."""
    more = {"scale": False} | ({} if kind == "mean" else {"prior_rate": 20.0})
    sparse = KINDS[kind](missing={"w": "zero"}, **more)
    full = KINDS[kind](missing={}, **more)
    pairs = mixed(kind, 400)
    filled = [dense(x) | ({"age": x["age"]} if "age" in x else {}) for x, _ in pairs]
    if many:
        y = [y for _, y in pairs]
        sparse.learn_many(pd.DataFrame([x for x, _ in pairs], columns=[*NAMES, "age"]), y)
        full.learn_many(pd.DataFrame(filled, columns=[*NAMES, "age"]), y)
    else:
        teach(kind, sparse, pairs)
        teach(kind, full, [(x, y) for x, (_, y) in zip(filled, pairs, strict=True)])
    assert sparse.feature_names == full.feature_names
    later = mixed(kind, 30, 1, 0)
    expected = [(dense(x) | ({"age": x["age"]} if "age" in x else {}), y) for x, y in later]
    assert told(sparse, later) == told(full, expected)


def test_the_longest_key_that_a_name_begins_with_counts():
    missing = {"": "zero", "age": "unknown", "age_group_": "zero", 3: "unknown"}
    missing["a", 1] = "unknown"
    for name, is_zero in (
        ("age", False),
        ("age of", False),
        ("age_group_1", True),
        ("ag", True),
        (3, False),
        (4, True),
        (("a", 1), False),
        (("a", 2), True),
        (("age", 2), False),
        ((), True),
        ("", True),
    ):
        assert gap_of(name, missing) == 0.0 if is_zero else math.isnan(gap_of(name, missing))
    assert math.isnan(gap_of("word", {"age": "zero"}))


# Within River's pipelines.


def test_categories_that_are_absent_are_a_level():
    """An absent value of a category is as informative as a level."""
    rng = np.random.default_rng(0)
    for make in (rm.MondrianForestClassifier, rm.AdaptiveMondrianForestClassifier):
        right, model = 0, make(seed=1, missing="zero")
        for i in range(600):
            level = (None, "red", "blue")[rng.integers(3)]
            x = {"size": float(rng.random())} | ({"color": level} if level else {})
            right += i >= 300 and model.predict_one(x) == (level is None)
            model.learn_one(x, level is None)
        assert right > 280
