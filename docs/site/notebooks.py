"""The notebooks: a page for each, with the output of its cells from the build of the site."""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

import gallery

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "docs" / "notebooks"
BUILT = ROOT / "build" / "notebooks"

# The order of the index of notebooks.
NOTEBOOKS = re.findall(r"\]\((\w+)\.ipynb\)", (SOURCES / "index.md").read_text())

# Largest number of seconds for one cell. The first cell may compile kernels.
MOST_SECONDS = 600


def run(name: str) -> Any:
    """Return a notebook with outputs, which are stored until it or the package changes."""
    source, made = SOURCES / f"{name}.ipynb", BUILT / f"{name}.ipynb"
    if not gallery.is_made(made, source):
        BUILT.mkdir(parents=True, exist_ok=True)
        notebook = nbformat.read(source, as_version=4)
        client = NotebookClient(
            notebook, timeout=MOST_SECONDS, kernel_name="python3", coalesce_streams=True
        )
        # IPC sockets avoid open ports.
        client.create_kernel_manager().transport = "ipc"
        # This backend stores pictures in the cells, for any backend of the site's process.
        client.execute(
            cwd=str(ROOT),
            env={**os.environ, "MPLBACKEND": "module://matplotlib_inline.backend_inline"},
        )
        nbformat.write(notebook, made)
    return nbformat.read(made, as_version=4)


def files(name: str) -> dict[str, str | bytes]:
    """Return the page of a notebook and its pictures, by path."""
    lines: list[str] = []
    made: dict[str, str | bytes] = {}
    for cell in run(name).cells:
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
