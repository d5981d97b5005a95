"""Print the minimum versions that pyproject.toml allows, as constraints for pip."""

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
EXTRAS = ("pandas", "plot", "progress", "ray", "service")

requirements = list(PROJECT["dependencies"])
for extra in EXTRAS:
    requirements += PROJECT["optional-dependencies"][extra]
for requirement in requirements:
    found = re.fullmatch(r"([A-Za-z0-9_-]+)(?:\[\w+\])?>=([0-9.]+)", requirement)
    if found is None:
        raise SystemExit(f"{requirement!r} has no minimum version")
    print("{}=={}".format(*found.groups()))
