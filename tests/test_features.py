"""What all peers of the isolation kernel have in common as transformers."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from river import datasets

from river_mondrian import (
    MondrianFeatures,
    NystromFeatures,
    RandomBinningFeatures,
    RandomFourierFeatures,
)

MAPS = {
    "fourier gaussian": lambda: RandomFourierFeatures(40, seed=1),
    "fourier laplace": lambda: RandomFourierFeatures(40, "laplace", seed=1),
    "binning": lambda: RandomBinningFeatures(40, lifetime=0.3, seed=1),
    "mondrian": lambda: MondrianFeatures(40, lifetime=0.3, seed=1),
    "nystrom laplace": lambda: NystromFeatures(60, lifetime=0.3),
    "nystrom gaussian": lambda: NystromFeatures(60, 60, "gaussian", gamma=0.3),
}
each = pytest.mark.parametrize("make", MAPS.values(), ids=MAPS)
STREAM = [{k: 0.3 * v for k, v in x.items()} for x, _ in datasets.Phishing().take(150)]
LABELS = [y for _, y in datasets.Phishing().take(150)]
FRAME = pd.DataFrame(STREAM, index=range(7, 157))


def learned(make, n=100):
    features = make()
    for x in STREAM[:n]:
        features.learn_one(x)
    return features


@pytest.mark.blas
@each
def test_gram_is_the_matrix_of_dot_products(make):
    features = learned(make)
    matrix, gram = features.to_csr(FRAME), features.gram(FRAME)
    bound = rounding_of_products(matrix, features._map.n_out)
    assert (np.abs(gram - (matrix @ matrix.T).toarray()) <= bound).all()
    part = features.gram(FRAME[3:5], FRAME)
    if features._map.dense:
        # Of other shapes, which a linear algebra library may sum in another order.
        assert (np.abs(gram[3:5] - part) <= bound[3:5]).all()
    else:
        np.testing.assert_array_equal(gram[3:5], part)


def rounding_of_products(matrix, n):
    """Return by how much two ways to compute the dot products of rows may differ.

    A sum of n products is off by at most n u / (1 - n u) of the sum of their magnitudes, in any
    order and with fused operations or without (Higham, Accuracy and Stability of Numerical
    Algorithms, section 3.1), with u = eps / 2. Two of them differ by twice as much: n eps, and
    n + 1 for terms in u^2 and the rounding of the bound itself. A kernel of cells, a count over n,
    is rounded once; the value 1 / sqrt(n) twice, so that its square is off by 4 u and the sum of n
    of them by (n + 4) u: (n + 5) u in all, which is less from n = 3 on.
    """
    magnitudes = abs(matrix)
    return (n + 1) * np.finfo(float).eps * (magnitudes @ magnitudes.T).toarray()


@each
def test_before_learning(make):
    features = make()
    assert features.transform_one({"a": 1.0}) == {}
    assert features.transform_many(FRAME).empty
    features.learn_many(FRAME[:0])
    with pytest.raises(RuntimeError, match="cannot map yet: it has to learn samples first"):
        features.gram(FRAME)


@pytest.mark.blas
@pytest.mark.parametrize("make", [make for name, make in MAPS.items() if name != "mondrian"])
def test_missing_is_zero_and_the_order_of_keys_does_not_matter(make):
    whole, holes, turned = make(), make(), make()
    whole.learn_one(STREAM[0] | {"z": 1.0})
    holes.learn_one(STREAM[0] | {"z": 1.0})
    turned.learn_one(dict(reversed((STREAM[0] | {"z": 1.0}).items())))
    for x in STREAM[1:100]:
        whole.learn_one(x | {"z": 0.0})
        holes.learn_one({k: v for k, v in x.items() if v != 0.0} | {"z": math.nan})
        turned.learn_one(dict(reversed(x.items())))
    assert pickle.dumps(whole) == pickle.dumps(turned) == pickle.dumps(holes)
    for x in STREAM[100:]:
        expected = whole.transform_one(x)
        assert whole.transform_one(x | {"z": math.nan, "new": 5.0}) == expected
        assert whole.transform_one(dict(reversed(x.items()))) == expected
