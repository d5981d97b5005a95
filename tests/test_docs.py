"""Tests that the Python code of the README and of the documentation runs as printed."""

import itertools
import json
import re
import runpy
import sys
import types
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

import river_mondrian as rm
import river_mondrian.distributed

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
# These pages have no code.
PAGES = [page for page in PAGES if page.parent.name != "results"]
CODELESS = {"benchmarks.md", "compiling.md", "costs.md", "concepts/forests.md"}
CODELESS |= {"reproducibility.md", "choosing.md", "versions.md", "concepts/widths.md"}
CODELESS |= {f"{folder}/index.md" for folder in ("papers", "guide", "migration", "notebooks")}
CODELESS |= {"papers/isolation_kernel.md", "papers/mondrian_forests.md"}
CODELESS |= {"papers/mondrian_kernel.md", "papers/stit.md"}
NOTEBOOKS = DOCS / "notebooks"
PAPERS = [page for page in PAGES if page.parent.name == "papers" and page.stem != "index"]


def name_of(page):
    """Return a page's path relative to `DOCS`, or to `ROOT` if the page is outside of `DOCS`."""
    return page.relative_to(DOCS if DOCS in page.parents else ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_code_of_a_page_runs(page, monkeypatch):
    mpl.use("Agg")
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    # The code runs in a module, because the annotations of records are looked up in the module.
    module = types.ModuleType(f"page_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile("\n".join(blocks), str(page), "exec"), vars(module))
    plt.close("all")
    assert bool(blocks) == (name_of(page) not in CODELESS)


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_has_no_outputs(path):
    # Notebooks are stored without outputs, because the site runs them when it is built.
    cells = json.loads(path.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code and not any(cell["outputs"] or cell["execution_count"] for cell in code)


def stems(folder, ending):
    return sorted(path.stem for path in folder.glob(f"*.{ending}"))


def test_lists_of_the_site_have_all():
    def made(name):
        return runpy.run_path(str(DOCS / "site" / f"{name}.py"))

    listed = re.findall(r"\]\((\w+)\.ipynb\)", (NOTEBOOKS / "index.md").read_text())
    assert sorted(listed) == stems(NOTEBOOKS, "ipynb")
    assert sorted(made("gallery")["SHOWN"]) == stems(ROOT / "examples", "py")
    results = DOCS / "results"
    listed = re.findall(r"\]\((\w+)\.md\)", (results / "index.md").read_text())
    assert sorted([*listed, "index"]) == stems(results, "md")
    public = list(rm.__all__)
    for part in (rm.distributed, rm.plot):
        public += [f"{part.__name__.rpartition('.')[2]}.{name}" for name in part.__all__]
    listed = itertools.chain.from_iterable(made("reference")["SECTIONS"].values())
    assert sorted(listed) == sorted(public)


def rows_of(page, title):
    """Return the rows of a page's table whose first column is `title`, as lists of cells."""
    lines = page.read_text().split("\n")
    start = next(i for i, line in enumerate(lines) if re.match(rf"\| {title}\s*\|", line))
    table = itertools.takewhile(lambda line: line.startswith("|"), lines[start:])
    return [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in table][2:]


def rounded(figures):
    """Return figures as pages print them, with three digits."""
    return [f"{float(figure):.3f}".removeprefix("0") for figure in figures]


def test_the_choice_of_forests_stands_in_the_results():
    rows = rows_of(DOCS / "results" / "adaptive.md", "stream")
    measured = {name: [cell.split(" / ")[:2] for cell in cells] for name, _, *cells in rows}
    claimed = rows_of(DOCS / "choosing.md", "stream")
    assert claimed
    for name, *cells in claimed:
        said = [cell.split(" / ") for cell in cells]
        assert said == [rounded(pair) for pair in measured[name][: len(said)]], name


def test_the_choice_of_detectors_stands_in_the_results():
    streams = {"Shuttle": "shuttle", "letters, one rare": "letter"}
    streams |= {"covtype, one class rare": "covtype", "mnist, one digit rare": "mnist"}
    streams |= {"spikes in a season": "spikes", "level shifts in a season": "shifts"}
    ranking = rows_of(DOCS / "results" / "anomaly.md", "stream")
    measured = {(name, detector): area for name, detector, _, area, *_ in ranking}
    ours = ("NearestNeighborDetector", "RandomCutForest", "DensityForest")
    detectors = (*ours, "HalfSpaceTrees, 10", "HalfSpaceTrees, 100")
    page = (DOCS / "choosing.md").read_text()
    for name, stream in streams.items():
        *own, few, many = rounded(measured[stream, detector] for detector in detectors)
        assert f"| {name} | {' | '.join(own)} | {few}, {many} |" in page


@pytest.mark.parametrize("page", PAPERS, ids=name_of)
def test_the_functions_of_a_paper_exist(page):
    named = re.findall(r"\| `([\w/]+\.py)` \| `(\w+)` \|", page.read_text())
    assert named
    for path, name in named:
        source = (ROOT / "river_mondrian" / path).read_text()
        assert re.search(rf"^(?:def|class) {name}\b", source, re.MULTILINE), (path, name)
