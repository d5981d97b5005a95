"""Errors of the package's own."""

from __future__ import annotations

import importlib
from typing import Any


class ModelFormatError(ValueError):
    """A stored model that this version cannot read.

    A file is damaged, cut off, or of the format of a later version; a pickle is of another version,
    or byte order, whose memory is laid out otherwise. The message names both versions.
    """


def require(module: str, extra: str, purpose: str) -> Any:
    """Import a module of a package that an extra installs.

    Parameters
    ----------
    module
        The module's full name.
    extra
        Name of the extra of this package that installs it.
    purpose
        What needs it, which begins the error.

    Raises
    ------
    ModuleNotFoundError
        If the package is not installed.

    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise ModuleNotFoundError(
            f"{purpose} needs {package}, which is not installed: "
            f"pip install 'river-mondrian[{extra}]'",
            name=package,
        ) from None
