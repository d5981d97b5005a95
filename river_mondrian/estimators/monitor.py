"""The drift monitor: when a stream changed, which kind of change it was, and in which features."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from river import base

from ..arguments import check_integer, told
from ..frames import mapping_of, read_frame, read_labels
from ..inputs import check_label, check_target, too_large
from ..learners import conformal
from ..learners.conformal import KINDS, LABEL, NOTHING, TARGET, UNKNOWN, MonitorTable
from ..limits import DONE
from ..model import Model, locked
from ..progress import pieces

# Smallest reference, in samples.
LEAST_REFERENCE = 16
# Number of the latest drifts that are kept.
KEPT_DRIFTS = 100
KINDS_OF_Y = {LABEL: "a label", TARGET: "a target"}


class Drift(NamedTuple):
    """A change of the stream.

    Attributes
    ----------
    sample
        Number of the sample that raised the alarm, 1 for the first learned sample.
    began
        Number of the first sample of the change, estimated.
    kinds
        What changed: "inputs", "labels" (or the target), "relation". The strongest kind comes
        first.
    features
        A mapping from feature to log evidence, largest first. It has the features with at least
        half of the largest log evidence, if the inputs changed.
    how
        A mapping from feature to the way in which the feature changed: "values", "dependence" (on
        the other features), "presence", or "new" for a feature that the reference lacks.
    feature_began
        A mapping from feature to the number of the first sample of its change, estimated.
    labels
        A mapping from label to log evidence, like `features`. If y is a target, the only key is
        "target".
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
    """TODO docstring."""

    every: int = 10_000
    spacing: int = 1
    grace_period: int = 256
    kinds: Sequence[str] = KINDS
    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("every", self.every, 1)
        check_integer("spacing", self.spacing, 1)
        check_integer("grace_period", self.grace_period, LEAST_REFERENCE)
        check_kinds(self.kinds)
        kinds = tuple(kind for kind in KINDS if kind in self.kinds)
        bar = self.every / self.spacing
        self._table = MonitorTable(bar, self.spacing, self.grace_period, kinds)
        self._table.seed(self.seed)
        # The latest `Drift`s, as plain tuples.
        self._log: tuple[tuple[Any, ...], ...] = ()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"grace_period": 32, "seed": 1}

    def _enter(self) -> None:
        """Complete the report or the new reference that the latest sample caused."""
        super()._enter()
        table, record = self._table, self._table.record
        if record.due in (conformal.ALARM, conformal.FINAL):
            drift = table.report(record.due == conformal.FINAL)
            # The final version replaces the first.
            kept = [one for one in self._log if one[0] != drift[0]]
            self._log = (*kept, drift)[-KEPT_DRIFTS:]
            is_full = record.phase == conformal.FILLING and record.n_filled == record.capacity
            record.due = conformal.FULL if is_full else NOTHING
        if record.due == conformal.FULL:
            self._table = table.renewed()

    # Learning.

    def learn_one(self, x: Mapping[Any, Any], y: Any = None) -> None:
        with self._lock:
            self._enter()
            table, n_new = self._table, 0
            kind, y = self._read_y(y)
            if table.record.phase != conformal.WATCHING or not table.features.read_known(
                x, table.vector
            ):
                values = table.features.read(x, levels=True)
                n_new = len(values.keys() - table.features.places.keys())
                table.features.write(values, table.vector)
                if table.is_filling:
                    table = self._fill(values, y if kind == LABEL else None)
            number = other = y if kind == TARGET else math.nan
            if kind == LABEL:
                number, other = (own.get(y, len(own)) for own in (table.labels, table.next_labels))
            bad = table.learn(kind, number, other, n_new)
            if bad != DONE:
                raise too_large(table.features.names[bad], table.vector[bad])
            self._table = table
            if table.record.due != NOTHING:
                self._enter()

    def _read_y(self, y: Any) -> tuple[int, Any]:
        """Return the kind of y, and the checked y."""
        if y is None or self._table.kinds == ("inputs",):
            return UNKNOWN, None
        kind, known = LABEL, self._table.record.y_kind
        if isinstance(y, (float, np.floating)):
            kind, y = TARGET, check_target(y)
        if known not in (UNKNOWN, kind):
            raise TypeError(f"y must be {KINDS_OF_Y[known]}, as before, got {told(y)}")
        return kind, y if kind == TARGET else check_label(y)

    def _fill(self, values: dict[Hashable, float], label: Any) -> MonitorTable:
        """Write values to the next reference, or to a copy with their new features and label."""
        table = self._table
        index, labels = table.next_features, table.next_labels
        values = index.agreed(values)
        new = dict(
            itertools.islice(index.new_of(values).items(), conformal.MOST_FEATURES - len(index))
        )
        if label is not None and label not in labels and len(labels) < conformal.MOST_LEVELS:
            labels = {**labels, label: len(labels)}
        if new or labels is not table.next_labels:
            table = table.widened(new, labels)
        table.write_next(values)
        return table

    def learn_many(self, X: Any, y: Any = None, *, progress: bool = False) -> None:
        with self._lock:
            self._enter()
            frame, names, columns = read_frame(X, self._table.next_features)
            labels = [None] * len(columns) if y is None else read_labels(y, len(columns), frame)
        for part in pieces(len(columns), progress):
            for i in range(part.start, part.stop):
                # The lock is taken for each row, so that other threads can call between rows.
                self.learn_one(mapping_of(names, columns[i]), labels[i])

    # Results.

    @property
    @locked
    def drift_detected(self) -> bool:
        """Whether the latest sample raised an alarm."""
        record = self._table.record
        return bool(record.alarm_at == record.n_samples > 0)

    @property
    @locked
    def log(self) -> list[Drift]:
        """The latest 100 drifts, oldest first."""
        return [Drift(*drift) for drift in self._log]

    @property
    @locked
    def n_samples(self) -> int:
        """Number of samples learned."""
        return int(self._table.record.n_samples)


def check_kinds(kinds: Any) -> None:
    """Refuse anything but a list or tuple of some of the kinds."""
    is_sound = isinstance(kinds, (list, tuple)) and kinds and all(kind in KINDS for kind in kinds)
    if not is_sound or len({*kinds}) < len(kinds):
        raise ValueError(f"kinds must be some of {KINDS}, got {kinds!r}")
