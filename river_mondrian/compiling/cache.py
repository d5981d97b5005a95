"""Compiled code on disk, which is never older than the sources that it was made from.

Numba's own cache looks at the one file that a kernel is written in, and not at those of its
constants and helpers. Its index may also name another's code, where two processes write it at
once. Here each compiled function is a file of its own, in a folder that belongs to the key of the
whole package's sources (`Sources.key`). Its name has a digest of the function, the types, the
processor and the settings for which it was compiled (`CodeCache.name_of`).

Code that comes with the package (`packaged`) is taken first, then that of the user's folder.
Functions that call each other by name come from one of both.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import shutil
import sys
import warnings
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeVar

import llvmlite.binding as llvm
import numba
from numba.core import compiler, serialize
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.core.runtime import nrt

from . import folders, packaged, sources
from .first_calls import WATCH
from .packaged import Packaged
from .sources import Sources

D = TypeVar("D")

# What numba does not annotate.
_config: Any = numba.config
_nrt: Any = nrt
_cpu_target: Any = cpu_target
_dumps: Any = serialize.dumps
_CompileResult: Any = compiler.CompileResult

# Numba's switches count, all but those that differ from run to run and leave code as it is.
_NOT_OF_CODE = (
    *("CACHE_", "COLOR_SCHEME", "CUDA_", "DEBUG_CACHE", "GDB_", "NUMBA_DEFAULT_NUM_THREADS"),
    *("NUMBA_NUM_THREADS", "RUNNING_UNDER_PROFILER", "THREADING_", "_HAVE_YAML"),
    # They are in the target, which numba names.
    *("CPU_", "ENABLE_AVX"),
)

_CHECKSUM_BYTES = 16

# How the names begin by which code refers to functions of the package that it is not linked with.
SEPARATE = "river_mondrian:"


class CodeCache:
    """The compiled code of a package.

    The sources are read when this is made, ahead of the modules that define functions. The folder
    is looked for when the first function is called.

    Parameters
    ----------
    root
        The package's folder.
    package
        The package's name, as it is imported.

    Attributes
    ----------
    n_unkept
        How many functions were compiled whose code could not be written.
    """

    def __init__(self, root: Path, package: str) -> None:
        self._package = package
        self._root = root
        self._sources = Sources(root)
        self._looked = False
        self._folder: Path | None = None
        self._warned = False
        self.n_unkept = 0
        # Modules read the package's own switches as they are imported.
        prefix = package.upper() + "_"
        own = sorted(item for item in os.environ.items() if item[0].startswith(prefix))
        self._settings = own, sys.flags.optimize

    def enable(self, dispatcher: D, links: Any = None, is_separate: bool = False) -> D:
        """Let a function of the package take its compiled code from disk, and keep it there.

        `links` knows of other functions that the code refers to by name: `find` returns what is to
        be kept of them, which is pickled; `load` compiles or loads these first. `is_separate` says
        that others refer to this one.

        Functions of other packages are left without, since changes of their sources would not be
        seen, and so are functions that are made by others from more than numbers and text. What is
        not a dispatcher stays as it is: with `NUMBA_DISABLE_JIT` there are none.
        """
        if isinstance(dispatcher, Dispatcher):
            compiled: Any = dispatcher
            if f"{compiled.py_func.__module__}.".startswith(f"{self._package}."):
                compiled._cache = FunctionCache(self, compiled, links, is_separate)
        return dispatcher

    @property
    def folder(self) -> Path | None:
        """Where code is kept; None where there is no such place."""
        if not self._looked:
            self._folder = folders.find(self._package, self._sources.key)
            # Other threads ask meanwhile.
            self._looked = True
        return self._folder

    @functools.cached_property
    def packaged(self) -> Packaged:
        """Code that comes with the package."""
        known = self._root / packaged.FOLDER / folders.KNOWN
        return Packaged(self._root, self._made_for, self._sources.key_if_known(known))

    @property
    def _made_for(self) -> dict[str, Any]:
        """Return what all code of this process is made for, but the sources and the processor."""
        own, optimize = self._settings
        settings = {f"NUMBA_{name}": value for name, value in _numba_settings()}
        return {**sources.VERSIONS, "python -O": optimize, **dict(own), **settings}

    def pack(self, folder: Path) -> None:
        """Copy the code that was compiled to the package's folder, for a wheel."""
        if self.folder is None or self.n_unkept:
            raise OSError("compiled code has not been kept")
        known = self.folder.parent / folders.KNOWN
        for path in (known, *self.folder.glob("*.nbc")):
            shutil.copyfile(path, folder / path.name)
        key = self._sources.key(known)
        target = _cpu_target.target_context.codegen().magic_tuple()
        packaged.write_index(folder, target, self._made_for, key)

    def name_of(self, function: FunctionType, options: str, types: Any, target: Any) -> str | None:
        """Return the name of a function's file for types and a target; None for no file."""
        described = _describe(function) if self._sources.unchanged() else None
        if described is None:
            return None
        made_for = str(types), tuple(target), self._settings, _numba_settings()
        key = hashlib.blake2b(repr((described, options, made_for)).encode(), digest_size=16)
        return f"{self.name(function)}-{key.hexdigest()}.nbc"

    def name(self, function: FunctionType) -> str:
        """Return how the names of a function's files begin."""
        name = f"{function.__module__}.{function.__qualname__}"[len(self._package) + 1 :]
        return "".join(c if c.isalnum() or c in "._" else "" for c in name)[:100]

    def write(self, path: Path, content: bytes) -> None:
        """Keep code in a file, where that is possible."""
        try:
            folders.write(path, content)
        except OSError as error:
            # Another process has written the file and reads it, which is in the way on Windows.
            if os.path.exists(path):
                return
            self.n_unkept += 1
            # A process with newer sources may have removed the folder.
            if not isinstance(error, FileNotFoundError) and not self._warned:
                self._warned = True
                warnings.warn(
                    f"{self._package}: new compiled code is not kept in {path.parent} "
                    f"({error.strerror or error}). "
                    "Set NUMBA_CACHE_DIR to a folder that can be written.",
                    RuntimeWarning,
                    stacklevel=2,
                )


class FunctionCache:
    """The compiled code of one function: what a dispatcher asks of numba's own cache."""

    def __init__(self, package: CodeCache, dispatcher: Any, links: Any, is_separate: bool) -> None:
        self._package, self._links, self._is_separate = package, links, is_separate
        self._function: FunctionType = dispatcher.py_func
        # Of one function there may be two dispatchers, one of them without fast sums.
        self._options = repr(
            sorted(
                (name, sorted(value) if isinstance(value, set) else value)
                for name, value in dispatcher.targetoptions.items()
            )
        )

    @property
    def cache_path(self) -> str | None:
        """Where the code is, for `Dispatcher.stats`."""
        folder = self._package.folder
        return None if folder is None else str(folder)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return what was compiled for these types; None where that is not there or damaged."""
        found = None
        # Code that others refer to by name is taken from the package for packaged code only.
        if not self._is_separate:
            found = self.load_packaged(signature, target_context)
        if found is None and self._package.folder is not None:
            target = target_context.codegen().magic_tuple()
            found = self._load(self._package.folder, target, signature, target_context)
        if found is None:
            package = self._package
            name = package.name(self._function)
            WATCH.compiles(name, package.folder, package.packaged.unused)
        return found

    def load_packaged(self, signature: Any, target_context: Any) -> Any:
        """Return what was compiled for these types in the package; None if it is not there."""
        target, folder = self._package.packaged.target, self._package.packaged.folder
        return None if target is None else self._load(folder, target, signature, target_context)

    def _load(self, folder: Path, target: Any, signature: Any, target_context: Any) -> Any:
        name = self._package.name_of(self._function, self._options, signature, target)
        if name is None:
            return None
        is_packaged = folder == self._package.packaged.folder
        # Whatever is wrong with a file, the function can be compiled anew.
        try:
            read = Path.read_bytes if is_packaged else folders.read
            content = read(folder / name)
            pickled = content[_CHECKSUM_BYTES:]
            if content[:_CHECKSUM_BYTES] != _checksum(pickled):
                return None
            of, symbols, linked, reduced = pickle.loads(pickled)
            if of != signature:
                return None
            _ensure_symbols(symbols, target_context)
            if self._links is not None:
                self._links.load(linked, is_packaged)
            return _CompileResult._rebuild(target_context, *reduced)
        except Exception:
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep what was compiled for these types."""
        # Addresses of this process are of no use to others.
        if result.library.has_dynamic_globals or any(not loop.can_cache for loop in result.lifted):
            return
        folder = self._package.folder
        target = result.codegen.magic_tuple()
        name = self._package.name_of(self._function, self._options, signature, target)
        if folder is not None and name is not None:
            linked = None if self._links is None else self._links.find(result)
            # The functions of C that the code calls.
            symbols = [
                function.name
                for function in result.library._final_module.functions
                if function.is_declaration and not function.name.startswith(("llvm.", SEPARATE))
            ]
            pickled = _dumps((signature, symbols, linked, result._reduce()))
            self._package.write(folder / name, _checksum(pickled) + pickled)

    def flush(self) -> None:
        """Forget what was compiled, for `Dispatcher.recompile`."""
        if self._package.folder is not None:
            for path in self._package.folder.glob(f"{self._package.name(self._function)}-*.nbc"):
                path.unlink(missing_ok=True)


def _ensure_symbols(symbols: list[str], target_context: Any) -> None:
    """Have numba provide the functions of C that code calls: LLVM ends the process without.

    Most code finds them as they are. All that numba has to provide takes it a fifth of a second.

    Raises
    ------
    LookupError
        If one is not there, as in code of another build of numba.
    """
    for provide in (_nrt.rtsys.initialize, type(target_context).refresh):
        if not _missing(symbols):
            return
        provide(target_context)
    missing = _missing(symbols)
    if missing:
        raise LookupError(f"there is no function {missing[0]}")


def _missing(symbols: list[str]) -> list[str]:
    return [name for name in symbols if not llvm.address_of_symbol(name)]


def _checksum(content: bytes) -> bytes:
    """Return the checksum of a file's content: machine code of a damaged file must not run."""
    return hashlib.blake2b(content, digest_size=_CHECKSUM_BYTES).digest()


def _numba_settings() -> list[tuple[str, str]]:
    """Return numba's settings as they are now: a program may set them."""
    return [
        (name, repr(value))
        for name, value in sorted(vars(_config).items())
        if name.isupper()
        and not name.startswith(_NOT_OF_CODE)
        and isinstance(value, bool | int | float | str | tuple | None)
    ]


def _describe(function: FunctionType) -> list[Any] | None:
    """Return what differs between functions of the same sources; None if that is not known."""
    closure = [cell.cell_contents for cell in function.__closure__ or ()]
    if not all(isinstance(value, bool | int | float | complex | str | None) for value in closure):
        return None
    code = _read(function.__code__, function.__doc__)
    return [function.__module__, function.__qualname__, code, closure]


def _read(code: CodeType, doc: str | None) -> list[Any]:
    """Return the contents of code, without line numbers, addresses and the docstring."""
    constants = code.co_consts[1:] if doc is not None else code.co_consts
    read = [_read(c, None) if isinstance(c, CodeType) else c for c in constants]
    return [code.co_code, code.co_names, read]


CACHE = CodeCache(Path(__file__).parent.parent, __name__.rsplit(".", 2)[0])

enable = CACHE.enable
