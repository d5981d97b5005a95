"""Tests of alarms against a reference: averages, ranks, novel values, rests, budgets, state."""

import math
import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from attack.judging import Judge
from common import fed, raises
from naive.alarms import NaiveAlarms, is_near
from river import anomaly, base, compose, preprocessing

import river_mondrian as rm
from river_mondrian import Alarms, NearestNeighborDetector


class Told(base.AnomalyDetector):
    """Detector whose score is the feature "score"."""

    def __init__(self):
        self.n_samples = 0

    def score_one(self, x):
        return x["score"]

    def learn_one(self, x):
        self.n_samples += 1


def told(n, seed, d=2):
    """Return samples with uniform scores, some runs of high scores, and values that jump."""
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


def nearly_constant(n, level):
    """Return samples whose value changes by .01 %, and near the end by 50 %."""
    scores = np.random.default_rng(2).random(n).tolist()
    steps = [1.0 + 1e-4 * (i // 100) + 0.5 * (n - 50 < i < n - 40) for i in range(n)]
    return [{"a": level * step, "score": s} for step, s in zip(steps, scores, strict=True)]


def changing_half_the_time(n):
    """Return samples whose value changes at every other sample, with one higher value."""
    scores = np.random.default_rng(3).random(n).tolist()
    steps = [(i + 1) // 2 % 2 + 8.0 * (i == n - 100) for i in range(n)]
    return [{"a": 1e9 + step, "score": s} for step, s in zip(steps, scores, strict=True)]


def silent(n, seed, first, last):
    """Return samples that lack a feature sometimes, and from `first` to `last`."""
    lacks = [i % 60 == 7 or first <= i <= last for i in range(n)]
    return [
        {name: value for name, value in x.items() if name != "b" or not one}
        for x, one in zip(told(n, seed), lacks, strict=True)
    ]


SAMPLES = [told(700, seed=3), nearly_constant(500, -2.0), nearly_constant(500, 1e9)]
SAMPLES += [changing_half_the_time(400), silent(400, 4, 301, 309), silent(300, 5, 120, 170)]
OFTEN = {"threshold": 0.9, "average": 5}
ARGUMENTS = [{}, {"threshold": 0.95, "average": 1, "rest": 0}]
ARGUMENTS += [OFTEN | {"window": 130, "rest": 20, "grace_period": 150}]
ARGUMENTS += [OFTEN | {"tolerance": 0.01, "budget": (2, 90)}]


@pytest.mark.covering
@pytest.mark.parametrize("samples", SAMPLES)
@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_scores_and_alarms_are_those_of_the_twin(samples, arguments):
    alarms = Alarms(Told(), calendar=["score"], **arguments)
    twin = NaiveAlarms(["score"], **arguments)
    for x in samples:
        expected = twin.score(x)
        assert alarms.score_one(x) == pytest.approx(expected, abs=1e-12)
        alarms.learn_one(x)
        twin.learn(x)
        assert (alarms.alarm is not None) == (expected >= twin.threshold)
    assert [alarm.sample for alarm in alarms.alarms] == twin.alarms[-100:]
    assert twin.alarms


def test_defaults_with_a_period_are_those_of_the_twin():
    """An ended incident keeps one average in the ranking, so later incidents raise alarms."""
    alarms = Alarms(Told(), calendar=["score"], period=130)
    window = 14 * 130
    plain = {"window": window, "threshold": 1.0 - 12.0 / window, "average": 5, "rest": 32}
    twin = NaiveAlarms(["score"], tolerance=0.2, grace_period=130, budget=(1, 130), **plain)
    twin.most = 1
    samples = told(800, seed=50)
    for start in range(300, 800, 200):
        for i, x in enumerate(samples[start : start + 20]):
            x["score"] = 0.9999 - 1e-7 * (start + i)
    for x in samples:
        expected = twin.score(x)
        assert alarms.score_one(x) == pytest.approx(expected, abs=1e-12)
        alarms.learn_one(x)
        twin.learn(x)
    assert [alarm.sample for alarm in alarms.alarms] == twin.alarms
    for start in range(300, 800, 200):
        assert any(start < sample <= start + 20 for sample in twin.alarms)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("arguments", [OFTEN, OFTEN | {"window": 130, "rest": 3}])
def test_answered_incidents_leave_ranks_and_confirmed_ones_leave_ranges(arguments, seed):
    """An answer comes 0 to 29 samples after the alarm, so that some incidents still run."""
    alarms, twin = (
        Alarms(Told(), calendar=["score"], **arguments),
        NaiveAlarms(["score"], **arguments),
    )
    rng, due = np.random.default_rng(seed), {}
    for n, x in enumerate(told(420, seed=seed + 30), 1):
        expected = twin.score(x)
        assert alarms.score_one(x) == pytest.approx(expected, abs=1e-12)
        alarms.learn_one(x)
        twin.learn(x)
        if alarms.alarm:
            due.setdefault(n + int(rng.integers(30)), []).append(len(twin.alarms) - 1)
        for i in due.get(n, []):
            answer = ("confirm", "dismiss", "confirm", None)[(i + seed) % 4]
            if answer:
                getattr(twin, answer)(i)
                getattr(alarms, answer)(alarms.alarms[i])
    assert twin.confirmed | twin.dismissed
    assert any(last is None or last > first for first, last, _ in twin.incidents)


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
    # The detectors passed as arguments have not learned.
    assert list(views[0].steps.values())[-1].n_samples == 0


def test_two_views_are_the_geometric_mean():
    samples = told(400, seed=7)
    one, same = Alarms(Told(), calendar=["score"]), Alarms([Told(), Told()], calendar=["score"])
    assert run(one, samples)[0] == pytest.approx(run(same, samples)[0], abs=1e-12)


def test_files_hold_pipelines_of_selected_features(tmp_path):
    alarms = Alarms([compose.Select("a") | NearestNeighborDetector(seed=1)], 0.9, average=4)
    samples = told(400, seed=10)
    run(alarms, samples[:300])
    rm.save(alarms, tmp_path / "alarms")
    assert run(rm.load(tmp_path / "alarms"), samples[300:]) == run(alarms, samples[300:])


def test_an_exception_within_the_first_shingle():
    """A forest that has not filled a shingle learns the sample once."""
    alarms = Alarms(rm.RandomCutForest(2, shingle=4, seed=1))
    samples = [{"a": float(i)} for i in range(8)]
    run(alarms, samples[:2])
    judge = Judge(lambda m: (m.n_samples, m._views[0]._past_now()), lambda m: None, every=1)
    assert 0 in judge.lines(pickle.dumps(alarms), lambda model: model.learn_one(samples[2]))


def test_the_first_sample_has_the_features_in_calendar():
    alarms = Alarms(Told(), calendar=["score", "hour"])
    for x in ({"score": 0.5, "Hour": 3}, {"score": 0.5, "Hour": 3, "hour": None}):
        calls = (alarms.score_one, alarms.learn_one, lambda x: alarms.learn_many(pd.DataFrame([x])))
        found = r"'hour' in calendar must .* first sample, got values of \['Hour', 'score'\]"
        raises(ValueError, found, *(partial(call, x) for call in calls))
    assert alarms.n_samples == 0
    # Later values may be missing.
    run(alarms, [{"score": 0.5, "hour": 3}, {"score": 0.5}, {"score": 0.5, "hour": math.nan}])
    assert alarms.n_samples == 3


def test_a_value_that_no_detector_sees_is_checked():
    alarms = Alarms(compose.Select("a") | NearestNeighborDetector(seed=1))
    alarms.learn_one({"a": 1.0, "b": 0.0})
    for wild in (1e70, math.inf):
        with pytest.raises(ValueError, match="feature 'b' must be finite"):
            alarms.learn_one({"a": 1.0, "b": wild})
    assert alarms.n_samples == 1


@pytest.mark.parametrize("score", [1.5, -0.1, math.nan])
def test_detectors_have_scores_from_0_to_1(score):
    """Ranks of other scores would be wrong; nothing has changed when they are refused."""

    class Odd(base.AnomalyDetector):
        def learn_one(self, x):
            learned.append(x)

        def score_one(self, x):
            return score if len(learned) == 2 else 0.5

    learned = []
    alarms = Alarms([NearestNeighborDetector(seed=1), preprocessing.StandardScaler() | Odd()])
    fed(alarms, [{"a": 1.0}] * 2)
    before = pickle.dumps(alarms._views[0])
    for call in (alarms.learn_one, alarms.score_one):
        with pytest.raises(ValueError, match="scores of Odd must be from 0 to 1, got"):
            call({"a": 2.0})
    assert len(learned) == alarms.n_samples == 2
    assert pickle.dumps(alarms._views[0]) == before


def hourly(n, seed):
    rng = np.random.default_rng(seed)
    return [
        {
            "load": 50.0 + 20.0 * math.sin(i / 4.0) + e,
            "s": math.sin(i / 4.0),
            "c": math.cos(i / 4.0),
        }
        for i, e in enumerate(rng.normal(0.0, 1.0, n).tolist())
    ]


def test_expected_values_are_medians_of_the_nearest_samples_without_the_feature():
    """The twin computes distances one by one; the store holds all samples."""
    samples = hourly(300, seed=21)
    detector = NearestNeighborDetector(n_neighbors=9, max_samples=500, seed=1)
    alarms = Alarms(detector)
    run(alarms, samples)
    x = samples[40] | {"load": 200.0}
    widths = alarms._views[0].widths

    def distance(one):
        return sum(min(abs(one[k] - x[k]) / widths[k], 10.0) for k in ("s", "c"))

    near = sorted(samples, key=distance)[:9]
    alarms.learn_one(x)
    expected = float(np.median([one["load"] for one in near]))
    assert alarms.alarm.expected["load"] == pytest.approx(expected, abs=1e-4)
    assert alarms.alarm.expected["load"] == pytest.approx(50.0 + 20.0 * x["s"], abs=3.0)


def test_deviations_are_means_since_the_incident_began_minus_expected_values():
    samples = hourly(600, seed=22)
    for x in samples[500:520]:
        x["load"] += 30.0
    alarms = Alarms(NearestNeighborDetector(seed=1))
    _, found = run(alarms, samples)
    alarm = next(one for one in found[500:] if one)
    since = [x["load"] for x in samples[alarm.began - 1 : alarm.sample]]
    assert alarm.deviation["load"] == pytest.approx(np.mean(since) - alarm.expected["load"])
    assert f"'load': {alarm.features['load']:.0%} of the score, +" in str(alarm)
    assert f"since sample {alarm.began}" in str(alarm)


def test_expected_values_need_a_detector_that_holds_the_feature_in_its_unit():
    views = [
        compose.Select("a") | NearestNeighborDetector(seed=1),
        preprocessing.StandardScaler() | NearestNeighborDetector(seed=2),
    ]
    alarms = Alarms(views)
    rng = np.random.default_rng(6)
    run(alarms, [{"a": a, "b": b} for a, b in rng.random((300, 2)).tolist()])
    alarms.learn_one({"a": 5.0, "b": 0.5})
    assert alarms.alarm.expected.keys() == alarms.alarm.deviation.keys() == {"a"}


@pytest.mark.parametrize(
    ("arguments", "shift", "is_raised"),
    [
        ({"direction": {"load": "up"}}, 60.0, True),
        ({"direction": {"load": "up"}}, -60.0, False),
        ({"direction": {"load": "down"}}, -60.0, True),
        ({"at_least": {"load": 30.0}}, -60.0, True),
        ({"at_least": {"load": 70.0}}, -60.0, False),
        ({"at_least": {"other": 1e9}, "direction": {"other": "up"}}, -60.0, True),
    ],
)
def test_directions_and_least_deviations_bound_novel_values_too(arguments, shift, is_raised):
    alarms = Alarms(NearestNeighborDetector(seed=1), grace_period=400, **arguments)
    samples = hourly(401, seed=23)
    run(alarms, samples[:400])
    x = samples[400] | {"load": samples[400]["load"] + shift}
    assert alarms.score_one(x) == float(is_raised)
    alarms.learn_one(x)
    assert (alarms.alarm is not None) == is_raised


def job(n, seed, when=(), period=200):
    """Return samples with a season of `period` samples, and 15 high values from each of `when`."""
    rng = np.random.default_rng(seed)
    angles = 2.0 * np.pi * np.arange(n) / period
    loads = 50.0 + 20.0 * np.sin(angles) + rng.normal(0.0, 1.0, n)
    for start in when:
        loads[start : start + 15] += 30.0
    rows = zip(loads.tolist(), rng.normal(size=n).tolist(), strict=True)
    return [{"load": load, "other": other} for load, other in rows]


SEASONAL = {"period": 200, "average": 10, "rest": 30}


def test_a_period_gives_two_detectors_and_features_of_the_time():
    samples = job(1500, seed=31, when=[1330])
    times = [2.0 * math.pi * i / 200 for i in range(1500)]
    views = [NearestNeighborDetector(window=2800, seed=1)]
    views += [NearestNeighborDetector(window=2800, shingle=8, seed=2)]
    names, plain = ["period_sin", "period_cos"], {"window": 2800, "grace_period": 200}
    plain |= {"budget": (1, 200), "tolerance": 0.2, "average": 10, "rest": 30}
    by_hand = Alarms(views, calendar=names, **plain)
    short, timed = Alarms(**SEASONAL), Alarms(period=("time", 600.0), **plain)
    for x, time in zip(samples, times, strict=True):
        short.learn_one(x)
        timed.learn_one(x | {"time": 600.0 * time / (2.0 * math.pi)})
        by_hand.learn_one(x | dict(zip(names, (math.sin(time), math.cos(time)), strict=True)))
    assert short.alarms == by_hand.alarms
    assert any(1330 <= alarm.sample <= 1345 for alarm in short.alarms)
    assert [alarm.sample for alarm in timed.alarms] == [alarm.sample for alarm in short.alarms]
    assert "time" not in timed.alarms[-1].features
    with pytest.raises(ValueError, match="feature 'time' must have a value"):
        timed.learn_one(samples[0])


@pytest.mark.parametrize(("period", "n_neighbors"), [(24, 4), (96, 8), (288, 16), (1440, 16)])
def test_short_periods_compare_fewer_neighbors(period, n_neighbors):
    views = Alarms(period=period)._views
    assert [(view.n_neighbors, view.window) for view in views] == [(n_neighbors, 14 * period)] * 2
    timed = Alarms(period=("time", 3600.0))._views
    assert [view.n_neighbors for view in timed] == [16, 16]


def test_a_dismissed_job_raises_no_alarm_and_spends_no_budget():
    """A job runs every night from day 9 on; an incident follows the job of day 10."""
    jobs = [200 * day + 20 for day in range(9, 14)]
    samples = job(2800, seed=32, when=jobs)
    for x in samples[2120:2135]:
        x["load"] -= 60.0
    raised = {}
    for is_answered in (False, True):
        alarms = Alarms(**SEASONAL)
        run(alarms, samples[:1900])
        assert jobs[0] < alarms.alarms[-1].sample <= jobs[0] + 15
        if is_answered:
            alarms.dismiss(alarms.alarms[-1])
        scores, found = run(alarms, samples[1900:])
        raised[is_answered] = {1900 + n for n, alarm in enumerate(found) if alarm}
        # The default threshold permits 12 higher averages of 14 periods.
        high = {1900 + n for n, one in enumerate(scores) if one >= 1.0 - 12 / 2800}
        assert high == raised[is_answered]
    assert raised[False] & {*range(jobs[1], jobs[1] + 15)} and 2120 not in raised[False]
    assert 2120 in raised[True]
    assert not any(start <= i < start + 15 for i in raised[True] for start in jobs[1:])


def nightly(day, days, first, size, length):
    """Return values with a season, and a job of `length` samples every night from `first` on."""
    t = np.arange(day * days)
    values = 100.0 + 20.0 * np.sin(2.0 * np.pi * t / day)
    values += np.random.default_rng(51).normal(0.0, 3.0, len(t))
    for night in range(first, days):
        values[night * day + 20 :][:length] += size
    return values


def test_a_dismissed_job_hides_no_smaller_incidents():
    """The job is dismissed once. Three incidents are less than half as large as the job."""
    day, length = 288, 12
    values = nightly(day, 20, 6, 100.0, length)
    starts = [day * night + day // 2 for night in (10, 13, 17)]
    for start in starts:
        values[start : start + 2 * length] += 45.0
    raised = {}
    for is_answered in (False, True):
        alarms, raised[is_answered] = Alarms(period=day), []
        for i, value in enumerate(values.tolist()):
            alarms.learn_one({"load": value})
            if alarms.alarm:
                raised[is_answered].append(i)
                if is_answered and i % day < 20 + 2 * length:
                    alarms.dismiss(alarms.alarm)
    found = {
        is_answered: [any(start <= i < start + 2 * length for i in own) for start in starts]
        for is_answered, own in raised.items()
    }
    assert all(found[True]) and not all(found[False])
    assert sum(i % day < 20 + 2 * length for i in raised[True]) <= 2


@pytest.mark.parametrize("is_late", [False, True])
def test_dismissed_incidents_and_their_repetitions_leave_the_ranks_of_detectors(is_late):
    """The load is high twice; the second alarm is not raised. Detectors learn the same samples."""
    views = [NearestNeighborDetector(seed=1), NearestNeighborDetector(shingle=4, seed=2)]
    alarms = Alarms(views, average=20, threshold=0.98, tolerance=9.0)
    samples = hourly(900, seed=53)
    for start in (600, 751):
        for x in samples[start : start + 12]:
            x["load"] += 30.0
    repeated = None
    for n, x in enumerate(samples, 1):
        alarms.learn_one(x)
        fed(views[0], [x])
        fed(views[1], [x])
        if n == (690 if is_late else 608):
            dismissed = next(one for one in alarms.alarms if one.sample > 600)
            alarms.dismiss(dismissed)
        latest = alarms._alarms[-1] if alarms._alarms else None
        if latest and latest.answer == "repeated" and not latest.runs and latest.alarm.sample > 751:
            repeated = repeated or latest
    first = next(one for one in alarms._alarms if one.alarm == dismissed)
    assert repeated and repeated.began + 1 < repeated.alarm.sample
    parts = [(one.began, one.ended) for one in (first, repeated)]
    # Shingles of 4 samples contain samples of an incident up to 3 samples after its end.
    for start, last in parts:
        assert (alarms._table.means[:, start - 1 : last + 3] < 0.0).all()
    for own, view in zip(alarms._views, views, strict=True):
        scores, n_unscored = view.recent_scores, 900 - len(view.recent_scores)
        kept = [
            score
            for n, score in enumerate(scores, n_unscored + 1)
            if not any(start <= n < last + view.shingle for start, last in parts)
        ]
        assert own.recent_scores == kept


def test_a_late_dismissal_keeps_the_averages_of_the_next_incident():
    """The load is high, and one hour later low. Shingles of 8 samples contain both incidents."""
    day, rng = 288, np.random.default_rng(1)
    values = nightly(day, 11, 11, 0.0, 0)[: 10 * day + 160]
    values += rng.normal(0.0, 0.1, len(values))
    values[10 * day + 100 :][:12] += 60.0
    values[10 * day + 123 :][:12] -= 90.0
    alarms = Alarms(period=day, budget=(9, day))
    run(alarms, [{"load": value} for value in values.tolist()])
    first, second = (one for one in alarms._alarms if one.alarm.sample > 10 * day)
    assert first.ended < second.began < first.ended + 8

    def n_ranked(incident):
        return (alarms._table.means[0, incident.began - 1 : incident.ended] >= 0.0).sum()

    assert n_ranked(first) == n_ranked(second) == 1
    alarms.dismiss(first.alarm)
    assert (n_ranked(first), n_ranked(second)) == (0, 1)


def test_a_dismissed_change_that_lasts_becomes_usual():
    """Noise is larger from sample 900 on. The ranks keep most raw scores."""
    values = np.random.default_rng(52).normal(0.0, 1.0, 6000)
    values[900:] *= 4.0
    alarms = Alarms(NearestNeighborDetector(seed=1), tolerance=9.0)
    for i, value in enumerate(values.tolist()):
        alarms.learn_one({"load": value})
        if alarms.alarm and i >= 900:
            alarms.dismiss(alarms.alarm)
    answered = [one for one in alarms._alarms if one.answer == "dismissed"]
    assert answered and not any(one.runs for one in answered)
    assert len(alarms._views[0].recent_scores) > 0.9 * 4096


@pytest.mark.parametrize(("length", "average"), [(6, 6), (18, 40)])
def test_the_samples_of_a_repeated_job_are_compared_without_normal_samples(length, average):
    """At the last job, averages contain normal samples before or after the job.

    Two incidents raise alarms: a novel one between the jobs, and a mild one after the last job.
    """
    rng, day = np.random.default_rng(1), 288
    angles = 2.0 * np.pi * np.arange(14 * day) / day
    loads = 200.0 + 80.0 * np.sin(angles - 2.0) + 20.0 * np.sin(2.0 * angles)
    loads += rng.normal(0.0, 6.0, 14 * day)
    for job_day in (4, 6, 8, 10, 12):
        loads[day * job_day + 24 :][:length] += 110.0
    incidents = [day * 9 + 170, day * 13 + 150]
    loads[incidents[0] :][:36] += 120.0
    loads[incidents[1] :][:36] -= 80.0
    alarms, found, others = Alarms(period=day, average=average), [], []
    for i, load in enumerate(loads.tolist()):
        alarms.learn_one({"load": load})
        if alarms.alarm:
            own = [start for start in incidents if start <= i < start + 36]
            (alarms.confirm if own else alarms.dismiss)(alarms.alarm)
            found += own
            others += [] if own else [i]
    assert found == incidents
    (first,) = [i for i in others if 24 <= i % day < 24 + length + average]
    assert first // day in (6, 8)


def test_alarms_near_to_dismissed_samples_are_those_of_the_twin():
    """A copy of the model without dismissed samples raises all alarms."""
    samples = hourly(1000, seed=48)
    for start, size in ((600, 30.0), (700, 30.0), (800, 32.0), (900, -30.0)):
        for x in samples[start : start + 8]:
            x["load"] += size
    detector = NearestNeighborDetector(seed=1)
    alarms = Alarms(detector, 0.97, average=24, rest=0, tolerance=0.9, calendar=["s", "c"])
    surprises, decided = [], []
    for n, x in enumerate(samples):
        surprises.append(-math.log(1.0 - detector.score_one(x)))
        if n >= 640 and n % 100 < 40:
            free = alarms.clone(include_attributes=True)
            free._table.dismissed = free._table.dismissed[:0]
            free.learn_one(x)
            if free.alarm:
                part = slice(free.alarm.began - 1, n + 1)
                dismissed = [samples[int(i) - 1] for i in alarms._table.dismissed[:, 0]]
                usual = np.quantile(alarms._views[0].recent_scores, 0.95)
                given = samples[part], surprises[part], dismissed, detector.widths, usual
                decided.append(is_near(*given))
                assert (alarms.score_one(x) == 0.0) == decided[-1]
        alarms.learn_one(x)
        detector.learn_one(x)
        if alarms.alarm and n < 640:
            alarms.dismiss(alarms.alarm)
    assert {*decided} == {False, True}


@pytest.mark.parametrize("is_late", [False, True])
def test_samples_of_a_confirmed_incident_leave_the_stores(is_late):
    """Stores hold all samples. Shingles contain samples of the incident after its end."""
    views = [NearestNeighborDetector(max_samples=900, seed=1)]
    views += [NearestNeighborDetector(max_samples=900, shingle=4, seed=2)]
    # This detector has learned before `Alarms` copies it.
    fed(views[0], hourly(7, seed=1))
    alarms = Alarms(views, average=5, threshold=0.98)
    samples = hourly(700, seed=24)
    for x in samples[600:620]:
        x["load"] += 30.0
    for n, x in enumerate(samples, 1):
        alarms.learn_one(x)
        if n == (690 if is_late else 603):
            alarm = next(one for one in alarms.alarms if one.sample > 600)
            alarms.confirm(alarm)
    _, first, last, _ = next(one for one in alarms._alarms if one[0] == tuple(alarm))
    assert first <= 601 and 610 <= last <= 625
    for view, before, shingle in zip(alarms._views, (7, 0), (1, 4), strict=True):
        held = set((view._table.numbers + 1 - before).tolist())
        assert held == set(range(shingle - before, 701)) - set(range(first, last + shingle))


def answered():
    """Return alarms with a confirmed, a dismissed and an open incident."""
    alarms = Alarms(NearestNeighborDetector(seed=1), average=5, threshold=0.98, rest=20)
    samples = hourly(700, seed=25)
    for start, size in ((400, 30.0), (500, -40.0), (600, 60.0)):
        for x in samples[start : start + 12]:
            x["load"] += size
    run(alarms, samples[:640])
    alarms.confirm(next(one for one in alarms.alarms if one.sample > 400))
    alarms.dismiss(next(one for one in alarms.alarms if one.sample > 500))
    return alarms, samples[640:] + samples[490:640]


def test_answers_are_saved_and_copied(tmp_path):
    alarms, samples = answered()
    rm.save(alarms, tmp_path / "alarms")
    loaded = rm.load(tmp_path / "alarms")
    others = [loaded, pickle.loads(pickle.dumps(alarms)), alarms.clone(include_attributes=True)]
    for one in others:
        one.confirm(one.alarms[-1])
    alarms.confirm(alarms.alarms[-1])
    expected = run(alarms, samples)
    assert [run(one, samples) for one in others] == [expected] * 3


def test_answers_twice_and_to_alarms_that_are_not_held():
    alarms, _ = answered()
    confirmed = next(one for one in alarms.alarms if one.sample > 400)
    before = pickle.dumps(alarms)
    alarms.confirm(confirmed)
    alarms.dismiss(next(one for one in alarms.alarms if one.sample > 500))
    foreign = confirmed._replace(sample=7)
    for answer in (alarms.confirm, alarms.dismiss):
        with pytest.raises(ValueError, match="must be one of the latest alarms, got Alarm"):
            answer(foreign)
    assert pickle.dumps(alarms) == before


def test_the_latest_dismissed_samples_are_kept():
    """The incident is dismissed while it runs, which covers the rest of it."""
    alarms = Alarms(Told(), 0.9, average=5, calendar=["score"])
    scores = np.random.default_rng(26).random(1400)
    scores[300:1000] = np.linspace(0.995, 0.99999, 700)
    for n, score in enumerate(scores.tolist(), 1):
        alarms.learn_one({"score": score, "a": n % 7})
        if n == 400:
            alarms.dismiss(next(one for one in alarms.alarms if one.sample > 300))
    numbers = alarms._table.dismissed[:, 0]
    assert len(numbers) == 512
    assert numbers[-1] == max(
        ended for _, _, ended, answer in alarms._alarms if answer == "dismissed"
    )
    assert (np.diff(numbers) == 1).all()


def test_an_alarm_names_the_feature_that_is_silent():
    alarms = Alarms(NearestNeighborDetector(seed=1), average=10)
    samples = hourly(400, seed=27)
    for x in samples[300:360]:
        del x["load"]
    _, found = run(alarms, samples)
    (alarm,) = [one for one in found[300:360] if one and not one.expected]
    assert (alarm.sample, alarm.began, alarm.features) == (310, 301, {"load": 1.0})


def test_a_running_incident_does_not_end_through_its_own_averages():
    """A late confirmation removes the incident, so a weaker incident later is found."""
    rng = np.random.default_rng(41)
    scores = 0.9 * rng.random(1200)
    scores[600:800], scores[1000:1020] = 0.9999, 0.99
    alarms = Alarms(Told(), 0.99, average=10, calendar=["score"])
    samples = [{"score": s} for s in scores.tolist()]
    run(alarms, samples[:900])
    (alarm,) = [one for one in alarms.alarms if one.sample > 600]
    (ended,) = [ended for fields, _, ended, _ in alarms._alarms if fields == tuple(alarm)]
    assert 800 <= ended <= 810
    alarms.confirm(alarm)
    _, found = run(alarms, samples[900:])
    assert any(found[100:120])


@pytest.mark.parametrize("answer", ["confirm", "dismiss"])
def test_an_answer_to_a_running_novel_incident_raises_no_other_alarm(answer):
    samples = hourly(700, seed=42)
    for x in samples[500:560]:
        x["load"] = 130.0
    alarms = Alarms(NearestNeighborDetector(seed=1), rest=10)
    run(alarms, samples[:501])
    assert alarms.alarm.novel == ("load",)
    getattr(alarms, answer)(alarms.alarm)
    _, found = run(alarms, samples[501:560])
    assert not any(found)


def within_a_dismissed_incident(is_late):
    """Return alarms of which the first is dismissed at once, or after the second alarm.

    The load is high in samples 501 to 560, and errors are high in samples 531 to 560.
    """
    rng = np.random.default_rng(43)
    samples = [
        x | {"errors": e}
        for x, e in zip(hourly(700, seed=43), rng.normal(size=700).tolist(), strict=True)
    ]
    for i in range(500, 560):
        samples[i]["load"] = 130.0
        samples[i]["errors"] += 200.0 * (i >= 530)
    alarms = Alarms(NearestNeighborDetector(seed=1), rest=10)
    run(alarms, samples[:501])
    first = alarms.alarm
    if not is_late:
        alarms.dismiss(first)
    run(alarms, samples[501:545])
    if is_late:
        alarms.dismiss(first)
    run(alarms, samples[545:])
    return alarms


@pytest.mark.parametrize("is_late", [False, True])
def test_a_novel_alarm_within_a_dismissed_incident_has_its_own_answer(is_late):
    alarms = within_a_dismissed_incident(is_late)
    second = next(one for one in alarms.alarms if one.sample == 531)
    assert second.novel == ("errors",)
    first, last = alarms._table.dismissed[[0, -1], 0]
    assert (first, last) == (501, 530)
    assert (alarms._table.waiting[:, 0] == 531).any()
    alarms.dismiss(second)
    assert alarms._table.dismissed[-1, 0] >= 560


@pytest.mark.parametrize("is_up", [False, True])
def test_a_direction_counts_no_times(is_up):
    """The time has a large share of the score and no deviation, but must not pass."""
    samples = [{"load": x["load"], "time": float(i % 25)} for i, x in enumerate(hourly(601, 44))]
    samples[600] |= {"load": samples[600]["load"] + (90.0 if is_up else -90.0), "time": 400.0}
    alarms = Alarms(NearestNeighborDetector(seed=1), calendar=["time"], direction={"load": "up"})
    run(alarms, samples)
    free = Alarms(NearestNeighborDetector(seed=1), calendar=["time"])
    run(free, samples)
    assert free.alarm.features["time"] >= 0.5
    assert (alarms.alarm is not None) == is_up


@pytest.mark.parametrize(
    ("arguments", "n"), [({"window": 100}, 400), ({"average": 40}, 150), ({"window": 300}, 2000)]
)
def test_short_windows_and_short_streams_have_silence_alarms(arguments, n):
    alarms = Alarms(Told(), calendar=["score"], **arguments)
    samples = [{"score": s, "a": 0.5} for s in np.random.default_rng(45).random(n).tolist()]
    run(alarms, samples)
    _, found = run(alarms, [{"score": x["score"]} for x in samples[:100]])
    silent = [one for one in found if one and one.features == {"a": 1.0}]
    assert [one.sample for one in silent] == [n + 40]


def test_a_silence_alarm_waits_for_the_budget():
    alarms = Alarms(Told(), calendar=["score"], average=10, budget=(1, 500))
    samples = [{"score": s, "a": s} for s in np.random.default_rng(46).random(600).tolist()]
    run(alarms, [*samples, {"score": 0.5, "a": 9.0}])
    assert alarms.alarm.novel == ("a",)
    spent = [{"score": 0.5}] * 700
    scores, found = run(alarms, spent)
    raised = [i for i, one in enumerate(found) if one]
    assert raised == [i for i, score in enumerate(scores) if score == 1.0] == [499]
    assert found[499].features == {"a": 1.0}


def test_features_that_a_period_adds_are_refused():
    alarms = Alarms(period=200)
    for name in ("period_sin", "period_cos"):
        raises(
            ValueError,
            f"feature '{name}' must be absent, because period adds it, got 3.0",
            partial(alarms.learn_one, {"load": 1.0, name: 3.0}),
            partial(alarms.score_one, {"load": 1.0, name: 3.0}),
        )
    assert alarms.n_samples == 0


def test_periods_of_other_types():
    for period in (np.int64(200), 200):
        alarms = Alarms(period=period)
        assert (alarms._window, alarms._grace, alarms._budget) == (2800, 200, (1, 200))
    listed, pair = Alarms(period=["time", 600.0]), Alarms(period=("time", 600.0))
    for i, x in enumerate(job(300, seed=47)):
        assert listed.score_one(x | {"time": 3.0 * i}) == pair.score_one(x | {"time": 3.0 * i})
        fed(listed, [x | {"time": 3.0 * i}])
        fed(pair, [x | {"time": 3.0 * i}])
    for wrong in (("time",), [["time"], 600.0], ("a", 1, 2)):
        with pytest.raises(ValueError, match=r"period must be an integer or \(feature, seconds\)"):
            Alarms(period=wrong)


def test_alarms_can_be_changed_by_their_owner_alone():
    alarms, _ = answered()
    held, other = alarms.alarms, alarms.alarms
    held[-1].features["more"] = 1.0
    assert alarms.alarms == other
    with pytest.raises(ValueError, match="must be one of the latest alarms, got array"):
        alarms.dismiss(np.zeros(7))


def test_a_detector_of_another_library_that_does_not_learn_a_sample_blocks_nothing():
    class Picky(Told):
        def learn_one(self, x):
            if x["a"] == 7.0:
                raise TypeError("no 7")
            super().learn_one(x)

    alarms = Alarms([Picky(), NearestNeighborDetector(seed=1)], calendar=["score"])
    samples = [{"score": 0.5, "a": 1.0}] * 4
    fed(alarms, samples)
    before = pickle.dumps(alarms._views[1])
    with pytest.raises(TypeError, match="no 7"):
        alarms.learn_one({"score": 0.5, "a": 7.0})
    assert pickle.dumps(alarms._views[1]) == before
    fed(alarms, samples)
    assert alarms.n_samples == 8
