"""The index page of the benchmarks' tables in `docs/results`."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]


def index() -> str:
    """Return the index page: the tables of each group, with the first sentence of each table."""
    tables = defaultdict(list)
    for path in sorted((ROOT / "docs" / "results").glob("*.md")):
        title, _, text = path.read_text().partition("\n")
        group, _, part = title.removeprefix("# ").partition(": ")
        tables[group].append(f"- [{part}]({path.name}){_first_sentence(text)}")
    lines = [
        "# All tables",
        "",
        "A command makes each table. A table ends with the versions and the machine of its run.",
        "`python -m benchmarks GROUP --data DIR`, in a clone of the repository, runs a group,",
        "with `--only PART` one table. Data sets are `.npz` files in `DIR`. Without `--data`",
        "the benchmarks run on River's own streams.",
    ]
    for group, listed in tables.items():
        lines += ["", f"## {group.replace('_', ' ').capitalize()}", "", _about(group), "", *listed]
    return "\n".join(lines) + "\n"


def _about(group: str) -> str:
    """Return the first line of a group's docstring, and the command that runs the group."""
    folder = ROOT / "benchmarks"
    for module in (folder / f"{group}.py", folder / group / "__init__.py"):
        if module.exists():
            about = ast.get_docstring(ast.parse(module.read_text())) or ""
            return f"{about.partition(chr(10))[0]} `python -m benchmarks {group}`"
    return ""


def _first_sentence(text: str) -> str:
    """Return the first sentence of a table's page, or nothing if the page begins with a table."""
    said = re.split("[.;] ", text.strip().partition("\n")[0])[0].rstrip(".:").replace("*", r"\*")
    return "" if said.startswith(("|", "#", "!")) else f": {said}"
