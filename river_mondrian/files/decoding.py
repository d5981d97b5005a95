"""Models of trees of plain values (see `encoding`)."""

from __future__ import annotations

import array
import functools
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from ..records import Memory, Record
from ..records.layout import columns_of
from . import foreign
from .classes import class_of
from .container import Arrays
from .encoding import CODE, SCALARS
from .tables import TableColumns, check_columns


def code_in(tree: Any) -> Iterator[str]:
    """Yield the names of the parameters that a tree lacks since they are code."""
    if isinstance(tree, dict):
        if CODE in tree:
            yield tree[CODE]
        tree = list(tree.values())
    if isinstance(tree, list):
        for one in tree:
            yield from code_in(one)


class Decoder:
    """Makes a model of a tree of plain values.

    It makes objects of the classes that files may have, and no others, and calls nothing that a
    file names.

    Parameters
    ----------
    arrays
        The arrays of the file, by name.
    code
        What is not in the file, by the names of parameters.

    """

    def __init__(self, arrays: Arrays, code: Mapping[str, Any]) -> None:
        self._arrays = arrays
        self._code = code
        # Objects by number.
        self._met: dict[int, Any] = {}

    def decode(self, tree: Any) -> Any:
        """Return the value that a tree stands for."""
        if isinstance(tree, dict):
            found = _FORMS[next(iter(tree), "")](self, tree)
            if "number" in tree:
                self._met[tree["number"]] = found
            return found
        return [self.decode(one) for one in tree] if isinstance(tree, list) else tree

    def _pairs(self, pairs: list[Any]) -> dict[Any, Any]:
        return {self.decode(key): self.decode(value) for key, value in pairs}

    def _defaultdict(self, tree: dict[str, Any]) -> Any:
        return defaultdict(self._factory(tree["factory"]), self._pairs(tree["defaultdict"]))

    def _factory(self, tree: Any) -> Any:
        if tree is None or "method" in tree:
            return self.decode(tree)
        make, arguments = foreign.factory(tree["factory"]), self.decode(tree["arguments"])
        return functools.partial(make, *arguments) if arguments else make

    def _array(self, tree: dict[str, Any]) -> NDArray[Any]:
        stored = self._arrays[tree["array"]]
        found = np.array(stored, dtype=stored.dtype.newbyteorder("="))
        return found.T.copy(order="F") if tree.get("transposed") else found

    def _csr(self, tree: dict[str, Any]) -> Any:
        data, indices, indptr = (
            self._arrays[tree["csr"][k]] for k in ("data", "indices", "indptr")
        )
        return scipy.sparse.csr_matrix((data, indices, indptr), tuple(tree["shape"]), copy=True)

    def _distribution(self, tree: dict[str, Any]) -> Any:
        arguments, named = self.decode(tree["arguments"]), self.decode(tree["named"])
        return foreign.distribution(tree["distribution"], arguments, named)

    def _columns(self, tree: dict[str, Any]) -> Arrays:
        return {name: self._arrays[place] for name, place in tree["columns"].items()}

    def _table(self, tree: dict[str, Any]) -> TableColumns:
        counts = tree["table"]
        if not all(type(n) is int and n >= 0 for n in counts):
            raise ValueError(f"tables of {counts} rows")
        return TableColumns(counts, self._columns(tree))

    def _records(self, tree: dict[str, Any]) -> Memory[Any]:
        kind, n = class_of(tree["records"]), tree["n"]
        if not issubclass(kind, Record):
            raise ValueError(f"{tree['records']!r} is no record")
        columns = self._columns(tree)
        check_columns(columns, columns_of(kind), n, kind.__name__)
        memory: Memory[Any] = Memory(kind, n)
        for name, column in memory.columns().items():
            column[:] = columns[name]
        return memory

    def _object(self, tree: dict[str, Any]) -> Any:
        cls, stored = class_of(tree["object"]), tree["state"]
        if issubclass(cls, Record):
            raise ValueError(f"{tree['object']!r} is a record")
        found = object.__new__(cls)
        if isinstance(stored, dict) and "attributes" in stored:
            state: Any = {k: self.decode(one) for k, one in stored["attributes"].items()}
        else:
            state = self.decode(stored)
        if hasattr(cls, "__setstate__"):
            found.__setstate__(state)
        else:
            found.__dict__.update(state)
        return found

    def _river(self, tree: dict[str, Any]) -> Any:
        cls = foreign.river_class(tree["river"])
        found = cls.__new__(cls, *self.decode(tree["arguments"]))
        # Its state may name it.
        self._met[tree["number"]] = found
        foreign.put_state(found, self.decode(tree["state"]))
        return found

    def _method(self, tree: dict[str, Any]) -> Any:
        owner, name = self.decode(tree["of"]), tree["method"]
        if not foreign.is_river(owner) or not callable(getattr(type(owner), name, None)):
            raise ValueError(f"{name!r} is no method of River's")
        return getattr(owner, name)


def _scalar(tree: dict[str, Any]) -> Any:
    dtype = np.dtype(tree["scalar"])
    if dtype.kind not in SCALARS:
        raise ValueError(f"no scalar is of {dtype}")
    found = np.zeros(1, dtype)
    content = bytes.fromhex(tree["bytes"])
    if len(content) != found.nbytes:
        raise ValueError(f"{len(content)} bytes of {dtype}")
    found.view(np.uint8)[:] = np.frombuffer(content, np.uint8)
    return found.astype(dtype.newbyteorder("="))[0]


# How each form is read, by its first key; bound methods would be a cycle that keeps models alive.
_FORMS: dict[str, Callable[[Decoder, dict[str, Any]], Any]] = {
    "array": Decoder._array,
    "bytes": lambda decoder, tree: bytes.fromhex(tree["bytes"]),
    CODE: lambda decoder, tree: decoder._code[tree[CODE]],
    "counter": lambda decoder, tree: Counter(decoder._pairs(tree["counter"])),
    "csr": Decoder._csr,
    "defaultdict": Decoder._defaultdict,
    "deque": lambda decoder, tree: deque(map(decoder.decode, tree["deque"]), tree["maxlen"]),
    "dict": lambda decoder, tree: decoder._pairs(tree["dict"]),
    "distribution": Decoder._distribution,
    "frozenset": lambda decoder, tree: frozenset(map(decoder.decode, tree["frozenset"])),
    "float": lambda decoder, tree: float(tree["float"]),
    "generator": lambda decoder, tree: foreign.generator(decoder.decode(tree["generator"])),
    "method": Decoder._method,
    "numbers": lambda decoder, tree: array.array("d", decoder._arrays[tree["numbers"]].tobytes()),
    "object": Decoder._object,
    "ordereddict": lambda decoder, tree: OrderedDict(decoder._pairs(tree["ordereddict"])),
    "records": Decoder._records,
    "river": Decoder._river,
    "same": lambda decoder, tree: decoder._met[tree["same"]],
    "scalar": lambda decoder, tree: _scalar(tree),
    "set": lambda decoder, tree: set(map(decoder.decode, tree["set"])),
    "table": Decoder._table,
    "tuple": lambda decoder, tree: tuple(map(decoder.decode, tree["tuple"])),
    "type": lambda decoder, tree: foreign.factory(tree["type"]),
}
