"""Learning with the Mondrian kernel at all lifetimes, in one sweep."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import checks, frames
from ...arguments import check_integer, check_positive, is_real
from ...partitions.sweep import LifetimeSweep
from ...progress import Progress
from .exact_ridge import RidgeLearner
from .fitting import ForestLearner, GradientLearner, SweepLearner

Array = NDArray[np.float64]

LEARNERS = ("ridge", "sgd", "forest")
SETS = ("train", "validation", "test")

Cut = tuple[int, int, int, float]
_CUT = [("partition", int), ("cell", int), ("feature", int), ("threshold", float)]


@dataclass(frozen=True)
class LifetimePath:
    """The results of a sweep, at lifetime 0 and after each step of one or several cuts.

    Attributes
    ----------
    lifetimes
        Lifetimes in ascending order. Results at index i are valid from the i-th lifetime to the
        next.
    n_cells
        Total number of cells of all partitions at each lifetime.
    errors
        Root mean squared errors by learner ("ridge", "sgd", "forest") and set ("train",
        "validation", "test").
    log_marginal_likelihood
        Log density of the centred training targets under ridge regression, at each lifetime; empty
        without ridge regression.
    seconds
        Time from the start of the sweep to each lifetime, in seconds.
    lifetime_max
        The terminal lifetime.
    cuts
        Structured array of the cuts, in order of time: "partition", "cell", "feature" and
        "threshold". A point of the cell moves to a new cell if its value of "feature" is above
        "threshold". The new cell has the next unused number. At lifetime 0, each of the M
        partitions has one cell, the whole space, and the cells have the numbers 0 to M - 1.
    weights
        Each learner's predictions of the centred target at the terminal lifetime, one per cell. The
        prediction for a row is the mean over its M cells.
    test_prediction
        Predictions of the test rows by ridge regression, averaged over the posterior of the
        lifetime. None without a prior.

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
        """Return the lifetime at which a learner has the least error on a set.

        Parameters
        ----------
        learner
            "ridge", "sgd" or "forest".
        by
            "train", "validation" or "test", or "marginal" for the largest marginal likelihood.

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
        """Return the posterior probability of each interval between successive lifetimes.

        Parameters
        ----------
        prior
            A frozen distribution of `scipy.stats`, truncated at the terminal lifetime.

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
        shares = np.exp(logs - logs.max())
        return shares / shares.sum()

    def to_frame(self) -> Any:
        """Return a pandas frame with a row per lifetime."""
        pd = checks.require("pandas", "pandas", "to_frame")
        columns = {"lifetime": self.lifetimes, "n_cells": self.n_cells}
        if len(self.log_marginal_likelihood):
            columns["log_marginal_likelihood"] = self.log_marginal_likelihood
        for learner, errors in self.errors.items():
            columns |= {f"{learner}_{kind}": values for kind, values in errors.items()}
        return pd.DataFrame(columns | {"seconds": self.seconds})

    def plot(self, ax: Any = None) -> Any:
        """Plot the errors by lifetime; see `river_mondrian.plot.lifetimes`.

        Parameters
        ----------
        ax
            Axes of matplotlib to draw on. None makes a new figure.

        Returns
        -------
        The axes.

        """
        from ...plot.summaries import lifetimes

        return lifetimes(self, ax)


@dataclass(frozen=True)
class Sets:
    """The training, validation and test rows, and their targets.

    Parameters
    ----------
    rows
        The training rows, then the validation rows, then the test rows.
    slices
        For each set's name, the slice of its rows.
    targets
        For each set's name, the targets of the set. Sets without targets are omitted.

    """

    rows: Array
    slices: dict[str, slice]
    targets: dict[str, Array]


def read_rows(X: Any, what: str, names: Sequence[Hashable] | None) -> tuple[list[Hashable], Array]:
    """Return the names and values of an array or a frame, with columns in the order of `names`."""
    _, columns, values = frames.read_frame(X)
    if names is not None:
        if set(columns) != set(names):
            raise ValueError(f"the columns of {what} must be those of X, got {columns!r}")
        values = values[:, [columns.index(name) for name in names]]
        columns = list(names)
    if not np.isfinite(values).all():
        row, i = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(
            f"feature {columns[i]!r} of {what} must be finite, got {float(values[row, i])!r} "
            f"in row {row}"
        )
    return columns, values


def read_sets(X: Any, y: Any, X_val: Any, y_val: Any, X_test: Any, y_test: Any) -> Sets:
    """Return all rows and targets, with the columns of frames in the order of X's columns.

    Raises
    ------
    TypeError
        If a value or a target is not a number.
    ValueError
        If a value is missing or not finite, columns differ, or a set lacks rows or targets.

    """
    names, first = read_rows(X, "X", None)
    sets, targets = [first], [frames.read_targets(y, len(first))]
    if not len(first):
        raise ValueError("X has no rows")
    for what, rows, values in (("X_val", X_val, y_val), ("X_test", X_test, y_test)):
        if rows is None and values is not None:
            raise ValueError(f"there are targets but {what} is None")
        sets.append(np.empty((0, len(names))) if rows is None else read_rows(rows, what, names)[1])
        targets.append(
            np.empty(0) if values is None else frames.read_targets(values, len(sets[-1]))
        )
    if X_val is not None and y_val is None:
        raise ValueError("X_val needs y_val")
    stops = np.cumsum([len(rows) for rows in sets]).tolist()
    slices = dict(zip(SETS, map(slice, [0, *stops], stops), strict=True))
    known = {name: values for name, values in zip(SETS, targets, strict=True) if len(values)}
    return Sets(np.ascontiguousarray(np.concatenate(sets)), slices, known)


class LifetimeAverage:
    """Predictions averaged over the posterior of the lifetime (Balog et al. 2016, Supplement B)."""

    def __init__(self, prior: Any, n: int) -> None:
        self.prior = prior
        self.total, self.weight, self.top = np.zeros(n), 0.0, -math.inf

    def add(self, start: float, stop: float, log_likelihood: float, predictions: Array) -> None:
        """Add the predictions and the log likelihood between two successive lifetimes."""
        mass = float(self.prior.cdf(stop) - self.prior.cdf(start))
        if not mass > 0.0:
            return
        log = math.log(mass) + log_likelihood
        if log > self.top:
            shrink = math.exp(self.top - log)
            self.total, self.weight, self.top = shrink * self.total, shrink * self.weight, log
        share = math.exp(log - self.top)
        self.total += share * predictions
        self.weight += share

    @property
    def result(self) -> Array:
        """The averaged predictions."""
        if self.weight == 0.0:
            raise ValueError("the prior has no mass below the terminal lifetime")
        return self.total / self.weight


class _Trace:
    """The results of a sweep, lifetime by lifetime.

    Parameters
    ----------
    sets
        All rows and targets.
    mean
        Mean of the training targets.
    sweep
        The partitions.
    learners
        The learners that follow the partitions' cuts, by name.

    """

    def __init__(
        self, sets: Sets, mean: float, sweep: LifetimeSweep, learners: dict[str, SweepLearner]
    ) -> None:
        self.sweep, self.learners = sweep, learners
        ridge = learners.get("ridge")
        self.ridge = ridge if isinstance(ridge, RidgeLearner) else None
        self.targets = {
            name: (sets.slices[name], values - mean) for name, values in sets.targets.items()
        }
        self.errors: dict[str, dict[str, list[float]]] = {
            name: {kind: [] for kind in self.targets} for name in learners
        }
        self.times: list[float] = [0.0]
        self.cuts: list[Cut] = []
        self.n_cells: list[int] = []
        self.logs: list[float] = []
        self.seconds: list[float] = []
        self.began = time.perf_counter()

    def add(self) -> None:
        """Add the results at the current lifetime."""
        for name, learner in self.learners.items():
            for kind, (rows, values) in self.targets.items():
                gap = learner.predicted[rows] - values
                self.errors[name][kind].append(math.sqrt(float(gap @ gap) / len(gap)))
        if self.ridge is not None:
            self.logs.append(self.ridge.log_likelihood)
        self.n_cells.append(self.sweep.n_cells)
        self.seconds.append(time.perf_counter() - self.began)

    def path(self, lifetime_max: float, test_prediction: Array | None) -> LifetimePath:
        """Return the results of the whole sweep."""
        errors = {
            name: {k: np.array(v) for k, v in sets.items()} for name, sets in self.errors.items()
        }
        times, n_cells = np.array(self.times), np.array(self.n_cells)
        logs, seconds = np.array(self.logs), np.array(self.seconds)
        cuts, n = np.array(self.cuts, dtype=_CUT), self.sweep.n_cells
        weights = {k: v.weights[:n] * v.unit for k, v in self.learners.items()}
        by_time = times, n_cells, errors, logs, seconds
        return LifetimePath(*by_time, lifetime_max, cuts, weights, test_prediction)


def lifetime_path(
    X: Any,
    y: Any,
    lifetime_max: float,
    X_val: Any = None,
    y_val: Any = None,
    X_test: Any = None,
    y_test: Any = None,
    n_partitions: int = 50,
    l2: float = 1e-2,
    noise_variance: float | None = None,
    learners: Sequence[str] = LEARNERS,
    sgd_passes: float = 1.0,
    learning_rate: float = 0.5,
    cuts_per_step: int = 1,
    prior: Any = None,
    progress: bool = False,
    seed: int | None = None,
) -> LifetimePath:
    """Learn with the Mondrian kernel at all lifetimes up to a terminal lifetime, in one sweep.

    Mondrian partitions of the training rows are cut as time runs from 0 to `lifetime_max`[^1]. Each
    cut splits a cell, and the learners continue from their current state. So one sweep to the
    terminal lifetime also has the results at all earlier lifetimes. There are three learners
    (sections refer to Balog et al. 2016):

    - "ridge" is exact Bayesian ridge regression, with its marginal likelihood (section 4.2.1).
    - "sgd" is stochastic gradient descent on the same objective. Both parts of a cut cell begin
      with the cell's weight, and the training rows are visited again (section 4.2.2).
    - "forest" fits each partition separately and averages the predictions (section 6).

    Parameters
    ----------
    X
        Training rows: an array, or a pandas, polars or pyarrow frame, of finite numbers. Features
        are not rescaled, so lifetimes depend on the units of the features.
    y
        Targets of the training rows. The mean target is subtracted before learning and added to
        predictions.
    lifetime_max
        The terminal lifetime.
    X_val
        Validation rows, which do not affect the cuts.
    y_val
        Targets of the validation rows.
    X_test
        Test rows.
    y_test
        Targets of the test rows.
    n_partitions
        Number M of partitions. A row has the feature 1 / sqrt(M) in each of its M cells.
    l2
        The ridge: variance of the noise divided by the prior variance of a weight.
    noise_variance
        Variance of the noise in the marginal likelihood, in squared units of the target (delta^2 in
        the paper, for weights of prior variance 1). If None, the variance is integrated out under
        the prior 1 / variance.
    learners
        The learners to run.
    sgd_passes
        Number of passes over the training rows after each step. With 0.5, a random half of the rows
        is visited.
    learning_rate
        Learning rate of stochastic gradient descent, which falls to 0 over the visits of a step.
        With a rate of 1 and a negligible ridge, a visit to a row sets the row's prediction to its
        target.
    cuts_per_step
        Number of cuts in a step. After each step, gradient descent visits the training rows, and
        all learners predict and are evaluated. With more cuts per step, the sweep has results at
        fewer lifetimes, and takes less time.
    prior
        Prior of the lifetime: a frozen distribution of `scipy.stats`, truncated at `lifetime_max`.
        Predictions of the test rows are averaged over the posterior of the lifetime (Supplement B
        of the paper).
    progress
        Whether to show progress on stderr, with tqdm if it is installed, otherwise as lines of
        text.
    seed
        Random seed for reproducibility.

    Returns
    -------
    The lifetimes, and the errors and log marginal likelihoods at these lifetimes.

    Raises
    ------
    TypeError
        If a value or a target is not a number.
    ValueError
        If a value is missing or not finite, columns differ, a set lacks rows or targets, or an
        argument is out of range.

    Notes
    -----
    With C cells and n training rows, ridge regression needs O(min(C, n)^2) memory, and as much time
    per cut. The evaluation of any learner takes O(M) time per row.

    Examples
    --------

    >>> import numpy as np
    >>> from scipy import stats
    >>> from river_mondrian import lifetime_path

    >>> rng = np.random.default_rng(42)
    >>> X = rng.random((300, 2))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=300)
    >>> path = lifetime_path(
    ...     X[:200], y[:200], 20.0, X[200:], y[200:], n_partitions=10, l2=0.1, seed=1
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
    check_positive("l2", l2)
    if noise_variance is not None:
        check_positive("noise_variance", noise_variance)
    are_names = isinstance(learners, Collection) and not isinstance(learners, (str, bytes))
    if not are_names or not learners or any(name not in [*LEARNERS] for name in learners):
        raise ValueError(f"learners must be some of {LEARNERS}, got {learners!r}")
    check_positive("sgd_passes", sgd_passes)
    check_integer("cuts_per_step", cuts_per_step, 1)
    if not (is_real(learning_rate) and 0.0 < learning_rate <= 1.0):
        raise ValueError(f"learning_rate must be above 0 and at most 1, got {learning_rate!r}")
    check_integer("seed", seed, 0, None)
    if prior is not None and not callable(getattr(prior, "cdf", None)):
        raise ValueError(f"prior must be a frozen distribution of scipy.stats, got {prior!r}")
    if prior is not None and ("ridge" not in learners or X_test is None):
        raise ValueError('a prior needs test rows and "ridge" among the learners')
    sets = read_sets(X, y, X_val, y_val, X_test, y_test)
    mean = float(sets.targets["train"].mean())
    sweep = LifetimeSweep(sets.rows, sets.targets["train"] - mean, n_partitions, seed)
    running: dict[str, SweepLearner] = {}
    # The learners share one stream of random numbers, so they run in a fixed order.
    if "ridge" in learners:
        running["ridge"] = RidgeLearner(sweep, l2, noise_variance)
    if "sgd" in learners:
        running["sgd"] = GradientLearner(sweep, l2, sgd_passes, learning_rate)
    if "forest" in learners:
        running["forest"] = ForestLearner(sweep, l2)
    trace = _Trace(sets, mean, sweep, running)
    tests, times, cuts = sets.slices["test"], trace.times, trace.cuts
    average = None if prior is None else LifetimeAverage(prior, tests.stop - tests.start)
    with Progress(progress, float(lifetime_max), "of the lifetime") as shown:
        while True:
            trace.add()
            n_before, stop = len(cuts), float(lifetime_max)
            while len(cuts) < n_before + cuts_per_step and sweep.next_time <= lifetime_max:
                stop = sweep.next_time
                cuts.append(sweep.cut())
                for learner in running.values():
                    learner.follow(cuts[-1][1])
            if average is not None:
                # The latest results are added here, because they are valid up to the next lifetime.
                average.add(times[-1], stop, trace.logs[-1], running["ridge"].predicted[tests])
            shown.reach(stop, f"{sweep.n_cells} cells")
            if len(cuts) == n_before:
                break
            times.append(stop)
            for learner in running.values():
                learner.finish_step()
    averaged = None if average is None else mean + average.result
    return trace.path(float(lifetime_max), averaged)
