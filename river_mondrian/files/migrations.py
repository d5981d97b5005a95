"""What turns documents and arrays of earlier formats into those of the next."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..partitions.splitmix import mixed
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


# A look at widths that never comes, as `partitions.mondrian.records` has it.
_NEVER = 2**62

# Kinds of trees whose widths may be renewed, and how many spare trees they then get.
_RENEWED = {"LabelTrees": 1, "WeightedTrees": 1, "TargetTrees": 1, "AdaptiveTrees": 0}


class _Written:
    """Arrays that a migration adds, under names that begin with a place."""

    def __init__(self, arrays: Arrays, place: str) -> None:
        self.arrays = arrays
        self.place = place

    def put(self, name: str, array: Any) -> str:
        """Add an array; returns its name in the file."""
        path = f"{self.place}/{name}"
        self.arrays[path] = np.ascontiguousarray(array)
        return path

    def extend(self, columns: dict[str, str], n: int, values: dict[str, Any]) -> None:
        """Add `n` records to columns, which have 0 but for these values."""
        for name, path in columns.items():
            array = self.arrays[path]
            more = np.full((n, *array.shape[1:]), values.get(name, 0), array.dtype)
            columns[name] = self.put(name, np.concatenate([array, more]))


def _follow_widths(attributes: dict[str, Any], kind: str, written: _Written) -> None:
    """Give trees both frames, points remainders, which are 0, and forests a spare tree."""
    arrays = written.arrays
    shared, trees, points = (attributes[name] for name in ("shared", "trees", "points"))

    def of_forest(name: str) -> int:
        return int(arrays[shared["columns"][name]][0])

    is_plain = attributes["directions"] is None and not attributes["bounded"]
    renews = bool(kind in _RENEWED and attributes["scale"] and is_plain)
    attributes["renews"] = renews
    attributes["known_ranges"] = {"dict": []}
    scaling = arrays[attributes.pop("scaling")["array"]]
    frames = np.zeros((2, *scaling.shape))
    frames[:] = scaling
    attributes["frames"] = {"array": written.put("frames", frames)}
    given = np.full((2, of_forest("n_inputs")), math.nan)
    attributes["given"] = {"array": written.put("given", given)}
    has_frames = renews and attributes["categories"] is None
    attributes["remainders"] = {"table": [0], "columns": {}}
    if has_frames:
        none = np.zeros((0, of_forest("dim_capacity")), np.float32)
        attributes["remainders"]["columns"]["remainders"] = written.put("remainders", none)
    looks = has_frames and attributes["warm_up"] is None
    n, n_samples = trees["n"], of_forest("n_samples")
    names = ("frame", "phase", "renewed", "taken", "n_moved", "renewed_at_sample")
    for name, value in (
        *((name, 0) for name in (*names, "remainders.n_rows")),
        ("next_look", math.ceil(1.5 * n_samples) if looks else _NEVER),
    ):
        shared["columns"][name] = written.put(f"forest/{name}", np.array([value], np.int64))
    if kind == "TargetTrees":
        shared["columns"]["drawn_gamma2"] = written.put("drawn_gamma2", np.zeros(1))
    states = arrays[trees["columns"]["random_state"]].tolist()
    own = np.array([mixed(state) for state in states], np.int64)
    trees["columns"]["renewal_state"] = written.put("renewal_state", own)
    trees["columns"]["slot"] = written.put("slot", np.arange(n))
    columns = points["columns"]
    if has_frames:
        values = arrays[columns["values"]]
        # What is unknown has no remainder either.
        both = np.hstack([values, np.where(np.isnan(values), values, 0.0).astype(np.float32)])
        columns["values"] = written.put("values", both)
    n_spare = _RENEWED[kind] if renews else 0
    if n_spare == 0:
        return
    links = arrays[columns["links"]]
    columns["links"] = written.put("links", np.pad(links, ((0, 0), (0, n_spare))))
    written.extend(trees["columns"], n_spare, {"root": -(2**31), "slot": n})
    trees["n"] = n + n_spare
    for name in ("nodes", "side_rows"):
        attributes[name]["table"] += [0] * n_spare


def _from_2(document: Any, arrays: Arrays) -> tuple[Any, Arrays]:
    """Let widths be renewed, and features have given ranges; none has."""
    for i, tree in enumerate(_parts(document, "object")):
        attributes = _attributes(tree)
        if "bounded" in attributes:
            _follow_widths(attributes, tree["object"], _Written(arrays, f"{i}/widths"))
        if "n_estimators" in attributes and "scale" in attributes:
            attributes["ranges"] = None
    return document, arrays


# By format.
MIGRATIONS: dict[int, Callable[[Any, Arrays], tuple[Any, Arrays]]] = {1: _from_1, 2: _from_2}
