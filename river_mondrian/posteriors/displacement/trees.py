"""Random cut trees: what owns their memory and calls their kernels."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...arguments import ENTRY_DRAWS
from ...partitions.mondrian.inspection import NodeView
from ...partitions.mondrian.tracing import Path, gaps_from, traced
from ...partitions.mondrian.tree_memory import Partitions
from ...partitions.mondrian.trees import MondrianTrees
from ...records import Float32s, Float64s, Memory
from ...status import DONE, WAITS
from . import scoring
from .checking import check_cuts
from .ranks import KEPT
from .records import CutForest
from .scoring import N_READINGS, Scores

# `noted_at` where no score is noted.
NOTHING_NOTED = -1


class CutTrees(MondrianTrees[CutForest, NodeView]):
    """Random cut trees over the latest samples, and the scores of these.

    Parameters
    ----------
    partitions
        Arguments of trees of all kinds.
    entering
        The probability with which a sample enters full trees.

    """

    _FOREST = CutForest
    _RENEWS: ClassVar[bool] = True
    _DERIVED: ClassVar[frozenset[str]] = MondrianTrees._DERIVED | {
        "out",
        "memory",
        "noted",
        "ranked",
        "version_now",
        "_own",
    }

    def __init__(self, partitions: Partitions, entering: float) -> None:
        # Of the samples learned last, in a ring.
        self.scores = np.zeros(KEPT)
        super().__init__(partitions)
        self.forest.entering = entering
        # The trees draw from others.
        seeds = np.random.SeedSequence(partitions.seed, spawn_key=(ENTRY_DRAWS,))
        self.forest.entry_state = int(seeds.generate_state(1, np.uint64).view(np.int64)[0])

    def _finish(self) -> None:
        super()._finish()
        forest = self.forest
        # The record's version, which is that of the trees where nothing is to be settled.
        self.version_now = self.shared.word("version")
        self.ranked = np.zeros(KEPT)
        n = int(forest.n_scores)
        self.ranked[:n] = np.sort(self.scores[:n])
        self.noted = np.full(self.inputs.shape[1], np.nan)
        forest.scores, forest.ranked = Float64s.of(self.scores), Float64s.of(self.ranked)
        forest.noted_inputs = Float64s.of(self.noted)
        forest.noted_at = NOTHING_NOTED
        self.out = np.empty(N_READINGS)
        self.memory = Memory(Scores)
        self.memory.own("readings", self.out)
        # Found quicker than in its memory, for each sample.
        self._own = self.memory[0]

    def _show(self) -> None:
        super()._show()
        # Trees may be built anew next.
        self.forest.noted_at = NOTHING_NOTED

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"scores": self.scores.copy()}

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return super()._shapes() | {"scores": (KEPT,)}

    def _check_kind(self) -> None:
        check_cuts(self)

    @property
    def nbytes(self) -> int:
        """Bytes held by arrays."""
        return super().nbytes + self.scores.nbytes + self.ranked.nbytes + self.memory.nbytes + 256

    @property
    def n_begun(self) -> int:
        """Number of samples that have been learned, or are on their way down the trees."""
        return super().n_begun + int(self.forest.n_passed)

    # Learning.

    def open(self) -> None:
        """Let kernels take calls for one sample, once there is a sample and no change under way."""
        if not self.is_empty:
            super().open()

    def learn(self) -> int:
        """Learn the sample in `inputs`.

        Returns DONE, or the input whose value is too large; then nothing has changed.
        """
        learn_one = self._learn_one
        if learn_one is None:
            learn_one = self._learn_one = scoring.learn_one.of(CutForest)
        status = learn_one(self.forest, self._own)
        if status == DONE:
            return DONE
        if status == WAITS:
            self.close()
            bad = self.learn_next(lambda: learn_one(self.forest, self._own), lambda p: None)
        else:
            bad = self.complete(status)
        self.open()
        return bad

    def _rebuild(self, n: int, scaling: Float64s) -> None:
        scoring.rebuild(self.forest, scaling, n, self._own)

    # What they say of samples. They hold one.

    def score(self) -> int:
        """Write to `out` what is said of the sample in `inputs`.

        Returns DONE, or the input whose value is too large.
        """
        score_one = self._predict_one
        if score_one is None:
            score_one = self._predict_one = scoring.score_one.of(CutForest)
        bad: int = score_one(self.forest, self._own)
        return bad

    def score_rows(self, inputs: NDArray[np.float64], n_jobs: int) -> NDArray[np.float64]:
        """Return what is said of rows of checked inputs, shape (n, N_READINGS)."""

        def score(rows: Float32s, n: int, out: Float64s) -> None:
            scores = Memory(Scores)
            scores[0].readings = out
            scoring.score_rows(self.forest, rows, n, scores[0])

        return self._predict_rows(score, inputs, N_READINGS, n_jobs)

    @property
    def recent_scores(self) -> NDArray[np.float64]:
        """The scores of the samples learned last, in the order of learning."""
        n, start = int(self.forest.n_scores), int(self.forest.next_score)
        return np.roll(self.scores, -start)[KEPT - n :]

    def explain(self, inputs: NDArray[np.float64]) -> tuple[int, NDArray[np.float64]]:
        """Return what each feature adds to the relative displacement of a sample of these inputs.

        The first result is DONE, or the input whose value is too large.
        """
        bad, paths, values = traced(self.forest, inputs)
        found = np.zeros(self.n_inputs)
        for path in paths:
            self._add_parts(path, values, found)
        return bad, found / (self.n_trees * math.log1p(self.forest.n_held()))

    def _add_parts(self, path: Path, values: NDArray[np.float32], out: NDArray[np.float64]) -> None:
        """Add what each feature adds to the logarithm of 1 + displacement on a path.

        The displacement of the sample's own leaf is of the features in which it is outside of the
        node's box, by the distances there: the rates at which a cut parts it from the node. That of
        a subtree further up is of the feature whose cut is above the subtree.
        """
        forest, tree = self.forest, self.trees[path.tree]
        x = values[int(tree.first_value) :][: int(forest.n_dims)]
        refs = path.refs.tolist()
        most, dim_of_most, n_above = 0.0, -1, 0
        for i, (ref, weight) in enumerate(zip(refs, path.leaves.tolist(), strict=True)):
            n = 1 if ref < 0 else int(tree.nodes.row(ref).n_samples)
            if i > 0 and (n_above - n) / (n + 1.0) > most:
                most, dim_of_most = (n_above - n) / (n + 1.0), int(tree.nodes.row(refs[i - 1]).dim)
            if weight > 0.0 and n >= most:
                gaps = gaps_from(forest, path.tree, ref, x)
                out += weight * math.log1p(n) * gaps / gaps.sum()
            elif weight > 0.0:
                out[dim_of_most] += weight * math.log1p(most)
            n_above = n
        if dim_of_most >= 0:
            out[dim_of_most] += float(path.reach[-1] * path.stays[-1]) * math.log1p(most)
