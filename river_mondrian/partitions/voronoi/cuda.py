"""Voronoi cells of many rows on a CUDA device.

The kernels are in `nearest.cu`. This module prepares arguments and launches the kernels. CuPy
compiles the kernels at their first use. Tests run the same source on the processor. No GPU has run
the kernels yet.
"""

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import distances, nearest

Float32 = NDArray[np.float32]
Int32 = NDArray[np.int32]

# Constants of `nearest.cu`: rows and points of a tile, and threads of a block.
ROWS = 64
POINTS = 128
THREADS = 256
# TILE_BYTES is a block's shared memory for scores, and for 16 features of the rows and points of a
# step. Each feature has four floats of padding for rows and four for points. In addition, the least
# score of each partition and row takes MINIMUM_BYTES.
TILE_BYTES = 4 * (POINTS * ROWS + 16 * (ROWS + 4 + POINTS + 4))
MINIMUM_BYTES = 8
# Size of a row's bound in bytes.
BOUND_BYTES = 12

# Blocks for each multiprocessor, which runs two blocks at a time. With several waves of blocks, a
# multiprocessor is idle for less time in the last wave.
BLOCKS = 4
# Least number of splits of the points. With more splits, fewer points are searched if the nearest
# point of a row is uncertain, because only splits with several candidates are searched.
SPLITS_LEAST = 8
# Fraction of the device's free memory that one call uses, and the largest number of rows in a
# block.
MEMORY_SHARE = 0.6
ROWS_MOST = 1 << 14
# Largest number of cells of a partition. An owner's 32 bits contain the column of a cell and the
# point's position in the tile.
CELLS_MOST = 1 << 24


def device_namespace(device: str) -> Any:
    """Return the array namespace of a device, or None for the processor.

    Parameters
    ----------
    device
        "cpu", or "cuda" for CuPy.

    Raises
    ------
    ValueError
        If the device has another name.
    RuntimeError
        If CuPy is not installed, finds no driver or no device, or cannot run a kernel.

    """
    if device == "cpu":
        return None
    if device != "cuda":
        raise ValueError(f'device must be "cpu" or "cuda", got {device!r}')
    try:
        import cupy
    except ImportError as error:
        raise RuntimeError(
            'device="cuda" needs CuPy: install river-mondrian[cuda12] or river-mondrian[cuda13], '
            f"whichever fits the driver ({error})"
        ) from error
    try:
        n_devices = int(cupy.cuda.runtime.getDeviceCount())
    except Exception as error:
        raise RuntimeError(f'device="cuda": CuPy finds no usable driver ({error})') from error
    if n_devices == 0:
        raise RuntimeError('device="cuda": CuPy finds no device')
    try:
        # Run a kernel, because an old driver or a missing compiler causes an error only here.
        ran = int((cupy.arange(4, dtype=cupy.int32) + 1).sum()) == 10
    except Exception as error:
        raise RuntimeError(f'device="cuda": a first kernel failed ({error})') from error
    if not ran:
        raise RuntimeError('device="cuda": a first kernel gave a wrong result')
    return cupy


def owners_by_tile(
    members: NDArray[Any], positions: NDArray[Any], n_points: int
) -> tuple[Int32, NDArray[np.uint32]]:
    """Return, for each tile, the partitions in which the tile's points are centres.

    Parameters
    ----------
    members
        The centres of each partition as point numbers, shape (t, psi).
    positions
        The position of each point in the order of the tiles.
    n_points
        Number of points.

    Returns
    -------
    starts
        The start in `owners` for each tile and partition, tile by tile; the last element is the end
        of `owners`.
    owners
        For each centre, the position of the point within the tile plus `POINTS` times the column.
        Centres of a tile and partition are in ascending order of columns.

    """
    t = len(members)
    tiles, within = np.divmod(positions[members], POINTS)
    partitions, columns = np.indices(members.shape)
    keys = (tiles.astype(np.int64) * t + partitions).ravel()
    order = np.argsort(keys, kind="stable")
    owners = (within + POINTS * columns).ravel()[order].astype(np.uint32)
    counts = np.bincount(keys, minlength=-(-n_points // POINTS) * t)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return starts, owners


@dataclass
class _Group:
    """Consecutive partitions. Their minima fit in a block's shared memory.

    The arrays are on the device.
    """

    first: int
    n_partitions: int
    members: Any  # (partitions, psi): positions of points
    starts: Any
    owners: Any


class VoronoiCells:
    """The cells of t Voronoi partitions whose centres are points of one pool.

    The score of a row and a point is computed once for all partitions in which the point is a
    centre. Blocks multiply tiles of rows by tiles of points. While the scores are in shared memory,
    the blocks find the least score of each partition. Cells equal the processor's cells, including
    near-ties and ties (see `nearest`).

    Parameters
    ----------
    pool
        The points in single precision, shape (P, d).
    members
        The centres of each partition as point numbers, shape (t, psi).
    xp
        CuPy (see `device_namespace`).

    Raises
    ------
    ValueError
        If partitions have too many cells for the kernels' integers.

    Notes
    -----
    For n rows and u points that partitions use, the product needs n u d multiplications in single
    precision. Tensor cores are not used: they round the operands to ten bits, which leaves too many
    near-ties.

    The object belongs to a device and to a process, so it cannot be pickled.

    """

    def __init__(self, pool: NDArray[Any], members: NDArray[Any], xp: Any) -> None:
        self.n_partitions, self.n_cells = members.shape
        if self.n_cells > CELLS_MOST or members.size > 1 << 30:
            raise ValueError(
                f'device="cuda" takes up to {CELLS_MOST} cells a partition and 2^30 in all, got '
                f"{self.n_partitions} partitions of {self.n_cells}"
            )
        self.xp = xp
        self.n_features = pool.shape[1]
        self.width = distances.padded(self.n_features)
        used, local = np.unique(members, return_inverse=True)
        self.n_points = len(used)
        # The order is random, so that the two points of a near-tie are rarely in the same tile and
        # split.
        positions = np.random.default_rng(0).permutation(self.n_points)
        points = np.zeros((self.n_points, self.width), dtype=np.float32)
        points[positions, : self.n_features] = pool[used]
        self._measure(points)
        module = xp.RawModule(code=(files(__package__) / "nearest.cu").read_text())
        self._measure_rows, self._scan_tiles, self._decide, self._settle = (
            module.get_function(name) for name in ("measure_rows", "scan_tiles", "decide", "settle")
        )
        self._device = xp.cuda.Device()
        self._points = xp.asarray(points)
        self._group(local.reshape(members.shape), positions)

    def __reduce__(self) -> Any:
        raise TypeError("cells on a device cannot be pickled")

    def _measure(self, points: Float32) -> None:
        """Set the origin, the points' squared norms, and bounds on the errors of scores."""
        # The origin is a median, not a mean: its coordinates are coordinates of points, so whole
        # numbers stay whole after the subtraction.
        origin = np.partition(points, len(points) // 2, axis=0)[len(points) // 2]
        centred = points - origin
        squares = np.einsum("ij,ij->i", centred, centred, dtype=np.float64)
        self._error, self._least = nearest.score_error(self.n_features)
        self._bounded = bool(squares.max() <= nearest.FARTHEST_SQUARE) and self._error < math.inf
        self._whole = bool(
            squares.max() <= nearest.LARGEST_WHOLE_SQUARE and (points == np.floor(points)).all()
        )
        # The array is padded to whole tiles, because kernels compute scores for whole tiles.
        squares = np.pad(squares, (0, -len(squares) % POINTS))
        with np.errstate(over="ignore"):
            self._squares = self.xp.asarray(squares.astype(np.float32))
        self._origin = self.xp.asarray(origin)

    def _group(self, members: NDArray[Any], positions: NDArray[Any]) -> None:
        """Group the partitions so that the minima of a group fit in a block's shared memory."""
        n_bytes = int(self._device.attributes["MaxSharedMemoryPerBlockOptin"]) - TILE_BYTES
        limit = max(1, n_bytes // (MINIMUM_BYTES * ROWS))
        n_groups = -(-self.n_partitions // limit)
        together = -(-self.n_partitions // n_groups)
        self._shared = TILE_BYTES + MINIMUM_BYTES * ROWS * together
        self._scan_tiles.max_dynamic_shared_size_bytes = self._shared
        self._groups = []
        for first in range(0, self.n_partitions, together):
            block = members[first : first + together]
            starts, owners = owners_by_tile(block, positions, self.n_points)
            # Indexing may keep the memory order of `block`, but kernels need a contiguous array.
            known = np.ascontiguousarray(positions[block], dtype=np.int32), starts, owners
            self._groups.append(_Group(first, len(block), *map(self.xp.asarray, known)))

    def _splits(self, n_rows: int) -> int:
        """Return the number of parts of the points: enough to fill the device, if possible."""
        blocks = BLOCKS * int(self._device.attributes["MultiProcessorCount"])
        wanted = max(SPLITS_LEAST, -(-blocks // -(-n_rows // ROWS)))
        return min(wanted, -(-self.n_points // POINTS))

    def _rows_at_once(self, n_rows: int) -> int:
        """Return the number of rows in a block, which the device's free memory limits."""
        free = int(self.xp.cuda.runtime.memGetInfo()[0])
        free += int(self.xp.get_default_memory_pool().free_bytes())
        n_rows = min(n_rows, ROWS_MOST)
        while n_rows > 1 and self._row_bytes(n_rows) * n_rows > MEMORY_SHARE * free:
            n_rows = -(-n_rows // 2)
        return n_rows

    def _row_bytes(self, n_rows: int) -> int:
        """Return the bytes of the device's memory for each of `n_rows` rows."""
        together = max(group.n_partitions for group in self._groups)
        pairs = together * (MINIMUM_BYTES * self._splits(n_rows) + 4)
        return int(4 * self.width + BOUND_BYTES + pairs + 4 * self.n_partitions)

    def cells(self, X: NDArray[Any]) -> Int32:
        """Return the cells of rows.

        Parameters
        ----------
        X
            Rows in single precision, shape (n, d), without missing values.

        Returns
        -------
        For each row and partition, the column of `members` with the nearest point; shape (n, t).

        """
        cells = np.empty((len(X), self.n_partitions), dtype=np.int32)
        if not len(X):
            return cells
        # Pinned arrays are used, because the device copies directly from and to these arrays.
        from cupyx import empty_pinned

        with self._device:
            n_rows = self._rows_at_once(len(X))
            rows = empty_pinned((n_rows, self.width), dtype=np.float32)
            rows[:, self.n_features :] = 0.0
            out = empty_pinned((n_rows, self.n_partitions), dtype=np.int32)
            for start in range(0, len(X), n_rows):
                n = min(n_rows, len(X) - start)
                rows[:n, : self.n_features] = X[start : start + n]
                # All operations are in one stream, so the result arrives before the buffers are
                # overwritten.
                self._nearest(self.xp.asarray(rows[:n])).get(out=out[:n])
                cells[start : start + n] = out[:n]
        return cells

    def _nearest(self, rows: Any) -> Any:
        """Return the cells of rows as an array on the device."""
        xp, n = self.xp, len(rows)
        bounds = xp.empty((n, 3), dtype=np.float32)
        errors = np.float32(self._error), np.float32(self._least)
        kinds = np.int32(self._whole), np.int32(self._bounded)
        arguments = rows, np.int32(n), np.int32(self.width), self._origin, *errors, *kinds, bounds
        self._measure_rows((-(-32 * n // THREADS),), (THREADS,), arguments)
        cells = xp.empty((n, self.n_partitions), dtype=np.int32)
        for group in self._groups:
            self._find(rows, bounds, group, cells)
        return cells

    def _find(self, rows: Any, bounds: Any, group: _Group, cells: Any) -> None:
        """Write the cells of a group's partitions."""
        xp, n, t = self.xp, len(rows), group.n_partitions
        n_splits = self._splits(n)
        minima = xp.empty((n_splits, t, n, 2), dtype=np.uint32)
        # The undecided pairs of a partition and a row, and the number of these pairs.
        pending = xp.empty(n * t, dtype=np.uint32)
        n_pending = xp.zeros(1, dtype=np.uint32)
        sizes = np.int32(n_splits), np.int32(t), np.int32(n)
        n_points, width = np.int32(self.n_points), np.int32(self.width)
        owners, block = (group.starts, group.owners), (THREADS,)
        columns = np.int32(self.n_partitions), np.int32(group.first), cells, pending, n_pending
        tiles = self._points, self._squares, n_points, self._origin, width
        scanned = rows, bounds, sizes[2], *tiles, *owners, sizes[1], minima
        self._scan_tiles((-(-n // ROWS), n_splits), block, scanned, shared_mem=self._shared)
        self._decide((-(-n * t // THREADS),), block, (minima, *sizes, bounds, *columns))
        # The number of blocks is fixed, and all blocks share the undecided pairs, because only the
        # device knows the number of pairs.
        n_blocks = 8 * int(self._device.attributes["MultiProcessorCount"])
        points = self._points, n_points, width, *owners, group.members, np.int32(self.n_cells)
        self._settle((n_blocks,), block, (minima, *sizes, bounds, rows, *points, *columns))


# Keys are ids of `members` arrays. A value is a weak reference to the array, and its
# `VoronoiCells`. An entry is removed when its array is freed.
_prepared: dict[int, tuple[weakref.ref[Any], VoronoiCells]] = {}


def nearest_cells(
    X: NDArray[Any], pool: Callable[[], NDArray[Any]], members: NDArray[Any], xp: Any
) -> Int32:
    """Return the Voronoi cells of rows in every partition, computed on a device.

    The partitions are copied to the device once, and stay there as long as the array `members`
    exists. So the caller must not change `members` or the pool in place.

    Parameters
    ----------
    X
        Rows in single precision, shape (n, d), without missing values.
    pool
        Function that returns the points, shape (P, d). The function is called if the points are not
        yet on the device.
    members
        The centres of each partition as point numbers, with a column per partition: shape (psi, t).
    xp
        CuPy (see `device_namespace`).

    Returns
    -------
    For each row and partition, the row of `members` with the nearest point; shape (n, t). Ties go
    to the first point.

    """
    key = id(members)
    entry = _prepared.get(key)
    if entry is None or entry[0]() is not members or entry[1].xp is not xp:
        prepared = VoronoiCells(pool(), members.T, xp)
        reference = weakref.ref(members, lambda _: _prepared.pop(key, None))
        entry = _prepared[key] = (reference, prepared)
    return entry[1].cells(X)
