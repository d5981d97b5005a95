"""All widths of the Mondrian kernel in one sweep of its lifetime."""

from __future__ import annotations

import heapq
import math
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from .arguments import check_integer, check_positive, is_real
from .inputs import read_frame, read_targets
from .kernels import lifetime as kernels
from .learners.ridge.likelihood import log_of_residual

Array = NDArray[np.float64]

LEARNERS = ("ridge", "sgd", "forest")
SETS = ("train", "validation", "test")

# How far the normal equations may be off before a step of refinement, and before the inverse is
# computed anew, in units of the largest target.
REFINE = 1e-11
REBUILD = 1e-8

# Seconds after which a sweep shows how far it is.
QUIET = 2.0

# Seconds between what is shown.
EVERY = 0.5


@dataclass(frozen=True)
class LifetimePath:
    """What a sweep found, by lifetime: 0 and the time of every cut, or of every so many.

    Attributes
    ----------
    lifetimes
        Times from which on the results of the same place hold, until the next.
    n_cells
        Cells of all partitions together.
    errors
        Root mean squared errors by learner ("ridge", "sgd", "forest") and set ("train",
        "validation", "test").
    log_marginal_likelihood
        Log density of the centred training targets under ridge regression; empty without it.
    seconds
        Time spent from the start of the sweep.
    lifetime_max
        The terminal lifetime.
    cuts
        Structured array of the cuts, by time: "partition", "cell", "feature" and "place". Points of
        the cell above the place went to the next cell number; numbers 0 to M - 1 are the whole
        space in each of the M partitions.
    weights
        By learner, what each cell says of the target less its mean, at the terminal lifetime; a
        prediction is the mean over a row's M cells.
    test_prediction
        Predictions of the test rows by ridge regression, averaged over the posterior of the
        lifetime; None without a prior.

    """

    lifetimes: Array
    n_cells: NDArray[np.int64]
    errors: dict[str, dict[str, Array]]
    log_marginal_likelihood: Array
    seconds: Array
    lifetime_max: float
    cuts: NDArray[Any]
    weights: dict[str, Array]
    test_prediction: Array | None = field(default=None)

    def best(self, learner: str = "ridge", by: str = "validation") -> float:
        """Return the lifetime at which a learner's error on a set is least.

        Parameters
        ----------
        learner
            "ridge", "sgd" or "forest".
        by
            "train", "validation" or "test"; or "marginal" for the largest marginal likelihood.

        Raises
        ------
        ValueError
            If the sweep has no such results.

        """
        if by == "marginal":
            if not len(self.log_marginal_likelihood):
                raise ValueError("the sweep had no ridge regression")
            return float(self.lifetimes[self.log_marginal_likelihood.argmax()])
        if by not in self.errors.get(learner, {}):
            raise ValueError(f"the sweep has no {by} error of {learner!r}")
        return float(self.lifetimes[self.errors[learner][by].argmin()])

    def posterior(self, prior: Any) -> Array:
        """Return the posterior probability of each stretch from a lifetime to the next.

        Parameters
        ----------
        prior
            A frozen distribution of `scipy.stats`, cut off at the terminal lifetime.

        Raises
        ------
        ValueError
            If the sweep had no ridge regression, or the prior has no mass below the terminal
            lifetime.

        """
        if not len(self.log_marginal_likelihood):
            raise ValueError("the sweep had no ridge regression")
        masses = np.diff(prior.cdf(np.append(self.lifetimes, self.lifetime_max)))
        with np.errstate(divide="ignore"):
            logs = np.log(masses) + self.log_marginal_likelihood
        if logs.max() == -math.inf:
            raise ValueError("the prior has no mass below the terminal lifetime")
        shares: Array = np.exp(logs - logs.max())
        shares /= shares.sum()
        return shares

    def to_frame(self) -> Any:
        """Return a pandas frame with a row per lifetime."""
        import pandas as pd

        columns = {"lifetime": self.lifetimes, "n_cells": self.n_cells}
        if len(self.log_marginal_likelihood):
            columns["log_marginal_likelihood"] = self.log_marginal_likelihood
        for learner, errors in self.errors.items():
            columns |= {f"{learner}_{kind}": values for kind, values in errors.items()}
        return pd.DataFrame(columns | {"seconds": self.seconds})

    def plot(self, ax: Any = None) -> Any:
        """Plot the errors by lifetime, and the marginal likelihood on an axis of its own.

        Parameters
        ----------
        ax
            Matplotlib axes; None makes new ones.

        Returns
        -------
        The axes.

        """
        from matplotlib import pyplot as plt

        if ax is None:
            ax = plt.subplots()[1]
        styles = dict(zip(SETS, (":", "--", "-"), strict=True))
        for number, (learner, errors) in enumerate(self.errors.items()):
            for kind, values in errors.items():
                ax.plot(
                    self.lifetimes[1:],
                    values[1:],
                    styles[kind],
                    color=f"C{number}",
                    label=f"{learner}, {kind}",
                    drawstyle="steps-post",
                )
        ax.set(xscale="log", xlabel="lifetime", ylabel="root mean squared error")
        ax.legend()
        if len(self.log_marginal_likelihood):
            other = ax.twinx()
            other.plot(self.lifetimes[1:], self.log_marginal_likelihood[1:], color="0.7")
            other.set_ylabel("log marginal likelihood (grey)")
        return ax


class _Ridge:
    """Exact ridge regression that follows cuts.

    While there are fewer cells than points it keeps the inverse of the cells' second moments, then
    that of the points' kernels. A weight times `unit` is what its cell says of the target.
    """

    def __init__(self, sweep: _Sweep, delta2: float, noise_variance: float | None) -> None:
        self.sweep = sweep
        self.unit = math.sqrt(sweep.n_partitions)
        self.delta2, self.noise_variance = delta2, noise_variance
        self.weights = np.zeros(sweep.n_partitions)
        self.dual: Array | None = None
        self.found = np.zeros(len(sweep.X))
        self.scale = max(float(np.abs(sweep.y).max()), sys.float_info.min)
        self._rebuild()
        self.settle()

    def _rebuild(self) -> None:
        """Compute the inverse from scratch."""
        sweep, n = self.sweep, self.sweep.n_cells
        if n < sweep.n:
            room = max(n + 1, min(sweep.n, n * 5 // 4 + 64))
            A = np.zeros((n, n))
            kernels.second_moments(sweep.n, sweep.cells, self.delta2, A)
            self.inverse = np.zeros((room, room))
            self.inverse[:n, :n], self.log_determinant = _invert(A)
            self.work, self.gap = np.zeros((5, room)), np.zeros(room)
            kernels.sum_by_cell(sweep.y, sweep.n, sweep.cells, self.gap)
            self.weights = self.inverse @ self.gap
            return
        K = np.zeros((sweep.n, sweep.n))
        kernels.gram(sweep.n, sweep.cells, self.delta2, K)
        self.inverse, self.log_determinant = _invert(K)
        self.work = np.zeros((2, sweep.n))
        self.dual = self.inverse @ sweep.y

    def follow(self, cell: int) -> None:
        """Follow a cut that has just been made."""
        sweep, new = self.sweep, self.sweep.n_cells - 1
        if self.dual is not None:
            self.log_determinant += kernels.split_gram(
                sweep.order,
                sweep.ranges,
                cell,
                new,
                sweep.n_partitions,
                self.inverse,
                self.dual,
                self.work,
            )
        elif new >= len(self.weights) or new + 1 >= sweep.n:
            self._rebuild()
        else:
            self.log_determinant += kernels.split_inverse(
                sweep.y,
                sweep.order,
                sweep.ranges,
                sweep.cells,
                cell,
                new,
                self.delta2,
                self.inverse,
                self.weights,
                self.work,
            )

    def settle(self) -> None:
        """Predict all points, as exactly as if learned from scratch."""
        error = self._error()
        if error > REBUILD:
            self._rebuild()
            error = self._error()
        if error > REFINE:
            if self.dual is None:
                n = self.sweep.n_cells
                self.weights[:n] += self.inverse[:n, :n] @ self.gap[:n]
            else:
                self.dual += self.inverse @ self.gap
            self._error()

    def _error(self) -> float:
        """Predict all points; returns how far the normal equations are off."""
        sweep, n = self.sweep, self.sweep.n_cells
        if self.dual is None:
            largest = kernels.normal_gap(
                sweep.y, sweep.cells, n, self.delta2, self.weights, self.found, self.gap
            )
        else:
            if n > len(self.weights):
                self.weights = np.zeros(n * 5 // 4)
            kernels.sum_by_cell(self.dual, sweep.n, sweep.cells, self.weights)
            kernels.predict(self.weights, sweep.cells, self.found)
            self.gap = sweep.y - self.found[: sweep.n] - self.delta2 * self.dual
            largest = float(np.abs(self.gap).max())
        return largest / self.scale

    @property
    def log_likelihood(self) -> float:
        """Log density of the targets."""
        sweep = self.sweep
        fitted, rows = self.found[: sweep.n], len(self.inverse)
        if self.dual is None:
            penalty, rows = float(np.square(self.weights).sum()), sweep.n_cells
        else:
            penalty = float(self.dual @ fitted)
        residual = float(np.square(sweep.y - fitted).sum()) + self.delta2 * penalty
        determinant = self.log_determinant - rows * math.log(self.delta2)
        return log_of_residual(residual, sweep.n, self.noise_variance) - 0.5 * determinant


def _invert(A: Array) -> tuple[Array, float]:
    """Return the inverse of a positive definite matrix and the logarithm of its determinant."""
    factor, _ = linalg.lapack.dpotrf(A, lower=1)
    inverse, _ = linalg.lapack.dpotri(factor, lower=1)
    lower = np.tril(inverse, -1)
    return lower + lower.T + np.diag(inverse.diagonal()), 2.0 * float(
        np.log(factor.diagonal()).sum()
    )


class _SGD:
    """Stochastic gradient descent from where it stood before a cut."""

    def __init__(self, sweep: _Sweep, delta2: float, passes: float, rate: float) -> None:
        self.sweep = sweep
        self.unit = math.sqrt(sweep.n_partitions)
        self.delta2, self.passes, self.rate = delta2, passes, rate
        self.weights = np.zeros(sweep.n_partitions)
        self.found = np.zeros(len(sweep.X))
        self.settle()

    def settle(self) -> None:
        """Visit points, and predict all."""
        sweep = self.sweep
        n_visits = max(1, round(self.passes * sweep.n))
        left, fall = n_visits, self.rate / n_visits
        while left > 0:
            visits = sweep.rng.permutation(sweep.n)[:left]
            kernels.descend(
                sweep.y,
                visits,
                sweep.cells,
                sweep.ranges,
                left * fall,
                fall,
                self.delta2,
                self.weights,
            )
            left -= len(visits)
        kernels.predict(self.weights, sweep.cells, self.found)

    def follow(self, cell: int) -> None:
        """Give both parts of a cell its weight."""
        new = self.sweep.n_cells - 1
        if new >= len(self.weights):
            self.weights = np.concatenate([self.weights, np.zeros(len(self.weights))])
        self.weights[new] = self.weights[cell]


class _Forest:
    """Means of the cells' targets, shrunk to 0, whose average over partitions predicts."""

    def __init__(self, sweep: _Sweep, delta2: float) -> None:
        self.sweep, self.delta2 = sweep, delta2
        self.unit = 1.0
        self.weights = np.zeros(sweep.n_partitions)
        self.found = np.zeros(len(sweep.X))
        for cell in range(sweep.n_partitions):
            self._fit(cell)

    def _fit(self, cell: int) -> None:
        sweep = self.sweep
        kernels.refit_forest(
            sweep.y,
            sweep.order,
            sweep.ranges,
            cell,
            1.0 / sweep.n_partitions,
            self.delta2,
            self.weights,
            self.found,
        )

    def follow(self, cell: int) -> None:
        """Fit both parts of a cell."""
        new = self.sweep.n_cells - 1
        if new >= len(self.weights):
            self.weights = np.concatenate([self.weights, np.zeros(len(self.weights))])
        self.weights[new] = self.weights[cell]
        self._fit(cell)
        self._fit(new)

    def settle(self) -> None:
        """Do nothing: each cut has moved the predictions."""


class _Sweep:
    """Partitions of points that are cut one by one, in the order of the cuts' times.

    Parameters
    ----------
    X
        All points, those that are learned first.
    y
        The targets of those, centred.
    n_partitions
        Number of partitions.
    seed
        Random seed.

    """

    def __init__(self, X: Array, y: Array, n_partitions: int, seed: int | None) -> None:
        self.X, self.y, self.n = X, y, len(y)
        # The cuts have draws of their own: they do not depend on who learns.
        self._rng, self.rng = np.random.default_rng(seed).spawn(2)
        self.n_partitions = self.n_cells = n_partitions
        self.cells = np.tile(np.arange(n_partitions, dtype=np.int32), (len(X), 1))
        self.order = np.tile(np.arange(len(X), dtype=np.int32), (n_partitions, 1))
        self.ranges = np.zeros((4 * n_partitions, 5), dtype=np.int64)
        self.ranges[:n_partitions, :4] = 0, self.n, self.n, len(X)
        self.ranges[:n_partitions, kernels.PARTITION] = np.arange(n_partitions)
        self._box = np.zeros((2, max(1, X.shape[1])))
        self._due: list[tuple[float, int, int, float]] = []
        for cell in range(n_partitions):
            self._draw(cell, 0.0)

    def _draw(self, cell: int, start: float) -> None:
        wait, feature, place = kernels.draw_cut(
            self.X, self.order, self.ranges, cell, self._rng.random(3), *self._box
        )
        if wait < math.inf:
            heapq.heappush(self._due, (start + wait, cell, feature, place))

    @property
    def next_time(self) -> float:
        """Time of the next cut, infinite where there is none."""
        return self._due[0][0] if self._due else math.inf

    def cut(self) -> tuple[int, int, int, float]:
        """Make the next cut; returns its partition, cell, feature and place."""
        due, cell, feature, place = heapq.heappop(self._due)
        new = self.n_cells
        if new >= len(self.ranges):
            self.ranges = np.concatenate([self.ranges, np.zeros_like(self.ranges)])
        kernels.cut(self.X, self.order, self.ranges, self.cells, cell, new, feature, place)
        self.n_cells += 1
        self._draw(cell, due)
        self._draw(new, due)
        return int(self.ranges[cell, kernels.PARTITION]), cell, feature, place


class _Average:
    """Predictions averaged by the posterior of the lifetime, as it becomes known."""

    def __init__(self, prior: Any, n: int) -> None:
        self.prior = prior
        self.total, self.weight, self.top = np.zeros(n), 0.0, -math.inf

    def add(self, start: float, stop: float, log_likelihood: float, predictions: Array) -> None:
        """Add what holds from one lifetime to another."""
        mass = float(self.prior.cdf(stop) - self.prior.cdf(start))
        if not mass > 0.0:
            return
        log = math.log(mass) + log_likelihood
        if log > self.top:
            shrink = math.exp(self.top - log)
            self.total *= shrink
            self.weight *= shrink
            self.top = log
        share = math.exp(log - self.top)
        self.total += share * predictions
        self.weight += share

    @property
    def result(self) -> Array:
        """The average."""
        if self.weight == 0.0:
            raise ValueError("the prior has no mass below the terminal lifetime")
        return self.total / self.weight


def _read(X: Any, what: str, names: Sequence[Hashable] | None) -> tuple[list[Hashable], Array]:
    """Read an array or a frame; columns of frames are brought into the order of `names`."""
    if isinstance(X, np.ndarray):
        if X.ndim != 2:
            raise ValueError(f"{what} must have two dimensions, got {X.ndim}")
        found: list[Hashable] = list(range(X.shape[1]))
        values = X.astype(np.float64)
    else:
        _, found, values = read_frame(X)
    if names is not None:
        if set(found) != set(names):
            raise ValueError(f"the columns of {what} must be those of X, got {found!r}")
        values = values[:, [found.index(name) for name in names]]
        found = list(names)
    if not np.isfinite(values).all():
        row, place = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(
            f"feature {found[place]!r} of {what} must be finite, got {float(values[row, place])!r} "
            f"in row {row}"
        )
    return found, values


def lifetime_path(
    X: Any,
    y: Any,
    lifetime_max: float,
    X_val: Any = None,
    y_val: Any = None,
    X_test: Any = None,
    y_test: Any = None,
    n_partitions: int = 50,
    delta2: float = 1e-2,
    noise_variance: float | None = None,
    learners: Sequence[str] = LEARNERS,
    sgd_passes: float = 1.0,
    learning_rate: float = 0.5,
    cuts_per_step: int = 1,
    prior: Any = None,
    progress: bool | None = None,
    seed: int | None = None,
) -> LifetimePath:
    """Learn with the Mondrian kernel at all lifetimes up to a terminal one, in one sweep.

    Mondrian partitions of the training rows are cut as time goes from 0 to `lifetime_max`[^1]. At
    each cut one cell becomes two, and the learners go on from where they were, so that all
    lifetimes together cost about as much as learning for the terminal one alone:

    - "ridge" is exact Bayesian ridge regression, with its marginal likelihood (4.2.1);
    - "sgd" is stochastic gradient descent on the same objective: both parts begin with the weight
      of the cell that was cut, and the training rows are visited again (4.2.2);
    - "forest" fits each partition on its own and averages their predictions (section 6).

    Parameters
    ----------
    X
        Training rows: an array, or a pandas, polars or pyarrow frame, of finite numbers. The
        lifetime is per unit of them.
    y
        Their targets. Their mean is taken off before learning and added to predictions.
    lifetime_max
        The terminal lifetime.
    X_val
        Validation rows. They fall into the cells of the training rows.
    y_val
        Their targets.
    X_test
        Test rows.
    y_test
        Their targets.
    n_partitions
        Number M of partitions. The features are 1 / sqrt(M) in a row's cells.
    delta2
        The ridge: variance of the noise divided by the prior variance of a weight.
    noise_variance
        Variance of the noise, in squared units of the target, for the marginal likelihood
        (`delta2` in the paper). None integrates it out under the prior 1 / variance.
    learners
        Which of the three to run.
    sgd_passes
        Visits of the training rows after a step, by their number: 0.5 visits a random half.
    learning_rate
        Rate of stochastic gradient descent, which falls to 0 over the visits of a step; 1 moves a
        prediction onto its target.
    cuts_per_step
        Cuts after which learners predict and are evaluated, and gradient descent visits the
        training rows. With more than 1 there are results for fewer lifetimes, in less time.
    prior
        Prior of the lifetime, a frozen distribution of `scipy.stats`, cut off at `lifetime_max`:
        predictions of the test rows are averaged over its posterior (Supplement B).
    progress
        Whether to show on stderr how far the sweep is. None shows it where that is a terminal and
        the sweep takes more than some seconds.
    seed
        Random seed for reproducibility.

    Returns
    -------
    Lifetimes, errors and log marginal likelihoods.

    Raises
    ------
    TypeError
        If a value or a target is no number.
    ValueError
        If a value is missing or not finite, sets do not fit, or an argument is out of range.

    Notes
    -----
    With C cells and n training rows, a cut costs ridge regression O(min(C, n)^2) time and as many
    numbers of memory, and an evaluation of any learner O(M) per row.

    Examples
    --------

    >>> import numpy as np
    >>> from scipy import stats
    >>> from river_mondrian import lifetime_path

    >>> rng = np.random.default_rng(42)
    >>> X = rng.random((300, 2))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=300)
    >>> path = lifetime_path(
    ...     X[:200], y[:200], 20.0, X[200:], y[200:], n_partitions=10, delta2=0.1, seed=1
    ... )
    >>> bool(path.errors["ridge"]["validation"].min() < 0.3)
    True
    >>> 0.5 < path.best() < 20 and 0.5 < path.best(by="marginal") < 20
    True
    >>> path.posterior(stats.expon(scale=5)).sum().round(6)
    np.float64(1.0)

    References
    ----------
    [^1]: Balog, M., Lakshminarayanan, B., Ghahramani, Z., Roy, D. M. and Teh, Y. W. (2016). The
    Mondrian Kernel. Uncertainty in Artificial Intelligence 32. Sections 4 and 6, Supplement B.

    """
    check_positive("lifetime_max", lifetime_max)
    check_integer("n_partitions", n_partitions, 1)
    check_positive("delta2", delta2)
    if noise_variance is not None:
        check_positive("noise_variance", noise_variance)
    if isinstance(learners, str) or not learners or not set(learners) <= set(LEARNERS):
        raise ValueError(f"learners must be some of {LEARNERS}, got {learners!r}")
    check_positive("sgd_passes", sgd_passes)
    check_integer("cuts_per_step", cuts_per_step, 1)
    if not (is_real(learning_rate) and 0.0 < learning_rate <= 1.0):
        raise ValueError(f"learning_rate must be above 0 and at most 1, got {learning_rate!r}")
    if prior is not None and ("ridge" not in learners or X_test is None):
        raise ValueError('a prior needs test rows and "ridge" among the learners')
    names, first = _read(X, "X", None)
    parts, targets = [first], [read_targets(y, len(first))]
    if not len(first):
        raise ValueError("X has no rows")
    for what, rows, values in (("X_val", X_val, y_val), ("X_test", X_test, y_test)):
        if rows is None and values is not None:
            raise ValueError(f"there are targets but {what} is None")
        parts.append(np.empty((0, len(names))) if rows is None else _read(rows, what, names)[1])
        known = values is not None
        targets.append(read_targets(values, len(parts[-1])) if known else np.empty(0))
    if X_val is not None and y_val is None:
        raise ValueError("X_val needs y_val")

    began = time.perf_counter()
    mean = float(targets[0].mean())
    points = np.ascontiguousarray(np.concatenate(parts))
    sweep = _Sweep(points, targets[0] - mean, n_partitions, seed)
    make: dict[str, Callable[[], Any]] = {
        "ridge": lambda: _Ridge(sweep, delta2, noise_variance),
        "sgd": lambda: _SGD(sweep, delta2, sgd_passes, learning_rate),
        "forest": lambda: _Forest(sweep, delta2),
    }
    running: dict[str, Any] = {name: make[name]() for name in LEARNERS if name in learners}
    stops = np.cumsum([len(part) for part in parts])
    places = {
        kind: (slice(stop - len(values), stop), values - mean)
        for kind, stop, values in zip(SETS, stops.tolist(), targets, strict=True)
        if len(values)
    }
    errors: dict[str, dict[str, list[float]]] = {
        name: {kind: [] for kind in places} for name in running
    }
    average = None if prior is None else _Average(prior, len(parts[2]))
    shown = _Progress(progress, lifetime_max)
    times, counts, seconds, logs = [0.0], [], [], []
    cuts: list[tuple[int, int, int, float]] = []
    while True:
        for name, learner in running.items():
            for kind, (part, values) in places.items():
                gap = learner.found[part] - values
                errors[name][kind].append(math.sqrt(float(gap @ gap) / len(gap)))
        if "ridge" in running:
            logs.append(running["ridge"].log_likelihood)
        counts.append(sweep.n_cells)
        seconds.append(time.perf_counter() - began)
        n_before, following = len(cuts), times[-1]
        while len(cuts) < n_before + cuts_per_step and sweep.next_time <= lifetime_max:
            following = sweep.next_time
            cuts.append(sweep.cut())
            for learner in running.values():
                learner.follow(cuts[-1][1])
        stop = following if len(cuts) > n_before else float(lifetime_max)
        if average is not None:
            # What has been found for the last lifetime holds up to the next.
            average.add(times[-1], stop, logs[-1], running["ridge"].found[stops[1] :])
        if len(cuts) == n_before:
            break
        shown.show(following, sweep.n_cells)
        times.append(following)
        for learner in running.values():
            learner.settle()
    shown.end()
    kinds = [("partition", int), ("cell", int), ("feature", int), ("place", float)]
    return LifetimePath(
        np.array(times),
        np.array(counts),
        {name: {k: np.array(v) for k, v in sets.items()} for name, sets in errors.items()},
        np.array(logs),
        np.array(seconds),
        float(lifetime_max),
        np.array(cuts, dtype=kinds),
        {
            name: learner.weights[: sweep.n_cells] * learner.unit
            for name, learner in running.items()
        },
        None if average is None else mean + average.result,
    )


class _Progress:
    """A line on stderr that says how far a sweep is."""

    def __init__(self, wanted: bool | None, lifetime_max: float) -> None:
        self.wanted = sys.stderr.isatty() if wanted is None else wanted
        self.lifetime_max = lifetime_max
        self.began = self.last = time.perf_counter()
        self.shown = False

    def show(self, lifetime: float, n_cells: int) -> None:
        """Show a lifetime, now and then."""
        now = time.perf_counter()
        if not self.wanted or now - self.began < QUIET or now - self.last < EVERY:
            return
        self.last, self.shown = now, True
        text = f"lifetime {lifetime:.3g} of {self.lifetime_max:.3g}, {n_cells} cells"
        print(f"\r\033[K{text}, {now - self.began:.0f} s", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Take the line away."""
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
