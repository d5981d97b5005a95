"""The Mondrian forest regressor."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .. import frames, model
from ..arguments import Directions, Missing, check_takes, is_distribution, is_real, lifetimes_after
from ..inputs import Floats, check_target, check_weight
from ..posteriors.targets import learning
from ..posteriors.targets.target_reader import TargetView
from ..posteriors.targets.target_trees import TargetTrees
from ..predictive import unknown
from . import forest, forgetting


@dataclass(eq=False, repr=False)
class MondrianForestRegressor(forest.TargetForest, forgetting.ForgettingForest):
    """Mondrian forest regressor.

    The forest is an ensemble of Mondrian trees, whose cuts are random and ignore targets. The trees
    are extended online like the trees of `MondrianForestClassifier`. With
    `posterior="gaussian"`[^1], each node has a mean that is normally distributed around its
    parent's mean. Each target is normally distributed around its leaf's mean. The posterior of all
    means is exact after every sample. A prediction averages over all insertion points of the
    sample. Far from the data, the variance of predictions therefore grows towards the prior
    variance of a target. By default, the forest predicts a mixture of its trees' distributions with
    learned tails (see below). With `posterior="mean"`[^2], a tree predicts the mean of the targets
    in the sample's cell.

    Features need no scaling, may be categories and may appear at any time. Levels of categories and
    missing values are treated as in `MondrianForestClassifier`. Unless `prior_variance` or
    `noise_variance` is set, targets need no scaling either: for targets in cents, predictions are
    100 times the predictions for targets in euros.

    A tree's distribution of a target is correct only if the noise is normal and the tree fits the
    data. With `tails="learned"`, the default, the forest predicts a scale mixture of normal
    distributions instead. The weights of the mixture are learned from the predicted densities of
    past targets. Intervals thus adapt to noise that has heavy tails, depends on the features, or
    drifts.

    Parameters
    ----------
    n_estimators
        Number of trees.
    lifetime
        Time at which splitting stops, as for `MondrianForestClassifier`. A frozen distribution of
        `scipy.stats` is sampled once for each tree. With `posterior="mean"`, the lifetime may be a
        non-decreasing function of the number of samples n = 1, 2, ... Then the lifetime does not
        limit the splits, but predictions ignore cuts after the lifetime. Trees need no rebuild when
        the lifetime grows, and memory and time do not depend on the lifetime.
    posterior
        Prediction of a tree: "gaussian" or "mean", as described above.
    prior_variance
        Prior variance of a leaf's mean with an infinite lifetime, in squared units of the target.
        With None, the prior variance of a target is V, the running variance of the targets that are
        not set aside. With an infinite lifetime and `noise_variance=None`, the prior variance of a
        leaf's mean is then V K / (K + 2). The notes define K, and explain which targets are set
        aside. With a fixed `noise_variance`, the prior variance of a leaf's mean changes only when
        n changes (see the notes), and is at least 5e-4 times `noise_variance`.
    prior_rate
        Rate at which a node's mean may deviate from its parent's mean, per unit of time. None means
        1.25 R / log2 n, for n samples. R is the sum of the ranges that are cut (with `scale=True`,
        about 1 for each feature). Each range counts as at most 1.5 times its robust range, which
        the notes define.
    noise_variance
        Variance of a target around its leaf's mean, in squared units of the target. None means 2
        prior_variance / K (see the notes).
    tails
        Distribution of a target around the trees' predictions: "learned" or "normal".
    min_samples_split
        Smallest number of samples that a node needs to be split. A smaller node is paused. Once the
        node is large enough, its cuts are sampled from its stored samples. The tree is thus exactly
        the full tree without the splits of smaller nodes.
    window
        Number of the latest samples that the trees store. Once the window is full, each new sample
        replaces the oldest sample in every tree. Given the widths and the hyperparameters, and
        without missing values, the forest is then distributed like a forest that has learned only
        the window. Widths are computed from the window, too. None stores all samples, unless
        `max_nodes` is reached. A window needs `max_nodes=None`.
    max_nodes
        Largest number of nodes of a tree, leaves included. A tree that has no room for another
        split stops splitting, but its boxes and means are still updated. Once all trees have
        stopped and 256 samples have been learned, samples are no longer stored. None sets no limit.
    directions
        Directions in which to cut, as for `MondrianForestClassifier`.
    scale
        Whether to divide each feature by its width, as `MondrianForestClassifier` does.
    ranges
        Known ranges: a mapping from feature to its lowest and highest value, (low, high). These
        features are divided by high - low, even if values are outside the range.
    rescale
        Whether to check widths again, from 256 samples on, each time the number of samples has
        grown by 50 % of the stored samples. The trees are redrawn if a feature's width has changed
        by a factor above 2 and its interquartile range, if known, by a factor above 1.7. Redrawing
        is spread over `learn_one` calls, one tree after the other. The tree that is being drawn
        takes the memory of one more tree. Widths do not change with `scale=False`, or once samples
        are no longer stored (`max_nodes`).
    missing
        Meaning of an absent key, None and NaN: "unknown" or "zero". Use "zero" for word counts and
        one-hot encodings. With "zero", a new feature counts as 0 in earlier samples. An absent
        category is then a separate level, which all trees map to 0. A mapping, such as `{"word_":
        "zero"}`, sets the meaning by a feature's name or prefix; the longest matching key applies.
        Missing values of other features are unknown.
    n_jobs
        Number of threads of `learn_many` and `predict_many`; -1 for one thread per processor that
        the process may use. Results do not depend on `n_jobs`.
    seed
        Random seed for reproducibility.

    Notes
    -----
    K is min(2000, 2 n) / 3, for n samples. In the formulas of K and `prior_rate`, n and R are
    updated each time the number of samples has doubled, up to 1,024 samples. R is also updated when
    trees are redrawn with new widths. V is updated with each target that is not set aside.
    Hyperparameters that the user sets do not change. Robust ranges do not change once a forest has
    stopped storing samples.

    The robust range of numbers is the range of the numbers within 3 interquartile ranges of the
    quartiles (Tukey's outer fences). If most numbers are equal, the quartiles of the other numbers
    are used, and the range includes the most frequent number. From 16 samples on, and as long as
    the forest stores samples, a target farther than 10 robust ranges from the robust range of the
    stored targets is set aside. The sample extends the trees, but the target has no weight in
    means, in V or in the learned tails. The robust range is computed again four times per doubling
    of the number of samples, and with a `window` also each time a quarter of the window has been
    replaced. It is computed from at most 1,024 stored targets. While at most 4,096 samples are
    stored, each new range is applied to all stored targets. Otherwise, a new range is applied to
    new targets only. The model follows a shift of the targets' level at the first new range for
    which at least a quarter of the stored targets have the new level.

    Learned tails have scales s that are powers of 2 from 1/16 to 8. For s > 1, a variance is
    multiplied by s^2. If s is below 1, the excess of the precision (1 / variance) over the
    precision of all targets is divided by s^2. At these scales, predictions far from the data thus
    keep the targets' variance. The weights of the scales are a posterior mean over 35 lognormal
    distributions of s, given the past targets. The likelihood uses about one in eight of the first
    512 targets, and one in sixteen of the later targets. At each of these targets, the past log
    likelihood is multiplied by 63/64. Learned tails do not change the means of predictions. With
    learned tails, `learn_one` takes about a tenth longer.

    With `posterior="mean"`, a sample that branches off above a node is in a new cell without
    targets. Then the prediction is the mean of the node. A tree's prediction averages over the
    nodes, weighted by the probabilities of branching off.

    While all targets are equal, the variance of predictions is 0, unless `prior_variance` or
    `noise_variance` is set.

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> from river_mondrian import MondrianForestRegressor

    >>> model = MondrianForestRegressor(seed=42)
    >>> dataset = datasets.TrumpApproval()
    >>> metric = evaluate.progressive_val_score(dataset, model, metrics.MAE())
    >>> metric.get() < 0.4
    True

    >>> x, y = next(iter(dataset))
    >>> prediction = model.predict_one(x, with_dist=True)
    >>> abs(prediction.mean - y) < 3 * prediction.var**0.5
    True
    >>> low, high = prediction.interval(0.9)
    >>> low < y < high
    True

    References
    ----------
    [^1]: Lakshminarayanan, B., Roy, D. M. and Teh, Y. W. (2016). Mondrian Forests for Large-Scale
    Regression when Uncertainty Matters. Artificial Intelligence and Statistics 19. Section 3.
    [^2]: O'Reilly, E. and Tran, N. M. (2022). Stochastic Geometry to Generalize the Mondrian
    Process. SIAM Journal on Mathematics of Data Science 4. Equations 17 and 18, Theorem 5.2.

    """

    n_estimators: int = 10
    lifetime: Any = math.inf
    posterior: str = "gaussian"
    prior_variance: float | None = None
    prior_rate: float | None = None
    noise_variance: float | None = None
    tails: str = "learned"
    min_samples_split: int = 2
    window: int | None = None
    max_nodes: int | None = None
    directions: Directions = None
    scale: bool = True
    ranges: Mapping[Any, tuple[float, float]] | None = None
    rescale: bool = True
    missing: Missing = "unknown"
    n_jobs: int = 1
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.posterior not in ("gaussian", "mean"):
            raise ValueError(f'posterior must be "gaussian" or "mean", got {self.posterior!r}')
        if self.tails not in ("learned", "normal"):
            raise ValueError(f'tails must be "learned" or "normal", got {self.tails!r}')
        if callable(self.lifetime) and self.posterior != "mean":
            raise ValueError('a lifetime that depends on n needs posterior="mean"')
        if callable(self.lifetime) and not is_distribution(self.lifetime):
            check_takes("lifetime", self.lifetime, "n")
        for name in ("prior_variance", "prior_rate", "noise_variance"):
            value = getattr(self, name)
            if value is not None and not (is_real(value) and 1e-100 <= value <= 1e100):
                raise ValueError(f"{name} must be None or from 1e-100 to 1e100, got {value!r}")
        super().__post_init__()

    _GROWS = True
    _N_BEFORE = 2
    _NUMBERS = ("mean", "variance")

    _REHEARSED: ClassVar[Mapping[str, Any]] = {"n_estimators": 2, "lifetime": 8.0}

    def _make_trees(self) -> TargetTrees:
        partitions, is_mean = self._partitions(self.n_estimators), self.posterior == "mean"
        variance = None if self.prior_variance is None else 2.0 * self.prior_variance
        arguments = variance, self.prior_rate, self.noise_variance, self.tails == "learned"
        return TargetTrees(partitions, is_mean, self.min_samples_split, *arguments)

    @property
    @model.locked
    def hyperparameters(self) -> dict[str, float]:
        """Current values of prior_variance, prior_rate and noise_variance.

        The values are those of the first tree. Other trees may have other values if lifetimes are
        drawn from a distribution, or while trees are redrawn. The mapping is empty before the first
        sample, and with `posterior="mean"`.
        """
        if self._trees is None or self.posterior == "mean":
            return {}
        return self._trees.hyperparameters

    @property
    @model.locked
    def tail_weights(self) -> dict[float, float]:
        """Weight of each scale in predictions; only scale 1 if `tails` is "normal".

        The mapping is empty before the first sample, and with `posterior="mean"`.
        """
        if self._trees is None or self.posterior == "mean":
            return {}
        return self._trees.tail_weights

    def _horizons(self, n_new: int) -> list[float] | None:
        if not callable(self.lifetime):
            return None
        trees, n = self._trees, self.n_samples
        last = 0.0 if trees is None or n == 0 else trees.horizon
        return lifetimes_after(self.lifetime, n, n_new, last)

    # Learning one sample.

    def learn_one(self, x: Mapping[Any, Any], y: float, w: float = 1.0) -> None:
        """Extend every tree by a sample.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category: a string or truth value.
            NaN and None are the same as an absent key. If there are no features, only the target is
            learned.
        y
            The target, a number from -1e120 to 1e120.
        w
            Weight of the sample, from 0 to 1e30. The sample's noise variance is divided by the
            weight. A sample of weight 0 extends the trees, but its target has no effect.

        Raises
        ------
        TypeError
            If a value is neither a number nor a level, or does not have its feature's type. The
            same error is raised if the target or the weight is not a number.
        ValueError
            If a value is infinite or too large for single precision, or a `lifetime` function
            decreases. The same error is raised if the target or the weight is out of range.

        """
        with self._lock:
            # Calls of Python functions are slow, so the usual case, a float target with weight 1,
            # skips the checks.
            if type(y) is not float or not -1e100 < y < 1e100 or type(w) is not float or w != 1.0:
                y, w = check_target(y), check_weight(w)
            trees = self._whole()
            horizons = self._horizons(1)
            if trees is None or not self._features.read_known(x, trees.vector):
                self._learn_new(self._read(x), lambda trees: self._learn(trees, y, w, horizons))
            else:
                self._learn(trees, y, w, horizons)

    _learn_row = learn_one

    def _learn(self, trees: TargetTrees, y: float, w: float, horizons: list[float] | None) -> None:
        """Learn the sample in `trees.inputs`; `horizons` contains the next lifetime, or is None."""
        if horizons is not None:
            trees.forest.next_horizon = horizons[0]
        bad = trees.learn(y, w)
        if bad >= 0:
            self._check_input(trees, bad)

    def _predict(self, x: Mapping[Any, Any], trees: TargetTrees) -> Floats:
        """Return the mean and the variance of a sample's prediction, shape (1, 2)."""
        self._write(x, trees)
        bad = trees.predict()
        if bad >= 0:
            self._check_input(trees, bad)
        return trees.out

    def predict_one(self, x: Mapping[Any, Any], with_dist: bool = False) -> Any:
        """Predict the target of a sample.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category; unknown features are
            ignored.
        with_dist
            Whether to return the distribution of the target, a `PredictiveDistribution`: the
            mixture over the trees, the insertion points of the sample, and the scales of learned
            tails.

        Returns
        -------
        The mean of the prediction, or the distribution of the target if `with_dist` is true. Before
        the first sample, the mean is 0, and the variance of the distribution is infinite.

        Raises
        ------
        ValueError
            If a value is infinite or too large for single precision, or if `posterior` is "mean"
            and `with_dist` is true.

        """
        with self._lock:
            if with_dist:
                self._need_distribution()
            trees = self._whole()
            if trees is None:
                self._read(x)
                return unknown() if with_dist else 0.0
            if not with_dist:
                return self._predict(x, trees).item(0)
            self._write(x, trees)
            bad, mixture = trees.predict_mixture()
            self._check_input(trees, bad)
            return mixture

    def _need_distribution(self) -> None:
        if self.posterior == "mean":
            raise ValueError('posterior="mean" predicts no distribution')

    # Many samples.

    def _numbers(self, rows: frames.Block, start: int, stop: int) -> Floats:
        return rows.y[start:stop].copy()

    # Forgetting.

    def _putter(self, trees: TargetTrees, y: float, w: float) -> Callable[[int], None]:
        return lambda p: learning.put_target(trees.forest, y, w, p)

    @model.locked
    def predict_many(self, X: Any, with_dist: bool = False, *, progress: bool = False) -> Any:
        """Predict the targets of the rows of a frame.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...
            Values are numbers or categories.
        with_dist
            Whether to return a frame with the columns "mean" and "variance".
        progress
            Whether to show the number of predicted rows on stderr, with tqdm if it is installed,
            else as text. The result does not depend on `progress`.

        Returns
        -------
        The means: a series of the same library as `X`, or an array if `X` is an array. A pandas
        series has the index of `X`. With `with_dist`, a frame with the columns "mean" and
        "variance" is returned.

        Raises
        ------
        ValueError
            If `posterior` is "mean" and `with_dist` is true.

        """
        if with_dist:
            self._need_distribution()
        frame, moments = self._predict_rows(X, progress)
        return frames.native_moments(moments, with_dist, like=frame)

    # Reading.

    def _leaf_text(self, node: TargetView) -> str:
        return f"mean {node.mean:.6g}"

    def _summary(self, x: Mapping[Any, Any]) -> list[str]:
        trees = self._trees
        if trees is None:
            return []
        mean, variance = self._predict(x, trees)[0].tolist()
        if self.posterior == "mean":
            return [f"mean {mean:.6g}"]
        return [f"mean {mean:.6g}, standard deviation {math.sqrt(variance):.6g}"]
