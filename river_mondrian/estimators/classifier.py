"""The Mondrian forest classifier."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arguments import check_flag, is_real
from ..directions import Directions
from ..inputs import check_label, read_frame, read_labels
from ..partitions.mondrian.tree_memory import WARM_UP
from ..posteriors.labels.trees import LabelTrees
from .forest import LabelForest, warmup_samples


class MondrianForestClassifier(LabelForest[LabelTrees]):
    """Mondrian forest classifier.

    An ensemble of Mondrian trees[^1]. A tree cuts the box of its samples at random times and
    places, without looking at labels, and is extended by each new sample such that the online
    forest has exactly the law of one that was built from all samples at once, whatever their
    order. Each tree smooths its label counts towards the root with a hierarchy of normalized
    stable processes (interpolated Kneser-Ney counts), and a prediction integrates over every
    place where the sample might branch off: far from the data it tends to the prior.

    Features need no scaling. A feature that is absent from the mapping, NaN, or null in a frame
    is missing. It adds no distance to any box. A learned sample goes, at a cut on a missing
    feature, to the side whose box is nearer in the features it has, to the larger side where both
    are as near; a prediction follows both sides there, each with its share of the samples, while
    a side's share is at least 2 %. Features and classes may appear at any time.

    Parameters
    ----------
    n_estimators
        Number of trees.
    lifetime
        Time at which the trees stop being cut. A box is cut at a rate equal to the sum of its
        side lengths, in units of the scaled features (of the raw ones with `scale=False`). The
        default, infinity, cuts until each leaf holds one class or one place. A frozen distribution
        of `scipy.stats` is drawn from once for each tree.
    gamma
        How fast a node's label distribution may move away from its parent's, per unit of time:
        the discount is exp(-gamma * time between the two). None stands for 10 times the number of
        features known after the first 256 samples (so far, until then).
    split_pure
        Whether to cut blocks whose samples all have the same label. The default pauses them until
        another label arrives, and samples then what waiting has hidden (Algorithms 9 and 10).
    max_nodes
        Number of nodes, leaves included, at which a tree stops being cut. From then on its boxes
        and counts go on learning. Samples are not stored any more once all trees are there and the
        first 256 samples are over. None sets no limit.
    directions
        Directions in which to cut, on the scaled features: None for the axes, a number of random
        directions for each tree, or a sequence of mappings from feature to coefficient. See the
        notes.
    scale
        Whether to divide each feature by its range. The ranges are those of the samples so far,
        refreshed by building the forest anew from its stored samples after 1, 2, 4, ... samples,
        and fixed after 256. A feature that has not varied by then is divided by its magnitude.
        Scaled values end at 1e30.
    n_jobs
        Number of threads of `learn_many`, `predict_many` and `predict_proba_many`. The results do
        not depend on it.
    seed
        Random seed for reproducibility.

    Notes
    -----
    A forest keeps all samples that it has learned, once for all trees, until `max_nodes` is
    reached in each.

    With an infinite lifetime the discount of a paused leaf is 0: inside the box of a block of one
    class that class has probability 1.

    With `directions` the trees cut the sums of coefficients times features instead of the features:
    a STIT process[^2]. Given mappings serve all trees, and the norm of each is its weight. Random
    directions are uniform on the sphere, with a norm at which the cells are those of the isotropic
    exponential kernel exp(-lifetime |x - y|_2) where they are many; they are drawn for the features
    of the first 256 samples (of the first one with `scale=False`), and a feature that appears later
    is added to them by normal coefficients. A missing value counts as the mean of those learned so
    far, a feature that has not appeared yet as its first value, and a direction all of whose
    features are missing is missing.

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

    def __init__(
        self,
        n_estimators: int = 10,
        lifetime: Any = math.inf,
        gamma: float | None = None,
        split_pure: bool = False,
        max_nodes: int | None = None,
        directions: Directions = None,
        scale: bool = True,
        n_jobs: int = 1,
        seed: int | None = None,
    ) -> None:
        if gamma is not None and not (is_real(gamma) and 0.0 < gamma < math.inf):
            raise ValueError(f"gamma must be None or a finite number > 0, got {gamma!r}")
        check_flag("split_pure", split_pure)
        self.n_estimators = n_estimators
        self.lifetime = lifetime
        self.gamma = gamma
        self.split_pure = split_pure
        self.max_nodes = max_nodes
        self.directions = directions
        self.scale = scale
        self.n_jobs = n_jobs
        self.seed = seed
        self._begin()

    def _make_trees(self) -> LabelTrees:
        return LabelTrees(self._partitions(self.lifetime), self.gamma, self.split_pure)

    # One sample.

    def learn_one(self, x: Mapping[Any, Any], y: Any) -> None:
        """Extend every tree by a sample.

        Parameters
        ----------
        x
            A mapping from feature to number. NaN is the same as an absent key. With no feature
            at all only the label is learned.
        y
            A label: anything hashable but None and NaN.

        Raises
        ------
        TypeError
            If a value is no number or the label is not hashable.
        ValueError
            If a value is infinite or too large for single precision, or the label is missing.

        """
        trees = self._trees
        try:
            label = self._labels[y]
        except (KeyError, TypeError):
            label = None
        if trees is None or label is None or not self._features.read_known(x, trees.vector):
            check_label(y)
            trees = self._write_new(self._features.read(x))
            label = self._add_label(y)
        bad = trees.learn(label)
        if bad >= 0:
            raise self._too_large(bad, trees.vector[bad])

    def _add_label(self, y: Hashable) -> int:
        label = self._labels.get(y)
        if label is None:
            label = self._labels[y] = self._grown().add_class()
        return label

    # Many samples.

    def learn_many(self, X: Any, y: Any) -> None:
        """Extend every tree by the rows of a frame, in order.

        The result is that of `learn_one` on each row.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame of numbers; nulls and NaN are missing.
        y
            The labels of its rows.

        Raises
        ------
        TypeError
            If a column holds something that is no number or a label is not hashable.
        ValueError
            If a value is infinite, a label missing, a column doubled or a length wrong; nothing
            has been learned then.

        """
        _, names, columns = read_frame(X)
        labels = read_labels(y, len(columns))
        if not labels:
            return
        rest = self._learn_first_rows(names, columns, lambda row, i: self.learn_one(row, labels[i]))
        if len(rest):
            numbers = [self._add_label(label) for label in labels[-len(rest) :]]
            self._grown().learn_rows(rest, np.array(numbers, dtype=np.int64), self.n_jobs)

    def _predict_rows(self, X: Any) -> tuple[Any, NDArray[np.float64]]:
        frame, values = self._read_rows(X)
        if values is None:
            return frame, np.empty((len(frame), 0))
        return frame, self._grown().predict_rows(values, self.n_jobs)

    @classmethod
    def warmup(cls) -> None:
        """Compile the kernels, or load them from disk, ahead of the first sample."""
        model = cls(n_estimators=2, lifetime=8.0, seed=1)
        for x, y in warmup_samples(WARM_UP + 2):
            model.learn_one(x, y)
        model.predict_one({"a": 0.5, "b": 0.5})
        model.predict_one({"a": 0.5})
        trees = model._grown()
        trees.learn_rows(np.full((2, 2), 0.5), np.zeros(2, dtype=np.int64), 1)
        trees.predict_rows(np.full((2, 2), 0.5), 1)
