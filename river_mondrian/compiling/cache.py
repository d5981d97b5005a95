"""Compiled code on disk, which always matches the sources.

Numba's own cache checks only the file that defines a kernel, not the files of the kernel's
constants and helpers. If two processes write numba's index at once, the index may name another
function's code. In this package, each compiled function has a separate file, in a folder for the
key of all sources (`Sources.key`). The file's name contains a digest of the function, the types,
the processor and the settings (`CodeCache.name_of`).

Code that comes with the package (`packaged`) is used first, then code in the user's folder.
Functions that call each other by name are loaded from the same folder.
"""

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

# Modules and functions of numba that have no annotations.
_config: Any = numba.config
_nrt: Any = nrt
_cpu_target: Any = cpu_target
_dumps: Any = serialize.dumps
_CompileResult: Any = compiler.CompileResult

# Settings of numba that are not part of a key, because they do not change code.
_NOT_OF_CODE = (
    *("CACHE_", "COLOR_SCHEME", "CUDA_", "DEBUG_CACHE", "GDB_", "NUMBA_DEFAULT_NUM_THREADS"),
    *("NUMBA_NUM_THREADS", "RUNNING_UNDER_PROFILER", "THREADING_", "_HAVE_YAML"),
    # These settings are in the target's name and features.
    *("CPU_", "ENABLE_AVX"),
)

_CHECKSUM_BYTES = 16

# Prefix of the names by which code calls separate functions (see `kernels.separate`).
SEPARATE = "river_mondrian:"


class CodeCache:
    """The compiled code of a package.

    The sources are read when this object is created, before the modules that define functions are
    imported. The folder is determined when the first function is called.

    Parameters
    ----------
    root
        The package's folder.
    package
        The package's import name.

    Attributes
    ----------
    n_unkept
        Number of compiled functions whose code could not be stored.
    """

    def __init__(self, root: Path, package: str) -> None:
        self._package = package
        self._root = root
        self._sources = Sources(root)
        self._looked = False
        self._folder: Path | None = None
        self._warned = False
        self.n_unkept = 0
        # Modules read the package's environment variables at import, so code depends on these
        # variables.
        prefix = package.upper() + "_"
        own = sorted(item for item in os.environ.items() if item[0].startswith(prefix))
        self._settings = own, sys.flags.optimize

    def enable(self, dispatcher: D, links: Any = None, is_separate: bool = False) -> D:
        """Make a function of the package load its compiled code from disk, and store new code.

        `links` handles the other functions that the code calls by name. `links.find` returns the
        names and types of these functions; the names and types are pickled. `links.load` compiles
        or loads these functions before the code is loaded. `is_separate` means that other functions
        call this function by name.

        Functions of other packages are not cached, because changes of their sources would not be
        noticed. Closures over values other than numbers and text are not cached either. An object
        that is not a dispatcher is returned unchanged, for example if `NUMBA_DISABLE_JIT` is set.
        """
        if isinstance(dispatcher, Dispatcher):
            compiled: Any = dispatcher
            if f"{compiled.py_func.__module__}.".startswith(f"{self._package}."):
                compiled._cache = FunctionCache(self, compiled, links, is_separate)
        return dispatcher

    @property
    def folder(self) -> Path | None:
        """The folder of the compiled code; None if no folder can be used."""
        if not self._looked:
            self._folder = folders.find(self._package, self._sources.key)
            # Set last, because other threads may read the property before the folder is found.
            self._looked = True
        return self._folder

    @functools.cached_property
    def packaged(self) -> Packaged:
        """The compiled code that comes with the package."""
        known = self._root / packaged.FOLDER / folders.KNOWN
        return Packaged(self._root, self._made_for, self._sources.key_if_known(known))

    @property
    def _made_for(self) -> dict[str, Any]:
        """Return the versions and settings for which this process compiles code."""
        own, optimize = self._settings
        settings = {f"NUMBA_{name}": value for name, value in _numba_settings()}
        return {**sources.VERSIONS, "python -O": optimize, **dict(own), **settings}

    def pack(self, folder: Path) -> None:
        """Copy the compiled code to a folder, for a wheel."""
        if self.folder is None or self.n_unkept:
            raise OSError("compiled code could not be stored")
        known = self.folder.parent / folders.KNOWN
        for path in (known, *self.folder.glob("*.nbc")):
            shutil.copyfile(path, folder / path.name)
        key = self._sources.key(known)
        target = _cpu_target.target_context.codegen().magic_tuple()
        packaged.write_index(folder, target, self._made_for, key)

    def name_of(self, function: FunctionType, options: str, types: Any, target: Any) -> str | None:
        """Return the name of a function's file for types and a target; None if no file is used."""
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
            # Another process has written the file and reads it, which blocks a write on Windows.
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
    """The compiled code of one function, with the interface of numba's own cache."""

    def __init__(self, package: CodeCache, dispatcher: Any, links: Any, is_separate: bool) -> None:
        self._package, self._links, self._is_separate = package, links, is_separate
        self._function: FunctionType = dispatcher.py_func
        # A function may have two dispatchers, one of them with exact sums.
        self._options = repr(
            sorted(
                (name, sorted(value) if isinstance(value, set) else value)
                for name, value in dispatcher.targetoptions.items()
            )
        )

    @property
    def cache_path(self) -> str | None:
        """The folder of the code, for `Dispatcher.stats`."""
        folder = self._package.folder
        return None if folder is None else str(folder)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the code compiled for a signature; None if no sound file has it."""
        found = None
        # A separate function is loaded from the package only for packaged code that calls it.
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
        """Return the package's code for a signature; None if the package has none."""
        target, folder = self._package.packaged.target, self._package.packaged.folder
        return None if target is None else self._load(folder, target, signature, target_context)

    def _load(self, folder: Path, target: Any, signature: Any, target_context: Any) -> Any:
        name = self._package.name_of(self._function, self._options, signature, target)
        if name is None:
            return None
        is_packaged = folder == self._package.packaged.folder
        # If anything is wrong with a file, the function is compiled again.
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
        """Write the code compiled for a signature to a file."""
        # Code with dynamic globals has addresses that are valid in this process only.
        if result.library.has_dynamic_globals or any(not loop.can_cache for loop in result.lifted):
            return
        folder = self._package.folder
        target = result.codegen.magic_tuple()
        name = self._package.name_of(self._function, self._options, signature, target)
        if folder is not None and name is not None:
            linked = None if self._links is None else self._links.find(result)
            # The C functions that the code calls.
            symbols = [
                function.name
                for function in result.library._final_module.functions
                if function.is_declaration and not function.name.startswith(("llvm.", SEPARATE))
            ]
            pickled = _dumps((signature, symbols, linked, result._reduce()))
            self._package.write(folder / name, _checksum(pickled) + pickled)

    def flush(self) -> None:
        """Remove the function's files, for `Dispatcher.recompile`."""
        if self._package.folder is not None:
            for path in self._package.folder.glob(f"{self._package.name(self._function)}-*.nbc"):
                path.unlink(missing_ok=True)


def _ensure_symbols(symbols: list[str], target_context: Any) -> None:
    """Make numba provide the C functions that code calls; LLVM aborts if a function is missing.

    Usually the functions exist already. Providing all of numba's functions takes a fifth of a
    second.

    Raises
    ------
    LookupError
        If a function does not exist, for example in code from another build of numba.
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
    """Return a description that identifies a function within the sources; None if there is none."""
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
