"""What a random cut forest keeps besides its trees: the scores of the samples learned last.

A random cut tree (Guha et al. 2016, Definition 1) cuts the box of its samples in a dimension that
is drawn in proportion to the sides, at a uniform place, until each sample is alone: it is a
Mondrian tree without a lifetime. So its trees are those of `partitions.mondrian`, with samples
taken out as well as put in, and its nodes keep nothing else.
"""

from __future__ import annotations

from typing import TypeVar

from ...partitions.mondrian.records import Forest
from ...records import Float64, Float64s, Int64, transient


class CutForest(Forest):
    """A forest of random cut trees."""

    # The scores of the samples learned last, each before it was learned: in a ring, and sorted.
    scores: Float64s
    ranked: Float64s
    # How many there are, and where the next one is written.
    n_scores: Int64
    next_score: Int64
    # The sample that was scored last, its score, and after how many changes that was.
    noted_inputs: Float64s
    noted_score: Float64 = transient()
    noted_at: Int64 = transient()

    def n_changes(self) -> int:
        """Return how many samples have been learned or forgotten."""
        return self.n_samples + self.n_forgotten

    def may_forget(self) -> bool:
        """Tell that samples may be forgotten."""
        return True


C = TypeVar("C", bound=CutForest)
