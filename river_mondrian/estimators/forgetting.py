"""Forests from which samples can be removed: single samples, or all but the latest."""

from __future__ import annotations

import abc
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from .. import arguments, model
from ..arguments import Directions
from ..frames import Block, Frame, read_block
from ..inputs import check_weight
from ..partitions.mondrian.tree_store import WARM_UP, Partitions
from ..progress import Progress, pieces
from .forest import MondrianForest, SupervisedForest


class WindowForest(MondrianForest):
    """Base class of the forests that may store only the latest samples.

    Suppose that samples have no missing values, and that the choice of removed samples does not
    depend on the trees. Given the widths and hyperparameters, a forest is then distributed like a
    forest that never learned the removed samples.
    """

    window: int | None

    def _write_known(self, values: Mapping[Hashable, float]) -> Any:
        """Write a checked sample to the trees' vector, and return the trees.

        Return None if a feature is unknown.
        """
        trees = self._trees
        if trees is None or not values.keys() <= self._features.index_of.keys():
            return None
        self._features.write(values, trees.vector)
        return trees

    def _take_out(self, trees: Any, put: Callable[[int], None]) -> bool:
        """Remove a stored sample that equals the written sample; return whether it was stored.

        `put(p)` writes the sample's weight, and its label or target, to the stored row p.
        """
        # `_enter` completes the removal, and drops trees without samples. If this method is
        # interrupted first, the closed trees make the next call run `_enter`.
        trees.close()
        is_held = trees.forget(put)
        if is_held:
            self._enter()
        return is_held


class ForgettingForest(WindowForest, SupervisedForest):
    """Base class of the supervised forests from which samples can be removed."""

    # Whether the lifetime may be a function of the number of samples.
    _GROWS: ClassVar[bool] = False

    lifetime: Any
    max_nodes: int | None
    directions: Directions

    def __post_init__(self) -> None:
        arguments.check_integer("max_nodes", self.max_nodes, 1, None)
        if self.max_nodes is not None and self.window is not None:
            raise ValueError(f"window={self.window} needs max_nodes=None, got {self.max_nodes}")
        if not (self._GROWS and callable(self.lifetime)):
            arguments.check_lifetime(self.lifetime)
        super().__post_init__()

    def _partitions(self, n_trees: int, lifetime: Any = math.inf, **rest: Any) -> Partitions:
        if not (self._GROWS and callable(self.lifetime)):
            lifetime = self.lifetime
        rest |= {"directions": self.directions, "max_nodes": self.max_nodes}
        return super()._partitions(n_trees, lifetime, window=self.window, **rest)

    @property
    def _takes_levels(self) -> bool:  # type: ignore[override]
        # Directions are weighted sums, so features must be numbers.
        return self.directions is None

    def _write_known(self, values: Mapping[Hashable, float]) -> Any:
        if self.max_nodes is not None:
            raise ValueError(f"trees with max_nodes={self.max_nodes} keep no samples to forget")
        return super()._write_known(values)

    # Learning rows.

    def _read_block(self, frame: Frame, y: Any, w: Any) -> Block:
        """Return the checked rows of a frame, with labels or targets and weights."""
        return read_block(frame, y, w, self._READ_Y)

    @abc.abstractmethod
    def _numbers(self, rows: Block, start: int, stop: int) -> NDArray[Any]:
        """Return the label numbers, or the targets, of rows up to the next new label."""

    def _begin_rows(self, rows: Block, start: int, stop: int) -> int:
        """Prepare the trees for rows; return the end of the rows that can be learned at once."""
        return stop

    def _horizons(self, n_new: int) -> list[float] | None:
        """Return the lifetimes after each of `n_new` samples; None if the lifetime is fixed."""
        return None

    def _learn_read(self, frame: Frame, y: Any, w: Any, progress: bool = False) -> None:
        rows, start = self._read_block(frame, y, w), 0
        with self._lock:
            self._settle()
            horizons = self.n_samples, self._horizons(len(rows))
        with Progress(progress, len(rows)) as shown:
            # During the warm-up, each sample may change ranges and rebuild the trees, so rows are
            # learned one by one.
            while start < len(rows) and (self.n_samples < WARM_UP or self._trees.is_warming_up):
                self._learn_row(rows.mapping(start), rows.y[start], float(rows.w[start]))
                start += 1
            while start < len(rows):
                shown.reach(start)
                # The lock is taken for each block of rows, so that other threads can call between
                # blocks.
                with self._lock:
                    self._settle()
                    start = self._learn_rows(rows, start, *horizons)
            shown.reach(start)

    def _learn_rows(
        self, rows: Block, start: int, n_before: int, horizons: list[float] | None
    ) -> int:
        """Learn rows after the warm-up, up to a new feature or label; return the next row's number.

        `horizons` contains the lifetime after each row, computed for `n_before` samples before the
        first row.
        """
        trees = self._grown()
        stop = min(len(rows), start + trees.learned_at_once(self.n_jobs))
        # Another thread may have added a feature or learned samples after the rows were read, so
        # types and lifetimes are checked again.
        self._features.agree(rows.names, rows.columns[start:stop], start)
        lifetimes = None if horizons is None else horizons[start:stop]
        if lifetimes is not None and self.n_samples != n_before + start:
            lifetimes = self._horizons(stop - start)
        trees.begin_change()
        stop = self._begin_rows(rows, start, stop)
        new = self._features.first_rows(rows.names, rows.columns[start:stop])
        stop = min([stop, *(start + row for row in new.values() if row > 0)])
        first = rows.mapping(start)
        self._add_features({name: first[name] for name, row in new.items() if row == 0})
        numbers = self._numbers(rows, start, stop)
        block = rows.part(start, start + len(numbers))
        inputs = self._arrange(block.names, block.columns)
        last = () if lifetimes is None else (lifetimes[: len(block)],)
        trees.learn_rows(inputs, numbers, block.w.copy(), self.n_jobs, *last)
        trees.end_change()
        return start + len(block)

    # Forgetting.

    @abc.abstractmethod
    def _putter(self, trees: Any, y: Any, w: float) -> Callable[[int], None] | None:
        """Return a function that writes a label or target, and a weight, to a stored row.

        Return None if no learned sample can have this label or weight.
        """

    @model.locked
    def forget_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Remove a learned sample from every tree.

        Suppose that the sample has no missing values, and is chosen independently of the trees.
        Given the widths and hyperparameters, the forest is then distributed like a forest that
        never learned the sample, because a Mondrian process is projective[^1]. Ranges, widths,
        names of features and labels, and the random state do not change. But after its only sample
        has been removed, a forest equals a new forest.

        Parameters
        ----------
        x
            A mapping from feature to value, as it was learned.
        y
            The label or the target, as it was learned.
        w
            The weight, as it was learned.

        Raises
        ------
        KeyError
            If no stored sample equals this sample, or the weight is 0. Then the forest does not
            change.
        TypeError
            If a value is neither a number nor a level, the target or weight is not a number, or the
            label is not hashable.
        ValueError
            If a value is infinite, the weight is out of range, or `max_nodes` is given: full trees
            do not store their samples.

        Examples
        --------

        >>> from river_mondrian import MondrianForestClassifier

        >>> model = MondrianForestClassifier(seed=1)
        >>> for i in range(10):
        ...     model.learn_one({"a": i / 10}, i < 5)
        >>> model.forget_one({"a": 0.3}, True)
        >>> model.forget_one({"a": 0.3}, True)
        Traceback (most recent call last):
        KeyError: "no stored sample equals {'a': 0.3} with y = True, weight 1.0"

        References
        ----------
        [^1]: Lakshminarayanan, B., Roy, D. M. and Teh, Y. W. (2014). Mondrian Forests: Efficient
        Online Random Forests. Advances in Neural Information Processing Systems 27. Section 4.1.

        """
        self._forget(self._read(x), self._CHECK_Y(y), check_weight(w), x)

    @model.locked
    def forget_many(self, X: Any, y: Any, w: Any = 1.0, *, progress: bool = False) -> None:
        """Remove the rows of a frame from every tree, like `forget_one`.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...;
            nulls and NaN are missing values.
        y
            The labels or targets of the rows, by position.
        w
            The weight of all rows, or one weight per row.
        progress
            Whether to show the number of removed rows on stderr, with tqdm if it is installed, else
            as text. The result does not depend on `progress`. After Ctrl-C, each row has been
            removed completely or not at all.

        Raises
        ------
        KeyError
            If rows contain a sample more often than it is stored. The error names the row, and the
            forest does not change.
        TypeError, ValueError
            As for `forget_one`, or if a column occurs twice or lengths differ.

        """
        rows = read_block(self._read_frame(X), y, w, self._READ_Y)
        mappings = map(rows.mapping, range(len(rows)))
        samples = [*zip(mappings, rows.ys, rows.w.tolist(), strict=True)]
        keys = []
        for i, sample in enumerate(samples):
            if self._prepared_to_forget(*sample) is None:
                raise KeyError(f"row {i} has a feature, label or weight that no learned sample has")
            keys.append((self._grown().key(), *sample[1:]))
        counts = Counter(keys)
        for i, (key, sample) in enumerate(zip(keys, samples, strict=True)):
            n, put = counts.pop(key, 0), self._prepared_to_forget(*sample)
            if n > 0 and put is not None and self._grown().n_equal(put, n) < n:
                _, y, w = sample
                text = f"row {i} is to be forgotten {n} times with y = {y!r}, weight {w!r}"
                raise KeyError(f"{text}, but fewer stored samples equal it")
        for piece in pieces(len(samples), progress):
            for sample in samples[piece]:
                self._forget(*sample, sample[0])

    def _prepared_to_forget(
        self, values: Mapping[Hashable, float], y: Any, w: float
    ) -> Callable[[int], None] | None:
        """Write a sample's inputs; return `_putter`'s function, or None if no sample can match."""
        trees = self._write_known(values)
        if trees is None or not w > 0.0:
            return None
        return self._putter(trees, y, w)

    def _forget(
        self, values: Mapping[Hashable, float], y: Any, w: float, x: Mapping[Any, Any]
    ) -> None:
        """Remove a checked sample, which the user gave as `x`."""
        put = self._prepared_to_forget(values, y, w)
        if put is None or not self._take_out(self._grown(), put):
            text = f"no stored sample equals {dict(x)!r} with y = {y!r}, weight {w!r}"
            raise KeyError(text)
