"""What trees over targets say at their nodes, and what their cuts have told: over their memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...partitions.mondrian.reading import Path, TreeTable, place_of
from ...partitions.mondrian.trees import AnyView, ExplainedTrees
from . import messages, prediction
from .gains import Blocks, blocks_of, gains_of_means, gains_of_posterior, posterior_of
from .records import TargetForest

Array = NDArray[np.float64]


def _prior_variances(table: TreeTable, ends: Array, gamma2: float) -> Array:
    """Return the prior variances of all nodes, whose times are given (see `messages`)."""
    starts = np.zeros(len(table))
    for inner, left in table.levels:
        starts[left] = starts[left + 1] = ends[inner]
    decay, lost = np.exp(-gamma2 * starts), -np.expm1(-gamma2 * (ends - starts))
    found: Array = decay * lost / ((1.0 + decay) * (1.0 + decay * (1.0 - lost)))
    return found


class ExplainedTargetTrees(ExplainedTrees[TargetForest, AnyView]):
    """Trees that tell what they have learned of targets."""

    plain_means: bool

    def _targets_below(self, t: int, table: TreeTable) -> Blocks:
        """Return the targets of all nodes of a tree."""
        n, leaves = len(table), table.leaves
        weights, numbers, means = np.zeros(n), np.zeros(n), np.zeros(n)
        refs = table.refs[leaves]
        points, rows = leaves[refs < 0], leaves[refs >= 0]
        own = ~refs[refs < 0]
        weights[points] = np.maximum(self.column("points", "weight")[own], 0.0)
        means[points] = self.column("points", "target")[own]
        numbers[points] = 1.0
        own = refs[refs >= 0]
        weights[rows] = self.column("nodes", "messages.precision", t)[own, 0]
        means[rows] = self.column("nodes", "messages.mean", t)[own, 0]
        numbers[rows] = self.column("nodes", "n_samples", t)[own]
        forest = self.forest
        means[leaves] -= float(forest.y_mean)
        return blocks_of(table, weights, numbers, means, float(forest.y_squares))

    def cut_gains(self, t: int) -> tuple[TreeTable, Array, float]:
        """Return a tree's table, the gain of each cut there, and the weight of all samples."""
        table, tree = self.table(t), self.trees[t]
        blocks = self._targets_below(t, table)
        times = np.full(len(table), float(tree.lifetime))
        times[table.inner] = self.column("nodes", "cut_time", t)[table.refs[table.inner]]
        weight = float(blocks.weights[:1].sum())
        if self.plain_means:
            table = table.ending_at(times >= float(self.forest.horizon))
            return table, gains_of_means(table, blocks), weight
        noise = float(tree.noise)
        priors = _prior_variances(table, times, float(tree.gamma2))
        posterior = posterior_of(table, blocks, priors, noise)
        return table, gains_of_posterior(table, blocks, posterior, noise), weight

    def means_on(self, t: int, refs: Sequence[int]) -> tuple[Array, list[float]]:
        """Return the posterior means of the nodes on a path from the root, and their times."""
        forest, tree = self.forest, self.trees[t]
        kept, gamma2 = self._kept(t, False), float(tree.gamma2)
        mean, start = float(forest.y_mean), 0.0
        means, times = [], []
        for ref in refs:
            own: tuple[Any, ...] = kept(ref, place_of(forest, tree, ref))[2]
            _, precision, likely, time = own
            if precision > 0.0:
                share = 0.0
                if not self.plain_means:
                    decay = math.exp(-gamma2 * start)
                    prior = messages.prior_variance_over(decay, gamma2 * (time - start))
                    share = 1.0 / (1.0 + prior * precision)
                mean = likely + share * (mean - likely)
            means.append(mean)
            times.append(time)
            start = time
        return np.array(means), times

    def _predictions_on(self, path: Path) -> tuple[Array, Array]:
        """Return the means of the nodes on a path, and what branching off there adds.

        A sample that branches off with plain means gets the mean of the node that it leaves.
        """
        means, times = self.means_on(path.tree, path.refs.tolist())
        branches = np.zeros_like(means)
        gamma2 = float(self.trees[path.tree].gamma2)
        above, start = float(self.forest.y_mean), 0.0
        for i, leaves in enumerate(path.leaves.tolist()):
            if leaves > 0.0 and not self.plain_means:
                span, decay = times[i] - start, math.exp(-gamma2 * start)
                eta = float(path.etas[i])
                share = prediction.mean_share_of_branch(eta, span, gamma2, decay)
                branches[i] = leaves * (1.0 - share) * (above - means[i])
            above, start = means[i], times[i]
        return means[:, None], branches[:, None]

    def root_prediction(self) -> NDArray[np.float64]:
        """Return the mean of the roots' means."""
        roots = enumerate(self.trees.words["root"][: self.n_trees].tolist())
        found = [self.means_on(t, [root])[0] for t, root in roots]
        return np.array([np.mean(found)])

    def explain(self, inputs: NDArray[np.float64]) -> tuple[int, NDArray[np.float64]]:
        """Return what each feature adds to the prediction of a sample of these inputs."""
        return self._explain_paths(inputs, self._predictions_on)
