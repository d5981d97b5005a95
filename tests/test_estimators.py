"""River's own checks, on every public estimator."""

from __future__ import annotations

import copy
import math
from unittest import mock

import pytest
from river import checks, datasets, drift, optim
from scipy import stats

from river_mondrian import (
    AdaptiveMondrianForestClassifier,
    AdaptiveMondrianForestRegressor,
    DensityForest,
    DualOGDClassifier,
    IsolationFeatures,
    MondrianFeatures,
    MondrianForestClassifier,
    MondrianForestRegressor,
    NystromFeatures,
    OGDClassifier,
    OGDRegressor,
    RandomBinningFeatures,
    RandomCutForest,
    RandomFourierFeatures,
    RidgeRegressor,
)

MODELS = {
    "density": DensityForest(n_estimators=10),
    "kernel density": DensityForest(n_estimators=10, lifetime=3.0, estimator="kernel"),
    "seeded density": DensityForest(n_estimators=10, lifetime=1.0, estimator="laplace", seed=3),
    "random cuts": RandomCutForest(n_estimators=10),
    "seeded random cuts": RandomCutForest(5, window=None, missing="zero", seed=3),
    "shingles": RandomCutForest(n_estimators=3, window=50, shingle=3, seed=3),
    "default": MondrianForestClassifier(),
    "seeded": MondrianForestClassifier(seed=3),
    "bounded": MondrianForestClassifier(n_estimators=3, max_nodes=31, seed=3),
    "window": MondrianForestClassifier(n_estimators=3, window=50, seed=3),
    "window regressor": MondrianForestRegressor(n_estimators=3, window=300, seed=3),
    "unpaused": MondrianForestClassifier(n_estimators=3, split_pure=True, seed=3),
    "lifetime": MondrianForestClassifier(n_estimators=3, lifetime=2.0, scale=False, seed=3),
    "zeros": MondrianForestClassifier(n_estimators=3, missing="zero", seed=3),
    "adaptive zeros": AdaptiveMondrianForestClassifier(n_estimators=3, missing="zero", seed=3),
    "zeros regressor": MondrianForestRegressor(n_estimators=3, missing="zero", seed=3),
    "regressor": MondrianForestRegressor(),
    "seeded regressor": MondrianForestRegressor(seed=3),
    "bounded regressor": MondrianForestRegressor(n_estimators=3, max_nodes=31, seed=3),
    "paused regressor": MondrianForestRegressor(n_estimators=3, min_samples_split=6, seed=3),
    "means": MondrianForestRegressor(n_estimators=3, posterior="mean", seed=3),
    "growing": MondrianForestRegressor(n_estimators=3, lifetime=math.sqrt, posterior="mean"),
    "adaptive": AdaptiveMondrianForestClassifier(),
    "seeded adaptive": AdaptiveMondrianForestClassifier(
        n_estimators=2, n_candidates=3, drift_detector=drift.PageHinkley(), no_change=True, seed=3
    ),
    "adaptive regressor": AdaptiveMondrianForestRegressor(),
    "seeded adaptive regressor": AdaptiveMondrianForestRegressor(
        n_estimators=4,
        n_candidates=3,
        loss="squared",
        autoregressive=True,
        drift_detector=None,
        seed=3,
    ),
    "adaptive zeros regressor": AdaptiveMondrianForestRegressor(3, missing="zero", seed=3),
    "oblique": MondrianForestClassifier(
        n_estimators=3, lifetime=stats.gamma(2.0), directions=4, seed=3
    ),
    "given": MondrianForestClassifier(
        n_estimators=3, directions=[{"0": 1.0, "1": 2.0}, {"2": 1.0}], seed=3
    ),
    "oblique regressor": MondrianForestRegressor(n_estimators=3, directions=4),
    "dual laplace": DualOGDClassifier(),
    "dual gaussian": DualOGDClassifier(kernel="gaussian"),
    "dual anne": DualOGDClassifier(IsolationFeatures(20, 8, pool_size=40, seed=3)),
    "fourier": RandomFourierFeatures(),
    "fourier laplace": RandomFourierFeatures(kernel="laplace", seed=3),
    "binning": RandomBinningFeatures(seed=3),
    "mondrian": MondrianFeatures(),
    "seeded mondrian": MondrianFeatures(n_partitions=5, lifetime=0.5, seed=3),
    "oblique mondrian": MondrianFeatures(5, stats.uniform(0.2, 1.0), directions=4, seed=3),
    "ogd mondrian": OGDClassifier(MondrianFeatures(n_partitions=5, seed=3)),
    "auto": OGDRegressor(MondrianFeatures(n_partitions=4, lifetime="auto")),
    "seeded auto": OGDClassifier(MondrianFeatures(4, "auto", seed=3), loss="log"),
    "oblique auto": OGDRegressor(MondrianFeatures(4, "auto", directions=3)),
    "nystrom": NystromFeatures(n_landmarks=20),
    "anne": IsolationFeatures(seed=3),
    "iforest": IsolationFeatures(n_cells=4, pool_size=50, method="iforest", seed=3),
    "unseeded": IsolationFeatures(scale=True),
    "ogd": OGDClassifier(),
    "ogd log": OGDClassifier(IsolationFeatures(pool_size=60, seed=3), loss="log"),
    "ogd ovr": OGDClassifier(loss="log", learning_rate=0.5, multiclass="ovr", seed=3),
    "ogd focal": OGDClassifier(loss=optim.losses.BinaryFocalLoss(), multiclass="ovr", seed=3),
    "regression": OGDRegressor(),
    "regression, constant": OGDRegressor(loss="huber", learning_rate=0.2, seed=3),
    "ridge": RidgeRegressor(),
    "ridge, capped": RidgeRegressor(IsolationFeatures(20, 8, pool_size=60, seed=3), max_columns=90),
    "ridge, window": RidgeRegressor(IsolationFeatures(20, 8, pool_size=60, seed=3), window=40),
    "ridge, fourier": RidgeRegressor(RandomFourierFeatures(20, seed=3), noise_variance=0.5),
}


def cases() -> list:
    found = []
    for name, model in MODELS.items():
        seen: dict[str, int] = {}
        # The stream for anomaly detectors is one to download: another takes its place.
        with mock.patch.object(datasets, "CreditCard", datasets.Shuttle):
            for check in checks.yield_checks(model):
                number = seen[check.__name__] = seen.get(check.__name__, -1) + 1
                case = f"{name}-{check.__name__}-{number}"
                marks = [pytest.mark.blas] if name == "nystrom" else []
                found.append(pytest.param(model, check, id=case, marks=marks))
    return found


@pytest.mark.parametrize(("model", "check"), cases())
def test_river_check(model, check):
    check(copy.deepcopy(model))


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_no_check_is_skipped(model):
    assert model._unit_test_skips() == set()
