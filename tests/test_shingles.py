"""Kinds of features in samples that are joined: those of samples that are not."""

from __future__ import annotations

import pickle

import pandas as pd
import polars as pl
import pytest

from river_mondrian import ModelFormatError, RandomCutForest

FRAMES = [pd.DataFrame, pl.DataFrame]


def learned(samples, shingle=3):
    model = RandomCutForest(3, window=40, shingle=shingle, seed=1)
    for x in samples:
        model.learn_one(x)
    return model


@pytest.mark.parametrize(
    ("before", "bad", "text"),
    [
        ([{"a": "red"}], {"a": 1.0}, "'a' must be a level of a category, as before, got 1.0"),
        ([{"a": True}], {"a": 1.0}, "'a' must be a level of a category, as before, got 1.0"),
        ([{"a": 1.0}], {"a": "red"}, "'a' must be a number, got 'red'"),
        ([{"a": 1.0}, {"b": 1.0}], {"a": "red"}, "'a' must be a number, got 'red'"),
        # The feature is in the trees, and not among the samples before.
        ([{"a": 1.0}, *[{"b": 1.0}] * 4], {"a": "red"}, "'a' must be a number, got 'red'"),
    ],
)
def test_a_feature_is_of_one_kind_from_its_first_value_on(before, bad, text):
    """Of what is refused nothing is kept, and what is of its kind is learned then as before."""
    model, other = learned(before), learned(before)
    for call in (model.learn_one, model.score_one, model.explain_one):
        with pytest.raises(TypeError, match=text):
            call(bad)
    for x in [{"b": 2.0}, before[0], {}] * 10:
        model.learn_one(x)
        other.learn_one(x)
    assert model.n_samples == len(before) + 28
    assert pickle.dumps(model) == pickle.dumps(other)


def test_truth_values_are_numbers_where_the_feature_is_one():
    values = [0.0, True, 1.0, False, 0.0] * 10
    model = learned([{"a": value} for value in values])
    other = learned([{"a": float(value)} for value in values])
    assert pickle.dumps(model) == pickle.dumps(other)
    assert model.score_one({"a": True}) == model.score_one({"a": 1.0})


@pytest.mark.parametrize("frame", FRAMES)
def test_columns_are_of_their_features_kinds(frame):
    model = learned([{"a": float(i % 2), "c": "rgb"[i % 3]} for i in range(60)])
    flags = [True, False, True, True]
    expected = model.score_many(frame({"a": [float(flag) for flag in flags], "c": [*"rrgb"]}))
    assert list(model.score_many(frame({"a": flags, "c": [*"rrgb"]}))) == list(expected)
    before = pickle.dumps(model)
    for bad, text in (
        ({"a": [1.0, 2.0], "c": [1.0, 2.0]}, "'c' must be a level of a category, as before"),
        ({"a": ["x", "y"], "c": [*"rg"]}, "'a' must be a number, got 'x'"),
    ):
        for call in (model.score_many, model.learn_many):
            with pytest.raises(TypeError, match=text):
                call(frame(bad))
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("shingle", [1, 3])
def test_known_ranges_are_those_of_all_values_of_a_feature(shingle):
    model = RandomCutForest(2, shingle=shingle, seed=1, ranges={"a": (-4.0, 4.0)})
    for i in range(300):
        model.learn_one({"a": i % 7, "b": i % 5})
    for name, width in pickle.loads(pickle.dumps(model)).widths.items():
        own = name if shingle == 1 else name[0]
        assert width == {"a": 8.0, "b": 4.0}[own]
    assert len(model.widths) == 2 * shingle


@pytest.mark.parametrize("shingle", [1, 3])
def test_samples_without_features(shingle):
    model = learned([{}] * 50, shingle)
    assert model.score_one({}) == 0.5
    assert model.explain_one({}) == model.explain_one({"a": 1.0}) == {}


@pytest.mark.parametrize("value", [float("inf"), 1e40, -1e40, 2.0**202, float("nan"), 1])
def test_a_damaged_past_is_refused(value):
    model = learned([{"a": 1.0}] * 5)
    model._past = model.n_samples, ({"a": value}, {"a": 1.0}), ()
    with pytest.raises(ModelFormatError, match="_past"):
        pickle.loads(pickle.dumps(model))
