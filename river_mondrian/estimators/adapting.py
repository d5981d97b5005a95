"""What the adaptive forests share as River estimators: bounds, and a watch over their errors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar, TypeAlias, TypeVar

from river import base

from ..arguments import check_integer
from ..checks import refuse
from ..directions import Directions
from ..model import locked
from ..partitions.mondrian.trees import LEARNED_ROWS
from ..posteriors.rebuilt.trees import RebuiltTrees
from ..progress import pieces
from .forest import MondrianForest
from .watching import Watch

DETECTORS = (base.DriftDetector, base.BinaryDriftDetector)
Detector: TypeAlias = base.DriftDetector | base.BinaryDriftDetector | str | None

# What is stored of the watch over errors.
WATCHED = ("_detector", "_error", "_n_errors", "_recent_error", "_drifts")

Trees = TypeVar("Trees", bound=RebuiltTrees[Any, Any])


def check_bounds(max_samples: int, max_bytes: int | None, drift_detector: Detector) -> None:
    """Check the arguments that bound what is kept of a stream."""
    check_integer("max_samples", max_samples, 1000)
    if max_bytes is not None:
        check_integer("max_bytes", max_bytes, 1)
    if not (
        drift_detector is None
        or (isinstance(drift_detector, str) and drift_detector == "adwin")
        or isinstance(drift_detector, DETECTORS)
    ):
        raise ValueError(
            f'drift_detector must be "adwin", None or a drift detector, got {drift_detector!r}'
        )


def blocks(n: int, progress: bool) -> Iterator[slice]:
    """Yield blocks of `n` rows in order, and show how many have been learned."""
    for part in pieces(n, progress):
        for start in range(part.start, part.stop, LEARNED_ROWS):
            yield slice(start, min(start + LEARNED_ROWS, part.stop))


def parts_between(new: set[int], n: int) -> Iterator[tuple[slice, bool]]:
    """Yield the parts of `n` rows in order, with whether they are new: each of these is alone."""
    start = 0
    for stop in (*sorted(new), n):
        if start < stop:
            yield slice(start, stop), False
        if stop < n:
            yield slice(stop, stop + 1), True
        start = stop + 1


class AdaptingForest(MondrianForest[Trees]):
    """A forest whose trees are built anew of a window, and at drifts of the samples since."""

    drift_detector: Detector

    # What all forests have, fixed here.
    lifetime: Any = math.inf
    max_nodes: int | None = None
    directions: Directions = None

    # It is stored as what is known of errors.
    _TRANSIENT: ClassVar[frozenset[str]] = MondrianForest._TRANSIENT | {"_watch"}

    def _begin_watch(self) -> None:
        """Let a new detector watch, where one is wanted."""
        if self.drift_detector is not None:
            self._watch = Watch(self._new_detector())

    def _renew(self) -> None:
        super()._renew()
        stored = [self.__dict__.pop(name) for name in WATCHED if name in self.__dict__]
        self._watch = Watch(*stored)

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "n_jobs" not in state:
            # Models that were stored before there was this argument had one thread.
            state = state | {"n_jobs": 1}
        for name, kind in zip(WATCHED[1:], (float, int, float, list), strict=True):
            if type(state.get(name)) is not kind:
                refuse(self, name, state.get(name), f"but it should be a {kind.__name__}")
        if "_detector" not in state:
            refuse(self, "_detector", None, "but even None is stored")
        super().__setstate__(state)

    def _state(self) -> dict[str, Any]:
        return super()._state() | dict(zip(WATCHED, self._watch.stored(), strict=True))

    def _new_detector(self) -> Any:
        if isinstance(self.drift_detector, DETECTORS):
            return self.drift_detector.clone()
        # It takes long to import.
        from river.drift import ADWIN

        return ADWIN()  # type: ignore[no-untyped-call]

    @locked
    def resample(self) -> None:
        """Build the trees of all samples anew, at once, of the samples that are kept."""
        if self._trees is not None:
            self._trees.build()

    @property
    @locked
    def drift_log(self) -> list[tuple[int, int]]:
        """The drifts: after how many samples, and how many of them were kept."""
        return self._watch.stored()[-1]

    def _enter(self) -> None:
        super()._enter()
        watch, trees = self._watch, self._trees
        if watch.following is None:
            return
        if trees is not None and watch.has_learned(trees.n_samples):
            if kept := watch.kept:
                trees.forget_before(kept)
            watch.follow()
        else:
            watch.undo()

    @property
    def _raw_memory_usage(self) -> int:
        return super()._raw_memory_usage + self._watch.nbytes
