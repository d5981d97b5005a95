"""The Python of the README and of the documentation runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page):
    mpl.use("Agg")
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    exec(compile("\n".join(blocks), str(page), "exec"), {})
    assert blocks or page.name not in {"README.md", "drift.md", "from_amf.md"}
