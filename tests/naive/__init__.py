"""Slow twins of the kernels: plain Python, written from the papers."""
