"""The gallery: a page for each example, with its output and picture from the build of the site."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples"
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


def sources() -> list[Path]:
    """Return the paths of the examples that run."""
    return [FOLDER / f"{example}.py" for example in EXAMPLES]


def command(source: Path) -> list[str]:
    """Return the path and the arguments with which an example runs, except the picture's path."""
    quick = ["--quick"] if '"--quick"' in source.read_text() else []
    return [f"examples/{source.name}", *quick]


def picture_of(source: Path) -> Path:
    """Return the path of the picture that an example draws."""
    return BUILT / f"{source.stem}.png"


def printed_by(source: Path) -> Path:
    """Return the path of the text that an example prints."""
    return BUILT / f"{source.stem}.txt"


def page(example: str) -> str:
    """Return the page of an example."""
    source = FOLDER / f"{example}.py"
    code = source.read_text()
    about, _, more = (ast.get_docstring(ast.parse(code)) or "").partition("\n\n")
    lines = [f"---\ntitle: {_title(example)}\n---\n", f"# {_title(example)}\n", about, ""]
    if example in EXAMPLES:
        printed = printed_by(source).read_text().replace(f"{BUILT.relative_to(ROOT)}/", "")
        lines += [
            f"![Picture of the example]({example}.png)\n",
            f"`python {' '.join(command(source))}` draws this picture, and prints:\n",
            f"```text\n{printed.rstrip()}\n```\n",
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
    for example in SHOWN:
        made[f"gallery/{example}.md"] = page(example)
    for source in sources():
        made[f"gallery/{source.stem}.png"] = picture_of(source).read_bytes()
    return made


def nav() -> list[str]:
    """Return the part of the navigation that lists the gallery."""
    return ["gallery/index.md", *(f"gallery/{example}.md" for example in SHOWN)]


def _title(example: str) -> str:
    return example.replace("_", " ").capitalize()
