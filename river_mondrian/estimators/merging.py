"""Merge models that have learned different samples, and divide forests into shards."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..arguments import told
from ..features.kernel_maps import RandomBinningFeatures, RandomFourierFeatures
from ..features.kinds import Pooled
from ..files.forms import Encoder
from ..learners.ridge.posterior import Posterior, merge_posteriors
from ..partitions.mondrian.shards import joined, shard_of
from . import classifier, regressor
from .density import DensityForest
from .ridge import RidgeRegressor

AnyModel = TypeVar("AnyModel", DensityForest, RidgeRegressor)


def merge(a: AnyModel, b: AnyModel) -> AnyModel:
    """Return a model that has learned the samples of two models.

    Models can be merged if their state is a sum over samples, and both models have the same
    partitions or the same feature map:

    - `DensityForest` with an `origin`, a seed and a fixed lifetime, for samples without missing
      values. Counts are added, so densities equal, bit for bit, the densities of one model that
      learned all samples.
    - `RidgeRegressor` without a `window` and with at most `max_columns` columns, on
      `RandomFourierFeatures` or `RandomBinningFeatures` with the same seed, or on one map that was
      already `frozen` when both models were created. The posterior equals the posterior of one
      model that learned all samples, up to rounding.

    Parameters
    ----------
    a, b
        The models, which do not change. Both models must have the same arguments, and must have
        learned different samples.

    Returns
    -------
    A model of the same class, with the same arguments, that has learned the samples of both models.

    Raises
    ------
    TypeError
        If the models are not two `DensityForest`s or two `RidgeRegressor`s.
    ValueError
        If the models differ in an argument, or cannot be merged; the message gives the reason.

    Examples
    --------

    >>> from river_mondrian import DensityForest, merge

    >>> a, b, both = (DensityForest(10, 2.0, seed=42, origin={"x": 0.0}) for _ in range(3))
    >>> for model in (a, both):
    ...     model.learn_one({"x": 0.1})
    >>> for model in (b, both):
    ...     model.learn_one({"x": 0.7})
    >>> merge(a, b).density_one({"x": 0.2}) == both.density_one({"x": 0.2})
    True

    """
    for m in (a, b):
        if type(m) not in (DensityForest, RidgeRegressor):
            raise TypeError(f"only DensityForest and RidgeRegressor can be merged, got {told(m)}")
    if type(a) is not type(b):
        raise TypeError(f"only models of one class can be merged, got {type(a)} and {type(b)}")
    merged, added = copy.deepcopy(a), copy.deepcopy(b)
    for name, value in merged._arguments().items():
        its = added._arguments()[name]
        # Functions cannot be compared by content, so only the same object is equal.
        are_code = callable(value) or callable(its)
        if name != "features" and value is not its and (are_code or _differ(value, its)):
            raise ValueError(f"arguments must be equal, but {name} is {value!r} and {its!r}")
    if isinstance(merged, DensityForest):
        _merge_densities(merged, added)
    else:
        _merge_ridges(merged, added)
    return merged


def is_mergeable(model: Any) -> bool:
    """Return whether copies of a model can learn different samples and then be merged.

    The samples decide two conditions: a `DensityForest` needs samples without missing values, and a
    `RidgeRegressor` needs at most `max_columns` columns.
    """
    if isinstance(model, DensityForest):
        return model.origin is not None and model.seed is not None and not model._grows
    if not isinstance(model, RidgeRegressor) or model.window is not None:
        return False
    features = model._features
    if isinstance(features, RandomFourierFeatures | RandomBinningFeatures):
        return features.seed is not None
    return isinstance(features, Pooled) and features._pool is None


def _stored(value: Any) -> tuple[str, list[bytes]]:
    """Return a value as files store it: a JSON text, and the bytes of arrays."""
    encoder = Encoder()
    text = json.dumps(encoder.encode(value, "value"))
    return text, [array.tobytes() for array in encoder.arrays.values()]


# Densities.


def _merge_densities(merged: DensityForest, added: DensityForest) -> None:
    if merged.origin is None:
        raise ValueError("trees without an origin begin at the first sample: set the same origin=")
    if merged.seed is None:
        raise ValueError("without a seed each model draws its own partition: set the same seed=")
    if merged._grows:
        raise ValueError(f"the lifetime must be a number, got lifetime={merged.lifetime!r}")
    for model in (merged, added):
        trees = model._trees
        if trees is None:
            continue
        lacks = np.flatnonzero(trees.n_values < trees.n_samples).tolist()
        if lacks:
            name = model.feature_names[lacks[0]]
            raise ValueError(f"a sample lacked {name!r}: the feature's mean depends on the order")
    if added._trees is None:
        return
    if merged._trees is None:
        merged._trees = added._trees
    else:
        merged._trees.add_samples_of(added._trees)


# Ridge regression.


def _merge_ridges(merged: RidgeRegressor, added: RidgeRegressor) -> None:
    if merged.window is not None:
        raise ValueError(f"models with a window have no common order, got window={merged.window}")
    if added._current is None and added._next is None:
        return
    columns = _join_maps(merged, added)
    if merged._next is not None or added._next is not None or added._current is None:
        raise ValueError("models cannot be merged while a feature map is being rebuilt")
    if merged._current is None:
        merged._features = added._features
        merged._current = added._current
        return
    mine: Posterior = merged._current
    if added._current.n_learned:
        merge_posteriors(mine, added._current, columns)


def _join_maps(merged: RidgeRegressor, added: RidgeRegressor) -> NDArray[np.int64]:
    """Add the columns of the second map to the first; return the new numbers of these columns."""
    features, its = merged._features, added._features
    if type(features) is not type(its):
        raise ValueError(f"the features are of different classes: {features!r} and {its!r}")
    if isinstance(features, Pooled):
        if features._pool is not None or its._pool is not None or _differ(features, its):
            name = type(features).__name__
            raise ValueError(
                f"{name} are drawn from samples: give both models one map, with a full pool"
            )
        return np.arange(its._map.n_columns)
    if not isinstance(features, RandomFourierFeatures | RandomBinningFeatures):
        raise ValueError(f"{type(features).__name__} depend on the order of the samples")
    mine, theirs = features._made_anew(), its._made_anew()
    if _differ(mine, theirs):
        raise ValueError(f"the features have different arguments: {mine!r} and {theirs!r}")
    if features._map is None or its._map is None:
        return np.zeros(0, np.int64)
    here: Any = features._know()
    there: Any = its._map
    if here.seed != there.seed:
        raise ValueError("without a seed each model draws its own features: set the same seed=")
    index = features._reader.index
    new = [name for name in its._reader.index.names if name not in index.index_of]
    features._reader._use(index.with_more(new), None)
    features._know()
    if isinstance(features, RandomBinningFeatures):
        return here.add_cells_of(there)
    return np.arange(there.n_columns)


def _differ(a: Any, b: Any) -> bool:
    return _stored(a) != _stored(b)


AnyForest = TypeVar(
    "AnyForest", classifier.MondrianForestClassifier, regressor.MondrianForestRegressor
)


def check_shards(model: Any, n_shards: int) -> None:
    """Raise an error if a model cannot be divided into `n_shards` shards.

    Raises
    ------
    TypeError
        If the model is not a forest whose trees learn independently.
    ValueError
        If the model has fewer than `n_shards` trees, `max_nodes` or a `window`, or `n_shards` < 1.

    """
    if type(model) not in (classifier.MondrianForestClassifier, regressor.MondrianForestRegressor):
        names = "MondrianForestClassifier and MondrianForestRegressor"
        raise TypeError(f"only {names} have trees that learn independently, got {told(model)}")
    if model.max_nodes is not None:
        why = f"together they decide when to stop storing samples, got {model.max_nodes!r}"
        raise ValueError(f"trees with max_nodes cannot learn separately: {why}")
    if model.window is not None:
        window = f"window={model.window!r}; all trees forget a sample together"
        raise ValueError(f"trees with a window cannot learn separately, got {window}")
    if not 1 <= n_shards <= model.n_estimators:
        raise ValueError(f"{model.n_estimators} trees cannot be divided into {n_shards} shards")


def _with_trees(model: AnyForest, trees: Any, n: int) -> AnyForest:
    """Return a forest of `n` trees with the features and labels of another forest."""
    forest = type(model)(**model._arguments() | {"n_estimators": n})
    forest._features = copy.deepcopy(model._features)
    if isinstance(forest, classifier.MondrianForestClassifier):
        forest._labels = dict(model._labels)
    forest._trees = trees
    return forest


def splits_at(model: AnyForest) -> int:
    """Return the number of samples after which a forest may be divided."""
    with model._lock:
        return int(model._grown().splits_at)


def bounds_of(n_trees: int, n_shards: int) -> list[int]:
    """Return the index of each shard's first tree, followed by the total number of trees."""
    return np.linspace(0, n_trees, n_shards + 1).round().astype(int).tolist()


def divided(model: AnyForest, n_shards: int) -> list[AnyForest]:
    """Return the shards of a forest; each shard is a forest with some of the trees.

    Each shard has the features, classes and arguments of the model, except `n_estimators`. The
    trees of the shards learn exactly like the trees of the model. The model must have learned at
    least `splits_at` samples.
    """
    check_shards(model, n_shards)
    with model._lock:
        model._settle()
        trees: Any = model._trees
        if trees is None or trees.n_samples < trees.splits_at:
            first, n = splits_at(model), model.n_samples
            raise ValueError(f"all trees learn the first {first} samples together, there are {n}")
        pairs = itertools.pairwise(bounds_of(trees.n_trees, n_shards))
        return [_with_trees(model, shard_of(trees, i, j), j - i) for i, j in pairs]


def united(shards: Sequence[AnyForest], tails: NDArray[np.float64] | None = None) -> AnyForest:
    """Return the forest with the trees of all shards.

    A regressor that learns the tails of its noise needs `tails`, which were learned from the
    predictions of all trees.
    """
    trees_of_shards: list[Any] = []
    for shard in shards:
        with shard._lock:
            shard._settle()
            trees_of_shards.append(shard._trees)
    trees = joined(trees_of_shards)
    if tails is not None:
        trees.tails[:] = tails
    return _with_trees(shards[0], trees, trees.n_trees)
