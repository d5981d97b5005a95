"""Checks of restored models, the error for models that cannot be read, optional imports."""

import importlib
import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class ModelFormatError(ValueError):
    """Error for a stored model that this version cannot read.

    A file may be damaged, incomplete, or in the format of a later version. A pickle may come from
    another version of the package, or from a machine with another byte order. A message about
    versions names this version and, if known, the version that stored the model.
    """


def require(module: str, extra: str, purpose: str) -> Any:
    """Return a module of an optional dependency.

    Parameters
    ----------
    module
        The module's full name.
    extra
        The extra of river-mondrian that installs the dependency.
    purpose
        The part of the package that needs the module. The error message begins with this text.

    Raises
    ------
    ModuleNotFoundError
        If the dependency is not installed.

    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise ModuleNotFoundError(
            f"{purpose} needs {package}, which is not installed: "
            f"pip install 'river-mondrian[{extra}]'",
            name=package,
        ) from None


# Largest count in a stored model. Counts in real models are far smaller, and sums of counts within
# this bound fit into 64 bits.
LARGEST_SIZE = 1 << 40

# Bounds of numbers that are finite and above 0.
LEAST_POSITIVE, LARGEST_FINITE = math.ulp(0.0), sys.float_info.max


# NumPy types that are accepted in place of Python types.
_OF_NUMPY: dict[Any, Any] = {bool: np.bool_, int: np.integer, float: np.floating}


def refuse(owner: object, what: str, value: Any, why: str) -> None:
    """Raise the error for a damaged stored object.

    Raises
    ------
    ModelFormatError
        Always. The message names the object, the wrong part, its value and the reason.

    """
    name = owner if isinstance(owner, str) else type(owner).__name__
    shown = repr(value)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    raise ModelFormatError(f"{name} is damaged: {what} is {shown}, {why}")


def check_types(owner: object, kinds: Mapping[str, Any]) -> None:
    """Raise an error if an attribute of a stored object is missing or has the wrong type.

    A truth value is accepted only if `bool` is an allowed type. NumPy numbers are accepted in place
    of Python numbers.

    Parameters
    ----------
    owner
        The object.
    kinds
        Types by attribute name; a tuple allows several types.

    """
    for name, kind in kinds.items():
        if name not in owner.__dict__:
            refuse(owner, name, None, "because it is missing")
        value = owner.__dict__[name]
        named = kind if isinstance(kind, tuple) else (kind,)
        allowed: tuple[Any, ...] = (*named, *(_OF_NUMPY[cls] for cls in named if cls in _OF_NUMPY))
        is_flag = isinstance(value, bool) and bool not in allowed
        if is_flag or not isinstance(value, allowed):
            names = " or ".join(cls.__name__ for cls in named)
            refuse(owner, name, value, f"but its type should be {names}")


def check_plain(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array after checking that its type is a plain type of NumPy, without objects."""
    dtype = array.dtype
    if dtype.hasobject or dtype.flags != np.dtype(dtype.str).flags:
        refuse("an array", "its type", dtype, "but numbers are not stored in this type")
    return array


def check_number(owner: object, what: str, value: Any, least: float, most: float) -> None:
    """Raise an error if a number is NaN or out of bounds."""
    if not least <= value <= most:
        refuse(owner, what, value, f"but it should be from {least} to {most}")


def check_equal(owner: object, record: Any, **expected: int) -> None:
    """Raise an error unless the fields of a stored record have the expected values."""
    for name, value in expected.items():
        check_number(owner, name, getattr(record, name), value, value)


def check_array(
    owner: object, what: str, array: NDArray[Any], dtype: Any, least: float, most: float
) -> None:
    """Raise an error if an array's type is not `dtype`, or a number is NaN or out of bounds."""
    check_dtype(owner, what, array, dtype)
    if array.size == 0:
        return
    low, high = array.min(), array.max()
    if least <= low and high <= most:
        return
    flat = array.reshape(-1)
    bad = int(np.flatnonzero(~((flat >= least) & (flat <= most)))[0])
    index = ", ".join(str(int(i)) for i in np.unravel_index(bad, array.shape))
    refuse(owner, f"{what}[{index}]", flat[bad].item(), f"not from {least} to {most}")


def check_dtype(owner: object, what: str, array: Any, dtype: Any) -> None:
    """Raise an error unless an object is an array of type `dtype`."""
    if not isinstance(array, np.ndarray) or array.dtype != np.dtype(dtype):
        actual = getattr(array, "dtype", type(array).__name__)
        refuse(owner, what, str(actual), f"but its type should be {np.dtype(dtype)}")


def check_arrays(
    owner: object, arrays: Mapping[str, tuple[Any, ...]], held: Mapping[str, Any] | None = None
) -> None:
    """Raise an error if a stored array has the wrong type or shape, or a number out of bounds.

    Parameters
    ----------
    owner
        The object.
    arrays
        Tuples (type, shape) or (type, shape, least number, largest number), by attribute name.
    held
        The arrays by name; None for the object's attributes.

    """
    for name, (dtype, shape, *bounds) in arrays.items():
        array: Any = (owner.__dict__ if held is None else held).get(name)
        check_dtype(owner, name, array, dtype)
        if array.shape != shape:
            refuse(owner, f"the shape of {name}", array.shape, f"but it should be {shape}")
        if bounds:
            check_array(owner, name, array, dtype, *bounds)


def check_starts(owner: object, what: str, starts: NDArray[Any], end: int) -> None:
    """Raise an error unless a sparse matrix's row starts go from 0 to `end` and never decrease."""
    check_array(owner, what, starts, np.int64, 0, end)
    if starts.ndim != 1 or len(starts) == 0 or starts[0] != 0 or starts[-1] != end:
        refuse(owner, what, starts, f"but it should go from 0 to {end}")
    falls = np.flatnonzero(starts[1:] < starts[:-1])
    if len(falls):
        i = int(falls[0]) + 1
        refuse(owner, f"{what}[{i}]", int(starts[i]), f"after {int(starts[i - 1])}")


def check_ascending_rows(
    owner: object, what: str, indices: NDArray[Any], starts: NDArray[np.int64]
) -> None:
    """Raise an error unless column indices ascend within each row; `starts` must be valid."""
    if len(indices) < 2:
        return
    rises = indices[1:] > indices[:-1]
    # Indices need not ascend from one row to the next, so the first index of each row is accepted.
    begins = starts[(starts > 0) & (starts < len(indices))]
    rises[begins - 1] = True
    if not rises.all():
        i = int(np.flatnonzero(~rises)[0]) + 1
        refuse(owner, f"{what}[{i}]", int(indices[i]), f"after {int(indices[i - 1])}")


def check_numbering(owner: object, what: str, numbers: Any) -> None:
    """Raise an error unless an object is a dict that maps its keys, in order, to 0, 1, 2, ..."""
    if type(numbers) is not dict:
        refuse(owner, what, numbers, "but its type should be dict")
    for i, (key, number) in enumerate(numbers.items()):
        if type(number) is not int or number != i:
            refuse(owner, f"{what}[{key!r}]", number, f"but it should be {i}")
