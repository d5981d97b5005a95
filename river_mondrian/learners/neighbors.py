"""Experts that predict the class or the target of a sample from the nearest of the latest samples.

The memory has the latest samples, a column per input. An expert of window w predicts with the
`N_NEAREST` nearest of the latest w samples. The windows are nested, so one pass over the distances,
from the newest to the oldest sample, finds the neighbours of all experts. Each expert predicts when
the pass reaches the end of its window.

The distance of two samples is Euclidean. The difference of a numerical input is multiplied by the
input's rate: 1 / standard deviation (`learners.discriminants`), or the rate in the ridge
regressions. Different levels of a category have the difference 1. Inputs that do not vary, or are
missing in the predicted sample, are ignored. Let n be the number of the other inputs. If m of these
are missing in a stored sample, the sum of squares over the rest is multiplied by n / (n - m).

Let d_f be the distance of the farthest neighbour. A neighbour at distance d votes for its class
with the weight 1 / (d + `SOFTENED` d_f). The weight of the neighbour's sample multiplies this vote.
The votes are scaled to add up to the number of neighbours. Then each of the K classes also gets
`PRIOR` / K votes. A predicted target is the mean of the neighbours' targets, weighted by their
votes.
"""

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..checks import check_number, refuse
from ..compiling.kernels import always_inline, link_by_name
from ..limits import LARGEST, LARGEST_WEIGHT, LARGEST_WINDOW, LEAST_LEVEL
from ..records import Bounds, Float32s, Float64s, Floats, Int32s, Int64, Int64s, Record
from ..records.record import derived, sized, stored, transient
from . import columns
from .experts import LARGEST_WIDTH
from .learned import Learned

# Windows of the experts, and number of neighbours of each expert.
WINDOWS = (200, 1000, 5000)
N_WINDOWS = len(WINDOWS)
N_NEAREST = 7
# Bound on the stored values, because the time of a search is proportional to their number. With n >
# MOST_INPUTS inputs, the bound is multiplied by MOST_INPUTS / n, because each input takes time in
# every part of the model.
MOST_VALUES = 64_000
MOST_INPUTS = 64
# If the model's memory is limited, at most one value is stored per VALUES_SHARE bytes of the limit.
VALUES_SHARE = 32
# Constants of the votes (module docstring), and a distance that is added to avoid a division by 0.
SOFTENED = 1e-3
PRIOR = 0.5
TINY = 1e-30
# Number of distances compared at once with the farthest neighbour's distance, by vector units.
BLOCK = 32
# Default of `first_values` and `gaps` if there are no new inputs.
NONE: Floats = np.empty(0)


class NeighborsRecord(Record):
    """The ring buffer of the latest samples, and buffers for the neighbours of a sample."""

    # Bounds of the numbers of samples and of stored values.
    most_samples: Int64 = stored(Bounds(0, LARGEST_WINDOW))
    most_values: Int64 = stored(Bounds(0, LARGEST_WINDOW))
    # Capacity of the ring buffer, number of held samples, and place of the next sample.
    capacity: Int64 = stored(Bounds(0, LARGEST_WINDOW))
    n_held: Int64 = stored(Bounds(0, LARGEST_WINDOW))
    next_place: Int64 = stored(Bounds(0, LARGEST_WINDOW))
    # Number of inputs, current number of classes, and capacity of rows for classes. If samples have
    # targets, the number of classes is 0 and the capacity is 1.
    n_inputs: Int64
    n_classes: Int64
    width: Int64 = stored(Bounds(1, LARGEST_WIDTH))
    # For each held sample: its stored inputs (`columns.stored_value`), its class or target, and its
    # weight.
    held: Float32s = sized("n_inputs", "capacity")
    targets: Float64s = sized("capacity")
    weights: Float32s = sized("capacity", bounds=Bounds(0.0, LARGEST_WEIGHT))
    # For each input: its origin, whether the input is a category, and the number of missing values
    # in its column.
    origins: Float64s = sized("n_inputs", bounds=Bounds(-LARGEST, LARGEST))
    are_levels: Int64s = sized("n_inputs", bounds=Bounds(0, 1))
    gaps: Int64s = derived()
    # Predictions for the last sample: a row of `width` probabilities, or a target, for each expert.
    predicted: Float64s = transient(N_WINDOWS, "width")
    # The last sample in the form of a held sample. The rate of each input: 1 for a category, and 0
    # if the input is missing or does not vary. The numerical inputs with a positive rate and
    # without missing values. For each held sample: the squared distance, and the number of inputs
    # with a positive rate that are missing.
    row: Float32s = transient("n_inputs")
    rates: Float32s = transient("n_inputs")
    plain: Int64s = transient("n_inputs")
    squares: Float32s = transient("capacity")
    missing: Int32s = transient("capacity")
    # The nearest samples of the current search: squared distances in ascending order, and places.
    best: Float32s = transient(N_NEAREST)
    places: Int64s = transient(N_NEAREST)


@always_inline
def _convert(neighbors: NeighborsRecord, inputs: Float64s) -> None:
    """Write a sample to `row`, in the form of a held sample."""
    origins, are_levels, row = neighbors.origins, neighbors.are_levels, neighbors.row
    for j in range(neighbors.n_inputs):
        row[j] = columns.stored_value(inputs[j], origins[j], are_levels[j] == 1)


@always_inline
def _set_rates(neighbors: NeighborsRecord, of_numbers: Float64s) -> int:
    """Write the rate of each input, and return the number of positive rates (used inputs)."""
    row, rates, are_levels = neighbors.row, neighbors.rates, neighbors.are_levels
    n_used = 0
    for j in range(neighbors.n_inputs):
        rate = 1.0 if are_levels[j] == 1 else of_numbers[j]
        rates[j] = rate if row[j] == row[j] else 0.0
        n_used += 1 if rates[j] > 0.0 else 0
    return n_used


@link_by_name
def _measure(neighbors: NeighborsRecord, n_used: int, first: int, n: int) -> None:
    """Write the squared distances from the sample in `row` to `n` samples from place `first`."""
    rates, row, capacity = neighbors.rates, neighbors.row, neighbors.capacity
    gaps, are_levels, plain, n_plain = neighbors.gaps, neighbors.are_levels, neighbors.plain, 0
    squares, missing = neighbors.squares.part(first, n), neighbors.missing.part(first, n)
    held = neighbors.held.part(first, capacity * neighbors.n_inputs - first)
    # Missing values are counted only if a column may have some, because counting takes time.
    counts = False
    for j in range(neighbors.n_inputs):
        if rates[j] > 0.0:
            has_gaps = gaps[j] + are_levels[j] > 0
            counts = counts or has_gaps
            plain[n_plain] = j
            n_plain += 0 if has_gaps else 1
    for i in range(n):
        squares[i] = 0.0
    for q in range(0, n_plain - 3, 4):
        a, b, c, d = plain[q], plain[q + 1], plain[q + 2], plain[q + 3]
        four = (
            held.part(capacity * a, n),
            held.part(capacity * b, n),
            held.part(capacity * c, n),
            held.part(capacity * d, n),
        )
        values = np.float32(row[a]), np.float32(row[b]), np.float32(row[c]), np.float32(row[d])
        factors = (
            np.float32(rates[a]),
            np.float32(rates[b]),
            np.float32(rates[c]),
            np.float32(rates[d]),
        )
        columns.add_four_squares(squares, four, n, values, factors)
    for q in range(n_plain - n_plain % 4, n_plain):
        j = plain[q]
        value, rate = np.float32(row[j]), np.float32(rates[j])
        columns.add_squares(squares, held.part(capacity * j, n), n, value, rate)
    if not counts:
        return
    for i in range(n):
        missing[i] = 0
    for j in range(neighbors.n_inputs):
        own, value, rate = held.part(capacity * j, n), np.float32(row[j]), np.float32(rates[j])
        if rate > 0.0 and are_levels[j] == 1:
            columns.add_levels(squares, missing, own, n, value, 1.0)
        elif rate > 0.0 and gaps[j] > 0:
            columns.add_numbers(squares, missing, own, n, value, rate, True)
    for i in range(n):
        # Without a shared input, the distance is NaN. Comparisons with NaN are false, so the sample
        # is no neighbour.
        squares[i] = squares[i] * n_used / (n_used - missing[i])


@always_inline
def _insert(neighbors: NeighborsRecord, i: int, n: int) -> int:
    """Insert a sample among the `n` nearest, after equally near samples; return the new `n`."""
    best, places, square = neighbors.best, neighbors.places, neighbors.squares[i]
    k = min(n, N_NEAREST - 1)
    while k > 0 and best[k - 1] > square:
        best[k], places[k] = best[k - 1], places[k - 1]
        k -= 1
    best[k], places[k] = square, i
    return min(n + 1, N_NEAREST)


@always_inline
def _select(neighbors: NeighborsRecord, first: int, last: int, n: int) -> int:
    """Update the `n` nearest with a range of samples, the last first; return the new `n`."""
    squares, best, end = neighbors.squares, neighbors.best, last
    while end > first:
        start = max(end - BLOCK, first)
        limit = np.float32(best[N_NEAREST - 1] if n == N_NEAREST else math.inf)
        n_near = 0
        if end - start == BLOCK:
            for i in range(BLOCK):
                n_near += 1 if np.float32(squares[start + i]) < limit else 0
        else:
            n_near = 1
        if n_near > 0:
            for i in range(end - 1, start - 1, -1):
                limit = np.float32(best[N_NEAREST - 1] if n == N_NEAREST else math.inf)
                if squares[i] < limit:
                    n = _insert(neighbors, i, n)
        end = start
    return n


@always_inline
def _vote(neighbors: NeighborsRecord, e: int, n: int) -> None:
    """Write the prediction of an expert with the `n` nearest samples."""
    n_classes = neighbors.n_classes
    best, places, targets = neighbors.best, neighbors.places, neighbors.targets
    out, total = neighbors.predicted.part(neighbors.width * e, neighbors.width), 0.0
    out[0] = 0.0
    for k in range(n_classes):
        out[k] = PRIOR / n_classes
    farthest = math.sqrt(best[n - 1]) if n > 0 else 0.0
    for i in range(n):
        near = math.sqrt(best[i]) + SOFTENED * farthest + TINY
        total += neighbors.weights[places[i]] / near
    for i in range(n):
        near = math.sqrt(best[i]) + SOFTENED * farthest + TINY
        vote, target = neighbors.weights[places[i]] / near / total, targets[places[i]]
        if n_classes == 0:
            out[0] += vote * target
        else:
            out[int(target)] += n * vote
    for k in range(n_classes):
        out[k] = out[k] / (n + PRIOR)


@link_by_name
def predict(neighbors: NeighborsRecord, of_numbers: Float64s, inputs: Float64s) -> int:
    """Write all experts' predictions of a sample's class or target, and return 0.

    `of_numbers` has the rate of each numerical input, 0 for inputs that do not vary.
    """
    _convert(neighbors, inputs)
    n_used = _set_rates(neighbors, of_numbers)
    n_held = neighbors.n_held if n_used > 0 else 0
    capacity, end = neighbors.capacity, neighbors.next_place
    # In the ring buffer, the newest samples are before `next_place`, and older samples after it.
    n_late = min(n_held, end)
    if n_late == n_held:
        _measure(neighbors, n_used, end - n_late, n_late)
    else:
        _measure(neighbors, n_used, 0, capacity)
    n, done = 0, 0
    for e in range(N_WINDOWS):
        size = min(WINDOWS[e], n_held)
        stop = min(size, n_late)
        if done < stop:
            n = _select(neighbors, end - stop, end - done, n)
            done = stop
        if done < size:
            top = capacity + n_late
            n = _select(neighbors, top - size, top - done, n)
            done = size
        _vote(neighbors, e, n)
    return 0


@link_by_name
def remember(neighbors: NeighborsRecord, inputs: Float64s, target: float, weight: float) -> int:
    """Store a sample, which replaces the oldest if the buffer is full, and return 0."""
    capacity, place = neighbors.capacity, neighbors.next_place
    if capacity == 0:
        return 0
    _convert(neighbors, inputs)
    held, row, gaps = neighbors.held, neighbors.row, neighbors.gaps
    for j in range(neighbors.n_inputs):
        old, new = held[capacity * j + place], row[j]
        gaps[j] = gaps[j] + (0 if new == new else 1) - (0 if old == old else 1)
        held[capacity * j + place] = new
    neighbors.targets[place] = target
    neighbors.weights[place] = weight
    neighbors.n_held = min(neighbors.n_held + 1, capacity)
    neighbors.next_place = place + 1 if place + 1 < capacity else 0
    return 0


class Neighbors(Learned[NeighborsRecord]):
    """The owner of the latest samples.

    To change the number of inputs or samples, `fitting` makes a copy, which replaces the object.

    Parameters
    ----------
    most_samples, most_values
        Bounds of the numbers of samples and of stored values.

    """

    _KIND = NeighborsRecord
    # Missing values are stored as NaN.
    _HAS_NAN = True

    def __init__(self, most_samples: int, most_values: int) -> None:
        super().__init__(most_samples=most_samples, most_values=most_values, width=1)
        self.show()

    def show(self, predicted: Any = None) -> None:
        """Set the record's references to its arrays (see `Learned.show`)."""
        super().show(predicted)
        self.memory.own("gaps", np.isnan(self.learned["held"]).sum(axis=1, dtype=np.int64))

    def _check(self) -> None:
        record = self.record
        check_number(self, "n_held", record.n_held, 0, record.capacity)
        check_number(self, "next_place", record.next_place, 0, max(record.capacity - 1, 0))

    def check(self, n_inputs: int, n_classes: int) -> None:
        """Raise an error if restored samples do not fit the numbers of inputs or classes."""
        targets = self.learned["targets"]
        check_number(self, "n_inputs", self.record.n_inputs, n_inputs, n_inputs)
        check_number(self, "n_classes", self.record.n_classes, n_classes, n_classes)
        are_classes = (targets >= 0) & (targets < max(n_classes, 1)) & (targets % 1.0 == 0.0)
        if not (are_classes if n_classes else np.isfinite(targets)).all():
            refuse(self, "targets", targets, "but they should be classes, or finite targets")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if np.isinf(self.learned["held"]).any():
            refuse(self, "held", self.learned["held"], "but values should be finite or missing")

    def _most(self, n_inputs: int) -> int:
        """Return the largest number of samples with this number of inputs."""
        n, values = max(n_inputs, 1), int(self.record.most_values)
        return min(int(self.record.most_samples), values * min(n, MOST_INPUTS) // n // n)

    def growth_for(self, n: int) -> int:
        """Return the bytes that `fitting` adds to have room for `n` samples."""
        n_inputs, size = int(self.record.n_inputs), np.dtype(np.float32).itemsize
        new = max(min(self._most(n_inputs), n) - int(self.record.capacity), 0)
        # Besides the inputs, a sample takes five words: two for the target, and one each for the
        # weight, the squared distance and the number of missing values.
        return new * size * (n_inputs + 5)

    def fitting(self, n: int, first_values: Floats = NONE, gaps: Floats = NONE) -> Self:
        """Return an object with room for the latest `n` samples, as far as the bounds allow.

        `first_values` are the first values of new inputs, and `gaps` their values in held samples.
        """
        record, new = self.record, first_values
        n_inputs, old = int(record.n_inputs) + len(new), int(record.capacity)
        capacity = min(self._most(n_inputs), max(old, n))
        if capacity == old and not len(new):
            return self
        are_levels = new >= LEAST_LEVEL
        origins = np.where(are_levels, 0.0, new)
        absent = np.where(are_levels, gaps - 1.0, gaps - origins)
        n_held = min(int(record.n_held), capacity)
        positions = (int(record.next_place) + np.arange(-n_held, 0)) % max(old, 1)
        learned: dict[str, NDArray[Any]] = {
            "held": np.zeros((n_inputs, capacity), dtype=np.float32),
            "targets": np.zeros(capacity),
            "weights": np.zeros(capacity, dtype=np.float32),
            "origins": np.append(self.learned["origins"], origins),
            "are_levels": np.append(self.learned["are_levels"], are_levels.astype(np.int64)),
        }
        learned["held"][: record.n_inputs, :n_held] = self.learned["held"][:, positions]
        learned["held"][record.n_inputs :, :n_held] = absent[:, np.newaxis]
        for name in ("targets", "weights"):
            learned[name][:n_held] = self.learned[name][positions]
        fitted = self.changed(learned)
        fitted.record.n_inputs, fitted.record.capacity = n_inputs, capacity
        fitted.record.n_held, fitted.record.next_place = n_held, n_held % max(capacity, 1)
        fitted.show()
        return fitted

    def forget_before(self, n: int) -> None:
        """Keep the latest `n` samples."""
        self.record.n_held = min(int(self.record.n_held), n)
