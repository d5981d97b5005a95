"""The drift monitor, which reports when a stream changed, what changed, and in which features."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from river import base

from ..arguments import check_integer, told
from ..checks import refuse
from ..frames import mapping_of, read_frame, read_labels
from ..inputs import check_label, check_target, check_value
from ..learners import conformal
from ..learners.conformal import CHANGES, LABEL, NO_WORK, TARGET, UNKNOWN_Y
from ..learners.references import MonitorTable
from ..model import Model, locked
from ..progress import one_by_one
from ..values import quiet

# Smallest reference, in samples.
LEAST_REFERENCE = 16
# Largest numbers of drifts in the log of a `DriftMonitor`, and of values in a `ConformalDrift`.
KEPT_DRIFTS, KEPT_VALUES = 100, 1024
KINDS_OF_Y = {LABEL: "a label", TARGET: "a target"}


class Drift(NamedTuple):
    """A drift: when it was detected, when it began, and what changed.

    The log evidence is the logarithm of the likelihood ratio between a change at an unknown earlier
    time and no change.

    Attributes
    ----------
    sample
        Number of the sample that raised the alarm, 1 for the first learned sample.
    began
        Number of the first sample after the change, estimated. If a stronger change follows the
        alarm while evidence is collected, `began` refers to the stronger change.
    kinds
        The kinds of the change, the strongest first: "inputs", "labels", "relation". If y is a
        target, "labels" means a change of the target's distribution.
    features
        A mapping from feature to log evidence, largest first, if the inputs changed. The mapping
        has the features with at least half of the largest log evidence, and the features whose
        values or presence alone would have raised the alarm.
    how
        A mapping from feature to what changed: its "values", its "dependence" on the other
        features, or its "presence". A "new" feature was not in the reference.
    feature_began
        A mapping from feature to the number of the first sample after its change, estimated.
    labels
        A mapping from label to log evidence, as in `features`, if the labels changed. If y is a
        target, the only key is "target".
    is_final
        Whether all evidence has been collected.

    """

    sample: int
    began: int
    kinds: tuple[str, ...]
    features: dict[Any, float]
    how: dict[Any, str]
    feature_began: dict[Any, int]
    labels: dict[Any, float]
    is_final: bool


@dataclass(eq=False, repr=False)
class DriftMonitor(Model, base.Estimator):
    """Drift monitor that reports when a stream changed, what changed, and in which features.

    The monitor needs no model, and can be used beside any model. The first `grace_period` samples
    are stored as a reference, which defines several scores of a sample. Each score of a later
    sample is ranked among the scores of the samples since the reference. The monitor bets that
    these ranks are not uniform, and raises an alarm if the winnings are large.

    Call `learn_one` for each sample, and then read `drift_detected`. An alarm adds a `Drift` to
    `log`. The monitor collects evidence from 200 more samples, and then replaces this `Drift` by
    its final version. Meanwhile, it fills the next reference.

    Suppose that the samples after a reference are exchangeable, for example independent with one
    distribution. Then the probability of a false alarm within n samples after the reference is at
    most n / `every`. The bound holds for any distribution and any number of features[^1], and again
    after each alarm.

    Successive samples of a time series are not exchangeable. With `spacing`, the monitor uses one
    sample in `spacing`. Then only the used samples must be exchangeable. The monitor also reports
    trends and seasons that are longer than `spacing`.

    Parameters
    ----------
    every
        Bound on false alarms (see above). The average number of samples between false alarms is at
        least about `every` / 2.
    spacing
        The monitor uses one sample in `spacing`. A reference then takes `grace_period` * `spacing`
        samples, and the collection of evidence takes 200 * `spacing` samples. The best spacing of a
        seasonal stream is shorter than its season.
    grace_period
        Number of used samples in a reference.
    kinds
        The kinds of changes that raise alarms: "inputs", "labels" and "relation", the relation of
        y to the inputs. The bound holds for all kinds together.
    seed
        Random seed for reproducibility.

    Notes
    -----
    Four properties of the inputs are compared. Three belong to single features: a feature's values,
    its dependence on the other features, and its presence. The fourth is the number of features
    that the reference lacks. Dependence is the difference of a value from the mean value of the 3
    stored samples that are nearest in the other features. For a category, it is the number of these
    3 samples with another level. With more than 64 features, only the 64 features that can be
    predicted best in this way have a score for dependence. A reference has at most 1,024 features,
    64 levels per category, and 64 labels. Further features count as features that the reference
    lacks.

    The relation is compared by the labels of the 7 nearest stored samples, or by the difference of
    the target from their mean target.

    Memory does not grow with the stream. A reference takes 12 bytes for each value.

    If labels are late, use two monitors. The monitor with `kinds=("inputs",)` learns x at once. The
    monitor with `kinds=("labels", "relation")` learns x and y when y is known. The probabilities of
    false alarms add up.

    Examples
    --------

    >>> import random
    >>> from river_mondrian import DriftMonitor

    >>> rng = random.Random(42)
    >>> monitor = DriftMonitor(seed=42)
    >>> for i in range(3000):
    ...     x = {"load": rng.gauss(50.0, 5.0), "errors": rng.gauss(3.0, 1.0)}
    ...     if i >= 2000:
    ...         x["errors"] += 1.0
    ...     monitor.learn_one(x)
    ...     if monitor.drift_detected:
    ...         print(monitor.log[-1].sample, monitor.log[-1].kinds)
    2037 ('inputs',)
    >>> drift = monitor.log[-1]
    >>> drift.is_final, drift.how
    (True, {'errors': 'values'})

    References
    ----------
    [^1]: Vovk, V., Gammerman, A. and Shafer, G. (2005). Algorithmic Learning in a Random World.
    Springer. Chapters 2 and 7.

    """

    every: int = 10_000
    spacing: int = 1
    grace_period: int = 256
    kinds: Sequence[str] = CHANGES
    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("every", 1), ("spacing", 1), ("grace_period", LEAST_REFERENCE)):
            check_integer(name, getattr(self, name), least)
        check_kinds(self.kinds)
        kinds = tuple(kind for kind in CHANGES if kind in self.kinds)
        bar = self.every / self.spacing
        self._table = MonitorTable(bar, self.spacing, self.grace_period, kinds)
        self._table.seed(self.seed)
        # The latest `Drift`s, as plain tuples, which files can store.
        self._log: tuple[tuple[Any, ...], ...] = ()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"grace_period": 32}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        table, n = self._table, self._table.record.n_samples
        stored = table.record.spacing, table.record.capacity, {*table.kinds}
        if stored != (self.spacing, self.grace_period, {*self.kinds}):
            refuse(self, "_table", stored, "but the parameters differ")
        try:
            is_sound = all(0 < Drift(*drift).sample <= n for drift in self._log)
        except TypeError:
            is_sound = False
        if not is_sound:
            refuse(self, "_log", self._log, "but each drift should belong to a learned sample")

    def _enter(self) -> None:
        """Complete the report or the new reference, if the latest sample caused one."""
        super()._enter()
        table, record = self._table, self._table.record
        if record.due in (conformal.ALARM, conformal.FINAL):
            drift = table.report(record.due == conformal.FINAL)
            # A drift is reported twice, without and with all evidence, so the second report
            # replaces the first.
            earlier = [entry for entry in self._log if entry[0] != drift[0]]
            self._log = (*earlier, drift)[-KEPT_DRIFTS:]
            is_full = record.phase == conformal.FILLING and record.n_filled == record.capacity
            record.due = conformal.FULL if is_full else NO_WORK
        if record.due == conformal.FULL:
            self._table = quiet(table.renewed)()

    # Learning.

    def learn_one(self, x: Mapping[Any, Any], y: Any = None) -> None:
        """Learn a sample, and raise an alarm if the stream has changed.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category: a string or truth value.
            NaN and None are the same as an absent key.
        y
            A float is a target, and any other value except None is a label. None means unknown.
            With `kinds=("inputs",)`, y is ignored.

        Raises
        ------
        TypeError
            If a value is neither a number nor a level, or does not have its feature's type. The
            same error is raised if y is a target but earlier values of y were labels, or the
            reverse.
        ValueError
            If a value is infinite or too large for single precision, or y is NaN or infinite. Then
            nothing has changed.

        """
        with self._lock:
            self._enter()
            table, n_new = self._table, 0
            kind, y = self._read_y(y)
            is_watching = table.record.phase == conformal.WATCHING
            if not is_watching or not table.features.read_known(x, table.vector):
                values = table.features.read(x, levels=True)
                n_new = len(values.keys() - table.features.index_of.keys())
                table.features.write(values, table.vector)
                if table.is_filling:
                    table = self._fill(x, y if kind == LABEL else None)
            number = later = y if kind == TARGET else math.nan
            if kind == LABEL:
                number, later = (d.get(y, len(d)) for d in (table.labels, table.next_labels))
            bad = conformal.learn(table.record, kind, number, later, n_new)
            table.features.check_input(bad, table.vector)
            self._table = table
            if table.record.due != NO_WORK:
                self._enter()

    def _read_y(self, y: Any) -> tuple[int, Any]:
        """Return whether y is a label, a target or unknown, and the checked y."""
        if y is None or self._table.kinds == ("inputs",):
            return UNKNOWN_Y, None
        kind, known = LABEL, self._table.record.y_kind
        if isinstance(y, (float, np.floating)):
            kind, y = TARGET, check_target(y)
        if known not in (UNKNOWN_Y, kind):
            raise TypeError(f"y must be {KINDS_OF_Y[known]}, as before, got {told(y)}")
        return kind, y if kind == TARGET else check_label(y)

    def _fill(self, x: Mapping[Any, Any], label: Any) -> MonitorTable:
        """Write a sample to the next reference; return the table, copied if names are new."""
        table = self._table
        index, labels = table.next_features, table.next_labels
        values = index.read(x, levels=True)
        n_free = conformal.MOST_WATCHED - len(index)
        new = dict(itertools.islice(index.new_of(values).items(), n_free))
        if label is not None and label not in labels and len(labels) < conformal.MOST_LEVELS:
            labels = {**labels, label: len(labels)}
        if new or labels is not table.next_labels:
            table = table.widened(new, labels)
        table.next_features.write(values, table.learned["filled"][table.record.n_filled])
        return table

    def learn_many(self, X: Any, y: Any = None, *, progress: bool = False) -> None:
        """Learn the rows of a frame, in order, with the same result as `learn_one` on each row.

        Afterwards, `log` contains the drifts in these rows.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...
            Values are numbers or categories. Nulls and NaN are missing values.
        y
            The targets or labels of the rows: a series, a list or an array; None if not known.
        progress
            Whether to show the number of learned rows on stderr, with tqdm if it is installed, else
            as text. The result does not depend on `progress`.

        Raises
        ------
        TypeError, ValueError
            As for `learn_one`. If the frame has an invalid value or a column twice, or there is not
            one y for each row, nothing has been learned. If a row is invalid for another reason,
            the rows before this row have been learned.

        """
        with self._lock:
            self._enter()
            frame, names, columns = read_frame(X, self._table.next_features)
            labels = [None] * len(columns) if y is None else read_labels(y, len(columns), frame)
        one_by_one(
            lambda i: self.learn_one(mapping_of(names, columns[i]), labels[i]),
            len(columns),
            progress,
        )

    # Results.

    @property
    @locked
    def drift_detected(self) -> bool:
        """Whether the latest sample raised an alarm, as in River's detectors."""
        record = self._table.record
        return bool(record.alarm_at == record.n_samples > 0)

    @property
    @locked
    def log(self) -> list[Drift]:
        """The latest 100 drifts, oldest first; the last may not be final yet."""
        return [Drift(*drift) for drift in self._log]

    @property
    @locked
    def n_samples(self) -> int:
        """Number of samples learned."""
        return int(self._table.record.n_samples)


def check_kinds(kinds: Any) -> None:
    """Raise an error unless `kinds` is a list or tuple of different kinds of changes."""
    is_sound = isinstance(kinds, (list, tuple)) and kinds and all(kind in CHANGES for kind in kinds)
    if not is_sound or len({*kinds}) < len(kinds):
        raise ValueError(f"kinds must be some of {CHANGES}, got {kinds!r}")


@dataclass(eq=False, repr=False)
class ConformalDrift(Model, base.DriftDetector):
    """Drift detector for single values, such as the errors of a model.

    If the values are exchangeable, the probability of a false alarm within n values is at most n /
    `every` (see `DriftMonitor`). The first 256 values, the reference, are not counted. After an
    alarm, the next 256 values are the new reference.

    Parameters
    ----------
    every
        Bound on false alarms (see above). The average number of values between false alarms is at
        least about `every` / 2.
    seed
        Random seed for reproducibility.

    Examples
    --------

    >>> import random
    >>> from river_mondrian import ConformalDrift

    >>> rng = random.Random(42)
    >>> detector = ConformalDrift(seed=42)
    >>> for i in range(2000):
    ...     detector.update(rng.random() < (0.1 if i < 1000 else 0.4))
    ...     if detector.drift_detected:
    ...         print(i, detector.width, round(detector.estimation, 2))
    1030 44 0.43

    """

    every: int = 10_000
    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._monitor = DriftMonitor(self.every, kinds=CHANGES[:1], seed=self.seed)
        # The latest values, in a ring buffer.
        self._values = np.zeros(KEPT_VALUES)

    def update(self, x: float) -> None:
        """Update the detector with a value.

        Parameters
        ----------
        x
            A number or truth value.

        Raises
        ------
        TypeError
            If the value is not a number.
        ValueError
            If the value is NaN, infinite or too large for single precision.

        """
        with self._lock:
            self._enter()
            value, monitor, n = check_value("x", check_target(x)), self._monitor, self.n_samples

            def learn() -> None:
                if monitor.n_samples == n:
                    monitor.learn_one({"value": value})

            self._run_steps([learn, lambda: self._values.__setitem__(n % KEPT_VALUES, value)])

    @property
    @locked
    def drift_detected(self) -> bool:
        """Whether the latest value raised an alarm."""
        return self._monitor.drift_detected

    @property
    def _raw_memory_usage(self) -> int:
        return super()._raw_memory_usage + self._monitor._raw_memory_usage

    @property
    @locked
    def n_samples(self) -> int:
        """Number of values learned."""
        return self._monitor.n_samples

    @property
    @locked
    def width(self) -> int:
        """Number of values since the latest detected change began; all values if there is none."""
        log = self._monitor.log
        return self.n_samples - (log[-1].began - 1 if log else 0)

    @property
    @locked
    def estimation(self) -> float:
        """Mean of the latest `width` values, or of the latest 1,024 if `width` is larger."""
        n, width = self.n_samples, min(self.width, KEPT_VALUES)
        positions = np.arange(n - width, n) % KEPT_VALUES
        return float(self._values[positions].mean()) if width else 0.0
