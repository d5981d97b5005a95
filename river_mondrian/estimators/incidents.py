"""Incidents (the samples that belong to alarms), and the effects of answers to alarms."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..inputs import Floats
from ..posteriors.course import Course

# Largest number of samples that wait for an answer, and of dismissed samples.
MOST_KEPT = 512
# States of an incident that has not ended, stored instead of the last sample. `RUNNING`: averages
# have reached the threshold. `RISING`: no average has reached the threshold.
RUNNING, RISING = 0, -1
# Answers to an alarm.
DISMISSED, CONFIRMED = "dismissed", "confirmed"
# Incidents whose alarm was not raised have one of these. `REPEATED`: the samples are near to
# dismissed samples. `UNRAISED`: the budget, a rest, or a bound on deviations prevented the alarm.
REPEATED, UNRAISED = "repeated", "unraised"
UNLISTED = frozenset({REPEATED, UNRAISED})
ANSWERS = UNLISTED | {"", DISMISSED, CONFIRMED}


class Alarm(NamedTuple):
    """An alarm, with the sample that raised the alarm, its score, and the features that caused it.

    Attributes
    ----------
    sample
        Number of the sample that raised the alarm, 1 for the first learned sample.
    began
        Number of the first anomalous sample, estimated from the scores of the averaged samples.
    score
        The score of the sample, at least the threshold. The score is 1 if a value is novel or a
        feature has become missing.
    novel
        The features with a novel value: a value far outside the range of all earlier values (see
        `tolerance` of `Alarms`).
    features
        A mapping from feature to its share of the detectors' scores, the largest share first. The
        shares add up to 1 if all detectors have `explain_one`. The mapping is empty if no detector
        has this method. If features have become missing, the mapping has only these features.
    expected
        A mapping from feature to its expected value: the median of its values in the nearest stored
        samples. Distances to these samples ignore the feature itself. A feature is absent if it is
        a category, or if no `NearestNeighborDetector` has the feature in its own unit: alone, or in
        a pipeline after `compose.Select`.
    deviation
        A mapping from feature to its mean value since `began` minus its expected value, in the
        feature's unit. The mean covers at most `average` samples. The features in `calendar`, and
        the features that `period` adds, are absent.

    """

    sample: int
    began: int
    score: float
    novel: tuple[Any, ...]
    features: dict[Any, float]
    expected: dict[Any, float]
    deviation: dict[Any, float]

    def __str__(self) -> str:
        lines = [f"alarm at sample {self.sample}, since sample {self.began}"]
        for name, share in self.features.items():
            lines.append(f"  {name!r}: {share:.0%} of the score")
            if name in self.deviation:
                lines[-1] += f", {self.deviation[name]:+.4g} from {self.expected[name]:.4g}"
        return "\n".join(lines)


class Incident(NamedTuple):
    """An alarm, its incident's first and last sample, and its answer (an empty string at first).

    The last sample of an incident that has not ended is `RUNNING` or `RISING`.
    """

    alarm: Alarm
    began: int
    ended: int
    answer: str

    @property
    def runs(self) -> bool:
        """Whether the incident has not ended."""
        return self.ended <= 0

    @property
    def is_separate(self) -> bool:
        """Whether answers to earlier alarms do not apply to the incident."""
        return bool(self.answer or self.alarm.novel)

    def last(self, n: int) -> int:
        """Return the last sample of the incident: `n` if the incident has not ended."""
        return n if self.runs else self.ended


Incidents: TypeAlias = tuple[Incident, ...]


def raised(incidents: Incidents) -> Incidents:
    """Return the incidents whose alarm was raised."""
    return tuple(one for one in incidents if one.answer not in UNLISTED)


def latest_raised(incidents: Incidents, place: int = 1) -> Alarm | None:
    """Return the latest raised alarm, or an earlier one if `place` is above 1; None if absent."""
    for one in reversed(incidents):
        place -= one.answer not in UNLISTED
        if place == 0:
            return one.alarm
    return None


def running(incidents: Incidents) -> list[Incident]:
    """Return the incidents that have not ended."""
    # Running incidents end together, so if the last incident has ended, all have ended.
    has_any = bool(incidents) and incidents[-1].runs
    return [one for one in incidents if one.runs] if has_any else []


def followed(
    incidents: Incidents, table: Course, alarm: Alarm | None, answer: str, kept: int
) -> tuple[Course, Incidents, Floats, Floats]:
    """Return the state after the next sample, which may raise an alarm. The inputs do not change.

    The answer is an empty string, or `REPEATED` or `UNRAISED` if the alarm is not raised.

    Returns
    -------
    The table, the incidents of the latest `kept` alarms and the latest incidents without an alarm,
    and the samples `waiting` and `dismissed` of the table.

    """
    course, n = table.course, int(table.course.n)
    score, unended = course.score, running(incidents)
    if unended:
        # If a running incident's own averages were ranked, long incidents would end too early.
        score = table.score_without(min(one.began for one in unended))
    state = RUNNING if score >= course.threshold else RISING
    if unended:
        # Incidents that have not ended have the same state, so the latest determines whether they
        # end.
        latest = unended[-1]
        is_late = n + 1 >= latest.alarm.sample + course.average
        is_over = state == RISING and (latest.ended == RUNNING or is_late)
        ended = n if is_over else state
        incidents = tuple(one._replace(ended=one.last(ended)) for one in incidents)
        table = table.cut(n, incidents[0].began) if is_over else table
    first = n + 1
    # Alarms that are not raised begin no incident within a running incident.
    if alarm is not None and not (answer and running(incidents)):
        first = max(alarm.began, 1 + max((one.ended for one in incidents), default=0))
        held = (one for one in incidents if one.runs or one.answer not in UNLISTED)
        incidents = (*held, Incident(alarm, first, state, answer))
        incidents = incidents[max(len(raised(incidents)) - kept, 0) :]
        table = table.cut(first - 1, incidents[0].began)
    waiting, dismissed = table.waiting, table.dismissed
    unended = [one for one in running(incidents) if one.answer not in UNLISTED]
    if unended:
        answers = [one.answer for one in unended if one.is_separate]
        if answers[-1:] == [DISMISSED]:
            dismissed = _joined(dismissed, table.numbered(first))
        else:
            waiting = _joined(waiting, table.numbered(first))
    return table, incidents, waiting, dismissed


def answered(
    incidents: Incidents, table: Course, place: int, answer: str
) -> tuple[Incidents, Floats, Floats]:
    """Return the state after an answer to the alarm at index `place`. The inputs do not change.

    Returns
    -------
    The incidents, and the samples `waiting` and `dismissed` of the table.

    """
    incident, later = incidents[place], incidents[place + 1 :]
    # This answer applies to the samples before the next alarm with its own answer.
    ends = [one.alarm.sample - 1 for one in later if one.is_separate]
    last = min([incident.last(int(table.course.n)), *ends])
    incidents = (*incidents[:place], incident._replace(answer=answer), *later)
    waiting, dismissed = table.waiting, table.dismissed
    if answer == DISMISSED:
        waiting, dismissed = _moved(waiting, dismissed, incident.began, last)
    else:
        dismissed, waiting = _moved(dismissed, waiting, incident.began, last)
    return incidents, waiting, dismissed


def _moved(source: Floats, target: Floats, first: int, last: int) -> tuple[Floats, Floats]:
    """Return both arrays after moving the samples with numbers from `first` to `last`."""
    is_moved = (source[:, 0] >= first) & (source[:, 0] <= last)
    return source[~is_moved], _joined(target, source[is_moved])


def _joined(rows: Floats, more: Floats) -> Floats:
    """Return the samples of both arrays, sorted by number, at most the latest `MOST_KEPT`."""
    order = np.unique(np.concatenate([rows[:, 0], more[:, 0]]), return_index=True)[1]
    return np.vstack([rows, more])[order][-MOST_KEPT:]
