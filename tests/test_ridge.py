"""Exact ridge regression against its dense twin, and as its users meet it."""

import math

import numpy as np
import pytest
from common import fed
from hypothesis import given, settings
from hypothesis import strategies as st
from naive.ridge import Ridge
from test_linear import Scaled, frame, frozen, rows

import river_mondrian as rm
from river_mondrian.checks import ModelFormatError

MAPS = {"cells": frozen, "dense": Scaled, "fourier": lambda: rm.RandomFourierFeatures(30, seed=1)}


SETTINGS = {
    "default": {},
    "no intercept": {"fit_intercept": False},
    "noise": {"noise_variance": 0.3, "l2": 1e-3},
    "paper": {"noise_variance": 1e-2, "fit_intercept": False},
    "capped": {"max_columns": 2},
}


# Each setting, and each map by the default.
PAIRS = [
    ("cells", "default"),
    ("dense", "default"),
    ("fourier", "default"),
    ("dense", "no intercept"),
    ("fourier", "noise"),
    ("cells", "paper"),
    ("cells", "capped"),
]


def stream(n, seed=0):
    """Return samples with a late feature, targets, and weights, some of which are 0."""
    data = rows(n, seed)
    for i, x in enumerate(data):
        if i < 10 or i % 7 == 0:
            del x["c"]
    rng = np.random.default_rng(seed)
    targets = [100.0 + math.sin(3 * x["a"]) + x["b"] + 0.1 * rng.normal() for x in data]
    return data, targets, (rng.uniform(0.2, 2, size=n) * (rng.random(n) > 0.1)).tolist()


def learned(model, data, targets, weights):
    return fed(model, zip(data, targets, weights, strict=True))


@pytest.mark.blas
@pytest.mark.parametrize(("features", "setting"), PAIRS)
def test_the_posterior_is_that_of_dense_matrices(features, setting):
    shared = MAPS[features]()
    samples = list(zip(*stream(120), strict=True))
    for n in (1, 2, 5, 40, 120):
        model = fed(rm.RidgeRegressor(shared, **SETTINGS[setting]), samples[:n])
        counted = [one for one in samples[:n] if one[2] > 0.0]
        twin = check(model, counted)
        assert model.n_columns == len(twin.columns)
        if model.noise_variance is None and n in (5, 40):
            assert model.log_marginal_likelihood == pytest.approx(twin.marginal(), abs=1e-6)


@pytest.mark.blas
@pytest.mark.parametrize("features", ["cells", "fourier"])
def test_it_stays_exact_over_many_updates(features):
    n = 30_000
    data, targets, _ = stream(n)
    table = frame(data)
    model = rm.RidgeRegressor(MAPS[features](), l2=1e-4)
    model.learn_many(table, targets)
    own = model._features
    Phi = own.to_csr(table).toarray()
    Phi = np.hstack([np.ones((n, 1)), Phi[:, (Phi != 0.0).any(axis=0)]])
    penalty = np.sqrt(1e-4) * np.eye(Phi.shape[1])
    penalty[0] = 0.0
    expected, residual, *_ = np.linalg.lstsq(
        np.vstack([Phi, penalty]), np.r_[targets, np.zeros(len(penalty))], rcond=None
    )
    got = model.predict_many(table).to_numpy()
    np.testing.assert_allclose(got, Phi @ expected, rtol=0.0, atol=1e-8)
    assert model._current.residual == pytest.approx(residual[0], rel=1e-8)


def test_a_map_that_is_built_anew_learns_the_stored_samples_again():
    data, targets, weights = stream(160)
    model = rm.RidgeRegressor(rm.IsolationFeatures(20, 8, pool_size=100, seed=1))
    learned(model, data, targets, weights)
    assert model._features.frozen and model._next is None
    again = learned(rm.RidgeRegressor(model._features), data, targets, weights)
    assert model.log_marginal_likelihood == pytest.approx(again.log_marginal_likelihood, rel=1e-9)
    for x in data:
        assert model.predict_one(x) == pytest.approx(again.predict_one(x), rel=1e-9)


def test_a_cap_bounds_memory_and_keeps_what_there_is_exact():
    data, targets, weights = stream(400)
    model = rm.RidgeRegressor(frozen(), max_columns=25)
    sizes = []
    for x, y, w in zip(data, targets, weights, strict=True):
        model.learn_one(x, y, w=w)
        sizes.append(model._raw_memory_usage)
    assert model.n_columns == 25
    assert len(set(sizes[50:])) == 1


def test_before_there_is_enough():
    model = rm.RidgeRegressor(seed=1)
    assert model.predict_one({"a": 1.0}) == 0.0
    assert model.predict_one({"a": 1.0}, with_dist=True).var == math.inf
    assert (model.n_columns, model.log_marginal_likelihood) == (0, 0.0)
    assert model.predict_many(frame(rows(2))).tolist() == [0.0, 0.0]
    for _ in range(2):
        assert model.noise_posterior is None
        model.learn_one({"a": 1.0}, 5.0, w=0.0)
    assert rm.RidgeRegressor(noise_variance=1.0).noise_posterior is None
    for _ in range(5):
        model.learn_one({"a": 1.0}, 5.0)
    predicted = model.predict_one({"a": 1.0}, with_dist=True)
    assert predicted.mean == pytest.approx(5.0) and predicted.var**0.5 == pytest.approx(
        0.0, abs=1e-9
    )


# Ridge regression on windows, and on samples of which some are forgotten, against refits.

# What `forgetting.SHARE` promises, ten times over.
CLOSE = 1e-8


def check(model, samples, before=()):
    """Check a model against a refit of samples with their weights."""
    own = model._features
    if not samples:
        assert all(model.predict_one(x) == 0.0 for x in rows(5, seed=5))
        return None
    twin = Ridge(
        [own.transform_one(x) for x, _, _ in samples],
        [y for _, y, _ in samples],
        [w for _, _, w in samples],
        model.l2,
        model.fit_intercept,
        model.max_columns,
        [own.transform_one(x) for x in before],
    )
    n = len(samples)
    assert model._current.n_samples == n
    for x in rows(5, seed=5):
        mapped, got = own.transform_one(x), model.predict_one(x, with_dist=True)
        assert got.mean == pytest.approx(twin.mean(mapped), rel=CLOSE, abs=CLOSE)
        scale = model.noise_variance
        if scale is None and n - model.fit_intercept <= 2:
            assert got.var**0.5 == math.inf
            continue
        if scale is None:
            assert model.noise_posterior.args[0] == (n - model.fit_intercept) / 2
            scale = model.noise_posterior.mean()
        assert got.var == pytest.approx(scale * twin.variance(mapped), rel=CLOSE)
    if model.noise_variance is not None and n > model.fit_intercept:
        density = twin.log_density(model.noise_variance)
        assert model.log_marginal_likelihood == pytest.approx(density, rel=CLOSE, abs=CLOSE)
    return twin


@pytest.mark.blas
@pytest.mark.parametrize(("features", "setting"), PAIRS)
@pytest.mark.parametrize("window", [1, 2, 25])
def test_a_window_is_a_refit_of_the_latest_samples(features, setting, window):
    data, targets, weights = stream(70)
    model = rm.RidgeRegressor(MAPS[features](), window=window, **SETTINGS[setting])
    samples = []
    for i, one in enumerate(zip(data, targets, weights, strict=True)):
        model.learn_one(*one)
        if one[2] > 0.0:
            samples.append(one)
        if i in (0, 1, 30, 69):
            check(model, samples[-window:], [x for x, _, _ in samples])
    assert model.n_samples == 70


@pytest.mark.blas
@pytest.mark.parametrize(("features", "setting"), PAIRS)
def test_what_is_left_is_a_refit_of_the_others(features, setting):
    data, targets, weights = stream(60)
    model = rm.RidgeRegressor(MAPS[features](), window=1000, **SETTINGS[setting])
    samples = list(zip(data, targets, weights, strict=True))
    fed(model, samples)
    samples = [one for one in samples if one[2] > 0.0]
    before = [x for x, _, _ in samples]
    rng = np.random.default_rng(3)
    while samples:
        model.forget_one(*samples.pop(rng.integers(len(samples))))
        if len(samples) % 7 == 0:
            check(model, samples, before)
    assert model._current.residual == 0.0 and model.log_marginal_likelihood == 0.0


NUMBERS = st.sampled_from([0.0, 0.3, -1.0, 2.0, 1e4])


SAMPLES = st.tuples(NUMBERS, NUMBERS, st.sampled_from([0.0, 1e-3, 1.0, 1e9]))


@pytest.mark.blas
@given(
    st.sampled_from([1, 3, 100]),
    st.lists(st.tuples(st.booleans(), SAMPLES, st.integers(0, 9)), max_size=40),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_any_sequence_of_learning_and_forgetting(window, calls, intercept):
    model = rm.RidgeRegressor(
        rm.RandomFourierFeatures(6, seed=1), fit_intercept=intercept, window=window, l2=0.1
    )
    held = []
    for learns, (a, y, w), k in calls:
        if learns or not held:
            model.learn_one({"a": a}, y, w)
            held = [*held, ({"a": a}, y, w)][-window:] if w > 0.0 else held
        else:
            one = held[k % len(held)]
            model.forget_one(*one)
            # The oldest of equal samples is removed.
            held.remove(one)
        current = model._current
        assert [(s, t) for s, t in _held(current)] == [(y, w) for _, y, w in held]
        again = fed(rm.RidgeRegressor(model._features, 0.1, fit_intercept=intercept), held)
        size = max((abs(y) for _, y, _ in held), default=0.0)
        for b in (0.1, 2.0):
            got, expected = (m.predict_one({"a": b}) for m in (model, again))
            # The refit's own errors: weights of 1e9 and 1e-3 beside a ridge of .1.
            assert got == pytest.approx(expected, rel=CLOSE, abs=1e-5 * size)


def _held(posterior):
    """Return the targets and weights that a posterior holds, in order of arrival."""
    held = posterior.numbers.held
    slots, arrays = held.slots(), held.memory.arrays
    return zip(arrays["targets"][slots].tolist(), arrays["weights"][slots].tolist(), strict=True)


def compare(model, samples):
    """Check a model against the same one that has learned these samples only."""
    again = rm.RidgeRegressor(model._features, model.l2, fit_intercept=model.fit_intercept)
    for one in samples:
        again.learn_one(*one)
    assert model._current.residual == pytest.approx(again._current.residual, rel=CLOSE)
    likelihoods = model.log_marginal_likelihood, again.log_marginal_likelihood
    assert likelihoods[0] == pytest.approx(likelihoods[1], rel=CLOSE)
    for x in [x for x, *_ in samples[-20:]] + rows(20, seed=6):
        got, expected = (m.predict_one(x, with_dist=True) for m in (model, again))
        # A mean is known to its standard deviation.
        assert got.mean == pytest.approx(expected.mean, rel=CLOSE, abs=CLOSE * expected.var**0.5)
        assert got.var**0.5 == pytest.approx(expected.var**0.5, rel=CLOSE)


STREAMS = {
    "steady": (1e-2, lambda t, y, w: (y, w)),
    "little ridge": (1e-6, lambda t, y, w: (y, w)),
    # What is subtracted from targets goes with them.
    "trend": (1e-2, lambda t, y, w: (y + t, w)),
    "heavy tails": (1e-2, lambda t, y, w: (y + (w - 1.2) ** -3, (w / 2.0) ** -6)),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_errors_do_not_add_up_over_1e5_samples(kind):
    n, window = 100_000, 100
    delta2, change = STREAMS[kind]
    features = rm.RandomFourierFeatures(10, seed=1)
    model = rm.RidgeRegressor(features, delta2, window=window)
    rng = np.random.default_rng(7)
    X, w = rng.normal(size=(n, 2)), rng.uniform(0.2, 2.0, size=n)
    y = np.sin(3.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)
    samples = [
        (dict(zip("ab", x, strict=True)), *change(t, *pair))
        for t, (x, pair) in enumerate(zip(X.tolist(), zip(y, w, strict=True), strict=True))
    ]
    for t, (x, target, weight) in enumerate(samples):
        model.learn_one(x, target, weight)
        if t in (10_000, 31_623):
            compare(model, samples[t + 1 - window : t + 1])
    compare(model, samples[-window:])


@pytest.mark.parametrize("setting", ["default", "no intercept"])
@pytest.mark.parametrize("wild", [(1e100, 1.0), (3.0, 1e25), (-1e60, 1e-20)])
def test_a_wild_sample_leaves_no_trace(setting, wild):
    data, targets, _ = stream(80)
    samples = [(x, y, 1.0) for x, y in zip(data, targets, strict=True)]
    params = SETTINGS[setting]
    model = rm.RidgeRegressor(frozen(), window=1000, **params)
    for i, one in enumerate(samples):
        if i == 40:
            model.learn_one({"a": 0.1, "b": 0.2}, *wild)
        model.learn_one(*one)
    model.forget_one({"a": 0.1, "b": 0.2}, *wild)
    compare(model, samples)


@pytest.mark.parametrize("window", [20, 90, 100, 300])
@pytest.mark.parametrize("n", [1, 2, 60, 100, 104, 170])
def test_a_map_that_is_built_anew_learns_the_window_again(window, n):
    data, targets, weights = stream(240)
    samples = list(zip(data, targets, weights, strict=True))
    model = rm.RidgeRegressor(rm.IsolationFeatures(20, 8, pool_size=100, seed=1), window=window)
    held, rng = [], np.random.default_rng(n)
    for i, one in enumerate(samples):
        model.learn_one(*one)
        if one[2] > 0.0:
            held = [*held, one][-window:]
        # Before there is a map, before the last, while that learns what is stored, and later.
        if i + 1 >= n and i % 9 == 0 and held:
            model.forget_one(*held.pop(rng.integers(len(held))))
        if model._current is not None and model._next is None:
            assert list(_held(model._current)) == [(y, w) for _, y, w in held]
    assert model._features.frozen and model._next is None and not len(model._targets)
    compare(model, held)


def test_what_has_left_the_window_does_not_come_back():
    """Where some are forgotten, the next map does not learn older ones in their place."""
    data, targets, _ = stream(70)
    model = rm.RidgeRegressor(rm.IsolationFeatures(20, 8, pool_size=100, seed=1), window=20)
    for i, one in enumerate(zip(data, targets, strict=True)):
        model.learn_one(*one)
        if i == 61:
            for k in range(50, 60):
                model.forget_one(data[k], targets[k])
    # It was built of 64 samples.
    assert model._next is None and model._current.compiled.number == 5
    left = [*range(42, 50), *range(60, 70)]
    assert list(_held(model._current)) == [(targets[i], 1.0) for i in left]


@pytest.mark.parametrize(
    "features",
    [
        lambda: rm.MondrianFeatures(5, 2.0, seed=1),
        lambda: rm.RandomBinningFeatures(8, seed=1),
        lambda: rm.RandomFourierFeatures(8, seed=1),
    ],
)
def test_features_that_come_late_and_missing_values(features):
    """A sample leaves as it came, whatever the map does with its values now."""
    rng = np.random.default_rng(1)
    model = rm.RidgeRegressor(features(), window=30)
    samples = []
    for i in range(120):
        names = [name for j, name in enumerate("abcd") if i >= 20 * j and rng.random() < 0.8]
        samples.append(({name: float(rng.normal()) for name in names}, float(rng.normal()), 1.0))
        model.learn_one(*samples[-1])
    for one in samples[-30:]:
        model.forget_one(*one)
    current = model._current
    assert current.n_samples == 0 and current.residual == 0.0
    np.testing.assert_array_equal(current.numbers.learned["moments"][: current.n_rows], 0.0)
    n = current.n_rows
    prior = np.diag([0.0] + [math.sqrt(0.01)] * (n - 1))[np.tril_indices(n)]
    np.testing.assert_array_equal(current.numbers.learned["factor"][: n * (n + 1) // 2], prior)


def test_what_cannot_forget_says_so():
    model = rm.RidgeRegressor(frozen())
    model.learn_one({"a": 1.0}, 2.0)
    with pytest.raises(ValueError, match=r"window= only.*window=None"):
        model.forget_one({"a": 1.0}, 2.0)
    with pytest.raises(ValueError, match=r"window= only.*window=None"):
        model.forget_many(frame(rows(2)), [0.0, 0.0])


@pytest.mark.parametrize("how", ["forgotten", "out of the window"])
def test_nothing_of_a_sample_is_stored_afterwards(how, tmp_path):
    target, weight = 1234.56789, 0.987654321
    model = rm.RidgeRegressor(rm.RandomFourierFeatures(6, seed=1), window=20)
    model.learn_one({"a": 0.1}, target, weight)
    path = tmp_path / "model"
    outputs = model._features.transform_one({"a": 0.1}).values()
    numbers = [np.float64(one).tobytes() for one in (target, weight, *outputs)]
    rm.save(model, path)
    assert all(one in path.read_bytes() for one in numbers)
    for i in range(25 if how == "out of the window" else 5):
        model.learn_one({"a": 0.2 * i}, i)
    if how == "forgotten":
        model.forget_one({"a": 0.1}, target, weight)
    arrays = model._current.numbers.held.memory.arrays.values()
    memory = b"".join(array.tobytes() for array in arrays)
    rm.save(model, path)
    for one in numbers:
        assert one not in memory and one not in path.read_bytes()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("targets", lambda a: a + math.nan),
        ("weights", lambda a: -a),
        ("cells", lambda a: a + (1 << 30)),
        ("keys", lambda a: a.astype(np.int32)),
        ("errors", lambda a: a - 1.0),
        ("targets", lambda a: a[:-1]),
    ],
)
def test_damaged_windows_are_refused(name, change):
    model = learned(rm.RidgeRegressor(frozen(), window=20), *stream(60))
    held = model._current.numbers.held
    state = held.resized(model._current.compiled, 9, held.record.n_held).__getstate__()
    state["learned"][name] = change(state["learned"][name])
    with pytest.raises(ModelFormatError, match=r"damaged|shape"):
        held.__setstate__(state)
