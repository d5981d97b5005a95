"""A model on paper of 2 to 100 machines, by costs that are measured here."""

from __future__ import annotations

import time

from river_mondrian import MondrianForestClassifier

from ..data import DataFolder
from ..report import Report, progress
from .runs import BLOCK, WARM_UP, blocks_of, local_ray, streams
from .sharding import block_costs

MACHINES = (2, 5, 10, 20, 50, 100)
# Assumed: processors and memory of a machine, bytes per second of the driver's network.
CORES, MEMORY, NETWORK = 16, 128e9, 1.25e9
N_TREES = 1600
SAMPLES = 1e9
MEASURED_TREES = 25


def machines(data: DataFolder, report: Report, quick: bool) -> None:
    """Rows per second and memory of 2 to 100 machines, from measured costs."""
    name, (X, y) = next(iter(streams(data, 4_000 if quick else 15_000).items()))
    start, *blocks = [
        *blocks_of(X[:WARM_UP], y[:WARM_UP], WARM_UP),
        *blocks_of(X[WARM_UP:], y[WARM_UP:], BLOCK),
    ]
    model = MondrianForestClassifier(MEASURED_TREES, seed=1)
    model.learn_many(*start)
    times = []
    for block in blocks:
        used = time.process_time()
        model.learn_many(*block)
        times.append((time.process_time() - used) / len(block[1]) / MEASURED_TREES)
    # Trees get deeper with the logarithm of the samples: the latest are nearest to what is to come.
    per_tree = sorted(times[-5:])[len(times[-5:]) // 2]
    own = model._trees.nodes.nbytes / model.n_samples / MEASURED_TREES
    width = X.shape[1]
    counts = (1, 4, 8) if quick else (1, 4, 16)
    with local_ray(2 * max(counts)) as ray:
        here = {}
        for n in counts:
            progress(f"{n} workers")
            here[n] = block_costs(ray, n, BLOCK, width, 20 if quick else 100)[0]
    least, most = counts[0], counts[-1]
    per_worker = (here[most] - here[least]) / (most - least)
    per_block = here[least] - per_worker
    n_bytes = BLOCK * 8 * (width + 2)
    report.note(
        f"Measured on {name} ({width} features), blocks of {BLOCK:,} rows: learning takes "
        f"{1e6 * per_tree:.2f} us per row and tree (of a processor, {model.n_samples:,} samples), a "
        f"block takes the driver {1e3 * per_block:.2f} ms and {1e3 * per_worker:.2f} ms for each "
        f"worker, and has {n_bytes:,} bytes; a tree takes {own:.0f} bytes per sample."
    )
    report.note(
        f"Assumed: {N_TREES} trees, machines of {CORES} processors with a worker on each, a network "
        f"of {NETWORK / 1e9:.2f} GB/s at the driver, which sends a block to every machine itself."
    )
    rows = []
    for m in MACHINES:
        trees = N_TREES / (m * CORES)
        limits = {
            "workers": 1.0 / (per_tree * max(trees, 1.0)),
            "driver": BLOCK / (per_block + m * CORES * per_worker),
            "network": BLOCK * NETWORK / (n_bytes * m),
        }
        # Points: values and a link per tree, in each worker.
        points = CORES * 4.0 * (width + trees)
        memory = SAMPLES * (own * trees * CORES + points)
        rows.append(
            [
                m,
                m * CORES,
                f"{trees:.0f}",
                *(f"{limit:,.0f}" for limit in limits.values()),
                f"{min(limits.values()):,.0f}, {min(limits, key=limits.__getitem__)}",
                f"{memory / 1e9:,.0f}",
                f"{MEMORY / memory * SAMPLES / 1e6:,.0f}",
            ]
        )
    report.table(
        [
            "machines",
            "workers",
            "trees of each",
            "workers' rows/s",
            "driver's",
            "network's",
            "the least",
            "GB per machine for 10^9 samples",
            f"million samples in {MEMORY / 1e9:.0f} GB",
        ],
        rows,
    )
    report.note(
        "Where the driver is the least: larger blocks (its cost is per block and worker), and fewer "
        "workers with more threads each (`n_jobs`), which share one copy of the points."
    )
