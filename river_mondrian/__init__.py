"""Random partitions for River: online learners and feature maps over Mondrian processes."""

from .dual import DualOGDClassifier
from .features import (
    IsolationFeatures,
    NystromFeatures,
    RandomBinningFeatures,
    RandomFourierFeatures,
)
from .forest import MondrianForestClassifier

__all__ = [
    "DualOGDClassifier",
    "IsolationFeatures",
    "MondrianForestClassifier",
    "NystromFeatures",
    "RandomBinningFeatures",
    "RandomFourierFeatures",
]
