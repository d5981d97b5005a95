"""Trees rebuilt from a window of the stream, a part at a time (`docs/concepts/adaptive.md`)."""
