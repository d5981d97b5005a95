"""Learning from Ray's data sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from river import base

from ..arguments import check_integer
from ..estimators.merging import is_mergeable, merge
from .engine import ray_module


def _batches(
    dataset: Any, target: str | None, weight: str | None, batch_size: int
) -> Iterator[tuple[Any, ...]]:
    """Yield the arguments of `learn_many` for the batches of a data set."""
    for table in dataset.iter_batches(batch_size=batch_size, batch_format="pyarrow"):
        columns = [name for name in (target, weight) if name is not None]
        rest = [table[name].to_pylist() for name in columns]
        yield (table.drop_columns(columns), *rest)


def _learn(model: Any, dataset: Any, *arguments: Any) -> Any:
    for batch in _batches(dataset, *arguments):
        model.learn_many(*batch)
    return model


def learn_dataset(
    model: Any,
    dataset: Any,
    target: str | None = None,
    weight: str | None = None,
    n_workers: int = 2,
    batch_size: int = 8192,
) -> Any:
    """Let a model learn the rows of a `ray.data.Dataset`, such as Parquet files.

    A model whose statistics add up (see `merge`) is learned in parallel: each worker learns some of
    the rows, and the parts are merged. Any other one learns here, batch by batch, in the order in
    which Ray reads them; a `ShardedForest` passes them on to its workers.

    Parameters
    ----------
    model
        The model.
    dataset
        The data set.
    target
        Name of the column with labels or targets, for models that have such.
    weight
        Name of the column with weights, for models that take them.
    n_workers
        Number of workers that learn parts.
    batch_size
        Rows that are learned at once.

    Returns
    -------
    The model, which has learned. One that is merged is another object; the given one stays.

    Raises
    ------
    ValueError
        If there is no target, or one too many, for this kind of model; or as `learn_many` does for
        rows that cannot be learned. A model that is merged has learned nothing then, others the
        batches before.

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
    # Those who read the data need the processors that workers would reserve.
    learn = ray.remote(_learn).options(num_cpus=0, scheduling_strategy="SPREAD")
    fresh = ray.put(model._made_anew())
    parts = [
        learn.remote(fresh, part, target, weight, batch_size)
        for part in dataset.streaming_split(n_workers)
    ]
    found = model
    for part in parts:
        try:
            found = merge(found, ray.get(part))
        except ray.exceptions.RayTaskError as error:
            raise error.as_instanceof_cause() from None
    return found
