"""Models in files that later versions can read, with named columns of numbers and no code.

`store` defines `save` and `load`. `forms` converts a model to a tree of plain values and named
arrays. `classes` lists the names of classes in files. `foreign` stores objects of River, SciPy and
NumPy.
"""
