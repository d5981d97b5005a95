"""A process that has imported and used numba, and forks a child for each request.

Forks are fast: a new interpreter takes more than a second to start and import numba. The process
reads one request per line: a number, then the arguments of `run`. Each child writes its answer in
one line.
"""

import importlib
import json
import os
import signal
import sys
import traceback
import warnings
from pathlib import Path

import numba

from river_mondrian.compiling import folders


def run(place, environ, steps):
    """Run steps, and return the results of kernels; a step with an unknown name calls a kernel."""
    os.environ.clear()
    os.environ.update(environ)
    numba.config.reload_config()
    sys.path.insert(0, place)
    values, hits = [], {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name, *arguments in steps:
            if name == "import":
                importlib.import_module(*arguments)
            elif name == "write":
                Path(arguments[0]).write_text(arguments[1])
            elif name == "set":
                setattr(numba.config, *arguments)
            elif name == "fail":
                fail_to_write(*arguments)
            elif name == "recompile":
                getattr(importlib.import_module("fake.kernels"), *arguments).recompile()
            else:
                kernel = getattr(importlib.import_module("fake.kernels"), name)
                values.append(kernel(*arguments))
                hits[name] = sum(kernel.stats.cache_hits.values())
    warned = [str(w.message) for w in caught if issubclass(w.category, RuntimeWarning)]
    return values, sum(hits.values()), warned


def fail_to_write(number):
    def write(path, content):
        raise OSError(number, os.strerror(number), str(path))

    folders.write = write


def answer(number, request):
    try:
        found = run(*request)
    except BaseException:
        found = traceback.format_exc()
    # The line is written in one call, so lines of several children do not mix.
    os.write(1, f"{json.dumps([number, found])}\n".encode())
    os._exit(0)


def main():
    numba.njit(lambda x: x * 2 + 1)(3)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        if os.fork() == 0:
            answer(*json.loads(line))


if __name__ == "__main__":
    main()
