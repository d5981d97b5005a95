"""Tests that the ADWIN kernel equals River's ADWIN after each value."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from common import as_kernel, ordered_kernel, restored
from river import drift

import river_mondrian as rm
from river_mondrian.compiling.kernels import COMPILES, kernel, ordered_sums
from river_mondrian.learners import drift as ours
from river_mondrian.learners.drift import ADWIN, NOBODY, OUTSIDE, DriftWatch
from river_mondrian.records import Float64s

watch_one = as_kernel(ours.watch, ordered_kernel)


N = 4000 if COMPILES else 600


@kernel
@ordered_sums
def update_all(errors: ours.DriftWatchRecord, values: Float64s, n: int, out: Float64s) -> None:
    """Update by `n` values; write, after each value, drift, width, sum and variance."""
    for i in range(n):
        out[4 * i] = 1.0 if ours.update(errors, values[i]) else 0.0
        out[4 * i + 1] = errors.width
        out[4 * i + 2] = errors.total
        out[4 * i + 3] = errors.variance


def updated(watch, values):
    out = np.empty((len(values), 4))
    update_all.of()(watch.record, Float64s.of(values), len(values), Float64s.of(out))
    return out


def rivers(values, **parameters):
    detector, found = drift.ADWIN(**parameters), []
    for value in values:
        detector.update(value)
        found.append((detector.drift_detected, detector.width, detector.total, detector.variance))
    return np.array(found, dtype=np.float64)


# The probability of an error at each of n values.
RATES = {
    "constant": lambda rng, n: np.full(n, rng.random()),
    "gradual": lambda rng, n: np.linspace(0.1, 0.8, n),
    "abrupt": lambda rng, n: np.repeat(rng.random(8), -(-n // 8))[:n],
}


def stream(seed, kind, is_real, n=N):
    rng = np.random.default_rng(seed)
    chance = RATES[kind](rng, n)
    if is_real:
        return np.minimum(rng.exponential(chance), 1.0)
    return (rng.random(n) < chance).astype(float)


PARAMETERS = [
    {},
    {"delta": 0.2},
    {"delta": 1e-8, "clock": 1},
    {"delta": 5.0, "clock": 7, "max_buckets": 2, "min_window_length": 1, "grace_period": 0},
    {"delta": 0.05, "clock": 1, "max_buckets": 9, "min_window_length": 30, "grace_period": 200},
    {"delta": 1e-320, "max_buckets": 30},
]


@pytest.mark.covering
@pytest.mark.parametrize("parameters", PARAMETERS)
@pytest.mark.parametrize("is_real", [False, True])
@pytest.mark.parametrize("kind", RATES)
def test_adwin_is_rivers(parameters, is_real, kind):
    """A copy from a pickle returns the same results."""
    n_drifts = widest = 0
    for seed in range(3):
        values = stream(seed, kind, is_real)
        watch, expected = DriftWatch(**parameters), rivers(values, **parameters)
        np.testing.assert_array_equal(updated(watch, values[:333]), expected[:333])
        watch = restored(watch)
        np.testing.assert_array_equal(updated(watch, values[333:].copy()), expected[333:])
        n_drifts, widest = n_drifts + expected[:, 0].sum(), max(widest, expected[:, 1].max())
    # The comparison must cover wide windows and drifts.
    assert parameters or kind != "abrupt" or (widest > N / 16 and n_drifts >= 3)


def test_values_far_apart():
    """Rounding may make a variance negative; infinity is an allowed value."""
    rng = np.random.default_rng(0)
    values = rng.choice([1e-9, 1.0, 1e8, -1e12], N) * rng.random(N)
    for _ in range(2):
        found = updated(DriftWatch(clock=3), values)
        np.testing.assert_array_equal(found, rivers(values, clock=3))
        values[N // 2] = np.inf


def test_only_increasing_errors_are_drifts():
    """The reference uses the definition with plain means."""
    errors = np.concatenate([stream(0, "constant", False) < 0, stream(1, "abrupt", True)])
    made, detector, drifts = DriftWatch(ADWIN, clock=8), drift.ADWIN(clock=8), 0
    seen, recent = [], 0.0
    for i, error in enumerate(errors.astype(float)):
        kept = watch_one.of()(made.record, float(error), 0, i + 1)
        detector.update(error)
        seen.append(error)
        recent += ours.FAST * (error - recent)
        expected = 0
        if detector.drift_detected and recent > np.mean(seen):
            expected = min(max(int(detector.width), ours.FEWEST_KEPT), i + 1)
            seen, drifts = [recent], drifts + 1
        assert kept == expected
    assert drifts > 0


def test_who_detects():
    """Without a detector no drift is found; a detector outside the kernel passes `found`."""
    for detector, found, kept in ((NOBODY, 0, 0), (OUTSIDE, 0, 0), (OUTSIDE, 7, ours.FEWEST_KEPT)):
        made = DriftWatch(detector)
        assert watch_one.of()(made.record, 0.0, 0, 400) == 0
        assert watch_one.of()(made.record, 1.0, found, 400) == 0
        for error in [0.0] * 300 + [1.0] * 60:
            watch_one.of()(made.record, error, 0, 400)
        assert watch_one.of()(made.record, 1.0, found, 400) == kept
    assert watch_one.of()(DriftWatch(OUTSIDE).record, 1.0, ours.AFTER_DRIFT, 400) == 0


# Drifts in adaptive forests. Detectors in the kernel and in Python find the same drifts.

KINDS = [rm.AdaptiveMondrianForestClassifier, rm.AdaptiveMondrianForestRegressor]


class Outside(drift.ADWIN):
    """Subclass of River's ADWIN, which is updated in Python and not in the kernel."""


def samples(kind, n, seed=0):
    """Return samples whose labels are exchanged, or targets negated, after every 600 samples."""
    X = np.random.default_rng(seed).random((n, 3))
    y = X @ [1.0, -1.0, 0.5] * (-1.0) ** (np.arange(n) // 600)
    return X, (y if kind is rm.AdaptiveMondrianForestRegressor else y > 0.0).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_finds_the_drifts_that_river_finds(kind):
    """Samples are learned one by one, in batches, and by copies and unpickled models."""
    X, y = samples(kind, 1900)
    own = {"delta": 0.2, "clock": 8}
    detectors = {"inside": drift.ADWIN, "outside": Outside, "many": drift.ADWIN}
    models = {name: kind(3, drift_detector=one(**own), seed=1) for name, one in detectors.items()}
    told = {"inside": [], "outside": []}
    for i, (x, target) in enumerate(zip(X.tolist(), y, strict=True)):
        for name in told:
            models[name].learn_one(dict(enumerate(x)), target)
            if i % 500 == 99 or models[name].drift_detected:
                models[name] = restored(copy.deepcopy(models[name]))
            if models[name].drift_detected:
                told[name].append(i + 1)
    for start in range(0, len(X), 300):
        models["many"].learn_many(X[start : start + 300], y[start : start + 300])
    logs = [model.drift_log for model in models.values()]
    assert len(logs[0]) > 1
    assert told["inside"] == told["outside"] == [n for n, _ in logs[0]]
    assert logs[0] == logs[1] == logs[2]
    for x in X[:20].tolist():
        assert len({model.predict_one(dict(enumerate(x))) for model in models.values()}) == 1


DETECTORS = [(None, ADWIN), (drift.ADWIN(delta=0.5), ADWIN), (drift.NoDrift(), NOBODY)]
# The kernel does not support these arguments, so River's ADWIN is used.
WRONG = drift.ADWIN(delta=-1.0), drift.ADWIN(max_buckets=ours.MOST_BUCKETS + 1)
DETECTORS += [(one, OUTSIDE) for one in (drift.PageHinkley(), Outside(), *WRONG)]


@pytest.mark.parametrize(("detector", "expected"), DETECTORS)
def test_who_detects_of_adaptive_drift(detector, expected):
    model = rm.AdaptiveMondrianForestClassifier(1, drift_detector=detector)
    model.learn_one({"a": 1.0}, 0)
    assert model._trees.watch.record.detector == expected
    assert (model._fed is not None) == (expected == OUTSIDE)


def test_a_detector_that_was_fed_before_begins_again():
    fed = drift.ADWIN()
    for i in range(100):
        fed.update(i % 2)
    model = rm.AdaptiveMondrianForestClassifier(1, drift_detector=fed)
    model.learn_one({"a": 1.0}, 0)
    model.learn_one({"a": 1.0}, 1)
    assert model._trees.watch.record.width == 1
