"""Axes, colours and legends of all pictures.

Colour-blind readers can distinguish the colours. All colours are visible on white and on the dark
background of the documentation. Text, axes and targets have the colours of the user's matplotlib
style.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arguments import is_real, told
from ..checks import require
from ..partitions.mondrian.reading import Shades

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The colours of Okabe and Ito, without black and yellow, which are invisible on some backgrounds.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7")
# Colours repeat after the last colour. Styles, markers and hatches then distinguish lines, points
# and areas.
STYLES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D")
HATCHES = ("", "///", "...", "xxx")
# Colour of edges of cells, trees and thresholds, visible on white and on the dark background.
NEUTRAL = "0.5"
# Colour of anomalous samples.
ODD = COLORS[1]
# Colours of values: larger values are lighter, even for colour-blind readers.
COLORMAP = "viridis"
# Largest length of a name in letters. Longer names are shortened, to leave space for the picture.
MOST_LETTERS = 30
# Largest number of names in a legend. A legend with more names would cover the picture.
MOST_NAMES = 12


def axes_for(ax: Axes | None) -> Axes:
    """Return the axes to draw on: `ax`, or the axes of a new figure.

    Raises
    ------
    ModuleNotFoundError
        If matplotlib is not installed.
    TypeError
        If `ax` is neither None nor matplotlib axes, for example an array of axes.

    """
    plt = require("matplotlib.pyplot", "plot", "drawing")
    if ax is not None and not hasattr(ax, "add_patch"):
        raise TypeError(f"ax must be axes of matplotlib or None, got {told(ax)}")
    # The constrained layout leaves space for long names, which would otherwise be cut off.
    return plt.subplots(layout="constrained")[1] if ax is None else ax


def iterated(name: str, values: Any) -> Iterable[Any]:
    """Return an argument after checking that it is a list or another iterable.

    Raises
    ------
    TypeError
        If the argument is text, a mapping, or not iterable.

    """
    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__iter__"):
        raise TypeError(f"{name} must be a list or another sequence, got {told(values)}")
    return values


def numbers(name: str, values: Any) -> NDArray[np.float64]:
    """Return the numbers of a list or another sequence as an array, shape (n,).

    Raises
    ------
    TypeError
        If the argument is not a list or another sequence, or an item is not a number.

    """
    items = list(iterated(name, values))
    for value in items:
        if not is_real(value):
            raise TypeError(f"{name} must be numbers, got {told(value)}")
    return np.array(items, dtype=np.float64)


def color(k: int) -> str:
    """Return the colour of the k-th line, group of points or group of areas."""
    return COLORS[k % len(COLORS)]


def style(k: int) -> str:
    """Return the style of the k-th line."""
    return STYLES[k // len(COLORS) % len(STYLES)]


def draw_line(ax: Axes, k: int, xs: Any, ys: Any, **look: Any) -> Any:
    """Draw the k-th line; return the line."""
    return ax.plot(xs, ys, style(k), color=color(k), **look)[0]


def marker(k: int) -> str:
    """Return the marker of the k-th group of points."""
    return MARKERS[k // len(COLORS) % len(MARKERS)]


def hatch(k: int) -> str:
    """Return the hatch of the k-th group of areas."""
    return HATCHES[k // len(COLORS) % len(HATCHES)]


def text(name: Any) -> str:
    """Return a text that matplotlib shows as the unchanged name.

    Matplotlib typesets text between two dollar signs as a formula, and omits labels that begin with
    an underscore from legends.
    """
    shown = str(name).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def label(name: Any, value: Any = None) -> str:
    """Return a feature's name (and value) for an axis; omit the middle of a long text."""
    shown = _short(str(name), MOST_LETTERS)
    if value is not None:
        number = f"{value:.4g}" if isinstance(value, float) else str(value)
        shown += f" = {_short(number, MOST_LETTERS // 2)}"
    return text(shown)


def _short(shown: str, limit: int) -> str:
    """Return a text on one line, with at most `limit` letters; omit the middle of a long text."""
    shown, half = " ".join(shown.split()), limit // 2
    if len(shown) <= limit:
        return shown
    return f"{shown[: half - 1]}\N{HORIZONTAL ELLIPSIS}{shown[-half:]}"


def text_color() -> str:
    """Return the text colour of the user's style, which is visible on the style's background."""
    return require("matplotlib", "plot", "drawing").rcParams["text.color"]


def write(ax: Axes, shown: str, at: Any, away: tuple[int, int], **look: Any) -> None:
    """Write text at the point `at`, moved by the offset `away`, in typographic points."""
    ax.annotate(shown, at, away, textcoords="offset points", **look)


def node_colors(shades: Shades | None, n: int) -> list[Any]:
    """Return the colours of a tree's `n` nodes."""
    if shades is None:
        return [COLORS[0]] * n
    if shades.classes is not None:
        return [color(k) for k in shades.values.astype(int).tolist()]
    low, high = _ends(shades.values)
    colormap = require("matplotlib", "plot", "drawing").colormaps[COLORMAP]
    return list(colormap((shades.values - low) / (high - low)))


def explain_colors(ax: Axes, shades: Shades | None, areas: bool = False) -> None:
    """Add a legend of the nodes' classes, or a colour bar of the nodes' values."""
    if shades is None:
        return
    if shades.classes is None:
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        bar = ScalarMappable(Normalize(*_ends(shades.values)), COLORMAP)
        ax.figure.colorbar(bar, ax=ax, label=text(shades.name))
        return
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    present = np.unique(shades.values.astype(int)).tolist()
    names = [text(shades.classes[k]) for k in present]
    if areas:
        handles: list[Any] = [Patch(fc=color(k), hatch=hatch(k), ec=NEUTRAL) for k in present]
    else:
        handles = [Line2D([], [], marker=marker(k), ls="none", color=color(k)) for k in present]
    name_lines(ax, handles, names, beside=True)


def name_lines(
    ax: Axes, handles: Sequence[Any], names: Sequence[str], beside: bool = False
) -> None:
    """Add a legend with at most `MOST_NAMES` names.

    If `beside` is True, the legend is beside the axes, for pictures without free space.
    """
    if not names:
        return
    where: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if beside else {}
    shown = list(names[:MOST_NAMES])
    title = f"{len(names) - MOST_NAMES} more are not named" if len(names) > MOST_NAMES else None
    legend = ax.legend(list(handles[:MOST_NAMES]), shown, fontsize="small", title=title, **where)
    legend.get_title().set_fontsize("x-small")


def _ends(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the smallest and the largest value, without NaN.

    If both are equal, return two values around this value. If all values are NaN, return 0 and 1.
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    return (low, high) if low < high else (low - 0.5, high + 0.5)
