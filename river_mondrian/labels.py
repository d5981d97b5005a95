"""Trees over classes: hierarchical label posteriors (see `kernels.hnsp`)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from .arena import address_of
from .kernels import hnsp, walks
from .kernels import layout as at
from .kernels.memory import address_of as kernel_address
from .trees import WARM_UP, Carried, ClassTrees, Node, Partitions


@dataclass
class LabelNode(Node):
    """A node with its class counts: a leaf's own, c of Algorithm 5 elsewhere."""

    counts: NDArray[np.int64]


class LabelTrees(ClassTrees[LabelNode]):
    """Mondrian trees with a label posterior.

    Parameters
    ----------
    partitions
        What all kinds of trees are told.
    gamma
        Rate of the discount; None means ten times the number of features known when the
        warm-up ended.
    split_pure
        Whether blocks of one class are cut, too.

    """

    _NODE = LabelNode
    _POINT_WORDS: ClassVar[int] = 1
    _DERIVED: ClassVar[frozenset[str]] = ClassTrees._DERIVED | {"out"}

    def __init__(
        self, partitions: Partitions, gamma: float | None = None, split_pure: bool = False
    ) -> None:
        self.gamma = gamma
        self.split_pure = split_pure
        super().__init__(partitions)

    def _set_up(self) -> None:
        self.shared[at.N_WORDS] = 1
        self.shared[at.SPLIT_PURE] = self.split_pure
        self.shared[at.HIDE_LIMIT] = at.PAUSE_LIMIT
        self.reals[at.GAMMA] = 1.0 if self.gamma is None else self.gamma

    def _carried_words(self) -> int:
        return 2 * int(self.shared[at.N_WORDS])

    def _finish(self) -> None:
        super()._finish()
        self.shared[at.PREDICT_ROWS] = kernel_address(walks.predict_rows)
        self.shared[at.COLLECT] = kernel_address(hnsp.collect)
        self.shared[at.VALUES] = self.values_address
        self.shared[at.ROW] = self.row_address
        self._make_out()

    # The kernel counts: that is quicker than to tell it and to count here.

    @property
    def n_samples(self) -> int:
        """Number of samples learned."""
        return int(self.shared[at.N_SAMPLES])

    @n_samples.setter
    def n_samples(self, n: int) -> None:
        self.shared[at.N_SAMPLES] = n

    @property
    def n_points(self) -> int:
        """Number of samples stored."""
        return int(self.shared[at.N_POINTS])

    @n_points.setter
    def n_points(self, n: int) -> None:
        self.shared[at.N_POINTS] = n

    def _make_out(self) -> None:
        out = np.empty(int(self.shared[at.N_CLASSES]))
        self.shared[at.OUT] = address_of(out)
        # A plain view is made a list of in two thirds of the time.
        self.out = cast("memoryview[float]", out.data)

    @property
    def nbytes(self) -> int:
        """Bytes held by arrays."""
        return super().nbytes + self.out.nbytes + 128

    def add_inputs(self, names: Sequence[Hashable], first_values: NDArray[np.float64]) -> None:
        """Add features, each with the first value that was seen of it."""
        super().add_inputs(names, first_values)
        if self.n_samples < WARM_UP and self.gamma is None:
            self.reals[at.GAMMA] = 10.0 * self.n_inputs

    def add_class(self) -> int:
        """Add a class; returns its number."""
        shared = self.shared
        label = int(shared[at.N_CLASSES])
        shared[at.N_CLASSES] = label + 1
        old = int(shared[at.N_WORDS])
        if label >= 32 * old:
            new = old + max(1, old // 2)
            capacity = int(shared[at.DIM_CAPACITY])
            box = int(shared[at.BOX])
            shared[at.N_WORDS] = new
            self._set_widths()
            right = at.CLASSES + old
            self.nodes.relayout(
                int(shared[at.NODE_WIDTH]),
                [
                    (0, 0, right),
                    (right, at.CLASSES + new, old),
                    (box, int(shared[at.BOX]), 2 * capacity),
                ],
            )
        width = int(shared[at.COUNT_WIDTH])
        if label >= width:
            shared[at.COUNT_WIDTH] = 2 * width
            self.counts.relayout(2 * width, [(0, 0, width)])
        self._make_out()
        return label

    def learn(self, label: int) -> int:
        """Learn the sample in `values` with a class.

        Returns -1, or the dimension whose value is too large; then nothing has changed.
        """
        said: int = hnsp.learn_one(self.address, label)
        if said == hnsp.WAITS:
            if self._make_room():
                hnsp.put_label(self.address, label, self.n_points)
                return self._learn_by_rebuilding()
            said = hnsp.learn_one(self.address, label)
        if said != -1 or self.bounded:
            return self._complete(said)
        return -1

    def learn_rows(
        self, values: NDArray[np.float64], labels: NDArray[np.int64], n_jobs: int
    ) -> None:
        """Learn rows of checked values, shape (n, dimensions), with classes, after the warm-up."""

        def put(start: int, n: int, first: int) -> None:
            hnsp.put_labels(self.address, labels[start:].ctypes.data, n, first)

        self._learn_rows(values, put, n_jobs)

    # Prediction.

    def predict(self) -> int:
        """Predict the sample in `values` into `out`, as `ClassTrees` tells."""
        said: int = hnsp.predict(self.address)
        return said

    def predict_rows(self, values: NDArray[np.float64], n_jobs: int) -> NDArray[np.float64]:
        """Predict rows of checked values; returns probabilities, shape (n, classes)."""

        def predict(rows: int, n: int, out: int) -> None:
            hnsp.predict_rows(self.address, rows, n, out)

        return self._predict_rows(predict, values, len(self.out), n_jobs)

    # Reading.

    def _carried(self, t: int, points: NDArray[np.int32], hidden: bool) -> Carried:
        shared = self.shared
        words, n_classes = int(shared[at.N_WORDS]), int(shared[at.N_CLASSES])
        label_at, links = int(shared[at.N_VALUES]), int(shared[at.LINKS])
        tables = self.counts.rows(t, int(self.trees[t, at.N_COUNTS]))
        pauses = not self.split_pure

        def bits(row: NDArray[np.int32], start: int) -> NDArray[np.int64]:
            parts = row[start : start + words].astype(np.uint32)
            one = (parts[:, None] >> np.arange(32, dtype=np.uint32)) & 1
            return one.reshape(-1)[:n_classes].astype(np.int64)

        def carried(
            ref: int, row: NDArray[np.int32]
        ) -> tuple[bool, bool, tuple[NDArray[np.int64]]]:
            counts = np.zeros(n_classes, dtype=np.int64)
            if ref < 0:
                counts[row[label_at]] = 1
                return True, pauses, (counts,)
            left, right = bits(row, at.CLASSES), bits(row, at.CLASSES + words)
            pure = int((left | right).sum()) == 1
            if row[at.DIM] >= 0 and (hidden or not (pure and pauses)):
                return False, False, (left + right,)
            if pure:
                counts[np.argmax(left | right)] = row[at.COUNT]
            elif row[at.RIGHT] >= 0:
                counts[:] = tables[row[at.RIGHT], :n_classes]
            else:
                p = int(row[at.LEFT])
                while p >= 0:
                    counts[points[p, label_at]] += 1
                    p = int(points[p, links + t])
            return True, pure and pauses, (counts,)

        return carried
