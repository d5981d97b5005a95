"""Exact ridge regression and the sweep over lifetimes: Figures 6 to 10 of Balog et al. (2016)."""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.spatial import distance

import river_mondrian as rm
from river_mondrian.learners.lifetimes.path import LifetimePath

from .data import Array, DataFolder, frame_of
from .report import Report, progress

DELTA2 = 1e-4
LIFETIME = 1e-6  # Lifetime of Figure 6, for raw features.
LARGER = 0.1  # Another ridge for Figure 6.
DENSE = 20_000  # With fewer columns, the matrix of cells is dense.
MONDRIAN, BINNING, FOURIER = "Mondrian", "random binning", "random Fourier"


def _cpu(data: DataFolder, quick: bool) -> list[Array]:
    """Return training rows, their targets, test rows and their targets."""
    arrays, n = data.load("cpu"), 1000 if quick else None
    return [arrays[f"{key}_{part}"][:n].astype(float) for part in ("train", "test") for key in "Xy"]


def _percent(found: Array, y: Array) -> float:
    """Return the relative error 100 |found - y| / |y|."""
    return float(100.0 * np.linalg.norm(found - y) / np.linalg.norm(y))


def _mondrian(rows: Array, n: int, M: int, lifetime: float, seed: int) -> sparse.csr_matrix:
    """Map rows by Mondrian partitions of the first n rows."""
    path = rm.lifetime_path(
        rows[:n], np.zeros(n), lifetime, n_partitions=M, learners=["forest"], seed=seed
    )
    cells = np.tile(np.arange(M), (len(rows), 1))
    for number, (m, cell, feature, place) in enumerate(path.cuts.tolist()):
        cells[(cells[:, m] == cell) & (rows[:, feature] > place), m] = M + number
    values = np.full(cells.size, 1.0 / math.sqrt(M))
    starts = np.arange(0, cells.size + 1, M)
    return sparse.csr_matrix((values, cells.ravel(), starts), (len(rows), M + len(path.cuts)))


def _mapped(kind: str, rows: Array, n: int, M: int, lifetime: float, seed: int) -> Any:
    """Map each row to M non-zero features; Fourier features are dense."""
    if kind == MONDRIAN:
        return _mondrian(rows, n, M, lifetime, seed)
    frame = frame_of(rows)
    if kind == BINNING:
        features: Any = rm.RandomBinningFeatures(M, lifetime=lifetime, seed=seed)
        features.learn_many(frame)
        return features.to_csr(frame)
    features = rm.RandomFourierFeatures(M + M % 2, "laplace", lifetime=lifetime, seed=seed)
    features.learn_many(frame)
    return features.to_csr(frame).toarray()


def _ridge(Phi: Any, y: Array, *ridges: float) -> list[Array]:
    """Predict all rows by ridge regression on the first rows, for each ridge."""
    first = Phi[: len(y)]
    if first.shape[1] <= len(y):
        A = first.T @ first
        A = A.toarray() if sparse.issparse(A) else A
        targets, mapped = first.T @ y, Phi
    else:
        if sparse.issparse(Phi) and Phi.shape[1] < DENSE:
            # Products of the 0-1 matrix are exact in single precision, which is fast.
            unit = Phi.data[0]
            ones = (Phi / unit).astype(np.float32).toarray()
            K = unit**2 * (ones @ ones[: len(y)].T).astype(float)
        else:
            K = Phi @ first.T
            K = K.toarray() if sparse.issparse(K) else K
        A, targets, mapped = K[: len(y)], y, K
    return [
        np.asarray(mapped @ linalg.solve(A + ridge * np.eye(len(A)), targets, assume_a="pos"))
        for ridge in ridges
    ]


def accuracy(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare errors and time of RidgeRegressor after 10^5 updates with an updated inverse.

    Errors and time of ridge regression after many updates. There are {n} samples on {C} cells
    of 20 partitions, with targets of about 100 and no intercept. An error is the largest
    difference between a prediction and the prediction of SciPy's least squares solver (by
    singular values) on all samples. The columns of the inverse are for an inverse matrix that
    NumPy updates, with a rank-one update for each sample.
    """
    n = 5_000 if quick else 100_000
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    y = 100.0 + np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)
    features = rm.IsolationFeatures(20, 16, pool_size=1000, seed=1)
    frame = frame_of(X)
    features.learn_many(frame[:1000])
    Phi = features.to_csr(frame).toarray()
    C = Phi.shape[1]
    rows = []
    for l2 in (1e-2, 1e-4, 1e-8):
        progress(f"accuracy: l2 = {l2}")
        penalty = math.sqrt(l2) * np.eye(C)
        stacked, targets = np.vstack([Phi, penalty]), np.r_[y, np.zeros(C)]
        expected = Phi @ linalg.lstsq(stacked, targets)[0]
        model = rm.RidgeRegressor(features, l2, fit_intercept=False)
        began = time.perf_counter()
        model.learn_many(frame, y)
        seconds = time.perf_counter() - began
        found = model.predict_many(frame).to_numpy()
        inverse, moments = np.eye(C) / l2, np.zeros(C)
        began = time.perf_counter()
        for x, target in zip(Phi, y, strict=True):
            gain = inverse @ x
            inverse -= np.outer(gain, gain / (1.0 + x @ gain))
            moments += target * x
        other = time.perf_counter() - began
        gaps = [float(np.abs(f - expected).max()) for f in (found, Phi @ (inverse @ moments))]
        us = (f"{1e6 * spent / n:.0f}" for spent in (seconds, other))
        rows.append((l2, *(f"{gap:.1e}" for gap in gaps), *us))
    report.about(accuracy, n=n, C=C)
    headers = ("l2", "error", "error of the inverse", "us per update", "of the inverse, NumPy")
    report.table(headers, rows)


def figure6(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare test errors of ridge regression on three maps (Figure 6 of Balog et al. 2016).

    Test error on cpu against the number of non-zero features M (Figure 6 of Balog et al. 2016).
    There are {n} training and {n_test} test rows with raw features and centred targets. The
    lifetime is {LIFETIME}, and the ridge delta^2 is {DELTA2} (or {LARGER} in the columns with
    this number). A cell has the relative error in percent: the median of {seeds} seeds
    (smallest - largest), or one seed for M = 1000. Random Fourier features have M / 2
    frequencies, rounded up. The number of columns is for Mondrian features with the last seed.
    The error of the exact Laplace kernel is {exact:.2f} (3.1 in the paper).
    """
    X, y, X_test, y_test = _cpu(data, quick)
    rows, n, mean = np.concatenate([X, X_test]), len(X), y.mean()
    progress("figure6: the exact kernel")
    K = distance.cdist(X, X, "cityblock")
    np.exp(-LIFETIME * K, out=K)
    K[np.diag_indices_from(K)] += DELTA2
    dual = linalg.solve(K, y - mean, assume_a="pos", overwrite_a=True)
    del K
    found = np.exp(-LIFETIME * distance.cdist(X_test, X, "cityblock")) @ dual + mean
    exact = _percent(found, y_test)
    grid = (5, 15) if quick else (5, 15, 50, 150, 350, 1000)
    seeds = 1 if quick else 3
    errors: dict[str, list[list[float]]] = {}
    columns = []
    for kind in (MONDRIAN, BINNING, FOURIER):
        ridges = {kind: DELTA2} | ({} if kind == FOURIER else {f"{kind}, {LARGER}": LARGER})
        errors |= {label: [[] for _ in grid] for label in ridges}
        for i, M in enumerate(grid):
            progress(f"figure6: {kind}, M = {M}")
            for seed in range(seeds if M < 1000 else 1):
                Phi = _mapped(kind, rows, n, M, LIFETIME, seed)
                fits = _ridge(Phi, y - mean, *ridges.values())
                for label, predicted in zip(ridges, fits, strict=True):
                    errors[label][i].append(_percent(predicted[n:] + mean, y_test))
            if kind == MONDRIAN:
                columns.append(Phi.shape[1])
    report.about(figure6, n=n, n_test=len(X_test), seeds=seeds, exact=exact)
    table = []
    for i, M in enumerate(grid):
        at = [e[i] for e in errors.values()]
        cells = (f"{statistics.median(e):.2f} ({min(e):.2f} - {max(e):.2f})" for e in at)
        table.append((M, columns[i], *cells))
    report.table(("M", "columns", *errors), table)
    with report.drawing() as axes:
        for kind, found in errors.items():
            axes.plot(grid, [statistics.median(e) for e in found], "o-", label=kind)
            axes.fill_between(grid, [min(e) for e in found], [max(e) for e in found], alpha=0.2)
        axes.axhline(exact, color="k", ls="--", label="exact Laplace kernel")
        axes.set(xscale="log", xlabel="M", ylabel="relative test error, %", ylim=(0, 20))
        axes.legend()


def figure7(data: DataFolder, report: Report, quick: bool) -> None:
    """Estimate a lifetime of 10 by two criteria (Figure 7 of Balog et al. 2016).

    Estimates of a lifetime of 10 (Figure 7 of Balog et al. 2016). There are {n} training and
    {n} validation points, uniform in [0, 1]^2. The targets are from a Gaussian process with the
    Laplace kernel of lifetime 10 and noise of variance .01 = delta^2. The sweep has M = {M}
    partitions and ends at lifetime 100, in steps of 20 cuts. Estimates are within a factor of 3
    on {reached[validation]} of {seeds} seeds by validation error, and on {reached[marginal]} of
    {seeds} by marginal likelihood. For seeds with an estimate outside of this factor, the last
    column has another estimate by validation error, with M = {more} and a largest lifetime of
    40.
    """
    truth, noise, D = 10.0, 0.01, 2
    n, seeds, M, more = (200, 2, 10, 20) if quick else (1000, 10, 50, 200)
    criteria = ("validation", "marginal")
    rows, reached = [], dict.fromkeys(criteria, 0)
    drawn: LifetimePath | None = None
    for seed in range(seeds):
        progress(f"figure7: seed {seed}")
        rng = np.random.default_rng(seed)
        X = rng.random((2 * n, D))
        K = np.exp(-truth * distance.cdist(X, X, "cityblock"))
        y = linalg.cholesky(K + 1e-10 * np.eye(2 * n), lower=True) @ rng.normal(size=2 * n)
        y += math.sqrt(noise) * rng.normal(size=2 * n)

        def sweep(
            m: int, last: float, X: Array = X, y: Array = y, seed: int = seed
        ) -> LifetimePath:
            given = {"l2": noise, "learners": ["ridge"], "cuts_per_step": 20, "seed": seed}
            return rm.lifetime_path(X[:n], y[:n], last, X[n:], y[n:], n_partitions=m, **given)

        path = sweep(M, 10.0 * truth)
        drawn = drawn or path
        found = [path.best(by=by) for by in criteria]
        good = [truth / 3 <= lifetime <= 3 * truth for lifetime in found]
        for by, within in zip(criteria, good, strict=True):
            reached[by] += within
        again = "-" if all(good) else f"{sweep(more, 4.0 * truth).best():.1f}"
        rows.append((seed, *(f"{v:.1f}" for v in found), f"{path.seconds[-1]:.1f}", again))
    report.about(figure7, n=n, M=M, seeds=seeds, reached=reached, more=more)
    headers = ("seed", "by validation error", "by marginal likelihood", "seconds", f"M = {more}")
    report.table(headers, rows)
    assert drawn is not None
    with report.drawing() as axes:
        drawn.plot(axes)
        axes.axvline(truth, color="k", ls="--")


def _search(error: Callable[[float], float], steps: int) -> Iterator[tuple[float, float]]:
    """Search a lifetime as in the paper: double or halve from 1, then search between the best two.

    The range grows at the end with the smaller error until a lifetime between the ends is 10 %
    better than both ends. Errors are nearly constant far from a good lifetime, so the lower end is
    halved if the errors of both ends are within 1 %.
    """
    known = {1.0: error(1.0)}
    yield 1.0, known[1.0]
    for _ in range(steps):
        ordered = sorted(known)
        low, high = ordered[0], ordered[-1]
        best = min(known, key=known.__getitem__)
        if known[best] > 0.9 * min(known[low], known[high]):
            lifetime = low / 2.0 if known[low] <= 1.01 * known[high] else high * 2.0
        else:
            place = ordered.index(best)
            left, right = ordered[place - 1], ordered[place + 1]
            other = left if known[left] < known[right] else right
            lifetime = math.sqrt(best * other)
        known[lifetime] = error(lifetime)
        yield lifetime, known[lifetime]


def figure8(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare one sweep with a map per lifetime, on cpu (Figure 8 of Balog et al. 2016).

    Validation error on cpu against time (Figure 8 of Balog et al. 2016). There are {n} training
    and {n_val} validation rows, and M = {M} partitions. The sweep uses stochastic gradient
    descent, with a pass after every {every} of {n_cuts} cuts up to lifetime {last}. The other
    methods map the rows and solve exact ridge regression for each lifetime. The search starts
    at lifetime 1, and doubles or halves the lifetime. Then lifetimes between the best two are
    searched.
    """
    X, y, X_val, y_val = _cpu(data, quick)
    M, last, steps, every = (10, 2e-6, 28, 10) if quick else (350, 1e-6, 28, 160)
    n, mean, rows = len(X), y.mean(), np.concatenate([X, X_val])
    rm.lifetime_path(X[:50], y[:50], 1e-8, n_partitions=2, learners=["sgd"])
    curves: dict[str, tuple[list[float], list[float]]] = {}
    progress("figure8: the sweep")
    given = {"l2": DELTA2, "learners": ["sgd"], "cuts_per_step": every, "seed": 1}
    path = rm.lifetime_path(X, y, last, X_val, y_val, n_partitions=M, **given)
    factor = 100.0 * math.sqrt(len(y_val)) / float(np.linalg.norm(y_val))
    ours = (factor * path.errors["sgd"]["validation"]).tolist()
    curves["Mondrian, one sweep"] = (path.seconds.tolist(), ours)
    for kind in (FOURIER, BINNING):
        began = time.perf_counter()
        curves[kind] = ([], [])

        def error(lifetime: float, kind: str = kind) -> float:
            Phi = _mapped(kind, rows, n, M, lifetime, 1)
            return _percent(_ridge(Phi, y - mean, DELTA2)[0][n:] + mean, y_val)

        for lifetime, found in _search(error, steps):
            progress(f"figure8: {kind}, lifetime {lifetime:.2g}: {found:.2f} %")
            curves[kind][0].append(time.perf_counter() - began)
            curves[kind][1].append(found)

    def reach(kind: str) -> float:
        times, errors = curves[kind]
        return next(t for t, e in zip(times, errors, strict=True) if e <= 1.1 * min(errors))

    own = reach("Mondrian, one sweep")
    report.about(figure8, n=n, n_val=len(X_val), M=M, every=every, n_cuts=len(path.cuts), last=last)
    table = []
    for kind, (times, errors) in curves.items():
        spent = f"{reach(kind):.2f}", f"{reach(kind) / own:.1f}", f"{times[-1]:.1f}"
        table.append((kind, len(errors), f"{min(errors):.2f}", *spent))
    headers = ("scheme", "widths", "best, %", "s to within 10 % of the best")
    report.table((*headers, "relative to the sweep", "s in total"), table)
    with report.drawing() as axes:
        for kind, (times, errors) in curves.items():
            axes.plot(times, np.minimum.accumulate(errors), label=kind)
        axes.set(xscale="log", xlabel="seconds", ylabel="smallest validation error so far, %")
        axes.legend()


def _kernel_and_forest(data: DataFolder, quick: bool) -> tuple[LifetimePath, Array]:
    """Return a sweep of cpu with all learners up to lifetime 2e-6, and test targets."""
    X, y, X_test, y_test = _cpu(data, quick)
    M, last = (10, 1e-6) if quick else (50, 2e-6)
    progress("the sweep")
    path = rm.lifetime_path(
        X, y, last, None, None, X_test, y_test, n_partitions=M, l2=DELTA2, seed=1
    )
    return path, y_test


def figure9(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare kernel and forest on the same partitions of cpu (Figure 9 of Balog et al. 2016).

    Kernel and forest on the same partitions of cpu (Figure 9 of Balog et al. 2016). The table
    has the relative test error in percent, with M = {M} partitions, the ridge delta^2 =
    {DELTA2} and seed 1. The sweep over {n_cuts} cuts with all three learners took {seconds:.0f}
    s.
    """
    path, y_test = _kernel_and_forest(data, quick)
    M = path.n_cells[0]
    factor = 100.0 * math.sqrt(len(y_test)) / float(np.linalg.norm(y_test))
    errors = {name: factor * sets["test"] for name, sets in path.errors.items()}
    grid = (1e-8, 1e-7, 2e-7, 5e-7, 1e-6, 1.5e-6, 2e-6)
    lifetimes = [x for x in grid if x <= path.lifetime_max]
    places = [int(np.searchsorted(path.lifetimes, x, side="right")) - 1 for x in lifetimes]
    report.about(figure9, M=M, n_cuts=len(path.cuts), seconds=path.seconds[-1])
    report.table(
        ("lifetime", "cells", "kernel, ridge", "kernel, SGD", "forest"),
        [
            (x, path.n_cells[i], *(f"{errors[k][i]:.2f}" for k in ("ridge", "sgd", "forest")))
            for x, i in zip(lifetimes, places, strict=True)
        ],
    )
    with report.drawing() as axes:
        for name, values in errors.items():
            axes.plot(path.lifetimes[1:], values[1:], label=name)
        axes.set(xscale="log", xlabel="lifetime", ylabel="relative test error, %", ylim=(0, 30))
        axes.legend()


def figure10(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the weights of cells of kernel and forest (Figure 10 of Balog et al. 2016).

    Weights of kernel and forest (Figure 10 of Balog et al. 2016). The table has quantiles of
    the absolute weights of {n_cells} cells of cpu, in units of the target. The sweep has M =
    {M} partitions, the ridge delta^2 = {DELTA2}, seed 1 and lifetime {last}. A kernel's
    prediction is the sum over the M cells of a row, and the forest's prediction is the mean.
    The last column has the median of M times the kernel's weights, as if the kernel's
    predictions were means.
    """
    path, _ = _kernel_and_forest(data, quick)
    M = int(path.n_cells[0])
    # The kernel sums the weights of cells, and the forest averages them.
    terms = {name: w if name == "forest" else w / M for name, w in path.weights.items()}
    rows = []
    for name, weights in path.weights.items():
        sizes = [np.quantile(np.abs(terms[name]), q) for q in (0.25, 0.5, 0.9)]
        rows.append((name, *(f"{v:.2f}" for v in (*sizes, np.median(np.abs(weights))))))
    report.about(figure10, n_cells=path.n_cells[-1], M=M, last=path.lifetime_max)
    report.table(("learner", "lower quarter", "median", "upper tenth", "median, by the mean"), rows)
    with report.drawing() as axes:
        reach = float(np.quantile(np.abs(terms["forest"]), 0.95))
        for name, weights in terms.items():
            bins = np.linspace(-reach, reach, 81)
            axes.hist(weights, bins, histtype="step", density=True, label=name)
        axes.set(xlabel="weight (kernel: summed, forest: averaged)", ylabel="density of cells")
        axes.legend()


PARTS = (accuracy, figure6, figure7, figure8, figure9, figure10)
