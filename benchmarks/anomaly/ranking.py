"""Prequential ranking of anomalies: each sample is scored and then learned."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from ..data import Array, DataFolder, Stream
from ..report import Report, progress
from .detectors import OURS, PEERS, Peer, WindowedForest, rrcf
from .pictures import draw_dots
from .streams import SHARE, STREAMS, UNSEEN, Labelled

# Scores of the first 250 samples are excluded, because HalfSpaceTrees do not compute them.
WARM_UP = 250

# Groups of this package's detectors. The best detector of a group is compared with each peer.
NEAREST, CUTS, SKIPPING = "NearestNeighborDetector", "RandomCutForest", "nearest, skip_anomalies"
WHO = {
    **{own: (own,) for own in (NEAREST, CUTS, SKIPPING)},
    **{f"The better of {own} and {CUTS}": (own, CUTS) for own in (NEAREST, SKIPPING)},
    "The best of all four": tuple(OURS),
}

MEASURES = ("ROC AUC", "average precision")


class Run(NamedTuple):
    """Scores of the first samples of a stream, and the time per sample."""

    scores: Array
    seconds: float


def run(model: Any, samples: Stream) -> Run:
    """Return the score of each sample before it is learned, and the time per sample."""
    started = time.perf_counter()
    if isinstance(model, WindowedForest):
        scores = model.scores(np.array([list(x.values()) for x, _ in samples], dtype=float))
    else:
        scores = np.empty(len(samples))
        for i, (x, _) in enumerate(samples):
            scores[i] = model.score_one(x)
            model.learn_one(x)
    return Run(scores, (time.perf_counter() - started) / len(samples))


def judged(runs: list[Run], stream: Labelled, n: int) -> Array:
    """Return ROC AUC and average precision up to the n-th sample, shape (runs, 2)."""
    labels = np.array([y for _, y in stream.samples[WARM_UP:n]])
    scores = [np.nan_to_num(found.scores[WARM_UP:n]) for found in runs]
    both = [(roc_auc_score(labels, s), average_precision_score(labels, s)) for s in scores]
    return np.array(both)


class Comparison(NamedTuple):
    """Lead over a peer by each measure, and the standard error of the lead."""

    lead: Array
    error: Array

    @property
    def is_above(self) -> Array:
        """Whether the best detector is at or above the peer, for each measure."""
        return np.asarray(self.lead >= 0.0)

    @property
    def is_near(self) -> Array:
        """Whether the best detector is at most two standard errors below the peer."""
        return np.asarray(self.lead >= -2.0 * self.error)


def compared(ours: list[Array], theirs: Array) -> Comparison:
    """Compare the best of the package's detectors with a peer.

    Parameters
    ----------
    ours
        The measures of each of the package's detectors, shape (seeds, 2).
    theirs
        The measures of the peer, shape (seeds, 2).
    """
    means = np.array([found.mean(axis=0) for found in ours])
    best = means.argmax(axis=0)
    squares = [[_squared_error(found[:, k]) for found in ours] for k in range(2)]
    own = np.array([squares[k][i] for k, i in enumerate(best)])
    error = np.sqrt(own + [_squared_error(theirs[:, k]) for k in range(2)])
    return Comparison(means.max(axis=0) - theirs.mean(axis=0), error)


def _squared_error(values: Array) -> float:
    """Return the squared standard error of a mean over seeds; 0 for a single run."""
    return float(np.var(values, ddof=1) / len(values)) if len(values) > 1 else 0.0


def ranking(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare ROC AUC, average precision and time of all detectors on ten streams."""
    n, seeds = (1500, 1) if quick else (2500, 3)
    for make in OURS.values():  # Compile kernels before timing.
        run(make(0), [({"a": float(i % 7)}, False) for i in range(300)])
    rows: list[list[str]] = []
    times: list[list[str]] = []
    found: dict[str, dict[str, dict[str, Comparison]]] = {}
    areas: dict[str, dict[str, float]] = {}
    for name, make_stream in STREAMS.items():
        if data.sets and name not in data.sets:
            continue
        stream = make_stream(data, n)
        if stream is None:
            continue
        areas[name] = {}
        found[name] = _compare(name, stream, seeds, rows, times, areas[name])
    if rrcf is None:
        report.note("`rrcf` is not installed, so it is not among the peers.")
    report.note(
        "Ranking of anomalies on ten streams. Each sample is scored and then learned. Measures "
        f"start at the {WARM_UP + 1}st sample and are means of {seeds} seeds. In streams from data "
        f"sets, {SHARE:.0%} of the samples are anomalies, from a single class; other streams are "
        "generated. River's detectors and rrcf get scaled features (MinMaxScaler, or "
        "StandardScaler for LODA, OneClassSVM and rrcf). The package's detectors and the "
        "isolation forest get unscaled features. The isolation forest is refitted to the latest "
        "2,048 rows every 256 rows. LocalOutlierFactor and rrcf get 1,000 samples and one seed. "
        "The best result of the package's detectors on these samples is in brackets. "
        f"LocalOutlierFactor gets at most {_MOST_FEATURES} features."
    )
    headers = ["stream", "detector", "samples", *MEASURES]
    report.table(headers, rows)
    report.table(
        ["detectors", *(f"{what}: {how}" for what in MEASURES for how in ("at or above", "tied"))],
        [[who, *_counts([of[who] for of in found.values()])] for who in WHO],
    )
    report.note(
        "In a row of this table, the best result of the named detectors is compared with each "
        f"peer. The table counts the streams, out of {len(areas)}, on which this result is at or "
        "above all peers, or tied with all better peers. A tie is a difference of at most two "
        "standard errors over seeds."
    )
    several = [who for who, few in WHO.items() if len(few) > 1]
    report.table(
        ["stream", *several],
        [[name, *(_worst(of[who]) for who in several)] for name, of in found.items()],
    )
    report.note(
        "This table has the strongest peer of each stream. The lead is the ROC AUC of the "
        "package's best detector minus the peer's on the same samples, with its standard error "
        "over seeds."
    )
    draw_dots(report, areas, list(OURS), "ROC AUC")
    report.note(
        "`NearestNeighborDetector` was designed on other sets. Scores and lifetimes of the other "
        f"detectors were selected without these streams: {', '.join(UNSEEN)}. The number of "
        "samples in trees was selected on all streams."
    )
    report.note(
        "The next table has the wall-clock time to score and learn a sample, which includes other "
        "load of the machine. The parts `cost` and `cuts` measure processor times."
    )
    report.table(["stream", "detector", "us per sample"], times)


_MOST_FEATURES = PEERS["LocalOutlierFactor"].most_features


def _counts(found: list[dict[str, Comparison]]) -> list[str]:
    """Return how often a group is at or above every peer, and how often it ties, by measure."""
    above = np.array([np.all([one.is_above for one in of.values()], axis=0) for of in found])
    near = np.array([np.all([one.is_near for one in of.values()], axis=0) for of in found])
    return [str(int(part[:, k].sum())) for k in range(2) for part in (above, near & ~above)]


def _worst(found: dict[str, Comparison]) -> str:
    """Return the peer with the smallest lead by ROC AUC, and this lead."""
    peer, one = min(found.items(), key=lambda item: float(item[1].lead[0]))
    return f"{peer}: {one.lead[0]:+.3f} ± {one.error[0]:.3f}"


def _runs(name: str, who: str, make: Any, samples: Stream, seeds: int) -> list[Run]:
    found = []
    for seed in range(seeds):
        progress(f"{name}, {who}, seed {seed}")
        found.append(run(make(seed), samples))
    return found


def _is_for(peer: Peer, stream: Labelled) -> bool:
    """Return whether a peer can run on a stream and gets anomalies there."""
    if peer.is_of_series and not stream.is_series:
        return False
    if peer.most_features is not None and len(stream.samples[0][0]) > peer.most_features:
        return False
    return any(y for _, y in stream.samples[WARM_UP : peer.most])


def _compare(
    name: str,
    stream: Labelled,
    seeds: int,
    rows: list[list[str]],
    times: list[list[str]],
    areas: dict[str, float],
) -> dict[str, dict[str, Comparison]]:
    """Add the results on a stream to the tables; return the comparisons with all peers."""

    def add(who: str, runs: list[Run], n: int, values: list[str]) -> None:
        shown = f"**{who}**" if who in OURS else who
        rows.append([name, shown, f"{n:,}", *values])
        times.append([name, who, f"{1e6 * min(r.seconds for r in runs):.0f}"])

    ours = {own: _runs(name, own, make, stream.samples, seeds) for own, make in OURS.items()}
    for own, runs in ours.items():
        means = judged(runs, stream, len(stream.samples)).mean(axis=0)
        areas[own] = float(means[0])
        add(own, runs, len(stream.samples), [f"{value:.3f}" for value in means])
    found: dict[str, dict[str, Comparison]] = {who: {} for who in WHO}
    for who, peer in PEERS.items():
        if not _is_for(peer, stream):
            continue
        part = stream.samples[: peer.most]
        runs = _runs(name, who, peer.make, part, 1 if peer.most else seeds)
        theirs = judged(runs, stream, len(part))
        there = {own: judged(of_own, stream, len(part)) for own, of_own in ours.items()}
        for label, few in WHO.items():
            found[label][who] = compared([there[own] for own in few], theirs)
        values = [f"{value:.3f}" for value in theirs.mean(axis=0)]
        if peer.most:
            best = np.max([one.mean(axis=0) for one in there.values()], axis=0)
            values = [f"{value} ({own:.3f})" for value, own in zip(values, best, strict=True)]
        else:
            areas[who] = float(theirs.mean(axis=0)[0])
        add(who, runs, len(part), values)
    return found
