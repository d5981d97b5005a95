"""Tests of the posterior and the feature map of docs/extending.md, against references."""

import importlib
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from common import restored, run
from naive.adaptive import route

from river_mondrian import ModelFormatError
from river_mondrian.partitions.mondrian.tree_store import Partitions
from river_mondrian.partitions.mondrian.walks import LEAST_WEIGHT

PAGE = Path(__file__).parent.parent / "docs" / "extending.md"

# Largest number of lines of a posterior or a feature map.
MOST_LINES = 200

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


def distance(node, x):
    """Return the distance of a sample from a node's box; missing values are ignored."""
    return np.nansum(np.fmax(np.fmax(node.lower - x, x - node.upper), 0.0))


def shares_of(node, sides, x, weight):
    """Return the weights of both children for a sample that reaches a cut with this weight."""
    v = x[node.dim]
    if not math.isnan(v):
        return [1.0, 0.0] if v <= node.cut else [0.0, 1.0]
    left, right = (distance(side, x) for side in sides)
    if left != right:
        return [1.0, 0.0] if left < right else [0.0, 1.0]
    share = sides[0].n_samples / (sides[0].n_samples + sides[1].n_samples)
    if weight * min(share, 1.0 - share) < LEAST_WEIGHT:
        share = float(share >= 0.5)
    return [share, 1.0 - share]


def expected_range(nodes, ends, x, number=0, weight=1.0):
    """Return the expected range of a sample; `ends` has the range of the targets at each node."""
    node = nodes[number]
    if node.is_leaf:
        return ends[number]
    stays = math.exp(-distance(node, x) * node.delta)
    found, sides = (1.0 - stays) * ends[number], (node.left, node.right)
    shares = shares_of(node, [nodes[side] for side in sides], x, weight * stays)
    for side, share in zip(sides, shares, strict=True):
        if share > 0.0:
            below = expected_range(nodes, ends, x, side, weight * stays * share)
            found = found + stays * share * below
    return found


# Lifetime, whether inputs are scaled, and the factor by which they grow. If inputs grow, trees are
# redrawn.
CASES = [(1.0, False, 1.0), (4.0, False, 1.0), (4.0, True, 1.0), (4.0, True, 32.0)]


@pytest.mark.parametrize(("lifetime", "scale", "growth"), CASES)
def test_ranges_are_those_of_the_samples_at_the_nodes(modules, lifetime, scale, growth):
    """Ranges are expectations over the nodes where a sample may branch off."""
    rng = np.random.default_rng(3)
    X = rng.random((300 if growth == 1.0 else 700, 3)).astype(np.float32).astype(float)
    X[200:] *= growth
    y = np.sin(5.0 * X[:, 0]) + X[:, 1]
    model = modules["ranges"].RangeForestRegressor(3, lifetime, scale, rescale=True, seed=1)
    for x, target in zip(X.tolist(), y.tolist(), strict=True):
        model.learn_one(dict(enumerate(x)), target)
    if growth > 1.0:
        assert min(model.tree_widths(2).values()) > 0.5 * growth
    queries = growth * (1.2 * rng.random((40, 3)) - 0.1)
    queries[rng.random(queries.shape) < 0.3] = np.nan
    reader = model._trees.reader

    def predicted(rows):
        """Return the predictions for some rows, and the scaled rows."""
        pairs = []
        for x in rows.tolist():
            pairs.append((model.predict_one(dict(enumerate(x))), reader.values_of_row(0)))
        return map(np.array, zip(*pairs, strict=True))

    _, learned = predicted(X)
    found, scaled = predicted(queries)
    expected = np.zeros((len(queries), 2))
    for t in range(3):
        nodes = reader.read(t)
        at = [[] for _ in nodes]
        for x, target in zip(learned, y.tolist(), strict=True):
            for number in route(nodes, x):
                at[number].append(target)
        ends = np.array([[min(targets), max(targets)] for targets in at])
        expected += [expected_range(nodes, ends, x) / 3 for x in scaled]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    copy = restored(model)
    for x in queries.tolist():
        assert copy.predict_one(dict(enumerate(x))) == model.predict_one(dict(enumerate(x)))


def test_a_restored_range_is_in_its_bounds(modules):
    model = modules["ranges"].RangeForestRegressor(2, seed=1)
    for i in range(20):
        model.learn_one({"a": i / 20.0}, float(i))
    model._trees.trees[1].nodes.row(0).below_left.high = math.nan
    with pytest.raises(ModelFormatError, match=r"below_left\.high"):
        restored(model)


def test_a_posterior_without_forgetting_refuses_a_window(modules):
    with pytest.raises(ValueError, match="window must be None"):
        modules["ranges"].RangeTrees(Partitions(2, 1.0, window=35))


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
