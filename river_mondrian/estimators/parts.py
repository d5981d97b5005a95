"""Forests of which each has some of the trees of another one, and back."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..partitions.mondrian.parts import joined, part_of
from .classifier import MondrianForestClassifier
from .regressor import MondrianForestRegressor

AnyForest = TypeVar("AnyForest", MondrianForestClassifier, MondrianForestRegressor)


def check_parts(model: Any, n_parts: int) -> None:
    """Refuse a model that cannot be divided into so many parts.

    Raises
    ------
    TypeError
        If it is no forest whose trees learn apart.
    ValueError
        If it has not as many trees, or `max_nodes`, or a `window`.

    """
    if type(model) not in (MondrianForestClassifier, MondrianForestRegressor):
        raise TypeError(
            "only MondrianForestClassifier and MondrianForestRegressor have trees that learn "
            f"apart, got {type(model).__name__}"
        )
    if model.max_nodes is not None:
        raise ValueError(
            "with max_nodes all trees together decide when samples are stored no more, "
            f"got {model.max_nodes!r}"
        )
    if model.window is not None:
        raise ValueError(
            "with a window samples are learned and forgotten in turns, by all trees together, "
            f"got window={model.window!r}"
        )
    if not 1 <= n_parts <= model.n_estimators:
        raise ValueError(f"{model.n_estimators} trees have no {n_parts} parts")


def _with_trees(model: AnyForest, trees: Any, n: int) -> AnyForest:
    """Return a forest of `n` trees with the features and labels of another one."""
    made = type(model)(**model._arguments() | {"n_estimators": n})
    made._features = copy.deepcopy(model._features)
    if isinstance(model, MondrianForestClassifier):
        made._labels = dict(model._labels)
    made._trees = trees
    return made


def splits_at(model: AnyForest) -> int:
    """Return the number of samples from which on a forest may be divided."""
    with model._lock:
        return int(model._grown().splits_at)


def bounds_of(n_trees: int, n_parts: int) -> list[int]:
    """Return the first tree of each part, and the number of trees."""
    found: list[int] = np.linspace(0, n_trees, n_parts + 1).round().astype(int).tolist()
    return found


def divided(model: AnyForest, n_parts: int) -> list[AnyForest]:
    """Return forests with a part of the trees each.

    They have the features, classes and arguments of the model but for `n_estimators`, and learn
    what its trees would learn; the model has learned enough samples (`splits_at`).
    """
    check_parts(model, n_parts)
    with model._lock:
        model._settle()
        trees: Any = model._trees
        if trees is None or trees.n_samples < trees.splits_at:
            raise ValueError(
                f"all trees learn the first {splits_at(model)} samples together, "
                f"there are {model.n_samples}"
            )
        bounds = bounds_of(trees.n_trees, n_parts)
        return [
            _with_trees(model, part_of(trees, start, stop), stop - start)
            for start, stop in itertools.pairwise(bounds)
        ]


def united(parts: Sequence[AnyForest], law: NDArray[np.float64] | None = None) -> AnyForest:
    """Return the forest with the trees of all parts.

    A regressor that learns the tails of its noise needs their law: parts know of their own trees
    alone.
    """
    found: list[Any] = []
    for part in parts:
        with part._lock:
            part._settle()
            found.append(part._trees)
    trees = joined(found)
    if law is not None:
        trees.law_numbers[:] = law
    return _with_trees(parts[0], trees, trees.n_trees)
