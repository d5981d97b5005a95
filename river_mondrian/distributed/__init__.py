"""Forests and streams over several processes and machines, by Ray, and models by key.

Ray is an extra: `pip install river-mondrian[ray]`. Ray is imported when it is first needed.
"""

from __future__ import annotations

from .engine import learn_dataset
from .keyed import KeyedModels, SpreadKeyedModels
from .sharded import ShardedForest

__all__ = ["KeyedModels", "ShardedForest", "SpreadKeyedModels", "learn_dataset"]
