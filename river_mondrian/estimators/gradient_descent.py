"""What classifier and regressor share of online gradient descent on a feature map."""

from __future__ import annotations

import abc
import itertools
import sys
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from river import optim

from ..arguments import check_seed
from ..checks import check_number, check_numbering, check_types, refuse
from ..features.base import FeatureMap
from ..features.isolation import IsolationFeatures
from ..frames import mapping_of
from ..learners.gradient_descent.rule import Rule
from ..learners.gradient_descent.weights import DescentWeights
from ..maps.compiled import CompiledMap
from ..maps.record import Sample
from ..model import locked
from ..progress import Progress
from ..status import DONE
from .feature_learner import FeatureLearner


class OnlineGradientDescent(FeatureLearner[DescentWeights]):
    """Online gradient descent on a feature map: what classifier and regressor share."""

    # Losses by name.
    _LOSSES: ClassVar[dict[str, type[optim.losses.Loss]]]
    # Rate of AdaGrad by default, measured on a9a, covertype and letter, and on california, kin8nm
    # and cpu.
    _RATE: ClassVar[float]
    # Whether features of texts count by themselves, beside the map's columns.
    linear = False
    # What the losses of River's that fit are.
    _KIND: ClassVar[type[optim.losses.Loss]]

    def __init__(
        self,
        features: FeatureMap | None,
        loss: Any,
        learning_rate: Any,
        softmax: bool,
        seed: int | None,
    ) -> None:
        if not isinstance(loss, self._KIND) and not (
            isinstance(loss, str) and loss in self._LOSSES
        ):
            raise ValueError(
                f"loss must be one of {', '.join(map(repr, self._LOSSES))} or a "
                f"{self._KIND.__name__} of River's, got {loss!r}"
            )
        check_seed(seed)
        super().__init__(features, lambda: IsolationFeatures(seed=seed), mixes=True)
        self.loss = loss
        self.learning_rate = learning_rate
        self.seed = seed
        # Places of the words that count by themselves once the map is final: those of its features,
        # and of more. It is extended only: what no sample has moved changes nothing.
        self._words: dict[Hashable, int] | None = None
        self._rule = Rule(
            self._LOSSES[loss]() if isinstance(loss, str) else loss,
            optim.AdaGrad(self._RATE) if learning_rate is None else learning_rate,
            softmax,
        )
        if self._features._auto and not self._rule.native:
            raise ValueError(
                f'lifetime="auto" takes a loss by its name, or one of that kind, got {loss!r}'
            )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        check_types(self, {"_rule": Rule})
        if self._words is not None:
            check_numbering(self, "_words", self._words)
            names = self._features._reader.index.names
            if list(self._words)[: len(names)] != names:
                refuse(self, "_words", names, "but they begin with the map's features")
        for weights in (self._current, self._next):
            if weights is not None:
                n = self._n_scores
                check_number(self, "n_scores", len(weights.scores), n, n)

    @property
    @abc.abstractmethod
    def _n_scores(self) -> int:
        """Scores that the targets known so far take."""

    def _make_weights(self, compiled: CompiledMap) -> DescentWeights:
        has_words = self.linear and compiled.reads_text
        return DescentWeights(self._rule, compiled, self._n_scores, has_words)

    def _locate(self, x: Mapping[Any, Any], weights: DescentWeights, learns: bool) -> Sample:
        if not weights.has_words:
            return super()._locate(x, weights, learns)
        reader, places = self._features._reader, self._words
        if places is not None:
            return reader.read_text(x, places, learns)
        # While there is a pool, its words are those of the map.
        if learns and self._features._pool is None:
            places = self._words = reader.index.places.copy()
            return reader.read_text(x, places, True)
        return reader.read_text(x, reader.index.places, False)

    @property
    def _steady(self) -> bool:
        # Words of each row may be new.
        return super()._steady and self._current is not None and not self._current.has_words

    @property
    @locked
    def lifetimes(self) -> dict[float, float]:
        """Each lifetime with its share of the predictions, where the lifetime is "auto"."""
        if self._current is None:
            return {}
        shares = self._current.shares.tolist()
        return dict(zip(self._current.compiled.lifetimes, shares, strict=False))

    def _score(self, x: Mapping[Any, Any]) -> int:
        """Write the scores of a sample to those of the current weights; returns the best class."""
        weights = self._current
        assert weights is not None
        status, best = weights.score(self._locate(x, weights, False))
        if status != DONE:
            raise self._features._bad_input(status, x, weights.compiled)
        return best

    def _scores(self, X: Any, progress: bool) -> tuple[Any, NDArray[np.float64]]:
        """Read a frame; returns it as a narwhals one with the scores of its rows."""
        frame, names, columns = self._features._read_frame(X)
        weights = self._current
        if weights is None:
            return frame, np.zeros((len(columns), self._n_scores))
        scores = np.empty((len(columns), len(weights.scores)))
        if weights.has_words:
            with Progress(progress, len(columns)) as shown:
                for i, row in enumerate(columns):
                    self._score(mapping_of(names, row))
                    scores[i] = weights.scores
                    shown.reach(i + 1)
            return frame, scores
        for part, out in self._blocks(names, columns, weights.compiled, progress):
            scores[part] = weights.score_rows(out)
        return frame, scores

    @property
    def _raw_memory_usage(self) -> int:
        size = super()._raw_memory_usage
        if self._words is not None:
            # The map's features are counted there.
            more = itertools.islice(self._words, len(self._features._reader.index), None)
            size += sys.getsizeof(self._words) + sum(map(sys.getsizeof, more))
        return size
