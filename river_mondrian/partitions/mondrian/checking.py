"""Checks of restored trees: no kernel meets a reference, a link, a count or a box that is wrong.

What kernels follow are references to children and links of points, and what they rely on is that
these are in range, that nothing is below two nodes (so that there are no cycles), that counts add
up, and that a leaf's box is that of its points, so that a cut within it parts them. One kernel goes
once over all rows of all trees, and once over the points. A kind of trees overrides `fault` of its
records.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...checks import LARGEST_SIZE, check_array, check_number, check_types, refuse
from ...compiling.box_vectors import MOST_PARTS
from ...compiling.kernels import batch_kernel, inlined, separate
from ...errors import ModelFormatError
from ...records import Float32s, Int32s, Memory
from . import faults
from .boxes import BATCH, room_of_batch
from .categories import Categories
from .checking_points import FARTHEST, Check, fault_of_points, is_in_order
from .cut_directions import CutDirections
from .faults import FINE
from .leaves import count_below
from .light import begin_box, box_of, hold_all
from .records import (
    COMPLETE,
    DRAWING,
    EMPTY,
    FREE,
    NEVER,
    NONE,
    SETTLING,
    STEADY,
    UNLIMITED,
    F,
    Forest,
    Node,
    Tree,
)

# Samples for which a forest keeps the inputs themselves, as its widths are found anew.
WARM_UP = 256

# Trees times samples are numbers that kernels hold.
MOST_TREES = 1 << 24


@inlined
def _refer(forest: Forest, tree: Tree, check: Check, ref: int) -> bool:
    """Note a reference; False where it is to nothing, or to what has been referred to before."""
    t = check.tree
    if ref >= 0:
        if ref >= tree.nodes.n_rows or check.rows[ref] == t + 1:
            return False
        check.rows[ref] = t + 1
        return True
    p = ~ref
    if p >= forest.n_points or check.points[p] == t + 1:
        return False
    check.points[p] = t + 1
    return True


@inlined
def _refers_to_box(forest: Forest, tree: Tree, node: Node, check: Check) -> bool:
    """Note the row of a node's box; False where there should be another, one, or none."""
    if node.has_box(forest) != (node.n_samples > forest.light_size or forest.light_size == 0):
        return False
    b, t = node.box_number(forest), check.tree
    if b != NONE:
        if not 0 <= b < tree.boxes.n_rows or check.boxes[b] == t + 1:
            return False
        check.boxes[b] = t + 1
    return True


@inlined
def _has_bad_box(forest: Forest, tree: Tree, node: Node) -> bool:
    """Tell whether a side of a node's own box is neither one nor unknown."""
    if not node.has_box(forest):
        return False
    lower, upper = node.lower(forest, tree), node.upper(forest, tree)
    n_bad = 0
    # Without a jump, so that sides are compared several at a time.
    for d in range(forest.n_dims):
        low, high = lower[d], upper[d]
        is_side = (low <= high) & (low >= -FARTHEST) & (high <= FARTHEST)
        is_unknown = (low != low) & (high != high)
        n_bad += 0 if is_side | is_unknown else 1
    return n_bad > 0


@inlined
def _is_within(forest: Forest, tree: Tree, node: Node, box: Float32s) -> bool:
    """Tell whether the box of a child is within its node's, where that keeps one."""
    if not node.has_box(forest):
        return True
    capacity = forest.dim_capacity
    lower, upper = node.lower(forest, tree), node.upper(forest, tree)
    low, high = box.part(0, capacity), box.part(capacity, capacity)
    n_bad = 0
    for d in range(forest.n_dims):
        # Comparisons with what is unknown are false.
        is_known = low[d] == low[d]
        n_bad += 1 if is_known and not (lower[d] <= low[d]) & (high[d] <= upper[d]) else 0
    return n_bad == 0


@inlined
def _is_apart(forest: Forest, tree: Tree, node: Node, check: Check) -> bool:
    """Tell whether the children of a node are on either side of its cut, and within its box."""
    left = box_of(forest, tree, node.left, check.left)
    right = box_of(forest, tree, node.right, check.right)
    if left[forest.dim_capacity + node.dim] > node.cut or right[node.dim] <= node.cut:
        return False
    return _is_within(forest, tree, node, left) and _is_within(forest, tree, node, right)


@inlined
def _fault_of_inner(forest: Forest, tree: Tree, node: Node, check: Check) -> int:
    """Return what is wrong with an internal node."""
    if not _refer(forest, tree, check, node.left):
        return faults.LEFT
    if not _refer(forest, tree, check, node.right):
        return faults.RIGHT
    if count_below(tree, node.left) + count_below(tree, node.right) != node.n_samples:
        return faults.N_SAMPLES
    # In a tiny box times are long; single precision may hold one as infinite.
    if not node.delta >= 0.0:
        return faults.DELTA
    return faults.CUT if not abs(node.cut) <= FARTHEST else FINE


@inlined
def _fault_of_leaf(forest: Forest, tree: Tree, node: Node, check: Check) -> int:
    """Return what is wrong with a leaf: with its list of points, their number and their box."""
    t, n_dims = check.tree, forest.n_dims
    if node.n_samples < tree.least_in_leaf():
        return faults.N_IN_LEAF
    if not forest.lists_points():
        return FINE
    box, capacity = check.box, forest.dim_capacity
    begin_box(forest, box)
    points, n_points, batch = check.points, forest.n_points, room_of_batch()
    link_word = forest.links_word + tree.slot
    n, p, last = 0, node.first_point, NONE
    while p != NONE:
        n_batch = 0
        while p != NONE and n_batch < BATCH:
            if not 0 <= p < n_points or points[p] == t + 1:
                return faults.POINTS
            points[p] = t + 1
            point = forest.points.row(p)
            batch[n_batch].point = point
            n_batch += 1
            last = p
            p = Int32s(point, link_word, 1)[0]
        hold_all(forest, tree, batch, n_batch, box)
        n += n_batch
    if forest.window != UNLIMITED and node.list_end not in (0, last + 1):
        return faults.LIST_END
    # A full tree counts samples that it does not keep.
    if n > node.n_samples or (n < node.n_samples and tree.n_splits < forest.max_splits):
        return faults.N_IN_LEAF
    if n < node.n_samples or not node.has_box(forest):
        return FINE
    lower, upper = node.lower(forest, tree), node.upper(forest, tree)
    low, high = box.part(0, capacity), box.part(capacity, capacity)
    for d in range(n_dims):
        if low[d] != lower[d] and low[d] == low[d]:
            return faults.BOX_OF_POINTS
        if high[d] != upper[d] and high[d] == high[d]:
            return faults.BOX_OF_POINTS
        if low[d] != low[d] and lower[d] == lower[d]:
            return faults.BOX_OF_POINTS
    return FINE


@inlined
def _frees_what_is_free(tree: Tree, check: Check) -> bool:
    """Tell whether the list of free rows has all that are, each once, and nothing else."""
    n_free, n_rows = 0, tree.nodes.n_rows
    for j in range(n_rows):
        n_free += 1 if tree.nodes.row(j).dim == FREE else 0
    j = tree.free_row
    while j != NONE and n_free >= 0:
        is_free = 0 <= j < n_rows and check.rows[j] != check.tree + 1
        if not is_free or tree.nodes.row(j).dim != FREE:
            return False
        check.rows[j] = check.tree + 1
        j = tree.nodes.row(j).next_free
        n_free -= 1
    return n_free == 0


@inlined
def _frees_boxes(forest: Forest, tree: Tree, check: Check) -> bool:
    """Tell whether the list of free rows of boxes has all that no node has, each once."""
    n, b, n_rows = 0, tree.free_box, tree.boxes.n_rows
    while b != NONE:
        if not 0 <= b < n_rows or check.boxes[b] == check.tree + 1:
            return False
        check.boxes[b] = check.tree + 1
        n += 1
        b = tree.boxes.row(b).next_free()[0]
    for j in range(tree.nodes.n_rows):
        node = tree.nodes.row(j)
        n += 1 if node.dim != FREE and node.box_number(forest) != NONE else 0
    return n == n_rows


@inlined
def _counts_all(forest: Forest, tree: Tree, t: int, n: int, start: int) -> bool:
    """Tell whether a tree of `n` samples has all that it should have."""
    return n == forest.taken if t >= forest.n_trees else tree.counts_all(forest, n, start)


@separate
def fault_of_tree(forest: F, check: Check) -> int:
    """Return what is wrong with a tree."""
    tree = forest.trees[check.tree]
    check.row = -1
    if not tree.is_used():
        return FINE
    if not tree.lifetime >= 0.0:
        return faults.LIFETIME
    t, start = check.tree, check.starts[check.tree]
    if tree.root == EMPTY:
        is_new = (
            tree.nodes.n_rows == 0
            and tree.boxes.n_rows == 0
            and _counts_all(forest, tree, t, 0, start)
        )
        return FINE if is_new else faults.ROOT
    if not _refer(forest, tree, check, tree.root):
        return faults.ROOT
    if not _counts_all(forest, tree, t, count_below(tree, tree.root), start):
        return faults.ROOT_SAMPLES
    n_splits = 0
    for j in range(tree.nodes.n_rows):
        check.row = j
        node = tree.nodes.row(j)
        if node.dim == FREE:
            continue
        if not COMPLETE <= node.dim < forest.n_dims:
            return faults.DIM
        if not _refers_to_box(forest, tree, node, check):
            return faults.BOX_ROW
        if _has_bad_box(forest, tree, node):
            return faults.BOX
        if node.dim >= 0:
            n_splits += 1
            fault = _fault_of_inner(forest, tree, node, check)
        else:
            fault = _fault_of_leaf(forest, tree, node, check)
        if fault == FINE:
            fault = node.fault(forest, tree, t)
        if fault != FINE:
            return fault
    # Boxes of what is below are made of the points, now that these are known to be few.
    for j in range(tree.nodes.n_rows):
        check.row = j
        node = tree.nodes.row(j)
        if node.dim >= 0 and forest.may_forget() and not _is_apart(forest, tree, node, check):
            return faults.APART
    check.row = -1
    if not _frees_what_is_free(tree, check):
        return faults.FREE_ROW
    if not _frees_boxes(forest, tree, check):
        return faults.FREE_BOX
    if n_splits != tree.n_splits:
        return faults.N_SPLITS
    if forest.is_full == 1 and n_splits < forest.max_splits:
        return faults.NOT_FULL
    return tree.fault(forest, t, start, check.points)


@batch_kernel
def fault_of(forest: F, check: Check) -> int:
    """Return what is wrong with a forest; the check says where."""
    fault = fault_of_points(forest, check)
    if fault != FINE:
        return fault
    if forest.window != UNLIMITED and not is_in_order(forest, check):
        return faults.ARRIVAL
    for t in range(forest.n_drawn()):
        check.tree = t
        fault = fault_of_tree(forest, check)
        if fault != FINE:
            return fault
    return FINE


def check_trees(owner: Any) -> None:
    """Refuse restored trees that are damaged.

    Parameters
    ----------
    owner
        The owner of the trees' memory, a `TreeMemory`, once kernels may use it.

    Raises
    ------
    ModelFormatError
        If a reference, a link, a count, a box or a value is wrong; the message names the place.

    """
    forest = owner.forest
    memory = Memory(Check)
    check = memory[0]
    most = max([0, *owner.trees.words["nodes.n_rows"].tolist()])
    memory.own("rows", np.zeros(most, np.int32))
    memory.own("points", np.zeros(int(forest.n_points), np.int32))
    memory.own("starts", owner._starts())
    most = max([0, *owner.trees.words["boxes.n_rows"].tolist()])
    memory.own("boxes", np.zeros(most, np.int32))
    for name in ("box", "left", "right"):
        memory.own(name, np.empty(2 * int(forest.dim_capacity), np.float32))
    fault = fault_of(forest, check)
    if fault == FINE:
        return
    kind, field, why = faults.TEXTS[fault]
    t, j = int(check.tree), int(check.row)
    tree = owner.trees[t]
    if kind == "point":
        where, record = f"point {j}", forest.points.row(j)
    elif j >= 0:
        where, record = f"tree {t}, node {j}", tree.nodes.row(j)
    else:
        where, record = f"tree {t}", tree
    why = why.format(forest=forest, tree=tree, n_rows=int(tree.nodes.n_rows))
    value = getattr(record, field, None)
    is_known = value is not None and not callable(value)
    found = f"{field} is {value}" if is_known else f"its {field} is wrong"
    raise ModelFormatError(f"{where}: {found}, {why}")


def _check_dims(owner: Any, bounds: Callable[[str, int, int], None]) -> None:
    """Refuse restored trees by how many dimensions there are, and where trees have their values."""
    forest, directions, categories = owner.shared[0], owner.directions, owner.categories
    if directions is None:
        bounds("dim_capacity", forest.input_capacity, forest.input_capacity)
        bounds("n_dims", forest.n_inputs, forest.n_inputs)
        if categories is not None:
            categories.check(forest.n_trees, forest.n_inputs)
    else:
        bounds("n_dims", directions.n_dims, directions.n_dims)
        bounds("dim_capacity", directions.n_dims, directions.n_dims)
        bounds("n_inputs", directions.n_inputs, directions.n_inputs)
        if directions.n_sets > 1:
            bounds("n_trees", directions.n_sets, directions.n_sets)
        if categories is not None:
            refuse(owner, "categories", categories, "but there are cut directions")
    keeps_inputs = owner.keeps_inputs
    if keeps_inputs and (not owner.renews or (directions is None and categories is None)):
        refuse(owner, "keeps_inputs", keeps_inputs, "but nothing needs inputs")
    if not keeps_inputs and owner.renews and directions is not None:
        refuse(owner, "keeps_inputs", keeps_inputs, "but there are cut directions")
    _check_columns(owner)


def _check_columns(owner: Any) -> None:
    """Refuse restored trees by which columns of values they have, and in which frames."""
    forest, words, n = owner.shared[0], owner.trees.words, owner.n_drawn
    frames = words["frame"][:n].tolist()
    known = owner._frames_of_trees() if owner.follows else [[forest.frame]] * n
    if not all(frame in own for frame, own in zip(frames, known, strict=True)):
        refuse(owner, "frame", frames, "of its trees")
    first_values, capacity = words["first_value"].tolist(), forest.dim_capacity
    if owner._has_sets and owner.keeps_inputs:
        # A tree that has been drawn anew has another's.
        found, columns = sorted(first_values), list(range(owner._n_columns))
    elif owner._has_sets:
        found, columns = first_values[:n], list(range(n))
    else:
        found, columns = first_values[:n], frames if owner._has_frames else [0] * n
    if found != [capacity * column for column in columns]:
        refuse(owner, "first_value", first_values, "of its trees")


def _check_renewal(owner: Any, bounds: Callable[[str, int, int], None]) -> None:
    """Refuse restored trees by how far they say that they have been drawn anew."""
    forest = owner.shared[0]
    bounds("frame", 0, int(owner.renews))
    bounds("phase", STEADY, SETTLING if owner.follows else STEADY)
    is_bound = forest.may_forget() and forest.phase != STEADY
    bounds("taken", 0, forest.n_points if is_bound else forest.n_samples)
    bounds("n_all_trees", forest.n_trees, MOST_TREES)
    bounds("first_tree", 0, forest.n_all_trees - forest.n_trees)
    is_drawing, is_quiet = forest.phase == DRAWING, forest.phase == STEADY
    bounds("renewed", 0, forest.n_all_trees - 1 if is_drawing else forest.n_all_trees)
    # For each turn of a spare tree with a column of its own points are moved again.
    is_moved_once = owner._has_frames or owner._N_SPARE == 0
    is_moved = is_drawing and is_moved_once and forest.renewed > 0
    is_moved |= forest.phase == SETTLING
    bounds("n_moved", forest.n_points if is_moved else 0, forest.n_points)
    if is_drawing:
        bounds("n_moved", forest.taken, forest.n_points)
    bounds("renewed_at_sample", 0, forest.n_samples)
    looks = is_quiet and owner.follows and owner.warm_up is None
    bounds("next_look", 0 if looks else NEVER, NEVER)
    slots = owner.trees.words["slot"]
    if (np.sort(slots) != np.arange(len(owner.trees))).any():
        refuse(owner, "slot", slots.tolist(), "of its trees")


def _check_forgetting(owner: Any, bounds: Callable[[str, int, int], None]) -> None:
    """Refuse restored trees by what they say of forgotten samples, and of a window."""
    forest = owner.shared[0]
    may_forget = forest.may_forget() and not owner.bounded
    bounds("n_forgotten", 0, forest.n_samples if may_forget else 0)
    if forest.n_forgotten > 0:
        bounds("n_points", forest.n_held(), forest.n_held())
    if not forest.may_forget() or owner.bounded:
        bounds("window", UNLIMITED, UNLIMITED)
    bounds("window", 1, UNLIMITED)
    bounds("next_fit", 0, NEVER)
    if forest.window != UNLIMITED:
        bounds("n_points", 0, forest.window)
    ends = 0 if forest.window != UNLIMITED and forest.n_points > 0 else NONE
    for name in ("first_arrival", "last_arrival"):
        bounds(name, ends, max(ends, forest.n_points - 1 if ends == 0 else NONE))


def check_sizes(owner: Any) -> None:
    """Refuse restored trees by what Python and the forest's record say of them.

    Parameters
    ----------
    owner
        As for `check_trees`, before any of its arrays is used.

    """
    check_types(
        owner,
        {
            "scale": bool,
            "bounded": bool,
            "directions": (type(None), CutDirections),
            "categories": (type(None), Categories),
            "trees": Memory,
            "shared": Memory,
            "frames": np.ndarray,
            "given": np.ndarray,
            "known_ranges": dict,
            "renews": bool,
            "keeps_inputs": bool,
            "warm_up": (type(None), np.ndarray),
        },
    )
    if owner.trees.kind is not owner._TREE or owner.shared.kind is not owner._FOREST:
        refuse(owner, "trees", owner.trees.kind.__name__, "but they are of another kind")
    forest = owner.shared[0]

    def bounds(name: str, least: int, most: int) -> None:
        check_number("the forest", name, getattr(forest, name), least, most)

    if len(owner.shared) != 1:
        refuse(owner, "shared", len(owner.shared), "but there is one forest")
    n_spare = owner._N_SPARE if owner.renews else 0
    bounds("n_trees", len(owner.trees) - n_spare, len(owner.trees) - n_spare)
    if forest.n_trees == 0:
        refuse(owner, "n_trees", 0, "but there is one at least")
    bounds("input_capacity", 1, owner.frames.shape[-1] if owner.frames.ndim else 0)
    bounds("n_inputs", 0, forest.input_capacity)
    bounds("n_samples", 0, 1 << 62)
    bounds("n_points", 0, min(forest.n_samples, 1 << 31))
    _check_forgetting(owner, bounds)
    bounds("max_splits", 0, UNLIMITED)
    bounds("hide_limit", 1, UNLIMITED)
    bounds("has_missing", 0, 1)
    if not math.isnan(forest.absent):
        bounds("absent", 0, 0)
    bounds("is_full", 0, int(owner.bounded))
    if owner.bounded != (forest.max_splits != UNLIMITED):
        refuse(owner, "bounded", owner.bounded, f"but max_splits is {forest.max_splits}")
    _check_dims(owner, bounds)
    largest = float(np.finfo(np.float64).max)
    check_array(owner, "frames", owner.frames, np.float64, -largest, largest)
    if owner.given.dtype != np.float64:
        refuse(owner, "given", str(owner.given.dtype), "but it should be of float64")
    _check_renewal(owner, bounds)
    if owner.warm_up is not None:
        bounds("n_points", forest.n_held(), min(forest.n_held(), owner._warm_up_end - 1))
        if owner.warm_up.dtype != np.float64:
            refuse(owner, "warm_up", str(owner.warm_up.dtype), "but it should be of float64")
    bounds("light_size", 0, MOST_PARTS if owner._may_have_light else 0)
    for name in ("nodes", "boxes", "side_rows"):
        rows = owner.trees.words[f"{name}.n_rows"]
        check_array(owner, f"n_rows of {name}", rows, np.int64, 0, LARGEST_SIZE)
