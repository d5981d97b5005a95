"""Generated metrics of a server, with a daily season, incidents, and a nightly job."""

from typing import NamedTuple

import numpy as np

from ..data import Array

# Samples in a day, with a value per minute.
DAY, DAYS = 1440, 19
SEED = 11
# Days before the first incident, and smallest number of minutes between two incidents.
QUIET_DAYS, APART = 4, 600

KINDS = ("higher", "outage", "stuck", "noisy", "slow rise")
# Kinds of incidents that the default detectors can find, at all numbers of samples in a day.
VISIBLE = ("higher", "lower", "outage", "noisy", "slow rise")
# For each number of samples in a day: the shortest and the longest incident, and a job's length.
LENGTHS = {24: (2, 8, 2), 96: (4, 16, 4), 288: (6, 24, 12), 1440: (20, 90, 45)}
# First day with a job, and incidents in a week.
FIRST_JOB, PER_WEEK = 9, 2


class Incident(NamedTuple):
    """An incident: its first and last minute, and its kind."""

    first: int
    last: int
    kind: str


class Metric(NamedTuple):
    """The values of a series, its incidents, and whether each value belongs to a job."""

    values: Array
    incidents: list[Incident]
    is_job: Array


def usual(rng: np.random.Generator, days: int = DAYS, day: int = DAY) -> tuple[Array, float]:
    """Return a series without incidents, and the amplitude of its season.

    Parameters
    ----------
    rng
        The source of random numbers.
    days
        Number of days.
    day
        Number of samples in a day.

    """
    t = np.arange(days * day)
    level, height = rng.uniform(20.0, 200.0), rng.uniform(0.2, 0.5)
    phase = 2.0 * np.pi * (t / day + rng.random())
    season = np.sin(phase) + rng.uniform(0.0, 0.4) * np.sin(2.0 * phase + rng.random())
    weekend = 1.0 - rng.uniform(0.0, 0.3) * (t // day % 7 >= 5)
    # Noise that is correlated between samples, and independent noise with a heavier tail.
    noise, slow = rng.normal(0.0, 1.0, len(t)), np.empty(len(t))
    # The correlation falls with the time between two samples, counted as at most 10 minutes.
    carried, value = rng.uniform(0.3, 0.9) ** min(DAY / day, 10.0), 0.0
    for i in range(len(t)):
        value = carried * value + np.sqrt(1.0 - carried**2) * noise[i]
        slow[i] = value
    heavy = rng.random(len(t)) < 0.002
    bursts = heavy * rng.exponential(0.3, len(t)) * height
    share = 1.0 + height * season * weekend + rng.uniform(0.05, 0.2) * height * slow + bursts
    return np.maximum(level * share, 0.0), level * height


def metric(number: int) -> Metric:
    """Return a series with one incident of each kind."""
    rng = np.random.default_rng([SEED, number])
    values, height = usual(rng)
    incidents: list[Incident] = []
    for kind in rng.permutation(KINDS):
        length = int(rng.integers(20, 90)) * (3 if kind == "slow rise" else 1)
        while True:
            start = int(rng.integers(QUIET_DAYS * DAY, len(values) - length - APART))
            if all(abs(start - other) > APART for other, *_ in incidents):
                break
        _disturb(values[start : start + length], str(kind), height, rng)
        incidents.append(Incident(start, start + length - 1, str(kind)))
    return Metric(np.maximum(values, 0.0), sorted(incidents), np.zeros(len(values), bool))


def _disturb(part: Array, kind: str, height: float, rng: np.random.Generator) -> None:
    """Change the values of an incident in place."""
    if kind == "higher":
        part += height * rng.uniform(1.0, 2.0)
    elif kind == "lower":
        part -= height * rng.uniform(1.0, 2.0)
    elif kind == "outage":
        part[:] = 0.0
    elif kind == "stuck":
        part[:] = part[0]
    elif kind == "noisy":
        part += height * rng.uniform(0.6, 1.0) * rng.normal(0.0, 1.0, len(part))
    else:
        part += height * np.linspace(0.0, rng.uniform(1.5, 2.5), len(part))


def with_job(number: int, day: int, days: int, size: float) -> Metric:
    """Return a series with two incidents a week, and a job every night from the tenth day on.

    Parameters
    ----------
    number
        Number of the series.
    day
        Number of samples in a day, a key of `LENGTHS`.
    days
        Number of days.
    size
        Increase of the values during the job, in amplitudes of the season. 0 means no job.

    """
    rng = np.random.default_rng([SEED + 2, day, number])
    values, height = usual(rng, days, day)
    shortest, longest, of_job = LENGTHS[day]
    is_job = np.zeros(len(values), bool)
    begin = int(rng.integers(0, day - 2 * of_job))
    for night in range(FIRST_JOB, days if size else 0):
        part = slice(night * day + begin, night * day + begin + of_job)
        values[part] += height * size * rng.uniform(0.95, 1.05)
        is_job[part] = True
    incidents: list[Incident] = []
    while len(incidents) < (days - QUIET_DAYS) * PER_WEEK // 7:
        kind = VISIBLE[len(incidents) % len(VISIBLE)]
        length = int(rng.integers(shortest, longest + 1)) * (3 if kind == "slow rise" else 1)
        start = int(rng.integers(QUIET_DAYS * day, len(values) - length - day // 2))
        is_apart = all(abs(start - other) > day for other, *_ in incidents)
        around = slice(start - longest, start + length + longest)
        if is_apart and not is_job[around].any():
            _disturb(values[start : start + length], kind, height, rng)
            incidents.append(Incident(start, start + length - 1, kind))
    return Metric(np.maximum(values, 0.0), sorted(incidents), is_job)
