"""Where models meet their limits: what time and memory cost there, a part for each limit."""

from . import classes, width

PARTS = {"classes": classes.classes, "width": width.width}
