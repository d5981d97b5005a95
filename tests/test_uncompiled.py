"""The forests as plain Python: the same trees, and the same predictions up to rounding."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

STREAM = """
import json, math, sys
import numpy as np
from river_mondrian import MondrianFeatures, MondrianForestClassifier, MondrianForestRegressor

rng = np.random.default_rng(2)
X = rng.random((70, 9))
X[rng.random(X.shape) < 0.05] = math.nan
y = (np.nan_to_num(X[:, 0]) > 0.5).astype(int) + (np.nan_to_num(X[:, 1]) > 0.7)
models = {
    "labels": MondrianForestClassifier(2, seed=1),
    "labels, two dimensions": MondrianForestClassifier(2, lifetime=3.0, seed=1),
    "directions": MondrianForestClassifier(2, directions=3, seed=1),
    "targets": MondrianForestRegressor(2, seed=1),
    "means": MondrianForestRegressor(2, posterior="mean", min_samples_split=4, seed=1),
    "cells": MondrianFeatures(3, lifetime=2.0, seed=1),
}
name = sys.argv[1]
model = models[name]
n_features = 2 if "two" in name else 9
found = []
for row, label in zip(X[:, :n_features].tolist(), y.tolist()):
    x = {str(i): v for i, v in enumerate(row) if not math.isnan(v)}
    if name == "cells":
        model.learn_one(x)
        found.append(sorted(model.transform_one(x)))
        continue
    if found and name in ("targets", "means"):
        found.append([model.predict_one(x)])
    elif found:
        found.append(list(model.predict_proba_one(x).values()))
    else:
        found.append([])
    model.learn_one(x, float(label) if name in ("targets", "means") else label)
if name != "cells":
    explained = model.explain_one(x)
    inner = explained.values() if hasattr(model, "predict_proba_one") else [explained]
    found += [list(one.values()) for one in [*inner, model.feature_importances]]
columns = ["left", "right", "n_samples"]
trees = [] if name == "cells" else model.to_dataframe()[columns].values.tolist()
print(json.dumps([found, trees]))
"""

KINDS = ["labels", "labels, two dimensions", "directions", "targets", "means", "cells"]


def run(kind, disabled):
    done = subprocess.run(
        [sys.executable, "-c", STREAM, kind],
        env={**os.environ, "NUMBA_DISABLE_JIT": disabled},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.quick
@pytest.mark.parametrize("kind", KINDS)
def test_python_grows_the_same_trees(kind):
    predicted, trees = run(kind, "0")
    others, other_trees = run(kind, "1")
    assert trees == other_trees
    if kind == "cells":
        assert predicted == others
        return
    for own, other in zip(predicted, others, strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=1e-12)
