"""Numba's types of records, arrays and tables, and functions with LLVM code.

In compiled code, a record is its address, an int64. An array is its address, together with its
length if accesses are checked (`CHECKS`). Reading widens a word, and writing narrows it. Loads and
stores are aligned only to words of 4 bytes, because rows may begin at any word.

`room_of_words` and `room_of_array` return functions that reserve memory of a fixed size on the
stack of the kernel that calls them. `new_array` and `new_int64s` allocate memory of any size, which
`release` frees.
"""

import copy
import ctypes
import functools
import operator
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from llvmlite import ir
from numba import types
from numba.core import cgutils, datamodel
from numba.core.cpu import CPUContext
from numba.core.imputils import lower_builtin, lower_cast
from numba.core.runtime.nrt import rtsys
from numba.core.typeconv.castgraph import Conversion
from numba.core.typing import enumdecl, mathdecl, npydecl
from numba.core.typing.context import Context
from numba.core.typing.templates import AbstractTemplate, RegistryLoader, infer_global, signature
from numba.extending import NativeValue, box, models, register_model, typeof_impl
from numba.extending import unbox as register_unbox

from .arrays import Array, Int64s, Packed, Room, Span, Table, Words
from .record import CHECKS, WORD_BYTES, Record, Word

F = TypeVar("F", bound=Callable[..., Any])

# A module of numba that has no annotations.
_datamodel: Any = datamodel

BITS = ir.IntType(64)
WIDE: dict[str, types.Type] = {"int32": types.int64, "int64": types.int64, "uint64": types.uint64}
WIDE |= dict.fromkeys(("float32", "float64"), types.float64)


def memory_type(word: Word) -> Any:
    """Return numba's type of a word in memory."""
    return getattr(types, word.name)


class RecordType(types.Type):
    """Numba's type of a record."""

    def __init__(self, record: type[Record], row: type[Record] | None = None) -> None:
        self.record = record
        self.row = row
        of = "" if row is None else f"[{row.__module__}.{row.__qualname__}]"
        super().__init__(name=f"{record.__module__}.{record.__qualname__}{of}")

    def can_convert_to(self, typingctx: Any, other: types.Type) -> Any:
        """Allow numba to convert a record to its address."""
        return Conversion.safe if other == types.int64 else None

    def can_convert_from(self, typingctx: Any, other: types.Type) -> Any:
        """Allow numba to convert an address to a record."""
        return Conversion.safe if other == types.int64 else None


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
    """Return numba's type of an annotation: a class of records or arrays, or a number."""
    base = get_origin(hint) or hint
    if isinstance(base, type) and issubclass(base, Table):
        return RecordType(Table, get_args(hint)[0] if base is Table else base.ROW)
    if base is Packed or base is Room:
        return BufferType(base)
    if isinstance(base, type) and issubclass(base, Record):
        return RecordType(base)
    if base is Array:
        return SpanType(None, get_args(hint)[0])
    if isinstance(base, type) and issubclass(base, Words):
        return SpanType(base)
    if base is tuple:
        return types.Tuple([numba_type(part) for part in get_args(hint)])
    if base not in _NAMED:
        raise TypeError(f"no type for kernels: {hint!r}")
    return _NAMED[base]


@register_model(BufferType)
@register_model(RecordType)
class _RecordModel(models.PrimitiveModel):
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
    """Return the length in an array's LLVM value; it exists only if accesses are checked."""
    return builder.extract_value(value, 1)


def check(context: Any, builder: Any, is_wrong: Any, text: str) -> None:
    """Generate a check of `is_wrong`, which raises an IndexError, if `CHECKS` is set."""
    if CHECKS:
        with builder.if_then(is_wrong, likely=False):
            context.call_conv.return_user_exc(builder, IndexError, (text,))


def check_index(context: Any, builder: Any, value: Any, index: Any, name: str) -> None:
    """Generate a check of an index, which raises an IndexError, if `CHECKS` is set."""
    if CHECKS:
        wrong = builder.icmp_unsigned(">=", index, length_in(builder, value))
        check(context, builder, wrong, f"element of {name} out of range")


def check_record(context: Any, builder: Any, address: Any, text: str) -> None:
    """Generate a check that an address is not 0, if `CHECKS` is set."""
    if CHECKS:
        check(context, builder, builder.icmp_unsigned("==", address, BITS(0)), text)


def load(context: Any, builder: Any, word: Word, address: Any) -> Any:
    """Generate code that reads a word at an address and widens it."""
    memory = memory_type(word)
    pointer = pointer_to(builder, address, context.get_data_type(memory))
    found = builder.load(pointer, align=WORD_BYTES)
    return context.cast(builder, found, memory, WIDE[word.name])


def store(context: Any, builder: Any, word: Word, address: Any, value: Any, given: Any) -> None:
    """Generate code that narrows a value of the type `given` and writes it to an address."""
    memory = memory_type(word)
    value = context.cast(builder, value, given, memory)
    pointer = pointer_to(builder, address, context.get_data_type(memory))
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
    # `PyBytes_AsString` and `PyByteArray_AsString` raise a TypeError if the value has another
    # class.
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
    found = []
    for name in ("address", "length"):
        member = c.pyapi.object_getattr_string(value, name)
        found.append(c.pyapi.long_as_longlong(member))
        c.pyapi.decref(member)
    return NativeValue(
        make_span(c.builder, *found),
        is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()),
    )


@lower_cast(RecordType, types.int64)
@lower_cast(types.int64, RecordType)
@lower_cast(RecordType, RecordType)
def _same(context: Any, builder: Any, fromty: Any, toty: Any, value: Any) -> Any:
    return value


# A record is true if its address is not 0.
@lower_builtin(bool, RecordType)
def _is_there(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.icmp_unsigned("!=", args[0], BITS(0))


@lower_builtin(bool, SpanType)
def _is_span_there(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.icmp_unsigned("!=", address_in(builder, args[0]), BITS(0))


# Types of calls within kernels.

# To find the type of a call, numba compares the arguments with all signatures of the function.
# Compilers of kernels (`pipelines`) first try the rules in `_RULES`, which return the same types
# faster. The rules are not registered with numba, so users' functions keep numba's types, errors
# and overloads.
_RULES: dict[Any, Callable[..., Any]] = {}

# Functions that numba would compile from Python, and the keys of the LLVM code used instead.
_OWN_CODE: dict[Any, Any] = {function: ("kernels", function) for function in (max, min, int)}


def typed(*functions: Any) -> Callable[[F], F]:
    """Return a decorator that registers a typing rule for kernels' calls of `functions`.

    The rule gets the types of the arguments. The rule returns the signature, or None if numba must
    find the signature.
    """

    def register(rule: F) -> F:
        _RULES.update(dict.fromkeys(functions, rule))
        return rule

    return register


class _Ruled(types.Function):
    """The type of a function that has a rule."""

    _impl_keys: dict[Any, Any]

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        found = _RULES[self.typing_key](*map(types.unliteral, args))
        if found is None:
            return super().get_call_type(context, args, kws)
        self._impl_keys[found.args] = _OWN_CODE.get(self.typing_key, self.typing_key)
        return found


register_model(_Ruled)(models.OpaqueModel)


@functools.cache
def _ruled(known: types.Function) -> _Ruled:
    return _Ruled(known.templates)


class _Declarations(RegistryLoader):
    """Numba's declarations of types, without attributes and methods that are written in Python.

    Loading these attributes and methods would load all of numba's code and scipy's linear algebra.
    """

    def new_registrations(self, name: str) -> Any:
        """Return the declarations that have been added since the last call."""
        found = super().new_registrations(name)
        return [one for one in found if not hasattr(one, "_get_target_registry")]


class KernelContext(Context):
    """Numba's typing context with rules for kernels; it has fewer types and loads faster."""

    def load_additional_registries(self) -> None:
        """Load the types of enumerations, and of functions of `math` and NumPy."""
        for declared in (enumdecl, mathdecl, npydecl):
            self.install_registry(declared.registry)

    def install_registry(self, registry: Any) -> None:
        """Load the types that a registry declares."""
        self._registries.setdefault(registry, _Declarations(registry))
        super().install_registry(registry)

    def resolve_value_type(self, val: Any) -> Any:
        """Return the type of a constant."""
        return self._find(val) or super().resolve_value_type(val)

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a call."""
        return super().resolve_function_type(self._find(func) or func, args, kws)

    def _find(self, value: Any) -> _Ruled | None:
        is_known = type(value) in (type, BuiltinFunctionType) and value in _RULES
        return _ruled(self._lookup_global(value)) if is_known else None


class KernelTarget(CPUContext):
    """A copy of numba's target context, which loads only functions that kernels call."""

    types = KernelContext()

    @classmethod
    def of(cls, context: Any) -> Any:
        """Return a copy of a context as an object of this class."""
        found = copy.copy(context)
        found.__class__, found.typing_context = cls, cls.types
        return found

    def load_additional_registries(self) -> None:
        """Load the code of functions of Python, `math` and NumPy."""
        from numba.cpython import enumimpl, iterators, mathimpl, numbers, rangeobj, tupleobj  # noqa: F401
        from numba.np import npyimpl

        rtsys.initialize(self)
        self.install_registry(mathimpl.registry)
        self.install_registry(npyimpl.registry)
        self.data_model_manager = _datamodel.default_manager


def _wide(*args: Any) -> Any:
    """Return the common type of two numbers, or None for other arguments."""
    if len(args) != 2 or not {types.int64, types.float64}.issuperset(args):
        return None
    return types.float64 if types.float64 in args else types.int64


@typed(operator.add, operator.iadd, operator.sub, operator.isub, operator.mul, operator.imul)
@typed(max, min)
def _arithmetic(*args: Any) -> Any:
    wide = _wide(*args)
    return wide and signature(wide, wide, wide)


@typed(operator.truediv, operator.itruediv)
def _division(*args: Any) -> Any:
    wide = _wide(*args)
    return wide and signature(types.float64, wide, wide)


@typed(operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
def _comparison(*args: Any) -> Any:
    if all(isinstance(arg, RecordType) for arg in args):
        return signature(types.boolean, *args)
    wide = _wide(*args)
    return wide and signature(types.boolean, wide, wide)


@typed(bool)
def _truth(value: Any) -> Any:
    is_known = isinstance(value, types.Boolean | RecordType | SpanType)
    return signature(types.boolean, value) if is_known else None


@typed(int)
def _int(number: Any) -> Any:
    is_known = number in (types.int64, types.float64, types.boolean)
    return signature(types.int64, number) if is_known else None


@lower_builtin(_OWN_CODE[int], types.Any)
def _to_int(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return context.cast(builder, args[0], sig.args[0], types.int64)


def _lower_extreme(function: Any, passes: Any) -> None:
    @lower_builtin(_OWN_CODE[function], types.Any, types.Any)
    def extreme(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        # As in Python, the result is the first argument unless the second argument is more extreme.
        compare = context.get_function(passes, signature(types.boolean, *sig.args))
        return builder.select(compare(builder, args[::-1]), *args[::-1])


_lower_extreme(max, operator.gt)
_lower_extreme(min, operator.lt)


@lower_builtin(operator.eq, RecordType, RecordType)
def _equal(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.icmp_unsigned("==", *args)


@lower_builtin(operator.ne, RecordType, RecordType)
def _unequal(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.icmp_unsigned("!=", *args)


# Python functions for which compiled kernels use special LLVM code.


def coded(function: Any, typer: Callable[..., Any]) -> Any:
    """Return a decorator that registers the code generator for calls of `function`.

    `typer` returns the signature for the types of the arguments; None refuses the arguments.
    """

    class Template(AbstractTemplate):
        key = function

        def generic(self, args: Any, kws: Any) -> Any:
            return typer(*args)

    infer_global(function, types.Function(Template))
    return lower_builtin(function, types.VarArg(types.Any))


def compiles(function: Any, result: Callable[..., Any]) -> Any:
    """Return a decorator like `coded`; `result` returns only the type of the result."""

    def typer(*args: Any) -> Any:
        found = result(*args)
        taken = [types.int64 if isinstance(arg, types.Integer) else arg for arg in args]
        return None if found is None else signature(found, *taken)

    return coded(function, typer)


def lowered(codegen: Callable[..., Any]) -> Callable[[F], F]:
    """Return a decorator that sets the LLVM code for calls of an annotated Python function.

    `codegen(context, builder, *arguments)` gets LLVM values of the annotated types, and returns the
    value of the result.
    """

    def register(function: F) -> F:
        hints: Any = functools.cache(get_type_hints)

        def typer(*args: Any) -> Any:
            *taken, result = map(numba_type, hints(function).values())
            # A record of a subclass is also a record of its base.
            given = [
                arg if isinstance(want, RecordType) and isinstance(arg, RecordType) else want
                for arg, want in zip(args, taken, strict=True)
            ]
            return signature(result, *given)

        @coded(function, typer)
        def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            found = codegen(context, builder, *args)
            return context.get_dummy_value() if sig.return_type == types.none else found

        return function

    return register


R = TypeVar("R", bound=Record)
W = TypeVar("W", bound=Words[Any])

_INT64, _INT32 = ir.IntType(64), ir.IntType(32)
# Number of bytes of a cache line, and largest number of bytes of a prefetch.
_CACHE_LINE = 64
_MOST_BYTES = 512


def _python_memory(n_bytes: int) -> tuple[int, Any]:
    buffer = ctypes.create_string_buffer(n_bytes + 8)
    return (ctypes.addressof(buffer) + 7) // 8 * 8, buffer


def _make_room(function: Any, result: SpanType, length: int) -> None:
    n_words = (length * result.element_size + 7) // 8

    @compiles(function, lambda: result)
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        words = cgutils.alloca_once(builder, _INT64, size=n_words)
        return make_span(builder, builder.ptrtoint(words, _INT64), _INT64(length))


def room_of_words(kind: type[W], length: int) -> Callable[[], W]:
    """Return a function by which a kernel reserves `length` words until the kernel returns."""

    def room() -> W:
        address, buffer = _python_memory(kind.WORD.size * length)
        return kind(address, 0, length, buffer)

    _make_room(room, SpanType(kind), length)
    return room


def room_of_array(record: type[R], length: int) -> Callable[[], Array[R]]:
    """Return a function by which a kernel reserves `length` records until the kernel returns."""

    def room() -> Array[R]:
        address, buffer = _python_memory(record.SIZE * length)
        found = Array[R](address, 0, length, buffer)
        found.record = record
        return found

    _make_room(room, SpanType(None, record), length)
    return room


# Memory that `new_array` and `new_int64s` allocate when they run as Python, by address.
_ALLOCATED: dict[int, Any] = {}


def new_array(record: type[R], length: int) -> Array[R]:
    """Allocate an array of `length` records, which `release` must free."""
    address, buffer = _python_memory(record.SIZE * length)
    _ALLOCATED[address] = buffer
    found = Array[R](address, 0, length)
    found.record = record
    return found


def new_int64s(length: int) -> Int64s:
    """Allocate an array of `length` integers, which `release` must free."""
    address, buffer = _python_memory(8 * length)
    _ALLOCATED[address] = buffer
    return Int64s(address, 0, length)


@compiles(new_array, lambda record, length: SpanType(None, record.typing_key))
@compiles(new_int64s, lambda length: SpanType(Int64s))
def _allocate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    # `allocate` raises a MemoryError if there is no memory.
    n_bytes = builder.mul(args[-1], _INT64(sig.return_type.element_size))
    found = context.nrt.allocate(builder, n_bytes)
    return make_span(builder, builder.ptrtoint(found, _INT64), args[-1])


def release(array: Span) -> None:
    """Free an array that `new_array` or `new_int64s` has returned."""
    del _ALLOCATED[array.address]


@compiles(release, lambda array: types.none if isinstance(array, SpanType) else None)
def _release(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    context.nrt.free(builder, pointer_to(builder, args[0], ir.IntType(8)))
    return context.get_dummy_value()


def copy_record(source: Record, target: Record) -> None:
    """Copy the record `source` to the memory of `target`; the type of `source` sets the size."""
    ctypes.memmove(int(target), int(source), type(source).SIZE)


@compiles(copy_record, lambda source, target: types.none)
def _copy_record(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    source, target = (builder.inttoptr(a, cgutils.voidptr_t) for a in args)
    n_bytes = _INT64(sig.args[0].record.SIZE)
    cgutils.raw_memcpy(builder, target, source, n_bytes, _INT64(1), align=4)
    return context.get_dummy_value()


def prefetch(place: Record | Span, n_words: int) -> None:
    """Prefetch the first `n_words` 4-byte words (at most 128); invalid addresses raise no error."""


@compiles(
    prefetch, lambda place, n: types.none if isinstance(place, RecordType | SpanType) else None
)
def _prefetch(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    address, n_words = args
    if isinstance(sig.args[0], SpanType):
        address = address_in(builder, address)
    function_type = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, *[_INT32] * 3])
    hint = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
    most = _INT64(_MOST_BYTES)
    n_bytes = builder.mul(n_words, _INT64(WORD_BYTES))
    shorter = builder.icmp_signed("<", n_bytes, most)
    end = builder.select(shorter, n_bytes, most)
    with cgutils.for_range_slice(builder, _INT64(0), end, _INT64(_CACHE_LINE)) as (offset, _):
        line = builder.inttoptr(builder.add(address, offset), cgutils.voidptr_t)
        builder.call(hint, [line, _INT32(0), _INT32(3), _INT32(1)])
    return context.get_dummy_value()


@lowered(lambda context, builder, word: builder.ctpop(word))
def popcount(word: int) -> int:
    """Count the bits that are 1 in an integer that is not negative."""
    return int(word).bit_count()


@lowered(lambda context, builder, word: builder.cttz(word, ir.IntType(1)(1)))
def lowest_bit(word: int) -> int:
    """Return the position of the lowest bit that is 1 in an integer that is not zero."""
    return (int(word) & -int(word)).bit_length() - 1


def _number(context: Any, builder: Any, is_true: Any) -> Any:
    number = builder.zext(is_true, _INT64)
    # An empty instruction hides the value from the optimizer, which might create a branch.
    return builder.asm(ir.FunctionType(_INT64, [_INT64]), "", "=r,0", [number], False)


@lowered(_number)
def as_number(is_true: bool) -> int:
    """Return 1 or 0 for a truth value without a branch, which would often be mispredicted."""
    return int(is_true)
