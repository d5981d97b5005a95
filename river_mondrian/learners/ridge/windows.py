"""Removal of samples from a ridge regression's posterior, and windows of the latest samples.

Removing a sample v with target y subtracts v v' from A = T' T (see `rotations`). Learning
(`rotate`) replaced each row t of T by c t + s v, and the row's z by c z + s y. Here c and s are the
cosine and the sine of a rotation. The sample and its target became c v - s t and c y - s z. A
removal computes the old rows from the new rows and v. As in learning, rows are processed from the
last row that v touches to the first. The sine is s = v_j / t_j, and the cosine is c = sqrt(1 -
s^2). Then t_old = (t - s v) / c and v_left = c v - s t_old. These formulas are the mixed form of a
hyperbolic rotation (Bojanczyk, Brent, van Dooren and de Hoog 1987, A Note on Downdating the
Cholesky Factorization, section 3). Let y_left be the remainder of y after all rotations. Learning
added the square of y_left to the residual, and the removal subtracts this square.

Subtraction may amplify rounding errors. Each removed sample adds an error of about eps t_j^2 to A
at row j with diagonal t_j, where eps is the machine epsilon. The error of z is about eps times the
largest of |y| and all |z_j|. The errors of different samples are independent, so their squares add
up. To the residual, each removed sample adds an error of |y_left| times the error of z, and the
sizes of errors add up. If an error may reach the fraction `LARGEST_RELATIVE_ERROR` of a row's
squared diagonal or of the residual, a refit learns all held samples again. A refit happens when a
heavy sample or an outlier is removed, and otherwise once in many windows.

The shift, which is subtracted from all targets, is the oldest target. When the oldest sample is
removed, the old shift minus the new shift is multiplied by the first column of T, which belongs to
the intercept. The product is added to z, which propagates errors of T to z. The errors are as large
as if a fixed value (`origin`), close to the shift at the last refit, were subtracted from targets.
`rotate_back` estimates the errors in this way.

Held samples are stored in slots, as outputs of the map. `order` is a circular list of all slots
that begins at `head`. The list has the slots of the held samples in order of arrival, then free
slots.
"""

import math
from typing import Self

import numpy as np

from ...compiling.kernels import batch_kernel, helper, link_by_name
from ...elementary import mixed
from ...limits import DONE, LARGEST, NO_ROOM
from ...maps.record import CompiledMap, MapRecord, Outputs, Sample
from ...records import Float64s, Floats, Int32s, Int64s, Ints
from ..learned import Learned, keep
from .rotations import (
    HeldSamplesRecord,
    PosteriorNumbersRecord,
    add_sample,
    append,
    learn_sample,
    spread,
)

# The compiler must not reorder sums, because batches and single samples must have equal results.
ORDERED_SUMS = True

# Largest relative error, and the fraction of this error that one rounding adds. With this bound,
# predictions should equal the predictions of a refit up to about 1e-8.
LARGEST_RELATIVE_ERROR = 1e-9
ROUNDING = 2.0**-52 / LARGEST_RELATIVE_ERROR


# Initial number of slots.
FIRST_SLOTS = 16


# Keys of samples: hashes of their inputs.


@helper
def key_with(key: int, index: int, value: float) -> int:
    """Return a key updated with an input in single precision; ignore missing inputs and 0."""
    if abs(value) <= LARGEST:
        value = float(np.float32(value))
    if value == 0.0 or math.isnan(value):
        return key
    mantissa, exponent = math.frexp(value)
    return key ^ mixed(mixed(mixed(index) ^ int(mantissa * 2.0**53)) ^ exponent)


@batch_kernel
def key_of(feature_map: MapRecord, sample: Sample) -> int:
    """Return a 64-bit hash of the inputs that a map reads from a sample."""
    key = 0
    if feature_map.is_sparse:
        indices, entries = sample.indices, sample.entries
        for i in range(sample.n_entries):
            if 0 <= indices[i] < feature_map.n_inputs:
                key = key_with(key, indices[i], entries[i])
        return key
    values = sample.values
    for i in range(feature_map.n_inputs):
        key = key_with(key, i, values[i])
    return key


@batch_kernel
def find_keys(
    feature_map: MapRecord, indices: Int32s, values: Float64s, starts: Int64s, n: int, keys: Int64s
) -> None:
    """Write the keys of the rows of a CSR matrix."""
    for row in range(n):
        key = 0
        for i in range(starts[row], starts[row + 1]):
            if indices[i] < feature_map.n_inputs:
                key = key_with(key, indices[i], values[i])
        keys[row] = key


# Removing.


@helper
def learn_anew(posterior: PosteriorNumbersRecord) -> None:
    """Recompute the posterior from the prior and the held samples."""
    held = posterior.held
    for j in range(posterior.n_rows):
        row = posterior.row(j)
        for k in range(j):
            row[k] = 0.0
        is_flat = j == 0 and posterior.has_intercept
        row[j] = 0.0 if is_flat else math.sqrt(posterior.delta2)
        posterior.moments[j] = 0.0
        held.errors[j] = 0.0
    posterior.n_samples, posterior.is_solved = 0, 0
    posterior.residual = posterior.log_weights = posterior.shift = 0.0
    held.residual_error = held.target_error = 0.0
    for k in range(held.n_held):
        slot = held.slot(k)
        add_sample(posterior, held, slot, held.targets[slot], held.weights[slot])
    # `origin` is the shift, rounded to a unit about as large as residuals. An exact value would
    # keep the target of a removed sample.
    held.origin = 0.0
    if posterior.residual > 0.0:
        _, exponent = math.frexp(math.sqrt(posterior.residual / posterior.n_samples))
        unit = 2.0**exponent
        held.origin = unit * math.floor(posterior.shift / unit)


@helper
def rotate_back(
    posterior: PosteriorNumbersRecord, last: int, y: float
) -> tuple[bool, float, float]:
    """Remove the sample in `work` from rows `last` to 0.

    Return whether rows are exact enough, the remainder of the sample's target, and the largest
    number in the calculation. If rows are not exact enough, all rows are invalid after the call.
    """
    held, work, moments, largest = posterior.held, posterior.work, posterior.moments, abs(y)
    errors, is_exact, moved = held.errors, True, abs(posterior.shift - held.origin)
    for j in range(last, -1, -1):
        entry = work[j]
        if entry == 0.0:
            continue
        work[j] = 0.0
        if not is_exact:
            continue
        row = posterior.row(j)
        diagonal = row[j]
        before = diagonal * diagonal
        after = (diagonal - entry) * (diagonal + entry)
        errors[j] += before * before
        is_exact = after > 0.0 and ROUNDING * math.sqrt(errors[j]) <= after
        if not is_exact:
            continue
        length = math.sqrt(after)
        cosine, sine = length / diagonal, entry / diagonal
        factor = diagonal / length
        row[j] = length
        for k in range(j):
            old = (row[k] - sine * work[k]) * factor
            work[k] = cosine * work[k] - sine * old
            row[k] = old
        moment = (moments[j] - sine * y) * factor
        y = cosine * y - sine * moment
        moments[j] = moment
        largest = max(largest, abs(y), abs(moment) + moved * abs(row[0]))
    return is_exact, y, largest


@helper
def release(posterior: PosteriorNumbersRecord, k: int) -> None:
    """Clear and free the slot of the k-th sample."""
    held, feature_map = posterior.held, posterior.feature_map
    slot, n_out = held.slot(k), feature_map.n_out
    if k == 0:
        held.head = (held.head + 1) % held.n_slots
    else:
        for i in range(k, held.n_held - 1):
            held.order[(held.head + i) % held.n_slots] = held.slot(i + 1)
        held.order[(held.head + held.n_held - 1) % held.n_slots] = slot
    held.n_held -= 1
    held.keys[slot], held.targets[slot], held.weights[slot] = 0, 0.0, 0.0
    for i in range(n_out * slot, n_out * (slot + 1)):
        if feature_map.is_dense:
            held.values[i] = 0.0
        else:
            held.cells[i] = 0


@batch_kernel
def take_out(posterior: PosteriorNumbersRecord, k: int) -> None:
    """Remove the k-th held sample from the posterior."""
    held = posterior.held
    slot = held.slot(k)
    target, weight = held.targets[slot], held.weights[slot]
    root = math.sqrt(weight)
    last, _ = spread(posterior, held, slot, root)
    y = root * (target - posterior.shift)
    is_exact, y, largest = rotate_back(posterior, last, y)
    release(posterior, k)
    residual = posterior.residual - y * y
    held.target_error += largest * largest
    held.residual_error += abs(y) * math.sqrt(held.target_error)
    if held.n_held == 0 or not is_exact or not ROUNDING * held.residual_error <= residual:
        learn_anew(posterior)
        return
    posterior.residual = residual
    posterior.log_weights -= math.log(weight)
    posterior.n_samples -= 1
    posterior.is_solved = 0
    if posterior.has_intercept and target == posterior.shift:
        # The oldest remaining target becomes the shift, because the removed target must not be
        # kept.
        posterior.shift = held.targets[held.slot(0)]
        for j in range(posterior.n_rows):
            posterior.moments[j] += (target - posterior.shift) * posterior.row(j)[0]


# Learning.


@link_by_name
def learn_held(
    posterior: PosteriorNumbersRecord,
    outputs: Outputs,
    sample: int,
    key: int,
    target: float,
    weight: float,
) -> bool:
    """Learn and hold a mapped sample, and remove the oldest sample if the window is full.

    Return whether there was room for the sample. Without room, the posterior is unchanged. A sample
    of weight 0 is counted, but not held.
    """
    held, feature_map = posterior.held, posterior.feature_map
    if feature_map.n_columns > posterior.n_columns:
        return False
    if weight != 0.0 and (
        held.n_held >= held.n_slots
        or feature_map.n_out > held.width()
        or not append(posterior, outputs, sample)
    ):
        return False
    learn_sample(posterior, outputs, sample, key, target, weight)
    if weight == 0.0:
        return True
    slot, n_out = held.slot(held.n_held), feature_map.n_out
    for i in range(n_out):
        if feature_map.is_dense:
            held.values[n_out * slot + i] = outputs.values[n_out * sample + i]
        else:
            held.cells[n_out * slot + i] = outputs.cells[n_out * sample + i]
    held.keys[slot], held.targets[slot], held.weights[slot] = key, target, weight
    held.n_held += 1
    if held.n_held > held.window:
        take_out(posterior, 0)
    return True


@batch_kernel
def learn_one(
    posterior: PosteriorNumbersRecord,
    sample: Sample,
    outputs: Outputs,
    is_mapped: bool,
    target: float,
    weight: float,
) -> int:
    """Map a sample unless `is_mapped`, and learn it.

    Return DONE, the index of an invalid input, or NO_ROOM.
    """
    feature_map = posterior.feature_map
    if not is_mapped:
        bad = feature_map.transform(feature_map, sample, outputs)
        if bad >= 0:
            return bad
    key = key_of(feature_map, sample) if posterior.held else 0
    is_done = posterior.learn(posterior, outputs, 0, key, target, weight)
    return DONE if is_done else NO_ROOM


@batch_kernel
def learn_rows(
    posterior: PosteriorNumbersRecord,
    outputs: Outputs,
    start: int,
    stop: int,
    keys: Int64s,
    targets: Float64s,
    weights: Float64s,
) -> int:
    """Learn mapped samples `start` to `stop` - 1 while there is room; return the next sample."""
    for i in range(start, stop):
        sample = keys[i], targets[i], weights[i]
        if not posterior.learn(posterior, outputs, i, *sample):
            return i
    return stop


# The owner of the held samples.


class HeldSamples(Learned[HeldSamplesRecord]):
    """Slots with the samples that can be removed from a posterior.

    The number of slots is fixed. `resized` returns a copy with another number of slots.

    Parameters
    ----------
    window
        Largest number of samples.
    compiled
        The map.
    n_rows
        Capacity for rows of the posterior.
    n_slots
        Number of slots, at most one more than the window.

    """

    _KIND = HeldSamplesRecord

    def __init__(
        self, window: int, compiled: CompiledMap, n_rows: int, n_slots: int = FIRST_SLOTS
    ) -> None:
        numbers = {"n_values" if compiled.dense else "n_cells": compiled.n_out}
        numbers |= {"n_rows": n_rows, "n_columns": compiled.n_columns}
        super().__init__(window=window, n_slots=min(window + 1, n_slots), **numbers)
        self.show()

    def show(self, predicted: Floats | None = None) -> None:
        """Set the record's references to its arrays, with samples in the order of their slots."""
        super().show()
        self.memory.own("order", np.arange(self.record.n_slots, dtype=np.int32))
        self.record.head = 0

    def slots(self) -> Ints:
        """Return the slots of the samples, in order of arrival."""
        record, order = self.record, self.memory.arrays["order"]
        positions = (record.head + np.arange(record.n_held)) % max(1, record.n_slots)
        return order[positions].astype(np.int64)

    def lacks_room(self, compiled: CompiledMap) -> bool:
        """Return whether another mapped sample lacks a slot."""
        return self.record.n_held >= self.record.n_slots or compiled.n_out > self.record.width()

    def grown(self, compiled: CompiledMap, n_rows: int) -> Self:
        """Return a copy with a free slot for a map's outputs, and room for `n_rows` rows."""
        record = self.record
        is_full = record.n_held >= record.n_slots
        return self.resized(compiled, n_rows, record.n_slots * (1 + is_full) or FIRST_SLOTS)

    def resized(self, compiled: CompiledMap, n_rows: int, n_slots: int) -> Self:
        """Return a copy with the given capacities, and with samples in order of arrival."""
        record, slots = self.record, self.slots()
        resized = type(self)(record.window, compiled, n_rows, n_slots)
        for name in ("n_held", "residual_error", "target_error", "origin"):
            setattr(resized.record, name, getattr(record, name))
        for name, new in resized.learned.items():
            keep(new, self.learned[name] if name == "errors" else self.learned[name][slots])
        return resized

    def equal(self, key: int, target: float, weight: float) -> list[int]:
        """Return the positions, by arrival, of the samples with this key, target and weight."""
        slots, wanted = self.slots(), {"keys": key, "targets": target, "weights": weight}
        same = [self.learned[name][slots] == value for name, value in wanted.items()]
        return np.flatnonzero(np.logical_and.reduce(same)).tolist()
