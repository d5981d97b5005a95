"""Allocations of NumPy and of compiled kernels, one of which fails, as where memory is short.

All data of arrays come from a handler, which NumPy lets anybody replace (NEP 49), and all memory
of kernels from one function, which they find by its name: so the k-th allocation fails whatever
asks for it. The function is replaced for the kernels that are loaded after this module.
"""

import ctypes

from llvmlite import binding, ir
from numba.core import registry
from numba.core.runtime import _nrt_python, rtsys
from numpy._core import _multiarray_umath

# Places in the table of NumPy's C functions, which never change.
_SET_HANDLER, _GET_HANDLER = 304, 305

_MALLOC = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_CALLOC = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
_REALLOC = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)

# What a handler is called.
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
        # NumPy's own: it may run while there is an error, as nothing of Python may.
        ("free", ctypes.c_void_p),
    ]


def _pointer(capsule, name):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, name)


def _function(place, *arguments):
    """Return one of NumPy's C functions, which returns an object."""
    api, pointers = _multiarray_umath._ARRAY_API, ctypes.POINTER(ctypes.c_void_p)
    table = ctypes.cast(_pointer(api, None), pointers)
    return ctypes.PYFUNCTYPE(ctypes.py_object, *arguments)(table[place])


_set_handler = _function(_SET_HANDLER, ctypes.py_object)
_usual = _Handler.from_address(_pointer(_function(_GET_HANDLER)(), _NAME))

# Allocations so far, and the number of the one that fails.
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
    """Return the same for kernels: the compiler that holds the function, and its address.

    Nothing of Python runs within them, since a signal may interrupt that.
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
    """Return the handler as NumPy takes it."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(_HANDLER), _NAME, None)


# It is there for ever: arrays are freed by what has made them.
_HANDLER = _Handler(b"failing", 1, _usual.context, _malloc, _calloc, _realloc, _usual.free)
_HELD = _capsule()

# Numba tells of its own function first.
rtsys.initialize(registry.cpu_target.target_context)
_COMPILER, _address = _compiled_allocate()
binding.add_symbol("NRT_Allocate", _address)


def count_allocations(call):
    """Run a call; return how many times it allocates memory for arrays, or kernels do."""
    _run(call, 0)
    return _counts[0]


def fail_allocation(call, k):
    """Run a call whose k-th allocation, from 1 on, fails; tell whether it came to that."""
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
