"""Random partitions for River: online learners and feature maps over Mondrian processes."""

from .adaptive import AdaptiveMondrianForestClassifier
from .classifier import MondrianForestClassifier
from .density import DensityForest, exact_density
from .dual import DualOGDClassifier
from .features import (
    IsolationFeatures,
    MondrianFeatures,
    NystromFeatures,
    RandomBinningFeatures,
    RandomFourierFeatures,
)
from .lifetime import lifetime_path
from .linear import OGDClassifier, OGDRegressor
from .regressor import MondrianForestRegressor
from .ridge import RidgeRegressor

__all__ = [
    "AdaptiveMondrianForestClassifier",
    "DensityForest",
    "DualOGDClassifier",
    "IsolationFeatures",
    "MondrianFeatures",
    "MondrianForestClassifier",
    "MondrianForestRegressor",
    "NystromFeatures",
    "OGDClassifier",
    "OGDRegressor",
    "RandomBinningFeatures",
    "RandomFourierFeatures",
    "RidgeRegressor",
    "exact_density",
    "lifetime_path",
]
