"""Feature maps: transformers, and what linear learners stand on."""

from .approximations import NystromFeatures, RandomBinningFeatures, RandomFourierFeatures
from .isolation import IsolationFeatures
from .mondrian import MondrianFeatures

__all__ = [
    "IsolationFeatures",
    "MondrianFeatures",
    "NystromFeatures",
    "RandomBinningFeatures",
    "RandomFourierFeatures",
]
