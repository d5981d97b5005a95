"""Workers that learn the same blocks, each with its part of the trees, and replace those that die.

A block is accepted by one assignment. All that follows (sending it, waiting for answers, restarting
workers) depends on numbers of blocks alone and can be interrupted and done again:

- A worker that is started anew begins with its file, and is sent the blocks since, which are kept
  until every worker's file has them.
- A worker skips a block that it has learned, and answers as before.
- What the workers tell of a block is taken in, in the order of blocks, once all of them have.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..posteriors.targets.parts import learn_law
from .shard import Block, Known


class WorkerDied(Exception):
    """A worker's process has ended, or failed to learn a block."""


class Engine(Protocol):
    """What starts workers, each with a `Shard`, and calls them; calls to one are run in order."""

    def start(self, path: str, save_every: int) -> Any:
        """Start a worker with the part of a file."""

    def call(self, worker: Any, name: str, *arguments: Any) -> Any:
        """Call a method of a worker's shard; returns what `get` waits for."""

    def get(self, call: Any) -> Any:
        """Return what a call has returned; raises `WorkerDied` where the worker has died."""

    def put(self, block: Any) -> Any:
        """Keep a block where all workers find it; returns what they are given for it."""

    def stop(self, worker: Any) -> None:
        """End a worker, which may have died."""


class _Member:
    """A worker, the last block that it was sent, and its calls that have not been taken in."""

    def __init__(self, path: str, worker: Any) -> None:
        self.path, self.worker = path, worker
        self.sent = self.saved = 0
        self.calls: dict[int, Any] = {}
        # How often it has died since it has answered last.
        self.deaths = 0


class Crew:
    """Workers with the parts of a forest.

    Parameters
    ----------
    engine
        What runs workers.
    paths
        The files with the parts, saved at position 0.
    known
        What the forest knows.
    law
        Numbers of the targets' law, where it is learned.
    save_every
        Blocks from one file to the next.
    in_flight
        Most blocks that are accepted, but not learned by all workers.
    max_restarts
        How often a worker may die one time after the other without an answer.

    """

    def __init__(
        self,
        engine: Engine,
        paths: Sequence[str],
        known: Known,
        law: NDArray[np.float64] | None,
        save_every: int,
        in_flight: int,
        max_restarts: int,
    ) -> None:
        self._engine = engine
        self._save_every, self._in_flight = save_every, in_flight
        self._max_restarts = max_restarts
        self._blocks: dict[int, Any] = {}
        # Each of these changes by one assignment.
        self._accepted = 0, known
        self._taken_in = 0, law
        self.n_restarts = 0
        workers = [engine.start(path, save_every) for path in paths]
        self._members = [_Member(path, worker) for path, worker in zip(paths, workers, strict=True)]

    @property
    def known(self) -> Known:
        """What the forest knows, with all blocks that have been accepted."""
        return self._accepted[1]

    @property
    def law(self) -> NDArray[np.float64] | None:
        """The numbers of the targets' law."""
        return self._taken_in[1]

    @property
    def workers(self) -> list[Any]:
        """The workers."""
        return [member.worker for member in self._members]

    # Learning.

    def learn(self, block: Block, known: Known) -> None:
        """Accept a block, after which the forest knows `known`; waits while many are in flight."""
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
        """Send a worker the blocks that it has not been sent."""
        while member.sent < self._accepted[0]:
            number, taken_in = member.sent + 1, self._taken_in[0]
            arguments = "learn", number, taken_in, self._blocks[number]
            call = self._engine.call(member.worker, *arguments)
            if number > taken_in:
                member.calls[number] = call
            member.sent = number

    def _take_in(self, last: int) -> None:
        """Take in what workers tell of the blocks up to the last."""
        while self._taken_in[0] < last:
            number = self._taken_in[0] + 1
            answers = [self._answer(member, number) for member in self._members]
            for member, (_, saved) in zip(self._members, answers, strict=True):
                member.saved = max(member.saved, saved)
            told, law = [one for one, _ in answers if one is not None], self.law
            if told and law is not None:
                law, sums = law.copy(), told[0].copy()
                for one in told[1:]:
                    sums[:, 1:] += one[:, 1:]
                learn_law(law, sums)
            self._taken_in = number, law
            for member in self._members:
                member.calls.pop(number, None)
            # Nobody needs those that are in all files, and whose answers are known.
            covered = min(number, *(member.saved for member in self._members))
            self._blocks = {n: block for n, block in self._blocks.items() if n > covered}

    def _answer(self, member: _Member, number: int) -> Any:
        """Return a worker's answer to a block."""
        while True:
            self._send(member)
            try:
                found = self._engine.get(member.calls[number])
            except WorkerDied as error:
                self._restart(member, error)
            else:
                member.deaths = 0
                return found

    def _restart(self, member: _Member, error: WorkerDied) -> None:
        """Start a worker anew from its file, to be sent the blocks since."""
        while True:
            member.deaths += 1
            self.n_restarts += 1
            if member.deaths > self._max_restarts:
                deaths, member.deaths = member.deaths, 0
                raise RuntimeError(
                    f"the worker of {os.path.basename(member.path)} has died {deaths} times, one "
                    "after the other, without an answer"
                ) from error
            self._engine.stop(member.worker)
            member.worker = self._engine.start(member.path, self._save_every)
            try:
                position = self._engine.get(self._engine.call(member.worker, "position"))
            except WorkerDied as again:
                error = again
                continue
            # What is sent again takes the place of calls that were for the worker before.
            member.sent = min(position, self._taken_in[0])
            return

    # Asking.

    def ask(self, name: str, *arguments: Any) -> list[Any]:
        """Return what a method of all shards returns, once they have learned all blocks."""
        self.finish()
        engine = self._engine
        calls = [engine.call(member.worker, name, *arguments) for member in self._members]
        found = []
        for member, call in zip(self._members, calls, strict=True):
            while True:
                try:
                    found.append(engine.get(call))
                except WorkerDied as error:
                    self._restart(member, error)
                    self._send(member)
                    call = engine.call(member.worker, name, *arguments)
                else:
                    member.deaths = 0
                    break
        return found

    def put(self, rows: Any) -> Any:
        """Keep rows where all workers find them."""
        return self._engine.put(rows)

    def stop(self) -> None:
        """End all workers."""
        for member in self._members:
            self._engine.stop(member.worker)
