"""`Alarms`, which raises one alarm per incident from the scores of a detector."""

from __future__ import annotations

import copy
import functools
import math
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from river import base, compose

from ..arguments import check_integer, check_positive, told
from ..checks import refuse
from ..frames import read_frame, rows_of
from ..inputs import as_dict, check_value
from ..model import Model, locked
from ..posteriors.course import Course, CourseRecord, learn, look
from ..progress import one_by_one
from . import incidents as inc
from .calibrated import final_of
from .incidents import Alarm, Incident, Incidents
from .nearest_neighbor import NearestNeighborDetector

# Smallest window and grace period, in samples.
LEAST_RANKED = 100
# Number of the latest alarms that are kept. If `budget` allows more alarms, more are kept, because
# the budget counts them.
KEPT_ALARMS = 100
# Features that `period` adds to a sample.
PERIODIC = ("period_sin", "period_cos")
# Sign of the deviations that each `direction` permits.
SIGNS = {"up": 1.0, "down": -1.0}
# About this many of the ranked averages may be higher at the default threshold, in short windows.
MOST_HIGHER = 12
# Number of ranked averages of an ended incident, without an integer `period`.
MOST_OF_INCIDENT = 12
# Largest share of removed averages with which dismissed samples are removed.
LARGEST_SHARE = 0.2
# Smallest and largest `n_neighbors` of the default detectors with an integer `period`.
N_NEIGHBORS = 4, 16
# Largest number of features that an error names.
MOST_NAMED = 10


@dataclass(eq=False, repr=False)
class Alarms(Model, base.AnomalyDetector):
    """Anomaly detector that raises one alarm per incident, from the scores of other detectors.

    A detector's scores are high for each sample of an incident, and for some normal samples. This
    class aims at one alarm per incident[^1]. Transformed scores, called surprises (see the notes),
    are averaged over the latest samples, and the average is ranked among earlier averages. After an
    alarm, averages raise no alarm for `rest` samples, so a longer incident may raise another alarm.
    Regardless of averages, an alarm is also raised if a value is novel, that is, far outside the
    range of all earlier values, or if a feature has become missing (see the notes).

    Call `learn_one` for each sample, and then read `alarm`. To answer an alarm, call `confirm` or
    `dismiss`.

    Parameters
    ----------
    detector
        A detector whose scores are within [0, 1], such as the detectors of this package, or a
        pipeline that ends in a detector. With a list of detectors, each detector scores every
        sample; the notes explain how the scores are combined. The detectors are copied, and only
        the copies learn. None means two `NearestNeighborDetector`s, one for single samples and one
        with `shingle=8`. With a `period`, these detectors have the same `window` as `Alarms`. With
        an integer `period`, their `n_neighbors` is 1/12 of the period, but from 4 to 16.
    threshold
        A score at or above the threshold raises an alarm. None means .997 or, with a `window` below
        4,000, 1 - 12 / `window`. So about 12 of the ranked averages may be higher.
    average
        Number of the latest samples whose surprises are averaged. Choose at most the length of the
        shortest incident. None means 40 or, with an integer `period`, 1/24 of the period, but from
        4 to 40.
    window
        Number of the latest averages among which an average is ranked. None means 8,192 or, with an
        integer `period`, 14 periods, but at least 100.
    rest
        Number of samples without alarms after an alarm, except alarms for novel values and missing
        features. None means 100 or, with an integer `period`, a quarter of the period, but at most
        100.
    tolerance
        A value is novel if its distance from the range of all earlier values is at least this share
        of the range, unless such values are frequent (see the notes). If most values of a feature
        equal the previous value, the share refers to the range or the largest absolute value,
        whichever is larger. None means .05 or, with an integer `period`, .2.
    grace_period
        Number of samples without alarms at the beginning, 100 or more. For seasonal data, one
        season is a good choice. None means 100 or, with an integer `period`, one period, but at
        least 100.
    budget
        A pair (alarms, samples): any `samples` successive samples raise at most `alarms` alarms.
        For example, (1, 1440) allows one alarm in any 1,440 samples. None means no limit or, with
        an integer `period`, one alarm per period.
    direction
        A mapping from feature to "up" or "down", such as `{"load": "up"}`. The feature then raises
        an alarm only if its deviation has this sign. Other features raise alarms in both
        directions.
    at_least
        A mapping from feature to number, such as `{"load": 10.0}`. The feature then raises an alarm
        only if its absolute deviation is at least this number, in the feature's unit.
    calendar
        A list of features that are times, such as the hour. Values of these features are never
        novel. The first sample must have a value of each of these features; later values may be
        missing.
    period
        Length of a season in samples, such as 1440 for one value per minute and a daily season. The
        detectors then get two more features, the sine and cosine of the time: `period_sin` and
        `period_cos`. An integer period also changes the defaults of `average`, `window`, `rest`,
        `tolerance`, `grace_period` and `budget`, and so of `threshold`. If samples are irregular,
        pass a pair (feature, seconds), such as `("time", 86400)`, with a feature that is a time in
        seconds. Each sample must have this feature, which the detectors do not get.

    Notes
    -----
    The surprise of a sample is -log(1 - s), where s is the detector's score. Let m be the mean of
    the latest surprises, and k the number of the N latest means that are at least m. With p = (1 +
    k) / (1 + N), the score of `Alarms` is 1 - p. If 1 - s is a p-value, m is Fisher's statistic up
    to a constant factor. Successive samples are dependent, so ranks replace the distribution of
    this statistic. With several detectors, p is the geometric mean of the detectors' values of p.

    The N latest means belong to the latest `window` samples. While a detector stores its first
    samples, its scores are first high, then low. Low means would give later means too high scores,
    so a mean of the second `window` samples replaces a mean of the first `window` samples only if
    the new mean is higher.

    The means of a long incident would hide the next incidents, unless these are larger. So after
    its end, an incident keeps at most 12 means in the ranking, the largest. With an integer
    `period`, an incident keeps only its largest mean, because the budget limits false alarms. The
    same applies if the alarm was not raised because of the budget, `rest`, `direction` or
    `at_least`.

    A sample with a novel value has the score 1, unless a rule below sets the score to 0. Let e be
    the sample's largest distance from an earlier range, as a share of the range. No value counts as
    novel if more than the fraction 1 - `threshold` of the latest `window` samples had a distance of
    e or more. Such distances are frequent if values keep growing, or if many features have heavy
    tails.

    A feature raises an alarm if it has no value in `average` successive samples, but a value in at
    least 95 % of the earlier samples. Up to `window` samples, this share is the average over the
    earlier samples. Then it is an exponential average with the weight 1 / `window` for a new
    sample. If the grace period or the budget prevents the alarm, the alarm is raised later, unless
    the feature has a value again.

    An incident begins at `began` of its alarm, or after the end of the previous incident, whichever
    is later. Its last sample is the last before 1 - p falls below `threshold`. Here, N and k do not
    count the incident's own means. If 1 - p does not reach `threshold`, the incident ends `average`
    samples after the alarm.

    With `direction` or `at_least`, an alarm is raised only if at least one feature passes both. Let
    d be the number of features with a share of the score, except times, and let S be the sum of
    their shares. Only features with a share of at least S / d count. A feature without an expected
    value passes. This rule applies to novel values, too.

    The score is 0 during the grace period, if no feature passes, while another alarm would exceed
    the budget, and if the samples since `began` are near dismissed samples (see `dismiss`). Only
    samples whose surprise is at least the mean surprise since `began` are compared. If a value is
    novel, only the sample itself is compared. The score is also 0 for `rest` samples after an
    alarm, during a confirmed incident, and while all features are constant up to the tolerance.
    These three rules do not apply if a value is novel or a feature has become missing.

    `score_one` does not change the model. All samples are learned, including samples of incidents,
    which `confirm` removes again.

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

    The incident was real, so its samples shall not hide later incidents:

    >>> alarms.confirm(alarms.alarms[0])

    References
    ----------
    [^1]: Lavin, A. and Ahmad, S. (2015). Evaluating Real-Time Anomaly Detection Algorithms: The
    Numenta Anomaly Benchmark. IEEE International Conference on Machine Learning and Applications.

    """

    detector: Any = None
    threshold: float | None = None
    average: int | None = None
    window: int | None = None
    rest: int | None = None
    tolerance: float | None = None
    grace_period: int | None = None
    budget: tuple[int, int] | None = None
    direction: Mapping[Hashable, str] | None = None
    at_least: Mapping[Hashable, float] | None = None
    calendar: Sequence[Hashable] | None = None
    period: int | tuple[Hashable, float] | None = None

    _TRANSIENT = Model._TRANSIENT | {
        *("_threshold", "_average", "_window", "_rest", "_tolerance", "_grace", "_budget", "_most")
    }

    def _renew(self) -> None:
        super()._renew()
        # Parameters that are None get defaults that depend on the period.
        n = None if isinstance(self.period, (tuple, list)) else self.period
        self._window = self.window or (max(14 * n, LEAST_RANKED) if n else 8192)
        self._threshold = self.threshold or min(0.997, 1.0 - MOST_HIGHER / self._window)
        self._average = self.average or (min(max(n // 24, 4), 40) if n else 40)
        self._rest = (min(n // 4, 100) if n else 100) if self.rest is None else self.rest
        self._tolerance = self.tolerance or (0.2 if n else 0.05)
        self._grace = self.grace_period or max(n or 0, LEAST_RANKED)
        self._budget = self.budget or ((1, n) if n else None)
        # Number of ranked averages of an ended incident.
        self._most = 1 if n else MOST_OF_INCIDENT

    def __post_init__(self) -> None:
        if self.threshold is not None:
            check_positive("threshold", self.threshold)
            if self.threshold > 1.0:
                raise ValueError(f"threshold must be at most 1, got {self.threshold!r}")
        check_integer("average", self.average, 1, None)
        check_integer("window", self.window, LEAST_RANKED, None)
        check_integer("rest", self.rest, 0, None)
        if self.tolerance is not None:
            check_positive("tolerance", self.tolerance)
        check_integer("grace_period", self.grace_period, LEAST_RANKED, None)
        _check_period(self.period)
        _check_budget(self.budget)
        _check_bounds(self.direction, self.at_least)
        if self.calendar is not None and not isinstance(self.calendar, (list, tuple)):
            raise ValueError(f"calendar must be None or a list of features, got {self.calendar!r}")
        super().__post_init__()
        self._views = _views_of(self.detector, self.period, self._window)
        self._table = Course(len(self._views), self._measures(), self._times())
        # The latest alarms, each with its incident.
        self._alarms: tuple[Incident, ...] = ()

    def _measures(self) -> tuple[int, int, float, float]:
        return self._window, self._average, self._threshold, self._tolerance

    def _times(self) -> tuple[Hashable, ...]:
        """Return the names of the features whose values are never novel."""
        return (*(self.calendar or ()), *(() if self.period is None else PERIODIC))

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        # Alarms are stored as plain tuples, so that files and pickles need no class `Alarm`.
        return state | {"_alarms": tuple((tuple(one[0]), *one[1:]) for one in state["_alarms"])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        course = self._table.course
        parameters = len(self._views), *self._measures(), *self._times()
        stored = course.n_views, course.window, course.average, course.threshold, course.tolerance
        if parameters != (*stored, *self._table.times):
            refuse(self, "_table", stored, f"but the parameters are {parameters}")
        stored_alarms: Any = self._alarms
        try:
            self._alarms = tuple(Incident(Alarm(*one), *rest) for one, *rest in stored_alarms)
            is_sound = all(
                0 < alarm.began <= began <= alarm.sample <= course.n
                and inc.RISING <= ended <= course.n
                and answer in inc.ANSWERS
                for alarm, began, ended, answer in self._alarms
            )
        except (TypeError, ValueError):
            is_sound = False
        if not is_sound:
            refuse(self, "_alarms", stored_alarms, "but each should belong to a learned sample")

    # Learning.

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Learn a sample, and set `alarm` to the alarm that the sample raises, or to None.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category if the detector accepts
            levels. NaN and None are the same as an absent key.

        Raises
        ------
        TypeError, ValueError
            If the detector rejects the sample, or its score is not from 0 to 1. If the first sample
            lacks a feature in `calendar`. If a sample lacks the time in `period`, or has a feature
            that `period` adds. Then nothing has changed.

        """
        with self._lock:
            self._enter()
            x = self._timed(as_dict(x))
            table = self._scored(x)
            n = int(table.course.n)
            is_early = bool(table.course.is_silent) and self._is_barred(n + 1)
            silent = table.silent if is_early else []
            postponed = [table.features.index_of[name] for name in silent]
            alarm, answer = self._next_alarm(x, table)
            kept = max(KEPT_ALARMS, self._budget[0] if self._budget else 0)
            table, alarms, *rows = inc.followed(self._alarms, table, alarm, answer, kept)

            def count() -> None:
                self._table, self._alarms = table, alarms
                table.waiting, table.dismissed = rows
                if table.course.n == n:
                    learn(table.course)
                # The alarm of these missing features was prevented, so it is due again at the next
                # sample, if the features are still missing.
                table.n_absent[postponed] = self._average - 1

            steps: list[Callable[[], object]] = [_learning(view, x) for view in self._views]
            steps.append(count)
            steps += self._removals(alarms, table, n)
            view = self._views[0]
            n_learned = None if isinstance(final_of(view), Model) else _n_learned(view)
            try:
                self._run_steps(steps)
            except Exception:
                # A pending sample would be learned first by each later call, and the detector would
                # reject the sample each time, so the pending steps are dropped.
                if n_learned is not None and _n_learned(view) == n_learned:
                    self._pending = None
                raise

    def _timed(self, x: dict[Any, Any]) -> dict[Any, Any]:
        """Return a sample with the sine and cosine of the phase, and without its time.

        Without a period, return the sample unchanged.
        """
        if self.period is None:
            return x
        for own in PERIODIC:
            if own in x:
                raise ValueError(
                    f"feature {own!r} must be absent, because period adds it, got {x[own]!r}"
                )
        if isinstance(self.period, (tuple, list)):
            name, length = self.period
            time = check_value(name, x.get(name))
            if time != time:
                raise ValueError(f"feature {name!r} must have a value, because it is the time")
            x = {key: value for key, value in x.items() if key != name}
        else:
            time, length = float(self._table.course.n), self.period
        angle = 2.0 * math.pi * (time % length) / length
        return {**x, **dict(zip(PERIODIC, (math.sin(angle), math.cos(angle)), strict=True))}

    # Answers.

    def dismiss(self, alarm: Alarm) -> None:
        """Report that the incident of an alarm was normal.

        A later alarm is not raised if its samples are as near to the dismissed samples as 95 % of
        the learned samples were to the stored samples. Samples whose surprise is below the mean
        surprise since `began` are not compared. If the incident has not ended, its later samples
        are dismissed, too, up to the next alarm with a novel value. This alarm needs its own
        answer. The latest 512 dismissed samples are kept.

        Dismissed incidents, and later incidents near to them, hide few smaller incidents, because
        their averages are removed from the ranking, and their raw scores from the ranks of each
        `NearestNeighborDetector`, up to the last sample whose shingle contains a sample of the
        incident. The incidents' values stay in ranges and stores, because these values are normal.
        Once a fifth of the averages has been removed, such incidents are frequent and therefore
        usual, so no more are removed.

        Samples are compared by each `NearestNeighborDetector` that has the features in their own
        units: alone, or in a pipeline after `compose.Select`. Without such a detector, a dismissal
        prevents no later alarm. The latest 512 samples of incidents without an answer are kept,
        too.

        Parameters
        ----------
        alarm
            One of `alarms`.

        Raises
        ------
        ValueError
            If the alarm is not one of `alarms`. Then nothing has changed.

        """
        self._answer(alarm, inc.DISMISSED)

    def confirm(self, alarm: Alarm) -> None:
        """Report that the incident of an alarm was real, so that it does not hide later incidents.

        The incident's averages are removed from the ranking, its values from the ranges of the
        features, and its samples from the `NearestNeighborDetector`s. If the incident has not
        ended, its later samples are removed after they are learned. Other detectors keep the
        samples of the incident. A `RandomCutForest` finds stored samples only by their values,
        which other samples may share.

        Parameters
        ----------
        alarm
            One of `alarms`.

        Raises
        ------
        ValueError
            If the alarm is not one of `alarms`. Then nothing has changed.

        """
        self._answer(alarm, inc.CONFIRMED)

    def _answer(self, alarm: Alarm, answer: str) -> None:
        with self._lock:
            self._enter()
            held, table = self._alarms, self._table
            known = [one.alarm for one in inc.raised(held)]
            if not isinstance(alarm, tuple) or alarm not in known:
                raise ValueError(f"the alarm must be one of the latest alarms, got {alarm!r}")
            place = [one.alarm for one in held].index(alarm)
            incident = held[place]
            if incident.answer == answer:
                return
            alarms, *rows = inc.answered(held, table, place, answer)

            def keep() -> None:
                self._alarms = alarms
                table.waiting, table.dismissed = rows

            n, incident = int(table.course.n), alarms[place]
            self._run_steps([keep, *self._removal(incident, alarms, table, incident.began, n)])

    def _removals(self, alarms: Incidents, table: Course, n: int) -> list[Callable[[], object]]:
        """Return the steps that remove samples of incidents after the sample n + 1 is learned."""
        steps: list[Callable[[], object]] = []
        # Shingles contain an incident's samples even after its end, so the removal continues.
        oldest = n - self._longest()
        if not alarms or 0 < alarms[-1].ended < oldest:
            return steps
        for one in alarms:
            if one.answer in ("", inc.UNRAISED):
                if one.ended == n:
                    steps.append(functools.partial(table.remove_means, one.began, n, self._most))
            elif one.runs or one.ended >= oldest:
                first = one.began if one.alarm.sample == n + 1 else n + 1
                steps += self._removal(one, alarms, table, first, n + 1)
        return steps

    def _longest(self) -> int:
        """Return the largest number of mappings in a shingle."""
        return max(getattr(final_of(view), "shingle", 1) for view in self._views)

    def _removal(
        self, incident: Incident, incidents: Incidents, table: Course, first: int, n: int
    ) -> list[Callable[[], object]]:
        """Return the step that removes an answered incident's samples from `first` on, or none."""
        last = incident.last(n)
        if incident.answer == inc.CONFIRMED:
            return [functools.partial(self._remove, incident, first, last, last)]
        # Dismissed samples that are frequent are usual, so they stay.
        room = int(LARGEST_SHARE * min(n, self._window) - table.course.n_removed)
        if room <= 0:
            return []
        # The shingles after the incident contain its samples, but may belong to the next incident.
        later = [one.began - 1 for one in incidents if one.began > last]
        last_mean = min([last + self._longest() - 1, first + room - 1, n, *later])
        last = min(last, first + room - 1)
        return [functools.partial(self._remove, incident, first, last, last_mean)]

    def _remove(self, incident: Incident, first: int, last: int, last_mean: int) -> None:
        """Remove an answered incident's samples from `first` to `last`.

        Averages of a dismissed incident are removed up to the sample `last_mean`. Confirmed samples
        are removed from averages, ranges and stores. The values of dismissed samples are normal, so
        these samples are removed only from averages and from ranks.
        """
        n, table = int(self._table.course.n), self._table
        is_confirmed = incident.answer == inc.CONFIRMED
        if is_confirmed:
            table.remove(incident.began, first, last, not incident.runs)
        else:
            table.remove_means(first, last_mean)
        for view in self._views:
            own = final_of(view)
            if not isinstance(own, NearestNeighborDetector):
                continue
            # Number of the last shingle with a sample of the incident.
            last_shingle = last + own.shingle - 1
            if is_confirmed:
                # The detector may have learned samples before it was passed to `Alarms`, so its
                # sample numbers differ.
                more = own.n_samples - n - 1
                own._forget(first + more, last_shingle + more)
            elif last >= first or not incident.runs:
                # `skip_anomalies` reads the latest score, so this score is removed later.
                first_removed = max(first - 1, incident.began)
                own._remove_scores(max(n - last_shingle, 1), n - first_removed)

    def learn_many(self, X: Any, *, progress: bool = False) -> None:
        """Learn the rows of a frame, in order, with the same result as `learn_one` on each row.

        Afterwards, `alarms` contains the alarms that the rows raised.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...;
            nulls and NaN are missing values.
        progress
            Whether to show the number of learned rows on stderr, with tqdm if it is installed, else
            as text. The result does not depend on `progress`.

        Raises
        ------
        TypeError, ValueError
            As for `learn_one`. If the frame has an invalid value or a column twice, nothing has
            been learned. If a detector rejects a row, the rows before this row have been learned.

        """
        with self._lock:
            # All rows are checked first, so that an invalid frame changes nothing. The result is
            # not used, because detectors need the user's values instead of codes of levels.
            read_frame(X, self._table.features)
            _, rows = rows_of(X)
        one_by_one(lambda i: self.learn_one(rows[i]), len(rows), progress)

    def _alarm(self, x: Mapping[Any, Any], table: Course, score: float) -> Alarm:
        """Return the alarm of the sample in the table, which has not been learned."""
        number, names = table.course.n + 1, table.features.names
        ago = self._first_ago(table)
        if table.course.is_silent:
            silent = dict.fromkeys(table.silent, 1 / len(table.silent))
            return Alarm(number, number - ago, score, (), silent, {}, {})
        shares: dict[Any, float] = {}
        near: dict[Any, list[Any]] = {}
        for view in self._views:
            for name, share in _explained(view, x).items():
                shares[name] = shares.get(name, 0.0) + share / len(self._views)
        for detector in self._neighbor_detectors():
            for name, values in detector._neighbors(x).items():
                near.setdefault(name, []).append(values)
        shares = dict(sorted(shares.items(), key=lambda item: -item[1]))
        indices = np.flatnonzero(table.beyond).tolist() if table.course.is_novel else []
        novel = tuple(names[i] for i in indices)
        expected = {name: float(np.median(np.concatenate(own))) for name, own in near.items()}
        means = table.recent_means(ago)
        deviation = {name: means[name] - expected[name] for name in expected if name in means}
        return Alarm(number, number - ago, score, novel, shares, expected, deviation)

    def _first_ago(self, table: Course) -> int:
        """Return how many samples before the sample in the table the anomalous samples began."""
        if table.course.is_silent:
            return self._average - 1
        # Surprises of normal samples have a mean of 1. So the sum of (surprise - 1) from a sample
        # up to the latest is largest for the first anomalous sample.
        return int(np.argmax(np.cumsum(table.recent_surprises() - 1.0)))

    def _passes(self, alarm: Alarm) -> bool:
        """Return whether a feature with a large share passes `direction` and `at_least`."""
        direction, at_least = self.direction or {}, self.at_least or {}
        times = self._table.times
        shares = {name: share for name, share in alarm.features.items() if name not in times}
        least = (1.0 - 1e-9) * sum(shares.values()) / max(len(shares), 1)
        names = [name for name, share in shares.items() if share >= least]
        for name in names:
            deviation = alarm.deviation.get(name)
            sign = SIGNS[direction[name]] if name in direction else 0.0
            if deviation is None or (
                deviation * sign >= 0.0 and abs(deviation) >= at_least.get(name, 0.0)
            ):
                return True
        return not names

    def _neighbor_detectors(self) -> list[NearestNeighborDetector]:
        """Return the `NearestNeighborDetector`s that read the user's values."""
        detectors = []
        for *steps, last in map(_steps_of, self._views):
            are_selections = all(isinstance(step, compose.Select) for step in steps)
            if are_selections and isinstance(last, NearestNeighborDetector):
                detectors.append(last)
        return detectors

    def _is_repeated(self, table: Course) -> bool:
        """Return whether the latest samples' most surprising ones are near dismissed samples."""
        detectors = self._neighbor_detectors()
        if not detectors or not len(table.dismissed):
            return False
        # If a value is novel, earlier samples are not compared, because they may belong to a
        # dismissed incident that has not ended.
        is_alone = table.course.is_novel and not table.course.is_silent
        first = int(table.course.n) + 1 - (0 if is_alone else self._first_ago(table))
        rows, names = table.numbered(first)[:, 1:], table.features.names
        surprises = table.recent_surprises()[: len(rows)][::-1]
        # Normal samples before and after an incident are far from dismissed samples, so samples
        # with a small surprise are not compared. The factor allows for rounding if all surprises
        # are equal.
        rows = rows[surprises >= (1.0 - 1e-9) * surprises.mean()]
        return all(one._are_near(names, rows, table.dismissed[:, 1:]) for one in detectors)

    # Scores.

    def _next_alarm(self, x: Mapping[Any, Any], table: Course) -> tuple[Alarm | None, str]:
        """Return the alarm of the sample in the table, or None; and the alarm's answer.

        The answer is `REPEATED` or `UNRAISED` if the alarm is not raised, and an empty string
        otherwise.
        """
        course = table.course
        score = self._score(course)
        is_high = score >= self._threshold
        if not is_high:
            is_unusual = not course.is_flat and course.score >= self._threshold
            if course.n < self._grace or not (course.is_novel or is_unusual):
                return None, ""
            if inc.running(self._alarms):
                return None, ""
        if self._is_repeated(table):
            number = int(course.n) + 1
            alarm = Alarm(number, number - self._first_ago(table), score, (), {}, {}, {})
            return alarm, inc.REPEATED
        alarm = self._alarm(x, table, score)
        return alarm, "" if is_high and self._passes(alarm) else inc.UNRAISED

    def _scored(self, x: Mapping[Any, Any]) -> Course:
        """Write a sample and its scores to the table; return the table."""
        table = self._read(x)
        for i, view in enumerate(self._views):
            score = float(view.score_one(x))
            if not 0.0 <= score <= 1.0:
                name = type(final_of(view)).__name__
                raise ValueError(f"scores of {name} must be from 0 to 1, got {score!r}")
            table.given[i] = score
        table.features.check_input(look(table.course, int(table.course.n)), table.inputs)
        return table

    def _score(self, course: CourseRecord) -> float:
        """Return the score of the sample in the table, ignoring `direction` and `at_least`."""
        n, latest = course.n, inc.latest_raised(self._alarms)
        if self._is_barred(n + 1):
            return 0.0
        if course.is_novel or course.is_silent:
            return 1.0
        is_confirmed = any(one.answer == inc.CONFIRMED for one in inc.running(self._alarms))
        is_resting = latest is not None and n < latest.sample + self._rest
        if course.is_flat or is_confirmed or is_resting:
            return 0.0
        return float(course.score)

    def _read(self, x: Mapping[Any, Any]) -> Course:
        """Write a sample to the table, copied if features are new; return the table."""
        table = self._table
        if not table.features.read_known(x, table.inputs):
            values = table.features.read(x, levels=True)
            new = table.features.new_of(values)
            if new:
                table = table.widened(new)
            table.features.write(values, table.inputs)
        if table.course.n == 0:
            # Only the first sample is checked, because known features stay known.
            for name in self.calendar or ():
                if name not in table.features.index_of:
                    raise ValueError(
                        f"feature {name!r} in calendar must have a value in the first sample, got "
                        f"values of {table.features.names[:MOST_NAMED]}"
                    )
        return table

    def _is_barred(self, number: int) -> bool:
        """Return whether a sample is in the grace period, or its alarm would exceed the budget."""
        if number <= self._grace:
            return True
        if self._budget is None:
            return False
        limit, n = self._budget
        first = inc.latest_raised(self._alarms, limit)
        return first is not None and number - first.sample < n

    def score_one(self, x: Mapping[Any, Any]) -> float:
        """Return the score that a sample would have as the next sample, within [0, 1].

        Parameters
        ----------
        x
            A mapping from feature to number or level, as for `learn_one`.

        Returns
        -------
        The score. If the score is at or above the threshold, learning the sample raises an alarm.

        Raises
        ------
        TypeError, ValueError
            As for `learn_one`.

        """
        with self._lock:
            self._enter()
            x = self._timed(as_dict(x))
            table = self._scored(x)
            score = self._score(table.course)
            # The alarm takes longer than the score, so it is created only if bounds or dismissals
            # need it.
            needs_alarm = self.direction or self.at_least or len(table.dismissed)
            if needs_alarm and score >= self._threshold:
                alarm, answer = self._next_alarm(x, table)
                return 0.0 if alarm is None or answer else score
            return score

    # Learned state.

    @property
    @locked
    def alarm(self) -> Alarm | None:
        """The alarm that the last learned sample raised, or None."""
        latest = inc.latest_raised(self._alarms)
        if latest is None or latest.sample != self.n_samples:
            return None
        return _copied(latest)

    @property
    @locked
    def alarms(self) -> list[Alarm]:
        """The latest alarms, the oldest first: at most 100, or more if `budget` allows more."""
        return [_copied(one.alarm) for one in inc.raised(self._alarms)]

    @property
    @locked
    def n_samples(self) -> int:
        """Number of samples learned."""
        return int(self._table.course.n)

    @property
    def _raw_memory_usage(self) -> int:
        sizes: list[int] = [view._raw_memory_usage for view in self._views]
        return sys.getsizeof(self) + self._table.nbytes + sum(sizes)


def _check_budget(budget: Any) -> None:
    """Raise an error unless a budget is None or a pair of positive integers."""
    if budget is None:
        return
    if not isinstance(budget, (tuple, list)) or len(budget) != 2:
        raise ValueError(f"budget must be None or (alarms, samples), got {budget!r}")
    for name, value in zip(("alarms", "samples"), budget, strict=True):
        check_integer(f"{name} of budget", value, 1)


def _check_bounds(direction: Any, at_least: Any) -> None:
    """Raise an error unless each direction is "up" or "down", and each bound is positive."""
    for name, value in (("direction", direction), ("at_least", at_least)):
        if value is not None and not isinstance(value, Mapping):
            raise ValueError(f"{name} must be None or a mapping, got {value!r}")
    for feature, sign in (direction or {}).items():
        if sign not in ("up", "down"):
            raise ValueError(f"direction of {feature!r} must be 'up' or 'down', got {sign!r}")
    for feature, least in (at_least or {}).items():
        check_positive(f"at_least of {feature!r}", least)


def _check_period(period: Any) -> None:
    """Raise an error unless a period is None, an integer or a pair (feature, seconds)."""
    if not isinstance(period, (tuple, list)):
        check_integer("period", period, 2, None)
    elif len(period) != 2 or not isinstance(period[0], Hashable):
        raise ValueError(f"period must be an integer or (feature, seconds), got {period!r}")
    else:
        check_positive("seconds of period", period[1])


def _copied(alarm: Alarm) -> Alarm:
    """Return a copy of an alarm, with copies of its mappings."""
    return Alarm._make(map(copy.copy, alarm))


def _views_of(detector: Any, period: Any, window: int) -> list[Any]:
    """Return copies of the detectors; None means default detectors for the period and window."""
    if detector is None:
        given: dict[str, Any] = {} if period is None else {"window": window}
        if not (period is None or isinstance(period, (tuple, list))):
            # With few samples in a period, the stored periods have few samples at nearly the same
            # time, and a recurring job is near to few samples.
            given["n_neighbors"] = int(np.clip(period // 12, *N_NEIGHBORS))
        views = [NearestNeighborDetector(**given, seed=1)]
        return [*views, NearestNeighborDetector(**given, shingle=8, seed=2)]
    views = list(detector) if isinstance(detector, (list, tuple)) else [detector]
    for view in views:
        if not isinstance(final_of(view), base.AnomalyDetector):
            raise TypeError(f"detector must be an anomaly detector or a list, got {told(view)}")
    if not views:
        raise ValueError("detector must not be an empty list")
    return copy.deepcopy(views)


def _learning(view: Any, x: Mapping[Any, Any]) -> Callable[[], None]:
    """Return a function that makes a detector learn a sample, at most once if called repeatedly."""
    n, begun = _n_learned(view), [False]

    def step() -> None:
        # If the detector does not count samples, an interrupted call may or may not have learned
        # the sample. So the call is not repeated.
        if not begun[0] or (n is not None and _n_learned(view) == n):
            begun[0] = True
            view.learn_one(x)

    return step


def _n_learned(view: Any) -> int | None:
    """Return the number of samples that a detector has learned; None if unknown."""
    last = final_of(view)
    n: int | None = getattr(last, "_n_mappings", None)
    return getattr(last, "n_samples", None) if n is None else n


def _steps_of(view: Any) -> list[Any]:
    """Return the steps of a pipeline, or the model itself if it is not a pipeline."""
    return [*view.steps.values()] if isinstance(view, compose.Pipeline) else [view]


def _explained(view: Any, x: Mapping[Any, Any]) -> dict[Any, float]:
    """Return each feature's share of a detector's score; empty without `explain_one`."""
    *steps, last = _steps_of(view)
    if not hasattr(last, "explain_one"):
        return {}
    for step in steps:
        x = step.transform_one(x)
    totals: dict[Any, float] = {}
    shingle = getattr(last, "shingle", 1)
    for name, part in last.explain_one(x).items():
        feature = name[0] if shingle > 1 else name
        totals[feature] = totals.get(feature, 0.0) + part
    total = math.fsum(totals.values())
    return {name: part / total for name, part in totals.items()} if total > 0.0 else {}
