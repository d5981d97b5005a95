"""Tests of forests, streams and data sets on Ray, with killed workers."""

import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest
from broker import wait_until
from common import fed, raises
from test_merging import ORIGIN, rows
from test_shards import assert_predicts_the_same, assert_same, begun, samples, scattered

import river_mondrian as rm
from river_mondrian.distributed import KeyedModels, ShardedForest, SpreadKeyedModels, learn_dataset

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install river-mondrian[ray]")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.parametrize("name", ["classes", "targets"])
def test_killed_workers_lose_nothing(name):
    whole, sharded = scattered(name, save_every=3)
    blocks = [samples(whole, 200, seed) for seed in range(30)]
    processes = {one["process"] for one in sharded.describe_shards()}
    assert len(processes - {os.getpid()}) == 2
    # Each worker is killed at about the time when it learns a block.
    victims = dict(zip((10, 20), processes, strict=True))
    for i, block in enumerate(blocks):
        whole.learn_many(*block)
        killer = threading.Timer(0.005, lambda i=i: os.kill(victims[i], signal.SIGKILL))
        if i in victims:
            killer.start()
        sharded.learn_many(*block)
        if i in victims:
            killer.join()
    assert_predicts_the_same(sharded, whole, blocks[0][0])
    assert sharded.n_restarts == 2
    assert_same(sharded.gather(), whole)
    sharded.close()


def test_workers_that_end_for_ever_are_an_error(tmp_path):
    whole, sharded = scattered("classes", folder=str(tmp_path), max_restarts=1)
    block = samples(whole, 100, 1)
    process = sharded.describe_shards()[1]["process"]
    for file in tmp_path.rglob("shard-1"):
        file.write_bytes(b"none")
    os.kill(process, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="worker of shard-1 has died 2 times"):
        for _ in range(20):
            sharded.learn_many(*block)
    sharded.close()


# Data sets.


@pytest.fixture
def parquet(tmp_path):
    """Return frames, and a function that reads the frames as a Ray data set of Parquet files."""
    frames = [rows(500, seed).assign(y=lambda X: X["a"] * X["b"], w=1.0) for seed in range(6)]
    for i, frame in enumerate(frames):
        frame.to_parquet(tmp_path / f"{i}.parquet")

    def read(*names):
        paths = [str(tmp_path / f"{i}.parquet") for i in range(6)]
        return ray.data.read_parquet(paths).select_columns(list(names))

    return pd.concat(frames), read


def test_processors_that_are_not_there_are_named():
    whole, _ = begun("classes")
    raises(RuntimeError, r"4 workers need 4 CPUs.* has 3", lambda: ShardedForest.scatter(whole, 4))
    models = KeyedModels("user", rm.MondrianForestClassifier(2, seed=1))
    raises(RuntimeError, r"5 workers need 5 CPUs.* has 3", lambda: SpreadKeyedModels(models, 5))
    holder = ShardedForest.scatter(whole, 2)
    holder.describe_shards()
    assert wait_until(lambda: ray.available_resources().get("CPU", 0.0) == 1.0)
    with pytest.warns(RuntimeWarning, match=r"2 workers need 2 CPUs.* 1 of the .* are free"):
        waiting = ShardedForest.scatter(whole, 2)
    waiting.close()
    holder.close()


def test_parts_of_a_data_set_are_merged(parquet):
    frame, read = parquet
    forest = rm.DensityForest(5, 2.0, seed=1, origin=ORIGIN)
    found = learn_dataset(forest, read("a", "b"), n_workers=2, batch_size=200)
    assert forest.n_samples == 0
    forest.learn_many(frame[["a", "b"]])
    assert found.n_samples == 3000
    asked = rows(50, 9)
    assert found.density_many(asked).tolist() == forest.density_many(asked).tolist()

    ridge = rm.RidgeRegressor(rm.RandomFourierFeatures(20, seed=1))
    found = learn_dataset(ridge, read("a", "b", "y", "w"), "y", "w", batch_size=200)
    ridge.learn_many(frame[["a", "b"]], frame["y"])
    np.testing.assert_allclose(found.predict_many(asked), ridge.predict_many(asked), atol=1e-9)


def test_other_models_learn_a_data_set_batch_by_batch(parquet):
    frame, read = parquet
    whole = rm.MondrianForestRegressor(4, posterior="mean", seed=1)
    sharded = ShardedForest(whole.clone(), 2)
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    assert learn_dataset(sharded, read("a", "b", "y"), "y") is sharded
    whole.learn_many(frame[["a", "b"]], frame["y"])
    assert_same(sharded.gather(), whole)
    sharded.close()


def test_data_sets_that_cannot_be_learned(parquet):
    _, read = parquet
    forest = rm.DensityForest(5, 2.0, seed=1, origin=ORIGIN)
    with pytest.raises(ValueError, match="DensityForest has no target, got target='y'"):
        learn_dataset(forest, read("a", "b"), "y")
    with pytest.raises(ValueError, match="RidgeRegressor needs a target"):
        learn_dataset(rm.RidgeRegressor(), read("a", "b"))
    spoiled = read("a", "b").map_batches(lambda X: X.assign(a=np.inf), batch_format="pandas")
    with pytest.raises(ValueError, match="feature 'a' must be finite in single precision"):
        learn_dataset(forest, spoiled)
    assert forest.n_samples == 0


def test_a_killed_worker_of_a_data_set_is_an_error(tmp_path):
    # Ray pickles local classes by value. So workers need not import this module.
    class Split:
        """Split whose worker writes the number of its process, and then waits or dies."""

        def __init__(self, number):
            self.path, self.waits = tmp_path / str(number), number == 0

        def iter_batches(self, **_):
            with self.path.open("a") as file:
                file.write(f"{os.getpid()}\n")
            ends = time.monotonic() + 20.0
            while time.monotonic() < ends and (self.waits or not self.path.with_name("0").exists()):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)

    class Splits:
        def streaming_split(self, n):
            return [Split(i) for i in range(n)]

    def is_running(process):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
        return True

    forest = rm.DensityForest(5, 2.0, seed=1, origin=ORIGIN)
    raises(RuntimeError, "a worker died.* nothing", lambda: learn_dataset(forest, Splits()))
    assert forest.n_samples == 0
    # Ray does not retry the task, and ends the worker that waits.
    assert len((tmp_path / "1").read_text().split()) == 1
    waiting = int((tmp_path / "0").read_text())
    assert wait_until(lambda: not is_running(waiting), 60.0)


# Models by key.


def test_keys_are_spread_over_workers(tmp_path):
    here = KeyedModels("user", rm.MondrianForestClassifier(2, seed=1))
    made = KeyedModels("user", rm.MondrianForestClassifier(2, seed=1), folder=str(tmp_path))
    spread = SpreadKeyedModels(made, 2)
    X, y = [{"user": i % 7, "a": i / 10.0} for i in range(40)], [i % 3 for i in range(40)]
    fed(here, zip(X, y, strict=True))
    spread.learn_many(X, y)
    assert spread.ask_many("predict_proba_one", X) == [here.predict_proba_one(x) for x in X]
    counts = [n for n, _ in spread.counts()]
    assert sum(counts) == 7 and min(counts) > 0
    with pytest.raises(ValueError, match=r"feature 'a' must be finite.* in sample 1"):
        spread.learn_many([X[0], {"user": 1, "a": float("inf")}], [0, 1])
    raises(ValueError, "there are 2 samples but 1 labels", lambda: spread.learn_many(X[:2], y[:1]))
    here.learn_one(X[0], 0)
    # A killed worker restarts with the saved state.
    assert spread.flush() == 7
    for worker in spread.workers:
        ray.kill(worker, no_restart=False)
    assert spread.ask_many("predict_proba_one", X) == [here.predict_proba_one(x) for x in X]
