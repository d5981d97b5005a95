"""Scores of the samples that a detector learned last."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from river import base

from ..model import Model, locked

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ScoringDetector(Model, base.AnomalyDetector):
    """A detector that keeps the raw scores of the latest samples."""

    # What a raw score is, for pictures.
    _SCORE: ClassVar[str]

    @property
    @abc.abstractmethod
    def recent_scores(self) -> list[float]:
        """The raw scores of the samples learned last, the latest last."""

    @property
    @abc.abstractmethod
    def _n_mappings(self) -> int:
        """Number of mappings learned, also those that have not filled a shingle."""

    def draw_scores(self, threshold: float = 0.99, ax: Axes | None = None) -> Axes:
        """Draw the scores of the samples learned last; see `river_mondrian.plot.scores`.

        Parameters
        ----------
        threshold
            Samples whose rank among the drawn ones is larger are marked, from 0 to 1.
        ax
            Axes of matplotlib to draw on; None stands for those of a new figure.

        Returns
        -------
        The axes. The horizontal axis has the numbers of the samples, from 1 on. The first of
        several marked samples in a row is labelled with its number.

        Raises
        ------
        ValueError
            If the threshold is not within [0, 1].

        """
        from ..plot.over_time import scores

        return scores(self, threshold, ax=ax)

    @locked
    def _recent(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the numbers of the samples learned last, and their scores."""
        scores = np.array(self.recent_scores, dtype=np.float64)
        return self._n_mappings + 1 - len(scores) + np.arange(len(scores)), scores
