"""The base class of models, which threads may share and whose copies are independent."""

from __future__ import annotations

import copy
import copyreg
import functools
import inspect
import os
import pickle
import sys
import threading
import weakref
import zlib
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np

from .arguments import check_arguments, is_distribution
from .checks import ModelFormatError, refuse
from .compiling.first_calls import WATCH
from .records import Memory

# The next call undoes or completes an interrupted call. A change begins with a `Snapshot`. The
# preparation of the change overwrites no data in use: it assigns new objects to attributes, or
# writes to unused elements at the end of arrays. So if the preparation is interrupted, the next
# call can restore the snapshot. Changes that cannot be undone come last, as `Steps`. Once the steps
# are assigned, the next call completes an interrupted change.


# Name of the attribute with the snapshot or the steps of an interrupted call.
PENDING = "_pending"


class Snapshot:
    """State of objects before a change: their attributes, and the bytes of their records.

    The attribute `_IN_SNAPSHOT` of a class may list the attributes that change. Classes whose
    attributes are read for each sample need the list, because accessing an object's `__dict__`
    slows down later reads of its attributes. An object with `begin_change` saves its state itself.

    Parameters
    ----------
    objects
        The objects.

    """

    __slots__ = ("_memories", "_objects", "_trees")

    def __init__(self, objects: Iterable[Any]) -> None:
        objects = list(objects)
        self._trees = [owner for owner in objects if hasattr(type(owner), "begin_change")]
        others = (owner for owner in objects if not hasattr(type(owner), "begin_change"))
        self._objects = [(owner, _attributes_of(owner)) for owner in others]
        self._memories = []
        for _, attributes in self._objects:
            for value in attributes.values():
                if type(value) is Memory:
                    value.settle()
                    self._memories.append((value, value.bytes.copy(), value.arrays.copy()))

    def settle(self) -> None:
        """Restore the state of all objects."""
        for owner, attributes in self._objects:
            if hasattr(type(owner), "_IN_SNAPSHOT"):
                for name, value in attributes.items():
                    setattr(owner, name, value)
                continue
            now = owner.__dict__
            for name in [name for name in now if name not in attributes and name != PENDING]:
                del now[name]
            attributes.pop(PENDING, None)
            now.update(attributes)
        for trees in self._trees:
            trees.settle()
        for memory, content, arrays in self._memories:
            memory.bytes[:] = content
            memory.arrays, memory._owning = arrays.copy(), None


def _attributes_of(owner: Any) -> dict[str, Any]:
    names = getattr(type(owner), "_IN_SNAPSHOT", None)
    if names is None:
        return owner.__dict__.copy()
    return {name: getattr(owner, name) for name in names}


class Steps:
    """The last steps of a change. Running a completed step again must have no effect.

    Parameters
    ----------
    steps
        The steps in their order.

    """

    __slots__ = ("_steps",)

    def __init__(self, steps: Iterable[Callable[[], object]]) -> None:
        self._steps = list(steps)

    def settle(self) -> None:
        """Run all steps, including steps that were completed before an interruption."""
        for step in self._steps:
            step()


C = TypeVar("C", bound=Callable[..., Any])

# Python has no public name for the type of reentrant locks, so a lock is created to get the type.
_ReentrantLock: Any = type(threading.RLock())


class ModelLock(_ReentrantLock):  # type: ignore[misc]
    """A reentrant lock. Pickles and copies of a model get a new lock.

    The lock is reentrant because a mapping that a model reads may call the model.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return new_lock, ()

    def __deepcopy__(self, memo: dict[int, Any]) -> ModelLock:
        return new_lock()


# Key of a deep copy's memo, which marks a copy for a pickle. Other keys are ids of objects, so this
# text cannot collide.
_SNAPSHOT: Any = "snapshot"

_LOCKS: weakref.WeakSet[ModelLock] = weakref.WeakSet()


def new_lock() -> ModelLock:
    """Return a lock for a model."""
    lock = ModelLock()
    _LOCKS.add(lock)
    return lock


def _release_all() -> None:
    """Release all locks after a fork, which does not copy the threads that held locks."""
    for lock in list(_LOCKS):
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_all)


class ClonesWhole:
    """Base class of estimators, with `memory_usage` and a `clone` that may copy the state."""

    @property
    def memory_usage(self) -> int:
        """Memory of the model in bytes."""
        return self._raw_memory_usage  # type: ignore[attr-defined]

    def clone(
        self, new_params: dict[str, Any] | None = None, include_attributes: bool = False
    ) -> Self:
        """Return a fresh estimator with the same parameters; see `river.base.Base.clone`."""
        fresh: Self = super().clone(new_params)  # type: ignore[misc]
        lifetime = {**vars(self), **(new_params or {})}.get("lifetime")
        if is_distribution(lifetime):
            # The distribution is not copied, because a deep copy would have another `repr`.
            vars(fresh)["lifetime"] = lifetime
        if not include_attributes:
            return fresh
        # All attributes are copied at once, because several attributes may refer to one object.
        copied = copy.deepcopy(self)
        for name in new_params or {}:
            setattr(copied, name, getattr(fresh, name))
        return copied


def _unsealed(cls: type[Any], content: bytes, checksum: int) -> Any:
    """Return a pickled model after checking the checksum."""
    if zlib.crc32(content) != checksum:
        raise ModelFormatError(f"a pickled {cls.__name__} is damaged: its checksum differs")
    model = object.__new__(cls)
    model.__setstate__(pickle.loads(content))
    return model


def _parameters(cls: type[Any]) -> tuple[list[str], bool]:
    """Return a constructor's parameter names, and whether it takes `*args` without `**kwargs`.

    `*args` and `**kwargs` stand for the parameters of the parent class.
    """
    names: dict[str, None] = {}
    rests, ends = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD), []
    for init in (vars(base)["__init__"] for base in cls.__mro__ if "__init__" in vars(base)):
        _, *parameters = inspect.signature(init).parameters.values()
        names |= dict.fromkeys(p.name for p in parameters if p.kind not in rests)
        ends.append([p.kind for p in parameters if p.kind in rests])
        if not ends[-1]:
            break
    return list(names), ends[0] == [inspect.Parameter.VAR_POSITIONAL]


class Model(ClonesWhole):
    """A model that threads may share, and whose copies are independent models.

    Kernels write to a model's memory, so two models must never share memory. Most subclasses are
    dataclasses whose fields are the parameters. Most public methods hold `_lock` while they run
    (`label_forest.Prepared` explains an exception). The fastest methods for one sample use `with
    self._lock`; most other methods are decorated with `locked`.
    """

    # Attributes that are neither copied nor stored, because they can be recomputed.
    _TRANSIENT: ClassVar[frozenset[str]] = frozenset()
    # Attributes that become None when they are no longer needed, so a stored None is valid.
    _ENDS: ClassVar[frozenset[str]] = frozenset({"_pool"})
    # Arguments of the model that `warmup` creates. The model has few trees, but calls all kernels.
    _REHEARSED: ClassVar[Mapping[str, Any]] = {}
    _lock: ModelLock
    # Whether this model is a copy made for a pickle, so that it need not be copied again.
    _is_snapshot = False
    # The snapshot or the steps of an interrupted call.
    _pending: Any = None

    def __post_init__(self) -> None:
        check_arguments(self)
        self._lock = new_lock()
        self._renew()

    @classmethod
    def warmup(cls, progress: bool = True, **arguments: Any) -> None:
        """Compile or load the kernels of learning and predicting before the first sample.

        `warmup` makes a model learn about 500 single samples and an array of samples, and predict.
        `warmup` also pickles and loads the model. Other kernels are compiled at their first use,
        for example for weights other than 1, `forget_one`, categories (strings and truth values),
        text, `explain_one`, `feature_importances`, pictures and `gram`.

        Numba compiles in one thread at a time. To compile several classes in several processes, use
        `python -m river_mondrian warmup --jobs N`.

        Parameters
        ----------
        progress
            Whether to show on stderr which function is compiled, and how many functions have been
            compiled. Nothing is shown if all code has been compiled before.
        **arguments
            Arguments of the model that determine which kernels are compiled, such as `features` of
            a learner, `directions`, `window`, or `posterior`. By default, the class's defaults are
            used.

        """
        # Imported here because `rehearsal` imports River, which this module does not need.
        from .rehearsal import rehearse

        with WATCH.expected(progress):
            rehearse(lambda: cls(**{**cls._REHEARSED, **arguments}))

    def _enter(self) -> None:
        """Begin a public method that holds the lock."""
        self._settle()

    def _settle(self) -> None:
        """Complete or undo an interrupted call."""
        if self._pending is not None:
            self._pending.settle()
            self._pending = None

    def _run_steps(self, steps: Iterable[Callable[[], object]]) -> None:
        """Run the last steps of a change; see `Steps`."""
        # After this assignment, an interrupted call is completed instead of undone.
        self._pending = Steps(steps)
        self._settle()

    def _leave(self) -> None:
        """End a public method that holds the lock."""

    @property
    def _is_inside(self) -> bool:
        """Whether this thread holds the lock, as in a call within another call of the model."""
        return self._lock._is_owned()

    @property
    def _raw_memory_usage(self) -> int:
        size = sys.getsizeof(self) + sys.getsizeof(self.__dict__)
        return size + sum(getattr(value, "nbytes", 0) for value in self.__dict__.values())

    def _renew(self) -> None:
        """Set the attributes that are not pickled."""
        self._pending = None

    def _state(self) -> dict[str, Any]:
        left_out = self._TRANSIENT | {"_is_snapshot", PENDING}
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def _arguments(self) -> dict[str, Any]:
        """Return the constructor's arguments, from the attributes of the same names."""
        return {name: self.__dict__[name] for name in _parameters(type(self))[0]}

    def _get_params(self) -> dict[str, Any]:
        """Return all parameters for `clone`. River would omit a parent class's parameters."""
        arguments = self._arguments()
        if _parameters(type(self))[1]:
            return {"_POSITIONAL_ARGS": tuple(arguments.values())}
        return {
            name: (type(value), value._get_params()) if hasattr(value, "_get_params") else value
            for name, value in arguments.items()
        }

    def __repr__(self) -> str:
        # River's `__repr__` is not used, because it fails if a subclass gives `*args` and
        # `**kwargs` other names, as in `*a, **k`.
        shown = ""
        for name, value in self._arguments().items():
            text = f'"{value}"' if isinstance(value, str) else repr(value)
            if isinstance(value, FunctionType):
                text = value.__name__
            shown += f"\n{name}={text}".replace("\n", "\n  ")
        return f"{type(self).__name__} ({shown}\n)" if shown else f"{type(self).__name__} ()"

    def _made_anew(self) -> Self:
        """Return a new model with the same argument objects."""
        arguments, (_, is_positional) = self._arguments(), _parameters(type(self))
        return type(self)(*arguments.values()) if is_positional else type(self)(**arguments)

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        with self._lock:
            self._enter()
            # Attributes are set one by one, because after an update of `__dict__`, reading
            # attributes would take longer.
            for name, value in copy.deepcopy(self._state(), memo).items():
                setattr(copied, name, value)
            self._leave()
        copied._renew()
        if _SNAPSHOT in memo:
            copied._is_snapshot = True
        return copied

    def __getstate__(self) -> dict[str, Any]:
        if self._is_snapshot:
            return self._state()
        # A copy is pickled, because other threads may learn before the pickle is complete. Inner
        # models are parts of the copy. Arguments are not copied, because arguments belong to the
        # caller, and some cannot be copied.
        memo = {_SNAPSHOT: True} | {id(value): value for value in self._arguments().values()}
        with self._lock:
            self._enter()
            state = copy.deepcopy(self._state(), memo)
            self._leave()
        return state

    def __reduce_ex__(self, protocol: Any) -> Any:
        state = self.__getstate__()
        if not self._is_snapshot:
            try:
                content = pickle.dumps(state, protocol)
            except (AttributeError, TypeError, pickle.PicklingError):
                # Other picklers, such as cloudpickle, accept more types, so the state is returned
                # to the pickler. Such pickles have no checksum.
                pass
            else:
                return _unsealed, (type(self), content, zlib.crc32(content))
        return copyreg.__newobj__, (type(self),), state  # type: ignore[attr-defined]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Files contain no locks, so a restored model gets a new lock.
        if not isinstance(self.__dict__.get("_lock"), ModelLock):
            self._lock = new_lock()
        self._renew()
        self._check_attributes()

    def _check_attributes(self) -> None:
        """Compare a stored model's attributes with those of a new model with the same arguments.

        Raises
        ------
        ModelFormatError
            If the class rejects the arguments, or an attribute is missing or of another type.

        """
        try:
            fresh = self._made_anew()
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ModelFormatError(f"{type(self).__name__} is damaged: {error!r}") from error
        except RuntimeError:
            # The model needs a device that this machine lacks, so there is no new model to compare
            # with.
            return
        arguments = self._arguments()
        for name, value in fresh.__dict__.items():
            # An attribute that is None in a new model may have any type later, so subclasses check
            # such attributes.
            if name not in self.__dict__ or (
                value is not None
                and type(self.__dict__[name]) is not type(value)
                and name not in arguments
                and not (name in self._ENDS and self.__dict__[name] is None)
            ):
                refuse(self, name, self.__dict__.get(name), f"but a new model has {value!r}")


def locked(method: C) -> C:
    """Return a method that holds the model's lock, and ignores the program's `numpy.seterr`."""

    @functools.wraps(method)
    def call(self: Model, *args: Any, **kwargs: Any) -> Any:
        if self._is_inside:
            return method(self, *args, **kwargs)
        with self._lock, np.errstate(all="ignore"):
            self._enter()
            result = method(self, *args, **kwargs)
            self._leave()
        return result

    return cast("C", call)
