"""Files of named arrays, in safetensors' layout, that are written as a whole or not at all.

Eight bytes with the length of the header, the header in JSON, then the arrays side by side. The
last array is the checksum, the CRC-32 of all bytes before it, so that any reader of safetensors
reads the file, and this one refuses what is not as it was written.
"""

from __future__ import annotations

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

from ..checks import ModelFormatError

# Safetensors' names of NumPy's types.
TYPES = {"bool": "BOOL"} | {
    f"{kind}{bits}": f"{kind[0].upper()}{bits}"
    for kind in ("int", "uint", "float")
    for bits in (8, 16, 32, 64)
    if kind != "float" or bits > 8
}
_NAMES = {name: np.dtype(kind).newbyteorder("<") for kind, name in TYPES.items()}

CHECKSUM = "checksum"
CHECKSUM_BYTES = 4
LENGTH_BYTES = 8
# Arrays begin at multiples of this, which is safetensors' rule for headers.
ALIGNMENT = 8
# Bytes that are written at a time.
PIECE_BYTES = 1 << 22

Arrays = dict[str, NDArray[Any]]


def _head_of(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Return what stands before the arrays."""
    entries: dict[str, Any] = {"__metadata__": dict(metadata)}
    start = 0
    for name, array in arrays.items():
        stop = start + array.nbytes
        entries[name] = {
            "dtype": TYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [start, stop],
        }
        start = stop
    offsets = [start, start + CHECKSUM_BYTES]
    entries[CHECKSUM] = {"dtype": "U8", "shape": [CHECKSUM_BYTES], "data_offsets": offsets}
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % ALIGNMENT)
    return len(header).to_bytes(LENGTH_BYTES, "little") + header


def _pieces(arrays: Arrays, metadata: Mapping[str, str]) -> Iterator[Any]:
    """Yield the parts of a file."""
    # Wide numbers first, so that all are aligned.
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
    """Let a renaming last, where the system lets folders be flushed."""
    try:
        number = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(number)
    except OSError:
        pass
    finally:
        os.close(number)


def write(path: str | os.PathLike[str], arrays: Arrays, metadata: Mapping[str, str]) -> None:
    """Write a file, or leave the one that is there as it is.

    At any time the old file or the new one is there. A process that is killed while it writes
    leaves a hidden file beside it, whose name ends with `.part`. The new file has the old one's
    mode. Devices and pipes are written to.

    Parameters
    ----------
    path
        Where to.
    arrays
        Arrays of `TYPES`, by name.
    metadata
        What stands in the header.

    """
    # A link stays, and what it refers to is replaced.
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    part = os.path.join(folder, f".{name}.{secrets.token_hex(8)}.part")
    mode = os.stat(target).st_mode if os.path.exists(target) else None
    if mode is not None and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        with open(target, "wb") as file:
            file.writelines(_pieces(arrays, metadata))
        return
    try:
        with open(part, "xb") as file:
            if mode is not None:
                os.chmod(part, stat.S_IMODE(mode))
            file.writelines(_pieces(arrays, metadata))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
    _flush_folder(folder)


def read(path: str | os.PathLike[str]) -> tuple[Arrays, dict[str, str]]:
    """Read a file.

    Returns
    -------
    Arrays over the file's memory, which is mapped, and the metadata.

    Raises
    ------
    ModelFormatError
        If the file is not as it was written, or is none of these.

    """
    name = os.fspath(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < LENGTH_BYTES + CHECKSUM_BYTES:
            raise ModelFormatError(f"{name} is no stored model: it has {size} bytes")
        memory = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    start = LENGTH_BYTES + int.from_bytes(memory[:LENGTH_BYTES], "little")
    if start > size - CHECKSUM_BYTES:
        raise ModelFormatError(f"{name} is no stored model, or is cut off: {size} bytes are there")
    stored = int.from_bytes(memory[-CHECKSUM_BYTES:], "little")
    found = zlib.crc32(memory[:-CHECKSUM_BYTES])
    if stored != found:
        raise ModelFormatError(
            f"{name} is no stored model, or is damaged: its checksum is {found:08x}, "
            f"but {stored:08x} is stored"
        )
    try:
        entries = json.loads(bytes(memory[LENGTH_BYTES:start]))
        metadata = {str(key): str(value) for key, value in entries.pop("__metadata__").items()}
        arrays = dict(_read_arrays(entries, memory[start:]))
        del arrays[CHECKSUM]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelFormatError(f"{name} is no stored model: its header is not one") from error
    return arrays, metadata


def _read_arrays(
    entries: Mapping[str, Any], memory: memoryview
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the arrays that a header tells, which have to fill the memory."""
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
