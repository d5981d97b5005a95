"""Drifts in adaptive forests: detectors within the kernel and outside find the same."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from river import drift

from river_mondrian import (
    AdaptiveMondrianForestClassifier,
    AdaptiveMondrianForestRegressor,
    ModelFormatError,
)
from river_mondrian.learners.drift import ADWIN, MOST_BUCKETS, NOBODY, OUTSIDE

KINDS = [AdaptiveMondrianForestClassifier, AdaptiveMondrianForestRegressor]


class Outside(drift.ADWIN):
    """River's own, which Python feeds since its class is another one."""


def samples(kind, n, seed=0):
    """Return samples whose labels or targets turn after every 600."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    weights = rng.normal(size=(n // 600 + 1, 3))[np.arange(n) // 600]
    y = (X * weights).sum(axis=1)
    return X, (y if kind is AdaptiveMondrianForestRegressor else y > 0.0).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_finds_the_drifts_that_river_finds(kind):
    """Sample by sample, in batches, and by copies and pickles."""
    X, y = samples(kind, 1900)
    own = {"delta": 0.05, "clock": 8}
    detectors = {
        "inside": drift.ADWIN(**own),
        "many": drift.ADWIN(**own),
        "outside": Outside(**own),
    }
    models = {name: kind(3, drift_detector=one, seed=1) for name, one in detectors.items()}
    for i, (x, target) in enumerate(zip(X.tolist(), y, strict=True)):
        for name in ("inside", "outside"):
            models[name].learn_one(dict(enumerate(x)), target)
            if i % 500 == 99:
                models[name] = pickle.loads(pickle.dumps(copy.deepcopy(models[name])))
    for start in range(0, len(X), 300):
        models["many"].learn_many(X[start : start + 300], y[start : start + 300])
    logs = [model.drift_log for model in models.values()]
    assert len(logs[0]) > 1
    assert logs[0] == logs[1] == logs[2]
    for x in X[:20].tolist():
        assert len({model.predict_one(dict(enumerate(x))) for model in models.values()}) == 1


@pytest.mark.parametrize(
    ("detector", "expected"),
    [
        (None, ADWIN),
        (drift.ADWIN(delta=0.5), ADWIN),
        (drift.NoDrift(), NOBODY),
        (drift.PageHinkley(), OUTSIDE),
        (Outside(), OUTSIDE),
        # What ADWIN makes of these is River's.
        (drift.ADWIN(delta=-1.0), OUTSIDE),
        (drift.ADWIN(max_buckets=MOST_BUCKETS + 1), OUTSIDE),
    ],
)
def test_who_detects(detector, expected):
    model = AdaptiveMondrianForestClassifier(1, drift_detector=detector)
    model.learn_one({"a": 1.0}, 0)
    assert model._trees.watch.record.detector == expected
    assert (model._fed is not None) == (expected == OUTSIDE)


def test_a_detector_that_was_fed_before_begins_again():
    fed = drift.ADWIN()
    for i in range(100):
        fed.update(i % 2)
    model = AdaptiveMondrianForestClassifier(1, drift_detector=fed)
    model.learn_one({"a": 1.0}, 0)
    model.learn_one({"a": 1.0}, 1)
    assert model._trees.watch.record.width == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("_fed", ()), ("_fed", (1, 0, 1)), ("drifts", ((1, "2"),)), ("drifts", 3), ("watch", None)],
)
def test_damaged_pickles_are_refused(name, value):
    model = AdaptiveMondrianForestClassifier(1)
    model.learn_one({"a": 1.0}, 0)
    if name != "_fed":
        setattr(model._trees, name, value)
        with pytest.raises(ModelFormatError):
            pickle.loads(pickle.dumps(model))
        return
    state = model.__getstate__() | {name: value}
    with pytest.raises(ModelFormatError):
        type(model).__new__(type(model)).__setstate__(state)


def test_river_drift_is_not_imported():
    """It takes long."""
    code = (
        "import sys; from river_mondrian import AdaptiveMondrianForestClassifier as Forest;"
        "model = Forest(1); model.learn_one({'a': 1.0}, 0); model.predict_one({'a': 1.0});"
        "sys.exit('river.drift' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
