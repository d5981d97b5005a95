"""Numba's view of records: importing this teaches it types, fields, methods and arrays.

The parts are `compiled_types`, `compiled_fields` and `compiled_arrays`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

from numba import types
from numba.core.imputils import (
    lower_builtin,
)
from numba.core.typing.templates import (
    AbstractTemplate,
    infer_global,
    signature,
)

from . import compiled_arrays
from .compiled_fields import FASTMATH, call_function
from .compiled_types import (
    RecordType,
    SpanType,
    address_in,
    make_span,
    numba_type,
    pointer_to,
)

__all__ = [
    "FASTMATH",
    "RecordType",
    "SpanType",
    "address_in",
    "call_function",
    "compiled_arrays",
    "lowered",
    "make_span",
    "numba_type",
    "pointer_to",
]

F = TypeVar("F", bound=Callable[..., Any])

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
