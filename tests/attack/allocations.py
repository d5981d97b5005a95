"""Let one allocation of NumPy or of compiled kernels fail, as if memory were short.

NumPy allocates all array data through a handler that may be replaced (NEP 49). Kernels allocate all
memory through one function, which they look up by name. This module replaces the handler and the
function, so the k-th allocation of either fails. Import this module before kernels are loaded,
because loaded kernels keep their function.
"""

import ctypes

from llvmlite import binding, ir
from numba.core import registry
from numba.core.runtime import _nrt_python, rtsys
from numpy._core import _multiarray_umath

# Indices in the table of NumPy's C functions; NumPy never changes these indices.
_SET_HANDLER, _GET_HANDLER = 304, 305

_MALLOC = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_CALLOC = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
_REALLOC = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)

# The capsule name of a handler.
_NAME = b"mem_handler"


class _Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler."""

    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", _MALLOC),
        ("calloc", _CALLOC),
        ("realloc", _REALLOC),
        # NumPy's own `free`: it may be called while an exception is set, when no Python code may
        # run.
        ("free", ctypes.c_void_p),
    ]


def _pointer(capsule, name):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, name)


def _function(place, *arguments):
    """Return the C function at an index of NumPy's table."""
    api, pointers = _multiarray_umath._ARRAY_API, ctypes.POINTER(ctypes.c_void_p)
    table = ctypes.cast(_pointer(api, None), pointers)
    return ctypes.PYFUNCTYPE(ctypes.py_object, *arguments)(table[place])


_set_handler = _function(_SET_HANDLER, ctypes.py_object)
_usual = _Handler.from_address(_pointer(_function(_GET_HANDLER)(), _NAME))

# The number of allocations since the start of the call, and the number of the allocation that
# fails.
_counts = (ctypes.c_int64 * 2)()


def _fails():
    _counts[0] += 1
    return _counts[0] == _counts[1]


@_MALLOC
def _malloc(context, size):
    return None if _fails() else _usual.malloc(_usual.context, size)


@_CALLOC
def _calloc(context, n, size):
    return None if _fails() else _usual.calloc(_usual.context, n, size)


@_REALLOC
def _realloc(context, place, size):
    return None if _fails() else _usual.realloc(_usual.context, place, size)


def _compiled_allocate():
    """Compile an allocator for kernels; return the compiler, which owns the code, and the address.

    The allocator runs no Python code, because a signal handler could interrupt Python code.
    """
    word, address, start = ir.IntType(64), ir.IntType(8).as_pointer(), ctypes.addressof(_counts)
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(address, [word]), "allocate")
    builder = ir.IRBuilder(function.append_basic_block())
    count, failing = (word(start + 8 * i).inttoptr(word.as_pointer()) for i in range(2))
    n = builder.add(builder.load(count), word(1))
    builder.store(n, count)
    with builder.if_then(builder.icmp_signed("==", n, builder.load(failing))):
        builder.ret(address(None))
    usual = word(_nrt_python.c_helpers["Allocate"])
    usual = builder.inttoptr(usual, function.function_type.as_pointer())
    builder.ret(builder.call(usual, function.args))
    machine = binding.Target.from_default_triple().create_target_machine()
    compiler = binding.create_mcjit_compiler(binding.parse_assembly(str(module)), machine)
    compiler.finalize_object()
    return compiler, compiler.get_function_address(function.name)


def _capsule():
    """Return the handler in a capsule, as NumPy expects."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(_HANDLER), _NAME, None)


# The handler is never freed: arrays are freed by the handler that allocated them.
_HANDLER = _Handler(b"failing", 1, _usual.context, _malloc, _calloc, _realloc, _usual.free)
_HELD = _capsule()

# Numba registers its own allocation function here; the symbol below replaces it.
rtsys.initialize(registry.cpu_target.target_context)
_COMPILER, _address = _compiled_allocate()
binding.add_symbol("NRT_Allocate", _address)


def count_allocations(call):
    """Run a call; return the number of allocations by NumPy and by kernels."""
    _run(call, 0)
    return _counts[0]


def fail_allocation(call, k):
    """Run a call whose k-th allocation fails; return whether the call made k allocations."""
    try:
        _run(call, k)
    except MemoryError:
        assert _counts[0] >= k
    return _counts[0] >= k


def _run(call, k):
    before = _set_handler(_HELD)
    _counts[:] = 0, k
    try:
        call()
    finally:
        _counts[1] = 0
        _set_handler(before)
