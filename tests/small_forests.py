"""Small forests and feature maps and what they return, for tests that run them in several modes."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from river_mondrian import (
    IsolationFeatures,
    MondrianFeatures,
    MondrianForestClassifier,
    MondrianForestRegressor,
    NystromFeatures,
    RandomBinningFeatures,
    RandomFourierFeatures,
)
from river_mondrian.partitions.voronoi.diagrams import VoronoiMap

FORESTS = {
    "labels": lambda: MondrianForestClassifier(2, seed=1),
    "labels, two dimensions": lambda: MondrianForestClassifier(2, lifetime=3.0, seed=1),
    "directions": lambda: MondrianForestClassifier(2, directions=3, seed=1),
    "targets": lambda: MondrianForestRegressor(2, seed=1),
    "means": lambda: MondrianForestRegressor(2, posterior="mean", min_samples_split=4, seed=1),
    "cells": lambda: MondrianFeatures(3, lifetime=2.0, seed=1),
}


def of_forest(name):
    """Return what a forest predicts before it learns each sample, and its trees at last."""
    rng = np.random.default_rng(2)
    X = rng.random((70, 9))
    X[rng.random(X.shape) < 0.05] = math.nan
    y = (np.nan_to_num(X[:, 0]) > 0.5).astype(int) + (np.nan_to_num(X[:, 1]) > 0.7)
    model = FORESTS[name]()
    n_features = 2 if "two" in name else 9
    found = []
    for i, (row, label) in enumerate(zip(X[:, :n_features].tolist(), y.tolist(), strict=True)):
        x = {str(j): v for j, v in enumerate(row) if not math.isnan(v)}
        if name == "cells":
            model.learn_one(x)
            found += model.cells_one(x).tolist()
        elif name in ("targets", "means"):
            found += [model.predict_one(x)] if i else []
            model.learn_one(x, float(label))
        else:
            found += list(model.predict_proba_one(x).values()) if i else []
            model.learn_one(x, label)
    if name == "cells":
        return {"predicted": found, "nodes": []}
    explained = model.explain_one(x)
    inner = explained.values() if hasattr(model, "predict_proba_one") else [explained]
    for one in [*inner, model.feature_importances]:
        found += list(one.values())
    nodes = model.to_dataframe()[["left", "right", "n_samples"]].to_numpy().tolist()
    return {"predicted": found, "nodes": nodes}


def isolation(**params):
    return IsolationFeatures(5, 4, pool_size=30, seed=1, **params)


MAPS = {
    "scan": (isolation, 3, 1.0),
    "tree": (isolation, 3, 1.0),
    "tree of rests": (lambda: isolation(scale=True), 20, 1.0),
    "product": (isolation, 3, 1.0),
    "index": (isolation, 3, 0.5),
    "sparse": (isolation, 300, 0.02),
    "trees": (lambda: isolation(method="iforest"), 3, 1.0),
    "sparse trees": (lambda: isolation(method="iforest", scale=True), 300, 0.02),
    "fourier": (lambda: RandomFourierFeatures(6, seed=1), 3, 0.5),
    "binning": (lambda: RandomBinningFeatures(40, seed=1), 3, 0.5),
    "laplace": (lambda: NystromFeatures(8, 4), 3, 0.5),
    "gaussian": (lambda: NystromFeatures(8, 4, kernel="gaussian"), 3, 0.5),
}


def of_map(name):
    """Return what a feature map makes of samples, one and many."""
    way = name.partition(" ")[0]
    if way in ("tree", "index", "scan", "product"):
        costs = {"tree": 1.0, "index": 1.0, "scan": 1.0, "product": math.inf, way: -1.0}
        for other, cost in costs.items():
            setattr(VoronoiMap, f"_{other}_cost", lambda self, *_, cost=cost: cost)
    make, d, share = MAPS[name]

    def samples(n, seed):
        rng = np.random.default_rng(seed)
        return rng.normal(size=(n, d)) * (rng.random((n, d)) < share)

    def mapping(row):
        return {f"f{j:03d}": v for j, v in enumerate(row.tolist()) if v != 0.0}

    features, queries = make(), samples(6, 1)
    for row in samples(36, 0):
        features.learn_one(mapping(row))
    table = pd.DataFrame(queries, columns=[f"f{j:03d}" for j in range(d)])
    found = [features._output(mapping(row)).astype(float) for row in queries]
    found += [*features._read(table)[1], features.gram(table)]
    if name == "binning":
        found.append(features.cells_many(table.fillna(0.0)))
        features.learn_many(table)
        found.append(features.cells_many(table))
    return np.concatenate([np.ravel(one) for one in found]).tolist()
