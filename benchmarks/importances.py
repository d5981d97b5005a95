"""Feature importances, compared with permutation importances, and their cost."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from river import datasets
from river.datasets import synth
from scipy import stats

import river_mondrian as rm

from .data import DataFolder, Stream, available, stream, take
from .report import Report, progress
from .scores import FLOOR
from .timing import call_seconds

REPEATS = 3

CLASSIFIERS = {
    "exact": lambda seed: rm.MondrianForestClassifier(10, seed=seed),
    "adaptive": lambda seed: rm.AdaptiveMondrianForestClassifier(10, seed=seed),
}
REGRESSORS = {
    "gaussian": lambda seed: rm.MondrianForestRegressor(10, seed=seed),
    "mean": lambda seed: rm.MondrianForestRegressor(10, posterior="mean", seed=seed),
}


def _log_loss(model: Any, X: list[Any], y: list[Any]) -> float:
    chances = [model.predict_proba_one(x).get(label, 0.0) for x, label in zip(X, y, strict=True)]
    return -float(np.mean([math.log(max(p, FLOOR)) for p in chances]))


def _squared_error(model: Any, X: list[Any], y: list[Any]) -> float:
    return float(np.mean([(model.predict_one(x) - t) ** 2 for x, t in zip(X, y, strict=True)]))


Loss = Callable[[Any, list[Any], list[Any]], float]


def _permuted(model: Any, test: Stream, loss: Loss) -> dict[Any, float]:
    """Return the mean increase of the loss if the values of a feature are permuted, by feature."""
    rng = np.random.default_rng(0)
    X, y = [x for x, _ in test], [label for _, label in test]
    before, found = loss(model, X, y), {}
    for name in X[0]:
        after = []
        for _ in range(REPEATS):
            values = [X[i][name] for i in rng.permutation(len(X)).tolist()]
            mixed = [{**x, name: value} for x, value in zip(X, values, strict=True)]
            after.append(loss(model, mixed, y))
        found[name] = float(np.mean(after)) - before
    return found


def _numbers(samples: Stream) -> Stream:
    """Return samples without their string features."""
    return [({k: v for k, v in x.items() if not isinstance(v, str)}, y) for x, y in samples]


def _shuffled(data: DataFolder, name: str, n: int) -> Stream:
    """Return `n` shuffled samples of a set, so that training and test samples are similar."""
    arrays = data.load(name)
    order = np.random.default_rng(0).permutation(len(arrays["y_train"]))[:n]
    return stream(arrays["X_train"][order], arrays["y_train"][order])


def _classes(data: DataFolder, n: int) -> Iterator[tuple[str, Stream, set[Any] | None]]:
    """Yield streams with class labels, and the informative features if they are known."""
    for function, relevant in ((0, {"age"}), (2, {"age", "elevel"}), (6, None), (8, None)):
        yield f"Agrawal {function}", take(synth.Agrawal(function, seed=1), n), relevant
    yield "SEA", take(synth.SEA(seed=1), n), {0, 1}
    led = synth.LED(seed=1, noise_percentage=0.1, irrelevant_features=True)
    yield "LED", take(led, n), set(range(7))
    # Feature 0 is noise, and so are all features from 20 on.
    yield "Waveform", take(synth.Waveform(seed=1, has_noise=True), n), set(range(1, 20))
    rbf = synth.RandomRBF(seed_model=1, seed_sample=1, n_classes=4, n_features=10)
    yield "RandomRBF", take(rbf, n), None
    for name, made in (("Phishing", datasets.Phishing), ("ImageSegments", datasets.ImageSegments)):
        yield name, take(made(), n), None
    names = ("letter", "satimage", "elec2", "covtype")
    for name, samples in available(lambda name: _shuffled(data, name, n), names):
        yield name, samples, None


def _targets(data: DataFolder, n: int) -> Iterator[tuple[str, Stream, set[Any] | None]]:
    """Yield streams with targets, and the informative features if they are known."""
    yield "Friedman", take(synth.Friedman(seed=1), n), set(range(5))
    yield "Planes2D", take(synth.Planes2D(seed=1), n), set(range(7))
    yield "Mv, numbers", _numbers(take(synth.Mv(seed=1), n)), None
    names = ("kin8nm", "california", "cpu", "bike_hour")
    for name, samples in available(lambda name: _shuffled(data, name, n), names):
        yield name, samples, None


def _row(name: str, kind: str, model: Any, samples: Stream, relevant: Any, loss: Loss) -> list[Any]:
    n_test = len(samples) // 5
    train, test = samples[:-n_test], samples[-n_test:]
    for x, y in train:
        model.learn_one(x, y)
    permuted, own = _permuted(model, test, loss), model.feature_importances
    pairs = np.array([(permuted[feature], own.get(feature, 0.0)) for feature in permuted])
    rank, line = stats.spearmanr(*pairs.T)[0], stats.pearsonr(*pairs.T)[0]
    row = [name, len(train), len(pairs), kind, f"{rank:.2f}", f"{line:.2f}"]
    if relevant is None:
        return [*row, "", ""]
    for found in (own, permuted):
        ranked = sorted(found, key=lambda feature: -found[feature])
        row.append(f"{len(set(ranked[: len(relevant)]) & relevant)} of {len(relevant)}")
    return row


def permutation(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare importances with permutation importances on test samples.

    Correlation of importances with permutation importances. The forests have 10 trees and seed
    1, and learn four fifths of at most {n} samples. On the other samples, each feature is
    permuted {REPEATS} times. Its permutation importance is the mean increase of the log loss or
    of the squared error. The columns `rank` and `line` have Spearman's and Pearson's
    correlation of both importances. If k informative features are known, the column `found`
    counts the informative features among the k features with the largest importances. The last
    column has the same for permutation importances.
    """
    n, rows = 1000 if quick else 6000, []
    parts: tuple[tuple[Any, Any, Loss], ...] = (
        (_classes(data, n), CLASSIFIERS, _log_loss),
        (_targets(data, n), REGRESSORS, _squared_error),
    )
    for streams, models, loss in parts:
        for name, samples, relevant in streams:
            for kind, make in models.items():
                progress(f"permutation: {name}, {kind}")
                rows.append(_row(name, kind, make(1), samples, relevant, loss))
    report.about(permutation, n=n)
    headers = ("data", "n", "features", "forest", "rank", "line", "found", "by permutation")
    report.table(headers, rows)


def _weak(n: int, seed: int) -> Stream:
    """Return samples with three strong, two weak and five irrelevant features."""
    rng, samples = np.random.default_rng(seed), []
    for _ in range(n):
        normal, other, noise = rng.normal(size=3).tolist()
        x = {
            "normal": normal,
            "category": str(rng.choice(list("abcd"))),
            "exponential": rng.exponential(),
            "weak": other,
            "weak truth value": bool(rng.random() < 0.5),
            "noise": noise,
            "truth value": bool(rng.random() < 0.3),
            "Cauchy": rng.standard_cauchy(),
            "integer": int(rng.integers(50)),
            "levels": str(rng.choice(list("abcdefgh"))),
        }
        score = 1.2 * (normal + x["exponential"] - 1.0)
        score += {"a": -1.0, "c": 1.0}.get(x["category"], 0.0) + 0.35 * other
        score += 0.4 * (x["weak truth value"] - 0.5)
        samples.append((x, bool(rng.random() < 0.5) if rng.random() < 0.15 else score > 0.0))
    return samples


def _quarters(n: int, seed: int) -> Stream:
    """Return samples of Friedman, labelled by the quarter of the targets' distribution."""
    samples = take(synth.Friedman(seed=seed), n)
    edges = np.quantile([y for _, y in samples], [0.25, 0.5, 0.75])
    return [(x, int(np.searchsorted(edges, y))) for x, y in samples]


# By name: a function from n and a seed to a stream, and its numbers of strong and weak features.
# The strong features come first, then the weak features.
NOISY: dict[str, tuple[Callable[[int, int], Stream], int, int]] = {
    "generated": (_weak, 3, 2),
    "SEA": (lambda n, seed: take(synth.SEA(noise=0.2, seed=seed), n), 2, 0),
    "LED": (lambda n, seed: take(synth.LED(seed, 0.1, irrelevant_features=True), n), 7, 0),
    "Friedman": (_quarters, 5, 0),
}


def noise(data: DataFolder, report: Report, quick: bool) -> None:
    """Count the relevant and irrelevant features with importances above 0.

    Importances of the exact classifier with default parameters after n samples. The table has the
    shares of the strong, weak and irrelevant features whose importance is above 0, over {seeds}
    seeds. `generated` has 15 % random labels, and SEA 20 % wrong labels. A label of Friedman is
    the quarter of the targets' distribution that contains the target.
    """
    seeds, rows = 2 if quick else 10, []
    for name, (make, n_strong, n_weak) in NOISY.items():
        for n in (500,) if quick else (2000, 5000, 12_000):
            progress(f"noise: {name}, {n}")
            above: list[list[bool]] = [[], [], []]
            for seed in range(seeds):
                model, samples = rm.MondrianForestClassifier(seed=seed), make(n, seed)
                for x, y in samples:
                    model.learn_one(x, y)
                importances = model.feature_importances
                for k, feature in enumerate(samples[0][0]):
                    group = above[(k >= n_strong) + (k >= n_strong + n_weak)]
                    group.append(importances[feature] > 0.0)
            rows.append([name, n, *(f"{np.mean(g):.2f}" if g else "-" for g in above)])
    report.about(noise, seeds=seeds)
    report.table(("stream", "n", "strong", "weak", "irrelevant"), rows)


def speed(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the time of importances and of explanations.

    Processor time of importances and explanations. The forests have 10 trees and have learned n
    samples. Times are medians of 5 calls of feature_importances and of 20 calls of explain_one.
    """
    n, rows = 5000 if quick else 100_000, []
    for name, arrays in available(data.load, ("covtype", "letter")):
        samples = stream(arrays["X_train"], arrays["y_train"], n)
        for kind, make in (CLASSIFIERS | REGRESSORS).items():
            progress(f"speed: {name}, {kind}")
            model: Any = make(1)
            for x, y in samples:
                model.learn_one(x, float(y) if kind in REGRESSORS else y)
            whole = call_seconds(getattr, [(model, "feature_importances")] * 5)
            each = 1e3 * call_seconds(model.explain_one, [(x,) for x, _ in samples[:20]])
            medians = (f"{np.median(found):.2f}" for found in (whole, each))
            rows.append((name, len(samples), kind, *medians))
    report.about(speed)
    report.table(("data", "n", "forest", "importances, s", "explain_one, ms"), rows)


PARTS = (permutation, noise, speed)
