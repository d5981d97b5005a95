"""Guided cuts, statistics of classes with several memories, context-tree weighting."""
