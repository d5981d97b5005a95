"""Files of models that are damaged, forged, of other formats, or half written."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import time

import numpy as np
import pytest
import safetensors
from stored_models import answers, learned

import river_mondrian as rm
from river_mondrian.files import classes, container, store

# Kills in the suite; FILES_KILLS=200 takes longer.
KILLS = int(os.environ.get("FILES_KILLS", "20"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def test_any_reader_of_safetensors_reads_them(path):
    model = learned("classifier", 40)
    rm.save(model, path)
    with safetensors.safe_open(path, framework="np") as file:
        names = set(file.keys())
        cuts = file.get_tensor("model/_trees/nodes/cut")
        lower = file.get_tensor("model/_trees/nodes/lower")
        assert file.metadata() == {"format": str(store.FORMAT), "river_mondrian": rm.__version__}
    counts = model._trees.trees.words["nodes.n_rows"]
    assert cuts.shape == (counts.sum(),) and lower.shape == (counts.sum(), 2)
    first = [float(np.float32(model._trees.trees[0].nodes.row(j).cut)) for j in range(counts[0])]
    assert cuts[: counts[0]].tolist() == first
    # Numbers by what they are; no addresses, and nothing of the layout.
    parts = {name.rpartition("/")[2] for name in names}
    assert {"left", "right", "dim", "classes_left", "upper", "label", "values", "links"} <= parts
    ends = {part.rpartition(".")[2] for part in parts}
    assert not ends & {"chunks", "capacity", "row_bytes", "box_word", "links_word", "walk_ref"}


def refused(content, path, text=""):
    path.write_bytes(content)
    with pytest.raises(rm.ModelFormatError, match=text):
        rm.load(path)


def test_flipped_bits_are_refused(path):
    rm.save(learned("classifier", 30), path)
    content = path.read_bytes()
    places = {*range(40), *range(len(content) - 40, len(content))}
    places |= set(np.random.default_rng(0).integers(len(content), size=400).tolist())
    for place in places:
        for bits in (1 << place % 8, 0xFF):
            damaged = bytearray(content)
            damaged[place] ^= bits
            refused(damaged, path, "is no stored model")


def test_files_that_are_cut_off_are_refused(path):
    rm.save(learned("ogd", 30), path)
    content = path.read_bytes()
    for n in {*range(30), *range(100, len(content), 97), len(content) - 1}:
        refused(content[:n], path, "is no stored model")
    refused(content + b"\0", path, "is no stored model")
    refused(pickle.dumps(learned("ogd", 3)), path, "is no stored model")
    with pytest.raises(FileNotFoundError):
        rm.load(path.parent / "none")


def rewritten(path, change):
    """Change what a file holds, and give it the right checksum."""
    arrays, metadata = container.read(path)
    arrays = {name: array.copy() for name, array in arrays.items()}
    tree = json.loads(arrays[store.DOCUMENT].tobytes())
    found = change(arrays, metadata, tree)
    tree = found if isinstance(found, dict) else tree
    arrays[store.DOCUMENT] = np.frombuffer(json.dumps(tree).encode(), np.uint8)
    container.write(path, arrays, metadata)


def test_later_formats_are_refused(path):
    rm.save(learned("fourier"), path)
    later = store.FORMAT + 1
    rewritten(path, lambda a, m, t: m.update(format=str(later), river_mondrian="9.1"))
    text = (
        rf"has the format {later}, of river_mondrian 9\.1, but this is {rm.__version__}, .* up to"
    )
    with pytest.raises(rm.ModelFormatError, match=text):
        rm.load(path)


def test_formats_of_before_the_first_release_are_refused(path):
    for number in (1, store.FIRST_FORMAT - 1):
        rm.save(learned("fourier"), path)
        rewritten(path, lambda a, m, t, number=number: m.update(format=str(number)))
        with pytest.raises(rm.ModelFormatError, match="written before the first release"):
            rm.load(path)


def attributes(tree, *names):
    """Return the attributes of an object of an object of a tree."""
    for name in names:
        tree = tree["state"]["attributes"][name]
    return tree["state"]["attributes"]


def one_more(name):
    def change(arrays, metadata, tree):
        arrays[name] += 1

    return change


WRONG = {
    "class": lambda a, m, t: t["model"].update(object="Path"),
    "record for a class": lambda a, m, t: t["model"].update(object="LabelTree"),
    "no model": lambda a, m, t: {"model": 3, "extra": None},
    "part of a model": lambda a, m, t: t | {"model": attributes(t["model"])["_features"]},
    "nothing": lambda a, m, t: {"model": {}, "extra": None},
    "format": lambda a, m, t: m.update(format="one"),
    "no array": lambda a, m, t: a.pop("model/_trees/nodes/cut"),
    "dtype": lambda a, m, t: a.update(
        {"model/_trees/nodes/cut": a["model/_trees/nodes/cut"].astype(np.float64)}
    ),
    "length": lambda a, m, t: a.update(
        {"model/_trees/nodes/cut": a["model/_trees/nodes/cut"][:-1]}
    ),
    "width": lambda a, m, t: a.update(
        {"model/_trees/nodes/lower": a["model/_trees/nodes/lower"][:, :1].copy()}
    ),
    "count": lambda a, m, t: attributes(t["model"], "_trees")["nodes"].update(table=[-1, 2, 3]),
    "rows": one_more("model/_trees/trees/nodes.n_rows"),
    "points": one_more("model/_trees/shared/n_points"),
    "n_inputs": one_more("model/_trees/shared/n_inputs"),
    "first_tree": one_more("model/_trees/shared/first_tree"),
    "n_all_trees": lambda a, m, t: a["model/_trees/shared/n_all_trees"].fill(1 << 40),
    "n_classes": one_more("model/_trees/shared/n_classes"),
    "frames": lambda a, m, t: a.update({"model/_trees/frames": np.zeros((2, 2, 1))}),
    "no distribution": lambda a, m, t: attributes(t["model"]).update(
        seed={"distribution": "ttest_ind", "arguments": {"tuple": []}, "named": {"dict": []}}
    ),
    "no generator": lambda a, m, t: attributes(t["model"]).update(
        seed={"generator": {"dict": [["bit_generator", "BitGenerator"]]}}
    ),
    "scalar": lambda a, m, t: attributes(t["model"]).update(seed={"scalar": "|O", "bytes": ""}),
    "deep": lambda a, m, t: t | {"extra": json.loads("[" * 900 + "]" * 900)},
}


@pytest.mark.parametrize("change", WRONG)
def test_files_that_are_no_models_are_refused(change, path):
    rm.save(learned("classifier", 30), path)
    rewritten(path, WRONG[change])
    with pytest.raises(rm.ModelFormatError, match="is no stored model"):
        rm.load(path)


@pytest.mark.parametrize(
    "forged",
    [
        "types:SimpleNamespace",
        "os:system",
        "river.base.base:types.SimpleNamespace",
        "river.datasets.base:get_data_home",
        "river_mondrian.files.forms:TableColumns",
        "river.none:None",
        "river.drift:none",
    ],
)
def test_no_class_but_those_of_river_is_found(forged, path):
    rm.save(learned("classifier", 30), path)
    seed = {"river": forged, "arguments": [], "state": None, "number": 900}
    rewritten(path, lambda a, m, t: attributes(t["model"]).update(seed=seed))
    with pytest.raises(
        rm.ModelFormatError, match=r"is no class of River's|version of River has no"
    ):
        rm.load(path)


@pytest.mark.parametrize("change", ["start", "dtype", "shape", "end", "text"])
def test_headers_that_are_none_are_refused(change, path):
    header = {
        "__metadata__": {"format": "1"},
        "a": {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]},
        "checksum": {"dtype": "U8", "shape": [4], "data_offsets": [16, 20]},
    }
    wrong = {
        "start": {"data_offsets": [8, 24]},
        "dtype": {"dtype": "F8"},
        "shape": {"shape": [-1, -2]},
        "end": {"shape": [1], "data_offsets": [0, 8]},
        "text": {},
    }
    header["a"] |= wrong[change]
    text = json.dumps(header).encode() if change != "text" else b"{]"
    content = len(text).to_bytes(8, "little") + text + bytes(16)
    content += container.zlib.crc32(content).to_bytes(4, "little")
    refused(content, path, "its header is not one")


def test_all_names_of_classes_mean_one():
    for name in classes.HOMES:
        assert classes.name_of(classes.class_of(name)) == name


def test_a_write_that_fails_leaves_what_was_there(path, monkeypatch):
    rm.save(learned("classifier"), path, extra={"n": 1})

    def full(number):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            rm.save(learned("classifier"), path, extra={"n": 2})
    assert os.listdir(path.parent) == [path.name]
    assert rm.load(path, with_extra=True)[1] == {"n": 1}


def test_links_stay_and_files_may_be_read_by_others(path):
    link = path.with_name("link")
    link.symlink_to(path)
    old = os.umask(0o022)
    try:
        rm.save(learned("fourier"), link)
    finally:
        os.umask(old)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o644


def test_killed_at_any_moment_the_old_file_or_the_new_one_is_there(path):
    small, large = learned("classifier", 3), learned("classifier", 260)
    expected = {1: answers(small), 2: answers(large)}
    # To write it takes long enough to be killed in.
    room = np.arange(1 << 20)
    start = time.perf_counter()
    rm.save(large, path, extra={"n": 2, "room": room})
    rm.save(small, path, extra={"n": 1})
    both = time.perf_counter() - start
    rng, kills, met = random.Random(1), 0, set()
    while kills < KILLS or (len(met) < 2 and kills < 20 * KILLS):
        kills += 1
        child = os.fork()
        if child == 0:
            try:
                while True:
                    rm.save(large, path, extra={"n": 2, "room": room})
                    rm.save(small, path, extra={"n": 1})
            finally:
                os._exit(1)
        time.sleep(2.0 * both * rng.random())
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        found, extra = rm.load(path, with_extra=True)
        assert answers(found) == expected[extra["n"]]
        met.add(extra["n"])
    assert met == {1, 2}
