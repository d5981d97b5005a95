"""Pictures of errors along drifting streams, weights of experts, and reliability."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from river import drift

from river_mondrian import AdaptiveMondrianForestRegressor, MondrianForestRegressor

from ..data import Array, DataFolder, Stream
from ..report import Report, progress, pyplot
from .streams import load

STREAMS = ("FriedmanDrift lea", "abrupt", "Mv")
KEPT_EVERY = 25
# Number of blocks of a stream in which errors and weights are averaged.
N_PARTS = 60
KINDS = {
    "regressions": ("linear", "additive", "waves"),
    "trees": ("trees,",),
    "trees of residuals": ("trees of residuals",),
    "first mixture": ("first mixture",),
    "trees of its errors": ("trees of errors", "recent trees"),
}


class _Run(NamedTuple):
    """Results of a model on a stream: errors, quantile levels of targets, weights of experts."""

    errors: Array
    levels: Array
    weights: Array
    drifts: list[int]


def _kinds(weights: dict[str, float]) -> list[float]:
    return [
        sum(w for name, w in weights.items() if any(word in name for word in words))
        for words in KINDS.values()
    ]


def _follow(model: Any, samples: Stream) -> _Run:
    errors, levels, weights = [], [], []
    is_adaptive = isinstance(model, AdaptiveMondrianForestRegressor)
    for i, (x, y) in enumerate(samples):
        errors.append(abs(y - model.predict_one(x)))
        if is_adaptive and i > 0:
            levels.append(model.predict_one(x, with_dist=True).cdf(y))
        if is_adaptive and i > 0 and i % KEPT_EVERY == 0:
            weights.append([i, *_kinds(model.expert_weights)])
        model.learn_one(x, y)
    drifts = [i for i, _ in model.drift_log] if is_adaptive else []
    return _Run(np.array(errors), np.array(levels), np.array(weights), drifts)


def _draw_errors(ax: Any, name: str, runs: dict[str, _Run]) -> None:
    for label, run in runs.items():
        parts = np.array_split(run.errors, N_PARTS)
        ends = np.cumsum([len(part) for part in parts])
        ax.plot(ends, [part.mean() for part in parts], label=label)
        for i in run.drifts:
            ax.axvline(i, color="0.5", linestyle=":")
    ax.set(title=name, xlabel="samples", ylabel="mean absolute error", ylim=(0, None))
    ax.legend()


def _draw_weights(ax: Any, weights: Array) -> None:
    parts = np.array_split(weights, min(N_PARTS, len(weights)))
    times, *sums = np.array([part.mean(axis=0) for part in parts]).T
    for label, values in zip(KINDS, sums, strict=True):
        ax.plot(times, values, label=label)
    ax.axhline(0.0, color="0.7", lw=0.8)
    ax.set(xlabel="samples", ylabel="weights, added up")


def _draw_levels(ax: Any, levels: Array) -> None:
    levels = np.sort(levels[len(levels) // 10 :])
    ax.plot([0, 1], [0, 1], color="0.7")
    ax.plot(levels, np.linspace(0, 1, len(levels)))
    ax.set(xlabel="predicted probability of a smaller target", ylabel="frequency of no larger one")


def pictures(data: DataFolder, report: Report, quick: bool) -> None:
    """Draw errors along drifting streams, weights over time, and reliability."""
    plt = pyplot()
    if plt is None:
        return
    figure, axes = plt.subplots(3, len(STREAMS), figsize=(15, 11))
    for column, name in zip(axes.T, STREAMS, strict=True):
        samples = load(DataFolder(data.folder), name, 400 if quick else None)
        models = {
            "adaptive": AdaptiveMondrianForestRegressor(seed=1),
            "without detector": AdaptiveMondrianForestRegressor(
                drift_detector=drift.NoDrift(), seed=1
            ),
            "exact": MondrianForestRegressor(seed=1),
        }
        runs = {}
        for label, model in models.items():
            progress(f"{name}, {label}")
            runs[label] = _follow(model, samples or [])
        _draw_errors(column[0], name, runs)
        _draw_weights(column[1], runs["adaptive"].weights)
        _draw_levels(column[2], runs["adaptive"].levels)
    axes[1, 0].legend(fontsize=8)
    figure.tight_layout()
    report.note(
        "Errors along drifting streams, weights over time, and reliability of distributions. The "
        f"top row shows the mean absolute error in {N_PARTS} blocks, with dotted lines at detected "
        "drifts. The middle row shows the weights of the experts in the last mixture, summed by "
        "kind. A regression on experts may have negative weights. The bottom row shows the "
        "frequency of targets at or below the predicted quantiles, without the first tenth of the "
        "stream."
    )
    report.figure(figure, "")
    plt.close(figure)
