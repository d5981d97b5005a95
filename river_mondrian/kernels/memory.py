"""Raw access to words in memory by address, a prefetch hint, and how kernels are compiled.

A kernel that walks a tree visits rows of many chunks. Handing numba one array per chunk is
slow, every view that numba makes of an array costs atomic operations on its reference count, and
functions over arrays take long to compile. So kernels get addresses, which the owners of the
arrays keep right (`rows.ChunkedRows`, `trees.MondrianTrees`).
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.dispatcher import Dispatcher
from numba.extending import intrinsic

from ..compiling import cache

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


# Its annotations lack some of its options.
_njit: Any = numba.njit

# What only kernels call needs no way in from Python: compiling that would take as long again.
_FROM_KERNELS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def kernel(function: F) -> F:
    """Compile a function lazily, cached on disk where possible, without the GIL."""
    compiled: F = _njit(nogil=True, fastmath=FASTMATH, error_model="numpy", no_cfunc_wrapper=True)(
        function
    )
    return cache.enable(compiled)


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


def called(function: F) -> F:
    """Compile a kernel that others call by address, and only by that (see `address_of`)."""
    compiled: F = _njit(fastmath=FASTMATH, error_model="numpy", **_FROM_KERNELS)(function)
    return cache.enable(compiled)


def uncached(function: F) -> F:
    """Compile a helper of kernels, and of these only; it is cached within those that call it."""
    compiled: F = _njit(fastmath=FASTMATH, error_model="numpy", **_FROM_KERNELS)(function)
    return compiled


def inlined(function: F) -> F:
    """Compile a small helper that becomes part of the kernels that call it, and of these only."""
    compiled: F = _njit(fastmath=FASTMATH, error_model="numpy", forceinline=True, **_FROM_KERNELS)(
        function
    )
    return compiled


def merged(function: F) -> F:
    """Compile a helper as lines of the kernel that calls it, at one place."""
    compiled: F = _njit(fastmath=FASTMATH, error_model="numpy", inline="always", **_FROM_KERNELS)(
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
    compiled: F = _njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function)
    return cache.enable(compiled)


def exact_inlined(function: F) -> F:
    """Compile a small helper of exact kernels, which only these call."""
    compiled: F = _njit(error_model="numpy", **_FROM_KERNELS)(function)
    return compiled


_ADDRESSES: dict[Callable[..., Any], tuple[int, Any]] = {}


def address_of(function: Callable[..., int]) -> int:
    """Return the address by which kernels call another one of integers (see `call2`).

    A plain function becomes an exact kernel. It is compiled, or loaded from the cache, at its first
    use in the process.
    """
    if function not in _ADDRESSES:
        compiled: Any = function if isinstance(function, Dispatcher) else exact_kernel(function)
        signature = (types.int64,) * compiled.py_func.__code__.co_argcount
        compiled.compile(signature)
        code, description = operator.attrgetter("library", "fndesc")(compiled.overloads[signature])
        address = code.get_pointer_to_function(description.llvm_func_name)
        # What has the address lasts as long as the process.
        _ADDRESSES[function] = int(address), compiled
    return _ADDRESSES[function][0]


def _call(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Call a kernel by address; what it raises is raised."""
    taken = signature.args[1:]
    function_type = context.call_conv.get_function_type(signature.return_type, taken)
    function = builder.inttoptr(args[0], function_type.as_pointer())
    status, result = context.call_conv.call_function(
        builder, function, signature.return_type, taken, args[1:]
    )
    with cgutils.if_unlikely(builder, status.is_error):
        context.call_conv.return_status_propagate(builder, status)
    return result


# Calling a kernel of so many integers by what `address_of` says of it. One that is called by name
# is compiled again as part of each kernel that calls it; by address it is compiled once, and rounds
# the same wherever it is called from.
@intrinsic
def call2(typingctx: Any, function: Any, first: Any, second: Any) -> Any:
    """Call a kernel of two integers by address."""
    return types.int64(*[types.int64] * 3), _call


@intrinsic
def call3(typingctx: Any, function: Any, first: Any, second: Any, third: Any) -> Any:
    """Call a kernel of three integers by address."""
    return types.int64(*[types.int64] * 4), _call


@intrinsic
def call4(typingctx: Any, function: Any, first: Any, second: Any, third: Any, last: Any) -> Any:
    """Call a kernel of four integers by address."""
    return types.int64(*[types.int64] * 5), _call


@intrinsic
def call6(
    typingctx: Any,
    function: Any,
    first: Any,
    second: Any,
    third: Any,
    fourth: Any,
    fifth: Any,
    last: Any,
) -> Any:
    """Call a kernel of six integers by address."""
    return types.int64(*[types.int64] * 7), _call


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


@intrinsic
def allocate(typingctx: Any, n: Any) -> Any:
    """Return the address of room for n words of 64 bits, until it is released."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words = context.nrt.allocate(builder, builder.mul(args[0], args[0].type(8)))
        return builder.ptrtoint(words, args[0].type)

    return types.int64(types.int64), codegen


@intrinsic
def release(typingctx: Any, address: Any) -> Any:
    """Give back what `allocate` has given."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        context.nrt.free(builder, builder.inttoptr(args[0], cgutils.voidptr_t))
        return context.get_dummy_value()

    return types.void(types.int64), codegen


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
