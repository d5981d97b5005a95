"""Trees that are built anew from a window of the stream, a part at a time (`docs/adaptive.md`)."""
