"""Score of the Numenta Anomaly Benchmark (Lavin and Ahmad 2015), version 1.1.

An anomaly is a window of a series. A detection is a row whose score is at or above a threshold,
which is the same for all series. The first detection within a window earns up to 1; earlier
detections earn more. A window without a detection costs `missed`. A detection outside all windows
costs up to `false`, and less just after a window. Detections in the first rows of a series are
ignored. The total is scaled to 0 without detections, and to 100 with only one detection at the
start of each window.
"""

from typing import NamedTuple

import numpy as np

from ..data import Array

# Share of the rows of a series in which detections are ignored, and largest length of a series for
# this share.
PROBATION, MOST_ROWS = 0.15, 5000


class Profile(NamedTuple):
    """Costs of a false detection and of a missed window; the first row of a window earns 1."""

    false: float
    missed: float


PROFILES = {
    "standard": Profile(0.11, 1.0),
    "low FP": Profile(0.22, 1.0),
    "low FN": Profile(0.11, 2.0),
}


class Places(NamedTuple):
    """Value of a detection at each row, before costs, and the index of the row's window.

    The index -1 is for rows outside all windows, and -2 for the first rows, which are ignored.
    """

    worth: Array
    window: Array
    n_windows: int


def sigmoid(x: Array | float) -> Array:
    """Return the value of a detection at x, where a window is the interval from -1 to 0."""
    x = np.asarray(x, dtype=float)
    return np.where(x > 3.0, -1.0, 2.0 / (1.0 + np.exp(5.0 * np.minimum(x, 3.0))) - 1.0)


def places(times: Array, windows: Array) -> Places:
    """Return the value of a detection at each row of a series.

    Parameters
    ----------
    times
        Times of rows.
    windows
        First and last time of each window, in order, shape (n, 2).
    """
    n = len(times)
    rows = np.arange(n)
    worth, window = np.full(n, -1.0), np.full(n, -1)
    for number, (first, last) in enumerate(windows):
        # Use the first row of each time, because some times are repeated.
        start, end = np.argmax(times == first), np.argmax(times == last)
        width = end - start + 1
        within = slice(start, end + 1)
        window[within] = number
        worth[within] = sigmoid(-(end - rows[within] + 1) / width) / sigmoid(-1.0)
        worth[end + 1 :] = sigmoid((rows[end + 1 :] - end) / max(width - 1, 1))
    window[: int(PROBATION * min(n, MOST_ROWS))] = -2
    return Places(worth, window, len(windows))


def totals(series: list[Places], scores: list[Array], profile: Profile) -> tuple[Array, Array]:
    """Return all thresholds in descending order, and the scaled total at each threshold."""
    first = np.cumsum([0, *(one.n_windows for one in series)])
    worth = np.concatenate([one.worth for one in series])
    window = np.concatenate(
        [
            np.where(p.window >= 0, p.window + k, p.window)
            for p, k in zip(series, first, strict=False)
        ]
    )
    score = np.concatenate(scores)
    counts = window >= -1
    order = np.argsort(-score[counts], kind="stable")
    worth, window, score = worth[counts][order], window[counts][order], score[counts][order]
    gains = np.where(window < 0, profile.false * worth, 0.0)
    # Only the best detection in a window counts. A lower threshold may add a better detection.
    best: dict[int, float] = {}
    for i in np.flatnonzero(window >= 0).tolist():
        k, value = int(window[i]), float(worth[i])
        before = best.get(k, -profile.missed)
        best[k] = max(before, value)
        gains[i] = best[k] - before
    n_windows = int(first[-1])
    # All detectors miss the windows within the ignored first rows.
    raw = np.cumsum(gains)
    ends = np.flatnonzero(np.append(np.diff(score) < 0.0, True))
    return score[ends], 100.0 * raw[ends] / (n_windows * (1.0 + profile.missed))


def best(series: list[Places], scores: list[Array], profile: Profile) -> tuple[float, float]:
    """Return the threshold with the highest total, and this total."""
    thresholds, found = totals(series, scores, profile)
    place = int(np.argmax(found))
    return float(thresholds[place]), float(found[place])


def at(series: list[Places], scores: list[Array], profile: Profile, threshold: float) -> float:
    """Return the total of a threshold."""
    thresholds, found = totals(series, scores, profile)
    reached = np.flatnonzero(thresholds >= threshold)
    return float(found[reached[-1]]) if len(reached) else 0.0
