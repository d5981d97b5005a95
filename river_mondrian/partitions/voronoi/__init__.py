"""Voronoi diagrams of samples from one pool, and the ways to find the nearest centres.

`nearest` says why every way finds the same cells.
"""
