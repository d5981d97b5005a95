"""Plots of what a sweep over lifetimes has found."""

from __future__ import annotations

from typing import Any

from matplotlib import pyplot as plt

from .result import SETS, LifetimePath


def plot_path(path: LifetimePath, ax: Any = None) -> Any:
    """Plot the errors by lifetime, and the marginal likelihood on an axis of its own.

    Parameters
    ----------
    path
        What a sweep has found.
    ax
        Matplotlib axes; None makes new ones.

    Returns
    -------
    The axes.

    """
    if ax is None:
        ax = plt.subplots()[1]
    styles = dict(zip(SETS, (":", "--", "-"), strict=True))
    for number, (learner, errors) in enumerate(path.errors.items()):
        for kind, values in errors.items():
            ax.plot(
                path.lifetimes[1:],
                values[1:],
                styles[kind],
                color=f"C{number}",
                label=f"{learner}, {kind}",
                drawstyle="steps-post",
            )
    ax.set(xscale="log", xlabel="lifetime", ylabel="root mean squared error")
    ax.legend()
    if len(path.log_marginal_likelihood):
        other = ax.twinx()
        other.plot(path.lifetimes[1:], path.log_marginal_likelihood[1:], color="0.7")
        other.set_ylabel("log marginal likelihood (grey)")
    return ax
