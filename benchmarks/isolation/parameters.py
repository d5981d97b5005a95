"""Time and accuracy against psi, t and budget: the paper's Figures 4 and 5."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np
import pandas as pd

from river_mondrian import IsolationFeatures, OGDClassifier

from ..data import DataFolder
from ..report import Report, progress, pyplot
from ..timing import median, repeated
from .models import (
    FOLDS,
    IK_A,
    IK_I,
    NOGD,
    RATE,
    RFF,
    Primal,
    T,
    accuracy_of,
    built,
    choose_psi,
    features_of,
)
from .sets import frame_of, gaussian_blobs, two_class_sets
from .speed import calls_of


@numba.njit(fastmath=True)
def _naive_products(cells: Any, weights: Any, dense: Any) -> float:
    """Return the dot product of the weights and each row's t psi features, which are 0 or 1."""
    total = 0.0
    for row in range(len(cells)):
        for k in range(cells.shape[1]):
            dense[cells[row, k]] = 1.0
        for j in range(len(weights)):
            total += weights[j] * dense[j]
        for k in range(cells.shape[1]):
            dense[cells[row, k]] = 0.0
    return total


def figure4(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure times of map, prediction and update against psi (Figure 4 of Ting et al. 2021)."""
    n, repeats = (300, 1) if quick else (2000, 5)
    grid = (16, 256) if quick else (4, 16, 64, 256, 1024, 4096, 16384)
    X, y = gaussian_blobs(max(4 * grid[-1], 4 * n), 10)
    frame, labels = frame_of(X[:n]), pd.Series(y[:n])
    rows = []
    for psi in grid:
        progress(f"figure4: psi = {psi}")
        features = IsolationFeatures(T, psi, method="iforest", pool_size=4 * psi, seed=1)
        features = built(features, X[: 4 * psi])
        cells = np.ascontiguousarray(features.to_csr(frame).indices.reshape(n, T), dtype=np.int32)
        product, dense = np.ones(T * psi), np.zeros(T * psi)
        _naive_products(cells[:1], product, dense)
        model = OGDClassifier(features=features, loss="hinge", learning_rate=RATE)
        model.learn_many(frame[:1], labels[:1])
        weights = model._current
        assert weights is not None
        targets, ones = y[:n].astype(float), np.ones(n)
        calls: dict[str, Callable[[], Any]] = {
            "map": partial(features.cells_many, frame),
            # The rows are mapped before, so only the model is timed.
            "learn": partial(weights.learn_rows, cells, targets, ones),
            "naive": partial(_naive_products, cells, product, dense),
        }
        runs = repeated(repeats, partial(calls_of, calls))
        mapped, learned, naive = (1e6 * median(runs, name, "all") / n for name in calls)
        rows.append(
            (psi, f"{mapped:.2f}", f"{learned:.2f}", f"{naive:.2f}", f"{naive / learned:.1f}")
        )
    report.note(
        "Time against the number of cells per partition, psi (Figure 4 of Ting et al. 2021). "
        f"Times are microseconds per row, medians of {repeats} runs, with t = {T} partitions by "
        f"isolation trees. The data are {n} rows of 20 Gaussian blobs in 10 dimensions. The naive "
        "product sums t psi products and makes no update. The last column has the time of the "
        "naive product relative to predict and update."
    )
    report.table(("psi", "map", "predict and update", "naive product", "ratio"), rows)


def figure5(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare accuracy by number of partitions and by budget (Figure 5 of Ting et al. 2021)."""
    grid = (10, 100) if quick else (10, 30, 100, 300, 1000)
    plt = pyplot()
    rows = []
    sets = two_class_sets(data, quick, {"covtype": (20_000, 10_000)})
    figure, axes = plt.subplots(2, len(sets), figsize=(5 * len(sets), 7), squeeze=False)
    for column, each in enumerate(sets):
        for peer in (NOGD, RFF, IK_I, IK_A):
            psi = choose_psi(peer, each.X[:5000], each.y[:5000], quick)
            accuracies, times = [], []
            for t in grid:
                progress(f"figure5: {each.name}, {peer}, {t}")
                features = features_of(peer, psi, len(each.X), each.d, t)
                model = Primal(features, each.X)
                began = time.perf_counter()
                model.learn(each.X, each.y)
                accuracies.append(accuracy_of(model, each.X_test, each.y_test))
                times.append(time.perf_counter() - began)
                rows.append((each.name, peer, psi, t, f"{accuracies[-1]:.4f}", f"{times[-1]:.2f}"))
            axes[0, column].plot(grid, accuracies, "o-", label=peer)
            axes[1, column].plot(grid, times, "o-", label=peer)
        axes[0, column].set_title(each.name)
        axes[0, column].set_xscale("log")
        axes[1, column].set(xscale="log", yscale="log", xlabel="t or b")
    axes[0, 0].set_ylabel("accuracy")
    axes[1, 0].set_ylabel("seconds")
    axes[0, 0].legend()
    report.note(
        "Accuracy and time against the number of partitions t and the budget b (Figure 5 of Ting "
        "et al. 2021). The isolation kernels have t partitions, NOGD has the budget b and the "
        "rank 0.2 b, and random Fourier features have t features. Models have the hinge loss and "
        f"the constant learning rate {RATE}. The number of cells per partition, psi, is selected "
        f"by {FOLDS}-fold cross-validation at t = b = {T}."
    )
    report.table(("data", "model", "psi", "t or b", "accuracy", "learn and test, s"), rows)
    report.figure(figure, "")
