"""The sources from which code is compiled, and their key."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.machinery
import os
from pathlib import Path

import llvmlite
import numba
import numpy as np

from .folders import write

# Sources, modules that come as bytecode only, and extensions.
_SUFFIXES = tuple(importlib.machinery.all_suffixes())

# The name of an extension names Python's ABI. NumPy's changes with its first number only.
_VERSIONS = (
    importlib.machinery.EXTENSION_SUFFIXES[0],
    numba.__version__,
    llvmlite.__version__,
    np.__version__.partition(".")[0],
)

_DIGEST_BYTES = 16


class Sources:
    """The sources of a package, as they are when this is made.

    Modules that are imported later may come from other sources. So `unchanged` is false once a
    source has changed, and stays false.

    Parameters
    ----------
    root
        The package's folder. It may lie in an archive from which Python imports.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._is_changed = False
        # A change while the files are read shows as a change later.
        self._seen = _look_at(root)
        # Empty where a file cannot be read, or there are none, as in an executable.
        self._contents: dict[str, bytes] = {}
        with contextlib.suppress(OSError):
            self._contents = {path: Path(path).read_bytes() for path, *_ in self._seen}
        self._key: str | None = None

    def key(self, known: Path) -> str:
        """Return the key of all code that is compiled from these sources, in hexadecimal.

        It is a digest of the files' names and syntax trees without docstrings, and of the versions
        of Python's ABI, numba, llvmlite and NumPy's ABI. It is empty where there are no sources.

        Parameters
        ----------
        known
            A file that keeps the digests of syntax trees by those of files' contents: to parse a
            package takes half a second. It is written where a source is new.
        """
        contents = self._contents
        # Another thread may have set it, and let the contents go.
        if self._key is None:
            self._key = self._key_of(contents, known)
            self._contents = {}
        return self._key

    def _key_of(self, contents: dict[str, bytes], known: Path) -> str:
        if not contents:
            return ""
        trees = _read_pairs(known)
        n_known = len(trees)
        key = hashlib.blake2b("\0".join(_VERSIONS).encode(), digest_size=_DIGEST_BYTES)
        pairs = b""
        for path, content in contents.items():
            digest = _digest(content)
            if digest not in trees:
                trees[digest] = _digest(_syntax(content)) if path.endswith(".py") else digest
            pairs += digest + trees[digest]
            name = os.path.relpath(path, self._root).replace(os.sep, "/")
            key.update(f"\0{name}\0".encode() + trees[digest])
        if len(trees) > n_known:
            with contextlib.suppress(OSError):
                known.parent.mkdir(parents=True, exist_ok=True)
                write(known, pairs)
        return key.hexdigest()

    def unchanged(self) -> bool:
        """Return whether no file has been touched, added or removed."""
        self._is_changed = self._is_changed or _look_at(self._root) != self._seen
        return not self._is_changed


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


def _read_pairs(path: Path) -> dict[bytes, bytes]:
    """Return the digests of syntax trees by those of sources, as far as a file has them."""
    try:
        content = path.read_bytes()
    except OSError:
        return {}
    n = _DIGEST_BYTES
    whole = range(0, len(content) - 2 * n + 1, 2 * n)
    return {content[i : i + n]: content[i + n : i + 2 * n] for i in whole}


def _syntax(source: bytes) -> bytes:
    """Return a source's syntax tree without docstrings; the source if Python cannot parse it."""
    try:
        tree = ast.parse(source)
        for node in ast.walk(tree):
            documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
                del node.body[0]
        return ast.dump(tree).encode()
    except (SyntaxError, ValueError, RecursionError):
        return source


def _look_at(root: Path) -> list[tuple[str, int, int, int, int]]:
    """Return each source's path, and the fields of its status that change when its content does."""
    seen = []
    for path in _paths(root):
        try:
            status = os.stat(path)
        except OSError:
            # Reading it fails as well, and there will be no key.
            seen.append((path, 0, 0, 0, 0))
            continue
        changed = status.st_mtime_ns, status.st_ctime_ns
        seen.append((path, *changed, status.st_size, status.st_ino))
    return seen


def _paths(root: Path) -> list[str]:
    """Return the paths of all files that Python may import from a folder, in a fixed order."""
    if not os.path.isdir(root):
        return [str(archive) for archive in root.parents if os.path.isfile(archive)][:1]
    found = []
    for folder, folders, names in os.walk(root):
        # Editors' lock files and notebooks' checkpoints cannot be imported.
        folders[:] = [name for name in folders if name.isidentifier() and name != "__pycache__"]
        found += [
            os.path.join(folder, name)
            for name in names
            if name.endswith(_SUFFIXES) and name.partition(".")[0].isidentifier()
        ]
    return sorted(found)
