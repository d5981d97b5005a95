"""Functions of several test modules: models that have learned, kernels of helpers."""

import inspect
import pickle
from typing import get_type_hints

import pytest

import river_mondrian as rm
from river_mondrian.compiling.kernels import kernel


def fed(model, samples):
    """Let a model learn samples (mappings, or tuples with a target and a weight); return it."""
    for sample in samples:
        if isinstance(sample, tuple):
            model.learn_one(*sample)
        else:
            model.learn_one(sample)
    return model


def as_kernel(helper, decorator=kernel):
    """Return a kernel that calls a helper with the same arguments: Python cannot call helpers."""
    function = getattr(helper, "py_func", helper)
    names = ", ".join(inspect.signature(function).parameters)
    made = {"helper": helper, "__name__": __name__}
    exec(f"def call({names}):\n    return helper({names})", made)
    made["call"].__annotations__ = get_type_hints(function)
    return decorator(made["call"])


def as_kernels(*helpers, decorator=kernel):
    return [as_kernel(helper, decorator) for helper in helpers]


def refused(model, text=""):
    """Check that a damaged model is not restored."""
    with pytest.raises(rm.ModelFormatError, match=text):
        pickle.loads(pickle.dumps(model))
