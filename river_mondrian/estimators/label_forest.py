"""What the Mondrian forests over classes share as River estimators."""

from __future__ import annotations

import abc
import itertools
import sys
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from river import base

from ..checks import ModelFormatError, check_numbering
from ..frames import native_frame, native_series
from ..inputs import warn_of_numbers
from ..limits import TOO_LARGE
from ..model import has_global_lock, locked
from ..partitions.mondrian.reading import Shades
from ..partitions.mondrian.trees import ClassTrees
from .explaining import ClassExplanations
from .forest import Prepared

Classes = TypeVar("Classes", bound=ClassTrees[Any, Any])
Calls = TypeVar("Calls", bound=Prepared)


def by_label(labels: dict[Hashable, Any], values: Sequence[float]) -> dict[Any, float]:
    """Return a mapping from label to value, several times as fast as one made of pairs."""
    if len(values) == 2:
        (first, second), (a, b) = labels, values
        return {first: a, second: b}
    # A copy has the room that a new mapping would grow to step by step.
    found: dict[Any, float] = labels.copy()
    found.update(zip(labels, values))  # noqa: B905
    return found


class LabelForest(ClassExplanations[Classes], base.MiniBatchClassifier, Generic[Classes, Calls]):
    """Base of the Mondrian forests over classes, whose nodes have `counts` of these."""

    # Calls on one sample need it, once a sample has been learned.
    _TRANSIENT: ClassVar[frozenset[str]] = frozenset({"_prepared"})

    def _renew(self) -> None:
        super()._renew()
        self._prepared: Calls | None = None

    def _begin(self) -> None:
        super()._begin()
        # The number of each label seen, in order of appearance.
        self._labels: dict[Hashable, int] = {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        check_numbering(self, "_labels", self._labels)
        n_classes = 0 if self._trees is None else self._trees.forest.n_classes
        if n_classes != len(self._labels):
            raise ModelFormatError(
                f"the trees have {n_classes} classes, but {len(self._labels)} are named"
            )

    @property
    def _multiclass(self) -> bool:
        return True

    def _enter(self) -> None:
        super()._enter()
        if self._trees is None:
            self._prepared = None
        n_classes = 0 if self._trees is None else self._trees.forest.n_classes
        if len(self._labels) > n_classes:
            self._labels = dict(itertools.islice(self._labels.items(), n_classes))

    def _add_label(self, y: Hashable) -> int:
        """Return the number of a label, which may be new."""
        label = self._labels.get(y)
        if label is None:
            warn_of_numbers(self._labels)
            label = self._grown().add_class()
            # Others may be reading the labels so far.
            self._labels = self._labels | {y: label}
        return label

    @property
    @locked
    def classes(self) -> list[Any]:
        """The labels seen so far, in order of appearance."""
        return list(self._labels)

    # Predicting one sample.

    @abc.abstractmethod
    def _new_calls(self, trees: Classes) -> Calls:
        """Return what calls on one sample need, by trees, features and labels as they are."""

    def _prepare(self, trees: Classes) -> Calls:
        """Prepare calls on one sample."""
        prepared = self._prepared
        if prepared is None or prepared.trees is not trees or prepared.version != trees.version:
            prepared = self._new_calls(trees)
            # Without a global lock each call takes the way that holds the model's.
            if has_global_lock():
                self._prepared = prepared
        return prepared

    def _predict(self, x: Mapping[Any, Any]) -> tuple[Calls, int, bytearray] | None:
        """Return the number of the most probable label, and packed probabilities."""
        prepared = self._prepared
        if prepared is not None:
            inputs = prepared.pack(x) or prepared.pack_values(self._read(x))
            out = bytearray(prepared.n_bytes)
            best = prepared.predict(inputs, out)
            if best >= 0:
                return prepared, best, out
        return self._predict_checked(self._read(x))

    @locked
    def _predict_checked(
        self, values: dict[Hashable, float]
    ) -> tuple[Calls, int, bytearray] | None:
        trees = self._trees
        if trees is None or not self._labels:
            return None
        prepared = self._prepare(trees)
        inputs, out = prepared.pack_values(values), bytearray(prepared.n_bytes)
        best = trees.predict(inputs, out)
        if best <= TOO_LARGE:
            raise prepared.too_large(TOO_LARGE - best, inputs)
        return prepared, best, out

    def _probabilities(self, x: Mapping[Any, Any]) -> tuple[dict[Hashable, int], Sequence[float]]:
        """Return the labels, and a sample's probability of each."""
        found = self._predict(x)
        if found is None:
            return {}, ()
        prepared, _, out = found
        return prepared.labels, prepared.unpack(out)

    def predict_proba_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:  # type: ignore[override]
        """Predict the probability of each label seen so far.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category; unknown features are
            ignored.

        Returns
        -------
        A mapping from label to probability; empty before any learning.

        """
        return by_label(*self._probabilities(x))

    def predict_one(self, x: Mapping[Any, Any]) -> Any:  # type: ignore[override]
        """Predict the most probable label; of several, the one seen first.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category; unknown features are
            ignored.

        Returns
        -------
        A label; None before any learning.

        """
        found = self._predict(x)
        if found is None:
            return None
        prepared, best, _ = found
        return prepared.names[best]

    @abc.abstractmethod
    def _predict_rows(self, X: Any, progress: bool) -> tuple[Any, NDArray[np.float64]]:
        """Return a frame as a narwhals one, and its rows' probabilities, shape (n, labels)."""

    @locked
    def predict_proba_many(self, X: Any, *, progress: bool = False) -> Any:
        """Predict the probability of each label for the rows of a frame.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array of the features 0, 1, ...; nulls and NaN
            are missing.
        progress
            Whether to show on stderr how many rows have been predicted, by tqdm or, without it, as
            lines of text. The result is the same, bit for bit.

        Returns
        -------
        A frame or array like `X` (and with its pandas index) with a column per label, in the order
        of `classes`; no column before any learning.

        """
        frame, probabilities = self._predict_rows(X, progress)
        columns = dict(zip(self._labels, probabilities.T, strict=False))
        return native_frame(columns, like=frame)

    @locked
    def predict_many(self, X: Any, *, progress: bool = False) -> Any:
        """Predict the most probable label for the rows of a frame.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array of the features 0, 1, ...; nulls and NaN
            are missing.
        progress
            Whether to show on stderr how many rows have been predicted, by tqdm or, without it, as
            lines of text. The result is the same, bit for bit.

        Returns
        -------
        A series or array like `X` (and with its pandas index); None per row before any learning.

        """
        frame, probabilities = self._predict_rows(X, progress)
        labels: list[Any] = [None] * len(probabilities)
        if self._labels and len(labels):
            classes = self.classes
            labels = [classes[k] for k in probabilities.argmax(axis=1)]
        return native_series(labels, name=None, like=frame)

    @property
    def _raw_memory_usage(self) -> int:
        size = super()._raw_memory_usage + sys.getsizeof(self._labels)
        return size + sum(sys.getsizeof(label) for label in self._labels)

    def _columns(self, nodes: list[Any]) -> dict[str, list[Any]]:
        return {
            f"count_{label}": [node.counts[k].item() for node in nodes]
            for k, label in enumerate(self.classes)
        }

    def _leaf_text(self, node: Any) -> str:
        counts = zip(self.classes, node.counts.tolist(), strict=True)
        return ", ".join(f"{label!r}: {count:.15g}" for label, count in counts if count)

    def _summary(self, x: Mapping[Any, Any]) -> list[str]:
        ranked = sorted(self.predict_proba_one(dict(x)).items(), key=lambda item: -item[1])
        return [f"{label!r}: {probability:.4f}" for label, probability in ranked]

    def _shades(self, nodes: list[Any]) -> Shades:
        largest = np.array([int(node.counts.argmax()) for node in nodes], dtype=np.float64)
        return Shades(largest, self.classes, "class")
