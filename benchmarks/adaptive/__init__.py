"""Accuracy, speed, drift and memory of the adaptive classifier, compared with River's models."""

from .comparing import memory, sizes, speed, streams
from .jumps import jumps
from .weights import weights

PARTS = (streams, sizes, jumps, weights, speed, memory)
