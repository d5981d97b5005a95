"""What mattered: importances of features, and explanations of predictions."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..model import locked
from ..partitions.mondrian.trees import ExplainedTrees
from .forest import MondrianForest

Trees = TypeVar("Trees", bound=ExplainedTrees[Any, Any])


class ExplainedForest(MondrianForest[Trees]):
    """A forest that tells what its cuts have changed."""

    @property
    @locked
    def feature_importances(self) -> dict[Any, float]:
        """How much the cuts on each feature have told, a mean over the trees.

        A forest over classes gives nats per sample: by how much the cuts on the feature have
        lowered the log loss of foreseeing each learned label from those before it, where a tree
        counts as the mean over its prunings. A regressor gives squared units of the target per
        sample: by how much they have lowered the squared error of foreseeing each learned target
        from all others. A feature that tells nothing has an importance of about 0, often a little
        below; one that is never cut has 0. Features share a cut in a direction (`directions`) by
        the extents that they add to it. Importances add up to what all cuts have told.

        They are read from the trees, without samples: 100,000 samples in 10 trees take a second or
        two, and for a while 8 bytes for each node and class of a tree. Empty before any learning.
        """
        if self._trees is None:
            return {}
        return dict(zip(self.feature_names, self._trees.importances.tolist(), strict=True))

    def _explain(self, x: Mapping[Any, Any]) -> NDArray[np.float64]:
        """Return what each feature adds to what the roots predict, a row for each.

        Raises
        ------
        ValueError
            If a value is infinite or too large for single precision.

        """
        trees = self._trees
        if trees is None:
            return np.empty((0, 0))
        inputs = np.full(trees.n_inputs, np.nan)
        self._features.write(self._features.read(x, self._takes_levels), inputs)
        bad, found = trees.explain(inputs)
        if bad >= 0:
            raise self._too_large(bad, inputs[bad])
        return found


class ClassExplanations(ExplainedForest[Trees]):
    """Explanations of predicted probabilities."""

    @property
    @abc.abstractmethod
    def classes(self) -> list[Any]:
        """The labels seen so far."""

    @property
    @locked
    def baseline(self) -> dict[Any, float]:
        """The probability of each label from which explanations begin; empty at first."""
        found = np.empty(0) if self._trees is None else self._trees.root_prediction()
        return dict(zip(self.classes, found.tolist(), strict=True))

    @locked
    def explain_one(self, x: Mapping[Any, Any]) -> dict[Any, dict[Any, float]]:
        """Tell what each feature adds to the predicted probability of each label.

        Along the paths of the sample, what a cut changes is its feature's, and what it changes to
        be outside of a node's box is that of the features in which it is, by the distances. It
        takes some tens of milliseconds for 10 trees.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category; unknown features are
            ignored.

        Returns
        -------
        A mapping from label to one from feature to what it adds. For each label `baseline` and
        what all features add are the probability that `predict_proba_one` gives. Empty before any
        learning.

        Raises
        ------
        TypeError
            If a value is neither a number nor a level, or not what its feature has had so far.
        ValueError
            If a value is infinite or too large for single precision.

        """
        found = self._explain(x)
        features = self.feature_names
        return {
            label: dict(zip(features, added, strict=True))
            for label, added in zip(self.classes, found.T.tolist(), strict=True)
        }


class TargetExplanations(ExplainedForest[Trees]):
    """Explanations of predicted targets."""

    @property
    @locked
    def baseline(self) -> float:
        """The prediction from which explanations begin: the mean of the roots; 0 at first."""
        return 0.0 if self._trees is None else float(self._trees.root_prediction()[0])

    @locked
    def explain_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Tell what each feature adds to the predicted target.

        Along the paths of the sample, what a cut changes is its feature's, and what it changes to
        be outside of a node's box is that of the features in which it is, by the distances. It
        takes some tens of milliseconds for 10 trees.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category; unknown features are
            ignored.

        Returns
        -------
        A mapping from feature to what it adds: `baseline` and all of these are what `predict_one`
        gives. Empty before any learning.

        Raises
        ------
        TypeError
            If a value is neither a number nor a level, or not what its feature has had so far.
        ValueError
            If a value is infinite or too large for single precision.

        """
        found = self._explain(x)
        return dict(zip(self.feature_names, found.sum(axis=1).tolist(), strict=True))
