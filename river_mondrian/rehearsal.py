"""Compile a model's kernels by learning and predicting made-up samples."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base

# Number of samples in the warm-up of forests. Forests redraw their trees in the warm-up, and check
# the widths of features later.
N_CHANGES = 256
# Number of samples after which the feature maps that `warmup` creates are final.
N_SAMPLES = 2 * N_CHANGES + 8
N_ROWS = 4
# With this many features, forests have nodes without stored boxes (light nodes), which need other
# kernels.
N_WIDE = 128
PACKAGE = f"{__name__.partition('.')[0]}."
# Prefixes of the methods `..._one` and `..._many` that do not change a model.
READINGS = (
    "predict",
    "predict_proba",
    "predict_mixture",
    "decision",
    "score",
    "raw_scores",
    "density",
    "log_density",
    "surprise",
    "transform",
    "cells",
)
# Features have the names of an array's columns: 0, 1, ...
Values = dict[int, float]


def samples(n: int) -> list[tuple[Values, int]]:
    """Return `n` samples of two classes; the last four samples may have a third class.

    After the first 256 samples, values of feature 0 are ten times as large, so forests update the
    feature's width.
    """
    return [
        (
            {0: i * 37 % 101 / 101 * (1.0 if i < N_CHANGES else 10.0), 1: i * 53 % 103 / 103},
            i % (2 if i < n - 4 else 3),
        )
        for i in range(n)
    ]


def call_first(model: Any) -> None:
    """Learn and predict three samples with a model, to compile the kernels of first calls."""
    for x, y in samples(3):
        _learn_one(model, x, y)
        for name, method in _readings(model, "one"):
            if name in ("predict", "predict_proba", "score", "transform"):
                with contextlib.suppress(NotImplementedError):
                    method(x)


def rehearse(make: Callable[[], Any]) -> None:
    """Learn and predict single samples and rows of an array with a new model.

    Also pickle and load the model, to compile the checks of restored models.
    """
    stream = samples(N_SAMPLES)
    model = make()
    for i, (x, y) in enumerate(stream):
        _learn_one(model, x, y)
        if i in (0, N_SAMPLES // 2, N_SAMPLES - 5, N_SAMPLES - 1):
            for inputs in (x, {0: x[0]}):
                _read_one(model, inputs)
    _learn_and_read_rows(model, stream)
    # This sample has enough features for light nodes, whose kernels are compiled now.
    if getattr(getattr(model, "_trees", None), "_may_have_light", False):
        _learn_one(model, {i: i / N_WIDE for i in range(N_WIDE)}, 0)
    _store_and_load(model)


def _learn_one(model: Any, x: Values, y: int) -> None:
    if isinstance(model, base.Classifier | base.Regressor):
        model.learn_one(x, _target(model, y))  # type: ignore[arg-type]
    else:
        model.learn_one(x)


def _target(model: Any, y: int) -> float:
    return float(y) if isinstance(model, base.Regressor) else y


def _read_one(model: Any, x: Values) -> None:
    for name, method in _readings(model, "one"):
        with contextlib.suppress(NotImplementedError):
            method(x)
        if name == "predict" and isinstance(model, base.Regressor):
            _read_distribution(model, x)


def _readings(model: Any, suffix: str) -> list[tuple[str, Callable[[Any], Any]]]:
    """Return the methods of `READINGS` that this package defines, and that can be called now."""
    # A feature map that is not final may be unable to transform samples.
    unread = () if getattr(model, "frozen", True) else ("cells", "transform")
    methods = {name: getattr(model, f"{name}_{suffix}", None) for name in READINGS}
    return [
        (name, method)
        for name, method in methods.items()
        if method is not None and method.__module__.startswith(PACKAGE) and name not in unread
    ]


def _read_distribution(model: Any, x: Values) -> None:
    try:
        model.predict_one(x, with_dist=True)
    except TypeError:
        # The regressor has no `with_dist`, so there are no kernels of distributions to compile.
        return


def _learn_and_read_rows(model: Any, stream: list[tuple[Values, int]]) -> None:
    if not hasattr(model, "learn_many"):
        return
    rows = _array(stream[:N_ROWS])
    if isinstance(model, base.MiniBatchClassifier | base.MiniBatchRegressor):
        model.learn_many(rows, np.array([_target(model, y) for _, y in stream[:N_ROWS]]))
    else:
        model.learn_many(rows)
    # Rows that the model has not learned may need other kernels than learned rows.
    rows = _array(stream[:N_ROWS] + samples(N_SAMPLES + N_ROWS)[N_SAMPLES:])
    for _, method in _readings(model, "many"):
        with contextlib.suppress(NotImplementedError):
            method(rows)


def _array(stream: list[tuple[Values, int]]) -> NDArray[np.float64]:
    return np.array([[x[0], x[1]] for x, _ in stream])


def _store_and_load(model: Any) -> None:
    try:
        stored = pickle.dumps(model)
    except (AttributeError, TypeError, pickle.PicklingError):
        # An argument cannot be pickled, so the kernels that check loaded models are not needed.
        return
    pickle.loads(stored)
