"""Densities and scores over the plane of two features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arguments import check_integer, check_ranges, told
from . import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def density_map(
    model: Any,
    ranges: Mapping[Any, tuple[float, float]],
    at: Mapping[Any, Any] | None = None,
    n: int = 80,
    ax: Axes | None = None,
) -> Axes:
    """Draw the density that a forest tells over two features, as a map of colours.

    Parameters
    ----------
    model
        A `DensityForest`, or whatever has `density_one`.
    ranges
        The two features, each with its lowest and highest value, (low, high).
    at
        Values of the other features; those that it lacks are missing.
    n
        Number of places along each feature.
    ax
        Axes of matplotlib to draw on; None stands for those of a new figure.

    Returns
    -------
    The axes, with a bar that tells what colours mean.

    Raises
    ------
    TypeError
        If the model tells no densities.
    ValueError
        If there are not two features, or a range is none.

    Examples
    --------

    >>> import random
    >>> from river_mondrian import DensityForest, plot

    >>> rng = random.Random(42)
    >>> forest = DensityForest(10, seed=42)
    >>> for _ in range(500):
    ...     forest.learn_one({"a": rng.gauss(0.0, 1.0), "b": rng.gauss(0.0, 1.0)})
    >>> ax = plot.density_map(forest, {"a": (-3.0, 3.0), "b": (-3.0, 3.0)}, n=20)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('a', 'b')

    """
    return _map(_method_of(model, "density_one"), "density", ranges, at, n, ax)


def score_map(
    model: Any,
    ranges: Mapping[Any, tuple[float, float]],
    at: Mapping[Any, Any] | None = None,
    n: int = 80,
    ax: Axes | None = None,
) -> Axes:
    """Draw the score that a detector gives over two features, as a map of colours.

    Parameters
    ----------
    model
        A `RandomCutForest`, a `DensityForest` or any detector of River's.
    ranges
        The two features, each with its lowest and highest value, (low, high).
    at
        Values of the other features; those that it lacks are missing.
    n
        Number of places along each feature.
    ax
        Axes of matplotlib to draw on; None stands for those of a new figure.

    Returns
    -------
    The axes, with a bar that tells what colours mean.

    Raises
    ------
    TypeError
        If the model gives no scores.
    ValueError
        If there are not two features, or a range is none.

    Examples
    --------

    >>> import random
    >>> from river_mondrian import RandomCutForest, plot

    >>> rng = random.Random(42)
    >>> detector = RandomCutForest(10, seed=42)
    >>> for _ in range(500):
    ...     detector.learn_one({"a": rng.gauss(0.0, 1.0), "b": rng.gauss(0.0, 1.0)})
    >>> ax = plot.score_map(detector, {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}, n=20)

    """
    return _map(_method_of(model, "score_one"), "score", ranges, at, n, ax)


def _method_of(model: Any, name: str) -> Callable[[Mapping[Any, Any]], float]:
    method = getattr(model, name, None)
    if not callable(method):
        raise TypeError(f"model must have {name}, got {told(model)}")
    found: Callable[[Mapping[Any, Any]], float] = method
    return found


def _map(
    reading: Callable[[Mapping[Any, Any]], float],
    name: str,
    ranges: Mapping[Any, tuple[float, float]],
    at: Mapping[Any, Any] | None,
    n: int,
    ax: Axes | None,
) -> Axes:
    check_integer("n", n, 2)
    if ranges is None or not isinstance(ranges, Mapping) or len(ranges) != 2:
        raise ValueError(
            f"ranges must be a mapping from two features to (low, high), got {ranges!r}"
        )
    check_ranges(ranges, True)
    if at is not None and not isinstance(at, Mapping):
        raise TypeError(f"at must be a mapping from feature to value, got {at!r}")
    (first, across), (second, upwards) = ranges.items()
    xs, ys = np.linspace(*across, n), np.linspace(*upwards, n)
    rest = dict(at or {})
    values = [[reading({**rest, first: x, second: y}) for x in xs.tolist()] for y in ys.tolist()]
    ax = canvas.axes_for(ax)
    mesh = ax.pcolormesh(xs, ys, np.array(values), cmap=canvas.COLORMAP, rasterized=True)
    ax.figure.colorbar(mesh, ax=ax, label=canvas.text(name))
    ax.set_xlabel(canvas.text(first))
    ax.set_ylabel(canvas.text(second))
    return ax
