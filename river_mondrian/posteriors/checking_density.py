"""Checks of the restored trees of a density forest.

Kernels follow references to children and links of samples, and they cut cells and push faces back
until a time has passed or a point is inside: so times, places and corners are such numbers that
this ends.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..checks import LARGEST_SIZE, check_array, check_number, check_types, refuse
from ..compiling.kernels import exact_batch_kernel
from ..errors import ModelFormatError
from ..limits import LARGEST
from ..partitions.unbounded.cells import NO_DIM
from ..partitions.unbounded.records import NONE, Tree
from ..records import Int32s, Int64, Memory, Record
from .density import DensityPartition

# Corners and places of cuts are nearer than this, so that sides are finite; the root's cell is
# known at a time that is later than its inverse.
FARTHEST = 1e150

# What may be wrong, in the order of `_TEXTS`.
FINE = -1
CHILD = 0
DIM = 1
TIME = 2
PLACE = 3
COUNT = 4
FIRST_SAMPLE = 5
ROOT = 6

_TEXTS = (
    ("children", "but there are {nodes} nodes, each of which is at one place only"),
    ("dim", "but there are {dims} dimensions"),
    ("time", "but a time is > 0"),
    ("place", "but a place is finite"),
    ("n_samples", "but another number of samples is in its list"),
    ("first_sample", "but there are {samples} samples, each of which is in one leaf of a tree"),
    ("root", "but there are {nodes} nodes, each of which is at one place only"),
)


class Check(Record):
    """Where a check has come to, and what it has met."""

    tree: Int64
    node: Int64
    # By node: whether something has referred to it; and nodes that wait.
    met: Int32s
    waiting: Int32s
    # By sample: one more than the last tree in which it has been met.
    samples: Int32s


@exact_batch_kernel
def fault_of(forest: DensityPartition, check: Check) -> int:
    """Return what is wrong with the trees, FINE if nothing is; the check says where."""
    nodes, n_nodes, n_stored = forest.nodes, forest.nodes.n_rows, forest.samples.n_rows
    met, waiting = check.met, check.waiting
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        check.tree = t
        check.node = NONE
        total, n_waiting = 0, 0
        if tree.root != NONE:
            if not 0 <= tree.root < n_nodes or met[tree.root] == 1:
                return ROOT
            met[tree.root] = 1
            waiting[0] = tree.root
            n_waiting = 1
        while n_waiting > 0:
            n_waiting -= 1
            j = waiting[n_waiting]
            check.node = j
            node = nodes.row(j)
            for side in range(2):
                child = node.right if side == 1 else node.left
                if child != NONE:
                    if not 0 <= child < n_nodes or met[child] == 1:
                        return CHILD
                    met[child] = 1
                    waiting[n_waiting] = child
                    n_waiting += 1
            if not node.time > 0.0:
                return TIME
            # What cannot be cut is never cut.
            if not (
                0 <= node.dim < forest.n_dims or (node.dim == NO_DIM and node.time == math.inf)
            ):
                return DIM
            if not abs(node.place) <= FARTHEST:
                return PLACE
            if node.n_samples < 0:
                return COUNT
            total += node.n_samples
            n, row = 0, node.first_sample
            while row != NONE:
                if not 0 <= row < n_stored or check.samples[row] == t + 1:
                    return FIRST_SAMPLE
                check.samples[row] = t + 1
                n += 1
                row = forest.samples.row(row).links(forest)[t]
            if n != (node.n_samples if forest.stores_samples == 1 else 0):
                return COUNT
        check.node = NONE
        if total != forest.n_samples:
            return COUNT
    return FINE


def check_records(owner: Any) -> None:
    """Refuse restored trees by the kinds and sizes of their records.

    Parameters
    ----------
    owner
        The trees, a `DensityTrees`, whose attributes are there.

    Raises
    ------
    ModelFormatError
        If one of them is damaged.

    """
    array = np.ndarray
    kinds = dict.fromkeys(("corners", "means", "n_values"), array)
    check_types(owner, kinds | {"memory": Memory, "trees": Memory})
    check_types(owner, {"directions": (type(None), array)})
    if owner.memory.kind is not DensityPartition or owner.trees.kind is not Tree:
        refuse(owner, "trees", owner.trees.kind.__name__, "but they are of another kind")
    if len(owner.memory) != 1 or len(owner.trees) == 0:
        refuse(owner, "n_trees", len(owner.trees), "but there is one at least")
    forest, n_trees = owner.memory[0], len(owner.trees)
    for name, least, most in (
        ("n_trees", n_trees, n_trees),
        ("n_dims", 0, owner.corners.size),
        ("n_inputs", 0, len(owner.means)),
        ("stores_samples", 0, 1),
        ("estimator", 0, 2),
        ("n_samples", 0, LARGEST_SIZE),
    ):
        check_number(owner, name, getattr(forest, name), least, most)
    if owner.directions is None:
        check_number(owner, "n_dims", forest.n_dims, forest.n_inputs, forest.n_inputs)
    elif len(owner.directions) not in (1, n_trees):
        refuse(owner, "the number of directions", len(owner.directions), f"but not {n_trees}")


def check_numbers(owner: Any) -> None:
    """Refuse restored trees by the numbers in their arrays, which have the right shapes.

    Parameters
    ----------
    owner
        As for `check_records`.

    Raises
    ------
    ModelFormatError
        If one of them is out of its range.

    """
    forest, words = owner.memory[0], owner.trees.words
    least = np.finfo(np.float64).tiny
    check_array(owner, "lifetime", words["lifetime"], np.float64, least, 1e300)
    check_array(owner, "means", owner.means, np.float64, -1.001 * LARGEST, 1.001 * LARGEST)
    check_array(owner, "n_values", owner.n_values, np.float64, 0.0, 1e300)
    if owner.directions is not None:
        check_array(owner, "directions", owner.directions, np.float64, -1e100, 1e100)
    n_samples = int(forest.n_samples)
    n_stored = n_samples if forest.stores_samples else 0
    check_number(owner, "the number of stored samples", forest.samples.n_rows, n_stored, n_stored)
    check_array(owner, "corners", owner.corners, np.float64, -FARTHEST, FARTHEST)
    if n_samples:
        check_array(owner, "began", words["began"], np.float64, 1.0 / FARTHEST, 1e300)
        if not (owner.corners[:, 0] < owner.corners[:, 1]).all():
            refuse(owner, "corners", owner.corners.tolist(), "but the lower ones are below")


def check_cells(owner: Any) -> None:
    """Refuse restored trees whose nodes or samples are damaged, once kernels may read them.

    Parameters
    ----------
    owner
        As for `check_records`.

    Raises
    ------
    ModelFormatError
        If a reference, a link, a count or a number is wrong; the message names the place.

    """
    forest = owner.forest
    n_nodes, n_stored = int(forest.nodes.n_rows), int(forest.samples.n_rows)
    rows = owner.samples.rows(0, n_stored)
    values = np.ascontiguousarray(rows[:, : 2 * forest.n_inputs]).view(np.float64)
    check_array(owner, "values of samples", values, np.float64, -1.001 * LARGEST, 1.001 * LARGEST)
    memory = Memory(Check)
    check = memory[0]
    memory.own("met", np.zeros(n_nodes, np.int32))
    memory.own("waiting", np.zeros(n_nodes + 1, np.int32))
    memory.own("samples", np.zeros(n_stored, np.int32))
    fault = fault_of(forest, check)
    if fault == FINE:
        return
    field, why = _TEXTS[fault]
    t, j = int(check.tree), int(check.node)
    record = owner.trees[t] if j == NONE else forest.nodes.row(j)
    where = f"tree {t}" if j == NONE else f"tree {t}, node {j}"
    value = getattr(record, field, "wrong")
    if field == "children":
        value = f"{record.left} and {record.right}"
    why = why.format(nodes=n_nodes, dims=int(forest.n_dims), samples=n_stored)
    raise ModelFormatError(f"{where}: {field} is {value}, {why}")
