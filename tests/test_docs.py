"""The Python of the README and of the documentation runs as it stands there."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import matplotlib as mpl
import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page, monkeypatch):
    mpl.use("Agg")
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    # A module: annotations of records are looked up in theirs.
    module = types.ModuleType(f"page_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile("\n".join(blocks), str(page), "exec"), vars(module))
    assert blocks or page.name not in {"README.md", "drift.md", "from_amf.md"}
