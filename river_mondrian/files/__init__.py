"""Models in files that outlive versions: named columns of numbers, and no code.

`store` has `save` and `load`. `forms` converts a model to a tree of plain values and named arrays.
`classes` has the names of classes in files, and `foreign` stores objects of River, SciPy and NumPy.
"""
