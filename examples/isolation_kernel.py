"""Compare isolation kernels with other models on one of River's streams, and draw the kernels.

`python examples/isolation_kernel.py` prints progressive accuracies and saves a plot.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from matplotlib import pyplot as plt
from river import datasets, evaluate, linear_model, metrics, preprocessing

from river_mondrian import IsolationFeatures, OGDClassifier, RandomFourierFeatures

SIDE = 80


def models():
    """Return pipelines without a kernel, with a Laplace kernel and with two isolation kernels."""
    laplace = RandomFourierFeatures(kernel="laplace", lifetime=1.0, seed=1)
    trees = IsolationFeatures(n_cells=64, method="iforest", seed=1)
    voronoi = IsolationFeatures(n_cells=64, method="anne", seed=1)
    return {
        "linear": preprocessing.StandardScaler() | linear_model.LogisticRegression(),
        "random Fourier": preprocessing.StandardScaler() | OGDClassifier(laplace),
        "IK-OGD, isolation trees": preprocessing.StandardScaler() | OGDClassifier(trees),
        "IK-OGD, Voronoi cells": preprocessing.StandardScaler() | OGDClassifier(voronoi),
    }


def two_densities(rng, n):
    """Return random points: a dense cluster on the left and a sparse cluster on the right."""
    dense = rng.normal((0.3, 0.5), (0.05, 0.1), size=(4 * n // 5, 2))
    sparse = rng.normal((0.7, 0.5), (0.12, 0.15), size=(n // 5, 2))
    return rng.permutation(np.vstack([dense, sparse]))


def draw(axes, points, n_partitions):
    """Draw contours of three kernels around a point between a dense and a sparse cluster."""
    side = np.linspace(0.0, 1.0, SIDE)
    a, b = np.meshgrid(side, side)
    grid = np.column_stack([a.ravel(), b.ravel()])
    centre = np.array([[0.45, 0.5]])
    kernels = {"Laplace": np.exp(-8.0 * np.abs(grid - centre).sum(axis=1))}
    for name, method in (("isolation trees", "iforest"), ("Voronoi cells", "anne")):
        features = IsolationFeatures(n_partitions, 16, method, pool_size=len(points), seed=1)
        features.learn_many(points)
        while not features.frozen:  # Each call builds a part of the map.
            features.learn_one({})
        kernels[name] = features.gram(grid, centre)[:, 0]
    for axis, (name, values) in zip(axes, kernels.items(), strict=True):
        axis.plot(*points.T, ".", color="0.75", markersize=2, zorder=0)
        lines = axis.contour(a, b, values.reshape(a.shape), levels=np.arange(0.1, 1.0, 0.1))
        axis.clabel(lines, fontsize=7)
        axis.plot(*centre[0], "ro")
        axis.set(title=name, xlim=(0, 1), ylim=(0, 1), aspect="equal")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="isolation_kernel.png", help="where the plot goes")
    parser.add_argument("--quick", action="store_true", help="fewer samples and partitions")
    arguments = parser.parse_args()

    n = 400 if arguments.quick else 5300
    print(f"Bananas, {n} samples, predicted and then learned\n")
    for name, model in models().items():
        learner = list(model.steps.values())[-1]
        if isinstance(learner, OGDClassifier):
            # Compile first, so that the measured time excludes compilation.
            learner.warmup(features=learner.features)
        began = time.perf_counter()
        metric = evaluate.progressive_val_score(
            datasets.Bananas().take(n), model, metrics.Accuracy()
        )
        spent = time.perf_counter() - began
        print(f"{name:<24} accuracy {metric.get():.3f}, {spent:.1f} s")

    rng = np.random.default_rng(3)
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.6), layout="constrained")
    draw(axes, two_densities(rng, 1000), 100 if arguments.quick else 2000)
    figure.suptitle(
        "Similarity to the red point: the isolation kernel reaches far where data are sparse"
    )
    figure.savefig(arguments.out, dpi=120)
    print(f"\nplot saved as {arguments.out}")


if __name__ == "__main__":
    main()
