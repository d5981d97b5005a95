"""The samples that a posterior holds: what owns their memory."""

from __future__ import annotations

import sys
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ...checks import LARGEST_SIZE, LEAST_RATE, check_array, check_number, check_types, refuse
from ...limits import LARGEST_TARGET, LARGEST_WEIGHT
from ...maps.compiled import CompiledMap
from ...records import Memory, check_shapes, owned
from .forgetting import Held

# Slots at first.
FIRST_SLOTS = 16
# What a slot has besides outputs.
BY_SLOT = {"keys": np.int64, "targets": np.float64, "weights": np.float64}


class HeldSamples:
    """The samples of a posterior that may be taken out of it again, in slots.

    Their number is fixed: `grown` returns others.

    Parameters
    ----------
    window
        Most samples.
    compiled
        The map.
    n_rows
        Rows of the posterior that there is room for.

    """

    def __init__(self, window: int, compiled: CompiledMap, n_rows: int) -> None:
        self.memory = Memory(Held)
        self.record = self.memory[0]
        self.record.window = window
        n = min(window + 1, FIRST_SLOTS)
        by_slot: dict[str, NDArray[Any]] = {name: np.zeros(n, BY_SLOT[name]) for name in BY_SLOT}
        outputs: NDArray[Any] = np.zeros((n, compiled.n_out), compiled.dtype)
        self._bind(by_slot | {"outputs": outputs, "errors": np.zeros(n_rows)})

    def _bind(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Keep arrays by slot, of which the first are those of the samples in their order."""
        outputs, memory = arrays["outputs"], self.memory
        n, self.record.width = outputs.shape
        memory.own("values" if outputs.dtype == np.float64 else "cells", outputs.ravel())
        for name in (*BY_SLOT, "errors"):
            memory.own(name, arrays[name])
        memory.own("order", np.arange(n, dtype=np.int32))
        self.record.n_slots, self.record.head = n, 0

    def slots(self) -> NDArray[np.int64]:
        """Return the slots of the samples, in order of arrival."""
        record, order = self.record, self.memory.arrays["order"]
        places = (record.head + np.arange(record.n_held)) % max(1, record.n_slots)
        return order[places].astype(np.int64)

    def _arrays(self, n_slots: int, width: int, n_rows: int) -> dict[str, NDArray[Any]]:
        """Return arrays of another number of slots, the samples in their order."""
        record, arrays, slots = self.record, self.memory.arrays, self.slots()
        stored = arrays["values" if "values" in arrays else "cells"]
        outputs = np.zeros((n_slots, width), np.float64 if "values" in arrays else np.int32)
        outputs[: len(slots), : record.width] = stored.reshape(-1, record.width)[slots]
        made: dict[str, NDArray[Any]] = {"outputs": outputs}
        for name, kind in BY_SLOT.items():
            made[name] = np.zeros(n_slots, kind)
            made[name][: len(slots)] = arrays[name][slots]
        made["errors"] = np.zeros(n_rows)
        n_kept = min(n_rows, len(arrays["errors"]))
        made["errors"][:n_kept] = arrays["errors"][:n_kept]
        return made

    def lacks_room(self, compiled: CompiledMap) -> bool:
        """Tell whether there is no slot for another sample of a map."""
        return self.record.n_held >= self.record.n_slots or compiled.n_out > self.record.width

    def grown(self, compiled: CompiledMap, n_rows: int) -> Self:
        """Return the same samples with room for others of a map, and for rows of the posterior."""
        made = type(self).__new__(type(self))
        record, made.memory = self.record, Memory(Held)
        made.record = made.memory[0]
        for name in ("window", "n_held", "residual_error", "target_error", "origin"):
            setattr(made.record, name, getattr(record, name))
        n_slots = record.n_slots
        if record.n_held >= n_slots:
            n_slots = min(record.window + 1, max(FIRST_SLOTS, 2 * n_slots))
        made._bind(self._arrays(n_slots, compiled.n_out, n_rows))
        return made

    def equal(self, key: int, target: float, weight: float) -> list[int]:
        """Return which samples by arrival have a key, a target and a weight."""
        slots = self.slots()
        keys, targets, weights = (self.memory.arrays[name][slots] for name in BY_SLOT)
        found: list[int] = np.flatnonzero(
            (keys == key) & (targets == target) & (weights == weight)
        ).tolist()
        return found

    def state(self, n_rows: int) -> dict[str, Any]:
        """Return what is stored of a posterior of so many rows."""
        arrays = self._arrays(self.record.n_held, self.record.width, n_rows)
        return {"memory": self.memory, "arrays": arrays}

    @classmethod
    def restored(cls, state: Any, compiled: CompiledMap, n_rows: int) -> Self:
        """Return the samples that are stored.

        Raises
        ------
        ModelFormatError
            If what is stored cannot be the samples of a posterior.

        """
        made = cls.__new__(cls)
        made.memory = state["memory"]
        check_types(made, {"memory": Memory})
        if made.memory.kind is not Held or len(made.memory) != 1:
            refuse(made, "memory", made.memory.kind.__name__, "but it is of another kind")
        record = made.record = made.memory[0]
        check_number(made, "window", record.window, 1, LARGEST_SIZE)
        check_number(made, "n_held", record.n_held, 0, record.window)
        for name in ("residual_error", "target_error"):
            check_number(made, name, float(getattr(record, name)), 0.0, np.inf)
        check_number(made, "origin", float(record.origin), -LARGEST_TARGET, LARGEST_TARGET)
        arrays, n = owned(state["arrays"]), record.n_held
        made.__dict__.update(arrays)
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(BY_SLOT, (n,))
        shapes |= {"errors": (n_rows,), "outputs": (n, arrays["outputs"].shape[-1])}
        check_shapes(made, shapes)
        for name in arrays:
            del made.__dict__[name]
        most = float(np.finfo(np.float64).max) if compiled.dense else compiled.n_columns - 1
        least = -most if compiled.dense else 0
        check_array(made, "outputs", arrays["outputs"], compiled.dtype, least, most)
        check_number(made, "width", arrays["outputs"].shape[1], 0, compiled.n_out)
        check_array(made, "keys", arrays["keys"], np.int64, -(1 << 63), (1 << 63) - 1)
        check_array(made, "targets", arrays["targets"], np.float64, -LARGEST_TARGET, LARGEST_TARGET)
        check_array(made, "weights", arrays["weights"], np.float64, LEAST_RATE, LARGEST_WEIGHT)
        check_array(made, "errors", arrays["errors"], np.float64, 0.0, np.inf)
        made._bind(arrays)
        return made

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays = (self.memory.bytes, *self.memory.arrays.values())
        return sys.getsizeof(self) + sum(array.nbytes for array in arrays)
