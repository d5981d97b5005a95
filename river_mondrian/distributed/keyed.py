"""One model for each key, such as a user, device or sensor of a stream."""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from river import base

from ..arguments import check_arguments, check_integer, check_takes, plain_key, told
from ..estimators import calibrated, classifier, density, regressor
from ..files.classes import name_of
from ..inputs import as_dict
from ..model import ClonesWhole, new_lock
from .model_store import ModelStore, digest_of

# A call that may be repeated fails if its worker dies MOST_DEATHS times, or is unavailable for
# LONGEST_START seconds.
MOST_DEATHS, LONGEST_START = 3, 60.0
# Seconds before a call is repeated while its worker starts.
PAUSE = 0.1


@dataclass(eq=False, repr=False)
class _Arguments:
    """Arguments of `KeyedModels`."""

    # `KeyedModels` has no `__init__`, because type checkers would then ignore its `__new__`.
    key: str | Callable[[Mapping[Any, Any]], Hashable]
    model: Any
    max_bytes: int | None = None
    folder: str | None = None
    trusted: bool = False
    n_ready: int = 1000

    def __post_init__(self) -> None:
        check_arguments(self)


class KeyedModels(_Arguments, ClonesWhole, base.Wrapper[Any], base.Estimator):
    """Models by key: each key of a stream has its own model, cloned from a prototype.

    A model is created when the first sample with its key is learned. If the prototype is
    `Calibrated`, a prediction also creates the model, because the model stores its predictions.

    The object is a classifier, a regressor or an anomaly detector, like the prototype. The most
    recently used models are Python objects, called ready. Other models are packed (pickled and
    compressed) in memory, or moved to a folder if the models exceed `max_bytes`. A model is loaded
    again when its key returns.

    Parameters
    ----------
    key
        Name of the feature with the key, or a function that returns a sample's key. The models do
        not get the feature with the key. A key is a string, an integer, or a tuple of strings and
        integers.
    model
        The prototype, a model or a pipeline, which is cloned for each key.
    max_bytes
        Limit on the size of all models in memory, in bytes. Sizes are measured at intervals, and
        the model used last always stays in memory, so the limit may be exceeded. A limit requires a
        folder. The default None sets no limit.
    folder
        Folder for models that exceed `max_bytes`. Models that are already in the folder are used,
        so a stream can be continued after `flush`. Stored models must have the prototype's classes,
        but keep their own parameters. The default is None, no folder.
    trusted
        Whether only you can write to the folder. If True, models are pickled, as pipelines require.
        Loading a pickle executes code from the file. If False, the default, models are saved by
        `save`.
    n_ready
        Largest number of ready models, 1,000 by default. A good choice is the number of keys that
        are active at the same time: all keys, if keys come in random order. A forest of 10 trees
        with 20 samples counts as a hundredth to a quarter of its ready size when it is packed.
        Packing and unpacking this forest together take about 10 to 30 milliseconds. With more
        samples, the share and the time are larger.

    Notes
    -----
    `save` does not accept this class: `flush` saves the models to the folder. A pickle contains all
    models that are in memory. Several threads may use one object: their calls run one after
    another.

    Examples
    --------

    >>> from river_mondrian import MondrianForestClassifier
    >>> from river_mondrian.distributed import KeyedModels

    >>> model = KeyedModels("user", MondrianForestClassifier(5, seed=42))
    >>> for user, likes in (("ann", True), ("bob", False)):
    ...     model.learn_one({"user": user, "length": 3.0}, likes)
    >>> model.predict_one({"user": "ann", "length": 3.0})
    True
    >>> model.predict_one({"user": "bob", "length": 3.0})
    False
    >>> len(model)
    2

    """

    def __post_init__(self) -> None:
        super().__post_init__()
        key, model, folder = self.key, self.model, self.folder
        if not isinstance(key, str) and not callable(key):
            raise ValueError(f"key must be the name of a feature or a function, got {key!r}")
        if callable(key):
            check_takes("key", key, "x")
        kinds = base.Classifier | base.Regressor | base.AnomalyDetector
        if not isinstance(calibrated.final_of(model), kinds):
            raise TypeError(f"model must be a classifier, regressor or detector, got {told(model)}")
        if self.max_bytes is not None and folder is None:
            raise ValueError("max_bytes needs a folder for models without room, got None")
        if folder is not None and not self.trusted and name_of(type(model)) is None:
            raise ValueError(
                f"{type(model).__name__} is stored by pickle, which executes code from "
                "the file: if only you can write to the folder, pass trusted=True"
            )
        self._lock = new_lock()
        self._store = ModelStore(model, self.n_ready, self.max_bytes, folder, self.trusted)
        # This model predicts for keys without a model, so that predictions create no models.
        self._blank = model.clone()
        # Whether predictions change a model, because a `Calibrated` model stores its predictions.
        self._stores = isinstance(calibrated.final_of(model), calibrated.Calibrated)

    @overload
    def __new__(cls, key: Any, model: base.Classifier, *_: Any, **__: Any) -> KeyedClassifier: ...
    @overload
    def __new__(cls, key: Any, model: base.Regressor, *_: Any, **__: Any) -> KeyedRegressor: ...
    @overload
    def __new__(
        cls, key: Any, model: base.AnomalyDetector, *_: Any, **__: Any
    ) -> KeyedDetector: ...
    @overload
    def __new__(cls, key: Any = ..., model: Any = ..., *_: Any, **__: Any) -> _KeyedPipelines: ...
    def __new__(cls, key: Any = None, model: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Return a classifier, a regressor or a detector, like the prototype."""
        if cls is KeyedModels:
            names = [field.name for field in dataclasses.fields(cls)]
            unknown = [name for name in kwargs if name not in names]
            if unknown:
                text = f"KeyedModels has the arguments {', '.join(names)}, got {unknown[0]}"
                raise TypeError(text)
            cls = KeyedDetector
            if isinstance(calibrated.final_of(model), base.Classifier):
                cls = KeyedClassifier
            elif isinstance(calibrated.final_of(model), base.Regressor):
                cls = KeyedRegressor
        return super().__new__(cls)

    @property
    def _wrapped_model(self) -> Any:
        return self.model

    @property
    def _multiclass(self) -> bool:
        return bool(getattr(self.model, "_multiclass", True))

    def __len__(self) -> int:
        """Return the number of models in memory."""
        return len(self._store)

    def __bool__(self) -> bool:
        """Return True, even if there are no models in memory."""
        return True

    @property
    def counts(self) -> dict[str, int]:
        """Number of models in memory by state: "ready" or "packed"."""
        return self._store.counts

    @property
    def _raw_memory_usage(self) -> int:
        return self._store.nbytes

    def key_of(self, x: Mapping[Any, Any]) -> Any:
        """Return the key of a sample.

        Parameters
        ----------
        x
            A mapping with the feature `key`, or the argument of the function `key`.

        Returns
        -------
        The key.

        Raises
        ------
        ValueError
            If the feature with the key is missing.
        TypeError
            If the key is not a string, an integer, or a tuple of strings and integers.

        """
        if callable(self.key):
            key = self.key(x)
        else:
            x = as_dict(x)
            if self.key not in x:
                raise ValueError(f"feature {self.key!r} is the key, but the sample lacks it")
            key = x[self.key]
        return plain_key(key, "a key")

    def _without_key(self, x: Mapping[Any, Any]) -> Mapping[Any, Any]:
        if callable(self.key):
            return x
        # `copy.copy` keeps the type of a frame's row, which also stores which columns are
        # categories.
        rest = copy.copy(as_dict(x))
        rest.pop(self.key, None)
        return rest

    def get(self, key: Hashable) -> Any:
        """Return the model of a key.

        Parameters
        ----------
        key
            The key.

        Returns
        -------
        The model itself, unpacked or loaded if necessary; None if the key has no model.

        """
        with self._lock:
            return self._store.get(key)

    def learn_one(self, x: Mapping[Any, Any], *target: Any, **options: Any) -> None:
        """Make the model of a sample's key learn the sample.

        Parameters
        ----------
        x
            A mapping with the feature `key`, or the argument of the function `key`.
        *target
            The label or target, if the prototype is supervised.
        **options
            Other arguments of the prototype's `learn_one`, such as a weight.

        """
        self._call("learn_one", True, x, *target, **options)

    def _ask(self, name: str, x: Mapping[Any, Any], *args: Any, **options: Any) -> Any:
        return self._call(name, self._stores, x, *args, **options)

    def _call(self, name: str, changes: bool, x: Any, /, *args: Any, **rest: Any) -> Any:
        """Call a method of a sample's model; `changes` is whether the call changes the model."""
        key, sample = self.key_of(x), self._without_key(x)
        with self._lock:
            known = self._store.get(key)
            model = known
            if known is None:
                model = self.model.clone() if changes else self._blank
            answer = getattr(model, name)(sample, *args, **rest)
            # A new model is stored after the call, so that a failed call adds no model.
            if changes and known is None:
                self._store.put(key, model)
            elif changes:
                self._store.changed(key)
            return answer

    def flush(self) -> int:
        """Save all models that have changed since they were saved.

        Returns
        -------
        Number of saved models.

        Raises
        ------
        ValueError
            If there is no folder.

        """
        with self._lock:
            if self.folder is None:
                raise ValueError("flush needs a folder, got None")
            return self._store.flush()


class KeyedClassifier(KeyedModels, base.Classifier):
    """`KeyedModels` whose prototype is a classifier."""

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"key": "key", "model": classifier.MondrianForestClassifier(2, seed=1)}

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Predict the probability of each label with the model of the sample's key."""
        return self._ask("predict_proba_one", x, **kwargs)

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """Predict the label with the model of the sample's key."""
        return self._ask("predict_one", x, **kwargs)

    def predict_set_one(self, x: Mapping[Any, Any], *args: Any, **kwargs: Any) -> set[Hashable]:
        """Return a set of classes from the sample's model; see `Calibrated.predict_set_one`."""
        return self._ask("predict_set_one", x, *args, **kwargs)


class KeyedRegressor(KeyedModels, base.Regressor):
    """`KeyedModels` whose prototype is a regressor."""

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"key": "key", "model": regressor.MondrianForestRegressor(2, seed=1)}

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """Predict the target with the model of the sample's key."""
        return self._ask("predict_one", x, **kwargs)

    def predict_interval_one(
        self, x: Mapping[Any, Any], *args: Any, **kwargs: Any
    ) -> tuple[float, float]:
        """Return an interval from the sample's model; see `Calibrated.predict_interval_one`."""
        return self._ask("predict_interval_one", x, *args, **kwargs)


class KeyedDetector(KeyedModels, base.AnomalyDetector):
    """`KeyedModels` whose prototype is an anomaly detector."""

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"key": "key", "model": density.DensityForest(2, seed=1)}

    def score_one(self, x: Mapping[Any, Any], **kwargs: Any) -> float:
        """Return the anomaly score from the model of the sample's key."""
        return float(self._ask("score_one", x, **kwargs))


if TYPE_CHECKING:

    class _KeyedPipelines(KeyedClassifier, KeyedRegressor, KeyedDetector):
        """Type of `KeyedModels` whose prototype is a pipeline, with the methods of all classes."""


class _KeyedWorker:
    """Worker with the models of some keys."""

    def __init__(self, *arguments: Any) -> None:
        self._models = KeyedModels(*arguments)

    def learn(self, samples: Sequence[tuple[Any, ...]]) -> tuple[int, str | None]:
        """Learn samples up to the first error; return their number, and the error or None."""
        for i, sample in enumerate(samples):
            try:
                self._models.learn_one(*sample)
            except (TypeError, ValueError) as error:
                return i, f"{type(error).__name__}: {error}"
        return len(samples), None

    def ask(self, name: str, samples: Sequence[Mapping[Any, Any]]) -> list[Any]:
        """Call a method of each sample's model; return the results."""
        return [self._models._ask(name, x) for x in samples]

    def flush(self) -> int:
        """Save the models that have changed; return their number."""
        return self._models.flush()

    def count(self) -> tuple[int, int]:
        """Return the number of models in memory, and their size in bytes."""
        return len(self._models), self._models._raw_memory_usage


class SpreadKeyedModels:
    """Keyed models in several processes or on several machines; a hash assigns keys to workers.

    Parameters
    ----------
    models
        `KeyedModels` without models. Each worker creates `KeyedModels` with the same arguments, so
        `max_bytes` and `n_ready` are limits for each worker.
    n_workers
        Number of workers.
    options
        Options of Ray's actors; None for the defaults.

    Notes
    -----
    Ray restarts a worker that dies. The new worker has the models that `flush` saved or that were
    moved to the folder. Samples that a model learned after its last save are lost. If a worker dies
    while it learns a batch, `learn_many` raises Ray's error. Other calls are repeated for up to a
    minute while the worker starts.

    """

    def __init__(
        self, models: KeyedModels, n_workers: int = 2, options: Mapping[str, Any] | None = None
    ) -> None:
        from .engine import check_cpus, ray_module

        check_integer("n_workers", n_workers, 1)
        self.models = models
        self._ray = ray_module()
        resources: dict[str, Any] = {"num_cpus": 1, "max_restarts": -1} | dict(options or {})
        check_cpus(self._ray, n_workers, resources["num_cpus"])
        arguments = [getattr(models, field.name) for field in dataclasses.fields(models)]
        actor = self._ray.remote(_KeyedWorker).options(**resources)
        self.workers = [actor.remote(*arguments) for _ in range(n_workers)]

    def _share(self, samples: Sequence[Mapping[Any, Any]]) -> list[list[int]]:
        """Return the indices of each worker's samples; a hash assigns each key to a worker."""
        shares: list[list[int]] = [[] for _ in self.workers]
        for i, x in enumerate(samples):
            digest = digest_of(self.models.key_of(x))
            shares[int(digest[:12], 16) % len(self.workers)].append(i)
        return shares

    def learn_many(self, X: Sequence[Mapping[Any, Any]], y: Sequence[Any] | None = None) -> None:
        """Learn samples with the models of their keys; samples of one key are learned in order.

        Parameters
        ----------
        X
            The samples.
        y
            The label or target of each sample; None for anomaly detectors.

        Raises
        ------
        ValueError
            If the lengths of `X` and `y` differ, or a sample cannot be learned. In the second case,
            the message names the sample, and each worker has learned its samples before its first
            error. In the first case, no sample is learned.

        """
        if y is not None and len(y) != len(X):
            raise ValueError(f"there are {len(X)} samples but {len(y)} labels or targets")
        shares = self._share(X)
        samples = [(x,) if y is None else (x, y[i]) for i, x in enumerate(X)]
        pairs = zip(self.workers, shares, strict=True)
        calls = [worker.learn.remote([samples[i] for i in share]) for worker, share in pairs]
        for share, (n, error) in zip(shares, self._ray.get(calls), strict=True):
            if error is not None:
                raise ValueError(f"{error} in sample {share[n]}")

    def ask_many(self, name: str, X: Sequence[Mapping[Any, Any]]) -> list[Any]:
        """Call a method of each sample's model; return the results.

        Parameters
        ----------
        name
            Name of a method for one sample, such as "predict_one".
        X
            Samples, each with its key.

        Returns
        -------
        The results, in the order of the samples.

        """
        shares, results = self._share(X), [None] * len(X)
        arguments = [(name, [X[i] for i in share]) for share in shares]
        for share, answers in zip(shares, self._call("ask", arguments), strict=True):
            for i, answer in zip(share, answers, strict=True):
                results[i] = answer
        return results

    def _call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of all workers; return the results. Repeat calls to workers that died."""
        pairs = zip(self.workers, arguments, strict=True)
        asks = [partial(getattr(worker, method).remote, *values) for worker, values in pairs]
        calls = [ask() for ask in asks]
        return [self._answer(ask, call) for ask, call in zip(asks, calls, strict=True)]

    def _answer(self, ask: Callable[[], Any], call: Any) -> Any:
        """Return the result of a worker's call, repeated if the worker has died."""
        deaths, until = 0, time.monotonic() + LONGEST_START
        while True:
            try:
                return self._ray.get(call)
            except self._ray.exceptions.ActorUnavailableError:
                # The error means that the worker is starting, so the call is repeated after a
                # pause.
                if time.monotonic() > until:
                    raise
                time.sleep(PAUSE)
            except self._ray.exceptions.RayActorError:
                deaths += 1
                if deaths == MOST_DEATHS:
                    raise
            call = ask()

    def flush(self) -> int:
        """Save all models that have changed since they were saved.

        Returns
        -------
        Number of models saved by all workers.

        """
        return sum(self._call("flush", [()] * len(self.workers)))

    def counts(self) -> list[tuple[int, int]]:
        """Return the number and the size of each worker's models.

        Returns
        -------
        For each worker, the number of models in memory, and their size in bytes.

        """
        return self._call("count", [()] * len(self.workers))

    @property
    def memory_usage(self) -> int:
        """Size of all workers' models in memory, in bytes."""
        return sum(nbytes for _, nbytes in self.counts())
