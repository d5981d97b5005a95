"""What turns documents and arrays of earlier formats into those of the next."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .container import Arrays


def _parts(tree: Any, key: str) -> Iterator[dict[str, Any]]:
    """Yield what is an object or records, which `key` tells, in a tree."""
    if isinstance(tree, dict):
        if key in tree:
            yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for one in tree:
            yield from _parts(one, key)


def _attributes(tree: dict[str, Any]) -> dict[str, Any]:
    state = tree["state"]
    found: dict[str, Any] = state.get("attributes", {}) if isinstance(state, dict) else {}
    return found


def _from_1(document: Any, arrays: Arrays) -> tuple[Any, Arrays]:
    """Add whether every tree is full, which was an attribute, and numbers of samples learned.

    Trees had no categories, and what was missing was unknown.
    """
    for i, tree in enumerate(_parts(document, "object")):
        attributes = _attributes(tree)
        if "full" in attributes:
            place = f"{i}/is_full"
            arrays[place] = np.array([attributes.pop("full")], np.int64)
            attributes["shared"]["columns"]["is_full"] = place
        if "bounded" in attributes:
            attributes["categories"] = None
        if "n_estimators" in attributes and "scale" in attributes:
            attributes["missing"] = "unknown"
        if tree["object"] == "DualOGDClassifier":
            # Others have not been counted.
            attributes["_n_samples"] = _attributes(attributes["_supports"])["n"]
    for i, tree in enumerate(_parts(document, "records")):
        if "horizon" in tree["columns"]:
            place = f"{i}/absent"
            arrays[place] = np.full(1, math.nan)
            tree["columns"]["absent"] = place
        if tree["records"] == "RidgePosterior":
            # Those of weight 0 have not been counted.
            tree["columns"]["n_learned"] = tree["columns"]["n_samples"]
    return document, arrays


# By format.
MIGRATIONS: dict[int, Callable[[Any, Arrays], tuple[Any, Arrays]]] = {1: _from_1}
