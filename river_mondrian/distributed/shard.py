"""What a worker has: a part of a forest's trees."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arguments import lifetimes_after
from ..estimators.classifier import MondrianForestClassifier
from ..files.store import load, save
from ..frames import read_frame, read_labels, read_targets, read_weights
from ..inputs import FeatureIndex, ordered, read_values


@dataclass(frozen=True)
class Rows:
    """Checked rows: names of columns, values with NaN for what is missing and codes for levels."""

    names: list[Hashable]
    columns: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.columns)


@dataclass(frozen=True)
class Block(Rows):
    """Checked rows with their labels or targets, and their weights."""

    y: Any
    w: NDArray[np.float64]

    def part(self, start: int, stop: int) -> Block:
        """Return some of the rows."""
        part = slice(start, stop)
        return Block(self.names, self.columns[part], self.y[part], self.w[part])


@dataclass(frozen=True)
class Known:
    """What a forest knows besides its trees: features, labels, samples, and its last lifetime.

    Parameters
    ----------
    model
        A forest with the same arguments, of which nothing else is read.
    features
        The features.
    labels
        The labels, in order of appearance; nothing of a regressor.
    n_samples
        Samples learned.
    horizon
        The last lifetime, where that is a function.

    """

    model: Any
    features: FeatureIndex
    labels: dict[Hashable, None]
    n_samples: int
    horizon: float

    @classmethod
    def of(cls, model: Any) -> Known:
        """Return what a forest knows."""
        with model._lock:
            model._settle()
            trees = model._trees
            grows = trees is not None and callable(model.lifetime)
            return cls(
                model._made_anew(),
                model._features.with_more(()),
                dict.fromkeys(getattr(model, "_labels", ())),
                model.n_samples,
                trees.horizon if grows else 0.0,
            )

    @property
    def is_classifier(self) -> bool:
        """Whether labels are learned."""
        return isinstance(self.model, MondrianForestClassifier)

    # Reading. Nothing changes.

    def read_frame(self, X: Any) -> tuple[Any, Rows]:
        """Read a frame; returns it as a narwhals one, and its rows."""
        frame, names, columns = read_frame(X, self.features if self.model._takes_levels else None)
        self.features.agree(names, columns)
        return frame, Rows(names, columns)

    def read_one(self, x: Mapping[Any, Any]) -> Rows:
        """Read a sample."""
        values = self.features.agreed(read_values(x, self.model._takes_levels))
        return Rows(list(values), np.array([list(values.values())]))

    def _read_samples(self, samples: Sequence[Mapping[Any, Any]]) -> Rows:
        index, found = self.features, []
        for row, x in enumerate(samples):
            try:
                values = index.agreed(read_values(x, self.model._takes_levels))
            except (TypeError, ValueError) as error:
                raise type(error)(f"{error} in row {row}") from None
            new = [name for name in ordered(values) if name not in index.places]
            if new:
                index = index.with_more({name: values[name] for name in new})
            found.append(values)
        columns = np.full((len(found), len(index)), np.nan)
        for row, values in enumerate(found):
            for name, value in values.items():
                columns[row, index.places[name]] = value
        return Rows(list(index.names), columns)

    def read_block(self, X: Any, y: Any, w: Any) -> Block:
        """Read samples to be learned.

        Raises
        ------
        TypeError, ValueError
            If one cannot be learned, which the message names by its row.

        """
        frame: Any = None
        if isinstance(X, (list, tuple)):
            rows = self._read_samples(X)
        else:
            frame, rows = self.read_frame(X)
        n = len(rows)
        weights = read_weights(w, n, frame)
        if self.is_classifier:
            labels = read_labels(y, n, frame)
            kept = np.flatnonzero(weights)
            # What weighs nothing is not learned.
            return Block(
                rows.names, rows.columns[kept], [labels[i] for i in kept.tolist()], weights[kept]
            )
        if callable(self.model.lifetime):
            lifetimes_after(self.model.lifetime, self.n_samples, n, self.horizon)
        return Block(rows.names, rows.columns, read_targets(y, n, frame), weights)

    # Learning.

    def first_joint_row(self, block: Block) -> int:
        """Return the first row for which random numbers of all trees are drawn together.

        That is the one with the first category, or with a new feature in random directions.
        """
        new = self.features.first_rows(block.names, block.columns)
        if isinstance(self.model.directions, int):
            return min(new.values(), default=len(block))
        if self.features.categories:
            return len(block)
        added = self.features.with_more(self._first_values(block, new))
        return min((new[name] for name in added.categories), default=len(block))

    def _first_values(self, block: Block, rows: dict[Hashable, int]) -> dict[Hashable, float]:
        places = {name: place for place, name in enumerate(block.names)}
        return {name: float(block.columns[row, places[name]]) for name, row in rows.items()}

    def after(self, block: Block) -> Known:
        """Return what a forest knows once it has learned a block."""
        features, n = self.features, len(block)
        new = features.first_rows(block.names, block.columns)
        if new:
            features = features.with_more(self._first_values(block, new))
        labels, horizon = self.labels, self.horizon
        if self.is_classifier:
            labels = labels | dict.fromkeys(block.y)
        elif callable(self.model.lifetime) and n > 0:
            horizon = lifetimes_after(self.model.lifetime, self.n_samples, n, horizon)[-1]
        return Known(self.model, features, labels, self.n_samples + n, horizon)


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
