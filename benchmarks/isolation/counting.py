"""Time of an H100 to find Voronoi cells, calculated from instructions and bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from river_mondrian.partitions.voronoi import cuda, nearest
from river_mondrian.partitions.voronoi.distances import padded

from ..data import DataFolder
from ..report import Report, progress
from .models import T

# NVIDIA's figures for the H100 SXM: multiprocessors, clock in Hz, bytes of memory per second. The
# clock is 67 TFLOPS in single precision, divided by 132 * 128 lanes and 2 operations. Three figures
# are per multiprocessor and cycle: lanes, instructions of warps, and bytes of shared memory. The
# last figure is the number of bytes per cycle from the L2 cache of an A100.
PROCESSORS, CLOCK, MEMORY = 132, 1.98e9, 3.35e12
LANES, ISSUED, SHARED, CACHE = 128, 4, 128, 5120

# Numbers of instructions of a warp in `scan_tiles`: per 16 features, per tile, per partition in a
# tile, and per point of a partition. Of the instructions per 16 features, 512 are multiplications.
# The code is compiled by nvcc 13.0 for sm_90; `nvcc -cubin` and `cuobjdump -sass` show the
# instructions.
STEP, TILE, VISIT, ENTRY = 630, 130, 66, 18
WARPS, DEPTH = cuda.THREADS // 32, 16

# Accesses to shared memory in units of 128 bytes: per 16 features, per tile, per partition and per
# point.
STEP_SHARED, TILE_SHARED = 16 * 4 + 12 * 2, 8 * 4
VISIT_SHARED, ENTRY_SHARED = 8, 2


@dataclass
class Shape:
    """Numbers of rows, features, partitions, cells per partition, and points of the pool."""

    n: int
    d: int
    t: int
    psi: int
    pool: int

    @property
    def points(self) -> float:
        """Return the expected number of points that at least one partition uses."""
        return float(self.pool * -np.expm1(self.t * np.log1p(-self.psi / self.pool)))

    @property
    def tiles(self) -> float:
        """Return the number of tiles of (rows, points)."""
        return -(-self.n // cuda.ROWS) * np.ceil(self.points / cuda.POINTS)

    @property
    def steps(self) -> int:
        return -(-padded(self.d) // DEPTH)

    @property
    def entries(self) -> float:
        """Return the number of pairs of a tile's point and a partition that uses this point."""
        return cuda.POINTS * self.t * self.psi / self.points

    @property
    def splits(self) -> int:
        row_tiles = -(-self.n // cuda.ROWS)
        return max(cuda.SPLITS_LEAST, -(-cuda.BLOCKS * PROCESSORS // row_tiles))


def fused(shape: Shape) -> dict[str, float]:
    """Return the milliseconds that each unit of the device needs for the kernels at full rate."""
    multiplied = shape.n * shape.points * shape.d
    visits = shape.t * -np.expm1(-shape.entries / shape.t)
    per_warp = STEP * shape.steps + TILE
    instructions = shape.tiles * (WARPS * per_warp + VISIT * visits + ENTRY * shape.entries)
    per_warp = STEP_SHARED * shape.steps + TILE_SHARED
    shared = WARPS * per_warp + VISIT_SHARED * visits + ENTRY_SHARED * shape.entries
    operands = 4 * DEPTH * shape.steps * (cuda.ROWS + cuda.POINTS)
    pairs = shape.n * shape.t
    rows, points = (4 * padded(shape.d) * number for number in (shape.n, shape.points))
    moved = rows + points + pairs * (2 * cuda.MINIMUM_BYTES * shape.splits + 4)
    seconds = {
        "FMA": multiplied / (PROCESSORS * LANES * CLOCK),
        "issue": instructions / (PROCESSORS * ISSUED * CLOCK),
        "shared": 128 * shape.tiles * shared / (PROCESSORS * SHARED * CLOCK),
        "L2": shape.tiles * operands / (CACHE * CLOCK),
        "HBM": moved / MEMORY,
    }
    return {name: 1e3 * value for name, value in seconds.items()}


def by_arrays(shape: Shape) -> dict[str, float]:
    """Return the milliseconds of a matrix product and array functions instead of the kernels.

    The product writes the scores, and two functions read and write them. The scores of each
    partition's points are read, written and read again.
    """
    multiplied = shape.n * shape.points * shape.d
    moved = 4 * shape.n * (5 * shape.points + 3 * shape.t * shape.psi)
    return {
        "FMA": 1e3 * multiplied / (PROCESSORS * LANES * CLOCK),
        "HBM": 1e3 * moved / MEMORY,
    }


def open_share(shape: Shape, n_rows: int) -> float:
    """Return the share of pairs of a normal row and a partition that need exact distances."""
    rng = np.random.default_rng(0)
    pool = rng.standard_normal((shape.pool, shape.d), dtype=np.float32)
    X = rng.standard_normal((n_rows, shape.d), dtype=np.float32)
    squares = [np.einsum("ij,ij->i", rows, rows, dtype=np.float64) for rows in (X, pool)]
    scores = squares[1] - 2.0 * (X @ pool.T).astype(np.float64)
    error, _ = nearest.score_error(shape.d)
    found = 0
    for _ in range(shape.t):
        members = rng.choice(shape.pool, shape.psi, replace=False)
        least, second = np.partition(scores[:, members], 1, axis=1)[:, :2].T
        limit = (1.0 + 7.0 * error) * least + 15.0 * error * squares[0]
        found += int((second <= limit).sum())
    return found / (n_rows * shape.t)


def settling(shape: Shape, share: float) -> float:
    """Return the milliseconds in which HBM reads the points for exact distances.

    The points are divided into splits. Each pair reads two points. If both points are in one split,
    the pair also reads all points of its partition in this split.
    """
    points = 2.0 + shape.psi / shape.splits**2
    return 1e3 * share * shape.n * shape.t * points * 4 * padded(shape.d) / MEMORY


def counting(data: DataFolder, report: Report, quick: bool) -> None:
    """Calculate the time of an H100 to find Voronoi cells."""
    psi = 256 if quick else 4096
    features = (16, 784) if quick else (16, 32, 54, 64, 128, 256, 784)
    rows = []
    for d in features:
        progress(f"counting: d = {d}")
        shape = Shape(10_000, d, T, psi, 25 * psi)
        ours, theirs = fused(shape), by_arrays(shape)
        bound = max(ours, key=ours.__getitem__)
        total = sum(theirs.values())
        n_rows = 16 if quick else 64
        share = open_share(shape, n_rows)
        rows.append(
            (
                d,
                *(f"{value:.2f}" for value in ours.values()),
                bound,
                f"{100 * share:.2g} %" if share else f"< {100 / (n_rows * T):.1g} %",
                f"{settling(shape, share):.2f}",
                *(f"{value:.1f}" for value in theirs.values()),
                f"{total / ours[bound]:.1f}",
            )
        )
    report.note(
        "Time of an H100 to find Voronoi cells. All figures are calculated, none is measured. "
        f"There are 10,000 rows, t = {T} partitions of psi = {psi} points, and a pool of 25 psi "
        f"points. The partitions use {shape.points:,.0f} of these points. The first columns have "
        "the milliseconds of an H100 SXM at full rate. The columns are for multiplications in "
        "single precision (FMA), the issue of instructions, and reads from shared memory, L2 "
        "cache and HBM. The largest of these times is the bound. The column `open` has the share "
        "of pairs of a row and a partition that need exact distances, on 64 normal rows. The "
        "column `settling` has the time to read the points of these pairs. The last columns are "
        "for a matrix product and array functions in place of the kernels. The array functions "
        "write every score to memory and read it again."
    )
    parts = ("FMA, ms", "issue, ms", "shared, ms", "L2, ms", "HBM, ms", "bound")
    arrays = ("open", "settling, ms", "arrays: FMA, ms", "arrays: HBM, ms", "arrays / bound")
    report.table(("d", *parts, *arrays), rows)
