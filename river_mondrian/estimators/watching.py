"""Watching errors by a drift detector, whose update may be interrupted at any moment."""

from __future__ import annotations

import copy
import sys
from array import array
from typing import Any, TypeAlias

# Samples that are kept after a drift where the detector does not tell, and at least.
AFTER_DRIFT = 200
LEAST_KEPT = 50

# Weight of the latest error in the running mean by which an increase is detected.
FAST = 0.02

# Errors after which the detector is copied.
COPY_EVERY = 256

# What is known of the errors of the first samples: the mean since the latest drift, of how many
# errors, a running mean of the latest; after how many samples there were drifts, and how many of
# these were kept; the number of samples, the last of which has been watched. It is replaced, never
# changed; a plain tuple is made several times as fast as a named one.
Known: TypeAlias = tuple[float, int, float, tuple[tuple[int, int], ...], int]


class Watch:
    """A detector of drifts, and the errors that it is fed with.

    A detector changes in place, by code that may be interrupted or fail. So the watch keeps an
    earlier copy and the errors since: `undo` feeds these to a copy of that.

    Parameters
    ----------
    detector
        The detector; None where none watches.
    error, n_errors, recent_error, drifts
        What is known so far.

    Attributes
    ----------
    known
        What is known.
    following
        What will be known once a sample has been learned; None unless one is being learned.

    """

    def __init__(
        self,
        detector: Any = None,
        error: float = 0.0,
        n_errors: int = 0,
        recent_error: float = 0.0,
        drifts: Any = (),
    ) -> None:
        self.detector = detector
        self.known: Known = (error, n_errors, recent_error, tuple(drifts), 0)
        self.following: Known | None = None
        # An earlier copy, and how many samples there were then: none yet.
        self._earlier: tuple[Any, int] = None, -COPY_EVERY
        self._errors = array("d", bytes(8 * COPY_EVERY))

    def stored(self) -> tuple[Any, float, int, float, list[tuple[int, int]]]:
        """Return what is stored: the parameters."""
        error, n_errors, recent_error, drifts, _ = self.known
        return self.detector, error, n_errors, recent_error, list(drifts)

    def foresee(self, error: float, n_samples: int) -> int:
        """Let the detector see an error from 0 to 1, that of the last of `n_samples` samples.

        Returns how many of these are to be kept; 0 for all.
        """
        detector, known = self.detector, self.known
        place = n_samples - 1 - self._earlier[1]
        if not 0 <= place < COPY_EVERY:
            self._earlier = copy.deepcopy(detector), n_samples - 1
            place = 0
        self._errors[place] = error
        # From here on until this is replaced the detector may be neither as before nor as after.
        self.following = known
        mean, n_errors, recent, drifts, _ = known
        value = float(error)
        n_errors += 1
        mean += (value - mean) / n_errors
        recent += FAST * (value - recent)
        detector.update(value)
        kept = 0
        if detector.drift_detected and recent > mean:
            kept = int(getattr(detector, "width", AFTER_DRIFT))
            kept = min(max(kept, LEAST_KEPT), n_samples)
            drifts = (*drifts, (n_samples, kept))
            mean, n_errors = recent, 1
        self.following = mean, n_errors, recent, drifts, n_samples
        return kept

    def has_learned(self, n_samples: int) -> bool:
        """Tell whether the sample of the error that has been foreseen is among the first."""
        following = self.following
        return following is not None and following[-1] == n_samples > self.known[-1]

    @property
    def kept(self) -> int:
        """What `foresee` has returned last."""
        following = self.following
        if following is None or following[3] is self.known[3]:
            return 0
        return following[3][-1][1]

    def follow(self) -> None:
        """Let what has been foreseen be known."""
        if self.following is not None:
            self.known = self.following
            self.following = None

    def undo(self) -> None:
        """Let the detector be as it was before the error that has been foreseen."""
        earlier, n_samples = self._earlier
        detector = copy.deepcopy(earlier)
        for error in self._errors[: max(self.known[-1] - n_samples, 0)]:
            detector.update(error)
        self.detector = detector
        self.following = None

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        *_, drifts, _ = self.known
        size = sys.getsizeof(self._errors) + sys.getsizeof(drifts)
        size += sum(sys.getsizeof(drift) for drift in drifts)
        for detector in (self.detector, self._earlier[0]):
            size += 0 if detector is None else detector._raw_memory_usage
        return size
