"""References for the kernels, in plain Python, written from the papers."""
