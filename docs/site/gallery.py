"""The gallery: a page for each example, with its output and picture from the build of the site."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "river_mondrian"
BUILT = ROOT / "build" / "gallery"

# The order of the gallery. The service does not run here, because it needs a broker.
EXAMPLES = [
    "quickstart",
    "pictures",
    "surviving_drift",
    "read_a_tree",
    "water_flow",
    "regression_intervals",
    "anomalies",
    "alarms",
    "density",
    "mondrian_kernel",
    "kernel_widths",
    "isolation_kernel",
]
SHOWN = [*EXAMPLES, "service"]


def is_made(made: Path, source: Path) -> bool:
    """Return whether a file is newer than its source and the package."""
    changed = max(path.stat().st_mtime for path in [source, *PACKAGE.rglob("*.py")])
    return made.exists() and made.stat().st_mtime >= changed


def run(example: str) -> str:
    """Return an example's output, which is stored until the example or the package changes."""
    source = ROOT / "examples" / f"{example}.py"
    picture, printed = BUILT / f"{example}.png", BUILT / f"{example}.txt"
    if not is_made(printed, source):
        BUILT.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [sys.executable, source, *_quick(source), "--out", picture.relative_to(ROOT)],
            cwd=ROOT,
            env={**os.environ, "MPLBACKEND": "Agg"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        printed.write_text(done.stdout.replace(f"{BUILT.relative_to(ROOT)}/", ""))
    return printed.read_text()


def page(example: str) -> str:
    """Return the page of an example."""
    source = ROOT / "examples" / f"{example}.py"
    code = source.read_text()
    about, _, more = (ast.get_docstring(ast.parse(code)) or "").partition("\n\n")
    lines = [f"---\ntitle: {_title(example)}\n---\n", f"# {_title(example)}\n", about, ""]
    if example in EXAMPLES:
        command = " ".join(["python", f"examples/{example}.py", *_quick(source)])
        lines += [
            f"![Picture of the example]({example}.png)\n",
            f"`{command}` drew the picture when this page was built, and printed:\n",
            f"```text\n{run(example).rstrip()}\n```\n",
        ]
    else:
        lines += [more, ""]
    lines += ["## Code\n", f'```python title="examples/{example}.py"\n{code.rstrip()}\n```\n']
    return "\n".join(lines)


def index() -> str:
    """Return the gallery's first page, whose pictures are links to the other pages."""
    lines = [
        "# Gallery\n",
        "Each page runs an example of the repository, and shows its output and its picture.\n",
        '<div class="gallery" markdown>\n',
    ]
    lines += [
        f"[![]({example}.png){{ loading=lazy }} {_title(example)}]({example}.md)\n"
        for example in EXAMPLES
    ]
    lines += [
        "</div>\n",
        "One example has no picture: [a service that survives being killed](service.md).",
    ]
    return "\n".join(lines)


def files() -> dict[str, str | bytes]:
    """Return the pages of the gallery and its pictures, by path."""
    made: dict[str, str | bytes] = {"gallery/index.md": index()}
    # The notebooks run meanwhile and begin with the forests, where the gallery ends. So the two
    # processes rarely compile the same function.
    for example in reversed(SHOWN):
        made[f"gallery/{example}.md"] = page(example)
    for example in EXAMPLES:
        made[f"gallery/{example}.png"] = (BUILT / f"{example}.png").read_bytes()
    return made


def nav() -> list[str]:
    """Return the part of the navigation that lists the gallery."""
    return ["gallery/index.md", *(f"gallery/{example}.md" for example in SHOWN)]


def _title(example: str) -> str:
    return example.replace("_", " ").capitalize()


def _quick(source: Path) -> list[str]:
    return ["--quick"] if '"--quick"' in source.read_text() else []
