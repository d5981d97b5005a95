"""Random partitions for River: online learners and feature maps over Mondrian processes."""

from .classifier import MondrianForestClassifier
from .regressor import MondrianForestRegressor

__all__ = ["MondrianForestClassifier", "MondrianForestRegressor"]
