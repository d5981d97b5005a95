"""River's checks of estimators, for all public estimators."""

from __future__ import annotations

import copy
import math
import pickle
from unittest import mock

import pytest
from attack.judging import some
from river import checks, datasets, linear_model
from scipy import stats

import river_mondrian as rm
from river_mondrian.__main__ import estimators
from river_mondrian.distributed import KeyedModels


def one_key(x):
    return "all"


# All classes, most with default arguments.
CLASSES = {name: getattr(rm, name)() for name in estimators()} | {
    "calibrated classifier": rm.Calibrated(linear_model.LogisticRegression()),
    "calibrated regressor": rm.Calibrated(rm.MondrianForestRegressor()),
    "NystromFeatures": rm.NystromFeatures(n_landmarks=20),
    "keyed classifiers": KeyedModels(one_key, rm.MondrianForestClassifier(2, seed=1)),
    "keyed regressors": KeyedModels(one_key, rm.MondrianForestRegressor(2, seed=1)),
    "keyed detectors": KeyedModels(one_key, rm.DensityForest(2, seed=1)),
}
# Configurations that run different code.
CONFIGURATIONS = {
    "calibrated": rm.Calibrated(**next(rm.Calibrated._unit_test_params())),
    "shingles": rm.RandomCutForest(n_estimators=3, window=50, shingle=3, missing="zero", seed=3),
    "window": rm.MondrianForestClassifier(n_estimators=3, window=50, missing="zero", seed=3),
    "growing": rm.MondrianForestRegressor(n_estimators=3, lifetime=math.sqrt, posterior="mean"),
    "oblique": rm.MondrianForestClassifier(3, lifetime=stats.gamma(2.0), directions=4, seed=3),
    "oblique auto": rm.OGDRegressor(rm.MondrianFeatures(4, "auto", directions=3)),
    "ridge, window": rm.RidgeRegressor(
        rm.IsolationFeatures(4, 8, "iforest", 60, seed=3), window=40, max_columns=90
    ),
}


def cases(models) -> list:
    found = []
    for name, model in models.items():
        marks = [pytest.mark.blas] if name == "NystromFeatures" else []
        # River would download its stream for anomaly detectors, so another stream replaces it.
        with mock.patch.object(datasets, "CreditCard", datasets.Shuttle):
            for number, check in enumerate(checks.yield_checks(model)):
                case = f"{name}-{check.__name__}-{number}"
                found.append(pytest.param(model, check, id=case, marks=marks))
    return found


# Some checks predict other features than they learn.
@pytest.mark.filterwarnings("ignore:the last 100 labels belong to no stored prediction")
@pytest.mark.parametrize(("model", "check"), cases(CLASSES) + some(cases(CONFIGURATIONS)))
def test_river_check(model, check):
    check(copy.deepcopy(model))


def test_no_check_is_skipped():
    names = {type(model).__name__ for model in CLASSES.values()}
    made = {"CalibratedClassifier", "CalibratedRegressor"}
    made |= {"KeyedClassifier", "KeyedRegressor", "KeyedDetector"}
    assert names - set(estimators()) == made
    assert set(estimators()) <= names
    assert all(model._unit_test_skips() == set() for model in CLASSES.values())


class Passing(rm.MondrianForestClassifier):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)


class Placed(rm.MondrianForestClassifier):
    def __init__(self, *args):
        super().__init__(*args)


class Tagged(rm.OGDClassifier):
    def __init__(self, tag, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.tag = tag


class Later(Passing):
    pass


@pytest.mark.parametrize(
    "model", [Passing(3, seed=1), Placed(3, 5.0), Tagged("a", loss="hinge", seed=2), Later(2)]
)
def test_subclasses_may_pass_arguments_on(model):
    """Pickles, copies and clones of subclasses have the parameters of the parent class."""
    model.learn_one({"a": 1.0}, 1)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), model.clone()):
        assert type(other) is type(model)
        assert other._arguments() == model._arguments()
    assert pickle.loads(pickle.dumps(model)).predict_one({"a": 1.0}) == 1
