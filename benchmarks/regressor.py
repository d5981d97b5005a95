"""The Mondrian forest regressor: errors, distributions and speed beside River's and scikit-learn's.

Each part takes the data folder, a report and whether to be quick.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from river import base, compose, conf, datasets, linear_model, preprocessing, tree
from river import forest as river_forest
from river import stats as river_stats
from river.datasets import synth
from scipy import stats

from river_mondrian import MondrianForestRegressor
from river_mondrian.posteriors.gaussian_mixture import GaussianMixture

from .data import Array, DataFolder, Stream, min_max, min_max_stream, stream, take
from .report import Report, progress, verdict
from .timing import (
    BLOCK,
    TURN,
    WARM_START,
    median,
    ratio,
    repeated,
    test_then_learn,
)

LEVELS = (0.5, 0.8, 0.95)
MOST = 8192  # samples of a stream
GAUSSIAN = "Mondrian, gaussian"
NORMAL = "Mondrian, normal tails"
MEAN = "Mondrian, mean"
SPEED_TARGETS = {"cpu": 80.0, "TrumpApproval": 40.0}


def _streams(data: DataFolder, quick: bool) -> Iterator[tuple[str, Stream]]:
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


# What a model says of a target: its mean, and a distribution or a 95 % interval where it has one.
Said = tuple[float, GaussianMixture | tuple[float, float] | None]


def _mean(model: Any, x: dict[Any, float]) -> Said:
    return model.predict_one(x), None


def _mixture(model: Any, x: dict[Any, float]) -> Said:
    mixture = model.predict_mixture_one(x) if model.n_samples else None
    return (mixture.mean if mixture else 0.0), mixture


def _standardized(model: Any, x: dict[Any, float]) -> Said:
    said = model.predict_one(x, with_dist=True)
    one = np.ones(1)
    mean = model.moments.mean.get() + model.spread * said.mu
    return mean, GaussianMixture(one, one * mean, one * (model.spread * said.sigma) ** 2)


def _interval(model: Any, x: dict[Any, float]) -> Said:
    mean, interval = model.predict_one(x), model.predict_one(x, with_interval=True)
    return mean, (interval.lower, interval.upper)


def _scaled(model: base.Regressor) -> Any:
    return preprocessing.MinMaxScaler() | model


def _amf() -> base.Regressor:
    return river_forest.AMFRegressor(n_estimators=10, seed=1)


class _Started(river_forest.AMFRegressor):
    """AMF that says 0 before its first sample, as the jackknife needs it."""

    def predict_one(self, x: dict[Any, float]) -> float:
        said = super().predict_one(x)
        return 0.0 if said is None else said


def _jackknife() -> Any:
    return conf.RegressionJackknife(_Started(n_estimators=10, seed=1), 0.95)


def _ours(**kwargs: Any) -> MondrianForestRegressor:
    return MondrianForestRegressor(n_estimators=10, seed=1, **kwargs)


def _constant(x: dict[Any, float]) -> dict[str, float]:
    return {"one": 1.0}


class _OfStandardTargets:
    """A model that learns standardized targets, since its noise has a variance of 1."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.moments = river_stats.Var()

    @property
    def spread(self) -> float:
        return math.sqrt(self.moments.get()) or 1.0

    def learn_one(self, x: dict[Any, float], y: float) -> None:
        self.moments.update(y)
        self.model.learn_one(x, (y - self.moments.mean.get()) / self.spread)

    def predict_one(self, x: dict[Any, float], with_dist: bool = False) -> Any:
        return self.model.predict_one(x, with_dist=with_dist)


def _bayesian() -> Any:
    inputs = preprocessing.StandardScaler() + compose.FuncTransformer(_constant)
    return _OfStandardTargets(inputs | linear_model.BayesianLinearRegression())


PEERS: dict[str, tuple[Callable[[], Any], Callable[[Any, dict[Any, float]], Said]]] = {
    GAUSSIAN: (_ours, _mixture),
    f"{GAUSSIAN}, raw": (partial(_ours, scale=False), _mixture),
    NORMAL: (partial(_ours, tails="normal"), _mixture),
    f"{NORMAL}, raw": (partial(_ours, tails="normal", scale=False), _mixture),
    MEAN: (partial(_ours, posterior="mean"), _mean),
    f"{MEAN}, raw": (partial(_ours, posterior="mean", scale=False), _mean),
    "AMF, scaled": (lambda: _scaled(_amf()), _mean),
    "AMF, raw": (_amf, _mean),
    "Jackknife(AMF, raw)": (_jackknife, _interval),
    "ARF": (lambda: river_forest.ARFRegressor(n_models=10, seed=1), _mean),
    "SGT": (lambda: _scaled(tree.SGTRegressor()), _mean),
    "Bayesian linear": (_bayesian, _standardized),
}
WITH_DENSITY = (GAUSSIAN, f"{GAUSSIAN}, raw", NORMAL, f"{NORMAL}, raw", "Bayesian linear")


@dataclass
class Scores:
    """What a model reached on a stream; distributions count after the first tenth."""

    errors: list[float] = field(default_factory=list)
    log_likelihoods: list[float] = field(default_factory=list)
    crps: list[float] = field(default_factory=list)
    inside: dict[float, list[bool]] = field(default_factory=lambda: {q: [] for q in LEVELS})
    seconds: float = 0.0

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
        """Whether the 95 % interval is within 5 points, the others within 10."""
        found = [(q, self.coverage(q)) for q in LEVELS]
        return all(c is not None and abs(c - q) <= (0.05 if q > 0.9 else 0.1) for q, c in found)


def _run(make: Callable[[], Any], say: Callable[..., Said], samples: Stream) -> Scores:
    """Predict each sample, then learn it; the first is learned only."""
    model, scores = make(), Scores()
    start = len(samples) // 10
    for i, (x, y) in enumerate(samples):
        if i > 0:
            begun = time.perf_counter()
            mean, said = say(model, x)
            scores.seconds += time.perf_counter() - begun
            scores.errors.append(y - mean)
            if i >= start and isinstance(said, GaussianMixture):
                scores.log_likelihoods.append(max(said.log_pdf(y), -700.0))
                scores.crps.append(said.crps(y))
                level = said.cdf(y)
                for q in LEVELS:
                    scores.inside[q].append(abs(2.0 * level - 1.0) <= q)
            elif i >= start and said is not None:
                scores.inside[0.95].append(said[0] <= y <= said[1])
        begun = time.perf_counter()
        model.learn_one(x, y)
        scores.seconds += time.perf_counter() - begun
    return scores


def _number(value: float | None, form: str = ".3g") -> str:
    return "-" if value is None else format(value, form)


def streams(data: DataFolder, report: Report, quick: bool) -> None:
    """Progressive errors, log likelihood, CRPS and coverage on eight streams."""
    report.note(
        f"The first {500 if quick else MOST} samples at most, one seed, 10 trees. Log likelihood, "
        "CRPS and coverage of the central intervals are of the samples after the first tenth; MAE "
        "and RMSE are of all but the first. Normal tails: the Gaussian posterior with normal "
        "noise, its variance as it is; the other one learns the tails, and with them the scale of "
        "its variances, from the targets before. Nothing is recalibrated otherwise. Scaled: behind "
        "MinMaxScaler for River's, within the model for ours; the linear model gets standardized "
        "features and targets. A log density counts as -700 at least. Seconds: predict (with the "
        "distribution, where there is one) and learn."
    )
    best_mae, default_mae, likeliest, laws = [], [], [], []
    for name, samples in _streams(data, quick):
        found, failed = {}, []
        for peer, (make, say) in PEERS.items():
            progress(f"streams: {name}, {peer}")
            try:
                found[peer] = _run(make, say, samples)
            except ArithmeticError as error:
                failed.append(f"{peer} fails: {error}.")
        report.note(f"## {name}, {len(samples)} samples, {len(samples[0][0])} features")
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
        if failed:
            report.note(" ".join(failed))
        amf = min(found["AMF, scaled"].mae, found["AMF, raw"].mae)
        ours = {kind: min(found[kind].mae, found[f"{kind}, raw"].mae) for kind in (GAUSSIAN, MEAN)}
        best_mae.append((name, amf, ours[MEAN], ours[GAUSSIAN]))
        default_mae.append(found[GAUSSIAN].mae < amf)
        likely = {p: np.mean(found[p].log_likelihoods) for p in WITH_DENSITY}
        likeliest.append((name, max(likely, key=likely.__getitem__)))
        laws.append((name, likely["Bayesian linear"], found[NORMAL], found[GAUSSIAN]))
    report.note("## Beside the targets")
    report.table(
        ("stream", "AMF", "ours, mean", "better", "ours, gaussian", "better"),
        [
            (n, f"{a:.4g}", f"{m:.4g}", verdict(m < a), f"{g:.4g}", verdict(g < a))
            for n, a, m, g in best_mae
        ],
    )
    n = len(best_mae)
    report.note(
        f"MAE of the better input, raw or scaled, on either side: the means are below AMF's on "
        f"{sum(m < a for _, a, m, _ in best_mae)} of {n} streams (target 6 of 8), the Gaussian "
        f"posterior on {sum(g < a for _, a, _, g in best_mae)}; the default model (Gaussian, "
        f"scaled) against AMF's better input on {sum(default_mae)}."
    )
    report.table(
        (
            "stream",
            "normal tails: in 50, 80, 95%",
            "hold",
            "log likelihood",
            "learned tails: in 50, 80, 95%",
            "hold",
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
    normal_holds, learned_holds = (sum(row[i].covers for row in laws) for i in (2, 3))
    normal_likelier, learned_likelier = (
        sum(np.mean(row[i].log_likelihoods) > row[1] for row in laws) for i in (2, 3)
    )
    report.note(
        "Intervals hold within 5 points at 95 % and within 10 at 50 and 80 %, of the default model "
        f"(scaled) with normal tails on {normal_holds} of {n} streams, with learned ones, its "
        f"default, on {learned_holds} (target 6 of 8). The best log likelihood is ours on "
        f"{sum(p.startswith('Mondrian') for _, p in likeliest)} of {n} (target 6 of 8); the scaled "
        f"model's is better than the linear one's on {normal_likelier} with normal tails, on "
        f"{learned_likelier} with learned ones."
    )


def _law(scores: Scores) -> tuple[str, str, str]:
    """Return coverage, whether it holds, and the log likelihood."""
    inside = ", ".join(_number(scores.coverage(q), ".2f") for q in LEVELS)
    return inside, verdict(scores.covers), f"{np.mean(scores.log_likelihoods):.3f}"


def choice(data: DataFolder, report: Report, quick: bool) -> None:
    """What choosing gamma2 and the noise gains over fixed multiples of the reference's."""
    most = 500 if quick else 3000
    # What is chosen is the likelihood of normal noise.
    plain = {"tails": "normal"}
    rows = []
    for name, samples in _streams(data, quick):
        progress(f"choice: {name}")
        part = samples[:most]
        X = np.array([list(x.values()) for x, _ in part], dtype=float)
        extent = float(np.count_nonzero(np.ptp(X, axis=0)))
        powers = (-2, -1, 0, 1, 2, 3)
        middle = extent / (2.0 * math.log2(len(part)))
        runs = {
            f"2^{p}": _run(partial(_ours, gamma2=middle * 2.0**p, **plain), _mixture, part)
            for p in powers
        }
        runs["chosen"] = _run(partial(_ours, **plain), _mixture, part)
        for what, pick in (
            ("MAE", lambda s: format(s.mae, ".4g")),
            ("log likelihood", lambda s: format(np.mean(s.log_likelihoods), ".3f")),
        ):
            rows.append((name, what, *(pick(s) for s in runs.values())))
    report.note(
        f"gamma2 fixed at powers of 2 times D / (2 log2 n), n = {most} at most, the noise chosen; "
        "in the last column both are chosen by progressive likelihood."
    )
    report.table(("stream", "", *(f"2^{p}" for p in powers), "chosen"), rows)


def holdout(data: DataFolder, report: Report, quick: bool) -> None:
    """RMSE and negative log predictive density on test data, beside scikit-learn's."""
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    trees = 10 if quick else 100
    rows = []
    for name in ("kin8nm", "california"):
        arrays = data.load(name)
        if arrays is None:
            continue
        order = np.random.default_rng(0).permutation(len(arrays["y_train"]))
        X, y = arrays["X_train"][order].astype(float), arrays["y_train"][order].astype(float)
        most = 1000 if quick else 20_000
        half = min(len(y) // 2, most // 2)
        (X_train, X_test) = min_max(X[:half], X[half : 2 * half])
        y_train, y_test = y[:half], y[half : 2 * half]
        for least in (2, 10):
            progress(f"holdout: {name}, ours, min_samples_split={least}")
            begun = time.perf_counter()
            model = MondrianForestRegressor(trees, min_samples_split=least, tails="normal", seed=1)
            _learn(model, X_train, y_train)
            mixtures = [model.predict_mixture_one(dict(enumerate(x))) for x in X_test.tolist()]
            spent = time.perf_counter() - begun
            density = np.mean([-m.log_pdf(t) for m, t in zip(mixtures, y_test, strict=True)])
            error = np.array([m.mean for m in mixtures]) - y_test
            rows.append(
                _holdout_row(name, f"{GAUSSIAN}, split from {least}", error, density, spent)
            )
        for kind in (RandomForestRegressor, ExtraTreesRegressor):
            progress(f"holdout: {name}, {kind.__name__}")
            begun = time.perf_counter()
            forest = kind(trees, min_samples_leaf=5, random_state=0).fit(X_train, y_train)
            each = np.array([one.predict(X_test) for one in forest.estimators_])
            # The spread of the trees' means and of the targets around them on the training part.
            within = np.mean([(one.predict(X_train) - y_train) ** 2 for one in forest.estimators_])
            spread = np.sqrt(each.var(axis=0) + within)
            density = -stats.norm.logpdf(y_test, each.mean(axis=0), spread).mean()
            spent = time.perf_counter() - begun
            rows.append(
                _holdout_row(name, kind.__name__, each.mean(axis=0) - y_test, density, spent)
            )
            low, high = np.quantile(each, [0.159, 0.841], axis=0)
            spread = np.maximum((high - low) / 2.0, 1e-3 * y_train.std())
            density = -stats.norm.logpdf(y_test, np.median(each, axis=0), spread).mean()
            error = np.median(each, axis=0) - y_test
            rows.append(_holdout_row(name, f"{kind.__name__}, quantiles", error, density, spent))
        n = 200 if quick else 1500
        progress(f"holdout: {name}, Gaussian process on {n}")
        begun = time.perf_counter()
        kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel(0.1)
        process = GaussianProcessRegressor(kernel, normalize_y=True).fit(X_train[:n], y_train[:n])
        mean, spread = process.predict(X_test, return_std=True)
        density = -stats.norm.logpdf(y_test, mean, spread).mean()
        spent = time.perf_counter() - begun
        rows.append(
            _holdout_row(name, f"Gaussian process on {n} rows", mean - y_test, density, spent)
        )
    report.note(
        f"Half of the rows (at most {most // 2}) for training, as many for testing, in random "
        f"order, features scaled by the training range; {trees} trees, normal tails. NLPD: mean "
        "negative log predictive density. scikit-learn's forests have no density: a normal one of "
        "the trees' spread (and the error within them) or of the quantiles of the trees' "
        "predictions stands in. Seconds: fitting and predicting."
    )
    report.table(("data", "model", "RMSE", "NLPD", "seconds"), rows)


def _learn(model: MondrianForestRegressor, X: Array, y: Array) -> None:
    import pandas as pd

    model.learn_many(pd.DataFrame(X), y)


def _holdout_row(
    name: str, model: str, error: Array, density: float, spent: float
) -> tuple[str, ...]:
    rmse = math.sqrt(np.mean(error**2))
    return name, model, f"{rmse:.4g}", f"{density:.3f}", f"{spent:.1f}"


def speed(data: DataFolder, report: Report, quick: bool) -> None:
    """Time of learning and predicting one sample against AMFRegressor, and memory."""
    MondrianForestRegressor.warmup()
    n, repeats = (500, 1) if quick else (3000, 3)
    rows, memory = [], []
    for name, samples in _streams(data, False):
        if name not in SPEED_TARGETS:
            continue
        part = samples[:n]
        names = list(part[0][0])
        scaled = min_max_stream(part)
        progress(f"speed: {name}")
        runs = repeated(repeats, partial(_calls, scaled), 2 * TURN)
        for call in ("learn", "learn, later", "predict"):
            middle, least, most = ratio(runs, "AMF", GAUSSIAN, call)
            count = len(part) - (min(WARM_START, len(part)) if call == "learn, later" else 0)
            target = SPEED_TARGETS[name] if call == "learn" else None
            rows.append(
                (
                    name,
                    call,
                    f"{median(runs, GAUSSIAN, call) / count * 1e6:.1f}",
                    f"{median(runs, MEAN, call) / count * 1e6:.1f}",
                    f"{median(runs, 'AMF', call) / count * 1e6:.0f}",
                    f"{middle:.0f}",
                    f"{least:.0f} - {most:.0f}",
                    "-" if target is None else f"{target:.0f}",
                    "-" if target is None else verdict(middle >= target),
                )
            )
        model = _ours()
        for x, y in samples:
            model.learn_one(x, y)
        per = model._raw_memory_usage / len(samples) / model.n_estimators
        memory.append((name, len(samples), len(names), f"{per:.0f}"))
    report.note(
        f"The first {n} samples at most, 10 trees, median of {repeats} repeats in one process, "
        f"test-then-learn by blocks of {BLOCK} samples; both fed the same min-max scaled stream. "
        "The ratio is AMF's time over that of the Gaussian posterior, choices of hyperparameters "
        f"included; learn, later: after the first {WARM_START} samples."
    )
    report.table(
        (
            "data",
            "call",
            "gaussian, us",
            "mean, us",
            "AMF, us",
            "ratio",
            "least - largest",
            "target",
            "reached",
        ),
        rows,
    )
    report.note("Memory, everything counted, after the whole stream:")
    report.table(("data", "samples", "features", "bytes per sample and tree"), memory)


def _calls(samples: Stream, seed: int) -> dict[str, Iterator[str]]:
    peers = {
        GAUSSIAN: MondrianForestRegressor(10, seed=seed),
        MEAN: MondrianForestRegressor(10, posterior="mean", seed=seed),
        "AMF": river_forest.AMFRegressor(n_estimators=10, seed=seed),
    }
    return {name: test_then_learn(peer, samples, "predict_one") for name, peer in peers.items()}


PARTS: dict[str, Callable[[DataFolder, Report, bool], None]] = {
    "streams": streams,
    "choice": choice,
    "holdout": holdout,
    "speed": speed,
}
