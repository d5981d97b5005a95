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
    """A forest that explains what its cuts have changed."""

    @property
    @locked
    def feature_importances(self) -> dict[Any, float]:
        """How much the cuts on each feature reduced the loss, a mean over the trees.

        For classes the unit is nats per sample: the reduction of the log loss of predicting each
        learned label from earlier ones, where a tree counts as the mean over its prunings. For
        targets it is squared units of the target per sample: the reduction of the squared error of
        predicting each learned target from all others. An irrelevant feature has an importance of
        about 0, often slightly below; a feature that is never cut has 0. Features share a cut in a
        direction (`directions`) in proportion to their extents in it. Importances add up to the
        reduction by all cuts.

        They are computed from the trees, without samples: 100,000 samples in 10 trees take a second
        or two, and temporarily 8 bytes for each node and class of a tree. Empty before any
        learning.
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


class TargetExplanations(ExplainedForest[Trees]):
    """Explanations of predicted targets."""

    @property
    @locked
    def baseline(self) -> float:
        """The prediction where explanations begin: the mean of the roots; 0 at first."""
        return 0.0 if self._trees is None else float(self._trees.root_prediction()[0])

    @locked
    def explain_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return what each feature adds to the predicted target.

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
        A mapping from feature to its contribution; `baseline` and all contributions add up to
        `predict_one`. Empty before any learning.

        Raises
        ------
        TypeError
            If a value is neither a number nor a level, or not of the type of its feature so far.
        ValueError
            If a value is infinite or too large for single precision.

        """
        found = self._explain(x)
        return dict(zip(self.feature_names, found.sum(axis=1).tolist(), strict=True))
