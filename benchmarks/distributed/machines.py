"""Speed and memory of 2 to 100 machines, calculated from costs measured on one machine."""

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
# Assumed processors and bytes of memory of a machine, and bytes per second of the network.
CORES, MEMORY, NETWORK = 16, 256e9, 1.25e9
TREES = (100, 1600)
SAMPLES = 1e9
MEASURED_TREES = 25
SIZES = (1_000, 10_000)


def _learning(X: Any, y: Any) -> tuple[float, float, int]:
    """Return seconds per row and tree, bytes per sample and tree, and the number of samples."""
    start = blocks_of(X[:WARM_UP], y[:WARM_UP], WARM_UP)[0]
    model = MondrianForestClassifier(MEASURED_TREES, seed=1)
    model.learn_many(*start)
    times = []
    for block in blocks_of(X[WARM_UP:], y[WARM_UP:], BLOCK):
        used = time.process_time()
        model.learn_many(*block)
        times.append((time.process_time() - used) / len(block[1]) / MEASURED_TREES)
    # The time grows with the depth of the trees, so only the latest blocks are used.
    latest = sorted(times[-5:])
    own = model._trees.nodes.nbytes / model.n_samples / MEASURED_TREES
    return latest[len(latest) // 2], own, model.n_samples


def _driver(width: int, quick: bool) -> dict[int, tuple[float, float]]:
    """Return the driver's seconds per block and per additional worker, for each block size."""
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
    """Calculate the rows per second and the memory of 2 to 100 machines."""
    name, (X, y) = next(iter(streams(data, 4_000 if quick else 15_000).items()))
    width = X.shape[1]
    per_tree, own, n_samples = _learning(X, y)
    costs = _driver(width, quick)
    report.note(
        "Speed and memory of 2 to 100 machines, calculated from costs measured on one machine. On "
        f"{n_samples:,} samples of {name} with {width} features, learning takes "
        f"{1e6 * per_tree:.2f} us of a processor per row and tree. A tree takes {own:.0f} bytes "
        "per sample. The driver is the calling process. "
        + " ".join(
            f"A block of {size:,} rows takes {1e3 * block:.1f} ms of the driver, and "
            f"{1e3 * worker:.2f} ms for each worker."
            for size, (block, worker) in costs.items()
        )
    )
    report.note(
        f"Each machine is assumed to have {CORES} processors, and a worker with as many threads. "
        f"Each thread has separate trees. The driver has a network of {NETWORK / 1e9:.2f} GB/s, "
        "and sends every block to every machine. A row has 8 bytes per feature, and 16 more "
        "bytes. A worker stores 4 bytes per feature for each of its trees. The columns of rows "
        "per second have the bounds by workers, driver and network; the next column has the "
        "smallest bound."
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
            "the smallest (large blocks)",
            "GB per machine for 10^9 samples",
            f"million samples in {MEMORY / 1e9:.0f} GB",
        ],
        rows,
    )
    report.note(
        "If the driver is the bottleneck, use larger blocks, because most of the driver's cost is "
        "per block and column. Arrays cost less than frames. A separate forest for each of "
        "several streams also helps. If the network is the bottleneck, machines can send blocks "
        "to one another, as in Ray's object store."
    )
