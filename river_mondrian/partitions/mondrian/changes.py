"""Changes of trees that take more than one kernel: what one that was interrupted leaves.

While a change is under way the forest's record is `CLOSED` to calls for one sample. Whatever enters
the trees next completes what was interrupted, or undoes it (see ARCHITECTURE.md).
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...records import Memory, OwnsArrays
from .records import CLOSED, Forest

# Attributes of the change that is under way.
OF_CHANGES = frozenset({"version", "is_changing", "_before", "_jobs", "_jobs_end"})


class SavedTrees(NamedTuple):
    """What trees were: the samples that had begun, attributes, and the bytes of their records."""

    n_begun: int
    attributes: dict[str, Any]
    forest: NDArray[np.uint8]
    trees: NDArray[np.uint8]


AnyForest = TypeVar("AnyForest", bound=Forest)


class ChangingTrees(OwnsArrays, abc.ABC, Generic[AnyForest]):
    """Trees in memory that a change replaces or extends.

    A subclass owns the memory.
    """

    forest: AnyForest
    shared: Memory[Any]
    trees: Memory[Any]

    # Counts the changes of inputs and classes. The record has the same unless the trees are closed:
    # while a change that takes more than one kernel is under way, or has been interrupted.
    version = CLOSED + 1
    # Whether it is this owner that has closed them.
    is_changing = False
    # What the trees were before it, where it is to be undone unless it learns a sample.
    _before: SavedTrees | None = None
    # What other threads do of it.
    _jobs: Sequence[Future[None]] = ()
    # Whether those that may be ended early are to end.
    _jobs_end = False

    @property
    def n_begun(self) -> int:
        """Number of samples that have been learned, or are on their way down the trees."""
        return self.forest.n_samples + self.forest.n_walking

    @property
    def is_empty(self) -> bool:
        """Whether no sample is held, or on its way down the trees."""
        return self.forest.n_held() + self.forest.n_walking == 0

    def close(self) -> None:
        """Let kernels refuse calls for one sample, but for the owner's, until `open`."""
        self.is_changing = True
        self.forest.version = CLOSED

    def open(self) -> None:
        """Let kernels take calls for one sample, unless a change is under way."""
        if self._before is None:
            self.forest.version = self.version
            self.is_changing = False

    def enter(self) -> None:
        """Close the trees, and complete or undo what was interrupted."""
        forest = self.forest
        is_whole = not self.is_changing and self._before is None and forest.version == self.version
        self.close()
        # Another thread's sample may have begun, and closed the trees, before this has.
        if is_whole and forest.n_walking == 0:
            return
        self._wait_for_jobs()
        before = self._before
        if before is not None and before.n_begun == self.n_begun:
            self.__dict__.update(before.attributes)
            # Calls may have been prepared for what is undone.
            self.version += 1
            self.shared.bytes[:] = before.forest
            self.trees.bytes[:] = before.trees
            self._finish()
            self.close()
        self._before = None
        self._show()
        self._complete()

    def settle(self) -> None:
        """Complete or undo what was interrupted, and open the trees."""
        self.enter()
        self.open()

    def begin_change(self) -> None:
        """Begin a change that is undone if it is interrupted before it has learned a sample.

        What the trees have is replaced or extended by it, and not written over.
        """
        if not self.is_changing:
            self.enter()
        attributes = {name: own for name, own in self.__dict__.items() if name not in OF_CHANGES}
        saved = self.shared.bytes.copy(), self.trees.bytes.copy()
        # Calls that have been prepared know nothing of what may be new.
        self.version += 1
        self._before = SavedTrees(self.n_begun, attributes, *saved)

    def end_change(self) -> None:
        """End a change: it stays."""
        self._before = None
        self.open()

    def _wait_for_jobs(self) -> None:
        """Wait until no other thread does anything of a change that was interrupted."""
        self._jobs_end = True
        for job in self._jobs:
            if not job.cancel():
                job.exception()
        self._jobs = ()
        self._jobs_end = False

    def _complete(self) -> None:
        """Complete what kernels have begun; whatever is done here may be interrupted."""

    @abc.abstractmethod
    def _finish(self) -> None:
        """Make what is derived from the rest and not pickled."""

    @abc.abstractmethod
    def _show(self) -> None:
        """Tell kernels again where everything is."""
