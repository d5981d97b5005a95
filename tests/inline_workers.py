"""An engine for tests without Ray: workers run in this process and die on demand."""

import pytest

from river_mondrian.distributed import ShardedForest
from river_mondrian.distributed.shard import Shard, WorkerDied


class Worker:
    def __init__(self, shard):
        self.shard = shard


class InlineEngine:
    """Engine that runs a worker's call at once, in this process.

    Parameters
    ----------
    deaths
        Map from the number of a call to "before" or "after": the worker dies before or after this
        call.
    code
        Parameters that files cannot store.

    """

    def __init__(self, deaths=None, code=None):
        self.deaths, self.code = deaths or {}, code or {}
        self.n_calls = 0

    def start(self, path, save_every):
        return Worker(Shard(path, self.code, save_every))

    def call(self, worker, name, *arguments):
        self.n_calls += 1
        death = self.deaths.get(self.n_calls)
        if worker.shard is None or death == "before":
            worker.shard = None
            return None
        found = getattr(worker.shard, name)(*arguments)
        if death == "after":
            worker.shard = None
            return None
        return (found,)

    def get(self, call):
        if call is None:
            raise WorkerDied("the worker is dead")
        return call[0]

    def put(self, block):
        return block

    def stop(self, worker):
        worker.shard = None


@pytest.fixture
def engine(monkeypatch):
    """Let sharded forests run their workers in this process."""
    found = InlineEngine(code={})

    def start(forest):
        found.code = {"lifetime": forest.model.lifetime} if callable(forest.model.lifetime) else {}
        return found

    monkeypatch.setattr(ShardedForest, "_engine", start)
    return found
