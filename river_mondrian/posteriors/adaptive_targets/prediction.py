"""Predicting a target: ridges and trees, the first mixture, trees of its errors, the second."""

from __future__ import annotations

from ...compiling.kernels import batch_kernel, inlined, kernel, separate
from ...learners.regression import lags, mixing
from ...learners.regression import ridges as regressions
from ...learners.regression.records import N_RIDGES
from ...limits import DONE, TOO_LARGE, WAITS
from ...partitions.mondrian.inputs import scale
from ...records import Float64s, Packed
from ..rebuilt.paths import is_predicted, note_predicted, walk_all
from .readings import ERROR_GROUP, N_GROUPS, N_READINGS, read_trees
from .records import RESIDUAL, RESIDUAL_OF, AdaptiveTargetForest, T

# Groups of the first stage, which learn targets and residuals, and experts of both mixtures.
N_FIRST_GROUPS = ERROR_GROUP
N_FIRST = N_RIDGES + N_FIRST_GROUPS * N_READINGS
N_SECOND_GROUPS = N_GROUPS - N_FIRST_GROUPS
N_SECOND = N_FIRST + 1 + N_SECOND_GROUPS * N_READINGS

# What is said of each of many samples.
N_SAID = 3


@inlined
def _take(
    out: Float64s, place: int, readings: Float64s, group: int, size: int, base: float, other: float
) -> None:
    """Let a group of trees be experts: what they say beyond a base, or another where none are."""
    for k in range(N_READINGS):
        said = base + readings[group * N_READINGS + k]
        out[place + k] = said if size > 0 else other


@separate
def predict_anew(forest: AdaptiveTargetForest, inputs: Float64s) -> int:
    """Predict a sample of these inputs; returns DONE, or the first that is too large."""
    bad = scale(forest, forest.row, inputs)
    if bad >= 0:
        return bad
    walk_all(forest)
    read_trees(forest)
    regressions.predict(forest.ridges, inputs)
    readings, sizes = forest.readings, forest.group_sizes
    # The ridges have written theirs.
    first, second = forest.first.predicted, forest.second.predicted
    regressed = first[RESIDUAL_OF]
    for g in range(N_FIRST_GROUPS):
        base = regressed if g >= 2 * RESIDUAL else 0.0
        _take(first, N_RIDGES + g * N_READINGS, readings, g, sizes[g], base, regressed)
    point = mixing.predict(forest.first)
    forest.first_point = point
    for i in range(N_FIRST):
        second[i] = first[i]
    second[N_FIRST] = point
    for g in range(N_FIRST_GROUPS, N_GROUPS):
        place = N_FIRST + 1 + (g - N_FIRST_GROUPS) * N_READINGS
        _take(second, place, readings, g, sizes[g], point, point)
    if forest.lags:
        lags.predict(forest.lags, point)
    forest.point = mixing.predict(forest.second)
    forest.spread = forest.second.spread
    note_predicted(forest, inputs)
    return DONE


@inlined
def ensure_predicted(forest: AdaptiveTargetForest, inputs: Float64s) -> int:
    """Predict a sample where that has not been done; returns as `predict_anew` does."""
    if is_predicted(forest, inputs):
        return DONE
    return predict_anew(forest, inputs)


@kernel
def predict(forest: T) -> int:
    """Predict the sample in the forest's `inputs`; returns DONE, or `TOO_LARGE - i`."""
    bad = ensure_predicted(forest, forest.inputs)
    return TOO_LARGE - bad if bad >= 0 else DONE


@kernel
def predict_one(forest: T, version: int, inputs: Packed) -> int:
    """Predict a sample by trees of a version; returns as `predict` does, or WAITS.

    The forest's `inputs` stay, since another thread may be about to learn them.
    """
    if version != forest.version:
        return WAITS
    bad = ensure_predicted(forest, Float64s(inputs, 0, forest.n_inputs))
    return TOO_LARGE - bad if bad >= 0 else DONE


@batch_kernel
def predict_rows(forest: T, rows: Float64s, n: int, out: Float64s) -> None:
    """Predict `n` rows of inputs, of each N_SAID numbers: the point, and what its law is made of.

    What a prediction is written to is the caller's own (see `RebuiltTrees`), since other threads
    predict meanwhile.
    """
    capacity, ridges = forest.input_capacity, forest.ridges
    for i in range(n):
        predict_anew(forest, rows.part(capacity * i, capacity))
        said = out.part(N_SAID * i, N_SAID)
        said[0], said[1], said[2] = forest.point, forest.spread, ridges.size
