"""Draw the light and the dark pictures of the pages: `python docs/site/draw.py`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from river import datasets, metrics, naive_bayes, utils
from river.datasets import synth
from river_mondrian import (
    AdaptiveMondrianForestClassifier,
    AdaptiveMondrianForestRegressor,
    DensityForest,
    IsolationFeatures,
    MondrianFeatures,
    MondrianForestClassifier,
    RandomCutForest,
    plot,
)
from river_mondrian.plot.canvas import color

import figures

DOCS = Path(__file__).parents[1]
FOLDER = DOCS / "pictures"

# Colours of the site's two schemes: background, text, lines of cells.
SCHEMES = {"light": ("#ffffff", "#333333", "#666666"), "dark": ("#1e2029", "#dddddd", "#aaaaaa")}
FRAMES = [*range(1, 13), 16, 20, 25, 32, 40, 50, 64, 80, 100, 125, 160, 200, 250, 320, 400]


def forest(lifetime: float = float("inf"), seed: int = 1) -> MondrianForestClassifier:
    """Return a forest of one tree without scaling, so that the tree is never redrawn."""
    return MondrianForestClassifier(n_estimators=1, lifetime=lifetime, scale=False, seed=seed)


def draw_cells(model: MondrianForestClassifier, samples: list, lines: str, ax: Axes) -> None:
    """Draw the partition of a forest's tree, and the samples that it has learned."""
    model.draw_partition(tree=0, ax=ax)
    for patch in ax.patches:
        if not patch.get_fill():
            patch.set_edgecolor(lines)
        elif patch.get_alpha() is None:
            # A pale box does not hide its samples.
            patch.set_alpha(0.55)
    ax.get_legend().remove()
    # The forest also numbers classes in the order of their first samples.
    classes = list(dict.fromkeys(y for _, y in samples))
    colors = [color(classes.index(y)) for _, y in samples]
    places = np.array([list(x.values()) for x, _ in samples])
    ax.scatter(*places.T, 12, colors, zorder=3, linewidths=0.4, edgecolors=lines)
    ax.set(xticks=[], yticks=[], xlabel="", ylabel="")


def frame(model: MondrianForestClassifier, samples: list, lines: str, size: tuple) -> Image.Image:
    """Return one picture of the animation."""
    figure, ax = plt.subplots(figsize=(4.8, 3.8), dpi=100)
    if len(samples) > 1:
        draw_cells(model, samples, lines, ax)
    low, high = size
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=[], yticks=[])
    ax.set_title(f"{len(samples)} sample{'s'[: len(samples) > 1]}", fontsize="medium")
    figure.tight_layout()
    figure.canvas.draw()
    drawn = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
    plt.close(figure)
    return drawn


def growing(lines: str, path: Path) -> None:
    """Save an animation of a partition of the plane that grows with a stream."""
    stream = [({"a": x["1"], "b": x["2"]}, int(y)) for x, y in datasets.Bananas().take(FRAMES[-1])]
    places = np.array([[x["a"], x["b"]] for x, _ in stream])
    margin = 0.03 * np.ptp(places, axis=0)
    size = (places.min(axis=0) - margin, places.max(axis=0) + margin)
    model = forest(lifetime=1.5)
    pictures = []
    for n in FRAMES:
        for x, y in stream[model.n_samples : n]:
            model.learn_one(x, y)
        pictures.append(frame(model, stream[:n], lines, size))
    # With one palette for all frames, colours do not change and the file is small.
    palette = pictures[-1].quantize(128, Image.Quantize.MAXCOVERAGE)
    first, *others = [picture.quantize(palette=palette, dither=0) for picture in pictures]
    durations = [600] * 12 + [350] * (len(FRAMES) - 13) + [4000]
    first.save(path, save_all=True, append_images=others, duration=durations, loop=0, optimize=True)


def before_and_after(model: MondrianForestClassifier, samples: list, lines: str) -> Figure:
    """Draw a partition above its tree, before and after the last sample."""
    figure, axes = plt.subplots(2, 2, figsize=(6.4, 6.0))
    for column, learned in enumerate((samples[:-1], samples)):
        for x, y in learned[model.n_samples :]:
            model.learn_one(x, y)
        draw_cells(model, learned, lines, axes[0, column])
        model.draw(tree=0, ax=axes[1, column])
        axes[1, column].set_title("")
        axes[1, column].get_legend().remove()
    return figure


def paused(lines: str) -> Figure:
    """Draw a paused leaf of one class, and its splits after a sample of another class."""
    rng = np.random.default_rng(3)
    samples = [({"a": a, "b": b}, 0) for a, b in rng.random((24, 2)).tolist()]
    samples.append(({"a": 0.62, "b": 0.45}, 1))
    figure = before_and_after(forest(seed=2), samples, lines)
    figure.axes[0].set_title("24 samples of one class: paused", fontsize="medium")
    figure.axes[1].set_title("one of another class: sampled", fontsize="medium")
    return figure


def branching(lines: str) -> Figure:
    """Draw a tree before and after a sample outside its box, with a new cut above the root."""
    rng = np.random.default_rng(5)
    places = (0.55 * rng.random((9, 2))).tolist()
    samples = [({"a": a, "b": b}, int(a > 0.25)) for a, b in places]
    samples.append(({"a": 0.95, "b": 0.9}, 0))
    figure = before_and_after(forest(seed=4), samples, lines)
    for ax, title in zip(figure.axes, ("nine samples", "after one more"), strict=False):
        ax.set(xlim=(-0.05, 1.0), ylim=(-0.05, 1.0))
        ax.set_title(title, fontsize="medium")
    return figure


def shares(features: MondrianFeatures | IsolationFeatures, place: dict, grid: pd.DataFrame):
    """Return the kernel of a point and each point of a grid."""
    return features.gram(pd.DataFrame([place]), grid)[0].reshape(41, 41)


def kernels(_: str) -> Figure:
    """Draw contours of kernels, the shares of partitions in which two points have the same cell."""
    line = np.linspace(-1.0, 1.0, 41)
    grid = pd.DataFrame(list(itertools.product(line, line)), columns=["b", "a"])[["a", "b"]]
    figure, axes = plt.subplots(2, 2, figsize=(6.4, 6.6))
    place = {"a": 0.0, "b": 0.0}
    for ax, n in zip(axes.flat, (1, 20, 1000), strict=False):
        features = MondrianFeatures(n_partitions=n, lifetime=1.5, seed=1)
        features.learn_many(grid)
        ax.contourf(line, line, shares(features, place, grid), np.linspace(0.0, 1.0, 11))
        ax.set_title(f"Mondrian, {n} partition{'s'[: n > 1]}", fontsize="medium")
    # Points are dense on the left and sparse on the right.
    rng = np.random.default_rng(1)
    a = np.r_[rng.uniform(-1.0, 0.0, 900), rng.uniform(0.0, 1.0, 100)]
    pool = pd.DataFrame({"a": a, "b": rng.uniform(-1.0, 1.0, 1000)})
    isolation = IsolationFeatures(n_partitions=1000, n_cells=32, pool_size=1000, seed=1)
    isolation.learn_many(pool)
    axes[1, 1].contourf(line, line, shares(isolation, place, grid), np.linspace(0.0, 1.0, 11))
    axes[1, 1].set_title("isolation, 9 of 10 samples left", fontsize="medium")
    for ax in axes.flat:
        ax.set(xticks=[], yticks=[], aspect="equal")
    return figure


def courses(_: str) -> Figure:
    """Draw results of models on a stream whose labels swap, and intervals of a series."""
    figure, axes = plt.subplots(2, 2, figsize=(9.6, 7.2))
    before = synth.Sine(classification_function=0, seed=1).take(1500)
    after = synth.Sine(classification_function=1, seed=2).take(1500)
    samples = [*before, *after]
    model = AdaptiveMondrianForestClassifier(seed=1)
    models = {
        "adaptive": model,
        "exact": MondrianForestClassifier(seed=1),
        "naive Bayes": naive_bayes.GaussianNB(),
    }
    history: list = []
    said: dict[str, list] = {"adaptive": [], "exact": []}

    def course(name: str):
        metric = utils.Rolling(metrics.Accuracy, window_size=200)
        for n, (x, y) in enumerate(samples, 1):
            p = models[name].predict_proba_one(x)
            if p:
                metric.update(y, max(p, key=p.get))
            if name in said:
                said[name].append(p)
            models[name].learn_one(x, y)
            if n % 50 == 0:
                yield n, metric.get()
            if n % 50 == 0 and name == "adaptive":
                history.append((n, model.expert_weights))

    plot.progressive({name: course(name) for name in models}, drifts=model, ax=axes[0, 0])
    axes[0, 0].set_ylabel("accuracy of the latest 200")
    plot.weights(history, ax=axes[0, 1])
    plot.reliability(said, [y for _, y in samples], ax=axes[1, 0])
    regressor = AdaptiveMondrianForestRegressor(seed=1)
    targets, laws = [], []
    for x, y in datasets.TrumpApproval().take(400):
        targets.append(y)
        laws.append(regressor.predict_one(x, with_dist=True) if regressor.n_samples else None)
        regressor.learn_one(x, y)
    plot.intervals(targets[300:], laws[300:], range(301, 401), ax=axes[1, 1])
    return figure


def insides(_: str) -> Figure:
    """Draw the top of a tree, feature importances, and maps of densities and scores."""
    figure, axes = plt.subplots(2, 2, figsize=(9.6, 7.2))
    model = MondrianForestClassifier(seed=1)
    for x, y in datasets.ImageSegments():
        model.learn_one(x, y)
    plot.tree(model, max_depth=4, ax=axes[0, 0])
    plot.importances(model, most=10, ax=axes[0, 1])
    rng = np.random.default_rng(1)
    forest, detector = DensityForest(50, seed=1), RandomCutForest(seed=1)
    for centre in rng.choice([-1.0, 1.0], 2000):
        a, b = rng.normal(centre, 0.4, 2).tolist()
        forest.learn_one({"a": a, "b": b})
        detector.learn_one({"a": a, "b": b})
    ranges = {"a": (-3.0, 3.0), "b": (-3.0, 3.0)}
    plot.density_map(forest, ranges, ax=axes[1, 0])
    plot.score_map(detector, ranges, ax=axes[1, 1])
    return figure


def explained(_: str) -> Figure:
    """Draw the explanation of one prediction."""
    model = AdaptiveMondrianForestClassifier(seed=1)
    for x, y in datasets.Phishing():
        model.learn_one(x, y)
    return plot.explanation(model, x).figure


def drawn_on(page: str, n: int) -> Callable[[str], Figure]:
    """Return a function that runs the first n examples of a page; the last example draws."""

    def draw(_: str) -> Figure:
        blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
        exec("\n".join(blocks[:n]), {})
        return plt.gcf()

    return draw


def peers(_: str) -> Figure:
    """Draw the mean accuracy and speed of the models on the streams that all models finished."""
    scores = figures.streams("scores")
    accuracy = scores.mean()
    speed = np.exp(np.log(figures.streams("samples/s")).mean())
    figure, (ax,) = figures.axes()
    for name, label in figures.PEERS.items():
        is_ours = name in figures.OURS
        ax.scatter(speed[name], accuracy[name], 170 if is_ours else 90, color(0 if is_ours else 1))
        ax.annotate(
            label,
            (speed[name], accuracy[name]),
            # The label of SRP is above its point, because another point is on the right.
            (0, 9) if name == "SRP" else (10, 0),
            textcoords="offset points",
            ha="center" if name == "SRP" else "left",
            va="bottom" if name == "SRP" else "center",
            fontsize=13,
            fontweight="bold" if is_ours else "normal",
        )
    ax.set_xscale("log")
    ax.set(xlim=(50, 400_000), ylim=(accuracy.min() - 0.02, accuracy.max() + 0.02))
    ax.set_xlabel("samples per second (predict and learn)", fontsize=13)
    ax.set_ylabel("mean accuracy", fontsize=13)
    ax.set_title(f"Mean of {len(scores)} streams: up and right is better", fontsize=13)
    return figure


def main() -> None:
    """Draw all pictures in both schemes."""
    drawn: dict[str, Callable[[str], Figure]] = {
        "paused": paused,
        "branching": branching,
        "kernels": kernels,
        "courses": courses,
        "insides": insides,
        "explained": explained,
        "alerts": drawn_on("guide/alerts.md", 2),
        "intervals": drawn_on("guide/intervals.md", 2),
        "peers": peers,
        **figures.FIGURES,
    }
    for scheme, (background, text, lines) in SCHEMES.items():
        names = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
        settings = dict.fromkeys(names, text) | dict.fromkeys(
            ("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor"),
            background,
        )
        with plt.rc_context(settings):
            growing(lines, FOLDER / f"growing_{scheme}.gif")
            for name, draw in drawn.items():
                figure = draw(lines)
                figure.tight_layout()
                figure.savefig(FOLDER / f"{name}_{scheme}.png", dpi=100)
                plt.close(figure)


if __name__ == "__main__":
    main()
