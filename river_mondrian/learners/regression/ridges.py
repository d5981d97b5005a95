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

from ...checks import LARGEST_SIZE, check_number, check_types, refuse
from ...compiling.kernels import exact_inlined, exact_separate
from ...records import Float64s, Memory
from ..learned import NOWHERE, Learned, Numbers
from .designs import (
    FIRST_GAP,
    LEAST_OTHERS,
    MOST_CANDIDATES,
    MOST_COLUMNS,
    MOST_LINEAR,
    N_EXAMINED,
    go_on,
)
from .records import (
    FIRST_INPUT,
    IDLE,
    N_ARMS,
    N_BENDS,
    N_HELD,
    N_PLAIN,
    N_RIDGES,
    N_SOLVED,
    N_WAVES,
    REPLAYING,
    SIZES,
    Candidate,
    Design,
    Ridges,
)
from .solving import (
    BEND,
    N_LATEST,
    N_MEASURED,
    add_row,
    dot,
    hold_row,
    keep_row,
    make_columns,
    solve_due,
)

Array = NDArray[np.float64]

# More inputs than any model has.
LARGEST_ROOM = 1 << 25

# An error counts as so many of the mean size of those of late, at most; the first ones do as they
# are. The mean is of so many errors.
FAR = 10.0
FIRST_ERRORS = 8
N_OF_LATE = 50.0
MOST_DOUBLINGS = 30


@exact_separate
def predict(ridges: Ridges, inputs: Float64s) -> None:
    """Predict the target of a sample's raw inputs by each regression."""
    design, predicted = ridges.designs[ridges.active], ridges.predicted
    columns = ridges.columns.part(ridges.capacity * ridges.active, ridges.capacity)
    make_columns(ridges, design, inputs, columns)
    for k in range(N_RIDGES):
        found = dot(ridges.solution(k), columns, design.width_of(k))
        if k < N_PLAIN:
            found = design.shift + found
        else:
            size = min(abs(found), design.most)
            power = design.unit * (math.exp(size) - 1.0)
            found = design.low + (power if found > 0.0 else -power)
        predicted[k] = found if abs(found) < math.inf else design.shift
    ridges.size = dot(ridges.solution(SIZES), columns, design.width_of(SIZES))


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
        scale *= 2.0 ** min(ridges.n_large[k] - 1, MOST_DOUBLINGS)
    rate = 1.0 / min(1.0 + ridges.n_samples, N_OF_LATE)
    ridges.scales[k] = scale + rate * (abs(error) - scale)
    return ridges.predicted[k] + error


@exact_separate
def learn(ridges: Ridges, inputs: Float64s, target: float, weight: float, size: float) -> None:
    """Let the regressions learn the target of the sample predicted last, of these raw inputs.

    `size` is the logarithm of the size of an error, in any unit.
    """
    design, targets = ridges.designs[ridges.active], ridges.targets
    active = ridges.columns.part(ridges.capacity * ridges.active, ridges.capacity)
    if ridges.n_samples == 0:
        design.shift = design.low = target
        design.unit = abs(target) if target != 0.0 else 1.0
        design.most = 1.0
    for k in range(N_PLAIN):
        targets[k] = bounded_target(ridges, k, target)
    targets[SIZES] = size
    hold_row(ridges, design, active, targets, weight)
    if ridges.stage == REPLAYING:
        other = ridges.designs[1 - ridges.active]
        columns = ridges.columns.part(ridges.capacity * (1 - ridges.active), ridges.capacity)
        make_columns(ridges, other, inputs, columns)
        add_row(other, columns, targets, weight, -1, 0)
    keep_row(ridges, inputs, weight)
    ridges.n_samples += 1
    if ridges.stage != IDLE or ridges.n_samples >= ridges.next_design:
        go_on(ridges)
    solve_due(ridges, ridges.designs[ridges.active])


# Arrays of a design of which there is a number for each input, or several; for each column; for
# each wave; and for each pair of columns.
_OF_INPUTS = {"centres": 1, "rates": 1, "bends": N_BENDS, "interest": 1}
_OF_COLUMNS = ("firsts", "seconds", "knots", "means", "factors")
_OF_WAVES = {"arms": 1, "arm_inputs": N_ARMS, "arm_factors": N_ARMS, "phases": 1}
_OF_PAIRS = ("all_gram", "late_gram")
_OF_DESIGNS = (*_OF_INPUTS, *_OF_COLUMNS, *_OF_WAVES, *_OF_PAIRS, "latest_gram", "moments")
_OF_RIDGES = ("solutions", "next_solutions", "scales", "n_large")
_ROWS = ("kept", "latest", "errors", "held", "held_weights")
# Bytes of the rows that are kept of all of the past, and how many there are at least and at most.
KEPT_BYTES = 1 << 19
LEAST_KEPT, MOST_KEPT = 256, 1024
# After so many samples with a new input columns are chosen anew.
AFTER_NEW = 16


def _kept_capacity(n_inputs: int) -> int:
    """Return a power of 2."""
    fitting = KEPT_BYTES // (8 * (FIRST_INPUT + n_inputs))
    return min(max(1 << max(fitting.bit_length() - 1, 0), LEAST_KEPT), MOST_KEPT)


def _additive_capacity(n_inputs: int) -> int:
    """Return how many columns there may be but waves."""
    return max(MOST_COLUMNS, 1 + min(n_inputs, MOST_LINEAR) + LEAST_OTHERS)


def _column_capacity(n_inputs: int) -> int:
    return _additive_capacity(n_inputs) + N_WAVES


def _shapes(n: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all that is stored, with room for `n` inputs."""
    columns, length, linear = _column_capacity(n), FIRST_INPUT + n, 1 + min(n, MOST_LINEAR)
    shapes: dict[str, tuple[int, ...]] = {
        "solutions": (N_SOLVED, columns),
        "kept": (_kept_capacity(n), length),
        "latest": (N_LATEST, length),
        "errors": (2 * N_MEASURED,),
        "held": (N_HELD, columns),
        "held_weights": (N_HELD,),
        "next_solutions": (N_SOLVED,),
        "scales": (N_PLAIN,),
        "n_large": (N_PLAIN,),
    }
    for i in range(2):
        shapes |= {f"{name}[{i}]": (k * n,) for name, k in _OF_INPUTS.items()}
        shapes |= {f"{name}[{i}]": (columns,) for name in _OF_COLUMNS}
        shapes |= {f"{name}[{i}]": (k * (N_WAVES + 1),) for name, k in _OF_WAVES.items()}
        shapes |= {f"{name}[{i}]": (columns * (columns + 1) // 2,) for name in _OF_PAIRS}
        shapes[f"latest_gram[{i}]"] = (linear * (linear + 1) // 2,)
        shapes[f"moments[{i}]"] = (N_SOLVED, columns)
    return shapes


def _moved(old: NDArray[Any], shape: tuple[int, ...], fill: float) -> NDArray[Any]:
    """Return an array of another shape that begins with what there was."""
    new = np.full(shape, fill, dtype=old.dtype)
    part = tuple(slice(0, min(a, b)) for a, b in zip(old.shape, shape, strict=True))
    new[part] = old[part]
    return new


class RidgeExperts(Learned[Ridges]):
    """The memory of ridge regressions, which grows with inputs."""

    _KIND = Ridges
    # Rows hold NaN.
    _OTHERS = (np.float64,)

    def __init__(self) -> None:
        super().__init__()
        self.designs = Memory(Design, 2)
        # Number of inputs that there is room for.
        self.room = 0
        self._begin()
        record = self.record
        record.stride, record.next_design, record.gap = 1, FIRST_GAP, FIRST_GAP
        for design in self.designs:
            design.n_columns = design.n_additive = 1
            design.unit = 1.0
        self.reserve(0, 0, np.zeros(N_RIDGES))

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return _shapes(self.room)

    def _numbers(self) -> dict[str, Numbers]:
        last = max(self.room - 1, 0)
        found = dict.fromkeys(("next_solutions", "n_large"), (np.int64, 0, LARGEST_SIZE))
        found |= dict.fromkeys(("firsts", "arm_inputs"), (np.int64, 0, last))
        return found | {"seconds": (np.int64, BEND, last), "arms": (np.int64, 0, N_ARMS)}

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return super().nbytes + self.designs.nbytes

    def reserve(
        self,
        room: int,
        n_inputs: int,
        predicted: Array,
        categories: Sequence[int] = (),
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

        """
        record = self.record
        kept, n_kept, stride = self.learned["kept"], record.n_kept, record.stride
        while n_kept > _kept_capacity(room):
            kept, n_kept, stride = kept[::2], n_kept // 2, 2 * stride
        if n_kept < record.n_kept:
            # The rows that a design is being made of have been moved.
            record.stage, record.next_design = IDLE, record.n_samples + 1
        learned = {}
        for name, shape in _shapes(room).items():
            old = kept if name == "kept" else self.learned[name]
            # What has not been seen is missing.
            learned[name] = _moved(old, shape, math.nan if name in ("kept", "latest") else 0)
        if n_inputs > record.n_inputs and record.n_samples > 0:
            # The new ones get columns soon.
            record.gap = min(record.gap, AFTER_NEW)
            record.next_design = min(record.next_design, record.n_samples + AFTER_NEW)
        self.learned, self.room = learned, room
        record.n_kept, record.stride = n_kept, stride
        record.n_inputs = n_inputs
        self._show(predicted, categories)

    def begin_at_zero(self, inputs: NDArray[np.int64]) -> None:
        """Let new inputs have been 0 in all samples so far."""
        for name in ("kept", "latest"):
            self.learned[name][:, FIRST_INPUT + inputs] = 0.0

    def _show(self, predicted: Array | None = None, categories: Sequence[int] = ()) -> None:
        """Let records refer to their arrays; the owner says where predictions go."""
        record, room = self.record, self.room
        columns = _column_capacity(room)
        for i, design in enumerate(self.designs):
            design.capacity = columns
            for name in _OF_DESIGNS:
                self.designs.own(name, self.learned[f"{name}[{i}]"].ravel(), i)
        record.designs = self.designs.array
        record.capacity, record.row_length = columns, FIRST_INPUT + room
        record.kept_capacity = _kept_capacity(room)
        ignored = np.zeros(room, dtype=np.int64)
        ignored[list(categories)] = 1
        candidates = np.zeros(max(MOST_CANDIDATES, room) * Candidate.SIZE, np.uint8)
        arrays: dict[str, NDArray[Any]] = {
            **{name: self.learned[name].ravel() for name in (*_OF_RIDGES, *_ROWS)},
            "ignored": ignored,
            "targets": np.zeros(N_SOLVED),
            "triangle": np.zeros(columns * (columns + 1) // 2),
            "vector": np.zeros(columns),
            "row_units": np.zeros(N_EXAMINED * room),
            "values": np.zeros(max(2 * N_MEASURED, columns)),
            "candidates": candidates,
        }
        for name, array in arrays.items():
            self.memory.own(name, array)
        self._own_prediction(
            self.memory, np.zeros(N_RIDGES) if predicted is None else predicted.ravel()
        )

    def _own_prediction(self, memory: Memory[Ridges], predicted: Array = NOWHERE) -> None:
        memory.own("units", np.zeros(self.room))
        memory.own("columns", np.zeros(2 * int(memory[0].capacity)))
        memory.own("predicted", predicted)

    def _check(self) -> None:
        check_types(self, {"designs": Memory, "room": int})
        check_number(self, "room", self.room, 0, LARGEST_ROOM)
        if self.designs.kind is not Design or len(self.designs) != 2:
            refuse(self, "designs", self.designs.kind, "but it should be two of Design")
        record, room = self.record, self.room
        # It is not read while nothing is being chosen.
        most = LARGEST_SIZE if record.stage == IDLE else record.n_kept
        check_number(self, "n_inputs", record.n_inputs, 0, room)
        check_number(self, "n_before", record.n_before, 0, record.n_samples)
        check_number(self, "n_kept", record.n_kept, 0, _kept_capacity(room))
        check_number(self, "kept_before", record.kept_before, 0, most)
        for design in self.designs:
            check_number(self, "n_inputs of a design", design.n_inputs, 0, record.n_inputs)
            check_number(self, "n_additive", design.n_additive, 1, _additive_capacity(room))
            most = min(design.n_additive - 1, MOST_LINEAR)
            check_number(self, "n_linear", design.n_linear, 0, most)
            first, last = design.n_additive, design.n_additive + N_WAVES
            check_number(self, "n_columns", design.n_columns, first, last)
