"""The drift monitor: false alarms, detected drifts, names of features, and cost."""

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from river_mondrian import (
    AdaptiveMondrianForestClassifier,
    AdaptiveMondrianForestRegressor,
    DriftMonitor,
)

from .data import DataFolder, available, stream
from .report import Report, progress
from .timing import call_seconds

Rows = NDArray[np.float64]
Labels = NDArray[Any]

# Length of a block that is shuffled.
BLOCK = 20_000
# Number of samples before a drift, and largest delay at which a drift counts as detected.
BEFORE, WITHIN = 4000, 2000
# Data sets with numeric targets.
TARGETS = "california", "kin8nm", "bike_hour"
# Longest delay of a hit, and width of a gradual drift, in the public protocol.
MAX_DELAY = 2500


def _arrays(data: DataFolder, names: Iterable[str]) -> dict[str, tuple[Rows, Labels]]:
    return {
        name: (arrays["X_train"].astype(np.float64), arrays["y_train"])
        for name, arrays in available(data.load, names)
    }


def _labelled(data: DataFolder, names: Iterable[str]) -> dict[str, tuple[Rows, Labels]]:
    """Return streams with labels; the labels of california are quartiles of the target."""
    known = _arrays(data, names)
    if "california" in known:
        X, y = known["california"]
        known["california"] = X, np.searchsorted(np.quantile(y, [0.25, 0.5, 0.75]), y)
    return {name: (X, y.astype(int)) for name, (X, y) in known.items()}


def _alarms(monitor: DriftMonitor, X: Rows, y: Labels) -> list[int]:
    """Learn samples; return the numbers of the samples that raised alarms."""
    found = []
    for x, label in stream(X, y):
        monitor.learn_one(x, label)
        if monitor.drift_detected:
            found.append(monitor.n_samples)
    return found


def _most(n: int, every: int, grace_period: int = 256) -> int:
    """Return the 99 % quantile of a renewal count that bounds the number of false alarms."""
    rng = np.random.default_rng(0)
    gaps = grace_period + every * rng.random((2000, 2 * n // every + 100))
    return int(np.quantile((np.cumsum(gaps, axis=1) <= n).sum(axis=1), 0.99))


def false_alarms(data: DataFolder, report: Report, quick: bool) -> None:
    """Count false alarms on shuffled streams.

    False alarms of `DriftMonitor()`, with every=10,000, on shuffled streams. The bound is the
    99 % quantile of a renewal count with gaps of 256 + Uniform(0, 10,000) samples.
    """
    n, rows, total = 10_000 if quick else 200_000, [], 0
    streams: dict[str, Any] = dict(_labelled(data, ("elec2", "california", "covtype", "letter")))
    kin8nm = _arrays(data, ["kin8nm"]).items()
    streams |= {f"{name}, with targets": own for name, own in kin8nm}
    for name, (X, y) in streams.items():
        progress(f"false alarms: {name}")
        rng, monitor, found = np.random.default_rng(1), DriftMonitor(seed=1), 0
        for _ in range(0, n, BLOCK):
            p = rng.permutation(len(X))[: min(BLOCK, n)]
            while len(p) < min(BLOCK, n):
                p = np.append(p, rng.permutation(len(X)))[:BLOCK]
            found += len(_alarms(monitor, X[p], y[p]))
        rows.append((name, f"{n:,}", found, _most(n, 10_000)))
        total += found
    if rows:
        n *= len(rows)
        rows.append(("all", f"{n:,}", total, _most(n, 10_000)))
    report.about(false_alarms)
    report.table(("stream", "samples", "false alarms", "bound"), rows)


def _drifted(kind: str, X: Rows, y: Labels, j: int, rng: Any) -> tuple[Rows, Labels]:
    """Return samples after a drift; `j` is the feature that changes."""
    X, y, n = X.copy(), y.copy(), len(y)
    labels, counts = np.unique(y, return_counts=True)
    order = labels[np.argsort(-counts)]
    if kind == "one column permuted":
        X[:, j] = X[rng.permutation(n), j]
    elif kind.startswith("shift"):
        X[:, j] += float(kind.split()[2]) * X[:, j].std()
    elif kind == "scale doubled":
        X[:, j] = 2.0 * X[:, j] - X[:, j].mean()
    elif kind == "one label kept with 25 %":
        kept = (y != order[0]) | (rng.random(n) < 0.25)
        X, y = X[kept], y[kept]
    elif kind == "two labels exchanged":
        y = np.where(y == order[0], order[1], np.where(y == order[1], order[0], y))
    else:
        beyond = X[:, j] > np.median(X[:, j])
        moved = labels[(np.searchsorted(labels, y) + 1) % len(labels)]
        y = np.where(beyond, moved, y)
    return X, y


# The drifts, and whether one feature changes.
DRIFTS = {
    "one column permuted": True,
    "shift by .5 standard deviations": True,
    "shift by 1 standard deviations": True,
    "shift by 2 standard deviations": True,
    "scale doubled": True,
    "one label kept with 25 %": False,
    "two labels exchanged": False,
    "relation changed in half of the space": False,
}


def _varying(X: Rows) -> list[int]:
    """Return the columns with more than 10 different values in the first 300 samples."""
    return [j for j in range(X.shape[1]) if len(np.unique(X[:300, j])) > 10]


def _run(X: Rows, y: Labels, seed: int) -> tuple[int | None, Any, Any]:
    """Return the delay of the first alarm after a drift, and the alarm's first and final report."""
    monitor, delay, first = DriftMonitor(seed=seed), None, None
    for i, (x, label) in enumerate(stream(X, y)):
        monitor.learn_one(x, label)
        if monitor.drift_detected and i >= BEFORE and delay is None:
            delay, first = i + 1 - BEFORE, monitor.log[-1]
    final = [drift for drift in monitor.log if first and drift.sample == first.sample]
    return delay, first, final[0] if final else None


def detection(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure how soon abrupt drifts are detected, and which feature is named.

    Abrupt drifts after {BEFORE:,} samples of shuffled streams: elec2, california (quartiles of
    the target), covtype and letter, with 8 seeds each. The table has the share of runs in which
    the drift is detected within {WITHIN:,} samples. The other columns describe these runs only:
    the median delay, the kind that is most often reported first, the median error of `began`,
    and the share of runs in which the changed feature has the largest evidence.
    """
    streams, rows = _labelled(data, ("elec2", "california", "covtype", "letter")), []
    for kind, has_name in DRIFTS.items() if streams else ():
        delays, tops, kinds, began = [], [], [], []
        runs = [(name, seed) for name in streams for seed in range(1 if quick else 8)]
        for name, seed in runs:
            progress(f"drifts: {kind}, {name}, seed {seed}")
            rng, (X, y) = np.random.default_rng(seed), streams[name]
            p = rng.permutation(len(X))[: 2 * BEFORE + WITHIN]
            X, y = X[p], y[p]
            j = int(rng.choice(_varying(X)))
            after = _drifted(kind, X[BEFORE:], y[BEFORE:], j, rng)
            ends = [rest[: WITHIN + 300] for rest in after]
            both = np.vstack([X[:BEFORE], ends[0]]), np.append(y[:BEFORE], ends[1])
            delay, first, final = _run(*both, seed)
            if delay is not None and delay <= WITHIN:
                delays.append(delay)
                kinds.append(first.kinds[0])
                began.append(abs(final.began - BEFORE - 1))
                tops.append(next(iter(final.features), None) == f"x{j}")
        most = max(set(kinds), key=kinds.count)
        row = [kind, f"{len(delays) / len(runs):.2f}", f"{np.median(delays):.0f}"]
        row += [f"{most} ({kinds.count(most)} of {len(kinds)})", f"{np.median(began):.0f}"]
        rows.append([*row, f"{np.mean(tops):.2f}" if has_name else ""])
    report.about(detection)
    headers = ("drift", "detected", "delay", "first kind", "error of began", "feature on top")
    report.table(headers, rows)


def targets(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure how changes of targets and of inputs are reported.

    Drifts of streams with targets, as shares of 20 seeds. In the columns `relation`, the
    relation changes in half of the space: targets are mirrored at their median if one feature
    exceeds its median. In the columns `inputs`, only the inputs change: samples at or below the
    median of one feature are kept with a probability of .2.
    """
    rows = []
    for name, known in _arrays(data, TARGETS).items():
        row: list[Any] = [name]
        for what in ("relation", "inputs"):
            n_detected = n_relation = 0
            seeds = 2 if quick else 20
            for seed in range(seeds):
                progress(f"targets: {name}, {what}, seed {seed}")
                rng = np.random.default_rng(seed)
                p = rng.permutation(len(known[0]))
                X, y = known[0][p], known[1][p].astype(np.float64)
                before = np.arange(len(y)) < min(BEFORE, len(y) // 2)
                j = int(rng.choice(_varying(X)))
                high = X[:, j] > np.median(X[:, j])
                if what == "relation":
                    y = np.where(high & ~before, 2.0 * np.median(y) - y, y)
                else:
                    kept = before | high | (rng.random(len(y)) < 0.2)
                    X, y = X[kept], y[kept]
                n = int(before.sum())
                monitor = DriftMonitor(seed=seed)
                _alarms(monitor, X[: n + WITHIN + 300], y[: n + WITHIN + 300])
                found = [one for one in monitor.log if n < one.sample <= n + WITHIN]
                n_detected += len(found) > 0
                n_relation += any("relation" in one.kinds for one in found)
            row += [f"{n_detected / seeds:.2f}", f"{n_relation / seeds:.2f}"]
        rows.append(row)
    report.about(targets)
    headers = ("stream", "relation: detected", "reported as relation")
    report.table((*headers, "inputs: detected", "reported as relation"), rows)


# Effect of a feature before and after a change of the relation.
EFFECTS = {
    "vanishes": (1.0, 0.0),
    "reversed": (1.0, -0.5),
    "doubled": (1.0, 2.0),
    "new": (0.0, 1.0),
}


def relation(data: DataFolder, report: Report, quick: bool) -> None:
    """Find the feature whose relation to y has changed, by the errors of an earlier forest.

    Inputs are from data sets. Targets are sums of three features' ranks with random weights
    from .5 to 1, and noise. After 4,000 samples, the effect of one of the three features
    changes. A forest learns the samples before the change. A regressor learns the forest's
    errors on 2,000 later samples. The table has the shares of 10 seeds in which the changed
    feature has the regressor's largest importance. A label is whether the target exceeds a
    median: the median before the change for all samples, or in the last column separate medians
    before and after the change.
    """
    rows, seeds = [], 2 if quick else 10
    streams = _arrays(data, TARGETS)
    pairs = itertools.product(streams.items(), EFFECTS.items())
    for (name, (inputs, _)), (effect, factors) in pairs:
        found = np.zeros(3)
        for seed in range(seeds):
            progress(f"relation: {name}, {effect}, seed {seed}")
            rng = np.random.default_rng(seed)
            X = inputs[rng.permutation(len(inputs))[: BEFORE + WITHIN]]
            chosen = rng.choice(_varying(X), 3, replace=False)
            ranks = np.argsort(np.argsort(X[:, chosen], axis=0), axis=0) / len(X)
            weights = np.tile(rng.uniform(0.5, 1.0, 3), (len(X), 1))
            weights[:, 0] *= np.where(np.arange(len(X)) < BEFORE, *factors)
            y = (weights * ranks).sum(axis=1) + rng.normal(0.0, 0.1, len(X))
            medians = np.repeat([np.median(y[:BEFORE]), np.median(y[BEFORE:])], [BEFORE, WITHIN])
            for k, known in enumerate((y, y > medians[0], y > medians)):
                found[k] += _most_changed(X, known) == f"x{chosen[0]}"
        rows.append([name, effect, *(f"{share:.2f}" for share in found / seeds)])
    report.about(relation)
    report.table(("stream", "effect", "target", "label", "label, separate medians"), rows)


def _most_changed(X: Rows, y: Labels) -> Any:
    """Return the feature that best explains the errors, after a change, of an earlier forest."""
    is_label = y.dtype == bool
    make = AdaptiveMondrianForestClassifier if is_label else AdaptiveMondrianForestRegressor
    model: Any = make(seed=1)
    samples, errors = stream(X, y), AdaptiveMondrianForestRegressor(seed=1)
    for x, known in samples[:BEFORE]:
        model.learn_one(x, known)
    for x, known in samples[BEFORE:]:
        found = model.predict_proba_one(x)[True] if is_label else model.predict_one(x)
        errors.learn_one(x, known - found)
    importances = errors.feature_importances
    return max(importances, key=importances.__getitem__)


def elec2(data: DataFolder, report: Report, quick: bool) -> None:
    """Find a change of three features of elec2 in file order.

    Samples of elec2 in their order, until index 20,000, without `date`. The features vicprice,
    vicdemand and transfer are constant until index 17,424. The table has the number of alarms,
    whether these three features are on top of a report, the index of this alarm, and the median
    index at which the changes of the three features began. If the alarm is earlier than 17,424,
    it has another cause, and its evidence was still being collected at index 17,424. If an
    earlier alarm has begun a new reference that includes 17,424, the change is missed.
    """
    arrays = data.load("elec2")
    names = ("date", "day", "period", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer")
    wanted, rows = {"vicprice", "vicdemand", "transfer"}, []
    runs = list(itertools.product((0, 14_000), (6, 12, 24), range(3)))[:: 9 if quick else 1]
    for start, spacing, third in runs:
        progress(f"elec2: start {start}, spacing {spacing}, third {third}")
        first, y = start + spacing * third // 3, arrays["y_train"].tolist()
        monitor = DriftMonitor(spacing=spacing, seed=1)
        for row, label in zip(
            arrays["X_train"][first:20_000, 1:].tolist(), y[first:], strict=False
        ):
            monitor.learn_one(dict(zip(names[1:], row, strict=True)), label)
        near = [one for one in monitor.log if {*list(one.features)[:3]} == wanted]
        shown: list[Any] = ["no", "", ""]
        if near:
            began = sorted(near[-1].feature_began[name] + first - 1 for name in wanted)
            shown = ["yes", near[-1].sample + first - 1, began[1]]
        rows.append((first, spacing, len(monitor.log), *shown))
    report.about(elec2)
    headers = ("first sample", "spacing", "alarms", "three features on top", "alarm", "began")
    report.table(headers, rows)


def _episode(kind: str, width: int, X: Rows, y: Labels, every: int, seed: int) -> tuple[int, int]:
    """Return the numbers of hits and of other alarms in an episode of the public protocol."""
    rng, n = np.random.default_rng(seed), len(y)
    p = rng.permutation(n)
    X, y = X[p], y[p]
    onset = int(n * rng.uniform(0.5, 0.8))
    labels = np.unique(y)
    chosen, swap = rng.choice(labels, 2, replace=False)
    columns, j = rng.permutation(X.shape[1]), int(rng.integers(X.shape[1]))
    median = np.median(X[:, j])
    chance = np.clip((np.arange(n) - onset) / width, 0.0, 1.0) if width else np.arange(n) >= onset
    is_new = rng.random(n) < chance
    kept = np.ones(n, bool)
    if kind == "features exchanged":
        X = np.where(is_new[:, np.newaxis], X[:, columns], X)
    elif kind == "label replaced":
        y = np.where(is_new & (y == chosen), swap, y)
    elif kind == "label rarer":
        kept = ~(is_new & (y == chosen) & (rng.random(n) < 0.75))
    else:
        kept = ~(is_new & (X[:, j] > median))
    kept &= np.arange(n) > n // 4
    places = np.flatnonzero(kept)
    # The places of alarms in the stream, whose first quarter is not used.
    alarms = places[np.array(_alarms(DriftMonitor(every, seed=seed), X[kept], y[kept]), int) - 1]
    hits = int(((alarms >= onset) & (alarms <= onset + MAX_DELAY)).sum())
    return hits, len(alarms) - hits


KINDS = ("features exchanged", "label replaced", "label rarer", "values above the median skipped")


def protocol(data: DataFolder, report: Report, quick: bool) -> None:
    """Compute F1 in a public protocol.

    F1 in the protocol of github.com/vcerqueira/experiments-drift_evaluation. A stream is
    shuffled. A drift begins between 50 and 80 % of the stream, and is abrupt, or gradual over
    {MAX_DELAY:,} samples. An alarm within {MAX_DELAY:,} samples after the beginning is a hit,
    and all other alarms are false. The first quarter of the stream is not used. The drifts are:
    {kinds}. There are 20 episodes for each drift of elec2, and 5 for covtype (its first 100,000
    samples). The other streams of the protocol were not available.
    """
    rows = []
    # The numbers of samples and of episodes.
    sizes = {"elec2": (45_312, 1 if quick else 20)} | ({} if quick else {"covtype": (100_000, 5)})
    for name, (X, y) in _labelled(data, sizes).items():
        n, episodes = sizes[name]
        for every in (10_000, 1_000_000):
            row: list[Any] = [name, f"{every:,}"]
            for width in (0, MAX_DELAY):
                scores = []
                for kind in KINDS:
                    hits = others = missed = 0
                    for seed in range(episodes):
                        progress(f"protocol: {name}, {every}, {width}, {kind}, {seed}")
                        own = _episode(kind, width, X[:n], y[:n], every, seed)
                        hits, others = hits + own[0], others + own[1]
                        missed += own[0] == 0
                    scores.append(2 * hits / max(2 * hits + others + missed, 1))
                row += [f"{np.mean(scores):.3f}", " / ".join(f"{s:.2f}" for s in scores)]
            rows.append(row)
    report.about(protocol, kinds=", ".join(KINDS))
    headers = ("stream", "every", "abrupt", "abrupt, by drift", "gradual", "gradual, by drift")
    report.table(headers, rows)


def cost(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the time and the memory of the monitor.

    CPU time of `learn_one` with labels in microseconds, and of the call that makes a reference
    in milliseconds (minima of 3 runs); memory in KiB.
    """
    rows = []
    streams = _labelled(data, ("elec2", "letter", "covtype"))
    if "covtype" in streams:
        X, y = streams["covtype"]
        streams["covtype, 10 features"] = X[:, :10], y
    for name, (X, y) in streams.items():
        p = np.random.default_rng(1).permutation(len(X))[: 1000 if quick else 6000]
        samples = stream(X[p], y[p])
        times, longest = [], []
        for _ in range(3):
            monitor = DriftMonitor(10**9, seed=1)
            longest.append(1e3 * call_seconds(monitor.learn_one, samples[:300]).max())
            times.append(1e6 * call_seconds(monitor.learn_one, samples[300:]).mean())
        size = monitor.memory_usage / 1024
        row = (name, X.shape[1], len(np.unique(y)), f"{min(times):.0f}", f"{min(longest):.0f}")
        rows.append((*row, f"{size:.0f}"))
    report.about(cost)
    report.table(("stream", "features", "labels", "learn, us", "reference, ms", "KiB"), rows)


PARTS = (false_alarms, detection, targets, relation, elec2, protocol, cost)
