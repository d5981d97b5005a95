"""The posterior of ridge regression: the owner of its memory, and the merge of two posteriors."""

import abc
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from ...checks import check_equal, check_number, check_types
from ...compiling.kernels import set_entries
from ...limits import NO_ROOM
from ...maps.record import CompiledMap, Pool, Sample, outputs_of
from ...records import Float64s, Floats, Int32s, Int64s, Ints, OwnsArrays
from ..learned import Learned, keep
from . import rotations, windows
from .rotations import PosteriorNumbersRecord
from .windows import HeldSamples


class Weights(OwnsArrays, abc.ABC):
    """The weights of a learner for the columns of one compiled map."""

    compiled: CompiledMap

    @property
    @abc.abstractmethod
    def n_learned(self) -> int:
        """Number of learned samples, which kernels count."""

    @abc.abstractmethod
    def learn(self, sample: Sample, target: float, weight: float, is_mapped: bool = False) -> int:
        """Learn a sample, and return DONE or the index of an invalid input.

        If `is_mapped`, the map already holds the sample's outputs.
        """

    @abc.abstractmethod
    def learn_rows(self, out: NDArray[Any], targets: Floats, weights: Floats) -> None:
        """Learn mapped samples."""

    def learn_stored(self, pool: Pool, start: int, targets: Floats, weights: Floats) -> None:
        """Learn the samples of a pool from `start` on."""
        out = self.compiled.transform_stored(pool, start, start + len(targets))
        self.learn_rows(out, targets, weights)


def log_of_residual(residual: float, freedom: int, noise_variance: float | None) -> float:
    """Return the terms of a log marginal likelihood that depend on residuals.

    Parameters
    ----------
    residual
        Sum of squared standardized residuals.
    freedom
        Number of residuals.
    noise_variance
        Variance of the noise; if None, the variance is integrated out under the prior 1 / variance.

    """
    if noise_variance is not None:
        normalizer = 0.5 * (freedom * math.log(2.0 * math.pi * noise_variance))
        return -normalizer - 0.5 * (residual / noise_variance)
    if residual <= 0.0:
        return math.inf
    half = 0.5 * freedom
    return float(scipy.special.gammaln(half)) - half * (math.log(math.pi) + math.log(residual))


class PosteriorNumbers(Learned[PosteriorNumbersRecord]):
    """The record and arrays of a posterior, and the held samples.

    Capacities for rows, columns and samples are fixed. `grown` returns a copy with larger
    capacities.

    Parameters
    ----------
    n_columns
        Number of columns of the map.
    held
        The held samples, which can be removed, or None without a window.
    **numbers
        Initial values of scalar fields of the record.

    """

    _KIND = PosteriorNumbersRecord

    def __init__(self, n_columns: int, held: HeldSamples | None, **numbers: float) -> None:
        self.held = held
        super().__init__(capacity=1, n_columns=n_columns, **numbers)
        self.learned["slots"][:] = -1
        self.show()

    def show(self, predicted: Floats | None = None) -> None:
        """Set the record's references to its arrays, and to the held samples."""
        self._set_lengths()
        super().show()
        self.record.is_solved = 0
        if self.held is not None:
            self.record.held = self.held.record

    def _set_lengths(self) -> None:
        for name, array in (("capacity", "moments"), ("n_columns", "slots")):
            setattr(self.record, name, np.size(self.learned.get(array, ())))

    def resized(self, n: int, n_columns: int, held: HeldSamples | None) -> Self:
        """Return a copy with capacity for `n` rows and `n_columns` columns, and with `held`."""
        slots = np.full(n_columns, -1, np.int32)
        learned: dict[str, NDArray[Any]] = {"moments": np.zeros(n), "slots": slots}
        learned["factor"] = np.zeros(n * (n + 1) // 2)
        for name, new in learned.items():
            keep(new, self.learned[name])
        return self.changed(learned, held=held)

    def grown(self, compiled: CompiledMap) -> Self:
        """Return a copy with room for new columns, another held sample, or more rows."""
        record, held = self.record, self.held
        n, n_columns = record.capacity, record.n_columns
        if compiled.n_columns > n_columns:
            slots = np.full(max(compiled.n_columns, 2 * n_columns), -1, np.int32)
            keep(slots, self.learned["slots"])
            return self.changed({"slots": slots})
        if held is not None and held.lacks_room(compiled):
            return self.changed({}, held=held.grown(compiled, n))
        # The triangle grows with the square of the rows: a quarter more rows make it about 1.6
        # times as long.
        n = min(record.limit, n * 5 // 4 + compiled.n_out)
        return self.resized(n, n_columns, held and held.grown(compiled, n))

    def trimmed(self, compiled: CompiledMap) -> Self:
        """Return a copy without spare capacity."""
        n, held = self.record.n_rows, self.held
        held = held and held.resized(compiled, n, held.record.n_held)
        return self.resized(n, compiled.n_columns, held)

    def _check(self) -> None:
        check_types(self, {"held": (type(None), HeldSamples)})
        self._set_lengths()
        record = self.record
        limit = min(record.capacity, record.limit)
        check_number(self, "n_rows", record.n_rows, record.has_intercept, limit)
        check_number(self, "n_samples", record.n_samples, 0, record.n_learned)

    def check_fit(self, compiled: CompiledMap) -> None:
        """Raise an error if restored numbers and held samples do not fit the map or each other."""
        record, held = self.record, self.held
        check_equal(self, record, n_columns=compiled.n_columns)
        if held is not None:
            its, n_out = held.record, compiled.n_out
            check_equal(self, record, n_samples=its.n_held)
            fits = {"n_rows": record.capacity, "n_columns": compiled.n_columns}
            check_equal(held, its, n_slots=its.n_held, **fits)
            check_number(held, "n_cells", its.n_cells, 0, 0 if compiled.dense else n_out)
            check_number(held, "n_values", its.n_values, 0, n_out if compiled.dense else 0)


class Posterior(Weights):
    """The posterior of the weights of a compiled map's columns.

    Parameters
    ----------
    compiled
        The map.
    delta2
        Prior precision of a weight, times the variance of the noise.
    intercept
        Whether there is an intercept.
    limit
        Largest number of columns that get a row.
    window
        Number of latest samples in the posterior. The posterior holds these samples, because
        removing a sample needs its values. If None, the posterior contains all samples, and holds
        none.

    """

    _BORROWED = frozenset({"compiled"})
    _DERIVED = frozenset({"_learn", "_predict_one"})

    def __init__(
        self, compiled: CompiledMap, delta2: float, intercept: bool, limit: int, window: int | None
    ) -> None:
        self.compiled = compiled
        held = None if window is None else HeldSamples(window, compiled, 1)
        state = {"delta2": delta2, "n_rows": intercept, "has_intercept": intercept}
        self.numbers = PosteriorNumbers(compiled.n_columns, held, limit=limit + intercept, **state)
        self.numbers.record.feature_map = compiled.record

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"numbers": self.numbers.trimmed(self.compiled)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        check_types(self, {"compiled": CompiledMap, "numbers": PosteriorNumbers})
        self.numbers.check_fit(self.compiled)
        self.numbers.record.feature_map = self.compiled.record

    def _make_room(self) -> None:
        """Increase the exhausted capacity."""
        self.numbers = self.numbers.grown(self.compiled)

    # Kernels are compiled at their first use, because most models need only some of them.

    @functools.cached_property
    def _learn(self) -> tuple[Callable[..., int], Callable[..., int]]:
        """The kernel that learns one sample, and the kernel that learns the rows of a batch."""
        learn = rotations.learn_sample if self.numbers.held is None else windows.learn_held
        set_entries(self.numbers.record, learn=learn)
        return windows.learn_one.of(), windows.learn_rows

    @functools.cached_property
    def _predict_one(self) -> Callable[..., tuple[int, float, float]]:
        return rotations.predict_one.of()

    def learn(self, sample: Sample, target: float, weight: float, is_mapped: bool = False) -> int:
        """Learn a sample, and return DONE or the index of an invalid input.

        If `is_mapped`, the map already holds the sample's outputs.
        """
        mapped, (learn_one, _) = (sample, self.compiled.outputs), self._learn
        status = learn_one(self.numbers.record, *mapped, is_mapped, target, weight)
        while status == NO_ROOM:
            self._make_room()
            status = learn_one(self.numbers.record, *mapped, True, target, weight)
        return status

    def learn_stored(self, pool: Pool, start: int, targets: Floats, weights: Floats) -> None:
        """Learn the samples of a pool from `start` on."""
        n = len(targets)
        keys = np.zeros(n, np.int64)
        if self.numbers.held is not None:
            indices, values, starts = pool.csr(start, start + n)
            matrix = Int32s.of(indices), Float64s.of(values.astype(np.float64)), Int64s.of(starts)
            windows.find_keys(self.compiled.record, *matrix, n, Int64s.of(keys))
        out = self.compiled.transform_stored(pool, start, start + n)
        self.learn_rows(out, targets, weights, keys)

    def positions_of(self, sample: Sample, target: float, weight: float) -> list[int]:
        """Return the positions, in order of arrival, of the held samples that equal a sample."""
        assert self.numbers.held is not None
        return self.numbers.held.equal(windows.key_of(self.compiled.record, sample), target, weight)

    @property
    def window(self) -> int | None:
        """Largest number of held samples; None without a window."""
        held = self.numbers.held
        return None if held is None else held.record.window

    def forget(self, k: int, n_samples: int) -> None:
        """Remove the k-th held sample if the number of samples is still `n_samples`."""
        if self.n_samples == n_samples:
            windows.take_out(self.numbers.record, k)

    def learn_rows(
        self, out: NDArray[Any], targets: Floats, weights: Floats, keys: Any = None
    ) -> None:
        """Learn mapped samples, whose keys are in `keys` if the posterior holds samples."""
        outputs, start, stop = outputs_of(out), 0, len(out)
        keys = np.zeros(stop, np.int64) if keys is None else keys
        arrays = Int64s.of(keys), Float64s.of(targets), Float64s.of(weights)
        _, learn_rows = self._learn
        while start < stop:
            start = learn_rows(self.numbers.record, outputs[0], start, stop, *arrays)
            if start < stop:
                self._make_room()

    def predict(self, sample: Sample, with_variance: bool) -> tuple[int, float, float]:
        """Return DONE or the index of an invalid input, and a prediction's mean and variance.

        The variance is in units of the noise variance. Without `with_variance`, the returned
        variance is infinite.
        """
        arguments = sample, self.compiled.outputs, with_variance
        predicted = self._predict_one(self.numbers.record, *arguments)
        if predicted[0] == NO_ROOM:
            self.make_columns()
            predicted = self._predict_one(self.numbers.record, *arguments)
        return predicted

    def predict_rows(self, out: NDArray[Any], with_variance: bool) -> Floats:
        """Return mapped samples' means and variances (see `predict`), shape (n, 2)."""
        self.make_columns()
        outputs, moments = outputs_of(out), np.empty((len(out), 2))
        numbers = Float64s.of(moments.ravel())
        rotations.predict_rows(self.numbers.record, outputs[0], len(out), with_variance, numbers)
        return moments

    def make_columns(self) -> None:
        """Reserve memory for the map's columns."""
        while self.compiled.n_columns > self.numbers.record.n_columns:
            self._make_room()

    @property
    def n_learned(self) -> int:
        """Number of learned samples, including removed samples and samples of weight 0."""
        return self.numbers.record.n_learned

    @property
    def n_rows(self) -> int:
        """Number of rows, including the row of the intercept."""
        return self.numbers.record.n_rows

    @property
    def n_samples(self) -> int:
        """Number of samples in the posterior; their weights are above 0."""
        return self.numbers.record.n_samples

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the noise."""
        return max(0, self.n_samples - self.numbers.record.has_intercept)

    @property
    def residual(self) -> float:
        """Sum of the squared errors of predictions, each divided by the prediction's variance."""
        return float(self.numbers.record.residual)

    def log_likelihood(self, noise_variance: float | None) -> float:
        """Return the log marginal likelihood, or 0 without degrees of freedom."""
        record, freedom = self.numbers.record, self.freedom
        if freedom == 0:
            return 0.0
        n = record.n_rows - record.has_intercept
        determinant = rotations.log_determinant(record) - n * math.log(record.delta2)
        spread = 0.5 * (float(record.log_weights) - determinant)
        return spread + log_of_residual(self.residual, freedom, noise_variance)


# The posterior given the samples of two posteriors.
#
# Both posteriors have the same prior, whose precision delta2 I counts once. Let A = T' T and T w =
# z, as in `rotations`, with indices 1 and 2 for the two posteriors. Then A = A1 + A2 - delta2 I,
# and T' z = T1' z1 + T2' z2. Let r1 and r2 be the residuals. The residual at the joint mean w is r1
# + r2 + |T1 w - z1|^2 + |T2 w - z2|^2 - delta2 |w|^2. No large numbers cancel in this sum.


class _Part(NamedTuple):
    """A posterior in the columns of the joint posterior: T, z (see `rotations`) and the prior."""

    triangle: Floats
    moments: Floats
    prior: Floats


def _part(posterior: Posterior, rows: Ints, n: int) -> _Part:
    """Return a posterior's T, z and prior in `n` columns; `rows` has the column of each row."""
    record, arrays = posterior.numbers.record, posterior.numbers.learned
    size = record.n_rows
    triangle, wide, prior = np.zeros((size, size)), np.zeros((size, n)), np.zeros(n)
    triangle[np.tril_indices(size)] = arrays["factor"][: size * (size + 1) // 2]
    wide[:, rows] = triangle
    prior[rows] = record.delta2
    if record.has_intercept:
        prior[0] = 0.0
    return _Part(wide, arrays["moments"][:size].copy(), prior)


def _may_lack(posterior: Posterior) -> bool:
    """Return whether a posterior may lack columns because the limit was reached."""
    record = posterior.numbers.record
    n_kept = record.n_rows - record.has_intercept
    return record.n_rows == record.limit and n_kept < posterior.compiled.n_columns


def merge_posteriors(posterior: Posterior, other: Posterior, columns: Ints) -> None:
    """Merge the posterior `other` into `posterior`.

    Parameters
    ----------
    posterior
        The posterior to update. Its map has the columns of both maps.
    other
        The other posterior, with the same prior.
    columns
        Column of the first posterior's map for each column of the other posterior's map.

    Raises
    ------
    ValueError
        If the joint posterior has, or may have, more columns than the limit.

    """
    posterior.make_columns()
    numbers, its = posterior.numbers, other.numbers.record
    slots, its_slots = numbers.learned["slots"].copy(), other.numbers.learned["slots"]
    record, rows = numbers.record, np.zeros(its.n_rows, np.int64)
    n = record.n_rows
    used = np.flatnonzero(its_slots[: len(columns)] >= 0)
    for column in used[np.argsort(its_slots[used])].tolist():
        here = int(columns[column])
        if slots[here] < 0:
            slots[here] = n
            n += 1
        rows[its_slots[column]] = slots[here]
    if n > record.limit or _may_lack(posterior) or _may_lack(other):
        limit = record.limit - record.has_intercept
        raise ValueError(
            f"the samples have, or may have, more than max_columns={limit} columns: which of them "
            "are kept depends on the order"
        )
    ours, theirs = _part(posterior, np.arange(record.n_rows), n), _part(other, rows, n)
    # Targets are stored minus a shift. The moments are converted to one shift, because only then
    # can they be added.
    moved = theirs.moments
    if record.has_intercept:
        moved = moved + (its.shift - record.shift) * theirs.triangle[:, 0]
    joint = ours.triangle.T @ ours.triangle + theirs.triangle.T @ theirs.triangle
    # The prior of a column in both posteriors counts twice, so it is subtracted once.
    joint[np.diag_indices(n)] -= np.minimum(ours.prior, theirs.prior)
    # The lower triangle T with T' T = A.
    factor = scipy.linalg.cholesky(joint[::-1, ::-1], lower=True).T[::-1, ::-1]
    said = ours.triangle.T @ ours.moments + theirs.triangle.T @ moved
    moments = scipy.linalg.solve_triangular(factor, said, trans="T", lower=True)
    weights = scipy.linalg.solve_triangular(factor, moments, lower=True)
    left = float(record.residual) + float(its.residual)
    left += float(np.sum((ours.triangle @ weights - ours.moments) ** 2))
    left += float(np.sum((theirs.triangle @ weights - moved) ** 2))
    left -= float(np.minimum(ours.prior, theirs.prior) @ weights**2)
    triangle = factor[np.tril_indices(n)]
    merged = numbers.changed({"factor": triangle, "moments": moments, "slots": slots})
    merged.record.n_rows, merged.record.residual = n, max(left, 0.0)
    for name in ("n_samples", "n_learned", "log_weights"):
        setattr(merged.record, name, getattr(record, name) + getattr(its, name))
    posterior.numbers = merged
