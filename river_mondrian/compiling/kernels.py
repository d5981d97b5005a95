"""Decorators that compile functions over records.

- `kernel`: a function that Python calls for one sample. The annotations, and the classes of the
  passed records, determine the compiled types.
- `batch_kernel`: a function that Python calls for many samples, while other threads run.
- `link_by_name`: a function that kernels call by name. The function is compiled once for each set
  of types, instead of with each calling kernel.
- `helper`: a function that is compiled into the kernels that call it.
- `always_inline`: a small helper that LLVM always inlines.
- `inline_in_source`: a helper whose lines become part of its caller before type inference.

Two further decorators are written below these decorators. `cold` marks a function that runs rarely.
`ordered_sums` keeps the order of sums, like `ORDERED_SUMS = True` for all functions of a module. A
kernel with ordered sums calls only helpers with ordered sums, because the sums of other helpers may
be reordered even within the kernel. With `NUMBA_DISABLE_JIT=1`, nothing is compiled: kernels run as
Python.
"""

import contextlib
import functools
import hashlib
import inspect
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, get_type_hints

import llvmlite.binding as llvm
import numba
import numpy as np
from numba import types
from numba.core import cgutils, config
from numba.core.typing import signature
from numba.extending import typeof_impl

from ..records import private
from ..records.arrays import record_of
from ..records.numba_fields import fastmath_of
from ..records.numba_types import coded, numba_type
from ..records.pipelines import ColdCompiler, HelperCompiler, KernelCompiler
from . import cache
from . import packaged as packaged_code

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_njit: Any = numba.njit

COMPILES = not getattr(config, "DISABLE_JIT", 0)


class _Links:
    """The functions that compiled code calls by name (`link_by_name`)."""

    def find(self, symbols: list[str]) -> list[tuple[str, tuple[Any, ...]]]:
        """Return the names and types of the linked functions among the called symbols."""
        return [
            (f"{function.__module__}:{function.__qualname__}", taken)
            # The items are copied, because other threads may add instances.
            for (function, taken, packaged), instance in list(_INSTANCES.items())
            if not packaged and instance.symbol in symbols
        ]

    def load(self, links: list[tuple[str, tuple[Any, ...]]], packaged: bool) -> None:
        """Compile or load linked functions, or only load them if `packaged`."""
        for name, taken in links:
            instance_of(_LINKED[name], taken, packaged)


_LINKS = _Links()

_hints: Any = functools.cache(get_type_hints)


def _taken(function: Any, classes: dict[str, type[Any]]) -> tuple[Any, ...]:
    """Return the types of a function's parameters, given the classes of its type variables."""
    hints = [_hints(function)[name] for name in inspect.signature(function).parameters]
    return tuple(
        numba_type(classes.get(h.__name__, h.__bound__) if isinstance(h, TypeVar) else h)
        for h in hints
    )


def cold(function: F) -> F:
    """Mark a function that runs rarely, so that it compiles faster, but to slower code."""
    function.is_cold = True
    return function


def ordered_sums(function: F) -> F:
    """Mark a function or a record's method, whose sums keep the order of the source."""
    function.fastmath = False
    return function


def _dispatcher(function: Any, compiler: Any, **options: Any) -> Any:
    """Return numba's dispatcher of a function.

    Sums may be reordered to use vector units, except with `ordered_sums`. NaN and infinity keep
    their meaning, because missing values are NaN.
    """
    # `fastmath` is always set, because otherwise numba uses the flags of the caller.
    shared: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True}
    shared["fastmath"] = fastmath_of(function)
    return _njit(pipeline_class=compiler, **shared, **options)(function)


def _stored(function: Any, is_linked: bool, **options: Any) -> Any:
    """Return a dispatcher that loads a function's compiled code from disk, and stores new code."""
    compiler = ColdCompiler if getattr(function, "is_cold", False) else KernelCompiler
    return cache.enable(_dispatcher(function, compiler, **options), _LINKS, is_linked)


class Kernel(Generic[P, T]):
    """A kernel that Python calls.

    Parameters
    ----------
    function
        The function to compile.
    options
        Numba's options.

    """

    def __init__(self, function: Callable[P, T], **options: Any) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.dispatcher = _stored(function, is_linked=False, **options)
        self._compiled: dict[tuple[type[Any], ...], Callable[P, T]] = {}
        # The compiled kernel, if no parameter has a type variable.
        self._only: Callable[P, T] | None = None

    def of(self, *classes: type[Any]) -> Callable[P, T]:
        """Return the kernel compiled for a class per type variable, in the order of the signature.

        A call of the result is faster than a call of this object, which looks up the classes.
        """
        compiled = self._compiled.get(classes)
        if compiled is None:
            names = _type_variables(self.function)
            taken = _taken(self.function, dict(zip(names, classes, strict=True)))
            compiled = self._compiled[classes] = self.dispatcher.compile(taken)
        return compiled

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the kernel compiled for the classes of the records that are passed."""
        if self._only is not None:
            return self._only(*args, **kwargs)
        classes = tuple(type(args[i]) for i in _type_variables(self.function).values())
        compiled = self.of(*classes)
        if not classes:
            self._only = compiled
        return compiled(*args, **kwargs)


@typeof_impl.register(Kernel)
def _typeof_kernel(value: Kernel[Any, Any], c: Any) -> Any:
    return numba.typeof(value.dispatcher)


@functools.cache
def _type_variables(function: Any) -> dict[str, int]:
    """Return the index of each type variable's first parameter, by the variable's name."""
    indices: dict[str, int] = {}
    for i, name in enumerate(inspect.signature(function).parameters):
        hint = _hints(function)[name]
        if isinstance(hint, TypeVar):
            indices.setdefault(hint.__name__, i)
    return indices


class Plain(Generic[P, T]):
    """A kernel that runs as Python, with NumPy's rules for division by zero."""

    def __init__(self, function: Callable[P, T]) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def of(self, *classes: type[Any]) -> Callable[P, T]:
        """Return the kernel itself."""
        return self

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function."""
        arguments: Any = [record_of(arg) for arg in args]
        with np.errstate(all="ignore"):
            return self.function(*arguments, **kwargs)


def kernel(function: Callable[P, T]) -> Kernel[P, T]:
    """Compile a function of one sample at its first call from Python, and store the code on disk.

    The kernel holds the GIL, because releasing it takes as long as learning a sample in one tree.
    """
    return _kernel(function)


def batch_kernel(function: Callable[P, T]) -> Kernel[P, T]:
    """Compile a function of many samples like `kernel`, but release the GIL during a call."""
    return _kernel(function, nogil=True)


def _kernel(function: Callable[P, T], **options: Any) -> Kernel[P, T]:
    return Kernel(function, **options) if COMPILES else Plain(function)  # type: ignore[return-value]


def helper(function: F) -> F:
    """Compile a helper, which LLVM may inline into kernels; Python runs the helper uncompiled."""
    return _helper(function)


def always_inline(function: F) -> F:
    """Compile a small helper that LLVM always inlines."""
    return _helper(function, forceinline=True)


def inline_in_source(function: F) -> F:
    """Compile a helper whose lines become part of each caller, for helpers with few callers."""
    return _njit(inline="always")(function) if COMPILES else function


def _helper(function: F, **options: Any) -> F:
    if not COMPILES:
        return function
    # A helper has no entry point for Python, because an entry point would double the time of
    # compilation.
    dispatcher = _dispatcher(function, HelperCompiler, no_cpython_wrapper=True, **options)

    def typer(context: Any, *args: Any) -> Any:
        return numba.typeof(dispatcher).get_call_type(context, args, {})

    @coded(function, typer)
    def call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return context.get_function(numba.typeof(dispatcher), sig)(builder, args)

    return function


# Linked functions, and their compiled instances.


class Instance:
    """A linked function, compiled for some types.

    Parameters
    ----------
    function
        The function.
    taken
        Numba's types of the arguments.
    packaged
        Whether to load the function from the package instead of compiling it.

    Raises
    ------
    LookupError
        If the package does not have the compiled function.

    """

    def __init__(self, function: Any, taken: tuple[Any, ...], packaged: bool) -> None:
        dispatcher = _DISPATCHERS[function]
        target: Any = packaged_code.own_target()
        if packaged:
            self.compiled = cache.CACHE.load_packaged(dispatcher, taken)
            target = cache.CACHE.packaged.target
        else:
            dispatcher.compile(taken)
            self.compiled = dispatcher.overloads[taken]
        if self.compiled is None:
            raise LookupError(function.__qualname__)
        type_names = ", ".join(map(str, taken))
        made_for = hashlib.blake2b(repr(tuple(target)).encode(), digest_size=4).hexdigest()
        # The symbol has the target, because code for another target must not call this instance.
        name = f"{function.__module__}:{function.__qualname__}({type_names})"
        self.symbol = f"{cache.PREFIX}{made_for}:{name}"
        self.result = self.compiled.signature.return_type
        self.address = private.address_of(self.compiled)
        # The symbol is never removed, because calling code may use it until the process ends.
        llvm.add_symbol(self.symbol, self.address)


_DISPATCHERS: dict[Any, Any] = {}
_INSTANCES: dict[tuple[Any, tuple[Any, ...], bool], Instance] = {}
_LINKED: dict[str, Any] = {}


def instance_of(function: Any, taken: tuple[Any, ...], packaged: bool = False) -> Instance:
    """Return a linked function for some types, loaded or compiled at the first use."""
    key = function, taken, packaged
    if key not in _INSTANCES:
        _INSTANCES[key] = Instance(function, taken, packaged)
    return _INSTANCES[key]


@functools.cache
def _address_of(function: Any, kind: Any) -> int:
    """Return the address of a linked function for the types of the function's annotations."""
    taken = _taken(function, dict.fromkeys(_type_variables(function), kind))
    with contextlib.suppress(LookupError):
        return instance_of(function, taken, packaged=True).address
    return instance_of(function, taken).address


def set_entries(record: Any, *functions: Any, **others: Any) -> None:
    """Load or compile linked functions, and write their addresses to a record's entries.

    `records.entry` declares an entry. An entry has the name of its function, or a name in `others`.
    Type variables stand for the class of the record.
    """
    kind: Any = type(record)
    for name, function in ({f.__name__: f for f in functions} | others).items():
        setattr(record, name, _address_of(function, kind) if COMPILES else function)


def _plain(typ: Any) -> Any:
    """Return the wide type of a linked function's parameter, given an argument's type."""
    if isinstance(typ, types.Boolean):
        return types.boolean
    if isinstance(typ, types.Integer):
        return types.int64
    return types.float64 if isinstance(typ, types.Float) else typ


def link_by_name(function: F) -> F:
    """Compile a function once for each set of types, for all kernels that call it."""
    if not COMPILES:
        return function
    _DISPATCHERS[function] = _stored(function, is_linked=True, no_cpython_wrapper=True)
    _LINKED[f"{function.__module__}:{function.__qualname__}"] = function

    def typer(context: Any, *args: Any) -> Any:
        taken = tuple(map(_plain, args))
        return signature(instance_of(function, taken).result, *taken)

    @coded(function, typer)
    def call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        instance = instance_of(function, sig.args)
        typ = private.function_type(context, sig.return_type, sig.args)
        callee = cgutils.get_or_insert_function(builder.module, typ, instance.symbol)
        return private.call_function(context, builder, callee, sig.return_type, sig.args, args)

    return function
