"""What else compiled code depends on, and which of its folders are removed."""

from __future__ import annotations

import os
import py_compile
import sys
import time
import zipfile

import numba
import pytest
from numba.core.caching import NullCache
from small_package import PACKAGE, SOURCES, changed
from test_cache import CHANGES, damage, python

from river_mondrian.compiling import cache, folders


def test_what_else_code_depends_on(installed):
    assert installed.run() == ([6], 0, [])
    # A switch of the package, read as it is imported.
    assert installed.run(FAKE_ADDED="5") == ([11], 0, [])
    # Numba's own, in the environment or set by a program.
    assert installed.run(NUMBA_BOUNDSCHECK="1") == ([6], 0, [])
    assert installed.run(("set", "BOUNDSCHECK", 1), ("first", 3)) == ([6], 1, [])
    assert installed.run(("set", "LOOP_VECTORIZE", 0), ("first", 3)) == ([6], 0, [])
    # Those do not take each other's place, and others change nothing.
    assert installed.run(FAKE_ADDED="5") == ([11], 1, [])
    assert installed.run(NUMBA_NUM_THREADS="1") == ([6], 1, [])


def test_python_that_optimizes(installed):
    helpers = SOURCES["helpers.py"].replace("* FACTOR", "* FACTOR + (1 if __debug__ else 0)")
    installed.install(changed(helpers=helpers))
    assert installed.run() == ([7], 0, [])
    code = "from fake.kernels import first; print(first(3))"
    place = f"{installed.place}{os.pathsep}{PACKAGE.parent}"
    assert python(code, "-O", place=place, **installed.environ) == (["6"], "")
    assert installed.run() == ([7], 1, [])


TWO_OF_ONE = """
import numba
from .compiled import enable

def plus(x):
    return x + 1 + 1e-20 - x

first = enable(numba.njit(plus))
second = enable(numba.njit(fastmath={"reassoc", "nsz"})(plus))

def made(n):
    @enable
    @numba.njit
    def f(x):
        return x + n
    return f

third, fourth = made(3), made(4)
fifth, sixth = [enable(numba.njit(f)) for f in (lambda x: x + 5, lambda x: x + 6)]

helper = numba.njit(lambda x: x + 7)

def of_a_helper(helper):
    @enable
    @numba.njit
    def f(x):
        return helper(x)
    return f

seventh = of_a_helper(helper)
"""


def test_functions_that_look_alike(installed):
    installed.install(changed(kernels=TWO_OF_ONE))
    steps = [(name, 1.0) for name in ("first", "second", "third", "fourth", "fifth", "sixth")]
    values, hits, warned = installed.run(*steps)
    assert values[2:] == [4.0, 5.0, 6.0, 7.0] and not hits and not warned
    assert len(installed.entries()) == 6
    assert installed.run(*steps[::-1]) == (values[::-1], 6, [])
    # What a helper is, is not known: it may be another one in the next process.
    for _ in range(2):
        assert installed.run(("seventh", 1.0)) == ([8.0], 0, [])
    assert len(installed.entries()) == 6


def test_a_zip_file(installed, tmp_path):
    archive = tmp_path / "package.zip"

    def pack(sources):
        with zipfile.ZipFile(archive, "w") as file:
            for name, text in sources.items():
                # With one time for all.
                file.writestr(zipfile.ZipInfo(f"fake/{name}"), text)
        installed.place = archive

    pack(SOURCES)
    assert installed.run() == ([6], 0, [])
    assert installed.run() == ([6], 1, [])
    pack(CHANGES["constant"][0])
    assert installed.run() == ([9], 0, [])
    assert len(installed.folders()) == 1


def test_bytecode_without_sources(installed):
    def compile_all():
        for path in installed.package.glob("*.py"):
            py_compile.compile(str(path), f"{path}c")
            path.unlink()

    compile_all()
    assert installed.run() == ([6], 0, [])
    assert installed.run() == ([6], 1, [])
    installed.install(CHANGES["constant"][0])
    compile_all()
    assert installed.run() == ([9], 0, [])


def test_sources_that_are_not_there(tmp_path):
    package = cache.CodeCache(tmp_path / "nowhere", "fake")
    with pytest.warns(RuntimeWarning, match="sources are not found"):
        assert package.folder is None
    assert package.folder is None


FORKED = """
import os
from fake.kernels import first, second

print(first(3), flush=True)
child = os.fork()
print(second(3), first(2.5), flush=True)
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_forks(installed):
    place = f"{installed.place}{os.pathsep}{PACKAGE.parent}"
    assert python(FORKED, place=place, **installed.environ) == (["6", "5", "5.0", "5", "5.0"], "")
    assert installed.run(("second", 3), ("first", 2.5)) == ([5, 5.0], 2, [])


def test_functions_of_others_are_left_alone():
    @numba.njit
    def ours(x):
        return x

    assert isinstance(cache.enable(ours)._cache, NullCache)
    assert cache.enable(len) is len


def test_recompiling_forgets(installed):
    assert installed.run(("first", 3), ("second", 3)) == ([6, 5], 0, [])
    assert installed.run(("first", 3), ("second", 3), ("recompile", "first"))[1] == 2
    assert len(installed.entries()) == 2
    (entry,) = installed.folders()[0].glob("kernels.first-*")
    damage(entry, "empty")
    # The types that it forgets are those that the process has called it with.
    assert installed.run(("first", 2.5), ("recompile", "first"), ("first", 2.5))[0] == [5.0, 5.0]
    assert not entry.exists()


def kept_folder(base, number, days, marker="other.used"):
    folder = base / f"{number:032x}"
    folder.mkdir(parents=True)
    (folder / "code.nbc").write_bytes(b"")
    at = time.time() - days * 86400
    if marker:
        (folder / marker).write_text("")
        os.utime(folder / marker, (at, at))
    os.utime(folder, (at, at))
    return folder


def test_what_is_not_used_is_removed(tmp_path):
    base = tmp_path / "package-compiled"
    used = [kept_folder(base, number, number) for number in range(5)]
    unused = kept_folder(base, 90, folders.UNUSED_DAYS + 1)
    # One that a process is about to mark, one whose process was stopped, and a removal that was.
    begun, stopped = kept_folder(base, 91, 0, ""), kept_folder(base, 92, 1, "")
    removed = base / f"{93:032x}.{1:032x}"
    removed.mkdir()
    foreign = base / "somebody's"
    foreign.mkdir()
    os.utime(foreign, (1e9, 1e9))
    new = base / f"{99:032x}"
    folders._mark(new, tmp_path)
    assert sorted(base.iterdir()) == sorted([*used, begun, foreign, new])
    assert not any(path.exists() for path in (unused, stopped, removed))


def test_the_number_of_folders_is_bounded(tmp_path):
    base = tmp_path / "package-compiled"
    made = [kept_folder(base, number, number) for number in range(folders.MOST_OTHERS + 5)]
    new = base / f"{99:032x}"
    folders._mark(new, tmp_path)
    assert sorted(base.iterdir()) == sorted([*made[: folders.MOST_OTHERS], new])


def test_using_code_keeps_it(tmp_path):
    base = tmp_path / "package-compiled"
    folder = base / f"{1:032x}"
    folders._mark(folder, tmp_path)
    (marker,) = folder.iterdir()
    assert marker.read_text().split("\n")[0] == os.path.realpath(tmp_path)
    os.utime(marker, (1e9, 1e9))
    folders._mark(folder, tmp_path)
    folders._mark(base / f"{2:032x}", tmp_path / "another")
    assert folder.exists()


def test_the_folder_of_each_system(monkeypatch, tmp_path):
    monkeypatch.setattr(folders._config, "CACHE_DIR", "")
    monkeypatch.setattr(os.path, "expanduser", lambda path: str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    found = {}
    for platform in ("linux", "darwin", "win32"):
        monkeypatch.setattr(sys, "platform", platform)
        found[platform] = [os.path.relpath(base, tmp_path) for _, base in folders._bases()]
    assert found == {"linux": [".cache"], "darwin": ["Library/Caches"], "win32": ["local"]}
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.setattr(sys, "platform", "linux")
    assert folders._bases() == [("~/.cache", None)]
