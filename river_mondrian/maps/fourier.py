"""Random Fourier features: cosine and sine of random projections (Rahimi and Recht, 2007)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..checks import LARGEST_RATE, LEAST_RATE, check_number, check_types, refuse
from ..compiling.kernels import exact_separate
from ..records import Float64, Float64s
from ..status import DONE
from .compiled import RowPerFeature, Transform
from .record import MapRecord, Outputs, Sample, bad_entry, read_entry


class FourierRecord(MapRecord):
    """Random Fourier features."""

    # Frequencies, a row of n_out / 2 for each input.
    frequencies: Float64s
    # Factor of the outputs.
    factor: Float64


@exact_separate
def project_and_turn(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Map a sample to the cosines and then the sines of its phases (Algorithm 1)."""
    fourier = FourierRecord(record)
    bad = bad_entry(fourier, sample)
    if bad >= 0:
        return bad
    m = fourier.n_out // 2
    out, frequencies = outputs.values, fourier.frequencies
    for k in range(m):
        out[k] = 0.0
    for j in range(sample.n_entries):
        place, value = read_entry(fourier, sample, j)
        if value == 0.0:
            continue
        row = frequencies.part(m * place, m)
        for k in range(m):
            out[k] = out[k] + value * row[k]
    factor = fourier.factor
    for k in range(m):
        phase = out[k]
        out[k] = factor * math.cos(phase)
        out[m + k] = factor * math.sin(phase)
    return DONE


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
        n_frequencies = n_components // 2
        super().__init__(seed, n_components, n_components, True, width=n_frequencies)
        self.kernel = kernel
        self.rate = float(rate)
        self.record.factor = 1.0 / math.sqrt(n_frequencies)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"rows": (max(len(self.rows), self.n_inputs), self.n_out // 2)}

    def _check(self) -> None:
        super()._check()
        check_types(self, {"kernel": str, "rate": float})
        if self.kernel not in ("gaussian", "laplace"):
            refuse(self, "kernel", self.kernel, "but it is gaussian or laplace")
        check_number(self, "rate", self.rate, LEAST_RATE, LARGEST_RATE)
        check_number(self, "is_dense", self.record.is_dense, 1, 1)
        check_number(self, "n_out", self.n_out % 2, 0, 0)
        check_number(self, "n_columns", self.n_columns, self.n_out, self.n_out)

    def _transform(self) -> Transform:
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
