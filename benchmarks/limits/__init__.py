"""Time and memory of models near their limits, with a part for each limit."""

from . import batches, calls, classes, rows, text, width

PARTS = {
    "batches": batches.batches,
    "calls": calls.calls,
    "classes": classes.classes,
    "rows": rows.rows,
    "text": text.text,
    "width": width.width,
}
