"""Errors, densities, coverage, time and memory of the adaptive regressor and of its peers."""

import math
from functools import partial
from typing import Any

import numpy as np
from river import forest
from river.datasets import synth

from river_mondrian import AdaptiveMondrianForestRegressor

from ..costs import report_long_run, report_speed
from ..data import DataFolder
from ..report import Report, progress
from ..timing import in_turns
from .models import ADAPTIVE, AUTOREGRESSIVE, LAST_VALUE, MODELS, RIVALS, SLOW, SQUARED, WITH_LAW
from .scores import CRPS_EVERY, LEVELS, mean_of, number, run
from .streams import AHEAD, KEPT, SOURCES, STUDIED, target_streams

# Results of each seed, by stream and by model.
Results = dict[str, dict[str, list[dict[str, Any]]]]
# Largest accepted difference between coverage and level, over all samples and in a quarter of the
# samples.
CLOSE, CLOSE_LOCALLY = 0.03, 0.08


def _named(stream: str) -> str:
    return stream if stream in STUDIED else f"{stream} {'***' if stream in KEPT else '**'}"


def streams(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare errors, densities, coverage and times of regressors on all streams.

    Errors, densities, coverage and times of regressors. The slowest regressors do not run on
    streams with many features or samples. The design was selected on the streams without a
    mark. Streams marked ** or *** are new, and streams marked *** were held out until the
    estimator was final. Scores are means over seeds. Errors include the first sample, for which
    the prediction is 0. On the stream `ahead`, a target is learned {AHEAD} samples later, so
    the first {n_unpredicted} predictions are 0.
    """
    results: Results = {}
    lengths: dict[str, int] = {}
    names = ("TrumpApproval", "Friedman", "counts") if quick else SOURCES
    for name, samples in target_streams(data, 300 if quick else None, names):
        progress(name)
        size = len(samples[0][0]), len(samples)
        peers = {
            model: partial(run, one, samples, SOURCES[name].delay)
            for model, one in MODELS.items()
            if not (quick and model == "SRP of 3")
            if all(a <= b for a, b in zip(size, SLOW.get(model, size), strict=True))
        }
        seeds = {model: 1 if quick or not MODELS[model].seeded else 3 for model in peers}
        lengths[name], results[name] = len(samples), in_turns(peers, seeds)
    report.about(streams, n_unpredicted=AHEAD + 1)
    failures = [
        f"{model} on {name} ({out['failure']})"
        for name, found in results.items()
        for model, outs in found.items()
        for out in outs
        if "failure" in out
    ]
    if failures:
        report.note(f"Runs that ended with an error: {'; '.join(failures)}.")
    for what, own, title in (
        ("mae", ADAPTIVE, "Mean absolute error"),
        ("rmse", SQUARED, "Root mean squared error"),
    ):
        report.heading(title)
        _table(report, results, what, list(MODELS), lengths)
        _report_best(report, results, what, own)
    _report_laws(report, results)
    report.heading("Microseconds of CPU time per sample, to predict and to learn")
    _table(report, results, "us", list(MODELS), form=".0f")


def _table(
    report: Report,
    results: Results,
    what: str,
    models: list[str],
    lengths: dict[str, int] | None = None,
    form: str = ".4g",
) -> None:
    """Report the mean of a score for each stream and model."""
    rows = [
        [
            _named(stream),
            *([lengths[stream]] if lengths else []),
            *(number(mean_of(found.get(model, []), what), form) for model in models),
        ]
        for stream, found in results.items()
    ]
    report.table(["stream", *(["n"] if lengths else []), *models], rows)


def _report_best(report: Report, results: Results, what: str, own: str) -> None:
    """Report each stream's best peer, and count streams on which the model is as good or better."""
    rows, ahead = [], 0
    for stream, found in results.items():
        scores = {model: mean_of(runs, what) for model, runs in found.items()}
        rivals = {m: scores[m] for m in RIVALS if not math.isnan(scores.get(m, math.nan))}
        best, ours = min(rivals, key=rivals.__getitem__), scores[own]
        ahead += ours <= rivals[best]
        row = [_named(stream), number(ours), f"{best} {rivals[best]:.4g}"]
        row.append(f"{ours / rivals[best]:.3f}")
        rows.append([*row, *(number(scores[m]) for m in (LAST_VALUE, AUTOREGRESSIVE))])
    report.table(["stream", own, "best peer", "ratio", "last", "autoregressive"], rows)
    report.note(
        f"The error of the adaptive forest is at or below the error of the best peer on {ahead} "
        f"of {len(rows)} streams."
    )


def _report_laws(report: Report, results: Results) -> None:
    report.heading("Mean log likelihood, after the first tenth")
    _table(report, results, "log", list(WITH_LAW))
    report.heading(f"CRPS of every {CRPS_EVERY}th sample, after the first tenth")
    _table(report, results, "crps", list(WITH_LAW))
    levels = ", ".join(f"{q:.0%}" for q in LEVELS)
    report.heading(f"Coverage of {ADAPTIVE} at {levels}, after the first tenth")
    rows, near, local = [], 0, 0
    for stream, found in results.items():
        mean = np.mean([out["coverage"] for out in found[ADAPTIVE]], axis=0)
        gaps = np.abs(mean - LEVELS)
        near += bool((gaps[0] <= CLOSE).all())
        local += bool((gaps[1:] <= CLOSE_LOCALLY).all())
        rows.append([_named(stream), *(", ".join(f"{c:.2f}" for c in part) for part in mean)])
    report.table(["stream", "all", *(f"quarter {k}" for k in range(1, 5))], rows)
    report.note(
        f"The coverage is within 3 points of each level on {near} of {len(rows)} streams. In "
        "each quarter by predicted variance, the coverage is within 8 points of each level on "
        f"{local} of {len(rows)} streams."
    )


def speed(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the time to predict and learn with River's forests."""
    n, repeats = (300, 1) if quick else (3000, 5)
    models = {model: MODELS[model].make for model in (ADAPTIVE, "exact", "ARF")}
    models["AMF"] = lambda seed: forest.AMFRegressor(seed=seed)
    found = target_streams(data, n, ("Friedman", "cpu"))
    report_speed(report, models, "predict_one", found, repeats)


def memory(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure memory, speed, error and the longest call over a long stream.

    Memory, speed, error and the longest call over a long stream. The stream is Friedman, and
    the forest has window={most}. A row describes a tenth of the stream: the memory, the samples
    per second, the mean absolute error, and the CPU time of the longest learn_one. The samples
    per second count the time to generate, predict and learn samples.
    """
    n, most = (3000, 1000) if quick else (1_000_000, 20_000)
    model = AdaptiveMondrianForestRegressor(window=most, seed=1)
    report.about(memory, most=most)
    source = synth.Friedman(seed=7)
    report_long_run(report, model, source, n, "MAE", lambda predicted, y: abs(predicted - y))
