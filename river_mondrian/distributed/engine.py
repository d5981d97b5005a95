"""Ray actors as workers, and learning from Ray data sets."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from river import base

from ..arguments import check_integer
from ..checks import require
from ..estimators.merging import is_mergeable, merge
from .shard import Shard, WorkerDied


def ray_module() -> Any:
    """Return the module `ray`; call `ray.init` if this process is not connected to Ray.

    `ray.init` connects to a running cluster, or starts Ray on this machine.

    Raises
    ------
    ImportError
        If Ray is not installed.

    """
    ray = require("ray", "ray", "river_mondrian.distributed")
    if not ray.is_initialized():
        ray.init(include_dashboard=False)
    return ray


def check_cpus(ray: Any, n_workers: int, n_cpus: float) -> None:
    """Raise an error if the cluster has too few processors; warn if too few are free.

    Raises
    ------
    RuntimeError
        If the workers need more processors than the cluster has.

    """
    wanted = n_workers * n_cpus
    present = ray.cluster_resources().get("CPU", 0.0)
    said = f"{n_workers} workers need {wanted:g} CPUs"
    if wanted > present:
        raise RuntimeError(
            f"{said}, but the Ray cluster has {present:g}: use fewer workers, start more nodes, or "
            'let workers share processors by options={"num_cpus": ...}'
        )
    free = ray.available_resources().get("CPU", 0.0)
    if wanted > free:
        text = f"{said}, but {free:g} of the {present:g} CPUs of the Ray cluster are free"
        warnings.warn(f"{text}: calls wait until more are free", RuntimeWarning, stacklevel=3)


class RayEngine:
    """Engine that starts, calls and ends Ray actors as workers.

    Parameters
    ----------
    code
        Arguments of the forest that cannot be stored in files, such as functions.
    n_cpus
        Number of processors of each worker.
    options
        Other options of the actors, which override the defaults.
    n_workers
        Number of workers that will be started.

    """

    def __init__(
        self, code: Mapping[str, Any], n_cpus: int, options: Mapping[str, Any], n_workers: int
    ) -> None:
        self._ray = ray_module()
        self._code = code
        resources = {"num_cpus": n_cpus, "max_restarts": 0} | dict(options)
        check_cpus(self._ray, n_workers, resources["num_cpus"])
        self._actor = self._ray.remote(Shard).options(**resources)

    def start(self, path: str, save_every: int) -> Any:
        """Return a new actor, with the shard that a file stores."""
        return self._actor.remote(path, self._code, save_every)

    def call(self, worker: Any, name: str, *arguments: Any) -> Any:
        """Call a method of an actor's shard; return Ray's reference to the result."""
        return getattr(worker, name).remote(*arguments)

    def get(self, call: Any) -> Any:
        """Wait for a call, and return its result."""
        try:
            return self._ray.get(call)
        except self._ray.exceptions.RayError as error:
            raise WorkerDied(str(error)) from error

    def put(self, block: Any) -> Any:
        """Return a reference to a block of samples, stored once for all workers."""
        return self._ray.put(block)

    def stop(self, worker: Any) -> None:
        """End an actor."""
        self._ray.kill(worker)


def _learn(
    model: Any, dataset: Any, target: str | None, weight: str | None, batch_size: int
) -> Any:
    """Make a model learn the batches of a data set; return the model."""
    columns = [name for name in (target, weight) if name is not None]
    for table in dataset.iter_batches(batch_size=batch_size, batch_format="pyarrow"):
        rest = [table[name].to_pylist() for name in columns]
        model.learn_many(table.drop_columns(columns), *rest)
    return model


def learn_dataset(
    model: Any,
    dataset: Any,
    target: str | None = None,
    weight: str | None = None,
    n_workers: int = 2,
    batch_size: int = 8192,
) -> Any:
    """Make a model learn the rows of a `ray.data.Dataset`, for example read from Parquet files.

    If the model can be merged (see `merge`), workers learn in parallel. Each worker learns some of
    the rows, and then the workers' models are merged. Any other model learns in the calling
    process, in the order in which Ray reads the batches. A `ShardedForest` passes the batches to
    its workers.

    Parameters
    ----------
    model
        The model.
    dataset
        The data set.
    target
        Name of the column with labels or targets, for models that learn labels or targets.
    weight
        Name of the column with weights, for models that accept weights.
    n_workers
        Number of workers, used only if the model can be merged.
    batch_size
        Number of rows that are learned at once.

    Returns
    -------
    The model after learning. A merged model is a new object; the given model does not change.

    Raises
    ------
    TypeError, ValueError
        If the target is missing, or is given for a model without targets, or if a row cannot be
        learned (see `learn_many`). Then a model that can be merged has learned nothing, and any
        other model has learned the batches before the row's batch.
    RuntimeError
        If a worker of a model that can be merged dies. Then the model has learned nothing.

    Examples
    --------

    >>> import ray  # doctest: +SKIP
    >>> from river_mondrian import DensityForest
    >>> from river_mondrian.distributed import learn_dataset

    >>> model = DensityForest(50, 2.0, seed=42, origin={"a": 0.0, "b": 0.0})
    >>> dataset = ray.data.read_parquet("samples/")  # doctest: +SKIP
    >>> model = learn_dataset(model, dataset, n_workers=8)  # doctest: +SKIP

    """
    check_integer("n_workers", n_workers, 1)
    check_integer("batch_size", batch_size, 1)
    is_supervised = isinstance(model, base.Classifier | base.Regressor)
    if is_supervised is not (target is not None):
        which = "needs a target" if is_supervised else "has no target"
        raise ValueError(f"{type(model).__name__} {which}, got target={target!r}")
    if weight is not None and target is None:
        raise ValueError(f"{type(model).__name__} takes no weights, got weight={weight!r}")
    if not is_mergeable(model):
        return _learn(model, dataset, target, weight, batch_size)
    ray = ray_module()
    # Workers reserve no processors, because otherwise they might leave none for Ray's tasks that
    # read the data.
    # A retried task would wait forever, because a split can be read only once.
    options = {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": "SPREAD"}
    learn = ray.remote(_learn).options(**options)
    fresh = ray.put(model._made_anew())
    shares = dataset.streaming_split(n_workers)
    pending = [learn.remote(fresh, share, target, weight, batch_size) for share in shares]
    merged = model
    try:
        while pending:
            # If a worker dies, other workers may wait for its split. So results are used in the
            # order in which workers end.
            (done,), pending = ray.wait(pending)
            merged = merge(merged, ray.get(done))
    except ray.exceptions.RayTaskError as error:
        raise error.as_instanceof_cause() from None
    except ray.exceptions.RayError as error:
        raise RuntimeError(f"a worker died, so the model has learned nothing: {error}") from error
    finally:
        for future in pending:
            ray.cancel(future, force=True)
    return merged
