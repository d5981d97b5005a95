"""Alarms: from the scores of a detector to a few alarms that a person can follow up."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from river import base, compose

from ..arguments import check_integer, check_positive, told
from ..checks import refuse
from ..inputs import Level, as_dict, ordered, read_values
from ..model import Model, Steps, locked, new_lock
from ..records.memory import check_shapes, owned
from .nearest_neighbor import NearestNeighborDetector

# Samples among which there are no ranks yet.
LEAST_RANKED = 100
# Alarms that are kept at least.
KEPT_ALARMS = 100
# A rank is at most 1 minus this.
LEAST_CHANCE = 1e-12


class Alarm(NamedTuple):
    """An alarm.

    Attributes
    ----------
    sample
        Number of the sample that raised it, 1 for the first one learned.
    began
        Number of the sample with which the unusual course began, as far as averages reach back.
    score
        The score of the sample: at least the threshold, 1 if a value is novel.
    novel
        The features whose value is outside the range of all values before.
    features
        A mapping from feature to its share of the raw scores, largest first, which add up to 1;
        empty if no detector explains its scores.

    """

    sample: int
    began: int
    score: float
    novel: tuple[Any, ...]
    features: dict[Any, float]


class Seen(NamedTuple):
    """What is known of a feature: its range, its last value, numbers of values and of changes."""

    low: float
    high: float
    last: float
    n: int
    n_changes: int

    def with_value(self, value: float) -> Seen:
        """Return what is known after one more value."""
        n_changes = self.n_changes + (value != self.last)
        return Seen(min(self.low, value), max(self.high, value), value, self.n + 1, n_changes)

    @property
    def is_steady(self) -> bool:
        """Whether most values are equal to the one before."""
        return 2 * self.n_changes < self.n

    @property
    def size(self) -> float:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))


class Course(NamedTuple):
    """All that changes with a sample, besides the detectors and the slots of the rings."""

    n: int = 0
    # For each detector the surprises of the latest `average` - 1 samples.
    surprises: tuple[tuple[float, ...], ...] = ()
    # `Seen` of each feature, and the latest `Alarm`s, as plain tuples.
    seen: dict[Hashable, tuple[Any, ...]] = {}  # noqa: RUF012
    alarms: tuple[tuple[Any, ...], ...] = ()


class Look(NamedTuple):
    """A sample as the next one: its score, and what there is after it."""

    score: float
    # For each detector its surprise and the mean of the latest ones.
    surprises: list[float]
    means: list[float]
    excess: float
    novel: tuple[Any, ...]
    seen: dict[Hashable, tuple[Any, ...]]


class Alarms(Model, base.AnomalyDetector):
    """Alarms by the scores of a detector.

    A detector's scores are high for each sample of an incident, and for one in a thousand usual
    samples. This class raises one alarm for an incident: it averages the surprise of the latest
    samples, ranks the average among earlier ones, and rests after an alarm. A value outside the
    range of all values before is unusual at once.

    Call `learn_one` for each sample, and read `alarm` after it.

    Parameters
    ----------
    detector
        A detector whose scores are within [0, 1], such as those of this package, or a pipeline that
        ends in one; or a list of these, which each see every sample: the mean of their log ranks
        counts. A copy learns. None stands for `NearestNeighborDetector(seed=1)`.
    threshold
        A score at or above it is an alarm.
    average
        Number of the latest samples whose surprise is averaged.
    window
        Number of the latest samples among whose averages an average is ranked.
    rest
        Number of samples after an alarm with no other alarm, except for novel values.
    tolerance
        A value is novel if it exceeds the range so far by this share of the range. While most
        values equal the one before, the share is of the largest absolute value if that is more.
    grace_period
        Number of samples at the beginning with no alarm, 100 or more. One period is a good choice
        if there is a season.
    budget
        At most so many alarms in so many successive samples, (alarms, samples): (1, 1440) is one
        alarm in any 1,440 samples. None sets no bound.
    calendar
        Features that tell the time, such as the hour. Their values are never novel.

    Notes
    -----
    The surprise of a sample is -log(1 - score). With m the mean of the latest surprises, the score
    is 1 - p, where p = (1 + number of the latest means that are at least m) / (1 + number of the
    latest means). The mean of -log p-values is Fisher's statistic; ranks replace its distribution,
    because successive samples are dependent. With several detectors p is the geometric mean.

    A novel value scores 1, unless a share of 1 - `threshold` of the latest samples exceeded the
    ranges as much: values that grow for ever, and many features with heavy tails, do so.

    The score is 0 during the grace period, during the rest, while the budget is spent, and while
    all features have been constant up to the tolerance.

    `score_one` changes nothing. All samples are learned, those of incidents as well.

    Examples
    --------

    >>> import math
    >>> import random
    >>> from river_mondrian import Alarms, NearestNeighborDetector

    >>> rng = random.Random(1)
    >>> detector = NearestNeighborDetector(seed=1)
    >>> alarms = Alarms(detector, threshold=0.999, grace_period=1440, budget=(1, 1440))
    >>> for minute in range(3 * 1440):
    ...     load = 50.0 + 20.0 * math.sin(minute / 1440 * 2.0 * math.pi) + rng.gauss(0.0, 1.0)
    ...     load += 50.0 if minute >= 4000 else 0.0
    ...     alarms.learn_one({"load": load, "errors": rng.gauss(5.0, 1.0)})
    ...     if alarms.alarm:
    ...         print(alarms.alarm.sample, alarms.alarm.began, list(alarms.alarm.features))
    4001 3999 ['load', 'errors']

    References
    ----------
    [^1]: Lavin, A. and Ahmad, S. (2015). Evaluating Real-Time Anomaly Detection Algorithms: The
    Numenta Anomaly Benchmark. IEEE International Conference on Machine Learning and Applications.

    """

    def __init__(
        self,
        detector: Any = None,
        threshold: float = 0.997,
        average: int = 40,
        window: int = 8192,
        rest: int = 100,
        tolerance: float = 0.05,
        grace_period: int = LEAST_RANKED,
        budget: tuple[int, int] | None = None,
        calendar: Sequence[Hashable] | None = None,
    ) -> None:
        check_positive("threshold", threshold)
        if threshold > 1.0:
            raise ValueError(f"threshold must be at most 1, got {threshold!r}")
        check_integer("average", average, 1)
        check_integer("window", window, LEAST_RANKED)
        check_integer("rest", rest, 0)
        check_positive("tolerance", tolerance)
        check_integer("grace_period", grace_period, LEAST_RANKED)
        _check_budget(budget)
        if calendar is not None and not isinstance(calendar, (list, tuple)):
            raise ValueError(f"calendar must be None or a list of features, got {calendar!r}")
        self._lock = new_lock()
        self.detector = detector
        self.threshold = threshold
        self.average = average
        self.window = window
        self.rest = rest
        self.tolerance = tolerance
        self.grace_period = grace_period
        self.budget = budget
        self.calendar = calendar
        self._views = _views_of(detector)
        # Rings with room for the next sample: nobody reads that slot before the sample counts.
        self._means = np.full((len(self._views), window + 1), -1.0)
        self._excesses = np.full(window + 1, -1.0)
        # Replaced as a whole by the assignment that counts a sample.
        self._course: tuple[Any, ...] = tuple(Course(surprises=((),) * len(self._views)))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        n_views, size = len(self._views), self.window + 1
        shapes = {"_means": (n_views, size), "_excesses": (size,)}
        self.__dict__.update(owned({name: self.__dict__[name] for name in shapes}))
        check_shapes(self, shapes)
        try:
            course = self._now
            is_sound = course.n >= 0 and len(course.surprises) == n_views
            for known in course.seen.values():
                is_sound = is_sound and Seen(*known).n > 0
            for alarm in course.alarms:
                is_sound = is_sound and 0 < Alarm(*alarm).sample <= course.n
        except (TypeError, AttributeError):
            is_sound = False
        if not is_sound:
            refuse(self, "_course", self._course, "but it should be what has been learned")

    @property
    def _now(self) -> Course:
        return Course(*self._course)

    # Learning.

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Learn a sample; `alarm` is the alarm that it raises, or None.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category if the detector takes
            these. NaN and None are the same as an absent key.

        Raises
        ------
        TypeError, ValueError
            If the detector refuses the sample. Nothing has changed then.

        """
        with self._lock:
            self._enter()
            x = as_dict(x)
            look = self._look(x)
            course = self._now
            slot = course.n % (self.window + 1)
            alarms = course.alarms
            if look.score >= self.threshold:
                kept = max(KEPT_ALARMS, self.budget[0] if self.budget else 0)
                alarms = (*alarms, tuple(self._alarm(x, look)))[-kept:]
            latest = (
                (*before, surprise)[-(self.average - 1) :] if self.average > 1 else ()
                for before, surprise in zip(course.surprises, look.surprises, strict=True)
            )
            after = Course(course.n + 1, tuple(latest), look.seen, alarms)
            self._means[:, slot] = look.means
            self._excesses[slot] = look.excess
            learning = [_learning(view, x) for view in self._views]
            # From here on the sample is learned.
            self._pending = Steps([*learning, lambda: setattr(self, "_course", tuple(after))])
            self._settle()

    def _alarm(self, x: Mapping[Any, Any], look: Look) -> Alarm:
        """Return the alarm of a sample that is about to be learned."""
        course = self._now
        means = [sum(s) / len(s) for s in zip(*course.surprises, strict=True)]
        # The sum of (surprise - 1), whose mean is 0 for usual samples, is largest from there on.
        total = best = sum(look.surprises) / len(look.surprises) - 1.0
        ago = 0
        for i, surprise in enumerate(reversed(means), 1):
            total += surprise - 1.0
            if total > best:
                best, ago = total, i
        shares: dict[Any, float] = {}
        for view in self._views:
            for name, share in _explained(view, x).items():
                shares[name] = shares.get(name, 0.0) + share / len(self._views)
        shares = dict(sorted(shares.items(), key=lambda item: -item[1]))
        return Alarm(course.n + 1, course.n + 1 - ago, look.score, look.novel, shares)

    # Scores.

    def _look(self, x: Mapping[Any, Any]) -> Look:
        """Return the score of a sample as the next one, and what follows from it."""
        course = self._now
        novel, excess, seen, is_flat = self._compared(x)
        surprises, means, log_chances = [], [], 0.0
        n_ranked = min(course.n, self.window)
        slot = course.n % (self.window + 1)
        for view, before, ring in zip(self._views, course.surprises, self._means, strict=True):
            surprise = -math.log(max(1.0 - float(view.score_one(x)), LEAST_CHANCE))
            mean = math.fsum([*before, surprise]) / (len(before) + 1)
            surprises.append(surprise)
            means.append(mean)
            n_higher = np.count_nonzero(ring >= mean) - bool(ring[slot] >= mean)
            log_chances += math.log((1 + n_higher) / (1 + n_ranked))
        score = 1.0 - math.exp(log_chances / len(self._views))
        if novel:
            ring = self._excesses
            n_as_novel = np.count_nonzero(ring >= excess) - bool(ring[slot] >= excess)
            if n_as_novel > (1.0 - self.threshold) * self.window:
                novel = ()
        if novel:
            score = 1.0
        elif is_flat or (course.alarms and course.n < course.alarms[-1][0] + self.rest):
            score = 0.0
        if course.n < self.grace_period or self._is_spent():
            score = 0.0
        return Look(score, surprises, means, excess, novel, seen)

    def _is_spent(self) -> bool:
        """Return whether the next sample would exceed the budget with an alarm."""
        if self.budget is None:
            return False
        most, n = self.budget
        course = self._now
        alarms = course.alarms
        return len(alarms) >= most and course.n + 1 - alarms[-most][0] < n

    def _compared(
        self, x: Mapping[Any, Any]
    ) -> tuple[tuple[Any, ...], float, dict[Hashable, tuple[Any, ...]], bool]:
        """Compare a sample with the ranges of its features.

        Returns
        -------
        The novel features, the largest excess as a share of the range, 0 if none is novel, what is
        known of the features after the sample, and whether all are constant up to the tolerance.

        """
        calendar = self.calendar or ()
        values = {
            name: value
            for name, value in read_values(x, levels=True).items()
            if type(value) is not Level and name not in calendar
        }
        seen = dict(self._now.seen)
        novel, most, is_flat = [], 0.0, bool(values)
        for name in [name for name in seen if name in values]:
            known, value = Seen(*seen[name]), values.pop(name)
            size = known.size if known.is_steady else 0.0
            width = max(known.high - known.low, size)
            beyond = max(value - known.high, known.low - value)
            if beyond > 0.0:
                excess = beyond / width if width > 0.0 else math.inf
                if excess >= self.tolerance:
                    novel.append(name)
                    most = max(most, excess)
            after = known.with_value(value)
            seen[name] = tuple(after)
            is_flat = is_flat and after.high - after.low < self.tolerance * size
        for name in ordered(values):
            seen[name] = tuple(Seen(values[name], values[name], values[name], 1, 0))
        return tuple(novel), most, seen, is_flat

    def score_one(self, x: Mapping[Any, Any]) -> float:
        """Return how unusual a sample would be as the next one, within [0, 1].

        Parameters
        ----------
        x
            A mapping from feature to number or level, as for `learn_one`.

        Returns
        -------
        The score, which is an alarm if it is at or above the threshold.

        Raises
        ------
        TypeError, ValueError
            If the detector refuses the sample.

        """
        with self._lock:
            self._enter()
            return self._look(as_dict(x)).score

    # What has been seen.

    @property
    @locked
    def alarm(self) -> Alarm | None:
        """The alarm that the sample learned last has raised, or None."""
        course = self._now
        is_new = bool(course.alarms) and course.alarms[-1][0] == course.n
        return Alarm(*course.alarms[-1]) if is_new else None

    @property
    @locked
    def alarms(self) -> list[Alarm]:
        """The latest 100 alarms, the first one first."""
        return [Alarm(*alarm) for alarm in self._now.alarms]

    @property
    @locked
    def n_samples(self) -> int:
        """Number of samples learned."""
        return self._now.n

    @property
    def _raw_memory_usage(self) -> int:
        size = sys.getsizeof(self) + self._means.nbytes + self._excesses.nbytes
        sizes: list[int] = [view._raw_memory_usage for view in self._views]
        return size + sum(sizes)


def _check_budget(budget: Any) -> None:
    """Refuse a budget that is neither None nor a pair of positive integers."""
    if budget is None:
        return
    if not isinstance(budget, (tuple, list)) or len(budget) != 2:
        raise ValueError(f"budget must be None or (alarms, samples), got {budget!r}")
    for name, value in zip(("alarms", "samples"), budget, strict=True):
        check_integer(f"{name} of budget", value, 1)


def _views_of(detector: Any) -> list[Any]:
    """Return copies of the detectors that are to learn."""
    if detector is None:
        return [NearestNeighborDetector(seed=1)]
    views = list(detector) if isinstance(detector, (list, tuple)) else [detector]
    for view in views:
        if not isinstance(_last_step(view), base.AnomalyDetector):
            raise TypeError(f"detector must be an anomaly detector or a list, got {told(view)}")
    if not views:
        raise ValueError("detector must not be an empty list")
    return copy.deepcopy(views)


def _last_step(view: Any) -> Any:
    return list(view.steps.values())[-1] if isinstance(view, compose.Pipeline) else view


def _learning(view: Any, x: Mapping[Any, Any]) -> Callable[[], None]:
    """Return a step that lets a detector learn a sample, once."""
    last = _last_step(view)
    n_before = getattr(last, "n_samples", None)
    begun: list[bool] = []

    def learn() -> None:
        has_learned = bool(begun) if n_before is None else last.n_samples != n_before
        if not has_learned:
            begun.append(True)
            view.learn_one(x)

    return learn


def _explained(view: Any, x: Mapping[Any, Any]) -> dict[Any, float]:
    """Return each feature's share of a detector's score; empty if it does not explain scores."""
    if isinstance(view, compose.Pipeline):
        *steps, view = view.steps.values()
        for step in steps:
            x = step.transform_one(x)
    if not hasattr(view, "explain_one"):
        return {}
    found: dict[Any, float] = {}
    shingle = getattr(view, "shingle", 1)
    for name, part in view.explain_one(x).items():
        feature = name[0] if shingle > 1 else name
        found[feature] = found.get(feature, 0.0) + part
    total = math.fsum(found.values())
    return {name: part / total for name, part in found.items()} if total > 0.0 else {}
