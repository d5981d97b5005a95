"""Errors, distributions and speed of the exact regressor, compared with other libraries."""

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from river import conf, datasets, forest, tree
from river.datasets import synth
from scipy import stats

from river_mondrian import MondrianForestRegressor

from .adaptive_regressor.models import LINEAR, MODELS, Model, Prediction, law, point, scaled
from .adaptive_regressor.scores import LEVELS, mean_of, number, run
from .data import Array, DataFolder, Stream, available, min_max, min_max_stream, stream, take
from .report import Report, progress
from .timing import TURN, WARM_START, compared, in_turns, repeated, test_then_learn

MOST = 8192  # Largest number of samples of a stream.
GAUSSIAN, NORMAL, MEAN = "Mondrian, gaussian", "Mondrian, normal tails", "Mondrian, mean"


def load_streams(data: DataFolder, quick: bool) -> Iterator[tuple[str, Stream]]:
    """Yield the name and the samples of each stream."""
    most = 500 if quick else MOST
    yield "TrumpApproval", take(datasets.TrumpApproval(), most)
    yield "ChickWeights", take(datasets.ChickWeights(), most)
    flow = take(datasets.WaterFlow(), most)
    coded = [({"hour": x["Time"].hour, "weekday": x["Time"].weekday()}, y) for x, y in flow]
    yield "WaterFlow", coded
    for name, arrays in available(data.load, ("cpu", "california", "bike_hour", "kin8nm")):
        yield name, stream(arrays["X_train"], arrays["y_train"].astype(float), most)
    yield "Friedman", take(synth.Friedman(seed=42), most)


class _Started(forest.AMFRegressor):
    """AMF that predicts 0 before the first sample, as the jackknife requires."""

    def predict_one(self, x: dict[Any, float]) -> float:
        found = super().predict_one(x)
        return 0.0 if found is None else found


def _interval(model: Any, x: dict[Any, float]) -> Prediction:
    mean, interval = model.predict_one(x), model.predict_one(x, with_interval=True)
    return mean, (interval.lower, interval.upper)


def _ours(predict: Callable[..., Prediction], **options: Any) -> Model:
    return Model(lambda seed: MondrianForestRegressor(10, seed=seed, **options), predict)


PEERS: dict[str, Model] = {
    GAUSSIAN: _ours(law),
    f"{GAUSSIAN}, raw": _ours(law, scale=False),
    NORMAL: _ours(law, tails="normal"),
    f"{NORMAL}, raw": _ours(law, tails="normal", scale=False),
    MEAN: _ours(point, posterior="mean"),
    f"{MEAN}, raw": _ours(point, posterior="mean", scale=False),
    "AMF, scaled": MODELS["AMF, scaled"],
    "AMF, raw": MODELS["AMF, raw"],
    "Jackknife(AMF, raw)": Model(
        lambda seed: conf.RegressionJackknife(_Started(n_estimators=10, seed=seed), 0.95), _interval
    ),
    "ARF": MODELS["ARF"],
    "SGT": Model(lambda seed: scaled(tree.SGTRegressor()), point),
    LINEAR: MODELS[LINEAR],
}


def streams(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare progressive errors, log likelihoods, CRPS and coverage on eight streams.

    Errors, log likelihoods, CRPS and coverage on eight streams. At most the first {most}
    samples are used, with one seed and 10 trees. Log likelihood, CRPS (of every tenth sample)
    and the coverage of central intervals exclude the first tenth. By default the tails and the
    scale of the Gaussian posterior's variances are learned from earlier targets. Models with
    normal tails assume normal noise instead. Raw features are not scaled. By default the
    Mondrian forest scales features itself, and MinMaxScaler scales features for River's models.
    The linear model gets standardized features and targets. Log densities below -700 are raised
    to -700. Seconds include learning and predictions, with a distribution if possible.
    """
    report.about(streams, most=500 if quick else MOST)
    for name, samples in load_streams(data, quick):
        progress(f"streams: {name}")
        peers = {peer: partial(run, model, samples, 0) for peer, model in PEERS.items()}
        found = {k: outs[0] for k, outs in in_turns(peers, dict.fromkeys(peers, 1)).items()}
        report.heading(f"{name}, {len(samples)} samples, {len(samples[0][0])} features")
        rows = []
        for peer, out in found.items():
            values = [number(mean_of([out], what)) for what in ("mae", "rmse", "log", "crps")]
            whole = out.get("coverage", [()])[0]
            inside = [f"{c:.2f}" for c in whole] or ["-"] * len(LEVELS)
            if "log" not in out:  # The model predicts only 95 % intervals.
                inside[:-1] = ["-"] * (len(LEVELS) - 1)
            rows.append((peer, *values, *inside, f"{out['seconds']:.1f}"))
        headers = ("model", "MAE", "RMSE", "log likelihood", "CRPS")
        report.table((*headers, *(f"in {q:.0%}" for q in LEVELS), "seconds"), rows)
        for peer, out in found.items():
            if "failure" in out:
                report.note(f"{peer} fails: {out['failure']}.")


def holdout(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare RMSE and negative log density on test data with scikit-learn's models.

    Errors and densities on test data, compared with scikit-learn's models. Half of the rows in
    random order (at most {half}) are for training, and as many are for testing. Features are
    scaled by the training range. The forests have {trees} trees, and the Mondrian forest has
    normal tails. NLPD is the mean negative log predictive density. The forests of scikit-learn
    predict no density, so two normal densities are derived. One density has the variance over
    trees plus the mean squared training error of the trees. The other density is fitted to the
    quantiles of the trees' predictions. Seconds include fitting and predicting.
    """
    trees, most = (10, 1000) if quick else (100, 20_000)
    rows = []
    for name, arrays in available(data.load, ("kin8nm", "california")):
        order = np.random.default_rng(0).permutation(len(arrays["y_train"]))
        X, y = arrays["X_train"][order].astype(float), arrays["y_train"][order].astype(float)
        half = min(len(y) // 2, most // 2)
        X_train, X_test = min_max(X[:half], X[half : 2 * half])
        for model, mean, density, spent in _held_out(
            X_train, y[:half], X_test, y[half : 2 * half], trees, 200 if quick else 1500
        ):
            progress(f"holdout: {name}, {model}")
            rmse = math.sqrt(np.mean((mean - y[half : 2 * half]) ** 2))
            rows.append((name, model, f"{rmse:.4g}", f"{density:.3f}", f"{spent:.1f}"))
    report.about(holdout, half=most // 2, trees=trees)
    report.table(("data", "model", "RMSE", "NLPD", "seconds"), rows)


def _held_out(
    X: Array, y: Array, X_test: Array, y_test: Array, trees: int, n_process: int
) -> Iterator[tuple[str, Array, float, float]]:
    """Yield the name of each model, its test predictions, its NLPD and its seconds."""
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    def nlpd(mean: Array, spread: Any) -> float:
        return float(-stats.norm.logpdf(y_test, mean, spread).mean())

    for least in (2, 10):
        begun = time.perf_counter()
        model = MondrianForestRegressor(trees, min_samples_split=least, tails="normal", seed=1)
        model.learn_many(pd.DataFrame(X), y)
        laws = [model.predict_one(dict(enumerate(x)), with_dist=True) for x in X_test.tolist()]
        spent = time.perf_counter() - begun
        density = np.mean([-law.log_pdf(t) for law, t in zip(laws, y_test, strict=True)])
        means = np.array([law.mean for law in laws])
        yield f"{GAUSSIAN}, split from {least}", means, float(density), spent
    for kind in (RandomForestRegressor, ExtraTreesRegressor):
        begun = time.perf_counter()
        fitted = kind(trees, min_samples_leaf=5, random_state=0).fit(X, y)
        each = np.array([one.predict(X_test) for one in fitted.estimators_])
        within = np.mean([(one.predict(X) - y) ** 2 for one in fitted.estimators_])
        spent = time.perf_counter() - begun
        mean, spread = each.mean(axis=0), np.sqrt(each.var(axis=0) + within)
        yield kind.__name__, mean, nlpd(mean, spread), spent
        low, middle, high = np.quantile(each, [0.159, 0.5, 0.841], axis=0)
        spread = np.maximum((high - low) / 2.0, 1e-3 * y.std())
        yield f"{kind.__name__}, quantiles", middle, nlpd(middle, spread), spent
    begun = time.perf_counter()
    kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(kernel, normalize_y=True).fit(X[:n_process], y[:n_process])
    mean, spread = process.predict(X_test, return_std=True)
    spent = time.perf_counter() - begun
    yield f"Gaussian process on {n_process} rows", mean, nlpd(mean, spread), spent


def speed(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the time to learn and predict a sample with AMFRegressor; measure memory.

    Processor time to learn and predict a sample, compared with AMFRegressor. At most the first
    {n} samples are used, with 10 trees. Times are medians of {repeats} repeats in one process.
    All models get the same min-max scaled stream, in blocks of 100 samples that are predicted
    and then learned. The ratio is AMF's time divided by the time with the Gaussian posterior,
    which includes updates of hyperparameters. The rows `learn, later` exclude the first
    {warm_start} samples.
    """
    MondrianForestRegressor.warmup()
    n, repeats = (500, 1) if quick else (3000, 3)
    rows, memory, timed = [], [], (GAUSSIAN, MEAN, "AMF, raw")
    for name, samples in load_streams(data, False):
        if name not in ("cpu", "TrumpApproval"):
            continue
        part = min_max_stream(samples[:n])
        progress(f"speed: {name}")

        def calls(seed: int, part: Stream = part) -> dict[str, Iterator[str]]:
            models = {k: PEERS[k].make(seed) for k in timed}
            return {k: test_then_learn(m, part, "predict_one") for k, m in models.items()}

        runs = repeated(repeats, calls, 2 * TURN, time.process_time)
        for call in ("learn", "learn, later", "predict"):
            _, us, (middle, least, most) = compared(runs, timed, call, len(part))
            texts = f"{us[0]:.1f}", f"{us[1]:.1f}", f"{us[2]:.0f}"
            rows.append((name, call, *texts, f"{middle:.0f}", f"{least:.0f} - {most:.0f}"))
        model = MondrianForestRegressor(10, seed=1)
        for x, y in samples:
            model.learn_one(x, y)
        per = model._raw_memory_usage / len(samples) / model.n_estimators
        memory.append((name, len(samples), len(samples[0][0]), f"{per:.0f}"))
    report.about(speed, n=n, repeats=repeats, warm_start=WARM_START)
    headers = ("gaussian, us", "mean, us", "AMF, us", "ratio", "smallest - largest")
    report.table(("data", "call", *headers), rows)
    report.note("The next table has the memory of the Gaussian model after all samples.")
    report.table(("data", "samples", "features", "bytes per sample and tree"), memory)


PARTS = (streams, holdout, speed)
