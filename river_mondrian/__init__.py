"""Random partitions for River: online learners and feature maps over Mondrian processes."""

from .features import IsolationFeatures
from .forest import MondrianForestClassifier

__all__ = ["IsolationFeatures", "MondrianForestClassifier"]
