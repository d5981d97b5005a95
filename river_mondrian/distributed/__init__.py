"""Forests over several processes and machines, by Ray.

Ray is an extra: `pip install river-mondrian[ray]`. It is imported when something starts that needs
it.
"""

from __future__ import annotations

from .datasets import learn_dataset
from .sharded import ShardedForest

__all__ = ["ShardedForest", "learn_dataset"]
