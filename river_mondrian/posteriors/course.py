"""Alarm scores: ranks of averaged anomaly scores, and values outside the ranges of features.

The surprise of a sample is -log(1 - score). Let m be the mean of the latest surprises. Let k of the
n earlier means be at least m. The rank of m is p = (1 + k) / (1 + n). With several detectors, p is
the geometric mean of the detectors' ranks. The alarm score is 1 - p.

The earlier means are the means at the latest `window` samples. While a detector's store fills,
means are first high, then low. Low means would give later means too high scores, so in the second
`window` samples, a new mean replaces an old mean only if the new mean is higher.

Surprises are integers in units of 2^-32. So sums are exact, and do not depend on the order of the
surprises.

An incident's means can be removed, or all except its largest means. A removed mean is negative and
does not count. An incident can also be removed from the features' ranges. For the ranges, the
stream is divided into parts: incidents, and the samples between incidents. Each part has a range
for each feature. The range of a feature is the union of all parts' ranges and of the range of the
latest `average` samples.
"""

import math
from collections.abc import Hashable, Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .. import checks, restored
from ..compiling.kernels import always_inline, kernel
from ..inputs import FeatureIndex
from ..limits import DONE, LARGEST, LARGEST_WINDOW, LEAST_LEVEL
from ..records import Bounds, Float64, Float64s, Int64, Int64s, Memory, Record, stored, transient
from ..records.memory import OwnsArrays, check_shapes

# A surprise of 1, in units of 2^-32.
UNIT = 4294967296.0
# Scores are clipped to at most 1 minus this number.
LEAST_CHANCE = 1e-12
# A feature is *silent* if its latest values are absent, although at least this share of samples had
# a value.
LEAST_SHARE = 0.95


class CourseRecord(Record):
    """The state of `Alarms`: surprises of each detector, and ranges of the features."""

    # The user's parameters.
    window: Int64 = stored(Bounds(1, LARGEST_WINDOW))
    average: Int64 = stored(Bounds(1, LARGEST_WINDOW))
    threshold: Float64
    tolerance: Float64
    # Numbers of detectors, features and samples.
    n_views: Int64 = stored(Bounds(1, LARGEST_WINDOW))
    n_inputs: Int64
    n: Int64
    # Number of removed means of a detector.
    n_removed: Int64
    # For each detector: the ring buffer of surprises, the sum of the latest surprises, and the ring
    # buffer of the means. The ring buffer of each sample's largest excess (see `_compare`).
    surprises: Int64s
    sums: Int64s
    means: Float64s
    excesses: Float64s
    # The values of the latest `average` samples: a ring buffer for each feature.
    recent: Float64s
    # For each feature: range, last value, number of values, and number of changes of the value.
    lows: Float64s
    highs: Float64s
    latest: Float64s
    n_values: Int64s
    n_changes: Int64s
    # For each feature: the share of samples with a value, among about `window` samples before the
    # latest `average` samples; and the number of successive samples without a value. While an alarm
    # of the feature is postponed, this number stays `average` - 1.
    shares: Float64s
    n_absent: Int64s
    # For each feature: whether the feature is a time. Values of times are never novel.
    is_time: Int64s
    # The latest part of the stream, without the latest `average` samples: the first sample, the
    # smallest value of each feature, and the smallest negated value of each feature.
    part_start: Int64
    part: Float64s
    # The next sample: its values, the score of each detector, and the excess of each value (see
    # `_compare`).
    inputs: Float64s
    given: Float64s
    beyond: Float64s
    # The next sample: its score, whether a value is novel, whether a feature is silent, and whether
    # all features are constant.
    score: Float64 = transient()
    is_novel: Int64 = transient()
    is_silent: Int64 = transient()
    is_flat: Int64 = transient()


@always_inline
def _surprise(course: CourseRecord, view: int) -> int:
    chance = 1.0 - course.given[view]
    # The condition uses `not`, so that NaN gets the least chance.
    if not chance > LEAST_CHANCE:
        chance = LEAST_CHANCE
    return int(-math.log(min(chance, 1.0)) * UNIT)


@always_inline
def _sum_with(course: CourseRecord, view: int, surprise: int) -> int:
    """Return the sum of a detector's latest surprises, including the new surprise."""
    total = course.sums[view] + surprise
    if course.n >= course.average:
        total -= course.surprises[course.average * view + course.n % course.average]
    return total


@always_inline
def _mean_of(course: CourseRecord, total: int) -> float:
    return total / min(course.n + 1, course.average) / UNIT


@always_inline
def _count_at_least(values: Float64s, start: int, n: int, least: float) -> int:
    count = 0
    for i in range(start, start + n):
        count += 1 if values[i] >= least else 0
    return count


@always_inline
def _size(course: CourseRecord, j: int) -> float:
    """Return a feature's largest absolute value, or 0 if the feature changes in most samples."""
    if 2 * course.n_changes[j] < course.n_values[j]:
        return max(abs(course.lows[j]), abs(course.highs[j]))
    return 0.0


@always_inline
def _is_number(value: float) -> bool:
    """Return whether a value is neither missing nor a level of a category."""
    return value < LEAST_LEVEL or value >= 2.0 * LEAST_LEVEL


@always_inline
def _compare(course: CourseRecord) -> float:
    """Write each feature's excess and whether all features are constant; return the largest excess.

    An excess is the distance of a value from the feature's range, divided by the larger of the
    range's width and `_size`. An excess below the tolerance is set to 0.
    """
    largest, n_numbers, is_flat = 0.0, 0, True
    for j in range(course.n_inputs):
        value, excess = course.inputs[j], 0.0
        if _is_number(value) and course.is_time[j] == 0:
            n_numbers += 1
            if course.n_values[j] > 0:
                low, high, size = course.lows[j], course.highs[j], _size(course, j)
                # Distance of the value from the feature's range.
                beyond, width = max(value - high, low - value), max(high - low, size)
                if beyond > 0.0:
                    excess = beyond / width if width > 0.0 else math.inf
                    excess = excess if excess >= course.tolerance else 0.0
                width = max(high, value) - min(low, value)
                is_flat = is_flat and width < course.tolerance * size
        course.beyond[j] = excess
        largest = max(largest, excess)
    course.is_flat = 1 if is_flat and n_numbers > 0 else 0
    return largest


@always_inline
def _will_be_silent(course: CourseRecord, j: int) -> bool:
    """Return whether a feature becomes silent with the next sample."""
    if course.inputs[j] == course.inputs[j]:
        return False
    return course.n_absent[j] + 1 == course.average and course.shares[j] >= LEAST_SHARE


@kernel
def look(course: CourseRecord, stop: int) -> int:
    """Write the next sample's `score`, `is_novel`, `is_silent` and `is_flat` (see `CourseRecord`).

    The score ignores the means after the first `stop` samples. Returns DONE, or the index of an
    input that is too large.
    """
    for j in range(course.n_inputs):
        if _is_number(course.inputs[j]) and abs(course.inputs[j]) > LARGEST:
            return j
    n = min(course.n, course.window)
    first_left_out = max(stop, course.n - course.window)
    log_chances = 0.0
    for view in range(course.n_views):
        mean = _mean_of(course, _sum_with(course, view, _surprise(course, view)))
        n_higher = _count_at_least(course.means, course.window * view, n, mean)
        n_ranked = n - course.n_removed
        for i in range(first_left_out, course.n):
            left_out = course.means[course.window * view + i % course.window]
            n_higher -= 1 if left_out >= mean else 0
            n_ranked -= 1 if left_out >= 0.0 else 0
        log_chances += math.log((1.0 + n_higher) / (1.0 + n_ranked))
    course.score = 1.0 - math.exp(log_chances / course.n_views)
    excess = _compare(course)
    course.is_novel = 0
    if excess > 0.0:
        n_as_novel = _count_at_least(course.excesses, 0, n, excess)
        if n_as_novel <= (1.0 - course.threshold) * course.window:
            course.is_novel = 1
    course.is_silent = 0
    for j in range(course.n_inputs):
        if _will_be_silent(course, j):
            course.is_silent = 1
    return DONE


@kernel
def learn(course: CourseRecord) -> int:
    """Learn the next sample."""
    for view in range(course.n_views):
        surprise = _surprise(course, view)
        total = _sum_with(course, view, surprise)
        course.sums[view] = total
        course.surprises[course.average * view + course.n % course.average] = surprise
        place, mean = course.window * view + course.n % course.window, _mean_of(course, total)
        if view == 0 and course.means[place] < 0.0:
            course.n_removed = course.n_removed - 1
        is_first = course.n < 2 * course.window
        course.means[place] = max(mean, course.means[place]) if is_first else mean
    course.excesses[course.n % course.window] = _compare(course)
    for j in range(course.n_inputs):
        value, place = course.inputs[j], course.average * j + course.n % course.average
        old, is_time = course.recent[place], course.is_time[j] == 1
        if course.n - course.average >= course.part_start and _is_number(old) and not is_time:
            course.part[j] = min(course.part[j], old)
            course.part[course.n_inputs + j] = min(course.part[course.n_inputs + j], -old)
        course.recent[place] = value
        # The grace period or the budget may postpone the alarm of a feature. Meanwhile, samples
        # without a value must not reduce the feature's share.
        if course.n >= course.average and not _will_be_silent(course, j):
            share = 1.0 if old == old else 0.0
            n_older = min(course.n + 1 - course.average, course.window)
            course.shares[j] += (share - course.shares[j]) / n_older
        course.n_absent[j] = 0 if value == value else course.n_absent[j] + 1
        if _is_number(value) and not is_time:
            if course.n_values[j] == 0:
                course.lows[j], course.highs[j] = value, value
            elif value != course.latest[j]:
                course.n_changes[j] = course.n_changes[j] + 1
            course.lows[j] = min(course.lows[j], value)
            course.highs[j] = max(course.highs[j], value)
            course.latest[j] = value
            course.n_values[j] = course.n_values[j] + 1
    course.n = course.n + 1
    return DONE


_BY_FEATURE = ("lows", "highs", "latest", "n_values", "n_changes", "shares", "n_absent")
_RINGS = ("surprises", "sums", "means", "excesses", "recent")
_NEXT = ("inputs", "given", "beyond")


class Course(OwnsArrays):
    """The owner of a `CourseRecord`, the features' names, and the samples of incidents.

    Parameters
    ----------
    n_views
        Number of detectors.
    measures
        The parameters `window`, `average`, `threshold` and `tolerance` of `Alarms`.
    times
        Names of the features that are times.

    """

    _DERIVED = frozenset({"course", "is_time", *_NEXT})

    def __init__(
        self, n_views: int, measures: tuple[int, int, float, float], times: tuple[Hashable, ...]
    ) -> None:
        self.memory, self.features, self.times = Memory(CourseRecord), FeatureIndex(), times
        course = self.memory[0]
        course.n_views, (window, average, *_) = n_views, measures
        course.window, course.average, course.threshold, course.tolerance = measures
        self.surprises = np.zeros((n_views, average), np.int64)
        self.sums = np.zeros(n_views, np.int64)
        self.means = np.zeros((n_views, window))
        self.excesses, self.recent = np.zeros(window), np.empty((0, average))
        self.lows = self.highs = self.latest = self.shares = np.empty(0)
        self.n_values = self.n_changes = self.n_absent = np.empty(0, np.int64)
        # The parts of the stream: first samples, and the smallest value and the smallest negated
        # value of each feature.
        self.starts, self.parts = np.zeros(1, np.int64), np.empty((1, 2, 0))
        # Numbered samples of incidents: the latest samples without an answer, and the latest
        # dismissed samples. The stream's first sample has the number 1.
        self.waiting = self.dismissed = np.empty((0, 1))
        self._bind()

    def _bind(self) -> None:
        """Allocate derived arrays, and set the record's references to all arrays."""
        n = len(self.features)
        self.course = self.memory[0]
        self.course.n_inputs, self.course.part_start = n, int(self.starts[-1])
        self.inputs, self.beyond = np.empty(n), np.empty(n)
        self.given = np.empty(int(self.course.n_views))
        self.is_time = np.array([name in self.times for name in self.features.names], np.int64)
        self.course.part = Float64s.of(self.parts[-1])
        for name in (*_BY_FEATURE, *_RINGS, *_NEXT, "is_time"):
            array = getattr(self, name)
            kind = Int64s if array.dtype == np.int64 else Float64s
            setattr(self.course, name, kind.of(array))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        course = self.memory[0]
        restored.check_numbers("course", restored.Rows.of_memory(self.memory), course)
        checks.check_number(self, "n", course.n, 0, 2**62)
        n, n_views, window = len(self.features), int(course.n_views), int(course.window)
        checks.check_number(self, "n_removed", course.n_removed, 0, window)
        n_parts = max(len(self.starts), 1)
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(_BY_FEATURE, (n,))
        shapes |= {"surprises": (n_views, int(course.average)), "sums": (n_views,)}
        shapes |= {"means": (n_views, window), "excesses": (window,), "starts": (n_parts,)}
        shapes |= {"parts": (n_parts, 2, n)} | {
            name: (len(getattr(self, name)), 1 + n) for name in ("waiting", "dismissed")
        }
        check_shapes(self, shapes | {"recent": (n, int(course.average))})
        self._bind()

    def widened(self, names: Iterable[Hashable] = ()) -> Self:
        """Return a copy with additional features."""
        widened = type(self).__new__(type(self))
        state = {
            name: value.copy() if isinstance(value, np.ndarray) else value
            for name, value in self.__getstate__().items()
        }
        features = self.features.with_more(names)
        state |= {"memory": self.memory.copied(), "features": features}
        n_more = len(features) - len(self.features)
        for name in _BY_FEATURE:
            state[name] = np.append(state[name], np.zeros(n_more, state[name].dtype))
        absent = np.full((n_more, int(self.course.average)), np.nan)
        state["recent"] = np.concatenate([self.recent, absent])
        for name in ("waiting", "dismissed"):
            state[name] = np.pad(state[name], ((0, 0), (0, n_more)), constant_values=np.nan)
        widths = (0, 0), (0, 0), (0, n_more)
        state["parts"] = np.pad(self.parts, widths, constant_values=np.inf)
        widened.__setstate__(state)
        return widened

    def recent_surprises(self) -> NDArray[np.float64]:
        """Return surprises averaged over detectors, latest first, shape (samples,).

        The samples are the next sample and at most `average` - 1 previous samples.
        """
        course = self.course
        n = min(int(course.n), int(course.average) - 1)
        places = (int(course.n) - 1 - np.arange(n)) % int(course.average)
        before = self.surprises[:, places].mean(axis=0) / UNIT
        chances = np.maximum(1.0 - self.given, LEAST_CHANCE)
        return np.array([-np.log(chances).mean(), *before])

    def recent_means(self, n: int) -> dict[Hashable, float]:
        """Return the mean of each numeric feature over the next sample and `n` previous samples.

        The result excludes times, and features without a value in these samples.
        """
        means, values = {}, self.numbered(int(self.course.n) + 1 - n)[:, 1:]
        for name, row in zip(self.features.names, values.T, strict=True):
            known = row[~np.isnan(row)]
            if len(known) and name not in self.features.categories and name not in self.times:
                means[name] = float(known.mean())
        return means

    # Incidents. Samples have numbers, 1 for the first sample.

    def numbered(self, first: int) -> NDArray[np.float64]:
        """Return the samples from a recent number up to the next sample, with their numbers."""
        n, average = int(self.course.n), int(self.course.average)
        numbers = np.arange(max(first, n + 1 - average, 1), n + 1)
        rows = self.recent[:, (numbers - 1) % average].T
        rows = np.vstack([rows, self.inputs])
        return np.column_stack([[*numbers, n + 1], rows])

    @property
    def silent(self) -> list[Hashable]:
        """The features that become silent with the next sample."""
        names = enumerate(self.features.names)
        return [name for j, name in names if _will_be_silent(self.course, j)]

    def _latest(self, stop: int) -> NDArray[np.float64]:
        """Return the values of samples up to number `stop` that no part's range includes yet.

        The result has the values and the negated values, shape (samples, 2, features). Missing
        values, levels and times are NaN.
        """
        rows = self.numbered(int(self.starts[-1]) + 1)[:-1]
        values = rows[rows[:, 0] <= stop, 1:]
        is_number = (values < LEAST_LEVEL) & (self.is_time == 0)
        values = np.where(is_number, values, np.nan)
        return np.stack([values, -values], axis=1)

    def cut(self, start: int, oldest: int) -> Self:
        """Return a copy in which the sample after `start` samples begins a part of the stream.

        Parts that end before the number `oldest` are joined.
        """
        if start <= self.starts[-1]:
            return self
        made = self.widened()
        n_old = int((self.starts[1:] < oldest).sum())
        firsts = [0, *range(max(n_old, 1), len(self.starts))]
        made.parts[-1] = np.fmin.reduce([made.parts[-1], *self._latest(start)])
        joined = np.fmin.reduceat(made.parts, firsts)
        made.parts = np.append(joined, np.full_like(joined[:1], np.inf), axis=0)
        made.starts = np.append(self.starts[firsts], start)
        made._bind()
        # `_bind` has replaced the buffers for the next sample, so the sample is copied.
        made.inputs[:], made.given[:] = self.inputs, self.given
        return made

    def score_without(self, began: int) -> float:
        """Return the next sample's score without the means from the number `began` on."""
        look(self.course, began - 1)
        return float(self.course.score)

    def _places(self, first: int, last: int) -> NDArray[np.int64]:
        """Return the places of the means from sample `first` to `last` that are still ranked."""
        window = int(self.course.window)
        return np.arange(max(first - 1, int(self.course.n) - window), last) % window

    def remove_means(self, first: int, last: int, kept: int = 0) -> None:
        """Remove the means from sample `first` to `last`, except the `kept` largest."""
        places = self._places(first, last)
        means = -np.sort(-self.means[:, places], axis=1)
        means[:, kept:] = -1.0
        # One assignment, so that the call can be repeated after an interruption.
        self.means[:, places] = means
        self.course.n_removed = int((self.means[0] < 0.0).sum())

    def remove(self, began: int, first: int, last: int, is_over: bool) -> None:
        """Remove an incident's means from `first` to `last`, and also its ranges if `is_over`."""
        self.remove_means(first, last)
        self.excesses[self._places(first, last)] = 0.0
        if not is_over:
            return
        n = int(self.course.n)
        are_gone = (self.starts >= began - 1) & (self.starts < last)
        self.parts[are_gone] = np.inf
        latest = self._latest(began - 1 if are_gone[-1] else n)
        ends = np.fmin.reduce([*self.parts, *latest])
        is_known = ends[0] < np.inf
        self.lows[:], self.highs[:] = np.where(is_known, ends * [[1.0], [-1.0]], 0.0)
        self.n_values[~is_known] = self.n_changes[~is_known] = 0
