"""Tests of the drift monitor: definition, promise, reports, and stored monitors."""

import math
import pickle
from functools import partial

import numpy as np
import pytest
from common import raises
from naive.monitor import Reference
from river import drift, ensemble, naive_bayes
from scipy import stats

import river_mondrian as rm
from river_mondrian import DriftMonitor
from river_mondrian.compiling.kernels import COMPILES
from river_mondrian.learners.conformal import CHANGES, MOST_DEPENDENT, MOST_LEVELS, MOST_WATCHED


def mixed(n, n_known, seed, y, holes=0.1):
    """Return samples with missing values and a change; the first `n_known` lack a feature."""
    rng = np.random.default_rng(seed)
    found = []
    for a, b, c in rng.normal(size=(n, 3)).tolist():
        x = {"a": a, "b": a + 0.3 * b, "c": 40.0 * c, "d": "xyzw"[2 * (b > 0) + (c > 1)]}
        x = {name: value for name, value in x.items() if rng.random() >= holes}
        if len(found) >= n_known and rng.random() < 0.2:
            x |= {"new": 1.0}
        if len(found) >= n // 2:
            x |= {"a": x.get("a", 0.0) + 2.0}
        target = {"label": "pq"[int(a > 0)], "target": a + 0.1 * c, "none": None}[y]
        found.append((x, target if rng.random() >= 0.1 else None))
    return found


@pytest.mark.parametrize("y", ["label", "target", "none"])
def test_ranks_and_evidence_are_those_of_the_twin(y):
    monitor, samples = DriftMonitor(every=10**9, grace_period=50, seed=1), mixed(250, 50, 1, y)
    for x, t in samples[:50]:
        monitor.learn_one(x, t)
    twin = Reference(*zip(*samples[:50], strict=True), monitor._table.features.names)
    for i, (x, t) in enumerate(samples[50:], 51):
        monitor.learn_one(x, t)
        table = monitor._table
        twin.learn(x, t, table.record.v, i)
        ranks, known = table.memory.arrays["ranks"], table.learned
        for c, (name, channel) in enumerate(twin.channels.items()):
            if not math.isnan(ranks[c]):
                assert channel.ranks[-1] == pytest.approx(ranks[c], abs=1e-12), (i, name)
            assert sum(map(len, channel.scores.values())) == len(channel.ranks)
            found = known["evidence"][c].mean()
            assert found == pytest.approx(channel.evidence, rel=1e-9), (i, name)
            starts = [bettor.start or 0 for bettor in channel.bettors]
            assert known["starts"][c].tolist() == starts
        assert len(twin.channels) == len(ranks)


# The promise: without a change, ranks are uniform and independent, and false alarms are rare.

N = 4000 if COMPILES else 300


def words(n, seed):
    """Return bags of words with a long tail of rare words, shuffled."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        topic = rng.integers(2)
        ranks = rng.zipf(1.5, size=12) * 2 + topic
        found.append(({f"word {rank}": 1.0 for rank in ranks.tolist()}, int(topic)))
    rng.shuffle(found)
    return found


def normal(n, seed):
    return mixed(2 * n, 2 * n, seed, "label")[:n]


def targets(n, seed):
    return mixed(2 * n, 2 * n, seed, "target")[:n]


def ties(n, seed):
    """Return samples of small integers with a rare label."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(3, size=(n, 6)).tolist()
    return [(dict(enumerate(row)), int(sum(row) > 9)) for row in rows]


def tails(n, seed):
    """Return samples with heavy tails; the target depends on the first feature."""
    rng = np.random.default_rng(seed)
    rows = np.exp(2.0 * rng.normal(size=(n, 3))).tolist()
    return [(dict(enumerate(row)), row[0] + math.sqrt(row[1])) for row in rows]


@pytest.mark.parametrize("stream", [normal, targets, ties, tails])
def test_ranks_are_uniform_and_independent(stream):
    monitor, rows = DriftMonitor(every=10**15, grace_period=64, seed=2), []
    for x, y in stream(N + 64, 2):
        monitor.learn_one(x, y)
        rows.append(monitor._table.memory.arrays["ranks"].copy())
    ranks = [column[~np.isnan(column)] for column in np.array(rows[64:]).T]
    assert len(ranks) > 8 and min(map(len, ranks)) > N / 10
    level = 1e-3 / len(ranks) / 2
    for own in ranks:
        assert stats.kstest(own, "uniform").pvalue > level
        quarters = (4.0 * own).astype(int)
        joint = np.histogram2d(quarters[1:], quarters[:-1], bins=4)[0]
        assert stats.chi2_contingency(joint).pvalue > level


@pytest.mark.skipif(not COMPILES, reason="takes long without compiled kernels")
@pytest.mark.parametrize("stream", [normal, targets, ties, tails, words])
def test_false_alarms_are_as_rare_as_promised(stream, seed):
    # The collection of evidence after an alarm takes 200 samples, much less than `every`.
    every, grace, n = 2_000, 32, 30_000
    monitor, alarms = DriftMonitor(every, grace_period=grace, seed=seed), 0
    for x, y in stream(n, seed):
        monitor.learn_one(x, y)
        alarms += monitor.drift_detected
    rng = np.random.default_rng(seed)
    gaps = grace + every * rng.random((2000, n // grace))
    counts = (np.cumsum(gaps, axis=1) <= n).sum(axis=1)
    # Alarms are expected, so that this test can fail.
    assert 0 < alarms <= np.quantile(counts, 0.99)


# Reports.


def changed(what, seed, n=3000, at=2000):
    """Return samples with a change after `at` samples, and with a label or target."""
    rng = np.random.default_rng(seed)
    found = []
    for i, (a, b, c, e) in enumerate(rng.normal(size=(n, 4)).tolist()):
        after = i >= at
        # Feature b depends on a and c.
        x = {"a": a, "b": 0.6 * (a + c) + 0.3 * b, "c": c, "d": "uv"[rng.integers(2)], "e": e}
        y = "no" if a + 0.5 * c < 0.0 else "yes"
        target = a + 0.5 * c + 0.1 * b
        if what == "values" and after:
            x["e"] += 1.0
        if what == "dependence" and after:
            x["b"] = 0.9 * rng.normal()
        if what == "presence" and after and rng.random() < 0.3:
            del x["e"]
        if what == "levels" and after and rng.random() < 0.3:
            x["d"] = "w"
        if what == "new" and (after or rng.random() < 0.05):
            x["often" if after else f"rare {rng.integers(1000)}"] = 1.0
        if what == "labels":
            y = "yes" if rng.random() < (0.2 if after else 0.5) else "no"
        if what == "new label" and after and rng.random() < 0.2:
            y = "maybe"
        if what == "relation" and after and c > 0.0:
            y, target = ("yes" if y == "no" else "no"), -target
        found.append((x, target if "target" in what else y))
        if what == "relation of targets" and after and c > 0.0:
            found[-1] = x, -target
        if what == "values of targets" and after:
            found[-1] = x, target + 1.0
    return found


# The kind, the strongest feature or label, and what changed.
DRAWN = {
    "values": ("inputs", "e", "values"),
    "dependence": ("inputs", "b", "dependence"),
    "presence": ("inputs", "e", "presence"),
    "levels": ("inputs", "d", "values"),
    "new": ("inputs", "often", "new"),
    "labels": ("labels", "yes", None),
    "new label": ("labels", "maybe", None),
    "relation": ("relation", None, None),
    "relation of targets": ("relation", None, None),
    "values of targets": ("labels", "target", None),
}


@pytest.mark.skipif(not COMPILES, reason="takes long without compiled kernels")
@pytest.mark.parametrize("what", DRAWN)
def test_reports_name_what_changed(what, seed):
    kind, name, how = DRAWN[what]
    monitor, versions = DriftMonitor(every=10**6, seed=seed), []
    for x, y in changed(what, seed):
        monitor.learn_one(x, y)
        if monitor.drift_detected:
            assert monitor.log[-1].sample == monitor.n_samples
        versions += [one for one in monitor.log[-1:] if one not in versions]
    # The first version of a drift is replaced once.
    (first, final) = versions
    assert monitor.log == [final] and (first.is_final, final.is_final) == (False, True)
    assert first.sample == final.sample and 2000 < final.sample < 2400
    assert abs(final.began - 2001) < 300
    # If the relation changes, the frequencies of labels may change, too.
    assert kind == final.kinds[0] or (kind in final.kinds and what == "values of targets")
    assert ("inputs" in final.kinds) == bool(final.features) == (kind == "inputs")
    named = final.features if kind == "inputs" else final.labels
    if name is not None:
        assert next(iter(named)) == name
        assert [*named.values()] == sorted(named.values(), reverse=True)
        assert named[name] > 10.0 and 2.0 * min(named.values()) >= named[name]
    if how is not None:
        assert final.how[name] == how
        assert abs(final.feature_began[name] - 2001) < 300
    assert final.features.keys() == final.how.keys() == final.feature_began.keys()


@pytest.mark.skipif(not COMPILES, reason="takes long without compiled kernels")
def test_a_change_of_inputs_alone_is_no_change_of_the_relation():
    found = []
    for seed in range(10):
        rng, monitor = np.random.default_rng(seed), DriftMonitor(every=10**6, seed=seed)
        for i in range(2500):
            a, b = rng.normal(size=2).tolist()
            a += 0.7 if i >= 1500 else 0.0
            monitor.learn_one({"a": a, "b": b}, a * a + b + 0.3 * rng.normal())
        (drift,) = monitor.log
        assert drift.kinds[0] == "inputs" and next(iter(drift.features)) == "a"
        found.append("relation" in drift.kinds)
    assert sum(found) <= 1


@pytest.mark.skipif(not COMPILES, reason="takes long without compiled kernels")
def test_two_changes_in_succession_and_two_features():
    """The next reference is filled while evidence is collected, so the monitor is soon ready."""
    rng, monitor = np.random.default_rng(1), DriftMonitor(every=10**6, seed=1)
    for i in range(2000):
        a, b, c = rng.normal(size=3).tolist()
        a, b = (a + 1.5 * (i >= 1000), b - 1.5 * (i >= 1000))
        # The alarm comes before sample 1,050, and 256 more samples are a reference.
        monitor.learn_one({"a": a, "b": b, "c": c + 2.0 * (i >= 1350)})
    first, second = monitor.log
    assert first.sample < 1050 and {*first.features} == {"a", "b"}
    assert 1350 < second.sample < 1400 and {*second.features} == {"c"}


@pytest.mark.skipif(not COMPILES, reason="takes long without compiled kernels")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("how", ["values", "presence"])
def test_a_weaker_change_of_another_feature_is_listed(seed, how):
    """Evidence that raises an alarm alone is listed, even below half of the largest evidence."""
    rng, monitor = np.random.default_rng(seed), DriftMonitor(every=10**6, kinds=["inputs"], seed=1)
    for i in range(1300):
        a, b, c = rng.normal(size=3).tolist()
        a, b = (a + 6.0 * (i >= 1000), b + 1.0 * (i >= 1000 and how == "values"))
        is_missing = rng.random() < 0.4 and i >= 1000 and how == "presence"
        monitor.learn_one({"a": a, "b": None if is_missing else b, "c": c})
    drift = monitor.log[0]
    assert [*drift.features] == ["a", "b"] and drift.how["b"] == how
    assert drift.features["b"] < 0.5 * drift.features["a"]


@pytest.mark.skipif(not COMPILES, reason="takes long without compiled kernels")
@pytest.mark.parametrize("every", [20, 100])
def test_no_feature_is_listed_with_negative_evidence(every):
    """Long after the start, an alarm needs less log evidence than 0, the value without a change."""
    listed = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        monitor = DriftMonitor(every=every, kinds=["inputs"], grace_period=32, seed=seed)
        for a, b in rng.normal(size=(4000, 2)).tolist():
            monitor.learn_one({"a": a, "b": b})
            if monitor.drift_detected:
                listed += monitor.log[-1].features.values()
    assert listed and min(listed) >= 0.0


def sampled(samples, spacing=1, **arguments):
    monitor = DriftMonitor(grace_period=64, spacing=spacing, seed=3, **arguments)
    for x, y in samples:
        monitor.learn_one(x, y)
    return monitor


def test_spacing_uses_one_sample_in_so_many():
    samples = changed("values", 1, n=2400, at=1500)
    spaced = sampled(samples, 3, every=300_000)
    assert spaced.n_samples == 2400
    plain = sampled(samples[::3], every=100_000)
    if COMPILES:
        assert spaced.log and plain.log
    # The random numbers of ranks depend on the number of the sample, so only references are equal.
    for name in ("held", "cuts", "edges", "bars"):
        one, other = (
            monitor._table.learned[name]
            for monitor in (
                sampled(samples[:600], 3, every=3 * 10**6),
                sampled(samples[:600:3], every=10**6),
            )
        )
        np.testing.assert_array_equal(one, other)
    raises(TypeError, "feature 'a'", lambda: spaced.learn_one({"a": "text"}))


def test_late_labels_need_two_monitors():
    """One monitor learns x now, and the other learns x and y later."""
    samples = changed("relation", 2, n=2200, at=1500) if COMPILES else changed("relation", 2, 200)
    inputs, others = (DriftMonitor(kinds=kinds, seed=1) for kinds in (["inputs"], CHANGES[1:]))
    both = DriftMonitor(kinds=["inputs"], seed=1)
    for x, y in samples:
        inputs.learn_one(x)
        both.learn_one(x, y)
    for x, y in samples:
        others.learn_one(x, y)
    assert inputs.log == both.log
    for one, other in zip(*(m._table.learned.values() for m in (inputs, both)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.isinf(others._table.learned["bars"][0])
    if COMPILES:
        assert "relation" in others.log[-1].kinds and not inputs.log


def test_the_first_y_decides_between_labels_and_targets():
    for first, second, kind in ((1, 0.5, "a label"), (0.5, 1, "a target"), ("a", 2.0, "a label")):
        monitor = DriftMonitor(seed=1)
        monitor.learn_one({"a": 1.0})
        monitor.learn_one({"a": 1.0}, first)
        before = pickle.dumps(monitor)
        call = partial(monitor.learn_one, {}, second)
        raises(TypeError, f"y must be {kind}, as before, got", call)
        assert pickle.dumps(monitor) == before


def test_memory_is_bounded():
    """References have at most 1,024 features, 64 levels and 64 labels."""
    monitor = DriftMonitor(grace_period=64, seed=1)
    sizes = []
    for i in range(200):
        x = {f"{i} {k}": 1.0 for k in range(40)} | {"level": f"level {i}", "a": float(i)}
        monitor.learn_one(x, f"{i}")
        sizes.append(monitor.memory_usage)
    table = monitor._table
    assert (table.record.n_inputs, table.record.n_dependent) == (MOST_WATCHED, MOST_DEPENDENT)
    assert len(table.labels) == MOST_LEVELS
    assert len({*sizes[70:]}) == 1


def test_the_features_with_a_score_for_dependence_are_those_that_are_predicted_best():
    rng, monitor = np.random.default_rng(1), DriftMonitor(grace_period=64, kinds=["inputs"], seed=1)
    for _ in range(64):
        shared = rng.normal()
        noise = {f"noise {k}": rng.normal() for k in range(100)}
        monitor.learn_one(noise | {f"copy {k}": shared + 0.1 * rng.normal() for k in range(20)})
    table = monitor._table
    found = {table.features.names[j] for j in table.learned["dependent"]}
    assert {f"copy {k}" for k in range(20)} <= found


# The detector for single values.


def errors(n, at, seed):
    rng = np.random.default_rng(seed)
    return (rng.random(n) < np.where(np.arange(n) < at, 0.1, 0.4)).astype(int).tolist()


@pytest.mark.skipif(not COMPILES, reason="takes long without compiled kernels")
def test_a_change_of_single_values(seed):
    detector, found = rm.ConformalDrift(every=10**6, seed=seed), []
    values = errors(2000, 1000, seed)
    for i, value in enumerate(values, 1):
        before = detector.estimation
        detector.update(value)
        detector = pickle.loads(pickle.dumps(detector)) if i % 100 == 0 else detector
        if detector.drift_detected:
            found.append(i)
            assert 0 < detector.width < i - 900
            assert detector.estimation > before
            assert detector.estimation == pytest.approx(np.mean(values[i - detector.width : i]))
    (alarm,) = found
    assert 1000 < alarm < 1200 and detector.n_samples == 2000
    raises(TypeError, "must be a number", lambda: detector.update("a"))
    raises(ValueError, "finite", lambda: detector.update(math.nan))
    assert detector.n_samples == 2000
    assert detector.clone().n_samples == 0


@pytest.mark.skipif(not COMPILES, reason="takes long without compiled kernels")
def test_wrappers_and_forests_take_the_detector():
    rng = np.random.default_rng(1)
    numbers = enumerate(rng.random(1600).tolist())
    # After a change, labels are random.
    stream = [({"a": a}, bool((a if i < 800 else rng.random()) > 0.5)) for i, a in numbers]
    retrained = drift.DriftRetrainingClassifier(
        rm.MondrianForestClassifier(3, seed=1), rm.ConformalDrift(seed=1), train_in_background=False
    )
    model = retrained.model
    forest = rm.AdaptiveMondrianForestClassifier(
        3, drift_detector=rm.ConformalDrift(seed=1), seed=1
    )
    bagging = ensemble.ADWINBaggingClassifier(naive_bayes.GaussianNB(), n_models=3, seed=1)
    bagging._drift_detectors = [rm.ConformalDrift(seed=1) for _ in range(3)]
    for x, y in stream:
        for one in (retrained, forest, bagging):
            one.learn_one(x, y)
    assert retrained.model is not model
    assert [n for n, _ in forest.drift_log if 800 < n < 1000]
    assert bagging.predict_one(x) in (False, True)
    assert [one.n_samples for one in bagging._drift_detectors] == [1600] * 3
