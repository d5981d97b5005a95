"""Feature maps: transformers, and what linear learners stand on."""

from .binning import RandomBinningFeatures
from .fourier import RandomFourierFeatures
from .isolation import IsolationFeatures
from .mondrian import MondrianFeatures
from .nystrom import NystromFeatures

__all__ = [
    "IsolationFeatures",
    "MondrianFeatures",
    "NystromFeatures",
    "RandomBinningFeatures",
    "RandomFourierFeatures",
]
