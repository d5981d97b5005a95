"""The adaptive Mondrian forest regressor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .. import arguments, frames, model
from ..inputs import Floats, check_target, check_weight
from ..posteriors.adaptive_targets.adaptive_target_reader import TargetsView
from ..posteriors.adaptive_targets.adaptive_target_trees import AdaptiveTargetTrees
from ..predictive import unknown
from . import forest
from .adapting import AdaptingForest, Detector


@dataclass(eq=False, repr=False)
class AdaptiveMondrianForestRegressor(AdaptingForest, forest.TargetForest):
    """Adaptive Mondrian forest regressor.

    This class is the default choice for regression with intervals: a Mondrian forest[^1] whose
    defaults rarely need tuning. Unlike the exact `MondrianForestRegressor`, the forest uses targets
    to choose splits, removes old samples, and mixes several models. The algorithm works as follows:

    - To split a node, `n_candidates` cuts are drawn. A feature gets more cuts if the box's side
      along the feature is longer, or if the feature's gain in earlier trees is larger. Half of the
      cuts are uniform within the side; the other half lie between two samples of the node. The cut
      that reduces the variance most is kept. Trees, except the trees of recent samples (see below),
      are rebuilt each time the number of samples in the window has doubled, and each time the
      window is full. Between rebuilds, the conditional Mondrian process extends some trees to new
      samples outside the boxes of their nodes. The other trees ignore boxes: they assign every
      sample to an existing leaf.
    - Some trees learn the targets, some learn the residuals of a ridge regression, and some learn
      the errors of the first mixture (see below). Most trees that learn errors use only the latest
      300 to 600 samples, and are called trees of recent samples.
    - Every node stores the mean of all its targets and the mean of its latest targets. Along a
      sample's path, each mean is shrunk towards the parent's shrunk mean: the mean of all targets
      with one strength, and the mean of the latest targets with three strengths.
    - Ridge regressions forget old samples at several rates, or never. All regressions have the
      numeric features as inputs, at most 96 features. Some add piecewise linear functions and
      products of features, and some of these also add random Fourier features.
    - The seven nearest of the latest 5,000 samples predict the residual of a ridge regression,
      after 1,000 samples have been learned. Fewer samples are kept with more than 12 features, or
      with a small `window` or `max_bytes`.
    - The predictions of trees, regressions and neighbours are experts. Two mixtures weight experts
      by their progressive losses. The first mixture combines the regressions, the trees that learn
      targets or residuals, and the neighbours. The second mixture adds the trees that learn the
      errors of the first mixture.
    - The width of the predictive distribution depends on recent errors, on the disagreement of the
      experts, and on a regression of the errors' size on the features.
    - `window` bounds the number of stored samples. `max_bytes` bounds the memory in bytes, with two
      exceptions (see the parameter).

    Rebuilds are spread over `learn_one` calls. Features need no scaling, may be categories, may
    have missing values, and may appear at any time. Trees map levels of categories to numbers as
    `MondrianForestRegressor` does. Ridge regressions ignore categories. Targets need no scaling.
    From 16 samples on, a target farther than 10 robust ranges from the robust range of the stored
    targets is clipped (see the notes of `MondrianForestRegressor`), unless several of the latest
    targets are beyond these limits. A single extreme target thus has little effect, but the model
    follows a lasting shift of the targets.

    Parameters
    ----------
    n_estimators
        Number of trees. With 10 trees, the default, three learn only recent samples.
    n_candidates
        Number of cuts that are drawn to split a node; the best cut is kept. For a node with n
        samples, at most 3 n - 5 cuts are drawn. With `n_candidates=1`, cuts ignore targets. The
        trees that are extended to new samples are then distributed like trees of
        `MondrianForestRegressor`, as long as they have fewer than 2,048 samples. In larger trees,
        small nodes are not split: a node needs 2 samples, plus one for every 2,048 samples of the
        tree. The trees that are not extended have this distribution only right after a rebuild.
    loss
        The error that predictions minimize: with "absolute", predictions are medians; with
        "squared", predictions are means.
    autoregressive
        Whether to add experts that predict from the targets and errors of the latest learned
        samples. Use this option for series whose targets are known before the next prediction. If
        targets come late, these experts use older targets.
    window
        Number of samples at which the older half is removed from the trees. Up to `2 * window`
        samples are stored, because removed samples are kept until all trees have been rebuilt
        without them.
    max_bytes
        Limit on the size of the model in bytes; None sets no limit. To stay below the limit, the
        model keeps fewer samples. But the model keeps at least 512 samples and all features, so it
        exceeds a very small limit, and any limit if new features keep appearing.
    drift_detector
        A drift detector of River, with the absolute error as input, divided by four times the mean
        absolute error and clipped to 1. None means `river.drift.ADWIN()`; `river.drift.NoDrift()`
        disables detection. A drift counts only if the error has increased. Then the forest keeps as
        many of the latest samples as the detector's `width`, but at least 50. Without a `width`,
        the forest keeps 200 samples. The trees are rebuilt from these samples; trees of recent
        samples that contain older samples are dropped.
    scale
        Whether to divide each feature by its width, as `MondrianForestRegressor` does.
    ranges
        Known ranges: a mapping from feature to its lowest and highest value, (low, high). These
        features are divided by high - low, even if values are outside the range.
    rescale
        Whether to check widths again, from 256 samples on, each time the number of samples has
        grown by 50 % of the samples in the window. The trees are redrawn if a feature's width has
        changed by a factor above 2 and its interquartile range, if known, by a factor above 1.7.
        Redrawing is spread over `learn_one` calls, one tree after the other. With `scale=False`,
        widths do not change.
    missing
        Meaning of an absent key, None and NaN: "unknown" or "zero". Use "zero" for word counts and
        one-hot encodings. A mapping, such as `{"word_": "zero"}`, sets the meaning by a feature's
        name or prefix; the longest matching key applies. Missing values of other features are
        unknown.
    n_jobs
        Number of threads of `predict_many`; -1 for one thread per processor that the process may
        use. Results do not depend on `n_jobs`. Learning uses one thread, because samples are
        learned one after another, and one sample is too little work for several threads.
    seed
        Random seed for reproducibility.

    Notes
    -----
    A sample of weight w is learned once, and counts w times in means, in the gains of cuts, and in
    the sums of the regressions. Where a mixture needs weights of at most 1, w is divided by the
    largest recent weight. Means of the latest targets decay once per sample, with any weight.

    `predict_one` does not change the learned state.

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> from river_mondrian import AdaptiveMondrianForestRegressor

    >>> model = AdaptiveMondrianForestRegressor(seed=42)
    >>> dataset = datasets.TrumpApproval()
    >>> metric = evaluate.progressive_val_score(dataset, model, metrics.MAE())
    >>> metric.get() < 0.33
    True

    >>> x, y = next(iter(dataset))
    >>> predicted = model.predict_one(x, with_dist=True)
    >>> low, high = predicted.interval(0.9)
    >>> low < predicted.median < high
    True
    >>> round(predicted.cdf(high) - predicted.cdf(low), 6)
    0.9

    References
    ----------
    [^1]: Lakshminarayanan, B., Roy, D. M. and Teh, Y. W. (2016). Mondrian Forests for Large-Scale
    Regression when Uncertainty Matters. Artificial Intelligence and Statistics 19.

    """

    n_estimators: int = 10
    n_candidates: int = 15
    loss: str = "absolute"
    autoregressive: bool = False
    window: int = 50_000
    max_bytes: int | None = None
    drift_detector: Detector = None
    scale: bool = True
    ranges: Mapping[Any, tuple[float, float]] | None = None
    rescale: bool = True
    missing: arguments.Missing = "unknown"
    n_jobs: int = 1
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.loss not in ("absolute", "squared"):
            raise ValueError(f'loss must be "absolute" or "squared", got {self.loss!r}')
        super().__post_init__()

    _REHEARSED: ClassVar[Mapping[str, Any]] = {"autoregressive": True}
    _N_BEFORE = 3
    _NUMBERS = ("mean", "late_mean")

    def _make_trees(self) -> AdaptiveTargetTrees:
        partitions, watch = self._parts()
        sizes = self.n_candidates, self.window, self.max_bytes
        kinds = self.loss == "squared", self.autoregressive
        return AdaptiveTargetTrees(partitions, *sizes, *kinds, watch)

    @property
    def _n_readable(self) -> int:
        # Trees of recent samples cannot be inspected, because they are replaced often.
        return AdaptiveTargetTrees.n_long_of(self.n_estimators)

    @property
    @model.locked
    def expert_weights(self) -> dict[str, float]:
        """Weight of each expert in the second mixture; empty before the first sample."""
        return {} if self._trees is None else self._trees.weights

    # One sample.

    def learn_one(
        self, x: Mapping[Any, Any], y: float, w: float = 1.0, remembered: bytes | None = None
    ) -> None:
        """Update the trees, the regressions, the mixtures and the drift detector with a sample.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category: a string or truth value.
            NaN and None are the same as an absent key. If there are no features, only the target is
            learned.
        y
            The target, a number from -1e120 to 1e120.
        w
            Weight of the sample, from 0 to 1e30. A sample of weight 0 is not learned; a positive
            weight below 1e-30 counts as 1e-30.
        remembered
            The state of an earlier prediction of the sample, which `Calibrated` stores if targets
            are late. None if the target is not late.

        Raises
        ------
        TypeError
            If a value is neither a number nor a level, or does not have its feature's type. The
            same error is raised if the target or the weight is not a number.
        ValueError
            If a value is infinite or too large for single precision, or the target or the weight
            is out of range.

        """
        with self._lock:
            # Calls of Python functions are slow, so the usual case, a float target with weight 1,
            # skips the checks.
            if type(y) is not float or not -1e100 < y < 1e100 or type(w) is not float or w != 1.0:
                y, w = check_target(y), check_weight(w)
                if w == 0.0:
                    self._read(x)
                    return
            trees = self._whole()
            if trees is None or not self._features.read_known(x, trees.vector):
                values = self._read(x)
                self._learn_new(values, lambda trees: self._learn(trees, y, w, remembered))
                return
            self._learn(trees, y, w, remembered)

    _learn_row = learn_one

    def _learn(
        self, trees: AdaptiveTargetTrees, y: float, w: float, remembered: bytes | None
    ) -> None:
        """Learn the sample in `trees.inputs`."""
        n_latest = 0 if self._fed is None else self._feed(trees, trees.error(y))
        self._check_input(trees, trees.learn(y, w, False, n_latest, remembered))

    def _to_remember(self) -> bytes | None:
        """Return the state of the last prediction, for a later `learn_one` of the sample."""
        return None if self._trees is None else self._trees.to_remember()

    def predict_one(self, x: Mapping[Any, Any], with_dist: bool = False) -> Any:
        """Predict the target of a sample.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category; unknown features are
            ignored.
        with_dist
            Whether to return the distribution of the target, a `PredictiveDistribution`: a mixture
            of Student's t distributions and normal distributions.

        Returns
        -------
        The prediction, or the distribution of the target if `with_dist` is true. Before the first
        sample, the prediction is 0, and the variance of the distribution is infinite.

        Raises
        ------
        ValueError
            If a value is infinite or too large for single precision.

        """
        with self._lock:
            trees = self._whole()
            if trees is None:
                self._read(x)
                return unknown() if with_dist else 0.0
            self._write(x, trees)
            self._check_input(trees, trees.predict_inputs())
            return trees.distribution() if with_dist else float(trees.forest.prediction.point)

    def _point_and_scale(self, x: Mapping[Any, Any]) -> tuple[float, float]:
        """Return the prediction of a sample, and the mean scale of the predicted distribution."""
        with self._lock:
            point = self.predict_one(x)
            return point, math.inf if self._trees is None else self._trees.mean_scale()

    # Many samples.

    @model.locked
    def predict_many(self, X: Any, with_dist: bool = False, *, progress: bool = False) -> Any:
        """Predict the targets of the rows of a frame.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...
            Values are numbers or categories.
        with_dist
            Whether to return a frame with the predictions, and with the means and variances of the
            predicted distributions. The columns are "prediction", "mean" and "variance".
        progress
            Whether to show the number of predicted rows on stderr, with tqdm if it is installed,
            else as text. The result does not depend on `progress`.

        Returns
        -------
        The predictions: a series of the same library as `X`, or an array if `X` is an array. A
        pandas series has the index of `X`. With `with_dist`, a frame with the columns "prediction",
        "mean" and "variance" is returned.

        """
        if not with_dist:
            frame, predictions = self._predict_rows(X, progress, lambda said: said[:, :1])
            return frames.native_series(predictions[:, 0], name=None, like=frame)
        frame, predictions = self._predict_rows(X, progress, self._moments)
        columns = dict(zip(("prediction", "mean", "variance"), predictions.T, strict=True))
        return frames.native_frame(columns, like=frame)

    def _moments(self, said: Floats) -> Floats:
        """Return each row's prediction, and the mean and variance of the predicted distribution."""
        moments = said.copy()
        for numbers, out in zip(said.tolist(), moments, strict=True):
            distribution = self._trees.distribution_of(numbers)
            out[1:] = distribution.mean, distribution.var
        return moments

    # Reading.

    def _leaf_text(self, node: TargetsView) -> str:
        return f"mean {node.mean:.6g}, late mean {node.late_mean:.6g}"

    def _summary(self, x: Mapping[Any, Any]) -> list[str]:
        if self._trees is None:
            return []
        prediction, weights = f"prediction {self.predict_one(x):.6g}", self.expert_weights.items()
        return [prediction, *(f"weight of {name}: {w:.3f}" for name, w in weights)]
