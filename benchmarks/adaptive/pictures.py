"""Pictures of the adaptive forest on drifting streams."""

from __future__ import annotations

import numpy as np

from river_mondrian import AdaptiveMondrianForestClassifier, MondrianForestClassifier
from river_mondrian.posteriors.adaptive.adaptive_trees import POSTERIORS

from ..data import DataFolder
from ..report import Report, progress, pyplot
from .comparing import MADE, N_TREES, PREFIX


def pictures(data: DataFolder, report: Report, quick: bool) -> None:
    """Draw accuracy along drifting streams, weights over time, and reliability."""
    plt = pyplot()
    if plt is None:
        return
    n = 600 if quick else PREFIX
    names = ("SineDrift", "AgrawalDrift", "SEADrift")
    figure, axes = plt.subplots(3, 3, figsize=(15, 11))
    for column, name in zip(axes.T, names, strict=True):
        samples = MADE[name](n)
        models = {
            "adaptive": AdaptiveMondrianForestClassifier(N_TREES, seed=1),
            "exact": MondrianForestClassifier(seed=1),
        }
        outputs: list[tuple[float, bool]] = []
        kept: list[list[float]] = []
        for label, model in models.items():
            progress(f"{name}, {label}")
            right = np.empty(len(samples))
            for i, (x, y) in enumerate(samples):
                p = model.predict_proba_one(x)
                best = max(p, key=p.__getitem__) if p else None
                right[i] = best == y
                if label == "adaptive":
                    outputs += [(q, k == y) for k, q in p.items()]
                    if i % 50 == 0 and model.expert_weights:
                        kept.append([i, *model.expert_weights.values()])
                model.learn_one(x, y)
            window = max(20, len(samples) // 50)
            smooth = np.convolve(right, np.ones(window) / window, "valid")
            column[0].plot(np.arange(len(smooth)) + window, smooth, label=label)
        for i, _ in models["adaptive"].drift_log:
            column[0].axvline(i, color="0.5", linestyle=":")
        column[0].set(title=name, xlabel="samples", ylabel="accuracy, moving")
        column[0].legend()
        rows = np.array(kept)
        weights = rows[:, 1:].T
        parts = np.split(weights, len(POSTERIORS) * np.arange(1, 4))
        labels = (
            "trees of all samples",
            "trees of all and of recent samples",
            "lines",
            "fixed share",
        )
        for part, label in zip(parts, labels, strict=True):
            column[1].plot(rows[:, 0], part.sum(axis=0), label=label)
        column[1].set(xlabel="samples", ylabel="exponents")
        p, hit = np.array(outputs).T
        bins = np.minimum((p * 10).astype(int), 9)
        means = [
            (p[bins == b].mean(), hit[bins == b].mean()) for b in range(10) if (bins == b).any()
        ]
        column[2].plot([0, 1], [0, 1], color="0.7")
        column[2].plot(*zip(*means, strict=True), "o-")
        column[2].set(xlabel="predicted probability", ylabel="frequency")
    axes[1, 0].legend(fontsize=7, loc="lower left")
    figure.tight_layout()
    report.note(
        "Accuracy along drifting streams, weights over time, and reliability. The forest has "
        f"{N_TREES} trees. The top row shows the accuracy in a moving window, with dotted lines at "
        "detected drifts. The middle row shows the exponents of the experts in the log-linear "
        "pool, summed by kind of expert. The bottom row shows the reliability of the "
        "probabilities of all labels in ten bins."
    )
    report.figure(figure, "")
    plt.close(figure)
