"""Errors of the package's own."""

from __future__ import annotations


class ModelFormatError(ValueError):
    """A stored model that this version cannot read.

    A file is damaged, cut off, or of the format of a later version; a pickle is of another version,
    or byte order, whose memory is laid out otherwise. The message names both versions.
    """
