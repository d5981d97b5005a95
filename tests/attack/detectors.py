"""A drift detector that is written in Python."""

from river import base


class EveryFew(base.DriftDetector):
    """A detector in Python that reports a drift after `n_errors` errors."""

    def __init__(self, n_errors=5):
        super().__init__()
        self.n_errors = n_errors
        self.n = 0
        self.seen = []

    def update(self, x):
        self.n += int(x)
        self.seen.append(x)
        self._drift_detected = self.n >= self.n_errors
        if self._drift_detected:
            self.n = 0
            self.seen = []

    @property
    def width(self):
        return 60 + self.n_errors
