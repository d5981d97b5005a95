"""Tests of the pages of the benchmarks."""

import re

from benchmarks.report import Report, Suite

SUITE = Suite("costs", "Costs", {"figure4": print, "held_out": print})


def write(folder, part, *values):
    with Report(SUITE, part, [], folder, quick=False) as report:
        report.note("A note.")
        report.table(("value",), [(value,) for value in values])
    path = folder / "costs.md"
    return path.read_text() if path.exists() else ""


def test_a_part_replaces_its_section(tmp_path):
    assert write(tmp_path, "held_out") == ""
    write(tmp_path, "held_out", 1)
    write(tmp_path, "figure4", 2)
    page = write(tmp_path, "held_out", 3)
    assert re.findall("^#.*", page, re.MULTILINE) == ["# Costs", "## Figure 4", "## Held out"]
    assert re.findall(r"^\| (\d)", page, re.MULTILINE) == ["2", "3"]
    assert write(tmp_path, "figure4") == page
