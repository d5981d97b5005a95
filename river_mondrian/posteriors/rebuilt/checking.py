"""Checks of restored trees that are built anew, before their tables are read."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

from ...checks import LARGEST_SIZE, check_array, check_number, check_types, refuse
from .records import GATHERING, IDLE, LONG, RECENT, REPLAYING


def check_rebuilt(trees: Any) -> None:
    """Refuse restored trees whose sizes, roles or schedule do not fit each other.

    Parameters
    ----------
    trees
        `RebuiltTrees` whose records are there, with arrays of the right shapes.

    Raises
    ------
    ModelFormatError
        If one of them is out of its range.

    """
    integers = [
        "n_long",
        "n_recent",
        "n_candidates",
        "max_samples",
        "capacity",
        "first",
        "built_at",
        "slot",
        "role",
    ]
    check_types(
        trees,
        dict.fromkeys(integers, (int, np.integer))
        | {
            "max_bytes": (type(None), int, np.integer),
            "jobs": deque,
            "ages": np.ndarray,
            "starts": np.ndarray,
            "gains": np.ndarray,
            "dim_weights": np.ndarray,
            "drifts": tuple,
        },
    )
    for drift in trees.drifts:
        if type(drift) is not tuple or [type(one) for one in drift] != [int, int]:
            refuse(trees, "drifts", drift, "but it should be two numbers of samples")
    forest = trees.forest
    n_trees, n, capacity = len(trees.trees), int(forest.n_samples), trees.capacity
    for name, value, least, most in (
        ("n_candidates", trees.n_candidates, 1, 1 << 31),
        ("n_candidates", forest.n_candidates, trees.n_candidates, trees.n_candidates),
        ("capacity", capacity, 1, 1 << 31),
        ("window_capacity", forest.window_capacity, capacity, capacity),
        ("n_points", forest.n_points, min(n, capacity), min(n, capacity)),
        ("max_samples", trees.max_samples, 1, 1 << 31),
        ("first", trees.first, max(0, n - capacity), n),
        ("built_at", trees.built_at, 0, n),
        ("n_long", trees.n_long, 1, n_trees - 1),
        ("n_recent", trees.n_recent, n_trees - 1 - trees.n_long, n_trees - 1 - trees.n_long),
        ("slot", trees.slot, 0, n_trees - 1),
        ("horizon", float(forest.horizon), math.inf, math.inf),
        ("n_dims", forest.n_dims, 0, len(trees.dim_weights)),
    ):
        check_number(trees, name, value, least, most)
    check_array(trees, "starts", trees.starts, np.int64, 0, 1 << 62)
    check_array(trees, "ages", trees.ages, np.int64, 0, n)
    check_array(trees, "gains", trees.gains, np.float64, 0.0, 1e100)
    check_array(trees, "dim_weights", trees.dim_weights, np.float64, 1e-3, 1e100)
    _check_roles(trees)


def _check_roles(trees: Any) -> None:
    """Refuse roles that no forest comes to, and windows whose samples are not stored any more."""
    forest, slot = trees.forest, trees.slot
    roles, n = trees.trees.words["role"], int(trees.forest.n_samples)
    check_array(trees, "roles", roles, np.int64, IDLE, REPLAYING)
    check_number(trees, "the number of LONG trees", (roles == LONG).sum(), *[trees.n_long] * 2)
    check_number(trees, "the number of RECENT trees", (roles == RECENT).sum(), 0, trees.n_recent)
    if trees.role not in (IDLE, LONG, RECENT):
        refuse(trees, "role", trees.role, "but trees are built for others")
    for role in trees.jobs:
        if type(role) is not int or role not in (LONG, RECENT):
            refuse(trees, "jobs", role, "but trees are built for others")
    builds = np.flatnonzero(roles >= GATHERING).tolist()
    if builds != ([] if trees.role == IDLE else [slot]) or roles[slot] in (LONG, RECENT):
        refuse(trees, "slot", slot, f"but the trees have the roles {roles.tolist()}")
    first = max(0, n - trees.capacity)
    for t in np.flatnonzero(roles != IDLE).tolist():
        check_number(trees, f"starts[{t}]", int(trees.starts[t]), first, n)
    if builds:
        start = int(trees.starts[slot])
        check_number(trees, "built_from", forest.built_from, start, start)
        check_number(trees, "cursor", forest.cursor, start, n)
    check_number(trees, "cursor", forest.cursor, 0, LARGEST_SIZE)
