"""Convert models to trees of plain values and named arrays, and back.

None, truth values, integers, finite floats, strings and lists are JSON values. Other values are
JSON objects whose first key names their form (`_FORMS` lists all forms). An array's name is the
path of attributes that leads to the array. A table is stored as its columns.
"""

import array
import functools
import inspect
import math
import random
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from types import MethodType
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from .. import checks, model
from ..arguments import is_distribution
from ..records import ChunkedRows, Memory, Record, RowLayout, TableState
from ..records.arrays import CHUNK_ROWS
from ..records.layout import Column, columns_of
from . import foreign
from .classes import class_of, name_of

# Safetensors' names of NumPy's types.
_SIZES = {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (16, 32, 64)}
_TYPES = [(kind, bits) for kind, sizes in _SIZES.items() for bits in sizes]
TYPES = {"bool": "BOOL"} | {f"{kind}{bits}": f"{kind[0].upper()}{bits}" for kind, bits in _TYPES}

Arrays = dict[str, NDArray[Any]]

# Rows are converted to columns in blocks of at most this number of bytes (at least one chunk),
# because such a block stays in the processor's cache.
BLOCK_BYTES = 1 << 18


def _chunks_of_block(row_bytes: int) -> int:
    return max(1, BLOCK_BYTES // max(1, CHUNK_ROWS * row_bytes))


def columns_of_tables(state: TableState) -> dict[str, NDArray[Any]]:
    """Return the columns of all tables, table by table."""
    tables, columns = state.tables, state.layout.columns
    total = sum(state.counts)
    arrays = {c.name: np.empty((total, *c.shape), c.dtype) for c in columns}
    step = _chunks_of_block(tables.row_bytes)
    end = 0
    for chunks, count in zip(tables.chunks, state.counts, strict=True):
        start, end = end, end + count
        for first in range(0, -(-count // CHUNK_ROWS), step):
            block = np.concatenate(chunks[first : first + step])
            n = min(len(block), end - start)
            for column in columns:
                arrays[column.name][start : start + n] = column.over(block, n, tables.row_bytes)
            start += n
    return arrays


class TableColumns:
    """Tables as columns, which is their form in files.

    Parameters
    ----------
    counts
        Number of rows of each table.
    columns
        Columns of all tables, by name.

    """

    def __init__(self, counts: list[int], columns: dict[str, NDArray[Any]]) -> None:
        self.counts = counts
        self.columns = columns

    def restored(self, layout: RowLayout, zeroed: bool = True) -> ChunkedRows:
        """Return tables with the rows (for `zeroed`, see `ChunkedRows`).

        Raises
        ------
        ModelFormatError
            If the columns do not match the layout.

        """
        columns = layout.columns
        check_columns(self.columns, columns, sum(self.counts), layout.kind.__name__)
        tables = ChunkedRows(len(self.counts), layout.words, zeroed)
        n_rows = _chunks_of_block(tables.row_bytes) * CHUNK_ROWS
        end = 0
        for table, count in enumerate(self.counts):
            start, end = end, end + count
            tables.reserve(table, count)
            for first in range(0, count, n_rows):
                n = min(n_rows, count - first)
                block = np.empty((n, layout.words), dtype=np.int32)
                for column in columns:
                    rows = slice(start + first, start + first + n)
                    column.over(block, n, tables.row_bytes)[:] = self.columns[column.name][rows]
                tables.extend(table, first, block)
        return tables


def check_columns(
    stored: dict[str, NDArray[Any]], columns: list[Column], n: int, kind: str
) -> None:
    """Raise an error if stored columns do not match the expected columns of `n` records.

    Raises
    ------
    ModelFormatError
        If a name, a type or a shape differs.

    """
    expected = {c.name: (c.dtype, (n, *c.shape)) for c in columns}
    actual = {name: (array.dtype.name, array.shape) for name, array in stored.items()}
    for name in expected.keys() | actual.keys():
        if expected.get(name) != actual.get(name):
            wanted, got = expected.get(name), actual.get(name)
            raise checks.ModelFormatError(f"{kind} has the column {name!r} of {wanted}, got {got}")


# Kinds of NumPy scalars that are stored: truth values, numbers, strings and times.
SCALARS = frozenset("biufcSUmM")

# The key that marks a value as not stored. The key contains spaces, so no attribute or field has
# this name.
CODE = "parameter that is code"

COLLECTIONS = (list, tuple, set, frozenset, dict, Counter, OrderedDict, defaultdict, deque)

STORABLE = (
    "files hold str, int, float, bool, bytes, None, NumPy scalars, tuples of these, lists, sets, "
    "mappings, arrays of numbers, and objects of River's own classes"
)


class CannotSaveError(TypeError):
    """Error for a part of a model that files cannot store."""

    def __init__(self, value: Any, path: str, why: str = "") -> None:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        what = " ".join(repr(value).split())
        super().__init__(f"cannot save {what} ({kind}), which is in {path}: {why or STORABLE}")


# Largest depth of nested values, which does not depend on the interpreter's limit. A value may
# become two nested forms.
MOST_NESTED = 100


class Encoder:
    """Converter of a model to a tree of plain values.

    Attributes
    ----------
    arrays
        The arrays of the encoded values, by name.

    """

    def __init__(self) -> None:
        self.arrays: Arrays = {}
        # The number of each encoded object, and the object, by its id. The object is kept, because
        # Python may otherwise reuse the id.
        self._met: dict[int, tuple[int, Any]] = {}
        self._depth = 0

    def encode(self, value: Any, path: str) -> Any:
        """Return the form of a value in the tree of plain values.

        Raises
        ------
        CannotSaveError
            If the value has no form, or is nested too deeply.

        """
        self._depth += 1
        if self._depth > MOST_NESTED:
            # The message omits the value, because its `repr` may be nested too deeply as well.
            why = f"values may be nested at most {MOST_NESTED} deep"
            raise CannotSaveError("...", path, why)
        form = self._form(value, path)
        self._depth -= 1
        return form

    def _form(self, value: Any, path: str) -> Any:
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
                [self.encode(key, path), self.encode(item, f"{path}/{key if _plain(key) else i}")]
                for i, (key, item) in enumerate(value.items())
            ]
            if not isinstance(value, defaultdict):
                return {type(value).__name__.lower(): pairs}
            return {"defaultdict": pairs, "factory": self._encode_factory(value, path)}
        items = [self.encode(item, f"{path}/{i}") for i, item in enumerate(value)]
        if isinstance(value, deque):
            return {"deque": items, "maxlen": value.maxlen}
        return items if isinstance(value, list) else {type(value).__name__: items}

    def _encode_factory(self, value: defaultdict[Any, Any], path: str) -> Any:
        """Return the form of a defaultdict's `default_factory`."""
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
        little = dtype.newbyteorder("<")
        return {"scalar": little.str, "bytes": np.asarray(value).astype(little).tobytes().hex()}

    def _encode_array(self, value: Any, path: str) -> Any:
        if value.dtype.name not in TYPES:
            raise CannotSaveError(value, path, f"arrays of {value.dtype} have no form")
        if value.flags.f_contiguous and not value.flags.c_contiguous:
            return {"array": self._add(value.T, path), "transposed": True}
        return {"array": self._add(np.ascontiguousarray(value).reshape(value.shape), path)}

    def _add(self, value: Any, name: str) -> str:
        """Add an array, and return its name, with a ' for each earlier array of the same name."""
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
        """Return the form of an object's state: for a dict, the form of each attribute."""
        state = value.__getstate__()
        if not isinstance(state, dict):
            return self.encode(state, path)
        parameters = inspect.signature(type(value).__init__).parameters
        attributes = {
            name: self._encode_attribute(
                attribute, f"{path}/{name}", name if name in parameters else ""
            )
            for name, attribute in state.items()
            if not isinstance(attribute, model.ModelLock)
        }
        return {"attributes": attributes}

    def _encode_attribute(self, value: Any, path: str, parameter: str) -> Any:
        """Return the form of an attribute, or mark a parameter without a form as code."""
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
        if isinstance(value, np.random.Generator):
            return {"generator": self.encode(value.bit_generator.state, path)}
        if isinstance(value, random.Random):
            return {"generator": self.encode(value.getstate(), path)}
        if isinstance(value, scipy.sparse.csr_matrix):
            arrays = {"data": value.data, "indices": value.indices, "indptr": value.indptr}
            return {"csr": self._add_columns(arrays, path), "shape": list(value.shape)}
        if is_distribution(value):
            name, *rest = foreign.parts_of_distribution(value)
            arguments, named = (self.encode(item, path) for item in rest)
            return {"distribution": name, "arguments": arguments, "named": named}
        if isinstance(value, MethodType) and foreign.is_river(value.__self__):
            return {"method": value.__name__, "of": self.encode(value.__self__, path)}
        if not foreign.is_river(value):
            raise CannotSaveError(value, path)
        name, *rest = foreign.parts_of(value)
        arguments, state = (self.encode(item, path) for item in rest)
        return {"river": name, "arguments": arguments, "state": state}


def _plain(key: Any) -> bool:
    return type(key) is str and key.isidentifier()


def code_in(tree: Any) -> Iterator[str]:
    """Yield the names of parameters that a tree of plain values omits because they are code."""
    if isinstance(tree, dict):
        if CODE in tree:
            yield tree[CODE]
        tree = list(tree.values())
    if isinstance(tree, list):
        for branch in tree:
            yield from code_in(branch)


class Decoder:
    """Converter of a tree of plain values to a model.

    A decoder creates only values of Python, NumPy and SciPy, objects of the classes in `classes`,
    and objects of River (see `foreign`). A decoder runs no code from the file.

    Parameters
    ----------
    arrays
        The arrays of the file, by name.
    code
        Values of the parameters that the file omits, by name.

    """

    def __init__(self, arrays: Arrays, code: Mapping[str, Any]) -> None:
        self._arrays = arrays
        self._code = code
        # Decoded objects by number.
        self._met: dict[int, Any] = {}
        self._depth = 0

    def decode(self, tree: Any) -> Any:
        """Return the value of a tree of plain values."""
        self._depth += 1
        if self._depth > 2 * MOST_NESTED:
            raise ValueError(f"values are nested more than {MOST_NESTED} deep")
        value = tree
        if isinstance(tree, dict):
            value = _FORMS[next(iter(tree), "")](self, tree)
            if "number" in tree:
                self._met[tree["number"]] = value
        elif isinstance(tree, list):
            value = [self.decode(branch) for branch in tree]
        self._depth -= 1
        return value

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
        array = np.array(stored, dtype=stored.dtype.newbyteorder("="))
        return array.T.copy(order="F") if tree.get("transposed") else array

    def _csr(self, tree: dict[str, Any]) -> Any:
        arrays = tuple(self._arrays[tree["csr"][name]] for name in ("data", "indices", "indptr"))
        return scipy.sparse.csr_matrix(arrays, tuple(tree["shape"]), copy=True)

    def _distribution(self, tree: dict[str, Any]) -> Any:
        arguments, named = self.decode(tree["arguments"]), self.decode(tree["named"])
        return foreign.distribution(tree["distribution"], arguments, named)

    def _columns(self, tree: dict[str, Any]) -> Arrays:
        return {name: self._arrays[number] for name, number in tree["columns"].items()}

    def _table(self, tree: dict[str, Any]) -> TableColumns:
        counts = tree["table"]
        if not all(type(n) is int and n >= 0 for n in counts):
            raise ValueError(f"tables of {counts} rows")
        return TableColumns(counts, self._columns(tree))

    def _records(self, tree: dict[str, Any]) -> Memory[Any]:
        kind, n = class_of(tree["records"]), tree["n"]
        if not issubclass(kind, Record):
            raise ValueError(f"{tree['records']!r} is not a record")
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
        restored = object.__new__(cls)
        if isinstance(stored, dict) and "attributes" in stored:
            state: Any = {k: self.decode(form) for k, form in stored["attributes"].items()}
        else:
            state = self.decode(stored)
        if hasattr(cls, "__setstate__"):
            restored.__setstate__(state)
        else:
            restored.__dict__.update(state)
        return restored

    def _river(self, tree: dict[str, Any]) -> Any:
        cls = foreign.river_class(tree["river"])
        restored = cls.__new__(cls, *self.decode(tree["arguments"]))
        # The object is registered first, because the state may refer to the object.
        self._met[tree["number"]] = restored
        foreign.put_state(restored, self.decode(tree["state"]))
        return restored

    def _method(self, tree: dict[str, Any]) -> Any:
        owner, name = self.decode(tree["of"]), tree["method"]
        if not foreign.is_river(owner) or not callable(getattr(type(owner), name, None)):
            raise ValueError(f"{name!r} is not a method of River")
        return getattr(owner, name)


def _scalar(tree: dict[str, Any]) -> Any:
    dtype = np.dtype(tree["scalar"])
    if dtype.kind not in SCALARS:
        raise ValueError(f"no scalar is of {dtype}")
    scalar = np.zeros(1, dtype)
    content = bytes.fromhex(tree["bytes"])
    if len(content) != scalar.nbytes:
        raise ValueError(f"{len(content)} bytes of {dtype}")
    scalar.view(np.uint8)[:] = np.frombuffer(content, np.uint8)
    return scalar.astype(dtype.newbyteorder("="))[0]


# Decoders of forms, by first key. The methods are not bound, because bound methods would keep
# models alive in a reference cycle.
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
