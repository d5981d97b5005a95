"""Tests of the posterior and the feature map of docs/extending.md, against references."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from common import restored, run
from naive.adaptive import route

from river_mondrian.partitions.mondrian.tree_memory import Partitions

PAGE = Path(__file__).parent.parent / "docs" / "extending.md"

# Largest number of lines of a posterior or a feature map.
MOST_LINES = 130

# The code blocks of the page: two modules, and the use of each.
RANGES, USE_OF_RANGES, HINGES, USE_OF_HINGES = re.findall(
    r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL
)


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """Return the modules of the page, by name."""
    folder = tmp_path_factory.mktemp("extending")
    (folder / "ranges.py").write_text(RANGES)
    (folder / "hinges.py").write_text(HINGES)
    sys.path.insert(0, str(folder))
    yield {name: importlib.import_module(name) for name in ("ranges", "hinges")}
    sys.path.remove(str(folder))


SHOWN = [("ranges", RANGES, USE_OF_RANGES, "[float(low), float(high)]")]
SHOWN += [("hinges", HINGES, USE_OF_HINGES, "[float(predicted)]")]


@pytest.mark.parametrize(("name", "code", "use", "shown"), SHOWN)
def test_the_page_runs_as_it_stands(modules, name, code, use, shown, tmp_path):
    """Results are the same if nothing is compiled."""
    assert len(code.splitlines()) <= MOST_LINES
    names = dict(vars(modules[name]))
    exec(use, names)
    path = tmp_path / "whole.py"
    path.write_text(f"{code}{use}\nprint({shown})\n")
    printed, _ = run(str(path), NUMBA_DISABLE_JIT="1")
    np.testing.assert_allclose(eval(shown, names), eval(printed), rtol=0, atol=1e-12)


@pytest.mark.parametrize("lifetime", [1.0, 4.0])
def test_ranges_are_those_of_the_samples_in_the_cell(modules, lifetime):
    rng = np.random.default_rng(3)
    X = rng.random((300, 2)).astype(np.float32).astype(float)
    y = np.sin(5.0 * X[:, 0]) + X[:, 1]
    trees = modules["ranges"].RangeTrees(Partitions(n_trees=3, lifetime=lifetime, seed=1))
    trees.add_inputs(["a", "b"], X[0])
    for x, target in zip(X, y.tolist(), strict=True):
        trees.learn(x, target)
    read = [trees.reader.read(t) for t in range(3)]
    leaves = [np.array([route(nodes, x)[-1] for x in X]) for nodes in read]
    for x in rng.random((40, 2)).astype(np.float32).astype(float):
        cells = [y[own == route(nodes, x)[-1]] for nodes, own in zip(read, leaves, strict=True)]
        expected = [np.mean([end(cell) for cell in cells]) for end in (np.min, np.max)]
        assert trees.predict(x) == pytest.approx(expected, abs=1e-12)


def test_features_are_those_of_a_plain_product(modules):
    features = modules["hinges"].HingeFeatures(n_components=8, seed=3)
    X = np.random.default_rng(2).normal(size=(40, 3))
    features.learn_many(X)
    weights = np.array(features._map.rows[:3])
    made = features.transform_many(X)
    np.testing.assert_allclose(made, np.maximum(0.0, X @ weights), rtol=0, atol=1e-12)
    one = features.transform_one(dict(enumerate(X[0].tolist())))
    assert list(one) == [f"hinge_{k}" for k in range(8)]
    np.testing.assert_array_equal(list(one.values()), np.asarray(made)[0])
    copy = restored(features)
    np.testing.assert_array_equal(copy.transform_many(X), made)
