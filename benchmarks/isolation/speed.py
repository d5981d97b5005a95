"""Time of maps, predictions and updates: the paper's Figure 4, and the dual."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numba
import numpy as np
import pandas as pd

from river_mondrian import DualOGDClassifier, IsolationFeatures, OGDClassifier

from ..data import DataFolder, frame_of, stream
from ..report import Report, progress
from ..timing import median, no_gc, repeated
from .models import IK_I, OGD, RATE, T, built, isolation_map
from .sets import gaussian_blobs


def _calls_of(calls: Mapping[str, Callable[[], Any]], seed: int = 0) -> dict[str, Iterator[str]]:
    """Convert each call to an iterator with one step."""

    def step(call: Callable[[], Any]) -> Iterator[str]:
        call()
        yield "all"

    return {name: step(call) for name, call in calls.items()}


@numba.njit(fastmath=True)
def _naive_products(cells: Any, weights: Any, dense: Any) -> float:
    """Return the sum over rows of the dot products of weights and dense features.

    A row has t psi features, which are 0 or 1.
    """
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
    """Measure times of map, prediction and update against psi (Figure 4 of Ting et al. 2021).

    Time against the number of cells per partition, psi (Figure 4 of Ting et al. 2021). Times
    are microseconds per row, medians of {repeats} runs, with t = {T} partitions by isolation
    trees. The data are {n} rows of 20 Gaussian blobs in 10 dimensions. The naive product sums t
    psi products and makes no update. The last column has the time of the naive product relative
    to predict and update.
    """
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
            # The rows are mapped in advance, so only the model is timed.
            "learn": partial(weights.learn_rows, cells, targets, ones),
            "naive": partial(_naive_products, cells, product, dense),
        }
        runs = repeated(repeats, partial(_calls_of, calls))
        us = [1e6 * median(runs, name, "all") / n for name in calls]
        rows.append((psi, *(f"{one:.2f}" for one in us), f"{us[2] / us[1]:.1f}"))
    report.about(figure4, repeats=repeats, n=n)
    report.table(("psi", "map", "predict and update", "naive product", "ratio"), rows)


def dual(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare times of primal and dual predictions (section 8.1.1 of Ting et al. 2021).

    Time of primal and dual predictions along a stream (section 8.1.1 of Ting et al. 2021). The
    stream has {n} rows of 20 Gaussian blobs in 20 dimensions, and one in five labels is wrong.
    Samples are mappings. Times are mean microseconds per sample over the twentieth of the
    stream that ends at the given number of samples. At the end the dual models have
    {n_supports} support vectors.
    """
    n = 2000 if quick else 20_000
    X, y = gaussian_blobs(n, 20)
    # One in five labels is wrong, so the number of support vectors grows steadily.
    noise = np.random.default_rng(1).random(n) < 0.2
    y = np.where(noise, 1 - y, y)
    samples = stream(X, y)
    features = isolation_map("iforest", 64, 1024)
    models: dict[str, Any] = {
        IK_I: OGDClassifier(features=features, loss="hinge", learning_rate=RATE),
        "IK_i-OGD (dual)": DualOGDClassifier(features, learning_rate=RATE),
        OGD: DualOGDClassifier("laplace", lifetime=math.log(64) / 20, learning_rate=RATE),
    }
    course: dict[str, list[float]] = {name: [] for name in models}
    size = n // 20
    with no_gc():
        for begin in range(0, n, size):
            progress(f"dual: {begin} of {n}")
            for name, model in models.items():
                began = time.perf_counter()
                for x, label in samples[begin : begin + size]:
                    model.predict_one(x)
                    model.learn_one(x, label)
                course[name].append(1e6 * (time.perf_counter() - began) / size)
    duals, rows = list(models)[1:], []
    for i in (0, 4, 9, 14, 19):
        us = {name: times[i] for name, times in course.items()}
        ratios = (f"{us[name] / us[IK_I]:.1f}" for name in duals)
        rows.append(((i + 1) * size, *(f"{one:.1f}" for one in us.values()), *ratios))
    supports = " and ".join(str(models[name].n_supports) for name in duals)
    report.about(dual, n=n, n_supports=supports)
    headers = ("samples", *(f"{name}, us" for name in models))
    report.table((*headers, *(f"{name} / {IK_I}" for name in duals)), rows)
    with report.drawing() as axes:
        for name, times in course.items():
            axes.plot(np.arange(1, 21) * size, times, label=name)
        axes.set(xlabel="samples", ylabel="microseconds per sample", yscale="log")
        axes.legend()
