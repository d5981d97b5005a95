"""Tests of the drift monitor: definition, promise, reports, and stored monitors."""

import math

import numpy as np
import pytest
from naive.monitor import Reference

from river_mondrian.estimators.monitor import DriftMonitor


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
