"""What a model does once with samples that are made up, so that its kernels are compiled ahead."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from river import base

# After so many samples forests have drawn their trees anew, and then renewed widths.
N_CHANGES = 256
# Feature maps have their points by then, with the arguments of which `warmup` makes them.
N_SAMPLES = 2 * N_CHANGES + 8
N_ROWS = 4
PACKAGE = f"{__name__.partition('.')[0]}."
# Methods that read a model, for one sample or for many.
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
# What has frames, best known first.
BACKENDS = ("pandas", "polars")

Values = dict[str, float]


def samples(n: int) -> list[tuple[Values, int]]:
    """Make `n` samples of two classes, the last ones of three.

    After the first 256 the units of a feature change, so that widths are renewed.
    """
    return [
        (
            {"a": i * 37 % 101 / 101 * (1.0 if i < N_CHANGES else 10.0), "b": i * 53 % 103 / 103},
            i % (2 if i < n - 4 else 3),
        )
        for i in range(n)
    ]


def rehearse(make: Callable[[], Any]) -> None:
    """Let models learn and predict, one sample and many, as soon as they can and later."""
    given = samples(N_SAMPLES)
    model = make()
    for i, (x, y) in enumerate(given):
        _learn_one(model, x, y)
        if i in (0, N_SAMPLES // 2, N_SAMPLES - 5, N_SAMPLES - 1):
            for inputs in (x, {"a": x["a"]}):
                _read_one(model, inputs)
    _learn_and_read_rows(model, given)


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
            _read_law(model, x)


def _may(model: Any, name: str) -> bool:
    """Tell whether a model has what a method reads: a map may have no points yet."""
    return name not in ("cells", "transform") or bool(getattr(model, "frozen", True))


def _readings(model: Any, suffix: str) -> list[tuple[str, Callable[[Any], Any]]]:
    """Return the package's own methods that read a model now."""
    methods = ((name, getattr(model, f"{name}_{suffix}", None)) for name in READINGS)
    return [
        (name, method)
        for name, method in methods
        if method is not None and method.__module__.startswith(PACKAGE) and _may(model, name)
    ]


def _read_law(model: Any, x: Values) -> None:
    try:
        model.predict_one(x, with_dist=True)
    except TypeError:
        # It predicts numbers alone.
        return


def _learn_and_read_rows(model: Any, given: list[tuple[Values, int]]) -> None:
    backend = next((name for name in BACKENDS if importlib.util.find_spec(name)), None)
    # Nobody calls with frames where nothing has them.
    if backend is None or not hasattr(model, "learn_many"):
        return
    frames: Any = importlib.import_module(backend)
    rows = frames.DataFrame([x for x, _ in given[:N_ROWS]])
    if isinstance(model, base.MiniBatchClassifier | base.MiniBatchRegressor):
        targets = frames.Series([_target(model, y) for _, y in given[:N_ROWS]])
        model.learn_many(rows, targets)
    else:
        model.learn_many(rows)
    # Some are new.
    rows = frames.DataFrame(
        [x for x, _ in given[:N_ROWS] + samples(N_SAMPLES + N_ROWS)[N_SAMPLES:]]
    )
    for _, method in _readings(model, "many"):
        with contextlib.suppress(NotImplementedError):
            method(rows)
