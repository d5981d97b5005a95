"""Raw access to words in memory by address, a prefetch hint, and how kernels are compiled.

A kernel that walks a tree visits rows of many chunks. Handing numba one array per chunk is
slow, every view that numba makes of an array costs atomic operations on its reference count, and
functions over arrays take long to compile. So kernels get addresses, which the owners of the
arrays keep right (`arena.Arena`, `trees.MondrianTrees`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])

# Largest raw value that is taken, single precision's own, and largest scaled one.
LARGEST = float(np.finfo(np.float32).max)
FARTHEST = 1e30

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


def direct(function: F) -> F:
    """Compile a kernel of integers that Python calls for each sample.

    Numba's dispatcher finds out the types of the arguments anew at each call, which takes longer
    than the call itself. So the first call puts the compiled function where its module has this
    one; it is to be called by way of the module, and not from kernels.
    """
    compiled: Any = kernel(function)
    module = sys.modules[function.__module__]

    def first(*args: int) -> Any:
        signature = (types.int64,) * function.__code__.co_argcount
        found = compiled.compile(signature)
        setattr(module, function.__name__, found)
        return found(*args)

    return cast(F, first)


def uncached(function: F) -> F:
    """Compile a helper of its own; it is cached within the kernels that call it."""
    compiled: F = numba.njit(nogil=True, fastmath=FASTMATH, error_model="numpy")(function)
    return compiled


def inlined(function: F) -> F:
    """Compile a small helper that becomes part of the kernels that call it."""
    compiled: F = numba.njit(nogil=True, fastmath=FASTMATH, error_model="numpy", forceinline=True)(
        function
    )
    return compiled


# Rows are of 32-bit words: what is wider in them begins at any of these.
_ALIGNMENT = 4


def exact_kernel(function: F) -> F:
    """Compile like `kernel`, but with each sum in the order in which it is written.

    The flags of a caller act on what it inlines, too: an exact kernel is called from exact kernels
    and from Python only.
    """
    compiled: F = numba.njit(cache=_CACHE, nogil=True, error_model="numpy")(function)
    return compiled


def exact_inlined(function: F) -> F:
    """Compile a small helper of exact kernels."""
    compiled: F = numba.njit(nogil=True, error_model="numpy")(function)
    return compiled


_FUNCTIONS: dict[Callable[..., Any], Any] = {}
_SIGNATURE = "int64(int64, int64, int64)"


def address_of(function: Callable[..., Any]) -> int:
    """Compile a function of three integers to one that is called by address.

    That is done at its first use in the process.
    """
    compiled = _FUNCTIONS.get(function)
    if compiled is None:
        compiled = numba.cfunc(_SIGNATURE, cache=_CACHE, error_model="numpy")(function)
        _FUNCTIONS[function] = compiled
    return int(compiled.address)


@intrinsic
def call(typingctx: Any, function: Any, first: Any, second: Any, third: Any) -> Any:
    """Call a function by what `address_of` says of it.

    Unlike what a kernel may inline, it rounds the same wherever it is called from.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        int64 = ir.IntType(64)
        function_type = ir.FunctionType(int64, [int64, int64, int64])
        return builder.call(builder.inttoptr(args[0], function_type.as_pointer()), args[1:])

    return types.int64(types.int64, types.int64, types.int64, types.int64), codegen


def _loader(word: types.Type, wide: types.Type) -> Any:
    """Make an intrinsic that reads the i-th word behind an address as a wide number."""

    @intrinsic
    def load(typingctx: Any, address: Any, i: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = _word_pointer(context, builder, word, args)
            found = builder.load(pointer, align=_ALIGNMENT)
            return context.cast(builder, found, word, signature.return_type)

        return wide(types.int64, types.int64), codegen

    return load


def _storer(word: types.Type, wide: types.Type) -> Any:
    """Make an intrinsic that writes a wide number to the i-th word behind an address."""

    @intrinsic
    def store(typingctx: Any, address: Any, i: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = _word_pointer(context, builder, word, args)
            value = context.cast(builder, args[2], signature.args[2], word)
            builder.store(value, pointer, align=_ALIGNMENT)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, wide), codegen

    return store


def _word_pointer(context: Any, builder: Any, word: types.Type, args: Any) -> Any:
    pointer_type = context.get_data_type(word).as_pointer()
    return builder.gep(builder.inttoptr(args[0], pointer_type), [args[1]])


# Reading and writing the i-th word behind an address. Integers are int64 and reals float64 to the
# kernels, whatever the width in memory.
i64, put_i64 = _loader(types.int64, types.int64), _storer(types.int64, types.int64)
i32, put_i32 = _loader(types.int32, types.int64), _storer(types.int32, types.int64)
f64, put_f64 = _loader(types.float64, types.float64), _storer(types.float64, types.float64)
f32, put_f32 = _loader(types.float32, types.float64), _storer(types.float32, types.float64)

# Single precision as it is, for loops over vectors of it: twice as many fit a register.
single = _loader(types.float32, types.float32)
put_single = _storer(types.float32, types.float32)


@intrinsic
def _prefetch_line(typingctx: Any, address: Any) -> Any:
    """Ask the processor to bring the cache line at an address close; never faults."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], cgutils.voidptr_t)
        int32 = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, int32, int32, int32])
        prefetch = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        builder.call(prefetch, [pointer, int32(0), int32(3), int32(1)])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


def room_for(n: int) -> Any:
    """Make an intrinsic that gives the address of room for n words of 64 bits, for one call."""

    @intrinsic
    def room(typingctx: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            words = cgutils.alloca_once(builder, ir.IntType(64), size=n)
            return builder.ptrtoint(words, ir.IntType(64))

        return types.int64(), codegen

    return room


@inlined
def row_address(table: int, row: int, width: int) -> int:
    """Return the address of a row of `width` words, by the address of its table of chunks."""
    return i64(table, row >> CHUNK_BITS) + (row & CHUNK_MASK) * width * 4


@inlined
def prefetch(address: int, n_bytes: int) -> None:
    """Bring up to 512 bytes close."""
    end = address + min(n_bytes, 512)
    while address < end:
        _prefetch_line(address)
        address += 64
