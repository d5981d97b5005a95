"""Copies of the package at a commit and in the working tree.

The name of a copy is a checksum of its files, and its compiled code is in the same folder. So
numba's cache never contains code of other sources, and a second run compiles nothing. The working
tree may be edited during a comparison.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "river_mondrian"
KEPT = 7 * 24 * 3600.0  # Seconds for which an unused copy is kept.
# Prefixes of variables that change compiled code or the location of the cache.
OURS = ("NUMBA_", "RIVER_MONDRIAN_")

Files = dict[str, bytes]


def of_commit(commit: str) -> Path:
    """Copy the package of a commit; return the folder of the copy."""
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "archive", commit, PACKAGE]
    made = subprocess.run(command, capture_output=True, check=False)
    if made.returncode:
        raise SystemExit(f"no {PACKAGE} of {commit}: {made.stderr.decode().strip()}")
    found: Files = {}
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member)
            if file is not None:
                found[member.name] = file.read()
    return _kept(found)


def of_working_tree() -> Path:
    """Copy the package of the working tree; return the folder of the copy."""
    paths = [path for path in (ROOT / PACKAGE).rglob("*") if path.is_file()]
    return _kept(
        {
            path.relative_to(ROOT).as_posix(): path.read_bytes()
            for path in paths
            if "__pycache__" not in path.parts
        }
    )


def _kept(files: Files) -> Path:
    """Return the folder with these files; write the files if the folder does not exist."""
    checksum = hashlib.sha256()
    for name, content in sorted(files.items()):
        checksum.update(f"{name} {len(content)} ".encode() + content)
    home = _home()
    _forget_old(home)
    folder = home / checksum.hexdigest()[:16]
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=home) as scratch:
            for name, content in files.items():
                path = Path(scratch, "copy", name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            # Another run may have created the folder meanwhile.
            if not folder.exists():
                Path(scratch, "copy").rename(folder)
    os.utime(folder)
    return folder


def _home() -> Path:
    """Return the folder of all copies of this user."""
    user = os.getuid() if hasattr(os, "getuid") else ""
    home = Path(tempfile.gettempdir(), f"{PACKAGE}_versions_{user}")
    home.mkdir(mode=0o700, exist_ok=True)
    if user != "" and home.stat().st_uid != user:
        raise SystemExit(f"{home} belongs to another user")
    return home


def _forget_old(home: Path) -> None:
    for folder in home.iterdir():
        if time.time() - folder.stat().st_mtime > KEPT:
            shutil.rmtree(folder, ignore_errors=True)


def environment(folder: Path, cache: Path | None = None) -> dict[str, str]:
    """Return the environment in which Python imports the package from a copy.

    Linear algebra uses one thread, so the order of sums is fixed. The hash seed is also fixed.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    path = [str(folder), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return kept | {
        "PYTHONPATH": os.pathsep.join(path),
        "NUMBA_CACHE_DIR": str(cache or folder / "numba"),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
    }


def python(*arguments: str) -> list[str]:
    """Return a command of this interpreter that does not import from the current folder."""
    return [sys.executable, "-P", *arguments]
