"""Mondrian trees whose leaves are cells with a number, and nothing else."""
