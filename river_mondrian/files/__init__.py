"""Models in files that outlive versions: named columns of numbers, and no code.

`store` has `save` and `load`. A model becomes a tree of plain values and named arrays (`forms`), in
which classes have names of their own (`classes`); `foreign` has what River, SciPy and NumPy define.
"""
