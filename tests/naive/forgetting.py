"""A Mondrian tree from which points are removed, from the definition of the process.

A Mondrian process on a box, restricted to a smaller box, keeps the cuts that meet the smaller box.
A tree is restricted to fewer points in the same way. Cuts that separate none of the remaining
points are removed, and boxes shrink to these points.
"""

from .mondrian import around, is_pure, leaves


def restricted(node, kept, X, y, lifetime, paused, parent=None):
    """Return the tree on the kept points, or None without points.

    Parameters
    ----------
    node
        The root of a tree with points in its leaves.
    kept
        The indices of the kept points.
    paused
        Whether blocks of one class are leaves.

    """
    points = [n for leaf in leaves(node) for n in leaf.points if n in kept]
    if not points:
        return None
    made = around(points, X, parent)
    made.time = lifetime
    if node.is_leaf or (paused and is_pure(points, y)):
        return made
    sides = [[n for leaf in leaves(side) for n in leaf.points] for side in (node.left, node.right)]
    for side, own in zip((node.left, node.right), sides, strict=True):
        if set(points) <= set(own):
            return restricted(side, kept, X, y, lifetime, paused, parent)
    made.points, made.time, made.dim, made.cut = [], node.time, node.dim, node.cut
    made.left = restricted(node.left, kept, X, y, lifetime, paused, made)
    made.right = restricted(node.right, kept, X, y, lifetime, paused, made)
    return made
