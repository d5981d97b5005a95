"""A forest whose trees learn in several processes."""

from __future__ import annotations

import abc
import copy
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base

from ..arguments import check_arguments
from ..estimators import classifier, regressor
from ..estimators.merging import bounds_of, check_shards, divided, splits_at, united
from ..files.store import save
from ..frames import Block, check_labels, native_frame, native_moments, native_series
from ..model import ClonesWhole
from ..predictive import PredictiveDistribution
from ..progress import Progress, in_pieces
from .engine import RayEngine
from .shard import Crew, Known

# Largest number of rows of a block.
BLOCK_ROWS = 8192


@dataclass(eq=False, repr=False)
class ShardedForest(ClonesWhole, base.Estimator):
    """A Mondrian forest whose trees learn in several processes or on several machines, with Ray.

    Each worker, a Ray actor, has a shard of the forest: a part of the trees. The calling process
    learns the first samples (see the notes). Each later block of samples is put into Ray's object
    store once, and every worker learns the block. A prediction combines the predictions of all
    workers, weighted by their numbers of trees. The trees equal the trees of a single model, node
    by node. Predictions equal the single model's predictions up to rounding.

    A worker that dies is restarted from its last saved file, and learns the later blocks again, so
    the trees include each sample exactly once. Samples are checked before they are sent to workers.

    Parameters
    ----------
    model
        A `MondrianForestClassifier` or `MondrianForestRegressor` without `max_nodes` or `window`.
        The model itself does not change. The model's `n_jobs` is the number of threads of each
        worker.
    n_shards
        Number of workers, at most the number of trees.
    folder
        A folder for the workers' shards, accessible from all machines. None for a temporary folder
        on this machine.
    save_every
        Number of blocks between two saves of the shards. Blocks since the last save are kept in
        memory.
    in_flight
        Largest number of blocks that wait for workers. Another block is accepted when the first
        waiting block has been learned.
    max_restarts
        Number of times that a worker may die before it answers a call. If the worker dies once
        more, an error is raised. Each answer, to a block or a prediction, resets the count.
    options
        Options of Ray's actors, such as `{"scheduling_strategy": "SPREAD"}`; None for the defaults.

    Notes
    -----
    First, the calling process learns 256 samples with the whole model, or 1,024 samples for a
    regressor with a Gaussian posterior, to choose ranges and hyperparameters. After that, a tree
    depends only on the samples and on the tree's random numbers. This also holds while trees are
    redrawn one after the other (`rescale`), because each worker computes from the number of samples
    which tree is redrawn. The tails of a regressor's noise are estimated in the calling process,
    from the densities that workers report. To learn the first sample with a category, the calling
    process fetches the whole forest from the workers. With random `directions`, it does so for each
    sample with a new feature, too.

    `learn_one` sends a block of one sample, which takes about a millisecond. `learn_many` returns
    when all blocks have been accepted.

    A deep copy or a pickle contains the whole model. Several threads may use one object: their
    calls run one after another.

    Examples
    --------
    >>> from river import datasets
    >>> from river_mondrian import MondrianForestClassifier
    >>> from river_mondrian.distributed import ShardedForest

    >>> forest = ShardedForest(MondrianForestClassifier(10, seed=42), n_shards=2)
    >>> samples = list(datasets.Bananas().take(200))
    >>> forest.learn_many([x for x, _ in samples], [y for _, y in samples])
    >>> probabilities = forest.predict_proba_one(samples[0][0])
    >>> round(sum(probabilities.values()), 9)
    1.0

    `gather` returns a single model:

    >>> forest.gather().n_samples
    200

    """

    model: Any
    n_shards: int = 2
    folder: str | None = None
    save_every: int = 100
    in_flight: int = 4
    max_restarts: int = 3
    options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_arguments(self)
        check_shards(self.model, self.n_shards)
        if self.model.n_jobs < 1:
            raise ValueError(f"n_jobs of the model must be >= 1, got {self.model.n_jobs!r}")
        self._lock = threading.RLock()
        # The whole model, or the `Crew` of workers. One assignment replaces the model by the crew
        # or the reverse, so that an interruption loses neither.
        self._state: Any = self.model.clone()
        self._files: Any = None

    def __new__(cls, model: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Return a sharded classifier or regressor, like the model."""
        if cls is ShardedForest:
            cls = ShardedRegressor if isinstance(model, base.Regressor) else ShardedClassifier
        return super().__new__(cls)

    @classmethod
    def scatter(cls, model: Any, n_shards: int = 2, **arguments: Any) -> Any:
        """Return a sharded forest with the learned trees of a model.

        Parameters
        ----------
        model
            The model, which is copied.
        n_shards
            Number of workers.
        **arguments
            Other arguments of the class.

        Returns
        -------
        A sharded forest. If the model has learned enough samples (see the notes of the class), the
        workers have the shards of the model.

        """
        forest = cls(model.clone(), n_shards, **arguments)
        forest._state = copy.deepcopy(model)
        forest._spread()
        return forest

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def _known(self) -> Known:
        """State of the forest without its trees, used to read and check samples."""
        with self._lock:
            return self._state.known if isinstance(self._state, Crew) else Known.of(self._state)

    # The methods below move the trees to the workers and back.

    def _engine(self) -> Any:
        code = {"lifetime": self.model.lifetime} if callable(self.model.lifetime) else {}
        return RayEngine(code, self.model.n_jobs, self.options or {}, self.n_shards)

    def _spread(self) -> None:
        """Start workers with the model's shards, if the model has learned enough samples."""
        whole = self._state
        if isinstance(whole, Crew) or whole.n_samples < splits_at(whole):
            return
        engine, paths = self._engine(), []
        if self._files is None:
            self._files = tempfile.TemporaryDirectory(prefix="shards-", dir=self.folder)
        for i, shard in enumerate(divided(whole, self.n_shards)):
            paths.append(os.path.join(self._files.name, f"shard-{i}"))
            save(shard, paths[-1], extra={"position": 0, "told": {}})
        tails = getattr(whole._trees, "tails", None)
        tails = None if tails is None else tails.copy()
        limits = self.save_every, self.in_flight, self.max_restarts
        self._state = Crew(engine, paths, Known.of(whole), tails, limits)

    def _whole(self) -> Any:
        """Return the whole model, without stopping the workers."""
        state = self._state
        if isinstance(state, Crew):
            shards = state.ask("model")
            return united(shards, state.tails)
        return state

    def gather(self) -> Any:
        """Return a single model that has learned the same samples; this forest does not change.

        Returns
        -------
        A `MondrianForestClassifier` or `MondrianForestRegressor`.

        """
        with self._lock:
            state = self._state
            return self._whole() if isinstance(state, Crew) else copy.deepcopy(state)

    def close(self) -> None:
        """Stop the workers and forget all samples. To keep the model, call `gather` first."""
        with self._lock:
            state, self._state = self._state, self.model.clone()
            if isinstance(state, Crew):
                state.stop()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            left_out = {"_lock", "_files", "_state"}
            state = {name: value for name, value in self.__dict__.items() if name not in left_out}
            return state | {"_state": self._whole()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()
        self._files = None

    # Learning.

    def learn_many(self, X: Any, y: Any, w: Any = 1.0, *, progress: bool = False) -> None:
        """Learn samples in order, in blocks of at most 8,192 rows.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), an array of the features 0, 1, ..., or a list of
            mappings from feature to value.
        y
            The samples' labels or targets.
        w
            A weight for all samples, or a weight for each sample.
        progress
            Whether to show on stderr how many rows have been learned or accepted, with tqdm if it
            is installed, else as text. The learned model does not depend on `progress`.

        Raises
        ------
        TypeError, ValueError
            If a sample cannot be learned. The message names the sample, and no sample has been
            learned.
        RuntimeError
            If a worker dies more than `max_restarts` times before it answers a call.

        """
        with self._lock:
            block = self._known.read_block(X, y, w)
            start = 0
            with Progress(progress, len(block)) as shown:
                while start < len(block):
                    start += self._learn_part(block.part(start, start + BLOCK_ROWS))
                    shown.reach(start)

    def _learn_part(self, block: Block) -> int:
        """Learn the first rows of a block; return the number of learned rows."""
        self._spread()
        state = self._state
        if isinstance(state, Crew):
            n = state.known.first_joint_row(block)
            if n > 0:
                rows = block.part(0, n)
                state.learn(rows, state.known.after(rows))
                return len(rows)
            n = 1
            whole = self._whole()
        else:
            whole, n = state, splits_at(state) - state.n_samples
        rows = block.part(0, n)
        frame: Any = (None, rows.names, rows.columns)
        whole._learn_read(frame, rows.y, rows.w)
        self._state = whole
        if isinstance(state, Crew):
            state.stop()
        return len(rows)

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn a sample, as a block of one row.

        Parameters
        ----------
        x
            A mapping from feature to value.
        y
            The sample's label or target.
        w
            The sample's weight.

        """
        with self._lock:
            if isinstance(self._state, Crew):
                self.learn_many([x], [y], w)
            else:
                self._state.learn_one(x, y, w)
                self._spread()

    def finish(self) -> None:
        """Wait until all workers have learned all accepted blocks."""
        with self._lock:
            if isinstance(self._state, Crew):
                self._state.finish()

    # Learned state.

    @property
    def n_samples(self) -> int:
        """Number of learned or accepted samples."""
        return self._known.n_samples

    @property
    def feature_names(self) -> list[Any]:
        """Names of the known features."""
        return list(self._known.features.names)

    @property
    def n_restarts(self) -> int:
        """Number of restarts of workers, since the trees were last moved to the workers."""
        with self._lock:
            return self._state.n_restarts if isinstance(self._state, Crew) else 0

    def describe_shards(self) -> list[dict[str, Any]]:
        """Return the size, the process and the hyperparameters of each shard.

        Returns
        -------
        For each shard, the size in bytes, the process id, and a regressor's hyperparameters. The
        list is empty while the whole model is in the calling process.

        """
        with self._lock:
            return self._state.ask("describe") if isinstance(self._state, Crew) else []

    @property
    def _raw_memory_usage(self) -> int:
        with self._lock:
            if isinstance(self._state, Crew):
                return sum(shard["nbytes"] for shard in self.describe_shards())
            return self._state._raw_memory_usage

    # Predicting.

    def _ask_rows(self, name: str, rows: Block) -> list[NDArray[np.float64]]:
        """Call a method of all shards with the same rows; return the results."""
        crew = self._state
        crew.finish()
        return crew.ask(name, crew._engine.put(rows), crew.tails)

    @abc.abstractmethod
    def _combined(self, rows: Block) -> NDArray[np.float64]:
        """Return predictions of rows, combined from the shards' predictions."""

    def _predict_rows(self, X: Any, progress: bool) -> tuple[Any, NDArray[np.float64]]:
        """Return a frame and its rows' predictions, computed in blocks if progress is shown."""
        if not isinstance(self._state, Crew):
            return self._state._predict_rows(X, progress)
        frame, rows = self._state.known.read_frame(X)
        return frame, in_pieces(
            lambda part: self._combined(Block(rows.names, part)), rows.columns, progress, BLOCK_ROWS
        )

    def _shares(self) -> NDArray[np.float64]:
        """Return each shard's share of the trees, shape (shards,)."""
        n = self.model.n_estimators
        return np.diff(bounds_of(n, self.n_shards)) / n


class ShardedClassifier(ShardedForest, base.MiniBatchClassifier):
    """A `ShardedForest` whose model is a classifier."""

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": classifier.MondrianForestClassifier(3, seed=1)}

    @property
    def classes(self) -> list[Any]:
        """Known labels, in order of appearance."""
        return list(self._known.labels)

    def _combined(self, rows: Block) -> NDArray[np.float64]:
        answers = self._ask_rows("predict", rows)
        total = np.zeros_like(answers[0])
        for share, probabilities in zip(self._shares(), answers, strict=True):
            total += share * probabilities
        return total

    def predict_proba_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:  # type: ignore[override]
        """Predict the probability of each known label."""
        with self._lock:
            if not isinstance(self._state, Crew):
                return self._state.predict_proba_one(x)
            (row,) = self._combined(self._state.known.read_one(x)).tolist()
            return dict(zip(self.classes, row, strict=True))

    def predict_one(self, x: Mapping[Any, Any]) -> Any:  # type: ignore[override]
        """Predict the most probable label; None before the first sample."""
        probabilities = self.predict_proba_one(x)
        return max(probabilities, key=probabilities.__getitem__) if probabilities else None

    def predict_proba_many(self, X: Any, *, progress: bool = False) -> Any:
        """Predict the probability of each label for a frame's rows.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array of the features 0, 1, ...
        progress
            Whether to show on stderr how many rows have been predicted, with tqdm if it is
            installed, else as text.

        Returns
        -------
        A frame or array like `X`, with a column for each label.

        """
        with self._lock:
            frame, probabilities = self._predict_rows(X, progress)
            return native_frame(dict(zip(self.classes, probabilities.T, strict=True)), like=frame)

    def predict_many(self, X: Any, *, progress: bool = False) -> Any:
        """Predict the most probable label for a frame's rows.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array of the features 0, 1, ...
        progress
            Whether to show on stderr how many rows have been predicted, with tqdm if it is
            installed, else as text.

        Returns
        -------
        A series or array like `X`, with a label for each row.

        """
        with self._lock:
            classes = self.classes or [None]
            check_labels(classes, X)
            frame, values = self._predict_rows(X, progress)
            best = values.argmax(axis=1) if values.shape[1] else np.zeros(len(values), int)
            return native_series([classes[k] for k in best.tolist()], name=None, like=frame)


class ShardedRegressor(ShardedForest, base.MiniBatchRegressor):
    """A `ShardedForest` whose model is a regressor."""

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": regressor.MondrianForestRegressor(3, seed=1)}

    @property
    def hyperparameters(self) -> dict[str, float]:
        """Current `prior_variance`, `prior_rate` and `noise_variance`, or an empty mapping."""
        with self._lock:
            state = self._state
            if isinstance(state, Crew):
                return state.ask("describe")[0]["hyperparameters"]
            return dict(state.hyperparameters)

    def _combined(self, rows: Block) -> NDArray[np.float64]:
        # The mean and the variance of the mixture over all trees follow from each shard's mean and
        # variance.
        moments = np.array(self._ask_rows("predict", rows))
        shares = self._shares()[:, None]
        mean = (shares * moments[:, :, 0]).sum(axis=0)
        variance = (shares * (moments[:, :, 1] + (moments[:, :, 0] - mean) ** 2)).sum(axis=0)
        return np.stack([mean, variance], axis=1)

    def predict_one(self, x: Mapping[Any, Any], with_dist: bool = False) -> Any:
        """Predict the target of a sample, or its distribution.

        Parameters
        ----------
        x
            A mapping from feature to value.
        with_dist
            Whether to return a `PredictiveDistribution`: the mixture over all trees.

        """
        with self._lock:
            crew = self._state
            if not isinstance(crew, Crew):
                return crew.predict_one(x, with_dist)
            row = crew.known.read_one(x)
            if not with_dist:
                return float(self._combined(row)[0, 0])
            self.model._need_distribution()
            mixtures = self._ask_rows("predict_mixture", row)
            weights = [share * m[0] for share, m in zip(self._shares(), mixtures, strict=True)]
            centres, scales = (np.concatenate([m[i] for m in mixtures]) for i in (1, 2))
            n = self.n_samples
            return PredictiveDistribution(np.concatenate(weights), centres, scales, None, n)

    def predict_many(self, X: Any, with_dist: bool = False, *, progress: bool = False) -> Any:
        """Predict the targets of a frame's rows, or their means and variances.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array of the features 0, 1, ...
        with_dist
            Whether to return a frame with the columns "mean" and "variance".
        progress
            Whether to show on stderr how many rows have been predicted, with tqdm if it is
            installed, else as text.

        """
        with self._lock:
            if with_dist:
                self.model._need_distribution()
            frame, moments = self._predict_rows(X, progress)
            return native_moments(moments, with_dist, like=frame)
