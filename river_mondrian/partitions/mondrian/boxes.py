"""Distances of samples from boxes, and growth of boxes to contain samples.

From `BLOCK` dimensions on, dimensions are processed in blocks (see `box_vectors`).
"""

import math
from typing import NamedTuple

import numpy as np

from ...compiling.kernels import always_inline, helper, kernel, link_by_name
from ...records import Array, Float32s, Float64s, Int32s, Int64s, Record
from ...records.numba_types import array_buffer, lowered, words_buffer
from . import box_vectors
from .box_vectors import BLOCK
from .constants import EMPTY, LEFT, NONE, RIGHT
from .records import F, Forest, Point, Tree
from .transforms import scaled

# Largest number of points in a batch. One call extends a box by a whole batch, because the bounds
# of the box then stay in registers.
BATCH = 64

# Largest number of samples of a light node, whose box is not stored. The key of each size is the
# least number of dimensions for this size. With fewer than 128 dimensions no node is light. Light
# nodes require separate rows for boxes, so descents would wait for two rows per node instead of
# one. With 21 dimensions, light nodes of up to 8 samples made a regressor a third slower. With 128
# dimensions or more, the saved memory outweighs the lost time.
LIGHT_SIZES = {512: 16, 128: 9}


def light_size_for(n_dims: int) -> int:
    """Return the largest number of samples of a light node, or 0 if no node is light."""
    return next((size for wide, size in LIGHT_SIZES.items() if n_dims >= wide), 0)


class PointAt(Record):
    """A point of a batch."""

    point: Point


buffer_of_batch = array_buffer(PointAt, BATCH)
_buffer_of_one = array_buffer(PointAt, 1)


@lowered(box_vectors.distance_outside)
def _distance_by_blocks(x: Float32s, lower: Float32s, upper: Float32s, n_dims: int) -> float:
    """Return the l1 distance from `x` to a box with at least BLOCK dimensions."""
    total = 0.0
    for d in range(n_dims):
        total += gap(x[d], lower[d], upper[d])
    return total


@always_inline
def gap(v: float, low: float, high: float) -> float:
    """Return the distance from `v` to [low, high] in float32; 0 if `v` or both bounds are NaN."""
    below = np.float64(np.float32(low - v))
    above = np.float64(np.float32(v - high))
    # Comparisons with NaN are false, so the gap is 0 if both differences are NaN.
    largest = below if below > above else above
    return largest if largest > 0.0 else 0.0


@always_inline
def distance_outside(x: Float32s, lower: Float32s, upper: Float32s, n_dims: int) -> float:
    """Return the l1 distance from `x` to a box. Missing values and unknown bounds add nothing."""
    if n_dims >= BLOCK:
        return _distance_by_blocks(x, lower, upper, n_dims)
    if n_dims == 2:
        # LLVM would compile a loop to masked vector instructions, which take three times as long.
        first = gap(x[0], lower[0], upper[0])
        return first + gap(x[1], lower[1], upper[1])
    total = 0.0
    for d in range(n_dims):
        total += gap(x[d], lower[d], upper[d])
    return total


@lowered(box_vectors.distance_to_inputs)
def distance_to_inputs(
    x: Float32s, inputs: Float64s, offsets: Float64s, factors: Float64s, n_dims: int
) -> float:
    """Return the l1 distance from `x` to a point, given its inputs in at least BLOCK dimensions."""
    total = 0.0
    for d in range(n_dims):
        v = scaled(inputs[d], offsets[d], factors[d])
        total += gap(x[d], v, v)
    return total


@always_inline
def distance_to_point(forest: Forest, tree: Tree, point: Point, x: Float32s) -> float:
    """Return the l1 distance from `x` to a stored point. Missing values add nothing."""
    n_dims = forest.n_dims
    if forest.has_columns == 1:
        values = forest.column_in(tree, point)
        return distance_outside(x, values, values, n_dims)
    inputs = forest.inputs_in(point)
    offsets, factors = forest.offsets(tree.scaling), forest.factors(tree.scaling)
    if n_dims >= BLOCK:
        return distance_to_inputs(x, inputs, offsets, factors, n_dims)
    total = 0.0
    for d in range(n_dims):
        v = scaled(inputs[d], offsets[d], factors[d])
        total += gap(x[d], v, v)
    return total


class Source(NamedTuple):
    """The position of a tree's values in points' rows.

    If `is_scaled` is 0, the values of a column begin at the word `word`. Otherwise inputs begin at
    this word, and are scaled by the offsets and the factors.
    """

    word: int
    is_scaled: int
    offsets: Float64s
    factors: Float64s


@always_inline
def source_of(forest: Forest, tree: Tree) -> Source:
    """Return the position of a tree's values in points' rows."""
    has_columns = forest.has_columns == 1
    return Source(
        forest.columns_word + tree.first_value if has_columns else forest.inputs_word,
        0 if has_columns else 1,
        forest.offsets(tree.scaling),
        forest.factors(tree.scaling),
    )


@always_inline
def value_in(point: Point, source: Source, d: int) -> float:
    """Return a point's value in dimension `d`."""
    if source.is_scaled == 0:
        return Float32s(point, source.word + d, 1)[0]
    raw = Float64s(point, source.word + 2 * d, 1)[0]
    return scaled(raw, source.offsets[d], source.factors[d])


@lowered(box_vectors.scale_inputs)
def _scale_inputs(
    inputs: Float64s, offsets: Float64s, factors: Float64s, out: Float32s, n: int
) -> None:
    """Write the scaled values of at least BLOCK inputs."""
    for d in range(n):
        out[d] = scaled(inputs[d], offsets[d], factors[d])


@link_by_name
def read_values(forest: Forest, tree: Tree, point: Point, out: Float32s) -> None:
    """Write a stored point's values in a tree, one for each dimension in the capacity."""
    capacity, source = forest.dim_capacity, source_of(forest, tree)
    if capacity >= BLOCK and source.is_scaled == 1:
        inputs = forest.inputs_in(point)
        _scale_inputs(inputs, source.offsets, source.factors, out, capacity)
        return
    for d in range(capacity):
        out[d] = value_in(point, source, d)


@always_inline
def values_of(forest: Forest, tree: Tree, p: int, buffer: Float32s) -> Float32s:
    """Return a stored point's values in a tree: its column, or scaled inputs in `buffer`."""
    point = forest.points.row(p)
    if forest.has_columns == 1:
        return forest.column_in(tree, point)
    read_values(forest, tree, point, buffer)
    return buffer


@lowered(box_vectors.distances_to_points)
def distances_to_batch(
    batch: Array[PointAt],
    starts: Int64s,
    n: int,
    source: Source,
    x: Float32s,
    n_dims: int,
    out: Float64s,
) -> None:
    """Write to `out[k]` the distance from `x` to the box of the points from `starts[k]` on.

    There are `n` starts, in ascending order, and at least BLOCK dimensions. The element `starts[n]`
    is the end of the points.
    """
    for k in range(n):
        out[k] = 0.0
        for d in range(n_dims):
            low = high = np.nan
            for i in range(starts[k], starts[n]):
                v = value_in(batch[i].point, source, d)
                low = v if (v < low or low != low) else low
                high = v if (v > high or high != high) else high
            out[k] = out[k] + gap(x[d], low, high)


@always_inline
def linear_dimension(lower: Float32s, upper: Float32s, n_dims: int) -> float:
    """Return the sum of a box's side lengths.

    The sum is the rate of cuts in line 3 of Algorithm 2 (Lakshminarayanan et al. 2014).
    """
    total = 0.0
    for d in range(n_dims):
        side = upper[d] - lower[d]
        total += side if side > 0.0 else 0.0
    return total


@lowered(box_vectors.hold_values)
def _hold_values_by_blocks(x: Float32s, lower: Float32s, upper: Float32s, n_dims: int) -> None:
    """Grow a box of at least BLOCK dimensions until it contains the values `x`."""
    for d in range(n_dims):
        v, low, high = x[d], lower[d], upper[d]
        lower[d] = v if (v < low or low != low) else low
        upper[d] = v if (v > high or high != high) else high


@always_inline
def hold(x: Float32s, lower: Float32s, upper: Float32s, n_dims: int) -> None:
    """Grow a box to contain the values `x`.

    A missing value changes no bound. A NaN bound becomes the first value in this dimension.
    """
    if n_dims >= BLOCK:
        _hold_values_by_blocks(x, lower, upper, n_dims)
        return
    for d in range(n_dims):
        v, low, high = x[d], lower[d], upper[d]
        lower[d] = v if (v < low or low != low) else low
        upper[d] = v if (v > high or high != high) else high


@lowered(box_vectors.hold_points)
def _hold_by_blocks(
    batch: Array[PointAt], n: int, source: Source, lower: Float32s, upper: Float32s, n_dims: int
) -> None:
    """Grow a box of at least BLOCK dimensions until it contains the points of a batch."""
    for d in range(n_dims):
        for i in range(n):
            v = value_in(batch[i].point, source, d)
            low, high = lower[d], upper[d]
            lower[d] = v if (v < low or low != low) else low
            upper[d] = v if (v > high or high != high) else high


@always_inline
def hold_batch(
    batch: Array[PointAt], n: int, source: Source, lower: Float32s, upper: Float32s, n_dims: int
) -> None:
    """Grow a box to contain the first `n` points of a batch, as `hold` does for values."""
    if n_dims >= BLOCK:
        _hold_by_blocks(batch, n, source, lower, upper, n_dims)
        return
    for d in range(n_dims):
        low = lower[d]
        high = upper[d]
        for i in range(n):
            v = value_in(batch[i].point, source, d)
            low = v if (v < low or low != low) else low
            high = v if (v > high or high != high) else high
        lower[d] = low
        upper[d] = high


@always_inline
def hold_point(forest: Forest, tree: Tree, point: Point, lower: Float32s, upper: Float32s) -> None:
    """Grow a box to contain a stored point."""
    one = _buffer_of_one()
    one[0].point = point
    hold_batch(one, 1, source_of(forest, tree), lower, upper, forest.n_dims)


# Boxes of light nodes are not stored, but computed from the points below the nodes.
#
# A light node has at most `Forest.light_size` points. Reading these points costs about as much as
# reading the boxes of the few nodes below. A node that grows beyond this size gets a stored box,
# which is freed when the node is light again.


_buffer_of_refs = words_buffer(Int64s, BATCH)
_buffer_of_distance = words_buffer(Float64s, 1)


@always_inline
def gather(forest: Forest, tree: Tree, ref: int, batch: Array[PointAt], n: int) -> int:
    """Append all points at or below the reference `ref` to a batch of `n` points.

    The batch has enough capacity. Returns the new number of points.
    """
    waiting = _buffer_of_refs()
    n_waiting = 0
    slot_word = forest.links_word + tree.slot
    while True:
        if ref >= 0:
            node = tree.nodes.row(ref)
            if node.dim >= 0:
                waiting[n_waiting] = node.right
                n_waiting += 1
                ref = node.left
                continue
            p = node.first_point
            while p != NONE:
                point = forest.points.row(p)
                # The values are read only after the whole batch is gathered, so they are
                # prefetched.
                forest.prefetch_values(tree, point)
                batch[n].point = point
                n += 1
                p = Int32s(point, slot_word, 1)[0]
        elif ref != EMPTY:
            point = forest.points.row(~ref)
            forest.prefetch_values(tree, point)
            batch[n].point = point
            n += 1
        if n_waiting == 0:
            return n
        n_waiting -= 1
        ref = waiting[n_waiting]


@always_inline
def begin_box(forest: Forest, box: Float32s) -> None:
    """Clear a box: set the bounds of dimensions in use to NaN, and other bounds to `absent`."""
    capacity, n_dims = forest.dim_capacity, forest.n_dims
    for side in range(2):
        corner = box.part(capacity * side, capacity)
        for d in range(n_dims):
            corner[d] = math.nan
        for d in range(n_dims, capacity):
            # Features that are added later have this value in stored samples.
            corner[d] = forest.absent


@always_inline
def hold_all(forest: Forest, tree: Tree, batch: Array[PointAt], n: int, box: Float32s) -> None:
    """Grow a box until it contains the first `n` points of a batch."""
    capacity, source = forest.dim_capacity, source_of(forest, tree)
    lower, upper = box.part(0, capacity), box.part(capacity, capacity)
    hold_batch(batch, n, source, lower, upper, forest.n_dims)


@link_by_name
def hold_below(forest: F, tree: Tree, ref: int, box: Float32s) -> int:
    """Grow a box until it contains the points below a light node."""
    tree = forest.trees.cast(tree)
    batch = buffer_of_batch()
    hold_all(forest, tree, batch, gather(forest, tree, ref, batch, 0), box)
    return 0


@link_by_name
def write_box(forest: Forest, tree: Tree, ref: int, box: Float32s) -> None:
    """Write the box of a light node, of a point, or of an empty reference."""
    if ref >= 0 or ref == EMPTY:
        begin_box(forest, box)
        if ref >= 0:
            forest.hold_below(forest, tree, ref, box)
        return
    # A point's values are both corners of the point's box.
    capacity = forest.dim_capacity
    read_values(forest, tree, forest.points.row(~ref), box)
    for d in range(capacity):
        box[capacity + d] = box[d]


@helper
def make_box(forest: Forest, tree: Tree, j: int) -> None:
    """Allocate a box for a node that has none, and write the box of the node's points."""
    node = tree.nodes.row(j)
    node.take_box(forest, tree)
    write_box(forest, tree, j, node.box(forest, tree))


@helper
def box_of(forest: Forest, tree: Tree, ref: int, buffer: Float32s) -> Float32s:
    """Return both corners of a reference's box: the stored box, or a computed box in `buffer`."""
    if ref >= 0 and tree.nodes.row(ref).has_box(forest):
        return tree.nodes.row(ref).box(forest, tree)
    write_box(forest, tree, ref, buffer)
    return buffer


@kernel
def read_box(forest: F, t: int, ref: int, out: Float32s) -> None:
    """Write both corners of the box of a node or point, the lower corner first."""
    box = box_of(forest, forest.trees[t], ref, out)
    for i in range(2 * forest.dim_capacity):
        out[i] = box[i]


@link_by_name
def distance_to_light(forest: F, tree: Tree, ref: int, x: Float32s) -> float:
    """Return the distance from `x` to the box of a point or of a node, which may be light."""
    tree = forest.trees.cast(tree)
    if ref < 0:
        return distance_to_point(forest, tree, forest.points.row(~ref), x)
    node = tree.nodes.row(ref)
    if node.has_box(forest):
        lower, upper = node.lower(forest, tree), node.upper(forest, tree)
        return distance_outside(x, lower, upper, forest.n_dims)
    batch, starts, distance = buffer_of_batch(), _buffer_of_refs(), _buffer_of_distance()
    starts[0] = 0
    starts[1] = gather(forest, tree, ref, batch, 0)
    # `distances_to_batch` needs at least BLOCK dimensions, which forests with light nodes have.
    source = source_of(forest, tree)
    distances_to_batch(batch, starts, 1, source, x, forest.n_dims, distance)
    return distance[0]


@link_by_name
def distances_down(
    forest: F, tree: Tree, ref: int, x: Float32s, to_hidden: int, out: Float64s
) -> int:
    """Write the distances from `x` to the boxes of a light node and of the later nodes on the path.

    The path ends at a leaf or, if `to_hidden` is 1, at a node that is read as a leaf. The sample
    has no missing values, so it has one path. Points whose paths leave this path earlier come first
    in the batch. The points below each node then form the end of the batch, so each point is read
    only once.
    """
    tree = forest.trees.cast(tree)
    batch, starts = buffer_of_batch(), _buffer_of_refs()
    n, n_steps = 0, 0
    while ref >= 0:
        node = tree.nodes.row(ref)
        if node.dim < 0 or (to_hidden == 1 and node.hides(forest)):
            break
        starts[n_steps] = n
        n_steps += 1
        side = LEFT if x[node.dim] <= node.cut else RIGHT
        n = gather(forest, tree, node.child(LEFT + RIGHT - side), batch, n)
        ref = node.child(side)
    starts[n_steps] = n
    n_steps += 1
    starts[n_steps] = gather(forest, tree, ref, batch, n)
    source = source_of(forest, tree)
    distances_to_batch(batch, starts, n_steps, source, x, forest.n_dims, out)
    return 0


# The functions that `set_entries` adds to forests with light nodes.
OF_LIGHT = hold_below, distance_to_light, distances_down
