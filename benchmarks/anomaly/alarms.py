"""Alarms on the Numenta benchmark, generated metrics, drifting streams and constant values."""

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from river import anomaly, compose, preprocessing

from river_mondrian import Alarms, DensityForest, NearestNeighborDetector, RandomCutForest

from ..data import Array, DataFolder, Stream
from ..report import Report, progress
from .generated import DAY, DAYS, KINDS, LENGTHS, SEED, Metric, metric, usual, with_job
from .nab import PROFILES, Places, at, best, places
from .ranking import scores_of

SEEDS = 3
# The default threshold of `Alarms` without a period.
THRESHOLD = 0.997
PUBLISHED = {
    "scores_numenta": "HTM (Numenta)",
    "scores_cad_ose": "CAD OSE",
    "scores_random_cut_forest_aws": "random cut forest (AWS)",
    "scores_windowed_gaussian": "windowed Gaussian",
}


def _value(detector: Any) -> Any:
    return compose.Select("value") | detector


def _near(seed: int, **given: Any) -> Any:
    return NearestNeighborDetector(seed=seed, **given)


def _skipping(seed: int, **given: Any) -> Any:
    return _near(seed, skip_anomalies=True, **given)


# Series in the picture.
SHOWN = "realKnownCause/machine_temperature_system_failure.csv"

# Functions from a seed to a detector of rows {"value": v, "hour": h}.
CALENDAR = ("hour",)
ALARMS: dict[str, Callable[[int], Any]] = {
    # These are the default detectors of `Alarms`, which here get the value without the hour.
    "Alarms, default": lambda s: Alarms(
        [_value(_near(s)), _value(_near(s + 100, shingle=8))], calendar=CALENDAR
    ),
    "Alarms, skip_anomalies": lambda s: Alarms(
        [_value(_skipping(s)), _value(_skipping(s + 100, shingle=8))], calendar=CALENDAR
    ),
    "Alarms, value": lambda s: Alarms(_value(_near(s)), calendar=CALENDAR),
    "Alarms, value; value and hour": lambda s: Alarms(
        [_value(_near(s)), _near(s + 100)], calendar=CALENDAR
    ),
    "Alarms, RandomCutForest": lambda s: Alarms(_value(RandomCutForest(seed=s)), calendar=CALENDAR),
    "Alarms, DensityForest": lambda s: Alarms(_value(DensityForest(seed=s)), calendar=CALENDAR),
}
BARE: dict[str, Callable[[int], Any]] = {
    "NearestNeighborDetector": lambda s: _value(_near(s)),
    "RandomCutForest": lambda s: _value(RandomCutForest(seed=s)),
    "DensityForest": lambda s: _value(DensityForest(seed=s)),
    "HalfSpaceTrees, 10": lambda s: _value(
        preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(seed=s)
    ),
}


def is_in_first_half(name: str) -> bool:
    """Return whether a file of the Numenta benchmark may be used to select parameters."""
    return zlib.crc32(name.encode()) % 2 == 0


def rows_of(times: Array, values: Array) -> Stream:
    """Return a series as samples with a value and an hour."""
    hours = (times % 86400 / 3600.0).tolist()
    return [({"value": v, "hour": h}, None) for v, h in zip(values.tolist(), hours, strict=True)]


class Files(NamedTuple):
    """The files of the Numenta benchmark: names, rows, times, values, windows, and detections.

    `halves` has the numbers of the files in each half, and of all files.
    """

    names: list[str]
    parts: list[slice]
    times: list[Array]
    values: list[Array]
    windows: list[Array]
    series: list[Places]
    halves: dict[str, list[int]]

    def samples(self, i: int) -> Stream:
        """Return a file as samples with a value and an hour."""
        return rows_of(self.times[i], self.values[i])


def _files(found: dict[str, Array], quick: bool) -> Files:
    names = [str(name) for name in found["names"]]
    parts = [slice(a, b) for a, b in zip(found["start"], found["start"][1:], strict=False)]
    ends = np.column_stack([found["window_start"], found["window_end"]])
    windows = [ends[found["window_file"] == i] for i in range(len(names))]
    times, values = ([found[key][part] for part in parts] for key in ("time", "value"))
    series = list(map(places, times, windows))
    chosen = range(5, len(names), 9) if quick else range(len(names))
    halves = {
        "first half": [i for i in chosen if is_in_first_half(names[i])],
        "second half": [i for i in chosen if not is_in_first_half(names[i])],
        "all": list(chosen),
    }
    return Files(names, parts, times, values, windows, series, halves)


def nab(data: DataFolder, report: Report, quick: bool) -> None:
    """Score alarms, detectors alone and published detectors on the Numenta benchmark."""
    found = data.load("nab")
    files, rows = _files(found, quick), []
    series, halves, chosen = files.series, files.halves, files.halves["all"]
    for who, make in (ALARMS | BARE).items():
        totals = []
        for seed in range(1 if quick or who in BARE else SEEDS):
            progress(f"{who}, seed {seed}")
            scores = {i: scores_of(make(seed), files.samples(i)) for i in chosen}
            totals.append(_totals(series, scores, halves, who in ALARMS))
        rows.append([who, *_texts(np.mean(totals, axis=0))])
        progress(" ".join(rows[-1]))
    for key, who in PUBLISHED.items():
        scores = {i: found[key][files.parts[i]].astype(float) for i in chosen}
        rows.append([f"{who}, stored scores", *_texts(_totals(series, scores, halves, False))])
    report.note(
        "Scores on the Numenta benchmark for three profiles: standard / low FP / low FN. Scores "
        f"of `Alarms` are means of {1 if quick else SEEDS} seeds at the default threshold, which "
        "is the same for all files. The other detectors have one seed. Each of these detectors "
        "has its best threshold for each profile on the files of the column. Published detectors "
        "have stored scores in single precision, in which the windowed Gaussian's scores near 1 "
        "are equal (published score: 39.65). Parameters were selected on the first half; "
        "docs/anomaly.md describes later choices."
    )
    report.table(["detector", *halves], rows)
    shown, model = files.names.index(SHOWN), ALARMS["Alarms, default"](0)
    raised = np.flatnonzero(scores_of(model, files.samples(shown)) >= THRESHOLD)
    draw_series(report, files.times[shown], files.values[shown], files.windows[shown], raised)


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


def _totals(
    series: list[Places], scores: dict[int, Array], halves: dict[str, list[int]], is_fixed: bool
) -> Array:
    """Return the score of each profile on each half."""
    totals = []
    for numbers in halves.values():
        of_half = [series[i] for i in numbers], [scores[i] for i in numbers]
        for profile in PROFILES.values():
            if is_fixed:
                totals.append(at(*of_half, profile, THRESHOLD))
            else:
                totals.append(best(*of_half, profile)[1])
    return np.array(totals)


def _text(values: Any) -> str:
    return " / ".join(f"{value:.1f}" for value in values)


def _texts(values: Array) -> list[str]:
    return [_text(part) for part in values.reshape(-1, len(PROFILES))]


class Spread:
    """The logarithm of a metric's mean absolute change over the latest 20 values."""

    def __init__(self) -> None:
        self.changes: list[float] = []
        self.last: float | None = None

    def __call__(self, value: float) -> float:
        """Add a value; return the logarithm of the mean absolute change."""
        self.changes = [*self.changes, abs(value - (value if self.last is None else self.last))]
        self.changes = self.changes[-20:]
        self.last = value
        return float(np.log(1e-9 + sum(self.changes) / len(self.changes)))


# Features of a metric's samples besides the value. Values of these features are never novel.
DERIVED = ("hour", "hour_sin", "hour_cos", "spread")
# Functions that return the detectors of metrics.
_WITH_HOUR = ("value", "hour")
METRICS: dict[str, Callable[[], Any]] = {
    "value": lambda: [_value(_near(1))],
    "value and hour": lambda: [compose.Select(*_WITH_HOUR) | _near(1)],
    "value and hour; spread": lambda: [
        compose.Select(*_WITH_HOUR) | _near(1),
        compose.Select("spread") | _near(2),
    ],
}
THRESHOLDS = (0.98, 0.997)
# Budgets, and the detectors and the threshold of the runs with a budget.
BUDGETS = (None, (2, DAY), (1, DAY))
_BOUNDED = "value and hour; spread", THRESHOLDS[0]
# Settings for at most one alarm a day: the windows of detectors and alarms, and the other arguments
# of `Alarms`. With a period, the defaults are two weeks and the threshold .997.
ONE_A_DAY: dict[str, tuple[int, dict[str, Any]]] = {
    "default": (2048, {"threshold": 0.999, "grace_period": DAY, "budget": (1, DAY)}),
    "two weeks": (14 * DAY, {"period": DAY}),
}
# For alarms at several numbers of samples in a day: days of a series, series, and sizes of the job.
PERIODIC_DAYS, N_PERIODIC, SIZES = 33, 10, (0.0, 2.5, 5.0)
# Number of series without incidents, and the days of each of three periods.
N_QUIET, PERIOD = 10, 14


def _one_a_day(which: str) -> Alarms:
    """Return alarms with the two default detectors and a budget of one alarm a day."""
    window, arguments = ONE_A_DAY[which]
    seen = "value", "hour_sin", "hour_cos"
    views = [
        compose.Select(*seen) | _near(1, window=window),
        compose.Select(*seen) | _near(2, window=window, shingle=8),
    ]
    return Alarms(views, tolerance=0.2, calendar=DERIVED, **arguments)


def metrics(data: DataFolder, report: Report, quick: bool) -> None:
    """Count alarms and found incidents on generated metrics with a value per minute."""
    n_series = 2 if quick else 20
    rows = []
    for who, make in METRICS.items():
        for threshold in THRESHOLDS:
            for budget in BUDGETS if (who, threshold) == _BOUNDED else BUDGETS[:1]:
                progress(f"{who}, {threshold}, {budget}")
                judged = []
                for number in range(n_series):
                    alarms = Alarms(
                        make(), threshold, grace_period=DAY, budget=budget, calendar=DERIVED
                    )
                    judged.append(_judged(number, alarms))
                of_all, *found = _cells(judged)
                most = max(of_series.most_on_a_day for of_series in judged)
                asked = "none" if budget is None else f"{budget[0]} a day"
                rows.append([who, f"{threshold:g}", asked, of_all, str(most), *found])
    report.note(
        f"Alarms on generated metrics with five incidents each. There are {n_series} series of "
        f"{DAYS} days with a value per minute. A series has noise, a daily season that is weaker "
        "at weekends, and one incident of each kind after the fourth day. Some incidents have "
        "values that are normal at other hours. An incident is found if an alarm is raised "
        "between its start and 30 minutes after its end. There are no alarms on the first day "
        "(`grace_period`)."
    )
    headers = ["views", "threshold", "budget", "alarms a day", "most on a day", "found"]
    report.table([*headers, *KINDS], rows)


class Judged(NamedTuple):
    """Alarms on a series: their number, the most on a day, false alarms, and found incidents."""

    n_alarms: int
    most_on_a_day: int
    n_false: int
    # For each kind of incident, whether it was found.
    found: list[bool]


def _cells(judged: list[Judged]) -> list[str]:
    """Return alarms per day, and the numbers of found incidents in all and of each kind."""
    of_kind = np.sum([of_series.found for of_series in judged], axis=0)
    per_day = np.mean([of_series.n_alarms for of_series in judged]) / DAYS
    found = f"{of_kind.sum()} of {len(judged) * len(KINDS)}"
    return [f"{per_day:.2f}", found, *map(str, of_kind)]


# Maps the minute of an alarm to the answer: whether the alarm belongs to an incident. None means no
# answer.
Answer = Callable[[int], bool | None]


def no_answer(minute: int) -> None:
    """Answer no alarm."""


def _raised(values: Array, alarms: Alarms, answer: Answer) -> list[int]:
    """Return the minutes of a metric at which alarms are raised."""
    spread = Spread()
    raised = []
    for minute, value in enumerate(values.tolist()):
        angle = 2.0 * np.pi * minute / DAY
        x = {"value": value, "hour": minute % DAY / 60.0, "spread": spread(value)}
        x |= {"hour_sin": float(np.sin(angle)), "hour_cos": float(np.cos(angle))}
        alarms.learn_one(x)
        if alarms.alarm is not None:
            raised.append(minute)
            _give(alarms, answer(minute))
    return raised


def _give(alarms: Alarms, answer: bool | None) -> None:
    """Confirm or dismiss the alarm that has just been raised, or do nothing."""
    if answer is not None and alarms.alarm is not None:
        (alarms.confirm if answer else alarms.dismiss)(alarms.alarm)


def _judged(number: int, alarms: Alarms, is_answered: bool = False) -> Judged:
    """Compare alarms on a series with its incidents; answer each alarm if `is_answered`."""
    made = metric(number)

    def is_near(minute: int) -> bool:
        return any(i.first <= minute <= i.last + 30 for i in made.incidents)

    raised = _raised(made.values, alarms, is_near if is_answered else no_answer)
    days = np.bincount(np.array(raised, dtype=int) // DAY, minlength=DAYS)
    near = {i.kind: {r for r in raised if i.first <= r <= i.last + 30} for i in made.incidents}
    false = set(raised).difference(*near.values())
    found = [bool(near[kind]) for kind in KINDS]
    return Judged(len(raised), int(days.max()), len(false), found)


def answers(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the effect of answers on alarms: quiet metrics, incidents and Numenta's files."""
    _answer_quiet(report, 1 if quick else N_QUIET)
    _answer_incidents(report, 2 if quick else 20)
    _answer_files(data, report, quick)


def _first_dismissed() -> Answer:
    """Return answers that dismiss the first alarm of days 15 to 28."""
    dismissed: list[int] = []

    def answer(minute: int) -> bool | None:
        if dismissed or minute // (PERIOD * DAY) != 1:
            return None
        dismissed.append(minute)
        return False

    return answer


def _answer_quiet(report: Report, n_series: int) -> None:
    """Report alarms without incidents, if the first alarm of days 15 to 28 is dismissed."""
    rows = []
    for who in ONE_A_DAY:
        progress(f"{who}, quiet, answers")
        counted = np.zeros((2, 4), dtype=int)
        for number in range(n_series):
            values, _ = usual(np.random.default_rng([SEED + 1, number]), 3 * PERIOD)
            for counts, answer in zip(counted, (no_answer, _first_dismissed()), strict=True):
                raised = _raised(values, _one_a_day(who), answer)
                first, second, third = np.bincount(
                    np.array(raised, dtype=int) // (PERIOD * DAY), minlength=3
                )
                counts += [first, second, max(second - 1, 0), third]
        for counts, which in zip(
            counted, ("none", "first of days 15 to 28 dismissed"), strict=True
        ):
            rows.append([who, which, *map(str, counts)])
    report.note(
        f"False alarms on {n_series} series without incidents, of {3 * PERIOD} days each, with a "
        "value per minute. The budget is one alarm a day. The two default detectors get the value "
        "and the hour, and `tolerance` is .2. With `default` windows, the threshold is .999. With "
        f"windows of two weeks, `period` is {DAY}, and the threshold is .997. In every second row, "
        f"the first alarm of days {PERIOD + 1} to {2 * PERIOD} of each series is dismissed as it "
        "comes. The column `later` counts the other alarms of these days. The rule that averages "
        "of the first window are replaced only by higher ones was chosen on these series at the "
        "threshold .997."
    )
    days = [f"days {1 + PERIOD * i} to {PERIOD * (i + 1)}" for i in range(3)]
    report.table(["windows", "answers", *days[:2], "later", days[2]], rows)


def _answer_incidents(report: Report, n_series: int) -> None:
    """Report found incidents without answers, and if each alarm is answered as it comes."""
    rows = []
    for who in ONE_A_DAY:
        for is_answered in (False, True):
            progress(f"{who}, incidents, answers")
            own = range(n_series, 2 * n_series)
            judged = [_judged(i, _one_a_day(who), is_answered) for i in own]
            of_all, *found = _cells(judged)
            n_false = sum(of_series.n_false for of_series in judged)
            answer = "each alarm" if is_answered else "none"
            rows.append([who, answer, of_all, str(n_false), *found])
    report.note(
        f"Alarms of the same settings on {n_series} series with five incidents each: series like "
        f"those of the section Metrics, with the numbers {n_series} to {2 * n_series - 1}. "
        f"The settings were chosen on series 0 to {n_series - 1}. In every second row, each alarm "
        "is answered as it comes: an alarm within an incident or within 30 minutes after it is "
        "confirmed, and each other alarm is dismissed. A false alarm is such another alarm."
    )
    headers = ["windows", "answers", "alarms a day", "false alarms", "found"]
    report.table([*headers, *KINDS], rows)


def _answer_files(data: DataFolder, report: Report, quick: bool) -> None:
    """Report scores on the Numenta benchmark with answers, and files with missed windows."""
    found = data.load("nab")
    files = _files(found, quick)
    seeds, rows = range(1 if quick else SEEDS), []
    # For each window, the number of seeds that find it without answers.
    n_finding = {i: np.zeros(files.series[i].n_windows, int) for i in files.halves["all"]}
    for is_answered in (False, True):
        totals = []
        for seed in seeds:
            progress(f"files, answers {is_answered}, seed {seed}")
            scores = {}
            for i in files.halves["all"]:
                own, samples = files.series[i], files.samples(i)
                n_answered = len(samples) // 4 if is_answered else 0
                scores[i] = _answered(ALARMS["Alarms, default"](seed), samples, own, n_answered)
                if not is_answered:
                    n_finding[i] += _windows_found(own, scores[i], THRESHOLD)
            totals.append(_totals(files.series, scores, files.halves, True))
        who = "first quarter of each file" if is_answered else "none"
        rows.append([who, *_texts(np.mean(totals, axis=0))])
    report.note(
        "Scores of `Alarms` with default parameters on the Numenta benchmark: standard / low FP / "
        f"low FN, means of {len(seeds)} seeds. In the second row, each alarm in the first quarter "
        "of a file is answered as it comes: confirmed if it is within a window of the benchmark, "
        "and dismissed otherwise."
    )
    report.table(["answers", *files.halves], rows)
    second, missed = files.halves["second half"], []
    htm = {i: found["scores_numenta"][files.parts[i]].astype(float) for i in second}
    own = [files.series[i] for i in second]
    threshold, _ = best(own, [htm[i] for i in second], PROFILES["standard"])
    for i in second:
        by_htm = _windows_found(files.series[i], htm[i], threshold)
        ours = n_finding[i] > len(seeds) / 2
        if (by_htm & ~ours).any():
            counts = ours.sum(), by_htm.sum(), (by_htm & ~ours).sum(), len(ours)
            missed.append([files.names[i], *map(str, counts)])
    report.note(
        "Files of the second half with windows that HTM finds and `Alarms` misses, without "
        "answers. HTM has its best threshold for the standard profile on this half. `Alarms` finds "
        "a window if most seeds find it."
    )
    headers = ["file", "found by Alarms", "found by HTM", "found by HTM alone", "windows"]
    report.table(headers, missed)


def _answered(alarms: Alarms, samples: Stream, series: Places, n_answered: int) -> Array:
    """Return the score of each sample, if alarms on the first `n_answered` samples are answered."""
    scores = np.empty(len(samples))
    for i, (x, _) in enumerate(samples):
        scores[i] = alarms.score_one(x)
        alarms.learn_one(x)
        _give(alarms, bool(series.window[i] >= 0) if i < n_answered else None)
    return scores


def _windows_found(series: Places, scores: Array, threshold: float) -> Array:
    """Return whether each window of a series has a detection."""
    inside = series.window[scores >= threshold]
    return np.isin(np.arange(series.n_windows), inside)


def periods(data: DataFolder, report: Report, quick: bool) -> None:
    """Count alarms at several numbers of samples in a day, with a nightly job and answers."""
    n_series, rows = 1 if quick else N_PERIODIC, []
    for day in list(LENGTHS)[: 2 if quick else None]:
        for size in SIZES:
            for is_answered in (False, True):
                progress(f"{day} samples a day, job {size}, answers {is_answered}")
                made = [with_job(i, day, PERIODIC_DAYS, size) for i in range(n_series)]
                counts = [_periodic(one, day, is_answered) for one in made]
                found, n_false, n_jobs = np.sum(counts, axis=0)
                total = sum(len(one.incidents) for one in made)
                answer = "each alarm" if is_answered else "none"
                cells = [f"{found} of {total}", str(n_false), str(n_jobs) if size else "-"]
                rows.append([str(day), f"{size:g}" if size else "none", answer, *cells])
    report.note(
        "Alarms of `Alarms(period=n)` on generated series of one feature with n samples a day. "
        f"There are {n_series} series of {PERIODIC_DAYS} days for each n. Each series has a daily "
        "season, quieter weekends, and two incidents a week after the fourth day. Incidents last 2 "
        "to 8 hours with 24 samples a day, and 20 minutes to 4 hours with more samples. A slow "
        "rise lasts three times as long. "
        "From the tenth day on, a job increases the values every night, by 2.5 or 5 amplitudes of "
        "the season; an incident is 1 to 2.5 amplitudes or an outage. If each alarm is answered, "
        "alarms within an incident are confirmed, and all other alarms are dismissed. An incident "
        "is found if an alarm is raised within it or shortly after it. A false alarm is an alarm "
        "at normal values. The defaults were chosen on other series of this kind."
    )
    headers = ["samples a day", "job", "answers", "found", "false alarms", "alarms at the job"]
    report.table(headers, rows)
    rows = []
    for day in list(LENGTHS)[: 2 if quick else None]:
        progress(f"{day} samples a day, without incidents")
        counted = np.zeros(6, dtype=int)
        for i in range(n_series):
            values, _ = usual(np.random.default_rng([SEED + 3, day, i]), 6 * PERIOD, day)
            alarms = Alarms(period=day)
            for t, value in enumerate(values.tolist()):
                alarms.learn_one({"value": value})
                counted[t // (PERIOD * day)] += alarms.alarm is not None
        means = counted[0], counted[1], counted[2:].mean()
        rows.append([str(day), *(f"{mean / n_series:.1f}" for mean in means)])
    report.note(
        f"False alarms per {PERIOD} days of `Alarms(period=n)` on {n_series} such series of "
        f"{6 * PERIOD} days for each n, without incidents, jobs and answers."
    )
    days = [f"days {1 + PERIOD * i} to {PERIOD * (i + 1)}" for i in range(2)]
    report.table(["samples a day", *days, f"days {2 * PERIOD + 1} to {6 * PERIOD}"], rows)


def _periodic(made: Metric, day: int, is_answered: bool) -> tuple[int, int, int]:
    """Return the numbers of found incidents, of false alarms, and of alarms at the job."""
    shortest, longest, _ = LENGTHS[day]
    near = np.ones(2 * longest + 1)
    is_job = np.convolve(made.is_job, near, "same") > 0.0
    alarms, found, n_false, n_jobs = Alarms(period=day), set(), 0, 0
    for t, value in enumerate(made.values.tolist()):
        alarms.learn_one({"value": value})
        if alarms.alarm is None:
            continue
        own = {one for one in made.incidents if one.first <= t <= one.last + shortest}
        found |= own
        n_jobs += bool(is_job[t] and not own)
        n_false += not (own or is_job[t])
        _give(alarms, bool(own) if is_answered else None)
    return len(found), n_false, n_jobs


def _drifting(kind: str, rng: np.random.Generator, n: int) -> Array:
    """Return samples of 5 features whose distribution drifts in the middle."""
    t = np.arange(n)
    share = {
        "abrupt": (t >= n // 2).astype(float),
        "gradual": np.clip((t - n // 2) / 1000.0, 0.0, 1.0),
        "recurring": ((t - n // 2) // 500 % 2 == 0) * (t >= n // 2),
    }[kind]
    return rng.normal(size=(n, 5)) + 3.0 * share[:, np.newaxis]


def drift(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the duration of alarms after a drift."""
    n = 3000 if quick else 10_000
    makers: dict[str, Callable[[], Any]] = {
        "NearestNeighborDetector": lambda: _near(1),
        "RandomCutForest": lambda: RandomCutForest(seed=1),
        "DensityForest": lambda: DensityForest(30, seed=1),
        "HalfSpaceTrees, 10": lambda: preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(seed=1),
        "Alarms": Alarms,
    }
    rows = []
    for kind in ("abrupt", "gradual", "recurring"):
        X = _drifting(kind, np.random.default_rng(5), n)
        samples: Stream = [(dict(enumerate(row)), None) for row in X.tolist()]
        for who, make in makers.items():
            progress(f"{kind}, {who}")
            model = make()
            scores = scores_of(model, samples)
            before, after = scores[n // 2 - 1000 : n // 2], scores[n // 2 :]
            if who == "Alarms":
                is_alarm, text = after >= THRESHOLD, str((before >= THRESHOLD).sum())
            else:
                is_alarm, text = after > np.quantile(before, 0.99), "10"
            blocks = is_alarm[: len(after) // 500 * 500].reshape(-1, 500).sum(axis=1)
            above = np.flatnonzero(blocks > 25)
            last = "-" if not len(above) else f"{500 * (int(above[-1]) + 1):,}"
            rows.append([kind, who, text, *(str(b) for b in blocks[:4]), last, str(is_alarm.sum())])
    report.note(
        f"Alarms after a drift. There are {n:,} normal samples of 5 features. After {n // 2:,} "
        "samples the features' means move by 3 standard deviations: at once, within 1,000 "
        "samples, or back and forth every 500 samples. The threshold of a detector is the 99 % "
        "quantile of its scores for the 1,000 samples before the drift. `Alarms` has default "
        "parameters. The first columns count the alarms in the 1,000 samples before the drift and "
        "in four blocks of 500 samples after the drift. The column `until` has the end of the "
        "last block with more than 25 alarms. The column `all` has the number of alarms after the "
        "drift."
    )
    blocks = ["first 500", "second", "third", "fourth"][: 4 if n == 10_000 else 3]
    report.table(["change", "detector", "in 1,000 before", *blocks, "until", "all"], rows)


def equal(data: DataFolder, report: Report, quick: bool) -> None:
    """Report scores after 2,000 equal values."""
    rows = []
    for value in (2.001, 3.0):
        for who, make in (ALARMS | BARE).items():
            model = make(1)
            scores_of(model, [({"value": 2.0, "hour": i % 24}, None) for i in range(2000)])
            x = {"value": value, "hour": 2000 % 24}
            score = model.score_one(x)
            is_alarm = score >= THRESHOLD
            rows.append([f"{value:g}", who, f"{score:.4f}", "alarm" if is_alarm else "none"])
    report.note(
        "Scores of a changed value after 2,000 values that equal 2. An alarm of a detector is a "
        "score at or above the default threshold of `Alarms`."
    )
    report.table(["value", "detector", "score", "alarm"], rows)


PARTS = (nab, metrics, periods, answers, drift, equal)
