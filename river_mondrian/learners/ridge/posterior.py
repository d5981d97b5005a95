"""The posterior of ridge regression: what owns its memory."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...checks import (
    LARGEST_RATE,
    LARGEST_SIZE,
    LEAST_RATE,
    check_array,
    check_number,
    check_types,
    refuse,
)
from ...errors import ModelFormatError
from ...maps.compiled import CompiledMap, outputs_of
from ...maps.record import Sample
from ...records import Float64s, Memory, owned
from ...status import NO_ROOM
from ..weights import Weights
from . import kernels
from .kernels import RidgePosterior
from .likelihood import log_of_residual


class Posterior(Weights):
    """The posterior of the weights of a compiled map's columns.

    Parameters
    ----------
    compiled
        The map.
    delta2
        Prior precision of a weight, times the variance of the noise.
    intercept
        Whether there is one.
    limit
        Most columns that are kept.

    """

    def __init__(self, compiled: CompiledMap, delta2: float, intercept: bool, limit: int) -> None:
        self.compiled = compiled
        self.memory = Memory(RidgePosterior)
        record = self.record = self.memory[0]
        record.n_rows = record.has_intercept = int(intercept)
        record.limit = limit + intercept
        record.delta2 = delta2
        self._bind(np.zeros(1), np.zeros(1), np.full(compiled.n_columns, -1, np.int32))

    def _bind(
        self,
        factor: NDArray[np.float64],
        moments: NDArray[np.float64],
        slots: NDArray[np.int32],
    ) -> None:
        """Keep arrays, and make those that are derived from them."""
        memory, n = self.memory, len(moments)
        self.record.is_solved = 0
        memory.own("factor", factor)
        memory.own("moments", moments)
        memory.own("slots", slots)
        memory.own("solution", np.zeros(n))
        memory.own("work", np.zeros(n))
        self.record.capacity, self.record.n_columns = n, len(slots)

    def __getstate__(self) -> dict[str, Any]:
        self.memory.settle()
        arrays, n, n_columns = self.memory.arrays, self.record.n_rows, self.compiled.n_columns
        # Without room for rows and columns to come.
        slots = np.full(n_columns, -1, np.int32)
        slots[: len(arrays["slots"])] = arrays["slots"][:n_columns]
        used = {
            "factor": arrays["factor"][: n * (n + 1) // 2].copy(),
            "moments": arrays["moments"][:n].copy(),
            "slots": slots,
        }
        return {"compiled": self.compiled, "memory": self.memory, "arrays": used}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.compiled, self.memory = state["compiled"], state["memory"]
        check_types(self, {"compiled": CompiledMap, "memory": Memory})
        if self.memory.kind is not RidgePosterior or len(self.memory) != 1:
            refuse(self, "memory", self.memory.kind.__name__, "but it is of another kind")
        record = self.record = self.memory[0]
        arrays = owned(state["arrays"])
        n = len(arrays["moments"])
        for name, value, least, most in (
            ("has_intercept", record.has_intercept, 0, 1),
            ("n_rows", record.n_rows, record.has_intercept, min(n, record.limit)),
            ("n_learned", record.n_learned, 0, LARGEST_SIZE),
            ("n_samples", record.n_samples, 0, record.n_learned),
            ("limit", record.limit, 1, LARGEST_SIZE),
            ("delta2", float(record.delta2), LEAST_RATE, LARGEST_RATE),
            ("residual", float(record.residual), 0.0, LARGEST_RATE),
        ):
            check_number(self, name, value, least, most)
        check_array(self, "slots", arrays["slots"], np.int32, -1, record.n_rows - 1)
        self._bind(**arrays)
        if len(self.memory.arrays["factor"]) != n * (n + 1) // 2:
            raise ModelFormatError(f"a factor of {n} columns has another number of entries")

    def _make_room(self) -> None:
        """Make room for the map's new columns or, where there are none, for more rows."""
        self.memory.settle()
        record, arrays = self.record, self.memory.arrays
        factor, moments, slots = (arrays[name] for name in ("factor", "moments", "slots"))
        n = self.compiled.n_columns
        if n > len(slots):
            slots = np.full(max(n, 2 * len(slots)), -1, dtype=np.int32)
            slots[: len(arrays["slots"])] = arrays["slots"]
        else:
            # About half as many entries again.
            n = min(record.limit, len(moments) * 5 // 4 + self.compiled.n_out)
            factor, moments = np.zeros(n * (n + 1) // 2), np.zeros(n)
            factor[: len(arrays["factor"])] = arrays["factor"]
            moments[: len(arrays["moments"])] = arrays["moments"]
        self._bind(factor, moments, slots)

    # Compiled at their first use.

    @functools.cached_property
    def _learn_one(self) -> Callable[..., int]:
        return kernels.learn_one.of()

    @functools.cached_property
    def _predict_one(self) -> Callable[..., tuple[int, float, float]]:
        return kernels.predict_one.of()

    def learn(self, sample: Sample | None, target: float, weight: float) -> int:
        """Learn a sample; returns DONE, or the place of a bad input.

        Without a sample, it is the one whose outputs the map holds.
        """
        compiled = self.compiled
        record, feature_map, outputs = self.record, compiled.record, compiled.outputs
        if sample is None:
            status = kernels.learn_mapped(record, feature_map, outputs, target, weight)
        else:
            status = self._learn_one(record, feature_map, sample, outputs, target, weight)
        while status == NO_ROOM:
            self._make_room()
            status = kernels.learn_mapped(record, feature_map, outputs, target, weight)
        return status

    def learn_rows(
        self, out: NDArray[Any], targets: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> None:
        """Learn mapped samples."""
        record, feature_map, outputs = self.record, self.compiled.record, outputs_of(out)
        arrays = Float64s.of(targets), Float64s.of(weights)
        start, stop = 0, len(out)
        while start < stop:
            start = kernels.learn_rows(record, feature_map, outputs[0], start, stop, *arrays)
            if start < stop:
                self._make_room()

    def predict(self, sample: Sample, with_variance: bool) -> tuple[int, float, float]:
        """Return DONE or the place of a bad input, and the mean and variance of a prediction.

        The variance is in units of the noise's, and infinite where it is not asked for.
        """
        record, compiled = self.record, self.compiled
        arguments = record, compiled.record, sample, compiled.outputs, with_variance
        found = self._predict_one(*arguments)
        while found[0] == NO_ROOM:
            self._make_room()
            found = self._predict_one(*arguments)
        return found

    def predict_rows(self, out: NDArray[Any], with_variance: bool) -> NDArray[np.float64]:
        """Return means, and variances in units of the noise's, of mapped samples' targets."""
        while self.compiled.n_columns > self.record.n_columns:
            self._make_room()
        outputs, found = outputs_of(out), np.empty((len(out), 2))
        numbers = Float64s.of(found.ravel())
        kernels.predict_rows(
            self.record, self.compiled.record, outputs[0], len(out), with_variance, numbers
        )
        return found

    @property
    def n_learned(self) -> int:
        """Samples learned, whatever their weight."""
        return self.record.n_learned

    @property
    def n_rows(self) -> int:
        """Columns kept, with the intercept."""
        return self.record.n_rows

    @property
    def n_samples(self) -> int:
        """Samples of a weight above 0."""
        return self.record.n_samples

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the noise."""
        return max(0, self.record.n_samples - self.record.has_intercept)

    @property
    def residual(self) -> float:
        """Sum of the squared errors of predictions, each divided by its variance."""
        return float(self.record.residual)

    def log_likelihood(self, noise_variance: float | None) -> float:
        """Return the log marginal likelihood."""
        record, freedom = self.record, self.freedom
        if freedom == 0:
            return 0.0
        n = record.n_rows - record.has_intercept
        determinant = kernels.log_determinant(record) - n * math.log(record.delta2)
        spread = 0.5 * (float(record.log_weights) - determinant)
        return spread + log_of_residual(self.residual, freedom, noise_variance)

    @property
    def nbytes(self) -> int:
        """Bytes held, without the map."""
        arrays = (self.memory.bytes, *self.memory.arrays.values())
        return sys.getsizeof(self) + sum(array.nbytes for array in arrays)
