"""Random partitions for River: online learners and feature maps over Mondrian processes."""

from .forest import MondrianForestClassifier

__all__ = ["MondrianForestClassifier"]
