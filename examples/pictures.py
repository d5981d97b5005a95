"""Draw models, predictions and scores with the functions of `river_mondrian.plot`."""

from __future__ import annotations

import argparse
import itertools

from matplotlib import pyplot as plt
from river import datasets, evaluate, metrics, naive_bayes, utils
from river.datasets import synth

from river_mondrian import (
    AdaptiveMondrianForestClassifier,
    AdaptiveMondrianForestRegressor,
    DensityForest,
    MondrianForestClassifier,
    RandomCutForest,
    plot,
)


def drift(n):
    """Return n samples whose classes a sine separates, and n samples with swapped labels."""
    before = synth.Sine(classification_function=0, seed=1).take(n)
    after = synth.Sine(classification_function=1, seed=2).take(n)
    return list(itertools.chain(before, after))


def draw_curves(ax, samples):
    """Draw the accuracy of three models along a stream."""
    models = {
        "adaptive": AdaptiveMondrianForestClassifier(seed=1),
        "exact": MondrianForestClassifier(seed=1),
        "naive Bayes": naive_bayes.GaussianNB(),
    }
    runs = {
        name: evaluate.iter_progressive_val_score(
            samples, model, utils.Rolling(metrics.Accuracy, window_size=200), step=50
        )
        for name, model in models.items()
    }
    plot.progressive(runs, drifts=models["adaptive"], ax=ax)
    print(f"drifts, and how many samples were kept: {models['adaptive'].drift_log}")


def draw_mixture(weights, reliability, samples):
    """Draw the weights of a model's experts, and the calibration of its probabilities."""
    model = AdaptiveMondrianForestClassifier(seed=1)
    history, predictions = [], []
    for x, y in samples:
        predictions.append(model.predict_proba_one(x))
        model.learn_one(x, y)
        if model.n_samples % 50 == 0:
            history.append((model.n_samples, model.expert_weights))
    plot.weights(history, ax=weights)
    plot.reliability(predictions, [y for _, y in samples], ax=reliability)


def draw_intervals(ax, n):
    """Draw a series with its predicted intervals."""
    model = AdaptiveMondrianForestRegressor(seed=1)
    targets, predicted = [], []
    for x, y in datasets.TrumpApproval().take(n):
        targets.append(y)
        predicted.append(model.predict_one(x, with_dist=True) if model.n_samples else None)
        model.learn_one(x, y)
    plot.intervals(targets[-100:], predicted[-100:], range(n - 99, n + 1), ax=ax)


def draw_forest(tree, partition, importances, n):
    """Draw the top of a tree, a partition and feature importances."""
    model = MondrianForestClassifier(seed=1)
    for x, y in datasets.ImageSegments().take(n):
        model.learn_one(x, y)
    plot.tree(model, max_depth=4, ax=tree)
    plot.importances(model, most=10, ax=importances)
    plane = MondrianForestClassifier(lifetime=5.0, seed=1)
    for x, y in datasets.Bananas().take(n):
        plane.learn_one(x, y)
    plot.partition(plane, ax=partition)


def draw_detectors(density, score, timeline, n):
    """Draw a density, a map of scores, and the scores along a stream."""
    forest, detector = DensityForest(50, seed=1), RandomCutForest(20, seed=1)
    scores, odd = [], []
    for x, is_odd in datasets.Shuttle().take(n):
        scores.append(detector.score_one(x))
        odd.append(is_odd)
        detector.learn_one(x)
    plot.scores(scores, 0.98, odd, ax=timeline)
    plane = RandomCutForest(20, seed=1)
    for x, _ in datasets.Bananas().take(n):
        forest.learn_one(x)
        plane.learn_one(x)
    ranges = {"1": (-3.0, 3.0), "2": (-3.0, 3.0)}
    plot.density_map(forest, ranges, ax=density)
    plot.score_map(plane, ranges, ax=score)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="pictures.png", help="where the picture goes")
    parser.add_argument("--quick", action="store_true", help="fewer samples")
    arguments = parser.parse_args()

    n = 1000 if arguments.quick else 1500
    figure, axes = plt.subplots(4, 3, figsize=(18, 19), layout="constrained")
    samples = drift(n)
    draw_curves(axes[0, 0], samples)
    draw_mixture(axes[0, 1], axes[0, 2], samples)
    draw_intervals(axes[1, 0], min(n, 1000))
    draw_forest(axes[1, 1], axes[1, 2], axes[2, 0], n)
    draw_detectors(axes[2, 1], axes[2, 2], axes[3, 0], n)
    for ax in axes[3, 1:]:
        ax.remove()
    figure.savefig(arguments.out, dpi=80)
    print(f"picture saved as {arguments.out}")


if __name__ == "__main__":
    main()
