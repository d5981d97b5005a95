"""Pictures of feature importances, calibration, and errors by lifetime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arguments import check_integer, is_real, told
from . import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def importances(model: Any, most: int = 20, ax: Axes | None = None) -> Axes:
    """Draw the importances of features, or their contributions to one prediction, as bars.

    Parameters
    ----------
    model
        A forest with `feature_importances`, or a mapping from feature to number. The mapping may be
        the result of `explain_one`, or a classifier's result for one label.
    most
        Number of features with their own bar: the features with the largest absolute values.
        Another bar shows the sum of the other features.
    ax
        Axes of matplotlib to draw on; None for the axes of a new figure.

    Returns
    -------
    The axes. The bar with the largest absolute value is on top, and the bar of the other features
    is at the bottom. Negative bars have another colour.

    Raises
    ------
    TypeError
        If the model has no importances, or a value is not a number.
    ValueError
        If `most` is less than 1.

    Examples
    --------

    >>> from river import datasets
    >>> from river_mondrian import MondrianForestClassifier, plot

    >>> model = MondrianForestClassifier(seed=42)
    >>> for x, y in datasets.Phishing().take(300):
    ...     model.learn_one(x, y)
    >>> ax = plot.importances(model, most=5)
    >>> len(ax.patches)
    6
    >>> ax = plot.importances(model.explain_one(x)[True])

    """
    check_integer("most", most, 1)
    numbers = model if isinstance(model, Mapping) else getattr(model, "feature_importances", None)
    if not isinstance(numbers, Mapping):
        raise TypeError(f"importances need feature_importances or a mapping, got {told(model)}")
    for name, value in numbers.items():
        if isinstance(value, Mapping):
            raise TypeError(f"choose a label's mapping, such as explain_one(x)[{name!r}]")
        if not is_real(value):
            raise TypeError(f"the importance of feature {name!r} must be a number, got {value!r}")
    names, values = _ranked(numbers, most)
    ax = canvas.axes_for(ax)
    # Bars are placed by number, because two features may have names with the same text.
    ax.barh(range(len(values)), values, color=_colors(values))
    ax.set_yticks(range(len(values)), names)
    ax.invert_yaxis()
    ax.axvline(0.0, color=canvas.NEUTRAL, linewidth=0.8)
    ax.set_xlabel("adds to the prediction" if numbers is model else "importance")
    return ax


def _ranked(
    numbers: Mapping[Any, float], most: int, x: Mapping[Any, Any] | None = None
) -> tuple[list[str], list[float]]:
    """Return the labels and numbers of the bars.

    The `most` numbers with the largest absolute values come first, followed by the sum of the
    others.
    """
    ranked = sorted(numbers.items(), key=lambda item: -abs(item[1]))
    names = [canvas.label(name, None if x is None else x.get(name)) for name, _ in ranked[:most]]
    values = [float(value) for _, value in ranked[:most]]
    if rest := ranked[most:]:
        names.append(f"{len(rest)} other{'' if len(rest) == 1 else 's'}")
        values.append(float(sum(value for _, value in rest)))
    return names, values


def _colors(values: list[float]) -> list[str]:
    """Return a colour for each bar: one for positive numbers, another for negative numbers."""
    return [canvas.COLORS[0] if value >= 0.0 else canvas.COLORS[1] for value in values]


def explanation(
    model: Any, x: Mapping[Any, Any], label: Any = None, most: int = 10, ax: Axes | None = None
) -> Axes:
    """Draw the contributions of features to a prediction, as bars from baseline to prediction.

    Parameters
    ----------
    model
        A forest or a detector with `explain_one`.
    x
        A mapping from feature to number, or to a level of a category.
    label
        The label whose probability is explained, for classifiers; None for the predicted label.
    most
        Number of features with their own bar: the features with the largest absolute contributions.
        Another bar shows the sum of the other features.
    ax
        Axes of matplotlib to draw on; None for the axes of a new figure.

    Returns
    -------
    The axes. Each bar starts where the previous bar ends. The left side shows the features with
    their values in `x`. The right side shows the baseline, the contribution of each feature, and
    the prediction.

    Raises
    ------
    TypeError
        If the model has no `explain_one`.
    ValueError
        If `most` is less than 1, or the label has not been seen.

    Examples
    --------

    >>> from river import datasets
    >>> from river_mondrian import MondrianForestClassifier, plot

    >>> model = MondrianForestClassifier(seed=42)
    >>> for x, y in datasets.Phishing().take(300):
    ...     model.learn_one(x, y)
    >>> ax = plot.explanation(model, x, most=5)
    >>> [label.get_text() for label in ax.get_yticklabels()][:2]
    ['baseline', 'anchor_from_other_domain = 0.5']

    """
    check_integer("most", most, 1)
    if not hasattr(model, "explain_one"):
        raise TypeError(
            f"an explanation needs a model with explain_one, got {told(model)}. Pass the last step "
            "of a pipeline, and the sample of pipeline.transform_one; or the model of a wrapper"
        )
    terms, start = model.explain_one(x), getattr(model, "baseline", 0.0)
    what = "score" if hasattr(model, "score_one") else "prediction"
    if isinstance(start, Mapping):
        label = model.predict_one(x) if label is None else label
        if label not in start:
            raise ValueError(f"label must be one of {list(start)}, got {label!r}")
        terms, start, what = terms[label], start[label], f"probability of {canvas.text(label)}"
    names, added = _ranked(terms, most, x)
    ends, n = start + np.cumsum([0.0, *added]), len(added)
    ax = canvas.axes_for(ax)
    # Sticky edges would remove the margin, so that markers at the edge would be cut off.
    ax.use_sticky_edges = False
    ax.vlines(ends, range(n + 1), range(1, n + 2), color=canvas.NEUTRAL, linewidth=0.8)
    ax.barh(range(1, n + 1), added, left=ends[:-1], color=_colors(added))
    ax.plot(ends[[0, -1]], [0, n + 1], canvas.MARKERS[-1], color=canvas.NEUTRAL)
    ax.set_yticks(range(n + 2), ["baseline", *names, "prediction"])
    ax.invert_yaxis()
    ax.set_xlabel(what)
    numbers = ax.secondary_yaxis("right")
    shown = [_number(start), *(_number(value, "+") for value in added), _number(ends[-1])]
    numbers.set_yticks(range(n + 2), shown)
    numbers.tick_params(length=0.0)
    return ax


def _number(value: float, sign: str = "") -> str:
    """Return a number as text: an integer such as 1,800 from 100 to 1e9, else 3 digits."""
    return f"{value:{sign},.0f}" if 100.0 <= abs(value) < 1e9 else f"{value:{sign}.3g}"


# The area of a bin's marker in square points is LEAST_AREA, plus LARGEST_AREA times the bin's share
# of all probabilities.
LARGEST_AREA = 400.0
LEAST_AREA = 10.0


def reliability(
    predictions: Any, labels: Iterable[Any], n_bins: int = 10, ax: Axes | None = None
) -> Axes:
    """Draw a reliability diagram: observed frequencies against predicted probabilities.

    Probabilities of all labels are sorted into bins of equal width. The marker of a bin shows the
    mean of the bin's probabilities and the share of the bin's labels that were true. The area of a
    marker grows with the number of probabilities. The markers of calibrated probabilities are on
    the diagonal. If a marker is below the diagonal, the probabilities in its bin are too high.

    Parameters
    ----------
    predictions
        The results of `predict_proba_one` for each sample before the sample was learned, or a
        mapping from the name of a model to these results. Empty results, before the first sample,
        are ignored.
    labels
        The true label of each sample.
    n_bins
        Number of bins.
    ax
        Axes of matplotlib to draw on; None for the axes of a new figure.

    Returns
    -------
    The axes. The legend has the expected calibration error: the mean distance of the bins from the
    diagonal, weighted by their numbers of probabilities.

    Raises
    ------
    TypeError
        If a prediction is not a mapping from label to probability.
    ValueError
        If the numbers of predictions and labels differ, `n_bins` is less than 1, or a probability
        is not within [0, 1].

    Examples
    --------

    >>> from river import datasets
    >>> from river_mondrian import AdaptiveMondrianForestClassifier, plot

    >>> model = AdaptiveMondrianForestClassifier(seed=42)
    >>> predictions, labels = [], []
    >>> for x, y in datasets.Phishing().take(400):
    ...     predictions.append(model.predict_proba_one(x))
    ...     labels.append(y)
    ...     model.learn_one(x, y)
    >>> ax = plot.reliability(predictions, labels)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('predicted probability', 'frequency')

    """
    check_integer("n_bins", n_bins, 1)
    truth = list(canvas.iterated("labels", labels))
    named = predictions if isinstance(predictions, Mapping) else {"": predictions}
    bins = {name: _bins(_listed(rows), truth, n_bins) for name, rows in named.items()}
    ax = canvas.axes_for(ax)
    ax.plot([0.0, 1.0], [0.0, 1.0], color=canvas.NEUTRAL, linewidth=0.8)
    handles, names = [], []
    for k, (name, (sizes, means, shares)) in enumerate(bins.items()):
        used = sizes > 0
        total = max(float(sizes.sum()), 1.0)
        error = float(sizes[used] @ np.abs(means[used] - shares[used])) / total
        areas = LEAST_AREA + LARGEST_AREA * sizes[used] / total
        handles.append(canvas.draw_line(ax, k, means[used], shares[used], linewidth=1.0))
        look: dict[str, Any] = {"color": canvas.color(k), "marker": canvas.marker(k), "alpha": 0.8}
        ax.scatter(means[used], shares[used], areas, **look)
        names.append(f"{canvas.text(name)}{': ' if str(name) else ''}calibration error {error:.3f}")
    canvas.name_lines(ax, handles, names)
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
    ax.set(xlabel="predicted probability", ylabel="frequency")
    return ax


def _listed(predictions: Any) -> list[Any]:
    """Return a model's predictions as a list."""
    if hasattr(predictions, "columns"):
        kind = type(predictions).__name__
        raise TypeError(
            f"predictions must be mappings: give the rows of the {kind} as dicts, by "
            "to_dict('records') of pandas, to_dicts() of polars or to_pylist() of pyarrow"
        )
    return list(canvas.iterated("predictions", predictions))


def _bins(
    predictions: list[Any], labels: list[Any], n_bins: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return each bin's number of probabilities, their mean, and the share of true labels."""
    if len(predictions) != len(labels):
        raise ValueError(f"there are {len(predictions)} predictions but {len(labels)} labels")
    pairs = []
    for said, label in zip(predictions, labels, strict=True):
        if not isinstance(said, Mapping):
            raise TypeError(f"predictions must be those of predict_proba_one, got {told(said)}")
        for named, p in said.items():
            if not is_real(p):
                raise TypeError(f"the probability of {named!r} must be a number, got {told(p)}")
            pairs.append((float(p), named == label))
    p, came_true = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    bad = ~((p >= 0.0) & (p <= 1.0 + 1e-9))
    if bad.any():
        raise ValueError(f"probabilities must be from 0 to 1, got {p[bad][0]}")
    bins = np.minimum((p * n_bins).astype(int), n_bins - 1)
    sizes = np.bincount(bins, minlength=n_bins).astype(np.float64)
    with np.errstate(invalid="ignore"):
        means = np.bincount(bins, p, n_bins) / sizes
        shares = np.bincount(bins, came_true, n_bins) / sizes
    return sizes, means, shares


# Line styles of the errors on the training, validation and test rows.
SET_LINES = {"train": ":", "validation": "--", "test": "-"}


def lifetimes(path: Any, ax: Axes | None = None) -> Axes:
    """Draw errors by lifetime, and any log marginal likelihood on a second axis.

    Parameters
    ----------
    path
        The result of `lifetime_path`.
    ax
        Axes of matplotlib to draw on; None for the axes of a new figure.

    Returns
    -------
    The axes of the errors.

    Raises
    ------
    TypeError
        If `path` is not a result of `lifetime_path`.

    Examples
    --------

    >>> import numpy as np
    >>> from river_mondrian import lifetime_path, plot

    >>> rng = np.random.default_rng(42)
    >>> X = rng.random((60, 1))
    >>> y = np.sin(6.0 * X[:, 0])
    >>> path = lifetime_path(X, y, lifetime_max=5.0, n_partitions=10, l2=0.1, seed=42)
    >>> plot.lifetimes(path).get_xlabel()
    'lifetime'

    """
    if not hasattr(path, "log_marginal_likelihood"):
        raise TypeError(f"path must be a result of lifetime_path, got {told(path)}")
    ax = canvas.axes_for(ax)
    for number, (learner, errors) in enumerate(path.errors.items()):
        for kind, values in errors.items():
            look: dict[str, Any] = {"color": canvas.color(number), "label": f"{learner}, {kind}"}
            ax.plot(path.lifetimes[1:], values[1:], SET_LINES[kind], drawstyle="steps-post", **look)
    ax.set(xscale="log", xlabel="lifetime", ylabel="root mean squared error")
    canvas.name_lines(ax, *ax.get_legend_handles_labels())
    if len(path.log_marginal_likelihood):
        second = ax.twinx()
        second.plot(path.lifetimes[1:], path.log_marginal_likelihood[1:], color=canvas.NEUTRAL)
        second.set_ylabel("log marginal likelihood (grey)")
    return ax
