"""Adaptive trees over targets, ridge regressions, and the mixtures of both."""

import copy
import math
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ... import predictive
from ...checks import check_equal
from ...learners.drift import DriftWatch
from ...learners.regression import error_distribution, lags, mixing
from ...learners.regression.records import N_RIDGES, NAMES
from ...learners.regression.ridges import RidgeExperts
from ...limits import DONE, TOO_LARGE
from ...partitions.mondrian.tree_store import Partitions
from ...records import Float64s, Floats, Memory
from ..rebuilt import rebuilt_trees
from ..rebuilt.forest import LONG, RECENT
from ..rebuilt.splits import GAIN_SAMPLE
from ..targets.learning import LEAST_FENCED, fences_of, renewal, strided
from . import means
from .adaptive_target_reader import AdaptiveTargetReader
from .means import ERROR, N_GROUPS, N_READINGS, N_SECOND, RESIDUAL, TARGET
from .targets_forest import TargetsForest, next_renewal, read_targets

# Number of samples of the recent trees, which learn errors of the first mixture.
RECENT_SAMPLES = 300


class Purpose(NamedTuple):
    """A tree's target, whether points outside boxes add cuts, and whether the tree is recent."""

    learns: int
    extends: int
    is_recent: bool = False


# Purposes of trees. Larger forests add trees in this order.
PURPOSES = (
    Purpose(TARGET, 1),
    Purpose(RESIDUAL, 0),
    Purpose(ERROR, 0, True),
    Purpose(TARGET, 0),
    Purpose(RESIDUAL, 1),
    Purpose(ERROR, 0, True),
    Purpose(ERROR, 0),
    Purpose(TARGET, 1),
    Purpose(TARGET, 0),
    Purpose(ERROR, 0, True),
)

_GROUPS = (
    "trees, not extended",
    "trees, extended",
    "trees of residuals, not extended",
    "trees of residuals, extended",
    "trees of errors",
    "recent trees of errors",
)
_READINGS = (f"all, {means.STRENGTH:g}", *(f"late, {s:g}" for s in means.STRENGTHS_OF_LATE))
_OF_TREES = tuple(f"{group}: {reading}" for group in _GROUPS for reading in _READINGS)
_N_FIRST_TREES = means.N_FIRST_GROUPS * N_READINGS
# Names of the experts of the second mixture. The experts of the first mixture come first.
_OF_FIRST = (*NAMES, *_OF_TREES[:_N_FIRST_TREES], "nearest neighbours")
EXPERTS = (*_OF_FIRST, "first mixture", *_OF_TREES[_N_FIRST_TREES:])


def purposes_of(n: int) -> list[Purpose]:
    """Return the purposes of `n` trees: first trees of all samples, then recent trees."""
    purposes = [PURPOSES[i % len(PURPOSES)] for i in range(n)]
    return sorted(purposes, key=lambda purpose: purpose.is_recent)


class AdaptiveTargetTrees(rebuilt_trees.RebuiltTrees[TargetsForest]):
    """Trees over targets with several purposes, ridge regressions, and mixtures of both.

    Parameters
    ----------
    partitions
        Number, lifetime and other arguments of the trees. Initially, the last tree is the spare
        tree.
    n_candidates
        Number of cuts from which the best cut is chosen.
    max_samples
        Number of samples at which the window is halved.
    max_bytes
        Largest size of the trees in bytes. The window is halved earlier to stay below this size.
        None sets no limit.
    squared
        Whether predictions minimize squared errors instead of absolute errors.
    autoregressive
        Whether predictions use the latest targets and errors, besides the features.
    watch
        The model's errors and the drift detector. None disables drift detection.

    """

    _FOREST = TargetsForest
    _READER = AdaptiveTargetReader
    _RECENT_SAMPLES: ClassVar[int] = RECENT_SAMPLES
    _DERIVED: ClassVar[frozenset[str]] = rebuilt_trees.RebuiltTrees._DERIVED | {"out"}

    def __init__(
        self,
        partitions: Partitions,
        n_candidates: int,
        max_samples: int,
        max_bytes: int | None,
        squared: bool,
        autoregressive: bool,
        watch: DriftWatch | None = None,
    ) -> None:
        loss = mixing.SQUARED if squared else mixing.ABSOLUTE
        self.ridges = RidgeExperts()
        self.lags = lags.LaggedTargets() if autoregressive else None
        self.first_mixture = mixing.TargetMixture(means.N_FIRST, loss)
        n_lagged = lags.N_PREDICTIONS if autoregressive else 0
        self.mixture = mixing.TargetMixture(N_SECOND + n_lagged, loss)
        self.error_distribution = error_distribution.ErrorDistribution()
        n_long = self.n_long_of(partitions.n_trees - 1)
        super().__init__(partitions, n_long, n_candidates, max_samples, max_bytes, watch)

    def _check_kind(self) -> None:
        super()._check_kind()
        sizes = {"room": self.forest.input_capacity, "n_inputs": self.forest.n_inputs}
        check_equal(self.ridges, self.ridges.record, **sizes)
        n_lagged = 0 if self.lags is None else lags.N_PREDICTIONS
        check_equal(self, self.first_mixture.record, n_experts=means.N_FIRST)
        check_equal(self, self.mixture.record, n_experts=N_SECOND + n_lagged)

    @staticmethod
    def n_long_of(n_trees: int) -> int:
        """Return the number of trees of all samples among `n_trees` trees."""
        return sum(not purpose.is_recent for purpose in purposes_of(n_trees))

    def _set_up(self) -> None:
        super()._set_up()
        fences = self.forest.fences
        fences.low, fences.high = -math.inf, math.inf
        for tree, purpose in zip(self.trees, purposes_of(len(self.trees) - 1), strict=False):
            tree.learns, tree.extends = purpose.learns, purpose.extends

    def _finish(self) -> None:
        super()._finish()
        forest, own = self.forest, self.shared.own
        own("accepted.targets", np.zeros(means.N_TARGETS))
        own("leaf.points", np.zeros(GAIN_SAMPLE, dtype=np.int64))
        self.shared.own_records("leaf.sides", self.n_candidates)
        capacity, predicted = self.inputs.shape[1], self.first_mixture.predicted[:N_RIDGES]
        self.ridges.reserve(capacity, self.n_inputs, predicted, self.category_indices)
        forest.ridges = self.ridges.record
        forest.error_distribution = self.error_distribution.record
        forest.first, forest.second = self.first_mixture.record, self.mixture.record
        own("accepted.remembered", np.zeros(len(self.mixture.to_recall) + 2))
        if self.lags is not None:
            self.lags.show(self.mixture.predicted[N_SECOND:])
            forest.lags = self.lags.record
        self._refresh_neighbors()

    def _own_prediction(self, shared: Memory[TargetsForest]) -> None:
        super()._own_prediction(shared)
        shared.own("groups.readings", np.zeros((N_GROUPS + 1) * N_READINGS))
        shared.own("groups.sizes", np.zeros(N_GROUPS, dtype=np.int64))

    def _records_for_thread(self) -> list[Memory[Any]]:
        first, second = self.first_mixture.reader(), self.mixture.reader()
        ridges, neighbors = (
            self.ridges.reader(first.arrays["predicted"][:N_RIDGES]),
            self.neighbors.reader(),
        )
        shared, *rest = super()._records_for_thread()
        forest = shared[0]
        forest.first, forest.second, forest.ridges = first[0], second[0], ridges[0]
        forest.neighbors = neighbors[0]
        rest += [first, second, ridges, neighbors]
        if self.lags is not None:
            latest = self.lags.reader(second.arrays["predicted"][N_SECOND:])
            forest.lags = latest[0]
            rest.append(latest)
        return [shared, *rest]

    def add_inputs(
        self, names: Sequence[Hashable], first_values: Floats, gaps: Floats | float = math.nan
    ) -> None:
        """Add features (see `TreeStore.add_inputs`)."""
        # Change a copy, since after an interruption the old regressions are restored.
        self.ridges = copy.deepcopy(self.ridges)
        super().add_inputs(names, first_values, gaps)
        self.ridges.begin_at_zero(self.n_inputs - len(names) + np.flatnonzero(np.isfinite(gaps)))

    # Learning.

    def learn(
        self,
        y: float,
        weight: float = 1.0,
        is_new: bool = False,
        n_latest: int = 0,
        remembered: bytes | None = None,
    ) -> int:
        """Learn the sample in `inputs` with a target.

        If the target is delayed, `remembered` is the result of `to_remember` after the sample's
        prediction. The other arguments are the arguments of `RebuiltTrees.learn`, where `n_latest`
        is named `n_to_keep`.
        """
        self.forest.accepted.is_late = int(remembered is not None)
        if remembered is not None:
            self.shared.arrays["accepted.remembered"][:] = np.frombuffer(remembered)
        return super().learn(y, weight, is_new, n_latest)

    def to_remember(self) -> bytes:
        """Return values of the last prediction, for the argument `remembered` of `learn`."""
        rest = self.forest.prediction.point, self.ridges.record.size
        return np.append(self.mixture.to_recall, rest).tobytes()

    def _write_plan_from(self) -> None:
        super()._write_plan_from()
        forest = self.forest
        forest.pending.plan_from = min(forest.pending.plan_from, next_renewal(self.n_samples))

    def _plan_kind(self, n: int) -> None:
        if n >= LEAST_FENCED and renewal(n) > n - 4:
            n_read, step = strided(self.n_points)
            targets = np.empty(n_read)
            read_targets(self.forest, n_read, step, Float64s.of(targets))
            fences = self.forest.fences
            fences.low, fences.high = fences_of(targets)
        self._write_plan_from()

    def _begin(self, t: int) -> None:
        schedule, tree = self.schedule, self.trees[t]
        if t == schedule.slot and not schedule.at_once:
            # A new tree of all samples gets the purpose of the oldest tree, because the new tree
            # replaces the oldest tree.
            before = self.trees[schedule.oldest(LONG)]
            is_recent = schedule.role == RECENT
            tree.learns = ERROR if is_recent else before.learns
            tree.extends = 0 if is_recent else before.extends
        super()._begin(t)

    def _similar(self, t: int) -> Sequence[int]:
        trees = sorted(self.schedule.of_role(LONG) + self.schedule.of_role(RECENT))
        return [u for u in trees if self.trees[u].learns == self.trees[t].learns]

    # Prediction.

    def predict_inputs(self) -> int:
        """Predict the sample in `inputs`.

        Returns DONE, or the index of an input that is too large.
        """
        status = means.predict.of(self._FOREST)(self.forest)
        return TOO_LARGE - status if status <= TOO_LARGE else DONE

    def predict_rows(self, inputs: Floats, n_jobs: int) -> Floats:
        """Predict rows of checked inputs, and return an array of shape (n, N_SAID).

        The first column has the point predictions. Each row can be passed to `distribution_of`.
        """
        predict = means.predict_rows.of(self._FOREST)
        return self._predict_rows_by(predict, inputs, means.N_SAID, n_jobs)

    def distribution(self) -> predictive.PredictiveDistribution:
        """Return the predictive distribution of the last predicted sample's target."""
        said = self.forest.prediction
        return self.distribution_of((said.point, said.spread, self.ridges.record.size))

    def mean_scale(self) -> float:
        """Return the mean scale of the components of `distribution`."""
        said = self.forest.prediction
        return self.error_distribution.mean_scale(said.point, said.spread, self.ridges.record.size)

    def distribution_of(self, said: Sequence[float]) -> predictive.PredictiveDistribution:
        """Return the predictive distribution of a target, given a row of `predict_rows`."""
        point, spread, size = map(float, said)
        return self.error_distribution.distribution(point, spread, size, self.n_begun)

    # Inspection.

    @property
    def weights(self) -> dict[str, float]:
        """The weights of all experts in the second mixture."""
        names = EXPERTS if self.lags is None else EXPERTS + lags.NAMES
        return dict(zip(names, self.mixture.weights.tolist(), strict=True))
