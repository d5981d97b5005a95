"""Check that all public names have complete docstrings, according to numpydoc."""

import functools
import inspect
import sys
from collections.abc import Iterator
from typing import Any

from numpydoc.validate import validate

import river_mondrian
import river_mondrian.distributed
import river_mondrian.plot

# No docstring (GL08), no summary (SS01), no section for the returned value (RT01). Parameters that
# are missing (PR01), unknown (PR02), in another order (PR03) or without a description (PR07).
RULES = {"GL08", "SS01", "PR01", "PR02", "PR03", "PR07", "RT01"}
# Methods that River documents.
RIVERS = {"clone"}
KWARGS = "Parameters {'**kwargs'} not documented"
# numpydoc does not find the arguments of `__init__` if a class has `__new__`.
MADE_BY_NEW = {
    "river_mondrian.Alarm",
    "river_mondrian.Calibrated",
    "river_mondrian.Drift",
    "river_mondrian.distributed.KeyedModels",
    "river_mondrian.distributed.ShardedForest",
}


def paths() -> Iterator[str]:
    """Yield the paths of public functions and classes, and of members of these classes."""
    for package in (river_mondrian, river_mondrian.distributed, river_mondrian.plot):
        for name in package.__all__:
            found = getattr(package, name)
            yield f"{package.__name__}.{name}"
            if isinstance(found, type):
                yield from members(found)


def members(kind: type) -> Iterator[str]:
    """Yield the paths of a class's public methods and properties that this package defines."""
    for name in dir(kind):
        owner = next(one for one in kind.__mro__ if name in vars(one) or one is object)
        found: Any = inspect.getattr_static(kind, name)
        is_code = callable(found) or isinstance(
            found, (property, functools.cached_property, classmethod, staticmethod)
        )
        is_ours = owner.__module__.startswith("river_mondrian.") and not name.startswith("_")
        if is_code and is_ours and name not in RIVERS:
            yield f"{owner.__module__}.{owner.__qualname__}.{name}"


def main() -> int:
    """Print the errors, and return their number."""
    n = 0
    for path in sorted(set(paths())):
        for code, text in validate(path)["errors"]:
            behind_new = path in MADE_BY_NEW and code in ("PR01", "PR02")
            if code in RULES and text != KWARGS and not behind_new:
                print(f"{path}: {code} {text}")
                n += 1
    return n


if __name__ == "__main__":
    sys.exit(min(main(), 1))
