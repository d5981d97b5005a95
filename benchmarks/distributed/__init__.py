"""Forests in several processes by Ray, many models by key, and the example service."""

from .keys import keys
from .service import service
from .sharding import sharding

PARTS = (sharding, keys, service)
