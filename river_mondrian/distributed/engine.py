"""Ray as the engine of workers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from .crew import WorkerDied
from .shard import Shard


def ray_module() -> Any:
    """Return Ray, started on this machine unless it runs already.

    Raises
    ------
    ImportError
        If it is not installed.

    """
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            "river_mondrian.distributed needs Ray: pip install river-mondrian[ray]"
        ) from error
    if not ray.is_initialized():
        ray.init(include_dashboard=False)
    return ray


def check_cpus(ray: Any, n_workers: int, n_cpus: float) -> None:
    """Refuse workers that the cluster will never have the processors for; warn of a wait.

    Raises
    ------
    RuntimeError
        If they need more processors than the cluster has.

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
        warnings.warn(
            f"{said}, but of the {present:g} of the Ray cluster {free:g} are free: calls wait "
            "until others end",
            RuntimeWarning,
            stacklevel=3,
        )


class RayEngine:
    """Workers that are Ray actors.

    Parameters
    ----------
    code
        Parameters that files do not hold.
    n_cpus
        Processors of each worker.
    options
        More options of the actors.
    n_workers
        Number of workers that will be started.

    """

    def __init__(
        self, code: Mapping[str, Any], n_cpus: int, options: Mapping[str, Any], n_workers: int
    ) -> None:
        self._ray = ray_module()
        self._code = code
        given = {"num_cpus": n_cpus, "max_restarts": 0} | dict(options)
        check_cpus(self._ray, n_workers, given["num_cpus"])
        self._actor = self._ray.remote(Shard).options(**given)

    def start(self, path: str, save_every: int) -> Any:
        """Start an actor with the part of a file."""
        return self._actor.remote(path, self._code, save_every)

    def call(self, worker: Any, name: str, *arguments: Any) -> Any:
        """Call a method of an actor's shard."""
        return getattr(worker, name).remote(*arguments)

    def get(self, call: Any) -> Any:
        """Wait for a call."""
        try:
            return self._ray.get(call)
        except self._ray.exceptions.RayError as error:
            raise WorkerDied(str(error)) from error

    def put(self, block: Any) -> Any:
        """Put a block into the object store, once for all workers."""
        return self._ray.put(block)

    def stop(self, worker: Any) -> None:
        """End an actor."""
        self._ray.kill(worker)
