"""Ridge regressions of a target, learned online from raw inputs.

Linear regressions forget past samples fast ("latest") or not at all. Additive regressions also have
bends (hinge functions) and products of inputs, and forget past samples slowly ("late") or not at
all. The other regressions also have waves, which are random Fourier features (`designs.py`), and
forget nothing. Inputs are centred, divided by a robust unit and clipped. A column with a missing
input has the column's mean.

A target too far from a regression's prediction is clipped at a maximum distance, so one outlier has
little effect. Regressions follow many successive outliers, because each outlier increases the
maximum distance.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...checks import LARGEST_SIZE, check_number, check_types, refuse
from ...compiling.kernels import helper, link_by_name
from ...records import Float64s, Ints, Memory
from ..learned import Learned, keep
from . import records
from .designs import FIRST_GAP, LEAST_OTHERS, MOST_COLUMNS, continue_design
from .records import Design, RidgeExpertsRecord
from .solving import add_row, dot, hold_row, keep_row, make_columns, solve_due

# The compiler must not reorder sums, because batches and single samples must have equal results.
ORDERED_SUMS = True

# Largest number of doublings by which one outlier increases the scale that clips errors.
MOST_DOUBLINGS = 30


@link_by_name
def predict(ridges: RidgeExpertsRecord, inputs: Float64s) -> None:
    """Predict the target of a sample from its raw inputs, with each regression."""
    design, predicted = ridges.designs[ridges.active], ridges.predicted
    columns = ridges.columns.part(ridges.capacity * ridges.active, ridges.capacity)
    make_columns(ridges, design, inputs, columns)
    for k in range(records.N_RIDGES):
        value = dot(ridges.solution(k), columns, design.width_of(k))
        if k < records.N_PLAIN:
            value = design.shift + value
        else:
            size = min(abs(value), design.most)
            power = design.unit * (math.exp(size) - 1.0)
            value = design.low + (power if value > 0.0 else -power)
        predicted[k] = value if abs(value) < math.inf else design.shift
    size = dot(ridges.solution(records.SIZES), columns, design.width_of(records.SIZES))
    ridges.size = size if abs(size) < math.inf else 0.0


@helper
def bounded_target(ridges: RidgeExpertsRecord, k: int, target: float) -> float:
    """Return a target clipped for a regression, and update the regression's mean error size."""
    error, scale = target - ridges.predicted[k], ridges.scales[k]
    limit = records.FAR * scale
    if ridges.n_samples < records.FIRST_ERRORS or abs(error) <= limit or scale == 0.0:
        ridges.n_large[k] = 0
    else:
        error = limit if error > 0.0 else -limit
        ridges.n_large[k] += 1
        # The n-th successive outlier multiplies the scale by 2^(n - 1), because successive outliers
        # indicate a change.
        scale *= 2.0 ** min(ridges.n_large[k] - 1, MOST_DOUBLINGS)
    rate = 1.0 / min(1.0 + ridges.n_samples, records.N_OF_LATE)
    ridges.scales[k] = scale + rate * (abs(error) - scale)
    return ridges.predicted[k] + error


@link_by_name
def learn(
    ridges: RidgeExpertsRecord, inputs: Float64s, target: float, weight: float, size: float
) -> None:
    """Update the regressions with the target of the last predicted sample, given its raw inputs.

    `size` is the logarithm of the size of an error, in any unit.
    """
    design, targets = ridges.designs[ridges.active], ridges.targets
    active = ridges.columns.part(ridges.capacity * ridges.active, ridges.capacity)
    if ridges.n_samples == 0:
        design.shift = design.low = target
        design.unit = abs(target) if target != 0.0 else 1.0
        design.most = 1.0
    for k in range(records.N_PLAIN):
        targets[k] = bounded_target(ridges, k, target)
    targets[records.SIZES] = size
    hold_row(ridges, design, active, targets, weight)
    if ridges.stage == records.REPLAYING:
        following = ridges.designs[1 - ridges.active]
        columns = ridges.columns.part(ridges.capacity * (1 - ridges.active), ridges.capacity)
        make_columns(ridges, following, inputs, columns)
        add_row(following, columns, targets, weight, -1, 0)
    keep_row(ridges, inputs, weight)
    ridges.n_samples += 1
    if ridges.stage != records.IDLE or ridges.n_samples >= ridges.next_design:
        continue_design(ridges)
    solve_due(ridges, ridges.designs[ridges.active])


# Bytes for the rows of the whole stream, and the least and the largest number of these rows.
KEPT_BYTES = 1 << 19
LEAST_KEPT, MOST_KEPT = 256, 1024
# After a new input, the next design begins within this many samples, or as soon as the unfinished
# design is done.
AFTER_NEW = 16


def _kept_capacity(n_inputs: int) -> int:
    """Return the capacity for rows of the whole stream, a power of 2."""
    fitting = KEPT_BYTES // (8 * (records.FIRST_INPUT + n_inputs))
    return min(max(1 << max(fitting.bit_length() - 1, 0), LEAST_KEPT), MOST_KEPT)


class RidgeExperts(Learned[RidgeExpertsRecord]):
    """The memory of ridge regressions, which grows with the number of inputs."""

    _KIND = RidgeExpertsRecord
    # Missing inputs are stored as NaN.
    _HAS_NAN = True

    def __init__(self) -> None:
        self.designs = Memory(Design, 2)
        super().__init__(stride=1, next_design=FIRST_GAP, gap=FIRST_GAP)
        for design in self.designs:
            design.n_columns = design.n_additive = 1
            design.unit = 1.0
        self.reserve(0, 0)

    def _memories(self) -> list[Memory[Any]]:
        # All lengths of arrays follow from the capacity for inputs, so only this capacity is
        # stored.
        record, n = self.record, int(self.record.room)
        n_additive = max(MOST_COLUMNS, 1 + min(n, records.MOST_LINEAR) + LEAST_OTHERS)
        record.capacity, record.row_length = n_additive + records.N_WAVES, records.FIRST_INPUT + n
        record.kept_capacity, record.designs = _kept_capacity(n), self.designs.array
        for design in self.designs:
            design.capacity, design.room = record.capacity, n
        return [self.memory, self.designs]

    def reserve(
        self, room: int, n_inputs: int, predicted: Any = None, categories: Sequence[int] = ()
    ) -> None:
        """Reserve memory for inputs, and keep the learned state.

        Parameters
        ----------
        room
            Number of inputs to reserve memory for.
        n_inputs
            Number of inputs.
        predicted
            Array that predictions are written to.
        categories
            Positions of the categorical inputs, which are ignored.

        """
        record = self.record
        rows, n_kept, stride = self.learned["kept"], record.n_kept, record.stride
        while n_kept > _kept_capacity(room):
            rows, n_kept, stride = rows[::2], n_kept // 2, 2 * stride
        if n_kept < record.n_kept:
            # The unfinished design starts again, because its source rows have moved.
            record.stage, record.next_design = records.IDLE, record.n_samples + 1
        if n_inputs > record.n_inputs and record.n_samples > 0:
            # The next design begins soon, because new inputs have no columns before it.
            record.gap = min(record.gap, AFTER_NEW)
            record.next_design = min(record.next_design, record.n_samples + AFTER_NEW)
        record.room = room
        learned = self._zeros()
        for name, new in learned.items():
            if name in ("kept", "latest"):
                # New inputs are missing in old rows.
                new[:] = math.nan
            keep(new, rows if name == "kept" else self.learned[name])
        self.learned = learned
        record.n_kept, record.stride, record.n_inputs = n_kept, stride, n_inputs
        ignored = np.zeros(room, dtype=np.int64)
        ignored[list(categories)] = 1
        self.memory.own("ignored", ignored)
        self.show(predicted)

    def begin_at_zero(self, inputs: Ints) -> None:
        """Set new inputs to 0 in all stored rows."""
        for name in ("kept", "latest"):
            self.learned[name][:, records.FIRST_INPUT + inputs] = 0.0

    def _check(self) -> None:
        check_types(self, {"designs": Memory})
        if self.designs.kind is not Design or len(self.designs) != 2:
            refuse(self, "designs", self.designs.kind, "but it should be two of Design")
        self._memories()
        record = self.record
        # `kept_before` is used only while a design is made.
        limit = LARGEST_SIZE if record.stage == records.IDLE else record.n_kept
        check_number(self, "n_inputs", record.n_inputs, 0, record.room)
        check_number(self, "n_before", record.n_before, 0, record.n_samples)
        check_number(self, "n_kept", record.n_kept, 0, record.kept_capacity)
        check_number(self, "kept_before", record.kept_before, 0, limit)
        for design in self.designs:
            n = design.n_additive
            check_number(self, "n_inputs of a design", design.n_inputs, 0, record.n_inputs)
            check_number(self, "n_additive", n, 1, record.capacity - records.N_WAVES)
            n_linear = min(n - 1, design.n_inputs, records.MOST_LINEAR)
            check_number(self, "n_linear", design.n_linear, 0, n_linear)
            check_number(self, "n_columns", design.n_columns, n, n + records.N_WAVES)
