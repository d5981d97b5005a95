"""Put compiled code into a wheel if `RIVER_MONDRIAN_COMPILED=1` is set during the build."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WANTED = os.environ.get("RIVER_MONDRIAN_COMPILED") == "1"


class CompiledCode(BuildHookInterface[Any]):
    """Build hook that compiles all classes at their defaults for the oldest supported processor."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return the dependencies of compiling: the package's dependencies, with a fixed numba."""
        if not WANTED:
            return []
        project = tomllib.loads((Path(self.root) / "pyproject.toml").read_text())["project"]
        return [*project["dependencies"], *project["optional-dependencies"]["compiled"]]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernels, and add the code to the wheel."""
        if not WANTED or version == "editable":
            return
        sys.path.insert(0, self.root)
        from river_mondrian.compiling.packaged import BASELINES

        self.scratch = Path(tempfile.mkdtemp())
        code = self.scratch / "code"
        code.mkdir()
        ours = ("NUMBA_", "RIVER_MONDRIAN_", "PYTHON")
        environ = {name: v for name, v in os.environ.items() if not name.startswith(ours)} | {
            "PYTHONPATH": os.pathsep.join([self.root, os.environ.get("PYTHONPATH", "")]),
            "NUMBA_CACHE_DIR": str(self.scratch / "cache"),
            "NUMBA_CPU_NAME": BASELINES[platform.machine()][0],
            "NUMBA_CPU_FEATURES": "",
        }
        module = "river_mondrian.compiling"
        command = [sys.executable, "-m", module, str(code), str(os.cpu_count() or 1)]
        subprocess.run(command, env=environ, cwd=self.scratch, check=True)
        build_data["force_include"][str(code)] = "river_mondrian/compiled"
        build_data["pure_python"] = False
        # The wheel gets the platform tag of the numba for which it is compiled.
        wheel = importlib.metadata.distribution("numba").read_text("WHEEL") or ""
        tags = [line.split()[1] for line in wheel.splitlines() if line.startswith("Tag:")]
        build_data["tag"] = tags[0]

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder with the compiled code."""
        if hasattr(self, "scratch"):
            shutil.rmtree(self.scratch)
