"""Predict the flow of water in the next hour with intervals, and draw a week."""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib import pyplot as plt
from river import datasets

from river_mondrian import AdaptiveMondrianForestRegressor

WEEK = 7 * 24


def calendar(x):
    """Return the hour, the weekday and the day of the year."""
    time = x["Time"]
    return {"hour": time.hour, "weekday": time.weekday(), "day": time.timetuple().tm_yday}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="water_flow.png", help="where the picture goes")
    arguments = parser.parse_args()

    errors = {}
    for autoregressive in (False, True):
        model = AdaptiveMondrianForestRegressor(autoregressive=autoregressive, seed=1)
        times, flows, points, bounds = [], [], [], []
        for x, flow in datasets.WaterFlow():
            if model.n_samples >= WEEK:
                predicted = model.predict_one(calendar(x), with_dist=True)
                times.append(x["Time"])
                flows.append(flow)
                points.append(predicted.median)
                bounds.append([predicted.interval(level) for level in (0.5, 0.9)])
            model.learn_one(calendar(x), flow)
        errors[autoregressive] = np.abs(np.subtract(flows, points)).mean()
    last = np.abs(np.diff(flows)).mean()
    print(f"mean absolute error after the first week: {errors[False]:.2f} by the calendar alone,")
    print(f"{errors[True]:.2f} with the latest flows, {last:.2f} by the flow of the hour before")

    bounds = np.array(bounds)
    figure, axis = plt.subplots(figsize=(12, 4.5), layout="constrained")
    week = slice(-WEEK, None)
    for level, i, shade in ((0.9, 1, 0.2), (0.5, 0, 0.35)):
        low, high = bounds[:, i].T
        inside = np.mean((low <= flows) & (flows <= high))
        print(f"{inside:.1%} of all flows are inside their {level:.0%} interval")
        axis.fill_between(
            times[week],
            low[week],
            high[week],
            color="C0",
            alpha=shade,
            linewidth=0,
            label=f"{level:.0%} interval, {inside:.1%} of all inside",
        )
    axis.plot(times[week], flows[week], color="black", linewidth=0.9, label="flow")
    axis.plot(times[week], points[week], color="C0", linewidth=0.9, label="predicted")
    axis.set_ylabel("litres per second")
    axis.set_title("the last week, each hour predicted before it is learned")
    axis.legend(loc="upper right")
    figure.savefig(arguments.out, dpi=120)
    print(f"picture saved as {arguments.out}")


if __name__ == "__main__":
    main()
