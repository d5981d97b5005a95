"""Ridge regressions of a target, learned online from raw inputs.

They are linear in the inputs, of all samples, of those of late and of the latest ones; on bends and
products of inputs, too, and on random waves besides, of all samples and of those of late
(`designs.py`). Inputs are in robust units and bounded, columns of missing ones are at their mean. A
target that is too far from what a regression predicts counts as one at a distance: one that is
wrong does little, many in a row are followed, since the distance grows with them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...compiling.kernels import exact_inlined, exact_separate
from ...records import Float64s, Memory, OwnsArrays
from .columns import make_columns
from .designs import (
    FIRST_GAP,
    LEAST_OTHERS,
    MOST_CANDIDATES,
    MOST_COLUMNS,
    MOST_LINEAR,
    N_LATEST,
    N_MEASURED,
    go_on,
    keep_row,
)
from .records import (
    ADDITIVE,
    FIRST_INPUT,
    IDLE,
    N_ARMS,
    N_BENDS,
    N_RIDGES,
    N_SUMS,
    N_WAVES,
    REPLAYING,
    Candidate,
    Design,
    Ridges,
)
from .solving import add_row, dot, solve_due

Array = NDArray[np.float64]

# An error counts as so many of the mean size of those of late, at most; the first ones do as they
# are. The mean is of so many errors.
FAR = 10.0
FIRST_ERRORS = 8
N_OF_LATE = 50.0


@exact_separate
def predict(ridges: Ridges, inputs: Float64s) -> None:
    """Predict the target of a sample's raw inputs by each regression."""
    design, predicted = ridges.designs[ridges.active], ridges.predicted
    columns = ridges.columns.part(ridges.capacity * ridges.active, ridges.capacity)
    make_columns(ridges, design, inputs, columns)
    for k in range(N_RIDGES):
        found = design.shift + dot(ridges.solution(k), columns, design.width_of(k))
        predicted[k] = found if abs(found) < math.inf else design.shift


@exact_inlined
def bounded_target(ridges: Ridges, k: int, target: float) -> float:
    """Return what a target counts as for a regression, and note the size of its error."""
    error, scale = target - ridges.predicted[k], ridges.scales[k]
    most = FAR * scale
    if ridges.n_samples < FIRST_ERRORS or abs(error) <= most or scale == 0.0:
        ridges.n_large[k] = 0
    else:
        error = most if error > 0.0 else -most
        ridges.n_large[k] += 1
        # Each further one in a row lets more pass.
        scale *= 2.0 ** (ridges.n_large[k] - 1)
    rate = 1.0 / min(1.0 + ridges.n_samples, N_OF_LATE)
    ridges.scales[k] = scale + rate * (abs(error) - scale)
    return ridges.predicted[k] + error


@exact_separate
def learn(ridges: Ridges, inputs: Float64s, target: float, weight: float) -> None:
    """Let the regressions learn the target of the sample predicted last, of these raw inputs."""
    design, targets = ridges.designs[ridges.active], ridges.targets
    active = ridges.columns.part(ridges.capacity * ridges.active, ridges.capacity)
    if ridges.n_samples == 0:
        design.shift = target
    for k in range(N_RIDGES):
        targets[k] = bounded_target(ridges, k, target)
    add_row(design, active, targets, weight, -1, 0)
    if ridges.stage == REPLAYING:
        other = ridges.designs[1 - ridges.active]
        columns = ridges.columns.part(ridges.capacity * (1 - ridges.active), ridges.capacity)
        make_columns(ridges, other, inputs, columns)
        add_row(other, columns, targets, weight, -1, 0)
    keep_row(ridges, inputs, targets[ADDITIVE], weight)
    ridges.n_samples += 1
    if ridges.stage != IDLE or ridges.n_samples >= ridges.next_design:
        go_on(ridges)
    solve_due(ridges, ridges.designs[ridges.active])


# Arrays of a design of which there is a number for each input, or several; and for each column.
_OF_INPUTS = {"centres": 1, "rates": 1, "bends": N_BENDS, "interest": 1}
_OF_COLUMNS = ("firsts", "seconds", "knots", "means", "factors")
_OF_WAVES = {"arms": 1, "arm_inputs": N_ARMS, "arm_factors": N_ARMS, "phases": 1}
_INTEGERS = ("firsts", "seconds", "arms", "arm_inputs")
# Bytes of the rows that are kept of all of the past, and how many there are at least and at most.
KEPT_BYTES = 1 << 19
LEAST_KEPT, MOST_KEPT = 256, 1024
# After so many samples with a new input columns are chosen anew.
AFTER_NEW = 16


def _kept_capacity(n_inputs: int) -> int:
    """Return a power of 2."""
    fitting = KEPT_BYTES // (8 * (FIRST_INPUT + n_inputs))
    return min(max(1 << (fitting.bit_length() - 1), LEAST_KEPT), MOST_KEPT)


def _column_capacity(n_inputs: int) -> int:
    return max(MOST_COLUMNS, 1 + min(n_inputs, MOST_LINEAR) + LEAST_OTHERS) + N_WAVES


def _moved(old: Array, shape: tuple[int, ...], fill: float, dtype: Any) -> Array:
    """Return an array of another shape that begins with what there was."""
    new = np.full(shape, fill, dtype=dtype)
    part = tuple(slice(0, min(a, b)) for a, b in zip(old.shape, shape, strict=True))
    new[part] = old[part]
    return new


class RidgeExperts(OwnsArrays):
    """The memory of ridge regressions, which grows with inputs."""

    def __init__(self) -> None:
        self.memory = Memory(Ridges)
        self.designs = Memory(Design, 2)
        # Number of inputs that there is room for.
        self.room = 0
        self.learned = {name: np.zeros(shape) for name, shape in self._shapes(0).items()}
        record = self.record
        record.stride, record.next_design, record.gap = 1, FIRST_GAP, FIRST_GAP
        for design in self.designs:
            design.n_columns = design.n_additive = 1
        self.reserve(0, 0, np.zeros(N_RIDGES))

    @property
    def record(self) -> Ridges:
        """The record, for kernels."""
        return self.memory[0]

    @staticmethod
    def _shapes(n: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all that is stored, with room for `n` inputs."""
        columns, length = _column_capacity(n), FIRST_INPUT + n
        shapes: dict[str, tuple[int, ...]] = {
            "solutions": (N_RIDGES, columns),
            "kept": (_kept_capacity(n), length),
            "latest": (N_LATEST, length),
            "errors": (2 * N_MEASURED,),
        }
        for i in range(2):
            shapes |= {f"{name}[{i}]": (k * n,) for name, k in _OF_INPUTS.items()}
            shapes |= {f"{name}[{i}]": (columns,) for name in _OF_COLUMNS}
            shapes |= {f"{name}[{i}]": (k * (N_WAVES + 1),) for name, k in _OF_WAVES.items()}
            shapes[f"grams[{i}]"] = (N_SUMS, columns * (columns + 1) // 2)
            shapes[f"moments[{i}]"] = (N_RIDGES, columns)
        return shapes

    @staticmethod
    def _kind(name: str) -> Any:
        return np.int64 if name.partition("[")[0] in _INTEGERS else np.float64

    def reserve(
        self,
        room: int,
        n_inputs: int,
        predicted: Array,
        categories: Sequence[int] = (),
        absent: float = math.nan,
    ) -> None:
        """Make room for inputs; what has been learned stays.

        Parameters
        ----------
        room
            Number of inputs for which there is to be room.
        n_inputs
            Number of inputs.
        predicted
            Where predictions go.
        categories
            Inputs that are no numbers, which are left out.
        absent
            What another input counts as where it is missing: NaN, which is unknown, or 0.

        """
        record = self.record
        while record.n_kept > _kept_capacity(room):
            half = record.n_kept // 2
            self.learned["kept"][:half] = self.learned["kept"][: 2 * half : 2].copy()
            record.n_kept, record.stride, record.stage = half, 2 * record.stride, IDLE
        learned = {}
        for name, shape in self._shapes(room).items():
            # What has not been seen is missing.
            fill = math.nan if name in ("kept", "latest") else 0.0
            learned[name] = _moved(self.learned[name], shape, fill, self._kind(name))
        self.learned, self.room = learned, room
        for name in ("solutions", "kept", "latest", "errors"):
            self.memory.own(name, learned[name].ravel())
        for i, design in enumerate(self.designs):
            design.capacity = _column_capacity(room)
            for name in (*_OF_INPUTS, *_OF_COLUMNS, *_OF_WAVES, "grams", "moments"):
                self.designs.own(name, learned[f"{name}[{i}]"].ravel(), i)
        if n_inputs > record.n_inputs and record.n_samples > 0:
            # The new ones get columns soon.
            record.gap = min(record.gap, AFTER_NEW)
            record.next_design = min(record.next_design, record.n_samples + AFTER_NEW)
        record.n_inputs, record.absent = n_inputs, absent
        record.capacity, record.row_length = _column_capacity(room), FIRST_INPUT + room
        record.kept_capacity = _kept_capacity(room)
        ignored = np.zeros(room, dtype=np.int64)
        ignored[list(categories)] = 1
        self._make_room(ignored, predicted)

    def _make_room(self, ignored: NDArray[np.int64], predicted: Array) -> None:
        """Make what holds something for the length of a call."""
        columns, room = _column_capacity(self.room), self.room
        n_measured = 2 * N_MEASURED
        candidates = np.zeros(max(MOST_CANDIDATES, room) * Candidate.SIZE, np.uint8)
        self.record.designs = self.designs.array
        arrays: dict[str, NDArray[Any]] = {
            "ignored": ignored,
            "units": np.zeros(room),
            "columns": np.zeros(2 * columns),
            "targets": np.zeros(N_RIDGES),
            "predicted": predicted.ravel(),
            "triangle": np.zeros(columns * (columns + 1) // 2),
            "vector": np.zeros(columns),
            "values": np.zeros(max(n_measured, columns)),
            "candidates": candidates,
        }
        for name, array in arrays.items():
            self.memory.own(name, array)
