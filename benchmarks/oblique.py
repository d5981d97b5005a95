"""Kernels, pictures and forests of cut directions and random lifetimes.

Figures, theorems, equations and examples are those of O'Reilly and Tran (2022).

Each part of the suite `stit` is a function of the data folder, the report, and a flag for quick
runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from river_mondrian import MondrianFeatures, MondrianForestClassifier, MondrianForestRegressor

from .data import Array, DataFolder, min_max, stream
from .report import Report, progress, pyplot
from .timing import median, repeated, test_then_learn

ROOT_HALF = math.sqrt(0.5)
THREE = [{"a": 1.0}, {"b": 1.0}, {"a": ROOT_HALF, "b": ROOT_HALF}]
# The paper's lifetimes are divided by the number of directions.
FIGURE3_LIFETIME = 9.0 / len(THREE)


def _names(d: int) -> list[str]:
    return [f"x{j}" for j in range(d)]


def _mapping(row: Array) -> dict[Any, float]:
    return dict(zip(_names(len(row)), row.tolist(), strict=True))


def _gaussian_directions(n: int, d: int, seed: int) -> list[dict[Any, float]]:
    """Return directions with normal coefficients, weighted as for the isotropic kernel."""
    rows = np.random.default_rng(seed).standard_normal((n, d))
    return [_mapping(row) for row in rows * math.sqrt(math.pi / 2.0) / n]


def convergence(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure a kernel's error by number of partitions (Theorem 4.3 of O'Reilly and Tran 2022)."""
    sizes, seeds = ((10, 40, 160), 2) if quick else ((10, 20, 50, 100, 200, 500, 1000), 8)
    points = np.random.default_rng(0).random((100, 2))
    frame = pd.DataFrame(points, columns=["a", "b"])
    gaps = (points[:, None] - points).reshape(-1, 2)
    # The kernel of few random directions would not be isotropic.
    kinds: dict[str, Any] = {"axes": None, "isotropic (100)": 100, "three": THREE}
    table: list[list[Any]] = [[m] for m in sizes]
    slopes: list[Any] = ["slope"]
    for kind, directions in kinds.items():
        limit = MondrianFeatures(lifetime=3.0, directions=directions)
        zero = {"a": 0.0, "b": 0.0}
        exact = np.array([limit.limit_kernel({"a": a, "b": b}, zero) for a, b in gaps.tolist()])
        middle = []
        for i, m in enumerate(sizes):
            progress(f"{kind}, M = {m}")
            errors = []
            for seed in range(seeds):
                features = MondrianFeatures(m, 3.0, directions, seed)
                features.learn_many(frame)
                errors.append(np.abs(features.gram(frame).ravel() - exact).max())
            middle.append(float(np.median(errors)))
            table[i].append(f"{middle[-1]:.3f} ({min(errors):.3f}, {max(errors):.3f})")
        slopes.append(f"{np.polyfit(np.log(sizes), np.log(middle), 1)[0]:.2f}")
    report.note(
        "Error of the kernel over a window against the number of partitions M (Theorem 4.3 of "
        "O'Reilly and Tran 2022). A cell has the largest absolute difference from the limit "
        "kernel over all pairs of 100 uniform points of the unit square. The lifetime is 3. Each "
        f"cell shows the median of {seeds} seeds (smallest, largest). The last row has the slope "
        "of log error against log M; the expected slope is -1/2."
    )
    report.table(["M", *kinds], [*table, slopes])


def figure1(data: DataFolder, report: Report, quick: bool) -> None:
    """Draw contours of four kernels and of their limits (Figure 1 of O'Reilly and Tran 2022)."""
    plt = pyplot()
    if plt is None:
        return
    n, ticks = (100, 21) if quick else (2000, 61)
    gaussian = [
        dict(zip("ab", row.values(), strict=True)) for row in _gaussian_directions(10, 2, 3)
    ]
    kinds: dict[str, tuple[Any, float]] = {
        "axes: Laplace": (None, 1.0),
        "isotropic: exponential": (40, 1.0),
        "three directions": (THREE, 1.0 / math.sqrt(3.0)),
        "ten Gaussian directions": (gaussian, 1.0),
    }
    line = np.linspace(-2.0, 2.0, ticks)
    grid = pd.DataFrame(list(itertools.product(line, line)), columns=["b", "a"])[["a", "b"]]
    origin = pd.DataFrame({"a": [0.0], "b": [0.0]})
    figure, axes = plt.subplots(2, 4, figsize=(15, 7.6), sharex=True, sharey=True)
    for column, (kind, (directions, lifetime)) in zip(axes.T, kinds.items(), strict=True):
        progress(kind)
        features = MondrianFeatures(n, lifetime, directions, seed=1)
        features.learn_many(origin)
        features.learn_many(grid)
        found = features.gram(grid, origin)
        zero = {"a": 0.0, "b": 0.0}
        exact = np.array([features.limit_kernel(x, zero) for x in grid.to_dict("records")])
        for axis, values in zip(column, (found, exact), strict=True):
            axis.contour(line, line, values.reshape(ticks, ticks), levels=np.linspace(0.1, 0.9, 9))
            axis.set_aspect("equal")
        column[0].set_title(kind)
    axes[0, 0].set_ylabel(f"{n} partitions")
    axes[1, 0].set_ylabel("limit")
    report.note(
        "Contours of the kernel k(0, x) as a function of x, at .1, .2, ..., .9 (Figure 1 of "
        "O'Reilly and Tran 2022). The top row has the frequencies with which 0 and x share a "
        "cell, and the bottom row has the limit kernels."
    )
    report.figure(figure, "")
    plt.close(figure)


def figure3(data: DataFolder, report: Report, quick: bool) -> None:
    """Draw a STIT process at four times (Figure 3 of O'Reilly and Tran 2022)."""
    plt = pyplot()
    if plt is None:
        return
    line = np.linspace(-0.5, 0.5, 20 if quick else 60)
    features = MondrianFeatures(1, FIGURE3_LIFETIME, THREE, seed=3)
    features.learn_many(pd.DataFrame(list(itertools.product(line, line)), columns=["a", "b"]))
    times = sorted(node.time for node in features.nodes(0) if not node.is_leaf)
    figure, axes = plt.subplots(1, 4, figsize=(15, 4))
    for axis, time in zip(axes, [*times[:3], FIGURE3_LIFETIME], strict=True):
        features.draw_partition(time=time, ax=axis)
        axis.set(title=f"t = {len(THREE) * time:.2f}: {len(axis.patches)} cells", aspect="equal")
    report.note(
        "A STIT process in time (Figure 3 of O'Reilly and Tran 2022). The picture shows a "
        "partition of the unit square with the three directions of Example 2.1. The picture shows "
        f"the times of the first three cuts, and t = 9 with {len(times)} cuts. All times are in "
        "the paper's units, in which a time is three times as large as in the package."
    )
    report.figure(figure, "")
    plt.close(figure)


def _principal(X: Array, n: int) -> list[dict[Any, float]]:
    """Return the principal directions of the first 1,000 rows, by descending variance."""
    _, _, rows = np.linalg.svd(X[:1000] - X[:1000].mean(axis=0), full_matrices=False)
    return [_mapping(row) for row in rows[:n]]


def _checkerboard(n: int) -> tuple[Array, Array, list[dict[Any, float]]]:
    """Return a checkerboard rotated by 45 degrees, and the normals of its edges."""
    X = np.random.default_rng(0).random((n, 2))
    turn = np.array([[1.0, 1.0], [1.0, -1.0]]) * ROOT_HALF
    return X, (np.floor(4.0 * X @ turn.T).sum(axis=1) % 2).astype(int), [_mapping(r) for r in turn]


def forests(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare accuracy and time of forests that cut along axes, random and given directions."""
    n = 500 if quick else 5000
    sets: dict[str, tuple[Array, Array, list[dict[Any, float]]]] = {
        "rotated checkerboard": _checkerboard(n)
    }
    for name in ("letter", "satimage", "kin8nm"):
        arrays = data.load(name)
        if arrays is not None:
            order = np.random.default_rng(0).permutation(len(arrays["X_train"]))[:n]
            (X,) = min_max(arrays["X_train"][order])
            sets[name] = X, arrays["y_train"][order], _principal(X, X.shape[1])
    table = []
    for name, (X, y, given) in sets.items():
        d = X.shape[1]
        real = y.dtype.kind == "f"
        samples = stream(X, y)
        kinds: dict[str, Any] = {
            "axes": None,
            "given": given,
            "random, d": d,
            "random, 4 d": 4 * d,
        }
        errors: dict[str, list[float]] = {}
        make: Callable[..., Any] = MondrianForestRegressor if real else MondrianForestClassifier
        for kind, directions in kinds.items():
            errors[kind] = []
            for seed in range(1 if quick else 3):
                progress(f"{name}, {kind}, seed {seed}")
                model = make(n_estimators=25, directions=directions, seed=seed)
                errors[kind].append(_error(model, samples, real))

        def peers(
            seed: int, kinds: Any = kinds, make: Any = make, part: Any = samples[:2000]
        ) -> Any:
            return {
                kind: test_then_learn(make(directions=directions, seed=seed), part, "predict_one")
                for kind, directions in kinds.items()
            }

        runs = repeated(1 if quick else 3, peers)
        base = [median(runs, "axes", phase) for phase in ("learn", "predict")]
        for kind, directions in kinds.items():
            cost = [
                median(runs, kind, p) / b for p, b in zip(("learn", "predict"), base, strict=True)
            ]
            size = d if directions is None else directions
            size = len(size) if isinstance(size, Sequence) else size
            mean, spread = float(np.mean(errors[kind])), float(np.std(errors[kind]))
            found = f"{mean:.4f} +- {spread:.4f}"
            table.append([name, d, kind, size, found, *(f"{c:.2f}" for c in cost)])
    report.note(
        f"Accuracy and time of forests with oblique cuts. The forests have 25 trees, and {n} "
        "samples in random order, scaled to [0, 1]. The column `accuracy or MAE` has the "
        "progressive accuracy (for kin8nm: the mean absolute error), as mean +- standard "
        "deviation over seeds. For the checkerboard, the given directions are the normals of the "
        "edges. For the other sets, the given directions are the principal directions of the "
        "first 1,000 samples. The last columns have the times of learn_one and predict_one with "
        "10 trees on the first 2,000 samples, relative to cuts along the axes."
    )
    headers = ["set", "d", "directions", "n", "accuracy or MAE", "learn", "predict"]
    report.table(headers, table)


def _error(model: Any, samples: Any, real: bool) -> float:
    total = 0.0
    for x, y in samples:
        outputs = model.predict_one(x)
        total += abs(outputs - y) if real else float(outputs == y)
        model.learn_one(x, y)
    return total / len(samples)


PARTS = {
    "figure1": figure1,
    "figure3": figure3,
    "convergence": convergence,
    "forests": forests,
}
