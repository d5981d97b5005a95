"""Errors, distributions, speed and memory of the adaptive regressor, compared with peers."""

from .comparing import memory, speed, streams

PARTS = (streams, speed, memory)
