"""Mondrian trees: sampled in batch, extended online, and walked by samples that are predicted."""
