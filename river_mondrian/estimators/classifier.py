"""The Mondrian forest classifier."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import arguments, model
from ..frames import Block, Frame
from ..inputs import check_label, check_weight
from ..limits import DONE, TOO_LARGE, WAITS
from ..posteriors.labels.label_trees import LabelTrees
from . import forgetting, label_forest


@dataclass(eq=False, repr=False)
class MondrianForestClassifier(forgetting.ForgettingForest, label_forest.LabelForest):
    """Mondrian forest classifier.

    The forest is an ensemble of Mondrian trees[^1]. A tree cuts the box of its samples at random
    times and places. The cuts ignore labels. Each new sample extends every tree. Suppose that no
    values are missing, and that `max_nodes` is None. Given the features' widths (see `scale`), the
    online forest is then distributed exactly like a forest built from all stored samples at once,
    whatever the order of the samples. In each tree, a hierarchy of normalized stable processes
    smooths a node's label frequencies towards its parent's frequencies (interpolated Kneser-Ney
    smoothing). A prediction averages over all insertion points of the sample. Far from the data,
    predictions tend to the prior.

    Features need no scaling. A feature that is absent from the mapping, NaN, or null in a frame is
    missing, and is ignored in distances. At a cut on a missing feature, a sample goes to the side
    whose box is nearer in the other features. If both boxes are equally near, a learned sample goes
    to the side with more samples. A prediction then follows both sides, weighted by the sides'
    shares of the samples. Branches with a total weight below 2 % are ignored. Features and classes
    may appear at any time.

    Parameters
    ----------
    n_estimators
        Number of trees.
    lifetime
        Time at which splitting stops. A box is cut at a rate equal to the sum of its side lengths,
        in units of the scaled features, or of the raw features with `scale=False`. With the
        defaults of `lifetime` (infinity), `split_pure` and `max_nodes`, nodes are split until the
        samples of each leaf have the same class or the same values. A frozen distribution of
        `scipy.stats` is sampled once for each tree.
    prior_rate
        Rate at which a node's label distribution may deviate from the distribution of its parent.
        The discount is exp(-prior_rate * time between the two nodes). None means 10 times the
        number of features that are known after 256 samples (or after all samples, if there are
        fewer).
    split_pure
        Whether to split nodes whose samples all have the same label. By default, these nodes are
        paused until another label arrives. The postponed cuts are then sampled (Algorithms 9 and 10
        of [^1]).
    window
        Number of the latest samples that the trees store. Once the window is full, each new sample
        replaces the oldest sample in every tree. Given the widths, and without missing values, the
        forest is then distributed like a forest that has learned only the window. Widths are
        computed from the window, too. None stores all samples, unless `max_nodes` is reached. A
        window needs `max_nodes=None`.
    max_nodes
        Largest number of nodes of a tree, leaves included. A tree that has no room for another
        split stops splitting, but its boxes and counts are still updated. Once all trees have
        stopped and 256 samples have been learned, samples are no longer stored. None sets no limit.
    directions
        Directions in which to cut, on the scaled features: None for the axes, a number of random
        directions for each tree, or a sequence of mappings from feature to coefficient. See the
        notes.
    scale
        Whether to divide each feature by its width. A width is the range of the learned values
        within 100 interquartile ranges of the quartiles. If most values of a feature are equal, the
        quartiles of the other values are used, and the range includes the most frequent value.
        After 1, 2, 4, ..., 256 samples, widths are renewed and the forest is rebuilt from its
        stored samples. Later, widths are checked again (see `rescale`). A constant feature is
        divided by its absolute value. Scaled values are clipped to [-1e30, 1e30].
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
        Number of threads of `learn_many`, `predict_many` and `predict_proba_many`; -1 for one
        thread per processor that the process may use. Results do not depend on `n_jobs`.
    seed
        Random seed for reproducibility.

    Notes
    -----
    The trees of a forest share one copy of each stored sample. All samples are stored, except with
    a `window`, or after all trees have reached `max_nodes`.

    The first value fixes a feature's type: a number or a category. In each tree, a hash of tree,
    feature and level maps each level of a category to a number in [0, 1], the level's place. Trees
    cut these places as they cut the values of a numeric feature. There may be any number of levels,
    new levels may appear at any time, and no list of levels is stored. Given the places, the trees
    are distributed like trees on numbers. In a numeric feature, False and True count as 0 and 1.

    Weights replace the counts in Algorithm 5 of [^1]: a leaf sums the weights of each class. A
    class whose samples in a node have the total weight c counts min(c, 1) times in the node's
    parent. Given the widths, and without a `window`, a sample of integer weight k has the same
    effect on the forest's distribution as k equal samples. Widths and the window ignore weights:
    each sample counts once. From the first weight other than 1 on, each split needs 16 more bytes
    per class.

    With an infinite lifetime, the discount of a paused leaf is 0. Therefore, inside the box of a
    paused leaf with one class, the tree predicts this class with probability 1.

    With `directions`, each tree is a STIT process[^2]: it cuts weighted sums of features instead of
    features. All trees use the given mappings. The rate of cuts in a direction is proportional to
    the norm of its mapping. Random directions are uniform on the unit sphere. Random directions are
    scaled so that, with many directions, two samples x and y are in one cell with probability
    exp(-lifetime |x - y|_2). Random directions are drawn for the features of the first 256 samples,
    or of the first sample if `scale` is False. The coefficients of a later feature are drawn from a
    normal distribution. A missing value counts as the unweighted mean of the feature's earlier
    values. In samples before a feature's first value, the feature counts as this first value. A
    direction is missing if all its features are missing.

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> from river_mondrian import MondrianForestClassifier

    >>> model = MondrianForestClassifier(seed=42)
    >>> dataset = datasets.Bananas().take(1000)
    >>> metric = evaluate.progressive_val_score(dataset, model, metrics.Accuracy())
    >>> metric.get() > 0.8
    True

    >>> probabilities = model.predict_proba_one({"1": 0.4, "2": 1.2})
    >>> sorted(probabilities)
    [False, True]
    >>> round(sum(probabilities.values()), 9)
    1.0

    References
    ----------
    [^1]: Lakshminarayanan, B., Roy, D. M. and Teh, Y. W. (2014). Mondrian Forests: Efficient
    Online Random Forests. Advances in Neural Information Processing Systems 27. Algorithms 1-10,
    appendices A, B and D.
    [^2]: O'Reilly, E. and Tran, N. M. (2022). Stochastic Geometry to Generalize the Mondrian
    Process. SIAM Journal on Mathematics of Data Science 4. Theorem 3.1.

    """

    n_estimators: int = 10
    lifetime: Any = math.inf
    prior_rate: float | None = None
    split_pure: bool = False
    window: int | None = None
    max_nodes: int | None = None
    directions: arguments.Directions = None
    scale: bool = True
    ranges: Mapping[Any, tuple[float, float]] | None = None
    rescale: bool = True
    missing: arguments.Missing = "unknown"
    n_jobs: int = 1
    seed: int | None = None

    def __post_init__(self) -> None:
        rate = self.prior_rate
        if rate is not None and not (arguments.is_real(rate) and 0.0 < rate < math.inf):
            raise ValueError(f"prior_rate must be None or a finite number > 0, got {rate!r}")
        super().__post_init__()

    _REHEARSED: ClassVar[Mapping[str, Any]] = {"n_estimators": 2, "lifetime": 8.0}

    def _make_trees(self) -> LabelTrees:
        return LabelTrees(self._partitions(self.n_estimators), self.prior_rate, self.split_pure)

    # Learning one sample.

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Extend every tree by a sample.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category: a string or truth value.
            NaN and None are the same as an absent key. If there are no features, only the label is
            learned.
        y
            A label: any hashable object except None and NaN.
        w
            Weight of the sample, from 0 to 1e30. Except in widths and the window, a sample of
            weight 2 counts as two samples of weight 1. A sample of weight 0 is not learned.

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
            inputs = prepared.pack(x) or prepared.pack_known(prepared.read(x))
            try:
                label = prepared.labels[y]
            except (KeyError, TypeError):
                label = None
            if inputs is not None and label is not None:
                status = prepared.learn(inputs, label, weight)
                if status == DONE or self._complete(prepared, status, inputs, label, weight):
                    return
        self._learn_checked(x, check_label(y), check_weight(weight))

    _learn_row = learn_one

    def _complete(
        self, prepared: label_forest.Prepared, status: int, inputs: bytes, label: int, weight: float
    ) -> bool:
        """Complete a call whose kernel returned `status`; return whether the sample was learned."""
        if status <= TOO_LARGE:
            raise prepared.too_large(TOO_LARGE - status, inputs)
        with self._lock:
            trees = self._trees
            if trees is None:
                return False
            if status == WAITS and trees.reserve_next():
                status = prepared.learn(inputs, label, weight)
            if status >= 0 and trees.is_changing:
                # Another thread's call was interrupted in the meantime, so its change is completed
                # or undone.
                trees.settle()
            elif status >= 0:
                trees.complete(status)
                trees.open()
            return status != WAITS

    @model.locked
    def _learn_checked(self, x: Mapping[Any, Any], y: Hashable, weight: float) -> None:
        """Learn a sample with a new feature or label, or the first weight other than 1."""
        # The user's code, such as a label's `__hash__`, may raise, so it runs before any change.
        values, is_new_label = self._read(x), y not in self._labels
        if weight == 0.0:
            return
        weighs = weight != 1.0 and not self._grown().has_weights

        def add(trees: Any) -> None:
            if weighs:
                trees.weigh()
            self._add_label(y)

        def learn(trees: Any) -> None:
            self._check_input(trees, trees.learn(self._labels[y], weight))

        if not self._learn_new(values, learn, add if weighs or is_new_label else None):
            self._prepare(self._trees)

    # Many samples.

    def _read_block(self, frame: Frame, y: Any, w: Any) -> Block:
        # Samples of weight 0 are dropped here, because `learn_one` ignores them.
        return super()._read_block(frame, y, w).weighing()

    def _begin_rows(self, rows: Block, start: int, stop: int) -> int:
        trees = self._grown()
        if rows.w[start] != 1.0:
            trees.weigh()
        if trees.has_weights:
            return stop
        # The block ends before the first weight other than 1, because the trees must first add
        # storage for weights.
        return start + int(np.append(rows.w[start:stop] == 1.0, False).argmin())

    def _numbers(self, rows: Block, start: int, stop: int) -> NDArray[np.int64]:
        self._add_label(rows.y[start])
        known = itertools.takewhile(self._labels.__contains__, rows.y[start:stop])
        return np.array([self._labels[label] for label in known], dtype=np.int64)

    # Forgetting.

    def _putter(self, trees: LabelTrees, y: Any, w: float) -> Callable[[int], None] | None:
        label = self._labels.get(y)
        if label is None or (w != 1.0 and not trees.has_weights):
            return None
        return lambda p: trees.put(np.array([label]), np.array([w]), p)
