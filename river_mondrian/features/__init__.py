"""Feature maps: transformers, and what the learners of `linear` stand on."""

from .binning import RandomBinningFeatures
from .fourier import RandomFourierFeatures
from .nystrom import NystromFeatures

__all__ = ["NystromFeatures", "RandomBinningFeatures", "RandomFourierFeatures"]
