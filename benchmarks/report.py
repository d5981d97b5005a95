"""Tables and plots of the benchmarks."""

from __future__ import annotations

import inspect
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple


def progress(text: str) -> None:
    """Show the current step on stderr; on a terminal it replaces the previous step."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    else:
        print(text, file=sys.stderr, flush=True)


def machine() -> str:
    """Return the versions of Python and packages, the architecture and the number of cores."""
    found = [f"Python {platform.python_version()}"]
    for package in ("river", "numpy", "numba", "scikit-learn"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{', '.join(found)}; {platform.machine()}, cores: {cores}"


def heading_of(part: str) -> str:
    """Return the heading of a part's section, such as "Figure 3" for "figure3"."""
    return re.sub(r"(?<=[a-z])(?=\d)", " ", part).replace("_", " ").capitalize()


class Suite(NamedTuple):
    """A command: its name, the title of its page, and its parts, in the order of the sections.

    A part is a function of the data folder, the report, and a flag for quick runs.
    """

    name: str
    title: str
    parts: Mapping[str, Callable[..., bool | None]]


class Report:
    """Results of one part of a suite: a section of the page OUT/SUITE.md.

    The section is also printed. The other sections of the page are kept.
    """

    def __init__(
        self, suite: Suite, part: str, sets: Sequence[str], out: Path, quick: bool
    ) -> None:
        self.suite = suite
        self.part = part
        options = ["--sets", *sets] if sets else []
        self.command = " ".join([suite.name, "--only", part, *options])
        self.out = out
        self.lines: list[str] = []
        self.started = time.perf_counter()
        self._add(f"## {heading_of(part)}\n")
        self.quick = quick

    def __enter__(self) -> Report:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if sys.stderr.isatty():
            progress("")
        if not any(line.startswith(("|", "!")) for line in self.lines):
            if not kind:
                print("skipped, without data\n", flush=True)
            return
        spent = time.perf_counter() - self.started
        how = "the run was interrupted after" if kind else "the run took"
        if self.quick:
            self._add("This was a quick run: its figures differ from those of the full run.\n")
        self._add(f"`python -m benchmarks {self.command} --data DIR` makes this section.\n")
        self._add(f"{machine()}; {how} {spent:.0f} s.\n")
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / f"{self.suite.name}.md"
        path.write_text(self._page(path), encoding="utf-8")
        print(f"written to {path}\n", flush=True)

    def _page(self, path: Path) -> str:
        """Return the page with this section, which replaces the section of an earlier run."""
        page = path.read_text(encoding="utf-8") if path.exists() else ""
        sections = {text.partition("\n")[0]: text for text in page.split("\n## ")[1:]}
        sections[heading_of(self.part)] = "\n".join(self.lines).removeprefix("## ")
        texts = (sections.get(heading_of(part), "") for part in self.suite.parts)
        return "\n## ".join([f"# {self.suite.title}\n", *filter(None, texts)])

    def _add(self, text: str) -> None:
        self.lines.append(text)
        print(text, flush=True)

    def note(self, text: str) -> None:
        """Add a paragraph to the report."""
        self._add(f"{text}\n")

    def about(self, part: Callable[..., object], **values: Any) -> None:
        """Add the text of a part: its docstring after the first line.

        Names in braces are replaced by the given values, or by values of the part's module.
        """
        _, _, text = inspect.cleandoc(part.__doc__ or "").partition("\n\n")
        text = text.format_map(vars(sys.modules[part.__module__]) | values)
        self.note(" ".join(text.split()))

    def heading(self, text: str) -> None:
        """Add a heading within the section."""
        self._add(f"### {text}\n")

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Add a Markdown table, unless there are no rows."""
        if not rows:
            return
        if sys.stderr.isatty():
            progress("")
        cells = [list(headers), *([str(cell) for cell in row] for row in rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(headers))]
        padded = [
            [cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in cells
        ]
        rule = ["-" * width for width in widths]
        lines = [f"| {' | '.join(row)} |" for row in (padded[0], rule, *padded[1:])]
        self._add("\n".join(lines) + "\n")

    @contextmanager
    def drawing(
        self, rows: int = 1, columns: int = 1, size: tuple[float, float] = (6, 4), **options: Any
    ) -> Iterator[Any]:
        """Return axes, an array if there are several; save them as OUT/SUITE_PART.png at the end.

        The option `name` is added to the file's name; other options are for `pyplot.subplots`.
        """
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot as plt

        name = options.pop("name", "")
        figure, axes = plt.subplots(rows, columns, figsize=size, **options)
        yield axes
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / f"{'_'.join(filter(None, (self.suite.name, self.part, name)))}.png"
        figure.savefig(path, dpi=120, bbox_inches="tight")
        plt.close(figure)
        self._add(f"![{path.stem}]({path.name})\n")
