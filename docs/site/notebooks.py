"""The notebooks: a page for each, with the output of its cells from the build of the site."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "notebooks"
BUILT = ROOT / "build" / "notebooks"

# The order of the index of notebooks.
NOTEBOOKS = re.findall(r"\]\((\w+)\.ipynb\)", (FOLDER / "index.md").read_text())


def sources() -> list[Path]:
    """Return the paths of the notebooks."""
    return [FOLDER / f"{name}.ipynb" for name in NOTEBOOKS]


def made_of(source: Path) -> Path:
    """Return the path of a notebook with its outputs."""
    return BUILT / source.name


def files(name: str) -> dict[str, str | bytes]:
    """Return the page of a notebook and its pictures, by path."""
    lines: list[str] = []
    made: dict[str, str | bytes] = {}
    ran = nbformat.read(BUILT / f"{name}.ipynb", as_version=4)
    for cell in ran.cells:
        if cell.cell_type == "markdown":
            lines += [cell.source, ""]
            continue
        lines += [f"```python\n{cell.source}\n```\n"]
        for output in cell.outputs:
            if output.output_type == "stream" and output.name == "stderr":
                continue  # The messages name a folder of this machine.
            if output.output_type == "stream":
                lines += [f"```text\n{output.text.rstrip()}\n```\n"]
            elif "image/png" in output.data:
                picture = f"{name}_{len(made) + 1}.png"
                made[f"notebooks/{picture}"] = base64.b64decode(output.data["image/png"])
                lines += [f"![Output of the cell]({picture})\n"]
            else:
                lines += [f"```text\n{output.data['text/plain']}\n```\n"]
    title, _, rest = "\n".join(lines).partition("\n")
    about = f"[The notebook]({name}.ipynb) ran when this page was built."
    return {f"notebooks/{name}.md": f"{title}\n\n{about}\n{rest}", **made}


def nav() -> list[str]:
    """Return the part of the navigation that lists the notebooks."""
    return ["notebooks/index.md", *(f"notebooks/{name}.md" for name in NOTEBOOKS)]
