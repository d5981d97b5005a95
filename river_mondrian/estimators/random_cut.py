"""The random cut forest: anomalies among the latest samples."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from .. import arguments, checks
from ..frames import Frame, mapping_of, native_series, read_frame
from ..inputs import FeatureIndex, Floats, Level, ordered
from ..limits import LARGEST, LEAST_LEVEL
from ..model import locked
from ..partitions.mondrian.tree_memory import WARM_UP
from ..posteriors import displacement
from ..progress import in_pieces, pieces
from . import forgetting, inspection

# The readings that `raw_scores_one` returns.
RAW_SCORES = {
    "displacement": displacement.DISPLACEMENT,
    "relative": displacement.RELATIVE,
    "depth": displacement.DEPTH,
    "density": displacement.DENSITY,
}


# Checked values of a sample, by feature; and the past (see `RandomCutForest._past_now`).
Values: TypeAlias = dict[Any, float]
Past: TypeAlias = tuple[int, tuple[Values, ...], tuple[Values, ...]]


def _is_past(past: Any, shingle: int) -> bool:
    """Return whether a stored object is a tuple of samples before the next one."""
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

    Each tree cuts the box of its stored samples until each sample is alone[^1]. A cut chooses a
    feature in proportion to the sides and a uniform place. One of the first cuts separates an
    anomalous sample from the others. Inserting it therefore displaces many samples: all those on
    the other side of that cut move one level down. When a sample enters full trees, the oldest one
    is removed. The trees are then distributed exactly like trees of the others alone.

    A scored sample is not inserted. A walk down a tree computes the probability of each insertion
    point, and scores average over all insertion points. So they are less random than scores after
    one insertion.

    Parameters
    ----------
    n_estimators
        Number of trees.
    window
        Number of the latest samples. Trees store a random part of them, on average, or all. None
        stores all samples.
    max_samples
        Largest number of samples that the trees store. If `window` is larger, a sample enters full
        trees with the probability `max_samples` / `window`, all trees or none. So the stored
        samples are a part of the latest `window`, on average. If `max_samples` is at least
        `window`, the trees store exactly the latest samples.
    shingle
        Number of successive samples that are scored and learned as one. Then a series can be
        anomalous by its course. A sample is the mapping and the `shingle` - 1 learned before it,
        and its features are pairs (feature, samples ago). Scores are 0 and nothing is learned until
        there are that many.
    scale
        Whether to divide each feature by its width. A width is the range of the values within 100
        interquartile ranges of the quartiles. For a feature that is mostly one value, it is the
        range of the others and this value. Widths are renewed after 1, 2, 4, ... 256 samples, and
        checked again later (see `rescale`). Scaled values end at 1e30.
    ranges
        Known ranges: a mapping from feature to its lowest and highest value, (low, high). Such a
        feature is divided by high - low, in shingles all its values.
    rescale
        Whether to check widths again after the first 256 samples, each time the number of samples
        has grown by 50 %. If a width has changed by more than a factor of 2, and the interquartile
        range by more than a factor of 1.7, the trees are redrawn from their samples under the new
        widths, one after the other, a part per sample.
    missing
        What an absent key, None and NaN mean: "unknown", or "zero". A mapping, such as `{"word_":
        "zero"}`, has a meaning for each name of a feature or beginning of names: the longest that
        fits counts. Other features are unknown.
    n_jobs
        Number of threads of `score_many`; -1 for one for each processor that the process may use.
        The results do not depend on it.
    seed
        Random seed for reproducibility.

    Notes
    -----
    A sample's displacement in a tree is that of Guha et al.[^1] (collusive displacement): the
    largest number, over the subtrees that it would be in, of samples beside the subtree for each
    one in it. So a group of similar samples far from the others is anomalous, too.

    The score is a rank. Let r be the mean over trees of log(1 + displacement), divided by log(1 +
    n), where n is the number of stored samples. r is 1 for a sample that the first cut separates
    from all others. `score_one` is the share of the latest 4,096 samples with a smaller r, each
    computed before the sample was learned. So .99 means that one of 100 recent samples was as
    anomalous. Between two of them the score is interpolated linearly, and it tends to 1 beyond the
    largest one. The first 32 samples, or those that smaller trees have room for, are not among
    them. Scores are 0 before there are any.

    A missing value adds no distance; see `MondrianForestClassifier`. The first value fixes a
    feature's type: a number or a category. Each tree has its own places in [0, 1] for levels.

    Memory with 10 features and 50 trees is 3.6 MB for 512 samples.

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

    Mark samples that are rarer than one in a thousand, and do not learn them. The filter has its
    own quantile: ranks are among learned samples, so a threshold of .999 would mark more and more
    of the new samples.

    >>> from river import anomaly

    >>> guarded = anomaly.QuantileFilter(RandomCutForest(n_estimators=20, seed=42), q=0.999)
    >>> for i in range(500):
    ...     guarded.learn_one({"a": i % 7, "b": i % 11})
    >>> score = guarded.score_one({"a": 70.0, "b": 3.0})
    >>> guarded.classify(score)
    True

    A series, in shingles of 12 values; and which of them is the most anomalous:

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
        # A number n, the samples before the next one while n samples have been learned, and the
        # samples before the next one otherwise; the latest first.
        self._past: Past = -1, (), ()
        super().__post_init__()

    _REHEARSED: ClassVar[Mapping[str, Any]] = {"n_estimators": 2, "window": WARM_UP}
    # The scores that pictures show.
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
            checks.refuse(self, "_past", self._past, "but it is a number and what was before")

    # Learning.

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Insert a sample into every tree, or into full trees with a probability.

        With the probability `max_samples` / `window` it replaces the oldest sample of full trees.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category: a string or truth value.
            NaN and None are the same as an absent key.

        Raises
        ------
        TypeError
            If a value is neither a number nor a level, or not of the type of its feature so far.
        ValueError
            If a value is infinite or too large for single precision. The forest does not change
            then.

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
                # Levels are stored as their codes: a file holds plain numbers.
                plain = {name: float(value) for name, value in values.items()}
                before, n = self._past_now(), -1 if joined is None else self.n_samples
                # From here on the new past is valid once the number of samples is no longer n.
                self._past = n, before, (plain, *before)[: self.shingle - 1]
            if joined is not None:
                self._learn_new(joined, self._learn_written)

    def _learn_written(self, trees: displacement.CutTrees) -> None:
        """Learn the sample in the trees' vector."""
        self._check_input(trees, trees.learn())

    def learn_many(self, X: Any, *, progress: bool = False) -> None:
        """Learn the rows of a frame, in order.

        The result is that of `learn_one` on each row.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array of the features 0, 1, ..., with numbers
            and categories (strings, truth values, categoricals, enums); nulls and NaN are missing.
        progress
            Whether to show on stderr how many rows have been learned, by tqdm if it is installed,
            else as text. The result is the same, bit for bit. After Ctrl-C the model has learned a
            number of whole rows.

        Raises
        ------
        TypeError
            If a column holds something that is neither a number nor a level, or not what its
            feature has had so far.
        ValueError
            If a value is infinite or too large for single precision, or a column occurs twice;
            nothing has been learned then.

        """
        _, names, columns = self._read_frame(X)
        for part in pieces(len(columns), progress):
            for row in columns[part]:
                # Other threads may call in between.
                self.learn_one(mapping_of(names, row))

    @locked
    def forget_one(self, x: Mapping[Any, Any]) -> None:
        """Remove a stored sample from the trees before it expires.

        The trees are then distributed like trees that never had it (see
        `MondrianForestClassifier.forget_one`). Recorded scores stay. But a forest whose last sample
        is removed equals one that never learned any.

        Parameters
        ----------
        x
            A mapping from feature to value, as it was learned.

        Raises
        ------
        KeyError
            If no stored sample equals this one. The forest does not change then.
        TypeError
            If a value is neither a number nor a level.
        ValueError
            If a value is infinite, or there are shingles: a sample is in several of these.

        """
        if self.shingle > 1:
            raise ValueError(f"forget_one needs shingle=1, got shingle={self.shingle}")
        trees = self._write_known(self._read(x))
        if trees is None or not self._take_out(trees, lambda p: None):
            raise KeyError(f"no sample that is held equals {dict(x)!r}")

    # Shingles.

    def _kinds(self) -> FeatureIndex:
        """Return the features of single samples, of their kinds so far."""
        categories, found = self._features.categories, FeatureIndex()
        if len(self._features):
            # The past is a part of the shingle that was learned last.
            names: list[Any] = self._features.names
            found.add({name[0]: LEAST_LEVEL if name in categories else 0.0 for name in names})
        else:
            past = self._past_now()
            found.add({name: value for values in past for name, value in values.items()})
        return found

    def _read(self, x: Mapping[Any, Any]) -> Values:
        """Return a mapping's checked values; with shingles, of their features' kinds."""
        values = super()._read(x)
        return self._kinds().agreed(values) if self.shingle > 1 else values

    @locked
    def _read_frame(self, X: Any) -> Frame:
        """Read a frame; columns must be of their features' kinds."""
        return read_frame(X, self._kinds() if self.shingle > 1 else self._features)

    def _past_now(self) -> tuple[Values, ...]:
        """Return the samples before the next one, the latest first."""
        n, before, after = self._past
        return before if n == self.n_samples else after

    def _joined(self, values: Values) -> Values | None:
        """Return a sample joined with those before it; None if there are too few yet."""
        if self.shingle == 1:
            return values
        samples = (values, *self._past_now())
        if len(samples) < self.shingle:
            return None
        return {
            (name, ago): Level(value, None) if value >= LEAST_LEVEL else value
            for ago, sample in enumerate(samples)
            for name, value in sample.items()
        }

    # Scores.

    def _readings(self, x: Mapping[Any, Any]) -> Floats:
        """Return the trees' readings of a sample, which is then in their vector; zeros at first."""
        trees = self._whole()
        if trees is not None and self.shingle == 1:
            self._write(x, trees)
        else:
            joined = self._joined(self._read(x))
            if trees is None or joined is None:
                return np.zeros(displacement.N_READINGS)
            self._features.write(self._features.agreed(joined), trees.vector)
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
        The rank of the sample's relative displacement among those of the latest 4,096 samples
        learned, each before it was learned (see the notes of the class); 0 before there are any.

        Raises
        ------
        TypeError
            If a value is neither a number nor a level, or not of the type of its feature so far.
        ValueError
            If a value is infinite or too large for single precision.

        """
        with self._lock:
            return float(self._readings(x)[displacement.RANK])

    @locked
    def score_many(self, X: Any, *, progress: bool = False) -> Any:
        """Return `score_one` of each row of a frame.

        With shingles, rows count as following the learned samples, and each other.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array of the features 0, 1, ...; nulls and NaN
            are missing.
        progress
            Whether to show on stderr how many rows have been scored, by tqdm if it is installed,
            else as text. The result is the same, bit for bit.

        Returns
        -------
        A series or array like `X` (and with its pandas index).

        Raises
        ------
        TypeError, ValueError
            As for `score_one`, or if a column occurs twice.

        """
        frame, names, columns = self._read_frame(X)
        scores, trees = np.zeros(len(columns)), self._trees
        n_short = 0
        if self.shingle > 1:
            names, columns, n_short = self._joined_rows(names, columns)
        if trees is not None and len(columns):
            rows = self._arrange(names, columns)
            found = in_pieces(lambda part: trees.score_rows(part, self.n_jobs), rows, progress)
            scores[n_short:] = found[:, displacement.RANK]
        return native_series(scores, name="score", like=frame)

    def _joined_rows(
        self, names: list[Hashable], columns: Floats
    ) -> tuple[list[Hashable], Floats, int]:
        """Return the rows of a frame as shingles, and the number of first rows without one."""
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
        """Return the raw scores, which are no ranks, by name.

        Errors are those of `score_one`.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category; unknown features are
            ignored.

        Returns
        -------
        A mapping from name to number, 0 before any learning; n is the number of stored samples.

        - "displacement": the collusive displacement[^1], from 0 to n: the larger, the rarer.
        - "relative": the mean over trees of log(1 + displacement), divided by log(1 + n).
          `score_one` is its rank.
        - "depth": the number of cuts above the inserted sample: the smaller, the rarer.
        - "density": the share of the samples that share the sample's cell where trees are cut for a
            time of 2. With more and more trees it tends to the mean over the samples y of
            exp(-2 |x - y|_1), in widths of the features, a kernel density estimate.

        """
        with self._lock:
            found = self._readings(x)
            return {name: float(found[place]) for name, place in RAW_SCORES.items()}

    @property
    @locked
    def recent_scores(self) -> list[float]:
        """The "relative" scores of the samples learned last, 4,096 at most, the latest last.

        Each was computed before the trees learned the sample. The first 32 samples have none,
        because among few samples each is anomalous.
        """
        return [] if self._trees is None else self._trees.scores.latest.tolist()

    @locked
    def explain_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return what each feature adds to the score.

        The displacement by a cut that separates the sample alone belongs to the features in which
        it is outside the others' box, in proportion to the distances. The displacement by a cut
        further up belongs to the feature of the cut. This takes some milliseconds for 50 trees.

        Errors are those of `score_one`.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category; unknown features are
            ignored.

        Returns
        -------
        A mapping from feature to what it adds, 0 or more; they add up to `score_one`. Empty before
        any feature has been learned.

        """
        score, trees = float(self._readings(x)[displacement.RANK]), self._trees
        if trees is None:
            return {}
        parts = trees.explain(trees.vector[: trees.n_inputs])[1]
        if not parts.any():
            # All samples are equal: each feature gets the same share.
            parts = np.ones(len(parts))
        shares = parts / parts.sum()
        return dict(zip(self.feature_names, (score * shares).tolist(), strict=True))

    # Reading.

    @property
    def _n_mappings(self) -> int:
        return self.n_samples + len(self._past_now())

    def _summary(self, x: Mapping[Any, Any]) -> list[str]:
        found = self._readings(x)
        raw = [f"{name} {found[place]:.4g}" for name, place in RAW_SCORES.items()]
        return [*raw, f"rank {found[displacement.RANK]:.4f}"]
