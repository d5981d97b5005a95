"""Random partitions for River: online learners and feature maps over Mondrian processes."""

from .dual import DualOGDClassifier
from .forest import MondrianForestClassifier

__all__ = ["DualOGDClassifier", "MondrianForestClassifier"]
