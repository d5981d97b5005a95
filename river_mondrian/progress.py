"""Display the progress of a long call on stderr, with tqdm if it is installed, else as text."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from .arguments import check_flag
from .inputs import Floats

# Number of rows between two updates: a few milliseconds to a tenth of a second of work.
PIECE = 1024
# Seconds between two lines of text: on a terminal, and in a log.
EVERY, EVERY_IN_A_LOG = 0.5, 10.0


def is_terminal() -> bool:
    """Return stderr's `isatty()`, or False if this call fails."""
    try:
        return bool(sys.stderr.isatty())
    except Exception:
        return False


def show(text: str, end: str = "\n", file: Any = None) -> None:
    """Write text to stderr or a file; ignore errors, such as a closed file or a broken pipe."""
    file = file or sys.stderr
    # If stderr is None, nothing is printed, because `print` without a file would write to stdout.
    if file is not None:
        with contextlib.suppress(Exception):
            print(text, end=end, file=file, flush=True)


class Progress:
    """Context manager that shows the progress of a call; failing output does not stop the call.

    Parameters
    ----------
    wanted
        Whether to show progress.
    total
        Number of units of work in the call; None if the number is unknown.
    unit
        Name of the units, by default "rows".

    Attributes
    ----------
    done
        Number of units done.

    Raises
    ------
    ValueError
        If `wanted` is neither True nor False.

    """

    def __init__(self, wanted: bool, total: float | None, unit: str = "rows") -> None:
        check_flag("progress", wanted)
        # In programs without a console, stderr is None.
        self._wanted = wanted and sys.stderr is not None
        self._total, self._unit = total, unit
        self._bar: Any = None
        self.done: float = 0
        self._began = self._shown_at = time.perf_counter()
        self._has_line = False

    def __enter__(self) -> Self:
        if self._wanted and self._total is not None:
            # Without tqdm, or if a bar cannot be created, text is shown.
            with contextlib.suppress(Exception):
                from tqdm.auto import tqdm

                scale = isinstance(self._total, int)
                self._bar = tqdm(total=self._total, unit=f" {self._unit}", unit_scale=scale)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._call_bar(self._bar.close)
        elif self._wanted and (self._total is not None or self.done):
            self._write(is_terminal())
            if self._has_line:
                show("")

    def _call_bar(self, method: Callable[..., object], *args: Any, **kwargs: Any) -> None:
        try:
            method(*args, **kwargs)
        except Exception:
            # A bar that has failed once would fail again, at the latest when it is deleted, so it
            # is disabled.
            self._wanted, self._bar.disable = False, True

    def reach(self, done: float, note: str = "") -> None:
        """Set the number of units done, and show the number at intervals.

        Parameters
        ----------
        done
            Number of units done.
        note
            Text to show after the number of units.

        """
        if not self._wanted:
            return
        step, self.done = done - self.done, done
        if self._bar is not None:
            if note:
                self._call_bar(self._bar.set_postfix_str, note, refresh=False)
            self._call_bar(self._bar.update, step)
            return
        on_terminal = is_terminal()
        if time.perf_counter() - self._shown_at >= (EVERY if on_terminal else EVERY_IN_A_LOG):
            self._write(on_terminal, note)

    def _write(self, on_terminal: bool, note: str = "") -> None:
        self._shown_at = time.perf_counter()
        text = f"{self.done:,.4g}" if isinstance(self._total, float) else f"{self.done:,.0f}"
        text += "" if self._total is None else f" of {self._total:,}"
        text += f" {self._unit}{', ' if note else ''}{note}"
        text += f", {self._shown_at - self._began:.0f} s"
        self._has_line = on_terminal
        # On a terminal, the next line overwrites this line.
        start, end = ("\r\033[K", "") if on_terminal else ("", "\n")
        show(start + text, end)


def pieces(n: int, progress: bool, size: int = PIECE) -> Iterator[slice]:
    """Yield the rows of a call as slices: one slice, or several if progress is shown.

    Parameters
    ----------
    n
        Number of rows.
    progress
        Whether to show how many rows are done.
    size
        Number of rows of a slice if progress is shown.

    """
    with Progress(progress, n) as shown:
        size = size if progress else max(n, 1)
        for start in range(0, n, size):
            yield slice(start, min(start + size, n))
            shown.reach(min(start + size, n))


def one_by_one(learn: Callable[[int], object], n: int, progress: bool) -> None:
    """Call a function with the number of each row.

    The function takes a model's lock for each row, so that other threads can call between rows.
    """
    for piece in pieces(n, progress):
        for i in range(piece.start, piece.stop):
            learn(i)


def in_pieces(
    function: Callable[[Floats], Floats], rows: Floats, progress: bool, size: int = PIECE
) -> Floats:
    """Return a function's results for rows, computed in pieces. Rows must not affect each other."""
    values = [function(rows[piece]) for piece in pieces(len(rows), progress, size)]
    return values[0] if len(values) == 1 else np.concatenate(values) if values else function(rows)
