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


def _weigh(attributes: dict[str, Any], arrays: Arrays, place: str) -> None:
    """Let the samples of an adaptive forest weigh 1, and part classes' numbers and sides."""
    columns = attributes["side_rows"]["columns"]
    counted = arrays[columns.pop("blocks.counted")]
    n, n_blocks, _ = counted.shape
    # A word has two bits of each of 16 classes.
    sides = np.zeros((n, -(-n_blocks // 4), 16), np.uint32)
    # Where there is no row the rest of a shape cannot be left open.
    words_of_sides = sides.reshape(n, 16 * sides.shape[1])
    words_of_sides[:, : 4 * n_blocks] = counted.reshape(n, 4 * n_blocks) & 3
    words = np.bitwise_or.reduce(sides << np.arange(0, 32, 2, dtype=np.uint32), axis=2)
    n_samples, n_sides = (columns.pop(name) for name in ("n_samples", "sum_of_c"))
    for name, column in (
        ("blocks.counts", (counted >> 2).astype(np.float32)),
        ("sides", words.view(np.int32)),
        ("weight", arrays[n_samples].astype(np.float32)),
        ("n_sides", arrays[n_sides]),
    ):
        columns[name] = f"{place}/{name}"
        arrays[columns[name]] = column
    points = attributes["points"]["columns"]
    points["weight"], attributes["shared"]["columns"]["is_weighted"] = f"{place}/1", f"{place}/0"
    arrays[f"{place}/1"] = np.ones(len(arrays[points["label"]]), np.float32)
    arrays[f"{place}/0"] = np.zeros(1, np.int64)


def _from_1(document: Any, arrays: Arrays) -> tuple[Any, Arrays]:
    """Add whether every tree is full, which was an attribute, numbers of samples, and weights.

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
        if tree["object"] == "AdaptiveTrees":
            _weigh(attributes, arrays, f"{i}")
        if tree["object"] == "DualOGDClassifier":
            # Others have not been counted.
            attributes["_n_samples"] = _attributes(attributes["_supports"])["n"]
    for i, tree in enumerate(_parts(document, "records")):
        if "horizon" in tree["columns"]:
            place = f"{i}/absent"
            arrays[place] = np.full(1, math.nan)
            tree["columns"]["absent"] = place
        if tree["records"] == "Experts":
            tree["columns"]["largest_weight"] = f"{i}/largest"
            arrays[f"{i}/largest"] = np.ones(1)
        if tree["records"] == "RidgePosterior":
            # Those of weight 0 have not been counted.
            tree["columns"]["n_learned"] = tree["columns"]["n_samples"]
    return document, arrays


# By format.
MIGRATIONS: dict[int, Callable[[Any, Arrays], tuple[Any, Arrays]]] = {1: _from_1}
