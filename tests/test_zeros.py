"""What is absent as 0: forests on bags of words, counts and one-hot encodings."""

import pickle

import numpy as np
import pandas as pd
import pytest

from river_mondrian import (
    AdaptiveMondrianForestClassifier,
    ModelFormatError,
    MondrianForestClassifier,
    MondrianForestRegressor,
)

NAMES = [f"w{i:02}" for i in range(12)]
KINDS = {
    "exact": lambda **more: MondrianForestClassifier(3, seed=1, **more),
    "weights": lambda **more: MondrianForestClassifier(3, seed=1, **more),
    "split pure": lambda **more: MondrianForestClassifier(3, split_pure=True, seed=1, **more),
    "adaptive": lambda **more: AdaptiveMondrianForestClassifier(3, n_candidates=4, seed=1, **more),
    "gaussian": lambda **more: MondrianForestRegressor(3, seed=1, **more),
    "mean": lambda **more: MondrianForestRegressor(3, posterior="mean", seed=1, **more),
}


def bags(n, seed=0):
    """Return counts of words, of which later ones come later, with labels that follow from them."""
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
    if model.posterior == "gaussian":
        found = model.predict_one(x, with_dist=True)
        return [found.mean, found.var**0.5]
    return [model.predict_one(x)]


@pytest.mark.parametrize("kind", [*KINDS])
def test_what_is_absent_counts_as_zero(kind):
    """Digit for digit as where the zeros are there; so do None and NaN."""
    sparse, full = KINDS[kind](missing="zero"), KINDS[kind](missing="zero")
    for i, (x, y) in enumerate([(dict.fromkeys(NAMES, 0.1), 0), *bags(400)]):
        holes = {NAMES[i % 12]: None, NAMES[(i + 5) % 12]: float("nan")} | x
        if i > 0:
            assert predicted(sparse, x) == predicted(sparse, holes) == predicted(full, dense(x))
        learn(kind, sparse, holes if i % 2 else x, y, i)
        learn(kind, full, dense(x), y, i)


@pytest.mark.parametrize("kind", ["exact", "weights", "split pure", "mean"])
@pytest.mark.parametrize("many", [False, True])
def test_a_feature_has_been_zero_before_its_first_value(kind, many):
    """Digit for digit as where all features are there from the start, in their order."""
    more = {} if kind == "mean" else {"prior_rate": 20.0}
    sparse, full = (
        KINDS[kind](missing=missing, scale=False, **more) for missing in ("zero", "unknown")
    )
    pairs = bags(500)
    if many:
        frame = pd.DataFrame([x for x, _ in pairs], columns=NAMES)
        sparse.learn_many(frame, [y for _, y in pairs])
        full.learn_many(frame.fillna(0.0), [y for _, y in pairs])
    else:
        for i, (x, y) in enumerate(pairs):
            learn(kind, sparse, x, y, i)
            learn(kind, full, dense(x), y, i)
    for x, _ in bags(50, 1):
        assert predicted(sparse, x) == predicted(full, dense(x))


@pytest.mark.parametrize("directions", [3, [{"w00": 1.0, "w05": -1.0}, {"w11": 2.0}]])
def test_directions_of_zeros(directions):
    sparse = MondrianForestClassifier(3, directions=directions, missing="zero", seed=1)
    full = MondrianForestClassifier(3, directions=directions, missing="zero", seed=1)
    for x, y in [(dense({"w00": 1.0}), 0), *bags(300)]:
        sparse.learn_one(x, y)
        full.learn_one(dense(x), y)
    for x, _ in bags(30, 1):
        assert sparse.predict_proba_one(x) == full.predict_proba_one(dense(x))


def test_missing_is_checked():
    for make in KINDS.values():
        with pytest.raises(ValueError, match=r'missing must be "unknown" or "zero", got None'):
            make(missing=None)
    model = MondrianForestClassifier(2, seed=1)
    model.learn_one({"a": 1.0}, 0)
    model._trees.forest.absent = 0.0
    with pytest.raises(ModelFormatError, match="absent"):
        pickle.loads(pickle.dumps(model))


def test_values_far_from_zero_keep_their_resolution():
    """Years that are always there are cut as finely as with unknown values, bit for bit."""
    rng = np.random.default_rng(0)
    known, unknown = (MondrianForestClassifier(3, missing=m, seed=1) for m in ("zero", "unknown"))
    for _ in range(400):
        x = {"time": 1.7e9 + float(rng.integers(1000))}
        for model in (known, unknown):
            model.learn_one(x, int(x["time"]) % 100 > 50)
        assert known.predict_proba_one(x) == unknown.predict_proba_one(x)


def test_a_feature_that_is_undone_has_counted_nothing():
    """In spare room, too, and where it comes back as a category."""
    names = [f"f{i:02}" for i in range(17)]
    model = AdaptiveMondrianForestClassifier(2, missing="zero", seed=1)
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


# Within River's pipelines.


def test_categories_that_are_absent_are_a_level():
    """Of a category what is absent tells as much as a level does."""
    rng = np.random.default_rng(0)
    for make in (MondrianForestClassifier, AdaptiveMondrianForestClassifier):
        right, model = 0, make(seed=1, missing="zero")
        for i in range(600):
            level = (None, "red", "blue")[rng.integers(3)]
            x = {"size": float(rng.random())} | ({"color": level} if level else {})
            right += i >= 300 and model.predict_one(x) == (level is None)
            model.learn_one(x, level is None)
        assert right > 280
