"""Where models meet their limits: what time and memory cost there, a part for each limit."""

from . import classes, text, width

PARTS = {"classes": classes.classes, "text": text.text, "width": width.width}
