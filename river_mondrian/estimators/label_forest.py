"""The base class of the Mondrian forest classifiers."""

from __future__ import annotations

import functools
import itertools
import struct
import sys
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from river import base

from .. import checks, limits, model
from ..frames import read_labels
from ..inputs import FeatureIndex, check_label, too_large, warn_of_numbers
from ..partitions.mondrian.reading import Shades
from .forest import SupervisedForest
from .labels import ClassifiesRows


def by_label(labels: dict[Hashable, Any], values: Sequence[float]) -> dict[Any, float]:
    """Return a mapping from label to value, several times faster than `dict(zip(...))`."""
    if len(values) == 2:
        (first, second), (a, b) = labels, values
        return {first: a, second: b}
    # A copy allocates its full size at once, which is faster than a mapping that grows step by
    # step.
    mapping: dict[Any, float] = labels.copy()
    mapping.update(zip(labels, values))  # noqa: B905
    return mapping


class Prepared:
    """Data for calls for one sample, valid while features and labels stay the same.

    Any number of threads may use the data, because only calls that hold the model's lock write to
    `vector` or replace `predict`. Kernels do not run with data of an earlier version of the trees,
    for example from before a feature was added.

    Parameters
    ----------
    trees
        The trees of the forest.
    features, labels
        The index of the features, and a mapping from label to its number.
    levels
        Whether features may be categories.

    """

    def __init__(
        self, trees: Any, features: FeatureIndex, labels: dict[Hashable, int], levels: bool
    ) -> None:
        self.trees, self.version = trees, trees.version
        self.features = features
        self.labels, self.names = labels, list(labels)
        self.predict = trees.predictor()
        # Adaptive forests have no compiled `learner`, because they learn by the trees' method
        # `learn`.
        self.learn: Any = trees.learner() if hasattr(trees, "learner") else None
        numbers = struct.Struct(f"{len(labels)}d")
        self.n_bytes, self.unpack = numbers.size, numbers.unpack
        self.pack, self.read = features.pack, functools.partial(features.read, levels=levels)
        self.vector = memoryview(trees.vector).cast("B")[: 8 * len(features)]

    def pack_known(self, values: dict[Hashable, float]) -> bytes | None:
        """Pack checked values; return None if a feature is unknown."""
        return self.pack_values(values) if values.keys() <= self.features.index_of.keys() else None

    def pack_values(self, values: dict[Hashable, float]) -> bytes:
        """Pack checked values; omit unknown features."""
        row = self.features.gaps.copy()
        self.features.write(values, row)
        return row.tobytes()

    def too_large(self, i: int, inputs: bytes) -> ValueError:
        """Return the error for a packed value that is too large."""
        value = struct.unpack_from("d", inputs, 8 * i)[0]
        return too_large(self.features.names[i], value)


class LabelForest(ClassifiesRows, SupervisedForest, base.MiniBatchClassifier):
    """Base class of the Mondrian forest classifiers, whose nodes have the attribute `counts`."""

    _CHECK_Y = staticmethod(check_label)
    _READ_Y = staticmethod(read_labels)

    # `_prepared` is not saved: the first call for one sample creates it again.
    _TRANSIENT: ClassVar[frozenset[str]] = frozenset({"_prepared"})

    def _renew(self) -> None:
        super()._renew()
        self._prepared: Any = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        n = 0 if self._trees is None else self._trees.forest.n_classes
        if n != len(self._labels):
            raise checks.ModelFormatError(
                f"the trees have {n} classes, but {len(self._labels)} are named"
            )

    def _enter(self) -> None:
        super()._enter()
        if self._trees is None:
            self._prepared = None
        n_classes = 0 if self._trees is None else self._trees.forest.n_classes
        if len(self._labels) > n_classes:
            self._labels = dict(itertools.islice(self._labels.items(), n_classes))

    def _add_label(self, y: Hashable) -> int:
        """Return the number of a label; add the label if it is new."""
        label = self._labels.get(y)
        if label is None:
            warn_of_numbers(self._labels)
            label = self._grown().add_class()
            # The mapping is replaced, not changed, because other threads may be reading it.
            self._labels = self._labels | {y: label}
        return label

    # Predicting one sample.

    def _prepare(self, trees: Any) -> Prepared:
        """Return the data for calls for one sample; renew the data if the trees have changed."""
        prepared = self._prepared
        if prepared is None or prepared.trees is not trees or prepared.version != trees.version:
            prepared = Prepared(trees, self._features, self._labels, self._takes_levels)
            # Calls on prepared data rely on the global interpreter lock. Without this lock, the
            # data are not kept, so that each call takes the model's lock.
            if getattr(sys, "_is_gil_enabled", lambda: True)():
                self._prepared = prepared
        return prepared

    def _predict(self, x: Mapping[Any, Any]) -> tuple[Prepared, int, bytearray] | None:
        """Return the prepared data, the number of the best label, and packed probabilities."""
        prepared = self._prepared
        if prepared is not None:
            inputs = prepared.pack(x) or prepared.pack_values(prepared.read(x))
            out = bytearray(prepared.n_bytes)
            best = prepared.predict(inputs, out)
            if best >= 0:
                return prepared, best, out
        return self._predict_checked(x)

    @model.locked
    def _predict_checked(self, x: Mapping[Any, Any]) -> tuple[Prepared, int, bytearray] | None:
        values, trees = self._read(x), self._trees
        if trees is None or not self._labels:
            return None
        prepared = self._prepare(trees)
        inputs, out = prepared.pack_values(values), bytearray(prepared.n_bytes)
        best = trees.predict(inputs, out)
        prepared.predict = trees.predictor()
        if best <= limits.TOO_LARGE:
            raise prepared.too_large(limits.TOO_LARGE - best, inputs)
        return prepared, best, out

    def predict_proba_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:  # type: ignore[override]
        """Predict the probability of each label that has been seen.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category; unknown features are
            ignored.

        Returns
        -------
        A mapping from label to probability; empty before the first sample.

        """
        predicted = self._predict(x)
        if predicted is None:
            return {}
        prepared, _, out = predicted
        return by_label(prepared.labels, prepared.unpack(out))

    def predict_one(self, x: Mapping[Any, Any]) -> Any:  # type: ignore[override]
        """Predict the most probable label; among equally probable labels, the label seen first.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category; unknown features are
            ignored.

        Returns
        -------
        A label; None before the first sample.

        """
        predicted = self._predict(x)
        if predicted is None:
            return None
        prepared, best, _ = predicted
        return prepared.names[best]

    @property
    @model.locked
    def baseline(self) -> dict[Any, float]:
        """Probabilities without contributions of features; empty before the first sample.

        In an exact forest, the baseline is the mean of the roots' predictions. In an adaptive
        forest, it is the prediction of a sample without values.
        """
        probabilities = np.empty(0) if self._trees is None else self._explainer.root_prediction()
        return dict(zip(self.classes, probabilities.tolist(), strict=True))

    @model.locked
    def explain_one(self, x: Mapping[Any, Any]) -> dict[Any, dict[Any, float]]:
        """Return the contribution of each feature to the predicted probability of each label.

        In an exact forest, the change of the prediction at a cut on the sample's path is attributed
        to the cut's feature. If the sample is outside a node's box, the change is shared among
        features, in proportion to the distances from the box in each feature. With 10 trees and 16
        features, an explanation by an exact forest takes 3 to 11 milliseconds.

        In an adaptive forest, the values of the sample are added one after the other to a sample
        without values. Each feature gets the change that its value causes in the probabilities. The
        mean over 4 random orders and their reverses estimates Shapley values. An explanation by an
        adaptive forest takes 8 predictions for each feature of the sample.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category; unknown features are
            ignored.

        Returns
        -------
        A mapping from label to a mapping from feature to its contribution. For each label,
        `baseline` and all contributions add up to the probability that `predict_proba_one` returns.
        The mapping is empty before the first sample.

        Raises
        ------
        TypeError
            If a value is neither a number nor a level, or does not have its feature's type.
        ValueError
            If a value is infinite or too large for single precision.

        """
        contributions = self._explain(x)
        features = self.feature_names
        by_class = zip(self.classes, contributions.T.tolist(), strict=True)
        return {label: dict(zip(features, added, strict=True)) for label, added in by_class}

    def _columns(self, nodes: list[Any]) -> dict[str, list[Any]]:
        labels = enumerate(self.classes)
        return {f"count_{label}": [node.counts[k].item() for node in nodes] for k, label in labels}

    def _leaf_text(self, node: Any) -> str:
        counts = zip(self.classes, node.counts.tolist(), strict=True)
        return ", ".join(f"{label!r}: {count:.15g}" for label, count in counts if count)

    def _summary(self, x: Mapping[Any, Any]) -> list[str]:
        ranked = sorted(self.predict_proba_one(dict(x)).items(), key=lambda item: -item[1])
        return [f"{label!r}: {probability:.4f}" for label, probability in ranked]

    def _shades(self, nodes: list[Any]) -> Shades:
        largest = np.array([int(node.counts.argmax()) for node in nodes], dtype=np.float64)
        return Shades(largest, self.classes, "class")
