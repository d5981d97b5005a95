"""Differences between the results of estimators on several processors."""

import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from river import datasets
from river.datasets import synth

import river_mondrian as rm

from .data import Array, DataFolder
from .report import Report, progress
from .versions.configurations import said

MAPS: dict[str, Callable[[], Any]] = {
    "RandomFourierFeatures": lambda: rm.RandomFourierFeatures(60, gamma=0.1, seed=1),
    "RandomBinningFeatures": lambda: rm.RandomBinningFeatures(20, lifetime=0.3, seed=1),
    "MondrianFeatures": lambda: rm.MondrianFeatures(20, lifetime=0.3, seed=1),
    "MondrianFeatures, directions": lambda: rm.MondrianFeatures(20, 0.3, directions=4, seed=1),
    "IsolationFeatures": lambda: rm.IsolationFeatures(50, 16, scale=True, seed=1),
    "IsolationFeatures, trees": lambda: rm.IsolationFeatures(50, 16, method="iforest", seed=1),
    "NystromFeatures": lambda: rm.NystromFeatures(60, lifetime=0.1),
}
FORESTS: dict[str, Callable[[], Any]] = {
    "MondrianForestClassifier": lambda: rm.MondrianForestClassifier(seed=1),
    "MondrianForestClassifier, directions": lambda: rm.MondrianForestClassifier(
        seed=1, directions=4
    ),
    "AdaptiveMondrianForestClassifier": lambda: rm.AdaptiveMondrianForestClassifier(10, seed=1),
}
REGRESSORS: dict[str, Callable[[], Any]] = {
    'MondrianForestRegressor, "gaussian"': lambda: rm.MondrianForestRegressor(seed=1),
    'MondrianForestRegressor, "mean"': lambda: rm.MondrianForestRegressor(posterior="mean", seed=1),
}


def scaled(stream: Iterable[tuple[dict[str, float], Any]], n: int) -> tuple[pd.DataFrame, list]:
    """Return features divided by their standard deviations, and the labels or targets."""
    pairs = list(itertools.islice(stream, n))
    frame = pd.DataFrame([x for x, _ in pairs]).astype(float)
    return frame / frame.std().replace(0.0, 1.0), [y for _, y in pairs]


def proceed(model: Any, frame: pd.DataFrame, targets: list) -> Array:
    """Predict each sample and then learn it; return all outputs."""
    outputs: list[float] = []
    for x, y in zip(frame.to_dict("records"), targets, strict=True):
        outputs += said(model, x)
        model.learn_one(x, y)
    return np.array(outputs)


def results(n: int) -> Iterable[tuple[str, Array]]:
    """Yield the name and the values of each result."""
    classes = scaled(datasets.ImageSegments(), n)
    binary, labels = scaled(datasets.Phishing(), n)
    numbers = scaled(synth.Friedman(seed=1), n)
    for name, make in FORESTS.items():
        yield name, proceed(make(), *classes)
    for name, make in REGRESSORS.items():
        yield name, proceed(make(), *numbers)
    plane = numbers[0].iloc[:, :2]
    for estimator, directions in (("forest", None), ("kernel", None), ("forest", 4)):
        density = rm.DensityForest(20, 2.0, directions=directions, method=estimator, seed=1)
        density.learn_many(plane)
        name = "directions" if directions else f'"{estimator}"'
        yield f"DensityForest, {name}", density.log_density_many(plane).to_numpy()
    yield "exact_density", np.asarray(rm.exact_density(numbers[0], numbers[0][:50], 2.0))
    for name, make in MAPS.items():
        features = make()
        features.learn_many(numbers[0])
        if features._map.dense:
            yield name, features.transform_many(numbers[0]).to_numpy()
            yield f"gram of {name}", features.gram(numbers[0][:300])
        else:
            yield name, features.cells_many(numbers[0])
        yield f"OGDClassifier on {name}", proceed(rm.OGDClassifier(make(), "log"), *classes)
        yield f"OGDRegressor on {name}", proceed(rm.OGDRegressor(make()), *numbers)
        yield f"RidgeRegressor on {name}", proceed(rm.RidgeRegressor(make()), *numbers)
    auto = rm.OGDRegressor(rm.MondrianFeatures(10, "auto", seed=1))
    yield "OGDRegressor on MondrianFeatures, auto", proceed(auto, *numbers)
    yield "DualOGDClassifier", proceed(rm.DualOGDClassifier(), binary, labels)
    half = n // 2
    parts = (numbers[0][:half], numbers[1][:half], 0.3, numbers[0][half:], numbers[1][half:])
    path = rm.lifetime_path(*parts, n_partitions=10, seed=1, progress=False)
    yield "lifetime_path, lifetimes", path.lifetimes
    for learner, errors in path.errors.items():
        yield f"lifetime_path, errors of {learner}", np.array(list(errors.values()))
        yield f"lifetime_path, weights of {learner}", path.weights[learner]


def settings() -> dict[str, dict[str, str]]:
    """Return the environment variables of each setting that is compared with a plain run."""
    extensions = " ".join(np._core._multiarray_umath.__cpu_dispatch__)
    return {
        "again": {},
        "numba: haswell": {"NUMBA_CPU_NAME": "haswell"},
        "numba: generic": {"NUMBA_CPU_NAME": "generic"},
        "BLAS: Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
        "BLAS: Prescott": {"OPENBLAS_CORETYPE": "Prescott"},
        "BLAS: one thread": {"OPENBLAS_NUM_THREADS": "1"},
        "NumPy: baseline": {"NPY_DISABLE_CPU_FEATURES": extensions},
        "libm: no FMA": {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"},
    }


def compare(plain: Array, other: Array) -> str:
    """Return "same", the share of different cells, or the largest relative difference, as text."""
    if plain.shape != other.shape:
        return "another shape"
    if np.array_equal(plain, other, equal_nan=True):
        return "same"
    if plain.dtype.kind in "iu":
        return f"{(plain != other).mean():.2%} of cells"
    known = np.isfinite(plain) & np.isfinite(other)
    plain, other = plain[known], other[known]
    size = np.maximum(np.abs(plain), np.median(np.abs(plain)))
    gaps = np.abs(plain - other) / np.where(size > 0.0, size, 1.0)
    return f"{gaps.max():.0e}"


def digests(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the results of many estimators between code for several processors.

    Dependence of results on the processor. Results on {n} samples, in separate processes with
    the settings in the header, are compared with the results of a process without these
    settings. The word `same` means equal to the last bit. Otherwise a cell has the share of
    different integers, or the largest difference of other values, relative to the value or to
    the median of all values, whichever is larger. The adaptive regressor,
    `NearestNeighborDetector`, `RandomCutForest`, `DriftMonitor`, `ConformalDrift`, `Alarms` and
    `Calibrated` are not compared.
    """
    n = 300 if quick else 1000
    with tempfile.TemporaryDirectory() as folder:

        def run(name: str, variables: dict[str, str]) -> dict[str, Array]:
            progress(name)
            path = Path(folder) / "results.npz"
            command = [sys.executable, "-m", __name__, str(n), str(path)]
            subprocess.run(command, check=True, env=os.environ | variables)
            with np.load(path) as file:
                return {key: file[key] for key in file.files}

        plain = run("plain", {})
        others = {name: run(name, variables) for name, variables in settings().items()}
    report.about(digests, n=n)
    report.table(
        ["result", *others],
        [[name, *(compare(plain[name], o[name]) for o in others.values())] for name in plain],
    )


PARTS = (digests,)


if __name__ == "__main__":
    np.savez(sys.argv[2], **dict(results(int(sys.argv[1]))))
