"""Where models meet their limits: what time and memory cost there, a part for each limit."""

from . import calls, classes

PARTS = {"calls": calls.calls, "classes": classes.classes}
