"""The sources of compiled code, and their key."""

import contextlib
import dis
import hashlib
import importlib.machinery
import marshal
import os
from collections.abc import Callable
from pathlib import Path
from types import CodeType

import llvmlite
import numba
import numpy as np

from . import folders

# Suffixes of sources, of bytecode files and of extensions.
_SUFFIXES = tuple(importlib.machinery.all_suffixes())

# An extension's suffix names Python's ABI, and a major version is enough for NumPy's ABI.
VERSIONS = {
    "Python": importlib.machinery.EXTENSION_SUFFIXES[0],
    "numba": numba.__version__,
    "llvmlite": llvmlite.__version__,
    "NumPy": np.__version__.partition(".")[0],
}

_DIGEST_BYTES = 16


class Sources:
    """The sources of a package at the creation of this object.

    Later imports may come from changed sources. So once `unchanged` has returned False, it always
    returns False.

    Parameters
    ----------
    root
        The package's folder, or its path in an archive that Python imports.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._is_changed = False
        # Set before the files are read, because a change during the reading must be noticed later.
        self._seen = _look_at(root)
        # The dict is empty if a file cannot be read, or if there are no files, as in an executable.
        self._contents: dict[str, bytes] = {}
        with contextlib.suppress(OSError):
            self._contents = {path: Path(path).read_bytes() for path, *_ in self._seen}
        self._key: str | None = None

    def key(self, known: Path) -> str:
        """Return the key of all code from these sources, in hexadecimal.

        The key is a digest of the files' names, of their bytecode without docstrings (or the
        content of extensions), and of the versions of numba, llvmlite, and Python's and NumPy's
        ABI. The key is empty if there are no sources.

        Parameters
        ----------
        known
            File that stores the digest of each source and of its bytecode, because compiling the
            package to bytecode takes half a second. The file is written if a source is new.
        """
        if self._key is None:
            self._set_key(_read_pairs(folders.read, known), known)
        return self._key or ""

    def key_if_known(self, known: Path) -> str | None:
        """Return the key if the file `known` has the digests of all sources, otherwise None."""
        if self._key is None:
            self._set_key(_read_pairs(Path.read_bytes, known), None)
        return self._key

    def _set_key(self, meanings: dict[bytes, bytes], known: Path | None) -> None:
        """Set the key from known digests, and compile new sources unless `known` is None."""
        # The attribute is read once, because another thread may set the key and replace it.
        contents = self._contents
        if not contents:
            self._key = self._key or ""
            return
        n_known = len(meanings)
        key = hashlib.blake2b("\0".join(VERSIONS.values()).encode(), digest_size=_DIGEST_BYTES)
        pairs = b""
        for path, content in contents.items():
            digest = _digest(content)
            if digest not in meanings:
                if known is None:
                    return
                meanings[digest] = _digest(_meaning(content)) if path.endswith(".py") else digest
            pairs += digest + meanings[digest]
            name = os.path.relpath(path, self._root).replace(os.sep, "/")
            key.update(f"\0{name}\0".encode() + meanings[digest])
        if known is not None and len(meanings) > n_known:
            with contextlib.suppress(OSError):
                folders.make(known.parent)
                folders.write(known, pairs)
        self._key = key.hexdigest()
        self._contents = {}

    def unchanged(self) -> bool:
        """Return whether no file has been touched, added or removed."""
        self._is_changed = self._is_changed or _look_at(self._root) != self._seen
        return not self._is_changed


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


def _read_pairs(read: Callable[[Path], bytes], path: Path) -> dict[bytes, bytes]:
    """Return the digests of bytecode in a file by the digests of sources."""
    try:
        content = read(path)
    except OSError:
        return {}
    n = _DIGEST_BYTES
    whole = range(0, len(content) - 2 * n + 1, 2 * n)
    return {content[i : i + n]: content[i + n : i + 2 * n] for i in whole}


def _meaning(source: bytes) -> bytes:
    """Return a source's bytecode without docstrings and line numbers.

    The bytecode also lacks assertions, which kernels do not have. A source that cannot be compiled
    is returned unchanged.
    """
    try:
        code = compile(source, "", "exec", dont_inherit=True, optimize=2)
    except (SyntaxError, ValueError, RecursionError):
        return source
    # Version 2 of the marshal format is used, because it writes equal code as equal bytes.
    return marshal.dumps(_without_lines(code), 2)


def _without_lines(code: CodeType) -> CodeType:
    constants = (_without_lines(c) if isinstance(c, CodeType) else c for c in code.co_consts)
    # NOP instructions are removed, because a docstring leaves one for its line.
    pairs = np.frombuffer(code.co_code, np.uint8).reshape(-1, 2)
    return code.replace(
        co_code=pairs[pairs[:, 0] != dis.opmap["NOP"]].tobytes(),
        co_firstlineno=1,
        co_linetable=b"",
        co_consts=tuple(constants),
    )


def _look_at(root: Path) -> list[tuple[str, int, int, int, int]]:
    """Return each source's path, and the fields of its file status that change with its content."""
    seen = []
    for path in _paths(root):
        try:
            status = os.stat(path)
        except OSError:
            # The values do not matter: reading the file fails as well, so there is no key.
            seen.append((path, 0, 0, 0, 0))
            continue
        changed = status.st_mtime_ns, status.st_ctime_ns
        seen.append((path, *changed, status.st_size, status.st_ino))
    return seen


def _paths(root: Path) -> list[str]:
    """Return the paths of all files that Python may import from a folder, in a fixed order.

    If the folder is in an archive, return the path of the archive.
    """
    if not os.path.isdir(root):
        return [str(archive) for archive in root.parents if os.path.isfile(archive)][:1]
    paths = []
    for folder, below, names in os.walk(root):
        # Other names are skipped, because editors' lock files and notebooks' checkpoints cannot be
        # imported.
        below[:] = [name for name in below if name.isidentifier() and name != "__pycache__"]
        paths += [
            os.path.join(folder, name)
            for name in names
            if name.endswith(_SUFFIXES) and name.partition(".")[0].isidentifier()
        ]
    return sorted(paths)
