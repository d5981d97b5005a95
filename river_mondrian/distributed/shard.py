"""What a worker has: a part of a forest's trees."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..estimators.classifier import MondrianForestClassifier
from ..files.store import load, save
from .blocks import Block, Rows

Told = NDArray[np.float64] | None


class Shard:
    """A part of a forest's trees, which learns blocks 1, 2, ... once each, and saves itself.

    Parameters
    ----------
    path
        The file with the part, as it was saved last.
    code
        Parameters that files do not hold.
    save_every
        Blocks from one file to the next.

    """

    def __init__(self, path: str, code: Mapping[str, Any], save_every: int) -> None:
        self._path, self._save_every = path, save_every
        self._model, extra = load(path, with_extra=True, **code)
        # The last block learned, and saved; what those tell that the driver has not heard.
        self._position = self._saved = int(extra["position"])
        self._told: dict[int, Told] = extra["told"]
        self._is_whole = True

    def position(self) -> int:
        """Return the number of the last block that has been learned."""
        return self._position

    def learn(self, number: int, heard: int, block: Block) -> tuple[Told, int]:
        """Learn a block, unless it has been learned before.

        Parameters
        ----------
        number
            Number of the block.
        heard
            The last block of which the driver knows what was told.
        block
            The block.

        Returns
        -------
        What it tells of the targets' law, and the last block that has been saved.

        """
        self._told = {n: told for n, told in self._told.items() if n > heard}
        if number > self._position:
            if number != self._position + 1 or not self._is_whole:
                raise RuntimeError(f"block {number} comes after block {self._position}")
            self._is_whole = False
            self._told[number] = self._learn(block)
            self._position, self._is_whole = number, True
            if number % self._save_every == 0:
                self.save()
        return self._told.get(number), self._saved

    def _learn(self, block: Block) -> Told:
        trees: Any = self._model._trees
        learns_law = getattr(trees, "law_numbers", None) is not None
        if learns_law:
            trees.told = []
        # Arrays that are shared with others are read-only.
        frame: Any = (None, block.names, block.columns)
        self._model._learn_read(frame, block.y, block.w)
        return np.concatenate(trees.told) if learns_law and trees.told else None

    def save(self) -> None:
        """Save the part, with what the driver may not have heard."""
        position = self._position
        save(self._model, self._path, extra={"position": position, "told": self._told})
        self._saved = position

    def part(self) -> Any:
        """Return the part as a model."""
        return self._model

    def predict(self, rows: Rows, law: Told) -> NDArray[np.float64]:
        """Return the probabilities of classes, or means and variances, by these trees."""
        model: Any = self._model
        trees = self._tell(law)
        values = model._arrange(rows.names, rows.columns)
        found: NDArray[np.float64] = trees.predict_rows(values, model.n_jobs)
        return found

    def predict_mixture(self, rows: Rows, law: Told) -> NDArray[np.float64]:
        """Return weights, means and variances of the mixture for one row."""
        trees = self._tell(law)
        trees.vector[:] = self._model._arrange(rows.names, rows.columns)[0]
        _, mixture = trees.predict_mixture()
        return np.array([mixture.weights, mixture.means, mixture.variances])

    def _tell(self, law: Told) -> Any:
        """Let the trees know the law that all trees have learned."""
        trees: Any = self._model._trees
        if law is not None:
            trees.law_numbers[:] = law
        return trees

    def describe(self) -> dict[str, Any]:
        """Return the bytes of the part, its process, and hyperparameters of a regressor."""
        model: Any = self._model
        is_classifier = isinstance(model, MondrianForestClassifier)
        return {
            "nbytes": model._raw_memory_usage,
            "process": os.getpid(),
            "hyperparameters": {} if is_classifier else model.hyperparameters,
        }
