"""Tables of the results of all regressors on all streams."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..report import Report
from .models import (
    ADAPTIVE,
    AUTOREGRESSIVE,
    CAPYMOA,
    EARLIER_OURS,
    LAST_VALUE,
    PEERS,
    SQUARED,
    STUDY,
    WITH_LAW,
)
from .scores import CRPS_EVERY, LEVELS, holds
from .streams import KEPT, STUDIED

# `Scores.summary` of each seed, by stream and by model.
Results = dict[str, dict[str, list[dict[str, Any]]]]

LEVELS_SHOWN = ", ".join(f"{q:.0%}" for q in LEVELS)
RIVALS = tuple(name for name in PEERS if name not in (*EARLIER_OURS, LAST_VALUE))


def mean_of(results: Results, stream: str, model: str, what: str) -> float:
    """Return the mean of a score over seeds, or NaN without the score."""
    runs = results.get(stream, {}).get(model, [])
    values = [run[what] for run in runs if what in run]
    return float(np.mean(values)) if values else math.nan


def _number(value: float, form: str = ".4g") -> str:
    return "-" if math.isnan(value) else format(value, form)


def _named(stream: str) -> str:
    return stream if stream in STUDIED else f"{stream} {'***' if stream in KEPT else '**'}"


def _models(results: Results) -> list[str]:
    found = {model for runs in results.values() for model in runs}
    order = (ADAPTIVE, SQUARED, AUTOREGRESSIVE, *PEERS)
    return [model for model in order if model in found]


def report_all(results: Results, report: Report) -> None:
    """Report errors, log likelihoods, CRPS, coverage and times."""
    models = _models(results)
    report.note(
        "Errors, densities, coverage and times of all regressors on all streams. The design was "
        "selected on the streams without a mark. Streams marked ** or *** are new, and streams "
        "marked *** were held out until the estimator was final. Scores are means over seeds. "
        "Errors include the first sample, for which the prediction is 0. Errors of CapyMOA's "
        "models (*) are from an earlier study of the same streams, not from this run."
    )
    failures = [
        f"{model} on {stream} ({run['failure']})"
        for stream, found in results.items()
        for model, runs in found.items()
        for run in runs
        if "failure" in run
    ]
    if failures:
        report.note(f"Runs that ended with an error: {'; '.join(failures)}.")
    for what, title in (("mae", "Mean absolute error"), ("rmse", "Root mean squared error")):
        report.heading(title)
        rows = []
        for stream in results:
            cells = [_number(mean_of(results, stream, m, what)) for m in models]
            known = STUDY.get(stream, (math.nan,) * 5)[:3] if what == "mae" else ()
            n = next((run["n"] for runs in results[stream].values() for run in runs), 0)
            rows.append([_named(stream), n, *cells, *map(_number, known)])
        constants = CAPYMOA if what == "mae" else ()
        report.table(["stream", "n", *models, *constants], rows)
        if ADAPTIVE in models:
            _report_best(results, report, what)
    report.heading("Comparison with the study's prototype")
    _report_study(results, report)
    _report_laws(results, report)
    report.note(
        "## Microseconds of CPU time per sample, to predict (with the distribution) and to learn"
    )
    rows = [
        [_named(stream), *(_number(mean_of(results, stream, m, "us"), ".0f") for m in models)]
        for stream in results
    ]
    report.table(["stream", *models], rows)


def _report_best(results: Results, report: Report, what: str) -> None:
    """Report the best peer on each stream, and count the streams on which the model is better."""
    own = ADAPTIVE if what == "mae" else SQUARED
    rows, ahead = [], 0
    for stream in results:
        rivals = {m: mean_of(results, stream, m, what) for m in RIVALS}
        if what == "mae" and stream in STUDY:
            rivals |= dict(zip(CAPYMOA, STUDY[stream], strict=False))
        rivals = {m: v for m, v in rivals.items() if not math.isnan(v)}
        ours = mean_of(results, stream, own, what)
        if math.isnan(ours) or not rivals:
            continue
        best = min(rivals, key=rivals.__getitem__)
        ahead += ours <= rivals[best]
        last = mean_of(results, stream, LAST_VALUE, what)
        regressive = mean_of(results, stream, AUTOREGRESSIVE, what)
        rows.append(
            [
                _named(stream),
                _number(ours),
                f"{best} {rivals[best]:.4g}",
                f"{ours / rivals[best]:.3f}",
                _number(last),
                _number(regressive),
            ]
        )
    report.table(["stream", own, "best peer", "ratio", "last", "autoregressive"], rows)
    report.note(
        f"The error of the adaptive forest is at or below the error of the best peer on {ahead} "
        f"of {len(rows)} streams."
    )


def _report_study(results: Results, report: Report) -> None:
    rows = []
    for stream, prototype in STUDY.items():
        ours = mean_of(results, stream, ADAPTIVE, "mae")
        if math.isnan(ours):
            continue
        runs = [run["mae"] for run in results[stream][ADAPTIVE]]
        rows.append(
            [
                stream,
                _number(ours),
                f"{min(runs):.4g} - {max(runs):.4g}",
                _number(prototype[3]),
                _number(mean_of(results, stream, ADAPTIVE, "log, whole"), ".3f"),
                _number(prototype[4], ".3f"),
            ]
        )
    headers = ["stream", "MAE", "seeds", "prototype"]
    report.table([*headers, "log likelihood, all samples", "prototype"], rows)


def _report_laws(results: Results, report: Report) -> None:
    with_law = [m for m in _models(results) if m in WITH_LAW]
    for what, title in (("log", "Mean log likelihood"), ("crps", "CRPS")):
        of = f" of every {CRPS_EVERY}th sample" if what == "crps" else ""
        report.heading(f"{title}{of}, after the first tenth")
        rows = []
        for stream in results:
            cells = [_number(mean_of(results, stream, m, what)) for m in with_law]
            rows.append([_named(stream), *cells])
        report.table(["stream", *with_law], rows)
    for model in with_law:
        report.heading(f"Coverage of {model} at {LEVELS_SHOWN}, after the first tenth")
        rows, near, local = [], 0, 0
        for stream in results:
            runs = [r["coverage"] for r in results[stream].get(model, []) if "coverage" in r]
            if not runs:
                continue
            mean = np.mean(runs, axis=0).tolist()
            is_near, is_local = holds(mean)
            near, local = near + is_near, local + is_local
            parts = [", ".join(f"{c:.2f}" for c in part) for part in mean]
            rows.append([_named(stream), *parts])
        report.table(["stream", "all", *(f"quarter {k}" for k in range(1, 5))], rows)
        report.note(
            f"The coverage is within 3 points of the level on {near} of {len(rows)} streams. In "
            "each quarter by predicted variance, the coverage is within 8 points of the level on "
            f"{local} of {len(rows)} streams."
        )
