"""Mondrian trees with the HNSP posterior, from Lakshminarayanan, Roy and Teh (2014).

The paper has no missing values; they are handled as in the kernels. A missing value is NaN and does
not extend a box. At a cut in the dimension of a missing value, a point goes to the child whose box
is nearer in the other dimensions. If both are equally near, the point goes to the larger child.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np


def outside(node, x):
    """Return the distance of x to a node's box in each dimension (e of Algorithm 4).

    Values are float32, and each distance is rounded to float32.
    """
    # `max` returns its first argument if the other is NaN.
    sides = zip(x, node.lower, node.upper, strict=True)
    return [float(np.float32(max(0.0, v - b) + max(0.0, a - v))) for v, a, b in sides]


@dataclass
class Node:
    """A node of a Mondrian tree.

    Attributes
    ----------
    lower, upper
        The smallest box around the node's points, shape (D,). In a dimension without values, both
        bounds are NaN.
    parent
        None at the root.
    time
        The time of the split (tau_j); at a leaf, the lifetime.
    dim, cut
        The dimension and the position of the split; `dim` is -1 at a leaf.
    left, right
        The children; None at a leaf.
    points
        The indices of a leaf's points; empty at inner nodes.
    count, tab
        The customers and the tables of each class (c_jk and tab_jk).

    """

    lower: list[float]
    upper: list[float]
    parent: Node | None = None
    time: float = math.inf
    dim: int = -1
    cut: float = math.nan
    left: Node | None = None
    right: Node | None = None
    points: list[int] = field(default_factory=list)
    count: list[float] = field(default_factory=list)
    tab: list[float] = field(default_factory=list)

    @property
    def is_leaf(self):
        return self.dim == -1

    @property
    def parent_time(self):
        return 0.0 if self.parent is None else self.parent.time

    def distance(self, x):
        """Return the distance of x to the box: the sum over dimensions."""
        return sum(outside(self, x))

    def grow(self, x):
        """Extend the box to contain x."""
        for d, v in enumerate(x):
            if v < self.lower[d] or math.isnan(self.lower[d]):
                self.lower[d] = v
            if v > self.upper[d] or math.isnan(self.upper[d]):
                self.upper[d] = v


def walk(root):
    """Yield all nodes, each before its children."""
    yield root
    if not root.is_leaf:
        yield from walk(root.left)
        yield from walk(root.right)


def leaves(root):
    """Return the leaves from left to right."""
    return [node for node in walk(root) if node.is_leaf]


def depth(node):
    """Return the number of ancestors of a node."""
    return 0 if node.parent is None else 1 + depth(node.parent)


def n_points(node):
    """Return the number of points in a node's block."""
    return sum(len(leaf.points) for leaf in leaves(node))


def copied(read, counts=None):
    """Copy the nodes of a kernel's tree, with counts; return the root."""
    nodes = [Node(list(n.lower), list(n.upper), time=n.time, dim=n.dim, cut=n.cut) for n in read]
    for twin, own in zip(nodes, read, strict=True):
        twin.parent = nodes[own.parent] if own.parent >= 0 else None
        if not own.is_leaf:
            twin.left, twin.right = nodes[own.left], nodes[own.right]
    for twin, count in zip(nodes, counts or (), strict=False):
        twin.count, twin.tab = list(count), [min(c, 1.0) for c in count]
    return nodes[0]


def route(root, X):
    """Add each point to its leaf; return the root."""
    for n, x in enumerate(X):
        node = root
        while not node.is_leaf:
            node = node.left if x[node.dim] <= node.cut else node.right
        node.points.append(n)
    return root


# Structure.


def draw_split(sides, start, rng, end):
    """Draw the time and dimension of the first split, or return (inf, -1) if it is after `end`."""
    rate = sum(sides)
    if rate == 0.0:
        return math.inf, -1
    time = start + rng.exponential(1.0 / rate)
    if time >= end:
        return math.inf, -1
    return time, int(rng.choice(len(sides), p=np.array(sides) / rate))


def draw_cut(low, high, rng):
    """Draw a cut from [low, high), so that a point at `high` is on its right."""
    cut = rng.uniform(low, high)
    # A draw just below `high` may be rounded to `high`.
    while cut >= high:
        cut = rng.uniform(low, high)
    return cut


def is_pure(points, y):
    """Return whether all points have the same label."""
    return len({y[n] for n in points}) == 1


def nearer_child(node, x):
    """Return the child for a point that lacks the value in the dimension of the cut."""
    to_left, to_right = node.left.distance(x), node.right.distance(x)
    if to_left == to_right:
        return node.right if n_points(node.right) > n_points(node.left) else node.left
    return node.left if to_left < to_right else node.right


def around(points, X, parent):
    """Return a leaf with the points and their box."""
    n_dims = len(X[0])
    node = Node([math.nan] * n_dims, [math.nan] * n_dims, parent, points=list(points))
    for n in points:
        node.grow(X[n])
    return node


def sample_block(points, parent, X, y, lifetime, rng, paused):
    """Sample a block (Algorithm 2; Algorithm 9 with `paused`), without counts."""
    node = around(points, X, parent)
    time, dim = math.inf, -1
    if not (paused and is_pure(points, y)):
        sides = [max(0.0, high - low) for low, high in zip(node.lower, node.upper, strict=True)]
        time, dim = draw_split(sides, node.parent_time, rng, lifetime)
    if dim == -1:
        node.time = lifetime
        return node
    node.time, node.dim, node.points = time, dim, []
    node.cut = draw_cut(node.lower[dim], node.upper[dim], rng)
    left = [n for n in points if X[n][dim] <= node.cut]
    right = [n for n in points if X[n][dim] > node.cut]
    missing = [n for n in points if math.isnan(X[n][dim])]
    if missing:
        # Points without a value go to the nearer box of the other points.
        node.left, node.right = around(left, X, node), around(right, X, node)
        for n in missing:
            child = nearer_child(node, X[n])
            child.points.append(n)
            child.grow(X[n])
        left, right = node.left.points, node.right.points
    node.left = sample_block(left, node, X, y, lifetime, rng, paused)
    node.right = sample_block(right, node, X, y, lifetime, rng, paused)
    return node


def extend_block(node, i, X, y, lifetime, rng, paused):
    """Extend a block by a point (Algorithm 4; Algorithm 10 with `paused`), without counts.

    Returns
    -------
    tuple of Node
        The node that replaces `node`, and the topmost node that has changed. The topmost node is
        the point's leaf, the root of a block that no longer pauses, or a new parent.

    """
    x = X[i]
    pure = node.is_leaf and paused and is_pure(node.points, y)
    if pure and y[i] != y[node.points[0]]:
        # The tree below a paused leaf is hidden. The hidden tree is a Mondrian tree on the leaf's
        # points from the parent's time on. The visible tree does not depend on the hidden tree,
        # which is drawn now.
        new = sample_block([*node.points, i], node.parent, X, y, lifetime, rng, paused)
        return new, new
    if not pure:
        time, dim = draw_split(outside(node, x), node.parent_time, rng, node.time)
        if dim != -1:
            new = Node(list(node.lower), list(node.upper), node.parent, time, dim)
            new.grow(x)
            if x[dim] > node.upper[dim]:
                new.cut = draw_cut(node.upper[dim], x[dim], rng)
                new.left, new.right = (node, sample_block([i], new, X, y, lifetime, rng, paused))
            else:
                new.cut = draw_cut(x[dim], node.lower[dim], rng)
                new.left, new.right = (sample_block([i], new, X, y, lifetime, rng, paused), node)
            node.parent = new
            return new, new
    node.grow(x)
    if node.is_leaf:
        node.points.append(i)
        return node, node
    child = node.left if x[node.dim] <= node.cut else node.right
    if math.isnan(x[node.dim]):
        child = nearer_child(node, x)
    below, changed = extend_block(child, i, X, y, lifetime, rng, paused)
    if child is node.left:
        node.left = below
    else:
        node.right = below
    return node, changed


def sample_tree(X, y, lifetime, rng, paused):
    """Sample a tree (Algorithm 1), with `paused` as in Algorithms 9 and 10, without counts."""
    return sample_block(list(range(len(y))), None, X, y, lifetime, rng, paused)
