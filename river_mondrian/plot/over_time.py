"""Pictures over time: errors of models, intervals, scores of detectors, and weights of mixtures."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arguments import is_real, told
from . import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Keys of River's checkpoints that are not metrics.
BESIDES = ("Step", "Time", "Memory", "Samples used", "Prediction")


def progressive(
    curves: Mapping[Any, Iterable[Any]],
    metric: str | None = None,
    drifts: Any = (),
    ax: Axes | None = None,
) -> Axes:
    """Draw the progressive scores of models over time, and mark drifts.

    Parameters
    ----------
    curves
        A mapping from the name of a model to its curve. A curve consists of pairs (number of
        samples, score), or is the iterator of River's `evaluate.iter_progressive_val_score`.
    metric
        Name of the metric, such as "Accuracy"; None if the checkpoints have only one metric.
    drifts
        The drifts to mark: the number of samples at each drift, a `drift_log`, an adaptive forest,
        or a `DriftMonitor`. Logs are read after the iterators have been run.
    ax
        Axes of matplotlib to draw on; None for the axes of a new figure.

    Returns
    -------
    The axes, with a line for each model.

    Raises
    ------
    TypeError
        If `curves` is not a mapping, or a curve contains neither checkpoints nor pairs.
    ValueError
        If checkpoints contain several metrics and `metric` is None, or lack the requested metric.
        If checkpoints in a list share one metric, because all of them then have the metric's final
        state.

    Examples
    --------

    >>> from river import datasets, evaluate, metrics, naive_bayes
    >>> from river_mondrian import MondrianForestClassifier, plot

    >>> models = {
    ...     "Mondrian forest": MondrianForestClassifier(seed=42),
    ...     "naive Bayes": naive_bayes.GaussianNB(),
    ... }
    >>> ax = plot.progressive(
    ...     {
    ...         name: evaluate.iter_progressive_val_score(
    ...             datasets.Phishing().take(200), model, metrics.Accuracy(), step=20
    ...         )
    ...         for name, model in models.items()
    ...     }
    ... )
    >>> len(ax.lines)
    2

    """
    if not isinstance(curves, Mapping):
        raise TypeError(f"curves must be a mapping from name to scores, got {told(curves)}")
    lines, label = {}, "progressive score"
    for name, curve in curves.items():
        lines[name], metric, label = _read(name, curve, metric)
    drift_times = _times_of(drifts)
    ax = canvas.axes_for(ax)
    for k, (name, points) in enumerate(lines.items()):
        xs, ys = [x for x, _ in points], [y for _, y in points]
        canvas.draw_line(ax, k, xs, ys, label=canvas.text(name))
    for i, time in enumerate(drift_times):
        # Matplotlib omits labels that begin with an underscore, so the legend has one entry for all
        # drifts.
        said = "drift" if i == 0 else "_"
        ax.axvline(time, color=canvas.NEUTRAL, linestyle=":", linewidth=1.0, label=said)
    canvas.name_lines(ax, *ax.get_legend_handles_labels())
    ax.set(xlabel="samples", ylabel=canvas.text(label))
    return ax


def _times_of(drifts: Any) -> list[float]:
    """Return the number of samples at each drift."""
    log = getattr(drifts, "drift_log", getattr(drifts, "log", drifts))
    try:
        return [float(drift[0] if isinstance(drift, Sequence) else drift) for drift in log]
    except (TypeError, ValueError, IndexError):
        raise TypeError(f"drifts must be numbers or a drift_log, got {told(drifts)}") from None


def drifts(monitor: Any, ax: Axes | None = None) -> Axes:
    """Draw the drifts of a monitor: their times, the changed features or labels, and the evidence.

    Parameters
    ----------
    monitor
        A `DriftMonitor`, or a list of `Drift`s.
    ax
        Axes of matplotlib to draw on; None for the axes of a new figure.

    Returns
    -------
    The axes, with a row for each changed feature, each changed label and the relation, but at most
    the 20 rows with the largest log evidence. A bar goes from the estimated beginning of a change
    to the sample that raised the alarm. The height of a bar increases with the log evidence; for
    the relation, with the largest log evidence of the same drift.

    Raises
    ------
    TypeError
        If `monitor` is neither a monitor nor a list of drifts.

    Examples
    --------

    >>> import random
    >>> from river_mondrian import DriftMonitor, plot

    >>> rng = random.Random(42)
    >>> monitor = DriftMonitor(seed=42)
    >>> for i in range(2000):
    ...     load, errors = rng.gauss(50.0, 5.0), rng.gauss(3.0, 1.0)
    ...     monitor.learn_one({"load": load + (10.0 if i > 1000 else 0.0), "errors": errors})
    >>> ax = plot.drifts(monitor)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['load']

    """
    # For each pair (colour, name): the beginning, the alarm and the evidence of each change.
    bars: dict[tuple[int, str], list[tuple[int, int, float]]] = {}
    try:
        for drift in getattr(monitor, "log", monitor):
            for name, evidence in drift.features.items():
                ends = drift.feature_began[name], drift.sample
                bars.setdefault((0, canvas.label(name)), []).append((*ends, evidence))
            for name, evidence in drift.labels.items():
                said = "target" if name == "target" else f"label {canvas.label(name)}"
                bars.setdefault((1, said), []).append((drift.began, drift.sample, evidence))
            if "relation" in drift.kinds:
                strongest = max((*drift.features.values(), *drift.labels.values()), default=1.0)
                bars.setdefault((2, "relation"), []).append((drift.began, drift.sample, strongest))
    except (AttributeError, TypeError):
        raise TypeError(f"monitor must be a DriftMonitor or drifts, got {told(monitor)}") from None
    largest = {row: max(evidence for *_, evidence in spans) for row, spans in bars.items()}
    rows = sorted(bars, key=lambda row: -largest[row])[:MOST_NUMBERS]
    ax = canvas.axes_for(ax)
    for y, row in enumerate(rows):
        for began, sample, evidence in bars[row]:
            height = 0.2 + 0.7 * evidence / largest[rows[0]]
            ax.barh(y, sample - began, height, began, color=canvas.color(row[0]))
    ax.set(yticks=range(len(rows)), yticklabels=[said for _, said in rows], xlabel="samples")
    ax.invert_yaxis()
    return ax


def _read(
    name: Hashable, curve: Iterable[Any], metric: str | None
) -> tuple[list[tuple[float, float]], str | None, str]:
    """Return a curve's points, the name of its metric, and the label of the axis."""
    label = "progressive score"
    points = []
    seen: Any = None
    for item in canvas.iterated(f"the curve of {name!r}", curve):
        if isinstance(item, Mapping):
            metric = _metric_of(name, item, metric)
            if isinstance(curve, Sequence) and item[metric] is seen:
                raise ValueError(
                    f"the checkpoints of {name!r} all hold the same metric in its final state: "
                    "give the iterator of iter_progressive_val_score, not a list"
                )
            seen = item[metric]
            # A rolling metric uses only the latest samples, so the label shows the length of its
            # window.
            window = getattr(seen, "window_size", None)
            of = type(getattr(seen, "obj", seen)).__name__
            label = metric if window is None else f"{of} of the latest {window}"
            try:
                pair: Any = item.get("Step"), seen.get() if hasattr(seen, "get") else seen
            except NotImplementedError:
                raise TypeError(
                    f"the metric of {name!r} has no single score, got a {metric}: give another "
                    "metric, such as metrics.F1()"
                ) from None
        else:
            pair = item
        try:
            x, y = pair
            points.append((float(x), float(y)))
        except (TypeError, ValueError):
            text = "River's checkpoints or pairs (number of samples, score)"
            raise TypeError(f"the curve of {name!r} must hold {text}, got {item!r}") from None
    return points, metric, label


def _metric_of(name: Hashable, checkpoint: Mapping[str, Any], metric: str | None) -> str:
    """Return the name of the metric to draw."""
    there = [key for key in checkpoint if key not in BESIDES]
    if metric is None and len(there) == 1:
        return there[0]
    if metric not in there:
        said = "choose one by metric" if metric is None else f"there is no {metric!r}"
        raise ValueError(f"the checkpoints of {name!r} hold {there}: {said}")
    return metric


# Opacities of the widest and the narrowest interval.
LIGHTEST, DARKEST = 0.35, 0.7


def intervals(
    targets: Iterable[float],
    distributions: Iterable[Any],
    times: Sequence[Any] | None = None,
    levels: Sequence[float] = (0.5, 0.9),
    ax: Axes | None = None,
) -> Axes:
    """Draw targets, their predictions, and their prediction intervals.

    Parameters
    ----------
    targets
        The targets, in the order of the stream.
    distributions
        The distribution of each target, predicted by `predict_one(x, with_dist=True)` before the
        target was learned; None for targets without a distribution.
    times
        Times of the targets, as numbers or dates. None for 1, 2, 3, ...
    levels
        Probabilities of the central intervals, between 0 and 1.
    ax
        Axes of matplotlib to draw on; None for the axes of a new figure.

    Returns
    -------
    The axes. For each level, the legend shows the share of targets inside their intervals, among
    the targets with a distribution.

    Raises
    ------
    TypeError
        If a prediction is not a distribution, a target is not a number, or `levels` is not a list.
    ValueError
        If a level is not between 0 and 1, or the lengths of the lists differ.

    Examples
    --------

    >>> from river import datasets
    >>> from river_mondrian import MondrianForestRegressor, plot

    >>> model = MondrianForestRegressor(seed=42)
    >>> targets, predicted = [], []
    >>> for x, y in datasets.TrumpApproval().take(300):
    ...     targets.append(y)
    ...     predicted.append(model.predict_one(x, with_dist=True))
    ...     model.learn_one(x, y)
    >>> ax = plot.intervals(targets, predicted, levels=[0.9])
    >>> [line.get_label() for line in ax.lines]
    ['target', 'predicted']

    """
    ys = canvas.numbers("targets", targets)
    said = list(canvas.iterated("distributions", distributions))
    when = range(1, len(ys) + 1) if times is None else list(canvas.iterated("times", times))
    levels = list(canvas.iterated("levels", levels))
    if not len(ys) == len(said) == len(when):
        raise ValueError(f"got {len(ys)} targets, {len(said)} distributions, {len(when)} times")
    for level in levels:
        if not (is_real(level) and 0.0 < level < 1.0):
            raise ValueError(f"levels must be between 0 and 1, got {level!r}")
    levels = sorted(levels, reverse=True)
    bands = np.array([[_interval(d, level) for d in said] for level in levels])
    bands = bands.reshape(len(levels), len(said), 2)
    centres = [math.nan if d is None else d.mean for d in said]
    ax = canvas.axes_for(ax)
    for i, (level, band) in enumerate(zip(levels, bands, strict=True)):
        low, high = band.T
        known = ~np.isnan(low)
        inside = np.mean((low <= ys)[known] & (ys <= high)[known]) if known.any() else math.nan
        alpha = LIGHTEST + (DARKEST - LIGHTEST) * i / max(len(levels) - 1, 1)
        label = f"{level:.0%} interval, {inside:.1%} inside"
        ax.fill_between(when, low, high, fc=canvas.COLORS[4], alpha=alpha, lw=0, label=label)
    ax.plot(when, ys, color=canvas.text_color(), linewidth=0.9, label="target")
    ax.plot(when, centres, color=canvas.COLORS[1], linewidth=0.9, label="predicted")
    canvas.name_lines(ax, *ax.get_legend_handles_labels())
    ax.set(xlabel="samples" if times is None else "time", ylabel="target")
    return ax


def _interval(distribution: Any, level: float) -> tuple[float, float]:
    """Return the central interval of a distribution."""
    if distribution is None:
        return math.nan, math.nan
    if not hasattr(distribution, "interval"):
        raise TypeError(
            "distributions must be those of predict_one(x, with_dist=True), "
            f"got {told(distribution)}"
        )
    low, high = distribution.interval(level)
    return low, high


# Largest number of labelled samples, and of rows of drifts, because more labels would overlap.
MOST_NUMBERS = 20
# Width and height of a number's label, as shares of the axes.
LABEL_WIDTH, LABEL_HEIGHT = 0.06, 0.07


def _apart(
    numbers: NDArray[np.int64], scores: NDArray[np.float64], width: float, height: float
) -> list[tuple[int, float]]:
    """Return pairs (number, score) of the largest scores whose labels do not overlap."""
    apart: list[tuple[int, float]] = []
    order = np.argsort(-scores, kind="stable")
    for number, score in zip(numbers[order].tolist(), scores[order].tolist(), strict=True):
        is_free = all(
            abs(number - taken) > LABEL_WIDTH * width or abs(score - its) > LABEL_HEIGHT * height
            for taken, its in apart
        )
        if is_free and len(apart) < MOST_NUMBERS:
            apart.append((number, score))
    return sorted(apart)


def scores(
    scores: Any,
    threshold: float = 0.99,
    anomalies: Iterable[bool] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the scores of a detector over time, and mark the anomalies.

    Parameters
    ----------
    scores
        The results of a detector's `score_one`, in the order of the stream; or a `RandomCutForest`
        or a `NearestNeighborDetector`, whose `recent_scores` are drawn.
    threshold
        A quantile level from 0 to 1. Samples whose scores exceed this quantile of the drawn scores
        are marked.
    anomalies
        For each sample, whether it is a known anomaly. Known anomalies are marked at the bottom.
    ax
        Axes of matplotlib to draw on; None for the axes of a new figure.

    Returns
    -------
    The axes. The horizontal axis shows the number of each sample, counted from 1. Numbers label the
    first samples of runs of marked samples. At most 20 labels are drawn, the highest scores first,
    and labels that would overlap are omitted.

    Raises
    ------
    TypeError
        If `scores` are neither numbers nor a detector with recent scores.
    ValueError
        If the threshold is not within [0, 1], or the numbers of scores and `anomalies` differ.

    Examples
    --------

    >>> from river import datasets
    >>> from river_mondrian import DensityForest, plot

    >>> detector = DensityForest(10, seed=42)
    >>> found, odd = [], []
    >>> for x, y in datasets.Shuttle().take(300):
    ...     found.append(detector.score_one(x))
    ...     odd.append(y)
    ...     detector.learn_one(x)
    >>> ax = plot.scores(found, threshold=0.95, anomalies=odd)
    >>> ax.get_title()
    'samples above 0.95 of the latest 300'

    """
    if not (is_real(threshold) and 0.0 <= threshold <= 1.0):
        raise ValueError(f"threshold must be from 0 to 1, got {threshold!r}")
    if hasattr(scores, "_recent"):
        numbers, ys = scores._recent()
        name = scores._SCORE
    else:
        try:
            ys = np.array(list(scores), dtype=np.float64)
        except (TypeError, ValueError):
            ys = np.zeros((0, 0))
        if ys.ndim != 1:
            raise TypeError(
                f"scores must be numbers or a detector with recent_scores, got {told(scores)}"
            )
        numbers, name = np.arange(1, len(ys) + 1), "score"
    known = None if anomalies is None else np.array(list(anomalies), dtype=bool)
    if known is not None and len(known) != len(ys):
        raise ValueError(f"there are {len(ys)} scores but {len(known)} anomalies")
    ax = canvas.axes_for(ax)
    ax.plot(numbers, ys, color=canvas.NEUTRAL, linewidth=0.8)
    if len(ys):
        limit = float(np.nanquantile(ys, threshold))
        odd = ys > limit
        ax.axhline(limit, color=canvas.NEUTRAL, linestyle="--", linewidth=0.8)
        ax.plot(numbers[odd], ys[odd], "o", color=canvas.ODD, markersize=4, label="anomalous")
        firsts = odd & ~np.roll(odd, 1)
        firsts[0] = odd[0]
        for number, score in _apart(numbers[firsts], ys[firsts], np.ptp(numbers), np.ptp(ys)):
            canvas.write(ax, str(number), (number, score), (3, 3), fontsize="x-small")
    if known is not None:
        # Known anomalies are drawn at the bottom of the axes, where scores do not hide them.
        foot, where = np.full(int(known.sum()), 0.02), ax.get_xaxis_transform()
        look: dict[str, Any] = {"color": canvas.COLORS[0], "label": "known as unusual"}
        ax.plot(numbers[known], foot, "|", markersize=10, transform=where, **look)
        canvas.name_lines(ax, *ax.get_legend_handles_labels(), beside=True)
    title = f"samples above {threshold:g} of the latest {len(ys)}"
    ax.set(xlabel="sample", ylabel=canvas.text(name), title=title)
    return ax


# Groups of experts. The name of a classifier's expert, or the last part of this name, determines
# its group. For a regressor's expert, the first part of the name determines the group.
_GROUPS_OF_CLASSES = {
    "trees of all samples": ("trees of all samples",),
    "trees of all and of recent samples": ("all trees",),
    "lines": ("softmax, small steps", "softmax, large steps", "naive Bayes"),
    "neighbors": tuple(f"nearest of the latest {n} samples" for n in ("200", "1,000", "5,000")),
}
_GROUPS_OF_TARGETS = {
    "lines": ("linear", "latest linear"),
    "bends": ("additive", "late additive"),
    "waves": ("waves", "waves of logarithms"),
    "trees": ("trees, not extended", "trees, extended"),
    "trees of residuals": ("trees of residuals, not extended", "trees of residuals, extended"),
    "trees of errors": ("trees of errors", "recent trees of errors"),
    "neighbors": ("nearest neighbours",),
    "series": ("targets and errors of late", "latest targets and errors", "last target"),
}
_OF_CLASSES = {name: group for group, names in _GROUPS_OF_CLASSES.items() for name in names}
_OF_TARGETS = {name: group for group, names in _GROUPS_OF_TARGETS.items() for name in names}


def weights(
    history: Iterable[tuple[float, Mapping[str, float]]],
    groups: Mapping[str, str | None] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the weights of an adaptive forest's experts over time.

    Parameters
    ----------
    history
        Pairs (number of samples, `model.expert_weights`), collected at intervals while the model
        learns. Pairs without weights are omitted.
    groups
        A mapping from expert to group, or to None to omit the expert. The weights of a group are
        added up. Experts that are not in the mapping are drawn separately. By default, similar
        experts form a group, for example "trees" and "lines" (linear models).
    ax
        Axes of matplotlib to draw on; None for the axes of a new figure.

    Returns
    -------
    The axes, with an area for each group, or a line for each group if the weight of any group is
    negative. A classifier's weights are exponents, and a regressor's weights belong to a mixture;
    both may be negative.

    Raises
    ------
    TypeError
        If the history does not consist of pairs of a number and weights.

    Examples
    --------

    >>> from river.datasets import synth
    >>> from river_mondrian import AdaptiveMondrianForestClassifier, plot

    >>> model = AdaptiveMondrianForestClassifier(seed=42)
    >>> history = []
    >>> for i, (x, y) in enumerate(synth.Sine(seed=1).take(400)):
    ...     model.learn_one(x, y)
    ...     if i % 50 == 0:
    ...         history.append((model.n_samples, model.expert_weights))
    >>> ax = plot.weights(history)
    >>> [area.get_label() for area in ax.collections][1:]
    ['trees of all and of recent samples', 'lines', 'neighbors', 'fixed share of the others']

    """
    numbers: list[float] = []
    rows: list[dict[str, float]] = []
    for item in canvas.iterated("history", history):
        try:
            n, at = item
            named = dict(at.items())
            numbers_of = float(n)
        except (AttributeError, TypeError, ValueError):
            raise TypeError(f"history must hold pairs (n, expert_weights), got {item!r}") from None
        if named:
            sums: dict[str, float] = {}
            for name, weight in named.items():
                group = _group_of(name) if groups is None else groups.get(name, name)
                if group is not None:
                    sums[group] = sums.get(group, 0.0) + float(weight)
            numbers.append(numbers_of)
            rows.append(sums)
    names = list(dict.fromkeys(name for row in rows for name in row))
    areas = np.array([[row.get(name, 0.0) for row in rows] for name in names])
    ax = canvas.axes_for(ax)
    if len(areas):
        if (areas >= 0.0).all():
            colors = [canvas.color(k) for k in range(len(names))]
            hatches = [canvas.hatch(k) for k in range(len(names))]
            shown = list(map(canvas.text, names))
            ax.stackplot(numbers, areas, labels=shown, colors=colors, hatch=hatches, alpha=0.8)
            ax.set_ylim(bottom=0.0)
        else:
            for k, (name, line) in enumerate(zip(names, areas, strict=True)):
                canvas.draw_line(ax, k, numbers, line, label=canvas.text(name))
            ax.axhline(0.0, color=canvas.NEUTRAL, linewidth=0.8)
        ax.set_xlim(numbers[0], max(numbers[-1], numbers[0] + 1.0))
    canvas.name_lines(ax, *ax.get_legend_handles_labels())
    ax.set(xlabel="samples", ylabel="weight")
    return ax


def _group_of(name: str) -> str | None:
    """Return the group of an expert; an unknown expert is its own group."""
    of_classes = name if name in _OF_CLASSES else name.rpartition(", ")[2]
    if of_classes in _OF_CLASSES:
        return _OF_CLASSES[of_classes]
    return _OF_TARGETS.get(name.partition(":")[0], name)
