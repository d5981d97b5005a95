"""What the Mondrian forests over classes share as River estimators."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from river import base

from ..checks import ModelFormatError
from ..inputs import warn_of_numbers
from ..limits import TOO_LARGE
from ..model import has_global_lock, locked
from ..partitions.mondrian.reading import Shades
from .forest import ExplainedForest, Prepared
from .labels import ClassifiesRows


def by_label(labels: dict[Hashable, Any], values: Sequence[float]) -> dict[Any, float]:
    """Return a mapping from label to value, several times as fast as one made of pairs."""
    if len(values) == 2:
        (first, second), (a, b) = labels, values
        return {first: a, second: b}
    # A copy has the room that a new mapping would grow to step by step.
    found: dict[Any, float] = labels.copy()
    found.update(zip(labels, values))  # noqa: B905
    return found


class LabelForest(ClassifiesRows, ExplainedForest, base.MiniBatchClassifier):
    """Base of the Mondrian forests over classes, whose nodes have `counts` of these."""

    # Calls on one sample need it, once a sample has been learned.
    _TRANSIENT: ClassVar[frozenset[str]] = frozenset({"_prepared"})

    def _renew(self) -> None:
        super()._renew()
        self._prepared: Any = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        n_classes = 0 if self._trees is None else self._trees.forest.n_classes
        if n_classes != len(self._labels):
            raise ModelFormatError(
                f"the trees have {n_classes} classes, but {len(self._labels)} are named"
            )

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

    # Predicting one sample.

    # What calls on one sample need.
    _CALLS: ClassVar[type[Prepared]] = Prepared

    def _prepare(self, trees: Any) -> Prepared:
        """Prepare calls on one sample."""
        prepared = self._prepared
        if prepared is None or prepared.trees is not trees or prepared.version != trees.version:
            prepared = self._CALLS(trees, self._features, self._labels)
            # Without a global lock each call takes the way that holds the model's.
            if has_global_lock():
                self._prepared = prepared
        return prepared

    def _predict(self, x: Mapping[Any, Any]) -> tuple[Prepared, int, bytearray] | None:
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
    ) -> tuple[Prepared, int, bytearray] | None:
        trees = self._trees
        if trees is None or not self._labels:
            return None
        prepared = self._prepare(trees)
        inputs, out = prepared.pack_values(values), bytearray(prepared.n_bytes)
        best = trees.predict(inputs, out)
        if best <= TOO_LARGE:
            raise prepared.too_large(TOO_LARGE - best, inputs)
        return prepared, best, out

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
        found = self._predict(x)
        if found is None:
            return {}
        prepared, _, out = found
        return by_label(prepared.labels, prepared.unpack(out))

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

    @property
    @locked
    def baseline(self) -> dict[Any, float]:
        """The probability of each label where explanations begin; empty at first."""
        found = np.empty(0) if self._trees is None else self._trees.root_prediction()
        return dict(zip(self.classes, found.tolist(), strict=True))

    @locked
    def explain_one(self, x: Mapping[Any, Any]) -> dict[Any, dict[Any, float]]:
        """Return what each feature adds to the predicted probability of each label.

        Along the paths of the sample, the change by a cut belongs to its feature. The change
        because the sample is outside a node's box belongs to the features in which it is outside,
        in proportion to the distances. This takes some tens of milliseconds for 10 trees.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category; unknown features are
            ignored.

        Returns
        -------
        A mapping from label to a mapping from feature to its contribution. For each label,
        `baseline` and all contributions add up to the probability of `predict_proba_one`. Empty
        before any learning.

        Raises
        ------
        TypeError
            If a value is neither a number nor a level, or not of the type of its feature so far.
        ValueError
            If a value is infinite or too large for single precision.

        """
        found = self._explain(x)
        features = self.feature_names
        return {
            label: dict(zip(features, added, strict=True))
            for label, added in zip(self.classes, found.T.tolist(), strict=True)
        }

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
