"""Save and load models; a regular file is written completely or not at all.

A file has named arrays in the layout of safetensors: the length of the header in eight bytes, the
header in JSON, and the arrays. The last array is a checksum, the CRC-32 of all earlier bytes. Any
reader of safetensors can read the file. `load` raises an error if the checksum is wrong.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import secrets
import stat
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base

from .._version import __version__
from ..arguments import told
from ..checks import ModelFormatError
from .classes import name_of
from .forms import TYPES, Arrays, Decoder, Encoder, code_in

# Number of the format of new files.
FORMAT = 11
# Lowest format that `load` reads, because lower formats are older than the first release.
FIRST_FORMAT = 11

DOCUMENT = "document"

# Errors that decoding raises if a document is not a model.
UNREADABLE = ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError

_NAMES = {name: np.dtype(kind).newbyteorder("<") for kind, name in TYPES.items()}

CHECKSUM = "checksum"
CHECKSUM_BYTES = 4
LENGTH_BYTES = 8
# The first array begins at a multiple of this number of bytes, because safetensors requires it.
ALIGNMENT = 8
# Number of bytes to write at a time.
PIECE_BYTES = 1 << 22


def _head_of(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Return the bytes before the arrays: the length of the header, then the header."""
    entries: dict[str, Any] = {"__metadata__": dict(metadata)}
    start = 0
    for name, array in arrays.items():
        stop = start + array.nbytes
        kind, shape = TYPES[array.dtype.name], list(array.shape)
        entries[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, stop]}
        start = stop
    offsets = [start, start + CHECKSUM_BYTES]
    entries[CHECKSUM] = {"dtype": "U8", "shape": [CHECKSUM_BYTES], "data_offsets": offsets}
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % ALIGNMENT)
    return len(header).to_bytes(LENGTH_BYTES, "little") + header


def _pieces(arrays: Arrays, metadata: Mapping[str, str]) -> Iterator[Any]:
    """Yield the bytes of a file in pieces."""
    # Arrays with wider numbers come first, because all arrays are then aligned.
    ordered = dict(sorted(arrays.items(), key=lambda item: -item[1].itemsize))
    head = _head_of(ordered, metadata)
    checksum = zlib.crc32(head)
    yield head
    for array in ordered.values():
        if array.size:
            little = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
            whole = little.reshape(-1).view(np.uint8).data
            for start in range(0, len(whole), PIECE_BYTES):
                piece = whole[start : start + PIECE_BYTES]
                checksum = zlib.crc32(piece, checksum)
                yield piece
    yield checksum.to_bytes(CHECKSUM_BYTES, "little")


def _flush_folder(folder: str) -> None:
    """Flush a folder to disk if the system allows it, because a renamed file must persist."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def write(path: str | os.PathLike[str], arrays: Arrays, metadata: Mapping[str, str]) -> None:
    """Write a file, or leave an existing file unchanged if writing fails.

    Devices and pipes are written directly. If a regular file is replaced, either the old or the new
    file exists at any time, and the new file has the old file's mode. A process that is killed
    during writing leaves a hidden file in the same folder, with a name that ends with `.part`.

    Parameters
    ----------
    path
        Path of the file.
    arrays
        Arrays by name; their types are in `TYPES`.
    metadata
        Metadata for the header.

    """
    # If the path is a link, the file behind the link is replaced, because the link should remain.
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(8)}.part")
    mode = os.stat(path).st_mode if os.path.exists(path) else None
    if mode is not None and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        # The given path is opened, because a pipe behind a link such as /dev/stdout has no path.
        with open(path, "wb") as file:
            file.writelines(_pieces(arrays, metadata))
        return
    try:
        with open(temporary, "xb") as file:
            if mode is not None:
                os.chmod(temporary, stat.S_IMODE(mode))
            file.writelines(_pieces(arrays, metadata))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _flush_folder(folder)


def read(path: str | os.PathLike[str]) -> tuple[Arrays, dict[str, str]]:
    """Read a file.

    Returns
    -------
    Arrays over the mapped memory of the file, and the metadata.

    Raises
    ------
    ModelFormatError
        If the file is damaged, or is not a stored model.

    """
    name = os.fspath(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < LENGTH_BYTES + CHECKSUM_BYTES:
            raise ModelFormatError(f"{name} is not a stored model: it has {size} bytes")
        memory = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    start = LENGTH_BYTES + int.from_bytes(memory[:LENGTH_BYTES], "little")
    if start > size - CHECKSUM_BYTES:
        raise ModelFormatError(
            f"{name} is not a stored model, or is incomplete: it has {size} bytes"
        )
    stored = int.from_bytes(memory[-CHECKSUM_BYTES:], "little")
    checksum = zlib.crc32(memory[:-CHECKSUM_BYTES])
    if stored != checksum:
        said = f"its checksum is {checksum:08x}, but {stored:08x} is stored"
        raise ModelFormatError(f"{name} is not a stored model, or is damaged: {said}")
    try:
        entries = json.loads(bytes(memory[LENGTH_BYTES:start]))
        metadata = {str(key): str(value) for key, value in entries.pop("__metadata__").items()}
        arrays = dict(_read_arrays(entries, memory[start:]))
        del arrays[CHECKSUM]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelFormatError(f"{name} is not a stored model: its header is invalid") from error
    return arrays, metadata


def _read_arrays(
    entries: Mapping[str, Any], memory: memoryview
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the names and arrays of a header; raise an error if they do not fill the memory."""
    reached = 0
    for name, entry in entries.items():
        (start, stop), shape = entry["data_offsets"], entry["shape"]
        dtype = _NAMES[entry["dtype"]]
        length = math.prod(shape)
        if start != reached or min(shape, default=0) < 0 or stop - start != length * dtype.itemsize:
            raise ValueError(f"{name} is at {start} to {stop} with the shape {shape}")
        yield name, np.frombuffer(memory, dtype, length, start).reshape(shape)
        reached = stop
    if reached != len(memory):
        raise ValueError(f"{reached} bytes of {len(memory)} are arrays")


def save(
    model: base.Base, path: str | os.PathLike[str], *, extra: dict[Any, Any] | None = None
) -> None:
    """Save a model to a file that later versions can read too.

    The file contains named arrays and plain values, and no code. If a regular file is replaced,
    either the old or the new file exists at any time, even if the process or the machine fails.

    Parameters
    ----------
    model
        An estimator or a feature map of this package. Of a pipeline, save each step of this package
        separately. For `KeyedModels`, call `flush`.
    path
        Path of the file. An existing file is replaced.
    extra
        A dict with further data, such as the position in a stream; None for no data. The dict may
        contain numbers, strings, lists, tuples, mappings, NumPy arrays, and River's transformers
        and metrics.

    Raises
    ------
    TypeError
        If `path` is not a path, `model` is not an estimator or a feature map of this package,
        `extra` is neither a dict nor None, or a part of the model or of `extra` cannot be stored.
        The message names this part. Labels and names of features must be str, int, float, bool,
        bytes, NumPy scalars, or tuples of these. A feature may be named None. A drift detector of
        your own raises this error, because its state would be lost.

    Notes
    -----
    A parameter that is code (a function, a distribution or a loss of your own) is not stored. Pass
    such a parameter to `load` by name.

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
            f"by itself; KeyedModels have flush()), got {told(model)}"
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

    With the same versions of packages, settings (such as `NUMBA_CPU_NAME`), processor and number of
    cores, the model predicts and continues to learn like the saved model, bit for bit. Loading
    executes no code from the file.

    Parameters
    ----------
    path
        The file.
    with_extra
        Whether to return the saved `extra` too.
    **code
        Parameters that are code, with the values of the saved model, such as `load(path,
        lifetime=f)`.

    Returns
    -------
    The model. If `with_extra` is True, the model and the saved `extra`.

    Raises
    ------
    ModelFormatError
        If the file is damaged, incomplete or not a stored model. If the file's format is newer than
        the formats that this version reads, or older than the first release.
    TypeError
        If `path` is not a path. If a parameter that is code (such as a function) is not passed, or
        a passed parameter is in the file.

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
        raise ModelFormatError(f"{name} is not a stored model: {error}") from error
    except UNREADABLE as error:
        raise ModelFormatError(f"{name} is not a stored model: {error!r}") from error
    if name_of(type(model)) is None or not isinstance(model, base.Base):
        raise ModelFormatError(f"{name} is not a stored model, but a {type(model).__name__}")
    return (model, extra) if with_extra else model


def _name_of_file(path: Any) -> str:
    """Return a path as text; raise an error for integers, which Python treats as open files."""
    try:
        return os.fsdecode(path)
    except TypeError:
        raise TypeError(f"path must be a str or a pathlib.Path, got {told(path)}") from None


def _document_of(name: str, arrays: Arrays, metadata: dict[str, str]) -> Any:
    """Remove the model's JSON document from a file's arrays, and return the decoded document.

    Raises
    ------
    ModelFormatError
        If the file has no document, or this version cannot read the file's format.

    """
    number = metadata.get("format", "")
    if not number.isdecimal() or DOCUMENT not in arrays:
        raise ModelFormatError(f"{name} is not a stored model of river_mondrian")
    if not FIRST_FORMAT <= int(number) <= FORMAT:
        theirs = metadata.get("river_mondrian")
        raise ModelFormatError(
            f"{name} has the format {number}, of river_mondrian {theirs}; this is {__version__}, "
            f"which reads formats from {FIRST_FORMAT} to {FORMAT}"
        )
    try:
        return json.loads(arrays.pop(DOCUMENT).tobytes())
    except UNREADABLE as error:
        raise ModelFormatError(
            f"{name} is not a stored model of format {number}: {error!r}"
        ) from error


def _check_code(name: str, document: Any, code: dict[str, Any]) -> None:
    """Raise an error if `code` lacks a parameter that is code, or has one that is in the file."""
    lacking = set(code_in(document["model"]))
    for parameter in sorted(lacking - code.keys()):
        raise TypeError(
            f"the model in {name} has a {parameter} that is code, which is not in the file: "
            f"pass it, load(..., {parameter}=...)"
        )
    for parameter in sorted(code.keys() - lacking):
        raise TypeError(f"{parameter} is in {name}, so it must not be passed to load")
