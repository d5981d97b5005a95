"""Mondrian trees: batch sampling, online extension, and descents that predict samples."""
