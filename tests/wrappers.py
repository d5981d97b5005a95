"""River's wrappers with models of this package, and whether they work.

`python -m tests.wrappers` prints the lists of docs/guide/river.md.
"""

from __future__ import annotations

import copy
import pydoc
import random
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from river import anomaly, bandit, base, compose, linear_model, metrics, optim, preprocessing

from tests.test_contract import MODELS


def _of(kind: type) -> dict[str, Callable[[], Any]]:
    """Return functions that make a model of each class of a kind, by class name."""
    found: dict[str, Callable[[], Any]] = {}
    for make in MODELS.values():
        if isinstance(make(), kind):
            found.setdefault(type(make()).__name__, make)
    return found


CLASSIFIERS, REGRESSORS = _of(base.Classifier), _of(base.Regressor)
DETECTORS, MAPS = _of(base.AnomalyDetector), _of(base.Transformer)
KINDS = {"classifiers": CLASSIFIERS, "regressors": REGRESSORS}
KINDS |= {"detectors": DETECTORS, "feature maps": MAPS}


def logistic() -> Any:
    return linear_model.LogisticRegression(optim.SGD(0.1))


def mappings(n: int) -> Iterator[dict[str, float]]:
    rng = random.Random(7)
    for _ in range(n):
        yield {"a": rng.random(), "b": rng.random()}


# Targets of a sample: one of two classes, one of four classes, a number, and pairs.


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


# Functions that use a wrapped model and return the output for the last sample.


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
    """Use a model that selects the labels it learns."""
    for n, x in enumerate(mappings(120)):
        _, wants = model.predict_one(x)
        # A model without probabilities selects no labels.
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
    """A wrapper of River.

    Parameters
    ----------
    wrap
        A function that makes the wrapped model from River's class and a function that makes models.
        `wrap` may also be a mapping of the other arguments of River's class.
    target
        A function that returns the target of a sample.
    use
        A function that uses the wrapped model.
    asks_probabilities
        Whether the wrapped model must predict probabilities; with the hinge loss it cannot.

    """

    wrap: Callable[[Any, Callable[[], Any]], Any] | dict[str, Any]
    target: Callable[[Any], Any]
    use: Use = supervised
    asks_probabilities: bool = True

    def fits(self, name: str) -> bool:
        """Return whether a class of this package works in the wrapper."""
        return not self.asks_probabilities or name != "DualOGDClassifier"

    def result(self, path: str, make: Callable[[], Any]) -> Any:
        """Wrap a model in River's class at a path, use the wrapper, and return the output."""
        kind, wrap = pydoc.locate(f"river.{path}"), self.wrap
        model = kind(make(), **wrap) if isinstance(wrap, dict) else wrap(kind, make)
        return self.use(model, self.target)


def two_of(*more: Any, **named: Any) -> Callable[[Any, Callable[[], Any]], Any]:
    """Return a function that wraps two models; other arguments are copied for each wrapper."""
    return lambda kind, make: kind([make(), make()], *copy.deepcopy(more), **named)


def scaled(kind: Any, make: Callable[[], Any]) -> Any:
    return kind(preprocessing.StandardScaler(), make())


TWO = {"n_models": 2, "seed": 1}
EVEN = {"desired_dist": {False: 0.5, True: 0.5}, "seed": 1}
HARD = {"size": 20, "p": 0.5, "seed": 1}
GREEDY = bandit.EpsilonGreedy(0.1, seed=1)
BAGS = ["ADWINBaggingClassifier", "ADWINBoostingClassifier", "AdaBoostClassifier"]
BAGS += ["BOLEClassifier", "BaggingClassifier", "LeveragingBaggingClassifier", "SRPClassifier"]
SAMPLERS = ["RandomOverSampler", "RandomSampler", "RandomUnderSampler"]
OF_CLASSIFIERS = {
    "compose.Pipeline": Wrapper(scaled, four, asks_probabilities=False),
    "active.EntropySampler": Wrapper({"seed": 1}, two, asked),
    "drift.DriftRetrainingClassifier": Wrapper({}, two),
    **{f"ensemble.{name}": Wrapper(TWO, two) for name in BAGS},
    "ensemble.StackingClassifier": Wrapper(
        lambda kind, make: kind([make(), logistic()], logistic()), two
    ),
    "ensemble.VotingClassifier": Wrapper(lambda kind, make: kind([make(), logistic()]), two),
    "imblearn.HardSamplingClassifier": Wrapper(HARD, two),
    **{f"imblearn.{name}": Wrapper(EVEN, two, asks_probabilities=False) for name in SAMPLERS},
    "model_selection.BanditClassifier": Wrapper(two_of(metrics.Accuracy(), GREEDY), two),
    "model_selection.SuccessiveHalvingClassifier": Wrapper(
        two_of(metrics.Accuracy(), budget=100), two
    ),
    "multiclass.OneVsOneClassifier": Wrapper({}, four, asks_probabilities=False),
    "multiclass.OneVsRestClassifier": Wrapper({}, four),
    "multiclass.OutputCodeClassifier": Wrapper({"code_size": 6, "seed": 1}, four),
    "multioutput.ClassifierChain": Wrapper({}, pair_of_classes),
    "multioutput.MonteCarloClassifierChain": Wrapper({"m": 5, "seed": 1}, pair_of_classes),
    "multioutput.ProbabilisticClassifierChain": Wrapper({}, pair_of_classes),
    "multioutput.PerOutputClassifier": Wrapper({}, pair_of_classes, asks_probabilities=False),
    "multioutput.MultiClassEncoder": Wrapper({}, pair_of_classes),
    "compat.convert_river_to_sklearn": Wrapper({}, two, of_scikit_learn, asks_probabilities=False),
}

OF_REGRESSORS = {
    "compose.Pipeline": Wrapper(scaled, number),
    "compose.TargetTransformRegressor": Wrapper(
        {"func": lambda y: 3.0 * y, "inverse_func": lambda y: y / 3.0}, number
    ),
    "conf.RegressionJackknife": Wrapper({}, number),
    "ensemble.BaggingRegressor": Wrapper(TWO, number),
    "ensemble.EWARegressor": Wrapper(
        lambda kind, make: kind([make(), linear_model.LinearRegression()]), number
    ),
    "ensemble.SRPRegressor": Wrapper(TWO, number),
    "imblearn.ChebyshevOverSampler": Wrapper({}, number),
    "imblearn.ChebyshevUnderSampler": Wrapper({"seed": 1}, number),
    "imblearn.HardSamplingRegressor": Wrapper(HARD, number),
    "model_selection.BanditRegressor": Wrapper(two_of(metrics.MAE(), GREEDY), number),
    "model_selection.GreedyRegressor": Wrapper(two_of(metrics.MAE()), number),
    "model_selection.SuccessiveHalvingRegressor": Wrapper(
        two_of(metrics.MAE(), budget=100), number
    ),
    "multioutput.RegressorChain": Wrapper({}, pair_of_numbers),
    "multioutput.PerOutputRegressor": Wrapper({}, pair_of_numbers),
    "preprocessing.PredClipper": Wrapper({"y_min": -2.0, "y_max": 1.0}, number),
    "preprocessing.TargetMinMaxScaler": Wrapper({}, number),
    "preprocessing.TargetStandardScaler": Wrapper({}, number),
    "time_series.SNARIMAX": Wrapper(
        lambda kind, make: kind(p=3, d=0, q=1, regressor=make()), number, forecast
    ),
    "tree.HoeffdingTreeRegressor": Wrapper(lambda kind, make: kind(leaf_model=make()), number),
    "compat.convert_river_to_sklearn": Wrapper({}, number, of_scikit_learn),
}

OF_DETECTORS = {
    "anomaly.QuantileFilter": Wrapper({"q": 0.9}, two, scored),
    "anomaly.ThresholdFilter": Wrapper({"threshold": 0.9}, two, scored),
    "compose.Pipeline": Wrapper(
        lambda kind, make: kind(anomaly.QuantileFilter(make(), q=0.9), logistic()), two
    ),
}

OF_MAPS = {
    "compose.Pipeline": Wrapper(lambda *given: scaled(*given) | logistic(), two, probable),
    "compose.Grouper": Wrapper({"by": "group"}, two, mapped),
    **dict.fromkeys(
        ["compose.TransformerProduct", "compose.TransformerUnion"],
        Wrapper(lambda kind, make: kind(make(), compose.Select("a")), two, mapped),
    ),
}

WRAPPERS = {"classifiers": OF_CLASSIFIERS, "regressors": OF_REGRESSORS}
WRAPPERS |= {"detectors": OF_DETECTORS, "feature maps": OF_MAPS}


def pairs() -> Iterator[tuple[str, str, str]]:
    """Yield each kind of model with each of its wrappers and classes."""
    for kind, wrappers in WRAPPERS.items():
        for wrapper in wrappers:
            for name in KINDS[kind]:
                yield kind, wrapper, name


TITLES = {"detectors": "Anomaly detectors"}


def lists() -> str:
    """Return Markdown lists of the wrappers in which classes work, for each set of classes."""
    lines = []
    for kind, wrappers in WRAPPERS.items():
        lines += [f"### {TITLES.get(kind, kind.capitalize())}", ""]
        paths: dict[str, list[str]] = {}
        for path, wrapper in wrappers.items():
            names = ", ".join(f"`{name}`" for name in KINDS[kind] if wrapper.fits(name))
            paths.setdefault(names, []).append(path)
        for names, fitting in paths.items():
            lines += [*textwrap.wrap(f"{names}:", 110), ""]
            lines += [*(f"- `{path}`" for path in fitting), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(lists())
