"""Alarms: averages, ranks, novel values, rests and budgets by a plain twin, and their state."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from attack.judging import Judge
from naive.alarms import NaiveAlarms
from river import anomaly, base, compose, preprocessing

from river_mondrian import (
    Alarms,
    ModelFormatError,
    NearestNeighborDetector,
    RandomCutForest,
    load,
    save,
)


class Told(base.AnomalyDetector):
    """A detector whose score is a feature, as if it were a rank."""

    def __init__(self):
        self.n_samples = 0

    def score_one(self, x):
        return x["score"]

    def learn_one(self, x):
        self.n_samples += 1


def told(n, seed, d=2):
    """Return samples of uniform scores with a few runs of high ones, and values that jump."""
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    for start in rng.integers(0, n, size=6):
        scores[start : start + 8] = 0.995
    values = rng.normal(size=(n, d)) + np.where(rng.random((n, 1)) < 0.01, 8.0 * rng.random(), 0.0)
    values[:, 0] = np.round(values[:, 0])
    rows = [dict(zip("ab", row, strict=True)) for row in values.tolist()]
    return [x | {"score": s} for x, s in zip(rows, scores.tolist(), strict=True)]


def run(alarms, samples):
    scores, found = [], []
    for x in samples:
        scores.append(alarms.score_one(x))
        alarms.learn_one(x)
        found.append(alarms.alarm)
    return scores, found


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"threshold": 0.95, "average": 1, "rest": 0},
        {"threshold": 0.9, "average": 5, "window": 130, "rest": 20, "grace_period": 150},
        {"threshold": 0.9, "average": 5, "tolerance": 0.01, "budget": (2, 90)},
    ],
)
def test_scores_and_alarms_are_those_of_the_twin(arguments):
    samples = told(700, seed=3)
    alarms = Alarms(Told(), calendar=["score"], **arguments)
    twin = NaiveAlarms(["score"], **arguments)
    for x in samples:
        expected = twin.score(x)
        assert alarms.score_one(x) == pytest.approx(expected, abs=1e-12)
        alarms.learn_one(x)
        twin.learn(x)
        assert (alarms.alarm is not None) == (expected >= alarms.threshold)
    assert [alarm.sample for alarm in alarms.alarms] == twin.alarms[-100:]
    assert twin.alarms


def test_a_run_of_high_scores_is_one_alarm_that_says_when_it_began():
    rng = np.random.default_rng(1)
    scores = 0.9 * rng.random(1000)
    scores[800:840] = 0.999
    alarms = Alarms(Told(), 0.998, calendar=["score"], average=10)
    _, found = run(alarms, [{"score": s} for s in scores.tolist()])
    (alarm,) = [one for one in found[800:] if one]
    assert 801 <= alarm.sample <= 806
    assert 791 <= alarm.began <= 801
    assert alarm.novel == ()


def test_a_novel_value_alarms_within_the_rest():
    samples = [{"a": i % 7 / 7.0} for i in range(500)]
    alarms = Alarms(NearestNeighborDetector(seed=1))
    run(alarms, samples)
    _, found = run(alarms, [{"a": 2.0}, {"a": 2.0}, {"a": 2.05}, {"a": 4.0}])
    assert [one is not None for one in found] == [True, False, False, True]
    assert found[0].novel == ("a",)
    assert found[0].score == 1.0


@pytest.mark.parametrize("level", [2.0, -2.0, 1e9])
def test_small_changes_of_a_constant_are_none(level):
    """The first change by .05 % of 2,000 equal values is no alarm; one by a half is."""
    for change, expected in ((0.0005, False), (0.5, True)):
        alarms = Alarms(NearestNeighborDetector(seed=1))
        run(alarms, [{"a": level}] * 2000)
        _, found = run(alarms, [{"a": level * (1.0 + change)}] * 5)
        assert any(found) == expected
    # Later small changes are none either.
    alarms = Alarms(NearestNeighborDetector(seed=1))
    run(alarms, [{"a": level}] * 1000)
    _, found = run(alarms, [{"a": level * (1.0 + 1e-4 * (i // 100))} for i in range(600)])
    assert not any(found)


def test_alarms_name_features():
    rng = np.random.default_rng(5)
    alarms = Alarms([NearestNeighborDetector(seed=1), NearestNeighborDetector(shingle=3, seed=2)])
    run(alarms, [{"a": a, "b": b} for a, b in rng.random((400, 2)).tolist()])
    _, (found,) = run(alarms, [{"a": 0.5, "b": 9.0}])
    assert max(found.features, key=found.features.get) == "b"
    assert math.isclose(sum(found.features.values()), 1.0)


def test_pipelines_and_other_detectors():
    rng = np.random.default_rng(6)
    views = [
        compose.Select("a") | NearestNeighborDetector(seed=1),
        preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(seed=1),
    ]
    alarms = Alarms(views, calendar=["hour"])
    run(alarms, [{"a": a, "hour": i % 24} for i, a in enumerate(rng.random(400).tolist())])
    _, (found,) = run(alarms, [{"a": 5.0, "hour": 30}])
    assert found.novel == ("a",)
    assert set(found.features) == {"a"}
    # The detectors given have learned nothing.
    assert list(views[0].steps.values())[-1].n_samples == 0


def test_two_views_are_the_geometric_mean():
    samples = told(400, seed=7)
    one, same = Alarms(Told(), calendar=["score"]), Alarms([Told(), Told()], calendar=["score"])
    assert run(one, samples)[0] == pytest.approx(run(same, samples)[0], abs=1e-12)


def test_files_hold_pipelines_of_selected_features(tmp_path):
    alarms = Alarms([compose.Select("a") | NearestNeighborDetector(seed=1)], 0.9, average=4)
    samples = told(400, seed=10)
    run(alarms, samples[:300])
    save(alarms, tmp_path / "alarms")
    other = load(tmp_path / "alarms")
    assert run(other, samples[300:]) == run(alarms, samples[300:])


@pytest.mark.parametrize(
    ("name", "value"), [("_alarms", ((3,),)), ("window", 50), ("window", 101), ("threshold", 0.5)]
)
def test_damaged_states_are_refused(name, value):
    alarms = Alarms(NearestNeighborDetector(seed=1))
    run(alarms, told(200, seed=11))
    state = alarms.__getstate__() | {name: value}
    with pytest.raises(ModelFormatError):
        object.__new__(Alarms).__setstate__(state)


@pytest.mark.parametrize(
    ("name", "value"),
    [("means", np.zeros((2, 7))), ("excesses", np.zeros(3)), ("n_values", np.zeros(9, np.int64))],
)
def test_damaged_courses_are_refused(name, value):
    alarms = Alarms(NearestNeighborDetector(seed=1))
    run(alarms, told(200, seed=11))
    table = alarms._table
    with pytest.raises(ModelFormatError):
        object.__new__(type(table)).__setstate__(table.__getstate__() | {name: value})


def looks(model):
    return model.n_samples, model.alarms, [model.score_one(x) for x in told(3, seed=12)]


def go_on(model):
    run(model, told(170, seed=13)[:5])


@pytest.mark.parametrize("leap", [0.0, 50.0])
def test_an_exception_at_any_line_leaves_the_state_before_or_after(leap):
    alarms = Alarms([NearestNeighborDetector(seed=1), NearestNeighborDetector(4, seed=2)], 0.9)
    run(alarms, told(300, seed=14))
    x = {"a": leap, "b": 0.5, "score": 0.5}
    judge = Judge(looks, go_on, every=1)
    assert 0 in judge.lines(pickle.dumps(alarms), lambda model: model.learn_one(x))


def test_an_exception_within_the_first_shingle():
    """A forest that has not filled a shingle learns the sample once."""
    alarms = Alarms(RandomCutForest(2, shingle=4, seed=1))
    samples = [{"a": float(i)} for i in range(8)]
    run(alarms, samples[:2])
    judge = Judge(lambda m: (m.n_samples, m._views[0]._past_now()), lambda m: None, every=1)
    assert 0 in judge.lines(pickle.dumps(alarms), lambda model: model.learn_one(samples[2]))


def test_frames_are_rows():
    samples = [x | {"kind": "ab"[i % 2]} for i, x in enumerate(told(400, seed=16))]
    one, other = (Alarms(NearestNeighborDetector(seed=1), 0.95, average=4) for _ in range(2))
    run(one, samples)
    other.learn_many(pd.DataFrame(samples[:250]))
    other.learn_many(pd.DataFrame(samples[250:]))
    assert other.alarms == one.alarms
    assert one.alarms
    x = {"a": 0.5, "kind": "a"}
    assert other.score_one(x) == one.score_one(x)


def test_a_value_that_no_detector_sees_is_checked():
    alarms = Alarms(compose.Select("a") | NearestNeighborDetector(seed=1))
    for x in ({"a": 1.0, "b": 0.0}, {"a": 1.0, "b": 1e70}, {"a": 1.0, "b": math.inf}):
        if x["b"] == 0.0:
            alarms.learn_one(x)
            continue
        with pytest.raises(ValueError, match="feature 'b' must be finite"):
            alarms.learn_one(x)
    assert alarms.n_samples == 1
