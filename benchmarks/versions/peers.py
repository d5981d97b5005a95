"""Two processes that do the same tasks in turn."""

from __future__ import annotations

import pickle
import subprocess
from pathlib import Path
from typing import Any, Self

from ..report import progress
from . import snapshots

SAMPLES = 1500  # Number of samples of each configuration; with fewer, some kernels are not called.


class Failed(Exception):
    """Traceback of a task that failed in one version."""

    @property
    def last_line(self) -> str:
        return str(self).strip().splitlines()[-1]


class Peer:
    """A process that imports the package from one folder."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.process = subprocess.Popen(
            snapshots.python("-m", "benchmarks.versions.worker", str(folder)),
            env=snapshots.environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def do(self, task: str, *arguments: Any) -> Any:
        """Send a task; return the result, or a `Failed` with the error."""
        process = self.process
        assert process.stdin is not None and process.stdout is not None
        try:
            pickle.dump((task, arguments), process.stdin)
            process.stdin.flush()
            done, result = pickle.load(process.stdout)
        except (EOFError, BrokenPipeError) as error:
            code = process.wait()
            raise RuntimeError(f"the {self.name} version ended with {code} in {task}") from error
        return result if done else Failed(result)

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def _compile(name: str, folder: Path) -> None:
    """Compile a version once in a separate process.

    A process that compiles a kernel uses more memory than a process that loads the kernel, and may
    round differently.
    """
    compiled = folder / "compiled"
    if compiled.exists():
        return
    progress(f"the {name} version is compiled, which takes minutes")
    peer = Peer(name, folder)
    peer.do("compile_all", SAMPLES)
    peer.close()
    compiled.touch()


class Peers:
    """Processes of the old version, from a commit, and of the new version, from the working tree.

    `turns` is the number of earlier tasks, whose parity determines which version is first.
    """

    def __init__(self, base: str, turns: int = 0) -> None:
        folders = {"old": snapshots.of_commit(base), "new": snapshots.of_working_tree()}
        for name, folder in folders.items():
            _compile(name, folder)
        self.peers = [Peer(name, folder) for name, folder in folders.items()]
        self.turns = turns

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        for peer in self.peers:
            peer.close()

    def both(self, task: str, *arguments: Any) -> tuple[Any, Any]:
        """Send a task to both versions, in the order A B, B A, A B, ...

        Returns the results of the old and the new version.
        """
        order = (0, 1) if self.turns % 2 == 0 else (1, 0)
        self.turns += 1
        results: list[Any] = [None, None]
        for i in order:
            results[i] = self.peers[i].do(task, *arguments)
        return results[0], results[1]

    def one(self, task: str, *arguments: Any) -> Any:
        """Send a task to the new version only."""
        result = self.peers[1].do(task, *arguments)
        if isinstance(result, Failed):
            raise RuntimeError(f"{task} failed:\n{result}")
        return result
