"""Objects of other packages in files: River objects, distributions, random number generators.

Objects are stored by the names and values that define them. For a River object, these are its
class, the arguments of `__new__`, and its state, as `__reduce_ex__` returns them. Names in a
file import only classes of this package and of River.
"""

import copy
import copyreg
import functools
import importlib
import random
from collections import defaultdict
from typing import Any

import numpy as np
from river import base

# Prefix of the names of River's modules.
_RIVER = "river."
_GENERATORS = ("PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937")


def is_river(value: Any) -> bool:
    """Return whether an object's class is a class of River."""
    return type(value).__module__.startswith(_RIVER)


def parts_of(value: Any) -> tuple[str, tuple[Any, ...], Any]:
    """Return the name of a River object's class, the arguments of `__new__`, and its state.

    Raises
    ------
    TypeError
        If the object does not report its class, arguments or state.

    """
    cls = type(value)
    how = value.__reduce_ex__(4)
    make = getattr(copyreg, "__newobj__")  # noqa: B009
    if not isinstance(how, tuple) or how[0] is not make or any(how[3:]):
        raise TypeError(f"{cls.__qualname__} does not report its state")
    created, *arguments = how[1]
    name = f"{cls.__module__}:{cls.__qualname__}"
    if created is not cls or river_class(name) is not cls:
        raise TypeError(f"{cls.__qualname__} is not found by its name")
    return name, tuple(arguments), how[2] if len(how) > 2 else None


def river_class(name: str) -> type[Any]:
    """Return a class of River by its name.

    Raises
    ------
    ValueError
        If River has no such class.

    """
    home, _, inner = name.partition(":")
    if not home.startswith(_RIVER) or not all(map(str.isidentifier, home.split("."))):
        raise ValueError(f"{name!r} is not a class of River")
    try:
        value = functools.reduce(getattr, inner.split("."), importlib.import_module(home))
    except (ImportError, AttributeError) as error:
        raise ValueError(f"this version of River has no {name!r}") from error
    if not isinstance(value, type) or not value.__module__.startswith(_RIVER):
        raise ValueError(f"{name!r} is not a class of River")
    return value


# Types and functions of Python that may be the `default_factory` of a defaultdict.
_MAKERS = (bool, dict, float, int, list, set, str, tuple, defaultdict, copy.deepcopy)
_FACTORIES: dict[str, Any] = {make.__name__: make for make in _MAKERS}


def name_of_factory(make: Any) -> str | None:
    """Return the name by which `factory` finds a type or function, or None without such a name."""
    name = getattr(make, "__name__", "")
    if _FACTORIES.get(name) is make:
        return str(name)
    name = f"{getattr(make, '__module__', '')}:{getattr(make, '__qualname__', '')}"
    try:
        return name if factory(name) is make else None
    except ValueError:
        return None


def factory(name: str) -> Any:
    """Return the type or function that a name denotes, such as a defaultdict's `default_factory`.

    Raises
    ------
    ValueError
        If the name is neither in `_FACTORIES` nor the name of a subclass of River's `base.Base`.

    """
    if name in _FACTORIES:
        return _FACTORIES[name]
    cls = river_class(name)
    if not issubclass(cls, base.Base):
        raise ValueError(f"{name!r} is not an estimator of River")
    return cls


def put_state(value: Any, state: Any) -> None:
    """Set the state of a River object."""
    set_state = getattr(value, "__setstate__", None)
    if set_state is not None:
        set_state(state)
    elif state is not None:
        attributes, slots = state if isinstance(state, tuple) else (state, None)
        value.__dict__.update(attributes or {})
        for name, slot in (slots or {}).items():
            setattr(value, name, slot)


def parts_of_distribution(value: Any) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """Return the name and the parameters of a frozen distribution of `scipy.stats`.

    Raises
    ------
    TypeError
        If the distribution is not defined by `scipy.stats`.

    """
    from scipy import stats

    distribution = getattr(value, "dist", None)
    name = str(getattr(distribution, "name", ""))
    if distribution is None or type(getattr(stats, name, None)) is not type(distribution):
        raise TypeError(f"{value!r} is not a distribution of scipy.stats")
    return name, value.args, value.kwds


def distribution(name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Return a frozen distribution of `scipy.stats`.

    Raises
    ------
    ValueError
        If `scipy.stats` has no distribution of this name.

    """
    from scipy import stats

    family = getattr(stats, name, None)
    if not isinstance(family, (stats.rv_continuous, stats.rv_discrete)):
        raise ValueError(f"scipy.stats has no distribution {name!r}")
    return family(*arguments, **named)


def generator(state: Any) -> Any:
    """Return a random number generator that continues from a state.

    Raises
    ------
    ValueError
        If the state is of a generator that is not in `_GENERATORS`.

    """
    if isinstance(state, tuple):
        python = random.Random()
        python.setstate(state)
        return python
    name = state["bit_generator"]
    if name not in _GENERATORS:
        raise ValueError(f"NumPy has no generator {name!r}")
    bits = getattr(np.random, name)()
    bits.state = state
    return np.random.Generator(bits)
