"""Find the best width of the Mondrian kernel in one sweep, and learn a stream with this width.

`python examples/kernel_widths.py` prints the best lifetimes and saves a plot.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from matplotlib import pyplot as plt
from river import metrics
from scipy import stats

from river_mondrian import MondrianFeatures, RidgeRegressor, lifetime_path

NOISE = 0.2
PARTITIONS = 50


def wave(x):
    """Return the values of a wave whose frequency falls as x grows."""
    return np.sin(8.0 / (x + 0.25))


def sample(n, seed):
    """Return points in [0, 1], and noisy values of the wave at these points."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, 1))
    return x, wave(x[:, 0]) + NOISE * rng.normal(size=n)


def sweep(n):
    """Return fits of lifetimes up to 60, and the lifetime with the largest marginal likelihood."""
    X, y = sample(n, 1)
    path = lifetime_path(
        X,
        y,
        lifetime_max=60.0,
        X_val=sample(n, 2)[0],
        y_val=sample(n, 2)[1],
        n_partitions=PARTITIONS,
        l2=0.1,
        learners=["ridge", "forest"],
        seed=1,
    )
    print(f"{len(path.lifetimes)} lifetimes in {path.seconds[-1]:.1f} s")
    for learner in ("ridge", "forest"):
        errors = path.errors[learner]["validation"]
        print(
            f"least validation error, {learner:<7} {errors.min():.3f} "
            f"at lifetime {path.best(learner):.3g}"
        )
    marginal = path.best(by="marginal")
    shares = path.posterior(stats.loguniform(0.1, 60.0))
    low, high = np.interp((0.025, 0.975), np.cumsum(shares), path.lifetimes)
    print(f"largest marginal likelihood at {marginal:.3g}, 95 % of the posterior in", end=" ")
    print(f"{low:.3g} to {high:.3g}\n")
    return path, marginal


def follow(lifetime, n):
    """Predict and then learn each sample by exact ridge regression; return the model."""
    model = RidgeRegressor(MondrianFeatures(PARTITIONS, lifetime, seed=1), l2=0.1)
    error, inside = metrics.RMSE(), 0
    for (x,), y in zip(*sample(n, 3), strict=True):
        said = model.predict_one({"x": x}, with_dist=True)
        inside += abs(y - said.mean) <= 1.96 * said.var**0.5
        error.update(y, said.mean)
        model.learn_one({"x": x}, y)
    spread = math.sqrt(model.noise_posterior.mean())
    print(f"online at lifetime {lifetime:.3g}, {n} samples: error {error.get():.3f}, ", end="")
    print(f"{inside / n:.0%} in the 95 % interval")
    print(f"noise found {spread:.3f} (true {NOISE}), {model.n_columns} columns")
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="kernel_widths.png", help="where the plot goes")
    parser.add_argument("--quick", action="store_true", help="fewer samples")
    arguments = parser.parse_args()

    n = 60 if arguments.quick else 300
    path, lifetime = sweep(n)
    model = follow(lifetime, n)

    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.5))
    path.plot(left)
    left.legend(loc="lower left")
    left.set_title("one sweep over all lifetimes")
    places = np.linspace(0.0, 1.0, 500)
    said = [model.predict_one({"x": x}, with_dist=True) for x in places.tolist()]
    means, spreads = np.array([(s.mean, s.var**0.5) for s in said]).T
    right.fill_between(places, means - 1.96 * spreads, means + 1.96 * spreads, alpha=0.25)
    right.plot(places, means, label="exact ridge regression, 95 % interval")
    right.plot(places, wave(places), "k--", label="truth")
    X, y = sample(n, 3)
    right.plot(X[:, 0], y, ".", markersize=3)
    right.set_title(f"lifetime {lifetime:.3g}")
    right.legend()
    figure.tight_layout()
    figure.savefig(arguments.out, dpi=120)
    print(f"\nplot saved as {arguments.out}")


if __name__ == "__main__":
    main()
