"""Saving and loading models."""

from __future__ import annotations

import json
import os
from typing import Any, TypeVar

import numpy as np
from river import base

from .._version import __version__
from ..arguments import told
from ..checks import ModelFormatError
from .classes import name_of
from .container import Arrays, read, write
from .forms import Decoder, Encoder, code_in

# Number of the format of files that are written.
FORMAT = 10
# Formats below were written before the first release.
FIRST_FORMAT = 10

DOCUMENT = "document"

# What comes of a tree that no model has.
UNREADABLE = ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError

Model = TypeVar("Model", bound=base.Base)


def save(
    model: base.Base, path: str | os.PathLike[str], *, extra: dict[Any, Any] | None = None
) -> None:
    """Save a model to a file that later versions read, too.

    The file holds numbers by name and no code. At any time the old file or the new one is there,
    whatever happens to the process or the machine.

    Parameters
    ----------
    model
        An estimator or a feature map of this package.
    path
        Path of the file. An existing file is replaced.
    extra
        What belongs to the state, such as the position in a stream: a mapping of numbers, strings,
        lists, tuples, mappings and NumPy arrays.

    Raises
    ------
    TypeError
        If `path` is not a path; or if a part of the model cannot be stored: a label or the name of
        a feature that is not a str, int, float, bool, bytes, None, a NumPy scalar or a tuple of
        these; or a drift detector of your own, whose state would be lost. The message names it.

    Notes
    -----
    A parameter that is code (a function, a distribution or a loss of your own) is not stored;
    `load` takes it by name.

    Examples
    --------

    >>> import tempfile
    >>> from pathlib import Path
    >>> from river import datasets
    >>> from river_mondrian import MondrianForestClassifier, load, save

    >>> model = MondrianForestClassifier(seed=42)
    >>> for x, y in datasets.Bananas().take(100):
    ...     model.learn_one(x, y)

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.safetensors"
    ...     save(model, path, extra={"position": 100})
    ...     same, extra = load(path, with_extra=True)
    >>> extra
    {'position': 100}
    >>> same.predict_proba_one(x) == model.predict_proba_one(x)
    True

    """
    if name_of(type(model)) is None or not isinstance(model, base.Base):
        raise TypeError(
            "save takes an estimator or a feature map of river_mondrian (of a pipeline, each step "
            f"by itself), got {told(model)}"
        )
    if extra is not None and not isinstance(extra, dict):
        raise TypeError(f"extra must be a dict or None, got {told(extra)}")
    name = _name_of_file(path)
    encoder = Encoder()
    document = {"model": encoder.encode(model, "model"), "extra": encoder.encode(extra, "extra")}
    content = json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")
    arrays = encoder.arrays | {DOCUMENT: np.frombuffer(content, np.uint8)}
    write(name, arrays, {"format": str(FORMAT), "river_mondrian": __version__})


def load(path: str | os.PathLike[str], *, with_extra: bool = False, **code: Any) -> Any:
    """Load a model that `save` has written.

    It predicts and continues to learn bit for bit like the saved one. Loading executes no code of
    the file.

    Parameters
    ----------
    path
        The file.
    with_extra
        Whether to return `extra`, too.
    **code
        Parameters that are code, by name, as the model had them: `load(path, lifetime=f)`.

    Returns
    -------
    The model, or with `with_extra` the model and the saved `extra`.

    Raises
    ------
    ModelFormatError
        If the file is damaged, cut off, no stored model, or of a format that is newer than this
        version or older than the first release.
    TypeError
        If `path` is not a path, a parameter that is code is missing, or one is given that the file
        does not need.

    Examples
    --------

    >>> import tempfile
    >>> from pathlib import Path
    >>> from river_mondrian import DensityForest, load, save

    >>> def lifetime(n):
    ...     return n ** 0.25
    >>> model = DensityForest(3, lifetime=lifetime, seed=42)
    >>> model.learn_one({"a": 0.5})

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.safetensors"
    ...     save(model, path)
    ...     same = load(path, lifetime=lifetime)
    >>> same.score_one({"a": 0.6}) == model.score_one({"a": 0.6})
    True

    """
    name = _name_of_file(path)
    arrays, metadata = read(name)
    document = _document_of(name, arrays, metadata)
    _check_code(name, document, code)
    decoder = Decoder(arrays, code)
    try:
        model, extra = decoder.decode(document["model"]), decoder.decode(document["extra"])
    except ModelFormatError as error:
        raise ModelFormatError(f"{name} is no stored model: {error}") from error
    except UNREADABLE as error:
        raise ModelFormatError(f"{name} is no stored model: {error!r}") from error
    if name_of(type(model)) is None or not isinstance(model, base.Base):
        raise ModelFormatError(f"{name} is no stored model, but a {type(model).__name__}")
    return (model, extra) if with_extra else model


def _name_of_file(path: Any) -> str:
    """Return a path as text; numbers are refused, which Python takes for files that are open."""
    try:
        return os.fsdecode(path)
    except TypeError:
        raise TypeError(f"path must be a str or a pathlib.Path, got {told(path)}") from None


def _document_of(name: str, arrays: Arrays, metadata: dict[str, str]) -> Any:
    """Return a file's document, and take it out of the arrays.

    Raises
    ------
    ModelFormatError
        If there is none, or if it has a format that this version does not read.

    """
    found = metadata.get("format", "")
    if not found.isdecimal() or DOCUMENT not in arrays:
        raise ModelFormatError(f"{name} is no stored model of river_mondrian")
    number = int(found)
    if number < FIRST_FORMAT:
        raise ModelFormatError(
            f"{name} has the format {number}, which was written before the first release of "
            f"river_mondrian; this is {__version__}, which reads formats from {FIRST_FORMAT} on"
        )
    if number > FORMAT:
        raise ModelFormatError(
            f"{name} has the format {number}, of river_mondrian "
            f"{metadata.get('river_mondrian')}, but this is {__version__}, which reads formats up "
            f"to {FORMAT}"
        )
    try:
        return json.loads(arrays.pop(DOCUMENT).tobytes())
    except UNREADABLE as error:
        raise ModelFormatError(f"{name} is no stored model of format {found}: {error!r}") from error


def _check_code(name: str, document: Any, code: dict[str, Any]) -> None:
    """Refuse code that is missing, and such as the file does not lack."""
    lacking = set(code_in(document["model"]))
    for parameter in sorted(lacking - code.keys()):
        raise TypeError(
            f"the model in {name} has a {parameter} that is code, which files do not hold: "
            f"give it, load(..., {parameter}=...)"
        )
    for parameter in sorted(code.keys() - lacking):
        raise TypeError(f"the model in {name} does not lack {parameter}, which was given as code")
