"""Predict intervals for a function with a gap in the data, and for a stream."""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib import pyplot as plt
from river import datasets

from river_mondrian import MondrianForestRegressor


def wave(x):
    return np.sin(8.0 * x) + x


def draw_bands(axes, sizes):
    """Draw intervals of a function of one feature, without samples between 0.4 and 0.65."""
    rng = np.random.default_rng(0)
    model = MondrianForestRegressor(n_estimators=50, seed=1)
    places = np.linspace(-0.1, 1.1, 300)
    seen_x, seen_y = [], []
    for axis, size in zip(axes, sizes, strict=True):
        while model.n_samples < size:
            x = rng.uniform(0.0, 1.0)
            if not 0.4 < x < 0.65:
                y = wave(x) + 0.1 * rng.normal()
                model.learn_one({"x": x}, y)
                seen_x.append(x)
                seen_y.append(y)
        mixtures = [model.predict_one({"x": place}, with_dist=True) for place in places]
        for level, shade in ((0.95, 0.15), (0.8, 0.2), (0.5, 0.3)):
            low, high = np.array([mixture.interval(level) for mixture in mixtures]).T
            axis.fill_between(places, low, high, color="C0", alpha=shade, linewidth=0)
        axis.plot(places, [mixture.mean for mixture in mixtures], color="C0")
        axis.plot(places, wave(places), color="black", linewidth=0.8, linestyle="--")
        axis.plot(seen_x, seen_y, ".", color="C1", markersize=3)
        axis.axvspan(0.4, 0.65, color="0.9", zorder=0)
        axis.set_ylim(-2.0, 3.0)
        axis.set_title(f"after {size} samples")
        near, far = (
            model.predict_one({"x": at}, with_dist=True).interval(0.95) for at in (0.2, 0.5)
        )
        print(
            f"{size:>5} samples: the 95 % interval is {near[1] - near[0]:.2f} wide at 0.2, "
            f"{far[1] - far[0]:.2f} in the gap"
        )


def draw_stream(axis):
    """Draw intervals along a stream; each sample is predicted and then learned."""
    model = MondrianForestRegressor(n_estimators=20, seed=1)
    targets, means, bounds = [], [], []
    for x, y in datasets.TrumpApproval():
        if model.n_samples > 100:
            mixture = model.predict_one(x, with_dist=True)
            targets.append(y)
            means.append(mixture.mean)
            bounds.append(mixture.interval(0.9))
        model.learn_one(x, y)
    low, high = np.array(bounds).T
    inside = np.mean((low <= targets) & (targets <= high))
    days = np.arange(len(targets)) + 101
    axis.fill_between(days, low, high, color="C0", alpha=0.25, linewidth=0, label="90 % interval")
    axis.plot(days, targets, color="black", linewidth=0.8, label="approval")
    axis.plot(days, means, color="C0", linewidth=0.8, label="predicted")
    axis.legend(loc="upper right")
    axis.set_xlabel("day")
    error = np.abs(np.subtract(targets, means)).mean()
    axis.set_title(f"TrumpApproval: mean absolute error {error:.2f}, {inside:.0%} inside")
    print(f"TrumpApproval: mean absolute error {error:.3f}, {inside:.1%} inside the 90 % interval")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="intervals.png", help="where the picture goes")
    arguments = parser.parse_args()

    figure = plt.figure(figsize=(13, 7), layout="constrained")
    grid = figure.add_gridspec(2, 3)
    draw_bands([figure.add_subplot(grid[0, i]) for i in range(3)], (20, 100, 1000))
    draw_stream(figure.add_subplot(grid[1, :]))
    figure.savefig(arguments.out, dpi=120)
    print(f"picture saved as {arguments.out}")


if __name__ == "__main__":
    main()
