"""Errors and distributions on streams."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from river import datasets
from river.datasets import synth

from river_mondrian import PredictiveDistribution

from ..data import DataFolder, Stream, stream, take
from ..report import Report, progress
from .peers import (
    GAUSSIAN,
    MEAN,
    NORMAL,
    PEERS,
    WITH_DENSITY,
    Prediction,
    make_ours,
    predict_mixture,
)

LEVELS = (0.5, 0.8, 0.95)
MOST = 8192  # Largest number of samples of a stream.


def load_streams(data: DataFolder, quick: bool) -> Iterator[tuple[str, Stream]]:
    most = 500 if quick else MOST
    yield "TrumpApproval", take(datasets.TrumpApproval(), most)
    yield "ChickWeights", take(datasets.ChickWeights(), most)
    flow = take(datasets.WaterFlow(), most)
    coded = [({"hour": x["Time"].hour, "weekday": x["Time"].weekday()}, y) for x, y in flow]
    yield "WaterFlow", coded
    for name in ("cpu", "california", "bike_hour", "kin8nm"):
        arrays = data.load(name)
        if arrays is not None:
            yield name, stream(arrays["X_train"], arrays["y_train"].astype(float), most)
    yield "Friedman", take(synth.Friedman(seed=42), most)


@dataclass
class Scores:
    """Scores of a model on a stream; scores of distributions exclude the first tenth."""

    errors: list[float] = field(default_factory=list)
    log_likelihoods: list[float] = field(default_factory=list)
    crps: list[float] = field(default_factory=list)
    inside: dict[float, list[bool]] = field(default_factory=lambda: {q: [] for q in LEVELS})
    seconds: float = 0.0

    def add(self, mixture: PredictiveDistribution, y: float) -> None:
        """Append the scores of a distribution."""
        self.log_likelihoods.append(max(mixture.log_pdf(y), -700.0))
        self.crps.append(mixture.crps(y))
        level = mixture.cdf(y)
        for q in LEVELS:
            self.inside[q].append(abs(2.0 * level - 1.0) <= q)

    @property
    def mae(self) -> float:
        return float(np.abs(self.errors).mean())

    @property
    def rmse(self) -> float:
        return math.sqrt(np.square(self.errors).mean())

    def coverage(self, level: float) -> float | None:
        return float(np.mean(self.inside[level])) if self.inside[level] else None

    @property
    def covers(self) -> bool:
        """Return whether coverage is within 5 points at 95 %, and within 10 at 50 % and 80 %."""
        found = [(q, self.coverage(q)) for q in LEVELS]
        return all(c is not None and abs(c - q) <= (0.05 if q > 0.9 else 0.1) for q, c in found)


def _run(make: Callable[[], Any], predict: Callable[..., Prediction], samples: Stream) -> Scores:
    """Return the scores of all samples but the first; each is predicted before it is learned."""
    model, scores = make(), Scores()
    start = len(samples) // 10
    for i, (x, y) in enumerate(samples):
        if i > 0:
            begun = time.perf_counter()
            mean, found = predict(model, x)
            scores.seconds += time.perf_counter() - begun
            scores.errors.append(y - mean)
            if i >= start and isinstance(found, PredictiveDistribution):
                scores.add(found, y)
            elif i >= start and found is not None:
                scores.inside[0.95].append(found[0] <= y <= found[1])
        begun = time.perf_counter()
        model.learn_one(x, y)
        scores.seconds += time.perf_counter() - begun
    return scores


def _number(value: float | None, form: str = ".3g") -> str:
    return "-" if value is None else format(value, form)


def streams(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare progressive errors, log likelihoods, CRPS and coverage on eight streams."""
    report.note(
        "Errors, log likelihoods, CRPS and coverage on eight streams. At most the first "
        f"{500 if quick else MOST} samples are used, with one seed and 10 trees. MAE and RMSE "
        "exclude the first sample. Log likelihood, CRPS and the coverage of central intervals "
        "exclude the first tenth. By default the tails and the scale of the Gaussian posterior's "
        "variances are learned from earlier targets. Models with normal tails assume normal noise "
        "instead. Raw features are not scaled. By default the Mondrian forest scales features "
        "itself, and MinMaxScaler scales features for River's models. The linear model gets "
        "standardized features and targets. Log densities below -700 are raised to -700. Seconds "
        "include learning and predictions, with a distribution if possible."
    )
    runs: dict[str, dict[str, Scores]] = {}
    for name, samples in load_streams(data, quick):
        found, failed = {}, []
        for peer, (make, predict) in PEERS.items():
            progress(f"streams: {name}, {peer}")
            try:
                found[peer] = _run(make, predict, samples)
            except ArithmeticError as error:
                failed.append(f"{peer} fails: {error}.")
        report.heading(f"{name}, {len(samples)} samples, {len(samples[0][0])} features")
        _report_stream(found, report)
        if failed:
            report.note(" ".join(failed))
        runs[name] = found
    report.heading("Targets")
    _report_errors(runs, report)
    _report_distributions(runs, report)


def _report_stream(found: dict[str, Scores], report: Report) -> None:
    report.table(
        (
            "model",
            "MAE",
            "RMSE",
            "log likelihood",
            "CRPS",
            *(f"in {q:.0%}" for q in LEVELS),
            "seconds",
        ),
        [
            (
                peer,
                _number(s.mae, ".4g"),
                _number(s.rmse, ".4g"),
                _number(np.mean(s.log_likelihoods) if s.log_likelihoods else None, ".3f"),
                _number(np.mean(s.crps) if s.crps else None, ".4g"),
                *(_number(s.coverage(q), ".2f") for q in LEVELS),
                f"{s.seconds:.1f}",
            )
            for peer, s in found.items()
        ],
    )


def _report_errors(runs: dict[str, dict[str, Scores]], report: Report) -> None:
    """Compare mean absolute errors with AMF, each with the better of raw and scaled features."""
    best_mae, default_mae = [], []
    for name, found in runs.items():
        amf = min(found["AMF, scaled"].mae, found["AMF, raw"].mae)
        ours = {kind: min(found[kind].mae, found[f"{kind}, raw"].mae) for kind in (GAUSSIAN, MEAN)}
        best_mae.append((name, amf, ours[MEAN], ours[GAUSSIAN]))
        default_mae.append(found[GAUSSIAN].mae < amf)
    report.table(
        ("stream", "AMF", "ours, mean", "ours, gaussian"),
        [(n, f"{a:.4g}", f"{m:.4g}", f"{g:.4g}") for n, a, m, g in best_mae],
    )
    report.note(
        'The table has the MAE with the better of raw and scaled features. `posterior="mean"` '
        f"has a smaller MAE than AMF on {sum((m < a for _, a, m, _ in best_mae))} of {len(runs)} "
        f"streams, and the Gaussian posterior on {sum((g < a for _, a, _, g in best_mae))}. The "
        "default model (Gaussian, scaled) has a smaller MAE than AMF with the better features on "
        f"{sum(default_mae)} streams."
    )


def _report_distributions(runs: dict[str, dict[str, Scores]], report: Report) -> None:
    """Compare coverage with the levels, and log likelihoods with the linear model."""
    likeliest, laws = [], []
    for name, found in runs.items():
        likely = {p: np.mean(found[p].log_likelihoods) for p in WITH_DENSITY}
        likeliest.append(max(likely, key=likely.__getitem__))
        laws.append((name, likely["Bayesian linear"], found[NORMAL], found[GAUSSIAN]))
    report.table(
        (
            "stream",
            "normal tails: in 50, 80, 95%",
            "log likelihood",
            "learned tails: in 50, 80, 95%",
            "log likelihood",
            "linear",
        ),
        [
            (
                name,
                *(cell for s in (normal, learned) for cell in _law(s)),
                f"{linear:.3f}",
            )
            for name, linear, normal, learned in laws
        ],
    )
    n = len(runs)
    normal_holds, learned_holds = (sum(row[i].covers for row in laws) for i in (2, 3))
    normal_likelier, learned_likelier = (
        sum(np.mean(row[i].log_likelihoods) > row[1] for row in laws) for i in (2, 3)
    )
    report.note(
        "Coverage is close if it is within 5 points at 95 %, and within 10 points at 50 and 80 "
        f"%. The coverage of the default model (scaled) is close on {normal_holds} of {n} streams "
        f"with normal tails, and on {learned_holds} with learned tails. A Mondrian forest has the "
        f"highest log likelihood on {sum(p.startswith('Mondrian') for p in likeliest)} of {n} "
        "streams. The default model has a higher log likelihood than the linear model on "
        f"{normal_likelier} streams with normal tails, and on {learned_likelier} with learned "
        "tails."
    )


def _law(scores: Scores) -> tuple[str, str]:
    """Return coverage and log likelihood."""
    inside = ", ".join(_number(scores.coverage(q), ".2f") for q in LEVELS)
    return inside, f"{np.mean(scores.log_likelihoods):.3f}"


def choice(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare chosen and fixed values of prior_rate."""
    most = 500 if quick else 3000
    # The hyperparameters maximize the likelihood under normal noise.
    plain = {"tails": "normal"}
    rows = []
    for name, samples in load_streams(data, quick):
        progress(f"choice: {name}")
        part = samples[:most]
        X = np.array([list(x.values()) for x, _ in part], dtype=float)
        extent = float(np.count_nonzero(np.ptp(X, axis=0)))
        powers = (-2, -1, 0, 1, 2, 3)
        middle = extent / (2.0 * math.log2(len(part)))
        runs = {
            f"2^{p}": _run(
                partial(make_ours, prior_rate=middle * 2.0**p, **plain), predict_mixture, part
            )
            for p in powers
        }
        runs["chosen"] = _run(partial(make_ours, **plain), predict_mixture, part)
        for what, pick in (
            ("MAE", lambda s: format(s.mae, ".4g")),
            ("log likelihood", lambda s: format(np.mean(s.log_likelihoods), ".3f")),
        ):
            rows.append((name, what, *(pick(s) for s in runs.values())))
    report.note(
        "Gain by the choice of prior_rate. In the columns with powers of 2, prior_rate is this "
        "power times D / (2 log2 n), for D features that vary and n samples. Only the noise "
        "variance is chosen. In the last column, prior_rate and the noise variance are chosen by "
        f"progressive likelihood. At most the first {most} samples are used."
    )
    report.table(("stream", "", *(f"2^{p}" for p in powers), "chosen"), rows)
