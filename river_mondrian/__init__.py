"""Random partitions for River: online learners and feature maps over Mondrian processes."""

from .features import IsolationFeatures
from .forest import MondrianForestClassifier
from .linear import OGDClassifier, OGDRegressor

__all__ = ["IsolationFeatures", "MondrianForestClassifier", "OGDClassifier", "OGDRegressor"]
