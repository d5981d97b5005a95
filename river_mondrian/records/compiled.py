"""How numba compiles records, arrays and tables: to plain loads and stores at addresses.

A record is an int64 to compiled code: its address. An array is its address alone, or with its
length in the checked mode. Reading widens, writing narrows. Loads and stores are aligned to words
of 4 bytes, at any of which rows begin.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel.registry import register_default
from numba.core.imputils import (
    builtin_registry,
    lower_builtin,
    lower_cast,
    lower_getattr_generic,
    lower_setattr_generic,
)
from numba.core.typeconv.castgraph import Conversion
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer_getattr,
    infer_global,
    signature,
)
from numba.extending import NativeValue, box, models, register_model, type_callable, typeof_impl
from numba.extending import unbox as register_unbox

from .arrays import (
    CHUNK_BITS,
    CHUNK_MASK,
    Array,
    Float32s,
    Float64s,
    Int32s,
    Int64s,
    Span,
    Table,
    Words,
)
from .record import ADDRESS_BYTES, CHECKS, WORD_BYTES, Field, Record, Word, is_method, observe

F = TypeVar("F", bound=Callable[..., Any])

_BITS = ir.IntType(64)
_WIDE = {
    "int32": types.int64,
    "int64": types.int64,
    "uint64": types.uint64,
    "float32": types.float64,
    "float64": types.float64,
}

# How methods of records are compiled: as lines of the kernels that call them.
FASTMATH = {"reassoc", "contract", "nsz"}
_njit: Any = numba.njit


def _memory_type(word: Word) -> Any:
    return getattr(types, word.name)


class RecordType(types.Type):
    """Numba's type of a record."""

    def __init__(self, record: type[Record], row: type[Record] | None = None) -> None:
        self.record = record
        self.row = row
        of = "" if row is None else f"[{row.__module__}.{row.__qualname__}]"
        super().__init__(name=f"{record.__module__}.{record.__qualname__}{of}")

    def can_convert_to(self, typingctx: Any, other: types.Type) -> Any:
        """Tell numba that a record is its address."""
        return Conversion.safe if other == types.int64 else None

    def can_convert_from(self, typingctx: Any, other: types.Type) -> Any:
        """Tell numba that an address is a record."""
        return Conversion.safe if other == types.int64 else None


class SpanType(types.Type):
    """Numba's type of an array of words or of records."""

    def __init__(self, words: type[Words] | None, record: type[Record] | None = None) -> None:
        self.words = words
        self.record = record
        of = None if record is None else RecordType(record).name
        super().__init__(name=f"Array[{of}]" if words is None else words.__name__)

    @property
    def element_size(self) -> int:
        """Number of bytes of an element."""
        return self.words.WORD.size if self.words is not None else self.record.SIZE  # type: ignore[union-attr]


def numba_type(hint: Any) -> types.Type:
    """Return numba's type of an annotation: a class of records or arrays, or a number."""
    base = get_origin(hint) or hint
    if base is Table:
        return RecordType(Table, get_args(hint)[0])
    if isinstance(base, type) and issubclass(base, Table):
        return RecordType(Table, base.ROW)  # type: ignore[attr-defined]
    if isinstance(base, type) and issubclass(base, Record):
        return RecordType(base)
    if base is Array:
        return SpanType(None, get_args(hint)[0])
    if isinstance(base, type) and issubclass(base, Words):
        return SpanType(base)
    named: dict[Any, types.Type] = {
        int: types.int64,
        float: types.float64,
        bool: types.boolean,
        None: types.none,
        type(None): types.none,
    }
    if base is tuple:
        return types.Tuple([numba_type(part) for part in get_args(hint)])
    found = named.get(base)
    if found is None:
        raise TypeError(f"no type for kernels: {hint!r}")
    return found


@register_model(RecordType)
class _RecordModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _BITS)


if CHECKS:

    @register_model(SpanType)
    class _CheckedModel(models.StructModel):
        def __init__(self, dmm: Any, fe_type: Any) -> None:
            super().__init__(dmm, fe_type, [("address", types.int64), ("length", types.int64)])

else:

    @register_model(SpanType)
    class _PlainModel(models.PrimitiveModel):
        def __init__(self, dmm: Any, fe_type: Any) -> None:
            super().__init__(dmm, fe_type, _BITS)


def make_span(builder: Any, address: Any, length: Any) -> Any:
    """Return the value of an array."""
    if not CHECKS:
        return address
    value = ir.Constant(ir.LiteralStructType([_BITS, _BITS]), ir.Undefined)
    return builder.insert_value(builder.insert_value(value, address, 0), length, 1)


def address_in(builder: Any, value: Any) -> Any:
    """Return the address of an array's value."""
    return builder.extract_value(value, 0) if CHECKS else value


def _length_in(builder: Any, value: Any) -> Any:
    return builder.extract_value(value, 1)


def _check(context: Any, builder: Any, is_wrong: Any, text: str) -> None:
    """Raise an IndexError in the checked mode."""
    if CHECKS:
        with builder.if_then(is_wrong, likely=False):
            context.call_conv.return_user_exc(builder, IndexError, (text,))


def _check_index(context: Any, builder: Any, value: Any, index: Any, text: str) -> None:
    if CHECKS:
        wrong = builder.icmp_unsigned(">=", index, _length_in(builder, value))
        _check(context, builder, wrong, text)


def _check_record(context: Any, builder: Any, address: Any, text: str) -> None:
    if CHECKS:
        _check(context, builder, builder.icmp_unsigned("==", address, _BITS(0)), text)


def _load(context: Any, builder: Any, word: Word, address: Any) -> Any:
    memory = _memory_type(word)
    pointer = builder.inttoptr(address, context.get_data_type(memory).as_pointer())
    found = builder.load(pointer, align=WORD_BYTES)
    return context.cast(builder, found, memory, _WIDE[word.name])


def _store(context: Any, builder: Any, word: Word, address: Any, value: Any, given: Any) -> None:
    memory = _memory_type(word)
    value = context.cast(builder, value, given, memory)
    pointer = builder.inttoptr(address, context.get_data_type(memory).as_pointer())
    builder.store(value, pointer, align=WORD_BYTES)


def _load_address(builder: Any, address: Any) -> Any:
    return builder.load(builder.inttoptr(address, _BITS.as_pointer()), align=WORD_BYTES)


def _store_address(builder: Any, address: Any, value: Any) -> None:
    builder.store(value, builder.inttoptr(address, _BITS.as_pointer()), align=WORD_BYTES)


# From Python and back.


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


# A record is true where there is one.
@lower_builtin(bool, RecordType)
def _is_there(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.icmp_unsigned("!=", args[0], _BITS(0))


@lower_builtin(bool, SpanType)
def _is_span_there(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.icmp_unsigned("!=", address_in(builder, args[0]), _BITS(0))


@infer_global(bool)
class _Bool(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], RecordType | SpanType):
            return signature(types.boolean, args[0])
        return None


@infer_global(operator.eq)
@infer_global(operator.ne)
class _Equal(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], RecordType) and isinstance(args[1], RecordType):
            return signature(types.boolean, *args)
        return None


@lower_builtin(operator.eq, RecordType, RecordType)
def _equal(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.icmp_unsigned("==", *args)


@lower_builtin(operator.ne, RecordType, RecordType)
def _unequal(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.icmp_unsigned("!=", *args)


# Fields and methods.

# The dispatchers of methods, by their functions.
_METHODS: dict[Any, Any] = {}


def method_dispatcher(function: Any) -> Any:
    """Return the dispatcher of a method, which kernels alone call.

    A decorator of methods (`compiling.exact_method`) may have set how it is compiled.
    """
    if function not in _METHODS:
        options = {"fastmath": FASTMATH, "forceinline": True}
        options |= getattr(function, "kernel_options", {})
        _METHODS[function] = _njit(
            error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, **options
        )(function)
    return _METHODS[function]


class _Method(types.BoundFunction):
    """A method of a record, compiled for the type on which it is called."""

    def __init__(self, template: Any, this: Any) -> None:
        self.dispatcher_type = template.dispatcher_type
        super().__init__(template, this)

    def get_impl_key(self, sig: Any) -> Any:
        return self.dispatcher_type.get_impl_key(sig.as_function())

    @property
    def key(self) -> Any:
        return self.typing_key, self.this


@register_default(_Method)
def _method_model(dmm: Any, method: _Method) -> Any:
    return dmm[method.this]


def _method(typ: RecordType, name: str) -> Any:
    fnty = types.Dispatcher(method_dispatcher(getattr(typ.record, name)))

    class Method(AbstractTemplate):
        key = (typ.name, name)
        dispatcher_type = fnty

        def generic(self, args: Any, kws: Any) -> Any:
            found = fnty.get_call_type(self.context, (typ, *args), kws)
            return None if found is None else found.as_method()

    return _Method(Method, typ)


def _entry(typ: RecordType, field: Field) -> Any:
    """Return the type of a kernel that is called by the address in a field."""
    given, returned = get_args(field.kind)
    taken = tuple(numba_type(hint) for hint in given)
    result = numba_type(returned)
    lowered = ("entry", typ.name, field.name)

    class Entry(AbstractTemplate):
        key = lowered

        def generic(self, args: Any, kws: Any) -> Any:
            return signature(result, *taken, recvr=typ)

    if lowered not in _ENTRIES:
        _ENTRIES.add(lowered)

        def call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            address = _load_address(builder, builder.add(args[0], _BITS(field.offset)))
            _check_record(context, builder, address, f"{field.name} is not there")
            return call_address(context, builder, address, result, taken, args[1:])

        builtin_registry.lower(lowered, types.VarArg(types.Any))(call)
    return types.BoundFunction(Entry, typ)


_ENTRIES: set[Any] = set()


def call_address(
    context: Any, builder: Any, address: Any, result: Any, taken: Any, args: Any
) -> Any:
    """Call a kernel by address; what it raises is raised."""
    function_type = context.call_conv.get_function_type(result, taken)
    function = builder.inttoptr(address, function_type.as_pointer())
    return call_function(context, builder, function, result, taken, args)


def call_function(
    context: Any, builder: Any, function: Any, result: Any, taken: Any, args: Any
) -> Any:
    """Call a function of numba's convention; what it raises is raised."""
    status, value = context.call_conv.call_function(builder, function, result, taken, args)
    with cgutils.if_unlikely(builder, status.is_error):
        context.call_conv.return_status_propagate(builder, status)
    return value


def _field_type(field: Field) -> Any:
    return _WIDE[field.kind.name] if isinstance(field.kind, Word) else numba_type(field.kind)


@infer_getattr
class _RecordAttributes(AttributeTemplate):
    key = RecordType

    def generic_resolve(self, typ: RecordType, attr: str) -> Any:  # type: ignore[override]
        field = typ.record.FIELDS.get(attr)
        if field is not None:
            return _entry(typ, field) if field.is_entry else _field_type(field)
        if issubclass(typ.record, Table) and attr in ("row", "none"):
            return types.BoundFunction(_Row if attr == "row" else _NoRow, typ)
        return _method(typ, attr) if is_method(typ.record, attr) else None


@lower_getattr_generic(RecordType)
def _get(context: Any, builder: Any, typ: Any, value: Any, attr: str) -> Any:
    field = typ.record.FIELDS.get(attr)
    if field is None or field.is_entry:
        # A method is bound to its record.
        return value
    _check_record(context, builder, value, f"{attr} of no record")
    address = builder.add(value, _BITS(field.offset))
    if isinstance(field.kind, Word):
        return _load(context, builder, field.kind, address)
    if isinstance(numba_type(field.kind), RecordType):
        return address if field.embedded else _load_address(builder, address)
    if field.embedded:
        return make_span(builder, address, _BITS(field.length))
    length = _load_address(builder, builder.add(address, _BITS(ADDRESS_BYTES))) if CHECKS else None
    return make_span(builder, _load_address(builder, address), length)


@lower_setattr_generic(RecordType)
def _set(context: Any, builder: Any, sig: Any, args: Any, attr: str) -> None:
    field = sig.args[0].record.FIELDS[attr]
    record, value = args
    _check_record(context, builder, record, f"{attr} of no record")
    address = builder.add(record, _BITS(field.offset))
    if isinstance(field.kind, Word):
        _store(context, builder, field.kind, address, value, sig.args[1])
    elif isinstance(sig.args[1], RecordType):
        _store_address(builder, address, value)
    else:
        # Only the checked mode knows the length.
        _store_address(builder, address, address_in(builder, value))
        if CHECKS:
            behind = builder.add(address, _BITS(ADDRESS_BYTES))
            _store_address(builder, behind, _length_in(builder, value))


# Rows of tables.


class _Row(AbstractTemplate):
    key = ("table", "row")

    def generic(self, args: Any, kws: Any) -> Any:
        return signature(RecordType(self.this.row), types.int64, recvr=self.this)  # type: ignore[attr-defined]


class _NoRow(AbstractTemplate):
    key = ("table", "none")

    def generic(self, args: Any, kws: Any) -> Any:
        return signature(RecordType(self.this.row), recvr=self.this)  # type: ignore[attr-defined]


@lower_builtin(("table", "row"), RecordType, types.int64)
def _row(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    table, j = args

    def read(name: str) -> Any:
        field = Table.FIELDS[name]
        return _load_address(builder, builder.add(table, _BITS(field.offset)))

    if CHECKS:
        wrong = builder.icmp_unsigned(">=", j, read("capacity"))
        _check(context, builder, wrong, f"row of {sig.args[0].row.__name__} out of range")
    number = builder.ashr(j, _BITS(CHUNK_BITS))
    place = builder.add(read("chunks"), builder.mul(number, _BITS(ADDRESS_BYTES)))
    within = builder.mul(builder.and_(j, _BITS(CHUNK_MASK)), read("row_bytes"))
    return builder.add(_load_address(builder, place), within)


@lower_builtin(("table", "none"), RecordType)
def _no_row(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _BITS(0)


# Making records and arrays from others: `Kind(record, word)`, `Float32s(record, word, length)`.


def _is_place(typ: Any) -> bool:
    return isinstance(typ, RecordType | SpanType | types.Integer)


def _behind(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Return the address so many words behind the start of the first argument."""
    base = args[0]
    if isinstance(sig.args[0], SpanType):
        base = address_in(builder, base)
    elif isinstance(sig.args[0], types.Integer):
        base = context.cast(builder, base, sig.args[0], types.int64)
    if len(args) == 1:
        return base
    word = context.cast(builder, args[1], sig.args[1], types.int64)
    return builder.add(base, builder.mul(word, _BITS(WORD_BYTES)))


def _make_callable(cls: type[Record]) -> None:
    """Let kernels call a class of records: with an address, or a record and a word."""

    @type_callable(cls)
    def typed(context: Any) -> Any:
        def typer(base: Any, word: Any = None) -> Any:
            return RecordType(cls) if _is_place(base) else None

        return typer

    lower_builtin(cls, types.Any)(_behind)
    lower_builtin(cls, types.Any, types.Any)(_behind)


observe(_make_callable)


def _make_words_callable(cls: type[Words]) -> None:
    @type_callable(cls)
    def typed(context: Any) -> Any:
        def typer(base: Any, word: Any, length: Any) -> Any:
            return SpanType(cls) if _is_place(base) else None

        return typer

    @lower_builtin(cls, types.Any, types.Any, types.Any)
    def make(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        length = context.cast(builder, args[2], sig.args[2], types.int64)
        return make_span(builder, _behind(context, builder, sig, args[:2]), length)


for _words in (Int32s, Int64s, Float32s, Float64s):
    _make_words_callable(_words)


# Elements and parts of arrays.


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        array, index = args
        if isinstance(array, SpanType) and isinstance(index, types.Integer):
            if array.record is not None:
                return signature(RecordType(array.record), array, types.int64)
            assert array.words is not None
            return signature(_WIDE[array.words.WORD.name], array, types.int64)
        return None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        array, index, _ = args
        if isinstance(array, SpanType) and array.words and isinstance(index, types.Integer):
            return signature(types.void, array, types.int64, _WIDE[array.words.WORD.name])
        return None


def _element(builder: Any, typ: Any, value: Any, i: Any) -> Any:
    offset = builder.mul(i, _BITS(typ.element_size))
    return builder.add(address_in(builder, value), offset)


@lower_builtin(operator.getitem, SpanType, types.int64)
def _get_element(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    typ = sig.args[0]
    _check_index(context, builder, args[0], args[1], f"element of {typ.name} out of range")
    if typ.words is None:
        return _element(builder, typ, *args)
    memory = _memory_type(typ.words.WORD)
    pointer = builder.inttoptr(
        address_in(builder, args[0]), context.get_data_type(memory).as_pointer()
    )
    found = builder.load(builder.gep(pointer, [args[1]]), align=WORD_BYTES)
    return context.cast(builder, found, memory, _WIDE[typ.words.WORD.name])


@lower_builtin(operator.setitem, SpanType, types.int64, types.Any)
def _set_element(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    typ = sig.args[0]
    _check_index(context, builder, args[0], args[1], f"element of {typ.name} out of range")
    memory = _memory_type(typ.words.WORD)
    value = context.cast(builder, args[2], sig.args[2], memory)
    pointer = builder.inttoptr(
        address_in(builder, args[0]), context.get_data_type(memory).as_pointer()
    )
    builder.store(value, builder.gep(pointer, [args[1]]), align=WORD_BYTES)
    return context.get_dummy_value()


class _Part(AbstractTemplate):
    key = ("span", "part")

    def generic(self, args: Any, kws: Any) -> Any:
        return signature(self.this, types.int64, types.int64, recvr=self.this)  # type: ignore[attr-defined]


@infer_getattr
class _SpanAttributes(AttributeTemplate):
    key = SpanType

    def generic_resolve(self, typ: SpanType, attr: str) -> Any:  # type: ignore[override]
        return types.BoundFunction(_Part, typ) if attr == "part" else None


@lower_builtin(("span", "part"), SpanType, types.int64, types.int64)
def _part(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    value, start, length = args
    if CHECKS:
        held = _length_in(builder, value)
        end = builder.add(start, length)
        wrong = builder.or_(
            builder.icmp_unsigned(">", start, held), builder.icmp_unsigned(">", end, held)
        )
        _check(context, builder, wrong, f"part of {sig.args[0].name} out of range")
    return make_span(builder, _element(builder, sig.args[0], value, start), length)


# Functions that are Python, and something else to compiled kernels.


def lowered(codegen: Callable[..., Any]) -> Callable[[F], F]:
    """Give a typed Python function the instructions to which kernels compile its calls.

    `codegen(context, builder, *arguments)` gets LLVM values of the annotated types.
    """

    def register(function: F) -> F:
        hints: dict[str, Any] = {}

        def types_of() -> tuple[Any, list[Any]]:
            if not hints:
                hints.update(get_type_hints(function))
            taken = [numba_type(hints[name]) for name in inspect.signature(function).parameters]
            return numba_type(hints["return"]), taken

        class Template(AbstractTemplate):
            key = function

            def generic(self, args: Any, kws: Any) -> Any:
                result, taken = types_of()
                # A record of a subclass is one of its base.
                given = [
                    arg if isinstance(want, RecordType) and isinstance(arg, RecordType) else want
                    for arg, want in zip(args, taken, strict=True)
                ]
                return signature(result, *given)

        infer_global(function, types.Function(Template))

        @lower_builtin(function, types.VarArg(types.Any))
        def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            found = codegen(context, builder, *args)
            return context.get_dummy_value() if sig.return_type == types.none else found

        return function

    return register
