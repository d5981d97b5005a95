"""The random cut forest, which scores anomalies among the latest samples."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from .. import arguments, checks
from ..frames import Frame, mapping_of, read_frame
from ..inputs import FeatureIndex, Floats, ordered
from ..limits import LARGEST, LEAST_LEVEL
from ..model import locked
from ..partitions.mondrian.tree_store import WARM_UP
from ..posteriors import displacement
from ..progress import in_pieces
from . import forgetting, inspection

# Names of the raw scores that `raw_scores_one` returns, and their indices in the kernels' output.
RAW_SCORES = {
    "displacement": displacement.DISPLACEMENT,
    "relative": displacement.RELATIVE,
    "depth": displacement.DEPTH,
    "density": displacement.DENSITY,
}


# `Values` is a mapping from feature to checked value, and `Past` the type of
# `RandomCutForest._past`.
Values: TypeAlias = dict[Any, float]
Past: TypeAlias = tuple[int, tuple[Values, ...], tuple[Values, ...]]


def _is_past(past: Any, shingle: int) -> bool:
    """Return whether an object from a file is a valid tuple of past samples for a shingle."""
    if type(past) is not tuple or len(past) >= shingle:
        return False
    if not all(type(sample) is dict for sample in past):
        return False
    values = [value for sample in past for value in sample.values()]
    return all(
        type(value) is float and (abs(value) <= LARGEST or LEAST_LEVEL <= value < 2.0 * LEAST_LEVEL)
        for value in values
    )


@dataclass(eq=False, repr=False)
class RandomCutForest(forgetting.WindowForest, inspection.ScoringDetector):
    """Random cut forest for anomaly detection over the latest samples.

    Each tree cuts the box of its stored samples until only equal samples are together[^1]. A cut's
    feature is chosen in proportion to the box's sides, and the cut is uniform within the side.
    Usually, one of the first cuts separates an anomalous sample from the other samples. Inserting
    the sample then displaces many samples: all samples on the other side of this cut move one level
    down. When a sample is inserted into full trees, the oldest sample is removed. Given the widths,
    and without missing values, the trees are then distributed exactly like trees of the remaining
    samples.

    A scored sample is not inserted. Each tree computes the probabilities of all insertion points on
    the sample's path, and scores average over these points. Scores are thus less random than scores
    after one insertion.

    Parameters
    ----------
    n_estimators
        Number of trees.
    window
        Number of the latest samples, on average, from which the stored samples are drawn. None
        stores all samples and ignores `max_samples`.
    max_samples
        Largest number of samples that the trees store. If `window` is larger than this number, full
        trees learn a sample with the probability `max_samples` / `window`. All trees store the same
        samples. If `max_samples` is at least `window`, the trees store exactly the latest `window`
        samples.
    shingle
        Number of successive mappings that form one sample. With a `shingle` above 1, the detector
        also finds anomalous patterns in a time series. A sample consists of a mapping and the
        `shingle` - 1 mappings before this mapping. The sample's features are pairs (feature,
        samples ago). Until `shingle` - 1 mappings have been learned, scores are 0.
    scale
        Whether to divide each feature by its width. A width is the range of the values within 100
        interquartile ranges of the quartiles. If most values of a feature are equal, the quartiles
        of the other values are used, and the range includes the most frequent value. Widths are
        renewed after 1, 2, 4, ..., 256 samples, and checked again later (see `rescale`). Scaled
        values are clipped to [-1e30, 1e30].
    ranges
        Known ranges: a mapping from feature to its lowest and highest value, (low, high). All
        values of these features, also those in a shingle, are divided by high - low.
    rescale
        Whether to check widths again, from 256 inserted samples on, each time the number of
        inserted samples has grown by 50 % of the stored samples. The trees are redrawn if a
        feature's width has changed by a factor above 2 and its interquartile range, if known, by a
        factor above 1.7. Redrawing is spread over `learn_one` calls, one tree after the other.
    missing
        Meaning of an absent key, None and NaN: "unknown" or "zero". A mapping, such as `{"word_":
        "zero"}`, sets the meaning by a feature's name or prefix; the longest matching key applies.
        Missing values of other features are unknown.
    n_jobs
        Number of threads of `score_many`; -1 for one thread per processor that the process may use.
        Results do not depend on `n_jobs`.
    seed
        Random seed for reproducibility.

    Notes
    -----
    A sample's displacement in a tree is the collusive displacement of Guha et al.[^1]. Each subtree
    that would contain the sample has a ratio: the number of samples in the sibling subtree, divided
    by the number in the subtree. The displacement is the largest ratio, so a group of similar
    samples far from the others is anomalous, too.

    The score is a rank. Let r be the mean over trees of log(1 + displacement), divided by log(1 +
    n), where n is the number of stored samples. A sample that the first cut separates from all
    others has r = 1. `score_one` is the share of the latest 4,096 samples with a smaller r,
    interpolated linearly between two values of r; each r was computed before its sample was
    learned. A score of .99 means that one of 100 recent samples was at least as anomalous. Beyond
    the largest r, the score tends to 1. The first 32 samples (fewer if `max_samples` or `window` is
    smaller) are not ranked, and their scores are 0.

    A missing value is ignored in distances, as in `MondrianForestClassifier`. The first value fixes
    a feature's type: a number or a category. Each tree maps levels to numbers in [0, 1] by its own
    hash.

    With 50 trees, 512 samples of 10 features take 3.7 MB.

    Examples
    --------

    >>> from river import datasets, metrics
    >>> from river_mondrian import RandomCutForest

    >>> detector = RandomCutForest(seed=42)
    >>> metric = metrics.ROCAUC()
    >>> for x, y in datasets.Shuttle().take(2000):
    ...     metric.update(y, detector.score_one(x))
    ...     detector.learn_one(x)
    >>> float(metric.get()) > 0.85
    True

    Mark samples that are rarer than one in a thousand, and do not learn them. The filter compares
    scores with the .999 quantile of all earlier scores. A fixed threshold of .999 would mark more
    and more of the new samples, because scores are ranks among learned samples only.

    >>> from river import anomaly

    >>> guarded = anomaly.QuantileFilter(RandomCutForest(n_estimators=20, seed=42), q=0.999)
    >>> for i in range(500):
    ...     guarded.learn_one({"a": i % 7, "b": i % 11})
    >>> score = guarded.score_one({"a": 70.0, "b": 3.0})
    >>> guarded.classify(score)
    True

    Score a series in shingles of 12 values, and find the most anomalous value:

    >>> import math

    >>> detector = RandomCutForest(shingle=12, seed=42)
    >>> for t in range(600):
    ...     detector.learn_one({"load": math.sin(t / 4)})
    >>> detector.score_one({"load": 3.0}) > detector.score_one({"load": math.sin(150)})
    True
    >>> shares = detector.explain_one({"load": 3.0})
    >>> max(shares, key=shares.get)
    ('load', 0)

    References
    ----------
    [^1]: Guha, S., Mishra, N., Roy, G. and Schrijvers, O. (2016). Robust Random Cut Forest Based
    Anomaly Detection on Streams. International Conference on Machine Learning 33. Definitions 1
    and 4, Section 3.

    """

    n_estimators: int = 50
    window: int | None = 2048
    max_samples: int = 512
    shingle: int = 1
    scale: bool = True
    ranges: Mapping[Any, tuple[float, float]] | None = None
    rescale: bool = True
    missing: arguments.Missing = "unknown"
    n_jobs: int = 1
    seed: int | None = None

    def __post_init__(self) -> None:
        # A tuple (n, old, new). The earlier samples in the next shingle, latest first, are `old`
        # while n samples have been learned, and `new` otherwise.
        self._past: Past = -1, (), ()
        super().__post_init__()

    _REHEARSED: ClassVar[Mapping[str, Any]] = {"n_estimators": 2, "window": WARM_UP}
    # Name of the raw score in pictures.
    _SCORE = "log(1 + displacement) / log(1 + n)"

    def _make_trees(self) -> displacement.CutTrees:
        ranges, window, entering = self.ranges or {}, self.window, 1.0
        if window is not None:
            window, entering = min(window, self.max_samples), min(1.0, self.max_samples / window)
        if self.shingle > 1:
            ranges = {(name, k): ends for name, ends in ranges.items() for k in range(self.shingle)}
        partitions = self._partitions(self.n_estimators, window=window, ranges=ranges)
        return displacement.CutTrees(partitions, entering)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        n, *pasts = self._past if len(self._past) == 3 else (None,)
        if type(n) is not int or not all(_is_past(past, self.shingle) for past in pasts):
            checks.refuse(self, "_past", self._past, "but it should be a number and two pasts")

    # Learning.

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Learn a sample, and insert it into every tree if the trees are not full.

        In full trees, the sample replaces the oldest sample with the probability `max_samples` /
        `window`, at most 1. With a `shingle` above 1, the inserted sample is the latest shingle.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category: a string or truth value.
            NaN and None are the same as an absent key.

        Raises
        ------
        TypeError
            If a value is neither a number nor a level, or does not have its feature's type.
        ValueError
            If a value is infinite or too large for single precision. Then the forest does not
            change.

        """
        with self._lock:
            trees = self._whole()
            is_alone = self.shingle == 1
            if is_alone and trees is not None and self._features.read_known(x, trees.vector):
                self._learn_written(trees)
                return
            values = self._read(x)
            joined = self._joined(values)
            if not is_alone:
                # Levels are stored as codes, because files store only plain numbers.
                plain = {name: float(value) for name, value in values.items()}
                before, n = self._past_now(), -1 if joined is None else self.n_samples
                # After an interruption, `_past_now` returns the new past only if the sample has
                # been learned, because the number of samples is then no longer n.
                self._past = n, before, (plain, *before)[: self.shingle - 1]
            if joined is not None:
                self._learn_new(joined, self._learn_written)

    _learn_row = learn_one

    def _learn_written(self, trees: displacement.CutTrees) -> None:
        """Learn the sample in `trees.vector`."""
        self._check_input(trees, trees.learn())

    def _learn_rows(self, names: list[Hashable], columns: Floats) -> None:
        for row in columns:
            # The lock is taken for each row, so that other threads can call between rows.
            self._learn_row(mapping_of(names, row))

    @locked
    def forget_one(self, x: Mapping[Any, Any]) -> None:
        """Remove a stored sample from the trees before it expires.

        The trees are then distributed like trees that never learned the sample (see
        `MondrianForestClassifier.forget_one`). `score_one` still ranks samples among the same
        earlier scores. But after its last sample has been removed, a forest equals a new forest,
        which has no earlier scores.

        Parameters
        ----------
        x
            A mapping from feature to value, as it was learned.

        Raises
        ------
        KeyError
            If no stored sample equals this sample. Then the forest does not change.
        TypeError
            If a value is neither a number nor a level.
        ValueError
            If a value is infinite, or if `shingle` is above 1, because a mapping is part of several
            samples.

        """
        if self.shingle > 1:
            raise ValueError(f"forget_one needs shingle=1, got shingle={self.shingle}")
        trees = self._write_known(self._read(x))
        if trees is None or not self._take_out(trees, lambda p: None):
            raise KeyError(f"no stored sample equals {dict(x)!r}")

    # Shingles.

    def _kinds(self) -> FeatureIndex:
        """Return the features of single mappings, with their types."""
        categories, index = self._features.categories, FeatureIndex()
        if self.shingle == 1:
            return self._features
        if len(self._features):
            # All features of past samples are known, because past samples are part of the last
            # learned shingle.
            names: list[Any] = self._features.names
            kinds = {name[0]: LEAST_LEVEL if name in categories else 0.0 for name in names}
            return index.with_more(kinds)
        past = self._past_now()
        return index.with_more({name: value for values in past for name, value in values.items()})

    def _read(self, x: Mapping[Any, Any]) -> Values:
        """Return a mapping's checked values; with shingles, converted to their features' types."""
        return self._kinds().read(x, levels=True)

    @locked
    def _read_frame(self, X: Any) -> Frame:
        """Return a frame's values after checking that columns have the types of their features."""
        return read_frame(X, self._kinds())

    def _past_now(self) -> tuple[Values, ...]:
        """Return the earlier samples in the next shingle, latest first."""
        n, before, after = self._past
        return before if n == self.n_samples else after

    def _joined(self, values: Values) -> Values | None:
        """Return a sample joined with earlier samples, or None if earlier samples are too few."""
        if self.shingle == 1:
            return values
        samples = (values, *self._past_now())
        if len(samples) < self.shingle:
            return None
        return {
            (name, ago): float(value)
            for ago, sample in enumerate(samples)
            for name, value in sample.items()
        }

    # Scores.

    def _readings(self, x: Mapping[Any, Any]) -> Floats:
        """Write a sample to the trees' vector; return its raw scores and rank.

        These numbers are 0 before the first full shingle has been learned.
        """
        trees = self._whole()
        if trees is not None and self.shingle == 1:
            self._write(x, trees)
        else:
            joined = self._joined(self._read(x))
            if trees is None or joined is None:
                return np.zeros(displacement.N_READINGS)
            self._features.write(joined, trees.vector)
        self._check_input(trees, trees.score())
        return trees.out

    def score_one(self, x: Mapping[Any, Any]) -> float:
        """Return the share of recent samples that were less anomalous, within [0, 1].

        The model does not change.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category; unknown features are
            ignored.

        Returns
        -------
        The rank of the sample's relative displacement among the latest 4,096 relative displacements
        (see the notes of the class). The score is 0 before the first displacement has been
        recorded.

        Raises
        ------
        TypeError
            If a value is neither a number nor a level, or does not have its feature's type.
        ValueError
            If a value is infinite or too large for single precision.

        """
        with self._lock:
            return float(self._readings(x)[displacement.RANK])

    def _score_rows(self, names: list[Hashable], columns: Floats, progress: bool) -> Floats:
        scores, trees = np.zeros(len(columns)), self._trees
        n_short = 0
        if self.shingle > 1:
            names, columns, n_short = self._joined_rows(names, columns)
        if trees is not None and len(columns):
            rows = self._arrange(names, columns)
            readings = in_pieces(lambda part: trees.score_rows(part, self.n_jobs), rows, progress)
            scores[n_short:] = readings[:, displacement.RANK]
        return scores

    def _joined_rows(
        self, names: list[Hashable], columns: Floats
    ) -> tuple[list[Hashable], Floats, int]:
        """Return a frame's rows as shingles, with names and the number of missing rows.

        The missing rows are the mappings that are still to come before the first full shingle.
        """
        past = self._past_now()[::-1]
        every = [*names, *ordered({name for values in past for name in values} - {*names})]
        rows = np.full((len(past) + len(columns), len(every)), np.nan)
        for i, values in enumerate(past):
            rows[i] = [values.get(name, math.nan) for name in every]
        rows[len(past) :, : len(names)] = columns
        n_short = self.shingle - 1 - len(past)
        if len(rows) < self.shingle:
            return [], np.zeros((0, 0)), n_short
        shingles = np.lib.stride_tricks.sliding_window_view(rows, self.shingle, axis=0)
        joined: list[Hashable] = [(name, k) for name in every for k in range(self.shingle)[::-1]]
        return joined, shingles.reshape(len(shingles), -1), n_short

    def raw_scores_one(self, x: Mapping[Any, Any]) -> dict[str, float]:
        """Return the raw scores of a sample by name.

        Raises the same errors as `score_one`.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category; unknown features are
            ignored.

        Returns
        -------
        A mapping from name to number. All numbers are 0 before the first sample. Below, n is the
        number of stored samples.

        - "displacement": the mean displacement over trees (see the notes of the class), from 0 to
          n; larger for rarer samples.
        - "relative": the mean over trees of log(1 + displacement), divided by log(1 + n).
          `score_one` is the rank of this score.
        - "depth": the mean number of cuts above the inserted sample; smaller for rarer samples.
        - "density": the mean over trees of the share of the stored samples in the cell of the
          sample x at time 2. With many trees, this share tends to the mean of exp(-2 |x - y|_1)
          over the stored samples y, in units of the features' widths.

        """
        with self._lock:
            readings = self._readings(x)
            return {name: float(readings[i]) for name, i in RAW_SCORES.items()}

    @property
    @locked
    def recent_scores(self) -> list[float]:
        """Raw scores ("relative") of the latest samples, at most 4,096, oldest first.

        Each score was computed before the trees learned the sample. The first samples have no score
        (see the notes of the class), because each sample is anomalous among few samples.
        """
        return [] if self._trees is None else self._trees.scores.latest.tolist()

    @locked
    def explain_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return the contribution of each feature to the score.

        In each tree, the cut with the largest ratio determines the displacement (see the notes of
        the class). If this cut separates only the sample, the displacement is shared among the
        features in which the sample is outside the other samples' box. The shares are proportional
        to the distances from this box. Otherwise, the displacement is attributed to the cut's
        feature. An explanation takes several milliseconds for 50 trees.

        Raises the same errors as `score_one`.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category; unknown features are
            ignored.

        Returns
        -------
        A mapping from feature to its contribution, 0 or more. Contributions add up to `score_one`.
        The mapping is empty before any feature has been learned.

        """
        score, trees = float(self._readings(x)[displacement.RANK]), self._trees
        if trees is None:
            return {}
        parts = trees.reader.explain(trees.vector[: trees.n_inputs])[1]
        if not parts.any():
            # No cut separates equal samples, so each feature gets the same share.
            parts = np.ones(len(parts))
        shares = parts / parts.sum()
        return dict(zip(self.feature_names, (score * shares).tolist(), strict=True))

    # Reading.

    @property
    def _n_mappings(self) -> int:
        return self.n_samples + len(self._past_now())

    def _summary(self, x: Mapping[Any, Any]) -> list[str]:
        readings = self._readings(x)
        raw = [f"{name} {readings[i]:.4g}" for name, i in RAW_SCORES.items()]
        return [*raw, f"rank {readings[displacement.RANK]:.4f}"]
