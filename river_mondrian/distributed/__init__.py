"""Forests in several processes or on several machines, and a model for each key of a stream.

`pip install river-mondrian[ray]` installs Ray, which is imported when it is first needed.
"""

from __future__ import annotations

from .engine import learn_dataset
from .keyed import KeyedModels, SpreadKeyedModels
from .sharded import ShardedForest

__all__ = ["KeyedModels", "ShardedForest", "SpreadKeyedModels", "learn_dataset"]
