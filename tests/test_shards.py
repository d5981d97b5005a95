"""Tests of sharded forests without Ray: each node equals the node of a single model."""

import copy
import itertools
import pickle
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest
from attack.interrupts import interrupt
from attack.judging import some
from common import raises
from river import checks

import river_mondrian as rm
from river_mondrian.distributed import ShardedForest, shard
from river_mondrian.estimators.merging import divided, splits_at, united
from river_mondrian.partitions.mondrian.reading import box_at
from river_mondrian.posteriors.targets.scale_mixture import learn_tails

N_TREES = 5

GIVEN = [{"a": 1, "b": 1}, {"a": 1}]
FORESTS = {
    "classes": lambda: rm.MondrianForestClassifier(N_TREES, seed=1),
    "categories": lambda: rm.MondrianForestClassifier(N_TREES, seed=1),
    "drawn directions": lambda: rm.MondrianForestClassifier(N_TREES, directions=2, seed=1),
    "given directions": lambda: rm.MondrianForestClassifier(N_TREES, directions=GIVEN, seed=1),
    "targets": lambda: rm.MondrianForestRegressor(N_TREES, seed=1),
    "targets of levels": lambda: rm.MondrianForestRegressor(N_TREES, seed=1),
    "means": lambda: rm.MondrianForestRegressor(N_TREES, lifetime=grow, posterior="mean", seed=1),
}
# In these models, the first samples have a category.
CATEGORIES = ("categories", "targets of levels", "means")
forests = pytest.mark.parametrize("name", FORESTS)

# Tolerance of the learned distribution. Densities are added in another order, and each sum enters a
# decayed logarithm. The rounding errors of a hundred sums are below this tolerance.
TAILS_TOLERANCE = 1e-12


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


def stored(model):
    """Return the state of a model's trees, independent of its layout."""
    trees = model._trees
    names = {column.name for column in trees._layouts()["points"].columns} - {"columns", "links"}
    found = trees.shared.columns() | {name: trees.reader.column("points", name) for name in names}
    found = {name: column.tobytes() for name, column in found.items()}
    for t in range(trees.n_trees):
        values = [box_at(trees.forest, t, ~p) for p in range(trees.n_points)]
        found[t, "values"] = np.array(values)[:, 0, : trees.forest.n_dims].tobytes()
        found[t, "nodes"] = [pickle.dumps(vars(node)) for node in trees.reader.read(t, hidden=True)]
        for name, column in trees.trees.columns().items():
            if name not in ("slot", "first_value"):
                found[t, name] = column[t].tobytes()
    return found


def assert_same(one, other):
    these, those = stored(one), stored(other)
    assert these.keys() == those.keys()
    assert [name for name in these if these[name] != those[name]] == []
    if tails_of(one) is not None:
        np.testing.assert_allclose(tails_of(one), tails_of(other), TAILS_TOLERANCE, TAILS_TOLERANCE)


def begun(name, more=50):
    model, category = FORESTS[name](), name in CATEGORIES
    model.learn_many(*samples(model, splits_at(model) + more, 1, category))
    return model, category


def tails_of(model):
    tails = getattr(model._trees, "tails", None)
    return None if tails is None else tails.copy()


def learn_in_parts(parts, X, y, tails):
    """Let all parts learn a block, and update the learned distribution by their densities."""
    for part in parts:
        if tails is not None:
            part._trees.told = []
        part.learn_many(X, y)
    if tails is not None:
        told = [np.concatenate(part._trees.told) for part in parts if part._trees.told]
        for one in told[1:]:
            told[0][:, 1:] += one[:, 1:]
        learn_tails(tails, told[0])


@forests
def test_parts_learn_what_the_whole_does(name):
    whole, category = begun(name)
    parts = divided(whole, 2)
    assert [part.n_estimators for part in parts] == [2, 3]
    tails = tails_of(whole)
    assert_same(united(parts, tails), whole)
    for seed in range(2, 4):
        X, y = samples(whole, 150, seed, category, extra=seed == 3 and "drawn" not in name)
        whole.learn_many(X, y)
        learn_in_parts(parts, X, y, tails)
    assert_same(united(parts, tails), whole)
    # A part is a forest, so it can be divided again.
    again = united([parts[0], *divided(parts[1], 3)], tails)
    assert_same(again, whole)


def scattered(name, **params):
    """Return a model, and a sharded copy of it with two parts."""
    model, _ = begun(name)
    return model, ShardedForest.scatter(model, 2, **params)


def test_what_has_no_shards():
    classifier = rm.MondrianForestClassifier
    one, other = (begun("classes", more)[0] for more in (0, 1))
    for call, error, match in (
        (lambda: ShardedForest(rm.AdaptiveMondrianForestClassifier()), TypeError, "AdaptiveMond"),
        (lambda: ShardedForest(classifier(4, max_nodes=10)), ValueError, "with max_nodes cannot"),
        (
            lambda: ShardedForest(classifier(4, window=300)),
            ValueError,
            "cannot learn separately, got window=300",
        ),
        (lambda: ShardedForest(classifier(2), 3), ValueError, "2 trees cannot be divided into 3"),
        (lambda: divided(classifier(2), 2), ValueError, "first 256 samples together, there are 0"),
        (lambda: united([one, other]), ValueError, "shards have learned 256 and 257 samples"),
    ):
        raises(error, match, call)


def assert_predicts_the_same(sharded, whole, X):
    kind = "predict_proba_many" if hasattr(whole, "predict_proba_many") else "predict_many"
    found, expected = (getattr(model, kind)(X).to_numpy() for model in (sharded, whole))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    x = {name: value for name, value in X.iloc[0].items() if value == value}
    if isinstance(whole, rm.MondrianForestClassifier):
        assert sharded.predict_many(X).tolist() == whole.predict_many(X).tolist()
        assert sharded.predict_proba_one(x) == pytest.approx(whole.predict_proba_one(x), abs=1e-12)
    assert sharded.predict_one(x) == pytest.approx(whole.predict_one(x), rel=1e-12, abs=1e-12)
    if getattr(whole, "posterior", "mean") != "mean":
        one, other = (model.predict_one(x, with_dist=True) for model in (sharded, whole))
        found, expected = ([tails.var, *tails.interval(0.9)] for tails in (one, other))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        assert sharded.hyperparameters == whole.hyperparameters


@forests
def test_a_sharded_forest_is_the_one_model(name, engine):
    whole, category = FORESTS[name](), name in CATEGORIES
    sharded = ShardedForest(whole.clone(), 2, save_every=2)
    assert sharded.predict_one({"a": 0.1}) == whole.predict_one({"a": 0.1})
    # The blocks are: a block that crosses the start of sharding, a list, one sample, a new feature.
    first = samples(whole, splits_at(whole) + 20, 1, category)
    X, y = samples(whole, 60, 2, category)
    rows = [{k: v for k, v in row.items() if v == v} for row in X.to_dict("records")]
    wider = samples(whole, 60, 3, category, extra=True)
    for model in (whole, sharded):
        model.learn_many(*first)
        model.learn_many(X if model is whole else rows, y)
        model.learn_one(rows[0], y[0], w=2.0)
        model.learn_many(*wider, np.linspace(0.0, 2.0, 60))
    assert engine.n_calls > 0
    assert sharded.n_samples == whole.n_samples
    assert sharded.feature_names == whole.feature_names
    assert_predicts_the_same(sharded, whole, samples(whole, 30, 4, category, extra=True)[0])
    assert_same(sharded.gather(), whole)
    # The forest continues to learn, and so do copies and a forest made from the gathered model.
    others = [copy.deepcopy(sharded), ShardedForest.scatter(sharded.gather(), 3)]
    if not callable(whole.lifetime):
        others.append(pickle.loads(pickle.dumps(sharded)))
    X, y = samples(whole, 40, 5, category)
    whole.learn_many(X, y)
    for other in [sharded, *others]:
        other.learn_many(X, y)
        assert_same(other.gather(), whole)
    sharded.close()


def test_the_first_category_is_learned_by_the_whole(engine):
    whole = rm.MondrianForestClassifier(4, seed=1)
    sharded = ShardedForest(whole.clone(), 2)
    X, y = samples(whole, 300, 1, category=True)
    X.loc[:280, "c"] = None
    X.loc[290:, "d"] = 1.5
    for model in (whole, sharded):
        model.learn_many(X, y)
    assert_same(sharded.gather(), whole)


@pytest.mark.covering
@pytest.mark.parametrize("name", ["classes", "targets"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_worker_that_dies_is_replaced(name, when, engine):
    whole, _ = begun(name)
    blocks = [samples(whole, 25, seed) for seed in range(8)]
    # Eight blocks on two workers need 16 calls, and two more calls gather the results. Workers die
    # at the first call, around the calls after which workers save, and at the last call.
    assert_replaced(whole, blocks, (1, 5, 6, 7, 12, 17, 18), when, engine)


def assert_replaced(start, blocks, calls, when, engine):
    """Check that a forest whose worker dies at one of the calls learns all blocks."""
    whole = copy.deepcopy(start)
    for block in blocks:
        whole.learn_many(*block)
    for first in calls:
        engine.n_calls = 0
        # The second worker may die while blocks are sent again.
        engine.deaths = {first: when, first + 3: when}
        sharded = ShardedForest.scatter(start, 2, save_every=3, in_flight=2)
        for block in blocks:
            sharded.learn_many(*block)
        assert_same(sharded.gather(), whole)
        assert sharded.n_restarts > 0
        assert_predicts_the_same(sharded, whole, blocks[0][0])
        # Blocks are kept until the files of all workers contain them, and no longer.
        assert len(sharded._state._blocks) <= 3 + 2


def test_a_worker_that_dies_for_ever(engine):
    model, sharded = scattered("classes", in_flight=1)
    X, y = samples(model, 10, 2)
    engine.deaths = dict.fromkeys(range(1, 30), "before")
    sharded.learn_many(X, y)
    raises(RuntimeError, "worker of shard-0 has died 4 times", lambda: sharded.finish())
    # The fourth death causes no restart. The next call restarts both workers.
    assert sharded.n_restarts == 3
    engine.deaths = {}
    sharded.finish()
    assert sharded.n_restarts == 5
    model.learn_many(X, y)
    assert_predicts_the_same(sharded, model, X)


BAD = [
    (lambda X, y: X.__setitem__("a", X["a"].where(X.index != 3, np.inf)), ValueError, "'a'.*row 3"),
    (lambda X, y: y.__setitem__(4, None), (TypeError, ValueError), "row 4"),
    (lambda X, y: X.__setitem__("a", ["x"] * len(X)), TypeError, "'a' must be a number.*row 0"),
]


@pytest.mark.covering
@pytest.mark.parametrize("name", ["classes", "targets"])
@pytest.mark.parametrize("bad", range(len(BAD)))
@pytest.mark.parametrize("as_list", [False, True])
def test_a_bad_row_is_named_and_nothing_is_learned(name, bad, as_list, engine):
    model, sharded = scattered(name)
    X, y = samples(model, 10, 2)
    X, (spoil, error, match), n_calls = X.fillna(0.0), BAD[bad], engine.n_calls
    spoil(X, y)
    raises(error, match, lambda: sharded.learn_many(X.to_dict("records") if as_list else X, y))
    assert engine.n_calls == n_calls
    assert sharded.n_samples == model.n_samples
    assert_same(sharded.gather(), model)


def test_an_interrupted_call_leaves_whole_blocks(engine):
    """If the calling process is interrupted, a block is accepted completely or not at all."""
    whole, _ = begun("classes", 0)
    start, blocks = copy.deepcopy(whole), [samples(whole, 6, seed) for seed in range(3)]
    for block in blocks:
        whole.learn_many(*block)

    def is_traced(code):
        # Workers are in other processes, so an interruption does not reach them.
        return code.co_filename == shard.__file__ and not code.co_qualname.startswith("Shard.")

    for k in itertools.count(1, 3):
        sharded, n_raised = ShardedForest.scatter(start, 2, save_every=1, in_flight=1), 0
        for block in blocks:
            before = sharded.n_samples
            n_raised += interrupt(partial(sharded.learn_many, *block), k, is_traced)
            assert sharded.n_samples in (before, before + 6)
            if sharded.n_samples == before:
                sharded.learn_many(*block)
        assert_same(sharded.gather(), whole)
        if not n_raised:
            break
    assert k > 20


SHARDED = [rm.MondrianForestClassifier, rm.MondrianForestRegressor]
CHECKS = [(kind, c) for kind in SHARDED for c in checks.yield_checks(ShardedForest(kind(3), 2))]


@pytest.mark.parametrize("kind, check", some(CHECKS))
def test_rivers_checks(kind, check, engine):
    check(ShardedForest(kind(3, seed=1), 2))


def test_without_ray_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    whole = rm.MondrianForestClassifier(3, seed=1)
    sharded = ShardedForest(whole.clone(), 2)
    X, y = samples(whole, 300, 1)
    with pytest.raises(ImportError, match=r"needs ray, .* pip install 'river-mondrian\[ray\]'"):
        sharded.learn_many(X, y)
    # The forest has learned the rows before sharding, which need no worker, and can continue.
    n = sharded.n_samples
    whole.learn_many(X[:n], y[:n])
    assert n == splits_at(whole)
    assert_same(sharded.gather(), whole)
