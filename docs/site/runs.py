"""Run the examples and the notebooks, and store their outputs until they or the package change.

Two kernels of Jupyter run them. Each kernel is one process, which imports modules and compiles
functions once for all that it runs.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient

import gallery
import notebooks

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "river_mondrian"

# What each kernel runs, in order. Both lists take about the same time. What uses the same models is
# in one list, because two kernels would compile the same functions twice. The last entries of each
# list also use models of the other list, whose compiled functions are on disk by then.
LISTS = (
    [
        # The first one prints how long `warmup` takes before anything is compiled.
        *("production.ipynb", "first_steps.ipynb", "quickstart.py", "drift.ipynb"),
        *("surviving_drift.py", "read_a_tree.py", "isolation_kernel.py", "kernel_widths.py"),
        *("kernels.ipynb", "mondrian_kernel.py", "density.py"),
    ],
    [
        *("anomalies.py", "anomalies.ipynb", "alarms.py", "alerts.ipynb"),
        *("water_flow.py", "regression_intervals.py", "intervals.ipynb", "pictures.py"),
    ],
)

# Each kernel begins with this code. By default, Python would spend a tenth of the time on searches
# for garbage, because compilation creates many objects.
BEGIN = "import gc\ngc.set_threshold(50_000)\ndel gc"

# A cell that runs an example with some arguments. Figures that remain open would become outputs.
RUN = """
import runpy, sys
from matplotlib import pyplot
sys.argv = {}
runpy.run_path(sys.argv[0], run_name="__main__")
pyplot.close("all")
"""

# Largest number of seconds for one cell, which may compile functions.
MOST_SECONDS = 600


def run_all() -> None:
    """Run all examples and notebooks whose outputs are not stored."""
    for folder in (gallery.BUILT, notebooks.BUILT):
        folder.mkdir(parents=True, exist_ok=True)
    sources = {source.name: source for source in [*gallery.sources(), *notebooks.sources()]}
    first, second = ([sources.pop(name) for name in names] for names in LISTS)
    # What is in no list runs last.
    second += sources.values()
    with ThreadPoolExecutor(2) as pool:
        # A list of the results raises the first error.
        list(pool.map(_run, (first, second)))


def _made_of(source: Path) -> Path:
    """Return the path of the stored outputs of an example or a notebook."""
    return gallery.printed_by(source) if source.suffix == ".py" else notebooks.made_of(source)


def _is_made(source: Path) -> bool:
    """Return whether the stored outputs are newer than their source and the package."""
    made = _made_of(source)
    changed = max(path.stat().st_mtime for path in [source, *PACKAGE.rglob("*.py")])
    return made.exists() and made.stat().st_mtime >= changed


def _run(sources: list[Path]) -> None:
    """Run new examples and notebooks in one kernel, and store their outputs."""
    began = time.time()
    new = {source: _notebook_of(source) for source in sources if not _is_made(source)}
    if not new:
        return
    # After each notebook, a cell removes all names, which the next notebook must not see.
    ends = {source: nbformat.v4.new_code_cell("%reset -f") for source in new}
    cells = [nbformat.v4.new_code_cell(BEGIN)]
    for source, notebook in new.items():
        cells += [*notebook.cells, ends[source]]
    client = NotebookClient(
        nbformat.v4.new_notebook(cells=cells),
        timeout=MOST_SECONDS,
        kernel_name="python3",
        coalesce_streams=True,
    )
    # This backend stores pictures in the cells, for any backend of the site's process.
    backend = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    with TemporaryDirectory() as folder:
        # Sockets in a folder of this kernel avoid open ports.
        manager = client.create_kernel_manager()
        manager.transport, manager.ip = "ipc", f"{folder}/kernel"
        try:
            client.execute(cwd=str(ROOT), env={**os.environ, **backend})
        finally:
            # After an error, the outputs of the notebooks before it are stored.
            for source, notebook in new.items():
                if ends[source].execution_count is not None:
                    _store(source, notebook)
                    # A source that has changed since then is newer than its outputs.
                    os.utime(_made_of(source), (began, began))


def _notebook_of(source: Path) -> Any:
    """Return a notebook, or for an example a notebook with one cell that runs the example."""
    if source.suffix == ".ipynb":
        return nbformat.read(source, as_version=4)
    picture = gallery.picture_of(source).relative_to(ROOT)
    code = RUN.format([*gallery.command(source), "--out", str(picture)])
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])


def _store(source: Path, notebook: Any) -> None:
    """Store a notebook with its outputs, or the text that an example printed."""
    if source.suffix == ".ipynb":
        nbformat.write(notebook, _made_of(source))
        return
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    text = "".join(output.text for output in outputs if output.get("name") == "stdout")
    _made_of(source).write_text(text)
