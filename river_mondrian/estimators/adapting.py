"""The base class of the adaptive forests, with drift detection."""

from __future__ import annotations

import copy
import sys
from typing import Any, TypeAlias

from river import base

from .. import arguments, checks, frames, limits
from ..learners import drift
from ..model import locked
from ..partitions.mondrian.tree_store import Partitions
from ..progress import pieces
from .forest import SupervisedForest

DETECTORS = (base.DriftDetector, base.BinaryDriftDetector)
Detector: TypeAlias = base.DriftDetector | base.BinaryDriftDetector | None


def _is_of_river(detector: Detector, name: str) -> bool:
    """Return whether a detector has the class `name` of `river.drift`; do not import the module."""
    return type(detector) is getattr(sys.modules.get("river.drift"), name, None)


def watch_for(detector: Detector) -> drift.DriftWatch:
    """Return the `DriftWatch` that runs a detector: compiled ADWIN, a Python detector, or none."""
    if detector is None:
        return drift.DriftWatch(drift.ADWIN)
    if _is_of_river(detector, "NoDrift"):
        return drift.DriftWatch(drift.NOBODY)
    adwin: Any = detector
    if (
        _is_of_river(detector, "ADWIN")
        and adwin.delta > 0.0
        and adwin.clock >= 1
        and 1 <= adwin.max_buckets <= drift.MOST_BUCKETS
    ):
        return drift.DriftWatch(drift.ADWIN, **{k: getattr(adwin, k) for k in drift.PARAMETERS})
    return drift.DriftWatch(drift.OUTSIDE)


class AdaptingForest(SupervisedForest):
    """Base class of the adaptive forests, which rebuild trees from stored samples."""

    window: int
    drift_detector: Detector

    # A tuple (old, n, new) for a detector that runs in Python: the detector before and after sample
    # n. The tuple is replaced before the kernel learns sample n, so the number of learned samples
    # shows which detector is valid after an interrupted call. The attribute is None if a kernel
    # detects drifts, or if detection is off.
    _fed: tuple[Any, int, Any] | None

    def __post_init__(self) -> None:
        arguments.check_integer("window", self.window, 1000)
        detector: Any = self.drift_detector
        if not (detector is None or isinstance(detector, DETECTORS)):
            raise ValueError(
                f"drift_detector must be None or a drift detector of River, got {detector!r}"
            )
        super().__post_init__()
        self._fed = None
        if watch_for(detector).record.detector == drift.OUTSIDE:
            fed: Any = self.drift_detector.clone()  # type: ignore[union-attr]
            self._fed = fed, 0, fed

    def _parts(self) -> tuple[Partitions, drift.DriftWatch]:
        """Return the arguments of the trees, and the `DriftWatch`."""
        # Trees are rebuilt one by one in a spare tree, so that all trees can predict meanwhile.
        return self._partitions(self.n_estimators + 1), watch_for(self.drift_detector)

    def __setstate__(self, state: dict[str, Any]) -> None:
        fed = state.get("_fed", ())
        if fed is not None:
            is_sound = type(fed) is tuple and len(fed) == 3 and type(fed[1]) is int
            if not is_sound or not isinstance(fed[0], DETECTORS) or fed[2] is not fed[0]:
                checks.refuse(self, "_fed", fed, "but it should be a detector")
        super().__setstate__(state)

    def _state(self) -> dict[str, Any]:
        state = super()._state()
        if self._fed is not None:
            detector = self._detector
            state["_fed"] = detector, 0, detector
        return state

    @property
    def _detector(self) -> Any:
        """The detector that runs in Python, updated with the errors of all learned samples."""
        if self._fed is None:
            return None
        before, n, since = self._fed
        n_begun = 0 if self._trees is None else self._trees.n_begun
        return since if n_begun >= n else before

    def _feed(self, trees: Any, error: float) -> int:
        """Feed the error of the next sample to the detector.

        Return the number of samples to keep, or 0 if no drift is detected.
        """
        self._check_input(trees, limits.TOO_LARGE - int(error))
        detector = self._detector
        fed = copy.deepcopy(detector)
        fed.update(error)
        self._fed = detector, trees.n_samples + 1, fed
        if not fed.drift_detected:
            return 0
        return max(int(getattr(fed, "width", drift.AFTER_DRIFT)), drift.FEWEST_KEPT)

    @locked
    def _learn_read(self, frame: frames.Frame, y: Any, w: Any, progress: bool = False) -> None:
        rows = frames.read_block(frame, y, w, self._READ_Y)
        # Another thread may have added a feature after the rows were read, so types are checked
        # again.
        self._features.agree(rows.names, rows.columns)
        ys, weights = rows.ys, rows.w.tolist()
        for piece in pieces(len(rows), progress):
            for i in range(piece.start, piece.stop):
                self._learn_row(rows.mapping(i), ys[i], weights[i])

    @locked
    def resample(self) -> None:
        """Rebuild all trees, except the trees of recent samples, from the stored samples."""
        if self._trees is not None:
            self._trees.build()

    @property
    @locked
    def drift_log(self) -> list[tuple[int, int]]:
        """The drifts to which the forest adapted, as pairs (samples learned, samples kept)."""
        return [] if self._trees is None else list(self._trees.drifts)

    @property
    @locked
    def drift_detected(self) -> bool:
        """Whether a drift was detected at the last sample, as in River's detectors.

        A drift counts only if the error has increased. `drift_log` lists all drifts, including
        drifts at earlier rows of `learn_many`.
        """
        return bool(self.drift_log) and self.drift_log[-1][0] == self.n_samples

    @property
    def _raw_memory_usage(self) -> int:
        size: int = super()._raw_memory_usage
        for detector in {id(fed): fed for fed in (self._fed or ())[::2]}.values():
            size += detector._raw_memory_usage
        return size
