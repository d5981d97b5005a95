"""The Mondrian forest classifier."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..arguments import Directions, check_flag, is_real
from ..frames import Block, Frame, read_block, read_labels
from ..inputs import FeatureIndex, check_label, check_weight, ordered
from ..limits import DONE, TOO_LARGE, WAITS
from ..model import locked
from ..posteriors.labels.trees import LabelTrees
from ..progress import Progress, in_pieces
from .forest import Prepared
from .forgetting import ForgettingForest
from .label_forest import LabelForest


class _Calls(Prepared):
    """What learning one sample needs, too."""

    __slots__ = ("learn",)

    def __init__(
        self, trees: LabelTrees, features: FeatureIndex, labels: dict[Hashable, int]
    ) -> None:
        super().__init__(trees, features, labels)
        self.learn = trees.learner()


class MondrianForestClassifier(ForgettingForest[LabelTrees], LabelForest[LabelTrees, _Calls]):
    """Mondrian forest classifier.

    An ensemble of Mondrian trees[^1]. A tree cuts the box of its samples at random times and
    places, and ignores labels. Each new sample extends it such that the online forest is
    distributed exactly like one built from all samples at once, in any order. Each tree smooths its
    label counts towards the root with a hierarchy of normalized stable processes (interpolated
    Kneser-Ney counts). A prediction integrates over all places where the sample might branch off.
    Far from the data it tends to the prior.

    Features need no scaling. A feature that is absent from the mapping, NaN, or null in a frame is
    missing, and is ignored in distances. At a cut on a missing feature, a learned sample goes to
    the side whose box is nearer in its other features, or to the larger side if both are equally
    near. A prediction follows both sides there, each with its share of the samples, while a side's
    share is at least 2 %. Features and classes may appear at any time.

    Parameters
    ----------
    n_estimators
        Number of trees.
    lifetime
        Time at which splitting stops. A box is cut at a rate equal to the sum of its side lengths,
        in units of the scaled features (of the raw ones with `scale=False`). The default, infinity,
        cuts until each leaf holds one class or one place. A frozen distribution of `scipy.stats` is
        sampled once for each tree.
    prior_rate
        How fast a node's label distribution may move away from its parent's, per unit of time:
        the discount is exp(-prior_rate * time between the two). None stands for 10 times the number
        of features known after the first 256 samples (so far, until then).
    split_pure
        Whether to cut blocks whose samples all have the same label. The default pauses them until
        another label arrives, and then samples the postponed cuts (Algorithms 9 and 10).
    window
        Largest number of samples that the trees store: the latest ones. When another sample is
        learned, the oldest is removed from every tree. So the forest is distributed like one that
        has learned the window alone, given the widths, which are those of the window, too. None for
        all samples. See `forget_one` for samples with missing values. It needs `max_nodes=None`.
    max_nodes
        Number of nodes, leaves included, at which a tree stops splitting. Its boxes and counts
        continue to learn. Once all trees have stopped and the first 256 samples are over, samples
        are no longer stored. None sets no limit.
    directions
        Directions in which to cut, on the scaled features: None for the axes, a number of random
        directions for each tree, or a sequence of mappings from feature to coefficient. See the
        notes.
    scale
        Whether to divide each feature by its width. A width is the range of the values so far
        within 100 interquartile ranges of the quartiles. For a feature that is mostly one value, it
        is the range of the others and this value. Widths are renewed by rebuilding the forest from
        its stored samples after 1, 2, 4, ... 256 samples, and checked again later (see `rescale`).
        A feature that has been constant is divided by its magnitude. Scaled values end at 1e30.
    ranges
        Known ranges: a mapping from feature to its lowest and highest value, (low, high). Such a
        feature is divided by high - low, whatever its values are.
    rescale
        Whether to check widths again after the first 256 samples, each time the number of samples
        has grown by 50 %. If a width has changed by more than a factor of 2, and the interquartile
        range by more than a factor of 1.7, the trees are redrawn from their samples under the new
        widths, one after the other, a part per sample. A stored value takes 4 more bytes for that,
        and 8 while trees are redrawn. With categories or `directions` a sample takes 8 more bytes
        per feature instead, and 4 for each value that a tree cuts. Widths always stay with
        `scale=False`, and once samples are no longer stored (`max_nodes`).
    missing
        What an absent key, None and NaN mean: "unknown", or "zero", for counts of words and one-hot
        encodings. With "zero" a feature counts as 0 in earlier samples, too. An absent category is
        a level of its own, whose place is 0 in all trees.
    n_jobs
        Number of threads of `learn_many`, `predict_many` and `predict_proba_many`; -1 for one for
        each processor that the process may use. The results do not depend on it.
    seed
        Random seed for reproducibility.

    Notes
    -----
    A forest stores all samples that it has learned, once for all trees, until each tree reaches
    `max_nodes`. With a `window` it stores the latest ones.

    The first value fixes a feature's type: a number or a category. Each tree puts a level of a
    category at its own place in [0, 1], by a hash of tree, feature and level, and cuts there as it
    cuts numbers. So there may be any number of levels, new ones at any time, and none is stored.
    Given the places, the trees are distributed like those of numbers. In a feature of numbers False
    and True count as 0 and 1.

    Weights extend Algorithm 5 to real numbers: a leaf counts the weight c of each class, and any
    node has min(c, 1) tables of it, where c is the weight below. A sample of a whole weight is
    distributed like as many repeats, under the same widths, which depend on the number of samples.
    From the first weight other than 1 on, each node takes 16 more bytes per class.

    With an infinite lifetime the discount of a paused leaf is 0: inside the box of a block of one
    class that class has probability 1.

    With `directions` the trees cut sums of coefficients times features instead of the features: a
    STIT process[^2]. Given mappings serve all trees, and the norm of each is its weight. Random
    directions are uniform on the sphere. With their norm, the kernel of many directions is the
    isotropic exponential kernel exp(-lifetime |x - y|_2). They are drawn for the features of the
    first 256 samples (of the first one with `scale=False`); a later feature is added by normal
    coefficients. A missing value counts as the unweighted mean of the values learned so far, a
    feature that has not appeared yet as its first value. A direction whose features are all missing
    is missing.

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
        prior_rate: float | None = None,
        split_pure: bool = False,
        window: int | None = None,
        max_nodes: int | None = None,
        directions: Directions = None,
        scale: bool = True,
        ranges: Mapping[Any, tuple[float, float]] | None = None,
        rescale: bool = True,
        missing: str = "unknown",
        n_jobs: int = 1,
        seed: int | None = None,
    ) -> None:
        if prior_rate is not None and not (is_real(prior_rate) and 0.0 < prior_rate < math.inf):
            raise ValueError(f"prior_rate must be None or a finite number > 0, got {prior_rate!r}")
        check_flag("split_pure", split_pure)
        self.n_estimators = n_estimators
        self.lifetime = lifetime
        self.prior_rate = prior_rate
        self.split_pure = split_pure
        self.window = window
        self.max_nodes = max_nodes
        self.directions = directions
        self.scale = scale
        self.ranges = ranges
        self.rescale = rescale
        self.missing = missing
        self.n_jobs = n_jobs
        self.seed = seed
        self._begin()

    _REHEARSED: ClassVar[Mapping[str, Any]] = {"n_estimators": 2, "lifetime": 8.0}

    def _make_trees(self) -> LabelTrees:
        return LabelTrees(self._partitions(self.n_estimators), self.prior_rate, self.split_pure)

    # One sample.

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Extend every tree by a sample.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category: a string or truth value.
            NaN and None are the same as an absent key. Without any feature only the label is
            learned.
        y
            A label: anything hashable but None and NaN.
        w
            Weight of the sample, from 0 to 1e30. One of weight 2 counts as two of weight 1; one of
            weight 0 is not learned.

        Raises
        ------
        TypeError
            If a value is neither a number nor a level, or not of the type of its feature so far; if
            the weight is no number or the label not hashable.
        ValueError
            If a value is infinite or too large for single precision, the label is missing, or the
            weight is out of range.

        """
        weight = w if type(w) is float else check_weight(w)
        prepared = self._prepared
        if prepared is not None:
            inputs = prepared.pack(x) or prepared.pack_known(x)
            try:
                label = prepared.labels[y]
            except (KeyError, TypeError):
                label = None
            if inputs is not None and label is not None:
                status = prepared.learn(inputs, label, weight)
                if status == DONE or self._complete(prepared, status, inputs, label, weight):
                    return
        self._learn_rarely(x, y, weight)

    def _complete(
        self, prepared: _Calls, status: int, inputs: bytes, label: int, weight: float
    ) -> bool:
        """Complete what a kernel has begun or lacks; False where there is more to do."""
        if status <= TOO_LARGE:
            raise prepared.too_large(TOO_LARGE - status, inputs)
        with self._lock:
            trees = self._trees
            if trees is None:
                return False
            if status == WAITS and trees.make_room():
                status = prepared.learn(inputs, label, weight)
            if status >= 0 and trees.is_changing:
                # Another thread was interrupted meanwhile.
                trees.settle()
            elif status >= 0:
                trees.complete(status)
                trees.open()
            return status != WAITS

    def _learn_rarely(self, x: Mapping[Any, Any], y: Any, weight: float) -> None:
        """Learn a sample with all that it may need besides the kernel."""
        # What the user has written runs ahead of any change.
        values = self._read(x)
        check_label(y)
        if check_weight(weight) > 0.0:
            self._learn_checked(values, y, weight)

    @locked
    def _learn_checked(self, values: dict[Hashable, float], y: Hashable, weight: float) -> None:
        # Another thread may have added a feature.
        values = self._features.agreed(values)
        trees = self._grown()
        label = self._labels.get(y)
        is_new = label is None or not values.keys() <= self._features.places.keys()
        is_new |= weight != 1.0 and not trees.has_weights
        if is_new:
            trees.begin_change()
            if weight != 1.0:
                trees.weigh()
            self._add_features({name: values[name] for name in ordered(values)})
            label = self._add_label(y)
        assert label is not None
        self._features.write(values, trees.vector)
        bad = trees.learn(label, weight)
        if bad >= 0:
            raise self._too_large(bad, trees.vector[bad])
        if is_new:
            trees.end_change()
        else:
            self._prepare(trees)

    def _new_calls(self, trees: LabelTrees) -> _Calls:
        return _Calls(trees, self._features, self._labels)

    # Many samples.

    def learn_many(self, X: Any, y: Any, w: Any = 1.0, *, progress: bool = False) -> None:
        """Extend every tree by the rows of a frame, in order.

        The result is that of `learn_one` on each row.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array of the features 0, 1, ..., with numbers
            and categories (strings, truth values, categoricals, enums); nulls and NaN are missing.
        y
            The labels of its rows, by position.
        w
            Weight of all rows, or their weights, from 0 to 1e30.
        progress
            Whether to show on stderr how many rows have been learned, by tqdm or, without it, as
            lines of text. The result is the same, bit for bit. After Ctrl-C the model has learned a
            number of whole rows.

        Raises
        ------
        TypeError
            If a column holds something that is neither a number nor a level, or not of the type of
            its feature so far; if a weight is no number or a label not hashable.
        ValueError
            If a value is infinite, a label missing, a weight out of range, a column doubled or a
            length or order wrong. Nothing is learned then.

        """
        self._learn_read(self._read_frame(X), y, w, progress)

    def _learn_read(self, frame: Frame, y: Any, w: Any, progress: bool = False) -> None:
        """Learn the rows of a frame that has been read; features and labels may be new."""
        rows = read_block(frame, y, w, read_labels)
        if not rows.w.all():
            # What weighs nothing is not learned.
            kept = np.flatnonzero(rows.w)
            labels = [rows.y[i] for i in kept.tolist()]
            rows = Block(rows.names, rows.columns[kept], labels, rows.w[kept])
        start = 0
        with Progress(progress, len(rows)) as shown:
            while start < len(rows) and self._warms_up:
                self.learn_one(rows.mapping(start), rows.y[start], float(rows.w[start]))
                start += 1
            while start < len(rows):
                shown.reach(start)
                start = self._learn_rows(rows, start)
            shown.reach(start)

    @locked
    def _learn_rows(self, rows: Block, start: int) -> int:
        """Learn rows of a frame up to the next new feature or label; returns where they end."""
        stop = min(len(rows), start + self._grown().learned_at_once(self.n_jobs))
        # Another thread may have added a feature.
        self._features.agree(rows.names, rows.columns[start:stop], start)
        trees, first = self._grown(), rows.mapping(start)
        trees.begin_change()
        if rows.w[start] != 1.0:
            trees.weigh()
        if not trees.has_weights:
            # The first of another weight begins a block.
            stop = start + int(np.append(rows.w[start:stop] == 1.0, False).argmin())
        new = self._features.first_rows(rows.names, rows.columns[start:stop])
        stop = min([stop, *(start + row for row in new.values() if row > 0)])
        self._add_features({name: first[name] for name, row in new.items() if row == 0})
        self._add_label(rows.y[start])
        numbers = list(map(self._labels.get, rows.y[start:stop]))
        if None in numbers:
            stop = start + numbers.index(None)
            del numbers[stop - start :]
        block = rows.part(start, stop)
        inputs = self._arrange(block.names, block.columns)
        trees.learn_rows(inputs, np.array(numbers, dtype=np.int64), block.w, self.n_jobs)
        trees.end_change()
        return stop

    # Forgetting.

    def _check_y(self, y: Any) -> Any:
        check_label(y)
        return y

    def _read_ys(self, y: Any, n: int, like: Any) -> list[Any]:
        return read_labels(y, n, like)

    def _putter(self, trees: LabelTrees, y: Any, w: float) -> Callable[[int], None] | None:
        label = self._labels.get(y)
        if label is None or (w != 1.0 and not trees.has_weights):
            return None
        return lambda p: trees._put(np.array([label]), np.array([w]), p)

    def _predict_rows(self, X: Any, progress: bool) -> tuple[Any, NDArray[np.float64]]:
        frame, values = self._read_rows(X)
        if values is None:
            return frame, np.empty((len(frame), 0))
        trees = self._grown()
        return frame, in_pieces(
            lambda rows: trees.predict_rows(rows, self.n_jobs), values, progress
        )
