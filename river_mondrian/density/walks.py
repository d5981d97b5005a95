"""Descents to a sample's region, which update or return counts of samples, or compute a cell.

`walk` changes or reads the counts on the path. `reveal` computes the cell from the cuts on all
sides of the pivots on the path. `add_regions` adds the counts of trees with the same keys.
"""

import math
import sys

import numpy as np
from numpy.typing import NDArray

from ..compiling.kernels import helper, link_by_name
from ..records import Array, Float64s, Int64, Record, array_buffer, new_array, prefetch, release
from . import regions
from .regions import NONE, Cell, P, PathStep, PivotTree, Region

# Kernels of this module compute each sum in the order of the source, because LLVM's order would
# depend on the processor.
ORDERED_SUMS = True

REGION_WORDS = Region.WORDS

# Capacity of the buffer for a path, in regions.
PATH = 64
_buffer_of_path = array_buffer(PathStep, PATH)


class Pair(Record):
    """Rows of two regions that have the same key in two partitions."""

    row: Int64
    other: Int64


# Change of the number of samples in each region on the path.
ASK = 0
ADD = 1
REMOVE = -1


@helper
def begin_region(partition: P, key: int, time: float, pivot: int, following: int) -> int:
    """Return the row of a new region; there must be room.

    The region has one sample, the pivot. If `pivot` is `NONE`, the region begins without samples.
    """
    row = partition.unused_region
    if row == NONE:
        row = partition.regions.n_rows
        partition.regions.n_rows = row + 1
    else:
        partition.unused_region = partition.regions.row(row).next
        partition.n_unused_regions -= 1
    region = partition.regions.row(row)
    region.key = key
    region.time = time
    region.pivot = pivot
    region.n_samples = 0 if pivot == NONE else 1
    region.first = NONE
    region.next = following
    if pivot != NONE:
        partition.samples.row(pivot).links(partition)[0] += 1
    return row


@helper
def write_counts(partition: P, tree: PivotTree, g: int, before: float, count: int) -> int:
    """Write a cell's count at each share from index `g` on, up to a time; return the next index."""
    counts, shares = partition.counts, partition.shares
    while g < partition.n_shares and tree.lifetime * shares[g] < before:
        counts[g] = float(count)
        g += 1
    return g


@helper
def unlink(partition: P, tree: PivotTree, row: int, parent: int, before: int) -> None:
    """Remove a region from its parent's list of child regions, or the root from the tree."""
    following = partition.regions.row(row).next
    if before != NONE:
        partition.regions.row(before).next = following
    elif parent != NONE:
        partition.regions.row(parent).first = following
    else:
        tree.root = NONE


@helper
def pass_regions(
    partition: P, tree: PivotTree, child: int, g: int, count: int
) -> tuple[int, int, int, int]:
    """Visit a region's child regions that were cut off before the current cut.

    Write the counts of the sample's cells, and the time of the cut that leaves no other samples in
    the cell. `count` is the region's number of samples, and `child` is its first child region.
    Return the index of the next unwritten share, the number of remaining samples, the last visited
    region, and the next region. Both regions may be `NONE`.
    """
    cut, last = partition.cut, NONE
    while child != NONE:
        passed = partition.regions.row(child)
        if cut.exists and (passed.time > cut.time or passed.key == cut.key):
            break
        g = write_counts(partition, tree, g, passed.time, count)
        count -= passed.n_samples
        if count == 0:
            partition.shared_until = passed.time
        last, child = child, passed.next
    return g, count, last, child


@link_by_name
def walk(partition: P, t: int, x: Float64s, stored: int, change: int) -> None:
    """Descend to a sample's region in a tree; add or remove the sample if `change` is not `ASK`.

    Before any change, write the count of the sample's cell at each share of the lifetime to
    `partition.counts`.

    Parameters
    ----------
    partition
        The partition. If the sample is added, there must be room for a region. With an origin,
        there must be room for the regions that `count_missing` counts.
    t
        Number of the tree.
    x
        The sample.
    stored
        The sample's row, if the sample is added and pivots are samples.
    change
        `ASK`, `ADD` or `REMOVE`: the change of the numbers of samples. Only a sample that was added
        may be removed.

    """
    tree, cut = partition.trees[t], partition.cut
    z = regions.lift(partition, t, x, partition.along)
    until = tree.lifetime if change == ASK else tree.horizon
    from_origin = bool(partition.origin)
    g = 0
    partition.shared_until = 0.0
    row, parent, before = tree.root, NONE, NONE
    if row == NONE and change == ADD:
        tree.root = begin_region(partition, tree.key, 0.0, stored, NONE)
        row = tree.root if from_origin else NONE
    regions.start_at_origin(partition, t)
    alive = True
    while row != NONE:
        region = partition.regions.row(row)
        began = region.time
        if region.first != NONE:
            # The row is loaded during the search for the cut, so that it is in the cache
            # afterwards.
            prefetch(partition.regions.row(region.first), REGION_WORDS)
        around = partition.around
        if not from_origin:
            around = regions.stored_pivot(partition, t, region.pivot)
        regions.find_cut(partition, region.key, began, tree.horizon, around, z, until)
        cut_time = cut.time if cut.exists else math.inf
        count = region.n_samples
        region.n_samples = count + change
        g, count, last, child = pass_regions(partition, tree, region.first, g, count)
        g = write_counts(partition, tree, g, cut_time, count)
        if count > 0:
            partition.shared_until = cut_time
        # The descent continues beyond the cut only if a region begins there. With an origin, the
        # path of an added sample continues in the region that is added here.
        has_next = child != NONE and cut.exists and partition.regions.row(child).key == cut.key
        if change == ADD and cut.exists and not has_next:
            added = begin_region(partition, cut.key, cut_time, stored, child)
            if last == NONE:
                region.first = added
            else:
                partition.regions.row(last).next = added
            if from_origin:
                has_next, child = True, added
        if region.n_samples == 0:
            # The region has lost its last sample, so its only child region, if any, is next on the
            # path, and is removed, too.
            if alive:
                unlink(partition, tree, row, parent, before)
            alive = False
            regions.free_region(partition, row)
        parent, before = row, last
        row = child if has_next else NONE
        regions.go_beyond(partition)
    write_counts(partition, tree, g, math.inf, 0)


@helper
def child_of_cut(partition: P, row: int) -> tuple[int, int]:
    """Return the number of samples in a pivot's cell, and the region beyond the current cut.

    The pivot belongs to the region `row`. Samples are counted in the pivot's cell at the time of
    the cut. The region beyond the cut may be `NONE`.
    """
    cut = partition.cut
    count, child = 0, NONE
    if row != NONE:
        region = partition.regions.row(row)
        count, child = region.n_samples, region.first
    while child != NONE:
        passed = partition.regions.row(child)
        if cut.exists and passed.key == cut.key:
            break
        if passed.time > cut.time:
            child = NONE
            break
        count -= passed.n_samples
        child = passed.next
    return count, child


@link_by_name
def count_missing(partition: P, t: int, x: Float64s) -> int:
    """Return the number of regions that a tree with an origin lacks on a sample's path."""
    tree, cut = partition.trees[t], partition.cut
    z = regions.lift(partition, t, x, partition.along)
    regions.start_at_origin(partition, t)
    row, key, began, n = tree.root, tree.key, 0.0, 0
    while True:
        if row == NONE:
            n += 1
        else:
            # The stored key and time are used, because in a damaged file they may differ from the
            # cut's key and time.
            region = partition.regions.row(row)
            key, began = region.key, region.time
        regions.find_cut(partition, key, began, tree.horizon, partition.around, z, tree.horizon)
        if not cut.exists:
            return n
        _, row = child_of_cut(partition, row)
        key, began = cut.key, cut.time
        regions.go_beyond(partition)


@link_by_name
def add_regions(partition: P, other: P) -> None:
    """Add the samples of another partition with the same keys and origin; there must be room.

    Regions are matched by key, because the key determines pivot and cuts.
    """
    pairs = new_array(Pair, other.regions.n_rows + 1)
    for t in range(partition.n_trees):
        its = other.trees[t].root
        if its == NONE:
            continue
        tree = partition.trees[t]
        if tree.root == NONE:
            tree.root = begin_region(partition, tree.key, 0.0, NONE, NONE)
        pairs[0].row, pairs[0].other = tree.root, its
        n = 1
        while n > 0:
            n -= 1
            region = partition.regions.row(pairs[n].row)
            its_region = other.regions.row(pairs[n].other)
            region.n_samples += its_region.n_samples
            # Both lists are sorted by time, so one pass merges them.
            last, child, its = NONE, region.first, its_region.first
            while its != NONE:
                source = other.regions.row(its)
                while child != NONE and partition.regions.row(child).time < source.time:
                    last, child = child, partition.regions.row(child).next
                if child == NONE or partition.regions.row(child).key != source.key:
                    child = begin_region(partition, source.key, source.time, NONE, child)
                    if last == NONE:
                        region.first = child
                    else:
                        partition.regions.row(last).next = child
                pairs[n].row, pairs[n].other = child, its
                n += 1
                its = source.next
    release(pairs)


@link_by_name
def cut_back(
    partition: P, key: int, began: float, until: float, around: Float64s, horizon: float
) -> None:
    """Cut the current cell by a region's cuts before a time, on all sides of its pivot."""
    lower, upper, rates = partition.cell.lower, partition.cell.upper, partition.rates
    block = regions.first_block(horizon, began)
    for j in range(partition.n_dims):
        rate, value = rates[j], around[j]
        if rate > 0.0:
            below = (value - lower[j]) * rate
            distance = regions.nearest_cut(key, 2 * j, began, block, until, below)
            if distance < below:
                lower[j] = -regions.beyond(-value, distance / rate)
            above = (upper[j] - value) * rate
            distance = regions.nearest_cut(key, 2 * j + 1, began, block, until, above)
            if distance < above:
                upper[j] = regions.beyond(value, distance / rate)


@helper
def follow_back(partition: P, t: int, path: Array[PathStep], n_steps: int) -> None:
    """Cut the current cell by the cuts of all regions on the path, last region first.

    Any order has the same result; this order is the fastest.
    """
    horizon = partition.trees[t].horizon
    for i in range(n_steps - 1, -1, -1):
        step = path[i]
        around = regions.stored_pivot(partition, t, step.pivot)
        cut_back(partition, step.key, step.began, step.until, around, horizon)


@helper
def keep_beyond(partition: P, around: Float64s) -> None:
    """Restrict the current cell to the point's side of the current cut."""
    cut, cell = partition.cut, partition.cell
    if partition.rates[cut.dim] == 0.0:
        return
    place = regions.place_of_cut(partition, around)
    if cut.is_above:
        cell.lower[cut.dim] = max(cell.lower[cut.dim], place)
    else:
        cell.upper[cut.dim] = min(cell.upper[cut.dim], place)


@helper
def reveal_by_samples(partition: P, t: int, z: Float64s, lifetime: float) -> int:
    """Compute a point's cell in trees without an origin; return the cell's number of samples."""
    tree, cut, path = partition.trees[t], partition.cut, _buffer_of_path()
    count, row, n_steps = 0, tree.root, 0
    while row != NONE:
        region = partition.regions.row(row)
        around = regions.stored_pivot(partition, t, region.pivot)
        regions.find_cut(partition, region.key, region.time, tree.horizon, around, z, lifetime)
        if cut.exists:
            keep_beyond(partition, around)
        if n_steps == PATH:
            follow_back(partition, t, path, n_steps)
            n_steps = 0
        step = path[n_steps]
        n_steps += 1
        step.key = region.key
        step.pivot = region.pivot
        step.began = region.time
        step.until = cut.time
        count, row = child_of_cut(partition, row)
        if cut.exists and row == NONE:
            # The region beyond the cut has no samples, so the point is its pivot.
            count = 0
            cut_back(partition, cut.key, cut.time, lifetime, z, tree.horizon)
    follow_back(partition, t, path, n_steps)
    return count


@link_by_name
def reveal(partition: P, t: int, x: Float64s, lifetime: float) -> int:
    """Set the current cell to a point's cell at a lifetime; return the cell's number of samples.

    The cell is unbounded in dimensions that are not cut.
    """
    z, cell = regions.lift(partition, t, x, partition.along), partition.cell
    for j in range(partition.n_dims):
        cell.lower[j] = -math.inf
        cell.upper[j] = math.inf
    if not partition.origin:
        return reveal_by_samples(partition, t, z, lifetime)
    # With an origin, regions without samples have pivots, so the path continues in these regions.
    tree, cut, around = partition.trees[t], partition.cut, partition.around
    regions.start_at_origin(partition, t)
    row, key, began = tree.root, tree.key, 0.0
    while True:
        regions.find_cut(partition, key, began, tree.horizon, around, z, lifetime)
        cut_back(partition, key, began, cut.time, around, tree.horizon)
        count, row = child_of_cut(partition, row)
        if not cut.exists:
            return count
        keep_beyond(partition, around)
        key, began = cut.key, cut.time
        regions.go_beyond(partition)


# The logarithm of the smallest positive normal float.
LEAST_LOG = math.log(sys.float_info.min)
# The largest number of dimensions in which volumes of oblique cells are computed.
MOST_OBLIQUE = 3
# The largest coefficient of a direction, so that values along the direction are finite.
LARGEST_COEFFICIENT = 1e100

# A face {y: a y <= b} takes `FACE` numbers: its normal a in three dimensions, then b at index
# `REACH`.
FACE = 4
REACH = 3


def room_for_faces(n_directions: int) -> int:
    """Return the length of the array for a cell's faces."""
    return FACE * 2 * (n_directions + MOST_OBLIQUE)


@helper
def along_normal(faces: Float64s, i: int, x: float, y: float, z: float) -> float:
    """Return the dot product of a face's normal and a vector."""
    return faces[FACE * i] * x + faces[FACE * i + 1] * y + faces[FACE * i + 2] * z


@link_by_name
def triangle_area(
    faces: Float64s, n: int, i: int, j: int, x: float, y: float, z: float, height: float
) -> float:
    """Return the signed area of the triangle between an edge of a face and a point.

    The faces i and j share the edge. The unit normal of face i is (x, y, z). The point, `height`
    times (x, y, z), is the foot of the perpendicular from the origin to the plane of face i.
    """
    shared = along_normal(faces, j, x, y, z)
    a = faces[FACE * j] - shared * x
    b = faces[FACE * j + 1] - shared * y
    c = faces[FACE * j + 2] - shared * z
    size = math.sqrt(a * a + b * b + c * c)
    if size == 0.0:
        return 0.0
    a, b, c = a / size, b / size, c / size
    away = (faces[FACE * j + REACH] - shared * height) / size
    low, high = -math.inf, math.inf
    for k in range(n):
        if k in (i, j):
            continue
        slope = along_normal(faces, k, y * c - z * b, z * a - x * c, x * b - y * a)
        rest = faces[FACE * k + REACH] - along_normal(
            faces, k, height * x + away * a, height * y + away * b, height * z + away * c
        )
        if slope > 0.0:
            high = min(high, rest / slope)
        elif slope < 0.0:
            low = max(low, rest / slope)
        elif rest < 0.0:
            return 0.0
        if low >= high:
            return 0.0
    return 0.5 * away * (high - low)


@helper
def orthogonalize(faces: Float64s, n_inputs: int, n_dims: int) -> float:
    """Replace the matrix U = Q R of the upper faces' normals by Q (Gram-Schmidt).

    Return minus the logarithm of the determinant of R, or minus infinity if the determinant is 0.
    """
    stride, log_unit = 2 * FACE, 0.0
    for k in range(n_inputs):
        total = 0.0
        for j in range(n_dims):
            total += faces[stride * j + k] * faces[stride * j + k]
        size = math.sqrt(total)
        if size == 0.0:
            return -math.inf
        log_unit -= math.log(size)
        for j in range(n_dims):
            faces[stride * j + k] /= size
        for m in range(k + 1, n_inputs):
            shared = 0.0
            for j in range(n_dims):
                shared += faces[stride * j + k] * faces[stride * j + m]
            for j in range(n_dims):
                faces[stride * j + m] -= shared * faces[stride * j + k]
    return log_unit


@helper
def pyramid_volume(faces: Float64s, n: int, i: int) -> float:
    """Return the volume of the pyramid with a face as its base and the origin as its tip."""
    x, y, z = faces[FACE * i], faces[FACE * i + 1], faces[FACE * i + 2]
    size = math.sqrt(x * x + y * y + z * z)
    if size == 0.0:
        return 0.0
    height, area = faces[FACE * i + REACH] / size, 0.0
    for j in range(n):
        if j != i:
            area += triangle_area(faces, n, i, j, x / size, y / size, z / size, height)
    return height * area / 3.0


@link_by_name
def log_polytope_volume(
    directions: Float64s, n_inputs: int, n_dims: int, cell: Cell, inside: Float64s, faces: Float64s
) -> float:
    """Return the log of the volume of a cell {y: lower < U y <= upper} in up to 3 dimensions.

    Parameters
    ----------
    directions
        The matrix U, row by row; its rank is `n_inputs`.
    n_inputs, n_dims
        Number of columns and number of rows of U.
    cell
        The cell's bounds along the directions.
    inside
        U y for a point y in the cell.
    faces
        Buffer for the faces, shape (room_for_faces(n_dims),).

    Returns
    -------
    The log volume, or `LEAST_LOG` if the volume is too small to be computed.

    """
    stride, lower, upper = 2 * FACE, cell.lower, cell.upper
    for j in range(n_dims):
        width = upper[j] - lower[j]
        if not width > 0.0:
            return LEAST_LOG
        for k in range(MOST_OBLIQUE):
            faces[stride * j + k] = directions[j * n_inputs + k] / width if k < n_inputs else 0.0
        faces[stride * j + REACH] = (upper[j] - inside[j]) / width
        faces[stride * j + FACE + REACH] = (inside[j] - lower[j]) / width
    # The new coordinates are R y, with the point inside as the origin. In these coordinates, the
    # widths of the cell are similar.
    log_unit = orthogonalize(faces, n_inputs, n_dims)
    if log_unit == -math.inf:
        return LEAST_LOG
    for j in range(n_dims):
        for k in range(MOST_OBLIQUE):
            faces[stride * j + FACE + k] = -faces[stride * j + k]
    # In the dimensions beyond `n_inputs`, the cell has a length of 1.
    n = 2 * n_dims
    for k in range(n_inputs, MOST_OBLIQUE):
        for sign in (1.0, -1.0):
            for m in range(MOST_OBLIQUE):
                faces[FACE * n + m] = sign if m == k else 0.0
            faces[FACE * n + REACH] = 0.5
            n += 1
    # The cell consists of the pyramids over all faces with their tips at the point inside.
    volume = 0.0
    for i in range(n):
        volume += pyramid_volume(faces, n, i)
    return math.log(volume) + log_unit if volume > 0.0 else LEAST_LOG


def check_oblique(matrix: NDArray[np.float64]) -> None:
    """Raise an error if cut directions make volumes of cells infinite, or too hard to compute."""
    d = matrix.shape[1]
    if d > MOST_OBLIQUE:
        raise ValueError(
            f"volumes of oblique cells are computed in up to {MOST_OBLIQUE} dimensions; the "
            f"directions have {d} features"
        )
    if np.abs(matrix).max() > LARGEST_COEFFICIENT:
        raise ValueError(f"coefficients of directions must be at most {LARGEST_COEFFICIENT:g}")
    rank = np.linalg.matrix_rank(matrix)
    if rank < d:
        raise ValueError(
            f"directions must span the space of their {d} features, got {len(matrix)} of "
            f"rank {rank}"
        )
