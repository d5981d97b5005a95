"""What an interrupted call leaves, by which the next one undoes or completes it.

A change is prepared behind a `Snapshot`: what a model has is replaced by assignment, or extended
past the counts in use, and never written over. If the call ends there, the next one goes back. What
cannot be undone comes last, as steps (`Steps`) that a model is told of by the assignment that ends
the preparation. From there on the next call completes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from .records import Memory

# The attribute of a model that holds what an interrupted call has left.
PENDING = "_pending"


class Pending(Protocol):
    """What an interrupted call has left."""

    def settle(self) -> None:
        """Undo or complete it; where this is interrupted, it begins again."""


class Snapshot:
    """What objects were: their attributes, and the bytes of the records that they own.

    A class whose objects are read for each sample names the attributes that change (`SAVED`): once
    an object's `__dict__` has been asked for, reading its attributes takes longer. One that can
    `begin_change` knows by itself what it was.

    Parameters
    ----------
    parts
        The objects.

    """

    __slots__ = ("_memories", "_parts", "_trees")

    def __init__(self, parts: Iterable[Any]) -> None:
        parts = list(parts)
        self._trees = [part for part in parts if hasattr(type(part), "begin_change")]
        others = (part for part in parts if not hasattr(type(part), "begin_change"))
        self._parts = [(part, _attributes_of(part)) for part in others]
        self._memories = []
        for _, attributes in self._parts:
            for value in attributes.values():
                if type(value) is Memory:
                    value.settle()
                    self._memories.append((value, value.bytes.copy(), value.arrays.copy()))

    def settle(self) -> None:
        """Make the objects what they were."""
        for part, attributes in self._parts:
            if hasattr(type(part), "SAVED"):
                for name, value in attributes.items():
                    setattr(part, name, value)
                continue
            now = part.__dict__
            for name in [name for name in now if name not in attributes and name != PENDING]:
                del now[name]
            attributes.pop(PENDING, None)
            now.update(attributes)
        for trees in self._trees:
            trees.settle()
        for memory, content, arrays in self._memories:
            memory.bytes[:] = content
            memory.arrays, memory._owning = arrays.copy(), None


def _attributes_of(part: Any) -> dict[str, Any]:
    names = getattr(type(part), "SAVED", None)
    if names is None:
        found: dict[str, Any] = part.__dict__.copy()
        return found
    return {name: getattr(part, name) for name in names}


class Steps:
    """Steps that are left to do, each of which does nothing where it has been done.

    Parameters
    ----------
    steps
        The steps in their order.

    """

    __slots__ = ("_steps",)

    def __init__(self, steps: Iterable[Callable[[], object]]) -> None:
        self._steps = list(steps)

    def settle(self) -> None:
        """Do what is left."""
        for step in self._steps:
            step()
