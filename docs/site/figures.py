"""The six figures of the page on benchmarks, which are drawn from tables in docs/results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from river_mondrian.plot.canvas import color

RESULTS = Path(__file__).parents[1] / "results"
PEERS = {
    "adaptive": "adaptive Mondrian forest",
    "exact": "exact Mondrian forest",
    "AMF": "River AMF",
    "ARF": "River ARF",
    "SRP": "River SRP",
    "HAT": "River Hoeffding\nadaptive tree",
}
OURS = ("adaptive", "exact")


def table(page: str, section: str, heading: str = "") -> pd.DataFrame:
    """Return the first table of a section of a results page, or below a subheading, as text."""
    _, _, text = (RESULTS / f"{page}.md").read_text().partition(f"\n## {section}\n\n")
    if heading:
        _, _, text = text.partition(f"### {heading}\n\n")
    block = next(block for block in text.split("\n\n") if block.startswith("|"))
    rows = [line.strip("|").split("|") for line in block.splitlines()]
    head, _, *body = [[cell.strip() for cell in row] for row in rows]
    return pd.DataFrame(body, columns=head)


def numbers(cells: pd.Series | pd.DataFrame, place: int = 0) -> pd.DataFrame:
    """Return the numbers in cells such as "0.99 / 0.01" or "1,200", or NaN for other cells."""

    def number(cell: str) -> float:
        return float("nan") if cell == "-" else float(cell.split(" / ")[place].replace(",", ""))

    return cells.map(number)


def streams(heading: str, place: int = 0) -> pd.DataFrame:
    """Return the numbers of each model, for the streams that all models finished."""
    found = table("adaptive", "Streams", heading).set_index("stream")[list(PEERS)]
    return numbers(found, place).dropna()


def axes(width: float = 7.2, height: float = 3.9, columns: int = 1) -> tuple[Figure, list]:
    """Return a figure and its axes, without the upper and the right spine."""
    figure, made = plt.subplots(1, columns, figsize=(width, height), squeeze=False)
    for ax in made.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=12)
    return figure, list(made.flat)


def _beside_best(found: pd.DataFrame, peers: list[str], place: int) -> pd.DataFrame:
    """Return the adaptive forest's score and the best peer's score for each stream."""
    found = found.set_index("stream")
    best = numbers(found[peers], place).min(axis=1)
    return pd.DataFrame({"ours": numbers(found["adaptive"], place), "best": best})


def accurate(_: str) -> Figure:
    """Draw a bar per stream: the best peer's loss divided by the adaptive forest's loss."""
    figure, (left, right) = axes(7.2, 6.4, 2)
    classes = table("adaptive", "Streams", "scores")
    classes = _beside_best(classes, ["AMF", "ARF", "SRP", "HAT"], 1)
    targets = table("adaptive_regressor", "Streams", "Mean absolute error")
    own = ("stream", "n", "adaptive", "exact")
    targets = _beside_best(targets, [p for p in targets if not p.startswith(own)], 0)
    for ax, scores, title in (
        (left, classes, "log loss"),
        (right, targets, "absolute error"),
    ):
        ratio = (scores["best"] / scores["ours"]).sort_values()
        places = np.arange(len(ratio))
        ahead = ratio.to_numpy() >= 1.0
        ax.barh(
            places, ratio - 1.0, left=1.0, color=[color(0 if is_ours else 1) for is_ours in ahead]
        )
        ax.set_yticks(places, [name.strip(" *") for name in ratio.index], fontsize=9)
        ax.set_xscale("log")
        ticks = [1.0, 1.5, 2.0, 4.0]
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=11)
        ax.minorticks_off()
        ax.set_title(title, fontsize=12)
        ax.set_xlabel("best peer / ours", fontsize=12)
    return figure


def _bars(means: pd.Series, label: str) -> Figure:
    figure, (ax,) = axes()
    shown = means.rename(PEERS).iloc[::-1]
    is_ours = [name in OURS for name in means.index[::-1]]
    ax.barh(np.arange(len(shown)), shown, color=[color(0 if ours else 1) for ours in is_ours])
    for place, value in enumerate(shown):
        ax.text(value, place, f" {value:,.3g}" if value < 100 else f" {value:,.0f}", va="center")
    ax.set_yticks(np.arange(len(shown)), shown.index)
    ax.set_xscale("log")
    ax.set_xlabel(label, fontsize=12)
    return figure


def fast(_: str) -> Figure:
    """Draw geometric means of samples per second."""
    means = np.exp(np.log(streams("samples/s")).mean())
    return _bars(means, "samples per second (predict and learn), more is better")


def small(_: str) -> Figure:
    """Draw geometric means of memory."""
    means = np.exp(np.log(streams("MiB").clip(lower=0.05)).mean())
    return _bars(means, "MiB after the stream, less is better")


def growth(_: str) -> Figure:
    """Draw time by the number of classes, and memory by the number of samples."""
    figure, (left, right) = axes(7.2, 3.6, 2)
    found = table("limits", "Classes")
    found = found[found["samples"] == "1200"].drop_duplicates(["classes", "forest"])
    for k, (forest, rows) in enumerate(found.groupby("forest", sort=False)):
        micros = numbers(rows["learn_one"]) + numbers(rows["predict_one"])
        width = 3 if forest in OURS else 1.5
        left.plot(numbers(rows["classes"]), micros, marker="o", color=color(k), linewidth=width)
        left.annotate(
            forest,
            (1000, micros.iloc[-1]),
            (6, 0),
            textcoords="offset points",
            va="center",
            color=color(k),
        )
    left.set(xscale="log", yscale="log", xlim=(20, 9000))
    left.set_xticks([26, 100, 1000], ["26", "100", "1,000"])
    left.minorticks_off()
    left.set_xlabel("classes", fontsize=12)
    left.set_title("microseconds per sample", fontsize=12)
    memory = table("adaptive", "Memory")
    right.plot(numbers(memory["samples"]) / 1e6, numbers(memory["MiB"]), "o-", color=color(0))
    right.set(ylim=(0.0, 1.5 * numbers(memory["MiB"]).max()))
    right.set_xlabel("millions of samples, window=20000", fontsize=12)
    right.set_title("MiB of the adaptive forest", fontsize=12)
    return figure


def calibrated(_: str) -> Figure:
    """Draw the coverage of intervals on each stream, by method."""
    figure, (ax,) = axes(7.2, 3.9)
    found = table("calibration", "Intervals")
    found = found[found["delay"] == "0"]
    methods = {
        "calibrated": "Calibrated(forest)",
        "distribution": "forest alone",
        "jackknife": "River's jackknife",
    }
    for k, (method, label) in enumerate(methods.items()):
        covered = found[method].map(lambda cell: cell.split(" / ")[0].split(", "))
        for place in range(3):
            values = covered.map(lambda cells, place=place: float(cells[place]))
            jitter = np.linspace(-0.11, 0.11, len(values))
            shown = label if place == 0 else None
            ax.scatter(place + 0.28 * (k - 1) + jitter, values, 22, color(k), label=shown)
    for place, level in enumerate((50, 80, 95)):
        ax.plot([place - 0.45, place + 0.45], [level, level], color="gray", linewidth=1, zorder=0)
    ax.set_xticks(range(3), ["50 %", "80 %", "95 %"])
    ax.set_xlabel("requested coverage", fontsize=12)
    ax.set_ylabel("targets covered, %", fontsize=12)
    ax.legend(loc="lower right", fontsize=11, frameon=False)
    return figure


def drifting(_: str) -> Figure:
    """Draw the accuracy over the 500 samples after a change of the boundary."""
    figure, (ax,) = axes(7.2, 3.9)
    found = table("adaptive", "Jumps")
    labels = (
        found["turn"]
        + ", "
        + found["features"]
        + " features"
        + np.where(found["noise"].astype(float) > 0.0, ",\n10 % of labels flipped", "")
    )
    models = {
        "adaptive, 10 trees": "adaptive Mondrian forest",
        "SGD(0.01)": "logistic regression",
        "ARF": "River ARF",
    }
    for k, (model, label) in enumerate(models.items()):
        values = numbers(found[model], 1)
        ax.barh(
            np.arange(len(found))[::-1] + 0.27 * (1 - k), values, 0.25, color=color(k), label=label
        )
    ax.set_yticks(np.arange(len(found))[::-1], labels, fontsize=9)
    ax.set(xlim=(0.5, 1.0))
    ax.set_xlabel("accuracy over the 500 samples after a change", fontsize=12)
    ax.legend(loc="upper center", bbox_to_anchor=(0.4, 1.14), ncols=3, fontsize=11, frameon=False)
    return figure


FIGURES: dict[str, Callable[[str], Figure]] = {
    "accurate": accurate,
    "fast": fast,
    "small": small,
    "growth": growth,
    "calibrated": calibrated,
    "drifting": drifting,
}
