"""Compare two forests with River's AMF and ARF: accuracy, time and memory.

`python examples/quickstart.py` prints a table and saves a plot.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

from matplotlib import pyplot as plt
from river import datasets, forest, metrics, preprocessing

from river_mondrian import AdaptiveMondrianForestClassifier, MondrianForestClassifier

STREAMS = {
    "Bananas": datasets.Bananas,
    "Phishing": datasets.Phishing,
    "ImageSegments": datasets.ImageSegments,
}
BLOCK = 50
FLOOR = 1e-3


def models():
    return {
        "adaptive (ours)": AdaptiveMondrianForestClassifier(n_estimators=10, seed=1),
        "exact (ours)": MondrianForestClassifier(n_estimators=10, seed=1),
        "StandardScaler | AMF": preprocessing.StandardScaler()
        | forest.AMFClassifier(n_estimators=10, seed=1),
        "ARF": forest.ARFClassifier(n_models=10, seed=1),
    }


def progress(text, done, total):
    """Show the progress of a run: a bar on a terminal, or a line per quarter elsewhere."""
    if sys.stderr.isatty():
        filled = 30 * done // total
        end = "\n" if done == total else ""
        print(f"\r{text:<36} [{'#' * filled:<30}] {done}/{total}", end=end, file=sys.stderr)
    elif done == total or (4 * done // total) != (4 * (done - BLOCK) // total):
        print(f"{text}: {done}/{total}", file=sys.stderr)


def run(text, model, samples):
    """Predict and then learn each sample; return scores, time, memory, and a learning curve."""
    accuracy, log_loss = metrics.Accuracy(), metrics.CrossEntropy()
    course = {"n": [], "accuracy": [], "seconds": []}
    seconds = 0.0
    for start in range(0, len(samples), BLOCK):
        block = samples[start : start + BLOCK]
        predicted = []
        began = time.perf_counter()
        for x, y in block:
            predicted.append(model.predict_proba_one(x))
            model.learn_one(x, y)
        seconds += time.perf_counter() - began
        for (_, y), p in zip(block, predicted, strict=True):
            accuracy.update(y, max(p, key=p.get) if p else None)
            # Probabilities below FLOOR count as FLOOR, as in the tables of the benchmarks.
            log_loss.update(y, {**p, y: max(p.get(y, 0.0), FLOOR)})
        done = start + len(block)
        course["n"].append(done)
        course["accuracy"].append(accuracy.get())
        course["seconds"].append(seconds)
        progress(text, done, len(samples))
    return accuracy.get(), log_loss.get(), seconds, model._memory_usage, course


def show_compiling(text):
    """Show on stderr which functions are compiled; in a log, only every tenth function."""
    logger, handler = logging.getLogger("river_mondrian"), logging.StreamHandler()
    every = 1 if sys.stderr.isatty() else 10
    handler.terminator = "\r" if every == 1 else "\n"
    handler.setFormatter(logging.Formatter(f"{text}: %(message)-60.60s"))
    counted = iter(range(10**6))
    handler.addFilter(lambda record: next(counted) % every == 0)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False


def compile_kernels(label):
    """Run a model once, which compiles and stores its kernels; return the run's scores as text."""
    show_compiling(label)
    accuracy, log_loss, *_ = run(f"Bananas, {label}", models()[label], list(datasets.Bananas()))
    return f"Bananas, {label}: accuracy {accuracy:.4f}, log loss {log_loss:.4f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="quickstart.png", help="where the plot goes")
    parser.add_argument("--quick", action="store_true", help="the first 300 samples only")
    arguments = parser.parse_args()

    print("first runs, which compile kernels (once), in two processes", flush=True)
    began = time.perf_counter()
    with ProcessPoolExecutor(2) as processes:
        ours = [label for label in models() if "ours" in label]
        for first in as_completed([processes.submit(compile_kernels, label) for label in ours]):
            print(f"{first.result()} ({time.perf_counter() - began:.1f} s)", flush=True)
    # These runs load the kernels into this process, so that later times exclude loading.
    for label in ours:
        run(f"loading, {label}", models()[label], list(datasets.Bananas()))
    print("runs that are timed", flush=True)

    _, axes = plt.subplots(2, len(STREAMS), figsize=(4 * len(STREAMS), 6), sharex="col")
    lines = []
    for column, (name, stream) in enumerate(STREAMS.items()):
        samples = list(stream().take(300) if arguments.quick else stream())
        for label, model in models().items():
            *scores, course = run(f"{name}, {label}", model, samples)
            lines.append((name, label, *scores))
            axes[0, column].plot(course["n"], course["accuracy"], label=label)
            axes[1, column].plot(course["n"], course["seconds"], label=label)
        axes[0, column].set_title(f"{name} ({len(samples)} samples)")
        axes[1, column].set_yscale("log")
        axes[1, column].set_xlabel("samples")
    axes[0, 0].set_ylabel("progressive accuracy")
    axes[1, 0].set_ylabel("seconds, predict and learn")
    axes[0, 0].legend(loc="lower right")

    titles = ("accuracy", "log loss", "seconds")
    print(f"\n{'stream':<14} {'model':<20} {' '.join(f'{t:>8}' for t in titles)} {'memory':>11}")
    for name, label, accuracy, log_loss, spent, memory in lines:
        print(f"{name:<14} {label:<20} {accuracy:8.4f} {log_loss:8.4f} {spent:8.3f} {memory:>11}")
    plt.tight_layout()
    plt.savefig(arguments.out, dpi=120)
    print(f"\nplot saved as {arguments.out}")


if __name__ == "__main__":
    main()
