"""What several modules of tests are given."""

from small_package import installed, processes

__all__ = ["installed", "processes"]
