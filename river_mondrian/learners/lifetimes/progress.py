"""A line on stderr that says how far a sweep is."""

from __future__ import annotations

import sys
import time

# Seconds after which a sweep shows how far it is, and between two times that it does.
QUIET = 2.0
EVERY = 0.5


class Progress:
    """A line on stderr that says how far a sweep is."""

    def __init__(self, wanted: bool | None, lifetime_max: float) -> None:
        self.wanted = sys.stderr.isatty() if wanted is None else wanted
        self.lifetime_max = lifetime_max
        self.began = self.last = time.perf_counter()
        self.shown = False

    def show(self, lifetime: float, n_cells: int) -> None:
        """Show a lifetime, now and then."""
        now = time.perf_counter()
        if not self.wanted or now - self.began < QUIET or now - self.last < EVERY:
            return
        self.last, self.shown = now, True
        text = f"lifetime {lifetime:.3g} of {self.lifetime_max:.3g}, {n_cells} cells"
        print(f"\r\033[K{text}, {now - self.began:.0f} s", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Take the line away."""
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
