"""What adaptive forests over classes do where trees are built anew (`rebuilt.records`)."""

from __future__ import annotations

from ...compiling.kernels import inlined, kernel, merged
from ...learners.drift import NOBODY, watch
from ...limits import LEAST_WEIGHT
from ...partitions.mondrian.records import NONE, START
from ...records import Float64s, Int64s
from ...status import DONE, TOO_LARGE
from ..labels.hnsp import most_probable
from ..rebuilt.learning import accept
from ..rebuilt.records import REPLAYING
from .learning import catch_up, replay, score, update_path
from .prediction import ensure_predicted
from .records import AdaptiveForest
from .splitting import enqueue_mixed, split
from .weighting import update_weights

# What a call may spend, in points, on the splits of one tree.
SPLIT_BUDGET = 400


class ClassForest(AdaptiveForest):
    """An adaptive forest, as the kernels that build trees anew see it."""

    def predict_inputs(self, inputs: Float64s) -> int:
        """Predict a sample where that has not been done; returns DONE or what is too large."""
        return ensure_predicted(self, inputs)

    def score(self) -> None:
        """Let the mixture learn the class of the accepted sample."""
        score(self)

    def begin_walk(self, t: int, p: int) -> None:
        """Let the weights on the sample's path learn its class, ahead of the extension."""
        tree = self.trees[t]
        tree.walk_ref = START
        if tree.path_length > 0:
            label, weight = self.accepted, self.accepted_weight
            update_weights(self, tree, self.path_of(t), tree.path_length, label, weight, NONE)

    def update_tree(self, t: int, p: int, n: int) -> None:
        """Add a point by which a tree has been extended to the statistics on its path."""
        update_path(self, t, p, self.path_of(t), n, True)

    def catch_up(self, t: int, p: int, backlog: int) -> None:
        """Give rows that a tree that is shown its points has got by a point their statistics."""
        if self.trees[t].role == REPLAYING:
            catch_up(self, t, p, backlog)

    def split_budget(self) -> int:
        """Return what a call may spend on the splits of one tree, in points."""
        return SPLIT_BUDGET

    def enqueue_built(self, t: int, ref: int) -> None:
        """Let a leaf whose points are of several classes wait for its split."""
        enqueue_mixed(self, t, ref)

    def split(self, t: int, j: int, last: int) -> None:
        """Split a leaf by a guided cut."""
        split(self, t, j, last)

    def replays(self) -> bool:
        """Tell that a tree that has been split is shown its points in order."""
        return True

    def replay(self, t: int, start: int, stop: int) -> int:
        """Show a tree the samples `start` to `stop` in order; returns where it stopped."""
        return replay(self, t, start, stop)


@inlined
def _error(forest: ClassForest, label: int, is_new: bool) -> float:
    """Return the error of the last prediction: 1 where another class was more probable, else 0."""
    is_wrong = is_new or most_probable(forest.experts.mixed, forest.n_classes) != label
    return 1.0 if is_wrong else 0.0


@kernel
def error_of(forest: ClassForest, label: int, is_new: bool) -> float:
    """Return the error of the sample in the forest's `inputs`, or `TOO_LARGE - i`."""
    bad = ensure_predicted(forest, forest.inputs)
    if bad >= 0:
        return float(TOO_LARGE - bad)
    return _error(forest, label, is_new)


@merged
def _learn(forest: ClassForest, label: int, weight: float, is_new: bool, found: int) -> int:
    """Learn the class of the sample in the forest's `inputs`, as `learn` does."""
    bad = ensure_predicted(forest, forest.inputs)
    if bad >= 0:
        return TOO_LARGE - bad
    # Nothing could have foreseen the first class.
    if forest.errors.detector != NOBODY and (forest.n_classes > 1 or not is_new):
        error = _error(forest, label, is_new)
        forest.kept = watch(forest.errors, error, found, forest.n_samples + 1)
    forest.accepted = label
    forest.accepted_weight = max(weight, LEAST_WEIGHT)
    forest.accepted_is_new = 1 if is_new else 0
    return accept(forest)


@kernel
def learn(forest: ClassForest, label: int, weight: float, is_new: bool, found: int) -> int:
    """Learn the class of the sample in the forest's `inputs`, and count it.

    A weight below LEAST_WEIGHT counts as that. `found` is how many samples a detector outside would
    keep, 0 unless it has detected a drift. Returns as `accept` does, or `TOO_LARGE - i` where
    the i-th input is, and nothing has changed.
    """
    return _learn(forest, label, weight, is_new, found)


@kernel
def learn_rows(
    forest: ClassForest, rows: Float64s, classes: Int64s, weights: Float64s, start: int, stop: int
) -> int:
    """Learn the rows `start` to `stop` of checked inputs, with classes that there are.

    Returns the number of the next row. It is `stop`, unless the forest is closed behind the row
    before, as `accept` leaves it.
    """
    inputs, capacity = forest.inputs, forest.input_capacity
    for i in range(start, stop):
        for d in range(capacity):
            inputs[d] = rows[capacity * i + d]
        if _learn(forest, classes[i], weights[i], False, 0) != DONE:
            return i + 1
    return stop
