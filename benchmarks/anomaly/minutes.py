"""Generated metrics of a server: a value per minute, with a daily season and five incidents."""

from typing import NamedTuple

import numpy as np

from ..data import Array

DAY, DAYS = 1440, 19
SEED = 11
# Days before the first incident, and smallest number of minutes between two incidents.
QUIET_DAYS, APART = 4, 600

KINDS = ("higher", "outage", "stuck", "noisy", "slow rise")


class Incident(NamedTuple):
    """An incident: its first and last minute, and its kind."""

    first: int
    last: int
    kind: str


class Metric(NamedTuple):
    """The values of a series, and its incidents."""

    values: Array
    incidents: list[Incident]


def usual(rng: np.random.Generator, days: int = DAYS) -> tuple[Array, float]:
    """Return a series without incidents, and the amplitude of its season."""
    t = np.arange(days * DAY)
    level, height = rng.uniform(20.0, 200.0), rng.uniform(0.2, 0.5)
    phase = 2.0 * np.pi * (t / DAY + rng.random())
    season = np.sin(phase) + rng.uniform(0.0, 0.4) * np.sin(2.0 * phase + rng.random())
    weekend = 1.0 - rng.uniform(0.0, 0.3) * (t // DAY % 7 >= 5)
    # Noise that is correlated between minutes, and independent noise with a heavier tail.
    noise, slow = rng.normal(0.0, 1.0, len(t)), np.empty(len(t))
    carried, value = rng.uniform(0.3, 0.9), 0.0
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
        part = slice(start, start + length)
        if kind == "higher":
            values[part] += height * rng.uniform(1.0, 2.0)
        elif kind == "outage":
            values[part] = 0.0
        elif kind == "stuck":
            values[part] = values[start]
        elif kind == "noisy":
            values[part] += height * rng.uniform(0.6, 1.0) * rng.normal(0.0, 1.0, length)
        else:
            values[part] += height * np.linspace(0.0, rng.uniform(1.5, 2.5), length)
        incidents.append(Incident(start, start + length - 1, str(kind)))
    return Metric(np.maximum(values, 0.0), sorted(incidents))
