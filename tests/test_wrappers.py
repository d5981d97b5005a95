"""Tests of all classes in River's wrappers and in other compositions."""

import math
import pickle
from pathlib import Path

import pytest
from attack.judging import some
from common import fed, raises, stream
from river import utils
from test_modes import flat

import river_mondrian as rm
from tests import wrappers
from tests.test_contract import MODELS

PAGE = Path(__file__).parent.parent / "docs" / "guide" / "river.md"


@pytest.mark.parametrize(("kind", "path", "name"), some(wrappers.pairs()))
def test_a_class_in_a_wrapper(kind, path, name):
    wrapper = wrappers.WRAPPERS[kind][path]
    if not wrapper.fits(name):
        with pytest.raises(NotImplementedError, match="no probabilities: use OGDClassifier"):
            wrapper.result(path, wrappers.KINDS[kind][name])
        return
    found = wrapper.result(path, wrappers.KINDS[kind][name])
    assert found is not None and found != {}
    assert all(math.isfinite(one) for one in flat(found) if isinstance(one, float))


def test_the_lists_of_the_docs():
    assert wrappers.lists().strip() in PAGE.read_text()


@pytest.mark.parametrize("name", MODELS)
def test_clones_of_learned_models_begin_anew(name):
    model = MODELS[name]()
    fresh = pickle.dumps(model.clone())
    fed(model, stream(40))
    assert pickle.dumps(model.clone()) == fresh
    assert model.clone()._get_params() == model._get_params() or "features" in model._get_params()


@pytest.mark.parametrize("name", MODELS)
def test_what_may_be_mutated(name):
    model = MODELS[name]()
    fed(model, stream(40))
    arguments = set(model._get_params())
    for argument in arguments - model._mutable_attributes:
        with pytest.raises(ValueError, match=f"'{argument}' is not a mutable attribute"):
            model.mutate({argument: 3})
    if "n_jobs" in arguments:
        model.mutate({"n_jobs": 2})
        assert model.n_jobs == 2
    raises(ValueError, "'nothing' is not an attribute", lambda: model.mutate({"nothing": 1}))


def test_a_grid_of_parameters():
    grid = {"n_estimators": [1, 3]}
    models = utils.expand_param_grid(rm.MondrianForestClassifier(seed=1), grid)
    assert [model.n_estimators for model in models] == [1, 3]
    grid = {"features": (rm.IsolationFeatures, {"n_cells": [2, 4]}), "loss": ["log", "hinge"]}
    models = utils.expand_param_grid(rm.OGDClassifier(rm.IsolationFeatures()), grid)
    found = {(model.features.n_cells, model.loss) for model in models}
    assert found == {(2, "log"), (2, "hinge"), (4, "log"), (4, "hinge")}
