"""Forests of the comparison, and data frames of rows."""

from __future__ import annotations

from typing import Any

import pandas as pd
from river import base
from river import forest as river_forest

from river_mondrian import MondrianForestClassifier

from ..data import Array

OURS = "MondrianForest"
AMF = "AMF"


def make_ours(seed: int, n_estimators: int = 10, **kwargs: Any) -> MondrianForestClassifier:
    return MondrianForestClassifier(n_estimators=n_estimators, seed=seed, **kwargs)


def make_amf(seed: int) -> base.Classifier:
    return river_forest.AMFClassifier(n_estimators=10, seed=seed)


def frame_of(X: Array) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
