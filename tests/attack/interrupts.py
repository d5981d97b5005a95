"""An exception at one line of Python, as a signal's handler raises it.

The lines are those of the package, and those of what it calls that may be interrupted, too.
"""

import sys
from pathlib import Path

from river import drift

import river_mondrian

# The package, River's detectors of drifts, and those of the tests.
TRACED = (
    str(Path(river_mondrian.__file__).parent),
    str(Path(drift.__file__).parent),
    str(Path(__file__).parent / "detectors.py"),
)


class Interrupted(BaseException):
    """What is raised."""


def count_lines(call):
    """Run a call; return how many of those lines it runs."""
    return _trace(call, 0)


def interrupt(call, k):
    """Run a call with an exception at its k-th line, from 1 on; tell whether it came to that."""
    try:
        _trace(call, k)
    except Interrupted:
        return True
    return False


def _trace(call, k):
    n = 0

    def trace(frame, event, arg):
        nonlocal n
        if not frame.f_code.co_filename.startswith(TRACED):
            return None
        if event == "line":
            n += 1
            if n == k:
                sys.settrace(None)
                raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return n
