"""Checks of restored trees, so that no kernel reads a wrong reference, link, count or box.

Fields declare the tables that they refer to, and the bounds of their values (see `restored`).
Kernels rely on more properties. The number of samples at a node is the sum over its children. The
box of a leaf is the box of its points, so that a cut within the box separates the points. If
samples may be forgotten, each child's box is on the child's side of the cut.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import checks
from ...checks import LARGEST_FINITE, LARGEST_SIZE, check_array, check_number, refuse
from ...compiling.kernels import always_inline, batch_kernel
from ...limits import LARGEST, LEAST_LEVEL
from ...records import ChunkedRows, Float32s, Int32s, Int64, Memory, Record, Ref, check_shapes
from ...restored import Edges, Rows, check_numbers, check_references
from . import constants, transforms
from .box_vectors import BLOCK, MOST_PARTS
from .boxes import BATCH, begin_box, box_of, buffer_of_batch, hold_all
from .records import IN_USE, F, Forest, Node, Tree

# Largest number of trees, so that products with numbers of samples fit in the kernels' integers.
MOST_TREES = 1 << 24


class Check(Record):
    """The checked tree and row, and buffers for the boxes of a leaf's points and two children."""

    tree: Int64
    row: Int64
    box: Float32s
    left: Float32s
    right: Float32s


@always_inline
def _has_box_of_sides(forest: Forest, tree: Tree, node: Node) -> bool:
    """Return whether each side of a node's stored box is valid or NaN."""
    lower, upper = node.lower(forest, tree), node.upper(forest, tree)
    n_bad = 0
    # The loop has no branch, so that LLVM compiles vector instructions.
    for d in range(forest.n_dims):
        low, high = lower[d], upper[d]
        is_side = (
            (low <= high) & (low >= -constants.FARTHEST_CUT) & (high <= constants.FARTHEST_CUT)
        )
        n_bad += 0 if is_side | ((low != low) & (high != high)) else 1
    return n_bad == 0


@always_inline
def _has_box_of_points(forest: Forest, tree: Tree, node: Node, box: Float32s) -> bool:
    """Return whether a leaf's box is the box of its points, and `list_end` is correct."""
    capacity, batch = forest.dim_capacity, buffer_of_batch()
    begin_box(forest, box)
    link_word = forest.links_word + tree.slot
    n, p, last = 0, node.first_point, constants.NONE
    while p != constants.NONE:
        n_batch = 0
        while p != constants.NONE and n_batch < BATCH:
            point = forest.points.row(p)
            batch[n_batch].point = point
            n_batch += 1
            last = p
            p = Int32s(point, link_word, 1)[0]
        hold_all(forest, tree, batch, n_batch, box)
        n += n_batch
    if forest.window != constants.UNLIMITED and node.list_end not in (0, last + 1):
        return False
    # A full tree counts samples without storing them, so a box cannot be compared with its points.
    if n < node.n_samples or not node.has_box(forest):
        return True
    own = node.box(forest, tree)
    for side in range(2):
        found, known = box.part(capacity * side, capacity), own.part(capacity * side, capacity)
        for d in range(forest.n_dims):
            if found[d] != known[d] and (found[d] == found[d] or known[d] == known[d]):
                return False
    return True


@always_inline
def _is_within(forest: Forest, tree: Tree, node: Node, box: Float32s) -> bool:
    """Return whether the node has no box, or its box contains a child's box."""
    if not node.has_box(forest):
        return True
    capacity = forest.dim_capacity
    lower, upper = node.lower(forest, tree), node.upper(forest, tree)
    low, high = box.part(0, capacity), box.part(capacity, capacity)
    n_bad = 0
    for d in range(forest.n_dims):
        # Comparisons with NaN are false, so the check fails if the child's bounds are known and the
        # node's bounds are NaN.
        is_known = low[d] == low[d]
        n_bad += 1 if is_known and not (lower[d] <= low[d]) & (high[d] <= upper[d]) else 0
    return n_bad == 0


@batch_kernel
def has_right_boxes(forest: F, check: Check) -> bool:
    """Return whether all boxes of a tree are correct; if not, node `check.row` has a wrong box."""
    tree = forest.trees[check.tree]
    for j in range(tree.nodes.n_rows):
        check.row = j
        node = tree.nodes.row(j)
        if node.dim < constants.COMPLETE:
            continue
        if node.has_box(forest) and not _has_box_of_sides(forest, tree, node):
            return False
        is_listed = node.dim < 0 and forest.lists_points()
        if is_listed and not _has_box_of_points(forest, tree, node, check.box):
            return False
    for j in range(tree.nodes.n_rows):
        check.row = j
        node = tree.nodes.row(j)
        if node.dim >= 0 and forest.may_forget():
            # Each child's box must be on the child's side of the cut, and within the node's box.
            left = box_of(forest, tree, node.left, check.left)
            right = box_of(forest, tree, node.right, check.right)
            if left[forest.dim_capacity + node.dim] > node.cut or right[node.dim] <= node.cut:
                return False
            if not _is_within(forest, tree, node, left):
                return False
            if not _is_within(forest, tree, node, right):
                return False
    return True


def check_trees(owner: Any) -> None:
    """Raise ModelFormatError if restored trees are damaged.

    Parameters
    ----------
    owner
        The `TreeStore` that owns the trees, with all addresses set.

    Raises
    ------
    ModelFormatError
        If a reference, a link, a count, a box or a value is wrong. The message names the tree and
        the node.

    """
    forest = owner.forest
    points = Rows.of_table(owner._point_layout(), owner.n_points, owner.points)
    check_numbers("point", points, forest)
    _check_values(owner)
    if owner.has_window:
        _check_arrivals(owner)
    check_numbers("tree", Rows.of_memory(owner.trees, 0, owner.n_with_nodes), forest)
    memory = Memory(Check)
    for name in ("box", "left", "right"):
        memory.own(name, np.empty(2 * int(forest.dim_capacity), np.float32))
    for t in range(owner.n_with_nodes):
        if owner._held_by(t) is None:
            continue
        _check_tree(owner, t, points)
        memory[0].tree = t
        if not has_right_boxes(forest, memory[0]):
            j = int(memory[0].row)
            refuse(f"tree {t}, node {j}", "its box", "wrong", "for the points below or the cut")


def _check_tree(owner: Any, t: int, points: Rows) -> None:
    """Check a tree's references, and that its numbers of samples add up."""
    forest, tree, where = owner.forest, owner.trees[t], f"tree {t}"
    slot, (held, least) = int(tree.slot), owner._held_by(t)

    layouts = owner._layouts()
    tables = {"tree": Rows.of_memory(owner.trees, t, 1), "points": points}
    for name in ("nodes", "boxes", "side_rows"):
        n_rows = int(getattr(tree, name).n_rows)
        tables[name] = Rows.of_table(layouts[name], n_rows, getattr(owner, name), slot)
    nodes = tables["nodes"]
    check_numbers(f"{where}, node", nodes, forest)
    found = check_references(where, tables, owner._edges(slot, tables), counted="points")
    if not found.met("nodes").all():
        refuse(where, "the number of its nodes", nodes.n, "but some have no parent")
    n_samples, dims = nodes.column("n_samples").astype(np.int64), nodes.column("dim")
    # References below 0 name points. Each point counts as one sample.
    counts = np.append(n_samples, 1)
    below = sum(counts[np.clip(nodes.column(name), -1, nodes.n - 1)] for name in ("left", "right"))
    expected = np.where(dims >= 0, below, found.sizes["nodes"])
    # A leaf may have more samples than listed points, because full trees and some subclasses do not
    # store all samples.
    keeps = forest.lists_points() and tree.n_splits < forest.max_splits
    is_more = (dims < 0) & (n_samples > expected) & (not keeps)
    bad = nodes.which(IN_USE) & (((n_samples != expected) & ~is_more) | (n_samples < least))
    if bad.any():
        j = int(np.flatnonzero(bad)[0])
        refuse(f"{where}, node {j}", "n_samples", int(n_samples[j]), "not the number below")
    n = 0 if tree.root == constants.EMPTY else counts[max(tree.root, -1)]
    if n != held:
        refuse(where, "n_samples of its root", int(n), f"but it has {held}")
    if tree.n_splits != (dims >= 0).sum():
        refuse(where, "n_splits", tree.n_splits, f"but it has {(dims >= 0).sum()} cuts")
    if forest.is_full == 1 and tree.n_splits < forest.max_splits:
        refuse(where, "n_splits", tree.n_splits, f"but it is full at {forest.max_splits}")
    owner._check_tree(t, tables, found)


def edges_of(owner: Any, slot: int, tables: dict[str, Rows]) -> list[Edges]:
    """Return the references between a tree's rows that are stored outside of records."""
    forest, found = owner.forest, []
    if forest.lists_points():
        links = tables["points"].word(int(forest.links_word) + slot)
        found.append(Edges("points", "link", Ref("points"), links))
    if forest.light_size > 0:
        nodes = tables["nodes"]
        numbers, is_used = nodes.word(int(forest.box_word)), nodes.which(IN_USE)
        is_heavy = nodes.column("n_samples") > forest.light_size
        if (is_used & ((numbers != constants.NONE) != is_heavy)).any():
            n = int(forest.light_size)
            refuse("a tree", "box_row", "wrong", f"but nodes of more than {n} samples have one")
        found.append(Edges("nodes", "box_row", Ref("boxes", ends=True), numbers, is_used))
        found.append(Edges("boxes", "next_free", Ref("boxes"), tables["boxes"].word(0)))
    return found


def _check_arrivals(owner: Any) -> None:
    """Check that the order of arrival contains each point exactly once."""
    arrivals = Rows.of_table(owner._layouts()["arrivals"], owner.n_points, owner.arrivals)
    tables = {"forest": Rows.of_memory(owner.shared), "arrivals": arrivals}
    found = check_references("order of arrival", tables, chain="newer")
    # Subtract 1, because in `parents` the forest's record has the number 0, and arrivals have the
    # numbers from 1 on.
    older = found.parents["arrivals"] - 1
    last = owner.forest.last_arrival
    ends = np.flatnonzero(arrivals.column("newer") == constants.NONE)
    is_last = ends.tolist() == ([] if last == constants.NONE else [last])
    if not is_last or not found.met("arrivals").all() or (arrivals.column("older") != older).any():
        refuse("the forest", "its order of arrival", last, "but each point occurs in it once")


def _check_values(owner: Any) -> None:
    """Check that no point has too large a value, or a missing value if `has_missing` is 0."""
    table: ChunkedRows = owner.points
    columns, n = owner._point_layout().columns, owner.n_points
    for chunk in table.chunks[0]:
        for column in columns:
            if column.name in ("columns", "inputs") and n > 0:
                found = column.over(chunk, min(n, len(chunk)), table.row_bytes)
                _check_part(owner, column.name, found)
        n -= len(chunk)


def _check_part(owner: Any, name: str, found: NDArray[Any]) -> None:
    """Check the inputs of points, or their columns of values."""
    forest, n_dims = owner.forest, int(owner.forest.n_dims)
    if name == "inputs":
        least, most = np.full(found.shape[1], -LARGEST), np.full(found.shape[1], LARGEST)
        least[owner.category_indices], most[owner.category_indices] = LEAST_LEVEL, 2 * LEAST_LEVEL
        # The code of an absent level may be 0, so 0 is always valid.
        bad = ((found < least) | (found > most)) & (found != 0.0)
        # With directions, means replace missing inputs, so missing inputs are valid.
        if not forest.has_missing and owner.directions is None:
            bad[:, : forest.n_inputs] |= np.isnan(found[:, : forest.n_inputs])
    else:
        bad = abs(found.reshape(len(found), -1, int(forest.dim_capacity))) > constants.FARTHEST_CUT
        if not forest.has_missing:
            bad[:, :, :n_dims] |= np.isnan(found.reshape(bad.shape)[:, :, :n_dims])
    if bad.any():
        value = found.reshape(-1)[np.flatnonzero(bad)[0]].item()
        refuse("points", name, value, "which is too large, or missing although has_missing is 0")


def _check_dims(owner: Any, bounds: Callable[[str, int, int], None]) -> None:
    """Check the restored trees' number of dimensions and columns of values."""
    forest, directions, categories = owner.shared[0], owner.directions, owner.categories
    if directions is None:
        bounds("dim_capacity", forest.input_capacity, forest.input_capacity)
        bounds("n_dims", forest.n_inputs, forest.n_inputs)
        if categories is not None:
            check_shapes(categories, {"keys": (forest.n_trees,), "flags": (forest.n_inputs,)})
    else:
        bounds("n_dims", directions.n_dims, directions.n_dims)
        bounds("dim_capacity", directions.n_dims, directions.n_dims)
        bounds("n_inputs", directions.n_inputs, directions.n_inputs)
        if directions.n_sets > 1:
            bounds("n_trees", directions.n_sets, directions.n_sets)
        if categories is not None:
            refuse(owner, "categories", categories, "but there are cut directions")
    # Each tree must have a valid scaling and a valid column of values (see `scaling`).
    words, n = owner.trees.words, owner.n_with_nodes
    scalings = words["scaling"][:n].tolist()
    known = owner._scalings_of_trees() if owner.renews else [[forest.scaling]] * n
    if not all(one in own for one, own in zip(scalings, known, strict=True)):
        refuse(owner, "scaling", scalings, "which is wrong for a tree")
    first_values, capacity = words["first_value"].tolist(), forest.dim_capacity
    if owner._has_own_columns:
        # Redraws exchange the columns of trees, so any order of the columns is valid.
        found, columns = sorted(first_values), list(range(len(owner.trees)))
    else:
        found, columns = first_values[:n], scalings
    if found != [capacity * column for column in columns]:
        refuse(owner, "first_value", first_values, "which is wrong for a tree")


def _check_renewal(owner: Any, bounds: Callable[[str, int, int], None]) -> None:
    """Check the state of the restored trees' renewal of widths."""
    forest = owner.shared[0]
    bounds("scaling", 0, int(owner.renews))
    renewal = forest.renewal
    is_bound = forest.may_forget() and renewal.is_running
    most_spare = forest.n_points if is_bound else forest.n_samples
    looks = not renewal.is_running and owner.renews and not owner.is_warming_up
    least_check = 0 if looks else constants.NEVER
    for name, least, most in (
        ("is_running", 0, int(owner.renews)),
        ("n_spare_points", 0, most_spare),
        ("tree", 0, forest.n_all_trees - renewal.is_running),
        ("began_at", 0, forest.n_samples),
        ("next_check", least_check, constants.NEVER),
    ):
        check_number("the renewal", name, getattr(renewal, name), least, most)
    bounds("n_all_trees", forest.n_trees, MOST_TREES)
    bounds("first_tree", 0, forest.n_all_trees - forest.n_trees)
    slots = owner.trees.words["slot"]
    if (np.sort(slots) != np.arange(len(owner.trees))).any():
        refuse(owner, "slot", slots.tolist(), "but each tree has another slot")


def _check_forgetting(owner: Any, bounds: Callable[[str, int, int], None]) -> None:
    """Check the restored trees' number of forgotten samples and window."""
    forest = owner.shared[0]
    may_forget = forest.may_forget() and not owner.bounded
    bounds("n_forgotten", 0, forest.n_samples if may_forget else 0)
    if forest.n_forgotten > 0:
        bounds("n_points", forest.n_held(), forest.n_held())
    if not forest.may_forget() or owner.bounded:
        bounds("window", constants.UNLIMITED, constants.UNLIMITED)
    if forest.window != constants.UNLIMITED:
        bounds("n_points", 0, forest.window)
    ends = 0 if forest.window != constants.UNLIMITED and forest.n_points > 0 else constants.NONE
    for name in ("first_arrival", "last_arrival"):
        bounds(name, ends, max(ends, forest.n_points - 1 if ends == 0 else constants.NONE))


def check_sizes(owner: Any) -> None:
    """Check the attributes of restored trees, and the fields of the forest's record.

    Parameters
    ----------
    owner
        The `TreeStore` that owns the trees, before any of its arrays is used.

    """
    none = type(None)
    types: dict[str, Any] = dict.fromkeys(("scale", "bounded", "renews"), bool)
    types |= {"trees": Memory, "shared": Memory, "known_ranges": dict, "scalings": np.ndarray}
    types |= {
        "directions": (none, transforms.CutDirections),
        "categories": (none, transforms.Categories),
    }
    checks.check_types(owner, types)
    if owner.trees.kind is not owner._TREE or owner.shared.kind is not owner._FOREST:
        refuse(owner, "trees", owner.trees.kind.__name__, "but they are of another kind")
    forest = owner.shared[0]
    check_numbers("forest", Rows.of_memory(owner.shared))

    def bounds(name: str, least: int, most: int) -> None:
        check_number("the forest", name, getattr(forest, name), least, most)

    if len(owner.shared) != 1:
        refuse(owner, "shared", len(owner.shared), "but there is one forest")
    n_spare = owner._N_SPARE if owner.renews else 0
    bounds("n_trees", len(owner.trees) - n_spare, len(owner.trees) - n_spare)
    bounds("input_capacity", 1, owner.scalings.shape[-1] if owner.scalings.ndim else 0)
    bounds("n_inputs", 0, forest.input_capacity)
    bounds("n_points", 0, min(forest.n_samples, 1 << 31))
    _check_forgetting(owner, bounds)
    if not math.isnan(forest.absent):
        bounds("absent", 0, 0)
    bounds("is_full", 0, int(owner.bounded))
    if owner.bounded != (forest.max_splits != constants.UNLIMITED):
        refuse(owner, "bounded", owner.bounded, f"but max_splits is {forest.max_splits}")
    _check_dims(owner, bounds)
    check_array(owner, "scalings", owner.scalings, np.float64, -LARGEST_FINITE, LARGEST_FINITE)
    checks.check_dtype(owner, "given", owner.given, np.float64)
    _check_renewal(owner, bounds)
    if owner.is_warming_up:
        bounds("n_points", forest.n_held(), min(forest.n_held(), owner._warm_up_end - 1))
        bounds("next_fit", forest.n_points + 1, owner._warm_up_end)
    elif owner.scale:
        bounds("n_samples", owner._warm_up_end, constants.UNLIMITED)
    may_have_light = owner._may_have_light and forest.n_dims >= BLOCK
    bounds("light_size", 0, MOST_PARTS if may_have_light else 0)
    for name in ("nodes", "boxes", "side_rows"):
        rows = owner.trees.words[f"{name}.n_rows"]
        check_array(owner, f"n_rows of {name}", rows, np.int64, 0, LARGEST_SIZE)
