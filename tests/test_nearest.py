"""Tests of the nearest-neighbour detector: definition, reference, and stored samples."""

import copy
import math

import numpy as np
import pandas as pd
import pytest
from common import fed, raises
from naive import cuts
from naive import nearest as naive

from river_mondrian import NearestNeighborDetector


def stream(n, seed=1, holes=0.0, levels=True):
    """Return samples of clusters; some values are far away or missing."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        values = rng.normal(size=3) + 4.0 * (i % 3)
        if i % 17 == 0:
            values *= 30.0
        x = dict(zip("abc", values.astype(np.float32).astype(float).tolist(), strict=True))
        if levels:
            x["d"] = "xyzzzz"[int(rng.integers(6))]
        found.append({name: value for name, value in x.items() if rng.random() >= holes})
    return found


def learned(samples, **arguments):
    return fed(NearestNeighborDetector(**{"seed": 1, "window": None} | arguments), samples)


@pytest.mark.parametrize(("holes", "capacity"), [(0.0, 100), (0.3, 100), (0.0, 2000)])
def test_scores_are_those_of_the_twin(holes, capacity):
    model = NearestNeighborDetector(max_samples=capacity, window=capacity, seed=1)
    twin = naive.Detector(capacity=capacity)
    for i, x in enumerate(stream(300, holes=holes)):
        if i % 7 == 0:
            expected = twin.score(x) if twin.held else 0.0
            assert model.raw_score_one(x) == pytest.approx(expected, rel=1e-5, abs=1e-7)
        model.learn_one(x)
        twin.hold(x)
    assert model.widths == pytest.approx(twin.widths, rel=1e-5)


def test_the_score_is_the_mean_over_random_subsets():
    samples = stream(400)
    model, twin = learned(samples, max_samples=512), naive.Detector()
    for x in samples:
        twin.hold(x)
    rng = np.random.default_rng(1)
    for x in stream(3, seed=2):
        found = twin.nearest_in_subsets(x, 4000, rng)
        error = 4.5 * found.std() / math.sqrt(len(found))
        assert abs(model.raw_score_one(x) - found.mean()) < error
        # The omitted terms have a weight of at most REST.
        whole = twin.score(x, rest=0.0)
        farthest = max(twin.distance(x, y) for y in samples)
        assert abs(model.raw_score_one(x) - whole) <= naive.REST * farthest


def test_explanations_add_up():
    model = learned(stream(300, holes=0.2))
    for x in [*stream(20, seed=2, holes=0.2), {"a": 1e6, "d": "new"}, {}]:
        shares = model.explain_one(x)
        assert min(shares.values()) >= 0.0
        assert sum(shares.values()) == pytest.approx(model.raw_score_one(x), rel=1e-9)


def test_the_score_is_the_rank_among_recent_scores():
    model = learned(stream(5000, levels=False), max_samples=64)
    recent = model.recent_scores
    assert len(recent) == 4096
    for x in [*stream(30, seed=2, levels=False), {"a": 1e9}]:
        expected = cuts.rank(model.raw_score_one(x), recent)
        assert model.score_one(x) == pytest.approx(expected, abs=1e-12)


def test_equal_samples_have_no_rank_of_one():
    model = learned([{"a": 2.0}] * 200)
    assert model.score_one({"a": 2.0}) < model.score_one({"a": 2.001}) < 1.0


def test_a_window_holds_a_random_part_of_the_latest_samples():
    model = NearestNeighborDetector(window=400, max_samples=100, seed=1)
    for i in range(4000):
        model.learn_one({"i": float(i)})
    ages = 3999 - (model._table.samples[:, 0] + model._table.learned["origins"][0])
    assert len(ages) == model.n_held == 100
    # Samples enter with probability 1/4, so the oldest of 100 samples has an age of 400 ± 35.
    assert abs(ages.max() - 400) < 5 * 35
    assert (np.diff(ages) < 0).all()


def test_single_unusual_samples_are_skipped():
    size = {"max_samples": 100, "window": 100}
    model = NearestNeighborDetector(**size, skip_anomalies=True, seed=1)
    twin, scores, n_skipped = naive.Detector(capacity=100), [], 0
    samples = stream(300)
    for x in samples[200:212]:
        x["a"] += 500.0
    for x in samples:
        is_skipped = False
        if len(twin.held) >= 32:
            score = model.raw_score_one(x)
            assert score == pytest.approx(twin.score(x), rel=1e-5)
            ranks = [cuts.rank(s, scores) for s in (score, *scores[-1:])]
            is_skipped = ranks[0] >= 0.9 and ranks[-1] < 0.9
            scores.append(score)
        n_skipped += is_skipped
        model.learn_one(x)
        if not is_skipped:
            twin.hold(x)
    assert n_skipped > 10
    assert model.recent_scores == scores
    assert max(model._table.samples[:, 0]) > 300.0


def test_scoring_ahead_of_learning_changes_nothing():
    one, other = learned(stream(100)), learned(stream(100))
    for x in stream(200, seed=2):
        one.score_one(x)
        one.learn_one(x)
    assert one.recent_scores == fed(other, stream(200, seed=2)).recent_scores


def test_shingles_are_samples_of_all_their_values():
    rng = np.random.default_rng(1)
    # With so many rows, progress is shown in several steps.
    values = np.sin(np.arange(1500) / 5.0) + 0.1 * rng.normal(size=1500)
    samples = [{"a": v, "d": "xy"[i % 2]} for i, v in enumerate(values.tolist())]
    joined = [
        {(k, ago): v for ago in range(3) for k, v in samples[i - ago].items()}
        for i in range(2, 251)
    ]
    model, whole = learned(samples[:3], shingle=3), naive.Detector()
    assert model.n_held == 1
    fed(model, samples[3:250])
    for x in joined[:-1]:
        whole.hold(x)
        # A feature has one width for all positions in a shingle, from its latest values.
        whole.widths = {name: whole.widths[name[0], 0] for name in whole.widths}
    found = model.raw_score_one(samples[250])
    assert found == pytest.approx(whole.score(joined[-1]), rel=1e-5)
    shares = model.explain_one(samples[250])
    assert set(shares) == set(joined[-1])
    assert sum(shares.values()) == pytest.approx(found, rel=1e-9)
    X, expected, many = pd.DataFrame(samples[250:]), [], copy.deepcopy(model)
    for x in samples[250:]:
        expected.append(model.score_one(x))
        # The shingle of the next row contains this row, which is not learned.
        model._table.recent[:-1] = model._table.recent[1:]
    for n_jobs in (1, 3):
        many.n_jobs = n_jobs
        assert many.score_many(X, progress=n_jobs > 1).tolist() == expected
    raises(ValueError, "shingle=1", lambda: many.forget_one(samples[3]))


def test_forgetting_is_never_having_held():
    samples = stream(120)
    model = learned(samples, max_samples=512)
    model.forget_one(samples[40])
    rest = learned(samples[:40] + samples[41:], max_samples=512)
    # The other model has the widths of its last renewal.
    rest._table = rest._table.without(0)
    model.forget_one(samples[0])
    assert model.n_held == rest.n_held == 118 and model.widths == rest.widths
    for x in stream(10, seed=2):
        assert model.raw_score_one(x) == pytest.approx(rest.raw_score_one(x), rel=1e-12)
    for x in samples[1:40] + samples[41:]:
        model.forget_one(x)
    assert model.n_held == model.raw_score_one(samples[0]) == 0


def test_first_samples_may_be_without_features():
    model = fed(NearestNeighborDetector(seed=1), [{}])
    model.learn_many(np.full((2, 1), np.nan))
    assert model.score_one({}) == model.raw_score_one({"a": 1.0}) == 0.0
    model.learn_one({"a": 1.0})
    assert (model.n_samples, model.n_held, model.feature_names) == (4, 4, ["a"])


def test_ranges_are_widths():
    samples = stream(200, levels=False)
    given = learned(samples, ranges={"a": (0.0, 12.0)})
    assert given.widths["a"] == pytest.approx(math.sqrt(12.0))
    assert set(learned(samples, scale=False).widths.values()) == {1.0}


def test_scores_with_a_narrow_range_are_finite():
    detector = NearestNeighborDetector(window=24, ranges={"a": (0.0, 1e-300)}, seed=1)
    fed(detector, [{"a": (-1.0) ** i * 10.0**i, "b": i} for i in range(30)])
    assert math.isfinite(detector.raw_score_one({"a": -1e30, "b": 0.0}))
