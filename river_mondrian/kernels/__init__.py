"""Numba kernels: free functions over arrays, no River and no mappings."""
