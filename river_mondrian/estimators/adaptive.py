"""The adaptive Mondrian forest classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .. import arguments, limits, model
from ..inputs import check_label, check_weight
from ..posteriors.adaptive.adaptive_trees import EXPERTS, AdaptiveTrees
from . import label_forest
from .adapting import AdaptingForest, Detector


@dataclass(eq=False, repr=False)
class AdaptiveMondrianForestClassifier(AdaptingForest, label_forest.LabelForest):
    """Adaptive Mondrian forest classifier.

    This class is the default choice for classification: a Mondrian forest[^1] whose defaults rarely
    need tuning. Unlike the exact `MondrianForestClassifier`, the forest uses labels to choose
    splits, removes old samples, and mixes several models. The algorithm works as follows:

    - To split a node, `n_candidates` cuts are drawn from the Mondrian process. Cuts on features
      with large gains in earlier trees are drawn more often. The cut with the largest Gini gain is
      kept. Trees, except the trees of recent samples (see below), are rebuilt each time the number
      of samples in the window has doubled, and each time the window is full. Between rebuilds, the
      conditional Mondrian process extends trees to new samples outside the boxes of their nodes.
    - A node has three counts of each class. One does not decay. The other two decay at different
      rates, except at the roots (see `autoregressive`). Three posteriors are computed from the
      nodes on a sample's path. The first uses a hierarchy of normalized stable processes, averaged
      over insertion points. The other two use context-tree weighting[^2]: one prefers shallow
      nodes, and the other mixes the three counts.
    - A third of the trees, added after 1,000 samples, learn only the latest 1,000 to 2,000 samples.
      The other trees learn all samples of the window, and are called trees of all samples. Each
      posterior is averaged over the trees of all samples, and separately over all trees.
    - Three linear models learn linearly separable classes quickly and track drift. Two are online
      softmax regressions[^3] on standardized features: one takes small steps, and the other takes
      large steps. The third is naive Bayes.
    - Three experts predict from the seven nearest of the latest 200, 1,000 and 5,000 samples. With
      more than 12 features, fewer of the latest samples are used, because at most 64,000 values are
      stored. A small `window` or `max_bytes` reduces these numbers, too.
    - A log-linear pool, whose exponents are learned from the log loss, mixes all posteriors, linear
      models and neighbours.
    - A drift detector monitors the error. If it reports a drift and the error has increased, the
      trees of all samples are rebuilt from the latest samples (see `drift_detector`). Trees of
      recent samples that contain older samples are dropped. The step sizes of the softmax
      regressions are reset, naive Bayes forgets all samples, and older neighbours are dropped.
    - `window` bounds the number of stored samples. `max_bytes` bounds the memory in bytes, with two
      exceptions (see the parameter).

    Rebuilds are spread over `learn_one` calls. Features need no scaling and may be categories, and
    values may be missing. Features and classes may appear at any time. Trees map levels of
    categories to numbers as `MondrianForestClassifier` does. The linear models have a weight or a
    count for each level, in a table of 2,048 rows. A hash of the level selects the row, so several
    levels may share a row.

    `feature_importances` covers the trees of all samples, not the other experts. `explain_one`
    estimates Shapley values[^4] of the pool's prediction, which depends on all experts.

    Parameters
    ----------
    n_estimators
        Number of trees. A third of the trees, rounded, learn only recent samples. A forest with
        more trees is usually more accurate, but needs more time and memory.
    n_candidates
        Number of cuts that are drawn to split a node; the best cut is kept. For a node with n
        samples, at most 3 n - 5 cuts are drawn. With `n_candidates=1`, cuts ignore labels, and each
        tree of all samples is distributed like a tree of `MondrianForestClassifier`.
    autoregressive
        Whether to use the latest labels to predict the next label. Use this option for streams in
        which a label often repeats the previous labels. By default, the counts of the roots do not
        decay. With this option, two counts of each root decay, as in other nodes. One posterior
        then predicts approximately the frequencies of the latest labels.
    window
        Number of samples at which the older half is removed from the trees. Up to `2 * window`
        samples are stored, because removed samples are kept until all trees have been rebuilt
        without them. With `window=1000`, there are no trees of recent samples.
    max_bytes
        Limit on the size of the model in bytes; None sets no limit. To stay below the limit, the
        model keeps fewer samples. But the model keeps at least 512 samples and all features, so it
        exceeds a very small limit, and any limit if new features keep appearing.
    drift_detector
        A drift detector of River, with the input 1 for a wrong prediction and 0 for a correct
        prediction. None means `river.drift.ADWIN()`; `river.drift.NoDrift()` disables detection. A
        drift counts only if the error has increased. Then the forest keeps as many of the latest
        samples as the detector's `width`, but at least 50. Without a `width`, the forest keeps 200
        samples.
    scale
        Whether to divide each feature by its width, as `MondrianForestClassifier` does.
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
        one-hot encodings. With "zero", a new feature counts as 0 in earlier samples. An absent
        category is a separate level, which all trees map to 0 and the linear models ignore. A
        mapping, such as `{"word_": "zero"}`, sets the meaning by a feature's name or prefix; the
        longest matching key applies. Missing values of other features are unknown.
    n_jobs
        Number of threads of `predict_many` and `predict_proba_many`; -1 for one thread per
        processor that the process may use. Results do not depend on `n_jobs`. Learning uses one
        thread, because samples are learned one after another, and one sample is too little work for
        several threads.
    seed
        Random seed for reproducibility.

    Notes
    -----
    A sample of weight w is learned once, and counts w times in the class counts of nodes, in the
    gains of cuts, and in the moments of the linear models. Gradients are multiplied by w. In
    context-tree weighting, likelihoods are raised to the power w. The pool divides a sample's
    weight by the largest recent weight, but at least by 1. In the hierarchy, a class whose samples
    in a node have the total weight c counts min(c, 1) times in the node's parent, as in
    `MondrianForestClassifier`.

    A sample of weight 2 is not equivalent to two equal samples. Each sample causes one decay of the
    counts, and one gradient step of the softmax regressions and the pool. The window, the drift
    detector and the schedule of rebuilds count each sample once. Priors have weight 1, so weights
    should be about 1 on average.

    If a cell has one sample, of weight 1 or less, the hierarchy's prediction in the cell does not
    depend on the weight. In context-tree weighting, a sample of small weight has little effect. A
    sample of weight 0 is ignored.

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> from river_mondrian import AdaptiveMondrianForestClassifier

    >>> model = AdaptiveMondrianForestClassifier(seed=42)
    >>> dataset = datasets.Phishing()
    >>> metric = evaluate.progressive_val_score(dataset, model, metrics.Accuracy())
    >>> metric.get() > 0.88
    True

    >>> importances = model.feature_importances
    >>> max(importances, key=importances.get)
    'empty_server_form_handler'

    References
    ----------
    [^1]: Lakshminarayanan, B., Roy, D. M. and Teh, Y. W. (2014). Mondrian Forests: Efficient
    Online Random Forests. Advances in Neural Information Processing Systems 27.
    [^2]: Willems, F. M. J., Shtarkov, Y. M. and Tjalkens, T. J. (1995). The Context-Tree Weighting
    Method: Basic Properties. IEEE Transactions on Information Theory 41.
    [^3]: Duchi, J., Hazan, E. and Singer, Y. (2011). Adaptive Subgradient Methods for Online
    Learning and Stochastic Optimization. Journal of Machine Learning Research 12.
    [^4]: Strumbelj, E. and Kononenko, I. (2014). Explaining Prediction Models and Individual
    Predictions with Feature Contributions. Knowledge and Information Systems 41.

    """

    n_estimators: int = 20
    n_candidates: int = 20
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

    _REHEARSED: ClassVar[Mapping[str, Any]] = {"n_estimators": 2}

    def _make_trees(self) -> AdaptiveTrees:
        partitions, watch = self._parts()
        sizes = self._n_readable, self.n_candidates, self.window, self.max_bytes
        return AdaptiveTrees(partitions, *sizes, self.autoregressive, watch)

    @property
    def _n_readable(self) -> int:
        # Trees of recent samples cannot be inspected, because they are replaced often.
        return self.n_estimators - (self.n_estimators + 1) // 3

    # Learned state.

    @property
    @model.locked
    def expert_weights(self) -> dict[str, float]:
        """Exponent of each expert in the log-linear pool.

        The trees have three posteriors: the exact forest's hierarchical posterior and two averages
        over prunings. Each posterior is averaged over all trees, and over the trees of all samples.
        These averages are six experts. Three experts are linear models: two softmax regressions,
        with small and with large steps, and naive Bayes. Three experts predict from the nearest of
        the latest 200, 1,000 and 5,000 samples. The last expert, fixed share, is a mixture of the
        other experts that quickly follows the best expert after a drift. The mapping is empty
        before the first sample.
        """
        if self._trees is None:
            return {}
        return dict(zip(EXPERTS, self._trees.mixture.exponents.tolist(), strict=True))

    # Learning one sample.

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Update the trees, the linear models, the pool and the drift detector with a sample.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category: a string or truth value.
            NaN and None are the same as an absent key. If there are no features, only the label is
            learned.
        y
            A label: any hashable object except None and NaN.
        w
            Weight of the sample, from 0 to 1e30. The notes of the class explain how a sample of
            weight 2 differs from two samples. A sample of weight 0 is not learned; a positive
            weight below 1e-30 counts as 1e-30.

        Raises
        ------
        TypeError
            If a value is neither a number nor a level, or does not have its feature's type. The
            same error is raised if the weight is not a number or the label is not hashable.
        ValueError
            If a value is infinite or too large for single precision, the label is missing, or the
            weight is out of range.

        """
        weight = w if type(w) is float else check_weight(w)
        prepared = self._prepared
        if prepared is not None:
            inputs = prepared.pack(x)
            try:
                label = prepared.labels.get(y)
            except TypeError:
                label = None
            if inputs and label is not None and 0.0 < weight <= limits.LARGEST_WEIGHT:
                with self._lock:
                    if prepared.trees.version_now[0] == prepared.version:
                        prepared.vector[:] = inputs
                        self._learn(prepared.trees, label, weight, False)
                        return
        # The user's code, such as a label's `__hash__`, may raise, so it runs before any change.
        check_label(y)
        weight = check_weight(weight)
        is_inside = self._is_inside
        with self._lock:
            if not is_inside:
                self._settle()
            values, is_new = self._read(x), y not in self._labels
            if weight == 0.0:
                return
            add = (lambda _: self._add_label(y)) if is_new else None
            self._learn_new(values, lambda t: self._learn(t, self._labels[y], weight, is_new), add)
            self._prepare(self._trees)

    _learn_row = learn_one

    def _learn(self, trees: AdaptiveTrees, label: int, weight: float, is_new: bool) -> None:
        """Learn the sample in `trees.inputs`."""
        n_to_keep = 0
        # The first label of the stream cannot be predicted, so the detector gets no error for it.
        if self._fed is not None and not (is_new and len(self._labels) == 1):
            n_to_keep = self._feed(trees, trees.error(label, is_new))
        self._check_input(trees, trees.learn(label, weight, is_new, n_to_keep))

    def _summary(self, x: Mapping[Any, Any]) -> list[str]:
        weights = self.expert_weights.items()
        return super()._summary(x) + [f"weight of {name}: {w:.3f}" for name, w in weights]
