"""The reference: a page for each public name, in sections."""

from __future__ import annotations

import importlib

# A test compares these names with `__all__` of the package and of its subpackages.
SECTIONS = {
    "Forests": [
        "AdaptiveMondrianForestClassifier",
        "AdaptiveMondrianForestRegressor",
        "MondrianForestClassifier",
        "MondrianForestRegressor",
        "Calibrated",
    ],
    "Anomalies and densities": [
        "NearestNeighborDetector",
        "Alarms",
        "Alarm",
        "RandomCutForest",
        "DensityForest",
        "exact_density",
    ],
    "Drift": ["DriftMonitor", "Drift", "ConformalDrift"],
    "Linear learners on feature maps": [
        "OGDClassifier",
        "OGDRegressor",
        "RidgeRegressor",
        "DualOGDClassifier",
        "lifetime_path",
    ],
    "Feature maps": [
        "IsolationFeatures",
        "MondrianFeatures",
        "NystromFeatures",
        "RandomBinningFeatures",
        "RandomFourierFeatures",
    ],
    "What is predicted": ["PredictiveDistribution"],
    "Pictures": [
        "plot.progressive",
        "plot.drifts",
        "plot.intervals",
        "plot.reliability",
        "plot.weights",
        "plot.importances",
        "plot.explanation",
        "plot.scores",
        "plot.density_map",
        "plot.score_map",
        "plot.tree",
        "plot.partition",
        "plot.lifetimes",
    ],
    "Files and merging": ["save", "load", "merge", "ModelFormatError"],
    "Several processes": [
        "distributed.ShardedForest",
        "distributed.KeyedModels",
        "distributed.SpreadKeyedModels",
        "distributed.learn_dataset",
    ],
}


def page_of(name: str) -> str:
    """Return the page of a public name."""
    return f"reference/{_title(name).replace('.', '_')}.md"


def _title(name: str) -> str:
    """Return the title of a name's page; only names in `plot` keep their module."""
    return name.removeprefix("distributed.")


def pages() -> dict[str, str]:
    """Return the text of each page by its path."""
    made = {"reference/index.md": _index()}
    for names in SECTIONS.values():
        for name in names:
            title = _title(name)
            made[page_of(name)] = f"---\ntitle: {title}\n---\n\n::: river_mondrian.{name}\n"
    return made


def nav() -> list[object]:
    """Return the part of the navigation that lists the pages."""
    sections = [
        {section: [{_title(name): page_of(name)} for name in names]}
        for section, names in SECTIONS.items()
    ]
    return ["reference/index.md", *sections]


def _index() -> str:
    lines = ["# Reference", "", "Names are imported from `river_mondrian`.", ""]
    for section, names in SECTIONS.items():
        lines += [f"## {section}", ""]
        for name in names:
            page = page_of(name).removeprefix("reference/")
            lines += [f"- [`{name}`]({page}): {_summary(name)}"]
        lines += [""]
    return "\n".join(lines)


def _summary(name: str) -> str:
    """Return the first line of a name's docstring."""
    module, _, last = f"river_mondrian.{name}".rpartition(".")
    documented = getattr(importlib.import_module(module), last).__doc__
    return documented.strip().partition("\n")[0]
