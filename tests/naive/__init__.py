"""References for the kernels, in plain Python, written from papers and definitions."""
