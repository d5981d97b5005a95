"""Forests whose trees learn in parts, without Ray: node by node those of the one model."""

import copy
import json
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from river import checks

import river_mondrian as rm
from river_mondrian.distributed import ShardedForest, shard
from river_mondrian.estimators.merging import divided, splits_at, united
from river_mondrian.files.store import DOCUMENT, read
from river_mondrian.partitions.mondrian.constants import DRAWING, NONE
from river_mondrian.posteriors.targets.scale_mixture import learn_law

N_TREES = 5

# What each kind of forest is made of, and whether samples have a category from the beginning.
FORESTS = {
    "classes": lambda: (rm.MondrianForestClassifier(N_TREES, seed=1), False),
    "categories": lambda: (rm.MondrianForestClassifier(N_TREES, seed=1), True),
    "drawn directions": lambda: (rm.MondrianForestClassifier(N_TREES, directions=2, seed=1), False),
    "given directions": lambda: (
        rm.MondrianForestClassifier(N_TREES, directions=[{"a": 1, "b": 1}, {"a": 1}], seed=1),
        False,
    ),
    "targets": lambda: (rm.MondrianForestRegressor(N_TREES, seed=1), False),
    "means": lambda: (
        rm.MondrianForestRegressor(N_TREES, lifetime=grow, posterior="mean", seed=1),
        True,
    ),
}
forests = pytest.mark.parametrize("name", FORESTS)

# Of its law, rounding aside: sums of densities are added in another order, and each enters a
# logarithm that is faded; a hundred of them add up to so many roundings.
LAW_TOLERANCE = 1e-12


def grow(n):
    return n**0.25


def samples(model, n, seed, category=False, extra=False):
    rng = np.random.default_rng(seed)
    columns = {"a": rng.normal(size=n), "b": rng.normal(size=n)}
    if category:
        columns["c"] = rng.choice(["x", "y", "z"], size=n)
    if extra:
        columns["d"] = rng.normal(size=n)
    X = pd.DataFrame(columns).mask(pd.DataFrame(rng.random((n, len(columns))) < 0.02).to_numpy())
    product = columns["a"] * columns["b"] + 0.1 * rng.standard_t(3, size=n)
    if isinstance(model, rm.MondrianForestClassifier):
        return X, np.digitize(product, [-0.5, 0.0, 0.5]).tolist()
    return X, product.tolist()


def stored(model, path):
    """Return the content of a model's file, except the distribution of targets."""
    rm.save(model, path)
    arrays, _ = read(path)
    law = arrays.pop("model/_trees/law_numbers", np.zeros(0))
    if model.rescale:
        arrays = in_order(arrays)
    return {name: array.tobytes() for name, array in arrays.items()}, law


def in_order(arrays):
    """Return what a file has of trees that have changed places with a spare one, in their order.

    What places have left of trees that were there before is left out.
    """
    arrays = {name: array.copy() for name, array in arrays.items()}
    document = json.loads(arrays[DOCUMENT].tobytes())
    trees = document["model"]["state"]["attributes"]["_trees"]["state"]["attributes"]
    records, shared = trees["trees"]["columns"], trees["shared"]["columns"]
    slots = arrays[records["slot"]].tolist()
    for table in ("nodes", "side_rows"):
        counts = trees[table]["table"]
        for path in trees[table]["columns"].values():
            parts = np.split(arrays[path], np.cumsum(counts)[:-1])
            arrays[path] = np.concatenate([parts[slot] for slot in slots])
        trees[table]["table"] = [counts[slot] for slot in slots]
    first_values = arrays[records["first_value"]].copy()
    n_trees, is_drawn = arrays[shared["n_trees"]][0], arrays[shared["phase"]][0] == DRAWING
    for path in records.values():
        arrays[path][n_trees + is_drawn :] = 0
    links, nodes = arrays[trees["points"]["columns"]["links"]][:, slots], trees["nodes"]
    ends = np.cumsum(nodes["table"])
    left, dims = (arrays[nodes["columns"][name]] for name in ("left", "dim"))
    known = np.zeros_like(links)
    for t, (end, n) in enumerate(zip(ends, nodes["table"], strict=True)):
        heads = left[end - n : end][dims[end - n : end] < 0]
        while len(heads):
            known[heads, t] = links[heads, t]
            heads = known[heads, t][known[heads, t] != NONE]
    arrays[trees["points"]["columns"]["links"]] = known
    capacity, points = int(arrays[shared["dim_capacity"]][0]), trees["points"]["columns"]
    values = arrays[points["values"]]
    if "inputs" in points and values.shape[1] == len(slots) * capacity:
        # Trees have changed columns, too.
        firsts = first_values[:, None] + np.arange(capacity)
        values = arrays[points["values"]] = values[:, firsts.ravel()]
        n_moved = arrays[shared["n_moved"]][0] if is_drawn else 0
        values[n_moved:, n_trees * capacity :] = 0.0
        arrays[records["first_value"]][:] = 0
    arrays[records["slot"]][:] = np.arange(len(slots))
    arrays[DOCUMENT] = np.frombuffer(json.dumps(document).encode(), np.uint8)
    return arrays


def assert_same(one, other, tmp_path):
    (these, law), (those, other_law) = stored(one, tmp_path / "1"), stored(other, tmp_path / "2")
    assert these.keys() == those.keys()
    assert [name for name in these if these[name] != those[name]] == []
    np.testing.assert_allclose(law, other_law, rtol=LAW_TOLERANCE, atol=LAW_TOLERANCE)


def begun(name, more=50):
    model, category = FORESTS[name]()
    model.learn_many(*samples(model, splits_at(model) + more, 1, category))
    return model, category


def law_of(model):
    law = getattr(model._trees, "law_numbers", None)
    return None if law is None else law.copy()


def learn_in_parts(parts, X, y, law):
    """Let all parts learn a block, and update the distribution by their densities."""
    for part in parts:
        if law is not None:
            part._trees.told = []
        part.learn_many(X, y)
    if law is not None:
        told = [np.concatenate(part._trees.told) for part in parts if part._trees.told]
        for one in told[1:]:
            told[0][:, 1:] += one[:, 1:]
        learn_law(law, told[0])


@forests
def test_parts_learn_what_the_whole_does(name, tmp_path):
    whole, category = begun(name)
    parts = divided(whole, 2)
    assert [part.n_estimators for part in parts] == [2, 3]
    law = law_of(whole)
    assert_same(united(parts, law), whole, tmp_path)
    for seed in range(2, 4):
        X, y = samples(whole, 150, seed, category, extra=seed == 3 and "drawn" not in name)
        whole.learn_many(X, y)
        learn_in_parts(parts, X, y, law)
    assert_same(united(parts, law), whole, tmp_path)
    # A part is a model like any other, that can be divided again.
    again = united([parts[0], *divided(parts[1], 3)], law)
    assert_same(again, whole, tmp_path)


def test_what_has_no_parts():
    with pytest.raises(TypeError, match="AdaptiveMondrianForestClassifier"):
        ShardedForest(rm.AdaptiveMondrianForestClassifier(4))
    with pytest.raises(ValueError, match="with max_nodes do not learn apart"):
        ShardedForest(rm.MondrianForestClassifier(4, max_nodes=10))
    with pytest.raises(ValueError, match="with a window do not learn apart, got window=300"):
        ShardedForest(rm.MondrianForestClassifier(4, window=300))
    with pytest.raises(ValueError, match="2 trees have no 3 parts"):
        ShardedForest(rm.MondrianForestClassifier(2), 3)
    with pytest.raises(ValueError, match="first 256 samples together, there are 0"):
        divided(rm.MondrianForestClassifier(2), 2)
    one, other = (begun("classes", more)[0] for more in (0, 1))
    with pytest.raises(ValueError, match="parts have learned 256 and 257 samples"):
        united([one, other])


def assert_predicts_the_same(sharded, whole, X):
    kinds = ["predict_proba_many"] if hasattr(whole, "predict_proba_many") else ["predict_many"]
    for kind in kinds:
        found, expected = (getattr(model, kind)(X).to_numpy() for model in (sharded, whole))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    x = {name: value for name, value in X.iloc[0].items() if value == value}
    if isinstance(whole, rm.MondrianForestClassifier):
        assert sharded.predict_many(X).tolist() == whole.predict_many(X).tolist()
        assert sharded.predict_proba_one(x) == pytest.approx(whole.predict_proba_one(x), abs=1e-12)
        assert sharded.predict_one(x) == whole.predict_one(x)
    else:
        assert sharded.predict_one(x) == pytest.approx(whole.predict_one(x), rel=1e-12, abs=1e-12)
        if whole.posterior == "mean":
            return
        one, other = (model.predict_one(x, with_dist=True) for model in (sharded, whole))
        assert one.var**0.5 == pytest.approx(other.var**0.5, rel=1e-11)
        one, other = (
            model.predict_one(x, with_dist=True).interval(0.9) for model in (sharded, whole)
        )
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
        assert sharded.hyperparameters == whole.hyperparameters


@forests
def test_a_sharded_forest_is_the_one_model(name, engine, tmp_path):
    whole, category = FORESTS[name]()
    sharded = ShardedForest(whole.clone(), 2, save_every=2)
    n = splits_at(whole)
    assert sharded.predict_one({"a": 0.1}) == whole.predict_one({"a": 0.1})
    # A block that crosses the beginning, one as a list, one sample, one with a new feature.
    for model in (whole, sharded):
        model.learn_many(*samples(model.model if model is sharded else model, n + 20, 1, category))
    X, y = samples(whole, 60, 2, category)
    whole.learn_many(X, y)
    rows = [{k: v for k, v in row.items() if v == v} for row in X.to_dict("records")]
    sharded.learn_many(rows, y)
    for model in (whole, sharded):
        model.learn_one(rows[0], y[0], w=2.0)
    X, y = samples(whole, 60, 3, category, extra=True)
    weights = np.linspace(0.0, 2.0, 60)
    for model in (whole, sharded):
        model.learn_many(X, y, weights)
    assert engine.n_calls > 0
    assert sharded.n_samples == whole.n_samples
    assert sharded.feature_names == whole.feature_names
    assert_predicts_the_same(sharded, whole, samples(whole, 30, 4, category, extra=True)[0])
    assert_same(sharded.gather(), whole, tmp_path)
    # The forest continues, and so do its copies and a forest made of the gathered model.
    others = [copy.deepcopy(sharded), ShardedForest.scatter(sharded.gather(), 3)]
    if not callable(whole.lifetime):
        others.append(pickle.loads(pickle.dumps(sharded)))
    X, y = samples(whole, 40, 5, category)
    whole.learn_many(X, y)
    for other in [sharded, *others]:
        other.learn_many(X, y)
        assert_same(other.gather(), whole, tmp_path)
    sharded.close()


def test_the_first_category_is_learned_by_the_whole(engine, tmp_path):
    whole = rm.MondrianForestClassifier(4, seed=1)
    sharded = ShardedForest(whole.clone(), 2)
    X, y = samples(whole, 300, 1, category=True)
    X.loc[:280, "c"] = None
    X.loc[290:, "d"] = 1.5
    for model in (whole, sharded):
        model.learn_many(X, y)
    assert_same(sharded.gather(), whole, tmp_path)


@pytest.mark.parametrize("name", ["classes", "targets"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_worker_that_dies_is_replaced(name, when, engine, tmp_path):
    whole, _ = begun(name)
    blocks = [samples(whole, 25, seed) for seed in range(8)]
    start = copy.deepcopy(whole)
    for X, y in blocks:
        whole.learn_many(X, y)
    X = blocks[0][0]
    # Of calls with eight blocks for two workers, and two for what they have learned: the first,
    # those with blocks after which they save and next to these, and the last.
    for first in (1, 5, 6, 7, 12, 17, 18):
        engine.n_calls = 0
        # The second death may come while blocks are sent again.
        engine.deaths = {first: when, first + 3: when}
        sharded = ShardedForest.scatter(start, 2, save_every=3, in_flight=2)
        for block in blocks:
            sharded.learn_many(*block)
        assert_same(sharded.gather(), whole, tmp_path)
        assert sharded.n_restarts > 0
        assert_predicts_the_same(sharded, whole, X)
        # Blocks are kept until all files have them, and no longer.
        assert len(sharded._state._blocks) <= 3 + 2


def test_a_worker_that_dies_for_ever(engine):
    model, _ = begun("classes")
    sharded = ShardedForest.scatter(model, 2, in_flight=1)
    X, y = samples(model, 10, 2)
    engine.deaths = dict.fromkeys(range(1, 30), "before")
    sharded.learn_many(X, y)
    with pytest.raises(RuntimeError, match="worker of shard-0 has died 4 times"):
        sharded.finish()
    engine.deaths = {}
    sharded.finish()
    model.learn_many(X, y)
    assert_predicts_the_same(sharded, model, X)


BAD = [
    (lambda X, y: X.__setitem__("a", X["a"].where(X.index != 3, np.inf)), ValueError, "'a'.*row 3"),
    (lambda X, y: y.__setitem__(4, None), (TypeError, ValueError), "row 4"),
    (lambda X, y: X.__setitem__("a", ["x"] * len(X)), TypeError, "'a' must be a number.*row 0"),
]


@pytest.mark.parametrize("name", ["classes", "targets"])
@pytest.mark.parametrize("bad", range(len(BAD)))
@pytest.mark.parametrize("as_list", [False, True])
def test_a_bad_row_is_named_and_nothing_is_learned(name, bad, as_list, engine, tmp_path):
    model, _ = begun(name)
    sharded = ShardedForest.scatter(model, 2)
    X, y = samples(model, 10, 2)
    X = X.fillna(0.0)
    spoil, error, match = BAD[bad]
    spoil(X, y)
    n_calls = engine.n_calls
    with pytest.raises(error, match=match):
        sharded.learn_many(X.to_dict("records") if as_list else X, y)
    assert engine.n_calls == n_calls
    assert sharded.n_samples == model.n_samples
    assert_same(sharded.gather(), model, tmp_path)


def test_an_interrupted_call_leaves_whole_blocks(engine, monkeypatch, tmp_path):
    """Whatever line of the crew is interrupted, a block has been accepted or not."""
    model, _ = begun("classes", 0)
    blocks = [samples(model, 6, seed) for seed in range(3)]

    def run(strike):
        sharded = ShardedForest.scatter(model, 2, save_every=1, in_flight=1)
        n_lines = 0

        def trace(frame, event, arg):
            nonlocal n_lines
            # A worker is another process.
            of_worker = frame.f_code.co_qualname.startswith("Shard.")
            if frame.f_code.co_filename != shard.__file__ or of_worker:
                return None
            if event == "line":
                n_lines += 1
                if n_lines == strike:
                    raise KeyboardInterrupt
            return trace

        for block in blocks:
            before = sharded.n_samples
            sys.settrace(trace)
            try:
                sharded.learn_many(*block)
            except KeyboardInterrupt:
                sys.settrace(None)
                assert sharded.n_samples in (before, before + 6)
                if sharded.n_samples == before:
                    sharded.learn_many(*block)
            finally:
                sys.settrace(None)
        return n_lines, sharded.gather()

    n_lines, whole = run(0)
    assert n_lines > 50
    for strike in range(1, n_lines + 1, 7):
        assert_same(run(strike)[1], whole, tmp_path)


SHARDED = {
    "classifier": lambda: ShardedForest(rm.MondrianForestClassifier(3, seed=1), 2),
    "regressor": lambda: ShardedForest(rm.MondrianForestRegressor(3, seed=1), 2),
}
CHECKS = [
    pytest.param(name, check, id=f"{name}-{check.__name__}")
    for name, make in SHARDED.items()
    for check in checks.yield_checks(make())
]


@pytest.mark.parametrize("name, check", CHECKS)
def test_rivers_checks(name, check, engine):
    check(SHARDED[name]())


def test_without_ray_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    sharded, whole = (rm.MondrianForestClassifier(3, seed=1) for _ in range(2))
    sharded = ShardedForest(sharded, 2)
    X, y = samples(whole, 300, 1)
    with pytest.raises(ImportError, match=r"needs ray, .* pip install 'river-mondrian\[ray\]'"):
        sharded.learn_many(X, y)
    # The forest has learned the rows that need no worker, and can continue.
    n = sharded.n_samples
    whole.learn_many(X[:n], y[:n])
    assert n == splits_at(whole)
    assert_same(sharded.gather(), whole, tmp_path)
