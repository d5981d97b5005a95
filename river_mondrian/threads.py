"""Threads that share the work of a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Thread


def begin(
    jobs: Sequence[Future[None]], work: Callable[[int, int], None], bounds: Sequence[int]
) -> None:
    """Call `work` on each part between consecutive bounds, in a thread that fulfils a job.

    Executors refuse work at the end of a process, and so do later versions of Python for threads.
    Then the calling thread does the work.
    """
    for job, first, last in zip(jobs, bounds[:-1], bounds[1:], strict=True):
        try:
            Thread(target=_run, args=(job, work, first, last)).start()
        except RuntimeError:
            _run(job, work, first, last)


def share(work: Callable[[int, int], None], bounds: Sequence[int]) -> None:
    """Call `work` on each part between consecutive bounds, the last part in this thread."""
    jobs: list[Future[None]] = [Future() for _ in bounds[2:]]
    try:
        begin(jobs, work, bounds[:-1])
        work(*bounds[-2:])
    except BaseException:
        # After an interrupt, jobs that have not begun are not done.
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
