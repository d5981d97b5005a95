"""Adaptive trees over classes: guided cuts, class statistics, and context-tree weighting."""
