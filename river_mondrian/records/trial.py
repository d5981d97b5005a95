"""The kernel that tries the compiler's passes (see `pipelines`)."""

from collections.abc import Callable
from typing import Any

import numba

from . import numba_fields, private
from .arrays import Table
from .memory import ChunkedRows, Memory
from .numba_types import numba_type
from .pipelines import ColdCompiler, KernelCompiler, Trial
from .record import Float32, Int64, Record, entry

_njit: Any = numba.njit

# The import is used: it registers the types of fields, which a kernel over a record needs.
assert numba_fields


def compile_and_run() -> None:
    """Compile a kernel over a record with a table and an entry.

    Raises
    ------
    Exception
        If the kernel cannot be compiled, or its result is wrong.
    """

    class Row(Record):
        number: Int64

        def twice(self) -> int:
            return self.number + self.number

    class Holder(Record):
        share: Float32
        rows: Table[Row]
        entered: Callable[[int], float] = entry()

    def half(number: int) -> float:
        return 0.5 * number

    def total(holder: Holder, j: int) -> float:
        return holder.share + holder.entered(holder.rows.row(j).twice())

    called = _njit(pipeline_class=ColdCompiler, no_cpython_wrapper=True)(half)
    called.compile((numba.types.int64,))
    holder, rows = Memory(Holder)[0], ChunkedRows(1, Row.WORDS)
    rows.show(0, holder.rows)
    rows.grow(0, holder.rows, 2)
    holder.share, holder.rows.row(1).number = 0.25, 7
    holder.entered = private.address_of(called.overloads[(numba.types.int64,)])  # type: ignore[assignment]
    kernel = _njit(pipeline_class=KernelCompiler, no_cfunc_wrapper=True)(total)
    returned = kernel.compile((numba_type(Holder), numba.types.int64))(holder, 1)
    if returned != 7.25:
        raise ValueError(f"a kernel returned {returned}")


Trial.attempt = compile_and_run
