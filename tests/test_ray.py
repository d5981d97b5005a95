"""Forests, streams and data sets on Ray, whose workers are really killed."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
from test_parts import assert_predicts_the_same, assert_same, begun, samples

import river_mondrian as rm
from river_mondrian.distributed import ShardedForest

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install river-mondrian[ray]")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.parametrize("name", ["classes", "targets"])
def test_a_sharded_forest_is_the_one_model(name, tmp_path):
    whole, category = begun(name)
    sharded = ShardedForest.scatter(whole, 2, save_every=2)
    for seed in range(4):
        X, y = samples(whole, 100, seed, category)
        for model in (whole, sharded):
            model.learn_many(X, y)
    assert_predicts_the_same(sharded, whole, X)
    assert_same(sharded.gather(), whole, tmp_path)
    assert len({one["process"] for one in sharded.describe_shards()} - {os.getpid()}) == 2
    sharded.close()


@pytest.mark.parametrize("name", ["classes", "targets"])
def test_killed_workers_lose_nothing(name, tmp_path):
    whole, _ = begun(name)
    sharded = ShardedForest.scatter(whole, 2, save_every=3)
    blocks = [samples(whole, 200, seed) for seed in range(30)]
    processes = [one["process"] for one in sharded.describe_shards()]
    # While it learns, and while it is asked.
    killers = [
        threading.Timer(wait, os.kill, (process, signal.SIGKILL))
        for wait, process in zip((0.1, 0.3), processes, strict=True)
    ]
    for killer in killers:
        killer.start()
    for block in blocks:
        whole.learn_many(*block)
        sharded.learn_many(*block)
        time.sleep(0.01)
    for killer in killers:
        killer.join()
    assert_predicts_the_same(sharded, whole, blocks[0][0])
    assert sharded.n_restarts == 2
    assert_same(sharded.gather(), whole, tmp_path)
    sharded.close()


def test_workers_that_end_for_ever_are_an_error(tmp_path):
    whole, _ = begun("classes")
    sharded = ShardedForest.scatter(whole, 2, folder=str(tmp_path), max_restarts=1)
    block = samples(whole, 100, 1)
    for file in tmp_path.rglob("shard-1"):
        file.write_bytes(b"none")
    os.kill(sharded.describe_shards()[1]["process"], signal.SIGKILL)
    with pytest.raises(RuntimeError, match="worker of shard-1 has died 2 times"):
        for _ in range(20):
            sharded.learn_many(*block)
    sharded.close()
