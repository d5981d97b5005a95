"""Prequential ranking of anomalies: each sample is scored and then learned."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from ..data import Array, DataFolder, Stream, available, stream
from ..report import Report, progress
from .detectors import FITTED_EVERY, OURS, PEERS, WindowedForest, rrcf
from .streams import STREAMS, UNSEEN, Labelled

# Scores of the first samples are excluded, because HalfSpaceTrees return 0 for these samples.
WARM_UP = 250
ONLINE = ("HalfSpaceTrees, 10", "HalfSpaceTrees, 100", "LODA", "OneClassSVM")


def scores_of(model: Any, samples: Stream) -> Array:
    """Return the score of each sample before it is learned."""
    if isinstance(model, WindowedForest):
        return model.scores(np.array([list(x.values()) for x, _ in samples], dtype=float))
    scores = np.empty(len(samples))
    for i, (x, _) in enumerate(samples):
        scores[i] = model.score_one(x)
        model.learn_one(x)
    return scores


def measures(labels: Array, scores: Array, first: int = WARM_UP) -> tuple[float, float]:
    """Return ROC AUC and average precision without the first samples."""
    labels, scores = labels[first:], np.nan_to_num(scores)[first:]
    return float(roc_auc_score(labels, scores)), float(average_precision_score(labels, scores))


def ranking(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare ROC AUC, average precision and time of all detectors on ten streams.

    Ranking of anomalies on ten streams. Each sample is scored and then learned. Measures start
    at the 251st sample and are means of {seeds} seeds. In streams from data sets, 2 % of the
    samples are anomalies, from a single class; other streams are generated. River's detectors
    and rrcf get scaled features (MinMaxScaler, or StandardScaler for LODA, OneClassSVM and
    rrcf). The package's detectors and the isolation forest get unscaled features. The isolation
    forest is refitted to the latest 2,048 rows every 256 rows. LocalOutlierFactor and rrcf get
    1,000 samples and one seed. The best result of the package's detectors on these samples is
    in brackets. LocalOutlierFactor gets at most 40 features. The last column has the processor
    time to score and learn a sample.
    """
    n, seeds = (1500, 1) if quick else (2500, 3)
    for make in OURS.values():  # Compile kernels before timing.
        scores_of(make(0), [({"a": float(i % 7)}, False) for i in range(300)])
    rows: list[list[str]] = []
    areas: dict[str, dict[str, float]] = {}

    def load(name: str) -> Labelled:
        data.check_selected(name)
        return STREAMS[name](data, n)

    for name, found in available(load, STREAMS):
        labels, areas[name] = np.array([y for _, y in found.samples]), {}
        width, best = len(found.samples[0][0]), {}
        for who, make in (OURS | {k: peer.make for k, peer in PEERS.items()}).items():
            most = None if who in OURS else PEERS[who].most
            if who not in OURS and (
                (PEERS[who].is_of_series and not found.is_series)
                or width > (PEERS[who].most_features or width)
                or not labels[WARM_UP:most].any()
            ):
                continue
            part, pairs, seconds = found.samples[:most], [], []
            for seed in range(1 if most else seeds):
                progress(f"{name}, {who}, seed {seed}")
                started = time.process_time()
                scores = scores_of(make(seed), part)
                seconds.append(time.process_time() - started)
                pairs.append(measures(labels[:most], scores))
                if who in OURS:
                    best.setdefault(who, []).append(measures(labels[:1000], scores[:1000]))
            means = np.mean(pairs, axis=0)
            cells = [f"{value:.3f}" for value in means]
            if most:  # The package's detectors on the same samples.
                ours = np.max([np.mean(one, axis=0) for one in best.values()], axis=0)
                cells = [f"{c} ({own:.3f})" for c, own in zip(cells, ours, strict=True)]
            else:
                areas[name][who] = float(means[0])
            us = f"{1e6 * min(seconds) / len(part):.0f}"
            rows.append([name, f"**{who}**" if who in OURS else who, f"{len(part):,}", *cells, us])
    if rrcf is None:
        report.note("`rrcf` is not installed, so it is not among the peers.")
    report.about(ranking, seeds=seeds)
    headers = ["stream", "detector", "samples", "ROC AUC", "average precision", "us per sample"]
    report.table(headers, rows)
    draw_dots(report, areas, list(OURS), "ROC AUC")
    report.note(
        "`NearestNeighborDetector` was designed on other sets. Scores and lifetimes of the other "
        f"detectors were selected without these streams: {', '.join(UNSEEN)}. The number of "
        "samples in trees was selected on all streams."
    )


def draw_dots(
    report: Report, values: Mapping[str, Mapping[str, float]], ours: Sequence[str], what: str
) -> None:
    """Draw a row of dots for each stream, with a dot for each detector.

    Parameters
    ----------
    report
        The report to which the picture is added.
    values
        The measure by stream and by detector.
    ours
        The detectors with a colour; all others are grey.
    what
        The label of the horizontal axis.
    """
    if not values:
        return
    names = list(values)[::-1]
    with report.drawing(size=(8, 1.2 + 0.34 * len(names))) as ax:
        others = list(
            dict.fromkeys(who for each in values.values() for who in each if who not in ours)
        )
        for i, who in enumerate(others):
            at = [k for k, name in enumerate(names) if who in values[name]]
            found = [values[names[k]][who] for k in at]
            ax.plot(found, at, "osD^vPX*<>"[i % 10], color="0.6", markersize=5, label=who)
        for i, who in enumerate(ours):
            found = [values[name][who] for name in names]
            ax.plot(
                found, range(len(names)), "o", color=f"C{i}", markersize=8, alpha=0.8, label=who
            )
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(-0.6, len(names) - 0.4)
        ax.grid(alpha=0.3)
        ax.set_xlabel(what)
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize="small")


def adbench(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare ROC AUC and average precision on 19 of ADBench's sets (Han et al. 2022).

    Ranking of anomalies on 19 of ADBench's sets. A cell has ROC AUC / average precision, means
    over {n_seeds} random orders of the rows. Each row is scored before it is learned, and scores
    count from row {first} on. Features are unscaled, except that MinMaxScaler scales them for
    HalfSpaceTrees, and StandardScaler for River's other detectors. The isolation forest is refitted
    every 256 rows. `NearestNeighborDetector` was designed on these sets. The column `nearest,
    skip_anomalies` is this detector with
    `skip_anomalies=True`.
    """
    found = data.load("adbench")
    names = [str(name) for name in found["names"]][: 2 if quick else None]
    everybody = [*OURS, *ONLINE, "isolation forest, windowed"]
    results = np.zeros((len(names), len(everybody), 2))
    n_seeds = 1 if quick else 3
    for i, name in enumerate(names):
        X, y = found[f"X_{name}"].astype(float), found[f"y_{name}"]
        for seed in range(n_seeds):
            rows = np.random.default_rng(12345 + seed).permutation(len(X))[: 600 if quick else None]
            if len(set(y[rows][FITTED_EVERY:].tolist())) < 2:
                continue
            samples = stream(X[rows], y[rows])
            for j, who in enumerate(everybody):
                progress(f"{name}, {who}, seed {seed}")
                make: Any = OURS[who] if who in OURS else PEERS[who].make
                results[i, j] += measures(y[rows], scores_of(make(seed), samples), FITTED_EVERY)
    results /= n_seeds
    report.about(adbench, n_seeds=n_seeds, first=FITTED_EVERY + 1)
    table = [
        [name, *(f"{auc:.3f} / {ap:.3f}" for auc, ap in row)]
        for name, row in zip(names, results, strict=True)
    ]
    means = (f"**{auc:.3f} / {ap:.3f}**" for auc, ap in results.mean(axis=0))
    report.table(["set", *everybody], [*table, ["mean", *means]])
    best = results[:, [everybody.index(who) for who in ONLINE]].max(axis=1, keepdims=True)
    for own, (auc, ap) in zip(everybody, (results >= best).sum(axis=0), strict=True):
        if own in OURS:
            report.note(
                f"{own} is at or above River's best detector on {auc} sets by ROC AUC, and on {ap} "
                "sets by average precision."
            )
