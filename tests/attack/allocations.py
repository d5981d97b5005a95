"""NumPy's allocations, one of which fails, as where memory is short.

All data of arrays come from a handler, which NumPy lets anybody replace (NEP 49): so the k-th
allocation fails whichever function asks for it.
"""

from __future__ import annotations

import ctypes

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
    table = ctypes.cast(
        _pointer(_multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p)
    )
    return ctypes.PYFUNCTYPE(ctypes.py_object, *arguments)(table[place])


_set_handler = _function(_SET_HANDLER, ctypes.py_object)
_usual = _Handler.from_address(_pointer(_function(_GET_HANDLER)(), _NAME))

# Allocations so far, and the one that fails.
_count = 0
_failing = 0


def _fails():
    global _count
    _count += 1
    return _count == _failing


@_MALLOC
def _malloc(context, size):
    return None if _fails() else _usual.malloc(_usual.context, size)


@_CALLOC
def _calloc(context, n, size):
    return None if _fails() else _usual.calloc(_usual.context, n, size)


@_REALLOC
def _realloc(context, place, size):
    return None if _fails() else _usual.realloc(_usual.context, place, size)


def _capsule():
    """Return the handler as NumPy takes it."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(_HANDLER), _NAME, None)


# It is there for ever: arrays are freed by what has made them.
_HANDLER = _Handler(b"failing", 1, _usual.context, _malloc, _calloc, _realloc, _usual.free)
_HELD = _capsule()


def count_allocations(call):
    """Run a call; return how many times it allocates memory for arrays."""
    _run(call, 0)
    return _count


def fail_allocation(call, k):
    """Run a call whose k-th allocation, from 1 on, fails; tell whether it came to that."""
    try:
        _run(call, k)
    except MemoryError:
        assert _count >= k
    return _count >= k


def _run(call, k):
    global _count, _failing
    before = _set_handler(_HELD)
    _count, _failing = 0, k
    try:
        call()
    finally:
        _failing = 0
        _set_handler(before)
