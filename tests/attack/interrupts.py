"""Raise an exception at one line of Python, as a signal handler does.

Lines of the package, of River's drift detectors and of the tests' detector are attacked.
"""

import sys
from pathlib import Path

from river import drift

import river_mondrian

# The package, River's drift detectors, and the tests' own detector.
TRACED = (
    str(Path(river_mondrian.__file__).parent),
    str(Path(drift.__file__).parent),
    str(Path(__file__).parent / "detectors.py"),
)


class Interrupted(BaseException):
    """The exception that the attack raises."""


def is_traced(code):
    """Return whether lines of a function are attacked."""
    return code.co_filename.startswith(TRACED)


def count_lines(call, is_traced=is_traced):
    """Run a call; return the number of traced lines."""
    return _trace(call, 0, is_traced)


def interrupt(call, k, is_traced=is_traced):
    """Run a call with an exception at its k-th line, k >= 1; return whether it was raised."""
    try:
        _trace(call, k, is_traced)
    except Interrupted:
        return True
    return False


def _trace(call, k, is_traced):
    n = 0

    def trace(frame, event, arg):
        nonlocal n
        if not is_traced(frame.f_code):
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
