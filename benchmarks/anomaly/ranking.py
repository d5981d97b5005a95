"""Prequential ranking of anomalies: each sample is scored, and then learned."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from ..data import Array, DataFolder, Stream
from ..report import Report, progress
from .detectors import OURS, PEERS, rrcf
from .streams import SHARE, STREAMS, UNSEEN, Labelled

# Samples before which nobody is judged: HalfSpaceTrees tell nothing of their first 250.
WARM_UP = 250

# Who is compared with the best peer.
WHO = ("The better of ours", "RandomCutForest")

MEASURES = ("ROC AUC", "average precision")


class Run(NamedTuple):
    """What a detector told of a stream, or of its beginning, and its time per sample."""

    scores: Array
    seconds: float


def run(model: Any, samples: Stream) -> Run:
    """Score each sample, and learn it."""
    scores = np.empty(len(samples))
    started = time.perf_counter()
    for i, (x, _) in enumerate(samples):
        scores[i] = model.score_one(x)
        model.learn_one(x)
    return Run(scores, (time.perf_counter() - started) / len(samples))


def judged(found: Run, stream: Labelled, n: int) -> tuple[float, float]:
    """Return the area under the ROC curve and the average precision up to the n-th sample."""
    labels = np.array([y for _, y in stream.samples[WARM_UP:n]])
    scores = np.nan_to_num(found.scores[WARM_UP:n])
    return roc_auc_score(labels, scores), average_precision_score(labels, scores)


def ranking(data: DataFolder, report: Report, quick: bool) -> None:
    """ROC AUC, average precision and time of all detectors on all streams."""
    n, seeds = (1500, 1) if quick else (2500, 2)
    for make in OURS.values():  # compile
        run(make(0), [({"a": float(i % 7)}, False) for i in range(300)])
    reached: dict[str, list[list[bool]]] = {who: [] for who in WHO}
    rows, times = [], []
    for name, make_stream in STREAMS.items():
        if data.sets and name not in data.sets:
            continue
        stream = make_stream(data, n)
        if stream is None:
            continue
        for who, better in _compare(name, stream, seeds, rows, times).items():
            reached[who].append(better)
    if rrcf is None:
        report.note("`rrcf` is not installed, and so not among the peers.")
    report.note(
        f"Each sample is scored, then learned; judged from the {WARM_UP + 1}st on by ranking; "
        f"means of {seeds} seeds. {SHARE:.0%} of one class among the others, or made streams. "
        "Peers are behind MinMaxScaler or StandardScaler (LODA, OneClassSVM, rrcf), ours take the "
        "features as they are. Where a detector got fewer, ours up to there is in brackets; "
        "it is left out where there is no anomaly up to there, or where features are too many."
    )
    headers = ["stream", "detector", "samples", *MEASURES]
    report.table(headers, rows)
    for who in WHO:
        found = np.reshape(reached[who], (-1, len(MEASURES)))
        for what, n_reached in zip(MEASURES, found.sum(axis=0).tolist(), strict=True):
            report.note(
                f"{who} at or above every peer by {what}: {n_reached:.0f} of {len(found)} streams."
            )
    report.note(
        f"Streams not looked at when scores and lifetimes were chosen: {', '.join(UNSEEN)}. "
        "All were when it was chosen how many samples trees hold."
    )
    report.note(
        "Microseconds to score and learn a sample, wall clock, whatever else the machine does; "
        "`cost` and `cuts` measure them."
    )
    report.table(["stream", "detector", "us a sample"], times)


def _compare(
    name: str, stream: Labelled, seeds: int, rows: list[Any], times: list[Any]
) -> dict[str, list[bool]]:
    """Add a stream's rows; returns who of ours is at or above every peer by either measure."""
    total = len(stream.samples)
    ours = {
        own: [run(make(seed), stream.samples) for seed in range(seeds)]
        for own, make in OURS.items()
    }

    def mean(runs: list[Run], n: int) -> Array:
        return np.mean([judged(found, stream, n) for found in runs], axis=0)

    def reached_by(who: str, n: int) -> Array:
        found = {own: mean(runs, n) for own, runs in ours.items()}
        return found[who] if who in found else np.max([*found.values()], axis=0)

    for own, runs in ours.items():
        auc, precision = mean(runs, total)
        rows.append([name, f"**{own}**", f"{total:,}", f"{auc:.3f}", f"{precision:.3f}"])
        times.append([name, own, f"{1e6 * min(r.seconds for r in runs):.0f}"])
        progress(" ".join(rows[-1]))
    reached = {who: np.ones(2, bool) for who in WHO}
    for peer, (make, most, most_features, is_of_series) in PEERS.items():
        if is_of_series and not stream.is_series:
            continue
        if most_features is not None and len(stream.samples[0][0]) > most_features:
            continue
        part = stream.samples[:most]
        if not any(y for _, y in part[WARM_UP:]):
            continue
        progress(f"{name}, {peer}")
        repeats = 1 if most else seeds
        runs = [run(make(seed), part) for seed in range(repeats)]
        theirs, own_there = mean(runs, len(part)), reached_by("The better of ours", len(part))
        for who, better in reached.items():
            better &= reached_by(who, len(part)) >= theirs
        cells = [f"{value:.3f}" for value in theirs]
        if most:
            cells = [f"{cell} ({own:.3f})" for cell, own in zip(cells, own_there, strict=True)]
        rows.append([name, peer, f"{len(part):,}", *cells])
        times.append([name, peer, f"{1e6 * min(r.seconds for r in runs):.0f}"])
        progress(" ".join(rows[-1]))
    return {who: better.tolist() for who, better in reached.items()}
