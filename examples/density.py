"""Draw the kernels of four sets of cut directions, and a density forest that learns a stream.

`python examples/density.py` prints log likelihoods and saves a picture.
"""

from __future__ import annotations

import argparse
import itertools
import math

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from river_mondrian import DensityForest, MondrianFeatures

HALF = math.sqrt(0.5)
DIRECTIONS = {
    "axes": None,
    "40 random directions": 40,
    "three directions": [{"a": 1.0}, {"b": 1.0}, {"a": HALF, "b": HALF}],
    "two turned directions": [{"a": HALF, "b": HALF}, {"a": HALF, "b": -HALF}],
}


def draw_kernels(axes, n_partitions):
    """Draw contours of the kernel around the origin for each set of directions."""
    line = np.linspace(-2.0, 2.0, 41)
    grid = pd.DataFrame(list(itertools.product(line, line)), columns=["b", "a"])
    origin = pd.DataFrame({"b": [0.0], "a": [0.0]})
    for axis, (name, directions) in zip(axes, DIRECTIONS.items(), strict=True):
        features = MondrianFeatures(n_partitions, seed=1, directions=directions)
        features.learn_many(grid)
        kernel = features.gram(grid, origin).reshape(len(line), len(line))
        axis.contour(line, line, kernel, levels=np.linspace(0.1, 0.9, 9))
        axis.set(title=name, aspect="equal")


def spiral(n, seed=0):
    """Return random points on two arms of a spiral."""
    rng = np.random.default_rng(seed)
    turn = 3.0 * np.sqrt(rng.random(n)) + 0.3
    arm = rng.integers(0, 2, n) * np.pi
    X = np.stack([np.cos(2.0 * turn + arm), np.sin(2.0 * turn + arm)], axis=1) * turn[:, None] / 2
    return X + 0.06 * rng.standard_normal((n, 2))


def draw_densities(axes, sizes, n_estimators):
    """Draw the density that a forest estimates at several times of a stream."""
    forest = DensityForest(n_estimators, lifetime=lambda n: 1.5 * n**0.25, seed=1)
    line = np.linspace(-2.2, 2.2, 80)
    grid = pd.DataFrame(list(itertools.product(line, line)), columns=["b", "a"])
    held_out = [{"a": a, "b": b} for a, b in spiral(300, seed=1).tolist()]
    samples = iter(spiral(sizes[-1]).tolist())
    for axis, n in zip(axes, sizes, strict=True):
        while forest.n_samples < n:
            a, b = next(samples)
            forest.learn_one({"a": a, "b": b})
        density = np.asarray(forest.density_many(grid)).reshape(len(line), len(line))
        axis.pcolormesh(line, line, density, cmap="magma")
        likelihood = np.mean([math.log(max(forest.density_one(x), 1e-3)) for x in held_out])
        print(f"after {n:>6} samples: mean log density of 300 others {likelihood:.3f}")
        axis.set(title=f"density after {n} samples", aspect="equal")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="density.png", help="where the picture goes")
    parser.add_argument("--quick", action="store_true", help="fewer samples and trees")
    arguments = parser.parse_args()

    figure, (above, below) = plt.subplots(2, 4, figsize=(15, 7.5))
    draw_kernels(above, 100 if arguments.quick else 1000)
    sizes = (10, 50, 200, 500) if arguments.quick else (30, 300, 3000, 20000)
    draw_densities(below, sizes, 20 if arguments.quick else 100)
    figure.suptitle(
        "Above: the kernel of a set of cut directions. Below: a density forest learning"
    )
    figure.tight_layout()
    figure.savefig(arguments.out, dpi=120)
    print(f"\npicture saved as {arguments.out}")


if __name__ == "__main__":
    main()
