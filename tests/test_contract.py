"""Tests of guarantees of all public classes: arguments, bad samples, copies, numbers."""

import copy
import math
import pickle
import sys
import zlib
from functools import partial

import numpy as np
import pytest
from common import answer, answers, fed, raises, stream
from hypothesis import given, settings
from hypothesis import strategies as st
from river import base

import river_mondrian as rm
from river_mondrian.records import Memory, memory

pytestmark = pytest.mark.covering

MODELS = {
    "adaptive": lambda: rm.AdaptiveMondrianForestClassifier(2, n_candidates=3, seed=1),
    "adaptive regressor": lambda: rm.AdaptiveMondrianForestRegressor(2, n_candidates=3, seed=1),
    "classifier": lambda: rm.MondrianForestClassifier(3, seed=1),
    "classifier, window": lambda: rm.MondrianForestClassifier(2, window=35, seed=1),
    "regressor": lambda: rm.MondrianForestRegressor(3, seed=1),
    "regressor, window": lambda: rm.MondrianForestRegressor(2, window=35, seed=1),
    "means": lambda: rm.MondrianForestRegressor(3, posterior="mean", seed=1),
    "alarms": lambda: rm.Alarms(rm.NearestNeighborDetector(window=35, seed=1)),
    "monitor": lambda: rm.DriftMonitor(grace_period=24, seed=1),
    "density": lambda: rm.DensityForest(3, lifetime=1.0, seed=1),
    "nearest neighbors": lambda: rm.NearestNeighborDetector(window=35, seed=1),
    "random cuts": lambda: rm.RandomCutForest(3, window=35, seed=1),
    "isolation": lambda: rm.IsolationFeatures(4, 4, pool_size=16, seed=1),
    "mondrian": lambda: rm.MondrianFeatures(4, seed=1),
    "nystrom": lambda: rm.NystromFeatures(6),
    "binning": lambda: rm.RandomBinningFeatures(4, seed=1),
    "fourier": lambda: rm.RandomFourierFeatures(4, seed=1),
    "ogd": lambda: rm.OGDClassifier(rm.MondrianFeatures(4, seed=1), loss="log", seed=1),
    "ogd regressor": lambda: rm.OGDRegressor(rm.IsolationFeatures(4, 4, pool_size=16, seed=1)),
    "ridge": lambda: rm.RidgeRegressor(rm.IsolationFeatures(4, 4, pool_size=16, seed=1)),
    "dual": lambda: rm.DualOGDClassifier(),
}
REGRESSORS = [name for name, make in MODELS.items() if isinstance(make(), base.Regressor)]
SUPERVISED = base.Classifier | base.Regressor

models = pytest.mark.parametrize("name", MODELS)


def learned(name, n=40):
    return fed(MODELS[name](), stream(n))


def test_every_class_is_here():
    found = {getattr(rm, name) for name in rm.__all__}
    classes = {c for c in found if isinstance(c, type) and issubclass(c, base.Base)}
    # `Calibrated` stores its predictions, and `ConformalDrift` learns numbers, so they have other
    # tests: tests/test_calibrated.py and tests/test_monitor.py.
    others = {rm.Calibrated, rm.ConformalDrift}
    assert {type(make()) for make in MODELS.values()} == classes - others


COUNTS = (
    "n_estimators n_partitions n_candidates n_neighbors n_cells max_samples max_columns shingle"
)
FLAGS = "skip_anomalies scale rescale split_pure autoregressive fit_intercept linear"
POSITIVE = "gamma noise_variance prior_rate prior_variance"
SIZES = "n_components n_landmarks pool_size"
CHOICES = "device drift_detector kernel loss metric method multiclass posterior tails"
# Values that no class accepts, by the names of arguments, and their errors.
BAD_ARGUMENTS = {
    "seed": (("x", -1, 1.5, True, [1]), "{} must be None or an integer >= 0, got"),
    "n_jobs": ((0, -2, -1.0, True), "{} must be -1 or an integer >= 1, got"),
    "missing": (("drop", None, {"w": 0}), '{}.* must be "unknown" or "zero", got'),
    "features": ((3, "x"), "{} must be a feature map of this package, got"),
    "learning_rate": (("x", math.inf, True), "{} must be a finite number > 0"),
    "lifetime": ((-1.0, math.nan, "x"), "{} must be a (finite )?number >"),
    "max_nodes": ((0, 99.0), "{} must be None or an integer >= ., got"),
    "window": ((0, 2.5, 2**63), "{} must be"),
    "min_samples_split": ((1, 2.5), "{} must be an integer >= 2, got"),
    "max_bytes": ((0, "x"), "{} must be None or an integer >= 1, got"),
    "l2": ((0.0, -1.0, math.inf), "{} must be a finite number > 0, got"),
    "directions": ((0, True, 2.0, "ab", []), "{} must|empty"),
    "ranges": (([1], {"a": (2, 1)}, {"a": (0.0, math.inf)}, {"b": 3.0}), "range.* must be"),
    **dict.fromkeys(POSITIVE.split(), ((0.0, math.inf), "{} must be (None or )?(a finite|from)")),
    **dict.fromkeys(CHOICES.split(), (("x",), "{} must be")),
    **dict.fromkeys(COUNTS.split(), ((0, 2.5, True, "x"), "{} must be.* an integer >= 1, got")),
    **dict.fromkeys(SIZES.split(), ((0, 2.5, True, "x"), "{} must be.* an integer >= ., got")),
    **dict.fromkeys(FLAGS.split(), (("yes", None), "{} must be True or False, got")),
}


@models
def test_arguments_of_one_name_are_checked_alike(name):
    model = MODELS[name]()
    arguments = model._get_params()
    for argument in BAD_ARGUMENTS.keys() & arguments.keys():
        values, message = BAD_ARGUMENTS[argument]
        for value in values:
            with pytest.raises((TypeError, ValueError), match=message.format(argument)):
                model.clone({argument: value})
    flags = {key for key, value in arguments.items() if isinstance(value, bool)}
    assert flags <= BAD_ARGUMENTS.keys()
    for flag in flags:
        model.clone({flag: np.bool_(True)})
    if "ranges" in arguments:
        with pytest.raises(ValueError, match="need scale=True, got scale=False"):
            model.clone({"ranges": {"a": (0.0, 1.0)}, "scale": False})


@models
@pytest.mark.parametrize("n", [0, 40])
def test_a_sample_that_is_no_mapping(name, n):
    model = learned(name, n)
    before = pickle.dumps(model)
    calls = [lambda x: fed(model, [(x, 1)]), lambda x: answer(model, x)]
    for x in ([0.1, 0.2], 3.0, None, "ab", np.zeros(2)):
        for call in calls[: 1 + (n > 0)]:
            raises(TypeError, "a sample must be a mapping of features", partial(call, x))
    assert pickle.dumps(model) == before


def rewritten(model, old, new):
    """Return the pickle of a model with `new` in place of `old`, and with a new checksum."""

    class Rewritten:
        def __reduce_ex__(self, protocol):
            restore, (kind, content, _) = model.__reduce_ex__(protocol)
            assert old in content
            content = content.replace(old, new)
            return restore, (kind, content, zlib.crc32(content))

    return pickle.dumps(Rewritten())


# The dual classifier stores arrays only.
@pytest.mark.parametrize("name", sorted(MODELS.keys() - {"dual"}))
def test_pickles_of_another_layout_or_byte_order_are_refused(name, monkeypatch):
    model, found = learned(name), []
    with monkeypatch.context() as patch:
        patch.setattr(memory, "check_stamp", lambda stamp, kind: found.append(stamp))
        pickle.loads(pickle.dumps(model))
    assert {stamp[:2] for stamp in found} == {(rm.__version__, sys.byteorder)}
    layout = f"{rm.__version__}.*pickles are for one ver"
    messages = {stamp.digest: layout for stamp in found}
    for known, message in (messages | {sys.byteorder: f"{sys.byteorder[::-1]}-endian"}).items():
        with pytest.raises(rm.ModelFormatError, match=message):
            pickle.loads(rewritten(model, known.encode(), known[::-1].encode()))


def test_pickles_without_a_stamp_are_refused():
    made = learned("classifier")._trees.shared
    state = {name: value for name, value in made.__getstate__().items() if name != "stamp"}
    with pytest.raises(rm.ModelFormatError, match="of an earlier version, without a stamp"):
        Memory.__new__(Memory).__setstate__(state)


@models
@pytest.mark.parametrize("n", [3, 40])
def test_models_own_all_arrays_that_they_write_to(name, n):
    """Other picklers than Python's may leave arrays in memory that the pickler owns."""
    model, buffers = learned(name, n), []
    state = pickle.dumps(model.__getstate__(), 5, buffer_callback=buffers.append)
    for kind in (bytes, bytearray):
        given = [kind(buffer.raw()) for buffer in buffers]
        made = object.__new__(type(model))
        made.__setstate__(pickle.loads(state, buffers=given))
        fed(made, stream(40, 7))
        assert given == [buffer.raw() for buffer in buffers] != []
        assert answers(made) == answers(fed(copy.deepcopy(model), stream(40, 7)))


@models
@pytest.mark.parametrize("n", [0, 40])
def test_shallow_copies_are_models_of_their_own(name, n):
    model = learned(name, n)
    before = pickle.dumps(model)
    copied = copy.copy(model)
    fed(copied, stream(30, 5))
    assert pickle.dumps(model) == before
    fed(model, stream(30, 5))
    assert answers(model) == answers(copied)


extremes = st.sampled_from([0.0, 1.0, -1.0, 1e-300, 1e30, -1e60, 1e120, -1e120])


@pytest.mark.parametrize("name", REGRESSORS)
@settings(max_examples=40)
@given(st.lists(st.tuples(extremes, st.sampled_from([0.0, 1e-30, 1.0, 1e30])), max_size=40))
def test_what_is_accepted_leaves_numbers(name, events):
    model = MODELS[name]()
    fed(model, stream(20))
    for (x, _), (y, w) in zip(stream(len(events), 3), events, strict=True):
        model.learn_one(x, y, w=w)
        assert math.isfinite(model.predict_one(x))
    fed(model, stream(5, 4))
    assert all(math.isfinite(found["mean"]) for found in answers(model))


@models
def test_shown_with_all_arguments(name):
    model = MODELS[name]()
    shown = repr(model)
    assert shown.startswith(f"{type(model).__name__} (\n  ") and shown.endswith(")")
    for argument in model._get_params():
        assert f"\n  {argument}=" in shown
    for inner in [value for value in model._arguments().values() if isinstance(value, base.Base)]:
        for argument in inner._get_params():
            assert f"\n    {argument}=" in shown
    assert str(model) == type(model).__name__


def test_subclasses_are_shown_whatever_the_names_of_their_rests():
    class Mine(rm.MondrianForestClassifier):
        def __init__(self, mine=1, *a, **k):
            super().__init__(*a, **k)
            self.mine = mine

    assert repr(Mine(2, 3)).startswith("Mine (\n  mine=2\n  n_estimators=3\n  ")
