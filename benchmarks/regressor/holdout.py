"""Errors and densities on test data, compared with scikit-learn's models."""

from __future__ import annotations

import math
import time

import numpy as np
from scipy import stats

from river_mondrian import MondrianForestRegressor

from ..data import Array, DataFolder, min_max
from ..report import Report, progress
from .peers import GAUSSIAN


def holdout(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare RMSE and negative log density on test data with scikit-learn's models."""
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    trees, most = (10, 1000) if quick else (100, 20_000)
    rows = []
    for name in ("kin8nm", "california"):
        arrays = data.load(name)
        if arrays is None:
            continue
        order = np.random.default_rng(0).permutation(len(arrays["y_train"]))
        X, y = arrays["X_train"][order].astype(float), arrays["y_train"][order].astype(float)
        half = min(len(y) // 2, most // 2)
        (X_train, X_test) = min_max(X[:half], X[half : 2 * half])
        y_train, y_test = y[:half], y[half : 2 * half]
        for least in (2, 10):
            progress(f"holdout: {name}, ours, min_samples_split={least}")
            begun = time.perf_counter()
            model = MondrianForestRegressor(trees, min_samples_split=least, tails="normal", seed=1)
            _learn(model, X_train, y_train)
            mixtures = [
                model.predict_one(dict(enumerate(x)), with_dist=True) for x in X_test.tolist()
            ]
            spent = time.perf_counter() - begun
            density = np.mean([-m.log_pdf(t) for m, t in zip(mixtures, y_test, strict=True)])
            error = np.array([m.mean for m in mixtures]) - y_test
            rows.append(
                _holdout_row(name, f"{GAUSSIAN}, split from {least}", error, density, spent)
            )
        for kind in (RandomForestRegressor, ExtraTreesRegressor):
            progress(f"holdout: {name}, {kind.__name__}")
            begun = time.perf_counter()
            forest = kind(trees, min_samples_leaf=5, random_state=0).fit(X_train, y_train)
            each = np.array([one.predict(X_test) for one in forest.estimators_])
            # The predicted variance is the variance over trees plus the mean squared training
            # error of the trees.
            within = np.mean([(one.predict(X_train) - y_train) ** 2 for one in forest.estimators_])
            spread = np.sqrt(each.var(axis=0) + within)
            density = -stats.norm.logpdf(y_test, each.mean(axis=0), spread).mean()
            spent = time.perf_counter() - begun
            rows.append(
                _holdout_row(name, kind.__name__, each.mean(axis=0) - y_test, density, spent)
            )
            low, high = np.quantile(each, [0.159, 0.841], axis=0)
            spread = np.maximum((high - low) / 2.0, 1e-3 * y_train.std())
            density = -stats.norm.logpdf(y_test, np.median(each, axis=0), spread).mean()
            error = np.median(each, axis=0) - y_test
            rows.append(_holdout_row(name, f"{kind.__name__}, quantiles", error, density, spent))
        n = 200 if quick else 1500
        progress(f"holdout: {name}, Gaussian process on {n}")
        begun = time.perf_counter()
        kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel(0.1)
        process = GaussianProcessRegressor(kernel, normalize_y=True).fit(X_train[:n], y_train[:n])
        mean, spread = process.predict(X_test, return_std=True)
        density = -stats.norm.logpdf(y_test, mean, spread).mean()
        spent = time.perf_counter() - begun
        rows.append(
            _holdout_row(name, f"Gaussian process on {n} rows", mean - y_test, density, spent)
        )
    if not rows:
        return
    report.note(
        "Errors and densities on test data, compared with scikit-learn's models. Half of the rows "
        f"in random order (at most {most // 2}) are for training, and as many are for testing. "
        f"Features are scaled by the training range. The forests have {trees} trees, and the "
        "Mondrian forest has normal tails. NLPD is the mean negative log predictive density. The "
        "forests of scikit-learn predict no density, so two normal densities are derived. One "
        "density has the variance over trees plus the mean squared training error of the trees. "
        "The other density is fitted to the quantiles of the trees' predictions. Seconds include "
        "fitting and predicting."
    )
    report.table(("data", "model", "RMSE", "NLPD", "seconds"), rows)


def _learn(model: MondrianForestRegressor, X: Array, y: Array) -> None:
    import pandas as pd

    model.learn_many(pd.DataFrame(X), y)


def _holdout_row(
    name: str, model: str, error: Array, density: float, spent: float
) -> tuple[str, ...]:
    rmse = math.sqrt(np.mean(error**2))
    return name, model, f"{rmse:.4g}", f"{density:.3f}", f"{spent:.1f}"
