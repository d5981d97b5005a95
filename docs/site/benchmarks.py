"""The index of the benchmarks' tables, which stand in `docs/results`."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results"

# What each group of tables is about; its name is that of `python -m benchmarks NAME`.
GROUPS = {
    "adaptive": "Adaptive forest of labels, beside River's forests",
    "adaptive_regressor": "Adaptive forest of targets, beside River's regressors",
    "forest": "Exact forest of labels: speed, memory, the paper's tables",
    "regressor": "Exact forest of targets: errors, densities, speed",
    "categories": "Categories and bags of words",
    "forgetting": "Taking samples out, windows and drift",
    "robustness": "Wild values, changes of units, streams that begin in a corner",
    "importances": "Importances",
    "anomaly": "Anomalies",
    "stit": "Oblique cuts and densities",
    "isolation": "Isolation kernel",
    "kernel": "Mondrian kernel",
    "sweep": "Mondrian kernel at all lifetimes, and exact ridge regression",
    "distributed": "More than one process",
    "processors": "What results depend on",
}


def index() -> str:
    """Return the index: the tables by group, each with what was done for it."""
    tables: dict[str, list[str]] = {group: [] for group in GROUPS}
    for path in sorted(RESULTS.glob("*.md")):
        title, _, text = path.read_text().partition("\n")
        group, part = title.removeprefix("# ").split(": ")
        tables[group].append(f"- [{part}]({path.name}){_done(text)}")
    lines = [
        "# Benchmarks",
        "",
        "Each table is written by a run and ends with the versions and the machine of that run.",
        "`python -m benchmarks GROUP --data DIR`, in a clone of the repository, repeats a group;",
        "with `--only PART` one table. Data sets are read from `DIR` as `.npz` files; without it",
        "streams are those of River. Where a target was set tables say whether it was reached.",
    ]
    for group, what in GROUPS.items():
        lines += ["", f"## {what}", "", f"`python -m benchmarks {group}`", "", *tables[group]]
    return "\n".join(lines) + "\n"


def _done(text: str) -> str:
    """Return what a table's page says first, if that is a sentence."""
    said = text.strip().partition("\n")[0].partition(". ")[0].rstrip(".:")
    return "" if said.startswith(("|", "#", "!")) else f": {said}"
