"""Raise alarms on a generated server metric with five incidents.

`python examples/alarms.py` prints the alarms and saves a picture.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib import pyplot as plt

from river_mondrian import Alarms, NearestNeighborDetector

DAY = 1440
DAYS = 8
# For each incident: the start in days, the length in minutes, and the change of the load.
INCIDENTS = ((3.4, 60, 50.0), (4.1, 40, -30.0), (5.6, 90, 35.0), (6.3, 30, 60.0), (7.5, 60, -45.0))


def load(rng):
    """Return the load per minute, and the first and last minute of each incident."""
    t = np.arange(DAYS * DAY)
    values = 100.0 + 30.0 * np.sin(2.0 * np.pi * t / DAY) + rng.normal(0.0, 3.0, len(t))
    windows = []
    for day, length, shift in INCIDENTS:
        start = int(day * DAY)
        values[start : start + length] += shift
        windows.append((start, start + length - 1))
    return values, windows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="alarms.png", help="where the picture goes")
    arguments = parser.parse_args()

    values, windows = load(np.random.default_rng(1))
    alarms = Alarms(
        NearestNeighborDetector(seed=1),
        threshold=0.99,
        grace_period=DAY,
        budget=(3, DAY),
        calendar=["hour_sin", "hour_cos"],
    )
    scores = []
    for minute, value in enumerate(values.tolist()):
        angle = 2.0 * np.pi * minute / DAY
        x = {"load": value, "hour_sin": np.sin(angle), "hour_cos": np.cos(angle)}
        scores.append(alarms.score_one(x))
        alarms.learn_one(x)
        if alarms.alarm:
            alarm = alarms.alarm
            why = "novel value" if alarm.novel else f"score {alarm.score:.4f}"
            print(f"day {minute / DAY:.2f}: alarm, began at {alarm.began / DAY:.2f}, {why}")

    days = np.arange(len(values)) / DAY
    figure, (above, below) = plt.subplots(2, 1, figsize=(11, 6), sharex=True)
    above.plot(days, values, color="0.5", linewidth=0.6)
    below.plot(days, scores, color="C0", linewidth=0.6)
    for ax in (above, below):
        for first, last in windows:
            ax.axvspan(first / DAY, last / DAY, color="C1", alpha=0.4)
    raised = [alarm.sample - 1 for alarm in alarms.alarms]
    above.plot(days[raised], values[raised], "v", color="C3", label="alarm")
    above.set_ylabel("load")
    above.legend()
    below.set_ylabel("score")
    below.set_xlabel("day")
    figure.tight_layout()
    figure.savefig(arguments.out, dpi=120)
    print(f"\npicture saved as {arguments.out}")


if __name__ == "__main__":
    main()
