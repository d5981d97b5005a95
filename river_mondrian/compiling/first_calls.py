"""Log compilation, and limit garbage collection during `warmup`.

A first call that compiles kernels takes seconds without a visible reason. So the package's logger
logs the first compilation in a process as a warning, and names the remedy. Python shows the warning
if no logging is set up. During `warmup`, compilation is expected, so the level is INFO. Each
compiled function is logged at level DEBUG.

Numba creates many long-lived objects. During `warmup`, the garbage collector searches only young
objects, because searching all objects several times would take a tenth of the compilation time.
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

# Threshold of the garbage collector that prevents searches of the oldest generation.
_NEVER = 1_000_000

_COMMAND = f"python -m {LOGGER.name} warmup"


class Watch:
    """The functions that a process compiles.

    Attributes
    ----------
    names
        The compiled functions, ordered by the start of their compilation.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._lock = threading.RLock()
        self._n_warmups = 0
        self._thresholds = gc.get_threshold()
        self._expected = threading.local()

    @contextlib.contextmanager
    def expected(self, progress: bool = False) -> Iterator[None]:
        """Return a context in which this thread compiles without a warning; show `progress`."""
        before = getattr(self._expected, "shown", None)
        with Progress(progress, None, "functions") as shown:
            self._expected.shown = shown
            with self._lock:
                if not self._n_warmups:
                    self._thresholds = gc.get_threshold()
                    gc.set_threshold(*self._thresholds[:2], _NEVER)
                self._n_warmups += 1
            try:
                yield
            finally:
                self._expected.shown = before
                with self._lock:
                    self._n_warmups -= 1
                    if not self._n_warmups:
                        gc.set_threshold(*self._thresholds)

    def begin_anew(self) -> None:
        """Forget the warm-ups of the parent's other threads, which a fork does not copy."""
        self._lock = threading.RLock()
        is_warming = getattr(self._expected, "shown", None) is not None
        if self._n_warmups and not is_warming:
            gc.set_threshold(*self._thresholds)
        self._n_warmups = int(is_warming)

    def compiles(self, name: str, folder: Path | None, unused: str = "") -> None:
        """Log that a function will be compiled; the first message names the folder for the code.

        `unused` is the reason why the package's code is not used.
        """
        with self._lock:
            is_first = not self.names
            self.names.append(name)
        # Progress is shown outside the lock, because other threads should not wait for stderr.
        shown = getattr(self._expected, "shown", None)
        if shown is not None:
            shown.reach(shown.done + 1, f"compiling {name}")
        if is_first:
            where = f"Code is kept in {folder}, for later processes"
            if folder is None:
                where = "Code cannot be kept, so every process compiles again"
            if unused:
                where += f". The package's own code is not used: {unused}"
            level = logging.WARNING if shown is None else logging.INFO
            what = "kernels are compiled at their first call, which takes seconds."
            # Exceptions are suppressed, because a closed stderr must not stop the compilation.
            with contextlib.suppress(Exception):
                LOGGER.log(level, "%s %s. `%s` compiles them in advance.", what, where, _COMMAND)
        LOGGER.debug("compiling %s", name)


WATCH = Watch()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WATCH.begin_anew)
