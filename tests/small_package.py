"""A small package whose kernel depends on several files, and processes that run it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import river_mondrian

PACKAGE = Path(river_mondrian.__file__).parent

# The module `kernels` imports the three other modules, directly or through `helpers`.
SOURCES = {
    "__init__.py": "",
    "constants.py": "FACTOR = 2\n",
    "compiled.py": """
from pathlib import Path
from river_mondrian.compiling.cache import CodeCache

enable = CodeCache(Path(__file__).parent, "fake").enable
""",
    "helpers.py": """
import numba
from .constants import FACTOR

@numba.njit
def scaled(x):
    return x * FACTOR
""",
    "kernels.py": """
import os
import numba
from .compiled import enable
from .helpers import scaled

ADDED = int(os.environ.get("FAKE_ADDED", "0"))

@enable
@numba.njit
def first(x):
    return scaled(x) + ADDED

@enable
@numba.njit
def second(x):
    return scaled(x) - 1
""",
}


class Processes:
    """Server of child processes that have imported numba, but not the package."""

    def __init__(self):
        command = [sys.executable, Path(__file__).with_name("forks.py")]
        environ = {"PYTHONPATH": str(PACKAGE.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        pipes = dict.fromkeys(["stdin", "stdout"], subprocess.PIPE)
        self.server = subprocess.Popen(command, **pipes, text=True, env=environ)
        self.asked = 0
        self.answers = {}

    def ask(self, *request):
        self.asked += 1
        print(json.dumps([self.asked, request]), file=self.server.stdin, flush=True)
        return self.asked

    def answer(self, number):
        while number not in self.answers:
            who, found = json.loads(self.server.stdout.readline())
            self.answers[who] = found
        found = self.answers.pop(number)
        assert not isinstance(found, str), found
        return tuple(found)

    def close(self):
        self.server.communicate()


@pytest.fixture(scope="module")
def processes():
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    started = Processes()
    yield started
    started.close()


class Installation:
    """A copy of the small package for separate processes."""

    def __init__(self, processes, place, cache_home):
        self.processes, self.place = processes, place
        self.package = place / "fake"
        self.cache = cache_home / "fake-compiled"
        self.environ = {"HOME": str(cache_home), "XDG_CACHE_HOME": str(cache_home)}
        self.install(SOURCES)

    def install(self, sources):
        shutil.rmtree(self.package, ignore_errors=True)
        self.package.mkdir(parents=True)
        for name, text in sources.items():
            path = self.package / name
            path.write_text(text)
            # Unpacked archives have fixed times, so the time of a file must not matter.
            os.utime(path, (1e9, 1e9))

    def start(self, *steps, **environ):
        environ = self.environ | environ
        return self.processes.ask(str(self.place), environ, steps or [("first", 3)])

    def run(self, *steps, **environ):
        return self.processes.answer(self.start(*steps, **environ))

    def entries(self):
        return sorted(self.cache.glob("*/*.nbc"))

    def folders(self):
        return sorted(path for path in self.cache.iterdir() if path.is_dir())


@pytest.fixture
def installed(processes, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    return Installation(processes, tmp_path / "place", home)


def changed(**texts):
    return SOURCES | {f"{name}.py": text for name, text in texts.items()}
