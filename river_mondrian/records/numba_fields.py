"""Code generation for fields and methods of records, and elements of arrays."""

import functools
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any, get_args

import numba
from numba import types
from numba.core.typing import signature
from numba.extending import (
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    lower_setattr_generic,
)

from . import numba_types, pipelines
from .arrays import CHUNK_BITS, CHUNK_MASK, Float32s, Float64s, Int32s, Int64s, Table, Words
from .numba_types import (
    BITS,
    NOTHING,
    WIDE,
    RecordType,
    SpanType,
    load_address,
    make_span,
    numba_type,
    typed,
)
from .private import (
    AbstractTemplate,
    AttributeTemplate,
    BoundFunction,
    call_function,
    function_type,
)
from .record import ADDRESS_BYTES, CHECKS, WORD_BYTES, Field, Record, Word, observe

_njit: Any = numba.njit
typeof: Any = numba.typeof

# Flags of floating-point arithmetic in kernels and methods of records.
FASTMATH = {"reassoc", "contract", "nsz"}


def fastmath_of(function: Any) -> Any:
    """Return the flags of a function, or none if the function or its module has ordered sums."""
    is_ordered = function.__globals__.get("ORDERED_SUMS", False)
    return False if is_ordered else getattr(function, "fastmath", FASTMATH)


# Fields and methods.


@functools.cache
def method_dispatcher(function: Any) -> Any:
    """Return the dispatcher of a method that only kernels call."""
    options = {"fastmath": fastmath_of(function), "error_model": "numpy"}
    options |= {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return _njit(pipeline_class=pipelines.HelperCompiler, **options)(function)


def _template(lowered: tuple[str, ...], typer: Callable[..., tuple[Any, ...]]) -> Any:
    """Return numba's template of a method; `typer` returns the types of result and arguments."""

    class Template(AbstractTemplate):
        key = lowered

        def generic(self, args: Any, kws: Any) -> Any:
            result, *taken = typer(self.this, *args)
            return signature(result, *taken, recvr=self.this)

    return Template


@functools.cache
def _method(typ: RecordType, name: str) -> Any:
    """Return the type of a record's method, compiled for the type of the calling record."""
    dispatcher = method_dispatcher(getattr(typ.record, name))
    lowered = ("method", typ.name, name)

    class Method(AbstractTemplate):
        key = lowered

        def generic(self, args: Any, kws: Any) -> Any:
            taken = typeof(dispatcher).get_call_type(self.context, (typ, *args), kws)
            return signature(taken.return_type, *taken.args[1:], recvr=typ)

    @lower_builtin(lowered, types.VarArg(types.Any))
    def call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return context.get_function(typeof(dispatcher), sig)(builder, args)

    return BoundFunction(Method, typ)


@functools.cache
def _entry(typ: RecordType, field: Field) -> Any:
    """Return the type of a kernel whose address is in a field of a record."""
    hints, returned = get_args(field.kind)
    taken = tuple(numba_type(hint) for hint in hints)
    result = numba_type(returned)
    lowered = ("entry", typ.name, field.name)

    @lower_builtin(lowered, types.VarArg(types.Any))
    def call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address = load_address(builder, builder.add(args[0], BITS(field.offset)))
        numba_types.check_record(context, builder, address, f"{field.name} is not there")
        pointer = function_type(context, result, taken).as_pointer()
        function = builder.inttoptr(address, pointer)
        return call_function(context, builder, function, result, taken, args[1:])

    return BoundFunction(_template(lowered, lambda this, *args: (result, *taken)), typ)


@infer_getattr
class _RecordAttributes(AttributeTemplate):
    key = RecordType

    def generic_resolve(self, typ: RecordType, attr: str) -> Any:
        field = typ.record.FIELDS.get(attr)
        if field is not None and isinstance(field.kind, Word):
            return WIDE[field.kind.name]
        if field is not None:
            return _entry(typ, field) if field.is_entry else numba_type(field.kind)
        if issubclass(typ.record, Table) and attr in _TABLE_METHODS:
            return BoundFunction(_TABLE_METHODS[attr], typ)
        member = getattr(typ.record, attr, None)
        is_method = isinstance(member, FunctionType) and not attr.startswith("__")
        return _method(typ, attr) if is_method else None


@lower_getattr_generic(RecordType)
def _get(context: Any, builder: Any, typ: Any, value: Any, attr: str) -> Any:
    field = typ.record.FIELDS.get(attr)
    if field is None or field.is_entry:
        # A bound method is represented by its record, because the function is known from the type.
        return value
    numba_types.check_record(context, builder, value, f"{attr} of no record")
    address = builder.add(value, BITS(field.offset))
    if isinstance(field.kind, Word):
        pointer = numba_types.pointer_to_word(builder, field.kind, address)
        return numba_types.load(builder, field.kind, pointer)
    if isinstance(numba_type(field.kind), RecordType):
        return address if field.embedded else load_address(builder, address)
    if field.embedded:
        return make_span(builder, address, BITS(field.length))
    length = load_address(builder, builder.add(address, BITS(ADDRESS_BYTES))) if CHECKS else None
    return make_span(builder, load_address(builder, address), length)


@lower_setattr_generic(RecordType)
def _set(context: Any, builder: Any, sig: Any, args: Any, attr: str) -> None:
    field = sig.args[0].record.FIELDS[attr]
    record, value = args
    numba_types.check_record(context, builder, record, f"{attr} of no record")
    address = builder.add(record, BITS(field.offset))
    if isinstance(field.kind, Word):
        pointer = numba_types.pointer_to_word(builder, field.kind, address)
        numba_types.store(builder, field.kind, pointer, value)
    elif isinstance(sig.args[1], RecordType):
        numba_types.store_address(builder, address, value)
    else:
        # The length is stored only if accesses are checked, because otherwise arrays have no
        # length.
        numba_types.store_address(builder, address, numba_types.address_in(builder, value))
        if CHECKS:
            behind = builder.add(address, BITS(ADDRESS_BYTES))
            numba_types.store_address(builder, behind, numba_types.length_in(builder, value))


# Rows of tables.


def _cast_type(this: Any, address: Any) -> Any:
    row: Any = this.row if isinstance(this, RecordType) else this.record
    return RecordType(row), address


# The method `cast` returns a row or an element from its address.
_CAST = _template(("table", "cast"), _cast_type)
_TABLE_METHODS = {
    "row": _template(("table", "row"), lambda table, j: (RecordType(table.row), types.int64)),
    "none": _template(("table", "none"), lambda table: (RecordType(table.row),)),
    "cast": _CAST,
}


@lower_builtin(("table", "cast"), types.Any, RecordType)
def _cast(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return args[1]


@lower_builtin(("table", "row"), RecordType, types.int64)
def _row(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    table, j = args

    def read(name: str) -> Any:
        field = Table.FIELDS[name]
        return load_address(builder, builder.add(table, BITS(field.offset)))

    if CHECKS:
        wrong = builder.icmp_unsigned(">=", j, read("capacity"))
        text = f"row of {sig.args[0].row.__name__} out of range"
        numba_types.check(context, builder, wrong, text)
    number = builder.ashr(j, BITS(CHUNK_BITS))
    pointer = builder.add(read("chunks"), builder.mul(number, BITS(ADDRESS_BYTES)))
    within = builder.mul(builder.and_(j, BITS(CHUNK_MASK)), read("row_bytes"))
    return builder.add(load_address(builder, pointer), within)


@lower_builtin(("table", "none"), RecordType)
def _no_row(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return BITS(0)


# Kernels create records and arrays from other records: `Kind(record, word)`, `Float32s(record,
# word, length)`.


def _taken(result: Any, base: Any, *numbers: Any) -> Any:
    """Return the signature of a constructor, or None if the arguments have wrong types."""
    if isinstance(base, types.Integer):
        base = types.int64
    elif not isinstance(base, RecordType | SpanType):
        return None
    return signature(result, base, *[types.int64 for _ in numbers])


def _behind(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Return the address of `args[0]`, plus `args[1]` words if this argument is passed."""
    base = args[0]
    if isinstance(sig.args[0], SpanType):
        base = numba_types.address_in(builder, base)
    if len(args) == 1:
        return base
    return builder.add(base, builder.mul(args[1], BITS(WORD_BYTES)))


def _make_callable(cls: type[Record]) -> None:
    """Enable kernels to create a record at an address, or at a word of another record."""

    @typed(cls)
    def typer(base: Any, word: Any = None) -> Any:
        return _taken(RecordType(cls), base, *([] if word is None else [word]))

    lower_builtin(cls, types.Any)(_behind)
    lower_builtin(cls, types.Any, types.Any)(_behind)


observe(_make_callable)


def _make_words_callable(cls: type[Words[Any]]) -> None:
    @typed(cls)
    def typer(base: Any, word: Any, length: Any) -> Any:
        return _taken(SpanType(cls), base, word, length)

    @lower_builtin(cls, types.Any, types.Any, types.Any)
    def make(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return make_span(builder, _behind(context, builder, sig, args[:2]), args[2])


for _words in (Int32s, Int64s, Float32s, Float64s):
    _make_words_callable(_words)


# Elements and parts of arrays.


@typed(operator.getitem)
def _typed_element(array: Any, index: Any) -> Any:
    if not (isinstance(array, SpanType) and isinstance(index, types.Integer)):
        return None
    if array.record is not None:
        return signature(RecordType(array.record), array, types.int64)
    assert array.words is not None
    return signature(WIDE[array.words.WORD.name], array, types.int64)


@typed(operator.setitem)
def _typed_change(array: Any, index: Any, value: Any) -> Any:
    if isinstance(array, SpanType) and array.words and isinstance(index, types.Integer):
        return signature(types.void, array, types.int64, WIDE[array.words.WORD.name])
    return None


def _element(builder: Any, typ: Any, value: Any, i: Any) -> Any:
    offset = builder.mul(i, BITS(typ.element_size))
    return builder.add(numba_types.address_in(builder, value), offset)


@lower_builtin(operator.getitem, SpanType, types.int64)
def _get_element(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    typ = sig.args[0]
    numba_types.check_index(context, builder, args[0], args[1], typ.name)
    if typ.words is None:
        return _element(builder, typ, *args)
    pointer = numba_types.pointer_to_word(builder, typ.words.WORD, args[0])
    return numba_types.load(builder, typ.words.WORD, builder.gep(pointer, [args[1]]))


@lower_builtin(operator.setitem, SpanType, types.int64, types.Any)
def _set_element(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    typ, (array, index, value) = sig.args[0], args
    numba_types.check_index(context, builder, array, index, typ.name)
    pointer = numba_types.pointer_to_word(builder, typ.words.WORD, array)
    numba_types.store(builder, typ.words.WORD, builder.gep(pointer, [index]), value)
    return NOTHING


_PART = _template(("span", "part"), lambda span, start, n: (span, types.int64, types.int64))


@infer_getattr
class _SpanAttributes(AttributeTemplate):
    key = SpanType

    def generic_resolve(self, typ: SpanType, attr: str) -> Any:
        if attr == "cast" and typ.record is not None:
            return BoundFunction(_CAST, typ)
        return BoundFunction(_PART, typ) if attr == "part" else None


@lower_builtin(("span", "part"), SpanType, types.int64, types.int64)
def _part(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    value, start, length = args
    if CHECKS:
        held = numba_types.length_in(builder, value)
        end = builder.add(start, length)
        wrong = builder.or_(
            builder.icmp_unsigned(">", start, held), builder.icmp_unsigned(">", end, held)
        )
        numba_types.check(context, builder, wrong, f"part of {sig.args[0].name} out of range")
    return make_span(builder, _element(builder, sig.args[0], value, start), length)
