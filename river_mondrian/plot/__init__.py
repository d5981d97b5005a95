"""Pictures of models and of their predictions.

Each function draws on `ax`, or on the axes of a new figure, and returns the axes. The extra `plot`
installs matplotlib, which is imported at the first call.
"""

from __future__ import annotations

from .over_time import drifts, intervals, progressive, scores, weights
from .planes import density_map, partition, score_map, tree
from .summaries import explanation, importances, lifetimes, reliability

__all__ = [
    "density_map",
    "drifts",
    "explanation",
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
