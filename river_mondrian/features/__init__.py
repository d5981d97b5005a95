"""Feature maps: transformers, and what the learners of `linear` stand on."""

from .isolation import IsolationFeatures

__all__ = ["IsolationFeatures"]
