"""Memory for the length of one call of a kernel, and a hint to the processor.

`room_of_words` and `room_of_array` make functions that reserve a fixed size on the stack of the
kernel that calls them. `new_array` and `new_int64s` reserve any size until `release`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, TypeVar

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature

from .arrays import Array, Int64s, Span, Words
from .compiled import RecordType, SpanType, address_in, lowered, make_span
from .record import WORD_BYTES, Record

R = TypeVar("R", bound=Record)
W = TypeVar("W", bound=Words)

_INT64, _INT32 = ir.IntType(64), ir.IntType(32)
_CACHE_LINE = 64
_FARTHEST = 512


def _python_memory(n_bytes: int) -> tuple[int, Any]:
    buffer = ctypes.create_string_buffer(n_bytes + 8)
    return (ctypes.addressof(buffer) + 7) // 8 * 8, buffer


def _make_room(function: Any, result: SpanType, length: int) -> None:
    n_words = (length * result.element_size + 7) // 8

    class Template(AbstractTemplate):
        key = function

        def generic(self, args: Any, kws: Any) -> Any:
            return signature(result)

    infer_global(function, types.Function(Template))

    @lower_builtin(function)
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        words = cgutils.alloca_once(builder, _INT64, size=n_words)
        return make_span(builder, builder.ptrtoint(words, _INT64), _INT64(length))


def room_of_words(kind: type[W], length: int) -> Callable[[], W]:
    """Make a function that gives room for so many words, for one call of a kernel."""

    def room() -> W:
        address, buffer = _python_memory(kind.WORD.size * length)
        return kind(address, 0, length, buffer)

    _make_room(room, SpanType(kind), length)
    return room


def room_of_array(record: type[R], length: int) -> Callable[[], Array[R]]:
    """Make a function that gives room for so many records, for one call of a kernel."""

    def room() -> Array[R]:
        address, buffer = _python_memory(record.SIZE * length)
        found = Array[R](address, 0, length, buffer)
        found.record = record
        return found

    _make_room(room, SpanType(None, record), length)
    return room


# What Python has allocated, by its address.
_ALLOCATED: dict[int, Any] = {}


def new_array(record: type[R], length: int) -> Array[R]:
    """Return room for so many records, until it is released."""
    address, buffer = _python_memory(record.SIZE * length)
    _ALLOCATED[address] = buffer
    found = Array[R](address, 0, length)
    found.record = record
    return found


@infer_global(new_array)
class _NewArray(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        record = args[0].typing_key
        return signature(SpanType(None, record), args[0], types.int64)


@lower_builtin(new_array, types.Any, types.int64)
def _new_array(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _allocate(context, builder, sig.return_type, args[1])


def _allocate(context: Any, builder: Any, typ: SpanType, length: Any) -> Any:
    # Where there is no memory this raises a MemoryError.
    found = context.nrt.allocate(builder, builder.mul(length, _INT64(typ.element_size)))
    return make_span(builder, builder.ptrtoint(found, _INT64), length)


def new_int64s(length: int) -> Int64s:
    """Return room for so many integers, until it is released."""
    address, buffer = _python_memory(8 * length)
    _ALLOCATED[address] = buffer
    return Int64s(address, 0, length)


@infer_global(new_int64s)
class _NewInt64s(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        return signature(SpanType(Int64s), types.int64)


@lower_builtin(new_int64s, types.int64)
def _new_int64s(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _allocate(context, builder, sig.return_type, args[0])


def release(array: Span) -> None:
    """Give back what `new_array` or `new_int64s` has given."""
    del _ALLOCATED[array.address]


@infer_global(release)
class _Release(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        return signature(types.none, args[0]) if isinstance(args[0], SpanType) else None


@lower_builtin(release, SpanType)
def _release(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    address = address_in(builder, args[0])
    context.nrt.free(builder, builder.inttoptr(address, cgutils.voidptr_t))
    return context.get_dummy_value()


def copy_record(source: Record, target: Record) -> None:
    """Copy a record, of the type that the first argument has, to where another one is."""
    ctypes.memmove(int(target), int(source), type(source).SIZE)


@infer_global(copy_record)
class _CopyRecord(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        return signature(types.none, *args)


@lower_builtin(copy_record, RecordType, RecordType)
def _copy_record(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    source, target = (builder.inttoptr(a, cgutils.voidptr_t) for a in args)
    n_bytes = _INT64(sig.args[0].record.SIZE)
    cgutils.raw_memcpy(builder, target, source, n_bytes, _INT64(1), align=4)
    return context.get_dummy_value()


def prefetch(place: Record | Span, n_words: int) -> None:
    """Bring 4-byte words of a record or an array close, up to 128 of them; never faults."""


@infer_global(prefetch)
class _Prefetch(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], RecordType | SpanType):
            return signature(types.none, args[0], types.int64)
        return None


@lower_builtin(prefetch, types.Any, types.int64)
def _prefetch(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    address, n_words = args
    if isinstance(sig.args[0], SpanType):
        address = address_in(builder, address)
    function_type = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, *[_INT32] * 3])
    hint = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
    farthest = _INT64(_FARTHEST)
    n_bytes = builder.mul(n_words, _INT64(WORD_BYTES))
    shorter = builder.icmp_signed("<", n_bytes, farthest)
    end = builder.select(shorter, n_bytes, farthest)
    with cgutils.for_range_slice(builder, _INT64(0), end, _INT64(_CACHE_LINE)) as (offset, _):
        line = builder.inttoptr(builder.add(address, offset), cgutils.voidptr_t)
        builder.call(hint, [line, _INT32(0), _INT32(3), _INT32(1)])
    return context.get_dummy_value()


@lowered(lambda context, builder, word: builder.ctpop(word))
def popcount(word: int) -> int:
    """Count the bits of an integer that is not negative."""
    return int(word).bit_count()


@lowered(lambda context, builder, word: builder.cttz(word, ir.IntType(1)(1)))
def lowest_bit(word: int) -> int:
    """Return the position of the lowest bit of an integer that is not zero."""
    return (int(word) & -int(word)).bit_length() - 1
