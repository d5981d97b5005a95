"""The nearest-neighbour detector, which scores anomalies by distances to recent samples."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arguments import Missing, check_ranges, n_threads_of
from ..frames import Frame, mapping_of, read_frame
from ..inputs import Floats, warn_of_words
from ..model import locked
from ..posteriors.nearest import RANK, RAW, NeighborTable
from ..progress import pieces
from .inspection import ScoringDetector


@dataclass(eq=False, repr=False)
class NearestNeighborDetector(ScoringDetector):
    """Nearest-neighbour detector for anomalies among the latest samples.

    The raw score of a sample is its expected distance to the nearest sample of a random subset of
    the stored samples. Each stored sample is in the subset with probability p, which is 1 /
    `n_neighbors` unless `n_neighbors` is 1 or few samples are stored (see the notes). The
    expectation is calculated, not sampled: it is a weighted mean of the distances to the stored
    samples. The nearest sample has the largest weight. The weight of each farther sample is 1 - p
    times the weight of the next nearer sample. The farthest samples, with a total weight of at most
    1e-4, are omitted. Equivalently, the raw score is the distance to the centre of the sample's
    Voronoi cell, as in [^1] and [^2], averaged over all subsets. The isolation kernel uses the same
    partitions into Voronoi cells[^3].

    Parameters
    ----------
    n_neighbors
        Number of nearest samples on which a raw score mainly depends.
    window
        Number of the latest samples, on average, from which the stored samples are drawn. With
        None, the first `max_samples` samples are stored and never replaced.
    max_samples
        Largest number of stored samples. If `window` is larger than this number, and `max_samples`
        samples are stored, a new sample is stored with the probability `max_samples` / `window`.
        The new sample replaces the oldest stored sample.
    skip_anomalies
        Whether to store a sample with a score of at least .9 only if the previous score was also at
        least .9. Use this option if anomalies recur and samples are not a time series. Then fewer
        anomalies are stored, so later anomalies are farther from the stored samples.
    shingle
        Number of successive mappings that form one sample. With a `shingle` above 1, the detector
        also finds anomalous patterns in a time series. A sample consists of a mapping and the
        `shingle` - 1 mappings before this mapping. Until `shingle` - 1 mappings have been learned,
        scores are 0.
    scale
        Whether to divide each feature by its width: the standard deviation of the stored values,
        after clipping at 3 interquartile ranges from the quartiles. Widths are renewed when 4, 8,
        16, ... samples are stored, and when 64 samples have been stored since the last renewal.
    ranges
        Known ranges: a mapping from feature to its lowest and highest value, (low, high). The width
        is then the standard deviation of a uniform distribution, (high - low) / sqrt(12).
    missing
        Meaning of an absent key, None and NaN: "unknown" or "zero". An unknown value adds the mean
        contribution of the other features. A mapping, such as `{"word_": "zero"}`, sets the meaning
        by a feature's name or prefix; the longest matching key applies. Missing values of other
        features are unknown.
    n_jobs
        Number of threads of `score_many`; -1 for one thread per processor that the process may use.
        Results do not depend on `n_jobs`.
    seed
        Random seed for reproducibility.

    Notes
    -----
    With n stored samples, p is min(1/2, max(1 / `n_neighbors`, 2 / n)).

    The distance of samples x and y is the sum over features j of |x_j - y_j| / width_j. Beyond 10,
    a term grows only logarithmically. Two levels of a category differ by 1. The width of a category
    is sqrt(P / 2), where P is the share of pairs of samples with different levels.

    `score_one` is a rank: the share of the latest 4,096 samples with a lower raw score
    (`raw_score_one`), interpolated as in `RandomCutForest`. Each raw score was computed before its
    sample was learned. The first 32 samples (fewer if `max_samples` or `window` is smaller) are not
    ranked: their scores are 0, and later ranks ignore them.

    A stored sample takes 4 bytes for each feature of each mapping, and 28 more bytes.

    Examples
    --------

    >>> from river import datasets, metrics
    >>> from river_mondrian import NearestNeighborDetector

    >>> detector = NearestNeighborDetector(seed=42)
    >>> metric = metrics.ROCAUC()
    >>> for x, y in datasets.Shuttle().take(2000):
    ...     metric.update(y, detector.score_one(x))
    ...     detector.learn_one(x)
    >>> float(metric.get()) > 0.9
    True

    Find the anomalous feature:

    >>> for i in range(100):
    ...     detector.learn_one({"load": i % 7, "errors": i % 3})
    >>> shares = detector.explain_one({"load": 3, "errors": 20})
    >>> max(shares, key=shares.get)
    'errors'

    References
    ----------
    [^1]: Sugiyama, M. and Borgwardt, K. (2013). Rapid Distance-Based Outlier Detection via
    Sampling. Advances in Neural Information Processing Systems 26.
    [^2]: Pang, G., Ting, K. M. and Albrecht, D. (2015). LeSiNN: Detecting Anomalies by Identifying
    Least Similar Nearest Neighbours. IEEE International Conference on Data Mining Workshops.
    [^3]: Ting, K. M., Wells, J. R. and Washio, T. (2021). Isolation Kernel: The X Factor in
    Efficient and Effective Large Scale Online Kernel Learning. Data Mining and Knowledge Discovery
    35. Section 3.

    """

    n_neighbors: int = 16
    window: int | None = 2048
    max_samples: int = 512
    skip_anomalies: bool = False
    shingle: int = 1
    scale: bool = True
    ranges: Mapping[Any, tuple[float, float]] | None = None
    missing: Missing = "unknown"
    n_jobs: int = 1
    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self.ranges, self.scale)
        # The table contains the whole learned state. A change that needs several kernel calls is
        # made in a copy, which then replaces the table, so that an interrupted call changes
        # nothing.
        self._table: NeighborTable | None = None

    # Name of the raw score in pictures.
    _SCORE = "distance to the nearest samples"

    def _known(self) -> NeighborTable:
        """Return the table, or a new table before the first sample."""
        if self._table is not None:
            return self._table
        window = self.window or math.inf
        capacity = int(min(self.max_samples, window))
        sizes = self.n_neighbors, capacity, self.shingle, capacity / window
        return NeighborTable(*sizes, self.skip_anomalies, self.missing, self.seed)

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"n_jobs"}

    # Learning.

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Learn a sample.

        The parameters `window`, `max_samples` and `skip_anomalies` determine whether the sample is
        stored.

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
            If a value is infinite or too large for single precision. Then nothing has changed.

        """
        with self._lock:
            table = self._table or self._known()
            if table.features.read_known(x, table.vector):
                table.features.check_input(table.learn(), table.vector)
                return
            values = table.features.read(x, levels=True)
            new = table.features.new_of(values)
            if new:
                ranges = (self.ranges or {}).items()
                widths = {name: (high - low) / math.sqrt(12.0) for name, (low, high) in ranges}
                if not self.scale:
                    widths = dict.fromkeys(new, 1.0)
                table = table.widened(new, widths)
                if self.missing == "unknown":
                    warn_of_words(table.features, len(values))
            table.features.write(values, table.vector)
            table.learn()
            self._table = table

    _learn_row = learn_one

    def _read_frame(self, X: Any) -> Frame:
        with self._lock:
            return read_frame(X, self._known().features)

    @locked
    def _learn_rows(self, names: list[Hashable], columns: Floats) -> None:
        """Learn rows with a feature's first value one by one, and the other rows in blocks."""
        start, firsts = 0, self._known().features.first_rows(names, columns).values()
        for end in sorted({*firsts, len(columns)}):
            table = self._table = self._known()
            if start < end:
                rows = table.features.arrange(names, columns[start:end], len(table.features))
                table.learn_rows(rows)
            if end < len(columns):
                self._learn_row(mapping_of(names, columns[end]))
            start = end + 1

    def forget_one(self, x: Mapping[Any, Any]) -> None:
        """Remove a stored sample before it expires.

        Widths are recomputed without the sample. `score_one` still ranks samples among the same
        earlier raw scores.

        Parameters
        ----------
        x
            A mapping from feature to value, as it was learned.

        Raises
        ------
        KeyError
            If no stored sample equals this sample. Then nothing changes.
        TypeError, ValueError
            As for `learn_one`; or if `shingle` is above 1, because a mapping is part of several
            samples.

        """
        if self.shingle > 1:
            raise ValueError(f"forget_one needs shingle=1, got shingle={self.shingle}")
        with self._lock:
            table = self._known()
            values = table.features.read(x, levels=True)
            is_known = values.keys() <= table.features.index_of.keys()
            table.features.write(values, table.vector)
            table.score()
            row, samples = table.row, table.samples
            same = ((samples == row) | (np.isnan(samples) & np.isnan(row))).all(axis=1)
            if not is_known or not same.any():
                raise KeyError(f"no stored sample equals {dict(x)!r}")
            self._table = table.without(int(same.argmax()))

    @locked
    def _forget(self, first: int, last: int) -> None:
        """Remove the stored samples with numbers from `first` to `last`, counted from 0."""
        table = self._known()
        are_gone = (table.numbers >= first) & (table.numbers <= last)
        if are_gone.any():
            self._table = table.without(are_gone)

    def _remove_scores(self, first: int, last: int) -> None:
        """Remove the recent raw scores from `first` to `last` samples ago."""
        self._known().scores.remove(first, last)

    # Scores.

    def _readings(self, x: Mapping[Any, Any]) -> tuple[float, float]:
        """Return the raw score of a sample, and the rank of this score."""
        table = self._table or self._known()
        table.features.read_into(x, table.vector, levels=True)
        table.features.check_input(table.score(), table.vector)
        return float(table.out[RAW]), float(table.out[RANK])

    def score_one(self, x: Mapping[Any, Any]) -> float:
        """Return the share of recent samples with a lower raw score, within [0, 1].

        The model does not change.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category; unknown features are
            ignored.

        Returns
        -------
        The rank of `raw_score_one` among the latest 4,096 raw scores, each computed before its
        sample was learned. The score is 0 before the first recorded raw score.

        Raises
        ------
        TypeError
            If a value is neither a number nor a level, or does not have its feature's type.
        ValueError
            If a value is infinite or too large for single precision.

        """
        with self._lock:
            return self._readings(x)[1]

    def raw_score_one(self, x: Mapping[Any, Any]) -> float:
        """Return the expected distance to the nearest sample of a random subset of stored samples.

        Raises the same errors as `score_one`.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category; unknown features are
            ignored.

        Returns
        -------
        The distance in units of widths, a sum over features; 0 before the first sample.

        """
        with self._lock:
            return self._readings(x)[0]

    def _score_rows(self, names: list[Hashable], columns: Floats, progress: bool) -> Floats:
        scores, table = np.zeros(len(columns)), self._known()
        if len(columns):
            rows = table.features.arrange(names, columns, len(table.features))
            n_jobs = n_threads_of(self.n_jobs)
            every = np.vstack([table.recent[:-1], rows])
            for piece in pieces(len(rows), progress):
                # The shingle of a row includes earlier rows, also from the previous piece, so
                # blocks overlap.
                block = every[piece.start : piece.stop + self.shingle - 1]
                scores[piece] = table.score_rows(block, n_jobs)[:, RANK]
        return scores

    @locked
    def explain_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return the contribution of each feature to the raw score, which is a sum over features.

        Raises the same errors as `score_one`.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category; unknown features are
            ignored.

        Returns
        -------
        A mapping from feature to its contribution, 0 or more. With shingles, each key is a pair
        (feature, samples ago). Contributions add up to `raw_score_one`. The mapping is empty before
        any feature has been learned.

        """
        self._readings(x)
        table = self._known()
        return dict(zip(table.columns, table.explained().tolist(), strict=True))

    @locked
    def _neighbors(self, x: Mapping[Any, Any]) -> dict[Hashable, Any]:
        """Return each numeric feature's values in the samples nearest in the other features."""
        self._readings(x)
        return self._known().neighbors()

    @locked
    def _are_near(self, names: list[Hashable], rows: Any, others: Any) -> bool:
        """Return whether samples are near other samples (see `NeighborTable.are_near`)."""
        table = self._known()
        rows, others = (
            table.features.arrange(names, x, len(table.features)) for x in (rows, others)
        )
        return table.are_near(rows, others)

    # Learned state.

    @property
    @locked
    def feature_names(self) -> list[Any]:
        """The known features, in the order of the columns of stored samples."""
        return list(self._known().features.names)

    @property
    @locked
    def widths(self) -> dict[Any, float]:
        """Width of each feature. Distances divide differences by widths."""
        table = self._known()
        rates = table.learned["rates"] + table.learned["level_rates"]
        return dict(zip(table.features.names, (1.0 / rates).tolist(), strict=True))

    @property
    @locked
    def n_samples(self) -> int:
        """Number of learned samples."""
        return int(self._known().record.n_samples)

    @property
    @locked
    def n_held(self) -> int:
        """Number of stored samples."""
        return int(self._known().record.n_held)

    @property
    @locked
    def recent_scores(self) -> list[float]:
        """Raw scores of the latest samples, at most 4,096, oldest first.

        Each score was computed before its sample was learned. The first 32 samples (fewer if
        `max_samples` or `window` is smaller) have no score.
        """
        return self._known().scores.latest.tolist()
