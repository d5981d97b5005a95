"""Time of primal and dual predictions along a stream."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from river_mondrian import DualOGDClassifier, OGDClassifier

from ..data import DataFolder, stream
from ..report import Report, progress, pyplot
from ..timing import no_gc
from .models import IK_I, OGD, RATE, isolation_map
from .sets import gaussian_blobs


def dual(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare times of primal and dual predictions (section 8.1.1 of Ting et al. 2021)."""
    n = 2000 if quick else 20_000
    X, y = gaussian_blobs(n, 20)
    # One in five labels is wrong, so the number of support vectors grows steadily.
    noise = np.random.default_rng(1).random(n) < 0.2
    y = np.where(noise, 1 - y, y)
    samples = stream(X, y)
    features = isolation_map("iforest", 64, 1024)
    models: dict[str, Any] = {
        IK_I: OGDClassifier(features=features, loss="hinge", learning_rate=RATE),
        "IK_i-OGD (dual)": DualOGDClassifier(features, learning_rate=RATE),
        OGD: DualOGDClassifier("laplace", lifetime=math.log(64) / 20, learning_rate=RATE),
    }
    course: dict[str, list[float]] = {name: [] for name in models}
    size = n // 20
    with no_gc():
        for begin in range(0, n, size):
            progress(f"dual: {begin} of {n}")
            for name, model in models.items():
                began = time.perf_counter()
                for x, label in samples[begin : begin + size]:
                    model.predict_one(x)
                    model.learn_one(x, label)
                course[name].append(1e6 * (time.perf_counter() - began) / size)
    rows = [
        (
            (i + 1) * size,
            *(f"{times[i]:.1f}" for times in course.values()),
            *(f"{course[name][i] / course[IK_I][i]:.1f}" for name in list(models)[1:]),
        )
        for i in (0, 4, 9, 14, 19)
    ]
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(6, 4))
    for name, times in course.items():
        axes.plot(np.arange(1, 21) * size, times, label=name)
    axes.set(xlabel="samples", ylabel="microseconds per sample", yscale="log")
    axes.legend()
    report.note(
        "Time of primal and dual predictions along a stream (section 8.1.1 of Ting et al. 2021). "
        f"The stream has {n} rows of 20 Gaussian blobs in 20 dimensions, and one in five labels is "
        "wrong. Samples are mappings. Times are mean microseconds per sample of the block that "
        "ends at the row. At the end the dual models have "
        f"{' and '.join(str(m.n_supports) for m in list(models.values())[1:])} support vectors."
    )
    report.table(
        (
            "samples",
            *(f"{name}, us" for name in models),
            *(f"{name} / {IK_I}" for name in list(models)[1:]),
        ),
        rows,
    )
    report.figure(figure, "")
