"""How numba compiles elements and parts of arrays."""

from __future__ import annotations

import operator
from typing import Any

from numba import types
from numba.core.imputils import (
    lower_builtin,
)
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer_getattr,
    infer_global,
    signature,
)

from .compiled_fields import Known
from .compiled_types import (
    BITS,
    WIDE,
    RecordType,
    SpanType,
    address_in,
    check,
    check_index,
    length_in,
    make_span,
    memory_type,
)
from .record import CHECKS, WORD_BYTES

# Elements and parts of arrays.


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        array, index = args
        if isinstance(array, SpanType) and isinstance(index, types.Integer):
            if array.record is not None:
                return signature(RecordType(array.record), array, types.int64)
            assert array.words is not None
            return signature(WIDE[array.words.WORD.name], array, types.int64)
        return None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        array, index, _ = args
        if isinstance(array, SpanType) and array.words and isinstance(index, types.Integer):
            return signature(types.void, array, types.int64, WIDE[array.words.WORD.name])
        return None


def _element(builder: Any, typ: Any, value: Any, i: Any) -> Any:
    offset = builder.mul(i, BITS(typ.element_size))
    return builder.add(address_in(builder, value), offset)


@lower_builtin(operator.getitem, SpanType, types.int64)
def _get_element(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    typ = sig.args[0]
    check_index(context, builder, args[0], args[1], f"element of {typ.name} out of range")
    if typ.words is None:
        return _element(builder, typ, *args)
    memory = memory_type(typ.words.WORD)
    pointer = builder.inttoptr(
        address_in(builder, args[0]), context.get_data_type(memory).as_pointer()
    )
    found = builder.load(builder.gep(pointer, [args[1]]), align=WORD_BYTES)
    return context.cast(builder, found, memory, WIDE[typ.words.WORD.name])


@lower_builtin(operator.setitem, SpanType, types.int64, types.Any)
def _set_element(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    typ = sig.args[0]
    check_index(context, builder, args[0], args[1], f"element of {typ.name} out of range")
    memory = memory_type(typ.words.WORD)
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
        if attr == "known" and typ.record is not None:
            return types.BoundFunction(Known, typ)
        return types.BoundFunction(_Part, typ) if attr == "part" else None


@lower_builtin(("span", "part"), SpanType, types.int64, types.int64)
def _part(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    value, start, length = args
    if CHECKS:
        held = length_in(builder, value)
        end = builder.add(start, length)
        wrong = builder.or_(
            builder.icmp_unsigned(">", start, held), builder.icmp_unsigned(">", end, held)
        )
        check(context, builder, wrong, f"part of {sig.args[0].name} out of range")
    return make_span(builder, _element(builder, sig.args[0], value, start), length)
