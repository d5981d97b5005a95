"""Models in files: the same afterwards, whole or refused, and free of code."""

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

import numpy as np
import pytest
import safetensors
import stored_models
from river import drift, linear_model, optim, preprocessing
from scipy import stats

import river_mondrian as rm
from river_mondrian.files import classes, store

models = pytest.mark.parametrize("name", stored_models.MODELS)


# Names of golden files by the number of the format, for formats that have some.
NAMES_OF_GOLDEN = {
    int(folder.name): {path.stem for path in folder.glob("*.safetensors")}
    for folder in sorted(stored_models.GOLDEN.glob("*"))
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@models
@pytest.mark.parametrize("n", [1, 270])
def test_loaded_models_are_the_same(name, n, path):
    model = stored_models.learned(name, n)
    rm.save(model, path)
    content = path.read_bytes()
    found = rm.load(path)
    rm.save(found, path)
    # All that a file has is what it had before.
    assert path.read_bytes() == content
    # The loaded model does not need the file.
    path.write_bytes(b"")
    assert stored_models.answers(found) == stored_models.answers(model)
    # New features, and a new class.
    more = {"names": ("a", "b", "c", "d"), "n_classes": 3}
    for samples in (stored_models.stream(30, 3), stored_models.stream(300, 5, **more)):
        stored_models.learn(model, samples)
        stored_models.learn(found, samples)
        assert stored_models.answers(found, **more) == stored_models.answers(model, **more)


def test_every_class_has_golden_files():
    kinds = {type(stored_models.MODELS[name]()).__name__ for name in stored_models.IN_GOLDEN}
    assert {type(make()).__name__ for make in stored_models.MODELS.values()} == kinds
    public = [getattr(rm, name) for name in rm.__all__]
    names = {cls.__name__ for cls in public if hasattr(cls, "_get_params")}
    # One name makes two classes.
    made = {"CalibratedClassifier", "CalibratedRegressor"}
    assert kinds - made == names - {"Calibrated"} and made <= kinds


def test_formats_have_golden_files_of_all_kinds():
    end = store.FORMAT + stored_models.FORMAT_IS_FINAL
    assert set(NAMES_OF_GOLDEN) == set(range(store.FIRST_FORMAT, end))
    assert NAMES_OF_GOLDEN.get(store.FORMAT, set(stored_models.IN_GOLDEN)) == set(
        stored_models.IN_GOLDEN
    )


def check_golden(folder, name, known):
    model, extra = rm.load(folder / f"{name}.safetensors", with_extra=True)
    assert extra == {"position": 20}
    # Sums in single precision are rounded once or twice, as the processor multiplies and adds.
    for expected, found in zip(known["now"], stored_models.answers(model), strict=True):
        assert found == pytest.approx(expected, rel=1e-7)
    stored_models.learn(model, stored_models.stream(20, 3, ("a", "b", "c"), 3))
    for expected, found in zip(known["later"], stored_models.answers(model), strict=True):
        assert found == pytest.approx(expected, rel=1e-7)


def test_golden_files():
    for number, names in NAMES_OF_GOLDEN.items():
        folder = stored_models.GOLDEN / str(number)
        known = json.loads((folder / "answers.json").read_text())
        for name in sorted(names):
            check_golden(folder, name, known[name])


def test_maps_that_are_being_built(path):
    samples = [({f"f{j}": (7 * i + 3 * j) % 101 / 9 for j in range(6)}, 0) for i in range(900)]
    for n in (600, 699, 700, 701, 704):
        model = rm.IsolationFeatures(40, 30, pool_size=700, seed=1)
        stored_models.learn(model, samples[:n])
        rm.save(model, path)
        found = rm.load(path)
        assert found.frozen == model.frozen
        stored_models.learn(model, samples[n:])
        stored_models.learn(found, samples[n:])
        assert model.frozen
        for x, _ in samples[:20]:
            assert found.transform_one(x) == model.transform_one(x)


def test_sets_of_many_classes(path):
    model, rng = rm.MondrianForestClassifier(2, seed=1), np.random.default_rng(0)
    values, labels = rng.random(900).tolist(), rng.integers(70, size=900).tolist()
    samples = [({"a": a}, k) for a, k in zip(values, labels, strict=True)]
    stored_models.learn(model, samples)
    rm.save(model, path)
    found = rm.load(path)
    for one in (model, found):
        stored_models.learn(one, samples[:300])
    assert found.predict_proba_one({"a": 0.3}) == model.predict_proba_one({"a": 0.3})


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
    for make in (
        lambda: rm.MondrianForestClassifier(2, seed=1),
        lambda: rm.OGDClassifier(rm.MondrianFeatures(2, seed=1)),
        lambda: rm.DualOGDClassifier(),
    ):
        model = make()
        stored_models.learn(model, [({"a": 0.1}, label), ({"a": 0.9}, "other")])
        rm.save(model, path)
        found = rm.load(path)
        assert alike(found.classes[0], label)
        assert alike(found.predict_one({"a": 0.1}), model.predict_one({"a": 0.1}))


class Color(enum.Enum):
    RED = 1


class Text(str):
    __slots__ = ()


FOREIGN = [Color.RED, datetime.date(2020, 2, 2), Text("t"), (1, Color.RED)]


@pytest.mark.parametrize("label", FOREIGN, ids=repr)
def test_other_labels_and_names_are_refused(label, path):
    rm.save(stored_models.learned("classifier"), path)
    before = path.read_bytes()
    inner = label[1] if isinstance(label, tuple) else label
    kind = type(inner).__name__
    for model, place in (
        (rm.MondrianForestClassifier(2), "model/_labels"),
        (rm.OGDClassifier(rm.MondrianFeatures(2)), "model/_labels"),
    ):
        stored_models.learn(model, [({"a": 0.1}, label)])
        with pytest.raises(
            TypeError, match=rf"cannot save .*{kind}\), which is in {place}.*: files hold"
        ):
            rm.save(model, path)
    model = rm.DensityForest(2, lifetime=1.0)
    model.learn_one({label: 0.1})
    with pytest.raises(TypeError, match=rf"cannot save .*{kind}\), which is in model/_features/0"):
        rm.save(model, path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_extra(path):
    model = stored_models.learned("means")
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
        "scaler": preprocessing.StandardScaler(),
    }
    extra["same"] = extra["random"]
    extra["scaler"].learn_one({"a": 1.0, "b": 3.0})
    extra["scaler"].learn_one({"a": 2.0, "b": 5.0})
    rm.save(model, path, extra=extra)
    found, read = rm.load(path, with_extra=True)
    assert stored_models.answers(found) == stored_models.answers(model)
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
    assert read["scaler"].transform_one(x) == extra["scaler"].transform_one(x)
    rm.save(model, path)
    assert rm.load(path, with_extra=True)[1] is None


def test_what_cannot_be_saved_is_named(path):
    model = stored_models.learned("classifier")
    for value, text in (
        ({"f": stored_models.answers}, "function answers"),
        ({"deep": [{1: object()}]}, "extra/deep/0/0"),
        ({"objects": np.array([None])}, "arrays of object"),
        ({"set": {Color.RED}}, "Color.RED"),
    ):
        with pytest.raises(TypeError, match=f"cannot save .*{text}"):
            rm.save(model, path, extra=value)
    with pytest.raises(TypeError, match="extra must be a dict or None, got 3"):
        rm.save(model, path, extra=3)
    with pytest.raises(TypeError, match="save takes an estimator or a feature map"):
        rm.save(preprocessing.StandardScaler() | model, path)
    with pytest.raises(TypeError, match="save takes an estimator or a feature map"):
        rm.save(linear_model.LogisticRegression(), path)
    assert not path.exists()


def quick(n):
    return 0.5 * n**0.5


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


my_law = MyLaw(a=1.0, b=2.0, name="my_law")()


CODE = {
    "function": (lambda: rm.DensityForest(2, lifetime=quick, seed=1), {"lifetime": quick}),
    "law": (
        lambda: rm.OGDClassifier(rm.MondrianFeatures(2, lifetime=my_law, seed=1), loss="log"),
        {"lifetime": my_law},
    ),
    "loss and steps": (
        lambda: rm.OGDRegressor(
            rm.RandomFourierFeatures(4, seed=1), MyLoss(), optim.SGD(MySchedule())
        ),
        {"loss": MyLoss(), "learning_rate": optim.SGD(MySchedule())},
    ),
    "directions": (
        lambda: rm.MondrianForestClassifier(
            2, directions=[types.MappingProxyType({"a": 1.0})], seed=1
        ),
        {"directions": [types.MappingProxyType({"a": 1.0})]},
    ),
}


@pytest.mark.parametrize("name", CODE)
@pytest.mark.parametrize("n", [0, 40])
def test_code_is_given_again(name, n, path):
    make, code = CODE[name]
    model = make()
    stored_models.learn(model, stored_models.stream(n))
    rm.save(model, path)
    for missing in code:
        rest = {k: v for k, v in code.items() if k != missing}
        with pytest.raises(TypeError, match=rf"a {missing} that is code.*\(..., {missing}="):
            rm.load(path, **rest)
    with pytest.raises(TypeError, match="does not lack other, which was given as code"):
        rm.load(path, **code, other=3)
    found = rm.load(path, **code)
    stored_models.learn(model, stored_models.stream(40, 3))
    stored_models.learn(found, stored_models.stream(40, 3))
    assert stored_models.answers(found) == stored_models.answers(model)


def test_a_state_that_is_not_known_is_refused(path):
    model = rm.AdaptiveMondrianForestClassifier(1, drift_detector=MyDetector(), seed=1)
    with pytest.raises(TypeError, match=r"cannot save .*MyDetector\), which is in model/_fed/0"):
        rm.save(model, path)


def test_memory_that_has_not_been_written_is_not_saved(path):
    # Rows of nodes are not zeroed: what another process had there must not get into a file.
    first, second = (stored_models.learned("classifier", 300) for _ in range(2))
    rm.save(first, path)
    content = path.read_bytes()
    rm.save(second, path)
    assert path.read_bytes() == content


# Files of models that are damaged, forged, of other formats, or half written.

# Kills in the suite; FILES_KILLS=200 takes longer.
KILLS = int(os.environ.get("FILES_KILLS", "20"))


def test_any_reader_of_safetensors_reads_them(path):
    model = stored_models.learned("classifier", 40)
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
    rm.save(stored_models.learned("classifier", 30), path)
    content = path.read_bytes()
    places = {*range(40), *range(len(content) - 40, len(content))}
    places |= set(np.random.default_rng(0).integers(len(content), size=400).tolist())
    for place in places:
        for bits in (1 << place % 8, 0xFF):
            damaged = bytearray(content)
            damaged[place] ^= bits
            refused(damaged, path, "is no stored model")


def test_files_that_are_cut_off_are_refused(path):
    rm.save(stored_models.learned("ogd", 30), path)
    content = path.read_bytes()
    for n in {*range(30), *range(100, len(content), 97), len(content) - 1}:
        refused(content[:n], path, "is no stored model")
    refused(content + b"\0", path, "is no stored model")
    refused(pickle.dumps(stored_models.learned("ogd", 3)), path, "is no stored model")
    with pytest.raises(FileNotFoundError):
        rm.load(path.parent / "none")


def rewritten(path, change):
    """Change what a file holds, and give it the right checksum."""
    arrays, metadata = store.read(path)
    arrays = {name: array.copy() for name, array in arrays.items()}
    tree = json.loads(arrays[store.DOCUMENT].tobytes())
    found = change(arrays, metadata, tree)
    tree = found if isinstance(found, dict) else tree
    arrays[store.DOCUMENT] = np.frombuffer(json.dumps(tree).encode(), np.uint8)
    store.write(path, arrays, metadata)


def test_later_formats_are_refused(path):
    rm.save(stored_models.learned("fourier"), path)
    later = store.FORMAT + 1
    rewritten(path, lambda a, m, t: m.update(format=str(later), river_mondrian="9.1"))
    text = rf"has the format {later}, of river_mondrian 9\.1; this is {rm.__version__}, which reads"
    with pytest.raises(rm.ModelFormatError, match=text):
        rm.load(path)


def test_formats_of_before_the_first_release_are_refused(path):
    for number in (1, store.FIRST_FORMAT - 1):
        rm.save(stored_models.learned("fourier"), path)
        rewritten(path, lambda a, m, t, number=number: m.update(format=str(number)))
        with pytest.raises(rm.ModelFormatError, match="which reads formats from"):
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
    rm.save(stored_models.learned("classifier", 30), path)
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
    rm.save(stored_models.learned("classifier", 30), path)
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
    content += store.zlib.crc32(content).to_bytes(4, "little")
    refused(content, path, "its header is not one")


def test_all_names_of_classes_mean_one():
    for name in classes.HOMES:
        assert classes.name_of(classes.class_of(name)) == name


def test_a_write_that_fails_leaves_what_was_there(path, monkeypatch):
    rm.save(stored_models.learned("classifier"), path, extra={"n": 1})

    def full(number):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            rm.save(stored_models.learned("classifier"), path, extra={"n": 2})
    assert os.listdir(path.parent) == [path.name]
    assert rm.load(path, with_extra=True)[1] == {"n": 1}


def test_links_stay_and_files_may_be_read_by_others(path):
    link = path.with_name("link")
    link.symlink_to(path)
    old = os.umask(0o022)
    try:
        rm.save(stored_models.learned("fourier"), link)
    finally:
        os.umask(old)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o644


def test_killed_at_any_moment_the_old_file_or_the_new_one_is_there(path):
    small, large = stored_models.learned("classifier", 3), stored_models.learned("classifier", 260)
    expected = {1: stored_models.answers(small), 2: stored_models.answers(large)}
    # Writing it takes long enough to be killed meanwhile.
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
        assert stored_models.answers(found) == expected[extra["n"]]
        met.add(extra["n"])
    assert met == {1, 2}
