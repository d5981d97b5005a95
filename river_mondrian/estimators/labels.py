"""Base classes of classifiers, which number labels and predict the rows of frames."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import checks, frames
from ..model import Model, locked


class NumbersLabels(Model):
    """Base class of classifiers that number labels in order of appearance."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # The mapping is replaced, not changed, because other threads may be reading it.
        self._labels: dict[Hashable, int] = {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        checks.check_numbering(self, "_labels", self._labels)

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    @locked
    def classes(self) -> list[Any]:
        """Known labels, in order of appearance."""
        return list(self._labels)

    @property
    def _raw_memory_usage(self) -> int:
        labels = sum(map(sys.getsizeof, (self._labels, *self._labels)))
        return super()._raw_memory_usage + labels


class ClassifiesRows(NumbersLabels):
    """Base class of classifiers that predict the rows of frames."""

    # Returns `X` as a narwhals frame or an array, and the probabilities of labels, shape (rows,
    # labels).
    _predict_rows: Callable[..., tuple[Any, NDArray[np.float64]]]

    def _best(self, X: Any, progress: bool) -> tuple[Any, NDArray[np.int64]]:
        """Return `X` as a narwhals frame or an array, and each row's predicted label number."""
        frame, scores = self._predict_rows(X, progress)
        return frame, scores.argmax(axis=1) if self._labels else np.zeros(len(scores), np.int64)

    @locked
    def predict_proba_many(self, X: Any, *, progress: bool = False) -> Any:
        """Predict the probability of each label for the rows of a frame.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...;
            nulls and NaN are missing values.
        progress
            Whether to show the number of predicted rows on stderr, with tqdm if it is installed,
            else as text. The result does not depend on `progress`.

        Returns
        -------
        A frame of the same library as `X`, or an array if `X` is an array. A pandas frame has the
        index of `X`. The result has a column of probabilities per label, in the order of `classes`,
        and no column before the first sample.

        Raises
        ------
        NotImplementedError
            If the classifier has the hinge loss, which does not define probabilities.

        """
        frame, predicted = self._predict_rows(X, progress)
        return frames.native_frame(dict(zip(self._labels, predicted.T, strict=False)), like=frame)

    @locked
    def predict_many(self, X: Any, *, progress: bool = False) -> Any:
        """Predict the label with the largest probability or score for each row of a frame.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...;
            nulls and NaN are missing values.
        progress
            Whether to show the number of predicted rows on stderr, with tqdm if it is installed,
            else as text. The result does not depend on `progress`.

        Returns
        -------
        The labels: a series of the same library as `X`, or an array if `X` is an array. A pandas
        series has the index of `X`. Before the first sample, each label is None. A polars series
        has the type Object if the labels have several types, or a type that polars lacks.

        Raises
        ------
        TypeError
            If `X` is a pyarrow table, and no pyarrow column can store the labels.

        """
        labels = self.classes or [None]
        frames.check_labels(labels, X)
        frame, best = self._best(X, progress)
        return frames.native_series([labels[k] for k in best.tolist()], name=None, like=frame)
