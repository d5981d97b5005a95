"""Throw random events of all kinds at forests; only documented errors may come back.

Run it with `RIVER_MONDRIAN_CHECKS=1`, so that a wrong reference inside a kernel raises.
"""

from __future__ import annotations

import argparse
import math
import pickle
import random

import pandas as pd
from river import drift
from scipy import stats

from river_mondrian import (
    AdaptiveMondrianForestClassifier,
    MondrianForestClassifier,
    MondrianForestRegressor,
)

STRANGE = [math.nan, math.inf, -math.inf, 1e38, -1e38, 1e39, 1e-45, "text", None, 10**400, [], 1j]
NAMES = ["a", "b", "c", "d", 1, (2, 3), "late", "later"]


Classifier = AdaptiveMondrianForestClassifier | MondrianForestClassifier
Forest = Classifier | MondrianForestRegressor


def draw_model(rng: random.Random) -> Forest:
    shared = {
        "n_estimators": rng.choice([1, 2, 5]),
        "lifetime": rng.choice([math.inf, math.inf, 0.0, 1.0, 20.0, stats.gamma(2.0)]),
        "max_nodes": rng.choice([None, None, 1, 7, 101]),
        "directions": rng.choice(
            [None, None, 1, 5, [{"a": 1.0, "b": -2.0}, {"late": 1e-3, 1: 5.0}]]
        ),
        "scale": rng.random() < 0.7,
        "n_jobs": rng.choice([1, 2]),
        "seed": rng.randrange(1000),
    }
    if rng.random() < 0.3:
        return AdaptiveMondrianForestClassifier(
            shared["n_estimators"],
            n_candidates=rng.choice([1, 5, 20]),
            max_samples=1000,
            max_bytes=rng.choice([None, 1, 400_000]),
            drift_detector=rng.choice(["adwin", None, drift.PageHinkley(threshold=3)]),
            no_change=rng.random() < 0.5,
            scale=shared["scale"],
            seed=shared["seed"],
        )
    if rng.random() < 0.6:
        return MondrianForestClassifier(
            gamma=rng.choice([None, 1e-3, 10.0]), split_pure=rng.random() < 0.3, **shared
        )
    if rng.random() < 0.3:
        shared["lifetime"] = rng.choice([math.inf, 1.0, math.sqrt])
        return MondrianForestRegressor(posterior="mean", **shared)
    return MondrianForestRegressor(
        min_samples_split=rng.choice([2, 2, 3, 10]),
        gamma1=rng.choice([None, 1e-3]),
        gamma2=rng.choice([None, 1e-6, 1e6]),
        noise_variance=rng.choice([None, 1e-9, 1e9]),
        **shared,
    )


def draw_sample(rng: random.Random, n_names: int, n_labels: int) -> tuple[dict, object]:
    x = {}
    for name in NAMES[:n_names]:
        chance = rng.random()
        if chance < 0.85:
            x[name] = rng.choice([rng.gauss(0.0, 1.0), rng.randrange(3), rng.random() < 0.5])
        elif chance < 0.851:
            x[name] = rng.choice(STRANGE)
        elif chance < 0.9:
            x[name] = math.nan
    y = rng.randrange(n_labels)
    if rng.random() < 0.001:
        return x, rng.choice([None, math.nan, [], {}, "text", 1e300])
    return x, y


def check(model: Forest, x: dict, rng: random.Random) -> None:
    if isinstance(model, Classifier):
        p = model.predict_proba_one(x)
        assert not p or math.isclose(sum(p.values()), 1.0, abs_tol=1e-9), p
        return
    mean = model.predict_one(x)
    assert math.isfinite(mean), mean
    if model.posterior == "gaussian" and model.n_samples and rng.random() < 0.2:
        mixture = model.predict_mixture_one(x)
        assert math.isclose(mixture.weights.sum(), 1.0, abs_tol=1e-9)
        assert (mixture.variances >= 0.0).all()


def run(events: int, seed: int) -> dict[str, int]:
    rng = random.Random(seed)
    seen = {"learned": 0, "refused": 0, "models": 0}
    n = 0
    while n < events:
        model = draw_model(rng)
        seen["models"] += 1
        n_labels = rng.choice([1, 2, 2, 5, 100])
        for i in range(rng.choice([5, 100, 400, 3000])):
            n += 1
            x, y = draw_sample(rng, 4 if i < 150 or rng.random() < 0.9 else 8, n_labels)
            if rng.random() < 0.05:
                y = 0
            try:
                if rng.random() < 0.01:
                    samples = [draw_sample(rng, 4, n_labels) for _ in range(rng.randrange(40))]
                    model.learn_many(pd.DataFrame([s for s, _ in samples]), [t for _, t in samples])
                else:
                    model.learn_one(x, y)
                seen["learned"] += 1
                check(model, x, rng)
            except (TypeError, ValueError):
                seen["refused"] += 1
            if rng.random() < 0.002:
                model = pickle.loads(pickle.dumps(model))
            if rng.random() < 0.001 and model.max_nodes is None:
                model.resample()
    return seen


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(run(arguments.events, arguments.seed))
