"""What the pages on migration say of River's classes holds for the River that is installed."""

from __future__ import annotations

import inspect
import math
import random
import re
from pathlib import Path

import pytest
from river import anomaly, ensemble, feature_extraction, forest

DOCS = Path(__file__).parent.parent / "docs"

# The tables of each page, by how their first column is called, and whose arguments that names.
TABLES = {
    "AMFClassifier": ("migration/from_amf.md", forest.AMFClassifier),
    "AMFRegressor": ("migration/from_amf.md", forest.AMFRegressor),
    "`ARFClassifier`, `SRPClassifier`": (
        "migration/from_arf.md",
        forest.ARFClassifier,
        ensemble.SRPClassifier,
    ),
    "`HalfSpaceTrees`": ("migration/from_half_space_trees.md", anomaly.HalfSpaceTrees),
    "`RBFSampler`": ("migration/from_rbf_sampler.md", feature_extraction.RBFSampler),
}
# What a first column names besides arguments.
OTHERS = {"MinMaxScaler", "*_many", "model"}


def first_column(page, title):
    """Return the cells below a title, with values of arguments left out."""
    lines = (DOCS / page).read_text().split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {title} |"))
    cells = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        cells.append(line.split(" | ")[0].strip("| "))
    return cells


@pytest.mark.parametrize("title", TABLES)
def test_their_arguments_have_these_names(title):
    page, *classes = TABLES[title]
    known = {name for one in classes for name in inspect.signature(one).parameters}
    named = {
        found
        for cell in first_column(page, title)
        for found in re.findall(r"`([a-z_]\w*|[A-Z]\w+|\*_many)(?:=\w+)?`", cell)
    }
    assert named - OTHERS and named - OTHERS <= known


@pytest.mark.parametrize(
    "make",
    [
        forest.AMFClassifier,
        forest.AMFRegressor,
        forest.ARFClassifier,
        forest.ARFRegressor,
        ensemble.SRPClassifier,
        ensemble.SRPRegressor,
    ],
)
def test_they_have_no_batches(make):
    assert not hasattr(make, "learn_many") and not hasattr(make, "predict_many")


@pytest.mark.parametrize("make", [forest.AMFClassifier, forest.AMFRegressor])
def test_amf_has_no_weights(make):
    assert list(inspect.signature(make.learn_one).parameters) == ["self", "x", "y"]


def test_half_space_trees_score_after_a_window_of_the_features_of_the_first_sample():
    rng = random.Random(1)
    trees = anomaly.HalfSpaceTrees(window_size=50, seed=1)
    for n in range(60):
        assert (trees.score_one({"a": 0.5}) == 0) == (n < 50)
        trees.learn_one({"a": rng.random()})
    assert trees.score_one({"a": 0.5, "b": 9.0}) == trees.score_one({"a": 0.5})


def test_rbf_samplers_map_each_feature_alone():
    n = 2000
    sampler = feature_extraction.RBFSampler(gamma=0.5, n_components=n, seed=1)
    first, second = (sampler.transform_one(x) for x in ({"a": 0.3, "b": 1.0}, {"a": 1.2, "b": 1.5}))
    assert len(first) == 2 * n
    product = sum(first[key] * second[key] for key in first)
    kernels = sum(math.exp(-0.5 * d * d) for d in (0.9, 0.5))
    # Means of products of cosines, each with a deviation of less than 1.
    assert abs(product / (n / 2) - kernels) < 4.0 * 2.0 * math.sqrt(2.0 / n)


def test_a_missing_feature_goes_with_most_samples():
    rng = random.Random(1)
    for make in (forest.ARFClassifier, ensemble.SRPClassifier):
        model = make(n_models=2, seed=1)
        for _ in range(600):
            x = {"a": rng.random(), "b": rng.random()}
            model.learn_one(x, x["a"] > 0.3)
        assert model.predict_proba_one({"b": 0.5})[True] > 0.5


def test_amf_cuts_a_block_of_one_class_in_the_gap_only():
    rng = random.Random(1)
    model = forest.AMFClassifier(n_estimators=1, seed=1)
    for _ in range(50):
        model.learn_one({"a": rng.random()}, "u")
    (tree,) = model.data
    assert tree._n_nodes == 1
    model.learn_one({"a": 3.0}, "v")
    # One cut, and none of those that a tree of two classes would have among the fifty.
    assert tree._n_nodes == 3 and 1.0 < tree._root.threshold < 3.0
