"""Pictures of the comparisons."""

from collections.abc import Mapping, Sequence

from ..data import Array
from ..report import Report


def draw_dots(
    report: Report, values: Mapping[str, Mapping[str, float]], ours: Sequence[str], what: str
) -> None:
    """Draw a row of dots for each stream, with a dot for each detector.

    Parameters
    ----------
    report
        The report to which the picture is added.
    values
        The measure by stream and by detector.
    ours
        The detectors with a colour; all others are grey.
    what
        The label of the horizontal axis.
    """
    if not values:
        return
    names = list(values)[::-1]
    with report.drawing(size=(8, 1.2 + 0.34 * len(names))) as ax:
        others = list(
            dict.fromkeys(who for each in values.values() for who in each if who not in ours)
        )
        for i, who in enumerate(others):
            at = [k for k, name in enumerate(names) if who in values[name]]
            found = [values[names[k]][who] for k in at]
            ax.plot(found, at, "osD^vPX*<>"[i % 10], color="0.6", markersize=5, label=who)
        for i, who in enumerate(ours):
            found = [values[name][who] for name in names]
            ax.plot(
                found, range(len(names)), "o", color=f"C{i}", markersize=8, alpha=0.8, label=who
            )
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(-0.6, len(names) - 0.4)
        ax.grid(alpha=0.3)
        ax.set_xlabel(what)
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize="small")


def draw_series(report: Report, times: Array, values: Array, windows: Array, raised: Array) -> None:
    """Draw a series, the windows of anomalies, and the alarms.

    Parameters
    ----------
    report
        The report to which the picture is added.
    times, values
        Times of the values in seconds, and the values.
    windows
        First and last time of each window, shape (n, 2).
    raised
        The indices of the rows with an alarm.

    """
    with report.drawing(size=(10, 3.2), name="series") as ax:
        days = (times - times[0]) / 86400.0
        ax.plot(days, values, color="0.5", linewidth=0.6)
        for first, last in (windows - times[0]) / 86400.0:
            ax.axvspan(first, last, color="C1", alpha=0.35)
        ax.plot(days[raised], values[raised], "v", color="C3", label="alarm")
        ax.set_xlabel("day")
        ax.legend()
