"""Pictures of models, and of what they have predicted.

Each function draws on `ax`, or on the axes of a new figure, and returns these. Matplotlib, which
the extra `plot` installs, is imported when something is drawn.
"""

from __future__ import annotations

from .bands import intervals
from .bars import importances
from .calibration import reliability
from .curves import progressive
from .maps import density_map, score_map
from .mixtures import weights
from .partitions import partition
from .sweeps import lifetimes
from .timelines import scores
from .trees import tree

__all__ = [
    "density_map",
    "importances",
    "intervals",
    "lifetimes",
    "partition",
    "progressive",
    "reliability",
    "score_map",
    "scores",
    "tree",
    "weights",
]
