"""Results of kernels on small inputs, for tests that run them in several modes."""

from __future__ import annotations

import numpy as np

from river_mondrian.compiling.kernels import kernel
from river_mondrian.elementary import logarithms
from river_mondrian.learners import discriminants, experts
from river_mondrian.learners.lifetimes.path import lifetime_path
from river_mondrian.learners.regression import error_law, mixing
from river_mondrian.learners.regression.error_law import ErrorLaw, ErrorLaws
from river_mondrian.learners.regression.mixing import TargetMixture
from river_mondrian.learners.regression.records import N_RIDGES, Ridges
from river_mondrian.learners.regression.ridges import RidgeExperts
from river_mondrian.learners.regression.ridges import learn as learn_ridges
from river_mondrian.learners.regression.ridges import predict as predict_ridges
from river_mondrian.posteriors.mixtures import GaussianMixture
from river_mondrian.records import Float64s


@kernel
def write_logarithms(values: Float64s, n: int, out: Float64s) -> None:
    logarithms(values, n, out)


def of_logarithms():
    values = np.exp(np.random.default_rng(0).normal(scale=50.0, size=20))
    out = np.empty(20)
    write_logarithms(Float64s.of(values), 20, Float64s.of(out))
    return out.tolist()


def of_mixtures():
    """Run both kinds of predictors of a class: discriminants are the experts that are mixed."""
    rng = np.random.default_rng(1)
    n_classes, n_inputs, width = 3, 4, 5
    mixture = experts.Mixture(discriminants.N_DISCRIMINANTS)
    lines = discriminants.LinearDiscriminants()
    mixture.reserve(width)
    lines.reserve(width, n_inputs + 1, mixture.predicted)
    mixture.record.n_classes = lines.record.n_classes = n_classes
    lines.record.n_inputs = n_inputs
    found = []
    for i in range(30):
        label = int(rng.integers(n_classes))
        x = rng.normal(size=n_inputs + 1) + label
        x[rng.random(n_inputs + 1) < 0.2] = np.nan
        values = Float64s.of(x)
        discriminants.predict(lines.record, values)
        experts.combine(mixture.record)
        found += mixture.predicted[:, :n_classes].ravel().tolist()
        found += mixture.mixed[:n_classes].tolist()
        weight = 1.0 if i < 15 else 0.5 + i % 3
        experts.learn(mixture.record, label, weight)
        discriminants.learn(lines.record, values, label, weight)
    return found + mixture.exponents.tolist()


def of_scores():
    rng = np.random.default_rng(2)
    variances = rng.uniform(0.0, 2.0, 7)
    variances[3] = 0.0
    mixture = GaussianMixture(np.full(7, 1.0 / 7.0), rng.normal(size=7), variances)
    return [mixture.crps(y) for y in (-9.0, -0.4, 0.0, 1.3)]


def of_sweeps():
    """Run all learners, first with fewer cells than points, then with more."""
    rng = np.random.default_rng(3)
    X = rng.random((24, 2))
    y = np.sin(6.0 * X[:, 0]) + X[:, 1]
    path = lifetime_path(
        X[:14], y[:14], 5.0, X[14:], y[14:], n_partitions=3, l2=0.1, seed=1, learning_rate=0.2
    )
    assert path.n_cells[0] < 14 < path.n_cells[-1]
    errors = [values for sets in path.errors.values() for values in sets.values()]
    arrays = [path.lifetimes, path.log_marginal_likelihood, *errors, *path.weights.values()]
    return np.concatenate(arrays).tolist()


@kernel
def predict_target(ridges: Ridges, mixture: TargetMixture, inputs: Float64s) -> float:
    predict_ridges(ridges, inputs)
    return mixing.predict(mixture)


@kernel
def learn_target(
    ridges: Ridges,
    mixture: TargetMixture,
    law: ErrorLaw,
    inputs: Float64s,
    point: float,
    target: float,
) -> None:
    mixing.learn(mixture, target, 1.0)
    size = error_law.learn(law, point, mixture.spread, ridges.size, target, 1.0)
    learn_ridges(ridges, inputs, target, 1.0, size)


def of_targets():
    """Run regressions, their mixture and the law of its errors."""
    rng = np.random.default_rng(5)
    mixture, experts_, laws = mixing.TargetMixtures(N_RIDGES), RidgeExperts(), ErrorLaws()
    experts_.reserve(3, 2, mixture.predicted)
    found = []
    for _ in range(11):
        x = rng.normal(size=3)
        values = Float64s.of(x)
        y = float(x[0] * x[1] + 0.1 * rng.normal())
        x[rng.random(3) < 0.1] = np.nan
        point = predict_target(experts_.record, mixture.record, values)
        law = laws.law(point, float(mixture.record.spread), 0.0)
        found += [point, law.cdf(y), law.crps(y), *mixture.predicted.tolist()]
        learn_target(experts_.record, mixture.record, laws.record, values, point, y)
    return found + mixture.weights.tolist() + laws.weights.tolist()


RESULTS = {
    "logarithms": of_logarithms,
    "mixtures": of_mixtures,
    "scores": of_scores,
    "sweeps": of_sweeps,
    "targets": of_targets,
}
