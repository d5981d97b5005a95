"""Create a folder of compiled code for each key of the sources, and remove old folders."""

import contextlib
import os
import re
import shutil
import sys
import time
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

_config: Any = numba.config

# When a new folder is created, folders that no process has used for this many days are removed.
UNUSED_DAYS = 30

# When a new folder is created, at most this number of the most recently used other folders is kept.
MOST_OTHERS = 8

# Name of the file with the digests of sources and of their bytecode.
KNOWN = f"syntax-{sys.implementation.cache_tag}"

# Folders are removed only if their names match this form of a key, because others may be the
# user's.
_KEY = re.compile(r"[0-9a-f]{32}")


def find(package: str, key_of: Callable[[Path], str]) -> Path | None:
    """Return the folder of a package's compiled code, or None if no folder can be used.

    `key_of` returns the key of the package's sources (`Sources.key`).

    Missing folders are created, except for the user's home. If the returned folder is new, old
    folders are removed. An existing folder may be read-only, as in a container image.

    Warns
    -----
    RuntimeWarning
        If a preferred folder cannot be used, or the sources are not found.
    """
    problems = []
    for name, base in _bases():
        if base is None:
            problems.append(f"{name} (not found)")
            continue
        base = base / f"{package}-compiled"
        key = key_of(base / KNOWN)
        if not key:
            _warn(package, "Its sources are not found, so their changes would not be seen.", None)
            return None
        try:
            use(base / key)
        except OSError as error:
            if not (base / key).is_dir():
                problems.append(f"{name}, {base.parent} ({error.strerror or error})")
                continue
        if not _is_trusted(os.stat(base / key), base / key):
            problems.append(f"{name}, {base.parent} (belongs to another user)")
            continue
        if problems:
            _warn(package, f"Not usable: {'; '.join(problems)}.", base / key)
        return base / key
    _warn(package, f"Not usable: {'; '.join(problems)}.", None)
    return None


def read(path: Path) -> bytes:
    """Return the content of a file of compiled code.

    Raises
    ------
    PermissionError
        If the file belongs to another user, who could have written malicious code.
    OSError
        If the file cannot be read.
    """
    with open(path, "rb") as file:
        # The open file is checked instead of the path, because another file may now have this path.
        if not _is_trusted(os.fstat(file.fileno()), path.parent):
            raise PermissionError(f"{path} belongs to another user")
        return file.read()


def _is_trusted(status: os.stat_result, folder: Path) -> bool:
    """Return whether this user owns a file, or `folder` is read-only and in NUMBA_CACHE_DIR."""
    # On Windows, which has no user ids, files are trusted, because other users cannot access a
    # user's profile.
    if not hasattr(os, "geteuid") or status.st_uid == os.geteuid():
        return True
    named = _config.CACHE_DIR and Path(_config.CACHE_DIR).absolute() in folder.parents
    return bool(named) and not os.access(folder, os.W_OK)


def make(folder: Path) -> None:
    """Create a folder that other users cannot access, and its parents.

    Raises
    ------
    OSError
        If a folder cannot be created.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def write(path: Path, content: bytes) -> None:
    """Write a file that other users cannot read; other processes never see a part of the file.

    Raises
    ------
    OSError
        If writing fails. FileNotFoundError means that the folder does not exist.
    """
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        with open(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(content)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _warn(package: str, problem: str, folder: Path | None) -> None:
    if folder is None:
        outcome = "is not kept, and every process compiles again"
    else:
        outcome = f"is kept in {folder}"
    warnings.warn(
        f"{package}: compiled code {outcome}. {problem} "
        "Set NUMBA_CACHE_DIR to a folder that can be written.",
        RuntimeWarning,
        stacklevel=2,
    )


def _bases() -> list[tuple[str, Path | None]]:
    """Return names and paths of possible parents of the code's folder, in order of preference."""
    bases: list[tuple[str, Path | None]] = []
    if _config.CACHE_DIR:
        bases.append(("NUMBA_CACHE_DIR", Path(_config.CACHE_DIR).absolute()))
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA", "")
        if os.path.isabs(local):
            return [*bases, ("LOCALAPPDATA", Path(local))]
        in_home = "AppData/Local"
    elif sys.platform == "darwin":
        in_home = "Library/Caches"
    else:
        xdg = os.environ.get("XDG_CACHE_HOME", "")
        # A relative path is ignored, as the XDG standard requires.
        if os.path.isabs(xdg):
            bases.append(("XDG_CACHE_HOME", Path(xdg)))
        in_home = ".cache"
    home = os.path.expanduser("~")
    # A missing home folder is not created, because its absence may be intended.
    is_there = os.path.isabs(home) and os.path.isdir(home)
    return [*bases, (f"~/{in_home}", Path(home, in_home) if is_there else None)]


def use(folder: Path) -> None:
    """Create a folder and remove old folders, or set the time of last use of an existing folder.

    Raises
    ------
    OSError
        If the folder cannot be created, or its time cannot be set.
    """
    is_new = not folder.is_dir()
    make(folder.parent)
    make(folder)
    # A missing folder is no error: another process has removed it, and this process stores no code.
    with contextlib.suppress(FileNotFoundError):
        os.utime(folder)
    if is_new:
        _remove_old(folder)


def _remove_old(folder: Path) -> None:
    """Remove siblings unused for `UNUSED_DAYS`, and all but the `MOST_OTHERS` used last."""
    used = []
    for sibling in folder.parent.iterdir():
        # Errors are suppressed, because another process may remove the folder first.
        with contextlib.suppress(OSError):
            if sibling != folder and _KEY.fullmatch(sibling.name):
                used.append((sibling.stat().st_mtime, sibling))
    used.sort(reverse=True)
    oldest = time.time() - UNUSED_DAYS * 86400
    for number, (at, sibling) in enumerate(used):
        if number >= MOST_OTHERS or at < oldest:
            shutil.rmtree(sibling, ignore_errors=True)
