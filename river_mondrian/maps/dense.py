"""Feature maps to dense vectors: random Fourier features and Nyström features."""

import math
from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from .. import checks, limits
from ..compiling.kernels import helper, kernel, link_by_name
from ..records import Float64, Float64s, Int32s, Int64, Int64s, Memory, Record, derived, transient
from . import record as maps
from .record import CompiledMap, MapRecord, Outputs, Pool, RowPerFeature, Sample

# The compiler must not reorder sums, because batches and single samples must have equal results.
ORDERED_SUMS = True

# Random Fourier features: cosine and sine of random projections (Rahimi and Recht, 2007).


class FourierRecord(MapRecord):
    """The frequencies of random Fourier features."""

    # A row of n_out / 2 frequencies for each input.
    frequencies: Float64s
    # Factor of cosines and sines.
    factor: Float64


@link_by_name
def project_and_turn(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Map a sample to cosines and then sines (Algorithm 1 of Rahimi and Recht, 2007)."""
    fourier = FourierRecord(record)
    bad = maps.bad_entry(fourier, sample)
    if bad >= 0:
        return bad
    m = fourier.n_out // 2
    out, frequencies = outputs.values, fourier.frequencies
    for k in range(m):
        out[k] = 0.0
    for j in range(sample.n_entries):
        index, value = maps.read_entry(fourier, sample, j)
        if value == 0.0:
            continue
        row = frequencies.part(m * index, m)
        for k in range(m):
            out[k] = out[k] + value * row[k]
    factor = fourier.factor
    for k in range(m):
        phase = out[k]
        out[k] = factor * math.cos(phase)
        out[m + k] = factor * math.sin(phase)
    return limits.DONE


class FourierMap(RowPerFeature):
    """Random Fourier features of a kernel.

    Parameters
    ----------
    seed
        Seed of all frequencies.
    n_components
        Number of outputs.
    kernel
        "gaussian" or "laplace".
    rate
        Rate of the kernel.

    """

    KIND = FourierRecord
    record: FourierRecord

    def __init__(self, seed: int, n_components: int, kernel: str, rate: float) -> None:
        super().__init__(seed, n_components, n_components, True)
        self.kernel, self.rate = kernel, float(rate)
        self.record.factor = 1.0 / math.sqrt(n_components // 2)

    @staticmethod
    def _width(n_out: int) -> int:
        return n_out // 2

    def _check(self) -> None:
        super()._check()
        checks.check_types(self, {"kernel": str, "rate": float})
        if self.kernel not in KERNELS:
            checks.refuse(self, "kernel", self.kernel, "but it should be gaussian or laplace")
        checks.check_number(self, "rate", self.rate, checks.LEAST_POSITIVE, checks.LARGEST_FINITE)
        n_out = 2 * (self.n_out // 2)
        checks.check_equal(self, self.record, is_dense=1, n_out=n_out, n_columns=n_out)

    def _transform(self) -> maps.Transform:
        return project_and_turn

    def _bind(self) -> None:
        self.record.frequencies = Float64s.of(self.rows)

    def _draw(self, rng: np.random.Generator, row: NDArray[np.float64]) -> None:
        if self.kernel == "gaussian":
            row[:] = math.sqrt(2.0 * self.rate) * rng.standard_normal(len(row))
        else:
            row[:] = self.rate * rng.standard_cauchy(len(row))

    def names(self, columns: Sequence[int]) -> list[str]:
        """Return the names of columns."""
        return [f"fourier_{column}" for column in columns]


# Nyström features: a sample's kernels with landmarks, projected (Williams and Seeger, 2000).


# Kernels of two vectors: exp(-rate |x - y|_1) and exp(-rate |x - y|_2^2).
LAPLACE_KERNEL = 0
GAUSSIAN_KERNEL = 1
KERNELS = {"laplace": LAPLACE_KERNEL, "gaussian": GAUSSIAN_KERNEL}


class StoredRows(Record):
    """Rows of a CSR matrix, and the kernel that compares them with a sample."""

    # LAPLACE_KERNEL or GAUSSIAN_KERNEL.
    kind: Int64
    # Rate of the kernel.
    rate: Float64
    n_rows: Int64
    # Number of columns of the coefficients: one for each sum over the rows.
    n_columns: Int64 = derived()
    # Start of each row's entries.
    starts: Int64s
    # Features and values of the entries.
    indices: Int32s
    values: Float64s
    # Buffer for a sample as a dense vector, which is zero between calls.
    vector: Float64s = transient()
    # Weighted sums of kernels (see `weighted_sums`).
    sums: Float64s = transient()


@helper
def similarity(rows: StoredRows, i: int, n_nonzero: int, size: float) -> float:
    """Return the kernel of the vector and the i-th row.

    The vector x has `n_nonzero` values that are not 0. `size` is |x|_1 for the Laplace kernel, and
    |x|_2^2 for the Gaussian kernel. `n_nonzero` and `size` may include features that no row has.
    The loop visits only features where the row is not 0. The other features add the remainder of
    `size` to the distance. The remainder is exactly 0 if all non-zero values of x are at visited
    features.
    """
    kind, vector, indices, values = rows.kind, rows.vector, rows.indices, rows.values
    apart, here, met = 0.0, 0.0, 0
    for j in range(rows.starts[i], rows.starts[i + 1]):
        there = vector[indices[j]]
        gap = there - values[j]
        apart += abs(gap) if kind == LAPLACE_KERNEL else gap * gap
        here += abs(there) if kind == LAPLACE_KERNEL else there * there
        met += there != 0.0
    if met < n_nonzero:
        apart += max(size - here, 0.0)
    return math.exp(-rows.rate * apart)


@helper
def sum_over_rows(
    rows: StoredRows, n_nonzero: int, size: float, coefficients: Float64s, out: Float64s
) -> None:
    """Write out_k = sum_i coefficients_ik kernel(vector, row i) for each column k."""
    n_columns = rows.n_columns
    for k in range(n_columns):
        out[k] = 0.0
    for i in range(rows.n_rows):
        alike = similarity(rows, i, n_nonzero, size)
        row = coefficients.part(n_columns * i, n_columns)
        for k in range(n_columns):
            out[k] = out[k] + row[k] * alike


# Indices and values of entries, and their number.
Entries = tuple[Int32s, Float64s, int]


@kernel
def weighted_sums(
    rows: StoredRows, entries: Entries, n_nonzero: int, size: float, coefficients: Float64s
) -> None:
    """Write sums_k = sum_i coefficients_ik kernel(sample, row i) for each column k.

    `entries` has only the features that rows may have. `n_nonzero` and `size` are for all features
    of the sample (see `similarity`).
    """
    vector, (indices, values, n_entries) = rows.vector, entries
    for j in range(n_entries):
        vector[indices[j]] = values[j]
    sum_over_rows(rows, n_nonzero, size, coefficients, rows.sums)
    for j in range(n_entries):
        vector[indices[j]] = 0.0


@kernel
def weighted_shares(
    cells: Int32s, rows: Int32s, sizes: tuple[int, int, int], coefficients: Float64s, out: Float64s
) -> None:
    """Write out_k = sum_i coefficients_ik share_i; share_i is the share of equal cells in row i."""
    n_rows, n_partitions, n_columns = sizes
    for k in range(n_columns):
        out[k] = 0.0
    for i in range(n_rows):
        row = rows.part(n_partitions * i, n_partitions)
        equal = 0
        for j in range(n_partitions):
            equal += cells[j] == row[j]
        alike = equal / n_partitions
        factors = coefficients.part(n_columns * i, n_columns)
        for k in range(n_columns):
            out[k] = out[k] + factors[k] * alike


class NystromRecord(MapRecord):
    """Landmarks, and the coefficients that map kernels with the landmarks to columns."""

    landmarks: StoredRows
    # A row of `n_out` coefficients for each landmark.
    coefficients: Float64s


@link_by_name
def project(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Map a sample with sorted entries to weighted sums of its kernels with the landmarks."""
    nystrom = NystromRecord(record)
    bad = maps.bad_entry(nystrom, sample)
    if bad >= 0:
        return bad
    landmarks = nystrom.landmarks
    kind, vector = landmarks.kind, landmarks.vector
    n_nonzero, size = 0, 0.0
    for j in range(sample.n_entries):
        index, value = maps.read_entry(nystrom, sample, j)
        if value != 0.0:
            vector[index] = value
            n_nonzero += 1
            size += abs(value) if kind == LAPLACE_KERNEL else value * value
    sum_over_rows(landmarks, n_nonzero, size, nystrom.coefficients, outputs.values)
    for j in range(sample.n_entries):
        index, value = maps.read_entry(nystrom, sample, j)
        if value != 0.0:
            vector[index] = 0.0
    return limits.DONE


class NystromMap(CompiledMap):
    """Nyström features whose landmarks are the samples of a pool.

    Parameters
    ----------
    number
        Number of the build.
    pool
        The landmarks.
    n_inputs
        Number of features to read.
    rank
        Largest number of columns.
    kernel
        "gaussian" or "laplace".
    rate
        Rate of the kernel.

    """

    KIND = NystromRecord
    record: NystromRecord

    _DERIVED = CompiledMap._DERIVED | {"vector"}

    def __init__(
        self, number: int, pool: Pool, n_inputs: int, rank: int, kernel: str, rate: float
    ) -> None:
        n = len(pool)
        # At first, the coefficients are the identity, because the map then maps the landmarks to
        # the rows of their Gram matrix.
        super().__init__(number, n, n, n_inputs, dense=True, sparse=True)
        self.landmarks = Memory(StoredRows)
        rows = self.landmarks[0]
        rows.kind, rows.rate, rows.n_rows = KERNELS[kernel], rate, n
        indices, values, self.starts = pool.csr(0, n)
        self.indices, self.values = indices.copy(), values.astype(np.float64)
        self.coefficients = np.eye(n)
        self._finish()
        gram = self.transform_csr(self.indices, self.values, self.starts)[0]
        weights, vectors = scipy.linalg.eigh(gram, subset_by_index=[n - min(rank, n), n - 1])
        # Small eigenvalues are dropped, because coinciding landmarks make the matrix singular.
        is_large = weights > n * np.finfo(float).eps * weights[-1]
        self.coefficients = np.ascontiguousarray(vectors[:, is_large] / np.sqrt(weights[is_large]))
        self.record.n_out = self.record.n_columns = self.coefficients.shape[1]
        self._finish()

    def _check(self) -> None:
        checks.check_types(self, {"landmarks": Memory})
        kind = self.landmarks.kind
        if kind is not StoredRows or len(self.landmarks) != 1:
            checks.refuse(self, "landmarks", kind.__name__, "but it should be of StoredRows")
        checks.check_equal(self, self.record, is_dense=1, is_sparse=1, n_columns=self.n_out)
        n, n_entries = self.landmarks[0].n_rows, np.size(self.values)
        arrays = {
            "coefficients": (np.float64, (n, self.n_out)),
            "starts": (np.int64, (n + 1,)),
            "indices": (np.int32, (n_entries,), 0, self.n_inputs - 1),
            "values": (np.float64, (n_entries,)),
        }
        checks.check_arrays(self, arrays)
        checks.check_starts(self, "starts", self.starts, n_entries)

    def _transform(self) -> maps.Transform:
        return project

    def _bind(self) -> None:
        self.vector = np.zeros(max(1, self.n_inputs))
        self.landmarks.refer(self, "starts", "indices", "values", "vector")
        self.landmarks[0].n_columns = self.n_out
        self.record.landmarks = self.landmarks[0]
        self.memory.refer(self, "coefficients")

    def names(self, columns: Sequence[int]) -> list[str]:
        """Return the names of columns, which contain the numbers of the build and the component."""
        return [f"nystrom{self.number}_{column}" for column in columns]
