"""Tests of models in files: equal after loading, or refused, without running code."""

import datetime
import enum
import json
import os
import pickle
import random
import signal
import time
import types
from collections import deque
from functools import partial
from unittest import mock

import numpy as np
import pytest
import safetensors
import stored_models
from common import Adaptive, Exact, answers, exit_of, fed, forked, raises, stream
from river import drift, optim, preprocessing
from scipy import stats
from stored_models import MODELS, learned

import river_mondrian as rm
from river_mondrian.files import classes, store

# Names of golden files, by format.
NAMES_OF_GOLDEN = {
    int(folder.name): {path.stem for path in folder.glob("*.safetensors")}
    for folder in sorted(stored_models.GOLDEN.glob("*"))
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def again(model, path):
    """Return a model that has been saved and loaded."""
    rm.save(model, path)
    return rm.load(path)


@pytest.mark.parametrize("name", stored_models.OWN)
@pytest.mark.parametrize("n", [1, 270])
def test_loaded_models_are_the_same(name, n, path):
    model = learned(name, n)
    rm.save(model, path)
    content = path.read_bytes()
    found = rm.load(path)
    rm.save(found, path)
    # A second file is equal byte for byte.
    assert path.read_bytes() == content
    # The loaded model must not need the file.
    path.write_bytes(b"")
    assert answers(found) == answers(model)
    # The stream has new features and a new class.
    more = {"names": ("a", "b", "c", "d"), "n_classes": 3}
    for samples in (stream(30, 3), stream(300, 5, **more)):
        fed(model, samples)
        fed(found, samples)
        assert answers(found, **more) == answers(model, **more)


def test_every_class_has_golden_files():
    kinds = {type(MODELS[name]()).__name__ for name in stored_models.IN_GOLDEN}
    public = [getattr(rm, name) for name in rm.__all__]
    names = {cls.__name__ for cls in public if hasattr(cls, "_get_params")}
    # `Calibrated(...)` returns an instance of one of two classes. `ConformalDrift` holds a monitor.
    made = {"CalibratedClassifier", "CalibratedRegressor"}
    assert kinds - made == names - {"Calibrated", "ConformalDrift"} and made <= kinds
    end = store.FORMAT + stored_models.FORMAT_IS_FINAL
    assert set(NAMES_OF_GOLDEN) == set(range(store.FIRST_FORMAT, end))
    in_golden = set(stored_models.IN_GOLDEN)
    assert NAMES_OF_GOLDEN.get(store.FORMAT, in_golden) == in_golden


@pytest.mark.parametrize(
    ("number", "name"),
    [(n, name) for n, names in NAMES_OF_GOLDEN.items() for name in sorted(names)],
)
def test_golden_files(number, name):
    folder = stored_models.GOLDEN / str(number)
    known = json.loads((folder / "answers.json").read_text())[name]
    model, extra = rm.load(folder / f"{name}.safetensors", with_extra=True)
    assert extra == {"position": 20}
    # On some processors, a product and a sum in single precision are rounded only once.
    for when, n in (("now", 0), ("later", 20)):
        fed(model, stream(n, 3, ("a", "b", "c"), 3))
        for expected, found in zip(known[when], answers(model), strict=True):
            assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-7)


NAMES = ["a", "", "\ud800 ü", 7, 2**70, -1.5, float("inf"), True, b"\x00\xff"]
NAMES += [(1, ("x", None), 2.5), np.int64(3), np.uint8(200), np.float32(0.1), np.float64(0.25)]
NAMES += [np.bool_(False), np.str_("numpy"), np.str_(""), np.bytes_(b"raw")]
NAMES += [np.datetime64("2020-02-02"), np.complex64(1j)]


def alike(found, value):
    if isinstance(value, tuple):
        return len(found) == len(value) and all(map(alike, found, value))
    return type(found) is type(value) and found == value


@pytest.mark.parametrize("label", NAMES, ids=repr)
def test_labels(label, path):
    for model in (
        Exact(2, seed=1),
        rm.OGDClassifier(rm.MondrianFeatures(2, seed=1)),
        rm.DualOGDClassifier(),
    ):
        found = again(fed(model, [({"a": 0.1}, label), ({"a": 0.9}, "other")]), path)
        assert alike(found.classes[0], label)
        assert alike(found.predict_one({"a": 0.1}), model.predict_one({"a": 0.1}))


class Color(enum.Enum):
    RED = 1


class Text(str):
    __slots__ = ()


FOREIGN = [Color.RED, datetime.date(2020, 2, 2), Text("t"), (1, Color.RED)]


@pytest.mark.parametrize("label", FOREIGN, ids=repr)
def test_other_labels_and_names_are_refused(label, path):
    rm.save(learned("classifier"), path)
    before = path.read_bytes()
    kind = type(label[1] if isinstance(label, tuple) else label).__name__
    for model, sample, place in (
        (Exact(2), ({"a": 0.1}, label), "_labels.*: files hold"),
        (rm.OGDClassifier(rm.MondrianFeatures(2)), ({"a": 0.1}, label), "_labels"),
        (rm.DensityForest(2, lifetime=1.0), {label: 0.1}, "_features/0"),
    ):
        message = rf"cannot save .*{kind}\), which is in model/{place}"
        raises(TypeError, message, partial(rm.save, fed(model, [sample]), path))
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_extra(path):
    model = learned("means")
    scaler = preprocessing.StandardScaler()
    extra = {
        "position": 7,
        "seen": [1, (2, None), {"x": b"y"}],
        "array": np.arange(6, dtype=np.uint16).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "empty": np.zeros((0, 3)),
        "number": np.array(2.5),
        "nan": float("nan"),
        3.5: deque([1, 2], maxlen=5),
        "random": random.Random(3),
        "same": None,
        "generator": np.random.Generator(np.random.Philox(3)),
        "scaler": fed(scaler, [{"a": 1.0, "b": 3.0}, {"a": 2.0, "b": 5.0}]),
    }
    extra["same"] = extra["random"]
    rm.save(model, path, extra=extra)
    found, read = rm.load(path, with_extra=True)
    assert answers(found) == answers(model)
    assert list(read) == list(extra)
    for name in ("array", "columns", "empty", "number"):
        assert read[name].dtype == extra[name].dtype
        np.testing.assert_array_equal(read[name], extra[name])
    assert read["columns"].flags.f_contiguous
    assert read["array"].flags.writeable
    assert read["seen"] == extra["seen"]
    assert read[3.5] == extra[3.5] and read[3.5].maxlen == 5
    assert read["nan"] != read["nan"]
    assert read["same"] is read["random"]
    assert read["random"].random() == extra["random"].random()
    assert read["generator"].random() == extra["generator"].random()
    x = {"a": 4.0, "b": 4.0}
    assert read["scaler"].transform_one(x) == scaler.transform_one(x)
    rm.save(model, path)
    assert rm.load(path, with_extra=True)[1] is None


def test_what_cannot_be_saved_is_named(path):
    model = learned("classifier")
    for value, text in (
        ({"f": answers}, "function answers"),
        ({"deep": [{1: object()}]}, "extra/deep/0/0"),
        ({"objects": np.array([None])}, "arrays of object"),
        ({"set": {Color.RED}}, "Color.RED"),
        (nested(5000), "nested at most 100 deep"),
    ):
        raises(TypeError, f"cannot save .*{text}", partial(rm.save, model, path, extra=value))
    assert not path.exists()


def nested(n):
    """Return a dict that contains `n` nested lists and dicts."""
    value = {}
    for i in range(n - 1):
        value = {"a": value} if i % 2 else [value]
    return {"a": value}


def test_values_may_be_nested(path):
    rm.save(learned("classifier"), path, extra=nested(60))
    assert rm.load(path, with_extra=True)[1] == nested(60)


class MyLoss(optim.losses.Squared):
    def gradient(self, y_true, y_pred):
        return 0.5 * (y_pred - y_true)


class MySchedule(optim.base.Scheduler):
    def get(self, t):
        return 0.1 / (1.0 + t)


class MyLaw(stats.rv_continuous):
    def _ppf(self, q):
        return q + 1.0


class MyDetector(drift.PageHinkley):
    pass


def law_map(lifetime):
    return rm.OGDClassifier(rm.MondrianFeatures(2, lifetime=lifetime, seed=1), loss="log")


FOURIER = rm.RandomFourierFeatures(4, seed=1)
CODE = {
    "function": (partial(rm.DensityForest, 2, seed=1), {"lifetime": lambda n: 0.5 * n**0.5}),
    "law": (law_map, {"lifetime": MyLaw(a=1.0, b=2.0, name="my_law")()}),
    "loss and steps": (
        partial(rm.OGDRegressor, FOURIER),
        {"loss": MyLoss(), "learning_rate": optim.SGD(MySchedule())},
    ),
    "directions": (partial(Exact, 2, seed=1), {"directions": [types.MappingProxyType({"a": 1.0})]}),
}


@pytest.mark.parametrize("name", CODE)
@pytest.mark.parametrize("n", [0, 40])
def test_code_is_given_again(name, n, path):
    make, code = CODE[name]
    model = make(**code)
    fed(model, stream(n))
    rm.save(model, path)
    for missing in code:
        rest = {k: v for k, v in code.items() if k != missing}
        with pytest.raises(TypeError, match=rf"a {missing} that is code.*\(..., {missing}="):
            rm.load(path, **rest)
    with pytest.raises(TypeError, match=r"other is in .*, so it must not be passed to load"):
        rm.load(path, **code, other=3)
    found = rm.load(path, **code)
    fed(model, stream(40, 3))
    fed(found, stream(40, 3))
    assert answers(found) == answers(model)


def test_a_state_that_is_not_known_is_refused(path):
    with pytest.raises(TypeError, match=r"cannot save .*MyDetector\), which is in model/_fed/0"):
        rm.save(Adaptive(1, drift_detector=MyDetector()), path)


# Files that are damaged, forged, of other formats, or incomplete.

# Number of kills in the suite, unless FILES_KILLS is set.
KILLS = int(os.environ.get("FILES_KILLS", "20"))


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
    # Arrays are named by fields, and files contain no addresses and no details of the layout.
    parts = {name.rpartition("/")[2] for name in names}
    assert {"left", "right", "dim", "classes_left", "upper", "label", "inputs", "links"} <= parts
    ends = {part.rpartition(".")[2] for part in parts}
    assert not ends & {"chunks", "capacity", "row_bytes", "box_word", "links_word", "walk_ref"}


def refused(content, path, text=""):
    path.write_bytes(content)
    raises(rm.ModelFormatError, text, lambda: rm.load(path))


def test_flipped_bits_are_refused(path):
    rm.save(learned("classifier", 30), path)
    content = path.read_bytes()
    places = {*range(40), *range(len(content) - 40, len(content))}
    places |= set(np.random.default_rng(0).integers(len(content), size=400).tolist())
    for place in places:
        for bits in (1 << place % 8, 0xFF):
            damaged = bytearray(content)
            damaged[place] ^= bits
            refused(damaged, path, "is not a stored model")


def test_files_that_are_cut_off_are_refused(path):
    rm.save(learned("ogd", 30), path)
    content = path.read_bytes()
    parts = [content[:n] for n in {*range(30), *range(100, len(content), 97), len(content) - 1}]
    for damaged in (*parts, content + b"\0", pickle.dumps(learned("ogd", 3))):
        refused(damaged, path, "is not a stored model")
    raises(FileNotFoundError, None, lambda: rm.load(path.parent / "none"))


def rewritten(path, change):
    """Change the content of a file, and correct the checksum."""
    arrays, metadata = store.read(path)
    arrays = {name: array.copy() for name, array in arrays.items()}
    tree = json.loads(arrays[store.DOCUMENT].tobytes())
    found = change(arrays, metadata, tree)
    tree = found if isinstance(found, dict) else tree
    arrays[store.DOCUMENT] = np.frombuffer(json.dumps(tree).encode(), np.uint8)
    store.write(path, arrays, metadata)


@pytest.mark.parametrize("number", [1, store.FIRST_FORMAT - 1, store.FORMAT + 1])
def test_other_formats_are_refused(number, path):
    rm.save(learned("fourier"), path)
    rewritten(path, lambda a, m, t: m.update(format=str(number), river_mondrian="9.1"))
    text = rf"the format {number}, of river_mondrian 9\.1; this is {rm.__version__}, which reads"
    raises(rm.ModelFormatError, text, lambda: rm.load(path))


def attributes(tree, *names):
    """Return the attributes of a nested object in a file's tree."""
    for name in names:
        tree = tree["state"]["attributes"][name]
    return tree["state"]["attributes"]


def one_more(name):
    return lambda a, m, t: a.update({name: a[name] + 1})


def changed(name, change):
    return lambda a, m, t: a.update({name: change(a[name])})


CUT = "model/_trees/nodes/cut"
WRONG = {
    "class": lambda a, m, t: t["model"].update(object="Path"),
    "record for a class": lambda a, m, t: t["model"].update(object="LabelTree"),
    "no model": lambda a, m, t: {"model": 3, "extra": None},
    "part of a model": lambda a, m, t: t | {"model": attributes(t["model"])["_features"]},
    "nothing": lambda a, m, t: {"model": {}, "extra": None},
    "format": lambda a, m, t: m.update(format="one"),
    "no array": lambda a, m, t: a.pop(CUT),
    "dtype": changed(CUT, lambda array: array.astype(np.float64)),
    "length": changed(CUT, lambda array: array[:-1]),
    "left": changed("model/_trees/nodes/left", lambda array: np.where(array < 0, array, 40_000)),
    "width": changed("model/_trees/nodes/lower", lambda array: array[:, :1].copy()),
    "count": lambda a, m, t: attributes(t["model"], "_trees")["nodes"].update(table=[-1, 2, 3]),
    "rows": one_more("model/_trees/trees/nodes.n_rows"),
    "points": one_more("model/_trees/shared/n_points"),
    "n_inputs": one_more("model/_trees/shared/n_inputs"),
    "first_tree": one_more("model/_trees/shared/first_tree"),
    "n_all_trees": lambda a, m, t: a["model/_trees/shared/n_all_trees"].fill(1 << 40),
    "n_classes": one_more("model/_trees/shared/n_classes"),
    "scalings": lambda a, m, t: a.update({"model/_trees/scalings": np.zeros((2, 2, 1))}),
    "no distribution": lambda a, m, t: attributes(t["model"]).update(
        seed={"distribution": "ttest_ind", "arguments": {"tuple": []}, "named": {"dict": []}}
    ),
    "no generator": lambda a, m, t: attributes(t["model"]).update(
        seed={"generator": {"dict": [["bit_generator", "BitGenerator"]]}}
    ),
    "scalar": lambda a, m, t: attributes(t["model"]).update(seed={"scalar": "|O", "bytes": ""}),
    "deep": lambda a, m, t: t | {"extra": json.loads("[" * 201 + "]" * 201)},
}


@pytest.mark.parametrize("change", WRONG)
def test_files_that_are_no_models_are_refused(change, path):
    rm.save(learned("classifier", 30), path)
    rewritten(path, WRONG[change])
    raises(rm.ModelFormatError, "is not a stored model", lambda: rm.load(path))


FORGED = ["types:SimpleNamespace", "os:system", "river.base.base:types.SimpleNamespace"]
FORGED += ["river.datasets.base:get_data_home", "river_mondrian.files.forms:TableColumns"]
FORGED += ["river.none:None", "river.drift:none"]


@pytest.mark.parametrize("forged", FORGED)
def test_no_class_but_those_of_river_is_found(forged, path):
    rm.save(learned("classifier", 30), path)
    seed = {"river": forged, "arguments": [], "state": None, "number": 900}
    rewritten(path, lambda a, m, t: attributes(t["model"]).update(seed=seed))
    refused(path.read_bytes(), path, r"is not a class of River|version of River has no")


HEADERS = [{"data_offsets": [8, 24]}, {"dtype": "F8"}, {"shape": [-1, -2]}]
HEADERS += [{"shape": [1], "data_offsets": [0, 8]}, {}]


@pytest.mark.parametrize("change", HEADERS, ids=repr)
def test_headers_that_are_none_are_refused(change, path):
    array = {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]} | change
    checksum = {"dtype": "U8", "shape": [4], "data_offsets": [16, 20]}
    header = {"__metadata__": {"format": "1"}, "a": array, "checksum": checksum}
    text = json.dumps(header).encode() if change else b"{]"
    content = len(text).to_bytes(8, "little") + text + bytes(16)
    content += store.zlib.crc32(content).to_bytes(4, "little")
    refused(content, path, "its header is invalid")


def test_all_names_of_classes_mean_one():
    for name in classes.HOMES:
        assert classes.name_of(classes.class_of(name)) == name


def test_a_write_that_fails_leaves_what_was_there(path, monkeypatch):
    rm.save(learned("classifier"), path, extra={"n": 1})
    with monkeypatch.context() as patch:
        full = mock.Mock(side_effect=OSError(28, "No space left on device"))
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
    # Both files take equally long to write, so each file remains after about half of the kills.
    room = np.arange(1 << 18)

    def save_for_ever():
        while True:
            rm.save(large, path, extra={"n": 2, "room": room})
            rm.save(small, path, extra={"n": 1, "room": room})
            os.write(writing, b".")

    rng, kills, met = random.Random(1), 0, set()
    while kills < KILLS or (len(met) < 2 and kills < 20 * KILLS):
        kills += 1
        reading, writing = os.pipe()
        began = time.perf_counter()
        child = forked(save_for_ever)
        os.close(writing)
        # The kill comes at a random time while both files are written, or soon after.
        assert os.read(reading, 1)
        time.sleep((time.perf_counter() - began) * rng.random())
        os.kill(child, signal.SIGKILL)
        assert exit_of(child) == -signal.SIGKILL
        os.close(reading)
        found, extra = rm.load(path, with_extra=True)
        assert answers(found) == expected[extra["n"]]
        met.add(extra["n"])
    assert met == {1, 2}
