"""Random partitions for River: online learners and feature maps over Mondrian processes."""

from .dual import DualOGDClassifier
from .features import NystromFeatures, RandomBinningFeatures, RandomFourierFeatures
from .forest import MondrianForestClassifier

__all__ = [
    "DualOGDClassifier",
    "MondrianForestClassifier",
    "NystromFeatures",
    "RandomBinningFeatures",
    "RandomFourierFeatures",
]
