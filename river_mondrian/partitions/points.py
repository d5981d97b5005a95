"""Partitions that isolate points of a pool: which points, and their values."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from ..checks import check_arrays, check_number, check_types
from ..limits import FARTHEST
from ..maps.record import MOST_OUT, CompiledMap, Pool
from ..records import Array, Record
from .ranges import robust_ranges_of_sparse

# Samples are read by their entries where features are many and fewer than this share of a sample's
# are not zero.
MANY_FEATURES = 256
DENSE_SHARE = 0.1


class PointPartitions(CompiledMap):
    """Partitions that each isolate `psi` points of a pool (section 4).

    Parameters
    ----------
    number
        Number of the build.
    n_partitions
        How many partitions there are.
    psi
        Points of a partition.
    pool
        The samples.
    n_inputs
        Features that are read.
    scale
        Whether to divide each feature by its robust range over the pool.
    rng
        What draws the points.
    metric
        "cosine" divides the points by their lengths, "auto" those of samples that are read by their
        entries, and "euclidean" none. Of points of one length the nearest to a sample is the one
        at the least angle, to rounding.

    """

    # What names of columns begin with.
    METHOD: ClassVar[str]
    record: Any

    def __init__(
        self,
        number: int,
        n_partitions: int,
        psi: int,
        pool: Pool,
        n_inputs: int,
        scale: bool,
        rng: np.random.Generator,
        metric: str = "euclidean",
    ) -> None:
        places, values, starts = pool.csr(0, len(pool))
        few = len(places) < DENSE_SHARE * len(pool) * n_inputs and n_inputs >= MANY_FEATURES
        points = scipy.sparse.csr_matrix((values, places, starts), shape=(len(pool), n_inputs))
        factors = factors_of(points, scale)
        is_cosine = metric == "cosine" or (metric == "auto" and few)
        rows = np.arange(len(pool))
        if is_cosine:
            # A sample of zeros has no direction, and would be near to all that are short.
            there = np.bincount(
                np.repeat(rows, np.diff(starts)),
                weights=factors[places] != 0.0,
                minlength=len(rows),
            )
            rows = rows[there > 0.0] if there.any() else rows[:1]
            psi = min(psi, len(rows))
        super().__init__(
            number,
            n_out=n_partitions,
            n_columns=n_partitions * psi,
            n_inputs=n_inputs,
            dense=False,
            sparse=few,
        )
        self.psi = psi
        # Each partition has its subset of psi points, any one as likely (section 4, Definition 1).
        # The pool's order is random: in it ties are broken, and it is the same for each partition.
        order = rows[rng.permutation(len(rows))]
        members = np.stack(
            [np.sort(rng.choice(len(rows), psi, replace=False)) for _ in range(n_partitions)]
        )
        used, members = np.unique(members, return_inverse=True)
        self.members = np.ascontiguousarray(members.reshape(n_partitions, psi).T, dtype=np.int32)
        self.factors = factors
        points = points[order[used]]
        scaled = points.data.astype(np.float64) * self.factors[points.indices]
        scaled = np.clip(scaled, -FARTHEST, FARTHEST)
        if is_cosine:
            scaled /= np.repeat(lengths_of(scaled, points.indptr), np.diff(points.indptr))
        points.data = scaled.astype(np.float32)
        points.eliminate_zeros()
        self._lay_out(points, pool)

    @property
    def reads_text(self) -> bool:
        """Whether samples have few of very many features, as texts have words."""
        return self.sparse

    def _check(self) -> None:
        check_types(self, {"psi": int})
        check_number(self, "psi", self.psi, 1, MOST_OUT)
        check_number(self, "n_out", self.n_out, 1, MOST_OUT)
        self._check_equal(n_columns=self.n_out * self.psi, n_cells=self.psi, is_dense=0)
        check_arrays(self, {"factors": (np.float64, (max(1, self.n_inputs),))})

    @abc.abstractmethod
    def _lay_out(self, points: scipy.sparse.csr_matrix, pool: Pool) -> None:
        """Keep what is needed of the points that partitions use, which are of a pool."""

    def names(self, columns: Sequence[int]) -> list[str]:
        """Return the names of columns: method, build, partition and cell."""
        start = f"{self.METHOD}{self.number}_"
        return [f"{start}{c // self.psi}_{c % self.psi}" for c in columns]


def lengths_of(
    values: NDArray[np.float64], starts: NDArray[np.integer[Any]]
) -> NDArray[np.float64]:
    """Return the length of each row of a sparse matrix, 1 for a row of zeros."""
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    squares = np.bincount(rows, weights=values**2, minlength=len(starts) - 1)
    return np.sqrt(np.where(squares > 0.0, squares, 1.0))


def factors_of(points: scipy.sparse.csr_matrix, scale: bool) -> NDArray[np.float64]:
    """Return what to multiply each feature by, so that its robust range over the pool becomes 1.

    One that does not vary in the pool gets 0.
    """
    if not scale or points.shape[1] == 0:
        return np.ones(max(1, points.shape[1]))
    low, high = robust_ranges_of_sparse(points)
    reach = high - low
    return np.divide(1.0, reach, out=np.zeros_like(reach), where=reach > 0.0)


def parts_of(matrix: Any) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Return the starts, indices and values of a CSR or CSC matrix."""
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data


def records_of(kind: type[Record], rows: NDArray[Any]) -> Array[Any]:
    """Return the rows of an array as records."""
    return Array.of_kind(Array[kind], rows.ctypes.data, len(rows))  # type: ignore[valid-type]
