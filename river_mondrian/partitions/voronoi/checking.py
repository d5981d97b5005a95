"""Checks of restored Voronoi diagrams: points, members, index and tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from ...checks import check_array, check_number, check_starts, check_types, refuse
from .distances import padded
from .tree import PointTree


def check_attributes(owner: Any) -> None:
    """Refuse a restored map that lacks an attribute, or has one of another type.

    Parameters
    ----------
    owner
        The map, a `VoronoiMap`.

    Raises
    ------
    ModelFormatError
        If that is so, or samples are read by their entries where points are rows.

    """
    none, array = type(None), np.ndarray
    check_types(
        owner,
        {
            "points": (none, scipy.sparse.csr_matrix),
            "frame": (none, tuple),
            "trials": (none, array),
            "tree": (none, PointTree),
            "centred": (none, array),
            "members": array,
            "rows": array,
        },
    )
    check_number(owner, "n_points", owner.record.n_points, 1, 1 << 31)
    if owner.indexed:
        check_types(
            owner,
            dict.fromkeys(("starts", "places", "values", "squared"), array) | {"by_feature": tuple},
        )
    elif owner.sparse:
        refuse(owner, "is_sparse", 1, "but points are rows")


def check_voronoi(owner: Any) -> None:
    """Refuse a restored map whose arrays name points, features or cells that are not there.

    Parameters
    ----------
    owner
        As for `check_attributes`, with arrays of the right shapes.

    Raises
    ------
    ModelFormatError
        If an array holds what is out of range.

    """
    n_points = owner.record.n_points
    check_array(owner, "members", owner.members, np.int32, 0, n_points - 1)
    if owner.indexed:
        _check_index(owner)
    elif owner.rows.dtype != np.float32:
        refuse(owner, "rows", str(owner.rows.dtype), "but they are of float32")
    if owner.centred is not None:
        check_types(owner, dict.fromkeys(("mean", "norms"), np.ndarray))
        width = owner.rows.shape[1]
        for name, shape in (
            ("centred", owner.rows.shape),
            ("mean", (width,)),
            ("norms", (n_points,)),
        ):
            if getattr(owner, name).shape != shape:
                refuse(owner, name, getattr(owner, name).shape, f"but it has the shape {shape}")
        if owner.indexed:
            refuse(owner, "centred", owner.centred.shape, "but points have an index")
    if owner.tree is not None:
        _check_tree(owner, owner.tree)
    if owner.points is not None:
        _check_building(owner)


def _check_index(owner: Any) -> None:
    """Refuse entries of points, by point and by feature, that are out of range."""
    n_points, n_inputs = owner.record.n_points, owner.n_inputs
    n_entries = len(owner.values)
    check_starts(owner, "starts", owner.starts, n_entries)
    check_array(owner, "places", owner.places, np.int32, 0, n_inputs - 1)
    if len(owner.by_feature) != 3 or not all(isinstance(a, np.ndarray) for a in owner.by_feature):
        refuse(owner, "by_feature", owner.by_feature, "but it is three arrays")
    starts, points, values = owner.by_feature
    check_starts(owner, "by_feature[0]", starts, len(points))
    check_array(owner, "by_feature[1]", points, np.int32, 0, n_points - 1)
    check_number(owner, "the length of by_feature[0]", len(starts), n_inputs + 1, n_inputs + 1)
    if values.shape != points.shape or values.dtype != np.float32:
        refuse(owner, "by_feature[2]", values.shape, f"but it has the shape {points.shape}")


def _check_tree(owner: Any, tree: PointTree) -> None:
    """Refuse a tree of points that leads to others than those that there are."""
    from .tree import LEAF

    arrays = ("mean", "axes", "leaf_starts", "coordinates", "boxes", "owners", "owner_starts")
    kinds: dict[str, Any] = {"n_axes": (int, np.integer), "width": int, "slack": tuple}
    check_types(tree, kinds | dict.fromkeys(arrays, np.ndarray))
    n_points, n_inputs, t = owner.record.n_points, owner.n_inputs, owner.n_out
    n_coordinates = int(tree.n_coordinates)
    width, n_leaves = tree.width, len(tree.leaf_starts) - 1
    check_number(tree, "n_coordinates", n_coordinates, tree.n_axes, tree.n_axes + 1)
    check_number(tree, "n_axes", tree.n_axes, 1, max(1, n_inputs))
    check_number(tree, "width", width, padded(n_coordinates), padded(n_coordinates))
    if n_leaves < 1 or n_leaves & (n_leaves - 1) or owner.indexed or len(tree.slack) != 3:
        refuse(tree, "the number of leaves", n_leaves, "but it is a power of two")
    shapes = {
        "mean": (n_inputs,),
        "axes": (n_inputs, width),
        "coordinates": (n_leaves, n_coordinates, LEAF),
        "boxes": (2 * n_leaves - 1, 2, width),
        "owners": (owner.members.size, 2),
        "owner_starts": (n_points + 1,),
    }
    for name, shape in shapes.items():
        if getattr(tree, name).shape != shape:
            refuse(tree, name, getattr(tree, name).shape, f"but it has the shape {shape}")
    check_starts(tree, "leaf_starts", tree.leaf_starts, n_points)
    sizes = np.diff(tree.leaf_starts)
    check_array(tree, "the sizes of leaves", sizes, np.int64, 0, LEAF)
    check_starts(tree, "owner_starts", tree.owner_starts, len(tree.owners))
    check_array(tree, "owners", tree.owners, np.int32, 0, owner.n_columns - 1)
    check_array(tree, "owners", tree.owners[:, 0], np.int32, 0, t - 1)


def _check_building(owner: Any) -> None:
    """Refuse what a tree is to be made of where that is damaged."""
    points, n_inputs = owner.points, owner.n_inputs
    shape = (owner.record.n_points, n_inputs)
    if points.shape != shape:
        refuse(owner, "points", points.shape, f"but they have the shape {shape}")
    points.check_format(full_check=True)
    if owner.trials is None or owner.trials.ndim != 2 or owner.trials.shape[1] != n_inputs:
        refuse(owner, "trials", np.shape(owner.trials), f"but there are {n_inputs} features")
    if owner.frame is not None:
        mean, axes = owner.frame
        if mean.shape != (n_inputs,) or axes.ndim != 2 or len(axes) != n_inputs:
            refuse(owner, "frame", mean.shape, f"but there are {n_inputs} features")
