"""Tests of the nearest neighbours in the adaptive forest, against their reference."""

import copy

import numpy as np
import pytest
from common import Adaptive, restored
from naive import neighbors as naive

from river_mondrian import AdaptiveMondrianForestRegressor as Regressor
from river_mondrian.learners import experts
from river_mondrian.posteriors.adaptive.nodes import N_EXPERTS, N_MODEL_EXPERTS
from river_mondrian.posteriors.adaptive_targets import means
from river_mondrian.posteriors.rebuilt import rebuilt_trees


def stream(n, seed=0):
    """Yield samples with repeats, missing values, categories, weights, and a drift in the middle.

    A feature and a class are late.
    """
    rng, earlier = np.random.default_rng(seed), []
    for i in range(n):
        x = {"a": rng.normal(), "b": 1e9 + 1e7 * rng.normal(), "constant": 3.0}
        x["word"] = "abc"[int(rng.integers(3))]
        if i > n // 4:
            x["late"] = rng.exponential()
        if rng.random() < 0.2:
            x = dict(earlier[int(rng.integers(len(earlier)))]) if earlier else x
        earlier.append(x)
        for name in ("a", "word", "late"):
            if rng.random() < 0.1:
                x = {k: v for k, v in x.items() if k != name}
        is_high = x.get("a", 0.0) > 0.0
        y = "late" if i > n // 3 and x.get("word") == "c" else is_high != (i > n // 2)
        yield x, y, float(rng.choice([1.0, 1.0, 1.0, 0.5, 3.0]))


class Twins:
    """An adaptive forest, and the reference of its neighbours."""

    def __init__(self, most_values=naive.MOST_VALUES, **params):
        self.model = Adaptive(**{"n_estimators": 2, "seed": 1} | params)
        self.twin = naive.Neighbors(
            params.get("window", 50_000), params.get("missing", "unknown"), most_values
        )
        self.n_windows = 0

    def compare(self, x):
        """Compare the predictions of a sample with the twin's.

        `n_windows` is the largest number of different predictions of one sample by all windows.
        """
        model, twin = self.model, self.twin
        model.predict_proba_one(x)
        trees, n_classes = model._trees, len(model.classes)
        moments = [trees.discriminants.learned[name][0, 1:] for name in ("counts", "squares")]
        names = model.feature_names
        found = np.sqrt(moments[1] / np.maximum(moments[0], 1e-40))
        deviations = dict(zip(model.feature_names, found[: len(names)], strict=True))
        expected = twin.predict(x, model.classes, deviations)
        expected = np.maximum(expected, experts.FLOOR / n_classes)
        expected /= expected.sum(axis=1, keepdims=True)
        found = trees.mixture.predicted[N_MODEL_EXPERTS:N_EXPERTS, :n_classes]
        np.testing.assert_allclose(found, expected, rtol=1e-4)
        self.n_windows = max(self.n_windows, len(np.unique(expected.round(6), axis=0)))

    def learn(self, x, y, w=1.0):
        self.model.learn_one(x, y, w)
        self.twin.learn(x, y, w)
        if self.model.drift_detected:
            self.twin.forget_before(self.model.drift_log[-1][1])


@pytest.mark.parametrize("missing", ["unknown", "zero"])
@pytest.mark.parametrize("most_values", [naive.MOST_VALUES, 1100])
def test_predictions_are_the_twins(monkeypatch, missing, most_values):
    monkeypatch.setattr(rebuilt_trees, "MOST_VALUES", most_values)
    twins = Twins(most_values, missing=missing, window=1000)
    for i, (x, y, w) in enumerate(stream(1100)):
        if twins.model.classes:
            twins.compare(x)
        twins.learn(x, y, w)
        if i == 700:
            twins.model = copy.deepcopy(restored(twins.model))
    twins.compare({})
    assert twins.model.drift_log
    assert twins.n_windows > 1
    assert twins.model._trees.neighbors.record.n_held == len(twins.twin.held)


def test_predicted_residuals_are_the_twins():
    model, twin = Regressor(2, window=1000, seed=1), naive.Neighbors(1000)
    n_drifts, n_compared = 0, 0
    for i, (x, y, w) in enumerate(stream(1200)):
        if i:
            model.predict_one(x)
            trees = model._trees
            ridges, names = trees.ridges, model.feature_names
            rates = ridges.learned[f"rates[{ridges.record.active}]"].tolist()
            deviations = {n: 1.0 / r if r else 0.0 for n, r in zip(names, rates, strict=False)}
            expected = twin.predict_targets(x, deviations)
            np.testing.assert_allclose(trees.neighbors.predicted, expected, rtol=1e-4, atol=1e-5)
            said, others = trees.first_mixture.predicted, slice(means.OF_NEIGHBORS)
            own = said[means.RESIDUAL_OF] + expected[-1]
            own = own if i >= means.LEAST_NEIGHBORS else said[others].mean()
            assert said[means.OF_NEIGHBORS] == pytest.approx(own, rel=1e-4, abs=1e-5)
            n_compared += i >= means.LEAST_NEIGHBORS and expected[-1] != 0.0
        target = {True: 1.0, False: 0.0, "late": 3.0}[y] + x.get("a", 0.0)
        model.learn_one(x, target, w)
        residual = model._trees.shared.arrays["accepted.targets"][means.RESIDUAL]
        twin.learn(x, float(residual), w)
        if len(model.drift_log) > n_drifts:
            n_drifts += 1
            twin.forget_before(model.drift_log[-1][1])
        if i == 700:
            model = copy.deepcopy(restored(model))
    assert n_drifts > 0
    assert n_compared > 100


def test_equal_samples_vote_equally():
    twins = Twins()
    for i in range(300):
        twins.learn({"a": float(i % 2), "b": 1.0}, "no" if i % 6 == 1 else "yes")
    twins.compare({"a": 1.0, "b": 1.0})
    twins.compare({"a": 0.5})


@pytest.mark.parametrize("n_inputs", [3, 250])
def test_the_memory_grows_with_the_samples_up_to_its_bounds(n_inputs):
    rng = np.random.default_rng(1)
    model, sizes = Adaptive(1, seed=1, window=1000), []
    for _ in range(1200):
        x = dict(enumerate(rng.normal(size=n_inputs).tolist()))
        model.learn_one(x, bool(x[0] > 0.0))
        sizes.append(model._trees.neighbors.learned["held"].shape[1])
    most = naive.most_samples(1000, naive.MOST_VALUES, n_inputs)
    assert sizes[-1] == most
    for n, size in enumerate(sizes, 1):
        assert min(n, most) <= size <= min(max(2 * n, 128), most)
    held = model._trees.neighbors
    assert held.nbytes >= 4 * n_inputs * most
    assert model._raw_memory_usage > held.nbytes


def test_the_limit_in_bytes_counts_the_samples_that_neighbors_will_hold():
    """The growth that is checked against `max_bytes` is the growth of the memory."""
    model = Adaptive(1, seed=1)
    for x, y, w in stream(600):
        model.learn_one(x, y, w)
    trees = model._trees
    before, of_neighbors = trees.nbytes, trees.neighbors.nbytes
    expected = trees._growth_for(1280)
    trees._reserve_points(1280)
    assert trees.neighbors.nbytes - of_neighbors > 0.2 * expected
    # Each chunk of samples also has an address and an object.
    assert trees.nbytes - before == pytest.approx(expected, abs=2000)
