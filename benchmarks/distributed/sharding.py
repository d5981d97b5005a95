"""Two workers, compared with one process, threads, and two independent processes."""

from __future__ import annotations

import multiprocessing
import time
from typing import Any, NamedTuple

import numpy as np

from river_mondrian import MondrianForestClassifier

from ..data import DataFolder
from ..report import Report, progress
from .processors import seconds_below, seconds_of
from .runs import BLOCK, N_TREES, WARM_UP, Block, blocks_of, local_ray, streams

N_SAMPLES, QUICK_SAMPLES = 15_000, 4_000
REPEATS, QUICK_REPEATS = 3, 1
IDLE_SECONDS = 5.0
SIZES = (1, 10, 100, 1000, 10_000)

PEERS = ("one process", "n_jobs=2", "two separate processes", "two workers")


def begun(start: Block, n_trees: int, **arguments: Any) -> Any:
    """Return a model that has learned the first block twice, so all kernels are loaded."""
    model = MondrianForestClassifier(n_trees, seed=1, **arguments)
    model.learn_many(*start)
    model.learn_many(*start)
    return model


class Rate(NamedTuple):
    """Rows per second by the clock, and rows per second of two processors without other load."""

    clock: float
    free: float


def _rate(n: int, spent: float, busiest: float, total: float) -> Rate:
    """Return the rates, given the wall-clock time and the processor time of processes."""
    return Rate(n / spent, n / max(busiest, 0.5 * total))


def _alone(start: Block, blocks: list[Block], n_trees: int, barrier: Any, found: Any) -> None:
    """Learn all blocks in this process, after all processes are ready; report both times."""
    model = begun(start, n_trees)
    barrier.wait()
    started, used = time.perf_counter(), time.process_time()
    for block in blocks:
        model.learn_many(*block)
    found.put((time.perf_counter() - started, time.process_time() - used))


def two_of_their_own(start: Block, blocks: list[Block], n: int, n_trees: int = N_TREES) -> Rate:
    """Return the rate of two processes that learn all blocks with half of the trees each."""
    context = multiprocessing.get_context("spawn")
    barrier, found = context.Barrier(3), context.Queue()
    processes = [
        context.Process(target=_alone, args=(start, blocks, n_trees // 2, barrier, found))
        for _ in range(2)
    ]
    for process in processes:
        process.start()
    barrier.wait()
    # This process uses a processor while it waits, so each child process measures its own time.
    spent, used = zip(*(found.get() for _ in processes), strict=True)
    rate = _rate(n, max(spent), max(used), sum(used))
    for process in processes:
        process.join()
    return rate


def one_process(
    start: Block, blocks: list[Block], n: int, n_jobs: int, n_trees: int = N_TREES
) -> Rate:
    """Return the rate at which this process learns all blocks."""
    model = begun(start, n_trees, n_jobs=n_jobs)
    started, used = time.perf_counter(), time.process_time()
    for block in blocks:
        model.learn_many(*block)
    spent, total = time.perf_counter() - started, time.process_time() - used
    # Threads share the work evenly, so each thread takes the same part of the total.
    return _rate(n, spent, total / n_jobs, total)


def _idle() -> float:
    """Return the share of a processor that Ray's processes use when idle."""
    used = seconds_below()
    time.sleep(IDLE_SECONDS)
    return (seconds_below() - used) / IDLE_SECONDS


def _sharded(start: Block, blocks: list[Block], n: int, idle: float) -> Rate:
    from river_mondrian.distributed import ShardedForest

    sharded = ShardedForest.scatter(begun(start, N_TREES), 2, save_every=10_000)
    # The workers load their kernels in this call.
    sharded.learn_many(*start)
    workers = [one["process"] for one in sharded.describe_shards()]
    before, whole = [seconds_of(worker) for worker in workers], seconds_below()
    started = time.perf_counter()
    for block in blocks:
        sharded.learn_many(*block)
    sharded.finish()
    spent = time.perf_counter() - started
    used = [seconds_of(worker) - at for worker, at in zip(workers, before, strict=True)]
    # The idle load of Ray is subtracted.
    found = _rate(n, spent, max(used), seconds_below() - whole - idle * spent)
    sharded.close()
    return found


def sharding(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare rates of two workers, one process, threads and two processes; time Ray's calls."""
    with local_ray() as ray:
        idle, rows = _idle(), []
        for name, (X, y) in streams(data, QUICK_SAMPLES if quick else N_SAMPLES).items():
            start = blocks_of(X[:WARM_UP], y[:WARM_UP], WARM_UP)[0]
            blocks = blocks_of(X[WARM_UP:], y[WARM_UP:], BLOCK)
            n, found = len(X) - WARM_UP, {peer: [] for peer in PEERS}
            for repeat in range(QUICK_REPEATS if quick else REPEATS):
                progress(f"{name}, repeat {repeat}")
                found["one process"].append(one_process(start, blocks, n, 1))
                found["n_jobs=2"].append(one_process(start, blocks, n, 2))
                found["two separate processes"].append(two_of_their_own(start, blocks, n))
                found["two workers"].append(_sharded(start, blocks, n, idle))
            for what in Rate._fields:
                best = {peer: max(getattr(r, what) for r in found[peer]) for peer in PEERS}
                share = best["two workers"] / best["two separate processes"]
                rows.append(
                    [
                        name,
                        "the clock" if what == "clock" else "free processors",
                        *(f"{best[peer]:.0f}" for peer in PEERS),
                        f"{share:.2f}",
                    ]
                )
        report.note(
            "Rows per second of two workers, one process, two threads, and two independent "
            f"processes. There are {N_TREES} trees, and blocks of {BLOCK:,} rows after the first "
            f"{WARM_UP} rows. Rates are the best of the repeats, in which the methods take turns. "
            "The wall clock includes other load of the machine. Rates for two free processors "
            "use processor time: the time of the busiest process, or half of the total, "
            "whichever is larger. The total includes the driver, the workers and Ray. The idle "
            f"load of Ray, {100.0 * idle:.0f} % of a processor, is subtracted. The share is the "
            "rate of two workers relative to two independent processes."
        )
        report.table(["stream", "by", *PEERS, "share"], rows)
        _ray_cost(report, ray, quick)


class _Nothing:
    """A worker that ignores its blocks."""

    def learn(self, number: int, block: Any) -> int:
        return number


def block_costs(ray: Any, n_workers: int, size: int, width: int, n: int) -> tuple[float, float]:
    """Return the driver's processor time for a block, and the time until all workers answer."""
    from river_mondrian.distributed.shard import Known

    model = MondrianForestClassifier(n_workers, seed=1)
    rng = np.random.default_rng(1)
    (block, *_) = blocks_of(rng.normal(size=(size, width)), rng.integers(26, size=size), size)
    known = Known.of(model)
    actor = ray.remote(_Nothing).options(num_cpus=0)
    workers = [actor.remote() for _ in range(n_workers)]
    ray.get([worker.learn.remote(0, None) for worker in workers])
    here, whole = [], []
    for number in range(n):
        started, used = time.perf_counter(), time.process_time()
        ref = ray.put(known.read_block(*block, 1.0))
        calls = [worker.learn.remote(number, ref) for worker in workers]
        here.append(time.process_time() - used)
        ray.get(calls)
        whole.append(time.perf_counter() - started)
    for worker in workers:
        ray.kill(worker)
    return float(np.median(here)), float(np.median(whole))


def _ray_cost(report: Report, ray: Any, quick: bool) -> None:
    rows = []
    for size in SIZES[::2] if quick else SIZES:
        progress(f"blocks of {size}")
        here, whole = block_costs(ray, 2, size, 16, 20 if quick else 100)
        rows.append(
            [
                f"{size:,}",
                f"{1e3 * here:.2f}",
                f"{1e3 * whole:.2f}",
                f"{1e6 * whole / size:.1f}",
            ]
        )
    report.note(
        "The next table has the median time of a call without learning. The call reads a frame "
        "of 16 columns, puts it into the object store, and calls two workers that ignore it."
    )
    headers = ["rows", "ms of the driver's processor", "ms until both answer", "us per row"]
    report.table(headers, rows)
