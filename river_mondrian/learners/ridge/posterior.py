"""The posterior of ridge regression: the owner of its memory, and the merge of two posteriors."""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from ...checks import (
    LARGEST_RATE,
    LARGEST_SIZE,
    LEAST_RATE,
    ModelFormatError,
    check_array,
    check_number,
    check_types,
    refuse,
)
from ...limits import NO_ROOM
from ...maps.record import CompiledMap, Pool, Sample, outputs_of
from ...records import Float64s, Int32s, Int64s, Memory, OwnsArrays, owned
from . import rotations, windows
from .rotations import RidgePosterior
from .windows import HeldSamples


class Weights(abc.ABC):
    """What a learner has learned for the columns of one compiled map."""

    compiled: CompiledMap

    @property
    @abc.abstractmethod
    def n_learned(self) -> int:
        """Samples learned; kernels count them as they learn."""

    @abc.abstractmethod
    def learn(self, sample: Sample, target: float, weight: float, is_mapped: bool = False) -> int:
        """Learn a sample; returns DONE, or the place of a bad input.

        Where it `is_mapped` the map holds its outputs.
        """

    @abc.abstractmethod
    def learn_rows(
        self, out: NDArray[Any], targets: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> None:
        """Learn mapped samples."""

    def learn_stored(
        self,
        pool: Pool,
        start: int,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64],
    ) -> None:
        """Learn samples of a pool from `start` on."""
        out = self.compiled.transform_stored(pool, start, start + len(targets))
        self.learn_rows(out, targets, weights)

    @property
    @abc.abstractmethod
    def nbytes(self) -> int:
        """Bytes held, without the map."""


def log_of_residual(residual: float, freedom: int, noise_variance: float | None) -> float:
    """Return what a log marginal likelihood takes from residuals.

    Parameters
    ----------
    residual
        Sum of squared, standardised residuals.
    freedom
        Their number.
    noise_variance
        Variance of the noise; None integrates it out under the prior 1 / variance.

    """
    if noise_variance is not None:
        return -0.5 * (freedom * math.log(2.0 * math.pi * noise_variance)) - 0.5 * (
            residual / noise_variance
        )
    if residual <= 0.0:
        return math.inf
    half = 0.5 * freedom
    return float(scipy.special.gammaln(half)) - half * (math.log(math.pi) + math.log(residual))


class Posterior(OwnsArrays, Weights):
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
    window
        Most samples that count, of the latest; they are held, so that they may be taken out. None
        holds none.

    """

    _BORROWED = frozenset({"compiled"})

    def __init__(
        self,
        compiled: CompiledMap,
        delta2: float,
        intercept: bool,
        limit: int,
        window: int | None = None,
    ) -> None:
        self.compiled = compiled
        self.held = None if window is None else HeldSamples(window, compiled, 1)
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
        state = {"compiled": self.compiled, "memory": self.memory, "arrays": used}
        if self.held is not None:
            state["held"] = self.held.state(n)
        return state

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
        self.held = None
        if "held" in state:
            self.held = HeldSamples.restored(state["held"], self.compiled, n)
            check_number(self, "n_samples", record.n_samples, *[self.held.record.n_held] * 2)

    def _make_room(self) -> None:
        """Make room for what there is none for: new columns, another sample held, more rows."""
        self.memory.settle()
        record, arrays = self.record, self.memory.arrays
        factor, moments, slots = (arrays[name] for name in ("factor", "moments", "slots"))
        n = self.compiled.n_columns
        if n > len(slots):
            slots = np.full(max(n, 2 * len(slots)), -1, dtype=np.int32)
            slots[: len(arrays["slots"])] = arrays["slots"]
        elif self.held is not None and self.held.lacks_room(self.compiled):
            self.held = self.held.grown(self.compiled, len(moments))
            return
        else:
            # About half as many entries again.
            n = min(record.limit, len(moments) * 5 // 4 + self.compiled.n_out)
            if self.held is not None:
                self.held = self.held.grown(self.compiled, n)
            factor, moments = np.zeros(n * (n + 1) // 2), np.zeros(n)
            factor[: len(arrays["factor"])] = arrays["factor"]
            moments[: len(arrays["moments"])] = arrays["moments"]
        self._bind(factor, moments, slots)

    # Compiled at their first use.

    @functools.cached_property
    def _learn_one(self) -> Callable[..., int]:
        # It is needed once there is no room: at which sample depends on the map's random numbers.
        rotations.learn_mapped.of()
        return rotations.learn_one.of()

    @functools.cached_property
    def _predict_one(self) -> Callable[..., tuple[int, float, float]]:
        return rotations.predict_one.of()

    def learn(self, sample: Sample, target: float, weight: float, is_mapped: bool = False) -> int:
        """Learn a sample; returns DONE, or the place of a bad input.

        Where it `is_mapped` the map holds its outputs.
        """
        compiled = self.compiled
        record, feature_map, outputs = self.record, compiled.record, compiled.outputs
        if self.held is not None:
            return self._learn_held(self.held, sample, target, weight, is_mapped)
        if is_mapped:
            status = rotations.learn_mapped(record, feature_map, outputs, target, weight)
        else:
            status = self._learn_one(record, feature_map, sample, outputs, target, weight)
        while status == NO_ROOM:
            self._make_room()
            status = rotations.learn_mapped(record, feature_map, outputs, target, weight)
        return status

    def _learn_held(
        self, held: HeldSamples, sample: Sample, target: float, weight: float, is_mapped: bool
    ) -> int:
        """Learn and hold a sample, as `learn` does."""
        record, compiled = self.record, self.compiled
        arguments = compiled.record, sample, compiled.outputs
        status = windows.learn_one(record, held.record, *arguments, is_mapped, target, weight)
        while status == NO_ROOM:
            self._make_room()
            assert self.held is not None
            held = self.held
            status = windows.learn_one(record, held.record, *arguments, True, target, weight)
        return status

    def learn_stored(
        self,
        pool: Pool,
        start: int,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64],
    ) -> None:
        """Learn samples of a pool from `start` on."""
        if self.held is None:
            super().learn_stored(pool, start, targets, weights)
            return
        n, feature_map = len(targets), self.compiled.record
        places, values, starts = pool.csr(start, start + n)
        keys = np.empty(n, np.int64)
        matrix = Int32s.of(places), Float64s.of(values.astype(np.float64)), Int64s.of(starts)
        windows.find_keys(feature_map, *matrix, n, Int64s.of(keys))
        out = self.compiled.transform_stored(pool, start, start + n)
        outputs = outputs_of(out)
        arrays = Int64s.of(keys), Float64s.of(targets), Float64s.of(weights)
        i = 0
        while i < n:
            records = self.record, self.held.record, feature_map, outputs[0]
            i = windows.learn_rows(*records, i, n, *arrays)
            if i < n:
                self._make_room()

    def places_of(self, sample: Sample, target: float, weight: float) -> list[int]:
        """Return which of the samples that are held, by arrival, equal one."""
        assert self.held is not None
        return self.held.equal(windows.find_key(self.compiled.record, sample), target, weight)

    @property
    def window(self) -> int | None:
        """Most samples that are held; None where none are."""
        return None if self.held is None else self.held.record.window

    def forget(self, k: int, n_samples: int) -> None:
        """Take the k-th of the samples that are held out, if there are as many as are given."""
        assert self.held is not None
        if self.record.n_samples == n_samples:
            windows.forget(self.record, self.held.record, self.compiled.record, k)

    def learn_rows(
        self, out: NDArray[Any], targets: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> None:
        """Learn mapped samples."""
        record, feature_map, outputs = self.record, self.compiled.record, outputs_of(out)
        arrays = Float64s.of(targets), Float64s.of(weights)
        start, stop = 0, len(out)
        while start < stop:
            start = rotations.learn_rows(record, feature_map, outputs[0], start, stop, *arrays)
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
        rotations.predict_rows(
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
        determinant = rotations.log_determinant(record) - n * math.log(record.delta2)
        spread = 0.5 * (float(record.log_weights) - determinant)
        return spread + log_of_residual(self.residual, freedom, noise_variance)


# The posterior given the samples of two posteriors.
#
# Both have the same prior, whose precision delta2 I counts once. With A = T' T and T w = z as in
# `rotations`, A = A1 + A2 - delta2 I, and what the targets say adds up. The sum of squares that is
# left at the joint mean w is that of either part and |T1 w - z1|^2 + |T2 w - z2|^2 - delta2
# |w|^2, of which no large numbers cancel.


Matrix = NDArray[np.float64]


class _Part(NamedTuple):
    """A posterior by the rows of the joint one: T, z, and the prior's diagonal of its columns."""

    triangle: Matrix
    moments: Matrix
    prior: Matrix


def _part(posterior: Posterior, rows: NDArray[np.int64], n: int) -> _Part:
    """Return a posterior whose rows are some of `n`."""
    record, arrays = posterior.record, posterior.memory.arrays
    size = record.n_rows
    triangle = np.zeros((size, size))
    triangle[np.tril_indices(size)] = arrays["factor"][: size * (size + 1) // 2]
    found = np.zeros((size, n))
    found[:, rows] = triangle
    prior = np.zeros(n)
    prior[rows] = record.delta2
    if record.has_intercept:
        prior[0] = 0.0
    return _Part(found, arrays["moments"][:size].copy(), prior)


def _may_lack(posterior: Posterior) -> bool:
    """Tell whether a posterior may have left out columns that its samples have."""
    record = posterior.record
    kept = record.n_rows - record.has_intercept
    return record.n_rows == record.limit and kept < posterior.compiled.n_columns


def _factor(matrix: Matrix) -> Matrix:
    """Return the lower triangle T with T' T = A."""
    upper = scipy.linalg.cholesky(matrix[::-1, ::-1], lower=True)
    found: Matrix = upper.T[::-1, ::-1]
    return found


def merge_posteriors(posterior: Posterior, other: Posterior, columns: NDArray[np.int64]) -> None:
    """Let a posterior learn all that another one has learned.

    Parameters
    ----------
    posterior
        The one that learns; its map has the columns of both.
    other
        The other one, of the same prior.
    columns
        By column of the other one's map: its column in the map of the first.

    Raises
    ------
    ValueError
        If the joint posterior has more columns than are kept.

    """
    while posterior.compiled.n_columns > posterior.record.n_columns:
        posterior._make_room()
    record, its = posterior.record, other.record
    slots, its_slots = posterior.memory.arrays["slots"], other.memory.arrays["slots"]
    rows = np.zeros(its.n_rows, np.int64)
    n = record.n_rows
    slots = slots.copy()
    used = np.flatnonzero(its_slots[: len(columns)] >= 0)
    for column in used[np.argsort(its_slots[used])].tolist():
        here = int(columns[column])
        if slots[here] < 0:
            slots[here] = n
            n += 1
        rows[its_slots[column]] = slots[here]
    if n > record.limit or _may_lack(posterior) or _may_lack(other):
        most = record.limit - record.has_intercept
        raise ValueError(
            f"the samples have, or may have, more than max_columns={most} columns: which of them "
            "are kept depends on the order"
        )
    own, theirs = _part(posterior, np.arange(record.n_rows), n), _part(other, rows, n)
    # Their targets by our shift.
    moved = theirs.moments
    if record.has_intercept:
        moved = moved + (its.shift - record.shift) * theirs.triangle[:, 0]
    joint = own.triangle.T @ own.triangle + theirs.triangle.T @ theirs.triangle
    # Where a column is in one only, there is the prior of that one.
    joint[np.diag_indices(n)] -= np.minimum(own.prior, theirs.prior)
    factor = _factor(joint)
    said = own.triangle.T @ own.moments + theirs.triangle.T @ moved
    moments = scipy.linalg.solve_triangular(factor, said, trans="T", lower=True)
    weights = scipy.linalg.solve_triangular(factor, moments, lower=True)
    left = float(record.residual) + float(its.residual)
    left += float(np.sum((own.triangle @ weights - own.moments) ** 2))
    left += float(np.sum((theirs.triangle @ weights - moved) ** 2))
    left -= float(np.minimum(own.prior, theirs.prior) @ weights**2)
    posterior._bind(factor[np.tril_indices(n)], moments, slots)
    record.n_rows = n
    record.residual = max(left, 0.0)
    record.n_samples += its.n_samples
    record.n_learned += its.n_learned
    record.log_weights = float(record.log_weights) + float(its.log_weights)
