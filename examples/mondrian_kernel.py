"""Compare a pipeline with a fused learner on Mondrian features, and draw a partition.

`python examples/mondrian_kernel.py` prints progressive errors and saves a plot.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from matplotlib import pyplot as plt
from river import datasets, evaluate, linear_model, metrics, optim, preprocessing

from river_mondrian import MondrianFeatures, OGDRegressor

LIFETIMES = (0.5, 2.0, 5.0, 12.0)


def models():
    """Return a linear model, and three models on Mondrian features."""
    features = MondrianFeatures(lifetime=0.05, seed=1)
    linear = linear_model.LinearRegression(optim.SGD(0.1), intercept_lr=0.0)
    return {
        "linear model alone": linear_model.LinearRegression(),
        "pipeline": features | linear,
        "fused learner": OGDRegressor(features, learning_rate=0.1),
        'fused, lifetime="auto"': OGDRegressor(
            MondrianFeatures(lifetime="auto", seed=1), learning_rate=0.1
        ),
    }


def draw(axes, n):
    """Draw one partition of n points at several lifetimes; a longer lifetime only adds cuts."""
    rng = np.random.default_rng(2)
    points = np.clip(rng.normal((0.4, 0.5), (0.1, 0.15), size=(n, 2)), 0.0, 1.0)
    features = MondrianFeatures(n_partitions=1, lifetime=LIFETIMES[-1], seed=4)
    for a, b in points.tolist():
        features.learn_one({"a": a, "b": b})
    for axis, lifetime in zip(axes, LIFETIMES, strict=True):
        features.draw_partition(time=lifetime, ax=axis)
        axis.plot(*points.T, ".", markersize=3)
        axis.set(title=f"lifetime {lifetime:g}: {len(axis.patches)} cells", aspect="equal")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="mondrian_kernel.png", help="where the plot goes")
    parser.add_argument("--quick", action="store_true", help="fewer samples")
    arguments = parser.parse_args()

    n = 200 if arguments.quick else 1001
    print(f"TrumpApproval, {n} samples, predicted and then learned\n")
    # Compile first, so that the measured time excludes compilation.
    MondrianFeatures.warmup()
    for name, model in models().items():
        if isinstance(model, OGDRegressor):
            model.warmup(features=model.features)
        whole = preprocessing.StandardScaler() | preprocessing.TargetStandardScaler(model)
        began = time.perf_counter()
        metric = evaluate.progressive_val_score(
            datasets.TrumpApproval().take(n), whole, metrics.MAE()
        )
        spent = time.perf_counter() - began
        print(f"{name:<24} mean absolute error {metric.get():.3f}, {spent:.1f} s")

    figure, axes = plt.subplots(1, len(LIFETIMES), figsize=(14, 3.9))
    draw(axes, 60 if arguments.quick else 250)
    figure.suptitle("One partition: samples in one cell are alike; a longer lifetime cuts it finer")
    figure.tight_layout()
    figure.savefig(arguments.out, dpi=120)
    print(f"\nplot saved as {arguments.out}")


if __name__ == "__main__":
    main()
