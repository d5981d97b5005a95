"""The package's own compiled code, if its wheel is built with code (`hatch_build.py`).

The code is compiled for the oldest supported processor of an architecture (`BASELINES`). The file
`index.json` beside the code has the key of the sources, and the versions, settings and processor
of the compilation. If a process does not match this index, the package's code is not used.
"""

import functools
import json
import platform
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba

_config: Any = numba.config

FOLDER = "compiled"
INDEX = "index.json"

# The oldest supported processors, and the features that other processors need to run their code.
BASELINES: dict[str, tuple[str, tuple[str, ...]]] = {
    "x86_64": ("nehalem", ("cx16", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3")),
    "aarch64": ("generic", ("neon",)),
}


@functools.cache
def own_target() -> tuple[str, str, str, bool]:
    """Return numba's target processor in this process, a part of keys."""
    features = _config.CPU_FEATURES
    if features is None:
        features = llvm.get_host_cpu_features().flatten()
    name = _config.CPU_NAME or llvm.get_host_cpu_name()
    return llvm.get_process_triple(), name, features, bool(_config.ENABLE_AVX)


class Packaged:
    """The compiled code in a package's folder.

    Attributes
    ----------
    target
        The code's processor (`own_target`), or None if the code is not used.
    unused
        The reason why existing code is not used; empty if the code is used or does not exist.

    """

    def __init__(self, root: Path, made_for: dict[str, Any], key: str | None) -> None:
        self.folder = root / FOLDER
        self.target: tuple[Any, ...] | None = None
        self.unused = ""
        try:
            index = json.loads((self.folder / INDEX).read_bytes())
            self.unused = _difference(index, made_for, key)
            if not self.unused:
                self.target = tuple(index["target"])
        except FileNotFoundError:
            # This is no error, because the package may come without compiled code.
            return
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            self.unused = f"its {INDEX} cannot be read ({error!r})"


def _difference(index: dict[str, Any], made_for: dict[str, Any], key: str | None) -> str:
    """Return the reason why packaged code cannot be used, or an empty string."""
    for name, ours in made_for.items():
        theirs = index["made_for"][name]
        if json.loads(json.dumps(ours)) != theirs:
            return f"it was made for {name} {theirs}, and this is {ours}"
    if key != index["key"]:
        return "sources have changed"
    if index["target"][0] != llvm.get_process_triple():
        return f"it was made for {index['target'][0]}"
    ours = llvm.get_host_cpu_features()
    missing = sorted(name for name in index["needs"] if not ours.get(name))
    return f"this processor lacks {', '.join(missing)}" if missing else ""


def write_index(folder: Path, target: tuple[Any, ...], made_for: dict[str, Any], key: str) -> None:
    """Write the index of the code in a folder."""
    needs = BASELINES[platform.machine()][1]
    index = {"made_for": made_for, "key": key, "target": target, "needs": needs}
    (folder / INDEX).write_text(json.dumps(index, indent=1))
