"""Where compiled code is kept: a folder for each digest of the sources, and how old ones go."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import time
import uuid
import warnings
from pathlib import Path
from typing import Any

import numba

_config: Any = numba.config

# Installations other than this one may keep their code so long without using it,
UNUSED_DAYS = 30

# and so many folders may they have in all.
MOST_OTHERS = 8

# A folder without a marker belongs to a process that is about to write it, or was stopped before.
_SECONDS_TO_MARK = 3600

# Only what has such a name is removed: a digest, with a suffix once it is being removed.
_OURS = re.compile(r"[0-9a-f]{32}(\.[0-9a-f]{32})?")

_MARKER = ".used"

_ATTEMPTS = 10


def find(package: str, root: Path, digest: str) -> Path | None:
    """Return the folder of a package's compiled code, None where there is nowhere to keep it.

    The folder is made if it is not there, and so are folders above it, but for the user's home.
    Where it is new, those are removed that it makes obsolete. A folder that is there, but cannot
    be written, is good enough: an image of a container may come with one.

    Parameters
    ----------
    package
        The package's name.
    root
        The package's folder, which tells an installation from others.
    digest
        What the code is made from.

    Warns
    -----
    RuntimeWarning
        If a folder that comes first cannot be used.
    """
    if not digest:
        _warn(package, "Its sources are not found, so their changes would not be seen.", None)
        return None
    problems = []
    for name, base in _bases():
        if base is None:
            problems.append(f"{name} (not found)")
            continue
        folder = base / f"{package}-compiled" / digest
        try:
            _mark(folder, root)
        except OSError as error:
            if not any(_markers(folder)):
                problems.append(f"{name}, {base} ({error.strerror or error})")
                continue
        if problems:
            _warn(package, f"Not usable: {'; '.join(problems)}.", folder)
        return folder
    _warn(package, f"Not usable: {'; '.join(problems)}.", None)
    return None


def write(path: Path, content: bytes) -> None:
    """Write a file so that others see all of it or nothing.

    Raises
    ------
    OSError
        If that fails. FileNotFoundError means that the folder is gone.
    """
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _warn(package: str, problem: str, folder: Path | None) -> None:
    if folder is None:
        outcome = "is not kept, and every process compiles anew"
    else:
        outcome = f"is kept in {folder}"
    warnings.warn(
        f"{package}: compiled code {outcome}. {problem} "
        "Set NUMBA_CACHE_DIR to a folder that can be written.",
        RuntimeWarning,
        stacklevel=2,
    )


def _bases() -> list[tuple[str, Path | None]]:
    """Return the folders to keep code below, best first, each with what it is called."""
    found: list[tuple[str, Path | None]] = []
    if _config.CACHE_DIR:
        found.append(("NUMBA_CACHE_DIR", Path(_config.CACHE_DIR).absolute()))
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA", "")
        if os.path.isabs(local):
            return [*found, ("LOCALAPPDATA", Path(local))]
        in_home = "AppData/Local"
    elif sys.platform == "darwin":
        in_home = "Library/Caches"
    else:
        xdg = os.environ.get("XDG_CACHE_HOME", "")
        # The standard says to ignore a relative one.
        if os.path.isabs(xdg):
            found.append(("XDG_CACHE_HOME", Path(xdg)))
        in_home = ".cache"
    home = os.path.expanduser("~")
    # A home that is not there is not made: who has none has it so for a reason.
    is_there = os.path.isabs(home) and os.path.isdir(home)
    return [*found, (f"~/{in_home}", Path(home, in_home) if is_there else None)]


def _mark(folder: Path, root: Path) -> None:
    """Make a folder, and note in it that an installation uses it now."""
    location = os.path.realpath(root)
    who = "\n".join([location, sys.prefix, str(sys.implementation.cache_tag)])
    marker = folder / (hashlib.blake2b(who.encode(), digest_size=8).hexdigest() + _MARKER)
    is_new = not marker.exists()
    for attempt in range(_ATTEMPTS):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write(marker, who.encode())
            break
        except (FileExistsError, FileNotFoundError):
            # Another process has removed the folder in between.
            if attempt == _ATTEMPTS - 1:
                raise
    if is_new:
        _remove_obsolete(folder, marker.name)


def _markers(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.name.endswith(_MARKER)]
    except OSError:
        return []


def _remove_obsolete(folder: Path, marker: str) -> None:
    """Remove other digests' folders that nobody needs: this installation's, and unused ones."""
    now = time.time()
    kept = []
    for other in _listed(folder.parent):
        if other == folder or not _OURS.fullmatch(other.name):
            continue
        try:
            if "." in other.name:
                # A process was stopped as it removed this one.
                shutil.rmtree(other, ignore_errors=True)
                continue
            changed = other.stat().st_mtime
            markers = _markers(other)
            used = [path.stat().st_mtime for path in markers if path.name != marker]
            if used and len(used) < len(markers):
                (other / marker).unlink()
        except OSError:
            # It is being removed by another process, or belongs to another user.
            continue
        if used and now - max(used) < UNUSED_DAYS * 86400:
            kept.append((max(used), other))
        elif markers or now - changed > _SECONDS_TO_MARK:
            _remove(other)
    for _, other in sorted(kept, reverse=True)[MOST_OTHERS:]:
        _remove(other)


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _remove(folder: Path) -> None:
    """Remove a folder at once for those who look it up by name."""
    removed = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}")
    try:
        folder.rename(removed)
    except OSError:
        return
    shutil.rmtree(removed, ignore_errors=True)
