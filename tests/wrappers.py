"""River's wrappers, and what each of them makes of a model of ours.

`python -m tests.wrappers` prints the table of docs/guide/river.md.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from river import (
    active,
    anomaly,
    bandit,
    compat,
    compose,
    conf,
    drift,
    ensemble,
    imblearn,
    linear_model,
    metrics,
    model_selection,
    multiclass,
    multioutput,
    optim,
    preprocessing,
    time_series,
    tree,
)

import river_mondrian as rm

CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "AdaptiveMondrianForestClassifier": lambda: rm.AdaptiveMondrianForestClassifier(2, seed=1),
    "MondrianForestClassifier": lambda: rm.MondrianForestClassifier(3, seed=1),
    "OGDClassifier": lambda: rm.OGDClassifier(_features(), seed=1),
    "DualOGDClassifier": lambda: rm.DualOGDClassifier(),
}
REGRESSORS: dict[str, Callable[[], Any]] = {
    "AdaptiveMondrianForestRegressor": lambda: rm.AdaptiveMondrianForestRegressor(2, seed=1),
    "MondrianForestRegressor": lambda: rm.MondrianForestRegressor(3, seed=1),
    "OGDRegressor": lambda: rm.OGDRegressor(_features(), seed=1),
    "RidgeRegressor": lambda: rm.RidgeRegressor(_features(), seed=1),
}
DETECTORS: dict[str, Callable[[], Any]] = {
    "DensityForest": lambda: rm.DensityForest(3, seed=1),
    "NearestNeighborDetector": lambda: rm.NearestNeighborDetector(window=64, seed=1),
    "RandomCutForest": lambda: rm.RandomCutForest(3, window=64, seed=1),
}
MAPS: dict[str, Callable[[], Any]] = {
    "IsolationFeatures": lambda: _features(),
    "MondrianFeatures": lambda: rm.MondrianFeatures(5, seed=1),
    "NystromFeatures": lambda: rm.NystromFeatures(16),
    "RandomBinningFeatures": lambda: rm.RandomBinningFeatures(5, seed=1),
    "RandomFourierFeatures": lambda: rm.RandomFourierFeatures(6, seed=1),
}
KINDS = {
    "classifiers": CLASSIFIERS,
    "regressors": REGRESSORS,
    "detectors": DETECTORS,
    "feature maps": MAPS,
}


def _features() -> Any:
    return rm.IsolationFeatures(6, 4, pool_size=32, seed=1)


def mappings(n: int) -> Iterator[dict[str, float]]:
    rng = random.Random(7)
    for _ in range(n):
        yield {"a": rng.random(), "b": rng.random()}


# What is learned of a sample: two classes, four, a number, and two of each.


def two(x: Any) -> Any:
    return x["a"] > x["b"]


def four(x: Any) -> Any:
    return "uvwx"[2 * (x["a"] > 0.5) + (x["b"] > 0.5)]


def number(x: Any) -> Any:
    return x["a"] - 2.0 * x["b"]


def pair_of_classes(x: Any) -> Any:
    return {"first": x["a"] > 0.5, "second": x["b"] > 0.5}


def pair_of_numbers(x: Any) -> Any:
    return {"first": x["a"], "second": x["a"] + x["b"]}


# How a wrapped model is put to use. Each returns what it says of a sample at last.


def supervised(model: Any, target: Callable[[Any], Any]) -> Any:
    for x in mappings(120):
        model.predict_one(x)
        model.learn_one(x, target(x))
    return model.predict_one({"a": 0.9, "b": 0.2})


def probable(model: Any, target: Callable[[Any], Any]) -> Any:
    supervised(model, target)
    found = model.predict_proba_one({"a": 0.9, "b": 0.2})
    assert abs(sum(found.values()) - 1.0) < 1e-9
    return found


def asked(model: Any, target: Callable[[Any], Any]) -> Any:
    """Use a model that says which labels it wants to know."""
    for n, x in enumerate(mappings(120)):
        _, wants = model.predict_one(x)
        # Nothing is asked before there are probabilities.
        if wants or n < 10:
            model.learn_one(x, target(x))
    return model.predict_one({"a": 0.9, "b": 0.2})[0]


def scored(model: Any, target: Callable[[Any], Any]) -> Any:
    for x in mappings(120):
        score = model.score_one(x)
        model.classify(score)
        model.learn_one(x)
    return score


def forecast(model: Any, target: Callable[[Any], Any]) -> Any:
    for x in mappings(120):
        model.learn_one(target(x))
    return model.forecast(horizon=3)


def mapped(model: Any, target: Callable[[Any], Any]) -> Any:
    for n, x in enumerate(mappings(120)):
        model.learn_one(x | {"group": n % 2})
    return model.transform_one({"a": 0.9, "b": 0.2, "group": 1})


def of_scikit_learn(model: Any, target: Callable[[Any], Any]) -> Any:
    rows = list(mappings(60))
    X = [[x["a"], x["b"]] for x in rows]
    model.fit(X, [target(x) for x in rows])
    return model.predict(X[:1]).tolist()


Use = Callable[[Any, Callable[[Any], Any]], Any]


@dataclass
class Wrapper:
    """A wrapper of River's.

    Parameters
    ----------
    wrap
        Makes the wrapped model of a function that makes models.
    target
        What is learned of a sample.
    use
        What is done with the wrapped model.
    asks_probabilities
        Whether the wrapped model has to have probabilities, as a classifier with the hinge loss has
        not.

    """

    wrap: Callable[[Callable[[], Any]], Any]
    target: Callable[[Any], Any]
    use: Use = supervised
    asks_probabilities: bool = True

    def fits(self, name: str) -> bool:
        """Tell whether a class of ours works in it."""
        return not self.asks_probabilities or name != "DualOGDClassifier"

    def result(self, make: Callable[[], Any]) -> Any:
        """Wrap a model, and put that to use."""
        return self.use(self.wrap(make), self.target)


def _of_model(kind: type, **arguments: Any) -> Callable[[Callable[[], Any]], Any]:
    return lambda make: kind(make(), **arguments)


OF_CLASSIFIERS = {
    "compose.Pipeline": Wrapper(
        lambda make: preprocessing.StandardScaler() | make(), four, asks_probabilities=False
    ),
    "active.EntropySampler": Wrapper(_of_model(active.EntropySampler, seed=1), two, asked),
    "drift.DriftRetrainingClassifier": Wrapper(_of_model(drift.DriftRetrainingClassifier), two),
    "ensemble.ADWINBaggingClassifier": Wrapper(
        _of_model(ensemble.ADWINBaggingClassifier, n_models=2, seed=1), two
    ),
    "ensemble.ADWINBoostingClassifier": Wrapper(
        _of_model(ensemble.ADWINBoostingClassifier, n_models=2, seed=1), two
    ),
    "ensemble.AdaBoostClassifier": Wrapper(
        _of_model(ensemble.AdaBoostClassifier, n_models=2, seed=1), two
    ),
    "ensemble.BOLEClassifier": Wrapper(_of_model(ensemble.BOLEClassifier, n_models=2, seed=1), two),
    "ensemble.BaggingClassifier": Wrapper(
        _of_model(ensemble.BaggingClassifier, n_models=2, seed=1), two
    ),
    "ensemble.LeveragingBaggingClassifier": Wrapper(
        _of_model(ensemble.LeveragingBaggingClassifier, n_models=2, seed=1), two
    ),
    "ensemble.SRPClassifier": Wrapper(
        lambda make: ensemble.SRPClassifier(make(), n_models=2, seed=1), two
    ),
    "ensemble.StackingClassifier": Wrapper(
        lambda make: ensemble.StackingClassifier(
            [make(), linear_model.LogisticRegression()], linear_model.LogisticRegression()
        ),
        two,
    ),
    "ensemble.VotingClassifier": Wrapper(
        lambda make: ensemble.VotingClassifier([make(), linear_model.LogisticRegression()]), two
    ),
    "imblearn.HardSamplingClassifier": Wrapper(
        _of_model(imblearn.HardSamplingClassifier, size=20, p=0.5, seed=1), two
    ),
    "imblearn.RandomOverSampler": Wrapper(
        _of_model(imblearn.RandomOverSampler, desired_dist={False: 0.5, True: 0.5}, seed=1),
        two,
        asks_probabilities=False,
    ),
    "imblearn.RandomSampler": Wrapper(
        _of_model(imblearn.RandomSampler, desired_dist={False: 0.5, True: 0.5}, seed=1),
        two,
        asks_probabilities=False,
    ),
    "imblearn.RandomUnderSampler": Wrapper(
        _of_model(imblearn.RandomUnderSampler, desired_dist={False: 0.5, True: 0.5}, seed=1),
        two,
        asks_probabilities=False,
    ),
    "model_selection.BanditClassifier": Wrapper(
        lambda make: model_selection.BanditClassifier(
            [make(), make()], metrics.Accuracy(), bandit.EpsilonGreedy(0.1, seed=1)
        ),
        two,
    ),
    "model_selection.SuccessiveHalvingClassifier": Wrapper(
        lambda make: model_selection.SuccessiveHalvingClassifier(
            [make(), make()], metrics.Accuracy(), budget=100
        ),
        two,
    ),
    "multiclass.OneVsOneClassifier": Wrapper(
        _of_model(multiclass.OneVsOneClassifier), four, asks_probabilities=False
    ),
    "multiclass.OneVsRestClassifier": Wrapper(_of_model(multiclass.OneVsRestClassifier), four),
    "multiclass.OutputCodeClassifier": Wrapper(
        _of_model(multiclass.OutputCodeClassifier, code_size=6, seed=1), four
    ),
    "multioutput.ClassifierChain": Wrapper(_of_model(multioutput.ClassifierChain), pair_of_classes),
    "multioutput.MonteCarloClassifierChain": Wrapper(
        _of_model(multioutput.MonteCarloClassifierChain, m=5, seed=1), pair_of_classes
    ),
    "multioutput.ProbabilisticClassifierChain": Wrapper(
        _of_model(multioutput.ProbabilisticClassifierChain), pair_of_classes
    ),
    "multioutput.PerOutputClassifier": Wrapper(
        _of_model(multioutput.PerOutputClassifier), pair_of_classes, asks_probabilities=False
    ),
    "multioutput.MultiClassEncoder": Wrapper(
        _of_model(multioutput.MultiClassEncoder), pair_of_classes
    ),
    "compat.convert_river_to_sklearn": Wrapper(
        lambda make: compat.convert_river_to_sklearn(make()),
        two,
        of_scikit_learn,
        asks_probabilities=False,
    ),
}

OF_REGRESSORS = {
    "compose.Pipeline": Wrapper(lambda make: preprocessing.StandardScaler() | make(), number),
    "compose.TargetTransformRegressor": Wrapper(
        lambda make: compose.TargetTransformRegressor(make(), lambda y: 3.0 * y, lambda y: y / 3.0),
        number,
    ),
    "conf.RegressionJackknife": Wrapper(_of_model(conf.RegressionJackknife), number),
    "ensemble.BaggingRegressor": Wrapper(
        _of_model(ensemble.BaggingRegressor, n_models=2, seed=1), number
    ),
    "ensemble.EWARegressor": Wrapper(
        lambda make: ensemble.EWARegressor([make(), linear_model.LinearRegression()]), number
    ),
    "ensemble.SRPRegressor": Wrapper(
        lambda make: ensemble.SRPRegressor(make(), n_models=2, seed=1), number
    ),
    "imblearn.ChebyshevOverSampler": Wrapper(_of_model(imblearn.ChebyshevOverSampler), number),
    "imblearn.ChebyshevUnderSampler": Wrapper(
        _of_model(imblearn.ChebyshevUnderSampler, seed=1), number
    ),
    "imblearn.HardSamplingRegressor": Wrapper(
        _of_model(imblearn.HardSamplingRegressor, size=20, p=0.5, seed=1), number
    ),
    "model_selection.BanditRegressor": Wrapper(
        lambda make: model_selection.BanditRegressor(
            [make(), make()], metrics.MAE(), bandit.EpsilonGreedy(0.1, seed=1)
        ),
        number,
    ),
    "model_selection.GreedyRegressor": Wrapper(
        lambda make: model_selection.GreedyRegressor([make(), make()], metrics.MAE()), number
    ),
    "model_selection.SuccessiveHalvingRegressor": Wrapper(
        lambda make: model_selection.SuccessiveHalvingRegressor(
            [make(), make()], metrics.MAE(), budget=100
        ),
        number,
    ),
    "multioutput.RegressorChain": Wrapper(_of_model(multioutput.RegressorChain), pair_of_numbers),
    "multioutput.PerOutputRegressor": Wrapper(
        _of_model(multioutput.PerOutputRegressor), pair_of_numbers
    ),
    "preprocessing.PredClipper": Wrapper(
        _of_model(preprocessing.PredClipper, y_min=-2.0, y_max=1.0), number
    ),
    "preprocessing.TargetMinMaxScaler": Wrapper(
        _of_model(preprocessing.TargetMinMaxScaler), number
    ),
    "preprocessing.TargetStandardScaler": Wrapper(
        _of_model(preprocessing.TargetStandardScaler), number
    ),
    "time_series.SNARIMAX": Wrapper(
        lambda make: time_series.SNARIMAX(p=3, d=0, q=1, regressor=make()), number, forecast
    ),
    "tree.HoeffdingTreeRegressor": Wrapper(
        lambda make: tree.HoeffdingTreeRegressor(leaf_model=make()), number
    ),
    "compat.convert_river_to_sklearn": Wrapper(
        lambda make: compat.convert_river_to_sklearn(make()), number, of_scikit_learn
    ),
}

OF_DETECTORS = {
    "anomaly.QuantileFilter": Wrapper(_of_model(anomaly.QuantileFilter, q=0.9), two, scored),
    "anomaly.ThresholdFilter": Wrapper(
        _of_model(anomaly.ThresholdFilter, threshold=0.9), two, scored
    ),
    "compose.Pipeline": Wrapper(
        lambda make: (
            preprocessing.MinMaxScaler()
            | anomaly.QuantileFilter(make(), q=0.9)
            | linear_model.LogisticRegression()
        ),
        two,
    ),
}

OF_MAPS = {
    "compose.Pipeline": Wrapper(
        lambda make: (
            preprocessing.StandardScaler()
            | make()
            | linear_model.LogisticRegression(optim.SGD(0.1))
        ),
        two,
        probable,
    ),
    "compose.Grouper": Wrapper(
        lambda make: compose.Grouper(make(), by="group"),
        two,
        mapped,
    ),
    "compose.TransformerProduct": Wrapper(
        lambda make: make() * compose.Select("a"),
        two,
        mapped,
    ),
    "compose.TransformerUnion": Wrapper(lambda make: make() + compose.Select("a"), two, mapped),
}

WRAPPERS = {
    "classifiers": OF_CLASSIFIERS,
    "regressors": OF_REGRESSORS,
    "detectors": OF_DETECTORS,
    "feature maps": OF_MAPS,
}


def pairs() -> Iterator[tuple[str, str, str]]:
    """Yield each kind of model with each of its wrappers and classes."""
    for kind, wrappers in WRAPPERS.items():
        for wrapper in wrappers:
            for name in KINDS[kind]:
                yield kind, wrapper, name


TITLES = {
    "classifiers": "Classifiers",
    "regressors": "Regressors",
    "detectors": "Detectors of anomalies",
    "feature maps": "Feature maps",
}


def tables() -> str:
    """Return what fits what, as Markdown."""
    lines = []
    for kind, wrappers in WRAPPERS.items():
        names = list(KINDS[kind])
        lines += [f"### {TITLES[kind]}", "", f"| River's | {' | '.join(f'`{n}`' for n in names)} |"]
        lines.append("|---" * (len(names) + 1) + "|")
        for path, wrapper in wrappers.items():
            cells = ["yes" if wrapper.fits(name) else "no" for name in names]
            lines.append(f"| `{path}` | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(tables())
