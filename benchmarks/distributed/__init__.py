"""Forests in several processes by Ray, and many models by key."""

from .keys import keys
from .sharding import sharding

PARTS = (sharding, keys)
