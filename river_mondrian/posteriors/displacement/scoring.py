"""How much a sample changes the trees that it is put in: displacement, depth, density.

Where a sample x is put into a tree, the samples beside a node above it move one cut further down
(Guha et al. 2016, Section 3). The collusive displacement of x is the largest number of these for
each sample on its own side (Definition 4, over the subtrees that x is in): the maximum, over the
nodes v from its leaf up to below the root, of

    |sibling of v| / |v|, x among the samples of v.

Guha et al. put x in and take it out again. Here nothing is put in: a walk knows with what
probability x branches off at each node of its path (`partitions.mondrian.walks`), and so the
expectation over all places where it may. Let n_1, n_2, ... be the numbers of samples at the nodes
of the path. Where x branches off above node j, its leaf is beside n_j samples, and the subtrees
further up, i <= j, have n_i + 1 samples beside n_(i-1) - n_i. Where x ends in a leaf of samples
that equal it, only these are there.
"""

from __future__ import annotations

import math

from ...compiling.kernels import batch_kernel, inlined, kernel, separate
from ...partitions.mondrian import rebuilding
from ...partitions.mondrian.extension import must_wait
from ...partitions.mondrian.records import Forest, Tree
from ...partitions.mondrian.renewal import learn_next
from ...partitions.mondrian.scaling import find_too_large, scale
from ...partitions.mondrian.stored import next_point
from ...partitions.mondrian.walks import Prediction, Walk, predict_rows
from ...records import Float32s, Float64s
from ...status import DONE, TOO_LARGE, WAITS
from .ranks import add_score, rank_of
from .records import C, CutForest

# What is written of a sample. Means over trees: of its displacement; of the logarithm of 1 + that,
# relative to that of a sample apart from all others; of the number of cuts above it; and of the
# share of the samples in its cell at a lifetime. And its rank among the samples learned last.
DISPLACEMENT = 0
RELATIVE = 1
DEPTH = 2
DENSITY = 3
RANK = 4
N_READINGS = 5

# Samples held, from which on scores are kept, or the window's where that is smaller: of few samples
# each stands out.
LEAST_HELD = 32

# At it the share of the samples in a cell is, on average, the mean of exp(-2 |x - y|_1) over them.
DENSITY_LIFETIME = 2.0


class Scores(Prediction):
    """What the trees say of samples, a row of `N_READINGS` for each."""

    readings: Float64s

    def add_walk(self, forest: Forest, t: int, walk: Walk, row: int) -> None:
        """Add what tree `t` says of the `row`-th sample."""
        own = self.readings.part(N_READINGS * row, N_READINGS)
        add_readings(CutForest(forest), t, walk, own)


@inlined
def _n_at(tree: Tree, ref: int) -> int:
    """Return the number of samples at a reference."""
    return 1 if ref < 0 else tree.nodes.row(ref).n_samples


@separate
def add_readings(forest: C, t: int, walk: Walk, out: Float64s) -> None:
    """Add what a walk says, over all places where its sample may branch off."""
    tree = forest.trees[t]
    # The largest displacement by the subtrees above, and the number of samples there.
    most, n_above = 0.0, 0
    # Time above the step, and the number of samples of the cell at `DENSITY_LIFETIME`.
    time, n_in_cell = 0.0, 0.0
    displaced, log_displaced, depth = 0.0, 0.0, 0.0
    for i in range(1, walk.depth + 1):
        step = walk.path[i]
        n = _n_at(tree, step.ref)
        if i > 1:
            most = max(most, (n_above - n) / (n + 1.0))
        eta = step.eta
        if time <= DENSITY_LIFETIME < time + step.span:
            n_in_cell = n * step.reach * math.exp(-eta * (DENSITY_LIFETIME - time))
        time += step.span
        if eta > 0.0:
            found, branches_off = max(most, float(n)), step.reach * (1.0 - step.stays)
            displaced += branches_off * found
            log_displaced += branches_off * math.log1p(found)
            depth += branches_off * i
        n_above = n
    ends = walk.reach
    out[DISPLACEMENT] = out[DISPLACEMENT] + displaced + ends * most
    out[RELATIVE] = out[RELATIVE] + log_displaced + ends * math.log1p(most)
    out[DEPTH] = out[DEPTH] + depth + ends * (walk.depth - 1)
    out[DENSITY] = out[DENSITY] + n_in_cell


@inlined
def _read(forest: CutForest, rows: Float32s, n: int, scores: Scores) -> None:
    """Write what the trees, which hold a sample, say of `n` rows of values."""
    out, n_held = scores.readings, float(forest.n_held())
    for i in range(N_READINGS * n):
        out[i] = 0.0
    predict_rows(forest, rows, n, scores)
    for r in range(n):
        own = out.part(N_READINGS * r, N_READINGS)
        own[DISPLACEMENT] = own[DISPLACEMENT] / forest.n_trees
        own[RELATIVE] = own[RELATIVE] / (forest.n_trees * math.log1p(n_held))
        own[DEPTH] = own[DEPTH] / forest.n_trees
        own[DENSITY] = own[DENSITY] / (forest.n_trees * n_held)
        own[RANK] = rank_of(forest, own[RELATIVE])


@batch_kernel
def score_rows(forest: C, rows: Float32s, n: int, scores: Scores) -> None:
    """Write what the trees, which hold a sample, say of `n` rows of values."""
    _read(forest, rows, n, scores)


@inlined
def _note(forest: CutForest, score: float) -> None:
    """Note the score of the sample in `inputs`.

    A stream scores a sample and then learns it: what is noted saves a third of the time of both.
    """
    for d in range(forest.n_inputs):
        forest.noted_inputs[d] = forest.inputs[d]
    forest.noted_score = score
    forest.noted_at = forest.n_changes()


@inlined
def _is_noted(forest: CutForest) -> bool:
    """Tell whether the sample in `inputs` is the one that was scored last, by the present trees."""
    if forest.noted_at != forest.n_changes():
        return False
    for d in range(forest.n_inputs):
        # A missing value differs from itself: such a sample is scored again.
        if forest.inputs[d] != forest.noted_inputs[d]:
            return False
    return True


@inlined
def _score_before(forest: CutForest, scores: Scores) -> float:
    """Return the score of the sample in `inputs`, which is learned next; NaN of the first ones."""
    if forest.n_held() < min(LEAST_HELD, forest.window):
        return math.nan
    if _is_noted(forest):
        return forest.noted_score
    scale(forest, forest.row, forest.inputs)
    _read(forest, forest.row, 1, scores)
    return scores.readings[RELATIVE]


@inlined
def _keep_score(forest: CutForest, score: float) -> None:
    """Keep the score of a sample that has been learned, unless it was among the first."""
    if score == score:
        add_score(forest, score)


@kernel
def score_one(forest: C, scores: Scores) -> int:
    """Write what the trees, which hold a sample, say of the one in `inputs`.

    Returns DONE, or the input that is too large.
    """
    bad = scale(forest, forest.row, forest.inputs)
    if bad < 0:
        _read(forest, forest.row, 1, scores)
        _note(forest, scores.readings[RELATIVE])
    return bad


@kernel
def learn_one(forest: C, scores: Scores) -> int:
    """Learn the sample in `inputs`, in place of the oldest one where the window is full.

    Its score is kept, by the trees before they learn it, whether it enters them or not. Returns as
    `renewal.learn_next` does, or WAITS.
    """
    passes = forest.passes()
    if not passes and must_wait(forest):
        return WAITS
    bad = find_too_large(forest, forest.inputs)
    if bad >= 0:
        return TOO_LARGE - bad
    score = _score_before(forest, scores)
    if passes:
        status = DONE
        forest.n_passed = forest.n_passed + 1
    else:
        status = learn_next(forest, forest.inputs, next_point(forest, forest.inputs))
    _keep_score(forest, score)
    return status


@kernel
def rebuild(forest: C, scaling: Float64s, n: int, scores: Scores) -> None:
    """Build the trees anew as `rebuilding.rebuild` does, and keep the last sample's score."""
    score = _score_before(forest, scores)
    rebuilding.rebuild(forest, scaling, n)
    _keep_score(forest, score)
