"""Forgetting samples: one by one, or all but the latest."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar

from ..arguments import (
    ClonesLifetime,
    Directions,
    check_directions,
    check_integer,
    check_lifetime,
    check_window,
)
from ..frames import mapping_of, read_weights
from ..inputs import check_weight
from ..model import locked
from ..partitions.mondrian.tree_memory import Partitions
from ..progress import pieces
from .forest import MondrianForest
from .inspection import Trees


class WindowForest(MondrianForest[Trees]):
    """Base of the forests that may hold the latest samples only.

    When a sample is removed, the rest is distributed like a forest that never had it, given its
    widths and hyperparameters. This needs samples without missing values, and deletions that do not
    depend on the trees.
    """

    window: int | None

    def _begin(self) -> None:
        check_window(self.window)
        super()._begin()

    def _partitions(self, n_trees: int) -> Partitions:
        return dataclasses.replace(super()._partitions(n_trees), window=self.window)

    def _write_known(self, values: Mapping[Hashable, float]) -> Trees | None:
        """Write a checked sample to the trees' vector; None where no sample that is held is it."""
        trees = self._trees
        if trees is None or not values.keys() <= self._features.places.keys():
            return None
        self._features.write(self._features.agreed(dict(values)), trees.vector)
        return trees

    def _take_out(self, trees: Trees, put: Callable[[int], None]) -> bool:
        """Forget a sample that equals the written one; returns whether there is any.

        `put` writes what it has besides its inputs as a point, whose number it is given.
        """
        # So the next entry completes what follows from it, if this is interrupted, and drops trees
        # that hold nothing any more; it is here, if not.
        trees.close()
        is_held = trees.forget(put)
        if is_held:
            self._enter()
        return is_held


class ForgettingForest(WindowForest[Trees], ClonesLifetime):
    """Base of the forests over labels or targets from which samples can be taken out again."""

    # Whether the lifetime may be a function of the number of samples.
    _GROWS: ClassVar[bool] = False

    max_nodes: int | None
    directions: Directions

    def _begin(self) -> None:
        if self.max_nodes is not None:
            check_integer("max_nodes", self.max_nodes, 1)
            if self.window is not None:
                raise ValueError(
                    f"window={self.window} needs max_nodes=None: a full tree keeps no samples "
                    f"that could be taken out, got max_nodes={self.max_nodes}"
                )
        if not (self._GROWS and callable(self.lifetime)):
            check_lifetime(self.lifetime)
        check_directions(self.directions)
        super()._begin()

    def _partitions(self, n_trees: int) -> Partitions:
        lifetime = math.inf if self._GROWS and callable(self.lifetime) else self.lifetime
        return dataclasses.replace(
            super()._partitions(n_trees),
            lifetime=lifetime,
            directions=self.directions,
            max_nodes=self.max_nodes,
        )

    @property
    def _takes_levels(self) -> bool:  # type: ignore[override]
        # Directions are sums of numbers.
        return self.directions is None

    def _write_known(self, values: Mapping[Hashable, float]) -> Trees | None:
        if self.max_nodes is not None:
            raise ValueError(
                f"full trees do not keep their samples: nothing can be forgotten with max_nodes="
                f"{self.max_nodes}"
            )
        return super()._write_known(values)

    @abc.abstractmethod
    def _check_y(self, y: Any) -> Any:
        """Check a label or a target, and return it as it is learned."""

    @abc.abstractmethod
    def _read_ys(self, y: Any, n: int, like: Any) -> Sequence[Any]:
        """Return the checked labels or targets of `n` rows."""

    @abc.abstractmethod
    def _putter(self, trees: Trees, y: Any, w: float) -> Callable[[int], None] | None:
        """Return what writes a label or target, and a weight, as a point's.

        None where no sample that was learned has them.
        """

    def forget_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Remove a learned sample from every tree.

        The rest is distributed like a forest that never had the sample, because a Mondrian process
        is projective[^1]. This needs a sample without missing values, and a choice that does not
        depend on the trees. Ranges and widths, names of features and labels, and the random state
        stay. But a forest whose last sample is removed equals one that never learned any.

        Parameters
        ----------
        x
            A mapping from feature to value, as it was learned: values are compared in single
            precision, scaled as the trees have them.
        y
            The label or the target, as it was learned.
        w
            The weight, as it was learned.

        Raises
        ------
        KeyError
            If no stored sample equals this one. The forest does not change then. With `directions`
            this may happen to a sample with a missing value, which was stored as the mean at that
            time.
        TypeError
            If a value is neither a number nor a level, or the target or weight no number.
        ValueError
            If a value is infinite or the weight out of range, or if there is a bound `max_nodes`:
            full trees do not store their samples.

        Examples
        --------

        >>> from river_mondrian import MondrianForestClassifier

        >>> model = MondrianForestClassifier(seed=1)
        >>> for i in range(10):
        ...     model.learn_one({"a": i / 10}, i < 5)
        >>> model.forget_one({"a": 0.3}, True)
        >>> model.forget_one({"a": 0.3}, True)
        Traceback (most recent call last):
        KeyError: "no sample that is stored equals {'a': 0.3} with y = True, weight 1.0"

        References
        ----------
        [^1]: Lakshminarayanan, B., Roy, D. M. and Teh, Y. W. (2014). Mondrian Forests: Efficient
        Online Random Forests. Advances in Neural Information Processing Systems 27. Section 4.1.

        """
        values = self._read(x)
        self._forget(values, self._check_y(y), check_weight(w), x)

    def forget_many(self, X: Any, y: Any, w: Any = 1.0, *, progress: bool = False) -> None:
        """Remove the rows of a frame from every tree, like `forget_one`.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array of the features 0, 1, ...; nulls and NaN
            are missing.
        y
            The labels or targets of its rows.
        w
            The weight of all rows, or their weights.
        progress
            Whether to show on stderr how many rows have been removed, by tqdm or, without it, as
            lines of text. The result is the same, bit for bit. After Ctrl-C some whole rows have
            been removed.

        Raises
        ------
        KeyError
            If fewer stored samples than rows equal a row. The error names the row, and the forest
            does not change.
        TypeError, ValueError
            As for `forget_one`, or if a column is doubled or a length wrong.

        """
        frame, names, columns = self._read_frame(X)
        n = len(columns)
        ys, weights = self._read_ys(y, n, frame), read_weights(w, n, frame).tolist()
        rows = [mapping_of(names, row) for row in columns]
        self._forget_rows(list(zip(rows, ys, weights, strict=True)), progress)

    @locked
    def _forget_rows(
        self, samples: Sequence[tuple[Mapping[Any, float], Any, float]], progress: bool
    ) -> None:
        """Forget checked samples, if all are stored."""
        keys = []
        for i, sample in enumerate(samples):
            if self._prepared_to_forget(*sample) is None:
                raise KeyError(f"row {i} has a feature, a label or a weight that no sample has had")
            keys.append((self._grown().key(), *sample[1:]))
        counts = Counter(keys)
        for i, (key, sample) in enumerate(zip(keys, samples, strict=True)):
            n, put = counts.pop(key, 0), self._prepared_to_forget(*sample)
            if n > 0 and put is not None and self._grown().n_equal(put, n) < n:
                raise KeyError(
                    f"row {i} is to be forgotten {n} times with y = {sample[1]!r} and weight "
                    f"{sample[2]!r}, but fewer samples that are stored equal it"
                )
        for part in pieces(len(samples), progress):
            for sample in samples[part]:
                self._forget(*sample, sample[0])

    def _prepared_to_forget(
        self, values: Mapping[Hashable, float], y: Any, w: float
    ) -> Callable[[int], None] | None:
        """Write a sample's inputs; returns what writes the rest, None where it is not stored."""
        trees = self._write_known(values)
        if trees is None or not w > 0.0:
            return None
        return self._putter(trees, y, w)

    @locked
    def _forget(
        self, values: Mapping[Hashable, float], y: Any, w: float, x: Mapping[Any, Any]
    ) -> None:
        """Forget a checked sample, which was given as `x`."""
        put = self._prepared_to_forget(values, y, w)
        if put is None or not self._take_out(self._grown(), put):
            raise KeyError(
                f"no sample that is stored equals {dict(x)!r} with y = {y!r}, weight {w!r}"
                f"{self._why_not(values)}"
            )

    def _why_not(self, values: Mapping[Hashable, float]) -> str:
        """Return why a sample may not be found although it was learned."""
        if self.directions is None or values.keys() >= self._features.places.keys():
            return ""
        return (
            "; with directions, what a sample lacks is stored as the mean of when it was learned, "
            "by which it is not found later"
        )
