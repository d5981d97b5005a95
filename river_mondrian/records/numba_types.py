"""Numba's types of records, arrays and tables, and functions with LLVM code.

In compiled code, a record is its address, an int64. An array is its address, with its length if
accesses are checked (`CHECKS`). Reading a word widens the number, and writing narrows it. Loads and
stores are aligned only to words of 4 bytes, because rows may begin at any word.

`words_buffer` and `array_buffer` return functions that reserve memory of a fixed size on the stack
of the compiled function that calls them. `new_array` and `new_int64s` allocate memory of any size,
which `release` frees.
"""

import ctypes
import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing import signature
from numba.extending import (
    NativeValue,
    box,
    lower_builtin,
    lower_cast,
    models,
    register_model,
    type_callable,
    typeof_impl,
)
from numba.extending import unbox as register_unbox

from . import pipelines
from .arrays import Array, Int64s, Packed, Span, Table, Words, Writable
from .private import PrimitiveModel
from .record import CHECKS, WORD_BYTES, Record, Word

F = TypeVar("F", bound=Callable[..., Any])

BITS = ir.IntType(64)
WIDE: dict[str, types.Type] = {"int32": types.int64, "int64": types.int64, "uint64": types.uint64}
WIDE |= dict.fromkeys(("float32", "float64"), types.float64)

# LLVM's types of words in memory.
_IN_MEMORY = {"int32": ir.IntType(32), "int64": BITS, "uint64": BITS}
_IN_MEMORY |= {"float32": ir.FloatType(), "float64": ir.DoubleType()}

# The value of a call that returns nothing.
NOTHING = ir.Constant(ir.IntType(8).as_pointer(), None)


class RecordType(types.Type):
    """Numba's type of a record."""

    def __init__(self, record: type[Record], row: type[Record] | None = None) -> None:
        self.record = record
        self.row = row
        of = "" if row is None else f"[{row.__module__}.{row.__qualname__}]"
        super().__init__(name=f"{record.__module__}.{record.__qualname__}{of}")


class BufferType(RecordType):
    """Numba's type of the memory that `bytes` or a `bytearray` owns."""


class SpanType(types.Type):
    """Numba's type of an array of words or of records."""

    def __init__(self, words: type[Words[Any]] | None, record: type[Record] | None = None) -> None:
        self.words = words
        self.record = record
        of = None if record is None else RecordType(record).name
        super().__init__(name=f"Array[{of}]" if words is None else words.__name__)

    @property
    def element_size(self) -> int:
        """Number of bytes of an element."""
        return self.words.WORD.size if self.words is not None else self.record.SIZE  # type: ignore[union-attr]


_NAMED: dict[Any, types.Type] = {int: types.int64, float: types.float64, bool: types.boolean}
_NAMED |= dict.fromkeys((None, type(None)), types.none)


def numba_type(hint: Any) -> types.Type:
    """Return numba's type of an annotation: records, arrays, tuples, numbers, bool or None."""
    base = get_origin(hint) or hint
    if isinstance(base, type) and issubclass(base, Table):
        return RecordType(Table, get_args(hint)[0] if base is Table else base.ROW)
    if base is Packed or base is Writable:
        return BufferType(base)
    if isinstance(base, type) and issubclass(base, Record):
        return RecordType(base)
    if base is Array:
        return SpanType(None, get_args(hint)[0])
    if isinstance(base, type) and issubclass(base, Words):
        return SpanType(base)
    if base is tuple:
        return types.Tuple([numba_type(item) for item in get_args(hint)])
    if isinstance(base, type) and issubclass(base, tuple):
        # A class of named tuples.
        return types.NamedTuple([numba_type(item) for item in get_type_hints(base).values()], base)
    if base not in _NAMED:
        raise TypeError(f"no type for kernels: {hint!r}")
    return _NAMED[base]


@register_model(BufferType)
@register_model(RecordType)
class _RecordModel(PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, BITS)


class _CheckedModel(models.StructModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, [("address", types.int64), ("length", types.int64)])


register_model(SpanType)(_CheckedModel if CHECKS else _RecordModel)


def make_span(builder: Any, address: Any, length: Any) -> Any:
    """Return the LLVM value of an array."""
    if not CHECKS:
        return address
    value = ir.Constant(ir.LiteralStructType([BITS, BITS]), ir.Undefined)
    return builder.insert_value(builder.insert_value(value, address, 0), length, 1)


def address_in(builder: Any, value: Any) -> Any:
    """Return the address in the LLVM value of an array."""
    return builder.extract_value(value, 0) if CHECKS else value


def pointer_to(builder: Any, value: Any, kind: Any) -> Any:
    """Return an LLVM pointer to the start of an array or a record, for elements of type `kind`."""
    address = value if isinstance(value.type, ir.IntType) else address_in(builder, value)
    return builder.inttoptr(address, kind.as_pointer())


def length_in(builder: Any, value: Any) -> Any:
    """Return the length in an array's LLVM value; `CHECKS` must be set."""
    return builder.extract_value(value, 1)


def check(context: Any, builder: Any, is_wrong: Any, text: str) -> None:
    """Generate code that raises an IndexError if `is_wrong`; do nothing unless `CHECKS` is set."""
    if CHECKS:
        with builder.if_then(is_wrong, likely=False):
            context.call_conv.return_user_exc(builder, IndexError, (text,))


def check_index(context: Any, builder: Any, value: Any, index: Any, name: str) -> None:
    """Generate a `check` that an index is within an array."""
    if CHECKS:
        wrong = builder.icmp_unsigned(">=", index, length_in(builder, value))
        check(context, builder, wrong, f"element of {name} out of range")


def check_record(context: Any, builder: Any, address: Any, text: str) -> None:
    """Generate a `check` that an address is not 0."""
    if CHECKS:
        check(context, builder, builder.icmp_unsigned("==", address, BITS(0)), text)


def pointer_to_word(builder: Any, word: Word, value: Any) -> Any:
    """Return an LLVM pointer to the words at an address, or to the words of an array."""
    return pointer_to(builder, value, _IN_MEMORY[word.name])


def load(builder: Any, word: Word, pointer: Any) -> Any:
    """Generate code that reads a word and widens it."""
    value = builder.load(pointer, align=WORD_BYTES)
    if word.name == "int32":
        return builder.sext(value, BITS)
    return builder.fpext(value, ir.DoubleType()) if word.name == "float32" else value


def store(builder: Any, word: Word, pointer: Any, value: Any) -> None:
    """Generate code that narrows a value of the word's wide type and writes it."""
    if word.name == "int32":
        value = builder.trunc(value, ir.IntType(32))
    elif word.name == "float32":
        value = builder.fptrunc(value, ir.FloatType())
    builder.store(value, pointer, align=WORD_BYTES)


def load_address(builder: Any, address: Any) -> Any:
    """Generate code that reads an address from memory."""
    return builder.load(builder.inttoptr(address, BITS.as_pointer()), align=WORD_BYTES)


def store_address(builder: Any, address: Any, value: Any) -> None:
    """Generate code that writes an address to memory."""
    builder.store(value, builder.inttoptr(address, BITS.as_pointer()), align=WORD_BYTES)


# Conversion from Python and back.


@typeof_impl.register(Record)
def _typeof_record(value: Record, c: Any) -> types.Type:
    return numba_type(type(value))


@typeof_impl.register(Span)
def _typeof_span(value: Any, c: Any) -> types.Type:
    return SpanType(None, value.record) if isinstance(value, Array) else SpanType(type(value))


@register_unbox(RecordType)
def _unbox_record(typ: Any, value: Any, c: Any) -> Any:
    address = c.pyapi.long_as_longlong(value)
    return NativeValue(address, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


@register_unbox(BufferType)
def _unbox_buffer(typ: Any, value: Any, c: Any) -> Any:
    # No check of the class is needed, because both functions raise a TypeError for another class.
    name = "PyBytes_AsString" if typ.record is Packed else "PyByteArray_AsString"
    signature = ir.FunctionType(c.pyapi.cstring, [c.pyapi.pyobj])
    function = cgutils.get_or_insert_function(c.pyapi.module, signature, name)
    start = c.builder.call(function, [value])
    return NativeValue(c.builder.ptrtoint(start, BITS), is_error=cgutils.is_null(c.builder, start))


@box(RecordType)
def _box_record(typ: Any, value: Any, c: Any) -> Any:
    return c.pyapi.long_from_longlong(value)


@register_unbox(SpanType)
def _unbox_span(typ: Any, value: Any, c: Any) -> Any:
    members = []
    for name in ("address", "length"):
        member = c.pyapi.object_getattr_string(value, name)
        members.append(c.pyapi.long_as_longlong(member))
        c.pyapi.decref(member)
    return NativeValue(
        make_span(c.builder, *members),
        is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()),
    )


@lower_cast(RecordType, types.int64)
@lower_cast(types.int64, RecordType)
@lower_cast(RecordType, RecordType)
def _same(context: Any, builder: Any, fromty: Any, toty: Any, value: Any) -> Any:
    return value


def typed(function: Any) -> Callable[[F], F]:
    """Return a decorator that registers the types of calls of `function`.

    The decorated function gets the types of the arguments. It returns the type or the signature of
    the call, or None for types that it does not handle.
    """

    def register(typer: F) -> F:
        type_callable(function)(lambda context: typer)
        return typer

    return register


@typed(bool)
def _truth(value: Any) -> Any:
    return types.boolean if isinstance(value, RecordType | SpanType) else None


# A record is true if its address is not 0.
@lower_builtin(bool, RecordType)
def _is_there(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.icmp_unsigned("!=", args[0], BITS(0))


@lower_builtin(bool, SpanType)
def _is_span_there(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.icmp_unsigned("!=", address_in(builder, args[0]), BITS(0))


def _compare(function: Any, operation: str) -> None:
    """Enable kernels to compare the addresses of two records."""

    @typed(function)
    def typer(a: Any, b: Any) -> Any:
        are_records = isinstance(a, RecordType) and isinstance(b, RecordType)
        return types.boolean if are_records else None

    @lower_builtin(function, RecordType, RecordType)
    def compare(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.icmp_unsigned(operation, *args)


_compare(operator.eq, "==")
_compare(operator.ne, "!=")


# Python functions that special LLVM code replaces in compiled kernels.


def coded(function: Any, typer: Callable[..., Any]) -> Any:
    """Return a decorator that registers the code generator for calls of `function`.

    `typer` gets numba's typing context and the types of the arguments. `typer` returns the
    signature, or None if it does not accept the arguments.
    """
    parameters = inspect.signature(function)

    @type_callable(function)
    def in_context(context: Any) -> Any:
        def of_call(*args: Any, **kwargs: Any) -> Any:
            return typer(context, *parameters.bind(*args, **kwargs).args)

        of_call.__signature__ = parameters
        return of_call

    return lower_builtin(function, types.VarArg(types.Any))


def compiles(function: Any, result: Callable[..., Any]) -> Any:
    """Return a decorator like `coded`; `result` returns only the type of the result."""

    def typer(context: Any, *args: Any) -> Any:
        returned = result(*args)
        taken = [types.int64 if isinstance(arg, types.Integer) else arg for arg in args]
        return None if returned is None else signature(returned, *taken)

    return coded(function, typer)


def lowered(codegen: Callable[..., Any]) -> Callable[[F], F]:
    """Return a decorator that sets the LLVM code for calls of an annotated Python function.

    `codegen(context, builder, *arguments)` gets LLVM values of the annotated types, and returns the
    value of the result.
    """

    def register(function: F) -> F:
        hints: Any = functools.cache(get_type_hints)

        def typer(context: Any, *args: Any) -> Any:
            *taken, result = map(numba_type, hints(function).values())
            # A record of any class is accepted, because a subclass's record is also a record of the
            # base.
            accepted = [
                arg if isinstance(want, RecordType) and isinstance(arg, RecordType) else want
                for arg, want in zip(args, taken, strict=True)
            ]
            return signature(result, *accepted)

        @coded(function, typer)
        def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = codegen(context, builder, *args)
            return NOTHING if sig.return_type == types.none else value

        return function

    return register


R = TypeVar("R", bound=Record)
W = TypeVar("W", bound=Words[Any])

_INT32 = ir.IntType(32)
# Number of bytes of a cache line, and largest number of bytes of a prefetch.
_CACHE_LINE = 64
_MOST_BYTES = 512


def _python_memory(n_bytes: int) -> tuple[int, Any]:
    buffer = ctypes.create_string_buffer(n_bytes + 8)
    return (ctypes.addressof(buffer) + 7) // 8 * 8, buffer


def _reserve(function: Any, result: SpanType, length: int) -> None:
    n_words = (length * result.element_size + 7) // 8

    @compiles(function, lambda: result)
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        words = cgutils.alloca_once(builder, BITS, size=n_words)
        return make_span(builder, builder.ptrtoint(words, BITS), BITS(length))


def words_buffer(kind: type[W], length: int) -> Callable[[], W]:
    """Return a function that allocates `length` words until the compiled caller returns."""

    def reserved() -> W:
        address, buffer = _python_memory(kind.WORD.size * length)
        return kind(address, 0, length, buffer)

    _reserve(reserved, SpanType(kind), length)
    return reserved


def array_buffer(record: type[R], length: int) -> Callable[[], Array[R]]:
    """Return a function that allocates `length` records until the compiled caller returns."""

    def reserved() -> Array[R]:
        address, buffer = _python_memory(record.SIZE * length)
        return Array(record, address, length, buffer)

    _reserve(reserved, SpanType(None, record), length)
    return reserved


# Memory that `new_array` and `new_int64s` allocate when they run as Python, by address.
_ALLOCATED: dict[int, Any] = {}


def new_array(record: type[R], length: int) -> Array[R]:
    """Allocate an array of `length` records, which `release` must free."""
    address, buffer = _python_memory(record.SIZE * length)
    _ALLOCATED[address] = buffer
    return Array(record, address, length)


def new_int64s(length: int) -> Int64s:
    """Allocate an array of `length` integers, which `release` must free."""
    address, buffer = _python_memory(8 * length)
    _ALLOCATED[address] = buffer
    return Int64s(address, 0, length)


@compiles(new_array, lambda record, length: SpanType(None, record.typing_key))
@compiles(new_int64s, lambda length: SpanType(Int64s))
def _allocate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    n_bytes = builder.mul(args[-1], BITS(sig.return_type.element_size))
    pointer = builder.call(_numbas(builder, cgutils.voidptr_t, "NRT_Allocate", BITS), [n_bytes])
    with builder.if_then(cgutils.is_null(builder, pointer), likely=False):
        context.call_conv.return_user_exc(builder, MemoryError, ("no memory for an array",))
    return make_span(builder, builder.ptrtoint(pointer, BITS), args[-1])


def _numbas(builder: Any, result: Any, name: str, *taken: Any) -> Any:
    """Return a C function of numba's runtime."""
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, taken), name)


def release(array: Span) -> None:
    """Free an array that `new_array` or `new_int64s` has returned."""
    del _ALLOCATED[array.address]


@compiles(release, lambda array: types.none if isinstance(array, SpanType) else None)
def _release(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    free = _numbas(builder, ir.VoidType(), "NRT_Free", cgutils.voidptr_t)
    builder.call(free, [pointer_to(builder, args[0], ir.IntType(8))])
    return NOTHING


def copy_record(source: Record, target: Record) -> None:
    """Copy the record `source`, with the size of its type, to the memory of `target`."""
    ctypes.memmove(int(target), int(source), type(source).SIZE)


@compiles(copy_record, lambda source, target: types.none)
def _copy_record(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    source, target = (builder.inttoptr(a, cgutils.voidptr_t) for a in args)
    n_bytes = BITS(sig.args[0].record.SIZE)
    cgutils.raw_memcpy(builder, target, source, n_bytes, BITS(1), align=4)
    return NOTHING


def prefetch(start: Record | Span, n_words: int) -> None:
    """Prefetch `n_words` words of 4 bytes, at most 128; an invalid address raises no error."""


@compiles(
    prefetch, lambda start, n: types.none if isinstance(start, RecordType | SpanType) else None
)
def _prefetch(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    address, n_words = args
    if isinstance(sig.args[0], SpanType):
        address = address_in(builder, address)
    function_type = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, *[_INT32] * 3])
    hint = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
    limit = BITS(_MOST_BYTES)
    n_bytes = builder.mul(n_words, BITS(WORD_BYTES))
    shorter = builder.icmp_signed("<", n_bytes, limit)
    end = builder.select(shorter, n_bytes, limit)
    with cgutils.for_range_slice(builder, BITS(0), end, BITS(_CACHE_LINE)) as (offset, _):
        line = builder.inttoptr(builder.add(address, offset), cgutils.voidptr_t)
        builder.call(hint, [line, _INT32(0), _INT32(3), _INT32(1)])
    return NOTHING


@lowered(lambda context, builder, word: builder.ctpop(word))
def popcount(word: int) -> int:
    """Return the number of 1 bits in a non-negative integer."""
    return int(word).bit_count()


@lowered(lambda context, builder, word: builder.cttz(word, ir.IntType(1)(1)))
def lowest_bit(word: int) -> int:
    """Return the position of the lowest 1 bit in a non-zero integer."""
    return (int(word) & -int(word)).bit_length() - 1


def _number(context: Any, builder: Any, is_true: Any) -> Any:
    number = builder.zext(is_true, BITS)
    # An empty instruction hides the value from the optimizer, which might create a branch.
    return builder.asm(ir.FunctionType(BITS, [BITS]), "", "=r,0", [number], False)


@lowered(_number)
def as_number(is_true: bool) -> int:
    """Return 1 or 0 for a truth value without a branch, which would often be mispredicted."""
    return int(is_true)


# Numba compiles `max`, `min` and `int` from Python for each type, which takes time. In kernels,
# functions with LLVM code replace them, for at most three numbers.


def _largest(a: Any, b: Any, c: Any = None) -> Any:
    return max(a, b) if c is None else max(a, b, c)


def _smallest(a: Any, b: Any, c: Any = None) -> Any:
    return min(a, b) if c is None else min(a, b, c)


def _integer(x: Any) -> Any:
    return int(x)


pipelines.BUILTINS.update({max: _largest, min: _smallest, int: _integer})


def _code_extreme(function: Any, passes: str) -> None:
    def typer(context: Any, *args: Any) -> Any:
        is_float = any(isinstance(arg, types.Float) for arg in args)
        wide = types.float64 if is_float else types.int64
        return signature(wide, *[wide for _ in args])

    @coded(function, typer)
    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        is_float = sig.return_type == types.float64
        compare = builder.fcmp_ordered if is_float else builder.icmp_signed
        extreme, *others = args
        # As in Python, the first of equal arguments is returned, so only a more extreme value
        # replaces it.
        for value in others:
            extreme = builder.select(compare(passes, value, extreme), value, extreme)
        return extreme


_code_extreme(_largest, ">")
_code_extreme(_smallest, "<")


@coded(_integer, lambda context, x: signature(types.int64, x))
def _code_integer(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    if isinstance(sig.args[0], types.Float):
        return builder.fptosi(args[0], BITS)
    return builder.zext(args[0], BITS) if args[0].type.width < BITS.width else args[0]
