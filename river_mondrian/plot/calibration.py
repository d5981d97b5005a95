"""Whether predicted probabilities are what they say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arguments import check_integer, is_real, told
from . import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Area, in square points, of the marker of a bin with all probabilities.
LARGEST_AREA = 400.0
LEAST_AREA = 10.0


def reliability(
    predictions: Any, labels: Iterable[Any], n_bins: int = 10, ax: Axes | None = None
) -> Axes:
    """Draw how frequent is what was predicted with some probability: a reliability diagram.

    Probabilities of all labels are sorted into bins of equal width. A marker is at the mean of its
    bin's probabilities and at the share of them whose label was the true one; its area is by their
    number. Honest probabilities are on the diagonal, those below it are too sure.

    Parameters
    ----------
    predictions
        What `predict_proba_one` returned for each sample before it was learned; or a mapping from
        name of a model to that. Empty ones, before any learning, are left out.
    labels
        The true label of each sample.
    n_bins
        Number of bins.
    ax
        Axes of matplotlib to draw on; None stands for those of a new figure.

    Returns
    -------
    The axes. The legend tells the mean distance from the diagonal, the expected calibration error.

    Raises
    ------
    TypeError
        If a prediction is no mapping from label to probability.
    ValueError
        If there are not as many predictions as labels, `n_bins` is less than 1, or a probability is
        not within [0, 1].

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
    found = {name: _bins(_listed(given), truth, n_bins) for name, given in named.items()}
    ax = canvas.axes_for(ax)
    ax.plot([0.0, 1.0], [0.0, 1.0], color=canvas.NEUTRAL, linewidth=0.8)
    handles, names = [], []
    for k, (name, (sizes, means, shares)) in enumerate(found.items()):
        used = sizes > 0
        total = max(float(sizes.sum()), 1.0)
        error = float(sizes[used] @ np.abs(means[used] - shares[used])) / total
        areas = LEAST_AREA + LARGEST_AREA * sizes[used] / total
        (line,) = ax.plot(
            means[used], shares[used], canvas.style(k), color=canvas.color(k), linewidth=1.0
        )
        ax.scatter(
            means[used],
            shares[used],
            s=areas,
            color=canvas.color(k),
            marker=canvas.marker(k),
            alpha=0.8,
        )
        handles.append(line)
        names.append(f"{canvas.text(name)}{': ' if str(name) else ''}calibration error {error:.3f}")
    canvas.name_lines(ax, handles, names)
    ax.set_xlim(-0.03, 1.03)
    ax.set_ylim(-0.03, 1.03)
    ax.set_aspect("equal")
    ax.set_xlabel("predicted probability")
    ax.set_ylabel("frequency")
    return ax


def _listed(given: Any) -> list[Any]:
    """Return the predictions of a model as a list."""
    if hasattr(given, "columns"):
        raise TypeError(
            "predictions must be mappings from label to probability, got a "
            f"{type(given).__name__}: give its rows, by to_dict('records') of pandas, to_dicts() "
            "of polars or to_pylist() of pyarrow"
        )
    return list(canvas.iterated("predictions", given))


def _bins(
    predictions: list[Any], labels: list[Any], n_bins: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return for each bin how many probabilities it has, their mean, and how many came true."""
    if len(predictions) != len(labels):
        raise ValueError(f"there are {len(predictions)} predictions but {len(labels)} labels")
    pairs = []
    for said, label in zip(predictions, labels, strict=True):
        if not isinstance(said, Mapping):
            raise TypeError(
                "predictions must be mappings from label to probability, as predict_proba_one "
                f"returns, got {told(said)}"
            )
        for other, p in said.items():
            if not is_real(p):
                raise TypeError(f"the probability of {other!r} must be a number, got {told(p)}")
            pairs.append((float(p), other == label))
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
