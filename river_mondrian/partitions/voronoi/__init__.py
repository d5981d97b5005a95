"""Voronoi diagrams of samples from one pool, and the searches for the nearest centres.

The docstring of `nearest` proves that every search finds the same cells.
"""
