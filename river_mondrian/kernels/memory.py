"""Raw access to rows of 32-bit words that live in NumPy chunks, and a prefetch hint.

A kernel that walks a tree visits rows of many chunks. Handing numba one array per chunk is
slow, and every view that numba makes of an array costs two atomic operations on its reference
count. So kernels get addresses and make views without a count. `arena.Arena` owns the chunks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])

# A chunk holds 2**CHUNK_BITS rows.
CHUNK_BITS = 7
CHUNK_ROWS = 1 << CHUNK_BITS
CHUNK_MASK = CHUNK_ROWS - 1

# Reassociation lets sums over dimensions use vector units. NaN and infinity keep their meaning
# (a missing value is a NaN), so `nnan` and `ninf` stay off.
FASTMATH = {"reassoc", "contract", "nsz"}


def _cache_is_writable() -> bool:
    """Tell whether numba can cache compiled code (it raises at import where it cannot)."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        return True
    here = os.path.dirname(__file__)
    if os.access(here, os.W_OK):
        return True
    home = os.path.expanduser("~")
    return os.path.isdir(home) and os.access(home, os.W_OK)


_CACHE = _cache_is_writable()


def kernel(function: F) -> F:
    """Compile a function lazily, cached on disk where possible, without the GIL."""
    compiled: F = numba.njit(cache=_CACHE, nogil=True, fastmath=FASTMATH, error_model="numpy")(
        function
    )
    return compiled


def inlined(function: F) -> F:
    """Compile a small helper that LLVM inlines into the kernels that call it."""
    compiled: F = numba.njit(nogil=True, fastmath=FASTMATH, error_model="numpy")(function)
    return compiled


@intrinsic  # type: ignore[untyped-decorator]
def _pointer(typingctx: Any, address: Any) -> Any:
    """Turn an integer address into a pointer."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _prefetch_line(typingctx: Any, address: Any) -> Any:
    """Ask the processor to bring the cache line at an address close; never faults."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], cgutils.voidptr_t)
        int32 = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, int32, int32, int32])
        prefetch = cgutils.get_or_insert_function(
            builder.module, function_type, "llvm.prefetch.p0"
        )
        builder.call(prefetch, [pointer, int32(0), int32(3), int32(1)])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@inlined
def int64_view(address: int, n: int) -> np.ndarray:
    """View `n` integers of 64 bits."""
    return carray(_pointer(address), (n,), np.int64)


@inlined
def float64_view(address: int, n: int) -> np.ndarray:
    """View `n` float64."""
    return carray(_pointer(address), (n,), np.float64)


@inlined
def int32_view(address: int, n: int) -> np.ndarray:
    """View `n` integers of 32 bits."""
    return carray(_pointer(address), (n,), np.int32)


@inlined
def float32_view(address: int, n: int) -> np.ndarray:
    """View `n` float32."""
    return carray(_pointer(address), (n,), np.float32)


@inlined
def row_address(table: int, row: int, width: int) -> int:
    """Return the address of a row of `width` words, by the address of its table of chunks."""
    chunk = int64_view(table + 8 * (row >> CHUNK_BITS), 1)[0]
    return chunk + (row & CHUNK_MASK) * width * 4


@inlined
def prefetch(address: int, n_bytes: int) -> None:
    """Bring up to 512 bytes close."""
    end = address + min(n_bytes, 512)
    while address < end:
        _prefetch_line(address)
        address += 64
