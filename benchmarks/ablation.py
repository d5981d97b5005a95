"""Losses of the adaptive forests without one of their parts.

For each stream and seed, a model runs once, and the predictions of its experts are stored. Then
mixtures of fewer experts learn from these predictions. The detected drifts, and the regressor's
trees that predict errors, remain those of the full mixture.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from river import drift as river_drift

from river_mondrian import AdaptiveMondrianForestClassifier, AdaptiveMondrianForestRegressor
from river_mondrian.compiling.kernels import kernel, ordered_sums
from river_mondrian.learners import experts
from river_mondrian.learners.experts import FIRST_SQUARES, Mixture, MixtureRecord
from river_mondrian.learners.regression import mixing
from river_mondrian.learners.regression.mixing import (
    N_FINALISTS,
    TargetMixture,
    TargetMixtureRecord,
)
from river_mondrian.posteriors.adaptive.adaptive_trees import EXPERTS as OF_CLASSES
from river_mondrian.posteriors.adaptive.nodes import N_EXPERTS
from river_mondrian.posteriors.adaptive_targets.adaptive_target_trees import EXPERTS as OF_TARGETS
from river_mondrian.posteriors.adaptive_targets.means import N_FIRST
from river_mondrian.records import Float64s, Int64s

from .adaptive.comparing import N_TREES
from .adaptive.streams import PREFIX, WIDE, class_streams
from .adaptive_regressor.streams import target_streams
from .data import DataFolder, Stream
from .report import Report, progress
from .scores import FLOOR, class_scores, deviations

MOST = 6000  # Largest number of samples of a stream of targets.
FINALISTS = ("fixed share", "product update", "regression, squares", "regression, sizes")
# Returns the loss with some experts and some final mixtures, given their indices.
Run = Callable[[Sequence[int], Sequence[int]], float]


@kernel
def replay_classes(
    mixture: MixtureRecord,
    said: Float64s,
    labels: Int64s,
    n_classes: Int64s,
    drifts: Int64s,
    is_shared: int,
    n: int,
    out: Float64s,
) -> None:
    """Write the probability of each label before the mixture learns it.

    If `is_shared` is 0, the fixed-share mixture gets no weight in the pool.
    """
    size = (mixture.n_experts - 1) * mixture.width
    for i in range(n):
        mixture.n_classes = n_classes[i]
        for j in range(size):
            mixture.predicted[j] = said[size * i + j]
        if labels[i] < n_classes[i]:
            experts.combine(mixture)
            out[i] = mixture.mixed[labels[i]]
            experts.learn(mixture, labels[i], 1.0)
            mixture.exponents[mixture.n_experts - 1] *= is_shared
        for e in range(mixture.n_experts * drifts[i]):
            mixture.squares[e] = FIRST_SQUARES


@kernel
@ordered_sums
def replay_targets(
    first: TargetMixtureRecord,
    second: TargetMixtureRecord,
    said: Float64s,
    targets: Float64s,
    opens: Float64s,
    n: int,
    points: Float64s,
) -> None:
    """Write the second mixture's prediction of each target before both mixtures learn it.

    Each sample has two blocks in `said`: the predictions of the first mixture's experts, and
    the predictions of trees for the first mixture's error. The final mixture with index f is
    used if `opens[f]` is 1.
    """
    n_first, n_second = first.n_experts, second.n_experts
    for i in range(n):
        own = said.part((n_second - 1) * i, n_second - 1)
        for e in range(n_first):
            first.predicted[e] = own[e]
            second.predicted[e] = own[e]
        point = mixing.predict(first)
        second.predicted[n_first] = point
        for e in range(n_first, n_second - 1):
            second.predicted[e + 1] = point + own[e]
        points[i] = mixing.predict(second)
        mixing.learn(first, targets[i], 1.0)
        mixing.learn(second, targets[i], 1.0)
        of_first, of_second = 0.0, 0.0
        for f in range(N_FINALISTS):
            of_first += opens[f] * first.last_weights[f]
            of_second += opens[f] * second.last_weights[f]
        for f in range(N_FINALISTS):
            first.last_weights[f] = opens[f] * first.last_weights[f] / of_first
            second.last_weights[f] = opens[f] * second.last_weights[f] / of_second


def classes(samples: Stream, seed: int) -> Run:
    """Run the classifier, and return a function that computes the log loss with fewer experts."""
    model = AdaptiveMondrianForestClassifier(N_TREES, seed=seed)
    numbers = {y: k for k, y in enumerate(dict.fromkeys(y for _, y in samples))}
    labels = np.array([numbers[y] for _, y in samples])
    said = np.zeros((len(samples), N_EXPERTS, len(numbers)))
    n_classes, drifts = np.zeros((2, len(samples)), dtype=np.int64)
    for i, (x, y) in enumerate(samples):
        if model.predict_proba_one(x):
            mixture = model._trees.mixture
            n = n_classes[i] = mixture.record.n_classes
            said[i, :, :n] = mixture.predicted[:-1, :n]
        n_drifts = len(model.drift_log)
        model.learn_one(x, y)
        drifts[i] = len(model.drift_log) > n_drifts

    def run(kept: Sequence[int], _: Sequence[int]) -> float:
        own, is_shared = [e for e in kept if e < N_EXPERTS], N_EXPERTS in kept
        mixture, found = Mixture(len(own)), np.zeros(len(samples))
        if not is_shared:
            mixture.exponents[:] = [*([1.0 / len(own)] * len(own)), 0.0]
        mixture.reserve(len(numbers))
        of_own = Float64s.of(np.ascontiguousarray(said[:, own]).ravel())
        whole = (Int64s.of(one) for one in (labels, n_classes, drifts))
        n = len(samples)
        replay_classes(mixture.record, of_own, *whole, is_shared, n, Float64s.of(found))
        return float(-np.log(np.maximum(found, FLOOR)).mean())

    return run


def targets(samples: Stream, seed: int) -> Run:
    """Run the regressor, and return a function that computes the error with fewer experts."""
    model = AdaptiveMondrianForestRegressor(N_TREES, seed=seed)
    y = np.array([float(target) for _, target in samples])
    said, learned = np.zeros((len(samples), len(OF_TARGETS))), y.copy()
    for i, (x, target) in enumerate(samples):
        model.predict_one(x)
        if i:
            said[i] = model._trees.mixture.predicted
        model.learn_one(x, target)
        # The model learns an outlying target as a clipped value.
        learned[i] = model._trees.forest.accepted.targets[0]
    said[:, N_FIRST + 1 :] -= said[:, N_FIRST : N_FIRST + 1]

    def run(kept: Sequence[int], finalists: Sequence[int]) -> float:
        n_first, found = sum(e < N_FIRST for e in kept), np.zeros(len(samples))
        first, second = TargetMixture(n_first), TargetMixture(len(kept))
        opens = np.zeros(N_FINALISTS)
        opens[list(finalists)] = 1.0
        own = np.ascontiguousarray(said[:, [e for e in kept if e != N_FIRST]]).ravel()
        given = (Float64s.of(one) for one in (own, learned, opens))
        replay_targets(first.record, second.record, *given, len(samples), Float64s.of(found))
        return float(np.abs(found - y).mean())

    return run


def _compare(
    report: Report,
    streams: Iterable[tuple[str, Stream]],
    make: Callable[[Stream, int], Run],
    parts: Mapping[str, tuple[Sequence[int], Sequence[int]]],
    loss: tuple[str, Callable[[float, float], float]],
    seeds: int,
) -> None:
    """Report the change of the loss without each part: the mean, and the three largest changes."""
    changes: dict[str, dict[str, float]] = {part: {} for part in parts}
    for name, samples in streams:
        progress(name)
        for seed in range(1, seeds + 1):
            run = make(samples, seed)
            found = {part: run(*left) for part, left in parts.items()}
            for part in parts:
                change = loss[1](found[part], found[""]) / seeds
                changes[part][name] = changes[part].get(name, 0.0) + change
    rows = []
    for part in [part for part in parts if part]:
        worst = sorted(changes[part].items(), key=lambda pair: -pair[1])[:3]
        mean = np.mean(list(changes[part].values()))
        rows.append([part, f"{mean:+.4f}", ", ".join(f"{k} {v:+.4f}" for k, v in worst)])
    rows.sort(key=lambda row: float(row[1]))
    report.note(
        f"{loss[0]} without one kind of expert (of the regressor: or one final mixture), mean over "
        f"{seeds} seeds. The three streams with the largest increase are listed. Streams: "
        f"{', '.join(changes[''])}."
    )
    report.table(["removed", "mean", "worst streams"], rows)


def _parts(names: Sequence[str], halves: Callable[[str], Iterable[str]]) -> dict[str, list[int]]:
    """Map each part of names to the indices of experts without this part, and "" to all indices."""
    found = {"": list(range(len(names)))}
    for part in dict.fromkeys(half for name in names for half in halves(name) if half):
        found[part] = [i for i, name in enumerate(names) if part not in halves(name)]
    return found


def _narrow(data: DataFolder, n: int) -> Iterator[tuple[str, Stream]]:
    """Yield the streams with class labels, except streams with many features."""
    return ((name, samples) for name, samples in class_streams(data, n) if name not in WIDE)


def classifier(data: DataFolder, report: Report, quick: bool) -> None:
    """Compute the log loss of the adaptive classifier without each kind of expert."""
    n = 600 if quick else PREFIX
    kept = _parts(OF_CLASSES, lambda name: name.rpartition(", ")[::2])
    parts = {part: (left, ()) for part, left in kept.items()}
    loss = ("Change of the log loss", lambda own, whole: own - whole)
    _compare(report, _narrow(data, n), classes, parts, loss, 1 if quick else 3)


def regressor(data: DataFolder, report: Report, quick: bool) -> None:
    """Compute the error of the adaptive regressor without each kind of expert or mixture."""
    n, every = 600 if quick else MOST, tuple(range(N_FINALISTS))
    kept = _parts(OF_TARGETS, lambda name: name.partition(": ")[::2])
    # The first mixture's prediction is an expert of the second mixture, and is always kept.
    parts: dict[str, tuple[Sequence[int], Sequence[int]]] = {
        part: (sorted({*left, N_FIRST}), every) for part, left in kept.items()
    }
    del parts[OF_TARGETS[N_FIRST]]
    for f, name in enumerate(FINALISTS):
        parts[name] = parts[""][0], [g for g in every if g != f]
    loss = ("Change of the mean absolute error in %", lambda a, b: 100.0 * math.log(a / b))
    _compare(report, target_streams(data, n), targets, parts, loss, 1 if quick else 3)


def detector(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the losses of the adaptive forests with and without a drift detector."""
    n, seeds = (600, 1) if quick else (None, 3)
    streams = target_streams(data, n)
    _without(report, streams, AdaptiveMondrianForestRegressor, _mean_absolute_error, seeds)
    streams = _narrow(data, n or PREFIX)
    _without(report, streams, AdaptiveMondrianForestClassifier, _log_loss, seeds)


def _mean_absolute_error(model: Any, samples: Stream) -> float:
    return float(deviations(model, samples).mean())


def _log_loss(model: Any, samples: Stream) -> float:
    return class_scores(model, samples).log_loss


def _without(
    report: Report,
    streams: Iterable[tuple[str, Stream]],
    kind: Callable[..., Any],
    loss: Callable[[Any, Stream], float],
    seeds: int,
) -> None:
    """Report the loss with the default drift detector and the loss without a detector."""
    rows = []
    for name, samples in streams:
        progress(name)
        found = np.empty((2, seeds))
        for which, chosen in enumerate(({}, {"drift_detector": river_drift.NoDrift()})):
            for seed in range(seeds):
                model = kind(N_TREES, seed=seed + 1, **chosen)
                found[which, seed] = loss(model, samples)
        own, less = found.mean(axis=1)
        change = 100.0 * (less / own - 1.0)
        rows.append([name, len(samples), f"{own:.4g}", f"{less:.4g}", f"{change:+.1f}"])
    report.note(
        f"{loss.__name__[1:].replace('_', ' ').capitalize()} of {kind.__name__} with and without "
        f"the drift detector, means over {seeds} seeds, with {N_TREES} trees. Labels and targets "
        "are learned without a delay."
    )
    report.table(["stream", "n", "with", "without", "change, %"], rows)


PARTS = (classifier, regressor, detector)
