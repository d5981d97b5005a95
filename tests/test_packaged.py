"""Tests of compiled code in the package: use, fallback, and trust."""

import json
import os
import shutil
import sys
from pathlib import Path

import common
import pytest
from common import raises

import river_mondrian
from river_mondrian.compiling import folders
from river_mondrian.compiling.kernels import COMPILES

pytestmark = [
    pytest.mark.skipif(not COMPILES, reason="nothing is compiled"),
    pytest.mark.skipif(sys.platform == "win32", reason="paths differ on Windows"),
]

PACKAGE = Path(river_mondrian.__file__).parent

PACK = """
import sys
from pathlib import Path
from river_mondrian import RandomFourierFeatures
from river_mondrian.compiling.cache import CACHE
model = RandomFourierFeatures(2, seed=1)
for i in range(3):
    model.learn_one({"a": i / 2})
    model.transform_one({"a": 0.3})
CACHE.pack(Path(sys.argv[1]))
"""

USE = """
import json, os, sys
from concurrent.futures import ThreadPoolExecutor
from river_mondrian import RandomFourierFeatures
from river_mondrian.compiling.cache import CACHE
from river_mondrian.compiling.first_calls import WATCH

def use(_):
    model = RandomFourierFeatures(2, seed=1)
    for i in range(3):
        model.learn_one({"a": i / 2})
    return tuple(model.transform_one({"a": 0.3}).values())

child = os.fork() if sys.argv[1] == "fork" else None
with ThreadPoolExecutor(4) as threads:
    (found,) = set(threads.map(use, range(4 if sys.argv[1] == "fork" else 1)))
if child == 0:
    os._exit(len(WATCH.names))
assert not child or os.waitpid(child, 0)[1] == 0
print(json.dumps([found, len(WATCH.names), CACHE._looked]))
"""


def run(code, place, argument, **environ):
    inherited = {"PATH": os.environ["PATH"], "PYTHONPATH": os.fspath(place)}
    found, told = common.run("-P", "-c", code, argument, inherited=inherited, **environ)
    return (json.loads(found) if found else None), told


@pytest.fixture(scope="module")
def packaged(tmp_path_factory):
    """Return the folder of an installation with compiled code for the oldest processor."""
    place = tmp_path_factory.mktemp("place")
    shutil.copytree(PACKAGE, place / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    code = place / PACKAGE.name / "compiled"
    code.mkdir()
    baseline = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    run(PACK, place, str(code), NUMBA_CACHE_DIR=str(place / "cache"), **baseline)
    shutil.rmtree(place / "cache")
    return place


@pytest.fixture
def nowhere(tmp_path):
    """Return an environment in which no folder can be written."""
    (tmp_path / "file").write_text("")
    return {"HOME": str(tmp_path / "file" / "below"), "PYTHONDONTWRITEBYTECODE": "1"}


def test_packaged_code_is_loaded_and_nothing_is_written(packaged, nowhere):
    before = sorted(packaged.rglob("*"))
    found, told = run(USE, packaged, "fork", NUMBA_CPU_NAME="", **nowhere)
    assert sum(value**2 for value in found[0]) == pytest.approx(1.0)
    assert found[1:] == [0, False] and told == ""
    assert sorted(packaged.rglob("*")) == before


def test_the_processor_that_is_named_does_not_matter(packaged, nowhere):
    found = run(USE, packaged, "plain", NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="", **nowhere)
    assert found == run(USE, packaged, "plain", **nowhere)


def changed(place, copy, change):
    """Copy an installation, change a file of the copy, and return the folder."""
    shutil.copytree(place, copy)
    code = copy / PACKAGE.name / "compiled"
    index = json.loads((code / "index.json").read_text())
    if change == "source":
        with (copy / PACKAGE.name / "limits.py").open("a") as file:
            file.write("ANOTHER = 1\n")
    elif change == "damaged":
        for path in code.glob("*.nbc"):
            content = path.read_bytes()
            path.write_bytes(content[:500] + bytes([content[500] ^ 1]) + content[501:])
    elif change == "numba":
        index["made_for"]["numba"] = "0.1"
    elif change == "processor":
        index["needs"] = ["qubits"]
    (code / "index.json").write_text(json.dumps([] if change == "index" else index))


REASONS = {
    "source": "sources have changed",
    "numba": "it was made for numba 0.1, and this is ",
    "processor": "this processor lacks qubits",
    "index": "its index.json cannot be read",
    "damaged": "kernels are compiled",
}


@pytest.mark.parametrize("change", REASONS)
def test_what_does_not_fit_is_compiled_and_the_log_says_why(packaged, tmp_path, change):
    copy, cache = tmp_path / "copy", {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    changed(packaged, copy, change)
    found, told = run(USE, copy, "plain", **cache)
    assert found[1] > 0
    assert told.count("\n") == 1 and REASONS[change] in told
    # The compiled code is kept for the next process, which therefore logs nothing.
    assert run(USE, copy, "plain", **cache) == ([found[0], 0, True], "")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs owners")
def test_code_of_other_users_is_not_loaded(monkeypatch, tmp_path):
    folder = tmp_path / "base" / "code"
    folders.make(folder)
    folders.write(folder / "one.nbc", b"code")
    assert [path.stat().st_mode & 0o777 for path in (folder, folder / "one.nbc")] == [0o700, 0o600]
    assert folders.read(folder / "one.nbc") == b"code"
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    raises(PermissionError, "belongs to another user", lambda: folders.read(folder / "one.nbc"))
    # A folder that the process cannot change is trusted if the user has named it.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    raises(PermissionError, None, lambda: folders.read(folder / "one.nbc"))
    monkeypatch.setattr(folders._config, "CACHE_DIR", str(tmp_path))
    assert folders.read(folder / "one.nbc") == b"code"
