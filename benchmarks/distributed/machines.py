"""A model on paper of 2 to 100 machines, by costs that are measured here."""

from __future__ import annotations

import math
import time
from typing import Any

from river_mondrian import MondrianForestClassifier

from ..data import DataFolder
from ..report import Report, progress
from .runs import BLOCK, WARM_UP, blocks_of, local_ray, streams
from .sharding import block_costs

MACHINES = (2, 5, 10, 20, 50, 100)
# Assumed: processors and memory of a machine, bytes per second of the driver's network.
CORES, MEMORY, NETWORK = 16, 256e9, 1.25e9
TREES = (100, 1600)
SAMPLES = 1e9
MEASURED_TREES = 25
SIZES = (1_000, 10_000)


def _learning(X: Any, y: Any) -> tuple[float, float, int]:
    """Return the seconds per row and tree, the bytes per sample and tree, and the samples."""
    start = blocks_of(X[:WARM_UP], y[:WARM_UP], WARM_UP)[0]
    model = MondrianForestClassifier(MEASURED_TREES, seed=1)
    model.learn_many(*start)
    times = []
    for block in blocks_of(X[WARM_UP:], y[WARM_UP:], BLOCK):
        used = time.process_time()
        model.learn_many(*block)
        times.append((time.process_time() - used) / len(block[1]) / MEASURED_TREES)
    # Trees get deeper with the logarithm of the samples: the latest times predict later ones best.
    latest = sorted(times[-5:])
    own = model._trees.nodes.nbytes / model.n_samples / MEASURED_TREES
    return latest[len(latest) // 2], own, model.n_samples


def _driver(width: int, quick: bool) -> dict[int, tuple[float, float]]:
    """Return by size of a block the driver's seconds for it, and for each additional worker."""
    least, most = (1, 4) if quick else (1, 16)
    found = {}
    with local_ray(2 * most) as ray:
        for size in SIZES:
            progress(f"blocks of {size}")
            n = 20 if quick else 100
            one, many = (block_costs(ray, k, size, width, n)[0] for k in (least, most))
            each = max(many - one, 0.0) / (most - least)
            found[size] = one - each, each
    return found


def machines(data: DataFolder, report: Report, quick: bool) -> None:
    """Rows per second and memory of 2 to 100 machines, from measured costs."""
    name, (X, y) = next(iter(streams(data, 4_000 if quick else 15_000).items()))
    width = X.shape[1]
    per_tree, own, n_samples = _learning(X, y)
    costs = _driver(width, quick)
    report.note(
        f"Measured on {name} ({width} features): learning takes {1e6 * per_tree:.2f} us of a "
        f"processor per row and tree ({n_samples:,} samples), a tree {own:.0f} bytes per sample. "
        + " ".join(
            f"A block of {size:,} rows takes the driver {1e3 * block:.1f} ms, and "
            f"{1e3 * worker:.2f} ms for each worker."
            for size, (block, worker) in costs.items()
        )
    )
    report.note(
        f"Assumed: machines of {CORES} processors, a worker on each machine with as many threads, "
        "each of which has its trees alone; a network of "
        f"{NETWORK / 1e9:.2f} GB/s at the driver, which sends every block to every machine itself. "
        "A row has 8 bytes for each feature and 16 besides; a worker keeps 4 bytes of it for each "
        "feature and tree."
    )
    rows = []
    for n_trees in TREES:
        for m in MACHINES:
            trees = n_trees / m
            workers = 1.0 / (per_tree * math.ceil(trees / CORES))
            network = NETWORK / (8.0 * (width + 2) * m)
            driver = [size / (block + m * worker) for size, (block, worker) in costs.items()]
            least = min(workers, network, driver[-1])
            which = {workers: "workers", network: "network", driver[-1]: "driver"}[least]
            memory = SAMPLES * (own * trees + 4.0 * (width + trees))
            rows.append(
                [
                    f"{n_trees:,}",
                    m,
                    f"{trees:.0f}",
                    f"{workers:,.0f}",
                    *(f"{rate:,.0f}" for rate in driver),
                    f"{network:,.0f}",
                    f"{least:,.0f}, {which}",
                    f"{memory / 1e9:,.0f}",
                    f"{MEMORY / memory * SAMPLES / 1e6:,.0f}",
                ]
            )
    report.table(
        [
            "trees",
            "machines",
            "trees of each",
            "workers' rows/s",
            *(f"driver's, blocks of {size:,}" for size in SIZES),
            "network's",
            "the least (large blocks)",
            "GB of each for 10^9 samples",
            f"million samples in {MEMORY / 1e9:.0f} GB",
        ],
        rows,
    )
    report.note(
        "Where the driver is the least: larger blocks, since most of its cost is per block and "
        "column; arrays that need no reading; or more than one stream, each with a forest of its "
        "own. Where the network is: machines get blocks from one another, as Ray's object store "
        "does, instead of from the driver alone."
    )
