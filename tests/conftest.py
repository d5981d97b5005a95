"""What several modules of tests are given."""

# Kernels that are loaded later can be made to lack memory.
from attack import allocations
from inline_workers import engine
from small_package import installed, processes

__all__ = ["allocations", "engine", "installed", "processes"]
