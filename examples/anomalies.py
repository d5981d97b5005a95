"""Find three kinds of anomalies in a time series with a random cut forest.

`python examples/anomalies.py` prints the anomalies and saves a picture.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib import pyplot as plt

from river_mondrian import RandomCutForest

# Number of days, values per day, and the days of the three anomalies.
DAYS, PER_DAY = 40, 48
SPIKE, STANDS_STILL, OTHER_WAY = 25, 30, 35

# About 3 % of normal values have a larger score.
THRESHOLD = 0.97


def load(rng):
    """Return the load of a network per half hour, and a mask of its anomalies."""
    t = np.arange(DAYS * PER_DAY)
    day = 2.0 * np.pi * t / PER_DAY
    values = 50.0 + 20.0 * np.sin(day) + 6.0 * np.sin(2.0 * day) + rng.normal(size=len(t))
    wrong = np.zeros(len(t), bool)
    for start, length in ((SPIKE, 1), (STANDS_STILL, 16), (OTHER_WAY, 16)):
        wrong[start * PER_DAY + 10 :][:length] = True
    spike = SPIKE * PER_DAY + 10
    values[spike] -= 15.0
    still = STANDS_STILL * PER_DAY + 10
    values[still : still + 16] = values[still]
    other = OTHER_WAY * PER_DAY + 10
    values[other : other + 16] = values[other : other + 16][::-1]
    return values, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="anomalies.png", help="where the picture goes")
    parser.add_argument("--quick", action="store_true", help="fewer trees")
    arguments = parser.parse_args()

    values, wrong = load(np.random.default_rng(1))
    detector = RandomCutForest(
        n_estimators=20 if arguments.quick else 100, window=1024, shingle=12, seed=1
    )
    scores = []
    for value in values.tolist():
        scores.append(detector.score_one({"load": value}))
        if scores[-1] > THRESHOLD >= max(scores[-10:-1], default=1.0):
            shares = detector.explain_one({"load": value})
            ago = max(shares, key=shares.get)[1]
            most = "itself" if ago == 0 else f"the one {ago} before"
            print(f"value {len(scores)}, {value:.1f}: score {scores[-1]:.3f}, most by {most}")
        detector.learn_one({"load": value})

    figure, (above, below) = plt.subplots(2, 1, figsize=(11, 6), sharex=True)
    first = 20 * PER_DAY
    t = np.arange(1, len(values) + 1)
    above.plot(t[first:], values[first:], color="0.5", linewidth=0.8)
    above.plot(t[wrong], values[wrong], ".", color="C3", label="wrong")
    above.set_ylabel("load")
    above.legend()
    detector.draw_scores(THRESHOLD, below)
    below.set_xlim(first, len(values))
    figure.tight_layout()
    figure.savefig(arguments.out, dpi=120)
    print(f"\npicture saved as {arguments.out}")


if __name__ == "__main__":
    main()
