"""What adaptive forests over targets do where trees are built anew (`rebuilt.records`)."""

from __future__ import annotations

from ...compiling.kernels import exact_inlined, kernel, merged
from ...learners.drift import NOBODY, watch
from ...limits import LEAST_WEIGHT
from ...records import Float64s
from ...status import DONE, TOO_LARGE
from ..rebuilt.learning import accept
from . import learning
from .prediction import ensure_predicted
from .records import N_TARGETS, TARGET, AdaptiveTargetForest
from .splitting import enqueue_differing, split

# What a call may spend, in points, on the splits of one tree.
SPLIT_BUDGET = 400

# Error that counts as 1 for detectors of drifts, in mean sizes of errors.
LARGEST_ERROR = 4.0


class TargetsForest(AdaptiveTargetForest):
    """An adaptive forest over targets, as the kernels that build trees anew see it."""

    def predict_inputs(self, inputs: Float64s) -> int:
        """Predict a sample where that has not been done; returns DONE or what is too large."""
        return ensure_predicted(self, inputs)

    def score(self) -> None:
        """Let ridges, mixtures and the law learn the accepted sample."""
        learning.score(self)

    def keep_sample(self, p: int) -> None:
        """Store the targets and the weight of the accepted sample."""
        point = self.points.row(p)
        for k in range(N_TARGETS):
            point.targets[k] = self.accepted[k]
        point.weight = self.accepted_weight

    def begin_walk(self, t: int, p: int) -> None:
        """Let a tree take a point from its root, or from its leaf."""
        learning.begin_walk(self, t, p)

    def update_tree(self, t: int, p: int, n: int) -> None:
        """Add a point by which a tree has been extended to the means on its path."""
        learning.update_tree(self, t, p, n)

    def catch_up(self, t: int, p: int, backlog: int) -> None:
        """Add a point to the means of a tree that is being split."""
        learning.catch_up(self, t, p)

    def split_budget(self) -> int:
        """Return what a call may spend on the splits of one tree, in points."""
        return SPLIT_BUDGET

    def enqueue_built(self, t: int, ref: int) -> None:
        """Let a leaf whose targets differ wait for its split."""
        enqueue_differing(self, t, ref)

    def split(self, t: int, j: int, last: int) -> None:
        """Split a leaf by a guided cut."""
        split(self, t, j)


@exact_inlined
def _error(forest: TargetsForest, target: float) -> float:
    """Return the error of the last prediction, in units of mean ones and at most 1."""
    error, most = abs(target - forest.point), LARGEST_ERROR * forest.error_size
    if error < most:
        return error / most
    return 1.0 if error > 0.0 else 0.0


@kernel
def error_of(forest: TargetsForest, target: float) -> float:
    """Return the error of the sample in the forest's `inputs`, or `TOO_LARGE - i`."""
    bad = ensure_predicted(forest, forest.inputs)
    if bad >= 0:
        return float(TOO_LARGE - bad)
    return _error(forest, target)


@merged
def _learn(forest: TargetsForest, target: float, weight: float, found: int) -> int:
    """Learn the target of the sample in the forest's `inputs`, as `learn` does."""
    bad = ensure_predicted(forest, forest.inputs)
    if bad >= 0:
        return TOO_LARGE - bad
    if forest.errors.detector != NOBODY:
        error = _error(forest, target)
        forest.kept = watch(forest.errors, error, found, forest.n_samples + 1)
    forest.accepted[TARGET] = target
    forest.accepted_weight = max(weight, LEAST_WEIGHT)
    return accept(forest)


@kernel
def learn(forest: TargetsForest, target: float, weight: float, found: int) -> int:
    """Learn the target of the sample in the forest's `inputs`, and count it.

    A weight below LEAST_WEIGHT counts as that. `found` is how many samples a detector outside would
    keep, 0 unless it has detected a drift. Returns as `accept` does, or `TOO_LARGE - i` where
    the i-th input is, and nothing has changed.
    """
    return _learn(forest, target, weight, found)


@kernel
def learn_rows(
    forest: TargetsForest,
    rows: Float64s,
    targets: Float64s,
    weights: Float64s,
    start: int,
    stop: int,
) -> int:
    """Learn the rows `start` to `stop` of checked inputs, with their targets.

    Returns the number of the next row. It is `stop`, unless the forest is closed behind the row
    before, as `accept` leaves it.
    """
    inputs, capacity = forest.inputs, forest.input_capacity
    for i in range(start, stop):
        for d in range(capacity):
            inputs[d] = rows[capacity * i + d]
        if _learn(forest, targets[i], weights[i], 0) != DONE:
            return i + 1
    return stop
