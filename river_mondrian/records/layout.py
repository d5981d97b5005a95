"""What a pickle of records tells of their layout, by which memory of another one is refused."""

from __future__ import annotations

import functools
import hashlib
import sys
from typing import Any, NamedTuple, get_args, get_origin

from .._version import __version__
from ..errors import ModelFormatError
from .record import Record, Word


class Stamp(NamedTuple):
    """What wrote a pickle: version of the package, byte order, digest of the records' layout."""

    version: str
    byte_order: str
    digest: str


def _related(hint: Any) -> list[type[Record]]:
    """Return the classes of records that a field's annotation names."""
    names = [get_origin(hint) or hint, *get_args(hint)]
    return [name for name in names if isinstance(name, type) and issubclass(name, Record)]


def _described(field: Any) -> str:
    kind = field.kind
    if isinstance(kind, Word):
        what = kind.name
    else:
        parts = [get_origin(kind) or kind, *get_args(kind)]
        what = "entry" if field.is_entry else " ".join(part.__name__ for part in parts)
    return f"{field.name} {field.offset} {field.size} {field.role.value} {field.length} {what}"


@functools.cache
def layout_digest(kind: Any) -> str:
    """Return a digest of a record's layout and of those of all records that it refers to."""
    lines: list[str] = []
    waiting: list[type[Record]] = [kind]
    seen: set[Any] = {kind}
    while waiting:
        record = waiting.pop()
        lines.append(f"{record.__name__} {record.SIZE}")
        for field in record.FIELDS.values():
            lines.append(_described(field))
            for other in _related(field.kind) if not isinstance(field.kind, Word) else ():
                if other not in seen and not field.is_entry:
                    seen.add(other)
                    waiting.append(other)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def stamp_of(kind: Any) -> Stamp:
    """Return what a pickle of records of a kind carries."""
    return Stamp(__version__, sys.byteorder, layout_digest(kind))


def check_stamp(stamp: Any, kind: type[Record]) -> None:
    """Refuse records whose bytes this version would read otherwise.

    Raises
    ------
    ModelFormatError
        If the stamp is of another layout or byte order, or there is none.

    """
    expected = stamp_of(kind)
    if isinstance(stamp, Stamp) and stamp[1:] == expected[1:]:
        return
    if isinstance(stamp, Stamp):
        wrote = f"{stamp.version} ({stamp.byte_order}-endian, layout {stamp.digest})"
        where = f"river_mondrian {stamp.version} on a {stamp.byte_order}-endian machine"
    else:
        wrote, where = "of an earlier version, without a stamp", "the version that wrote it"
    raise ModelFormatError(
        f"this model was pickled by river_mondrian {wrote}, but this is {expected.version} "
        f"({expected.byte_order}-endian, layout {expected.digest}): pickles are for one version. "
        f"Load it with {where}, or train the model anew"
    )
