"""The memory of a learner: its record, and the arrays that its record declares."""

import copy
import math
from collections.abc import Iterator
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar, get_origin

import numpy as np
from numpy.typing import NDArray

from ..checks import check_arrays, check_types, refuse
from ..records import Floats, Memory, OwnsArrays, Record, number_of, owned
from ..records.record import Role
from ..restored import Rows, check_numbers

R = TypeVar("R", bound=Record)


def keep(new: NDArray[Any], old: NDArray[Any]) -> None:
    """Copy elements of `old` to `new` at all indices that both arrays have."""
    common = tuple(map(slice, np.minimum(new.shape, old.shape)))
    new[common] = old[common]


class Declared(NamedTuple):
    """An array that the `i`-th record of a `Memory` declares."""

    name: str
    i: int
    # The key of the array in `Learned.learned`.
    key: str
    dtype: str
    shape: tuple[int, ...]
    least: float
    most: float

    def zeros(self) -> NDArray[Any]:
        """Return an array of zeros with the declared shape and type."""
        return np.zeros(self.shape, self.dtype)


def declared(memory: Memory[Any], role: Role) -> Iterator[Declared]:
    """Yield the arrays with a given role and a declared shape (`records.sized`)."""
    for i, record in enumerate(memory):
        for field in memory.kind.FIELDS.values():
            if not field.shape or field.role is not role:
                continue
            base = get_origin(field.kind) or field.kind
            shape = tuple(number_of(record, size) for size in field.shape)
            dtype = base.WORD.name if hasattr(base, "WORD") else "uint8"
            if dtype == "uint8":
                shape = (*shape, base.element_size(field.kind))
            least, largest = -math.inf, math.inf
            if field.bounds is not None:
                least, below = field.bounds.least, field.bounds.below
                largest = number_of(record, below) - 1 if below else field.bounds.most
            key = field.name if len(memory) == 1 else f"{field.name}[{i}]"
            yield Declared(field.name, i, key, dtype, shape, least, largest)


class Learned(OwnsArrays, Generic[R]):
    """A record and its arrays, with the shapes and bounds that the record declares.

    Arrays that belong to the state are in `learned`. Transient arrays hold results for the last
    sample. Restored memory is checked against the declarations.

    Parameters
    ----------
    **numbers
        Initial values of scalar fields of the record.

    """

    _DERIVED: ClassVar[frozenset[str]] = frozenset({"record"})
    # Class of the record.
    _KIND: ClassVar[type[Record]]
    # Whether arrays without declared bounds may contain NaN.
    _HAS_NAN: ClassVar[bool] = False

    def __init__(self, **numbers: float) -> None:
        self.memory: Memory[R] = Memory(self._KIND)  # type: ignore[arg-type]
        # The record that kernels read and update.
        self.record = self.memory[0]
        for name, number in numbers.items():
            setattr(self.record, name, number)
        self.learned = self._zeros()

    def changed(self, learned: dict[str, NDArray[Any]], **attributes: Any) -> Self:
        """Return a copy with the given arrays and attributes, and with a separate record.

        The copy has new transient arrays, and shares all other arrays and attributes with the
        original.
        """
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__ | attributes)
        copied.memory, copied.learned = self.memory.copied(), self.learned | learned
        copied.record = copied.memory[0]
        copied.show()
        return copied

    def _memories(self) -> list[Memory[Any]]:
        """Return the `Memory` objects whose records declare arrays."""
        return [self.memory]

    def _declared(self) -> list[Declared]:
        """Return the declared arrays that belong to the state."""
        return [array for memory in self._memories() for array in declared(memory, Role.STATE)]

    def _zeros(self) -> dict[str, NDArray[Any]]:
        return {array.key: array.zeros() for array in self._declared()}

    @property
    def predicted(self) -> Floats:
        """Prediction for the last sample."""
        return self.memory.arrays["predicted"]

    def show(self, predicted: Any = None) -> None:
        """Set the records' references to their arrays.

        If `predicted` is given, kernels write predictions to this array, which has another owner.
        """
        for memory in self._memories():
            for array in declared(memory, Role.STATE):
                memory.own(array.name, self.learned[array.key].ravel(), array.i)
        self._own_prediction(self.memory, predicted)

    def _own_prediction(self, memory: Memory[R], predicted: Any) -> None:
        """Allocate the transient arrays of a record, and refer to `predicted` if it is given."""
        for array in declared(memory, Role.TRANSIENT):
            memory.own(array.name, array.zeros().ravel())
        if predicted is not None:
            memory.own("predicted", predicted.ravel())

    def reader(self, predicted: Any = None) -> Memory[R]:
        """Return a copy of the record for another thread, with separate transient arrays."""
        memory = self.memory.copied()
        self._own_prediction(memory, predicted)
        return memory

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        # The state is not checked, because it comes from live memory and not from a file or pickle.
        copied.__dict__.update(copy.deepcopy(self.__getstate__(), memo))
        copied.record = copied.memory[0]
        copied.show()
        return copied

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        check_types(self, {"memory": Memory, "learned": dict})
        if self.memory.kind is not self._KIND or len(self.memory) != 1:
            refuse(self, "memory", self.memory.kind, f"but it should be of {self._KIND.__name__}")
        self.record = self.memory[0]
        check_numbers(type(self).__name__, Rows.of_memory(self.memory), self.record)
        self._check()
        stored = {array.key: array for array in self._declared()}
        if self.learned.keys() != stored.keys():
            refuse(self, "learned", list(self.learned), "but the record declares other arrays")
        arrays: dict[str, tuple[Any, ...]] = {}
        for key, array in stored.items():
            bounds = () if self._HAS_NAN and array.most == math.inf else (array.least, array.most)
            arrays[key] = (array.dtype, array.shape, *bounds)
        check_arrays(self, arrays, self.learned)
        self.learned = owned(self.learned)
        self.show()

    def _check(self) -> None:
        """Raise an error if a restored record has inconsistent values."""
