"""Types of calls that mypy checks; the calls are not run."""

from collections.abc import Hashable
from typing import assert_type

from river import linear_model, preprocessing

import river_mondrian as rm
from river_mondrian.distributed import KeyedModels
from river_mondrian.distributed.keyed import KeyedClassifier, KeyedDetector, KeyedRegressor
from river_mondrian.estimators.calibrated import CalibratedClassifier, CalibratedRegressor


def calls() -> None:
    logistic = linear_model.LogisticRegression()
    intervals, sets = rm.Calibrated(rm.MondrianForestRegressor()), rm.Calibrated(logistic)
    assert_type(intervals, CalibratedRegressor)
    assert_type(sets, CalibratedClassifier)
    assert_type(intervals.predict_interval_one({}, id=3), tuple[float, float])
    assert_type(sets.predict_set_one({}, 0.8), set[Hashable])
    sets.predict_proba_one({})
    intervals.predict_proba_one({})  # type: ignore[attr-defined]
    pipeline = rm.Calibrated(preprocessing.StandardScaler() | logistic)
    pipeline.predict_proba_one({})
    pipeline.predict_interval_one({})

    assert_type(KeyedModels("user", sets), KeyedClassifier)
    assert_type(KeyedModels("user", intervals, n_ready=3), KeyedRegressor)
    assert_type(KeyedModels("user", rm.DensityForest()), KeyedDetector)
    KeyedModels("user", pipeline).predict_one({})
