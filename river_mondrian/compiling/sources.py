"""What compiled code was made from: the sources of a package, as one digest."""

from __future__ import annotations

import hashlib
import importlib.machinery
import os
from pathlib import Path

import llvmlite
import numba
import numpy as np

# Sources, modules that come as bytecode only, and extensions.
_SUFFIXES = tuple(importlib.machinery.all_suffixes())


class Sources:
    """The sources of a package, as they are when this is made.

    Modules that are imported later may come from other sources. So there is no telling what a
    process runs whose sources change during its life, and `unchanged` says no from then on.

    Parameters
    ----------
    root
        The package's folder. It may lie in an archive from which Python imports.

    Attributes
    ----------
    digest
        Hexadecimal digest of all files' names and contents, and of the versions of what compiles
        them. Empty where there are no sources, as in an executable that contains its modules.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._is_changed = False
        # A change while the files are read shows as a change later.
        self._seen = _look_at(root)
        digest = hashlib.blake2b(digest_size=16)
        for version in (numba.__version__, llvmlite.__version__, np.__version__):
            digest.update(version.encode() + b"\0")
        try:
            for path, *_ in self._seen:
                with open(path, "rb", buffering=0) as file:
                    content = file.read()
                name = os.path.relpath(path, root).replace(os.sep, "/")
                digest.update(f"{name}\0{len(content)}\0".encode() + content)
            self.digest = digest.hexdigest() if self._seen else ""
        except OSError:
            self.digest = ""

    def unchanged(self) -> bool:
        """Tell whether no file has been touched, added or removed."""
        self._is_changed = self._is_changed or _look_at(self._root) != self._seen
        return not self._is_changed


def _look_at(root: Path) -> list[tuple[str, int, int, int, int]]:
    """Return each source's path, and what of its status changes when its content does."""
    seen = []
    for path in _paths(root):
        try:
            status = os.stat(path)
        except OSError:
            # Reading it fails as well, and there will be no digest.
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
