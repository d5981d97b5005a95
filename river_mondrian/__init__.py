"""Random partitions for River: online learners and feature maps over Mondrian processes."""

from .dual import DualOGDClassifier
from .features import (
    IsolationFeatures,
    NystromFeatures,
    RandomBinningFeatures,
    RandomFourierFeatures,
)
from .forest import MondrianForestClassifier
from .linear import OGDClassifier, OGDRegressor

__all__ = [
    "DualOGDClassifier",
    "IsolationFeatures",
    "MondrianForestClassifier",
    "NystromFeatures",
    "OGDClassifier",
    "OGDRegressor",
    "RandomBinningFeatures",
    "RandomFourierFeatures",
]
