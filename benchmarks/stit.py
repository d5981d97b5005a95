"""STIT processes: kernels, partitions, forests with oblique cuts, and density forests.

Figures, theorems, equations and examples are those of O'Reilly and Tran (2022).
"""

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity

import river_mondrian as rm

from .data import Array, DataFolder, available, frame_of, min_max, stream
from .report import Report, progress
from .scores import deviations, misses

ROOT_HALF = math.sqrt(0.5)
THREE = [{"a": 1.0}, {"b": 1.0}, {"a": ROOT_HALF, "b": ROOT_HALF}]
# The paper's lifetimes are divided by the number of directions.
FIGURE3_LIFETIME = 9.0 / len(THREE)


def _mapping(row: Array) -> dict[Any, float]:
    return {f"x{j}": value for j, value in enumerate(row.tolist())}


def convergence(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure a kernel's error by number of partitions (Theorem 4.3 of O'Reilly and Tran 2022).

    Error of the kernel over a window against the number of partitions M (Theorem 4.3 of
    O'Reilly and Tran 2022). A cell has the largest absolute difference from the limit kernel
    over all pairs of 100 uniform points of the unit square. The lifetime is 3. Each cell shows
    the median of {seeds} seeds (smallest, largest). The last row has the slope of log error
    against log M; the expected slope is -1/2.
    """
    sizes, seeds = ((10, 40, 160), 2) if quick else ((10, 20, 50, 100, 200, 500, 1000), 8)
    points = np.random.default_rng(0).random((100, 2))
    frame = pd.DataFrame(points, columns=["a", "b"])
    gaps = (points[:, None] - points).reshape(-1, 2)
    # The kernel of few random directions would not be isotropic.
    kinds: dict[str, Any] = {"axes": None, "isotropic (100)": 100, "three": THREE}
    table: list[list[Any]] = [[m] for m in sizes]
    slopes: list[Any] = ["slope"]
    for kind, directions in kinds.items():
        limit = rm.MondrianFeatures(lifetime=3.0, directions=directions)
        zero = {"a": 0.0, "b": 0.0}
        exact = np.array([limit.limit_kernel({"a": a, "b": b}, zero) for a, b in gaps.tolist()])
        middle = []
        for i, m in enumerate(sizes):
            progress(f"{kind}, M = {m}")
            errors = []
            for seed in range(seeds):
                features = rm.MondrianFeatures(m, 3.0, directions, seed)
                features.learn_many(frame)
                errors.append(np.abs(features.gram(frame).ravel() - exact).max())
            middle.append(float(np.median(errors)))
            table[i].append(f"{middle[-1]:.3f} ({min(errors):.3f}, {max(errors):.3f})")
        slopes.append(f"{np.polyfit(np.log(sizes), np.log(middle), 1)[0]:.2f}")
    report.about(convergence, seeds=seeds)
    report.table(["M", *kinds], [*table, slopes])


def figure1(data: DataFolder, report: Report, quick: bool) -> None:
    """Draw contours of four kernels and of their limits (Figure 1 of O'Reilly and Tran 2022).

    Contours of the kernel k(0, x) as a function of x, at .1, .2, ..., .9 (Figure 1 of O'Reilly
    and Tran 2022). The top row has the frequencies with which 0 and x share a cell, and the
    bottom row has the limit kernels.
    """
    n, ticks = (100, 21) if quick else (2000, 61)
    # Normal directions, weighted as for the isotropic kernel.
    rows = np.random.default_rng(3).standard_normal((10, 2)) * math.sqrt(math.pi / 2.0) / 10
    gaussian = [dict(zip("ab", row, strict=True)) for row in rows.tolist()]
    kinds: dict[str, tuple[Any, float]] = {
        "axes: Laplace": (None, 1.0),
        "isotropic: exponential": (40, 1.0),
        "three directions": (THREE, 1.0 / math.sqrt(3.0)),
        "ten Gaussian directions": (gaussian, 1.0),
    }
    line = np.linspace(-2.0, 2.0, ticks)
    grid = pd.DataFrame(list(itertools.product(line, line)), columns=["b", "a"])[["a", "b"]]
    origin = pd.DataFrame({"a": [0.0], "b": [0.0]})
    report.about(figure1)
    with report.drawing(2, 4, (15, 7.6), sharex=True, sharey=True) as axes:
        for column, (kind, (directions, lifetime)) in zip(axes.T, kinds.items(), strict=True):
            progress(kind)
            features = rm.MondrianFeatures(n, lifetime, directions, seed=1)
            features.learn_many(origin)
            features.learn_many(grid)
            found = features.gram(grid, origin)
            zero = {"a": 0.0, "b": 0.0}
            exact = np.array([features.limit_kernel(x, zero) for x in grid.to_dict("records")])
            for axis, values in zip(column, (found, exact), strict=True):
                axis.contour(line, line, values.reshape(ticks, ticks), np.linspace(0.1, 0.9, 9))
                axis.set_aspect("equal")
            column[0].set_title(kind)
        axes[0, 0].set_ylabel(f"{n} partitions")
        axes[1, 0].set_ylabel("limit")


def figure3(data: DataFolder, report: Report, quick: bool) -> None:
    """Draw a STIT process at four times (Figure 3 of O'Reilly and Tran 2022).

    A STIT process in time (Figure 3 of O'Reilly and Tran 2022). The picture shows a partition
    of the unit square with the three directions of Example 2.1, at the times of the first three
    cuts, and at t = 9 with {n_cuts} cuts. All times are in the paper's units, in which a time
    is three times as large as in the package.
    """
    line = np.linspace(-0.5, 0.5, 20 if quick else 60)
    features = rm.MondrianFeatures(1, FIGURE3_LIFETIME, THREE, seed=3)
    features.learn_many(pd.DataFrame(list(itertools.product(line, line)), columns=["a", "b"]))
    times = sorted(node.time for node in features.nodes(0) if not node.is_leaf)
    report.about(figure3, n_cuts=len(times))
    with report.drawing(1, 4, (15, 4)) as axes:
        for axis, time in zip(axes, [*times[:3], FIGURE3_LIFETIME], strict=True):
            features.draw_partition(time=time, ax=axis)
            title = f"t = {len(THREE) * time:.2f}: {len(axis.patches)} cells"
            axis.set(title=title, aspect="equal")


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
    """Compare forests that cut single features, random directions and given directions.

    Accuracy of forests with oblique cuts. The forests have 25 trees, and learn at most {n}
    samples in random order, scaled to [0, 1]. The column `accuracy or MAE` has the progressive
    accuracy (for kin8nm: the mean absolute error), as mean +- standard deviation over seeds.
    For the checkerboard, the given directions are the normals of the edges. For the other sets,
    the given directions are the principal directions of the first 1,000 samples.
    """
    n = 500 if quick else 5000
    sets: dict[str, tuple[Array, Array, list[dict[Any, float]]]] = {
        "rotated checkerboard": _checkerboard(n)
    }
    for name, arrays in available(data.load, ("letter", "satimage", "kin8nm")):
        order = np.random.default_rng(0).permutation(len(arrays["X_train"]))[:n]
        (X,) = min_max(arrays["X_train"][order])
        sets[name] = X, arrays["y_train"][order], _principal(X, X.shape[1])
    table = []
    for name, (X, y, given) in sets.items():
        d, is_real, samples = X.shape[1], y.dtype.kind == "f", stream(X, y)
        make: Any = rm.MondrianForestRegressor if is_real else rm.MondrianForestClassifier
        kinds: dict[str, Any] = {"axes": None, "given": given, "random, d": d, "random, 4 d": 4 * d}
        for kind, directions in kinds.items():
            progress(f"{name}, {kind}")
            found = []
            for seed in range(1 if quick else 3):
                model = make(n_estimators=25, directions=directions, seed=seed)
                run = deviations if is_real else misses
                found.append(abs(run(model, samples).mean() - (not is_real)))
            size = d if kind in ("axes", "given") else directions
            table.append([name, d, kind, size, f"{np.mean(found):.4f} +- {np.std(found):.4f}"])
    report.about(forests, n=n)
    report.table(["set", "d", "directions", "n", "accuracy or MAE"], table)


# Densities.

# Sets, and the number of first columns that are used. Values rarely repeat, except in letter.
REAL = {"california": 3, "kin8nm": 3, "cpu": 3, "letter": 2}
# Weight of the Gaussian that keeps densities from being 0.
PRIOR = 0.05


def _learned(X: Array, **arguments: Any) -> rm.DensityForest:
    forest = rm.DensityForest(**arguments)
    forest.learn_many(frame_of(X))
    return forest


def _laplace(X: Array, x: Array, lifetime: float) -> Array:
    """Return the density estimate with the Laplace kernel."""
    gaps = np.abs(x[:, None] - X).sum(axis=2)
    density: Array = (lifetime / 2.0) ** X.shape[1] * np.exp(-lifetime * gaps).mean(axis=1)
    return density


def figure2(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare densities with the Laplace kernel estimate (Figure 2 of O'Reilly and Tran 2022).

    Densities for 10 and 1,000 samples (Figure 2 of O'Reilly and Tran 2022). The samples are
    standard Gaussian, the lifetime is n^(1/3), and there are {trees} trees. The methods
    "laplace" and "kernel" have the estimate with the Laplace kernel as their limit; "forest"
    has more weight near samples.
    """
    trees = 100 if quick else 500
    grid = np.linspace(-4.0, 4.0, 801)[:, None]
    truth = stats.norm.pdf(grid[:, 0])
    curves: dict[int, dict[str, Array]] = {}
    samples = {}
    rows = []
    for n in (10, 1000):
        X = np.random.default_rng(n).normal(size=(n, 1))
        samples[n], lifetime = X, n ** (1.0 / 3.0)
        found = {"infinite forest": rm.exact_density(X, grid, lifetime)}
        for name in ("forest", "laplace", "kernel"):
            forest = _learned(X, n_estimators=trees, lifetime=lifetime, method=name, seed=1)
            found[name] = forest.density_many(frame_of(grid)).to_numpy()
        found["Laplace kernel"] = _laplace(X, grid, lifetime)
        curves[n] = found
        for name, curve in found.items():
            error = float(np.trapezoid(np.abs(curve - truth), grid[:, 0]))
            inner = float(curve[np.abs(grid[:, 0]) < 1.0].max())
            rows.append([n, name, f"{error:.3f}", f"{inner:.3f}"])
    report.about(figure2, trees=trees)
    report.table(["n", "estimate", "L1 error on [-4, 4]", "largest on [-1, 1]"], rows)
    colors = {"infinite forest": "C0", "Laplace kernel": "C4", "forest": "C9", "laplace": "C6"}
    with report.drawing(1, 2, (11, 4), sharey=True) as axes:
        for axis, (n, found) in zip(axes, curves.items(), strict=True):
            axis.fill_between(grid[:, 0], truth, color="0.85", label="standard Gaussian")
            for name, color in colors.items():
                style = {"lw": 0.8} if name in ("forest", "laplace") else {"lw": 1.8}
                label = f"{name}, {trees} trees" if "lw" in style and style["lw"] < 1 else name
                axis.plot(grid[:, 0], found[name], color=color, label=label, **style)
            axis.plot(samples[n][:, 0], np.zeros(n), "r|", ms=8)
            axis.set(title=f"n = {n:,}", xlim=(-4, 4), ylim=(-0.02, 0.75))
        axes[1].legend(fontsize=8)


def _sample_known(rng: np.random.Generator, n: int, d: int) -> Array:
    """Draw samples from a mixture of two Gaussians."""
    far = rng.random((n, 1)) < 0.4
    return np.where(far, 2.0 + 0.5 * rng.normal(size=(n, d)), rng.normal(size=(n, d)) - 0.5)


def _known_density(x: Array) -> Array:
    near = stats.norm.pdf(x, -0.5, 1.0).prod(axis=1)
    density: Array = 0.6 * near + 0.4 * stats.norm.pdf(x, 2.0, 0.5).prod(axis=1)
    return density


def consistency(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the L1 error by number of samples (Corollary 5.2 of O'Reilly and Tran 2022).

    L1 error of densities against the number of samples n (Corollary 5.2 of O'Reilly and Tran
    2022). The samples are from two Gaussians with weights .6 and .4 and standard deviations 1
    and .5. The forest has 50 trees, which are extended as the lifetime grows. The table has the
    median L1 error of {seeds} seeds on a grid. The slope is that of the logarithm of the error
    against log n.
    """
    sizes = (100, 1000, 5000) if quick else (100, 1000, 10_000, 50_000)
    seeds = 2 if quick else 3
    rows: list[list[Any]] = []
    for d in (1, 2):
        axis = np.linspace(-6.0, 6.0, 1201 if d == 1 else 121)
        axis = 0.5 * (axis[1:] + axis[:-1])
        grid = np.array(np.meshgrid(*[axis] * d)).reshape(d, -1).T
        cell = (axis[1] - axis[0]) ** d
        truth = _known_density(grid)
        errors = np.empty((seeds, len(sizes)))
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            forest = rm.DensityForest(50, None, seed=seed)
            for i, (start, stop) in enumerate(itertools.pairwise((0, *sizes))):
                progress(f"consistency, d = {d}, n = {stop}")
                forest.learn_many(frame_of(_sample_known(rng, stop - start, d)))
                found = forest.density_many(frame_of(grid)).to_numpy()
                errors[seed, i] = np.abs(found - truth).sum() * cell
        means = np.median(errors, axis=0)
        slope = np.polyfit(np.log(sizes), np.log(means), 1)[0]
        rows.append([d, *(f"{e:.3f}" for e in means), f"{slope:.2f}"])
    report.about(consistency, seeds=seeds)
    report.table(["d", *(f"n = {n:,}" for n in sizes), "slope"], rows)


def likelihood(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare held-out log likelihoods on real sets with scikit-learn's KernelDensity.

    Held-out log likelihood on real sets, compared with scikit-learn's KernelDensity. A cell has
    the mean log density of held-out rows, a third of at most {n:,} rows. The first columns of
    each set are used, standardized. Parentheses contain the lifetime, selected on a third of
    the training rows, and the bandwidth, selected by 3-fold cross-validation. All densities
    except the last are mixed with {PRIOR:.0%} of the Gaussian, so no density is 0. Uniform
    noise is added to the integers of letter.
    """
    n = 1500 if quick else 6000
    rows = []
    for name, arrays in available(data.load, REAL):
        d = REAL[name]
        rng = np.random.default_rng(0)
        X = arrays["X_train"].astype(float)[:, :d]
        X = X[rng.permutation(len(X))[:n]]
        if name == "letter":  # Uniform noise makes integers continuous.
            X = X + rng.random(X.shape)
        cut = 2 * len(X) // 3
        train, test = X[:cut], X[cut:]
        mean, deviation = train.mean(axis=0), train.std(axis=0)
        train, test = (train - mean) / deviation, (test - mean) / deviation
        progress(f"likelihood, {name}")
        search = GridSearchCV(KernelDensity(), {"bandwidth": np.geomspace(0.03, 1.0, 10)}, cv=3)
        search.fit(train)
        gaussian = stats.multivariate_normal(train.mean(axis=0), np.cov(train.T)).pdf

        def mean_log(density: Array, X: Array, gaussian: Any = gaussian) -> float:
            return float(np.log((1.0 - PRIOR) * density + PRIOR * gaussian(X)).mean())

        half = 2 * cut // 3
        cells = []
        for estimator in ("forest", "kernel"):
            found = {}
            for lifetime in np.geomspace(1.0, 60.0, 8):
                forest = _learned(
                    train[:half], n_estimators=50, lifetime=lifetime, method=estimator, seed=1
                )
                held = train[half:]
                found[lifetime] = mean_log(forest.density_many(frame_of(held)).to_numpy(), held)
            best = max(found, key=found.__getitem__)
            forest = _learned(train, n_estimators=100, lifetime=best, method=estimator, seed=1)
            value = mean_log(forest.density_many(frame_of(test)).to_numpy(), test)
            cells.append(f"{value:.3f} ({best:.1f})")
        for lifetime in (None, "auto"):
            forest = _learned(train, n_estimators=100, lifetime=lifetime, seed=1)
            densities = forest.density_many(frame_of(test)).to_numpy()
            cells.append(f"{mean_log(densities, test):.3f}")
        kde = mean_log(np.exp(search.best_estimator_.score_samples(test)), test)
        cells.append(f"{kde:.3f} ({search.best_params_['bandwidth']:.2f})")
        rows.append([f"{name}, {d}", *cells, f"{np.log(gaussian(test)).mean():.3f}"])
    report.about(likelihood, n=n)
    headers = ["set, columns", "forest", '"kernel"', "forest, growing", "default"]
    headers += ["KernelDensity", "Gaussian"]
    report.table(headers, rows)


PARTS = (figure1, figure2, figure3, convergence, consistency, forests, likelihood)
