"""Threads that share the work of a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Thread


def begin(
    jobs: Sequence[Future[None]], work: Callable[[int, int], None], bounds: Sequence[int]
) -> None:
    """Start a thread for each job, which calls `work` on the part between two consecutive bounds.

    Executors are not used, because they refuse work at the end of a process. From Python 3.12 on,
    threads cannot be started then, either, so the calling thread does the work.
    """
    for job, first, last in zip(jobs, bounds[:-1], bounds[1:], strict=True):
        try:
            Thread(target=_run, args=(job, work, first, last)).start()
        except RuntimeError:
            _run(job, work, first, last)


def share(work: Callable[[int, int], None], bounds: Sequence[int]) -> None:
    """Call `work` on each part between consecutive bounds, on the last part in this thread."""
    jobs: list[Future[None]] = [Future() for _ in bounds[2:]]
    try:
        begin(jobs, work, bounds[:-1])
        work(*bounds[-2:])
    except BaseException:
        # After an interruption, jobs that have not begun are cancelled, so that the call returns
        # soon.
        for job in jobs:
            job.cancel()
        raise
    finally:
        for job in jobs:
            if not job.cancelled():
                job.result()


def _run(job: Future[None], work: Callable[[int, int], None], first: int, last: int) -> None:
    """Run a job unless it has been cancelled, and set its result or exception."""
    if job.set_running_or_notify_cancel():
        try:
            work(first, last)
        except BaseException as error:
            job.set_exception(error)
        else:
            job.set_result(None)
