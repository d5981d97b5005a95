"""The Python of the README and of the documentation runs as it stands there."""

from __future__ import annotations

import re
import runpy
import sys
import types
from pathlib import Path

import matplotlib as mpl
import pytest

import river_mondrian
import river_mondrian.distributed

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
# Tables of benchmarks have no code.
PAGES = [page for page in PAGES if page.parent.name != "results"]
CODELESS = {
    "compiling.md",
    "ideas.md",
    "reproducibility.md",
    "choosing.md",
    "widths.md",
    "guide/index.md",
    "migration/index.md",
}


def name_of(page):
    """Return a page's path as its links have it."""
    return page.relative_to(DOCS if DOCS in page.parents else ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_code_of_a_page_runs(page, monkeypatch):
    mpl.use("Agg")
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    # A module: annotations of records are looked up in theirs.
    module = types.ModuleType(f"page_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile("\n".join(blocks), str(page), "exec"), vars(module))
    assert bool(blocks) == (name_of(page) not in CODELESS)


def test_the_reference_has_a_page_for_each_public_name():
    sections = runpy.run_path(str(DOCS / "site" / "reference.py"))["SECTIONS"]
    listed = [name for names in sections.values() for name in names]
    public = [
        *river_mondrian.__all__,
        *(f"distributed.{name}" for name in river_mondrian.distributed.__all__),
    ]
    assert sorted(listed) == sorted(public)


def test_the_gallery_has_all_examples():
    shown = runpy.run_path(str(DOCS / "site" / "gallery.py"))["SHOWN"]
    assert sorted(shown) == sorted(path.stem for path in (ROOT / "examples").glob("*.py"))


def test_the_benchmarks_index_has_all_tables():
    index = runpy.run_path(str(DOCS / "site" / "benchmarks.py"))["index"]()
    tables = re.findall(r"\]\((\w+\.md)\)", index)
    assert sorted(tables) == sorted(path.name for path in (DOCS / "results").glob("*.md"))
