"""Tests of calibrated intervals and sets: guarantees on any stream, late labels, interruptions."""

import copy
import itertools
import math
import pickle
import random
from collections import defaultdict
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from attack.judging import Judge
from common import fed, raises, restored
from naive.calibration import NaiveInterval, NaiveSet, NaiveSetByClass
from river import (
    base,
    evaluate,
    feature_extraction,
    linear_model,
    metrics,
    naive_bayes,
    preprocessing,
)

import river_mondrian as rm
from river_mondrian.compiling.kernels import COMPILES
from river_mondrian.learners import quantile_tracking

pytestmark = pytest.mark.covering

LEVELS = quantile_tracking.COVERAGES


class Point(base.Regressor):
    """Regressor that predicts the feature "p"."""

    def predict_one(self, x):
        return x.get("p", 0.0)

    def learn_one(self, x, y):
        if y == "bad":
            raise ValueError(y)


class Odds(base.Classifier):
    """Classifier that predicts the features as probabilities."""

    @property
    def _multiclass(self):
        return True

    def predict_proba_one(self, x):
        return {k: p for k, p in x.items() if k != "t"}

    def learn_one(self, x, y):
        pass


def follow(model, samples, predict, delay=0):
    """Predict each sample, learn it after `delay` later samples, and return the predictions."""
    found = []
    for i, (x, _) in enumerate(samples):
        found.append(predict(model, x))
        if i >= delay:
            model.learn_one(*samples[i - delay])
    return found


def intervals(coverage):
    return lambda model, x: model.predict_interval_one(x, coverage)


def numbers(n=600, seed=0):
    rng = np.random.default_rng(seed)
    points, noise = rng.normal(size=n), rng.standard_t(2, size=n)
    return [({"t": t, "p": p}, p + e) for t, (p, e) in enumerate(zip(points, noise, strict=True))]


def labels(n=600, seed=0, k=4):
    rng = np.random.default_rng(seed)
    found = []
    for t in range(n):
        p = rng.dirichlet(np.full(k, 0.5))
        x = dict(zip("abcdefgh", (p**2 / (p**2).sum()).tolist(), strict=False)) | {"t": t}
        found.append((x, "abcdefgh"[rng.choice(k, p=p)]))
    return found


# The reference.


def follow_twin(twin, samples, predicted, delay):
    """Return the reference's prediction of each sample from the model's prediction."""
    waiting, found = [], []
    for i, (x, _) in enumerate(samples):
        own, known = twin.predict(predicted(x))
        found.append(own)
        waiting.append(known)
        if i >= delay:
            twin.learn(waiting[i - delay], samples[i - delay][1])
    return found


@pytest.mark.parametrize("coverage", LEVELS)
@pytest.mark.parametrize("delay", [0, 7, 150])
def test_intervals_are_the_twins(coverage, delay):
    samples = numbers()
    found = np.array(follow(rm.Calibrated(Point()), samples, intervals(coverage), delay))
    ends = np.array(follow_twin(NaiveInterval(coverage), samples, lambda x: x["p"], delay))
    # If thresholds of two coverages cross, the wider interval is predicted.
    assert (found[:, 0] <= ends[:, 0] + 1e-9).all()
    assert (found[:, 1] >= ends[:, 1] - 1e-9).all()
    assert np.isclose(found, ends, rtol=1e-12, atol=1e-12).all(axis=1).mean() > 0.9


TWINS = {(c, e): lambda c=c, e=e: NaiveSet(c, not e) for c in LEVELS for e in (False, True)}
TWINS["by class"] = lambda: NaiveSetByClass(0.9)


@pytest.mark.parametrize("kind", TWINS)
@pytest.mark.parametrize("delay", [0, 7, 150])
def test_sets_are_the_twins(kind, delay):
    asked, samples = ((0.9,) if kind == "by class" else kind), labels()
    model = rm.Calibrated(Odds(), by_class=kind == "by class")
    found = follow(model, samples, lambda m, x: m.predict_set_one(x, *asked), delay)
    own = follow_twin(TWINS[kind](), samples, Odds().predict_proba_one, delay)
    assert all(map(set.issubset, own, found))
    assert np.mean([a == b for a, b in zip(own, found, strict=True)]) > 0.9


# Any sequence.


def play(model, ask, choose, n, delay, **known):
    """Return predictions and targets; `choose` returns a target for a prediction."""
    found, targets = [], []
    for t in range(n):
        found.append(ask(model, known | {"t": t}))
        targets.append(choose(t, *found[-1]))
        if t >= delay:
            model.learn_one(known | {"t": t - delay}, targets[t - delay])
    return found, np.array(targets)


def evades(t, low, high):
    """Return a value just outside an interval."""
    return high + 1e-3 if high < math.inf else low - 1e-3 if low > -math.inf else 0.0


SEQUENCES = {
    "grows": lambda t, low, high: math.copysign(1.001**t, math.sin(t)),
    "alternates": lambda t, low, high: 100.0 if t // 500 % 2 else 0.01 * math.sin(t),
    "evades": evades,
    "evades above": lambda t, low, high: high + 1.0 if high < math.inf else 5.0,
    "stays": lambda t, low, high: 3.0,
    "has few values": lambda t, low, high: float(t * 7 % 10 < 3),
}


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.95])
@pytest.mark.parametrize("sequence", SEQUENCES)
@pytest.mark.parametrize("delay", [0, 20, 150])
def test_intervals_hold_on_any_sequence(sequence, coverage, delay):
    model, n = rm.Calibrated(Point()), 6000
    ends, y = play(model, intervals(coverage), SEQUENCES[sequence], n, delay)
    low, high = np.array(ends).T
    tail, bound = (1.0 - coverage) / 2.0, max(1850, 25 * (delay + 1)) / n
    assert (y < low).mean() <= tail + bound
    assert (y > high).mean() <= tail + bound
    # Without a delay, the miscoverage on these streams is far below the bound.
    if delay == 0:
        assert ((low <= y) & (y <= high)).mean() >= coverage - 0.1


@pytest.mark.parametrize("delay", [0, 20, 150])
@pytest.mark.parametrize(
    "choose",
    [
        lambda t, found, exact: "c",
        lambda t, found, exact: "abc"[t // 400 % 3],
        # The label is the least probable class outside of the set.
        lambda t, found, exact: next((k for k in "cba" if k not in found), "a"),
    ],
)
def test_sets_hold_on_any_sequence(choose, delay):
    def ask(model, x):
        return [model.predict_set_one(x, 0.9, exact) for exact in (False, True)]

    n = 4000
    sets, labels = play(rm.Calibrated(Odds()), ask, choose, n, delay, a=0.7, b=0.2, c=0.1)
    # Probabilities are constant, so only a few thresholds are possible.
    for own in zip(*sets, strict=True):
        held = np.mean([label in found for label, found in zip(labels, own, strict=True)])
        assert held >= 0.9 - max(320, 12 * (delay + 1)) / n


def test_before_the_first_label():
    assert rm.Calibrated(Point()).predict_interval_one({"p": 1.0}) == (-math.inf, math.inf)
    assert rm.Calibrated(rm.MondrianForestClassifier(seed=1)).predict_set_one({"a": 1.0}) == set()


# Levels.


def test_larger_coverages_have_larger_intervals_and_sets():
    model, sets = rm.Calibrated(Point()), rm.Calibrated(Odds())
    asked = [0.01, 0.2, 0.5, 0.51, 0.7, 0.8, 0.9, 0.95, 0.97, 0.99, 1 - 1e-9, 1 - 2**-53]
    for (x, y), (p, label) in zip(numbers(400, 3), labels(400, 3), strict=True):
        ends = [model.predict_interval_one(x, one) for one in asked]
        assert all(c <= a <= b <= d for (a, b), (c, d) in itertools.pairwise(ends))
        found = [sets.predict_set_one(p, one) for one in asked]
        assert all(found)
        assert all(map(set.issubset, found[:-1], found[1:]))
        model.learn_one(x, y)
        sets.learn_one(p, label)


# Late labels.


@pytest.mark.parametrize("delay", [1, 30])
def test_late_labels_in_river(delay):
    model, samples = rm.Calibrated(Point()), numbers(300)
    mae = evaluate.progressive_val_score(iter(samples), model, metrics.MAE(), delay=delay)
    plain = evaluate.progressive_val_score(iter(samples), Point(), metrics.MAE(), delay=delay)
    assert mae.get() == plain.get()
    assert not model._waiting
    # River reveals a label before the next prediction, and reveals the last labels in order.
    twin, known = NaiveInterval(0.9), []
    for i in range(len(samples) + delay):
        if i >= delay:
            twin.learn(known[i - delay], samples[i - delay][1])
        known += [twin.predict(x["p"])[1] for x, _ in samples[i : i + 1]]
    ends, _ = twin.predict(0.0)
    assert model.predict_interval_one({"p": 0.0}, 0.9) == pytest.approx(ends, rel=1e-12)


def test_labels_in_any_order_and_equal_samples():
    samples = numbers(60)
    model = rm.Calibrated(Point())
    for x, _ in samples:
        model.predict_one(x)
    # A message queue would also pass copies of samples.
    fed(model, pickle.loads(pickle.dumps(samples[::-1])))
    assert not model._waiting
    # A sample that is predicted again has one label.
    for y in range(5):
        model.predict_one({"p": 1.0})
        model.predict_interval_one({"p": 1.0})
        model.learn_one({"t": y}, 0.0)
    assert len(model._waiting) == 1
    model.learn_one({"p": 1.0}, 1.0)
    assert not model._waiting


def test_predictions_that_wait_are_bounded():
    model = rm.Calibrated(Point(), max_pending=5)
    for t in range(50):
        model.predict_one({"t": t})
        model.predict_one({"t": t}, id=t)
    assert [key[-1] for key in model._waiting.by_sample] == [45, 46, 47, 48, 49]
    assert [*model._waiting.by_id] == [45, 46, 47, 48, 49]
    for _ in range(50):
        model.predict_one({"p": 1.0})
    assert [*map(len, model._waiting.by_sample.values())] == [5]
    # Samples that are predicted repeatedly, one after another.
    for t in range(50):
        model.predict_one({"p": t // 10})
        assert sum(map(len, model._waiting.by_sample.values())) < 10


class Latest(base.Regressor):
    """Regressor that predicts a running mean of all targets."""

    def __init__(self):
        self.mean = 0.0

    def predict_one(self, x):
        return self.mean

    def learn_one(self, x, y):
        self.mean += 0.3 * (y - self.mean)


def in_turn(delay=0, share=0.0, first=0):
    """Yield calls that predict each sample, and learn it after `delay` others.

    A share of the labels, and all labels before the label of sample `first`, are missing.
    """
    rng = random.Random(1)
    for t in itertools.count():
        yield "predict", t
        if t == delay + first or (t > delay + first and rng.random() >= share):
            yield "learn", t - delay


def in_any_order(delay):
    """Yield calls that predict each sample, and learn it after fewer than `delay` others."""
    rng = random.Random(1)
    due = defaultdict(list)
    for t in itertools.count():
        yield "predict", t
        due[t + rng.randrange(delay)].append(t)
        for i in due.pop(t, ()):
            yield "learn", i


def in_batches(size, share):
    """Yield calls that predict `size` samples, and learn them; some labels are missing."""
    rng = random.Random(1)
    for start in itertools.count(0, size):
        yield from (("predict", t) for t in range(start, start + size))
        for t in range(start, start + size):
            if rng.random() >= share:
                yield "learn", t


def ahead(horizon):
    """Yield calls that predict the next `horizon` samples, and learn the first of them."""
    for t in itertools.count():
        yield from (("predict", i) for i in range(t, t + horizon))
        yield "learn", t


# Orders of calls, and the period with which samples repeat; None if samples do not repeat.
ORDERS = {
    "no delay, 10 % missing": (in_turn, 168, {"share": 0.1}),
    "no delay, half missing": (in_turn, 2, {"share": 0.5}),
    "labels begin later": (in_turn, 24, {"delay": 5, "share": 0.1, "first": 100}),
    "one sample, 10 % missing": (in_turn, 1, {"share": 0.1}),
    "one sample, late": (in_turn, 1, {"delay": 20}),
    "late": (in_turn, 24, {"delay": 24}),
    "later than the period": (in_turn, 24, {"delay": 50}),
    "later than the period, 10 % missing": (in_turn, 24, {"delay": 50, "share": 0.1}),
    "any order": (in_any_order, None, {"delay": 50}),
    "any order within the period": (in_any_order, 168, {"delay": 50}),
    "batches": (in_batches, 24, {"size": 48, "share": 0.0}),
    "batches, 10 % missing": (in_batches, 24, {"size": 48, "share": 0.1}),
    "the next 24 hours": (ahead, 168, {"horizon": 24}),
}


@pytest.mark.parametrize("order", ORDERS)
def test_labels_find_their_predictions_without_ids(order):
    """The intervals equal those of a model that gets ids."""
    calls, period, arguments = ORDERS[order]
    with_ids, model = rm.Calibrated(Latest()), rm.Calibrated(Latest())
    targets, most = {}, 0
    rng, level = np.random.default_rng(1), 0.0
    for call, t in itertools.islice(calls(**arguments), 10_000 if calls is ahead else 2000):
        x = {"hour": t if period is None else t % period}
        if call == "predict":
            if t not in targets:
                level = 0.98 * level + rng.normal()
                targets[t] = level
            assert model.predict_one(x) == with_ids.predict_one(x, id=t)
            assert model.predict_interval_one(x) == with_ids.predict_interval_one(x, id=t)
            most = max(most, sum(map(len, model._waiting.by_sample.values())))
        else:
            model.learn_one(x, targets[t])
            with_ids.learn_one(x, targets[t], id=t)
    assert most <= (80 if calls is ahead else 250)


def test_the_last_prediction_of_an_id_waits_for_its_label(tmp_path):
    twin, found, known = NaiveInterval(0.9), [], {}
    model, rng = rm.Calibrated(Point()), random.Random(1)
    for t, (x, y) in enumerate(numbers(200)):
        key = ("order", t) if t % 2 else f"order {t}"
        model.predict_one({"p": 0.0}, id=key)
        found.append(model.predict_interval_one({"p": x["p"]}, 0.9, id=key))
        ends, record = twin.predict(x["p"])
        known[key] = record, x["p"], y
        assert found[-1] == pytest.approx(ends, rel=1e-12)
        if t == 100:
            model = restored(model)
        if t >= 30:
            key = rng.choice([*known])
            record, p, y = known.pop(key)
            model.learn_one({"p": p}, y, id=key)
            twin.learn(record, y)
    assert [*model._waiting.by_id] == [*known]
    # Files hold the predictions, too.
    model = rm.Calibrated(rm.MondrianForestClassifier(2, seed=1))
    for t, (x, y) in enumerate(labels(60)):
        model.predict_proba_one(x, id=t)
        model.predict_set_one(x, 0.9, id=t)
        if t < 40:
            model.learn_one(x, y, id=t)
    rm.save(model, tmp_path / "model")
    same, x = rm.load(tmp_path / "model"), {"a": 0.5}
    for one in (model, same):
        for t, (sample, y) in enumerate(labels(60)[40:], 40):
            one.learn_one(sample, y, id=t)
        assert not one._waiting
    assert model.predict_set_one(x, 0.7) == same.predict_set_one(x, 0.7)


def test_ids_of_rows():
    model = rm.Calibrated(Point())
    X = pd.DataFrame({"p": [1.0, 1.0, 2.0], "order": ["a", "b", "c"]})
    assert model.predict_many(X, id="order").tolist() == [1.0, 1.0, 2.0]
    assert [*model._waiting.by_id] == ["a", "b", "c"]
    model.learn_many(X[["p"]][::-1], [0.0, 0.0, 0.0], id=["c", "b", "a"])
    assert not model._waiting
    model.predict_many(pl.DataFrame({"p": [1.0]}), id=np.array([7]))
    assert [*model._waiting.by_id] == [7]
    predict, bad = model.predict_many, pd.DataFrame({"p": [1.0], "order": [1.5]})
    raises(TypeError, "column 'order' in row 0 must be a str", lambda: predict(bad, id="order"))
    raises(TypeError, "column 'none' in row 0 must be a", lambda: predict(bad, id="none"))
    raises(ValueError, "1 rows but there are 2 ids", lambda: predict(bad, id=[1, 2]))
    raises(ValueError, "must have the shape", lambda: predict(np.zeros(3)))
    twice = pd.DataFrame([[1, 2]], columns=["p", "p"])
    raises(ValueError, "more than once", lambda: predict(twice))
    time = np.datetime64(1, "ns")
    for no_id in (1.5, time, (time,), np.timedelta64(1, "ns")):
        with pytest.raises(TypeError, match="id must be a string, an integer or a tuple"):
            model.learn_one({}, 1.0, id=no_id)


SAMPLES = {
    "mapping": {"a": 1, "b": True, "c": "x"},
    "another order, missing values": {"c": "x", "d": None, "b": True, "e": math.nan, "a": 1.0},
    "NumPy": {"a": np.float32(1), "b": np.True_, "c": np.str_("x"), "d": np.datetime64("NaT", "s")},
    "arrays without dimensions": {"a": np.array(1), "b": 1.0, "c": "x", "d": np.array(math.nan)},
    "pandas.NA": {"a": Decimal(1), "b": 1, "c": "x", "d": pd.NA, "e": pd.NaT},
    "row": pd.Series({"a": 1, "b": 1, "c": "x", "d": None}),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_equal_samples_of_all_types(kind):
    model = rm.Calibrated(Point())
    for x in SAMPLES.values():
        model.predict_one(SAMPLES[kind])
        model.learn_one(x | {"a": "1"} if isinstance(x, dict) else x[["a"]], 0.0)
        assert len(model._waiting) == 1
        model.learn_one(x, 0.0)
        assert not model._waiting
    for large in (2**60 + 1, np.int64(2**60 + 1), np.array(2**60 + 1)):
        model.predict_one({"a": large})
        model.learn_one({"a": np.int64(2**60)}, 0.0)
        assert len(model._waiting) == 1
        model.learn_one({"a": 2**60 + 1}, 0.0)
        assert not model._waiting
    texts = rm.Calibrated(feature_extraction.BagOfWords() | naive_bayes.MultinomialNB())
    texts.predict_proba_one("a text")
    texts.learn_one("a text", "label")
    assert not texts._waiting


def test_a_sample_that_cannot_be_compared_needs_an_id():
    model = rm.Calibrated(Point())
    with pytest.warns(UserWarning, match=r"is .* \(list\), .*pass the same id") as found:
        for _ in range(2):
            model.predict_one({"v": [1.0]})
            model.learn_one({"v": [1.0]}, 0.0)
    assert len(found) == 1
    assert not model._waiting
    model.predict_one({"v": [1.0]}, id=1)
    assert model._waiting


@pytest.mark.parametrize("delay", [0, 50])
def test_predictions_that_no_label_finds_are_a_warning_and_expire(delay):
    inner = rm.Calibrated(linear_model.LinearRegression())
    model = preprocessing.StandardScaler() | inner
    with pytest.warns(UserWarning, match=r"Calibrated\(StandardScaler\(\) \| model\)") as found:
        follow(model, numbers(1300), lambda model, x: model.predict_one(x), delay)
    assert len(found) == 1
    assert len(inner._waiting) <= 1001 + delay


@pytest.mark.parametrize("other", [str, lambda t: None], ids=["text", "no id"])
def test_ids_that_no_label_has_are_a_warning(other):
    model = rm.Calibrated(Point())
    for t in range(200):
        model.predict_one({"p": t}, id=t)
        model.learn_one({"p": t}, 1.0, id=t)
        model.predict_one({"p": t}, id=(t,))
    assert not model._warned
    with pytest.warns(UserWarning, match="the same id, of the same type") as found:
        for t in range(200, 400):
            model.predict_one({"p": t}, id=t)
            model.learn_one({"p": t}, 1.0, id=other(t))
    assert len(found) == 1


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_missing_labels_do_not_change_a_forest(share):
    models = RIVERS["adaptive"](), rm.Calibrated(RIVERS["adaptive"]())
    samples = series(250)
    for call, t in itertools.islice(in_turn(share=share), 250):
        x = {"hour": t % 6}
        if call == "predict":
            assert len({model.predict_one(x) for model in models}) == 1
        else:
            for model in models:
                model.learn_one(x, samples[t][1])


def series(n, seed=1):
    # The last target predicts the next target well, and the target ten samples later poorly.
    rng, level, found = np.random.default_rng(seed), 0.0, []
    for t in range(n):
        level = 0.8 * level + rng.normal()
        found.append(({"t": t % 50, "a": rng.normal()}, level))
    return found


@pytest.mark.skipif(not COMPILES, reason="it takes thousands of samples")
def test_a_forest_learns_from_predictions_as_they_were():
    samples, delay = series(2500, 2), 10
    errors = []
    for wrap in (rm.Calibrated, lambda model: model):
        model = wrap(rm.AdaptiveMondrianForestRegressor(3, n_candidates=3, seed=1))
        points = follow(model, samples, lambda m, x: m.predict_one(x), delay)
        away = np.abs(np.array(points) - [y for _, y in samples])
        errors.append(away[1000:].mean())
    assert errors[0] < 0.97 * errors[1], errors


def test_a_forest_that_is_given_its_own_prediction_learns_the_same():
    models = [fed(RIVERS["adaptive"](), series(80)) for _ in range(2)]
    for x, y in series(40, 2):
        assert models[0].predict_one(x) == pytest.approx(models[1].predict_one(x), rel=1e-6)
        models[0].learn_one(x, y, remembered=models[0]._to_remember())
        models[1].learn_one(x, y)


# Frames.

FRAMES = {
    "pandas": lambda rows: pd.DataFrame(rows, index=range(7, 7 + len(rows))),
    "polars": pl.DataFrame,
    "array": lambda rows: np.array([list(x.values()) for x in rows], dtype=float),
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("delay", [0, 20])
def test_frames_are_learned_and_predicted_like_their_rows(kind, delay):
    rng = np.random.default_rng(1)
    for model, label in (
        (rm.MondrianForestRegressor(2, seed=1), lambda a: 2.0 * a),
        (naive_bayes.GaussianNB(), lambda a: "ab"[a > 0.0]),
    ):
        names = (0, 1) if kind == "array" else ("a", "b")
        samples = [dict(zip(names, row, strict=True)) for row in rng.normal(size=(60, 2)).tolist()]
        y = [label(x[names[0]]) for x in samples]
        one, many = rm.Calibrated(model.clone()), rm.Calibrated(model.clone())
        for start in range(0, 60, 20):
            rows = samples[start : start + 20]
            X = FRAMES[kind](rows)
            found, expected = many.predict_many(X), [one.predict_one(x) for x in rows]
            assert type(found) is {"pandas": pd.Series, "polars": pl.Series}.get(kind, np.ndarray)
            assert list(found) == expected
            if kind == "pandas":
                assert list(found.index) == list(X.index)
            if start >= delay:
                late = slice(start - delay, start - delay + 20)
                many.learn_many(FRAMES[kind](samples[late]), y[late])
                fed(one, zip(samples[late], y[late], strict=True))
            assert states(one) == states(many)
        if isinstance(one, base.Classifier):
            proba = np.asarray(many.predict_proba_many(FRAMES[kind](samples)))
            expected = [list(one.predict_proba_one(x).values()) for x in samples]
            np.testing.assert_allclose(proba, expected)


def test_frames_with_missing_values_and_bad_labels():
    model = rm.Calibrated(Point())
    X = pd.DataFrame({"p": [1.0, math.nan], "b": ["x", None], "c": pd.array([1, None])})
    assert model.predict_many(X).tolist() == [1.0, 0.0]
    for row, y in (({"p": 1.0, "b": "x", "c": 1}, 1.0), ({}, 2.0)):
        assert model._waiting
        model.learn_one(row, y)
    assert not model._waiting
    raises(ValueError, "X has 2 rows but there are 1 tar", lambda: model.learn_many(X, [1.0]))
    raises(TypeError, "a number.* in row 1", lambda: model.learn_many(X, [1.0, "x"]))
    assert model._n_learned == 2


def test_predictions_that_a_frame_cannot_hold_are_not_stored():
    table = pa.table({"a": [0.0, 1.0], "b": [1.0, 0.0]})
    model = fed(rm.Calibrated(Odds()), [({"a": 1.0}, "a")])
    model.model.predict_one = lambda x: 1 if x["a"] else "one"
    raises(TypeError, r"cannot hold the labels \['one', 1\]", lambda: model.predict_many(table))
    model.model.predict_proba_one = lambda x: {1: 0.5, "1": 0.5}
    raises(ValueError, "would be the same column", lambda: model.predict_proba_many(table))
    assert not model._waiting


# Models.


RIVERS = {
    "linear": lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(),
    "bayesian": lambda: preprocessing.StandardScaler() | linear_model.BayesianLinearRegression(),
    "exact": lambda: rm.MondrianForestRegressor(3, seed=1),
    "means": lambda: rm.MondrianForestRegressor(3, posterior="mean", seed=1),
    "adaptive": lambda: rm.AdaptiveMondrianForestRegressor(2, n_candidates=3, seed=1),
}


@pytest.mark.parametrize("name", RIVERS)
def test_regressors_of_all_kinds(name):
    model, plain = rm.Calibrated(RIVERS[name]()), RIVERS[name]()
    assert isinstance(model, base.Regressor)
    assert not isinstance(model, base.Classifier)
    rng = np.random.default_rng(1)
    for a in rng.normal(size=100).tolist():
        x, y = {"a": a}, 2.0 * a + rng.normal()
        assert model.predict_one(x) == plain.predict_one(x)
        model.learn_one(x, y)
        plain.learn_one(x, y)


KINDS = RIVERS | {
    "classes": lambda: rm.AdaptiveMondrianForestClassifier(2, n_candidates=3, seed=1),
    "exact classes": lambda: rm.MondrianForestClassifier(2, seed=1),
    "bayes": naive_bayes.GaussianNB,
}


@pytest.mark.parametrize("name", KINDS)
def test_copies_give_equal_intervals_and_sets(name, tmp_path):
    """A copy includes the predictions that wait for labels, and shares no state."""
    model = rm.Calibrated(KINDS[name](), by_class=name == "classes")
    is_classifier, models = isinstance(model, base.Classifier), [model]
    samples = labels(120) if is_classifier else numbers(120)
    for i, (x, _) in enumerate(samples):
        if i == 60:
            models += [copy.deepcopy(model), model.clone(include_attributes=True), restored(model)]
            # Files cannot store River's models.
            if hasattr(model.model, "memory_usage"):
                rm.save(model, tmp_path / "model")
                models.append(rm.load(tmp_path / "model"))
            assert {type(one) for one in models} == {type(model)}
            assert model.clone()._n_learned == 0
        asks = [m.predict_set_one if is_classifier else m.predict_interval_one for m in models]
        for coverage in (0.5, 0.7, 0.9):
            found = [ask(x, coverage) for ask in asks]
            assert found == found[:1] * len(models)
        for one in models if i >= 12 else ():
            one.learn_one(*samples[i - 12])


OF_TARGETS, OF_LABELS = rm.Calibrated(Point()), rm.Calibrated(Odds())


@pytest.mark.parametrize("coverage", [0.0, 1.0, 90, -0.1, math.nan, "0.9", True, None])
@pytest.mark.parametrize("ask", [OF_TARGETS.predict_interval_one, OF_LABELS.predict_set_one])
def test_bad_coverages(coverage, ask):
    raises(ValueError, "coverage must be between 0 and 1, got", lambda: ask({}, coverage))


def test_bad_arguments():
    raises(TypeError, "a regressor or a classifier, got 3", lambda: rm.Calibrated(3))
    raises(ValueError, "max_pending must be", lambda: rm.Calibrated(Point(), max_pending=0))
    raises(ValueError, "by_class must be True or", lambda: rm.Calibrated(Odds(), by_class=1))
    raises(TypeError, "needs a regressor", lambda: OF_LABELS.predict_interval_one({}))
    raises(TypeError, "needs a classifier", lambda: OF_TARGETS.predict_set_one({}))
    raises(ValueError, "exact must be", lambda: OF_LABELS.predict_set_one({}, exact="yes"))


def test_predictions_that_are_no_numbers():
    model = rm.Calibrated(Point())
    for t, (x, y) in enumerate(numbers(50)):
        model.learn_one(x, y)
        if t % 10 == 5:
            wild = {"p": math.inf, "t": -t}
            assert model.predict_interval_one(wild) == (-math.inf, math.inf)
            model.learn_one(wild, 0.0)
    assert all(map(math.isfinite, model.predict_interval_one({"p": 0.0})))


# Errors and interruptions.


def states(model):
    return copy.deepcopy((model._n_learned, model._tracked, vars(model._waiting)))


def learned(make, n=60):
    model = make()
    samples = labels(n) if isinstance(model, base.Classifier) else numbers(n)
    follow(model, samples, lambda model, x: model.predict_one(x), delay=5)
    return model, samples


WRAPPED = {
    "regressor": lambda: rm.Calibrated(RIVERS["adaptive"]()),
    "classifier": lambda: rm.Calibrated(rm.MondrianForestClassifier(2, seed=1), by_class=True),
}


@pytest.mark.parametrize("kind", WRAPPED)
def test_a_sample_that_the_model_refuses_changes_nothing(kind):
    model, samples = learned(WRAPPED[kind])
    before = states(model)
    bad, (waiting, _) = dict.fromkeys(samples[0][0], math.inf), samples[-1]
    learn, predict = model.learn_one, model.predict_one
    raises(ValueError, "inf", lambda: learn(bad, samples[0][1]), lambda: predict(bad))
    raises(ValueError, "nan", lambda: learn(waiting, math.nan))
    assert states(model) == before


@pytest.mark.parametrize("make", [rm.MondrianForestRegressor, rm.MondrianForestClassifier])
@pytest.mark.parametrize("other", [{}, {"a": 0.1, "t": -1}])
def test_exceptions_and_failing_allocations(make, other):
    def go_on(model):
        follow(model, samples[-3:], lambda model, x: model.predict_one(x))

    model, samples = learned(lambda: rm.Calibrated(make(2, seed=1)))
    judge = Judge(lambda one: (one.predict_one(samples[0][0]), states(one)), go_on, every=3)
    x, y = samples[-5]
    state = pickle.dumps(model)
    assert judge.lines(state, lambda one: one.learn_one(x | other, y)) == {0, 1}
    judge.allocations(state, lambda one: one.learn_one(x | other, y))
    for key in (None, "id"):
        assert judge.lines(state, lambda one, id=key: one.predict_one(x | other, id)) == {0, 1}
    model.predict_one(x, id="id")
    state = pickle.dumps(model)
    assert judge.lines(state, lambda one: one.learn_one(x | other, y, "id")) == {0, 1}
