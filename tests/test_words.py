"""Tests of learners with weights for words in addition to weights for cells."""

import copy

import numpy as np
import pandas as pd
import pytest
from common import fed, raises, restored
from naive import ogd as naive
from river import optim

from river_mondrian import IsolationFeatures, ModelFormatError, OGDClassifier, OGDRegressor
from river_mondrian.estimators.feature_learner import REPLAY

N_WORDS = 3000
POOL = 60


def documents(n, n_classes=4, seed=0, n_words=25):
    """Return word counts of texts on topics; new words occur at any time."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        topic = int(rng.integers(n_classes))
        words = [f"topic {topic} {k}" for k in rng.choice(30, 6, replace=False)]
        words += [f"word {k}" for k in rng.integers(N_WORDS, size=n_words)]
        # Multiples of 1/2 are exact in single precision. Some words have count 0.
        values = rng.integers(-1, 5, size=len(words)) / 2.0
        found.append((dict(zip(words, values.tolist(), strict=True)), f"class {topic}"))
    return found


def features(method="anne"):
    return IsolationFeatures(10, 8, method, POOL, seed=1)


def learned(samples, model=None, **params):
    return fed(OGDClassifier(features(), **params) if model is None else model, samples)


def probabilities(model, samples):
    return [model.predict_proba_one(x) for x, _ in samples]


@pytest.mark.parametrize("method", ["anne", "iforest"])
@pytest.mark.parametrize("multiclass", ["softmax", "ovr"])
@pytest.mark.parametrize(
    ("loss", "rate", "adagrad"), [("log", 0.4, True), ("hinge", 0.0731, False)]
)
def test_cells_and_words_are_learned_as_by_the_twin(method, multiclass, loss, rate, adagrad):
    samples, names = documents(POOL + 260), []
    one = fed(features(method), [x for x, _ in samples[:POOL]])
    while not one.frozen:
        one.learn_one({})
    twin = naive.TextOGD(loss, lambda step: rate, adagrad, multiclass == "softmax")
    optimizer = optim.AdaGrad(rate) if adagrad else rate
    model = OGDClassifier(one, loss, optimizer, multiclass=multiclass)
    for i, (x, y) in enumerate(samples[POOL:]):
        # At first there are two classes and one score.
        y = y if i > 60 else f"class {int(y[-1]) % 2}"
        if y not in names:
            names.append(y)
            if len(names) > 2:
                twin.add_class()
        cells, weight = one.transform_one(x), (0.5, 1.0)[i % 2]
        model.learn_one(x, y, w=weight)
        twin.learn_text(cells, x, float(names.index(y)), weight)
        model._score(x)
        expected = twin.scores(cells | twin.weighed(x))
        np.testing.assert_allclose(model._current.scores, expected, atol=1e-9)
    assert len(names) == 4
    assert model._current.has_words
    assert len(model._words) > len(one._reader.index) + 500


def test_the_final_weights_learn_the_words_of_stored_samples_again():
    samples = documents(POOL + 30, 2)
    model = learned(samples, learning_rate=0.2)
    one = model._features
    twin = naive.TextOGD("log", lambda step: 0.2, False)
    positive = samples[0][1]
    for i in naive.order_of_learning(len(samples), POOL, REPLAY):
        x, y = samples[i]
        twin.learn_text(one.transform_one(x), x, float(y != positive))
    for x, _ in documents(20, 2, seed=1):
        model._score(x)
        (expected,) = twin.scores(one.transform_one(x) | twin.weighed(x))
        assert model._current.scores[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.covering
@pytest.mark.parametrize("loss", ["log", "foreign"])
@pytest.mark.parametrize("n", [1, 40, 59, 62, 90, 150])
def test_copies_frames_and_other_orders_of_keys_continue_bit_for_bit(loss, n):
    params = {"loss": optim.losses.BinaryFocalLoss(), "multiclass": "ovr"} if loss != "log" else {}
    samples, queries = documents(200), documents(30, seed=1)
    model = learned(samples[:n], **params)
    turned = learned([(dict(reversed(x.items())), y) for x, y in samples[:n]], **params)
    others = [copy.deepcopy(model), restored(model), turned]
    many, X, y = learned((), **params), *map(list, zip(*samples, strict=True))
    X = pd.DataFrame(X)
    many.learn_many(X[:n], y[:n])
    many.learn_many(X[n:], y[n:])
    expected = probabilities(model, queries)
    assert all(probabilities(other, queries) == expected for other in others)
    expected = probabilities(learned(samples[n:], model), queries)
    for other in others:
        assert probabilities(learned(samples[n:], other), queries) == expected
    assert probabilities(many, queries) == expected
    table = pd.DataFrame([x for x, _ in queries])
    assert model.predict_proba_many(table).to_dict("records") == expected
    assert model.predict_many(table).tolist() == [model.predict_one(x) for x, _ in queries]


def test_only_texts_have_words():
    rows = [dict(enumerate(row)) for row in np.random.default_rng(0).random((200, 5)).tolist()]
    samples, switches = [(x, int(x[0] > x[1])) for x in rows], (True, False)
    first, second = (probabilities(learned(samples, linear=is_on), samples) for is_on in switches)
    assert first == second
    text = [learned(documents(150), linear=is_on) for is_on in switches]
    assert [model._current.has_words for model in text] == [True, False]
    assert text[1]._words is None
    targets = [(x, i % 2) for i, (x, _) in enumerate(documents(100))]
    assert not fed(OGDRegressor(features()), targets)._current.has_words


def test_words_that_came_once_take_next_to_no_memory():
    model = learned(documents(80, n_words=40))
    n_words = len(model._words)
    slots = model._current.memory.arrays["word_slots"][:n_words]
    alone = slots < 0
    assert alone.sum() > n_words / 4
    assert len(np.unique(slots[alone])) <= 80
    assert model._raw_memory_usage > 8 * 4 * (slots > 0).sum()


@pytest.mark.covering
@pytest.mark.parametrize("n", [30, 100])
@pytest.mark.parametrize("value", [float("inf"), 1e39, "much"])
@pytest.mark.parametrize("known", [True, False])
def test_a_bad_word_is_named_and_changes_nothing(n, value, known):
    samples = documents(n + 40)
    name = next(iter(samples[0][0])) if known else "never seen"
    model, untouched = learned(samples[:n]), learned(samples[:n])
    n_words, bad = len(model._words or ()), {**samples[0][0], name: value}
    raises((TypeError, ValueError), name, lambda: model.learn_one(bad, "class 1"))
    assert len(model._words or ()) == n_words
    # After words have weights, an unknown word contributes to the length of the text.
    if known or model._words is not None:
        raises((TypeError, ValueError), name, lambda: model.predict_one(bad))
    for one in (model, untouched):
        learned(samples[n:], one)
    assert probabilities(model, samples) == probabilities(untouched, samples)


def test_what_is_missing_is_no_word():
    model = learned(documents(100))
    known = len(model._words)
    model.learn_one({"new": None, "newer": float("nan"), "topic 0 1": 1.0}, "class 0")
    assert len(model._words) == known
    model.learn_one({"new": 0.0}, "class 0")
    assert len(model._words) == known + 1


DAMAGES = [("word_slots", 1 << 20), ("word_slots", -1), ("word_squares", -1.0)]
DAMAGES += [("word_factors", np.nan), ("word_counts", 101.0)]
# Arrays in a file that are too short.
DAMAGES += [("word_factors", None), ("column_squares", None)]


@pytest.mark.parametrize("name, value", DAMAGES)
def test_damaged_words_are_refused(name, value):
    weights = learned(documents(100))._current
    state, made = copy.deepcopy(weights.__getstate__()), object.__new__(type(weights))
    made.__setstate__(copy.deepcopy(state))
    if value is None:
        state[name] = state[name][:-1]
    else:
        state[name][0] = value
    raises(ModelFormatError, None, lambda: made.__setstate__(state))


def test_the_words_are_those_of_the_map_and_more():
    model = learned(documents(100))
    state = model.__getstate__()
    state["_words"] = {f"other {name}": place for name, place in state["_words"].items()}
    with pytest.raises(ModelFormatError, match="_words"):
        OGDClassifier.__new__(OGDClassifier).__setstate__(state)
