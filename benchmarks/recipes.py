"""The recipes' figures: decisions by cost, forecasts, active users, and retraining in batch."""

import importlib.util
import itertools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from river import datasets, time_series

import river_mondrian as rm
from river_mondrian.distributed import KeyedModels

from .data import Array, DataFolder
from .report import Report, progress
from .scores import FLOOR
from .timing import call_seconds

CHECK = 4.0  # Cost of a check, in the unit of amounts.
HORIZONS = (1, 6, 24)
DAYS, ROWS = 30, 500  # Number of days in a stream of `retraining`, and of rows in a day.

Days = list[tuple[Array, Array]]  # Features and labels of each day.


def _payments(n: int, seed: int) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield the recipe's payments: samples, and whether they are frauds."""
    rng = random.Random(seed)
    for _ in range(n):
        amount, hour = rng.lognormvariate(3.5, 1.0), rng.randrange(24)
        x = {"amount": amount, "hour": hour, "country": rng.choice("ABCDEFGH")}
        chance = 0.15 if x["country"] in "AB" and hour < 8 else 0.004
        yield x, rng.random() < chance


def _cost(weight: float, n: int, seed: int) -> float:
    """Return the total cost of checks and of unchecked frauds."""
    model, total = rm.AdaptiveMondrianForestClassifier(seed=seed), 0.0
    for x, fraud in _payments(n, seed):
        is_checked = model.predict_proba_one(x).get(True, 0.0) * x["amount"] > CHECK
        total += CHECK if is_checked else fraud * x["amount"]
        model.learn_one(x, fraud, w=weight if fraud else 1.0)
    return total


def fraud(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the cost of decisions by the weight of the rare class.

    Costs of checks and of unchecked frauds, for {n:,} payments of the recipe and seeds 0 to
    {last}. A payment is checked if the probability of a fraud times the amount exceeds
    {CHECK:.0f}, the cost of a check. Frauds are learned with the given weight, and other
    payments with weight 1. Labels are known at once.
    """
    n, seeds = (500, 1) if quick else (10_000, 5)
    rows = []
    for seed in range(seeds):
        progress(f"fraud: seed {seed}")
        costs = [_cost(weight, n, seed) for weight in (1.0, 5.0, 50.0)]
        unchecked = sum(y * x["amount"] for x, y in _payments(n, seed))
        rows.append([seed, *(f"{cost:,.0f}" for cost in (*costs, unchecked))])
    report.about(fraud, n=n, last=seeds - 1)
    report.table(["seed", "weight 1", "weight 5", "weight 50", "no checks"], rows)


def _hours(n: int, seed: int) -> tuple[list[float], list[float]]:
    """Return the recipe's weather and load for each hour."""
    rng = random.Random(seed)
    weather, load, warmth, noise = [], [], 10.0, 0.0
    for t in range(n):
        warmth += 0.05 * (10.0 - warmth) + rng.gauss(0.0, 0.5)
        noise = 0.9 * noise + rng.gauss(0.0, 1.0)
        swing = math.sin((t % 24 - 9) / 12 * math.pi) * (15.0 if t // 24 % 7 < 5 else 6.0)
        weather.append(warmth)
        load.append(50.0 + swing + 1.5 * abs(warmth - 15.0) + noise)
    return weather, load


def horizons(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare one calibrated model for each horizon with one model for all horizons.

    Coverage of intervals of 90 % / mean absolute error, for the recipe's series of {n:,} hours,
    without the first {start}. The features of a target are known h hours earlier. The model for
    all horizons has h as a feature.
    """
    n, start, seeds = (150, 50, 1) if quick else (4000, 800, 3)
    rows = []
    for seed in range(1, seeds + 1):
        weather, load = _hours(n + max(HORIZONS), seed)
        for is_shared in (False, True):
            progress(f"horizons: seed {seed}")
            one = rm.Calibrated(rm.AdaptiveMondrianForestRegressor(seed=seed))
            models = {h: one if is_shared else one.clone() for h in HORIZONS}
            waiting: dict[Any, Any] = {}
            scores: dict[int, list[Any]] = {h: [] for h in HORIZONS}
            for t in range(24, n):
                for h, model in models.items():
                    if (t, h) in waiting:
                        x, predicted, (low, high) = waiting.pop((t, h))
                        if t >= start:
                            scores[h].append((low <= load[t] <= high, abs(predicted - load[t])))
                        model.learn_one(x, load[t], id=f"{t}/{h}")
                    ahead = t + h
                    x = {"hour": ahead % 24, "weekday": ahead // 24 % 7, "weather": weather[ahead]}
                    x |= {"now": load[t], "day before": load[ahead - 24]}
                    x |= {"horizon": h} if is_shared else {}
                    key = f"{ahead}/{h}"
                    ends = model.predict_interval_one(x, coverage=0.9, id=key)
                    waiting[ahead, h] = x, model.predict_one(x, id=key), ends
            means = (np.mean(scores[h], axis=0) for h in HORIZONS)
            cells = [f"{coverage:.3f} / {error:.2f}" for coverage, error in means]
            rows.append([seed, "all horizons" if is_shared else "each horizon", *cells])
    report.about(horizons, n=n, start=start)
    report.table(["seed", "model for", *(f"{h} h" for h in HORIZONS)], rows)


def series(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the adaptive regressor with exponential smoothing on a series without features.

    Mean absolute error of forecasts for the next 12 months of River's AirlinePassengers, made
    in each month after the first 36. `HoltWinters` is multiplicative, with a season of 12
    months. The features of the adaptive regressor are the month, the latest value and the value
    of the year before; each horizon has its own model.
    """
    values = [float(y) for _, y in datasets.AirlinePassengers()][: 40 if quick else None]
    smooth = time_series.HoltWinters(
        alpha=0.3, beta=0.1, gamma=0.6, seasonality=12, multiplicative=True
    )
    forests = [rm.AdaptiveMondrianForestRegressor(seed=1) for _ in range(12)]
    errors: dict[str, list[float]] = {"HoltWinters": [], "adaptive": []}

    def features(t: int, h: int) -> dict[str, Any]:
        return {"month": (t + h) % 12, "now": values[t], "year before": values[t + h - 12]}

    for t, value in enumerate(values):
        smooth.learn_one(value)
        for h, model in enumerate(forests, 1):
            if t - h >= 12:
                model.learn_one(features(t - h, h), value)
        later = values[t + 1 : t + 13]
        if t >= 36 and later:
            both = zip(later, smooth.forecast(len(later)), strict=True)
            errors["HoltWinters"] += [abs(y - expected) for y, expected in both]
            both = enumerate(later, 1)
            found = (abs(y - forests[h - 1].predict_one(features(t, h))) for h, y in both)
            errors["adaptive"] += found
    report.about(series)
    report.table(list(errors), [[f"{np.mean(found):.1f}" for found in errors.values()]])


def users(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the time of models by user, if all active models are ready, and if none is.

    Mean processor time in ms to learn a sample, over {n} samples of River's Phishing by
    `KeyedModels` with forests of 10 trees. The samples come in turns from {users} users. With
    n_ready={few}, each call finds the model of its user packed.
    """
    n, most, few = (120, 12, 2) if quick else (1200, 60, 6)
    samples = [(x | {"user": i % most}, y) for i, (x, y) in enumerate(datasets.Phishing().take(n))]
    rows = []
    for kind in (rm.AdaptiveMondrianForestClassifier, rm.MondrianForestClassifier):
        row = [kind.__name__]
        for ready in (most, few):
            models = KeyedModels("user", kind(10, seed=1), n_ready=ready)
            call_seconds(models.learn_one, samples[:most])  # Make the models.
            seconds = call_seconds(models.learn_one, samples[most:])
            row.append(f"{1e3 * np.mean(seconds):.2f}")
        rows.append(row)
    report.about(users, n=n, users=most, few=few)
    report.table(["forest", f"n_ready={most}", f"n_ready={few}"], rows)


def _days(has_interactions: bool, drifts: bool, seed: int) -> Iterator[tuple[Array, Array]]:
    """Yield the features and labels of each day."""
    rng = np.random.default_rng(seed)
    for day in range(DAYS):
        X = rng.normal(size=(ROWS, 10))
        a, b, c, d = X[:, :4].T
        if has_interactions:
            score = 2.0 * np.sign(a * b) + (c > 0.0) * d
        else:
            score = 1.5 * a - b + 0.5 * np.sin(2.0 * c)
        if drifts and day >= DAYS // 2:
            score = -score
        yield X, (rng.random(ROWS) < 1.0 / (1.0 + np.exp(-score))).astype(int)


def _trainings(seed: int) -> dict[str, Callable[[Days, Any], Any]]:
    """Return functions by name; each returns a model, given the days so far and the last model."""
    import lightgbm
    import xgboost

    small: dict[str, Any] = {"num_leaves": 15, "verbosity": -1, "n_jobs": 1, "random_state": 1}

    def adaptive(days: Days, last: Any) -> Any:
        model = rm.AdaptiveMondrianForestClassifier(seed=seed) if last is None else last
        X, y = days[-1]
        model.learn_many(pd.DataFrame(X), y)
        return model

    def retrained(days: Days, last: Any) -> Any:
        X, y = map(np.concatenate, zip(*days, strict=True))
        return lightgbm.LGBMClassifier(n_estimators=100, **small).fit(X, y)

    def light(days: Days, last: Any) -> Any:
        return lightgbm.LGBMClassifier(n_estimators=10, **small).fit(*days[-1], init_model=last)

    def extreme(days: Days, last: Any) -> Any:
        model = xgboost.XGBClassifier(
            n_estimators=10, max_depth=4, learning_rate=0.1, n_jobs=1, random_state=1
        )
        return model.fit(*days[-1], xgb_model=last)

    return {
        "adaptive forest": adaptive,
        "LightGBM, all days": retrained,
        "LightGBM, last 10 days": lambda days, last: retrained(days[-10:], last),
        "`init_model`": light,
        "`xgb_model`": extreme,
    }


def _chances(model: Any, X: Array) -> Array:
    """Return the probability of class 1 of each row."""
    if isinstance(model, rm.AdaptiveMondrianForestClassifier):
        return np.asarray(model.predict_proba_many(pd.DataFrame(X))[1])
    return np.asarray(model.predict_proba(X)[:, 1])


def _losses(train: Callable[[Days, Any], Any], days: Days) -> list[float]:
    """Return the mean log loss of each day from the third on, before it is learned."""
    model, losses = None, []
    for day, (X, y) in enumerate(days):
        if day >= 2:
            p = _chances(model, X)
            p = np.clip(np.where(y == 1, p, 1.0 - p), FLOOR, 1.0)
            losses.append(-float(np.log(p).mean()))
        model = train(days[: day + 1], model)
    return losses


def retraining(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare an adaptive forest with gradient boosting that is retrained or continued.

    Mean log loss of days 3 to {DAYS}; each day is predicted and then learned. Probabilities
    below {FLOOR} count as {FLOOR}. A day has {ROWS} rows with 10 features. Scores are means of
    {seeds} seeds. In streams with drift, the log odds of the labels change their sign after
    half of the days. LightGBM is retrained every day with 100 trees, or continued by 10 trees
    per day; its trees have at most 15 leaves. XGBoost is continued by 10 trees per day, with a
    depth of at most 4. The learning rate of both libraries is .1.
    """
    if any(importlib.util.find_spec(name) is None for name in ("lightgbm", "xgboost")):
        print("retraining: skipped, because it needs lightgbm and xgboost", flush=True)
        return
    seeds = 1 if quick else 3
    rows = []
    for has_interactions, drifts in itertools.product((False, True), repeat=2):
        name = "interactions" if has_interactions else "nearly linear"
        name += ", drift" if drifts else ""
        progress(f"retraining: {name}")
        losses: dict[str, list[float]] = {}
        for seed in range(1, seeds + 1):
            days = list(_days(has_interactions, drifts, seed))
            for training, train in _trainings(seed).items():
                losses.setdefault(training, []).extend(_losses(train, days))
        rows.append([name, *(f"{np.mean(found):.3f}" for found in losses.values())])
    report.about(retraining, seeds=seeds)
    report.table(["stream", *_trainings(0)], rows)


PARTS = (fraud, horizons, series, users, retraining)
