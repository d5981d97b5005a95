"""Tests of the cache of compiled code: dependencies, failures, and removal of folders.

Cached code is never older than its sources, and failures of the cache cause a warning.
"""

import errno
import os
import sys
import time
from unittest import mock

import numba
import pytest
from common import run
from numba.core.caching import NullCache
from small_package import PACKAGE, SOURCES, changed

from river_mondrian.compiling import cache, folders, sources

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
    contents, value = CHANGES[change]
    for number in range(2):
        installed.install(contents)
        assert installed.run() == ([value], number, [])
        # The code of the previous sources is still cached.
        installed.install(SOURCES)
        assert installed.run() == ([6], 1, [])
    assert len(installed.entries()) == len(installed.folders()) == 2


DOCUMENTED = SOURCES["kernels.py"].replace("first(x):", "first(x):\n    'Return twice as much.'")
REWRITTEN = "'A module.'\n\n# A comment." + DOCUMENTED.replace(
    "'Return twice as much.'", '"""Return two times as much,\n\n    and something.\n    """'
)
REWRITTEN = REWRITTEN.replace("scaled(x) + ADDED", "(scaled(x)  # another\n            + ADDED)")
REWRITTEN = REWRITTEN.replace("- 1", "- 0x1")


def test_comments_docstrings_and_formatting_compile_nothing(installed):
    steps = [("first", 3), ("second", 3)]
    installed.install(changed(kernels=DOCUMENTED))
    assert installed.run(*steps) == ([6, 5], 0, [])
    installed.install(changed(kernels=REWRITTEN, constants="# A comment.\nFACTOR = 2\n"))
    assert installed.run(*steps) == ([6, 5], 2, [])
    # A string that is not a docstring belongs to the code.
    installed.install(changed(kernels=REWRITTEN, constants="FACTOR = 2\nNAME = 'A string.'\n"))
    assert installed.run(*steps) == ([6, 5], 0, [])


def test_meanings_are_remembered_by_contents(tmp_path, monkeypatch):
    root, known = tmp_path / "fake", tmp_path / "kept" / "syntax"
    root.mkdir()
    meaning = mock.Mock(wraps=sources._meaning)
    monkeypatch.setattr(sources, "_meaning", meaning)

    def key(**texts):
        for name, text in texts.items():
            (root / f"{name}.py").write_text(text)
        return sources.Sources(root).key(known)

    first = key(a="A = 1\n", b="B = 1\n")
    assert key() == first and meaning.call_count == 2
    assert key(a="A = 1  # One.\n") == first
    assert meaning.mock_calls[2:] == [mock.call(b"A = 1  # One.\n")]
    assert key(a="A = 2\n") != first and key(a="A = 1\n") == first
    # Files that Python cannot parse are compared byte by byte.
    assert len({first, key(a="A = \n"), key(a="A = # One.\n")}) == 3
    key(a="A = 1\n")
    content = known.read_bytes()
    for damaged in (b"", content[:-40], content[:-1], os.urandom(100)):
        known.write_bytes(damaged)
        meaning.reset_mock()
        assert key() == first and meaning.called
    known.unlink()
    known.mkdir()
    assert key() == first
    # The cache key belongs to the file contents that were read.
    found = sources.Sources(root)
    (root / "a.py").write_text("A = 3\n")
    assert found.key(known) == first and not found.unchanged()


def test_processes_that_start_at_once(installed, processes):
    started = [installed.start(("first", 3), ("second", 3), ("first", 2.5)) for _ in range(4)]
    for process in started:
        values, _, warned = processes.answer(process)
        assert values == [6, 5, 5.0] and not warned
    assert installed.run(("first", 2.5), ("first", 3), ("second", 3)) == ([5.0, 6, 5], 3, [])
    # No partial file remains.
    (folder,) = installed.folders()
    assert {path.suffix for path in folder.iterdir()} == {".nbc"}


def test_sources_that_change_as_a_process_runs(installed):
    constants = str(installed.package / "constants.py")
    begin = ("import", "fake.compiled"), ("write", constants, "FACTOR = 3\n"), ("first", 3)
    back = ("write", constants, SOURCES["constants.py"])
    # A process that has read two versions of a file stores no code.
    assert installed.run(*begin, back, ("second", 3)) == ([9, 8], 0, [])
    assert not installed.entries()
    assert installed.run(("first", 3), ("second", 3)) == ([6, 5], 0, [])
    # This process reads no code from disk, either.
    assert installed.run(*begin) == ([9], 0, [])


@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME", ".cache"])
@pytest.mark.parametrize("kind", ["blocked", "missing"])
def test_a_folder_that_cannot_be_written_costs_a_warning(installed, tmp_path, variable, kind):
    home, blocked = tmp_path / "home", tmp_path / "file"
    environ = {"HOME": str(home), "XDG_CACHE_HOME": "", "NUMBA_CACHE_DIR": ""}
    # Even the superuser cannot create a file below a file.
    bad = blocked / "below" if kind == "blocked" else tmp_path / "not there"
    if variable != ".cache":
        environ[variable] = str(bad)
    if kind == "blocked":
        (home / ".cache" if variable == ".cache" else blocked).write_text("")
    values, _, warned = installed.run(("first", 3), ("second", 3), **environ)
    assert values == [6, 5]
    if kind == "missing" and variable != "HOME":
        # A missing folder can be created.
        assert not warned
        return
    assert len(warned) == 1 and "Set NUMBA_CACHE_DIR to a folder that can be written" in warned[0]
    assert (variable if variable != "HOME" else "~/.cache") in warned[0]
    assert not bad.exists()
    falls_back = variable in {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME"}
    assert ("is kept in" in warned[0]) == falls_back
    assert installed.run(**environ)[1] == falls_back


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_code_is_read_where_it_cannot_be_written(installed, number):
    assert installed.run() == ([6], 0, [])
    assert installed.run(("fail", number), ("first", 3)) == ([6], 1, [])
    steps = ("fail", number), ("second", 3), ("first", 3), ("second", 2.5)
    values, hits, warned = installed.run(*steps)
    assert (values, hits) == ([5, 6, 4.0], 1)
    assert len(warned) == 1 and os.strerror(number) in warned[0]


NOTHING = b"cnowhere\nnothing\n."
DAMAGES = {
    "truncated": lambda path, content: path.write_bytes(content[: len(content) // 2]),
    "garbage": lambda path, content: path.write_bytes(os.urandom(1000)),
    "empty": lambda path, content: path.write_bytes(b""),
    "flipped": lambda path, content: path.write_bytes(content[:-1] + bytes([content[-1] ^ 1])),
    "of another": lambda path, content: path.write_bytes(cache._checksum(NOTHING) + NOTHING),
    "folder": lambda path, content: path.mkdir(),
    "unreadable": lambda path, content: (path.write_bytes(content), path.chmod(0)),
    "gone": lambda path, content: None,
}


def damage(path, how):
    content = path.read_bytes()
    path.unlink()
    DAMAGES[how](path, content)


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_entry_is_compiled_anew(installed, how):
    assert installed.run() == ([6], 0, [])
    (entry,) = installed.entries()
    damage(entry, how)
    # The superuser can read a file without permissions.
    is_read = how == "unreadable" and os.access(entry, os.R_OK)
    assert installed.run() == ([6], int(is_read), [])
    if how != "folder":
        assert installed.run() == ([6], 1, [])


def test_what_else_code_depends_on(installed):
    assert installed.run() == ([6], 0, [])
    # A switch of the package, read at import.
    assert installed.run(FAKE_ADDED="5") == ([11], 0, [])
    # Options of numba, set in the environment or by a program.
    assert installed.run(NUMBA_BOUNDSCHECK="1") == ([6], 0, [])
    assert installed.run(("set", "BOUNDSCHECK", 1), ("first", 3)) == ([6], 1, [])
    assert installed.run(("set", "LOOP_VECTORIZE", 0), ("first", 3)) == ([6], 0, [])
    # Each combination of options has separate code; other options have no effect.
    assert installed.run(FAKE_ADDED="5") == ([11], 1, [])
    assert installed.run(NUMBA_NUM_THREADS="1") == ([6], 1, [])


TWO_OF_ONE = """
import numba
from .compiled import enable

def plus(x):
    return x + 1 + 1e-20 - x

first = enable(numba.njit(plus))
second = enable(numba.njit(fastmath={"reassoc", "nsz"})(plus))

def made(n):
    return enable(numba.njit(lambda x: x + n))

def of_a_helper(helper):
    return enable(numba.njit(lambda x: helper(x)))

third, fourth = made(3), made(4)
fifth, sixth = [enable(numba.njit(f)) for f in (lambda x: x + 5, lambda x: x + 6)]
seventh = of_a_helper(numba.njit(lambda x: x + 7))
"""


def test_functions_that_look_alike(installed):
    installed.install(changed(kernels=TWO_OF_ONE))
    steps = [(name, 1.0) for name in ("first", "second", "third", "fourth", "fifth", "sixth")]
    values, hits, warned = installed.run(*steps)
    assert values[2:] == [4.0, 5.0, 6.0, 7.0] and not hits and not warned
    assert len(installed.entries()) == 6
    assert installed.run(*steps[::-1]) == (values[::-1], 6, [])
    # The cache cannot know the code of the helper, which may differ in the next process.
    for _ in range(2):
        assert installed.run(("seventh", 1.0)) == ([8.0], 0, [])
    assert len(installed.entries()) == 6


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
    paths = f"{installed.place}{os.pathsep}{PACKAGE.parent}"
    found, told = run("-P", "-c", FORKED, inherited=installed.environ, PYTHONPATH=paths)
    assert found.split() == ["6", "5", "5.0", "5", "5.0"]
    assert "Warning" not in told
    assert installed.run(("second", 3), ("first", 2.5)) == ([5, 5.0], 2, [])


INTERRUPTED = """
import signal, sys
from fake.kernels import first

def trace(frame, event, arg):
    if frame.f_code.co_name == "_object_getbuffer_hook":
        sys.settrace(None)
        signal.raise_signal(signal.SIGINT)

sys.settrace(trace)
try:
    first(3)
except KeyboardInterrupt:
    print("interrupted")
print(first(3), sum(first.stats.cache_hits.values()))
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_an_interrupt_while_stored_code_is_loaded(installed):
    """LLVM ignores exceptions of the callback that returns stored code."""
    assert installed.run() == ([6], 0, [])
    paths = f"{installed.place}{os.pathsep}{PACKAGE.parent}"
    found, told = run("-P", "-c", INTERRUPTED, inherited=installed.environ, PYTHONPATH=paths)
    assert found.split() == ["interrupted", "6", "1", "True"] and not told


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
    # The kernel forgets the signatures of earlier calls.
    assert installed.run(("first", 2.5), ("recompile", "first"), ("first", 2.5))[0] == [5.0, 5.0]
    assert not entry.exists()


def kept_folder(base, number, days):
    folder = base / f"{number:032x}"
    folder.mkdir(parents=True)
    (folder / "code.nbc").write_bytes(b"")
    at = time.time() - days * 86400
    os.utime(folder, (at, at))
    return folder


def test_a_new_folder_has_old_ones_removed(tmp_path):
    base = tmp_path / "package-compiled"
    made = [kept_folder(base, n, n) for n in range(folders.MOST_OTHERS - 2)]
    unused = kept_folder(base, 90, folders.UNUSED_DAYS + 1)
    foreign = base / "somebody's"
    foreign.mkdir()
    os.utime(foreign, (1e9, 1e9))
    new = [base / f"{number:032x}" for number in (96, 97, 98, 99)]
    for folder in new[:2]:
        folders.use(folder)
    assert not unused.exists()
    assert sorted(base.iterdir()) == sorted([*made, *new[:2], foreign])
    # If there are too many folders, the least recently used folder is removed.
    folders.use(made[-1])
    for folder in new[2:]:
        folders.use(folder)
    assert sorted(base.iterdir()) == sorted([*made[:-2], made[-1], *new, foreign])


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
