"""The adaptive Mondrian forest regressor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from river import base

from .. import arguments, frames, model
from ..inputs import Floats, check_target, check_weight
from ..posteriors.adaptive_targets.adaptive_target_trees import AdaptiveTargetTrees, TargetsView
from ..posteriors.predictive import unknown
from . import forest
from .adapting import AdaptingForest, Detector, watch_for


@dataclass(eq=False, repr=False)
class AdaptiveMondrianForestRegressor(
    AdaptingForest,
    forest.TargetExplanations,
    base.MiniBatchRegressor,
):
    """Adaptive Mondrian forest regressor.

    The default choice for numbers with intervals: a Mondrian forest[^1] without parameters to tune.
    In contrast to the exact `MondrianForestRegressor` its splits use targets, it forgets, and it
    mixes several models:

    - To split a block of samples, `n_candidates` cuts are drawn, with features in proportion to the
      sides of the block and to their gains in earlier trees. Half of the cuts lie between two of
      the samples. The cut that reduces the variance most is kept. Trees are rebuilt when the number
      of samples has doubled. Some are extended by the conditional Mondrian process outside the
      boxes of samples. The others send a sample to its leaf from any place.
    - Some trees learn the targets, some the residuals of a ridge regression, some the errors of all
      of these together. Most of the last kind know the latest 300 to 600 samples only.
    - Every node stores the mean of its targets and of its latest targets. On a sample's path each
      mean is shrunk to that of the node above, by several strengths.
    - Ridge regressions forget at several rates. They use the features, bends and products of
      features, and random waves.
    - All of these are experts. They are mixed twice by their progressive losses: first the experts
      of targets and residuals, then all, with the trees that learn the errors of the first mixture.
    - The distribution of each prediction is learned from the errors so far, and from the
      disagreement of the experts.
    - Memory is bounded by `window`, or in bytes by `max_bytes`.

    Rebuilds are spread over calls. Features need no scaling, may be categories or missing, and may
    appear at any time. Trees place levels of categories like those of `MondrianForestRegressor`.
    Ridge regressions ignore categories. Targets need no scaling. Targets beyond fences, 10 robust
    ranges beyond either end of the range of the targets so far, count as at the fence, unless
    several of the latest were beyond. So a wild target costs a few samples, and the model follows a
    new level.

    Parameters
    ----------
    n_estimators
        Number of trees. Three of ten know recent samples only.
    n_candidates
        Number of cuts among which one is chosen. With 1, cuts ignore targets. An extended tree is
        then distributed like one of `MondrianForestRegressor`, another tree only right after a
        rebuild.
    loss
        The error that predictions minimize: "absolute", for which they are a median, or "squared",
        for which they are a mean.
    autoregressive
        Whether the targets and errors of the latest learned samples are experts, too. Use it for
        series whose targets are known before the next prediction. Late labels make these experts
        late.
    window
        Largest number of samples that the trees know: the latest ones. At this number the older
        half is forgotten. Up to twice as many are stored.
    max_bytes
        Largest size of the model in bytes. Fewer samples are kept for it, but at least 512. None
        for no such limit. Features are never forgotten: new names without end exceed it.
    drift_detector
        A drift detector of River's. It is fed the size of each error, in units of four mean errors
        and at most 1. None stands for `river.drift.ADWIN()`, `river.drift.NoDrift()` switches
        detection off. After a drift the forest keeps as many samples as the detector's `width`, or
        200 if it has none, and rebuilds all trees from these.
    scale
        Whether to divide each feature by its width, as `MondrianForestRegressor` does.
    ranges
        Known ranges: a mapping from feature to its lowest and highest value, (low, high). Such a
        feature is divided by high - low, whatever its values are.
    rescale
        Whether to check widths again after the first 256 samples, each time the number of samples
        has grown by 50 %. If a width has changed by more than a factor of 2, and the interquartile
        range by more than a factor of 1.7, the trees are redrawn from their samples under the new
        widths, one after the other, a part per sample. A stored value takes 4 more bytes for that,
        and 8 while trees are redrawn. Once there is a category, a sample takes 8 more bytes per
        feature instead. With `scale=False` widths always stay.
    missing
        What an absent key, None and NaN mean: "unknown", or "zero", for counts of words and one-hot
        encodings. A mapping, such as `{"word_": "zero"}`, has a meaning for each name of a feature
        or beginning of names: the longest that fits counts. Other features are unknown.
    n_jobs
        Number of threads of `predict_many`; -1 for one for each processor that the process may use.
        The results do not depend on it. One thread learns the samples one after the other: the work
        for each is too little to share.
    seed
        Random seed for reproducibility.

    Notes
    -----
    A sample of weight w is learned once. It counts w times in means, in the gains of cuts and in
    the sums of the regressions, and so do its losses in the mixtures. It is one visit, after which
    late means forget once.

    `predict_one` changes nothing that is learned.

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
        # One more tree, which is being built.
        partitions, watch = (
            self._partitions(self.n_estimators + 1),
            watch_for(self.drift_detector),
        )
        sizes = self.n_candidates, self.window, self.max_bytes
        kinds = self.loss == "squared", self.autoregressive
        return AdaptiveTargetTrees(partitions, *sizes, *kinds, watch)

    @property
    def _n_readable(self) -> int:
        # Trees of all samples; recent ones come and go.
        return AdaptiveTargetTrees.n_long_of(self.n_estimators)

    @property
    @model.locked
    def expert_weights(self) -> dict[str, float]:
        """Return the weights of all experts in the last mixture."""
        return {} if self._trees is None else self._trees.weights

    # One sample.

    def learn_one(
        self, x: Mapping[Any, Any], y: float, w: float = 1.0, remembered: bytes | None = None
    ) -> None:
        """Update the mixtures, regressions, drift detector and every tree with a sample.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category: a string or truth value.
            NaN and None are the same as an absent key. Without any feature only the target is
            learned.
        y
            The target, a number of at most 1e120 in size.
        w
            Weight of the sample, from 0 to 1e30. A sample of weight 0 is not learned; less than
            1e-30 counts as 0.
        remembered
            An earlier prediction of the sample, as `Calibrated` remembers it, if the target is
            late.

        Raises
        ------
        TypeError
            If a value is neither a number nor a level, or not of the type of its feature so far; if
            the target is no number.
        ValueError
            If a value is infinite or too large for single precision, or the target or the weight
            is out of range.

        """
        with self._lock:
            # Calls are slow, and most targets are floats without a weight.
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

    def _learn(
        self, trees: AdaptiveTargetTrees, y: float, w: float, remembered: bytes | None
    ) -> None:
        """Learn the sample in the trees' `inputs`."""
        found = 0 if self._fed is None else self._feed(trees, trees.error(y))
        self._check_input(trees, trees.learn(y, w, False, found, remembered))

    def _to_remember(self) -> bytes | None:
        """Return the last prediction of a sample, for a later `learn_one`."""
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
            of Student's t distributions.

        Returns
        -------
        The prediction, 0 before any learning; or its distribution, whose variance is infinite
        then.

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
            return trees.law() if with_dist else float(trees.forest.point)

    def _point_and_scale(self, x: Mapping[Any, Any]) -> tuple[float, float]:
        """Return the prediction of a sample, and the mean scale of its distribution."""
        with self._lock:
            point = self.predict_one(x)
            return point, math.inf if self._trees is None else self._trees.mean_scale()

    # Many samples.

    def learn_many(self, X: Any, y: Any, w: Any = 1.0, *, progress: bool = False) -> None:
        """Learn the rows of a frame, in order, like `learn_one` on each.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array of the features 0, 1, ..., with numbers
            and categories (strings, truth values, categoricals, enums); nulls and NaN are missing.
        y
            The targets of its rows, by position.
        w
            A weight for all rows, or one for each.
        progress
            Whether to show on stderr how many rows have been learned, by tqdm if it is installed,
            else as text. The result is the same, bit for bit. After Ctrl-C the model has learned a
            number of whole rows.

        Raises
        ------
        TypeError
            If a column holds something that is neither a number nor a level, or not of the type of
            its feature so far; if a target is no number.
        ValueError
            If a value or target is not finite, a column doubled or a length wrong. Nothing is
            learned then.

        """
        rows = frames.read_block(self._read_frame(X), y, w)
        self._learn_each(replace(rows, y=rows.y.tolist()), progress)

    @model.locked
    def predict_many(self, X: Any, with_dist: bool = False, *, progress: bool = False) -> Any:
        """Predict the targets of the rows of a frame.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array of the features 0, 1, ..., with numbers
            and categories.
        with_dist
            Whether to return a frame with the columns "prediction", "mean" and "variance", of the
            distributions.
        progress
            Whether to show on stderr how many rows have been predicted, by tqdm if it is installed,
            else as text. The result is the same, bit for bit.

        Returns
        -------
        A series of predictions like `X` (and with its pandas index), or the frame.

        """
        if not with_dist:
            frame, found = self._predict_rows(X, progress, lambda said: said[:, :1])
            return frames.native_series(found[:, 0], name=None, like=frame)
        frame, found = self._predict_rows(X, progress, self._moments)
        columns = dict(zip(("prediction", "mean", "variance"), found.T, strict=True))
        return frames.native_frame(columns, like=frame)

    def _moments(self, said: Floats) -> Floats:
        """Return the prediction of each row, and the mean and variance of its distribution."""
        found = said.copy()
        for one, out in zip(said.tolist(), found, strict=True):
            law = self._trees.law_of(one)
            out[1:] = law.mean, law.var
        return found

    # Reading.

    def _leaf_text(self, node: TargetsView) -> str:
        return f"mean {node.mean:.6g}, late mean {node.late_mean:.6g}"

    def _summary(self, x: Mapping[Any, Any]) -> list[str]:
        if self._trees is None:
            return []
        prediction, weights = f"prediction {self.predict_one(x):.6g}", self.expert_weights.items()
        return [prediction, *(f"weight of {name}: {w:.3f}" for name, w in weights)]
