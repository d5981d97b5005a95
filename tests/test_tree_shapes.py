"""The shapes of trees that tests of laws compare."""

from __future__ import annotations

import numpy as np
import pytest
from tree_shapes import shape_of

from river_mondrian import MondrianForestClassifier, MondrianForestRegressor


@pytest.mark.parametrize("make", [MondrianForestClassifier, MondrianForestRegressor])
def test_shapes_are_those_of_the_nodes(make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    model = make(3, seed=1)
    model.learn_many(X, (X[:, 0] > 0.0).astype(float))
    for t in range(3):
        nodes = model._trees.read(t, hidden=True)
        shape, root = shape_of(model._trees, t), nodes[0]
        assert (shape.time, shape.dim, shape.cut) == (root.time, root.dim, root.cut)
        assert shape.n_nodes == len(nodes)
        assert shape.depth == pytest.approx(np.mean([one.depth for one in nodes if one.is_leaf]))
