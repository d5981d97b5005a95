"""The posterior and the feature map of docs/extending.md, as they stand there, against twins."""

import importlib
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parent.parent / "docs" / "extending.md"

# Lines that a posterior, or a feature map, of one's own may take.
MOST_LINES = 130

# The page's pieces of code: two modules, and the use of each.
RANGES, USE_OF_RANGES, HINGES, USE_OF_HINGES = re.findall(
    r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extending")
    (folder / "ranges.py").write_text(RANGES)
    (folder / "hinges.py").write_text(HINGES)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def module(folder):
    return importlib.import_module("ranges")


@pytest.fixture(scope="module")
def hinges(folder):
    return importlib.import_module("hinges")


def as_it_stands(module, code, use, shown, tmp_path):
    """Compare what the code gives with what it gives where nothing is compiled."""
    assert len(code.splitlines()) <= MOST_LINES
    names = dict(vars(module))
    exec(use, names)
    path = tmp_path / "whole.py"
    path.write_text(f"{code}{use}\nprint({shown})\n")
    done = subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    np.testing.assert_allclose(eval(shown, names), eval(done.stdout), rtol=0, atol=1e-12)


def test_the_posterior_runs_as_it_stands(module, tmp_path):
    as_it_stands(module, RANGES, USE_OF_RANGES, "[float(low), float(high)]", tmp_path)


def test_the_feature_map_runs_as_it_stands(hinges, tmp_path):
    as_it_stands(hinges, HINGES, USE_OF_HINGES, "[float(predicted)]", tmp_path)


@pytest.mark.parametrize("lifetime", [1.0, 4.0])
def test_ranges_are_those_of_the_samples_in_the_cell(module, lifetime):
    from river_mondrian.partitions.mondrian.tree_memory import Partitions

    rng = np.random.default_rng(3)
    X = rng.random((300, 2)).astype(np.float32).astype(float)
    y = np.sin(5.0 * X[:, 0]) + X[:, 1]
    trees = module.RangeTrees(Partitions(n_trees=3, lifetime=lifetime, seed=1))
    trees.add_inputs(["a", "b"], X[0])
    for x, target in zip(X, y.tolist(), strict=True):
        trees.learn(x, target)
    read = [trees.read(t) for t in range(3)]

    def leaf_of(nodes, x):
        node = nodes[0]
        while not node.is_leaf:
            node = nodes[node.left if x[node.dim] <= node.cut else node.right]
        return id(node)

    for x in rng.random((40, 2)).astype(np.float32).astype(float):
        cells = [y[[leaf_of(nodes, row) == leaf_of(nodes, x) for row in X]] for nodes in read]
        low, high = trees.predict(x)
        assert low == pytest.approx(np.mean([cell.min() for cell in cells]), abs=1e-12)
        assert high == pytest.approx(np.mean([cell.max() for cell in cells]), abs=1e-12)


def test_features_are_those_of_a_plain_product(hinges):
    features = hinges.HingeFeatures(n_components=8, seed=3)
    X = np.random.default_rng(2).normal(size=(40, 3))
    features.learn_many(X)
    weights = np.array(features._map.rows[:3])
    made = features.transform_many(X)
    np.testing.assert_allclose(made, np.maximum(0.0, X @ weights), rtol=0, atol=1e-12)
    one = features.transform_one(dict(enumerate(X[0].tolist())))
    assert list(one) == [f"hinge_{k}" for k in range(8)]
    np.testing.assert_array_equal(list(one.values()), np.asarray(made)[0])
    copy = pickle.loads(pickle.dumps(features))
    np.testing.assert_array_equal(copy.transform_many(X), made)
