"""Voronoi cells of many rows on a CUDA device.

Written over an array namespace, CuPy or NumPy, which run the same lines. So far they have run on
NumPy only.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Int32 = NDArray[np.int32]

# Part of the device's free memory that one call fills, and most rows that it takes at once: more
# rows no longer make the matrix product faster, but the pinned buffers larger.
SHARE = 0.6
MOST_ROWS = 8192
# Memory that the same lines take on the host, where there is no device to ask.
HOST_BYTES = 256 << 20


def device_namespace(device: str) -> Any:
    """Return the array namespace of a device.

    Parameters
    ----------
    device
        "cpu" for NumPy or "cuda" for CuPy.

    Raises
    ------
    ValueError
        If the device has another name.
    RuntimeError
        If CuPy is not installed, finds no device, or cannot run a kernel on it.

    """
    if device == "cpu":
        return np
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
        found = int(cupy.cuda.runtime.getDeviceCount())
    except Exception as error:
        raise RuntimeError(f'device="cuda": CuPy finds no usable driver ({error})') from error
    if found == 0:
        raise RuntimeError('device="cuda": CuPy finds no device')
    try:
        # A driver that is too old, or a compiler that is missing, shows here and not before.
        ran = int((cupy.arange(4, dtype=cupy.int32) + 1).sum()) == 10
    except Exception as error:
        raise RuntimeError(f'device="cuda": a first kernel failed ({error})') from error
    if not ran:
        raise RuntimeError('device="cuda": a first kernel gave a wrong result')
    return cupy


def free_bytes(xp: Any) -> int:
    """Return how many bytes a call may fill on the device of a namespace."""
    if xp is np:
        return HOST_BYTES
    pool = xp.get_default_memory_pool()
    return int(SHARE * (int(xp.cuda.runtime.memGetInfo()[0]) + int(pool.free_bytes())))


def _host_buffer(xp: Any, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return a host array that the device copies from and to directly: pinned on CuPy."""
    if xp is np:
        return np.empty(shape, dtype=dtype)
    from cupyx import empty_pinned

    buffer: NDArray[Any] = empty_pinned(shape, dtype=dtype)
    return buffer


def _fetch(array: Any, buffer: NDArray[Any]) -> None:
    """Copy from the device into a host buffer, and wait until it is there."""
    if isinstance(array, np.ndarray):
        buffer[...] = array
    else:
        array.get(out=buffer)


@dataclass
class _Group:
    """Consecutive partitions and the pool points that they use, on the host."""

    first: int
    points: Float32  # (u, d), less the origin
    norms: Float32  # (u,)
    members: Int32  # (partitions, psi): numbers of points

    @property
    def nbytes(self) -> int:
        return self.points.nbytes + self.norms.nbytes + self.members.nbytes


class VoronoiCells:
    """The cells of t Voronoi partitions whose centres come from one pool of points.

    The squared distances of a block of rows to all the pool's points that are used come from one
    matrix product, and serve every partition that a point belongs to.

    Parameters
    ----------
    pool
        The points, shape (P, d).
    members
        The centres of each partition as numbers of points, shape (t, psi).
    xp
        The array namespace, see `device_namespace`.
    n_bytes
        How much of the device's memory to fill; None asks the device. Partitions are taken in
        groups whose points take up to half of it, and the rows of a batch in blocks that fill the
        rest.

    Notes
    -----
    A distance is |p|^2 - 2 x . p in single precision, without the |x|^2 that all points share, and
    after the median point of the pool has been subtracted. For whole numbers whose squares sum to
    less than 2^24, such as binary data, that is exact, ties included; elsewhere it is off by some
    1e-7 of |x| |p| + |p|^2, and a near-tie may go to the other centre. Ties go to the centre that
    comes first in the partition.

    The object belongs to a device and to a process: it cannot be pickled. `cells` keeps it away
    from what is.

    """

    def __init__(
        self, pool: NDArray[Any], members: NDArray[Any], xp: Any = np, n_bytes: int | None = None
    ) -> None:
        self.xp = xp
        self.n_partitions, self.n_cells = members.shape
        self.n_features = pool.shape[1]
        self.n_bytes = free_bytes(xp) if n_bytes is None else n_bytes
        # A value of the data, so that whole numbers stay whole.
        used = np.unique(members)
        middle = np.partition(pool[used], len(used) // 2, axis=0)[len(used) // 2]
        self.origin = middle.astype(np.float64)
        self._groups: list[_Group] = []
        self._split(pool, members, 0, self.n_partitions)
        # All of it stays on the device where it is one group; several take turns.
        self._kept = self._upload(self._groups[0]) if len(self._groups) == 1 else None

    def __reduce__(self) -> Any:
        raise TypeError("cells on a device cannot be pickled")

    def _split(self, pool: NDArray[Any], members: NDArray[Any], first: int, stop: int) -> None:
        """Make one group of some partitions, or halve them until their points fit."""
        used, local = np.unique(members[first:stop], return_inverse=True)
        width = 4 * self.n_features
        if stop - first > 1 and (width + 8) * len(used) + 8 * local.size > self.n_bytes // 2:
            middle = (first + stop) // 2
            self._split(pool, members, first, middle)
            self._split(pool, members, middle, stop)
            return
        points = (pool[used] - self.origin).astype(np.float32)
        # Summed in double precision: rounded once.
        norms = np.einsum("ij,ij->i", points, points, dtype=np.float64).astype(np.float32)
        local = local.reshape(stop - first, self.n_cells)
        self._groups.append(_Group(first, points, norms, local.astype(np.int32)))

    def _upload(self, group: _Group) -> tuple[Any, Any, Any]:
        xp = self.xp
        points, norms, members = (
            xp.asarray(part) for part in (group.points, group.norms, group.members)
        )
        return points.T, norms, members

    def _block(self, group: _Group) -> tuple[int, int]:
        """Return how many rows and how many partitions are taken at once in the memory left."""
        u, (partitions, psi) = len(group.norms), group.members.shape
        left = max(self.n_bytes - group.nbytes, self.n_bytes // 4)
        # The scores of one row and their products, and then some partitions' share of them.
        together = min(partitions, max(1, u // psi))
        row = 4 * (self.n_features + 2 * u + 2 * together * psi + partitions)
        return max(1, min(MOST_ROWS, left // row)), together

    def cells(self, X: NDArray[Any]) -> Int32:
        """Return the cells of rows.

        Parameters
        ----------
        X
            Rows, shape (n, d), without missing values.

        Returns
        -------
        The column of `members` whose point is nearest, for each row and partition: shape (n, t).

        """
        xp = self.xp
        found = np.empty((len(X), self.n_partitions), dtype=np.int32)
        if not len(X):
            return found
        for group in self._groups:
            on_device = self._upload(group) if self._kept is None else self._kept
            n_rows, together = self._block(group)
            n_rows = min(n_rows, len(X))
            stop = group.first + len(group.members)
            rows = _host_buffer(xp, (n_rows, self.n_features), np.float32)
            out = _host_buffer(xp, (n_rows, len(group.members)), np.int32)
            for start in range(0, len(X), n_rows):
                n = min(n_rows, len(X) - start)
                rows[:n] = X[start : start + n] - self.origin
                # The result arrives before the buffers are written again: all is on one stream.
                _fetch(self._nearest(xp.asarray(rows[:n]), on_device, together), out[:n])
                found[start : start + n, group.first : stop] = out[:n]
        return found

    def _nearest(self, rows: Any, on_device: tuple[Any, Any, Any], together: int) -> Any:
        """Return the cells of a block of rows in a group's partitions, on the device."""
        xp = self.xp
        points, norms, members = on_device
        scores = rows @ points
        scores *= np.float32(-2.0)
        scores += norms
        cells = xp.empty((len(rows), len(members)), dtype=np.int32)
        for first in range(0, len(members), together):
            stop = min(first + together, len(members))
            shares = xp.take(scores, members[first:stop], axis=1)
            # The first of equals.
            cells[:, first:stop] = xp.argmin(shares, axis=2)
        return cells


# What is on a device, by the array of members that it was made from. Entries go with the array.
_prepared: dict[int, tuple[weakref.ref[Any], VoronoiCells]] = {}


def nearest_cells(
    X: NDArray[Any], pool: Callable[[], NDArray[Any]], members: NDArray[Any], xp: Any = np
) -> Int32:
    """Return the Voronoi cells of rows in every partition, computed on a device.

    What depends on the partitions goes to the device once, and stays there as long as the array
    `members` lives: so `members` and the pool must not change in place.

    Parameters
    ----------
    X
        Rows, shape (n, d), without missing values.
    pool
        Returns the points, shape (P, d); called where they are not on the device yet.
    members
        The centres of each partition as numbers of points, a column per partition: shape (psi, t).
    xp
        The array namespace, see `device_namespace`.

    Returns
    -------
    The row of `members` whose point is nearest, for each row and partition, shape (n, t); ties go
    to the first of them.

    """
    key = id(members)
    entry = _prepared.get(key)
    if entry is None or entry[0]() is not members or entry[1].xp is not xp:
        prepared = VoronoiCells(pool(), members.T, xp)
        reference = weakref.ref(members, lambda _: _prepared.pop(key, None))
        entry = _prepared[key] = (reference, prepared)
    return entry[1].cells(X)
