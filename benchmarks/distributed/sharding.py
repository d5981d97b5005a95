"""Two workers against one process, against threads, and against two processes of their own."""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

import numpy as np

from river_mondrian import MondrianForestClassifier

from ..data import DataFolder
from ..report import Report, progress, verdict
from .runs import BLOCK, N_TREES, WARM_UP, Block, blocks_of, local_ray, rows_per_second, streams

N_SAMPLES, QUICK_SAMPLES = 30_000, 4_000
REPEATS, QUICK_REPEATS = 5, 1
SHARE = 0.9
SIZES = (1, 10, 100, 1000, 10_000)

PEERS = ("one process", "n_jobs=2", "two of their own", "two workers")


def _begun(start: Block, n_trees: int, **arguments: Any) -> Any:
    """Return a model that has learned the first rows, twice: all kernels are loaded then."""
    model = MondrianForestClassifier(n_trees, seed=1, **arguments)
    model.learn_many(*start)
    model.learn_many(*start)
    return model


def _alone(start: Block, blocks: list[Block], n_trees: int, barrier: Any, found: Any) -> None:
    """Learn all blocks in a process of its own."""
    model = _begun(start, n_trees)
    barrier.wait()
    for block in blocks:
        model.learn_many(*block)
    found.put(time.perf_counter())


def _two_of_their_own(start: Block, blocks: list[Block], n: int) -> float:
    context = multiprocessing.get_context("spawn")
    barrier, found = context.Barrier(3), context.Queue()
    processes = [
        context.Process(target=_alone, args=(start, blocks, N_TREES // 2, barrier, found))
        for _ in range(2)
    ]
    for process in processes:
        process.start()
    barrier.wait()
    started = time.perf_counter()
    # The clock is that of the machine, the same in all processes.
    ends = [found.get() for _ in processes]
    for process in processes:
        process.join()
    return n / (max(ends) - started)


def _here(start: Block, blocks: list[Block], n: int, n_jobs: int) -> float:
    model = _begun(start, N_TREES, n_jobs=n_jobs)
    started = time.perf_counter()
    for block in blocks:
        model.learn_many(*block)
    return rows_per_second(n, started)


def _sharded(start: Block, blocks: list[Block], n: int) -> float:
    from river_mondrian.distributed import ShardedForest

    sharded = ShardedForest.scatter(_begun(start, N_TREES), 2, save_every=10_000)
    # Workers have loaded their kernels.
    sharded.learn_many(*start)
    sharded.finish()
    started = time.perf_counter()
    for block in blocks:
        sharded.learn_many(*block)
    sharded.finish()
    found = rows_per_second(n, started)
    sharded.close()
    return found


def sharding(data: DataFolder, report: Report, quick: bool) -> None:
    """Two workers, one process, threads, and two processes with half the trees each; Ray's cost."""
    with local_ray() as ray:
        rows = []
        for name, (X, y) in streams(data, QUICK_SAMPLES if quick else N_SAMPLES).items():
            start = blocks_of(X[:WARM_UP], y[:WARM_UP], WARM_UP)[0]
            blocks = blocks_of(X[WARM_UP:], y[WARM_UP:], BLOCK)
            n, found = len(X) - WARM_UP, {peer: [] for peer in PEERS}
            for repeat in range(QUICK_REPEATS if quick else REPEATS):
                progress(f"{name}, repeat {repeat}")
                found["one process"].append(_here(start, blocks, n, 1))
                found["n_jobs=2"].append(_here(start, blocks, n, 2))
                found["two of their own"].append(_two_of_their_own(start, blocks, n))
                found["two workers"].append(_sharded(start, blocks, n))
            best = {peer: max(rates) for peer, rates in found.items()}
            share = best["two workers"] / best["two of their own"]
            pairs = zip(found["two workers"], found["two of their own"], strict=True)
            middle = float(np.median([one / other for one, other in pairs]))
            rows.append(
                [
                    name,
                    *(f"{best[peer]:.0f}" for peer in PEERS),
                    f"{share:.2f}",
                    f"{middle:.2f}",
                    SHARE,
                    verdict(share >= SHARE),
                ]
            )
        report.note(
            f"{N_TREES} trees, blocks of {BLOCK:,} rows after the first {WARM_UP}: rows per "
            "second, the best of the repeats, which take turns. The share is that of what two "
            "independent processes reach with half the trees each; by repeats, its median."
        )
        headers = ["stream", *PEERS, "share", "by repeats", "target", "reached"]
        report.table(headers, rows)
        _ray_cost(report, ray, quick)


class _Nothing:
    """A worker that does nothing with a block."""

    def learn(self, number: int, block: Any) -> int:
        return number


def block_costs(ray: Any, n_workers: int, size: int, width: int, n: int) -> tuple[float, float]:
    """Return the seconds that a block costs here, and until all workers have answered."""
    from river_mondrian.distributed.blocks import Known

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
        "What is not learning: reading a frame of 16 columns, putting it into the object store, "
        "and calling two workers that do nothing; medians."
    )
    headers = ["rows", "ms of the driver's processor", "ms until both answer", "us per row"]
    report.table(headers, rows)
