"""Time and memory of models with many rows, features, classes, words or first calls."""

from . import batches, calls, classes, rows, text, width

PARTS = {
    "batches": batches.batches,
    "calls": calls.calls,
    "classes": classes.classes,
    "rows": rows.rows,
    "text": text.text,
    "width": width.width,
}
