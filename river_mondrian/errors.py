"""Errors of the package's own."""

from __future__ import annotations


class ModelFormatError(ValueError):
    """A stored model that this version cannot read, since its memory is laid out otherwise.

    Pickles are for the version, and the byte order, that wrote them. The message names both
    versions.
    """
