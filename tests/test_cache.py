"""Compiled code is never older than a source, and a cache that fails costs a warning at most."""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest
from small_package import PACKAGE, SOURCES, Installation, changed

from river_mondrian.compiling import cache, folders

CHANGES = {
    "constant": (changed(constants="FACTOR = 3\n"), 9),
    "helper": (changed(helpers=SOURCES["helpers.py"].replace("x * F", "x + F")), 5),
    "kernel": (changed(kernels=SOURCES["kernels.py"].replace("+ ADDED", "+ 4")), 10),
    "another": (changed(another="NEW = 1\n"), 6),
    "renamed": (
        changed(helpers=SOURCES["helpers.py"].replace(".constants", ".renamed"))
        | {"renamed.py": "FACTOR = 3\n"},
        9,
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_in_any_file_is_compiled_anew(installed, change):
    assert installed.run() == ([6], 0, [])
    assert installed.run() == ([6], 1, [])
    old = installed.folders()
    sources, value = CHANGES[change]
    installed.install(sources)
    assert installed.run() == ([value], 0, [])
    assert installed.run() == ([value], 1, [])
    assert len(installed.folders()) == 1 and installed.folders() != old


def test_going_back_and_forth_between_versions(installed):
    installed.run()
    for _ in range(2):
        installed.install(CHANGES["constant"][0])
        assert installed.run()[0] == [9]
        installed.install(SOURCES)
        assert installed.run()[0] == [6]
    assert len(installed.entries()) == 1


def test_nothing_is_kept_beside_the_sources(installed):
    assert installed.run() == ([6], 0, [])
    shutil.rmtree(installed.package / "__pycache__", ignore_errors=True)
    assert sorted(path.name for path in installed.package.iterdir()) == sorted(SOURCES)
    assert installed.run() == ([6], 1, [])


def python(code, *flags, place=PACKAGE.parent, **environ):
    """Run code in an interpreter that has just started, and return what it prints.

    It imports from `place`, and not from the working directory. What is said of compiling is left
    out.
    """
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": os.fspath(place)} | environ
    done = subprocess.run(
        [sys.executable, "-P", *flags, "-c", code], env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines(keepends=True)
    told = "kernels are compiled at their first call"
    return done.stdout.split(), "".join(line for line in lines if not line.startswith(told))


def wheel(folder, version, sources):
    """Write what `pip install` takes."""
    path = folder / f"fake-{version}-py3-none-any.whl"
    info = f"fake-{version}.dist-info"
    files = {f"fake/{name}": text for name, text in sources.items()} | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: fake\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)
    return path


@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="needs pip")
@pytest.mark.skipif(sys.platform == "win32", reason="an environment looks otherwise there")
def test_pip_upgrades_and_installs_again(installed, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (installed.place,) = (tmp_path / "venv").glob("lib/*/site-packages")
    home = Path(importlib.util.find_spec("pip").origin).parent.parent

    def pip(command, *arguments):
        start = [tmp_path / "venv" / "bin" / "python", "-m", "pip", "--isolated", "--quiet"]
        environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(home)}
        subprocess.run([*start, command, *arguments], env=environ, check=True)

    options = "--no-index", "--no-deps", "--disable-pip-version-check"
    old, new = wheel(tmp_path, "1", SOURCES), wheel(tmp_path, "2", CHANGES["constant"][0])
    pip("install", *options, old)
    assert installed.run() == ([6], 0, [])
    pip("install", *options, "-U", new)
    assert installed.run() == ([9], 0, [])
    pip("uninstall", "-y", "fake")
    pip("install", *options, old)
    assert installed.run() == ([6], 0, [])
    assert installed.run() == ([6], 1, [])


TOO_LARGE = """
import numpy as np
from river_mondrian.partitions.mondrian.records import Forest
from river_mondrian.partitions.mondrian.scaling import find_too_large
from river_mondrian.records import Float64s, Memory

forest = Memory(Forest)
forest[0].n_inputs = 1
found = find_too_large(forest[0], Float64s.of(np.array([1e6])))
print(found, sum(find_too_large.dispatcher.stats.cache_hits.values()))
"""


def test_a_constant_of_the_package_itself(tmp_path):
    place = tmp_path / "place"
    shutil.copytree(PACKAGE, place / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    kept = tmp_path / "kept"

    def call():
        return python(TOO_LARGE, "-W", "error", place=place, NUMBA_CACHE_DIR=str(kept))[0]

    assert call() == ["-1", "0"]
    assert call() == ["-1", "1"]
    limits = place / PACKAGE.name / "limits.py"
    text = limits.read_text()
    assert text.count("LARGEST = float(np.finfo(np.float32).max)") == 1
    limits.write_text(text.replace("LARGEST = float(np.finfo(np.float32).max)", "LARGEST = 1e5"))
    assert call() == ["0", "0"]
    assert len(list(kept.glob("*/*"))) == 1


def test_two_installations_do_not_disturb_each_other(installed, processes, tmp_path):
    other = Installation(processes, tmp_path / "other", installed.cache.parent)
    assert installed.run() == ([6], 0, [])
    # The same sources have the same code.
    assert other.run() == ([6], 1, [])
    other.install(CHANGES["constant"][0])
    assert other.run() == ([9], 0, [])
    assert installed.run() == ([6], 1, [])
    assert other.run() == ([9], 1, [])
    other.install(CHANGES["helper"][0])
    assert other.run() == ([5], 0, [])
    assert installed.run() == ([6], 1, [])
    assert len(installed.folders()) == 2
    # Once nobody has the first sources any more, their code goes.
    installed.install(CHANGES["helper"][0])
    assert installed.run() == ([5], 1, [])
    assert len(installed.folders()) == 1


def test_processes_that_start_at_once(installed, processes):
    started = [installed.start(("first", 3), ("second", 3), ("first", 2.5)) for _ in range(4)]
    for process in started:
        values, _, warned = processes.answer(process)
        assert values == [6, 5, 5.0] and not warned
    assert installed.run(("first", 2.5), ("first", 3), ("second", 3)) == ([5.0, 6, 5], 3, [])
    # No partial file is left behind.
    (folder,) = installed.folders()
    assert {path.suffix for path in folder.iterdir()} == {".nbc", ".used"}


def test_code_that_is_removed_as_a_process_runs(installed):
    installed.run(("first", 3), ("second", 3))
    removed = ("remove", str(installed.cache))
    assert installed.run(("first", 3), removed, ("second", 3)) == ([6, 5], 1, [])
    assert installed.run(("first", 3), ("second", 3)) == ([6, 5], 0, [])


def test_versions_that_start_at_once(installed, processes):
    # As one place has both in turn, they remove each other's code.
    started = []
    for sources in [SOURCES, CHANGES["constant"][0]] * 2:
        installed.install(sources)
        # It has read its sources before they change again.
        ready = installed.package / "ready"
        steps = [("import", "fake.kernels"), ("write", str(ready), ""), ("first", 3), ("second", 3)]
        started.append(installed.start(*steps))
        while not ready.exists():
            time.sleep(0.001)
    for number, process in enumerate(started):
        values, _, warned = processes.answer(process)
        assert values == ([9, 8] if number % 2 else [6, 5]) and not warned
    assert installed.run(("first", 3), ("second", 3))[0] == [9, 8]


def test_removing_and_loading_at_once(tmp_path):
    # Neither disturbs the other, and none of them raises.
    packages = [tmp_path / "base" / f"{number:032x}" for number in range(6)]
    failed = []

    def use(root):
        try:
            for number in range(30):
                folder = packages[number % len(packages)]
                folders._mark(folder, root)
                try:
                    folders.write(folder / "entry.nbc", b"code" * 1000)
                    assert (folder / "entry.nbc").read_bytes() == b"code" * 1000
                except FileNotFoundError:
                    pass
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=use, args=(tmp_path,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_sources_that_change_as_a_process_runs(installed):
    constants = str(installed.package / "constants.py")
    # Whatever this process has made of both versions belongs to neither.
    mixed = installed.run(
        ("import", "fake.compiled"),
        ("write", constants, "FACTOR = 3\n"),
        ("first", 3),
        ("write", constants, SOURCES["constants.py"]),
        ("second", 3),
    )
    assert mixed == ([9, 8], 0, [])
    assert not installed.entries()
    assert installed.run(("first", 3), ("second", 3)) == ([6, 5], 0, [])
    # It takes nothing from disk, either.
    mixed = installed.run(
        ("import", "fake.compiled"), ("write", constants, "FACTOR = 3\n"), ("first", 3)
    )
    assert mixed == ([9], 0, [])


@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME", ".cache"])
@pytest.mark.parametrize("kind", ["blocked", "missing"])
def test_a_folder_that_cannot_be_written_costs_a_warning(installed, tmp_path, variable, kind):
    blocked = tmp_path / "file"
    blocked.write_text("")
    home = tmp_path / "home"
    environ = {"HOME": str(home), "XDG_CACHE_HOME": "", "NUMBA_CACHE_DIR": ""}
    # Nobody can write below a file, not even the superuser.
    bad = blocked / "below" if kind == "blocked" else tmp_path / "not there"
    if variable == ".cache":
        if kind == "blocked":
            (home / ".cache").write_text("")
    else:
        environ[variable] = str(bad)
    values, _, warned = installed.run(("first", 3), ("second", 3), **environ)
    assert values == [6, 5]
    if kind == "missing" and variable != "HOME":
        # It can be made.
        assert not warned
        return
    assert len(warned) == 1 and "Set NUMBA_CACHE_DIR to a folder that can be written" in warned[0]
    assert (variable if variable != "HOME" else "~/.cache") in warned[0]
    assert not bad.exists()
    falls_back = variable in {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME"}
    assert ("is kept in" in warned[0]) == falls_back
    assert installed.run(**environ)[1] == falls_back


def test_the_package_can_be_imported_where_nothing_can_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    nowhere = dict.fromkeys(["HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"], str(blocked / "below"))
    python("import river_mondrian.estimators.classifier", "-W", "error", **nowhere)
    found, warned = python(TOO_LARGE, **nowhere)
    assert found == ["-1", "0"]
    assert warned.count("RuntimeWarning") == 1
    assert all(name in warned for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "~/.cache"))


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_code_is_read_where_it_cannot_be_written(installed, number):
    assert installed.run() == ([6], 0, [])
    assert installed.run(("fail", number), ("first", 3)) == ([6], 1, [])
    values, hits, warned = installed.run(
        ("fail", number), ("second", 3), ("first", 3), ("second", 2.5)
    )
    assert (values, hits) == ([5, 6, 4.0], 1)
    assert len(warned) == 1 and os.strerror(number) in warned[0]


def damage(path, how):
    content = path.read_bytes()
    middle = len(content) // 2
    path.unlink()
    if how == "truncated":
        path.write_bytes(content[:middle])
    elif how == "garbage":
        path.write_bytes(os.urandom(1000))
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "flipped":
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    elif how == "of another":
        pickled = b"cnowhere\nnothing\n."
        path.write_bytes(cache._checksum(pickled) + pickled)
    elif how == "folder":
        path.mkdir()
    elif how == "unreadable":
        path.write_bytes(content)
        path.chmod(0)


@pytest.mark.parametrize(
    "how", ["truncated", "garbage", "empty", "flipped", "of another", "folder", "unreadable", ""]
)
def test_a_damaged_entry_is_compiled_anew(installed, how):
    assert installed.run() == ([6], 0, [])
    (entry,) = installed.entries()
    damage(entry, how)
    # The superuser reads what nobody may read.
    is_read = how == "unreadable" and os.access(entry, os.R_OK)
    assert installed.run() == ([6], int(is_read), [])
    if how != "folder":
        assert installed.run() == ([6], 1, [])


def test_code_that_calls_a_function_which_is_not_there_is_refused():
    from numba.core.registry import cpu_target

    cache._ensure_symbols(["memcpy"], cpu_target.target_context)
    with pytest.raises(LookupError, match="no function there_is_none_of_this_name"):
        cache._ensure_symbols(["memcpy", "there_is_none_of_this_name"], cpu_target.target_context)
