"""Log compilation, and limit garbage collection during compilation.

A first call that compiles kernels takes seconds without a visible reason. So the package's logger
logs the first compilation in a process as a warning, and names the remedy. Python shows the warning
if no logging is set up. During `warmup`, compilation is expected, so the level is INFO. Each
compiled function is logged at level DEBUG.

Numba creates many long-lived objects. The garbage collector would search all objects of the process
several times, which would take a tenth of the compilation time. During compilation, the collector
searches only young objects.
"""

import contextlib
import gc
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from ..progress import Progress

LOGGER = logging.getLogger(__name__.partition(".")[0])

# Threshold of the garbage collector at which the oldest generation is never searched.
_NEVER = 1_000_000

_COMMAND = f"python -m {LOGGER.name} warmup"


class Watch:
    """The functions that a process compiles.

    Attributes
    ----------
    names
        The compiled functions, in the order in which their compilation began.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._lock = threading.RLock()
        self._n_open = 0
        self._thresholds: tuple[int, int, int] | None = None
        self._expected = threading.local()

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Context manager around a call of numba's compiler; some calls merely load stored code."""
        with self._lock:
            self._n_open += 1
        try:
            yield
        finally:
            with self._lock:
                # If the process forks during a call, the call also ends in the child, where no call
                # is open.
                self._n_open = max(self._n_open - 1, 0)
                if not self._n_open:
                    self._restore()

    def _restore(self) -> None:
        if self._thresholds is not None:
            gc.set_threshold(*self._thresholds)
            self._thresholds = None

    def begin_anew(self) -> None:
        """Forget the calls of the parent's threads, which do not exist in the child of a fork."""
        self._lock = threading.RLock()
        self._n_open = 0
        self._restore()

    @contextlib.contextmanager
    def expected(self, progress: bool = False) -> Iterator[None]:
        """Context manager in which this thread compiles without a warning and can show progress."""
        before = getattr(self._expected, "shown", None)
        with Progress(progress, None, "functions") as shown:
            self._expected.shown = shown
            try:
                yield
            finally:
                self._expected.shown = before

    def compiles(self, name: str, folder: Path | None, unused: str = "") -> None:
        """Log that a function is going to be compiled, and that `folder` will hold the code.

        `unused` is the reason why the package's code is not used.
        """
        with self._lock:
            is_first = not self.names
            self.names.append(name)
            if self._n_open and self._thresholds is None:
                self._thresholds = gc.get_threshold()
                gc.set_threshold(*self._thresholds[:2], _NEVER)
        # Progress is shown outside the lock, so that other threads need not wait for stderr.
        shown = getattr(self._expected, "shown", None)
        if shown is not None:
            shown.reach(shown.done + 1, f"compiling {name}")
        if is_first:
            kept = f"Code is kept in {folder}, for later processes"
            if folder is None:
                kept = "Code cannot be kept, so every process compiles again"
            if unused:
                kept += f". The package's own code is not used: {unused}"
            level = logging.WARNING if shown is None else logging.INFO
            what = "kernels are compiled at their first call, which takes seconds."
            # A closed stderr may make the logging raise, which must not stop the compilation.
            with contextlib.suppress(Exception):
                LOGGER.log(level, "%s %s. `%s` compiles them in advance.", what, kept, _COMMAND)
        LOGGER.debug("compiling %s", name)


WATCH = Watch()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WATCH.begin_anew)
