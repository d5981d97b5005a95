"""The posterior of docs/extending.md: its code as it stands there, against a plain twin."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parent.parent / "docs" / "extending.md"

# Lines that a posterior of one's own may take.
MOST_LINES = 100


def blocks():
    """Return the page's pieces of code: the module, and its use."""
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extending")
    (folder / "ranges.py").write_text(blocks()[0])
    sys.path.insert(0, str(folder))
    try:
        import ranges
    finally:
        sys.path.remove(str(folder))
    return ranges


def test_the_page_runs_as_it_stands(module):
    assert len(blocks()[0].splitlines()) <= MOST_LINES
    exec(blocks()[1], dict(vars(module)))


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


def test_it_runs_without_the_compiler(module, tmp_path):
    path = tmp_path / "whole.py"
    path.write_text(blocks()[0] + blocks()[1] + "\nprint(repr((float(low), float(high))))\n")
    found = []
    for disabled in ("0", "1"):
        done = subprocess.run(
            [sys.executable, str(path)],
            env={**os.environ, "NUMBA_DISABLE_JIT": disabled},
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(eval(done.stdout))
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-12)
