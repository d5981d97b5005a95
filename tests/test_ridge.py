"""Tests of exact ridge regression: dense reference, and the public interface."""

import math

import numpy as np
import pytest
from attack.judging import some
from common import fed, raises
from hypothesis import given, settings
from hypothesis import strategies as st
from naive.ridge import Ridge
from test_linear import frame, frozen, rows

import river_mondrian as rm
from river_mondrian.checks import ModelFormatError

MAPS = {"cells": frozen, "fourier": lambda: rm.RandomFourierFeatures(30, seed=1)}


SETTINGS = {
    "default": {},
    "no intercept": {"fit_intercept": False},
    "noise": {"noise_variance": 0.3, "l2": 1e-3},
    "paper": {"noise_variance": 1e-2, "fit_intercept": False},
    "capped": {"max_columns": 2},
}


# Pairs of a map and a setting; each setting occurs with at least one of the two maps.
PAIRS = [("cells", setting) for setting in ("default", "paper", "capped")]
PAIRS += [("fourier", setting) for setting in ("default", "no intercept", "noise")]


def stream(n, seed=0):
    """Return samples with a late feature, targets, and weights, some of which are 0."""
    data, rng = rows(n, seed), np.random.default_rng(seed)
    for i, x in enumerate(data):
        if i < 10 or i % 7 == 0:
            del x["c"]
    targets = [100.0 + math.sin(3 * x["a"]) + x["b"] + 0.1 * rng.normal() for x in data]
    weights = rng.uniform(0.2, 2, size=n) * (rng.random(n) > 0.1)
    return list(zip(data, targets, weights.tolist(), strict=True))


def counted(samples):
    return [one for one in samples if one[2] > 0.0]


@pytest.mark.blas
@pytest.mark.parametrize(("features", "setting"), PAIRS)
def test_the_posterior_is_that_of_dense_matrices(features, setting):
    shared, samples = MAPS[features](), stream(120)
    for n in (1, 2, 5, 40, 120):
        model = fed(rm.RidgeRegressor(shared, **SETTINGS[setting]), samples[:n])
        twin = check(model, counted(samples[:n]))
        assert model.n_columns == len(twin.columns)
        if model.noise_variance is None and n in (5, 40):
            assert model.log_marginal_likelihood == pytest.approx(twin.marginal(), abs=1e-6)


@pytest.mark.blas
@pytest.mark.parametrize("features", ["cells", "fourier"])
def test_it_stays_exact_over_many_updates(features):
    n = 30_000
    data, targets, _ = zip(*stream(n), strict=True)
    table = frame(data)
    model = rm.RidgeRegressor(MAPS[features](), l2=1e-4)
    model.learn_many(table, targets)
    Phi = model._features.to_csr(table).toarray()
    Phi = np.hstack([np.ones((n, 1)), Phi[:, (Phi != 0.0).any(axis=0)]])
    penalty = np.diag([0.0] + [1e-2] * (Phi.shape[1] - 1))
    rows, values = np.vstack([Phi, penalty]), np.r_[targets, np.zeros(len(penalty))]
    expected, residual, *_ = np.linalg.lstsq(rows, values, rcond=None)
    got = model.predict_many(table).to_numpy()
    np.testing.assert_allclose(got, Phi @ expected, rtol=0.0, atol=1e-8)
    assert model._current.residual == pytest.approx(residual[0], rel=1e-8)


def test_a_cap_bounds_memory_and_keeps_what_there_is_exact():
    model, sizes = rm.RidgeRegressor(frozen(), max_columns=25), []
    for sample in stream(400):
        model.learn_one(*sample)
        sizes.append(model._raw_memory_usage)
    assert model.n_columns == 25
    assert len(set(sizes[50:])) == 1


def test_before_there_is_enough():
    model = rm.RidgeRegressor(seed=1)
    assert model.predict_one({"a": 1.0}) == 0.0
    assert (model.n_columns, model.log_marginal_likelihood) == (0, 0.0)
    assert model.predict_many(frame(rows(2))).tolist() == [0.0, 0.0]
    for _ in range(2):
        assert model.noise_posterior is None
        model.learn_one({"a": 1.0}, 5.0, w=0.0)
    assert rm.RidgeRegressor(noise_variance=1.0).noise_posterior is None
    predicted = fed(model, [({"a": 1.0}, 5.0)] * 5).predict_one({"a": 1.0}, with_dist=True)
    assert (predicted.mean, predicted.var) == (pytest.approx(5.0), pytest.approx(0.0, abs=1e-18))
    for forget in (lambda: model.forget_one({"a": 1.0}, 5.0), lambda: model.forget_many([{}], [1])):
        raises(ValueError, r"only with window=, got window=None", forget)


# Ridge regression with a window or removed samples, against refits.

# Ten times the error bound of `windows.LARGEST_RELATIVE_ERROR`.
CLOSE = 1e-8


def check(model, samples, before=()):
    """Check a model against a refit of weighted samples."""
    own = model._features
    if not samples:
        assert all(model.predict_one(x) == 0.0 for x in rows(5, seed=5))
        return None
    mapped, earlier = ([own.transform_one(x) for x, *_ in part] for part in (samples, before))
    _, targets, weights = zip(*samples, strict=True)
    arguments = model.l2, model.fit_intercept, model.max_columns
    twin = Ridge(mapped, targets, weights, *arguments, earlier)
    n, scale = len(samples), model.noise_variance
    assert model._current.n_samples == n
    if scale is None and n - model.fit_intercept > 2:
        assert model.noise_posterior.args[0] == (n - model.fit_intercept) / 2
        scale = model.noise_posterior.mean()
    for x in rows(5, seed=5):
        mapped, got = own.transform_one(x), model.predict_one(x, with_dist=True)
        assert got.mean == pytest.approx(twin.mean(mapped), rel=CLOSE, abs=CLOSE)
        variance = math.inf if scale is None else scale * twin.variance(mapped)
        assert got.var == pytest.approx(variance, rel=CLOSE)
    if model.noise_variance is not None and n > model.fit_intercept:
        density = twin.log_density(model.noise_variance)
        assert model.log_marginal_likelihood == pytest.approx(density, rel=CLOSE, abs=CLOSE)
    return twin


@pytest.mark.blas
@pytest.mark.parametrize(("features", "setting"), PAIRS)
def test_what_is_left_is_a_refit_of_the_others(features, setting):
    model = rm.RidgeRegressor(MAPS[features](), window=1000, **SETTINGS[setting])
    fed(model, stream(60))
    known = counted(stream(60))
    left, rng = list(known), np.random.default_rng(3)
    while left:
        model.forget_one(*left.pop(rng.integers(len(left))))
        if len(left) % 7 == 0:
            check(model, left, known)
    assert model._current.residual == 0.0 and model.log_marginal_likelihood == 0.0


NUMBERS = st.sampled_from([0.0, 0.3, -1.0, 2.0, 1e4])


SAMPLES = st.tuples(NUMBERS, NUMBERS, st.sampled_from([0.0, 1e-3, 1.0, 1e9]))


@pytest.mark.blas
@given(
    st.sampled_from([1, 3, 100]),
    st.lists(st.tuples(st.booleans(), SAMPLES, st.integers(0, 9)), max_size=40),
    st.booleans(),
)
@settings(max_examples=60)
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
            # Of equal samples, the oldest is removed.
            held.remove(one)
        current = model._current
        assert _held(current) == [(y, w) for _, y, w in held]
        again = fed(rm.RidgeRegressor(model._features, 0.1, fit_intercept=intercept), held)
        size = max((abs(y) for _, y, _ in held), default=0.0)
        for b in (0.1, 2.0):
            got, expected = (m.predict_one({"a": b}) for m in (model, again))
            # The refit has errors, too: weights of 1e9 and 1e-3 meet a ridge of .1.
            assert got == pytest.approx(expected, rel=CLOSE, abs=1e-5 * size)


def _held(posterior):
    """Return the targets and weights that a posterior stores, in order of arrival."""
    held = posterior.numbers.held
    slots, arrays = held.slots(), held.memory.arrays
    return [*zip(arrays["targets"][slots].tolist(), arrays["weights"][slots].tolist(), strict=True)]


def compare(model, samples):
    """Check a model against a model that has learned only these samples."""
    again = rm.RidgeRegressor(model._features, model.l2, fit_intercept=model.fit_intercept)
    fed(again, samples)
    for own, other in (
        (model._current.residual, again._current.residual),
        (model.log_marginal_likelihood, again.log_marginal_likelihood),
    ):
        assert own == pytest.approx(other, rel=CLOSE)
    for x in [x for x, *_ in samples[-20:]] + rows(20, seed=6):
        got, expected = (m.predict_one(x, with_dist=True) for m in (model, again))
        # The tolerance of a mean is relative to its standard deviation.
        assert got.mean == pytest.approx(expected.mean, rel=CLOSE, abs=CLOSE * expected.var**0.5)
        assert got.var**0.5 == pytest.approx(expected.var**0.5, rel=CLOSE)


STREAMS = {
    "steady": (1e-2, lambda t, y, w: (y, w)),
    "little ridge": (1e-6, lambda t, y, w: (y, w)),
    # The value that is subtracted from targets follows the trend of the targets.
    "trend": (1e-2, lambda t, y, w: (y + t, w)),
    "heavy tails": (1e-2, lambda t, y, w: (y + (w - 1.2) ** -3, (w / 2.0) ** -6)),
}


@pytest.mark.parametrize("kind", some(STREAMS, 2))
def test_errors_do_not_add_up_over_1e5_samples(kind):
    n, window = 100_000, 100
    delta2, change = STREAMS[kind]
    model = rm.RidgeRegressor(rm.RandomFourierFeatures(10, seed=1), delta2, window=window)
    rng = np.random.default_rng(7)
    X, w = rng.normal(size=(n, 2)), rng.uniform(0.2, 2.0, size=n)
    y = np.sin(3.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)
    samples = [
        (dict(zip("ab", x, strict=True)), *change(t, *pair))
        for t, (x, *pair) in enumerate(zip(X.tolist(), y, w, strict=True))
    ]
    for start, end in ((0, 10_001), (10_001, 31_624), (31_624, n)):
        compare(fed(model, samples[start:end]), samples[end - window : end])


@pytest.mark.parametrize("setting", ["default", "no intercept"])
@pytest.mark.parametrize("wild", [(1e100, 1.0), (3.0, 1e25), (-1e60, 1e-20)])
def test_a_wild_sample_leaves_no_trace(setting, wild):
    samples, wild = [(x, y, 1.0) for x, y, _ in stream(80)], ({"a": 0.1, "b": 0.2}, *wild)
    model = rm.RidgeRegressor(frozen(), window=1000, **SETTINGS[setting])
    fed(model, [*samples[:40], wild, *samples[40:]]).forget_one(*wild)
    compare(model, samples)


@pytest.mark.covering
@pytest.mark.parametrize("window", [None, 20, 90, 100, 300])
@pytest.mark.parametrize("n", [1, 2, 60, 100, 104, 170])
def test_a_map_that_is_built_anew_learns_the_window_again(window, n):
    model = rm.RidgeRegressor(rm.IsolationFeatures(20, 8, pool_size=100, seed=1), window=window)
    held, rng = [], np.random.default_rng(n)
    for i, one in enumerate(stream(240)):
        model.learn_one(*one)
        held = [*held, *counted([one])][-(window or 240) :]
        # Samples are removed before the first map, before the last map, during its replay, and
        # later.
        if window and i + 1 >= n and i % 9 == 0 and held:
            model.forget_one(*held.pop(rng.integers(len(held))))
        if window and model._current is not None and model._next is None:
            assert _held(model._current) == [(y, w) for _, y, w in held]
    assert model._features.frozen and model._next is None and not len(model._targets)
    compare(model, held)


@pytest.mark.parametrize(
    "features", [rm.MondrianFeatures, rm.RandomBinningFeatures, rm.RandomFourierFeatures]
)
def test_features_that_come_late_and_missing_values(features):
    """A sample is removed with the learned values, even if the map has changed."""
    rng = np.random.default_rng(1)
    model, samples = rm.RidgeRegressor(features(8, seed=1), window=30), []
    for i in range(120):
        names = [name for j, name in enumerate("abcd") if i >= 20 * j and rng.random() < 0.8]
        samples.append(({name: float(rng.normal()) for name in names}, float(rng.normal()), 1.0))
        model.learn_one(*samples[-1])
    for one in samples[-30:]:
        model.forget_one(*one)
    current = model._current
    n, learned = current.n_rows, current.numbers.learned
    assert current.n_samples == 0 and current.residual == 0.0
    np.testing.assert_array_equal(learned["moments"][:n], 0.0)
    prior = np.diag([0.0] + [math.sqrt(0.01)] * (n - 1))[np.tril_indices(n)]
    np.testing.assert_array_equal(learned["factor"][: n * (n + 1) // 2], prior)


@pytest.mark.parametrize("how", ["forgotten", "out of the window"])
def test_nothing_of_a_sample_is_stored_afterwards(how, tmp_path):
    sample = {"a": 0.1}, 1234.56789, 0.987654321
    model = fed(rm.RidgeRegressor(rm.RandomFourierFeatures(6, seed=1), window=20), [sample])
    numbers = [*sample[1:], *model._features.transform_one(sample[0]).values()]
    numbers, path = [np.float64(one).tobytes() for one in numbers], tmp_path / "model"
    rm.save(model, path)
    assert all(one in path.read_bytes() for one in numbers)
    fed(model, [({"a": 0.2 * i}, i) for i in range(25 if how == "out of the window" else 5)])
    if how == "forgotten":
        model.forget_one(*sample)
    rm.save(model, path)
    arrays = model._current.numbers.held.memory.arrays.values()
    stored = path.read_bytes() + b"".join(array.tobytes() for array in arrays)
    assert not any(one in stored for one in numbers)


def spoilt(value):
    return lambda array: np.full_like(array, value)


DAMAGES = [("targets", spoilt(math.nan)), ("weights", spoilt(-1.0)), ("cells", spoilt(1 << 30))]
DAMAGES += [("errors", spoilt(-1.0)), ("targets", lambda array: array[:-1])]
DAMAGES += [("keys", lambda array: array.astype(np.int32))]


@pytest.mark.parametrize(("name", "damage"), DAMAGES)
def test_damaged_windows_are_refused(name, damage):
    model = fed(rm.RidgeRegressor(frozen(), window=20), stream(60))
    held = model._current.numbers.held
    state = held.resized(model._current.compiled, 9, held.record.n_held).__getstate__()
    state["learned"][name] = damage(state["learned"][name])
    raises(ModelFormatError, r"damaged|shape", lambda: held.__setstate__(state))
