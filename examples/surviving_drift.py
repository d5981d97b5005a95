"""Compare three forests on a stream whose labels swap.

`python examples/surviving_drift.py` prints accuracies and saves a plot.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np
from matplotlib import pyplot as plt
from river import forest
from river.datasets import synth

from river_mondrian import AdaptiveMondrianForestClassifier, MondrianForestClassifier, plot


def stream(n):
    """Return n samples whose classes a sine separates, and n samples with swapped labels."""
    before = synth.Sine(classification_function=0, seed=1).take(n)
    after = synth.Sine(classification_function=1, seed=2).take(n)
    return list(itertools.chain(before, after))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="surviving_drift.png", help="where the plot goes")
    parser.add_argument("--quick", action="store_true", help="fewer samples")
    arguments = parser.parse_args()

    n = 1000 if arguments.quick else 5000
    samples = stream(n)
    models = {
        "AdaptiveMondrianForest": AdaptiveMondrianForestClassifier(seed=1),
        "MondrianForest": MondrianForestClassifier(seed=1),
        "River's ARF": forest.ARFClassifier(seed=1),
    }
    _, (above, below) = plt.subplots(2, 1, figsize=(9, 7), sharex=True)
    history, curves = [], {}
    print(f"{2 * n} samples, the labels swap after {n}\n")
    # Compile first, so that the measured time excludes compilation.
    AdaptiveMondrianForestClassifier.warmup()
    MondrianForestClassifier.warmup()
    for name, model in models.items():
        right = np.empty(2 * n)
        began = time.perf_counter()
        for i, (x, y) in enumerate(samples):
            right[i] = model.predict_one(x) == y
            model.learn_one(x, y)
            if i % 50 == 0 and isinstance(model, AdaptiveMondrianForestClassifier):
                history.append((i, model.expert_weights))
        spent = time.perf_counter() - began
        before, after = right[:n].mean(), right[n:].mean()
        print(f"{name:<24} before {before:.3f}, after {after:.3f}, {spent:.1f} s")
        window = n // 25
        smooth = np.convolve(right, np.ones(window) / window, "valid")
        curves[name] = enumerate(smooth, window)

    ours = models["AdaptiveMondrianForest"]
    for i, kept in ours.drift_log:
        print(f"\ndrift detected after {i} samples; the latest {kept} were kept")
    plot.progressive(curves, drifts=ours, ax=above)
    above.set_ylabel(f"accuracy of the latest {window}")
    plot.weights(history, ax=below)
    plt.tight_layout()
    plt.savefig(arguments.out, dpi=120)
    print(f"\nplot saved as {arguments.out}")


if __name__ == "__main__":
    main()
