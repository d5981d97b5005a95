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


# A look at widths that never comes, and a window without an end, as `partitions.mondrian.records`
# has both.
_NEVER = 2**62


def _fix_widths(attributes: dict[str, Any], arrays: Arrays, place: str) -> None:
    """Let a forest's widths stay as they are, and name the slots of its trees."""

    def put(name: str, array: Any) -> str:
        path = f"{place}/{name}"
        arrays[path] = np.ascontiguousarray(array)
        return path

    shared, trees = attributes["shared"]["columns"], attributes["trees"]["columns"]
    attributes["renews"] = False
    attributes["known_ranges"] = {"dict": []}
    scaling = arrays[attributes.pop("scaling")["array"]]
    attributes["frames"] = {"array": put("frames", np.stack([scaling, scaling]))}
    given = np.full((2, int(arrays[shared["n_inputs"]][0])), math.nan)
    attributes["given"] = {"array": put("given", given)}
    attributes["remainders"] = {"table": [0], "columns": {}}
    for name in ("frame", "phase", "renewed", "taken", "n_moved", "renewed_at_sample"):
        shared[name] = put(name, np.zeros(1, np.int64))
    shared["remainders.n_rows"] = put("n_remainders", np.zeros(1, np.int64))
    shared["next_look"] = put("next_look", np.array([_NEVER]))
    if attributes["shared"]["records"] == "TargetForest":
        shared["drawn_gamma2"] = put("drawn_gamma2", np.zeros(1))
    states = arrays[trees["random_state"]].tolist()
    trees["renewal_state"] = put("renewal_state", np.array([mixed(state) for state in states]))
    trees["slot"] = put("slot", np.arange(len(states)))


def _from_2(document: Any, arrays: Arrays) -> tuple[Any, Arrays]:
    """Let widths be fixed, and no feature have a given range."""
    for i, tree in enumerate(_parts(document, "object")):
        attributes = _attributes(tree)
        if "bounded" in attributes:
            _fix_widths(attributes, arrays, f"{i}/widths")
        if "n_estimators" in attributes and "scale" in attributes:
            attributes["ranges"], attributes["renews_widths"] = None, False
    return document, arrays


def _from_3(document: Any, arrays: Arrays) -> tuple[Any, Arrays]:
    """Let trees be all those of a forest: files of parts were for passing use only.

    Widths of forests with `max_nodes` have stayed as they were.
    """
    for i, tree in enumerate(_parts(document, "object")):
        attributes = _attributes(tree)
        if "bounded" in attributes:
            shared = attributes["shared"]["columns"]
            shared["n_all_trees"], shared["first_tree"] = shared["n_trees"], f"{i}/first_tree"
            arrays[f"{i}/first_tree"] = np.zeros(1, np.int64)
        if attributes.get("max_nodes") is not None and "renews_widths" in attributes:
            attributes["renews_widths"] = False
    return document, arrays


def _from_4(document: Any, arrays: Arrays) -> tuple[Any, Arrays]:
    """Let all samples be held, and no row be free; fences follow from the stored targets."""
    for i, tree in enumerate(_parts(document, "object")):
        attributes = _attributes(tree)
        if "bounded" in attributes:
            shared, trees = attributes["shared"]["columns"], attributes["trees"]["columns"]
            attributes["arrivals"] = {"table": [0], "columns": {}}
            numbers = {"n_forgotten": 0, "window": _NEVER, "arrivals.n_rows": 0}
            numbers |= {"first_arrival": -1, "last_arrival": -1, "next_fit": 0}
            for name, number in numbers.items():
                shared[name] = f"{i}/forgetting/{name}"
                arrays[shared[name]] = np.full(1, number, np.int64)
            if attributes["shared"]["records"] == "TargetForest":
                shared["low_fence"] = shared["high_fence"] = f"{i}/forgetting/fence"
                arrays[shared["low_fence"]] = np.full(1, math.nan)
                shared["y_most"] = f"{i}/forgetting/most"
                arrays[shared["y_most"]] = np.zeros(1)
            trees["free_row"] = trees["free_side_row"] = f"{i}/forgetting/free"
            arrays[trees["free_row"]] = np.full(len(arrays[trees["slot"]]), -1, np.int64)
        if tree["object"] in ("MondrianForestClassifier", "MondrianForestRegressor"):
            attributes["window"] = None
    return document, arrays


def _from_5(document: Any, arrays: Arrays) -> tuple[Any, Arrays]:
    """Name the frame that each tree's values are in.

    Widths stayed with categories, which points tell by not having inputs, and with directions.
    """
    for i, tree in enumerate(_parts(document, "object")):
        attributes = _attributes(tree)
        if "bounded" in attributes:
            shared, trees = attributes["shared"]["columns"], attributes["trees"]["columns"]
            first_values, frame = arrays[trees["first_value"]], arrays[shared["frame"]]
            frames = np.full(len(first_values), frame[0])
            if attributes["renews"] and attributes["categories"] is None:
                frames = first_values // arrays[shared["dim_capacity"]]
            trees["frame"] = f"{i}/frames"
            arrays[trees["frame"]] = np.ascontiguousarray(frames)
            attributes["keeps_inputs"] = False
        if attributes.get("directions") is not None and "renews_widths" in attributes:
            attributes["renews_widths"] = False
        if tree["object"] == "CutDirections":
            n = len(arrays[attributes["moments"]["array"]])
            attributes["means"] = {"array": f"{i}/means"}
            arrays[f"{i}/means"] = np.zeros(n)
    return document, arrays


def _from_6(document: Any, arrays: Arrays) -> tuple[Any, Arrays]:
    """Let all samples enter random cut trees."""
    for i, part in enumerate(_parts(document, "object")):
        attributes = _attributes(part)
        if part["object"] == "CutTrees":
            shared = attributes["shared"]["columns"]
            for name, number in {"entering": 1.0, "entry_state": 0, "n_passed": 0}.items():
                shared[name] = f"{i}/{name}"
                arrays[shared[name]] = np.array([number])
        if part["object"] == "RandomCutForest":
            attributes["max_samples"] = attributes["window"] or 512
    return document, arrays


def _keep_boxes(attributes: dict[str, Any], arrays: Arrays, place: str) -> None:
    """Let all nodes have their boxes in their rows."""
    shared, trees = attributes["shared"]["columns"], attributes["trees"]["columns"]
    n, numbers = len(arrays[trees["slot"]]), {"boxes.n_rows": 0, "free_box": -1}
    for name, number in numbers.items():
        trees[name] = f"{place}/{name}"
        arrays[trees[name]] = np.full(n, number, np.int64)
    shared["light_size"] = f"{place}/light_size"
    arrays[shared["light_size"]] = np.zeros(1, np.int64)
    attributes["boxes"] = {"table": [0] * n, "columns": {}}


# What classes have had no argument for, and how they were.
_NEW_IN_8: dict[str, dict[str, Any]] = {
    "OGDClassifier": {"_words": None, "linear": False},
    "OGDRegressor": {"_words": None},
    "IsolationFeatures": {"metric": "euclidean"},
    "NystromFeatures": {"seed": None, "_entropy": None},
}


def _from_7(document: Any, arrays: Arrays) -> tuple[Any, Arrays]:
    """Let nodes have their boxes in their rows, and no words count by themselves."""
    for i, tree in enumerate(_parts(document, "object")):
        attributes = _attributes(tree)
        if "bounded" in attributes:
            _keep_boxes(attributes, arrays, f"{i}/boxes")
        attributes.update(_NEW_IN_8.get(tree["object"], {}))
    return document, arrays


# Dimensions from which on nodes have room for insets, and for how many in their own rows and in
# further ones, in format 9.
_INSET_DIMS, _N_OWN_INSETS, _N_INSETS = 512, 7, 15


def _count_words(attributes: dict[str, Any], arrays: Arrays, place: str) -> None:
    """Let each word be of as many texts as its weights tell: none, one, or two and more."""
    slots = arrays[attributes["word_slots"]["array"]]
    attributes["word_counts"] = {"array": place}
    arrays[place] = (slots != 0) + (slots > 0).astype(np.float64)


def _keep_whole_boxes(attributes: dict[str, Any], arrays: Arrays, place: str) -> None:
    """Let no node have insets."""
    trees, nodes = attributes["trees"]["columns"], attributes["nodes"]
    shared = {name: arrays[a] for name, a in attributes["shared"]["columns"].items()}
    for name, number in {"insets.n_rows": 0, "free_inset": -1}.items():
        trees[name] = f"{place}/{name}"
        arrays[trees[name]] = np.full(len(arrays[trees["slot"]]), number, np.int64)

    def add(table: dict[str, Any], columns: dict[str, Any]) -> None:
        for name, column in columns.items():
            table["columns"][name] = f"{place}/{len(arrays)}"
            arrays[table["columns"][name]] = column

    attributes["insets"] = {"table": [0] * len(nodes["table"]), "columns": {}}
    is_wide = shared["light_size"][0] > 0 and shared["dim_capacity"][0] >= _INSET_DIMS
    if not is_wide or shared["window"][0] != _NEVER:
        return
    n = sum(nodes["table"])
    numbers = {name: np.full((n, 1), -1, np.int32) for name in ("following", "n_insets")}
    add(nodes, numbers | _no_insets(n, _N_OWN_INSETS))
    numbers = {name: np.zeros(0, np.int32) for name in ("following", "n")}
    add(attributes["insets"], numbers | _no_insets(0, _N_INSETS))


def _no_insets(n: int, capacity: int) -> dict[str, Any]:
    """Return the columns of places and values of so many rows without insets."""
    shape = n, capacity
    return {"places": np.zeros(shape, np.int32), "values": np.zeros(shape, np.float32)}


def _from_8(document: Any, arrays: Arrays) -> tuple[Any, Arrays]:
    """Let no node have insets, and count the texts of words."""
    for i, tree in enumerate(_parts(document, "object")):
        attributes = _attributes(tree)
        if attributes.get("word_slots") is not None:
            _count_words(attributes, arrays, f"{i}/word_counts")
        if "bounded" in attributes:
            _keep_whole_boxes(attributes, arrays, f"{i}/insets")
    return document, arrays


# By format.
MIGRATIONS: dict[int, Callable[[Any, Arrays], tuple[Any, Arrays]]] = {
    1: _from_1,
    2: _from_2,
    3: _from_3,
    4: _from_4,
    5: _from_5,
    6: _from_6,
    7: _from_7,
    8: _from_8,
}
