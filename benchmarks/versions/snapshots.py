"""Copies of the package at a commit and in the working tree.

The name of a copy is a checksum of its files, and its compiled code is in the same folder. So
numba's cache never contains code of other sources, and a second run compiles nothing. The working
tree may be edited during a comparison.
"""

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "river_mondrian"
COPIES = ROOT / "out" / "versions"
# Prefixes of variables that change compiled code or the location of the cache.
OURS = ("NUMBA_", "RIVER_MONDRIAN_")


def of_commit(commit: str) -> Path:
    """Copy the package of a commit; return the folder of the copy."""
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "archive", commit, PACKAGE]
    made = subprocess.run(command, capture_output=True, check=False)
    if made.returncode:
        raise SystemExit(f"no {PACKAGE} of {commit}: {made.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        return _kept(lambda folder: archive.extractall(folder, filter="data"))


def of_working_tree() -> Path:
    """Copy the package of the working tree; return the folder of the copy."""
    ignored = shutil.ignore_patterns("__pycache__")
    return _kept(lambda folder: shutil.copytree(ROOT / PACKAGE, folder / PACKAGE, ignore=ignored))


def _kept(write: Callable[[Path], object]) -> Path:
    """Write a copy, unless the same copy exists; return its folder."""
    COPIES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=COPIES) as scratch:
        copy = Path(scratch, "copy")
        write(copy)
        checksum = hashlib.sha256()
        for path in sorted(path for path in copy.rglob("*") if path.is_file()):
            content = path.read_bytes()
            checksum.update(f"{path.relative_to(copy)} {len(content)} ".encode() + content)
        folder = COPIES / checksum.hexdigest()[:16]
        if not folder.exists():
            copy.rename(folder)
    return folder


def environment(folder: Path) -> dict[str, str]:
    """Return the environment in which Python imports the package from a copy.

    Linear algebra uses one thread, so the order of sums is fixed. The hash seed is also fixed.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    path = [str(folder), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return kept | {
        "PYTHONPATH": os.pathsep.join(path),
        "NUMBA_CACHE_DIR": str(folder / "numba"),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
    }
