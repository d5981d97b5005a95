"""Outputs of configurations as float64, and changes of models in the middle of a stream."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..data import Array, Stream

Say = Callable[[Any, Mapping[Any, float]], Iterable[Any]]
Step = Callable[[Any], Any]


def number(value: Any) -> float:
    """Return an output as a number: None is NaN, and other objects are a checksum."""
    if value is None:
        return math.nan
    if isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
        return float(value)
    return float(zlib.crc32(repr(value).encode()))


# Outputs of a model for a sample.


def proba(model: Any, x: Mapping[Any, float]) -> Iterable[Any]:
    return model.predict_proba_one(x).values()


def label(model: Any, x: Mapping[Any, float]) -> Iterable[Any]:
    return [model.predict_one(x)]


def both(model: Any, x: Mapping[Any, float]) -> Iterable[Any]:
    return [*proba(model, x), *label(model, x)]


def decision(model: Any, x: Mapping[Any, float]) -> Iterable[Any]:
    return model.decision_one(x).values()


def dist(model: Any, x: Mapping[Any, float]) -> Iterable[Any]:
    if not getattr(model, "n_samples", 1):
        return label(model, x)
    found = model.predict_one(x, with_dist=True)
    return [found.mean, found.var**0.5]


def mixture(model: Any, x: Mapping[Any, float]) -> Iterable[Any]:
    if not model.n_samples:
        return []
    found = model.predict_one(x, with_dist=True)
    y = found.mean + 0.3
    return [found.mean, found.var, found.cdf(y), found.log_pdf(y), found.crps(y)]


def density(model: Any, x: Mapping[Any, float]) -> Iterable[Any]:
    return [model.log_density_one(x), model.score_one(x)]


def mapped(model: Any, x: Mapping[Any, float]) -> Iterable[Any]:
    found = model.transform_one(x)
    return [number(list(found)), *found.values()]


def cells(model: Any, x: Mapping[Any, float]) -> Iterable[Any]:
    found = model.transform_one(x)
    return [number(list(found)), *(model.cells_one(x).tolist() if found else [])]


# Functions that replace the model in the middle of a stream.


def pickled(model: Any) -> Any:
    return pickle.loads(pickle.dumps(model))


def copied(model: Any) -> Any:
    return copy.deepcopy(model)


def resampled(model: Any) -> Any:
    model.resample()
    return model


# Outputs of a model at the end of a stream.


def trees(model: Any) -> list[float]:
    """Return all columns of the first trees, and the cut directions of these trees."""
    found: list[float] = []
    for tree in range(1 if model.n_estimators < 4 else 2):
        frame = model.to_dataframe(tree)
        found.append(number(list(frame.columns)))
        for name in frame.columns:
            found += [number(value) for value in frame[name].tolist()]
        for direction in model.cut_directions(tree):
            found += [number(list(direction)), *direction.values()]
    return found


def run(
    model: Any,
    samples: Stream,
    say: Say,
    steps: Mapping[float, Step] | None = None,
    end: Callable[[Any], Iterable[Any]] = lambda model: [],
    weights: Sequence[float] | None = None,
    supervised: bool = True,
) -> Array:
    """Predict each sample and then learn it; return all outputs.

    After a share of the samples, a function of `steps` replaces the model. At the end, predictions
    are made for every fifth sample, a distant sample and samples without known features.
    """
    n = len(samples)
    due = {int(share * n): step for share, step in (steps or {}).items()}
    found: list[float] = []
    for i, (x, y) in enumerate(samples):
        if i in due:
            model = due[i](model)
        found += [number(value) for value in say(model, x)]
        if not supervised:
            model.learn_one(x)
        elif weights is None:
            model.learn_one(x, y)
        else:
            model.learn_one(x, y, w=weights[i])
    far = {name: 3.0 * value + 1.0 for name, value in samples[0][0].items()}
    for x in [*(x for x, _ in samples[::5]), far, {}, {"unknown": 1.0}]:
        found += [number(value) for value in say(model, x)]
    found.append(number(getattr(model, "classes", None)))
    found += [number(value) for value in end(model)]
    return np.array(found)


# Frames.


def frame(samples: Stream) -> tuple[pd.DataFrame, pd.Series]:
    return pd.DataFrame([x for x, _ in samples]), pd.Series([y for _, y in samples])


def as_array(values: Any) -> list[float]:
    """Return the values of a frame or series, and a checksum of the columns."""
    if not hasattr(values, "columns"):
        read = values.to_pylist if hasattr(values, "to_pylist") else values.to_list
        return [number(value) for value in read()]
    names = getattr(values, "column_names", None) or list(values.columns)
    found = [number([str(name) for name in names])]
    return found + np.asarray(values, dtype=float).ravel().tolist()


def run_frames(
    model: Any,
    samples: Stream,
    say: Callable[[Any, Any], list[Any]],
    make: Callable[[pd.DataFrame], Any] = lambda found: found,
    weights: Sequence[float] | None = None,
    supervised: bool = True,
) -> Array:
    """Predict and learn blocks of rows, partly in the warm-up; return all outputs."""
    X, y = frame(samples)
    found: list[float] = []
    n = len(samples)
    starts = [0, 1, 100, min(n // 2, 330), 2 * n // 3, n]
    for start, stop in itertools.pairwise(starts):
        block, kept = make(X[start:stop]), y[start:stop]
        if start:
            for outputs in say(model, block):
                found += as_array(outputs)
        if not supervised:
            model.learn_many(block)
        elif weights is None:
            model.learn_many(block, kept)
        else:
            model.learn_many(block, kept, w=pd.Series(weights[start:stop], index=kept.index))
    for outputs in say(model, make(X)):
        found += as_array(outputs)
    return np.array(found)
