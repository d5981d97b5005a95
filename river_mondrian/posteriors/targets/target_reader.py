"""Reader of trees over targets: views of nodes, gains of cuts, and explanations."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...partitions.mondrian import constants, reading
from ...partitions.mondrian.readers import Explainer
from ...records import Floats
from ..gains import blocks_of, gains_of_means, gains_of_posterior, posterior_of
from . import components, messages


@dataclass
class TargetView(reading.NodeView):
    """A node with the likelihood and the posterior of the node's mean.

    The likelihood, given the node's samples, has the mean `likely` and a precision in units of 1 /
    gamma1. `weight` is the samples' weight. The posterior `mean` and `variance` are in the targets'
    units. With plain means, `mean` is the mean of the targets, and `variance` is NaN.
    """

    weight: float
    precision: float
    likely: float
    cut_time: float
    mean: float = math.nan
    variance: float = math.nan


class TargetReader(Explainer):
    """A reader of `TargetTrees`."""

    VIEW: ClassVar[Any] = TargetView

    def cut_gains(self, slot: int) -> tuple[reading.TreeTable, Floats, float]:
        """Return a tree's `TreeTable`, the gain of each cut, and the weight of all samples."""
        table, tree = self.table(slot), self.store.trees[slot]
        counted = np.maximum(self.column("points", "weight"), 0.0)
        rows = (
            self.column("nodes", f"messages.{name}", slot)[:, 0] for name in ("precision", "mean")
        )
        weights, means = map(table.at_leaves, (counted, self.column("points", "target")), rows)
        numbers = table.at_leaves(np.ones(len(counted)), self.column("nodes", "n_samples", slot))
        means[table.leaves] -= float(self.forest.y_mean)
        blocks = blocks_of(table, weights, numbers, means, float(self.forest.y_squares))
        times = np.full(len(table), float(tree.lifetime))
        times[table.inner] = self.column("nodes", "cut_time", slot)[table.refs[table.inner]]
        weight = float(blocks.weights[:1].sum())
        if self.store.plain_means:
            table = table.ending_at(times >= float(self.forest.horizon))
            return table, gains_of_means(table, blocks), weight
        noise, gamma2 = float(tree.noise), float(tree.gamma2)
        starts = np.zeros(len(table))
        for inner, left in table.by_depth:
            starts[left] = starts[left + 1] = times[inner]
        # The prior variance of each node (see `messages.logistic_rise`).
        decay, lost = np.exp(-gamma2 * starts), -np.expm1(-gamma2 * (times - starts))
        priors = decay * lost / ((1.0 + decay) * (1.0 + decay * (1.0 - lost)))
        posterior = posterior_of(table, blocks, priors, noise)
        return table, gains_of_posterior(table, blocks, posterior, noise), weight

    def means_on(self, t: int, refs: Sequence[int]) -> tuple[Floats, list[float]]:
        """Return the posterior means of the nodes on a path from the root, and the nodes' times."""
        forest, tree = self.forest, self.store.trees[t]
        describe, gamma2 = self.description(t, False), float(tree.gamma2)
        mean, start = float(forest.y_mean), 0.0
        means, times = [], []
        for ref in refs:
            _, precision, likely, time = describe(ref, reading.record_at(forest, tree, ref))[2]
            if precision > 0.0:
                share = 0.0
                if not self.store.plain_means:
                    decay = math.exp(-gamma2 * start)
                    prior = messages.prior_variance_over(decay, gamma2 * (time - start))
                    share = 1.0 / (1.0 + prior * precision)
                mean = likely + share * (mean - likely)
            means.append(mean)
            times.append(time)
            start = time
        return np.array(means), times

    def predictions_on(self, path: reading.Path) -> tuple[Floats, Floats]:
        """Return the means of a path's nodes, and the effects of branching off for `contributions`.

        With plain means, a sample that branches off above a node gets the node's mean.
        """
        means, times = self.means_on(path.tree, path.refs.tolist())
        branches = np.zeros_like(means)
        gamma2 = float(self.store.trees[path.tree].gamma2)
        above, start = float(self.forest.y_mean), 0.0
        for i, leaves in enumerate(path.leaves.tolist()):
            if leaves > 0.0 and not self.store.plain_means:
                eta, span, decay = float(path.etas[i]), times[i] - start, math.exp(-gamma2 * start)
                share = components.mean_share_of_branch(eta, span, gamma2, decay)
                branches[i] = leaves * (1.0 - share) * (above - means[i])
            above, start = means[i], times[i]
        return means[:, None], branches[:, None]

    def root_prediction(self) -> Floats:
        """Return the mean over trees of the roots' posterior means."""
        roots = enumerate(self.store.trees.words["root"][: self.store.n_trees].tolist())
        means = [self.means_on(t, [root])[0] for t, root in roots]
        return np.array([np.mean(means)])

    def description(self, slot: int, hidden: bool) -> reading.Description:
        """Return a function that describes a node (see `TreeReader.description`)."""
        lifetime = self.end_of(slot)
        noise = 1.0 if self.store.plain_means else float(self.store.trees[slot].noise)

        def describe(ref: int, record: Any) -> tuple[bool, bool, tuple[Any, ...]]:
            if ref < 0:
                y, weight = float(record.target), float(record.counted())
                return True, self.store.min_samples_split > 1, (weight, weight / noise, y, lifetime)
            left, right = record.messages[0], record.messages[1]
            precision, mean = float(left.precision), float(left.mean)
            if record.dim < 0:
                described = (precision, precision / noise, mean, lifetime)
                return True, bool(record.dim == constants.PAUSED), described
            total = precision + float(right.precision)
            joint = precision * mean + float(right.precision) * float(right.mean)
            mean = joint / total if total > 0.0 else math.nan
            time = float(record.cut_time)
            if time >= self.store.horizon:
                return True, False, (total, total / noise, mean, lifetime)
            return False, False, (math.nan, total, mean, time)

        return describe

    def read(self, t: int, hidden: bool = False) -> list[Any]:
        """Return views of a tree's nodes, including posteriors, in preorder."""
        nodes = super().read(t, hidden)
        gamma2 = float(self.store.trees[t].gamma2)
        scale = components.scale_of_first(self.forest)
        for node in reversed(nodes):
            if not node.is_leaf:
                node.weight = nodes[node.left].weight + nodes[node.right].weight
        for node in nodes:
            node.time = node.cut_time
            if self.store.plain_means:
                node.mean = node.likely
                continue
            mean, variance = float(self.forest.y_mean), 0.0
            if node.parent >= 0:
                above = nodes[node.parent]
                mean, variance = above.mean, above.variance / scale if scale > 0.0 else 0.0
            start = 0.0 if node.parent < 0 else nodes[node.parent].time
            prior = messages.prior_variance_over(
                math.exp(-gamma2 * start), gamma2 * (node.time - start)
            )
            share = 1.0 / (1.0 + prior * node.precision)
            node.mean = mean if share == 1.0 else node.likely + share * (mean - node.likely)
            # Given the parent's mean, the variance is share * prior. The parent's variance adds
            # share^2 * variance.
            node.variance = scale * share * (share * variance + prior)
        return nodes
