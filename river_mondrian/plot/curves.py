"""How well models have done in the course of a stream."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..arguments import told
from . import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What River's checkpoints hold besides metrics.
BESIDES = ("Step", "Time", "Memory", "Samples used", "Prediction")


def progressive(
    curves: Mapping[Any, Iterable[Any]],
    metric: str | None = None,
    drifts: Any = (),
    ax: Axes | None = None,
) -> Axes:
    """Draw the progressive scores of models, and where there were drifts.

    Parameters
    ----------
    curves
        By name of the model: what River's `evaluate.iter_progressive_val_score` returns, which is
        run by this, or pairs (number of samples, score).
    metric
        Name of the metric, such as "Accuracy". None stands for the only one that checkpoints hold.
    drifts
        Numbers of samples at which there was a drift, a model's `drift_log`, or an adaptive forest,
        whose log is read once the curves have been run. They are marked.
    ax
        Axes of matplotlib to draw on; None stands for those of a new figure.

    Returns
    -------
    The axes, with a line for each model.

    Raises
    ------
    TypeError
        If a curve holds neither checkpoints nor pairs.
    ValueError
        If checkpoints hold several metrics, or not the one that is asked for; or if they have been
        collected in a list, where all hold the same metric, as it was at last.

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
        raise TypeError(
            f"curves must be a mapping from name to scores, got a {type(curves).__name__}"
        )
    lines, label = {}, "progressive score"
    for name, curve in curves.items():
        lines[name], metric, label = _read(name, curve, metric)
    places = _places_of(drifts)
    ax = canvas.axes_for(ax)
    for k, (name, points) in enumerate(lines.items()):
        xs, ys = [x for x, _ in points], [y for _, y in points]
        ax.plot(xs, ys, canvas.style(k), color=canvas.color(k), label=canvas.text(name))
    for i, place in enumerate(places):
        # One name in the legend stands for all.
        said = "drift" if i == 0 else "_"
        ax.axvline(place, color=canvas.NEUTRAL, linestyle=":", linewidth=1.0, label=said)
    canvas.name_lines(ax, *ax.get_legend_handles_labels())
    ax.set_xlabel("samples")
    ax.set_ylabel(canvas.text(label))
    return ax


def _places_of(drifts: Any) -> list[float]:
    """Return after how many samples there were drifts."""
    log = getattr(drifts, "drift_log", drifts)
    try:
        return [float(drift[0] if isinstance(drift, Sequence) else drift) for drift in log]
    except (TypeError, ValueError, IndexError):
        raise TypeError(
            f"drifts must be numbers of samples, a drift_log or an adaptive forest, "
            f"got {told(drifts)}"
        ) from None


def _read(
    name: Hashable, curve: Iterable[Any], metric: str | None
) -> tuple[list[tuple[float, float]], str | None, str]:
    """Return the points of a curve, the name of the metric, and what it says."""
    label = "progressive score"
    points = []
    seen: Any = None
    x: Any
    y: Any
    for item in canvas.iterated(f"the curve of {name!r}", curve):
        if isinstance(item, Mapping):
            metric = _metric_of(name, item, metric)
            if isinstance(curve, Sequence) and item[metric] is seen:
                raise ValueError(
                    f"the checkpoints of {name!r} all hold the same metric, as it was at last: "
                    "give what iter_progressive_val_score returns, and not a list of it"
                )
            seen = item[metric]
            label = _label_of(metric, seen)
            x, y = item.get("Step"), getattr(seen, "get", lambda value=seen: value)()
        else:
            try:
                x, y = item
            except (TypeError, ValueError):
                x = y = None
        try:
            points.append((float(x), float(y)))
        except (TypeError, ValueError):
            raise TypeError(
                f"the curve of {name!r} must hold River's checkpoints or pairs "
                f"(number of samples, score), got {item!r}"
            ) from None
    return points, metric, label


def _label_of(metric: str, state: Any) -> str:
    """Return what a metric says: of River's windows, of which metric and how many samples."""
    of = type(getattr(state, "obj", state)).__name__
    window = getattr(state, "window_size", None)
    return metric if window is None else f"{of} of the latest {window}"


def _metric_of(name: Hashable, checkpoint: Mapping[str, Any], metric: str | None) -> str:
    """Return the name of the metric that is to be drawn."""
    there = [key for key in checkpoint if key not in BESIDES]
    if metric is None and len(there) == 1:
        return there[0]
    if metric not in there:
        said = "which one to draw" if metric is None else f"no {metric!r}"
        raise ValueError(f"the checkpoints of {name!r} hold {there}: metric says {said}")
    return metric
