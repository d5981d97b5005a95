"""Mondrian forests as River estimators."""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from river import base
from river.utils.dataframe import to_native_frame, to_native_series

from . import reading
from .inputs import (
    FeatureIndex,
    check_integer,
    check_label,
    is_real,
    ordered,
    read_frame,
    read_labels,
)
from .trees import WARM_UP, MondrianTrees

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


class MondrianForestClassifier(base.MiniBatchClassifier):
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
        default, infinity, cuts until each leaf holds one class or one place.
    gamma
        How fast a node's label distribution may move away from its parent's, per unit of time:
        the discount is exp(-gamma * time between the two). None stands for 10 times the number of
        features known after the first 256 samples (so far, until then).
    split_pure
        Whether to cut blocks whose samples all have the same label. The default pauses them until
        another label arrives, and samples then what waiting has hidden (Algorithms 9 and 10).
    max_nodes
        Number of nodes, leaves included, at which a tree stops being cut. From then on boxes and
        counts go on learning, and the samples are not stored any more. None sets no limit.
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

    """

    def __init__(
        self,
        n_estimators: int = 10,
        lifetime: float = math.inf,
        gamma: float | None = None,
        split_pure: bool = False,
        max_nodes: int | None = None,
        scale: bool = True,
        n_jobs: int = 1,
        seed: int | None = None,
    ) -> None:
        check_integer("n_estimators", n_estimators, 1)
        check_integer("n_jobs", n_jobs, 1)
        if max_nodes is not None:
            check_integer("max_nodes", max_nodes, 1)
        if not is_real(lifetime) or not lifetime >= 0.0:
            raise ValueError(f"lifetime must be a number >= 0, got {lifetime!r}")
        if gamma is not None and not (is_real(gamma) and 0.0 < gamma < math.inf):
            raise ValueError(f"gamma must be None or a finite number > 0, got {gamma!r}")
        self.n_estimators = n_estimators
        self.lifetime = lifetime
        self.gamma = gamma
        self.split_pure = split_pure
        self.max_nodes = max_nodes
        self.scale = scale
        self.n_jobs = n_jobs
        self.seed = seed
        self._features = FeatureIndex()
        self._labels: dict[Hashable, int] = {}
        self._trees: MondrianTrees | None = None

    @property
    def _multiclass(self) -> bool:
        return True

    # What has been seen.

    @property
    def classes(self) -> list[Any]:
        """The labels seen so far, in order of appearance."""
        return list(self._labels)

    @property
    def features(self) -> list[Any]:
        """The features seen so far, in the order in which the trees keep them."""
        return list(self._features.names)

    @property
    def n_samples(self) -> int:
        """Number of samples learned."""
        return 0 if self._trees is None else self._trees.n_samples

    def _grown(self) -> MondrianTrees:
        """Return the trees, made at first use so that an unseeded clone draws its own seed."""
        if self._trees is None:
            self._trees = MondrianTrees(
                self.n_estimators,
                self.lifetime,
                self.gamma,
                self.split_pure,
                self.max_nodes,
                self.scale,
                self.seed,
            )
        return self._trees

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
            label = self._labels.get(y)
        except TypeError:
            label = None
        if trees is None or label is None or not self._features.read_known(x, trees.vector):
            check_label(y)
            values = self._features.read(x)
            trees = self._grown()
            self._add_features({name: values[name] for name in ordered(values)})
            self._features.write(values, trees.vector)
            label = self._add_label(y)
        bad = trees.learn(label)
        if bad >= 0:
            raise self._too_large(bad, trees.vector[bad])

    def _add_features(self, values: Mapping[Hashable, float]) -> None:
        new = {name: value for name, value in values.items() if name not in self._features.places}
        if new:
            self._grown().add_dims(np.array(list(new.values())))
            self._features.add(new)

    def _add_label(self, y: Hashable) -> int:
        label = self._labels.get(y)
        if label is None:
            label = self._labels[y] = self._grown().add_class()
        return label

    def _too_large(self, dim: int, value: float) -> ValueError:
        return ValueError(
            f"feature {self._features.names[dim]!r} must be finite in single precision, "
            f"got {float(value)!r}"
        )

    def _predict(self, x: Mapping[Any, Any]) -> int:
        trees = self._trees
        assert trees is not None
        if not self._features.read_known(x, trees.vector):
            self._features.write(self._features.read(x), trees.vector)
        best = trees.predict()
        if best < 0:
            raise self._too_large(-2 - best, trees.vector[-2 - best])
        return best

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Predict the probability of each label seen so far.

        Parameters
        ----------
        x
            A mapping from feature to number; unknown features are ignored.

        Returns
        -------
        A mapping from label to probability; empty before any learning.

        """
        if self._trees is None:
            return {}
        self._predict(x)
        return dict(zip(self._labels, self._trees.out[0].tolist(), strict=True))

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """Predict the most probable label, the one seen first where several are; None at first."""
        if self._trees is None:
            return None
        best = self._predict(x)
        for label, number in self._labels.items():
            if number == best:
                return label
        raise AssertionError("a class without a label")

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
        start = 0
        known = ~np.isnan(columns)
        while start < len(labels) and self.n_samples < WARM_UP:
            row = {
                name: float(value)
                for name, value, there in zip(names, columns[start], known[start], strict=True)
                if there
            }
            self.learn_one(row, labels[start])
            start += 1
        if start == len(labels):
            return
        trees = self._grown()
        first = {
            name: int(rows.argmax()) + start
            for name, rows in zip(names, known[start:].T, strict=True)
            if rows.any()
        }
        place = {name: i for i, name in enumerate(names)}
        for name in sorted(ordered(first), key=first.__getitem__):
            self._add_features({name: float(columns[first[name], place[name]])})
        values = self._arrange(names, columns[start:], trees)
        numbers = np.array([self._add_label(label) for label in labels[start:]], dtype=np.int64)
        trees.learn_rows(values, numbers, self.n_jobs)

    def _arrange(
        self, names: list[Hashable], columns: NDArray[np.float64], trees: MondrianTrees
    ) -> NDArray[np.float64]:
        """Bring a frame's columns into the features' order."""
        values = np.full((len(columns), trees.values.shape[1]), np.nan)
        for source, name in enumerate(names):
            target = self._features.places.get(name)
            if target is not None:
                values[:, target] = columns[:, source]
        return values

    def _predict_rows(self, X: Any) -> tuple[Any, NDArray[np.float64]]:
        frame, names, columns = read_frame(X)
        if self._trees is None:
            return frame, np.empty((len(columns), 0))
        values = self._arrange(names, columns, self._trees)
        return frame, self._trees.predict_rows(values, self.n_jobs)

    def predict_proba_many(self, X: Any) -> Any:
        """Predict the probability of each label for the rows of a frame.

        Returns
        -------
        A frame of the same kind (and pandas index) with a column per label; no column before any
        learning.

        """
        frame, probabilities = self._predict_rows(X)
        columns = dict(zip(self._labels, probabilities.T, strict=False))
        return to_native_frame(columns, like=frame)

    def predict_many(self, X: Any) -> Any:
        """Predict the most probable label for the rows of a frame.

        Returns
        -------
        A series of the same kind (and pandas index); None per row before any learning.

        """
        frame, probabilities = self._predict_rows(X)
        if self._trees is None:
            return to_native_series([None] * len(probabilities), name=None, like=frame)
        classes = self.classes
        labels = [classes[k] for k in probabilities.argmax(axis=1)]
        return to_native_series(labels, name=None, like=frame)

    def resample(self) -> None:
        """Draw the whole forest anew from the samples learned so far, in batch.

        This is Algorithm 1 (9 where blocks pause) instead of the online extension: another draw
        from the same law.

        Raises
        ------
        ValueError
            If `max_nodes` has stopped the forest from storing its samples.

        """
        if self._trees is None:
            return
        if self._trees.n_points < self._trees.n_samples:
            raise ValueError("samples have not been stored since every tree reached max_nodes")
        self._trees.build()

    # Reading.

    def debug_one(self, x: Mapping[Any, Any], tree: int = 0) -> str:
        """Describe how one tree predicts a sample.

        Parameters
        ----------
        x
            A mapping from feature to number.
        tree
            Number of the tree.

        Returns
        -------
        The path, a line per node (the cut, the time, the samples, the probability that `x` has
        branched off by then), and the forest's probabilities.

        """
        return reading.describe(self, x, tree)

    def to_dataframe(self, tree: int = 0) -> pd.DataFrame:
        """Return the nodes of a tree in preorder.

        Parameters
        ----------
        tree
            Number of the tree.

        Returns
        -------
        A frame with the columns parent, left, right (node numbers, -1 for none), depth, is_leaf,
        paused, time, feature, threshold (in the feature's own units), n_samples, and count_LABEL
        (the counts of the posterior: Algorithm 5's c).

        """
        return reading.to_dataframe(self, tree)

    def draw(self, tree: int = 0, ax: Axes | None = None) -> Axes:
        """Draw a tree on its time axis with matplotlib; see Figure 1(b) of the paper."""
        return reading.draw(self, tree, ax)

    def draw_partition(self, tree: int = 0, ax: Axes | None = None) -> Axes:
        """Draw a tree's partition of the plane with matplotlib; see Figure 1(a) of the paper.

        Raises
        ------
        ValueError
            If the forest does not have exactly two features.

        """
        return reading.draw_partition(self, tree, ax)

    @classmethod
    def warmup(cls) -> None:
        """Compile the kernels, or load them from numba's cache, ahead of the first sample."""
        model = cls(n_estimators=2, lifetime=8.0, seed=1)
        for i in range(WARM_UP + 2):
            x = {"a": (i * 37 % 101) / 101, "b": (i * 53 % 103) / 103}
            model.learn_one(x, i % 3)
        model.predict_one({"a": 0.5, "b": 0.5})
        model.predict_one({"a": 0.5})
        trees = model._grown()
        trees.learn_rows(np.full((2, 2), 0.5), np.zeros(2, dtype=np.int64), 1)
        trees.predict_rows(np.full((2, 2), 0.5), 1)

    @property
    def _raw_memory_usage(self) -> int:
        size = sys.getsizeof(self) + sys.getsizeof(self.__dict__) + self._features.nbytes
        size += sys.getsizeof(self._labels) + sum(sys.getsizeof(label) for label in self._labels)
        if self._trees is not None:
            size += self._trees.nbytes
        return size
