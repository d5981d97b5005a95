"""Functions for several test modules: samples, models, kernels, errors and child processes."""

import copy
import inspect
import os
import pickle
import subprocess
import sys
import traceback
import warnings
from typing import get_type_hints

import numpy as np
import pytest
from river import base
from scipy import stats

import river_mondrian as rm
from river_mondrian.compiling.kernels import kernel, ordered_sums

Exact, Adaptive = rm.MondrianForestClassifier, rm.AdaptiveMondrianForestClassifier
Targets, AdaptiveTargets = rm.MondrianForestRegressor, rm.AdaptiveMondrianForestRegressor


# Seconds after which a thread or process counts as hung, even on a slow machine.
HANGS = 300.0


def fed(model, samples):
    """Let a model learn samples (mappings, or tuples with target and weight); return the model.

    An unsupervised model learns only the mappings, and a monitor learns no weights.
    """
    takes_targets = not isinstance(model, base.AnomalyDetector | base.Transformer)
    is_monitor = isinstance(model, rm.DriftMonitor)
    for sample in samples:
        x, *rest = sample if isinstance(sample, tuple) else (sample,)
        rest = rest[:1] if is_monitor else rest
        model.learn_one(x, *(rest if takes_targets else ()))
    return model


def progressive(model, samples):
    """Return the prediction of each sample before the model learns it."""
    found = []
    for x, y in samples:
        found.append(model.predict_one(x))
        model.learn_one(x, y)
    return found


def accuracy(model, samples, start=0):
    """Return the accuracy from sample `start` on; each sample is predicted before it is learned."""
    pairs = zip(progressive(model, samples), samples, strict=True)
    return np.mean([found == y for found, (_, y) in pairs][start:])


def weights_of(n, seed):
    """Return random weights below and above 1, in single precision."""
    return np.random.default_rng(seed).exponential(size=n).astype(np.float32).tolist()


def restored(model):
    """Return a copy of a model, pickled and unpickled; unpickling runs all checks."""
    return pickle.loads(pickle.dumps(model))


def stream(n, seed=0, names=("a", "b"), n_classes=2):
    """Return samples with labels; in some samples a value is missing."""
    rng = np.random.default_rng(seed)
    samples = []
    for row in rng.normal(size=(n, len(names))).tolist():
        x = dict(zip(names, row, strict=True))
        y = int(sum(row) > 0.0) + (n_classes > 2) * int(row[0] > 1.0)
        if rng.random() < 0.1:
            del x[names[-1]]
        samples.append((x, y))
    return samples


def has_probabilities(model):
    """Return whether a classifier predicts probabilities; hinge-loss classifiers do not."""
    return getattr(model, "loss", None) != "hinge" and not isinstance(model, rm.DualOGDClassifier)


def answer(model, x):
    """Return all results of a model for a sample, by name."""
    if isinstance(model, base.Classifier):
        if has_probabilities(model):
            found = model.predict_proba_one(x)
        elif isinstance(model, rm.DualOGDClassifier):
            found = model.decision_one(x)
        else:
            found = {"label": model.predict_one(x)}
        return {repr(label): value for label, value in found.items()}
    if getattr(model, "posterior", "mean") == "gaussian":
        law = model.predict_one(x, with_dist=True)
        return {"mean": law.mean, "variance": law.var}
    if isinstance(model, base.Regressor):
        return {"mean": model.predict_one(x)}
    if isinstance(model, base.Transformer):
        return model.transform_one(x)
    if isinstance(model, rm.DensityForest):
        return {"score": model.surprise_one(x)}
    if isinstance(model, rm.DriftMonitor):
        # A monitor does not predict. The result is the evidence after a copy has learned `x`.
        made = copy.deepcopy(model)
        made.learn_one(x)
        known = made._table.learned
        found = {"filled": float(np.nansum(known["filled"])), "drifts": float(len(made.log))}
        return found | {f"{c}": e for c, e in enumerate(known["evidence"].sum(axis=1).tolist())}
    found = {"score": model.score_one(x)}
    if isinstance(model, rm.NearestNeighborDetector):
        found["raw"] = model.raw_score_one(x)
    return found | (model.raw_scores_one(x) if isinstance(model, rm.RandomCutForest) else {})


def answers(model, seed=9, **kind):
    return [answer(model, x) for x, _ in stream(12, seed, **kind)]


def learn_rows(trees, X, y, weights=None):
    """Let trees learn rows one by one; return the trees."""
    weights = [1.0] * len(y) if weights is None else weights
    for x, target, weight in zip(X, y, weights, strict=True):
        trees.vector[: len(x)] = x
        assert trees.learn(target, weight) < 0
    return trees


def as_kernel(helper, decorator=kernel):
    """Return a kernel that calls a helper, because Python cannot call compiled helpers."""
    function = getattr(helper, "py_func", helper)
    names = ", ".join(inspect.signature(function).parameters)
    made = {"helper": helper, "__name__": __name__}
    exec(f"def call({names}):\n    return helper({names})", made)
    made["call"].__annotations__ = get_type_hints(function)
    return decorator(made["call"])


def ordered_kernel(function):
    return kernel(ordered_sums(function))


def as_kernels(*helpers, decorator=kernel):
    return [as_kernel(helper, decorator) for helper in helpers]


def raises(error, message, *calls):
    """Check that each call raises an error with a message."""
    for call in calls:
        with pytest.raises(error, match=message):
            call()


def refused(model, text=""):
    """Check that a damaged model cannot be unpickled."""
    raises(rm.ModelFormatError, text or None, lambda: pickle.loads(pickle.dumps(model)))


def assert_one_law(first, second, level):
    """Compare the distributions of two samples of rows, each column at a level."""
    for one, other in zip(np.transpose(first), np.transpose(second), strict=True):
        values = np.unique([*one, *other])
        if len(values) == 1:
            continue
        if len(values) < 6:
            p = stats.chi2_contingency([(own == values[:, None]).sum(1) for own in (one, other)])
        else:
            p = stats.ks_2samp(one, other)
        assert p.pvalue > level


def run(*arguments, inherited=os.environ, **environ):
    """Run Python in a new process; return its output and its errors."""
    command, environ = [sys.executable, *arguments], inherited | environ
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def forked(call):
    """Fork a child process that makes a call and exits with the result; return its id."""
    with warnings.catch_warnings():
        # Python 3.12 and later versions warn that other threads may hold locks. Tests check this
        # case.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    try:
        os._exit(call())
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def exit_of(child):
    """Wait for a child process; return its exit code, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
