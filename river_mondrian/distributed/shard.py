"""A worker's shard of a forest, and the crew of all workers."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..arguments import lifetimes_after
from ..estimators.classifier import MondrianForestClassifier
from ..files.store import load, save
from ..frames import Block, read_frame, read_labels, read_targets, read_weights
from ..inputs import FeatureIndex, Floats
from ..posteriors.targets.scale_mixture import learn_tails


@dataclass(frozen=True)
class Known:
    """State of a forest without its trees: features, labels, number of samples, and last lifetime.

    Parameters
    ----------
    model
        A forest with the same arguments; only its arguments are used.
    features
        The features.
    labels
        The labels, in order of appearance; empty for a regressor.
    n_samples
        Number of learned samples.
    horizon
        The last lifetime, if the lifetime is a function.

    """

    model: Any
    features: FeatureIndex
    labels: dict[Hashable, None]
    n_samples: int
    horizon: float

    @classmethod
    def of(cls, model: Any) -> Known:
        """Return the state of a forest without its trees."""
        with model._lock:
            model._settle()
            trees = model._trees
            grows = trees is not None and callable(model.lifetime)
            return cls(
                model._made_anew(),
                model._features.with_more(()),
                dict.fromkeys(getattr(model, "_labels", ())),
                model.n_samples,
                trees.horizon if grows else 0.0,
            )

    # The next methods read samples without changing the state.

    def read_frame(self, X: Any) -> tuple[Any, Block]:
        """Return a narwhals frame or the array itself, and the rows as a block."""
        frame, names, columns = read_frame(X, self.features if self.model._takes_levels else None)
        return frame, Block(names, columns)

    def read_one(self, x: Mapping[Any, Any]) -> Block:
        """Return a checked sample as a block of one row."""
        values = self.features.read(x, self.model._takes_levels)
        return Block(list(values), np.array([list(values.values())]))

    def _read_samples(self, samples: Sequence[Mapping[Any, Any]]) -> Block:
        index, rows = self.features, []
        for row, x in enumerate(samples):
            try:
                values = index.read(x, self.model._takes_levels)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{error} in row {row}") from None
            new = index.new_of(values)
            if new:
                index = index.with_more(new)
            rows.append(values)
        columns = np.full((len(rows), len(index)), np.nan)
        for row, values in enumerate(rows):
            for name, value in values.items():
                columns[row, index.index_of[name]] = value
        return Block(list(index.names), columns)

    def read_block(self, X: Any, y: Any, w: Any) -> Block:
        """Return checked samples as a block, with labels or targets and weights.

        Raises
        ------
        TypeError, ValueError
            If a sample cannot be learned; the message names its row.

        """
        frame: Any = None
        if isinstance(X, (list, tuple)):
            rows = self._read_samples(X)
        else:
            frame, rows = self.read_frame(X)
        n = len(rows)
        weights = read_weights(w, n, frame)
        if isinstance(self.model, MondrianForestClassifier):
            # Samples of weight 0 are dropped, because a classifier ignores these samples.
            return Block(rows.names, rows.columns, read_labels(y, n, frame), weights).weighing()
        if callable(self.model.lifetime):
            lifetimes_after(self.model.lifetime, self.n_samples, n, self.horizon)
        return Block(rows.names, rows.columns, read_targets(y, n, frame), weights)

    # Learning.

    def first_joint_row(self, block: Block) -> int:
        """Return the first row whose random numbers are drawn jointly for all trees.

        Joint draws are needed for the forest's first category and, if directions are random, for
        each new feature. If no row needs joint draws, return the number of rows.
        """
        new = self.features.first_rows(block.names, block.columns)
        if isinstance(self.model.directions, int):
            return min(new.values(), default=len(block))
        if self.features.categories:
            return len(block)
        added = self.features.with_more(self.features.first_values(block.names, block.columns))
        return min((new[name] for name in added.categories), default=len(block))

    def after(self, block: Block) -> Known:
        """Return the state of the forest after it has learned a block."""
        features, n = self.features, len(block)
        new = features.first_values(block.names, block.columns)
        if new:
            features = features.with_more(new)
        labels, horizon = self.labels, self.horizon
        if isinstance(self.model, MondrianForestClassifier):
            labels = labels | dict.fromkeys(block.y)
        elif callable(self.model.lifetime) and n > 0:
            horizon = lifetimes_after(self.model.lifetime, self.n_samples, n, horizon)[-1]
        return Known(self.model, features, labels, self.n_samples + n, horizon)


Told = Floats | None


class Shard:
    """Part of a forest's trees, which learn each of the blocks 1, 2, ... once.

    Parameters
    ----------
    path
        The shard's file, which `save` replaces.
    code
        Arguments of the forest that cannot be stored in files, such as functions.
    save_every
        Number of blocks between two saves.

    """

    def __init__(self, path: str, code: Mapping[str, Any], save_every: int) -> None:
        self._path, self._save_every = path, save_every
        self._model, extra = load(path, with_extra=True, **code)
        # Numbers of the last learned block and of the last block in the file.
        self._position = self._saved = int(extra["position"])
        # Densities that the calling process may not have received, by number of the block.
        self._told: dict[int, Told] = extra["told"]
        self._is_whole = True

    def position(self) -> int:
        """Return the number of the last learned block."""
        return self._position

    def learn(self, number: int, heard: int, block: Block) -> tuple[Told, int]:
        """Learn a block once; return its targets' densities and the number of the last saved block.

        Parameters
        ----------
        number
            Number of the block.
        heard
            Number of the last block whose densities the calling process has received.
        block
            The block.

        Returns
        -------
        The densities of the targets under the shard's trees, or None, and the number of the last
        saved block. The calling process learns the distribution of targets from these densities.

        """
        self._told = {n: densities for n, densities in self._told.items() if n > heard}
        if number > self._position:
            if number != self._position + 1 or not self._is_whole:
                raise RuntimeError(f"block {number} cannot be learned after block {self._position}")
            self._is_whole = False
            self._told[number] = self._learn(block)
            self._position, self._is_whole = number, True
            if number % self._save_every == 0:
                self.save()
        return self._told.get(number), self._saved

    def _learn(self, block: Block) -> Told:
        trees: Any = self._model._trees
        learns_tails = getattr(trees, "tails", None) is not None
        if learns_tails:
            trees.told = []
        # Other workers share the block's arrays, so the arrays are read-only.
        frame: Any = (None, block.names, block.columns)
        self._model._learn_read(frame, block.y, block.w)
        return np.concatenate(trees.told) if learns_tails and trees.told else None

    def save(self) -> None:
        """Save the shard, with densities that the calling process may not have received."""
        position = self._position
        save(self._model, self._path, extra={"position": position, "told": self._told})
        self._saved = position

    def model(self) -> Any:
        """Return the shard as a model."""
        return self._model

    def predict(self, rows: Block, tails: Told) -> Floats:
        """Return the shard's predictions: probabilities of classes, or means and variances."""
        model: Any = self._model
        trees = self._tell(tails)
        values = model._arrange(rows.names, rows.columns)
        return trees.predict_rows(values, model.n_jobs)

    def predict_mixture(self, rows: Block, tails: Told) -> Floats:
        """Return the weights, centres and scales of the shard's mixture for one row."""
        trees = self._tell(tails)
        trees.vector[:] = self._model._arrange(rows.names, rows.columns)[0]
        _, mixture = trees.predict_mixture()
        return np.array([mixture.weights, mixture.centres, mixture.scales])

    def _tell(self, tails: Told) -> Any:
        """Set the distribution of targets, learned from all trees; return the shard's trees."""
        trees: Any = self._model._trees
        if tails is not None:
            trees.tails[:] = tails
        return trees

    def describe(self) -> dict[str, Any]:
        """Return the shard's size in bytes, the process id, and a regressor's hyperparameters."""
        model: Any = self._model
        nbytes, hyperparameters = model._raw_memory_usage, getattr(model, "hyperparameters", {})
        return {"nbytes": nbytes, "process": os.getpid(), "hyperparameters": hyperparameters}


# Each worker learns all blocks with its shard, and is restarted if it dies.
#
# A block is accepted by one assignment, which cannot be interrupted halfway. Then the calling
# process sends blocks, waits for answers and restarts workers. All these steps depend only on the
# numbers of blocks, so each step can be interrupted and repeated.
#
# - A restarted worker loads its file, and gets the later blocks. So a block is kept until every
#   worker's file includes the block.
# - A worker does not learn a block again, but returns the same answer as before.
# - Answers are used in the order of blocks, when all workers have answered.


class WorkerDied(Exception):
    """Raised if a worker's process has ended, or if a worker's call has failed."""


class _Member:
    """A worker, the number of its last block, and calls whose answers have not been used."""

    def __init__(self, path: str, worker: Any) -> None:
        self.path, self.worker = path, worker
        self.sent = self.saved = 0
        self.calls: dict[int, Any] = {}
        # Number of times that the worker has died since a call was last answered in `Crew._get`.
        self.deaths = 0


class Crew:
    """The workers with the shards of a forest.

    Parameters
    ----------
    engine
        A `RayEngine`, or another object that starts, calls and ends workers.
    paths
        The files with the shards, saved before the first block.
    known
        The state of the forest.
    tails
        Parameters of the distribution of targets; None if the distribution is not learned.
    limits
        Three numbers: `save_every`, `in_flight` and `max_restarts`, as in `ShardedForest`.

    """

    def __init__(
        self, engine: Any, paths: Sequence[str], known: Known, tails: Any, limits: Sequence[int]
    ) -> None:
        self._engine = engine
        self._save_every, self._in_flight, self._max_restarts = limits
        self._blocks: dict[int, Any] = {}
        # Each of these pairs is replaced by one assignment, so that an interruption leaves it
        # consistent.
        self._accepted = 0, known
        self._taken_in = 0, tails
        self.n_restarts = 0
        workers = [engine.start(path, self._save_every) for path in paths]
        self._members = [_Member(path, worker) for path, worker in zip(paths, workers, strict=True)]

    @property
    def known(self) -> Known:
        """The state of the forest after all accepted blocks."""
        return self._accepted[1]

    @property
    def tails(self) -> Floats | None:
        """Parameters of the distribution of targets."""
        return self._taken_in[1]

    # Learning.

    def learn(self, block: Block, known: Known) -> None:
        """Accept a block, and set the new state; wait if too many blocks are in flight."""
        number = self._accepted[0] + 1
        self._take_in(number - self._in_flight)
        self._blocks[number] = self._engine.put(block)
        self._accepted = number, known
        for member in self._members:
            self._send(member)

    def finish(self) -> None:
        """Wait until all workers have learned all blocks."""
        self._take_in(self._accepted[0])

    def _send(self, member: _Member) -> None:
        """Send a worker all accepted blocks that have not been sent to this worker."""
        while member.sent < self._accepted[0]:
            number, taken_in = member.sent + 1, self._taken_in[0]
            arguments = "learn", number, taken_in, self._blocks[number]
            call = self._engine.call(member.worker, *arguments)
            if number > taken_in:
                member.calls[number] = call
            member.sent = number

    def _take_in(self, last: int) -> None:
        """Wait for the answers to all blocks up to `last`, and use these answers."""
        while self._taken_in[0] < last:
            number = self._taken_in[0] + 1
            calls = [(m, partial(m.calls.__getitem__, number)) for m in self._members]
            answers = [self._get(member, call) for member, call in calls]
            for member, (_, saved) in zip(self._members, answers, strict=True):
                member.saved = max(member.saved, saved)
            densities, tails = [sums for sums, _ in answers if sums is not None], self.tails
            if densities and tails is not None:
                tails, sums = tails.copy(), densities[0].copy()
                for other_sums in densities[1:]:
                    sums[:, 1:] += other_sums[:, 1:]
                learn_tails(tails, sums)
            self._taken_in = number, tails
            for member in self._members:
                member.calls.pop(number, None)
            # Restarted workers do not need a block if all files include the block and its answers
            # have been used.
            covered = min(number, *(member.saved for member in self._members))
            self._blocks = {n: block for n, block in self._blocks.items() if n > covered}

    def _get(self, member: _Member, call: Callable[[], Any]) -> Any:
        """Return the answer to a call; repeat the call after each restart of the worker."""
        while True:
            self._send(member)
            try:
                answer = self._engine.get(call())
            except WorkerDied as error:
                self._restart(member, error)
            else:
                member.deaths = 0
                return answer

    def _restart(self, member: _Member, error: WorkerDied) -> None:
        """Restart a worker from its file, and mark blocks that the file lacks as not sent."""
        while True:
            member.deaths += 1
            if member.deaths > self._max_restarts:
                deaths, member.deaths = member.deaths, 0
                name = os.path.basename(member.path)
                raise RuntimeError(f"the worker of {name} has died {deaths} times") from error
            self._engine.stop(member.worker)
            member.worker = self._engine.start(member.path, self._save_every)
            self.n_restarts += 1
            try:
                position = self._engine.get(self._engine.call(member.worker, "position"))
            except WorkerDied as again:
                error = again
                continue
            # `_send` sends these blocks again, which replaces the calls to the worker that died.
            member.sent = min(position, self._taken_in[0])
            return

    # Asking.

    def ask(self, name: str, *arguments: Any) -> list[Any]:
        """Wait until all blocks are learned, call a method of all shards; return the results."""
        self.finish()
        call = self._engine.call
        first = [call(member.worker, name, *arguments) for member in self._members]
        results = []
        for member, sent in zip(self._members, first, strict=True):
            again = (call(member.worker, name, *arguments) for _ in itertools.count())
            results.append(self._get(member, itertools.chain([sent], again).__next__))
        return results

    def stop(self) -> None:
        """End all workers."""
        for member in self._members:
            self._engine.stop(member.worker)
