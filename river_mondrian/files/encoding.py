"""Models as trees of plain values, and named arrays beside them.

None, truth values, integers, finite numbers, strings and lists stand for themselves. All else is an
object of JSON whose first key tells what it is (`decoding` has them all); arrays are stored under
the path of attributes to them.
"""

from __future__ import annotations

import array
import functools
import inspect
import math
import random
from collections import Counter, OrderedDict, defaultdict, deque
from types import MethodType
from typing import Any

import numpy as np
import scipy

from ..arguments import is_distribution
from ..model import ModelLock
from ..records import Memory, TableState
from . import foreign
from .classes import name_of
from .container import TYPES, Arrays
from .tables import columns_of_tables

# Kinds of NumPy's scalars that are stored: truth values, integers, numbers, strings and times.
SCALARS = frozenset("biufcSUmM")

# First key of what is not stored; no attribute and no field is called so.
CODE = "parameter that is code"

COLLECTIONS = (list, tuple, set, frozenset, dict, Counter, OrderedDict, defaultdict, deque)

RULE = (
    "files hold str, int, float, bool, bytes, None, NumPy scalars, tuples of these, lists, sets, "
    "mappings, arrays of numbers, and objects of River's own classes"
)


class CannotSaveError(TypeError):
    """Something of a model that files have no form for."""

    def __init__(self, value: Any, path: str, why: str = "") -> None:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        what = " ".join(repr(value).split())
        super().__init__(f"cannot save {what} ({kind}), which is in {path}: {why or RULE}")


class Encoder:
    """Turns a model into a tree of plain values.

    Attributes
    ----------
    arrays
        The arrays so far, by name.

    """

    def __init__(self) -> None:
        self.arrays: Arrays = {}
        # What has been met, by identity: its number, and itself, so that no other gets its place.
        self._met: dict[int, tuple[int, Any]] = {}

    def encode(self, value: Any, path: str) -> Any:
        """Return what stands for a value in the tree.

        Raises
        ------
        CannotSaveError
            If there is no form for it.

        """
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, type) and (name := foreign.name_of_factory(value)):
            return {"type": name}
        if kind in COLLECTIONS:
            return self._encode_collection(value, path)
        if kind is bytes:
            return {"bytes": value.hex()}
        if isinstance(value, np.generic):
            return self._encode_scalar(value, path)
        if isinstance(value, np.ndarray):
            return self._encode_array(value, path)
        if id(value) in self._met:
            return {"same": self._met[id(value)][0]}
        return self._encode_object(value, path)

    def _encode_collection(self, value: Any, path: str) -> Any:
        if isinstance(value, dict):
            pairs = [
                [self.encode(key, path), self.encode(one, f"{path}/{key if _plain(key) else i}")]
                for i, (key, one) in enumerate(value.items())
            ]
            if not isinstance(value, defaultdict):
                return {type(value).__name__.lower(): pairs}
            return {"defaultdict": pairs, "factory": self._encode_factory(value, path)}
        items = [self.encode(one, f"{path}/{i}") for i, one in enumerate(value)]
        if isinstance(value, deque):
            return {"deque": items, "maxlen": value.maxlen}
        return items if isinstance(value, list) else {type(value).__name__: items}

    def _encode_factory(self, value: defaultdict[Any, Any], path: str) -> Any:
        """Return what stands for the function that makes the values of absent keys."""
        make: Any = value.default_factory
        arguments: tuple[Any, ...] = ()
        if isinstance(make, functools.partial) and not make.keywords:
            make, arguments = make.func, make.args
        if isinstance(make, MethodType) or make is None:
            return self.encode(make, path)
        name = foreign.name_of_factory(make)
        if name is None:
            raise CannotSaveError(make, path)
        return {"factory": name, "arguments": self.encode(arguments, path)}

    def _encode_scalar(self, value: np.generic, path: str) -> Any:
        dtype = value.dtype
        if dtype.kind not in SCALARS or type(value) in (np.longdouble, np.clongdouble):
            raise CannotSaveError(value, path)
        return {"scalar": dtype.newbyteorder("<").str, "bytes": _little(np.asarray(value)).hex()}

    def _encode_array(self, value: Any, path: str) -> Any:
        if value.dtype.name not in TYPES:
            raise CannotSaveError(value, path, f"arrays of {value.dtype} have no form")
        if value.flags.f_contiguous and not value.flags.c_contiguous:
            return {"array": self._add(value.T, path), "transposed": True}
        return {"array": self._add(np.ascontiguousarray(value).reshape(value.shape), path)}

    def _add(self, value: Any, name: str) -> str:
        """Keep an array under a name."""
        while name in self.arrays:
            name += "'"
        self.arrays[name] = value
        return name

    def _add_columns(self, columns: Arrays, path: str) -> dict[str, str]:
        return {name: self._add(column, f"{path}/{name}") for name, column in columns.items()}

    def _encode_object(self, value: Any, path: str) -> Any:
        if isinstance(value, TableState):
            columns = self._add_columns(columns_of_tables(value), path)
            return {"table": value.counts, "columns": columns}
        number = {"number": len(self._met)}
        self._met[id(value)] = number["number"], value
        if isinstance(value, Memory):
            kind, columns = name_of(value.kind), self._add_columns(value.columns(), path)
            assert kind is not None
            return {"records": kind, "n": len(value), "columns": columns} | number
        name = name_of(type(value))
        if name is not None:
            return {"object": name, "state": self._encode_state(value, path)} | number
        try:
            return self._encode_foreign(value, path) | number
        except CannotSaveError:
            raise
        except TypeError as error:
            raise CannotSaveError(value, path, str(error)) from error

    def _encode_state(self, value: Any, path: str) -> Any:
        """Return the state of an object of this package, by attributes where it has such."""
        state = value.__getstate__()
        if not isinstance(state, dict):
            return self.encode(state, path)
        given = inspect.signature(type(value).__init__).parameters
        return {
            "attributes": {
                name: self._encode_attribute(one, f"{path}/{name}", name if name in given else "")
                for name, one in state.items()
                if not isinstance(one, ModelLock)
            }
        }

    def _encode_attribute(self, value: Any, path: str, parameter: str) -> Any:
        """Return what stands for an attribute: where it is an argument, it may be code."""
        arrays, met = dict(self.arrays), dict(self._met)
        try:
            return self.encode(value, path)
        except CannotSaveError:
            if not parameter or name_of(type(value)) is not None:
                raise
            self.arrays, self._met = arrays, met
            return {CODE: parameter}

    def _encode_foreign(self, value: Any, path: str) -> dict[str, Any]:
        if isinstance(value, array.array):
            return {"numbers": self._add(np.array(value), path)}
        if isinstance(value, (np.random.Generator, random.Random)):
            return {"generator": self.encode(foreign.state_of_generator(value), path)}
        if isinstance(value, scipy.sparse.csr_matrix):
            parts = {"data": value.data, "indices": value.indices, "indptr": value.indptr}
            return {"csr": self._add_columns(parts, path), "shape": list(value.shape)}
        if is_distribution(value):
            name, arguments, named = foreign.parts_of_distribution(value)
            rest = self.encode(arguments, path), self.encode(named, path)
            return {"distribution": name, "arguments": rest[0], "named": rest[1]}
        if isinstance(value, MethodType) and foreign.is_river(value.__self__):
            return {"method": value.__name__, "of": self.encode(value.__self__, path)}
        if not foreign.is_river(value):
            raise CannotSaveError(value, path)
        name, arguments, state = foreign.parts_of(value)
        return {
            "river": name,
            "arguments": self.encode(arguments, path),
            "state": self.encode(state, path),
        }


def _plain(key: Any) -> bool:
    return type(key) is str and key.isidentifier()


def _little(value: Any) -> bytes:
    """Return the bytes of an array, little-endian."""
    found: bytes = value.astype(value.dtype.newbyteorder("<")).tobytes()
    return found
