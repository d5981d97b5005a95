"""What a random cut forest keeps besides its trees: the scores of the samples learned last.

A random cut tree (Guha et al. 2016, Definition 1) cuts the box of its samples in a dimension that
is drawn in proportion to the sides, at a uniform place, until each sample is alone: it is a
Mondrian tree without a lifetime. So its trees are those of `partitions.mondrian`, with samples
taken out as well as put in, and its nodes keep nothing else.

Full trees may take a part of the samples only, each with the same probability, so that they hold a
random part of more samples than they have room for. These are drawn without a look at the trees.
"""

from __future__ import annotations

from typing import TypeVar

from ...partitions.mondrian.records import Forest
from ...partitions.splitmix import mixed, state_after, uniform_of
from ...records import Float64, Float64s, Int64, transient


class CutForest(Forest):
    """A forest of random cut trees."""

    # The scores of the samples learned last, each before it was learned: in a ring, and sorted.
    scores: Float64s
    ranked: Float64s
    # How many there are, and where the next one is written.
    n_scores: Int64
    next_score: Int64
    # The probability with which a sample enters full trees, from what state that is drawn, and how
    # many samples have not entered.
    entering: Float64
    entry_state: Int64
    n_passed: Int64
    # The sample that was scored last, its score, and after how many changes that was.
    noted_inputs: Float64s
    noted_score: Float64 = transient()
    noted_at: Int64 = transient()

    def passes(self) -> bool:
        """Tell whether the next sample is not to enter the trees, which are full.

        It is the same however often it is asked, until the sample has been learned.
        """
        if self.n_points < self.window:
            return False
        n_learned = int(self.n_samples + self.n_passed)
        return uniform_of(mixed(state_after(self.entry_state, n_learned))) >= self.entering

    def n_changes(self) -> int:
        """Return how many samples have been learned or forgotten."""
        return self.n_samples + self.n_forgotten

    def may_forget(self) -> bool:
        """Tell that samples may be forgotten."""
        return True


C = TypeVar("C", bound=CutForest)
