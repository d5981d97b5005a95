"""Walks of a sample, noted step by step: how its prediction has come about."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...compiling.kernels import kernel
from ...records import Array, Float32s, Float64, Float64s, Int64, Memory, Record
from ...records.row_layout import columns_of
from .inspection import box_at
from .records import F, Forest, Node, Tree
from .scaling import scale
from .walks import Prediction, Walk, predict_rows

# Steps for which a trace has room at first, for each tree.
FIRST_STEPS = 64


class TracedStep(Record):
    """A node on a walk: what `walks.Step` says of it, and how many steps there were above."""

    tree: Int64
    depth: Int64
    ref: Int64
    eta: Float64
    span: Float64
    reach: Float64
    stays: Float64


class Trace(Prediction):
    """The steps of all walks; `n` goes on where there is no room for more than `capacity`."""

    n: Int64
    capacity: Int64
    steps: Array[TracedStep]
    # What the trees cut of the sample.
    values: Float32s

    def add_walk(self, forest: Forest, t: int, walk: Walk, row: int) -> None:
        """Append the steps of a walk."""
        for i in range(1, walk.depth + 1):
            if self.n < self.capacity:
                step, found = walk.path[i], self.steps[self.n]
                found.tree = t
                found.depth = i - 1
                found.ref = step.ref
                found.eta = step.eta
                found.span = step.span
                found.reach = step.reach
                found.stays = step.stays if step.eta > 0.0 else 1.0
            self.n = self.n + 1


@kernel
def trace(forest: F, inputs: Float64s, found: Trace) -> int:
    """Note the walks of a sample of these inputs.

    Returns DONE, or the input whose value is too large.
    """
    bad = scale(forest, found.values, inputs)
    if bad < 0:
        found.n = 0
        predict_rows(forest, found.values, 1, found)
    return bad


class Path(NamedTuple):
    """A walk down a tree: an array element for each step.

    What follows a missing value may take several paths, of which a later one begins with steps
    whose `reach` is 0: the first has counted these.
    """

    tree: int
    refs: NDArray[np.int64]
    # Distance from the node's box, and time of its cut or end since the parent's.
    etas: NDArray[np.float64]
    spans: NDArray[np.float64]
    # Probability of not having branched off above, and of not doing so here.
    reach: NDArray[np.float64]
    stays: NDArray[np.float64]

    @property
    def leaves(self) -> NDArray[np.float64]:
        """The probabilities of branching off at the nodes."""
        return self.reach * (1.0 - self.stays)


def traced(forest: Any, inputs: NDArray[np.float64]) -> tuple[int, list[Path], NDArray[np.float32]]:
    """Return what `trace` does, the paths of a sample of these inputs, and its values."""
    values = np.empty(int(forest.n_values), dtype=np.float32)
    room = FIRST_STEPS * int(forest.n_trees)
    while True:
        memory = np.empty(room * TracedStep.SIZE, dtype=np.uint8)
        found = Memory(Trace)
        found[0].capacity = room
        found[0].steps = Array.over(TracedStep, memory)
        found[0].values = Float32s.of(values)
        bad, n = trace(forest, Float64s.of(inputs), found[0]), int(found[0].n)
        if bad >= 0:
            return bad, [], values
        if n <= room:
            return bad, _paths(memory, n), values
        room = n


def _paths(memory: NDArray[np.uint8], n: int) -> list[Path]:
    """Return the paths of `n` steps."""
    steps = {c.name: c.over(memory, n, TracedStep.SIZE) for c in columns_of(TracedStep)}
    starts = np.flatnonzero(steps["depth"] == 0).tolist()
    found = []
    for start, stop in zip(starts, [*starts[1:], n], strict=True):
        own = {name: column[start:stop] for name, column in steps.items()}
        path = Path(
            int(own["tree"][0]),
            own["ref"],
            own["eta"],
            own["span"],
            own["reach"],
            own["stays"],
        )
        found.append(path)
    return found


def place_of(forest: Forest, tree: Tree, ref: int) -> Any:
    """Return the row of a node, or of a point."""
    return tree.nodes.row(ref) if ref >= 0 else forest.points.row(~ref)


def gaps_from(forest: Forest, t: int, ref: int, x: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return how far a sample is from the box of a tree's node in each dimension."""
    lower, upper = box_at(forest, t, ref)[:, : len(x)]
    # A missing value or an unknown side is no distance.
    gaps: NDArray[np.float64] = np.fmax(lower - x, x - upper).astype(np.float64)
    return np.nan_to_num(gaps).clip(0.0)


def contributions(
    forest: Forest,
    tree: Tree,
    path: Path,
    x: NDArray[np.float32],
    here: NDArray[np.float64],
    branches: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return what each dimension adds to a tree's prediction on a path.

    Let w_j be the probability of branching off at node j of the path, G_j the node's prediction,
    B_j that on branching off there, and w the probability of not branching off at all. A tree
    predicts sum_j w_j B_j + w G_leaf, which is G_root + sum_j M_j (G_j - G_parent) + sum_j w_j
    (B_j - G_j), where M_j is the sum of w and of all w_i from j on: the probability of coming to
    node j. The dimension of the parent's cut gets the terms of the first sum; those of the second
    are shared by the dimensions in which the sample is outside of the node's box, by the distances
    there: the rates at which a cut would have been drawn there.

    Parameters
    ----------
    forest, tree, path
        The path and where it is.
    x
        What the tree cuts of the sample.
    here, branches
        G_j and w_j (B_j - G_j), a row for each step.

    """
    found = np.zeros((len(x), here.shape[1]))
    leaves = path.leaves
    for i, ref in enumerate(path.refs.tolist()):
        if i > 0:
            cut: Node = tree.nodes.row(int(path.refs[i - 1]))
            found[cut.dim] += path.reach[i] * (here[i] - here[i - 1])
        if leaves[i] > 0.0:
            gaps = gaps_from(forest, path.tree, ref, x)
            found += np.outer(gaps / gaps.sum(), branches[i])
    return found
