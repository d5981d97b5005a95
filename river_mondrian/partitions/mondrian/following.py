"""Trees whose widths follow the stream: when they are looked at, and when trees are drawn anew."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...records import ChunkedRows, Float64s, Int64s
from ..ranges import weighed_ranges
from . import frames, renewal
from .changes import AnyForest
from .growth import FENCE, GrowingTrees
from .records import DRAWING, NEVER, STEADY

# Samples by which widths are found.
LOOKED_AT = 256

# A width does not hold any more where the one found is so many times larger or smaller; that is
# believed where at least so many values tell it.
FACTOR = 2.0
EVIDENCE = 8


class FollowingTrees(GrowingTrees[AnyForest]):
    """The memory of trees that are drawn anew where widths no longer hold (see `renewal`)."""

    def look_at_widths(self) -> None:
        """Find the widths of the samples so far, and begin to draw trees anew where they differ.

        What this looks at are inputs and numbers of samples only: given that nothing is begun,
        the law of the trees is what it was.
        """
        forest, n = self.forest, self.n_samples
        if n < forest.next_look:
            return
        if forest.phase == STEADY and self.remainders.capacities[0] > 0:
            self._drop_spare()
        if forest.is_full:
            # Of later samples nothing is known.
            forest.next_look = NEVER
            return
        found = self._found_scaling()
        ratios = self.scaling[1] / found[1]
        if ((ratios > FACTOR) | (ratios < 1.0 / FACTOR)).any():
            self._begin_renewal(found)
        else:
            forest.next_look = n + math.ceil((renewal.LOOK_RATIO - 1.0) * self._n_held())

    def _n_held(self) -> int:
        """Return how many samples the trees hold."""
        return self.n_samples

    def _found_scaling(self) -> NDArray[np.float64]:
        """Return the scaling by the ranges of some of the samples, of which most are recent ones.

        A feature of which too little is known stays as it is.
        """
        n_inputs = self.n_inputs
        rows = np.empty((LOOKED_AT, n_inputs))
        places = Int64s.of(self._places_to_look_at())
        frames.read_inputs.of(self._FOREST)(
            self.forest, places, LOOKED_AT, Float64s.of(rows.reshape(-1))
        )
        low, high, known = weighed_ranges(rows, FENCE)
        found = self.scaling.copy()
        enough = np.flatnonzero(known >= EVIDENCE)
        found[:, enough] = self._scaling_by(low, high)[:, enough]
        return found

    def _places_to_look_at(self) -> NDArray[np.int64]:
        return self._recent_places(self.n_points)

    @staticmethod
    def _recent_places(n: int) -> NDArray[np.int64]:
        """Return some of `n` places, of which half are among the last 3 of 10."""
        return (n * np.sqrt((np.arange(LOOKED_AT) + 0.5) / LOOKED_AT)).astype(np.int64)

    def _begin_renewal(self, scaling: NDArray[np.float64]) -> None:
        """Begin to draw all trees anew by another scaling."""
        # Before kernels may move points.
        self.remainders.reserve(0, self.points.capacities[0])
        self.remainders.show(0, self.forest.remainders)
        renewal.begin.of(self._FOREST)(self.forest, Float64s.of(scaling.reshape(-1)))

    def _drop_spare(self) -> None:
        """Give back what has been needed for drawing trees anew."""
        for t in range(self.n_trees, len(self.trees)):
            spare = self.trees[t]
            spare.nodes.n_rows = spare.side_rows.n_rows = 0
            for table, record in ((self.nodes, spare.nodes), (self.side_rows, spare.side_rows)):
                table.clear(spare.slot)
                table.show(spare.slot, record)
        self.remainders = ChunkedRows(1, self.remainders.width, False)
        self.remainders.show(0, self.forest.remainders)

    def _do_owed(self) -> None:
        """Let the spare tree take the points that it is yet to take for the samples learned."""
        if self.forest.owed == 0:
            return
        go_on = self._go_on()
        while (needy := go_on(self.forest)) >= 0:
            self._reserve_rows(needy, self.trees[needy].rows_needed)

    def _go_on(self) -> Callable[[AnyForest], int]:
        """Return the kernel that does what is owed."""
        found: Callable[[AnyForest], int] = renewal.go_on.of(self._FOREST)
        return found

    def finish_renewal(self) -> None:
        """Draw the rest of the trees anew at once."""
        while self.forest.phase != STEADY:
            self.forest.owed = self.n_samples
            self._do_owed()

    def _samples_to_event(self) -> int:
        """Return how many samples there are until a tree is whole or widths are looked at."""
        forest, n = self.forest, self.n_samples
        if forest.phase == STEADY:
            return int(forest.next_look) - n
        is_drawing = forest.phase == DRAWING
        pace = renewal.TAKEN * forest.n_all_trees if is_drawing else renewal.SETTLED
        return max(1, -(-(n - int(forest.taken)) // (pace - 1)))

    def _columns_of_trees(self) -> list[list[int]]:
        """Return which columns each tree with nodes may cut."""
        forest = self.shared[0]
        frame, n_renewed = int(forest.frame), 0
        if forest.phase == DRAWING:
            n_renewed = min(max(int(forest.turn()), 0), self.n_trees)
        columns = [[1 - frame]] * n_renewed + [[frame]] * (self.n_trees - n_renewed)
        return columns + [[1 - frame]] * (self.n_drawn - self.n_trees)
