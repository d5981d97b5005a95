"""Mondrian trees with the HNSP posterior, from Lakshminarayanan, Roy and Teh (2014)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Node:
    """A node of a Mondrian tree; `dim` is -1 at a leaf, whose time is the lifetime."""

    lower: list[float]
    upper: list[float]
    parent: Node | None = None
    time: float = math.inf
    dim: int = -1
    cut: float = math.nan
    left: Node | None = None
    right: Node | None = None
    points: list[int] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    tab: list[int] = field(default_factory=list)

    @property
    def is_leaf(self) -> bool:
        return self.dim == -1

    @property
    def parent_time(self) -> float:
        return 0.0 if self.parent is None else self.parent.time

    def distance(self, x) -> float:
        """Sum how far x lies outside the box."""
        total = 0.0
        for v, low, high in zip(x, self.lower, self.upper, strict=True):
            total += max(v - high, 0.0) + max(low - v, 0.0)
        return total


def walk(root):
    yield root
    if not root.is_leaf:
        yield from walk(root.left)
        yield from walk(root.right)


def leaves(root):
    return [node for node in walk(root) if node.is_leaf]


def depth(node):
    return 0 if node.parent is None else 1 + depth(node.parent)


class Tree:
    """A tree that grows; `paused` as in Algorithms 9 and 10, else 1 to 4."""

    def __init__(self, lifetime, rng, paused):
        self.X, self.y = [], []
        self.lifetime, self.rng, self.paused = lifetime, rng, paused
        self.root = None

    def sample_block(self, points, parent):
        """Algorithm 2, and 9 where blocks pause."""
        n_dims = len(self.X[0])
        node = Node(
            [min(self.X[n][d] for n in points) for d in range(n_dims)],
            [max(self.X[n][d] for n in points) for d in range(n_dims)],
            parent,
        )
        sides = [high - low for low, high in zip(node.lower, node.upper, strict=True)]
        pauses = self.paused and len({self.y[n] for n in points}) == 1
        time = math.inf
        if not pauses and sum(sides) > 0.0:
            time = node.parent_time + self.rng.exponential(1.0 / sum(sides))
        if time < self.lifetime:
            node.time = time
            node.dim = int(self.rng.choice(n_dims, p=np.array(sides) / sum(sides)))
            node.cut = self.rng.uniform(node.lower[node.dim], node.upper[node.dim])
            at = node.dim
            left = [n for n in points if self.X[n][at] <= node.cut]
            right = [n for n in points if self.X[n][at] > node.cut]
            node.left = self.sample_block(left, node)
            node.right = self.sample_block(right, node)
        else:
            node.time = self.lifetime
            node.points = list(points)
        return node

    def fit(self, X, y):
        """Algorithm 1."""
        self.X, self.y = [list(x) for x in X], list(y)
        self.root = self.sample_block(list(range(len(y))), None)
        return self

    def learn(self, x, y):
        """Algorithm 3."""
        self.X.append(list(x))
        self.y.append(y)
        n = len(self.y) - 1
        self.root = self.sample_block([n], None) if n == 0 else self.extend_block(self.root, n)

    def extend_block(self, node, n):
        """Algorithm 4, and 10 where blocks pause; returns what stands where the node stood."""
        x = self.X[n]
        if node.is_leaf and self.paused and len({self.y[m] for m in node.points}) == 1:
            if self.y[n] == self.y[node.points[0]]:
                self.grow(node, x)
                node.points.append(n)
                return node
            return self.sample_block([*node.points, n], node.parent)
        outside = [
            max(v - high, 0.0) + max(low - v, 0.0)
            for v, low, high in zip(x, node.lower, node.upper, strict=True)
        ]
        time = math.inf
        if sum(outside) > 0.0:
            time = node.parent_time + self.rng.exponential(1.0 / sum(outside))
        if time < node.time:
            new = Node(list(node.lower), list(node.upper), node.parent, time)
            new.dim = int(self.rng.choice(len(x), p=np.array(outside) / sum(outside)))
            at = new.dim
            if x[at] > node.upper[at]:
                new.cut = self.rng.uniform(node.upper[at], x[at])
                new.left, new.right = node, self.sample_block([n], new)
            else:
                new.cut = self.rng.uniform(x[at], node.lower[at])
                new.left, new.right = self.sample_block([n], new), node
            self.grow(new, x)
            node.parent = new
            return new
        self.grow(node, x)
        if node.is_leaf:
            node.points.append(n)
        elif x[node.dim] <= node.cut:
            node.left = self.extend_block(node.left, n)
        else:
            node.right = self.extend_block(node.right, n)
        return node

    @staticmethod
    def grow(node, x):
        node.lower = [min(low, v) for low, v in zip(node.lower, x, strict=True)]
        node.upper = [max(high, v) for high, v in zip(node.upper, x, strict=True)]


def initialize_counts(root, y, n_classes):
    """Algorithm 5, for all leaves."""
    if root.is_leaf:
        root.count = [sum(y[n] == k for n in root.points) for k in range(n_classes)]
    else:
        initialize_counts(root.left, y, n_classes)
        initialize_counts(root.right, y, n_classes)
        root.count = [a + b for a, b in zip(root.left.tab, root.right.tab, strict=True)]
    root.tab = [min(c, 1) for c in root.count]


def update_counts(leaf, label):
    """Algorithm 6, with the count of the first ancestor that has the label's table, too.

    As printed it stops before that ancestor's count is brought up to date, where Algorithm 5
    counts both children.
    """
    leaf.count[label] += 1
    node = leaf
    while True:
        if not node.is_leaf:
            node.count[label] = node.left.tab[label] + node.right.tab[label]
        if node.tab[label] == 1:
            return
        node.tab[label] = min(node.count[label], 1)
        if node.parent is None:
            return
        node = node.parent


def discount(gamma, span):
    return 0.0 if math.isinf(span) else math.exp(-gamma * span)


def smooth(count, tab, d, above):
    """Equation 4."""
    total = sum(count)
    return [
        (c - d * t + d * sum(tab) * g) / total for c, t, g in zip(count, tab, above, strict=True)
    ]


def posterior(node, gamma, base):
    """Algorithm 7, for one node."""
    above = base if node.parent is None else posterior(node.parent, gamma, base)
    return smooth(node.count, node.tab, discount(gamma, node.time - node.parent_time), above)


def expected_discount(eta, gamma, span):
    """Mean of exp(-gamma Delta), Delta exponential of rate eta, given that it is below span."""
    if math.isinf(span):
        return eta / (eta + gamma)
    return eta / (eta + gamma) * math.expm1(-(eta + gamma) * span) / math.expm1(-eta * span)


def predict(root, x, gamma, base):
    """Algorithm 8."""
    node, stays = root, 1.0
    s = [0.0] * len(base)
    above = list(base)
    while True:
        span = node.time - node.parent_time
        eta = node.distance(x)
        branches = -math.expm1(-span * eta) if eta > 0.0 else 0.0
        if branches > 0.0:
            ones = [min(c, 1) for c in node.count]
            g = smooth(ones, ones, expected_discount(eta, gamma, span), above)
            s = [a + stays * branches * b for a, b in zip(s, g, strict=True)]
        above = smooth(node.count, node.tab, discount(gamma, span), above)
        if node.is_leaf:
            return [a + stays * (1.0 - branches) * b for a, b in zip(s, above, strict=True)]
        stays *= 1.0 - branches
        node = node.left if x[node.dim] <= node.cut else node.right
