"""Batches of samples for trees that are built anew: many are learned or predicted by a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...partitions.mondrian.records import CLOSED
from ...partitions.mondrian.trees import AnyView
from ...records import Float64s, Memory
from ...status import WAITS
from .records import R
from .trees import RebuiltTrees

# Rows that a kernel predicts at once, beside other threads: in between Ctrl-C gets through.
ROWS_PREDICTED = 64
# Rows that a kernel learns at once: other threads of Python wait for it.
ROWS_LEARNED = 16


class BatchedTrees(RebuiltTrees[R, AnyView]):
    """Trees that learn and predict rows of inputs as they do single samples, bit for bit."""

    def _learn_rows_by(self, learn: Callable[[int, int], int], n: int) -> None:
        """Learn `n` rows that bring nothing new.

        `learn(start, stop)` learns some of them; it returns the next one, which is `stop` unless
        the row before has closed the forest, since its owner has something to complete.
        """
        start = 0
        while start < n:
            start = learn(start, min(start + ROWS_LEARNED, n))
            if self.forest.version == CLOSED:
                self._learned(WAITS)

    def _reader(self) -> list[Memory[Any]]:
        """Return a copy of the forest's record by which a thread predicts beside others.

        It refers to the same rows and points, but what a prediction is written to is its own. What
        it refers to besides comes behind it, to be kept as long.
        """
        shared = self.shared.copied()
        shared.own("trees", self.trees.bytes.copy())
        shared.own("row", np.empty_like(self.row))
        self._own_prediction(shared)
        return [shared]

    def _predict_rows_by(
        self,
        predict: Callable[[R, Float64s, int, Float64s], None],
        inputs: NDArray[np.float64],
        width: int,
        n_jobs: int,
    ) -> NDArray[np.float64]:
        """Predict rows of checked inputs; returns an array, shape (n, width).

        `predict(forest, rows, n, out)` predicts `n` rows by the forest's record, or a copy of it.
        """
        out = np.empty((len(inputs), width))

        def part(first: int, last: int) -> None:
            # Each thread has a copy of its own, which goes with it. One may have the forest's own
            # record, which no other thread writes to while the forest is closed.
            is_free = first == 0 and self.forest.version == CLOSED
            copies = [self.shared] if is_free else self._reader()
            for block in range(first, last):
                if self._jobs_end:
                    return
                rows = slice(ROWS_PREDICTED * block, ROWS_PREDICTED * (block + 1))
                given, found = inputs[rows], out[rows]
                predict(copies[0][0], Float64s.of(given), len(given), Float64s.of(found))

        # Blocks are shared out whole: few rows take less time than a thread does to begin.
        self._share(part, -(-len(inputs) // ROWS_PREDICTED), n_jobs)
        return out
