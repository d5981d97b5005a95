"""Trees over real targets: hierarchical Gaussian posteriors, or means (see `kernels.gaussian`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .kernels import gaussian, tails, tuning, walks
from .kernels import layout as at
from .kernels.memory import address_of
from .posteriors.gaussian_mixture import GaussianMixture
from .trees import Carried, MondrianTrees, Node, Partitions

# The hyperparameters follow the number of samples whenever that has doubled, up to the last of
# these; here they are chosen, too.
CHOICES = (64, 256, 1024, 4096)

# A choice takes the latest half of the samples, at most so many, and so many trees.
CHOICE_SAMPLES = 128
CHOICE_TREES = 10

# The noise, over gamma1, is the reference's times a power of this, from 0 to the last, and each
# step away from it has to gain so much log likelihood per sample.
NOISE_STEP = 5.0
LAST_NOISE = 4
LEAST_GAIN = 0.03


@dataclass
class TargetNode(Node):
    """A node with what its samples say, and the posterior of its own mean.

    That is the samples' weight, and the precision (in units of 1 / gamma1) and mean of what they
    say. Posterior means and variances are in the targets' units; without a posterior they are the
    targets' mean and NaN.
    """

    weight: float
    precision: float
    said: float
    cut_time: float
    mean: float = math.nan
    variance: float = math.nan


class Block:
    """Rows that are being learned: stored points, before which the trees had learned `n` samples.

    For targets that tell of their law, `told` has room for the densities that each tree gives
    them, and `done` the first point for which each tree has not given any.
    """

    def __init__(self, start: int, size: int, n: int, n_trees: int) -> None:
        self.start, self.end, self.n = start, start + size, n
        telling = tails.count_telling(n, size)
        self.told = np.empty((telling, n_trees, tails.DENSITIES_WIDTH))
        self.done = np.full(n_trees, start)


class TargetTrees(MondrianTrees[TargetNode]):
    """Mondrian trees with a posterior of targets.

    Parameters
    ----------
    partitions
        What all kinds of trees are told.
    pools
        Whether nodes have plain means instead of the Gaussian posterior.
    min_samples_split
        Number of samples from which on a block is cut.
    gamma1, gamma2, noise_variance
        Hyperparameters of the posterior; None for those that are chosen.
    learns_tails
        Whether the law of targets is learned (see `kernels.tails`) instead of normal.

    """

    _NODE = TargetNode
    _POINT_WORDS: ClassVar[int] = at.TARGET_WORDS
    _DERIVED: ClassVar[frozenset[str]] = MondrianTrees._DERIVED | {
        "out",
        "out_address",
        "told",
        "block",
    }

    def __init__(
        self,
        partitions: Partitions,
        pools: bool = False,
        min_samples_split: int = 2,
        gamma1: float | None = None,
        gamma2: float | None = None,
        noise_variance: float | None = None,
        learns_tails: bool = False,
    ) -> None:
        self.pools = pools
        self.min_samples_split = min_samples_split
        self.gamma1, self.gamma2, self.noise_variance = gamma1, gamma2, noise_variance
        # The choice: powers of 2 on the reference's gamma2, of `NOISE_STEP` on its noise.
        self.choice = (0, 0)
        self.tails = tails.new_record() if learns_tails and not pools else None
        super().__init__(partitions)

    def _set_up(self) -> None:
        self.shared[at.MIN_SPLIT] = self.min_samples_split
        self.shared[at.HIDE_LIMIT] = 2**62
        self.shared[at.POOLS] = self.pools
        self.reals[at.PRIOR_SCALE] = self.gamma1 or 0.0
        self.reals[at.NOISE_VARIANCE] = self.noise_variance or 0.0
        self._put_hyperparameters(*self._hyperparameters(self.choice))

    def _carried_words(self) -> int:
        return at.MESSAGE_WORDS

    def _finish(self) -> None:
        super()._finish()
        self.shared[at.PREDICT_ROWS] = address_of(walks.predict_rows)
        self.shared[at.COLLECT] = address_of(gaussian.collect_moments)
        self.out = np.empty((1, 2))
        self.out_address = int(self.out.ctypes.data)
        self.block: Block | None = None
        self.told = np.empty((0, tails.DENSITIES_WIDTH))
        if self.tails is not None:
            self.told = np.empty((len(self.trees), tails.DENSITIES_WIDTH))
            self.shared[at.TAILS] = self.tails.ctypes.data
            self.shared[at.TOLD] = self.told.ctypes.data
            self.shared[at.FIND_DENSITIES] = address_of(gaussian.find_densities)
            self.shared[at.COLLECT_DENSITIES] = address_of(gaussian.collect_densities)
            self.shared[at.LEARN_SCALES] = address_of(tails.learn_scales)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state["tails"] = None if self.tails is None else self.tails.copy()
        return state

    @property
    def nbytes(self) -> int:
        """Bytes held by arrays."""
        size = super().nbytes + self.out.nbytes + self.told.nbytes + 256
        return size if self.tails is None else size + self.tails.nbytes + 128

    # Learning.

    def learn(self, y: float, weight: float) -> int:
        """Learn the sample in `values` with a target.

        Returns -1, or the dimension whose value is too large; then nothing has changed.
        """
        n = self.n_samples
        has_room = self.warm_up is None and self.n_points < self.point_capacity
        if not has_room and self._make_room():
            gaussian.put_target(self.address, y, weight, self.n_points)
            said = self._learn_by_rebuilding()
            if said == -1:
                gaussian.add_to_prior(self.address, y, weight)
                self._choose()
            return said
        said = gaussian.learn_one(self.address, self.values_address, y, weight, self.n_points, n)
        # Calls cost: most samples are stored, and that is all.
        if said == -1 and not self.bounded:
            self.n_samples, self.n_points = n + 1, self.n_points + 1
        else:
            said = self._complete(said)
        if n & (n + 1) == 0 and said == -1:
            self._choose()
        return said

    def _complete(self, said: int) -> int:
        result = super()._complete(said)
        if said >= 0:
            gaussian.settle(self.address, 0, len(self.trees))
        return result

    def build(self) -> None:
        """Sample all trees afresh from the stored points (Algorithms 1 and 2)."""
        super().build()
        gaussian.settle(self.address, 0, len(self.trees))

    def learn_rows(
        self,
        values: NDArray[np.float64],
        targets: NDArray[np.float64],
        weights: NDArray[np.float64],
        n_jobs: int,
    ) -> None:
        """Learn rows of checked values, shape (n, dimensions), with targets, after the warm-up."""

        def put(start: int, n: int, first: int) -> None:
            y, w = targets[start:].ctypes.data, weights[start:].ctypes.data
            gaussian.put_targets(self.address, y, w, n, first)
            self.block = Block(first, n, self.n_samples, len(self.trees))

        self._learn_rows(values, put, n_jobs)
        self.block = None

    def _block(self) -> int:
        # A block ends where the hyperparameters are chosen anew.
        n = self.n_samples
        most = super()._block()
        return min(most, 2 ** n.bit_length() - n) if n < CHOICES[-1] else most

    def _extend(self, first: int, last: int, lanes: int) -> None:
        block = self.block
        if block is None or self.tails is None:
            super()._extend(first, last, lanes)
            return
        while True:
            said = gaussian.extend_telling(
                self.address,
                first,
                last,
                lanes,
                block.start,
                block.end,
                block.n,
                block.done.ctypes.data,
                block.told.ctypes.data,
            )
            if said < 0:
                return
            self._reserve_rows(said, int(self.trees[said, at.NEED_ROWS]))

    def _learned_rows(self, n_jobs: int) -> None:
        block = self.block
        assert block is not None
        if self.tails is not None:
            told = block.told.ctypes.data
            gaussian.learn_tails(self.address, block.start, block.end, block.n, told)
        gaussian.add_targets(self.address, block.start, block.end)
        self._share(lambda a, b: gaussian.settle(self.address, a, b), len(self.trees), n_jobs)
        self._choose()

    # Hyperparameters.

    def _hyperparameters(self, choice: tuple[int, int]) -> tuple[float, float]:
        """Return gamma2, and the noise variance in units of gamma1."""
        n = min(max(self.n_samples, 2), CHOICES[-1])
        gamma2 = self.gamma2
        if gamma2 is None:
            extent = gaussian.extent(self.address) if self.n_samples else 0.0
            gamma2 = (extent or 1.0) / (2.0 * math.log2(n)) * 2.0 ** choice[0]
        if self.noise_variance is None:
            return gamma2, NOISE_STEP ** choice[1] / min(2.0 * n, 2000.0)
        gamma1 = self.gamma1
        if gamma1 is None:
            # The rest of the targets' variance is that of a leaf's mean.
            weight, _, squares = self.reals[at.Y_WEIGHT : at.Y_SQUARES + 1].tolist()
            rest = squares / weight - self.noise_variance if weight > 0.0 else 0.0
            lifetimes = self.trees.view(np.float64)[:, at.LIFETIME]
            rise = float(np.mean(0.5 * np.tanh(0.5 * gamma2 * lifetimes)))
            gamma1 = max(rest / max(rise, 1e-9), 1e-3 * self.noise_variance)
        return gamma2, self.noise_variance / gamma1

    def _put_hyperparameters(self, gamma2: float, noise: float) -> None:
        reals = self.trees.view(np.float64)
        reals[:, at.GAMMA2] = gamma2
        reals[:, at.NOISE] = noise

    def _choose(self) -> None:
        """Let the hyperparameters follow the number of samples where that is a power of 2."""
        n = self.n_samples
        if self.pools or n > CHOICES[-1] or n & (n - 1):
            return
        # The choice needs the latest samples, which a full forest has not stored.
        if n in CHOICES and self.n_points == n:
            self._climb()
        self._put_hyperparameters(*self._hyperparameters(self.choice))
        for t in range(len(self.trees)):
            gaussian.forget(self.address, t)
        gaussian.settle(self.address, 0, len(self.trees))

    def _climb(self) -> None:
        """Move step by step to where the latest samples would have been predicted best."""
        n = self.n_samples
        m = min(n // 2, CHOICE_SAMPLES)
        n_trees = min(len(self.trees), CHOICE_TREES)
        kept = np.empty((m, n_trees + 1, tuning.KEPT_WIDTH))
        found: dict[tuple[int, int], float] = {}

        def score(choice: tuple[int, int]) -> float:
            if choice not in found:
                found[choice] = tuning.progressive_likelihood(
                    self.address, n - m, n, n_trees, *self._hyperparameters(choice), kept
                )
            return found[choice] - LEAST_GAIN * choice[1]

        for _ in range(5):
            power, step = self.choice
            near = [self.choice]
            if self.gamma2 is None:
                near += [(power - 1, step), (power + 1, step)]
            if self.noise_variance is None:
                near += [(power, s) for s in (step - 1, step + 1) if 0 <= s <= LAST_NOISE]
            if len(near) == 1:
                return
            best = max(near, key=score)
            if best == self.choice:
                return
            self.choice = best

    @property
    def hyperparameters(self) -> dict[str, float]:
        """The hyperparameters as they stand, in the targets' units."""
        gamma2, noise = self.trees.view(np.float64)[0, [at.GAMMA2, at.NOISE]].tolist()
        scale = gaussian.scale_of_first(self.address)
        return {"gamma1": scale, "gamma2": gamma2, "noise_variance": scale * noise}

    @property
    def scale_weights(self) -> dict[float, float]:
        """The weights of the scales of the targets' law."""
        if self.tails is None:
            return {1.0: 1.0}
        return dict(zip(tails.SCALES, self.tails[: tails.N_SCALES].tolist(), strict=True))

    @property
    def horizon(self) -> float:
        """Time at which trees are read, where that is before their lifetime."""
        return float(self.reals[at.HORIZON])

    @horizon.setter
    def horizon(self, time: float) -> None:
        self.reals[at.HORIZON] = time

    # Prediction.

    def predict(self) -> int:
        """Predict the sample in `values` into `out`; returns as the kernel `predict` does."""
        said: int = gaussian.predict(
            self.address, self.values_address, self.row_address, 1, self.out_address
        )
        return said

    def predict_mixture(self) -> tuple[int, GaussianMixture | None]:
        """Predict the mixture for the sample in `values`; returns what `predict` does, too."""
        room = 16 * len(self.trees)
        collect = address_of(gaussian.collect_components)
        while True:
            out = np.empty(2 + 3 * room)
            out[1] = room
            said: int = gaussian.mixture(
                self.address, self.values_address, self.row_address, out.ctypes.data, collect
            )
            if said >= 0:
                return said, None
            n = int(out[0])
            if n <= room:
                weights, means, variances = out[2 : 2 + 3 * n].reshape(n, 3).T.copy()
                return said, GaussianMixture(weights / weights.sum(), means, variances)
            room = n

    def predict_rows(self, values: NDArray[np.float64], n_jobs: int) -> NDArray[np.float64]:
        """Predict rows of checked values; returns means and variances, shape (n, 2)."""

        def predict(rows: int, n: int, out: int) -> None:
            gaussian.predict(self.address, 0, rows, n, out)

        return self._predict_rows(predict, values, 2, n_jobs)

    # Reading.

    def _carried(self, t: int, points: NDArray[np.int32], hidden: bool) -> Carried:
        target_at = int(self.shared[at.N_VALUES])
        lifetime = self.end_of(t)
        noise = 1.0 if self.pools else float(self.trees.view(np.float64)[t, at.NOISE])

        def reals(row: NDArray[np.int32], start: int) -> list[float]:
            return row[start : start + at.MESSAGE_WORDS].copy().view(np.float64).tolist()  # type: ignore[no-any-return]

        def carried(ref: int, row: NDArray[np.int32]) -> tuple[bool, bool, tuple[Any, ...]]:
            if ref < 0:
                y, weight = row[target_at : target_at + 4].copy().view(np.float64).tolist()
                return True, self.min_samples_split > 1, (weight, weight / noise, y, lifetime)
            left, left_mean, right, right_mean, time, _ = reals(row, at.MESSAGES)
            if row[at.DIM] < 0:
                own = (left, left / noise, left_mean, lifetime)
                return True, bool(row[at.DIM] == at.PENDING), own
            total = left + right
            mean = (left * left_mean + right * right_mean) / total if total > 0.0 else math.nan
            if time >= self.horizon:
                return True, False, (total, total / noise, mean, lifetime)
            return False, False, (math.nan, total, mean, time)

        return carried

    def read(self, t: int, hidden: bool = False) -> list[TargetNode]:
        """Read a tree's nodes in preorder, with their posteriors."""
        nodes = super().read(t, hidden)
        gamma2 = float(self.trees.view(np.float64)[t, at.GAMMA2])
        scale = gaussian.scale_of_first(self.address)
        for node in reversed(nodes):
            if not node.is_leaf:
                node.weight = nodes[node.left].weight + nodes[node.right].weight
        for node in nodes:
            node.time = node.cut_time
            if self.pools:
                node.mean = node.said
                continue
            mean, variance = float(self.reals[at.Y_MEAN]), 0.0
            if node.parent >= 0:
                above = nodes[node.parent]
                mean, variance = above.mean, above.variance / scale if scale > 0.0 else 0.0
            start = 0.0 if node.parent < 0 else nodes[node.parent].time
            rise = gaussian.read_rise(math.exp(-gamma2 * start), gamma2 * (node.time - start))
            share = 1.0 / (1.0 + rise * node.precision)
            node.mean = mean if share == 1.0 else node.said + share * (mean - node.said)
            # The parent's share of what is known without the samples below.
            node.variance = scale * share * (share * variance + rise)
        return nodes
