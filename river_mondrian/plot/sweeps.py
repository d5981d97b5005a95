"""What a sweep over lifetimes has found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..arguments import told
from . import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Of the errors on each set of rows.
STYLES = {"train": ":", "validation": "--", "test": "-"}


def lifetimes(path: Any, ax: Axes | None = None) -> Axes:
    """Draw the errors by lifetime, and the marginal likelihood on an axis of its own.

    Parameters
    ----------
    path
        What `lifetime_path` returned.
    ax
        Axes of matplotlib to draw on; None stands for those of a new figure.

    Returns
    -------
    The axes of the errors.

    Raises
    ------
    TypeError
        If it is no such path.

    Examples
    --------

    >>> import numpy as np
    >>> from river_mondrian import lifetime_path, plot

    >>> rng = np.random.default_rng(42)
    >>> X = rng.random((60, 1))
    >>> y = np.sin(6.0 * X[:, 0])
    >>> path = lifetime_path(X, y, lifetime_max=5.0, n_partitions=10, delta2=0.1, seed=42)
    >>> plot.lifetimes(path).get_xlabel()
    'lifetime'

    """
    if not hasattr(path, "log_marginal_likelihood"):
        raise TypeError(f"path must be what lifetime_path returns, got {told(path)}")
    ax = canvas.axes_for(ax)
    for number, (learner, errors) in enumerate(path.errors.items()):
        for kind, values in errors.items():
            ax.plot(
                path.lifetimes[1:],
                values[1:],
                STYLES[kind],
                color=canvas.color(number),
                label=f"{learner}, {kind}",
                drawstyle="steps-post",
            )
    ax.set(xscale="log", xlabel="lifetime", ylabel="root mean squared error")
    canvas.name_lines(ax, *ax.get_legend_handles_labels())
    if len(path.log_marginal_likelihood):
        other = ax.twinx()
        other.plot(path.lifetimes[1:], path.log_marginal_likelihood[1:], color=canvas.NEUTRAL)
        other.set_ylabel("log marginal likelihood (grey)")
    return ax
