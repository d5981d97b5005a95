"""Trees over real targets: hierarchical Gaussian posteriors or plain means (see `messages`)."""

import math
from typing import Any, ClassVar

import numpy as np

from ...limits import DONE
from ...partitions.mondrian import tree_store, trees
from ...partitions.ranges import robust_ranges
from ...predictive import PredictiveDistribution
from ...records import Array, Float32s, Float64s, Floats, Memory
from . import components, learning, messages, scale_mixture
from .components import MomentsPrediction
from .messages import TargetForest
from .target_reader import TargetReader

# At powers of 2 up to this number of samples, hyperparameters are adapted to the number of samples.
LAST_CHANGE = 1024

# Factors of gamma2 and of the noise variance in the formulas of Lakshminarayanan, Roy and Teh
# (2016). Errors and log likelihoods on the streams of `benchmarks regressor` determined the
# factors.
GAMMA2_FACTOR = 2.5
NOISE_FACTOR = 3.0

# A side of the root's box is clipped to this many robust ranges (see `partitions.ranges`), since
# the box may contain outliers. The side of a scaled feature is clipped to this many widths of the
# feature.
MOST_WIDTHS = 1.5

# Number of trees whose messages one kernel call updates.
UPDATED_TREES = 32


class TargetTrees(trees.MondrianTrees[TargetForest]):
    """Mondrian trees with a posterior of the targets' means.

    Parameters
    ----------
    partitions
        Number, lifetime and other arguments of the trees (`tree_store.Partitions`).
    plain_means
        Whether nodes have plain means instead of the Gaussian posterior.
    min_samples_split
        Least number of samples of a leaf that is cut.
    gamma1, gamma2, noise_variance
        Hyperparameters of the posterior. None means that the hyperparameter is chosen from the
        data.
    learns_tails
        Whether the distribution of targets is learned (see `scale_mixture`). If not, the
        distribution is normal.

    """

    _FOREST = TargetForest
    _READER = TargetReader
    _RENEWS: ClassVar[bool] = True
    # In a shard of a forest: used targets (`is_used`) and their densities under the shard's trees.
    # The distribution of targets is learned from the lists of all shards.
    told: list[Floats] | None = None
    _DERIVED: ClassVar[frozenset[str]] = trees.MondrianTrees._DERIVED | {
        *("told", "out", "moments", "_moments", "densities", "tail_mixture"),
        *("block", "block_densities", "_learn_one"),
    }

    def __init__(
        self,
        partitions: tree_store.Partitions,
        plain_means: bool = False,
        min_samples_split: int = 2,
        gamma1: float | None = None,
        gamma2: float | None = None,
        noise_variance: float | None = None,
        learns_tails: bool = False,
    ) -> None:
        self.plain_means = plain_means
        self.min_samples_split = min_samples_split
        self.gamma1, self.gamma2, self.noise_variance = gamma1, gamma2, noise_variance
        # The weights of the scales, then the scores of the distributions of the scale.
        self.tails: Floats | None = None
        if learns_tails and not plain_means:
            self.tails = scale_mixture.new_scale_mixture()
        super().__init__(partitions)

    def _set_up(self) -> None:
        forest = self.forest
        forest.min_split = self.min_samples_split
        forest.plain_means = int(self.plain_means)
        forest.gamma1 = self.gamma1 or 0.0
        forest.noise_variance = self.noise_variance or 0.0
        forest.low_fence, forest.high_fence = -math.inf, math.inf
        words = self.trees.words
        words["gamma2"], words["noise"] = self._hyperparameters(0.0)

    def _finish(self) -> None:
        super()._finish()
        self._learn_one = learning.learn_in_window if self.has_window else learning.learn_one
        self.out = np.empty((1, 2))
        self.moments = Memory(MomentsPrediction)
        self.moments.own("sums", self.out)
        # A direct reference is stored, because it is faster for each sample than `moments[0]`.
        self._moments = self.moments[0]
        # The rows that are being learned.
        self.block: Memory[learning.Block] | None = None
        self.block_densities: Memory[scale_mixture.TargetDensity] | None = None
        self._renew_next()
        if math.isnan(self.forest.low_fence):
            self.forest.low_fence, self.forest.high_fence = learning.find_fences(self.forest)
        self.forest.next_horizon = self.forest.horizon
        self.densities = Memory(scale_mixture.TargetDensity, self.n_trees)
        self.forest.densities = self.densities.array
        self.tail_mixture: Any = None
        if self.tails is not None:
            self.tail_mixture = Array.over(scale_mixture.ScaleMixture, self.tails)
            self.forest.scale_mixture = self.tail_mixture[0]

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        if self.tails is not None:
            state["tails"] = self.tails.copy()
        return state

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = super()._shapes()
        if self.tails is not None:
            shapes["tails"] = (scale_mixture.N_SCALES + scale_mixture.N_LOGNORMALS,)
        return shapes

    # Learning.

    def learn(self, y: float, weight: float) -> int:
        """Learn the sample in `inputs` with a target.

        Returns DONE, or the index of an input that is too large. If an input is too large, nothing
        changes.
        """
        learn_one = self._learn_one.of(TargetForest)
        status = learn_one(self.forest, y, weight)
        if status == DONE:
            return DONE
        return self.learn_rest(
            status,
            lambda: learn_one(self.forest, y, weight),
            lambda p: learning.put_target(self.forest, y, weight, p),
        )

    def open(self) -> None:
        """Open the trees to kernel calls for one sample, if any sample was learned."""
        if self.n_samples > 0:
            super().open()

    def _rebuild(self, n: int, scaling: Float64s) -> None:
        learning.rebuild(self.forest, scaling, n, self._following_fit(n))

    def _complete(self) -> None:
        if self.block is not None and self.forest.n_walking > 0:
            # Extend one tree at a time, since interrupted jobs may have divided the trees into
            # other groups.
            self._extend(0, self.n_trees, 1)
            self._count_rows()
        self.block = None
        self.block_densities = None
        super()._complete()
        self._renew()
        self._built()

    def _forgotten(self) -> None:
        super()._forgotten()
        self._built()

    def _built(self) -> None:
        n = self.n_trees
        for first in range(0, n, UPDATED_TREES):
            messages.update(self.forest, first, min(first + UPDATED_TREES, n))

    def learn_rows(
        self,
        inputs: Floats,
        targets: Floats,
        weights: Floats,
        n_jobs: int,
        horizons: list[float] | None = None,
    ) -> None:
        """Learn rows of checked inputs, shape (n, inputs), with targets, after the warm-up.

        `horizons` has the time up to which trees are read after each row, or is None if this time
        does not change.
        """

        def put(start: int, n: int, first: int) -> None:
            y, w = (Float64s.of(array[start : start + n]) for array in (targets, weights))
            learning.put_targets(self.forest, y, w, n, first)
            n_used = scale_mixture.count_used(self.n_samples, n)
            densities = Memory(scale_mixture.TargetDensity, n_used * self.n_trees)
            block = Memory(learning.Block)
            block[0].start, block[0].end, block[0].n = first, first + n, self.n_samples
            block[0].densities = densities.array
            block.own("done", np.full(self.n_trees, first))
            # The densities are assigned first and freed last, because the block refers to their
            # memory.
            self.block_densities = densities
            self.block = block
            if horizons is not None:
                self.forest.next_horizon = horizons[start + n - 1]

        def learn(i: int) -> None:
            if horizons is not None:
                self.forest.next_horizon = horizons[i]
            self.learn(float(targets[i]), float(weights[i]))

        self._learn_rows(inputs, put, learn, n_jobs)

    def _block(self, n_jobs: int) -> int:
        # A block ends before fences and hyperparameters are renewed, since later rows need the new
        # values.
        return min(super()._block(n_jobs), int(self.forest.renewed_at) - self.n_samples)

    def _extend(self, first: int, last: int, lanes: int) -> None:
        block = self.block
        if block is None or self.tail_mixture is None:
            super()._extend(first, last, lanes)
            return
        extend = learning.extend_with_densities
        while (needy := extend(self.forest, first, last, lanes, block[0])) >= 0:
            self._reserve_rows(needy, self.trees[needy].rows_needed)

    def _count_rows(self) -> None:
        block, densities = self.block, self.block_densities
        assert block is not None and densities is not None
        if self.told is not None and self.tail_mixture is not None:
            self.told.append(scale_mixture.told_by(densities, self.n_trees))
        learning.count_rows(self.forest, block[0])

    @property
    def splits_at(self) -> int:
        """Number of samples from which shards of the trees may learn separately."""
        return super().splits_at if self.plain_means else LAST_CHANGE

    def _learned_rows(self, n_jobs: int) -> None:
        self.block = None
        self.block_densities = None
        self._renew()
        self._share(lambda a, b: messages.update(self.forest, a, b), self.n_trees, n_jobs)

    # Hyperparameters.

    def _extent(self, scaling: Floats) -> float:
        """Return the sum of the sides of the root's box, clipped because of outliers.

        `scaling` has the offsets and factors of a tree's inputs.
        """
        n, step = learning.strided(self.n_points)
        n_dims = int(self.forest.n_dims)
        values = np.empty((n + 2, n_dims), dtype=np.float32)
        learning.read_values(self.forest, n, step, Float32s.of(values.ravel()))
        rows = values.astype(np.float64)
        low, high = robust_ranges(rows)
        sides = np.minimum(rows[-1] - rows[-2], MOST_WIDTHS * (high - low))
        if not self._has_columns:
            sides = sides * (scaling[1, :n_dims] / self.scaling_of(0)[1])
        if self.scale and self.directions is None:
            sides = np.minimum(sides, MOST_WIDTHS)
        extent = float(np.nansum(sides))
        current = self.scaling_of(0)
        if self._has_columns and (current != scaling[:, : self.n_inputs]).any():
            extent *= self._growth(current, scaling)
        return extent

    def _growth(self, old: Floats, new: Floats) -> float:
        """Return the ratio of `_extent` under the scaling `new` to `_extent` under `old`.

        The ratio depends only on stored inputs, so all shards of a forest compute the same ratio.
        The side of a direction is the weighted sum of its inputs' sides. Random directions weigh
        all inputs equally. The side of a category is 1.
        """
        n, step = learning.strided(self.n_points)
        rows = self._inputs_at(step * np.arange(n), n)
        low, high = robust_ranges(rows)
        ends = np.fmax.reduce(rows, axis=0) - np.fmin.reduce(rows, axis=0)
        sides = np.nan_to_num(np.minimum(ends, MOST_WIDTHS * (high - low)))
        weights = np.ones(self.n_inputs)
        if self.directions is not None and self.directions.given is not None:
            weights = np.abs(self.directions.of_tree(0)).sum(axis=0)
        rest = float(len(self.category_indices))
        before, after = (
            rest + float((weights * np.minimum(sides * factors, MOST_WIDTHS)).sum())
            for factors in (old[1, : self.n_inputs], new[1, : self.n_inputs])
        )
        return after / before if before > 0.0 else 1.0

    def _hyperparameters(self, extent: float) -> tuple[float, float]:
        """Return gamma2, and the noise variance in units of gamma1."""
        n = min(max(self._n_held(), 2), LAST_CHANGE)
        gamma2 = self.gamma2
        if gamma2 is None:
            gamma2 = GAMMA2_FACTOR * (extent or 1.0) / (2.0 * math.log2(n))
        if self.noise_variance is None:
            return gamma2, NOISE_FACTOR / min(2.0 * n, 2000.0)
        gamma1 = self.gamma1
        if gamma1 is None:
            # The targets' variance minus the noise variance is the variance of a leaf's mean.
            weight, squares = float(self.forest.y_weight), float(self.forest.y_squares)
            rest = squares / weight - self.noise_variance if weight > 0.0 else 0.0
            lifetimes = self.trees.words["lifetime"][: self.n_trees]
            increase = float(np.mean(0.5 * np.tanh(0.5 * gamma2 * lifetimes)))
            gamma1 = max(rest / max(increase, 1e-9), 1e-3 * self.noise_variance)
        return gamma2, self.noise_variance / gamma1

    def _drawn_gamma2(self, scaling: Floats, gamma2: float) -> float:
        """Return gamma2 of trees that are redrawn under a scaling, if other trees have `gamma2`."""
        if self.renews and self._has_columns and self.gamma2 is None:
            return gamma2 * self._growth(self.current_scaling, scaling)
        return self._hyperparameters(self._extent(scaling))[0]

    def _begin_renewal(self, scaling: Floats) -> None:
        # `drawn_gamma2` can be set first, because only redrawn trees use it.
        self.forest.drawn_gamma2 = self._drawn_gamma2(scaling, float(self.trees[0].gamma2))
        super()._begin_renewal(scaling)

    def _renew_next(self) -> None:
        """Set the number of samples at the next renewal of fences and hyperparameters."""
        n = self.n_samples
        following = learning.renewal(n) + max(1 << n.bit_length() >> 3, 1)
        if self.has_window:
            # With a window, fences are renewed at least four times while all samples are replaced.
            step = max(int(self.forest.window) // 4, 1)
            following = min(following, n // step * step + step)
        self.forest.renewed_at = following

    def _renew(self) -> None:
        """Renew fences and hyperparameters if a renewal is due.

        A renewal of hyperparameters is due if the number of samples is a power of 2 up to
        `LAST_CHANGE`. Plain means have no hyperparameters. Afterwards the caller must update
        messages.
        """
        if self.n_samples < self.forest.renewed_at:
            return
        n, forest = self.n_samples, self.forest
        # A full forest does not store the latest samples, so fences cannot be renewed.
        if self.n_points == self._n_held():
            learning.put_fences(forest, *learning.find_fences(forest))
        if n & (n - 1) == 0 and n <= LAST_CHANGE and not self.plain_means:
            gamma2, noise = self._hyperparameters(self._extent(self.current_scaling))
            drawn_gamma2 = self._drawn_gamma2(self.next_scaling, gamma2)
            learning.put_hyperparameters(forest, gamma2, noise, drawn_gamma2)
        self._renew_next()

    @property
    def hyperparameters(self) -> dict[str, float]:
        """The first tree's hyperparameters, by the names of the regressor's parameters.

        Variances are in squared units of the targets.
        """
        scale, first = components.scale_of_first(self.forest), self.trees[0]
        rate, noise = float(first.gamma2), scale * float(first.noise)
        return {"prior_variance": 0.5 * scale, "prior_rate": rate, "noise_variance": noise}

    @property
    def tail_weights(self) -> dict[float, float]:
        """The weights of the scales of the targets' distribution."""
        if self.tails is None:
            return {1.0: 1.0}
        weights = self.tails[: scale_mixture.N_SCALES].tolist()
        return dict(zip(scale_mixture.SCALES, weights, strict=True))

    @property
    def horizon(self) -> float:
        """Time up to which trees are read, if this time is before the trees' lifetime."""
        return float(self.forest.horizon)

    # Prediction.

    def predict(self) -> int:
        """Write the prediction for `inputs` to `out`, and return the result of `predict_one`."""
        return components.predict_one.of(TargetForest)(self.forest, self._moments)

    def predict_mixture(self) -> tuple[int, PredictiveDistribution | None]:
        """Return the status of `predict`, and the mixture, or None if an input is too large."""
        bad, mixture = components.components_of(self.forest)
        if bad >= 0:
            return bad, None
        weights, means, variances = mixture.T.copy()
        weights /= weights.sum()
        return bad, PredictiveDistribution(weights, means, np.sqrt(variances), None, self.n_begun)

    def predict_rows(self, inputs: Floats, n_jobs: int) -> Floats:
        """Predict rows of checked inputs, and return means and variances, shape (n, 2)."""
        kernel = components.predict_many
        return self._predict_rows(kernel, MomentsPrediction, "sums", inputs, 2, n_jobs)
