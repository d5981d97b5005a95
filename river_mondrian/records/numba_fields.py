"""Code generation for fields and methods of records, and elements of arrays."""

import functools
import operator
from types import FunctionType
from typing import Any, get_args

import numba
from numba import types
from numba.core import cgutils, imputils
from numba.core.datamodel.registry import register_default
from numba.core.imputils import lower_builtin
from numba.core.typing import templates
from numba.core.typing.templates import AbstractTemplate, signature
from numba.extending import type_callable

from . import numba_types, pipelines
from .arrays import CHUNK_BITS, CHUNK_MASK, Float32s, Float64s, Int32s, Int64s, Table, Words
from .numba_types import BITS, WIDE, RecordType, SpanType, load_address, make_span, numba_type
from .record import ADDRESS_BYTES, CHECKS, WORD_BYTES, Field, Record, Word, observe

_njit: Any = numba.njit

# Flags of floating-point arithmetic in kernels and methods of records.
FASTMATH = {"reassoc", "contract", "nsz"}


# Fields and methods.


@functools.cache
def method_dispatcher(function: Any) -> Any:
    """Return the dispatcher of a method, which only kernels call.

    A decorator of methods (`compiling.kernels.exact_method`) may have set compiler options.
    """
    options = {"fastmath": FASTMATH, "forceinline": True, "error_model": "numpy"}
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    options |= getattr(function, "kernel_options", {})
    return _njit(pipeline_class=pipelines.HelperCompiler, **options)(function)


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
            # The method is compiled once for all constants of a type.
            found = fnty.get_call_type(self.context, (typ, *map(types.unliteral, args)), kws)
            return None if found is None else found.as_method()

    return _Method(Method, typ)


@functools.cache
def _entry(typ: RecordType, field: Field) -> Any:
    """Return the type of a kernel that is called by its address in a field."""
    given, returned = get_args(field.kind)
    taken = tuple(numba_type(hint) for hint in given)
    result = numba_type(returned)
    lowered = ("entry", typ.name, field.name)

    class Entry(AbstractTemplate):
        key = lowered

        def generic(self, args: Any, kws: Any) -> Any:
            return signature(result, *taken, recvr=typ)

    @lower_builtin(lowered, types.VarArg(types.Any))
    def call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address = load_address(builder, builder.add(args[0], BITS(field.offset)))
        numba_types.check_record(context, builder, address, f"{field.name} is not there")
        function_type = context.call_conv.get_function_type(result, taken)
        function = builder.inttoptr(address, function_type.as_pointer())
        return call_function(context, builder, function, result, taken, args[1:])

    return types.BoundFunction(Entry, typ)


def call_function(
    context: Any, builder: Any, function: Any, result: Any, taken: Any, args: Any
) -> Any:
    """Generate a call of a function by numba's convention, which propagates exceptions."""
    status, value = context.call_conv.call_function(builder, function, result, taken, args)
    with cgutils.if_unlikely(builder, status.is_error):
        context.call_conv.return_status_propagate(builder, status)
    return value


@templates.infer_getattr
class _RecordAttributes(templates.AttributeTemplate):
    key = RecordType

    def generic_resolve(self, typ: RecordType, attr: str) -> Any:  # type: ignore[override]
        field = typ.record.FIELDS.get(attr)
        if field is not None and isinstance(field.kind, Word):
            return WIDE[field.kind.name]
        if field is not None:
            return _entry(typ, field) if field.is_entry else numba_type(field.kind)
        if issubclass(typ.record, Table) and attr in _TABLE_METHODS:
            return types.BoundFunction(_TABLE_METHODS[attr], typ)
        member = getattr(typ.record, attr, None)
        is_method = isinstance(member, FunctionType) and not attr.startswith("__")
        return _method(typ, attr) if is_method else None


@imputils.lower_getattr_generic(RecordType)
def _get(context: Any, builder: Any, typ: Any, value: Any, attr: str) -> Any:
    field = typ.record.FIELDS.get(attr)
    if field is None or field.is_entry:
        # In compiled code, the value of a bound method is the method's record.
        return value
    numba_types.check_record(context, builder, value, f"{attr} of no record")
    address = builder.add(value, BITS(field.offset))
    if isinstance(field.kind, Word):
        return numba_types.load(context, builder, field.kind, address)
    if isinstance(numba_type(field.kind), RecordType):
        return address if field.embedded else load_address(builder, address)
    if field.embedded:
        return make_span(builder, address, BITS(field.length))
    length = load_address(builder, builder.add(address, BITS(ADDRESS_BYTES))) if CHECKS else None
    return make_span(builder, load_address(builder, address), length)


@imputils.lower_setattr_generic(RecordType)
def _set(context: Any, builder: Any, sig: Any, args: Any, attr: str) -> None:
    field = sig.args[0].record.FIELDS[attr]
    record, value = args
    numba_types.check_record(context, builder, record, f"{attr} of no record")
    address = builder.add(record, BITS(field.offset))
    if isinstance(field.kind, Word):
        numba_types.store(context, builder, field.kind, address, value, sig.args[1])
    elif isinstance(sig.args[1], RecordType):
        numba_types.store_address(builder, address, value)
    else:
        # Arrays have a length only if accesses are checked.
        numba_types.store_address(builder, address, numba_types.address_in(builder, value))
        if CHECKS:
            behind = builder.add(address, BITS(ADDRESS_BYTES))
            numba_types.store_address(builder, behind, numba_types.length_in(builder, value))


# Rows of tables.


class _Row(AbstractTemplate):
    key = ("table", "row")

    def generic(self, args: Any, kws: Any) -> Any:
        return signature(RecordType(self.this.row), types.int64, recvr=self.this)  # type: ignore[attr-defined]


class _NoRow(AbstractTemplate):
    key = ("table", "none")

    def generic(self, args: Any, kws: Any) -> Any:
        return signature(RecordType(self.this.row), recvr=self.this)  # type: ignore[attr-defined]


class Known(AbstractTemplate):
    """The type of the method `known`, which returns a row or an element from its address."""

    key = ("table", "known")

    def generic(self, args: Any, kws: Any) -> Any:
        """Return the signature of the method."""
        this = self.this  # type: ignore[attr-defined]
        row: Any = this.row if isinstance(this, RecordType) else this.record
        return signature(RecordType(row), args[0], recvr=this)


_TABLE_METHODS = {"row": _Row, "none": _NoRow, "known": Known}


@lower_builtin(("table", "known"), types.Any, RecordType)
def _known(context: Any, builder: Any, sig: Any, args: Any) -> Any:
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
    place = builder.add(read("chunks"), builder.mul(number, BITS(ADDRESS_BYTES)))
    within = builder.mul(builder.and_(j, BITS(CHUNK_MASK)), read("row_bytes"))
    return builder.add(load_address(builder, place), within)


@lower_builtin(("table", "none"), RecordType)
def _no_row(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return BITS(0)


# Records and arrays that kernels create from other records: `Kind(record, word)`, `Float32s(record,
# word, length)`.


def _is_place(typ: Any) -> bool:
    return isinstance(typ, RecordType | SpanType | types.Integer)


def _behind(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Return the address that is a number of words after the first argument's address."""
    base = args[0]
    if isinstance(sig.args[0], SpanType):
        base = numba_types.address_in(builder, base)
    elif isinstance(sig.args[0], types.Integer):
        base = context.cast(builder, base, sig.args[0], types.int64)
    if len(args) == 1:
        return base
    word = context.cast(builder, args[1], sig.args[1], types.int64)
    return builder.add(base, builder.mul(word, BITS(WORD_BYTES)))


def _make_callable(cls: type[Record]) -> None:
    """Enable kernels to create a record at an address, or at a word of another record."""

    @type_callable(cls)
    def typed(context: Any) -> Any:
        def typer(base: Any, word: Any = None) -> Any:
            return RecordType(cls) if _is_place(base) else None

        return typer

    lower_builtin(cls, types.Any)(_behind)
    lower_builtin(cls, types.Any, types.Any)(_behind)


observe(_make_callable)


def _make_words_callable(cls: type[Words[Any]]) -> None:
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


@numba_types.typed(operator.getitem)
def _typed_element(array: Any, index: Any) -> Any:
    if isinstance(array, SpanType) and isinstance(index, types.Integer):
        if array.record is not None:
            return signature(RecordType(array.record), array, types.int64)
        assert array.words is not None
        return signature(WIDE[array.words.WORD.name], array, types.int64)
    return None


@numba_types.typed(operator.setitem)
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
    memory = numba_types.memory_type(typ.words.WORD)
    pointer = numba_types.pointer_to(builder, args[0], context.get_data_type(memory))
    found = builder.load(builder.gep(pointer, [args[1]]), align=WORD_BYTES)
    return context.cast(builder, found, memory, WIDE[typ.words.WORD.name])


@lower_builtin(operator.setitem, SpanType, types.int64, types.Any)
def _set_element(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    typ = sig.args[0]
    numba_types.check_index(context, builder, args[0], args[1], typ.name)
    memory = numba_types.memory_type(typ.words.WORD)
    value = context.cast(builder, args[2], sig.args[2], memory)
    pointer = numba_types.pointer_to(builder, args[0], context.get_data_type(memory))
    builder.store(value, builder.gep(pointer, [args[1]]), align=WORD_BYTES)
    return context.get_dummy_value()


class _Part(AbstractTemplate):
    key = ("span", "part")

    def generic(self, args: Any, kws: Any) -> Any:
        return signature(self.this, types.int64, types.int64, recvr=self.this)  # type: ignore[attr-defined]


@templates.infer_getattr
class _SpanAttributes(templates.AttributeTemplate):
    key = SpanType

    def generic_resolve(self, typ: SpanType, attr: str) -> Any:  # type: ignore[override]
        if attr == "known" and typ.record is not None:
            return types.BoundFunction(Known, typ)
        return types.BoundFunction(_Part, typ) if attr == "part" else None


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
