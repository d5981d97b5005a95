"""STIT processes: density forests here, and cut directions and random lifetimes in `oblique`.

Figures, theorems, equations and examples are those of O'Reilly and Tran (2022).

Each part of the suite is a function of the data folder, the report, and a flag for quick runs.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity

from river_mondrian import DensityForest, exact_density

from . import oblique
from .data import Array, DataFolder
from .report import Report, progress

# Sets whose values rarely repeat, and the number of first columns that are used.
REAL = {"california": 3, "kin8nm": 3, "cpu": 3, "letter": 2}
# Weight of the Gaussian that keeps densities from being 0.
PRIOR = 0.05


def _frame(X: Array) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])


def _learned(X: Array, **arguments: Any) -> DensityForest:
    forest = DensityForest(**arguments)
    forest.learn_many(_frame(X))
    return forest


def _laplace(X: Array, x: Array, lifetime: float) -> Array:
    """Return the density estimate with the Laplace kernel."""
    gaps = np.abs(x[:, None] - X).sum(axis=2)
    density: Array = (lifetime / 2.0) ** X.shape[1] * np.exp(-lifetime * gaps).mean(axis=1)
    return density


def figure2(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare densities with the Laplace kernel estimate (Figure 2 of O'Reilly and Tran 2022)."""
    trees = 100 if quick else 500
    grid = np.linspace(-4.0, 4.0, 801)[:, None]
    truth = stats.norm.pdf(grid[:, 0])
    curves: dict[int, dict[str, Array]] = {}
    samples = {}
    rows = []
    for n in (10, 1000):
        X = np.random.default_rng(n).normal(size=(n, 1))
        samples[n], lifetime = X, n ** (1.0 / 3.0)
        found = {"infinite forest": exact_density(X, grid, lifetime)}
        for name in ("forest", "laplace", "kernel"):
            forest = _learned(X, n_estimators=trees, lifetime=lifetime, method=name, seed=1)
            found[name] = forest.density_many(_frame(grid)).to_numpy()
        found["Laplace kernel"] = _laplace(X, grid, lifetime)
        curves[n] = found
        for name, curve in found.items():
            error = float(np.trapezoid(np.abs(curve - truth), grid[:, 0]))
            inner = float(curve[np.abs(grid[:, 0]) < 1.0].max())
            rows.append([n, name, f"{error:.3f}", f"{inner:.3f}"])
    report.note(
        "Densities for 10 and 1,000 samples (Figure 2 of O'Reilly and Tran 2022). The samples are "
        "standard Gaussian, the "
        f'lifetime is n^(1/3), and there are {trees} trees. The methods "laplace" and "kernel" '
        'have the estimate with the Laplace kernel as their limit; "forest" has more weight near '
        "samples."
    )
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
    """Measure the L1 error by number of samples (Corollary 5.2 of O'Reilly and Tran 2022)."""
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
            forest = DensityForest(50, None, seed=seed)
            for i, (start, stop) in enumerate(itertools.pairwise((0, *sizes))):
                progress(f"consistency, d = {d}, n = {stop}")
                forest.learn_many(_frame(_sample_known(rng, stop - start, d)))
                found = forest.density_many(_frame(grid)).to_numpy()
                errors[seed, i] = np.abs(found - truth).sum() * cell
        means = np.median(errors, axis=0)
        slope = np.polyfit(np.log(sizes), np.log(means), 1)[0]
        rows.append([d, *(f"{e:.3f}" for e in means), f"{slope:.2f}"])
    report.note(
        "L1 error of densities against the number of samples n (Corollary 5.2 of O'Reilly and "
        "Tran 2022). The samples are from two Gaussians with weights .6 and .4 and standard "
        "deviations 1 and .5. One forest has 50 trees, which are extended as the lifetime grows. "
        f"The table has the median L1 error of {seeds} seeds on a grid. The slope is for the "
        "logarithm of the error against log n."
    )
    report.table(["d", *(f"n = {n:,}" for n in sizes), "slope"], rows)


def likelihood(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare held-out log likelihoods on real sets with scikit-learn's KernelDensity."""
    n = 1500 if quick else 6000
    rows = []
    for name, d in REAL.items():
        arrays = data.load(name)
        if arrays is None:
            continue
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
                found[lifetime] = mean_log(forest.density_many(_frame(held)).to_numpy(), held)
            best = max(found, key=found.__getitem__)
            forest = _learned(train, n_estimators=100, lifetime=best, method=estimator, seed=1)
            value = mean_log(forest.density_many(_frame(test)).to_numpy(), test)
            cells.append(f"{value:.3f} ({best:.1f})")
        for lifetime in (None, "auto"):
            forest = _learned(train, n_estimators=100, lifetime=lifetime, seed=1)
            densities = forest.density_many(_frame(test)).to_numpy()
            cells.append(f"{mean_log(densities, test):.3f}")
        kde = mean_log(np.exp(search.best_estimator_.score_samples(test)), test)
        cells.append(f"{kde:.3f} ({search.best_params_['bandwidth']:.2f})")
        rows.append([f"{name}, {d}", *cells, f"{np.log(gaussian(test)).mean():.3f}"])
    report.note(
        "Held-out log likelihood on real sets, compared with scikit-learn's KernelDensity. A cell "
        f"has the mean log density of held-out rows, a third of at most {n:,} rows. The first "
        "columns of each set are used, standardized. Brackets contain the lifetime, selected on a "
        "third of the training rows, and the bandwidth, selected by 3-fold cross-validation. All "
        f"densities except the last are mixed with {PRIOR:.0%} of the Gaussian, so no density is "
        "0. Uniform noise is added to the integers of letter."
    )
    headers = ["set, columns", "forest", '"kernel"', "forest, growing", "default"]
    headers += ["KernelDensity", "Gaussian"]
    report.table(headers, rows)


PARTS = oblique.PARTS | {
    "figure2": figure2,
    "consistency": consistency,
    "likelihood": likelihood,
}
