"""Compiled code on disk, which always matches the sources.

Numba's own cache checks only the file that defines a kernel, not the files of the kernel's
constants and helpers. If two processes write numba's index at once, the index may name another
function's code. Therefore this package stores each compiled function in a separate file, in a
folder for the key of all sources (`Sources.key`). The file's name contains a digest of the
function, the types, the processor and the settings (`CodeCache.name_of`).

The package's own code (`packaged`) is used first, then code in the user's folder. Functions that
call each other by name are loaded from the same folder.
"""

import contextlib
import functools
import hashlib
import os
import pickle
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeVar

import numba
from numba.core.registry import cpu_target

from ..records import private
from . import folders, packaged, sources
from .first_calls import WATCH
from .packaged import Packaged
from .sources import Sources

D = TypeVar("D")

# Names of numba as `Any`, because numba has no annotations.
_config: Any = numba.config
_cpu_target: Any = cpu_target

# Prefixes of numba's settings that are not part of a key, because they do not change code.
_NOT_OF_CODE = (
    *("CACHE_", "COLOR_SCHEME", "CUDA_", "DEBUG_CACHE", "GDB_", "NUMBA_DEFAULT_NUM_THREADS"),
    *("NUMBA_NUM_THREADS", "RUNNING_UNDER_PROFILER", "THREADING_", "_HAVE_YAML"),
    # These settings are already part of a key, in the target's name and features.
    *("CPU_", "ENABLE_AVX"),
)

_CHECKSUM_BYTES = 16

# Prefix of the names of linked functions in code (see `kernels.link_by_name`).
PREFIX = "river_mondrian:"


class CodeCache:
    """The compiled code of a package.

    The constructor reads the sources, before the modules with functions are imported. The first
    access to `folder` determines the folder.

    Parameters
    ----------
    root
        The package's folder.
    package
        The package's import name.

    Attributes
    ----------
    n_unkept
        Number of times that code could not be written, or that numba's interface for stored code
        failed.
    """

    def __init__(self, root: Path, package: str) -> None:
        self._package = package
        self._root = root
        self._sources = Sources(root)
        self._looked = False
        self._folder: Path | None = None
        self._warned = False
        # Each function's cache, by its dispatcher's id. The dispatcher is kept alive, because its
        # id must stay unique.
        self._caches: dict[int, tuple[Any, FunctionCache]] = {}
        self.n_unkept = 0
        # The package's environment variables are part of keys, because modules read them at import,
        # and code depends on them.
        prefix = package.upper() + "_"
        variables = sorted(item for item in os.environ.items() if item[0].startswith(prefix))
        self._settings = variables, sys.flags.optimize

    def enable(self, dispatcher: D, links: Any = None, is_linked: bool = False) -> D:
        """Make a function of the package load its compiled code from disk, and store new code.

        `links` handles the other functions that the code calls by name. `links.find` returns the
        names and types of these functions for the pickle. `links.load` compiles or loads these
        functions before the code is loaded. `is_linked` means that other functions call this
        function by name.

        Functions of other packages are not cached, because changes of their sources would go
        unnoticed. A closure is cached only if its free variables are numbers, strings or None. An
        object that is not a dispatcher is returned unchanged, for example if `NUMBA_DISABLE_JIT` is
        set.
        """
        compiled: Any = dispatcher
        function = getattr(compiled, "py_func", None)
        if function and f"{function.__module__}.".startswith(f"{self._package}."):
            try:
                stored = FunctionCache(self, compiled, links, is_linked)
                private.set_cache(compiled, stored)
                self._caches[id(compiled)] = compiled, stored
            # Any exception is caught, because another version of numba may fail in any way.
            except Exception as error:
                self.fail(error)
        return dispatcher

    def load_packaged(self, dispatcher: Any, types: Any) -> Any:
        """Return a function's code from the package, or None if the package has none."""
        _, stored = self._caches.get(id(dispatcher), (None, None))
        return stored and stored.load_packaged(types, _cpu_target.target_context)

    def fail(self, error: BaseException) -> None:
        """Log that code is not stored, because numba has changed."""
        self.n_unkept += 1
        private.give_up("stored code", error)

    @property
    def folder(self) -> Path | None:
        """The folder of the compiled code; None if no folder can be used."""
        if not self._looked:
            self._folder = folders.find(self._package, self._sources.key)
            # The flag is set last, because another thread must not read the folder before it is
            # found.
            self._looked = True
        return self._folder

    @functools.cached_property
    def packaged(self) -> Packaged:
        """The package's own compiled code."""
        known = self._root / packaged.FOLDER / folders.KNOWN
        return Packaged(self._root, self._made_for, self._sources.key_if_known(known))

    @property
    def _made_for(self) -> dict[str, Any]:
        """Return the versions and settings that determine this process's code."""
        variables, optimize = self._settings
        settings = {f"NUMBA_{name}": value for name, value in _numba_settings()}
        return {**sources.VERSIONS, "python -O": optimize, **dict(variables), **settings}

    def pack(self, folder: Path) -> None:
        """Copy the compiled code to a folder, for a wheel."""
        if self.folder is None or self.n_unkept:
            raise OSError("compiled code could not be stored")
        known = self.folder.parent / folders.KNOWN
        for path in (known, *self.folder.glob("*.nbc")):
            shutil.copyfile(path, folder / path.name)
        key = self._sources.key(known)
        packaged.write_index(folder, packaged.own_target(), self._made_for, key)

    def name_of(self, function: FunctionType, options: str, types: Any, target: Any) -> str | None:
        """Return the name of a function's file for types and a target.

        Returns None if the sources have changed, or if the function cannot be cached.
        """
        described = _describe(function) if self._sources.unchanged() else None
        if described is None:
            return None
        made_for = str(types), tuple(target), self._settings, _numba_settings()
        key = hashlib.blake2b(repr((described, options, made_for)).encode(), digest_size=16)
        return f"{self.name(function)}-{key.hexdigest()}.nbc"

    def name(self, function: FunctionType) -> str:
        """Return the prefix of the names of a function's files."""
        name = f"{function.__module__}.{function.__qualname__}"[len(self._package) + 1 :]
        return "".join(c if c.isalnum() or c in "._" else "" for c in name)[:100]

    def write(self, path: Path, content: bytes) -> None:
        """Write code to a file, if possible."""
        try:
            folders.write(path, content)
        except OSError as error:
            # This is no failure: on Windows, another process that reads the finished file blocks a
            # write.
            if os.path.exists(path):
                return
            self.n_unkept += 1
            # A missing folder needs no warning, because a process with newer sources may have
            # removed it.
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
    """The compiled code of one function, with the interface of numba's own cache."""

    def __init__(self, package: CodeCache, dispatcher: Any, links: Any, is_linked: bool) -> None:
        self._package, self._links, self._is_linked = package, links, is_linked
        self._function: FunctionType = dispatcher.py_func
        # The options are part of the key, because options such as `fastmath` change the code.
        self._options = private.options_of(dispatcher)

    @property
    def cache_path(self) -> str | None:
        """The folder of the code, for `Dispatcher.stats`."""
        folder = self._package.folder
        return None if folder is None else str(folder)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the code compiled for a signature, or None if no undamaged file has it."""
        compiled = None
        # A linked function is not loaded from the package here, because only packaged code may call
        # the package's version.
        if not self._is_linked:
            compiled = self.load_packaged(signature, target_context)
        if compiled is None and self._package.folder is not None:
            target = packaged.own_target()
            compiled = self._load(self._package.folder, target, signature, target_context)
        if compiled is None:
            package = self._package
            name = package.name(self._function)
            WATCH.compiles(name, package.folder, package.packaged.unused)
        return compiled

    def load_packaged(self, signature: Any, target_context: Any) -> Any:
        """Return the package's code for a signature, or None if the package has none."""
        target, folder = self._package.packaged.target, self._package.packaged.folder
        return None if target is None else self._load(folder, target, signature, target_context)

    def _load(self, folder: Path, target: Any, signature: Any, target_context: Any) -> Any:
        name = self._package.name_of(self._function, self._options, signature, target)
        if name is None:
            return None
        is_packaged = folder == self._package.packaged.folder
        # A missing or damaged file is no error, because the function is compiled again.
        try:
            read = Path.read_bytes if is_packaged else folders.read
            content = read(folder / name)
            pickled = content[_CHECKSUM_BYTES:]
            if content[:_CHECKSUM_BYTES] != _checksum(pickled):
                return None
        except OSError:
            return None
        try:
            of, symbols, linked, reduced = pickle.loads(pickled)
            if of != signature:
                return None
            with _signals_wait():
                private.ensure_functions(symbols, target_context)
                if self._links is not None:
                    self._links.load(linked, is_packaged)
                return private.rebuilt(reduced, target_context)
        except LookupError:
            # The code is unusable, because a function that it calls by name cannot be loaded.
            return None
        # Any exception is caught, because another version of numba may fail in any way.
        except Exception as error:
            self._package.fail(error)
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Write the code compiled for a signature to a file."""
        folder = self._package.folder
        target = packaged.own_target()
        name = self._package.name_of(self._function, self._options, signature, target)
        if folder is None or name is None:
            return
        try:
            called = private.called_by_name(result)
            # Names without the prefix are C functions.
            symbols = [symbol for symbol in called if not symbol.startswith(PREFIX)]
            linked = None if self._links is None else self._links.find(called)
            content = private.pickled(result, signature, symbols, linked)
        # Any exception is caught, because another version of numba may fail in any way.
        except Exception as error:
            self._package.fail(error)
            return
        if content is not None:
            self._package.write(folder / name, _checksum(content) + content)

    def flush(self) -> None:
        """Remove the function's files, for `Dispatcher.recompile`."""
        if self._package.folder is not None:
            for path in self._package.folder.glob(f"{self._package.name(self._function)}-*.nbc"):
                path.unlink(missing_ok=True)


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """Delay the handlers of signals until the block has ended.

    LLVM gets stored code from a callback, and ignores exceptions of callbacks. If a handler raised
    an exception there, the code would be missing, and a call would crash.
    """
    if threading.current_thread() is not threading.main_thread():
        # Nothing is delayed, because handlers run only in the main thread.
        yield
        return
    waits, waiting = True, []
    handlers: dict[int, Any] = {}

    def handle(number: int, frame: Any) -> None:
        if waits:
            waiting.append((number, frame))
        else:
            handlers[number](number, frame)

    try:
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler
                signal.signal(number, handle)
        yield
    finally:
        # A handler may raise below. `handle` then remains for some signals, and calls their
        # handlers.
        waits = False
        for came, handler in handlers.items():
            signal.signal(came, handler)
        for came, frame in waiting:
            handlers[came](came, frame)


def _checksum(content: bytes) -> bytes:
    """Return a checksum of machine code, because code from a damaged file must not run."""
    return hashlib.blake2b(content, digest_size=_CHECKSUM_BYTES).digest()


def _numba_settings() -> list[tuple[str, str]]:
    """Return numba's current settings, which a program may change."""
    return [
        (name, repr(value))
        for name, value in sorted(vars(_config).items())
        if name.isupper()
        and not name.startswith(_NOT_OF_CODE)
        and isinstance(value, bool | int | float | str | tuple | None)
    ]


def _describe(function: FunctionType) -> list[Any] | None:
    """Return an identifier of a function within the sources; None if its code cannot be cached."""
    closure = [cell.cell_contents for cell in function.__closure__ or ()]
    if not all(isinstance(value, bool | int | float | complex | str | None) for value in closure):
        return None
    code = _read(function.__code__, function.__doc__)
    return [function.__module__, function.__qualname__, code, closure]


def _read(code: CodeType, doc: str | None) -> list[Any]:
    """Return the contents of a code object without line numbers, addresses and the docstring."""
    constants = code.co_consts[1:] if doc is not None else code.co_consts
    read = [_read(c, None) if isinstance(c, CodeType) else c for c in constants]
    return [code.co_code, code.co_names, read]


CACHE = CodeCache(Path(__file__).parent.parent, __name__.rsplit(".", 2)[0])

enable = CACHE.enable
