"""Boxes by insets, as they are defined: the box above with some sides in place of its own."""

from __future__ import annotations

import numpy as np


def points_below(forest, tree, ref):
    """Return the values of all points at a reference or below it."""
    if ref < 0:
        return [forest.values_of(tree, ~ref).view().copy()]
    node = tree.nodes.row(ref)
    if node.dim >= 0:
        sides = (points_below(forest, tree, int(side)) for side in (node.left, node.right))
        return [point for side in sides for point in side]
    found, p = [], int(node.first_point)
    while p >= 0:
        found.append(forest.values_of(tree, p).view().copy())
        p = int(forest.links_of(p)[tree.slot])
    return found


def box_of_points(forest, tree, ref):
    """Return both corners of the box of the points below: NaN where none has a value."""
    points = np.array(points_below(forest, tree, ref))
    return np.concatenate([np.fmin.reduce(points, axis=0), np.fmax.reduce(points, axis=0)])


def check_boxes(forest, t, insets_of):
    """Tell each node's box from above, and compare it with that of the points below.

    `insets_of(tree, row, forest)` returns a node's insets, by place.
    """
    tree, capacity = forest.trees[t], int(forest.dim_capacity)
    waiting = [(int(tree.root), None)]
    while waiting:
        ref, above = waiting.pop()
        node = tree.nodes.row(ref) if ref >= 0 else None
        if node is None or node.dim < 0:
            continue
        box = None
        if node.has_insets(forest):
            box = above.copy()
            for place, v in insets_of(tree, node, forest)[0].items():
                box[place] = -v if place < capacity else v
        elif node.has_box(forest):
            box = node.box(forest, tree).view().copy()
        if box is not None:
            np.testing.assert_array_equal(box, box_of_points(forest, tree, ref))
        waiting += [(int(node.left), box), (int(node.right), box)]
